//! TAPIR, as the paper emulates it: no leader and no coordination of replicas, but one record of transactions per replica, which all its
//! cores share behind a mutex.
//!
//! Every replica takes requests; the worker that takes one coordinates it, proposes a timestamp, and asks all replicas whether the
//! transaction can stand there. If a supermajority says yes it is committed, in one round trip; if only a majority does, or not all
//! answer in time, a majority has to accept the decision first: two. Then all are told. That is Meerkat's normal operation, and its
//! code ([`own`](highwater_kit::validation::own) decides). What differs is the record.
//!
//! # The record
//!
//! | what | how often the mutex is taken |
//! |---|---|
//! | a replica is asked to validate | twice: the transaction is entered, and, when it was validated, how that went. In between others go on: validation itself is in parallel, as in the paper |
//! | it is asked to accept | once |
//! | it hears the outcome | once; what is written is installed afterwards |
//! | what is over everywhere goes | once per turn of a worker, at most |
//!
//! # What Meerkat has and this has not
//!
//! Backup coordinators, views, changes of epoch, learners and copies: a transaction whose coordinator is gone stays open, and so do its
//! marks. So nothing is asked again but over a new connection, no record is kept for a change of epoch (it goes as soon as the transaction
//! is over everywhere), and what a coordinator keeps for a replica that is away fills up until it takes no requests any more.
//!
//! Serializable in the order of timestamps; real time is not promised, as with `meerkat`.
//!
//! | file | what |
//! |---|---|
//! | `record` | the record |
//! | `coordinate` | the coordinator of a worker's own transactions |
//! | `worker` | the worker as a replica, and its turn |

mod coordinate;
mod record;
mod worker;

use std::sync::Arc;

use highwater_core::{Clock, NodeId};
use highwater_kit::code::{Builds, Code};
use highwater_seam::engine::{Abilities, Engine};
use highwater_seam::options::Options;
use highwater_seam::{Replica, Status};

use super::controller;
use record::SharedRecord;
use worker::TapirWorker;

/// No leader, and one record for all cores of a replica.
pub struct Tapir;

impl Builds for Tapir {
    fn build(options: Options, code: &dyn Code, clock: Arc<Clock>) -> Replica {
        let record = Arc::new(SharedRecord::default());
        super::build((options, clock), code, None, |at, node, shelf, counters| {
            TapirWorker::new(at, (node, &record), shelf, counters)
        })
    }
}

impl Engine for Tapir {
    const ABILITIES: Abilities = super::ABILITIES;
    #[cfg(feature = "planted")]
    const BUGS: &'static [&'static [&'static highwater_core::planted::Bug]] = &[
        super::planted::tapir::ALL,
        highwater_kit::planted::ALL,
        highwater_seam::planted::ALL,
        highwater_store::planted::ALL,
    ];

    fn agreed(statuses: &[Option<Status>]) -> Option<NodeId> {
        highwater_kit::validation::agreed(statuses)
    }

    fn healthy(statuses: &[Option<Status>]) -> Result<NodeId, String> {
        highwater_kit::validation::healthy(statuses)
    }

    fn converged(statuses: &[Option<Status>]) -> Result<u64, String> {
        controller::converged(statuses, Self::serving(statuses))
    }

    fn words(to_controller: bool, head: &[u8]) -> String {
        super::words(to_controller, head)
    }
}
