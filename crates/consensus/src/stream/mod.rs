//! One log, replicated by MultiPaxos: the acceptor of one replica, and the proposer while its node leads.
//!
//! # The protocol
//!
//! A log is accepted *as a whole under one ballot*: an acceptor keeps `accepted`, the ballot under which its log was
//! last adopted or extended, in place of one ballot per entry. Because entries are appended in order and an adoption
//! takes effect only when the whole range has arrived, the logs of all acceptors with the same `accepted` are prefixes
//! of one another. So "per index, the value accepted under the highest ballot" (Paxos's rule for a new proposer) is
//! simply: *the log with the largest `(accepted, last)` among a majority of promises*.
//!
//! 1. **Promise.** A candidate's ballot is promised for all streams at once; each answers with its [`Tail`].
//! 2. **Take over.** The new leader's stream fetches what it lacks of the best log ([`Plan`]), makes it its own under
//!    its ballot, and has each follower adopt it from the point where the two surely agree.
//! 3. **Accept.** New entries are appended and sent at once, many in flight; an acceptor takes them in order.
//! 4. **Decide.** What a majority holds under the leader's ballot is decided, and with it everything before. Unlike in
//!    Raft this holds for entries of older ballots too: an adoption is complete before it counts.
//!
//! Entries are opaque: a re-proposed entry keeps whatever epoch is written inside.
//!
//! # What makes it live
//!
//! A follower that notices a gap, a new leader or a new connection sends `Pull` with its tail, and the leader goes on
//! from there. A leader whose entries stay unacknowledged asks (`Decide { ask }`). Both repeat by timer. Lost,
//! repeated and reordered messages cost time only.
//!
//! # Left out
//!
//! Elections ([`crate::Election`]), who votes ([`crate::Quorums`]; a change takes a new ballot), and disks: a voter
//! that forgets comes back as another [`Voter`].

mod follow;
mod lead;
mod takeover;

use std::collections::BTreeMap;

use bytes::Bytes;
use highwater_core::{Ballot, EntryIndex, NodeId, planted};

use crate::{Log, Members, Message, Nanos, Quorums, Voter};
use lead::Leading;
use takeover::Fetching;

/// Where an acceptor's log stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tail {
    /// Ballot under which the log was last adopted or extended.
    pub accepted: Ballot,
    /// First entry held; older ones were trimmed (they are decided).
    pub first: EntryIndex,
    /// Last entry held.
    pub last: EntryIndex,
    /// Last entry known to be decided.
    pub decided: EntryIndex,
}

impl Tail {
    /// What a new leader compares: the largest wins.
    pub fn rank(&self) -> (Ballot, EntryIndex) {
        if planted!(LongestLogWins) {
            return (Ballot::default(), self.last);
        }
        (self.accepted, self.last)
    }
}

/// What a new leader's stream needs to take over.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The promised ballot.
    pub ballot: Ballot,
    /// Tails of this stream in the promises, by voter; the own one included.
    pub tails: BTreeMap<Voter, Tail>,
    /// Who must accept: those who had to promise, and the new membership if this change of epoch makes one. Newcomers
    /// need not have promised: nobody ever counted them.
    pub quorums: Quorums,
}

/// Settings of a stream.
#[derive(Clone, Copy, Debug)]
pub struct StreamOptions {
    /// Bytes sent to one follower and not yet received, at most.
    pub window_bytes: u64,
    /// Bytes of log that a follower may hold and not have installed: it takes nothing more until it has. A leader that
    /// needs its vote waits; one that does not goes on, and may drop from its log what this one lacks.
    ///
    /// Must exceed what a leader holds above the mark: the mark must be able to reach the first entry not installed by
    /// what was taken before.
    pub backlog_bytes: u64,
    /// How long a silence lasts before a question is repeated.
    pub retry: Nanos,
}

