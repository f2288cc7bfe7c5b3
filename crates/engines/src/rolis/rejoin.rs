//! Getting a store: the controller's side of a state copy, as receiver and as donor. [`super::copy`] has the workers' side
//! and the reasons.
//!
//! A receiver goes through: wanted → every worker parked → asked a donor → receiving → catching up → complete. Whatever
//! goes wrong on the way leads back to *wanted*, with a fresh store: what an earlier donor sent may have been deleted
//! since, unseen by the next one.
//!
//! Who receives: a node that lost its memory (a learner: it asks the leader for a vote when complete), and a follower that
//! fell behind what the leader keeps. The latter keeps its promises and its vote all along; only its store is replaced. A
//! deposed leader needs no copy: it rolls back what it executed above the final mark (docs/decisions/0001).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::Ordering;

use highwater_consensus::{Members, Standing, Voter};
use highwater_core::{EntryIndex, Epoch, NodeId, StreamId, Timestamp};
use highwater_store::Store;

use super::control::Control;
use super::controller::RolisController;
use super::shared::{Command, Restart};
use crate::memory::Shares;
use crate::seam::Nanos;

/// State copies, as receiver and as donor.
pub struct Rejoin {
    state: Receiving,
    /// Had a store that was valid once, or has one.
    had_store: bool,
    random: u64,
    /// Donors asked since the store was lost.
    attempts: u32,
    ready_at: Nanos,
    serving: BTreeMap<NodeId, Serving>,
}

/// Where the copy to this node stands.
enum Receiving {
    /// The store is complete.
    Complete,
    /// A copy is needed; not before `at`.
    Wanted { at: Nanos },
    /// Waits for the workers to let go of the old store.
    Parking { parked: BTreeSet<StreamId> },
    /// Asked a donor.
    Asking { donor: NodeId, copy: u64, deadline: Nanos },
    /// Parts arrive.
    Arriving { donor: NodeId, copy: u64, arrived: BTreeSet<StreamId>, complete_at: Timestamp },
    /// All parts are here; the log has to be applied up to `complete_at`.
    CatchingUp { complete_at: Timestamp },
}

/// A copy that this node gives.
struct Serving {
    copy: u64,
    epoch: Epoch,
    floor: Timestamp,
    starts: BTreeMap<StreamId, EntryIndex>,
}

/// The fields of [`Control::CopyGrant`].
pub(super) struct Grant {
    pub epoch: Epoch,
    pub members: Members,
    pub floor: Timestamp,
    pub starts: Vec<EntryIndex>,
}

/// How long a donor may take to answer.
const ASK_PATIENCE: Nanos = 1_000_000_000;
/// Pause of a node that has too little memory for the data.
const TOO_SMALL_RETRY: Nanos = 1_000_000_000;
/// Pause before another attempt.
const RETRY_AFTER: Nanos = 50_000_000;
/// How often a learner says that it is ready, and a receiver looks at its progress.
const READY_EVERY: Nanos = 20_000_000;

impl Rejoin {
    /// A newborn replica: its empty store is what the empty log says.
    pub fn new(seed: u64) -> Rejoin {
        let state = Receiving::Complete;
        Rejoin {
            state,
            had_store: false,
            random: seed | 1,
            attempts: 0,
            ready_at: 0,
            serving: BTreeMap::new(),
        }
    }

    /// The store is no good: get another.
    pub fn want(&mut self, now: Nanos) {
        self.attempts = 0;
        self.had_store = true;
        self.state = Receiving::Wanted { at: now };
    }

    /// Whether the store is a state that existed.
    pub fn store_is_complete(&self) -> bool {
        matches!(self.state, Receiving::Complete)
    }

    /// Whether a learner never asked for a store.
    pub fn never_had_a_store(&self) -> bool {
        !self.had_store
    }

    /// A node that has nothing yet must not pull the log from its beginning.
    pub fn must_not_follow(&self) -> bool {
        matches!(self.state, Receiving::Wanted { .. } | Receiving::Parking { .. } | Receiving::Asking { .. })
    }

