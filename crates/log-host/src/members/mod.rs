//! The members of the cluster, the one that leads, and whether they can. Each file has a part's own state. What its news means for the others stands in
//! `controller/`: in the file of that name for `admission`, `birth`, `handover` and `takeover`, in `controller/mod.rs` for the rest.
//!
//! | part | what |
//! |---|---|
//! | `admission` | a change of members: one is added, removed, replaced, or let in again |
//! | `birth` | nodes that know of no cluster meet, and found one |
//! | `takeover` | from promises of all streams to an open epoch |
//! | `handover` | a lead goes to another node on an operator's word |
//! | `raising` | the level in use rises once all members read it |
//! | `health` | workers that stand still, disks that hang |
//! | `ledger` | what all members may grow to |
//! | `stores` | whose store is complete |

pub(crate) mod admission;
pub(crate) mod birth;
pub mod handover;
pub mod health;
pub(crate) mod ledger;
pub mod raising;
pub(crate) mod stores;
pub(crate) mod takeover;
