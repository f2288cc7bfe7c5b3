//! Where a simulator may step in, and nobody else: outside a simulator every hook is one relaxed load of a flag that is
//! false, and a branch that is not taken.
//!
//! - [`point`]: between two steps others may get a turn, as the operating system may preempt a thread anywhere.
//! - [`wait`]: whoever spins lets others run, or on one thread it would spin for ever.
//! - [`buggify`]: a choice that is legal but rare; each place says why it is legal.
//! - [`tell`]: something that an observer of all nodes compares.
//!
//! A simulator enters with [`enter`], for its own thread only.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::ids::{EntryIndex, Epoch, StreamId, Timestamp};

/// Whether any simulator was ever entered in this process.
static ACTIVE: AtomicBool = AtomicBool::new(false);

thread_local! {
    static SIMULATOR: RefCell<Option<Rc<dyn Simulator>>> = const { RefCell::new(None) };
}

/// A place between two steps of a worker or controller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Point {
    /// A transaction is about to touch a record or scan.
    Execute,
    /// A record of the write set is about to be locked; others may be.
    Lock,
    /// The write set is locked.
    Locked,
    /// The timestamp is taken.
    Stamped,
    /// The read set is validated.
    Validated,
    /// A record is about to be installed; others may be.
    Install,
    /// The transaction is committed in the store; its reply does not wait yet.
    Committed,
    /// The worker is no longer quiet, but has not drawn a timestamp since.
    Unquiet,
    /// An entry's closing timestamp is taken, its claims are not.
    Seal,
    /// A decided entry is about to be looked at.
    Look,
    /// A write from the log is about to be installed.
    Apply,
    /// A before-image is about to be restored.
    RollBack,
    /// A snapshot's timestamp is chosen, but not pinned yet.
    Pin,
    /// A part of the store is about to be read for a copy.
    Export,
    /// Tombstones are about to be unlinked.
    Collect,
    /// A controller is about to take its next step: a report, a part of its turn, a command to one of its workers.
    Control,
}

/// A place where the code has a legal choice that it makes rarely or never.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Site {
    /// An entry is sealed earlier than it had to be.
    SealEarly,
    /// An entry that is due stays open for another turn.
    SealLate,
    /// A decided entry is looked at a turn later: the mark lags.
    LookLater,
    /// A turn applies next to nothing.
    ApplyLittle,
    /// Messages and acknowledgements leave a turn later.
    SendLater,
    /// A transaction without a conflict is aborted for one.
    Conflict,
    /// A request is refused for want of room.
    Busy,
    /// A follower asks for pre-votes without missing its leader.
    AskEarly,
    /// A follower stands without asking for pre-votes.
    SkipPreVote,
    /// A leader gives up its lead without cause.
    StepDown,
    /// Figures for `status` stay old.
    OldStatus,
    /// Decided entries are dropped at once instead of being kept for those who lag.
    TrimEarly,
    /// A donor refuses a copy.
    RefuseCopy,
    /// A chunk of a copy is small.
    SmallChunk,
}

impl Site {
    /// Every site.
    pub const ALL: [Site; 14] = [
        Site::SealEarly,
        Site::SealLate,
        Site::LookLater,
        Site::ApplyLittle,
        Site::SendLater,
        Site::Conflict,
        Site::Busy,
        Site::AskEarly,
        Site::SkipPreVote,
        Site::StepDown,
        Site::OldStatus,
        Site::TrimEarly,
        Site::RefuseCopy,
        Site::SmallChunk,
    ];
}

/// What an observer of all nodes compares.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fact<'a> {
    /// This entry is decided.
    Decided {
        /// Where.
        stream: StreamId,
        /// Where in it.
        index: EntryIndex,
        /// Its bytes.
        entry: &'a [u8],
    },
    /// This node was elected, and begins to take over.
    TakesOver(Epoch),
    /// This node opens the epoch.
    Leads(Epoch),
    /// The mark of an epoch that has not ended here.
    Mark(Epoch, Timestamp),
    /// The final mark of an epoch that has ended here.
    Final(Epoch, Timestamp),
    /// The marks known here are forgotten: a copied state takes their place.
    Restarted,
    /// The result of the transaction at this timestamp leaves a leader.
    Released(Timestamp),
    /// Everything of a stream's entry up to this timestamp, of this epoch, is installed from the log.
    Applied(Epoch, StreamId, Timestamp),
    /// What a leading worker holds.
    Holds {
        /// Bytes proposed and not decided.
        undecided_bytes: u64,
        /// Replies that wait for the mark.
        replies: usize,
    },
    /// A procedure panicked, whether what it saw will validate or not.
    Panicked {
        /// Which.
        procedure: &'a str,
        /// What it said.
        message: &'a str,
    },
}