    /// Whom this node asked for a copy, while there is one.
    pub fn donor(&self) -> Option<NodeId> {
        match self.state {
            Receiving::Asking { donor, .. } | Receiving::Arriving { donor, .. } => Some(donor),
            _ => None,
        }
    }

    /// What the store lacks to be complete, in words; `copied` bytes have arrived.
    pub fn what_is_missing(&self, copied: u64) -> Option<String> {
        Some(match &self.state {
            Receiving::Complete => return None,
            Receiving::Wanted { .. } | Receiving::Parking { .. } => {
                "needs the state: waits for a donor".into()
            }
            Receiving::Asking { donor, .. } => format!("needs the state: asked {donor} for a copy"),
            Receiving::Arriving { donor, .. } => {
                format!("copies the state from {donor}: {copied} bytes so far")
            }
            Receiving::CatchingUp { .. } => "has copied the state, and catches up with the log".into(),
        })
    }

    /// Whether a copy is under way.
    pub fn copying(&self) -> bool {
        !self.store_is_complete()
    }
}

impl RolisController {
    /// The leader no longer keeps what a stream lacks.
    pub(super) fn on_too_far(&mut self, now: Nanos, stream: StreamId) {
        match self.rejoin.state {
            Receiving::Complete | Receiving::CatchingUp { .. } | Receiving::Arriving { .. } => {
                self.events.push(format!("{stream} is too far behind the leader's log: copying the state"));
                self.lose_store(now);
            }
            _ => {}
        }
    }

    fn lose_store(&mut self, now: Nanos) {
        self.give_up_copy();
        let served: Vec<_> =
            self.rejoin.serving.iter().map(|(node, serving)| (*node, serving.copy)).collect();
        for (receiver, copy) in served {
            self.refuse_copy(receiver, copy);
        }
        self.rejoin.want(now);
        self.refresh_eligibility();
        if self.election.standing() == Standing::Leading {
            self.abandon(now, "the store has to be replaced");
        }
    }

    pub(super) fn on_parked(&mut self, now: Nanos, stream: StreamId, members: Option<Members>) {
        // The stream may have skipped changes of epoch that this voter had accepted: its next promise must not be without
        // them.
        members.into_iter().for_each(|members| self.learn_members(now, members));
        let workers = self.workers();
        if let Receiving::Parking { parked } = &mut self.rejoin.state {
            parked.insert(stream);
            if parked.len() == workers {
                self.ask_donor(now);
            }
        }
    }

    /// Asks a follower if there is one that may have a complete store, else the leader.
    fn ask_donor(&mut self, now: Nanos) {
        let leader = self.election.followed(now);
        let votes =
            |voter: &&Voter| self.peers.get(&voter.node) == Some(&voter.incarnation) && **voter != self.me;
        let voters = self.election.members().map(|members| members.voters().to_vec()).unwrap_or_default();
        let followers: Vec<NodeId> = voters
            .iter()
            .filter(votes)
            .map(|voter| voter.node)
            .filter(|node| Some(*node) != leader)
            .collect();
        self.rejoin.random =
            self.rejoin.random.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
        let random = self.rejoin.random >> 33;
        // The leader has enough to do; but every other time it is asked, since the followers' stores may be incomplete.
        let leaders_turn = self.rejoin.attempts % 2 == 1;
        self.rejoin.attempts += 1;
        let donor = match followers.len() {
            0 => leader,
            _ if leaders_turn => leader,
            n => Some(followers[random as usize % n]),
        };
        // The slack is for what is under way and idle, at the donor, too: a full cluster takes a replica back.
        let shares = Shares::of(&self.shared.options).expect("the host validated the options");
        let budget = shares.store.saturating_add(shares.slack);
        if let Some(used) = donor.and_then(|donor| self.ledger.used_by(donor)).filter(|used| *used > budget) {
            // A copy would end in the middle, and with it this process.
            let (used, budget) = (used >> 20, budget >> 20);
            self.events.push(format!(
                "the cluster's data, {used} MiB, do not fit into this node's {budget} MiB: raise limits.memory_mb"
            ));
            self.rejoin.state = Receiving::Wanted { at: now + TOO_SMALL_RETRY };
            return;
        }
        self.rejoin.state = match donor.filter(|donor| *donor != self.me.node && leader.is_some()) {
            Some(donor) => {
                let copy = (self.me.incarnation.0 << 20) ^ self.rejoin.random;
                self.out.push((donor, Control::CopyRequest { copy }));
                Receiving::Asking { donor, copy, deadline: now + ASK_PATIENCE }
            }
            None => Receiving::Wanted { at: now + RETRY_AFTER },
        };
    }

