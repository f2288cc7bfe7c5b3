//! Who leads: pre-votes, promises, heartbeats; one ballot for all streams.
//!
//! 1. **Suspicion.** A follower that gets no sign of the leader's life for a randomised time (`suspicion`), or whose
//!    host saw the leader's process gone, asks everyone: would you promise me the next epoch (`PreVote`)? A voter says
//!    yes only if it misses the leader, too. So a node that was cut off cannot depose a healthy leader when it returns.
//! 2. **Promise.** With a majority of yeses the candidate takes the next ballot and asks for promises (`Prepare`). A
//!    voter first has *every stream* promise ([`ElectionEvent::Fence`]); only then does it answer, with each stream's
//!    [`Tail`](crate::Tail).
//! 3. **Won.** With promises from a majority of every membership that may be in force, the candidate leads
//!    ([`ElectionEvent::Won`]): its host takes over the streams. From now on it sends heartbeats. A leader that hears no
//!    quorum, or whose workers stand still, says so in its heartbeats ([`Beat::Asks`]); they are no sign of life then,
//!    and a majority that can do without it may elect another.
//!
//! # An example: node 0 dies
//!
//! Three nodes; node 0 leads under `e1.n0`. The timeout is 50 ms; each follower adds up to as much at random.
//!
//! | time | n1 | n2 |
//! |---|---|---|
//! | 0 | hears n0's last heartbeat | hears n0's last heartbeat |
//! | 60 ms | | its time (50 + 10 ms) is over: `Asking`, sends `PreVote { e2.n2 }` |
//! | 61 ms | misses n0, too, for its last sign is more than 50 ms old: says yes, and holds back from asking itself | |
//! | 62 ms | | with its own yes two of three: promises `e2.n2` itself, `Fence`s its streams, sends `Prepare` |
//! | 63 ms | promises `e2.n2` and `Fence`s its streams; when all have promised, sends `Promise` with their tails | |
//! | 64 ms | | its own promise and n1's: `Won`. Its host has every stream [take over](crate::Stream::take_over) |
//! | 65 ms | hears the first heartbeat under `e2.n2`: [`ElectionEvent::Follow`] | `Leading` |
//!
//! If n0 was only slow, and speaks under `e1.n0` once more, it is answered `Stale { promised: e2.n2 }`. It promises
//! that ballot, which ends its lead ([`Election::met`]), and follows n2. If n0 was healthy and only n2 cut off from it,
//! n1 says no at 61 ms: nobody's ballot rises, and n2 goes on asking.
//!
//! # Duels
//!
//! Of two ballots of one epoch a node answers only one, so an epoch has one leader at most. Two that stand at once may
//! therefore split the votes, and the one whose ballot is higher may deny its own promise to a rival that wins:
//! - A node that asks holds back when it hears of a higher ballot that asks, and gives a lower one no yes. A node that
//!   has promised in an epoch gives no yes for the same epoch. So most duels end before anyone promises.
//!   Who gave a lower one no yes, and got too few itself until its time was over, has its turn only every other time.
//! - A promise in an epoch is not replaced by one for another candidate of it: the second candidate could not be
//!   answered, and the first may have won.
//! - A candidate that wins, or leads, and hears that somebody promised a rival of the same epoch takes the next epoch at
//!   once: nobody else has won this one, and the rival follows a higher ballot.
//!
//! None of the three matters for safety: the first concerns pre-votes only, the second is like the loss of a message, and
//! the third is a new campaign.
//!
//! Campaigning again terminates. Every rival needs yeses of a majority that misses the leader, and whoever promises a
//! ballot starts a new wait and misses nobody until it is over. So only yeses are left that were granted before, and
//! each of these outstanding yeses causes at most one more campaign.
//!
//! # Slow disks
//!
//! A stream's promise counts when it is on disk, which may take longer than any timeout. Until all streams of a node have promised, it
//! neither stands nor says yes: so no second ballot overtakes the first on its way to the disks. And promises that come late count, as
//! long as their candidate has promised nothing higher and has not given up.
//!
//! # Voters that forget
//!
//! With [`Durability::Async`](highwater_core::Durability::Async) a voter that comes back from a crash may have forgotten what it accepted
//! last (what it *promised* was on disk before it said so). Two majorities still have a voter in common, but that one may know nothing of
//! what the first one decided. So of those that promise, so many must forget nothing that every majority has one of them: of three or five
//! voters a majority, of two one, of four two.
//!
//! Where there is none, because a majority crashed at once, the data of the last moments may be gone; and the best that can be had is the
//! best of all disks. So the promises of *all* voters count, too: whatever anybody still has is in one of them. One voter less, and
//! that one might come back with more. Nobody waits for who comes too late: an operator decides (`highwater recover`).
//!
//! A voter has caught up, and forgets nothing any more, when it holds all that its leader held at a moment after it came back, and that
//! leader had something decided after that moment. For what it had accepted before the crash is then in that leader's log, or was never
//! decided: had it accepted anything under a later ballot, that ballot's majority would have promised it before, and could have
//! decided nothing for this leader since.
//!
//! # Which memberships may be in force?
//!
//! The newest that any promise knows to be decided, and every newer one that stands undecided in somebody's log. A
//! decided change was accepted by a majority of its predecessor, so any majority of the predecessor reveals it. A
//! candidate needs a majority of each ([`Quorums`](crate::Quorums)).
//!
//! # The files
//!
//! `state` has what an election remembers, `signs` what it remembers of others' signs of life. On these stand `voter`
//! (says yes, promises, follows), `candidate` (asks, prepares, counts), `suspicion` (when a leader is missed, and
//! when it must not be believed) and `rest` (how often it says that it lives). This file is where messages, timers and the host's reports arrive.
//!
//! # Left out
//!
//! What happens to the streams (the host's business), and leases (reads wait for the watermark, or for a majority's word, instead).

