//! Meerkat-PB: Meerkat with a primary. Replicas coordinate, cores do not.
//!
//! Node 0 is the primary. A worker of it executes a transaction, gives it a timestamp, and looks by itself whether it can stand there: what
//! it finds valid is decided. It sends what the transaction read and wrote to the worker of its number at every backup. These install it at
//! once and say so; transactions are ordered by their timestamps, so the order in which they come does not matter. When every backup
//! has, the primary installs it, its marks go, and the client is told. One round trip.
//!
//! Each worker of a backup has to do with one worker of the primary only: cores share the store and its marks, as Meerkat's do.
//!
//! Serializable in the order of timestamps. Real time is not promised, for Meerkat's reason: a clock's readings order what workers do, but
//! a worker's timestamps may run ahead of them.
//!
//! Where this leaves the paper: clients submit with timestamps of their own there, and read at any replica; here a worker of the primary
//! does both, because clients speak RESP. How many backups have to acknowledge the paper does not say: here all, as in engine
//! `backup`.

mod worker;

use std::sync::Arc;

use highwater_core::Clock;
use highwater_kit::code::{Builds, Code};
use highwater_seam::engine::{Abilities, Engine};
use highwater_seam::options::Options;
use highwater_seam::{Replica, Status};

use super::{PRIMARY, controller};
use worker::PbWorker;

/// Meerkat with a primary.
pub struct MeerkatPb;

impl Builds for MeerkatPb {
    fn build(options: Options, code: &dyn Code, clock: Arc<Clock>) -> Replica {
        super::build((options, clock), code, Some(PRIMARY), PbWorker::new)
    }
}

impl Engine for MeerkatPb {
    const ABILITIES: Abilities = super::ABILITIES;
    #[cfg(feature = "planted")]
    const BUGS: &'static [&'static [&'static highwater_core::planted::Bug]] = &[
        super::planted::meerkat_pb::ALL,
        highwater_kit::planted::ALL,
        highwater_seam::planted::ALL,
        highwater_store::planted::ALL,
    ];

    fn converged(statuses: &[Option<Status>]) -> Result<u64, String> {
        controller::converged(statuses, Self::serving(statuses))
    }

    fn lag(own: &Status, serving: &Status) -> Option<u64> {
        Some(controller::lag(own, serving))
    }

    fn words(to_controller: bool, head: &[u8]) -> String {
        super::words(to_controller, head)
    }
}
