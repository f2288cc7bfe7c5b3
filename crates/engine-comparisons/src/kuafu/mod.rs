//! KuaFu++: a primary, a shared counter, a shared log. Cores coordinate, and so do replicas.
//!
//! Node 0 is the primary. A worker of it executes a transaction, takes the next number of the counter that all its workers share, and looks
//! whether the transaction can stand there: optimistic validation, with Meerkat's marks. What it finds valid is decided: it is appended to
//! the log, one for all workers behind one mutex, and the worker sends it to the worker of its number at every backup.
//!
//! A backup has one log, too. What comes is entered into it, and its workers take from it, in the order of the log, and install in
//! parallel: whatever is older than what stands in a record is skipped, so nobody waits for a gap. A backup acknowledges a position when all
//! up to it is installed. What all backups have acknowledged the primary installs; its marks go, and the client is told. One round
//! trip, behind all that was appended before.
//!
//! # Strict serializability
//!
//! Transactions are serializable in the order of their numbers (the argument of docs/engines/meerkat.md, with one replica that validates).
//! A number is taken after the request came and before it is answered, from one counter: so the order agrees with real time. Clocks
//! play no part.
//!
//! Where this leaves the paper: clients read at any replica there, here at the primary. How many backups have to acknowledge the
//! paper does not say: here all, as in engine `backup`.
//!
//! | file | what |
//! |---|---|
//! | `log` | the counter; the log of a primary, and of a backup |
//! | `worker` | execution, replication, replay |

mod log;
mod worker;

use std::sync::Arc;

use highwater_core::Clock;
use highwater_kit::code::{Builds, Code};
use highwater_seam::engine::{Abilities, Engine};
use highwater_seam::options::Options;
use highwater_seam::{Replica, Status};

use super::{PRIMARY, controller};
use log::Order;
use worker::KuafuWorker;

/// A primary, a shared counter, a shared log.
pub struct Kuafu;

impl Builds for Kuafu {
    fn build(options: Options, code: &dyn Code, clock: Arc<Clock>) -> Replica {
        let order = Arc::new(Order::new(options.nodes));
        super::build((options, clock), code, Some(PRIMARY), |at, node, shelf, counters| {
            KuafuWorker::new(at, (node, &order), shelf, counters)
        })
    }
}

impl Engine for Kuafu {
    const ABILITIES: Abilities = Abilities { real_time: true, ..super::ABILITIES };
    #[cfg(feature = "planted")]
    const BUGS: &'static [&'static [&'static highwater_core::planted::Bug]] = &[
        super::planted::kuafu::ALL,
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
