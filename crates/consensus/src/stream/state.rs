//! The state of one log on one replica, and what every role does with it: promise, adopt, learn what is decided.

use bytes::Bytes;
use highwater_core::{Ballot, Durability, EntryIndex, NodeId, planted};

use super::change::Durable;
use super::role::{Following, Role};
use crate::{Log, Members, Message, Nanos, Tail, Voter};

/// Settings of a stream.
#[derive(Clone, Copy, Debug)]
pub struct StreamOptions {
    /// Bytes sent to one follower and not yet received, at most.
    pub window_bytes: u64,
    /// Bytes of log that a follower may hold without having installed them. Beyond that it refuses entries until it has
    /// installed some, so that a slow follower's memory stays bounded. A leader that needs its vote waits for it; one
    /// that has a majority without it goes on, and may drop from its log what this follower lacks.
    ///
    /// Must exceed what a leader holds above the mark. A follower installs an entry when the mark has passed it, and the
    /// mark rises with later entries: if those were refused for lack of room, nothing could ever be installed.
    pub backlog_bytes: u64,
    /// Whether the node has a disk, and what waits for it: see `durable`.
    pub durability: Durability,
    /// How long a question (`Pull`, `Fetch`, `Decide { ask }`) goes unanswered before it is repeated.
    pub retry: Nanos,
}

