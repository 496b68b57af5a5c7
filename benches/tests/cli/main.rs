//! The command lines: what the programs print, what they write, how they exit. Figures are no
//! matter of these tests.

mod million;
mod window;
