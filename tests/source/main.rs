//! What is promised of the source, the documents and the scripts, a module each. These tests read
//! files.

mod circles;
mod dependencies;
mod documented;
mod documents;
mod lists;
mod prose;
mod reported;
mod rooms;
mod scripts;
mod source;
mod text;