impl Default for StreamOptions {
    fn default() -> Self {
        StreamOptions { window_bytes: 8 << 20, backlog_bytes: 256 << 20, retry: 40_000_000 }
    }
}

/// A message to the same stream on another node, and the entry that travels along.
#[derive(Clone, Debug)]
pub struct Envelope {
    /// Where to.
    pub to: NodeId,
    /// What it says.
    pub message: Message,
    /// Empty unless the message carries one.
    pub entry: Bytes,
}

/// One log on one replica.
///
/// Invariants, asserted where the fields change: `accepted <= promised`; `decided <= log.last()`; an entry at or below
/// `decided` never changes; neither `promised` nor `decided` ever moves back.
#[derive(Debug)]
pub struct Stream {
    me: Voter,
    options: StreamOptions,
    /// Nothing under a lower ballot is taken any more. The leader of a ballot is its node.
    promised: Ballot,
    accepted: Ballot,
    log: Log,
    decided: EntryIndex,
    /// Every replica, this one included, has known at some time that this much is decided: nobody who lives will ask for
    /// it again.
    known_by_all: EntryIndex,
    /// The newest membership known to be decided in every stream. Invariant: no change of epoch before `log.first()` is
    /// newer, so that who skips entries hears of every membership in them.
    members: Option<Members>,
    /// Entries up to here need not be kept: see [`Stream::trim`].
    installed: EntryIndex,
    role: Role,
    out: Vec<Envelope>,
}

#[derive(Debug)]
enum Role {
    /// Accepts what the leader of `promised` sends.
    Following(follow::Following),
    /// Has the promises; collects the best log.
    Fetching(Fetching),
    /// Proposes.
    Leading(Leading),
}

impl Stream {
    /// A log whose next entry follows `base`: [`EntryIndex::NONE`] at the birth of a cluster; for a replica that copies
    /// the state, the entry before the first one that the state may lack. Everything up to `base` is decided.
    pub fn new(me: Voter, base: EntryIndex, options: StreamOptions) -> Stream {
        Stream {
            me,
            options,
            promised: Ballot::default(),
            accepted: Ballot::default(),
            log: Log::after(base),
            decided: base,
            known_by_all: EntryIndex::NONE,
            members: None,
            installed: base,
            role: Role::Following(follow::Following::default()),
            out: Vec::new(),
        }
    }

    /// Everything up to `base` is decided, and its effects were copied: for a follower that was told
    /// [`Message::TooFar`]. What was promised stays, and so does what was accepted behind `base`: it may have been counted,
    /// and the copy need not reach that far.
    pub fn restart_after(&mut self, base: EntryIndex) {
        assert!(base >= self.decided, "a copy starts behind what was known to be decided");
        let Role::Following(following) = &self.role else { panic!("only a follower starts anew") };
        self.role = Role::Following(following.restarted());
        // `accepted` stays, too. Claiming less would hide from a new leader what this voter helped to decide; and what is
        // decided is the beginning of every log that can still win.
        if base < self.log.last() {
            self.log.trim(base, 0);
        } else {
            self.log = Log::after(base);
        }
        self.decided = base;
    }

    /// The newest membership known to be decided in every stream, as the host said or a leader that no longer keeps what
    /// this log lacks.
    pub fn members(&self) -> Option<&Members> {
        self.members.as_ref()
    }

    /// A membership is decided in every stream. To be said before the change to it is trimmed. Older ones are ignored.
    pub fn know_members(&mut self, members: Members) {
        if self.members.as_ref().is_none_or(|known| known.epoch < members.epoch) {
            self.members = Some(members);
        }
    }

    /// Promises `ballot` (again): nothing under a lower one will be taken. Ends this node's lead under a lower ballot.
    ///
    /// # Panics
    /// If a higher ballot was promised: a stream may be ahead of its node's [`Election`](crate::Election), so compare
    /// [`promised`](Stream::promised) first, and report it with [`met`](crate::Election::met).
    pub fn promise(&mut self, ballot: Ballot) -> Tail {
        assert!(ballot >= self.promised, "a promise is never taken back");
        if ballot > self.promised {
            self.promised = ballot;
            self.role = Role::Following(follow::Following::default());
        }
        self.tail()
    }