/// Whoever simulates.
pub trait Simulator {
    /// May give others a turn before it returns.
    fn point(&self, point: Point);

    /// Gives others a turn, if it can.
    fn wait(&self);

    /// Decides a choice.
    fn buggify(&self, site: Site) -> bool;

    /// Takes note.
    fn tell(&self, fact: Fact<'_>);
}

/// While it lives, this thread is simulated.
pub struct Entered(Option<Rc<dyn Simulator>>);

/// Makes `simulator` the one of this thread until the result is dropped.
pub fn enter(simulator: Rc<dyn Simulator>) -> Entered {
    ACTIVE.store(true, Ordering::Relaxed);
    Entered(SIMULATOR.replace(Some(simulator)))
}

impl Drop for Entered {
    fn drop(&mut self) {
        SIMULATOR.set(self.0.take());
    }
}

/// Built with `--cfg without_hooks` there are none: to measure what they cost.
#[inline(always)]
fn active() -> bool {
    !cfg!(without_hooks) && ACTIVE.load(Ordering::Relaxed)
}

#[cold]
#[inline(never)]
fn simulator() -> Option<Rc<dyn Simulator>> {
    SIMULATOR.with_borrow(Clone::clone)
}

#[cold]
#[inline(never)]
fn reached(at: Point) {
    if let Some(simulator) = simulator() {
        simulator.point(at);
    }
}

#[cold]
#[inline(never)]
fn chosen(site: Site) -> bool {
    simulator().is_some_and(|simulator| simulator.buggify(site))
}

/// Whether this thread is simulated.
#[inline(always)]
pub fn simulated() -> bool {
    active() && simulator().is_some()
}

/// Between two steps.
#[inline(always)]
pub fn point(at: Point) {
    if active() {
        reached(at);
    }
}

/// Inside a loop that waits for another worker.
#[inline(always)]
pub fn wait() {
    if active()
        && let Some(simulator) = simulator()
    {
        simulator.wait();
    }
}

/// Whether to make the rare choice.
#[inline(always)]
pub fn buggify(site: Site) -> bool {
    active() && chosen(site)
}

/// For an observer.
#[inline(always)]
pub fn tell<'a>(fact: impl FnOnce() -> Fact<'a>) {
    if active()
        && let Some(simulator) = simulator()
    {
        simulator.tell(fact());
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[derive(Default)]
    struct Counting(Cell<u32>);

    impl Simulator for Counting {
        fn point(&self, _: Point) {
            self.0.set(self.0.get() + 1);
        }
        fn wait(&self) {}
        fn buggify(&self, site: Site) -> bool {
            site == Site::Busy
        }
        fn tell(&self, fact: Fact<'_>) {
            assert_eq!(fact, Fact::Leads(Epoch(3)));
        }
    }

    #[test]
    fn hooks_reach_the_simulator_of_their_own_thread_only() {
        assert!(!buggify(Site::Busy));
        let counting = Rc::new(Counting::default());
        {
            let _entered = enter(counting.clone());
            point(Point::Execute);
            tell(|| Fact::Leads(Epoch(3)));
            assert!(buggify(Site::Busy) && !buggify(Site::Conflict));
            std::thread::spawn(|| assert!(!buggify(Site::Busy))).join().unwrap();
        }
        point(Point::Execute);
        assert!(!buggify(Site::Busy));
        assert_eq!(counting.0.get(), 1);
    }

    #[test]
    fn every_site_is_listed_in_its_place() {
        for (at, site) in Site::ALL.into_iter().enumerate() {
            assert_eq!(site as usize, at);
        }
    }
}
