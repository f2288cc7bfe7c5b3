//! Meerkat in every order of its steps: validation, the fast and the slow path, backup coordinators, changes of epoch, a replica that
//! loses its memory and comes back, and real time.
//!
//! Three to five replicas and up to three transactions, each of which reads, scans and writes some of three keys ([`Intent`]). A transaction is
//! named by its timestamp: of all orders in which timestamps can be given out each [`Bounds::intents`] is one. Where the product has
//! a pure rule it is asked: `own.rs` (what votes decide), `worker/terminate.rs` (what a backup may propose), `merge.rs` (what a change of
//! epoch decides), `quorum.rs`. Validation is stated anew ([`rules`]) and compared with the product's marks and store.
//!
//! *What is on its way stays on its way*: nothing that was said is taken out of the network, so it may come late, twice, in any order, or
//! never. *No step is ever forced*: a crash or a partition is a node or a message that takes no further step.
//!
//! *What is left out of a state, or made at once, and why nothing is lost:*
//!
//! 1. What was heard. A vote, a promise or an acceptance does nothing where it is heard but to make a decision possible; so whoever
//!    decides hears, there and then, any part of what was said.
//! 2. Who is a backup coordinator, or leads an attempt to change the epoch. Neither does more than to ask, and to propose what
//!    promises allow: so anybody may promise any view or attempt at any time, and what is chosen is told. That is more than can happen.
//!    A coordinator, whose client is answered, is a node.
//! 3. Votes once their coordinator cannot decide by them any more, promises of a view or an attempt once it has its proposal, what else a
//!    replica knows of a transaction once it knows the outcome (whoever asks is told that): nobody asks for these.
//! 4. A learner's beginning: what it hears between that and its copy it can hear after it.
//! 5. Acceptances of the only attempt to change an epoch ([`Bounds::rounds`] is 1): no other one can decide otherwise, and who accepts does
//!    nothing but to stop. It takes effect as it is proposed, while those who did not promise may go on.
//! 6. Which of the nodes that coordinate nothing is which ([`State::like`]): no rule names a node but the coordinator's.
//!
//! A transaction's reads, a validation, an outcome's installation and a copy are one step each. That they may be more in the product
//! is the business of `threads` and of the simulator: each key is looked at and marked under one lock.
//!
//! *Which step is which function of the product*, and its guard there. Where a guard is `Bounds::may`, the product's is [`is_closed`] and a known outcome; that
//! no record is made behind its back is asserted by `Records::entry` and `accept`.
//!
//! | step | product | guard |
//! |---|---|---|
//! | `Begin` | `attempt` (`worker/coordinate.rs`) | `working`, `votes`; `Stamps` gives each timestamp once, above the base and all that was read |
//! | `Validate` | `on_validate`, `vote` (`worker/replicate.rs`, `worker/coordinate.rs`) | `may`; `Record::valid` is set once; `is_late` |
//! | `Ripen`, `Tick` | `ripen`, `take_head`, `Pace::hold` | `Record::withheld` and no outcome; a clock never goes back |
//! | `Settle`, `Propose` | `decide` | it is among the own ones: not over, and in `Phase::Validating` |
//! | `Promise` | `on_prepare`, and `take_over` for its own (`worker/terminate.rs`) | `may`; `Record::view`; a withheld vote is taken back |
//! | `Back`, and `Accept` by who proposes | `on_promise` | `may`; `Termination::view`, `Stage::Preparing`: one proposal |
//! | `Accept` | `on_accept`, `consider`, `propose` | `may`; `Record::view`; with what it writes, if it commits in a view above 0 |
//! | `Learn` | `on_accepted`, `on_accepted_later` | `Phase::Accepting`; `Stage::Accepting` of the same view |
//! | `Conclude` | `on_outcome`, `on_settle`, `on_over`: all by `conclude` | `is_closed` and no record: nothing; one outcome |
//! | a transaction is `closed` (`forget`) | `close` (`worker/mod.rs`) | asserted there: it is over here, but for one that a client gave back and proposed all the same |
//! | `Trim`, `Collect` | `trim`, `collect` (`worker/rows.rs`) | `closed`; nothing under way that is older, on any worker: `Records::trim` |
//! | `Wipe`, `Join` | a life that ends; `begin` afresh and a copy | lives of voters: `Seat::is_voter` |
//! | `Pause` | `pause`, and `Records::tell` (`worker/epochs.rs`, `controller/accept.rs`) | `working` from here on; what is withheld is not told |
//! | `Merge` | `merge` (`merge.rs`), `propose` (`controller/attempt.rs`) | a majority of promises, its own on its disk |
//! | `Agree` | `on_accept` (`controller/accept.rs`) | the round is not below what was promised |
//! | `Enter` | `begin` (`worker/epochs.rs`) | the change was chosen; `set_open` once all workers have installed it |
//!
//! Clients that coordinate (`worker/delegates/`) go the same ways: `validate`, `consider`, `settle_granted`; their homes end what they leave.
//!
//! [`is_closed`]: highwater_engine_meerkat
//!
//! Judged in every state ([`judge`]): one outcome per transaction; a committed read saw the newest committed write below its
//! timestamp; nothing that is over everywhere is under way anywhere; who takes part in a later epoch has installed what committed before; a change of epoch has one result; and, where real time is
//! promised, a transaction that began when another one was answered is later in the order.
//!
//! Left out: retries (another transaction), that keys share slots and ranges shards (coarser marks refuse more), scans that end early, members that leave for
//! good.

