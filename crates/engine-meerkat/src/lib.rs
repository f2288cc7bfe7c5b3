//! Meerkat (EuroSys '20): no leader, and no coordination between cores or replicas for transactions that do not conflict.
//!
//! # How a transaction commits
//!
//! Every replica takes requests; the worker that takes one coordinates it. It executes on its own replica's store without
//! locks, proposes a timestamp, and asks all replicas whether the transaction can stand there. Each looks by itself: what was read must be
//! the latest version, no transaction under way may write below it, nobody may have read later what it writes. If a
//! supermajority says yes, it is committed: one round trip. If only a majority does, or not all answer, the coordinator has a
//! majority accept the decision: two. Then it tells everybody what became of it, and they install it; whoever is older than what
//! stands in a record is skipped (Thomas's write rule).
//!
//! All messages about a transaction go to the workers of its coordinator's number, so that its records are theirs alone.
//!
//! # How it is settled when somebody fails
//!
//! | who falls silent | what follows |
//! |---|---|
//! | a coordinator | another replica's worker ends its transactions, one by one: views, promises, what is safe (`worker/terminate`) |
//! | a replica | nothing; with less than a supermajority left every transaction takes two rounds. When it is gone for good it leaves the epoch, so that others can forget |
//! | a replica comes back without its memory | it takes part as a learner, copies the state, and votes after a change of epoch |
//! | a replica comes back with its disk | it is the voter that it was, and asks for a change of epoch (`journal`) |
//!
//! A change of epoch ends all that is under way, by the records of a majority ([`merge`]), and is itself decided by Paxos
//! (`controller`). Messages of another epoch are not heard.
//!
//! # What it gives
//!
//! Transactions are serializable in the order of their timestamps, whatever clocks say. That order agrees with real time for two
//! transactions that conflict; for others it does as far as clocks agree: see docs/engines/meerkat.md.
//!
//! # Where it leaves the paper
//!
//! - A writer at or below the version that was read is not in the way; a timestamp exceeds every version read ([`stamps`](highwater_kit::validation::stamps), [`validate`](highwater_kit::validation::validate)).
//!   The paper's algorithm 1 lets a transaction read a version later than its own timestamp.
//! - `rts`, `readers` and `writers` stand in a table of a fixed size, by hash, and for scans by ranges ([`marks`](highwater_kit::validation::marks)).
//! - An abort without a second round takes as many refusals as make rule 4 of a change of epoch impossible ([`own`](highwater_kit::validation::own)).
//! - That rule's check is exact, and records stay while it may need them ([`merge`], [`record`](highwater_kit::validation::record)).
//! - A change of epoch takes effect when a majority has accepted it.
//! - Records are forgotten when every replica has heard the outcome (`outcomes`); the paper leaves that open.
//!
//! | file | what |
//! |---|---|
//! | [`validation`](highwater_kit::validation) | transactions by themselves: timestamps, execution, marks, payloads, records, messages |
//! | `strict` | real time |
//! | `journal` | what a replica writes to its disk, and what waits for that |
//! | `worker/` | joins them |
//! | `change`, `merge`, `control`, `controller/` | changes of epoch |
//! | `shared` | what the threads of a replica share |
//! | `hooks`, `facts`, `planted` | what an observer is told and planted bugs change; what it compares; which bugs those are |

#![cfg(not(loom))]

pub mod change;
mod control;
mod controller;
pub mod facts;
mod hooks;
mod journal;
pub mod merge;
#[cfg(feature = "planted")]
pub mod planted;
mod shared;
pub mod strict;
mod worker;

use std::sync::Arc;

use highwater_core::{Clock, NodeId};
use highwater_kit::code::{Builds, Code};
use highwater_kit::copy;
use highwater_kit::validation::{agreed, healthy, marks_of};
use highwater_seam::engine::{Abilities, Engine, whole};
use highwater_seam::observer::Rules;
use highwater_seam::options::Options;
use highwater_seam::{Counters, Replica, Status, Worker};
use highwater_store::Store;

use control::Control;
use controller::MeerkatController;
use facts::MeerkatRules;
use shared::Shared;
use worker::MeerkatWorker;
/// For the model of schedules alone.
#[doc(hidden)]
pub use worker::safe;

const ABILITIES: Abilities = Abilities {
    replicates: true,
    fails_over: true,
    interruptible: true,
    sessions: true,
    durable: true,
    disks_behind: true,
    knows_old_disks: true,
    leaderless: true,
    client_coordinators: cfg!(feature = "delegates"),
    closures: true,
    ..Abilities::NONE
};
const STRICT_ABILITIES: Abilities = Abilities { real_time: true, ..ABILITIES };

