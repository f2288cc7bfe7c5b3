//! What is tried on files: one program, because each of these parts alone would compile what it stands on again.
//!
//! `cargo test -p highwater-disk --test files formats::` runs those of one part.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod checkpoint;
mod formats;