mod compare;
mod epochs;
mod judge;
mod product;
mod rules;
mod steps;
mod stories;
mod tests;

pub use rules::Rules;
pub use steps::Step;

use std::hash::{Hash, Hasher};
use std::sync::Arc;

/// Replicas, at most.
pub const NODES: usize = 5;
/// Transactions, at most.
pub const TXS: usize = 3;
/// Keys, in their order.
pub const KEYS: usize = 3;
/// Views of a transaction, the coordinator's included, at most.
pub const VIEWS: usize = 3;
/// Attempts at one change of epoch, at most.
pub const ROUNDS: usize = 2;
/// Epochs, at most.
pub const EPOCHS: usize = 3;

/// Nodes, transactions or keys: a bit each.
pub type Set = u8;
/// Transaction *t* is at timestamp *t* + 1; 0 is before all.
pub type Ts = u8;

pub const fn bit(of: usize) -> Set {
    1 << of
}

pub fn members(set: Set) -> impl Iterator<Item = usize> + Clone {
    (0..8).filter(move |of| set & bit(*of) != 0)
}

pub const fn ts(tx: usize) -> Ts {
    tx as Ts + 1
}

/// What a transaction is going to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Intent {
    /// Who coordinates it.
    pub node: usize,
    pub reads: Set,
    pub writes: Set,
    /// Which of these it deletes.
    pub deletes: Set,
    /// It reads all from the first to the last of what it reads in one scan, which passes the records that are there.
    pub scans: bool,
}

/// What a replica said, or will.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Vote {
    #[default]
    None,
    /// It found it valid, and waits with its yes.
    Withheld,
    Yes,
    No,
}

/// What a replica knows of a transaction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Record {
    /// There is a record.
    pub known: bool,
    pub vote: Vote,
    pub view: u8,
    pub accepted: Option<(u8, bool)>,
    pub outcome: Option<bool>,
    /// Those that were under way here when it was over, and still are.
    pub behind: Set,
    /// There is none any more.
    pub trimmed: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Standing {
    /// It lost its memory.
    #[default]
    Outside,
    /// It has a copy of the state, and hears outcomes.
    Ready,
    Voter,
}

/// One node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Replica {
    pub standing: Standing,
    pub epoch: u8,
    /// For the next epoch; if it promised any it takes no part in this one any more.
    pub promised: u8,
    pub accepted: u8,
    /// What committed here, or was copied.
    pub installed: Set,
    /// What committed here: its reads left a trace.
    pub read: Set,
    /// Tombstones up to here are gone, and it knows that all is over everywhere.
    pub collected: Ts,
    /// Where real time is promised.
    pub clock: Ts,
    pub records: [Record; TXS],
}

/// What a node told a backup coordinator: whether it found it valid, and what it had accepted.
pub type Promised = (bool, Option<(u8, bool)>);

/// Outcomes, a bit each: some may be said of a transaction.
pub mod outcome {
    use super::Set;
    pub const ABORT: Set = 1;
    pub const COMMIT: Set = 2;

    pub const fn of(commit: bool) -> Set {
        if commit { COMMIT } else { ABORT }
    }
}

