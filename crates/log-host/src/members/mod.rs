//! The members of the cluster, the one that leads, and whether they can. Each file has a part's own state. What its news means for the others stands in
//! `controller/`: in the file of that name for `admission`, `birth`, `handover` and `takeover`, in `controller/mod.rs` for the rest.

pub(crate) mod admission;
pub(crate) mod birth;
pub mod handover;
pub mod health;
pub(crate) mod ledger;
pub mod raising;
pub(crate) mod stores;
pub(crate) mod takeover;