    /// Where the log stands.
    pub fn tail(&self) -> Tail {
        Tail {
            accepted: self.accepted,
            first: self.log.first(),
            last: self.log.last(),
            decided: self.decided,
        }
    }

    /// What was promised.
    pub fn promised(&self) -> Ballot {
        self.promised
    }

    /// Last entry known to be decided.
    #[inline]
    pub fn decided(&self) -> EntryIndex {
        self.decided
    }

    /// Last entry held.
    #[inline]
    pub fn last(&self) -> EntryIndex {
        self.log.last()
    }

    /// The entry at `index`, if held.
    #[inline]
    pub fn entry(&self, index: EntryIndex) -> Option<&Bytes> {
        self.log.get(index)
    }

    /// Bytes of log held.
    pub fn log_bytes(&self) -> u64 {
        self.log.bytes()
    }

    /// Bytes of the held entries in `from..=to`.
    pub fn bytes_between(&self, from: EntryIndex, to: EntryIndex) -> u64 {
        self.log.bytes_between(from, to)
    }

    /// Drops decided entries up to `upto`, oldest first, while more than `keep_bytes` are held. Of what every replica knows
    /// to be decided a sixteenth of that is enough: so long as nobody lags, the log stays in the cache.
    ///
    /// Says whether there is room again for what was not taken: then a tick asks for it.
    pub fn trim(&mut self, upto: EntryIndex, keep_bytes: u64) -> bool {
        let upto = upto.min(self.decided);
        self.installed = self.installed.max(upto);
        self.log.trim(upto.min(self.known_by_all), keep_bytes / 16);
        self.log.trim(upto, keep_bytes);
        self.take_again_if_room()
    }

    /// Bytes of the entries held that are not installed.
    pub fn backlog_bytes(&self) -> u64 {
        self.log.bytes_between(self.installed.next(), self.log.last())
    }

    /// Whether this node leads the stream under `ballot`.
    #[inline]
    pub fn is_leading(&self, ballot: Ballot) -> bool {
        ballot == self.promised && matches!(self.role, Role::Leading(_))
    }

    /// Takes a message from the same stream of `from`; `entry` is what travelled along.
    pub fn deliver(&mut self, now: Nanos, from: Voter, message: Message, entry: Bytes) {
        match message {
            Message::Adopt { ballot, start, upto, index, decided } => {
                if self.accept_or_reject_ballot(from, ballot) {
                    self.on_adopt(now, ballot, follow::RangeEntry { start, upto, index, decided }, entry);
                }
            }
            Message::Accept { ballot, index, decided, known_by_all } => {
                if self.accept_or_reject_ballot(from, ballot) {
                    self.known_by_all = self.known_by_all.max(known_by_all);
                    self.on_accept(now, ballot, index, decided, entry);
                }
            }
            Message::Decide { ballot, decided, last, known_by_all, ask } => {
                if self.accept_or_reject_ballot(from, ballot) {
                    self.known_by_all = self.known_by_all.max(known_by_all);
                    self.on_decide(now, ballot, decided, last, ask);
                }
            }
            Message::TooFar { ballot, first, members } => {
                if self.accept_or_reject_ballot(from, ballot) {
                    self.on_too_far(first, members);
                }
            }
            Message::Fetch { ballot, from: first, upto } => {
                if self.accept_or_reject_ballot(from, ballot) {
                    self.on_fetch(from, ballot, first, upto);
                }
            }
            Message::Accepted { ballot, index, received, decided } => {
                self.on_accepted(now, from, ballot, lead::Ack { index, received, decided })
            }
            Message::Pull { promised, tail, received } => self.on_pull(from, promised, tail, received),
            Message::Fetched { ballot, index, paused } => self.on_fetched(now, ballot, index, paused, entry),
            Message::Stale { promised } => self.promise_if_higher(promised),
        }
    }

