//! Parts of a worker that know no entry.

pub mod figures;
pub mod spares;
