//! Applied snapshots: the state at one timestamp, pinned in rounds and shared by all readers of a follower.
//!
//! A follower's store is fit for readers at no moment of its own: the mark passes through the middle of it, stream by
//! stream. A **round** gives them one. It chooses a timestamp R, *pins* it in the store (from then on the appliers keep
//! the versions at R, see [`highwater_store::snapshot`]), and *publishes* the snapshot when every stream is installed up
//! to R. Nobody waits for it but readers: the appliers go past R as they please.
//!
//! # Invariants
//!
//! 1. *No applier is above R when R is pinned.* Whatever appliers may install is at or below the **horizon**: the largest
//!    bound that any of them was given. R is the horizon or more, and the horizon stands still while R is pinned; an
//!    applier that wants to raise it meanwhile makes do with what it has.
//! 2. *Whoever passes R sees the pin.* It was given a horizon above R, and that was stored after the pin.
//! 3. *Published means complete*: [`Watermark::applied_floor`](crate::watermark::Watermark::applied_floor) has reached R.
//! 4. *Only appliers write while readers read.* A leader's transactions keep no versions, and a copied state is none
//!    before it is complete. Each such event begins another **life** of the snapshots; what was pinned in an earlier one
//!    is void, even for a reader that is in the middle of it: it looks at the life again when it is done.
//! 5. *Snapshots never go back* on one replica, whatever happens to its store: the horizon only grows.
//!
//! Why the state at R is one that a serial execution passes through: timestamps order all conflicting transactions,
//! read-write conflicts included (the timestamp is taken between locking and validation), and at or below R nothing is
//! missing once the mark has passed R. R need not be the timestamp of anything, and may lie between two epochs.
//!
//! Nobody reads: no round, no pin, no version kept, and tombstones go as early as ever. What remains is a load for each
//! entry and a compare-and-swap for each step of the mark.

use std::sync::Arc;

use highwater_core::Timestamp;
use highwater_core::sync::{AtomicBool, AtomicU64, Mutex, MutexGuard, Ordering};
use highwater_seam::Nanos;
use highwater_store::{Snapshot, Store};

use crate::hooks;
use crate::reads::horizon::{Horizon, Life, Lives};
use crate::watermark::Watermark;

/// The snapshots of one replica. Shared by its workers.
#[derive(Default)]
pub struct Rounds {
    horizon: Horizon,
    /// Invariant 4.
    lives: Lives,
    /// The store is a state that there was: of a voter from birth on, or copied, or from a checkpoint. Invariant: nobody reads before.
    complete: AtomicBool,
    /// When to give the snapshots up if nobody asks before; 0 while there are none.
    expires: AtomicU64,
    taken: Mutex<Taken>,
}

#[derive(Default)]
struct Taken {
    published: Option<Round>,
    /// Pinned, not complete.
    pending: Option<Round>,
    /// The largest timestamp ever published.
    last: Timestamp,
}

#[derive(Clone)]
struct Round {
    snapshot: Arc<Snapshot>,
    life: Life,
    /// When it was pinned.
    at: Nanos,
}

/// What a reader gets.
pub enum Offer {
    /// Read this; believe what was read if [`Rounds::lives`] afterwards.
    Read(Arc<Snapshot>, Life),
    /// A round is under way.
    Later,
    /// This replica's store is not fit for snapshots at the moment.
    Never,
}

/// How long the last snapshot is kept for readers to come, at least. While it is kept, each write to a follower keeps the version before it
/// as well; and a node reads its users' table once a second, whether it has clients or not.
const LINGER: Nanos = 10_000_000;

impl Rounds {
    /// How far an applier that wants to install up to `wanted` may go now: not further while a snapshot is being pinned
    /// below. Such a moment is over at its next turn.
    #[inline]
    pub fn admit(&self, wanted: Timestamp) -> Timestamp {
        self.horizon.admit(wanted)
    }

    /// Somebody other than an applier is about to write to the store: what is pinned is void. To be called after that is
    /// visible otherwise (`speculating`, `complete`), so that nothing is pinned in the new life before it is over.
    pub fn void(&self) {
        self.lives.end();
        let mut taken = self.lock();
        (taken.published, taken.pending) = (None, None);
    }