    pub(super) fn on_copy_grant(&mut self, now: Nanos, from: NodeId, copy: u64, grant: Grant) {
        let Grant { epoch, members, floor, starts } = grant;
        let asked = matches!(self.rejoin.state, Receiving::Asking { donor, copy: c, .. } if donor == from && c == copy);
        if !asked || starts.len() != self.workers() {
            return;
        }
        self.events.push(format!("copying the state from {from}, floor {floor}"));
        self.store = Store::new(self.schema.clone());
        // All workers are parked: nobody uses the cells.
        self.shared.progress.restart(epoch, members.clone(), floor, &starts);
        self.shared.receiving_copy.store(true, Ordering::SeqCst);
        self.shared.rounds.lose_store();
        self.learn_members(now, members);
        self.shared.copied_bytes.store(0, Ordering::Relaxed);
        let (store, leader) = (self.store.clone(), self.election.promised());
        self.command_all(|stream| {
            let start = starts[stream.0 as usize];
            Command::Restart(Restart { store: store.clone(), start, floor, donor: from, copy, leader })
        });
        self.rejoin.state =
            Receiving::Arriving { donor: from, copy, arrived: BTreeSet::new(), complete_at: Timestamp::ZERO };
    }

    pub(super) fn on_copied(&mut self, copy: u64, stream: StreamId, at: Timestamp) {
        let workers = self.workers();
        if let Receiving::Arriving { donor, copy: expected, arrived, complete_at } = &mut self.rejoin.state
            && *expected == copy
        {
            arrived.insert(stream);
            *complete_at = (*complete_at).max(at);
            if arrived.len() == workers {
                let (donor, complete_at) = (*donor, *complete_at);
                self.out.push((donor, Control::CopyFinished { copy }));
                self.shared.receiving_copy.store(false, Ordering::SeqCst);
                self.rejoin.state = Receiving::CatchingUp { complete_at };
            }
        }
    }

    pub(super) fn on_copy_stalled(&mut self, now: Nanos, copy: u64) {
        let concerned = match &self.rejoin.state {
            Receiving::Asking { copy: c, .. } | Receiving::Arriving { copy: c, .. } => *c == copy,
            _ => false,
        };
        if concerned {
            self.give_up_copy();
            self.rejoin.state = Receiving::Wanted { at: now + RETRY_AFTER };
        }
    }

    /// Tells the donor, if there is one: it keeps its tombstones until it hears so.
    fn give_up_copy(&mut self) {
        if let Receiving::Asking { donor, copy, .. } | Receiving::Arriving { donor, copy, .. } =
            self.rejoin.state
        {
            self.out.push((donor, Control::CopyFinished { copy }));
        }
    }

    /// The connection to `peer` was lost or is new.
    pub(super) fn copy_peer_changed(&mut self, now: Nanos, peer: NodeId) {
        self.stop_serving(peer, None);
        let from_peer = match &self.rejoin.state {
            Receiving::Asking { donor, .. } | Receiving::Arriving { donor, .. } => *donor == peer,
            _ => false,
        };
        if from_peer {
            self.events.push(format!("lost {peer} while copying from it: starting over"));
            self.rejoin.state = Receiving::Wanted { at: now + RETRY_AFTER };
        }
    }

