//! The acceptor's side: adopt, accept, learn what is decided, ask for what is missing.
//!
//! A follower's log is in one of two states. *Not adopted* (`accepted < promised`): it may differ from the leader's
//! beyond `decided`, so entries to append are of no use; the leader sends a range to adopt. *Adopted* (`accepted ==
//! promised`): it is a prefix of the leader's, so entries that follow its end are appended, and what the leader says is
//! decided is decided here. Everything that does not fit (a gap, a message for another state of the log) has one
//! answer: say where the log stands (`Pull`), and let the leader go on from there.

use bytes::Bytes;
use highwater_core::{Ballot, EntryIndex, planted};

use super::role::{Adopting, Role};
use super::state::Stream;
use crate::{Members, Message, Nanos, Voter};

/// Entries without transactions (claims about all streams, or a membership) are not longer than this.
const SMALL_BYTES: usize = 4 << 10;

/// A follower with a full backlog asks for the rest when half of it is installed. But the leader may need this very
/// vote before the mark can rise and anything more be installed: both would wait for each other. So once the leader has
/// asked so often, the follower takes as little as it has room for.
const FULL_ASKS: u32 = 8;

/// The fields of [`Message::Adopt`].
#[derive(Debug, Clone, Copy)]
pub(super) struct RangeEntry {
    pub(super) start: EntryIndex,
    pub(super) upto: EntryIndex,
    pub(super) index: EntryIndex,
    pub(super) decided: EntryIndex,
}

impl Stream {
    /// The leader of `ballot` is at work: from now on this stream asks it for what is missing.
    pub fn follow(&mut self, now: Nanos, ballot: Ballot) {
        self.promise_if_higher(ballot);
        if ballot < self.promised || ballot.node == self.me.node {
            return;
        }
        let adopted = self.accepted == self.promised;
        if let Role::Following(following) = &mut self.role
            && !following.leader_seen
        {
            following.leader_seen = true;
            // The leader knows this log's tail if our promise was among those that made it win, and then it starts by
            // itself. So the question waits for one retry: it is for the case that ours came too late.
            following.questioning |= !adopted;
            following.ask_at = now + self.options.retry;
        }
    }

    /// The first entry that the leader still holds, if this log needs an older one. No message brings that: the host
    /// has to copy the state of another replica, and then call [`restart_after`](Stream::restart_after).
    pub fn too_far(&self) -> Option<EntryIndex> {
        match &self.role {
            Role::Following(following) => following.too_far,
            _ => None,
        }
    }

    /// One entry of the range `start..=upto` that this log must adopt: the one at `index`.
    ///
    /// The entries are collected beside the log, and replace its end all at once when the last has come. Until then the
    /// log stays as it was promised, so that a later candidate, if this leader fails, finds in it whatever was decided.
    pub(super) fn on_adopt(&mut self, now: Nanos, ballot: Ballot, part: RangeEntry, entry: Bytes) {
        let RangeEntry { start, upto, index, decided } = part;
        if self.accepted == ballot {
            // Adopted already, so this log is a prefix of the leader's, and the entry is one to append like any other.
            return if start <= upto {
                self.on_accept(now, ballot, index, decided, entry)
            } else {
                self.on_decide(now, ballot, decided, upto, true)
            };
        }
        if start > self.log.last().next() || start < self.log.first() {
            // The range would leave a hole, or begin in what was trimmed: it was meant for another state of this log.
            return self.pull(now);
        }
        let retry_at = now + self.options.retry;
        let Role::Following(following) = &mut self.role else { return };
        following.leader_seen = true;
        following.too_far = None;
        // Under one ballot the leader's log up to `upto` never changes, so a range with the same start has the same
        // entries: what has come of it stays good even if the leader starts it again.
        let other_range = following.adopting.as_ref().is_none_or(|adopting| adopting.start != start);
        if other_range && index != start && start <= upto {
            return self.pull(now);
        }
        if other_range {
            following.adopting = None;
        }
        let adopting = following.adopting.get_or_insert_with(|| Adopting { start, entries: Vec::new() });
        if start <= upto && index > adopting.received().next() {
            return self.pull(now);
        }
        if start <= upto && index == adopting.received().next() {
            adopting.entries.push(entry);
            // A long range takes longer than one retry interval. While it grows, nothing is missing and nothing is asked.
            following.questioning = true;
            following.ask_at = retry_at;
        }
        let received = adopting.received();
        if received < upto && !planted!(HalfAdopted) {
            return self.acknowledge_part(ballot, received);
        }
        let entries = std::mem::take(&mut adopting.entries);
        following.adopting = None;
        self.adopt(start, entries);
        self.learn_decided(decided);
        self.acknowledge(ballot);
    }