    /// The store is replaced by one that will not be complete for a while.
    pub fn lose_store(&self) {
        self.complete.store(false, Ordering::SeqCst);
        self.void();
    }

    /// The store is complete, as a copy or from the beginning.
    pub fn store_is_complete(&self) {
        self.complete.store(true, Ordering::SeqCst);
    }

    /// Whether what was read from an offered snapshot was there. To be asked after reading.
    pub fn lives(&self, life: Life) -> bool {
        self.lives.lasts(life)
    }

    /// Gives up what nobody has asked for lately. Says when to look again.
    #[inline]
    pub fn tend(&self, now: Nanos) -> Option<Nanos> {
        match self.expires.load(Ordering::Relaxed) {
            0 => None,
            expires if now < expires => Some(expires),
            _ => self.give_up(now),
        }
    }

    #[cold]
    fn give_up(&self, now: Nanos) -> Option<Nanos> {
        let mut taken = self.lock();
        let expires = self.expires.load(Ordering::Relaxed);
        if now < expires {
            return Some(expires);
        }
        self.expires.store(0, Ordering::Relaxed);
        (taken.published, taken.pending) = (None, None);
        None
    }

    /// Whether the store lacks something: a copied state is on its way into it, or has yet to be.
    pub fn store_is_incomplete(&self) -> bool {
        !self.complete.load(Ordering::SeqCst)
    }

    /// A snapshot of `store`, for reads of which the first was asked for at `since`: one that is not older than that, or not
    /// older than `most` nanoseconds; and in any case at or above `least`. Begins a round if there is none. `fit`: whether the store is one that snapshots can be
    /// taken of, at the moment of asking.
    pub fn offer(
        &self,
        (now, since, most): (Nanos, Nanos, Nanos),
        least: Timestamp,
        store: &Arc<Store>,
        watermark: &Watermark,
        fit: impl FnOnce() -> bool,
    ) -> Offer {
        // Before the look at what would forbid it: see `void`.
        let life = self.lives.present();
        if !fit() {
            return Offer::Never;
        }
        let mut taken = self.lock();
        taken.bury(life);
        self.expires.store(now + LINGER.max(most), Ordering::Relaxed);
        let fits = |round: &Round| {
            (round.at >= since || now.saturating_sub(round.at) <= most) && round.snapshot.ts() >= least
        };
        // A round begins at the mark or above.
        let reached = watermark.mark() >= least;
        if reached && taken.pending.is_none() && !taken.published.as_ref().is_some_and(fits) {
            taken.pending = Some(self.pin(now, life, store, watermark));
        }
        taken.publish(watermark.applied_floor());
        match taken.published.as_ref().filter(|round| fits(round)) {
            Some(round) => Offer::Read(round.snapshot.clone(), round.life),
            None => Offer::Later,
        }
    }

    /// Begins a round. The caller holds the lock.
    fn pin(&self, now: Nanos, life: Life, store: &Arc<Store>, watermark: &Watermark) -> Round {
        let horizon = self.horizon.hold();
        // Also above everything that did not come through an applier: what this node executed when it led (the epoch has
        // changed since), and what a copy brought (its store is complete).
        let ts = horizon.max(watermark.mark());
        hooks::pins();
        let snapshot = store.pin_snapshot(ts);
        self.horizon.release(ts);
        Round { snapshot, life, at: now }
    }

    fn lock(&self) -> MutexGuard<'_, Taken> {
        // A simulated worker may be interrupted while it pins, on the thread that would wait for it here.
        while hooks::simulated() && self.taken.try_lock().is_err() {
            hooks::waits();
        }
        self.taken.lock().expect("nobody panics while taking a snapshot")
    }
}

impl Taken {
    /// Drops what is void.
    fn bury(&mut self, life: Life) {
        for round in [&mut self.published, &mut self.pending] {
            round.take_if(|round| round.life != life);
        }
    }

    /// The pending snapshot may be read once every stream is installed up to it.
    fn publish(&mut self, applied: Timestamp) {
        let complete = |round: &mut Round| round.snapshot.ts() <= applied || hooks::shows_incomplete();
        let Some(round) = self.pending.take_if(complete) else { return };
        let ts = round.snapshot.ts();
        assert!(ts >= self.last, "snapshots never go back: {ts} after {}", self.last);
        self.last = ts;
        self.published = Some(round);
    }
}
