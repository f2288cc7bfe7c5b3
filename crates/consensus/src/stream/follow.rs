//! The acceptor's side: adopt, accept, learn what is decided, ask for what is missing.

use bytes::Bytes;
use highwater_core::{Ballot, EntryIndex, planted};

use super::role::{Adopting, Role};
use super::state::Stream;
use crate::{Members, Message, Nanos, Voter};

/// Entries without transactions are not longer: claims about all streams, or a membership.
const SMALL_BYTES: usize = 4 << 10;

/// A follower with a full backlog asks for the rest when half is installed; or for what little it has room for, once its leader
/// asked so often. Then the leader may need this very vote before anything more can be installed.
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
    /// The leader of `ballot` is at work: from now on, ask it for what is missing.
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
            // The leader knows the tails that came with the promises and starts by itself; ask only if it doesn't.
            following.questioning |= !adopted;
            following.ask_at = now + self.options.retry;
        }
    }

    /// The first entry that the leader still keeps, if this log ends too far before it: copy the state.
    pub fn too_far(&self) -> Option<EntryIndex> {
        match &self.role {
            Role::Following(following) => following.too_far,
            _ => None,
        }
    }

    /// One part of the range `start..=upto` that this log must adopt: the entry at `index`.
    pub(super) fn on_adopt(&mut self, now: Nanos, ballot: Ballot, part: RangeEntry, entry: Bytes) {
        let RangeEntry { start, upto, index, decided } = part;
        if self.accepted == ballot {
            // Adopted already: the log is a prefix of the leader's, and the part an entry like any other.
            return if start <= upto {
                self.on_accept(now, ballot, index, decided, entry)
            } else {
                self.on_decide(now, ballot, decided, upto, true)
            };
        }
        if start > self.log.last().next() || start < self.log.first() {
            // Meant for another state of this log, or an old message.
            return self.pull(now);
        }
        let retry_at = now + self.options.retry;
        let Role::Following(following) = &mut self.role else { return };
        following.leader_seen = true;
        following.too_far = None;
        // Under one ballot there is one range for each start: what came of it before a question stays good.
        if following.adopting.as_ref().is_none_or(|adopting| adopting.start != start) {
            if index != start && start <= upto {
                return self.pull(now);
            }
            following.adopting = Some(Adopting { start, entries: Vec::new() });
        }
        let adopting = following.adopting.as_mut().expect("an adoption is under way");
        if start <= upto && index > adopting.received().next() {
            return self.pull(now);
        }
        if start <= upto && index == adopting.received().next() {
            adopting.entries.push(entry);
            // A long range takes longer than a retry: while it grows, nothing is missing.
            following.questioning = true;
            following.ask_at = retry_at;
        }
        let received = adopting.received();
        if received < upto && !planted!(HalfAdopted) {
            return self.acknowledge_part(ballot, received);
        }
        let adopting = following.adopting.take().expect("an adoption is under way");
        self.adopt(start, adopting.entries);
        self.learn_decided(decided);
        self.acknowledge(ballot);
    }

    /// Says how far a range has come that is not complete and so counts for nothing yet.
    fn acknowledge_part(&mut self, ballot: Ballot, received: EntryIndex) {
        let (index, decided) = (EntryIndex::NONE, self.decided);
        self.send(ballot.node, Message::Accepted { ballot, index, received, decided }, Bytes::new());
    }

    pub(super) fn on_accept(
        &mut self,
        now: Nanos,
        ballot: Ballot,
        index: EntryIndex,
        decided: EntryIndex,
        entry: Bytes,
    ) {
        let next = self.log.last().next();
        // What follows an entry that was refused is refused with it: to ask for it would bring all of it again, at once.
        let refused = matches!(&self.role, Role::Following(following) if following.full) && index > next;
        let refused = refused || index >= next && self.must_wait(&entry);
        if self.accepted != ballot || index > next && !planted!(GapIgnored) && !refused {
            return self.pull(now);
        }
        if refused {
            // Says where it stands, and what is decided it may learn: that makes room.
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
            self.log.append(entry);
        }
        self.learn_decided(decided);
        self.acknowledge(ballot);
    }

    /// Whether `entry` has to wait until more is installed. One that holds no more than a change of epoch, or claims, may
    /// be what makes the others installable: it waits only beyond twice the bound.
    fn must_wait(&self, entry: &Bytes) -> bool {
        let most = if entry.len() > SMALL_BYTES { 1 } else { 2 } * self.options.backlog_bytes;
        self.backlog_bytes() > most
    }

    /// There may be room again for what was not taken.
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

    /// The leader lacks the entry that follows what this log surely shares with it; unless that was long ago.
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

    /// Serves a new leader that adopts this log. The promise keeps the log as it was when its tail was reported, except
    /// that it may have been trimmed since: then there is no answer, and the takeover fails.
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

    fn acknowledge(&mut self, ballot: Ballot) {
        debug_assert_eq!(self.accepted, ballot);
        let index = self.log.last();
        if let Role::Following(following) = &mut self.role {
            following.questioning = false;
        }
        // One acknowledgement covers all before it: replace one that still waits to be sent.
        let message = Message::Accepted { ballot, index, received: index, decided: self.decided };
        if let Some(waiting) = self.out.last_mut()
            && waiting.to == ballot.node
            && matches!(waiting.message, Message::Accepted { ballot: b, .. } if b == ballot)
        {
            waiting.message = message;
        } else {
            self.send(ballot.node, message, Bytes::new());
        }
    }

    /// Asks the leader for what is missing, at most once per retry interval.
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
            self.send(promised.node, Message::Pull { promised, tail, received }, Bytes::new());
        }
    }

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