    /// Tells the leader how far an incomplete range has come, so that it sends more. `index` is none: the range counts
    /// for nothing yet, and neither does the log, which was not accepted under this ballot.
    fn acknowledge_part(&mut self, ballot: Ballot, received: EntryIndex) {
        self.record_decided();
        let (index, decided) = (EntryIndex::NONE, self.told_decided());
        self.send(ballot.node, Message::Accepted { ballot, index, received, decided }, Bytes::new());
    }

    /// An entry to append at `index`.
    pub(super) fn on_accept(
        &mut self,
        now: Nanos,
        ballot: Ballot,
        index: EntryIndex,
        decided: EntryIndex,
        entry: Bytes,
    ) {
        let next = self.log.last().next();
        // What follows a refused entry is refused, too. It looks like a gap; but to pull now would bring all of it
        // again at once, though there is no room for it.
        let refused = matches!(&self.role, Role::Following(following) if following.full) && index > next;
        let refused = refused || index >= next && self.must_wait(&entry);
        if self.accepted != ballot || index > next && !planted!(GapIgnored) && !refused {
            return self.pull(now);
        }
        if refused {
            // The refusal is an ordinary acknowledgement: it says where the log ends. And what is decided may be
            // learned all the same, for the host installs decided entries, and that makes room.
            if let Role::Following(following) = &mut self.role {
                following.full = true;
            }
            self.learn_decided(decided);
            return self.acknowledge(ballot);
        }
        if index == next
            || index > next && planted!(GapIgnored)
            || index < next && planted!(DuplicateAppended)
        {
            self.append(entry);
        }
        self.learn_decided(decided);
        self.acknowledge(ballot);
    }

    /// Whether `entry` has to wait until more is installed. A small one may hold a change of epoch, or the claims that
    /// let the mark rise, without which the entries before it cannot be installed: it waits only beyond twice the
    /// bound.
    fn must_wait(&self, entry: &Bytes) -> bool {
        let most = if entry.len() > SMALL_BYTES { 1 } else { 2 } * self.options.backlog_bytes;
        self.backlog_bytes() > most
    }

    /// Something was installed: if entries had been refused and half of the backlog is gone, asks for them. Half, and not
    /// just room for one, so that they do not come one by one with a question each.
    pub(super) fn take_again_if_room(&mut self) -> bool {
        let room = self.backlog_bytes() <= self.options.backlog_bytes / 2;
        if let Role::Following(following) = &mut self.role
            && following.full
            && room
        {
            following.take_entries_again();
            return true;
        }
        false
    }

    /// The leader says how far the log is decided, and how far this follower was sent it.
    pub(super) fn on_decide(
        &mut self,
        now: Nanos,
        ballot: Ballot,
        decided: EntryIndex,
        last: EntryIndex,
        ask: bool,
    ) {
        if let Role::Following(following) = &mut self.role {
            following.leader_seen = true;
        }
        if self.accepted != ballot {
            return self.pull(now);
        }
        self.learn_decided(decided);
        let little_room = self.backlog_bytes() <= self.options.backlog_bytes;
        if let Role::Following(following) = &mut self.role
            && following.full
            && ask
            && little_room
        {
            following.asked_while_full += 1;
            if following.asked_while_full >= FULL_ASKS {
                following.take_entries_again();
            }
        }
        if self.log.last() < last && !matches!(&self.role, Role::Following(following) if following.full) {
            self.pull(now);
        } else if ask {
            self.acknowledge(ballot);
        }
    }

