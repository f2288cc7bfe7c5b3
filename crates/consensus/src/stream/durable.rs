//! What a stream must not forget if its node has a disk: the changes to be written, and what waits until they are.
//!
//! # The rule
//!
//! The word of an acceptor is worth what of it survives. So whatever vouches for this stream's state leaves its node only when
//! every change made before is on disk:
//!
//! | what | waits by |
//! |---|---|
//! | `Accepted` and `Pull`, which a leader counts as votes | [`Envelope::after`](super::Envelope::after) |
//! | the tail of a promise | the host, which compares [`Stream::changes_made`] with what is synced |
//! | the vote that a leader has itself | [`Stream::synced`]: until then its own log counts for nothing |
//! | that a leader itself knows what is decided, on which the next candidate relies | the same |
//!
//! With [`Durability::Async`] the first and the third wait for nothing, as a rule: what is accepted counts at once, and is on disk a little
//! later. A voter that comes back from a crash may have *forgotten* what it accepted last, and is no help to a candidate before it has
//! caught up ([`Election`](crate::Election)). The host keeps that short: while the disk is further behind than it should be, what is
//! accepted waits for it ([`Stream::wait_for_disk`]). All the rest is as in the table: a promise, and what is known to be decided, is said
//! when it is on disk.
//!
//! What a leader sends to its followers waits for nothing, so that its disk and theirs work at the same time. It vouches for no
//! more than the leader's ballot, and the promise of that was on disk before the candidate could win. If the leader crashes, its
//! followers may hold entries that its own disk does not: it comes back as a follower whose log is too short, and is sent them.
//!
//! # What is written
//!
//! A [`Change`](super::Change) for each change, in order; [`Recovered`](super::Recovered) applies them to an empty log and gives the state back, or an earlier one
//! if the last changes were not on disk: one that vouched for nothing that was said. An adoption takes effect as a whole, so its
//! change names how many entries belong to it, and without all of them it never happened.

use bytes::Bytes;
use highwater_core::{Durability, EntryIndex, Nanos, planted};

use super::change::{Change, Recovered, RecoveryPoint};
use super::role::Role;
use super::state::{Stream, StreamOptions};
use crate::Voter;

/// What is decided is written down so long after, if nothing else is written.
const DECIDED_AFTER: Nanos = 100_000_000;

impl Stream {
    /// The stream as a crash left it, on the same disk: the same voter. It follows; `options` must be durable.
    pub fn recover(me: Voter, recovered: Recovered, options: StreamOptions) -> Stream {
        assert!(options.durability.has_disk(), "what comes from a disk goes on to one");
        let base = EntryIndex(recovered.log.first().0 - 1);
        let mut stream = Stream::new(me, base, options);
        stream.promised = recovered.promised;
        stream.accepted = recovered.accepted;
        stream.decided = recovered.decided.max(base);
        stream.log = recovered.log;
        if let Some(durable) = &mut stream.durable {
            durable.decided = ((0, stream.decided), stream.decided);
        }
        stream
    }

    /// The changes made since the last call, in order: to be written, in this order.
    ///
    /// What is known to be decided is written along with them. After a crash a leader would have to be sent anew, as what may have been
    /// overruled, all that it does not know to be decided; and a backup of anybody's disk holds what that disk says is decided.
    pub fn take_changes(&mut self) -> Vec<Change> {
        if self.durable.as_ref().is_some_and(|durable| !durable.changes.is_empty()) {
            self.record_decided();
        }
        self.durable.as_mut().map(|durable| std::mem::take(&mut durable.changes)).unwrap_or_default()
    }

    /// The state that all changes made so far lead to, without the entries.
    pub fn recovery_point(&self) -> RecoveryPoint {
        RecoveryPoint { promised: self.promised, accepted: self.accepted, last: self.log.last() }
    }

    /// How many changes this life has made: what vouches for the present state waits until so many are on disk. 0 without a disk.
    pub fn changes_made(&self) -> u64 {
        self.durable.as_ref().map_or(0, |durable| durable.made)
    }

    /// So many changes of this life are on disk. A leader's own vote counts as far as they go.
    pub fn synced(&mut self, changes: u64) {
        let Some(durable) = &mut self.durable else { return };
        assert!(changes <= durable.made, "what is on disk was made");
        durable.synced = durable.synced.max(changes);
        let synced = durable.synced;
        while let Some((_, end)) = durable.ends.pop_front_if(|(after, _)| *after <= synced) {
            durable.vote = end;
        }
        if durable.decided.0.0 <= synced {
            durable.decided.1 = durable.decided.0.1;
        }
        match &self.role {
            Role::Leading(_) => self.count_acks(),
            Role::Following(_) => self.tell_what_is_known_by_now(),
            Role::Fetching(_) => {}
        }
    }

    /// Whether what is accepted counts only once it is on a disk.
    #[inline]
    pub fn waits_for_disk(&self) -> bool {
        self.waits && self.durable.is_some()
    }

