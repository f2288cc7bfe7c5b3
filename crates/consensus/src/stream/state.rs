//! The state of one log on one replica, and what every role does with it: promise, adopt, learn what is decided.

use bytes::Bytes;
use highwater_core::{Ballot, EntryIndex, NodeId};

use super::role::{Following, Role};
use crate::{Log, Members, Message, Nanos, Tail, Voter};

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
    pub(super) me: Voter,
    pub(super) options: StreamOptions,
    /// Nothing under a lower ballot is taken any more. The leader of a ballot is its node.
    pub(super) promised: Ballot,
    pub(super) accepted: Ballot,
    pub(super) log: Log,
    pub(super) decided: EntryIndex,
    /// Every replica, this one included, has known at some time that this much is decided: nobody who lives will ask for
    /// it again.
    pub(super) known_by_all: EntryIndex,
    /// The newest membership known to be decided in every stream. Invariant: no change of epoch before `log.first()` is
    /// newer, so that who skips entries hears of every membership in them.
    pub(super) members: Option<Members>,
    /// Entries up to here need not be kept: see [`Stream::trim`].
    pub(super) installed: EntryIndex,
    pub(super) role: Role,
    pub(super) out: Vec<Envelope>,
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
            role: Role::Following(Following::default()),
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
            self.role = Role::Following(Following::default());
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

    /// Bytes of the entries held that are not installed.
    pub fn backlog_bytes(&self) -> u64 {
        self.log.bytes_between(self.installed.next(), self.log.last())
    }

    /// Whether this node leads the stream under `ballot`.
    #[inline]
    pub fn is_leading(&self, ballot: Ballot) -> bool {
        ballot == self.promised && matches!(self.role, Role::Leading(_))
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

    /// Someone promised `ballot`; so does this stream, if it is higher. Each stream is a consensus of its own, so it may
    /// promise before its sisters do.
    pub(super) fn promise_if_higher(&mut self, ballot: Ballot) {
        if ballot > self.promised {
            self.promise(ballot);
        }
    }

    pub(super) fn send(&mut self, to: NodeId, message: Message, entry: Bytes) {
        debug_assert_ne!(to, self.me.node, "a stream does not talk to itself");
        self.out.push(Envelope { to, message, entry });
    }

    /// Makes `entries` the log from `start` on, accepted under the promised ballot.
    pub(super) fn adopt(&mut self, start: EntryIndex, entries: Vec<Bytes>) {
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

    pub(super) fn learn_decided(&mut self, decided: EntryIndex) {
        assert!(self.accepted == self.promised, "only the leader's own log tells what is decided");
        self.decided = self.decided.max(decided.min(self.log.last()));
    }
}
