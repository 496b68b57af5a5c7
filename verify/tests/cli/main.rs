//! The command lines: what the programs print, what they write, how they exit.

mod endure;
mod kills;
