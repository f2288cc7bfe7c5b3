//! Checkpoints on a disk that does what bad disks do: what is published can be loaded, and is what the store was.

mod crashes;
mod damage;
mod extremes;
mod fuzzy;
pub mod support;
