//! What is tried on consensus: one program, because each of these files alone would compile the protocol again.
//!
//! `cargo test -p highwater-consensus --test protocol scripts::` runs those of one file.

#![allow(clippy::unwrap_used)] // a test may fail so

mod common;

mod codec;
mod confirming;
mod duels;
mod golden;
mod regressions;
mod resting;
mod scripts;
mod simulation;
mod trimming;
mod unfinished;