/// Transactions under way at a replica, by worker.
const BUSY: &str = "under way";
/// Transactions of which it has learnt what became.
const DECIDED: &str = "decided";
/// Its own that were decided in one round.
const FAST: &str = "fast path";
/// Its own that took two.
const SLOW: &str = "slow path";
/// Attempts of its own that came to nothing; most are tried again.
const ABORTED: &str = "aborted";
/// Transactions, anybody's, that it refused because another one was in the way.
const IN_THE_WAY: &str = "in the way";
/// And those that came when its clock was past their time ([`strict`]).
const TOO_LATE: &str = "too late";
/// How many have a vote in the epoch, and how many get the state.
const VOTERS: &str = "voters";
const LEARNERS: &str = "learners";
/// Changes of epoch that it has seen.
const CHANGES: &str = "changes";
/// Bytes of a state that it has copied.
const COPIED: &str = "copied bytes";

/// Leaderless: coordinators, validation at every replica.
pub struct Meerkat;

/// The same, in an order that agrees with real time: see [`strict`].
pub struct MeerkatStrict;

fn converged(statuses: &[Option<Status>]) -> Result<u64, String> {
    let (all, _) = whole(statuses, Meerkat::serving(statuses))?;
    for status in &all {
        if !status.serves() {
            return Err(format!("replica {} does not serve", status.node.0));
        }
        let busy: u64 = status.figure(BUSY).iter().sum();
        if busy > 0 {
            return Err(format!("replica {} has {busy} transactions under way", status.node.0));
        }
    }
    Ok(all.iter().flat_map(|status| status.figure(DECIDED)).sum())
}

/// What a message says, for people.
fn words(to_controller: bool, head: &[u8]) -> String {
    if to_controller {
        let known = Control::read(head);
        return known.map_or_else(|_| "a piece of a message".into(), |message| message.name().into());
    }
    highwater_kit::validation::words(head)
}

fn build(options: Options, code: &dyn Code, clock: Arc<Clock>, abilities: Abilities) -> Replica {
    let (schema, store) = (code.schema(), Store::new(code.schema()));
    let marks = marks_of(&schema, &options);
    let registry = code.validated();
    let (procedures, versions) = (registry.names(), registry.versions());
    let signatures = registry.signatures();
    let counters: Vec<Arc<Counters>> = (0..options.workers).map(|_| Arc::default()).collect();
    let shared = Arc::new(Shared::new(options, clock, abilities.real_time));
    let worker = |(at, counters): (usize, &Arc<Counters>)| -> Box<dyn Worker> {
        let (at, counters) = (at as u16, counters.clone());
        Box::new(MeerkatWorker::new(at, shared.clone(), (&store, &marks), registry.clone(), counters))
    };
    let workers = counters.iter().enumerate().map(worker).collect();
    let controller = Box::new(MeerkatController::new(shared, schema, store, marks));
    Replica { controller, workers, counters, procedures, versions, signatures }
}

/// What both have in common.
macro_rules! meerkat {
    ($engine:ident: $abilities:expr, $($bugs:expr),*) => {
        impl Builds for $engine {
            fn build(options: Options, code: &dyn Code, clock: Arc<Clock>) -> Replica {
                build(options, code, clock, Self::ABILITIES)
            }
        }

        impl Engine for $engine {
            const ABILITIES: Abilities = $abilities;
            const SITES: &'static [highwater_core::hooks::Site] = copy::hooks::SITES;
            #[cfg(feature = "planted")]
            const BUGS: &'static [&'static [&'static highwater_core::planted::Bug]] =
                &[$($bugs,)* highwater_kit::validation::planted::ALL, highwater_kit::planted::ALL, highwater_seam::planted::ALL, highwater_store::planted::ALL];

            fn agreed(statuses: &[Option<Status>]) -> Option<NodeId> {
                agreed(statuses)
            }

            fn healthy(statuses: &[Option<Status>]) -> Result<NodeId, String> {
                healthy(statuses)
            }

            fn converged(statuses: &[Option<Status>]) -> Result<u64, String> {
                converged(statuses)
            }

            fn rules() -> Box<dyn Rules> {
                Box::new(MeerkatRules::default())
            }

            fn words(to_controller: bool, head: &[u8]) -> String {
                words(to_controller, head)
            }

            fn wrote(record: &bytes::Bytes) -> bool {
                journal::Record::decode(record).is_ok()
            }
        }
    };
}

meerkat!(Meerkat: ABILITIES, planted::ALL);
meerkat!(MeerkatStrict: STRICT_ABILITIES, planted::ALL, planted::strict::ALL);