    /// Moves the copy on; says when it wants to be called again.
    pub(super) fn turn_rejoining(&mut self, now: Nanos) -> Option<Nanos> {
        match &self.rejoin.state {
            Receiving::Complete => {
                if self.election.votes() || self.election.members().is_none() || !self.rejoin.had_store {
                    return None;
                }
                if now >= self.rejoin.ready_at {
                    self.rejoin.ready_at = now + READY_EVERY;
                    if let Some(leader) = self.election.followed(now) {
                        self.out.push((leader, Control::LearnerReady));
                    }
                }
                Some(self.rejoin.ready_at)
            }
            Receiving::Wanted { at } => {
                if now < *at {
                    return Some(*at);
                }
                if self.election.followed(now).is_none() {
                    return Some(now + RETRY_AFTER);
                }
                self.rejoin.state = Receiving::Parking { parked: BTreeSet::new() };
                self.command_all(|_| Command::Park);
                None
            }
            Receiving::Parking { .. } | Receiving::Arriving { .. } => None,
            Receiving::Asking { deadline, .. } => {
                let deadline = *deadline;
                if now >= deadline {
                    self.give_up_copy();
                    self.rejoin.state = Receiving::Wanted { at: now };
                    return Some(now);
                }
                Some(deadline)
            }
            Receiving::CatchingUp { complete_at } => {
                if self.shared.progress.applied_floor() < *complete_at {
                    // What a worker waits for may be in another one's stream, and nobody else wakes it if the cluster is idle.
                    self.wake_workers = true;
                    return Some(now + READY_EVERY / 4);
                }
                self.rejoin.state = Receiving::Complete;
                self.shared.rounds.store_is_complete();
                self.events.push("the copied state is complete".into());
                self.refresh_eligibility();
                Some(now)
            }
        }
    }

    // ---- donor ----

    pub(super) fn on_copy_request(&mut self, from: Voter, copy: u64) {
        if !self.rejoin.store_is_complete() || self.election.members().is_none() {
            return self.out.push((from.node, Control::CopyRefuse { copy }));
        }
        self.stop_serving(from.node, None);
        // First keep the tombstones, then choose the floor: none at or above it is unlinked any more.
        self.shared.serving_copies.fetch_add(1, Ordering::SeqCst);
        let Some((epoch, floor)) = self.shared.progress.copy_point(self.leading.map(|ballot| ballot.epoch))
        else {
            self.shared.serving_copies.fetch_sub(1, Ordering::SeqCst);
            return self.out.push((from.node, Control::CopyRefuse { copy }));
        };
        self.rejoin.serving.insert(from.node, Serving { copy, epoch, floor, starts: BTreeMap::new() });
        self.command_all(|_| Command::Locate { receiver: from.node, copy, floor });
    }

    pub(super) fn on_located(
        &mut self,
        receiver: NodeId,
        copy: u64,
        stream: StreamId,
        start: Option<EntryIndex>,
    ) {
        let workers = self.workers();
        let Some(serving) = self.rejoin.serving.get_mut(&receiver).filter(|serving| serving.copy == copy)
        else {
            return;
        };
        let Some(start) = start else {
            return self.refuse_copy(receiver, copy);
        };
        serving.starts.insert(stream, start);
        if serving.starts.len() == workers {
            let (epoch, floor) = (serving.epoch, serving.floor);
            let starts = serving.starts.values().copied().collect();
            let known = self.shared.progress.members().into_iter().chain(self.election.members().cloned());
            let Some(members) = known.max_by_key(|members| members.epoch) else { return };
            self.out.push((receiver, Control::CopyGrant { copy, epoch, members, floor, starts }));
        }
    }

    /// The copy to `receiver` cannot go on.
    pub(super) fn refuse_copy(&mut self, receiver: NodeId, copy: u64) {
        self.stop_serving(receiver, Some(copy));
        self.out.push((receiver, Control::CopyRefuse { copy }));
    }

    /// A copy to `receiver` has ended, one way or the other.
    pub(super) fn stop_serving(&mut self, receiver: NodeId, copy: Option<u64>) {
        let ended =
            self.rejoin.serving.get(&receiver).is_some_and(|serving| copy.is_none_or(|c| c == serving.copy));
        if ended {
            self.rejoin.serving.remove(&receiver);
            self.shared.serving_copies.fetch_sub(1, Ordering::SeqCst);
        }
    }
}
