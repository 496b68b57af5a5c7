//! Hooks: the functions that the compiler's pass has each access call.
//!
//! They have the names of the thread sanitizer's runtime, and stand in for it. Any thread calls
//! them, before `main` too. Each one is a few instructions that add its caller's address as an
//! argument, and go on with an ordinary function.
//!
//! Limits: x86-64; no access of 16 bytes that is atomic (a program with one does not link).

mod atomics;
mod plain;
