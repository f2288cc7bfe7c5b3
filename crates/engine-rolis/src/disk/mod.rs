//! A disk, read without a replica. The rest of a replica's disk is the log host's.

pub mod remains;
