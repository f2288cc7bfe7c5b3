//! What is tried of doors on simulated clusters: one program, because each of these files alone would compile the whole cluster again.
//!
//! `cargo test -p highwater-redis-sim --test simulated host::` runs those of one file.

mod host;
mod seeds;
