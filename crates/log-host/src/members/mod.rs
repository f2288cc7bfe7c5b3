//! The members of the cluster, the one that leads, and whether they can. Each file has a part's own state; what its news means for the others stands under
//! the same name in `controller/`.

pub mod admission;
pub mod birth;
pub mod handover;
pub mod health;
pub mod ledger;
pub mod raising;
pub mod stores;
pub mod takeover;