/// One transaction, and what is on its way about it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Tx {
    /// In which epoch it began; 0: it did not.
    pub epoch: u8,
    /// What it read, by key.
    pub versions: [Ts; KEYS],
    /// Everything up to here was there.
    pub as_of: Ts,
    /// What had been answered when it began.
    pub after: Set,
    pub yes: Set,
    pub no: Set,
    /// By view.
    pub proposals: [Option<bool>; VIEWS],
    /// Who accepted that of a view.
    pub accepted: [Set; VIEWS],
    pub promises: [[Option<Promised>; NODES]; VIEWS],
    /// What its coordinator or a backup says became of it.
    pub told: Set,
    /// The same, or a change of epoch.
    pub said: Set,
    /// All who take part have said that it is over there.
    pub closed: bool,
    /// Its client knows that it committed.
    pub answered: bool,
}

/// What a node told who leads a change of epoch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Promise {
    pub accepted: u8,
    pub latest: Ts,
    pub records: [Record; TXS],
}

/// What a change of epoch decides.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Change {
    pub ended: [Option<bool>; TXS],
    pub base: Ts,
    pub voters: Set,
    pub learners: Set,
}

/// An attempt at one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Attempt {
    pub promises: [Option<Promise>; NODES],
    pub proposal: Option<Change>,
    /// Who accepted it.
    pub by: Set,
}

/// Everything.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct State {
    pub replicas: [Replica; NODES],
    pub txs: [Tx; TXS],
    /// Of the change to epoch *e* + 2.
    pub attempts: [[Attempt; ROUNDS]; EPOCHS - 1],
    /// Who lost its memory: once at most.
    pub wiped: Set,
}

/// What is not used is all alike.
impl Hash for State {
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        let used = |replica: &&Replica| **replica != Replica::default();
        self.replicas.iter().filter(used).for_each(|replica| replica.hash(hasher));
        self.txs.iter().filter(|tx| tx.epoch > 0).for_each(|tx| tx.hash(hasher));
        for (at, attempt) in self.attempts.iter().flatten().enumerate() {
            if *attempt != Attempt::default() {
                (at, attempt).hash(hasher);
            }
        }
        for standing in self.replicas.iter().map(|replica| replica.standing as u8) {
            standing.hash(hasher);
        }
        for epoch in self.txs.iter().map(|tx| tx.epoch) {
            epoch.hash(hasher);
        }
        self.wiped.hash(hasher);
    }
}

/// A mistake that the search must find.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mistake {
    /// A majority that finds it valid commits it at once.
    MajorityIsFast,
    /// So many refusals abort it at once that, with one more, rule 4 of a change of epoch could not apply.
    RefusalsDecideEarly,
    /// Two backup coordinators propose in view 1.
    ViewShared,
    /// Who promises a view does not say what it accepted.
    PromiseForgets,
    /// A backup coordinator aborts what a majority of its promises did not find valid, whoever was not heard.
    BackupRash,
    /// A change of epoch does not look at what was accepted.
    ChangeForgets,
    /// Rule 4 without its check.
    NotRevalidated,
    /// Rule 4 with a check as that of algorithm 1.
    Coarse,
    /// Reads under way are not marked.
    ReadersUnmarked,
    /// Reads that committed leave no trace.
    RtsNotRaised,
    /// What a change of epoch decides takes effect as it is proposed.
    AtOnce,
    /// Who promised a change of epoch goes on in the old one.
    OldEpochCounts,
    /// Records go as soon as the transaction is over everywhere, whatever is under way.
    TrimmedEarly,
    /// A promise or a proposal that comes late makes a record of what is over everywhere.
    ClosedRevived,
    /// A read that found no trace is valid where the key was written and deleted since.
    AbsentIsAbsent,
    /// A timestamp may be below a version that was read, as in algorithm 1.
    StampBelowRead,
    /// Where real time is promised: who comes below a replica's clock is not refused.
    LateIsValid,
    /// The same: a replica says yes before its clock is there.
    VotesUnripe,
    /// The same: who promises a view or a change of epoch tells a vote that it has withheld.
    WithheldTold,
    /// The same: the fast path does not take all replicas.
    LessThanAll,
}

/// How much may happen.
#[derive(Clone)]
pub struct Bounds {
    pub nodes: usize,
    pub intents: Vec<Intent>,
    /// Views, the coordinator's included.
    pub views: usize,
    pub epochs: u8,
    /// Attempts at each change of epoch.
    pub rounds: u8,
    /// How often a memory may be lost.
    pub wipes: u8,
    /// Whether records are trimmed.
    pub trims: bool,
    /// Whether real time is promised.
    pub strict: bool,
    pub mistake: Option<Mistake>,
    pub rules: Arc<Rules>,
}
