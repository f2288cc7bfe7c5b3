//! What is tried on simulated clusters: one program, because each of these files alone would compile the whole cluster again.
//!
//! `cargo test -p highwater-sim --test simulated world::` runs those of one file.

#![allow(clippy::unwrap_used)] // a test may fail so

mod common;

mod anew;
mod backup;
mod behind;
mod clock;
mod comparisons;
mod copies;
mod crosswise;
mod damage;
mod delegates;
mod disks;
mod freshness;
mod grey;
mod handover;
mod levels;
mod limits;
mod lists;
mod liveness;
mod machines;
mod members;
mod memory;
mod panics;
mod pipelines;
mod plans;
mod regressions;
mod rolis;
mod seeds;
mod service;
mod snapshots;
mod stories;
mod world;
