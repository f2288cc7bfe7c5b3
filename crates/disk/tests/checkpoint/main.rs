//! Checkpoints on a disk that does what bad disks do: what is published can be loaded, and is what the store was.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod crashes;
mod damage;
mod extremes;
mod fuzzy;
mod support;