mod candidate;
mod message;
mod rest;
mod signs;
mod state;
mod suspicion;
mod voter;

use highwater_core::{Ballot, NodeId, hooks};

pub use message::{Beat, ElectionMessage, PendingChange, Promise, Voice};
pub use state::{Election, ElectionEvent, ElectionOptions, Standing};
pub use suspicion::SILENCE;

use crate::hooks::{ASK_EARLY, SKIP_PRE_VOTE};
use crate::{Nanos, Voter};

impl Election {
    /// Whether this node may stand: its store is complete, and holds nothing that still has to be rolled back. A node
    /// that may not stand votes all the same.
    pub fn set_eligible(&mut self, eligible: bool) {
        self.eligible = eligible;
        if !eligible {
            self.prepared = None;
        }
        if !eligible && matches!(self.standing, Standing::Asking | Standing::Preparing) {
            self.standing = Standing::Follower;
        }
    }

    /// Stands at once, without asking whether the leader is missed: for the first epoch, and for a leader that changes
    /// the epoch on purpose.
    pub fn campaign(&mut self, now: Nanos) {
        if self.eligible && self.votes() {
            self.prepare(now);
        }
    }

    /// Gives up standing or leading, because the host could not take the streams over or cannot serve. Waits longer than
    /// anybody else before it stands again, so that a node that can do better has its turn.
    pub fn abandon(&mut self, now: Nanos) {
        if self.standing == Standing::Leading {
            self.take_word_back();
        }
        self.standing = Standing::Follower;
        self.prepared = None;
        self.following = None;
        self.give_way(now);
    }

    /// Somebody has promised `ballot`: another node, or a stream of this one, for streams hear of ballots by themselves.
    ///
    /// If it is of a later epoch, this node promises it, too. If it is higher, but of the epoch in which this node leads
    /// or prepares, it is a rival's, and those who promised it cannot follow this node: so this node takes the next
    /// epoch, a leader at once and a candidate as soon as it has won.
    pub fn met(&mut self, now: Nanos, ballot: Ballot) {
        self.highest = self.highest.max(ballot.epoch);
        if ballot <= self.promised {
            return;
        }
        let rival = ballot.epoch == self.promised.epoch;
        match self.standing {
            Standing::Leading if rival => self.prepare(now),
            Standing::Preparing if rival => self.outbid = true,
            _ => self.promise(now, ballot),
        }
    }

