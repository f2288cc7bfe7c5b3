//! The engine that others are measured against, and the smallest one.
//!
//! - [`silo`]: the same store, procedures and worker loop without replication: the denominator of every ratio.
//! - [`backup`]: plain primary-backup, an example of what stands behind the seam.

#![cfg(not(loom))]

pub mod backup;
pub mod silo;