    /// The disk is too far behind, with [`Durability::Async`]: until it is not, what is accepted counts once it is on disk.
    pub fn wait_for_disk(&mut self, waits: bool) {
        if self.options.durability != Durability::Async {
            return;
        }
        // What a follower has not said yet leaves when it is on disk.
        let waited = std::mem::replace(&mut self.waits, waits);
        if waited && !waits && matches!(self.role, Role::Leading(_)) {
            self.count_acks();
        }
    }

    /// A leader that opens an epoch waits until a quorum knows that all is decided. If nothing more comes, what was acknowledged before
    /// that was on disk is said once more.
    fn tell_what_is_known_by_now(&mut self) {
        let (all, ballot) = (self.log.last(), self.promised);
        let leader_known = matches!(&self.role, Role::Following(following) if following.leader_seen);
        let Some(durable) = &mut self.durable else { return };
        if durable.owes_word && durable.decided.1 == all && leader_known && self.accepted == ballot {
            durable.owes_word = false;
            self.tell_accepted(ballot);
        }
    }

    /// What this node tells others to know to be decided: what it will know after a crash, if it does not wait until it does.
    pub(super) fn told_decided(&mut self) -> EntryIndex {
        let (decided, surely, waits) = (self.decided, self.surely_known_decided(), self.waits);
        match &mut self.durable {
            Some(durable) if !waits => {
                durable.owes_word = surely < decided;
                surely
            }
            _ => decided,
        }
    }

    /// How far this node's own log counts as its vote, while it leads.
    pub(super) fn own_vote(&self) -> EntryIndex {
        let on_disk = self.durable.as_ref().filter(|_| self.waits && !planted!(VoteUnsynced));
        on_disk.map_or(self.log.last(), |durable| durable.vote)
    }

    /// What this node will know to be decided after a crash.
    pub(super) fn surely_known_decided(&self) -> EntryIndex {
        self.durable.as_ref().map_or(self.decided, |durable| durable.decided.1)
    }

    /// Up to where a log may go on behind entries that it lacks. A leader tells others to begin behind what it dropped
    /// ([`Message::TooFar`](crate::Message::TooFar)), and they will say that this is decided: so its disk has to know it. A follower's
    /// was asked before it led, for its promise waited for all that it had.
    pub(super) fn may_be_gone(&self) -> EntryIndex {
        if matches!(self.role, Role::Leading(_)) { self.surely_known_decided() } else { self.decided }
    }

    /// A ballot was promised.
    pub(super) fn record_promise(&mut self) {
        if let Some(durable) = &mut self.durable {
            durable.record(Change::Promised(self.promised));
        }
    }

    /// The log behind `keep` is about to be replaced by `entries`, and the whole accepted under the promised ballot.
    pub(super) fn record_adoption<'a>(
        &mut self,
        keep: EntryIndex,
        entries: impl ExactSizeIterator<Item = &'a Bytes>,
    ) {
        let Some(durable) = &mut self.durable else { return };
        durable.record(Change::Adopted { keep, entries: entries.len() as u64 });
        let end = EntryIndex(keep.0 + entries.len() as u64);
        entries.for_each(|entry| durable.record(Change::Appended(entry.clone())));
        // An earlier ballot's vote says nothing under this one.
        durable.vote = EntryIndex::NONE;
        durable.ends.clear();
        durable.ends.push_back((durable.made, end));
    }

    /// An entry is appended to the log: where everything that a leader proposes or a follower accepts goes through.
    pub(super) fn append(&mut self, entry: Bytes) {
        if let Some(durable) = &mut self.durable {
            durable.record(Change::Appended(entry.clone()));
            durable.ends.push_back((durable.made, self.log.last().next()));
        }
        self.log.append(entry);
    }

    /// This node is about to say what it knows to be decided, or to rely on it, and must know it after a crash.
    pub fn record_decided(&mut self) {
        let decided = self.decided;
        if let Some(durable) = &mut self.durable
            && durable.decided.0.1 < decided
        {
            durable.record(Change::Decided(decided));
            durable.decided.0 = (durable.made, decided);
            durable.unwritten_since = None;
        }
    }

    /// Has what is decided written down though nothing else is: a backup of this disk reaches as far as the disk knows.
    pub(super) fn tick_durable(&mut self, now: Nanos) -> Option<Nanos> {
        let (decided, durable) = (self.decided, self.durable.as_mut()?);
        if durable.decided.0.1 >= decided {
            return None;
        }
        let at = *durable.unwritten_since.get_or_insert(now) + DECIDED_AFTER;
        if now < at {
            return Some(at);
        }
        self.record_decided();
        None
    }

    /// A copied state takes the place of everything up to `base`.
    pub(super) fn record_restart(&mut self, base: EntryIndex) {
        if let Some(durable) = &mut self.durable {
            durable.record(Change::Restarted(base));
            durable.decided.0 = (durable.made, base);
        }
    }
}
