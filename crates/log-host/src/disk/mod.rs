//! A replica and its disk: what waits for it, what a checkpoint needs, and what is written beside the logs.

pub mod checkpoint;
pub(crate) mod disk_room;
pub mod founded;
pub mod gate;
pub mod moment;
pub mod points;
pub mod recall;
