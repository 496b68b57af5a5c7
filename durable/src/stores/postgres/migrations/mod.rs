//! Migrations: the tables and the functions of a schema, how they are made, and how they are taken
//! from one number to the next.
//!
//! A schema has two numbers. The *floor*, `meta.version`, is the lowest number of a program that
//! may work with it. The *step*, in `setting`, says how far its tables have come. A program opens a
//! schema whose floor is not above its own number, and makes the steps that are missing. So
//! programs of two numbers work side by side until something raises the floor, which waits until no
//! node of the lower number is alive.

mod apply;
mod functions;
mod partitions;
mod rights;
mod rules;
pub(super) mod schema;
pub(super) mod steps;
mod tables;
#[cfg(test)]
mod tests;

pub(super) use apply::{PARTITIONS, PROGRAM};