    /// Every stream has promised `promise.ballot`: the host's answer to [`ElectionEvent::Fence`]. Only now may the
    /// candidate hear of the promise. Ignored if a higher ballot was promised meanwhile.
    pub fn fenced(&mut self, now: Nanos, promise: Promise) {
        let ballot = promise.ballot;
        if ballot != self.promised {
            return;
        }
        self.fencing = false;
        if self.answered.epoch == ballot.epoch && self.answered != ballot {
            // A rival has the promise of this epoch.
            return;
        }
        self.answered = ballot;
        if ballot.node == self.me.node {
            self.on_promise(now, self.me, promise);
        } else {
            self.out.push((ballot.node, ElectionMessage::Promise(promise)));
        }
    }

    /// The same of a node that knows no members, and so has nothing that a candidate could count: it waits for its streams no more.
    pub fn fenced_for_nobody(&mut self, ballot: Ballot) {
        if ballot == self.promised {
            self.fencing = false;
        }
    }

    /// The connection to `peer` is lost. If it is `gone`, its process is surely dead, and if it leads, nobody has to
    /// wait for a timeout. If only the connection is lost, silence will tell.
    pub fn peer_down(&mut self, now: Nanos, peer: NodeId, gone: bool) {
        self.was_patient(peer);
        if gone
            && self.standing == Standing::Follower
            && self.promised.node == peer
            && self.following.is_some()
        {
            self.suspected = true;
            // All followers see the process die at the same moment. Each waits a little, at random, so that two do not
            // stand at once and split the votes.
            self.deadline = self.deadline.min(now + self.random_below(self.options.heartbeat / 2));
        }
    }

    /// Takes a message from `from`'s controller.
    pub fn deliver(&mut self, now: Nanos, from: Voter, message: ElectionMessage) {
        match message {
            ElectionMessage::PreVote { ballot } => self.on_pre_vote(now, from, ballot),
            ElectionMessage::PreVoteReply { ballot, voice, promised } => {
                self.highest = self.highest.max(promised.epoch);
                let asked = self.standing == Standing::Asking && ballot == self.asked;
                if asked && voice.granted && self.granted.iter().all(|(known, _)| *known != from) {
                    self.granted.push((from, voice.forgets));
                    self.count_pre_votes(now);
                }
            }
            ElectionMessage::Prepare { ballot } => self.on_prepare(now, from, ballot),
            ElectionMessage::Promise(promise) => self.on_promise(now, from, promise),
            ElectionMessage::Heartbeat { ballot, beat, members } => {
                self.on_heartbeat(now, from, ballot, beat, members);
            }
            ElectionMessage::HeartbeatReply { ballot } => {
                if ballot == self.promised {
                    self.has_answered(from, now);
                    self.was_patient(from.node);
                }
            }
            ElectionMessage::Patient { ballot } => {
                if ballot == self.promised {
                    self.has_answered(from, now);
                    self.is_patient(from.node);
                }
            }
            ElectionMessage::Stale { promised } => self.met(now, promised),
        }
    }

    /// Lets time pass: stands if the leader is missed, gives up if nothing came of it, sends heartbeats. Returns when
    /// it wants to be called again; `None` as long as this node knows of no membership.
    pub fn tick(&mut self, now: Nanos) -> Option<Nanos> {
        self.members.as_ref()?;
        // Both are legal at any time, so a simulated run does them now and then: pre-votes only keep the peace, and which
        // candidate wins is decided by promises alone.
        if self.standing == Standing::Follower && hooks::buggify(ASK_EARLY) {
            self.ask(now);
        }
        if self.standing == Standing::Follower && hooks::buggify(SKIP_PRE_VOTE) {
            self.campaign(now);
        }
        let due = now >= self.deadline && !self.doubts_itself(now);
        if due || self.is_roused(now) {
            match self.standing {
                Standing::Leading => self.send_heartbeats(now),
                _ if self.is_fencing() => self.wait(now),
                Standing::Follower | Standing::Asking | Standing::Preparing => self.ask(now),
            }
        }
        Some(self.deadline)
    }
}
