//! What is promised of the source, the documents and the scripts, a module each. These tests read
//! files.

mod ahead;
mod all_shards;
mod circles;
mod dependencies;
mod documented;
mod documents;
mod in_flight;
mod no_std;
mod prose;
mod rates;
mod report;
mod reported;
mod rooms;
mod safety;
mod scripts;
mod source;
mod text;
mod verdicts;
mod waiting;