    /// The leader has dropped the entry that this log needs next, and holds entries from `first` on. Ignored if this
    /// log has come so far meanwhile, for then the message is an old one.
    pub(super) fn on_too_far(&mut self, first: EntryIndex, members: Option<Members>) {
        members.into_iter().for_each(|members| self.know_members(members));
        let shared = if self.accepted == self.promised { self.log.last() } else { self.decided };
        if let Role::Following(following) = &mut self.role
            && first > shared.next()
        {
            following.leader_seen = true;
            following.too_far = Some(first);
        }
    }

    /// Sends a part of this log to a new leader that adopts it. The promise has kept the log as it was when the leader
    /// heard of its tail, except that it may have been trimmed since: then there is no answer, the new leader asks
    /// another holder, and if none has the entries its host gives the takeover up.
    pub(super) fn on_fetch(&mut self, from: Voter, ballot: Ballot, first: EntryIndex, upto: EntryIndex) {
        let mut sent = 0;
        let mut index = first;
        while index <= upto.min(self.log.last()) {
            let Some(entry) = self.log.get(index).cloned() else { return };
            sent += entry.len() as u64;
            let paused = sent >= self.options.window_bytes;
            self.send(from.node, Message::Fetched { ballot, index, paused }, entry);
            if paused {
                return;
            }
            index = index.next();
        }
    }

    /// Tells the leader how far this log equals its own, after a message of its. That answers every question, so none is repeated.
    pub(super) fn acknowledge(&mut self, ballot: Ballot) {
        if let Role::Following(following) = &mut self.role {
            following.questioning = false;
        }
        self.tell_accepted(ballot);
    }

    /// The same at any time.
    pub(super) fn tell_accepted(&mut self, ballot: Ballot) {
        debug_assert_eq!(self.accepted, ballot);
        self.record_decided();
        let index = self.log.last();
        // One acknowledgement covers all before it: if the last message that waits to be sent is one, replace it.
        let message = Message::Accepted { ballot, index, received: index, decided: self.told_decided() };
        if let Some(waiting) = self.out.last()
            && waiting.to == ballot.node
            && matches!(waiting.message, Message::Accepted { ballot: b, .. } if b == ballot)
        {
            self.out.pop();
        }
        self.send(ballot.node, message, Bytes::new());
    }

    /// Asks the leader for what is missing: tells it where this log stands. At most once per retry interval, for what is
    /// still under way may be all that was missing.
    pub(super) fn pull(&mut self, now: Nanos) {
        let (promised, tail) = (self.promised, self.tail());
        let Role::Following(following) = &mut self.role else { return };
        let first_time = !following.questioning;
        following.questioning = true;
        if !first_time && now < following.ask_at {
            return;
        }
        following.ask_at = now + self.options.retry;
        let received = following.adopting.as_ref().map_or(EntryIndex::NONE, Adopting::received);
        if promised.node != self.me.node {
            self.record_decided();
            self.send(promised.node, Message::Pull { promised, tail, received }, Bytes::new());
        }
    }

    /// Repeats a question that went unanswered; and asks if nothing has come of the adoption that the leader owes this
    /// log.
    pub(super) fn tick_following(&mut self, now: Nanos) -> Option<Nanos> {
        let adopted = self.accepted == self.promised;
        let Role::Following(following) = &mut self.role else { return None };
        let waits = following.leader_seen && (following.questioning || !adopted);
        if !waits || self.promised.node == self.me.node {
            return None;
        }
        following.questioning = true;
        if now >= following.ask_at {
            self.pull(now);
        }
        match &self.role {
            Role::Following(following) => Some(following.ask_at),
            _ => None,
        }
    }
}