    /// The connection to `peer` is up (again); what was sent before may be lost. To be called before anything that comes
    /// over this connection is delivered, and after everything of an earlier life of the same node.
    pub fn peer_up(&mut self, now: Nanos, peer: Voter) {
        match &mut self.role {
            Role::Leading(leading) => leading.await_tail(peer),
            Role::Following(following) if peer.node == self.promised.node => {
                following.question();
                self.pull(now);
            }
            _ => {}
        }
    }

    /// The connection to `peer` is lost.
    pub fn peer_down(&mut self, peer: NodeId) {
        if let Role::Leading(leading) = &mut self.role {
            leading.pause(peer);
        }
    }

    /// Lets time pass: repeats what went unanswered. Says when it wants to be called again, if at all.
    pub fn tick(&mut self, now: Nanos) -> Option<Nanos> {
        match self.role {
            Role::Following(_) => self.tick_following(now),
            Role::Fetching(_) => self.tick_fetching(now),
            Role::Leading(_) => self.tick_leading(now),
        }
    }

    /// The state in words, for failure reports; entries are left out.
    pub fn describe(&self) -> String {
        format!("promised {} {:?} {:?}", self.promised, self.tail(), self.role)
    }

    /// Moves the waiting messages out.
    pub fn drain(&mut self) -> std::vec::Drain<'_, Envelope> {
        self.out.drain(..)
    }

    /// Whether messages wait.
    pub fn has_output(&self) -> bool {
        !self.out.is_empty()
    }

    /// Whether a leader's message under `ballot` counts; answers one that came too late.
    fn accept_or_reject_ballot(&mut self, from: Voter, ballot: Ballot) -> bool {
        debug_assert_eq!(from.node, ballot.node, "only the owner of a ballot speaks under it");
        if ballot < self.promised {
            self.send(from.node, Message::Stale { promised: self.promised }, Bytes::new());
            return false;
        }
        self.promise_if_higher(ballot);
        ballot.node != self.me.node
    }

    /// Someone promised `ballot`; so does this stream, if it is higher. Each stream is a consensus of its own, so it may
    /// promise before its sisters do.
    fn promise_if_higher(&mut self, ballot: Ballot) {
        if ballot > self.promised {
            self.promise(ballot);
        }
    }

    fn send(&mut self, to: NodeId, message: Message, entry: Bytes) {
        debug_assert_ne!(to, self.me.node, "a stream does not talk to itself");
        self.out.push(Envelope { to, message, entry });
    }

    /// Makes `entries` the log from `start` on, accepted under the promised ballot.
    fn adopt(&mut self, start: EntryIndex, entries: Vec<Bytes>) {
        let mut kept = 0;
        // Entries at or below `decided` stay as they are: the range may begin before, and must agree there.
        for (offset, entry) in entries.iter().enumerate() {
            let index = EntryIndex(start.0 + offset as u64);
            if index > self.decided {
                break;
            }
            if let Some(own) = self.log.get(index) {
                assert_eq!(own, entry, "one value per index: {index} is decided and would change");
            }
            kept = offset + 1;
        }
        let from = EntryIndex(start.0 + kept as u64);
        assert!(from <= self.log.last().next(), "an adoption leaves no hole");
        assert!(from > self.decided, "what is decided is never cut off");
        self.log.truncate(EntryIndex(from.0 - 1));
        for entry in entries.into_iter().skip(kept) {
            self.log.append(entry);
        }
        self.accepted = self.promised;
    }

    fn learn_decided(&mut self, decided: EntryIndex) {
        assert!(self.accepted == self.promised, "only the leader's own log tells what is decided");
        self.decided = self.decided.max(decided.min(self.log.last()));
    }
}