impl Default for StreamOptions {
    fn default() -> Self {
        StreamOptions {
            window_bytes: 8 << 20,
            backlog_bytes: 256 << 20,
            durability: Durability::Memory,
            retry: 40_000_000,
        }
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
    /// To be sent only when so many [changes](Stream::changes_made) of this life are on disk: it vouches for them.
    pub after: u64,
}

/// One log on one replica.
///
/// Invariants, asserted where the fields change:
/// - `accepted <= promised`, for a log is adopted and extended only under the promised ballot;
/// - `decided <= log.last()`, and an entry at or below `decided` never changes;
/// - neither `promised` nor `decided` ever moves back.
#[derive(Debug)]
pub struct Stream {
    pub(super) me: Voter,
    pub(super) options: StreamOptions,
    /// The highest ballot that was promised: nothing under a lower one is taken any more. Its `node` is the only one that
    /// may lead under it.
    pub(super) promised: Ballot,
    /// The ballot under which the log as a whole was last adopted or extended. Equal to `promised` as soon as this log is
    /// known to be a prefix of the leader's; lower until then.
    pub(super) accepted: Ballot,
    pub(super) log: Log,
    /// Last entry known to be decided. A follower hears it from the leader, and may be behind.
    pub(super) decided: EntryIndex,
    /// Every replica, this one included, once knew that this much is decided. What a replica knows to be decided it holds
    /// or has installed, and it forgets that only with all of its memory; then it copies the state instead of pulling
    /// entries. So nobody will pull an entry up to here again, and it may be dropped early.
    pub(super) known_by_all: EntryIndex,
    /// The newest membership known to be decided in every stream. Invariant: no change of epoch that was trimmed (before
    /// `log.first()`) is newer. A follower that must skip trimmed entries is told this membership instead, and so misses
    /// no change of who votes.
    pub(super) members: Option<Members>,
    /// Entries up to here are installed, as [`Stream::trim`] was told; the rest is the backlog.
    pub(super) installed: EntryIndex,
    pub(super) role: Role,
    pub(super) out: Vec<Envelope>,
    /// If the node has a disk.
    pub(super) durable: Option<Durable>,
    /// What is accepted counts once it is on that disk: always with [`Durability::Sync`], and with [`Durability::Async`] while the disk
    /// is too far behind.
    pub(super) waits: bool,
    /// The first entry that a new leader overruled, if one did since somebody asked.
    replaced: Option<EntryIndex>,
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
            durable: options.durability.has_disk().then(Durable::begin),
            waits: options.durability != Durability::Async,
            replaced: None,
        }
    }

    /// Goes on behind a copied state: everything up to `base` is decided, and its effects are in the copy. For a follower
    /// that was told [`Message::TooFar`].
    ///
    /// What was promised stays. So do the entries accepted behind `base`: a leader may have counted this voter for
    /// them, and the copy need not contain their effects.
    pub fn restart_after(&mut self, base: EntryIndex) {
        assert!(base >= self.decided, "a copy starts behind what was known to be decided");
        let Role::Following(following) = &self.role else { panic!("only a follower starts anew") };
        self.role = Role::Following(following.restarted());
        self.record_restart(base);
        // `accepted` stays, too. With a lower one this log would rank below others in a promise, and a new leader could
        // miss an entry that this voter helped to decide. It is safe to claim it: the entries that were skipped are
        // decided, so every log that can still win begins with them.
        if base < self.log.last() {
            self.log.trim(base, 0);
        } else {
            self.log = Log::after(base);
        }
        self.decided = base;
    }

    /// The newest membership known to be decided in every stream. The host said so
    /// ([`know_members`](Stream::know_members)), or a leader did whose log no longer has the entries that this one
    /// lacks ([`Message::TooFar`]).
    pub fn members(&self) -> Option<&Members> {
        self.members.as_ref()
    }

    /// A membership is decided in every stream. The host says so before it trims the entry that made the change, so
    /// that a follower which must skip that entry can be told. Older memberships than the known one are ignored.
    pub fn know_members(&mut self, members: Members) {
        if self.members.as_ref().is_none_or(|known| known.epoch < members.epoch) {
            self.members = Some(members);
        }
    }

    /// Promises `ballot`: from now on nothing under a lower one is taken, and a lead of this node under a lower one ends.
    /// Returns where the log stands, for the answer to the candidate. Promising the same ballot again changes nothing.
    ///
    /// # Panics
    /// If a higher ballot was promised: a stream may be ahead of its node's [`Election`](crate::Election), so compare
    /// [`promised`](Stream::promised) first, and report it with [`met`](crate::Election::met).
    pub fn promise(&mut self, ballot: Ballot) -> Tail {
        assert!(ballot >= self.promised, "a promise is never taken back");
        if ballot > self.promised {
            self.promised = ballot;
            self.record_promise();
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

    /// The first entry that was held when this was asked last, and has been overruled by a new leader since: there is another one in its place, or none.
    /// Nothing that is known to be decided is; and what [`restart_after`](Stream::restart_after) skips is not told, for the state is another one then. Who executes entries before they are decided takes back what it executed from there on.
    #[inline]
    pub fn take_replaced(&mut self) -> Option<EntryIndex> {
        self.replaced.take()
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

    /// Somebody has promised `ballot`. If it is higher than what this stream promised, so does this stream. It need not
    /// wait for the other streams of its node: each stream is a consensus of its own, and a promise too many costs no
    /// safety.
    pub(super) fn promise_if_higher(&mut self, ballot: Ballot) {
        if ballot > self.promised {
            self.promise(ballot);
        }
    }

    pub(super) fn send(&mut self, to: NodeId, message: Message, entry: Bytes) {
        debug_assert_ne!(to, self.me.node, "a stream does not talk to itself");
        let early = !self.waits && matches!(message, Message::Accepted { .. });
        let waits = message.vouches() && !early && !planted!(AcknowledgedUnsynced);
        let after = if waits { self.changes_made() } else { 0 };
        self.out.push(Envelope { to, message, entry, after });
    }

    /// Replaces the log from `start` on by `entries`, and counts the whole log as accepted under the promised ballot.
    pub(super) fn adopt(&mut self, start: EntryIndex, entries: Vec<Bytes>) {
        let mut kept = 0;
        // Entries at or below `decided` stay as they are. The range may begin before `decided`; there it must agree with
        // them, or two values were decided for one index.
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
        let keep = EntryIndex(from.0 - 1);
        self.record_adoption(keep, entries[kept..].iter());
        self.note_replaced(from, &entries[kept..]);
        self.log.truncate(keep);
        for entry in entries.into_iter().skip(kept) {
            self.log.append(entry);
        }
        self.accepted = self.promised;
    }

    /// The log is about to go on with `entries` from `from` on: the first that it held there and that is another one then, or gone, for
    /// the new log may be shorter.
    fn note_replaced(&mut self, from: EntryIndex, entries: &[Bytes]) {
        let held = (from.0..=self.log.last().0).map(EntryIndex);
        let others = entries.iter().map(Some).chain(std::iter::repeat(None));
        let first = held.zip(others).find(|(index, other)| self.log.get(*index) != *other);
        if let Some((first, _)) = first {
            self.replaced = Some(self.replaced.map_or(first, |known| known.min(first)));
        }
    }

    /// The leader of the promised ballot says how far its log is decided. This log is a prefix of that one, so the same
    /// holds here, as far as this log goes.
    pub(super) fn learn_decided(&mut self, decided: EntryIndex) {
        assert!(self.accepted == self.promised, "only the leader's own log tells what is decided");
        self.decided = self.decided.max(decided.min(self.log.last()));
    }
}
