//! A replica and its disk: what waits for it, what a checkpoint needs, and what can be read from a disk without a replica.

pub mod checkpoint;
pub mod disk_room;
pub mod gate;
pub mod points;
pub mod recall;
pub mod remains;
