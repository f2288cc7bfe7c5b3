//! The proposer's side: collect the best log, have everyone adopt it, append, count acknowledgements.

use std::collections::BTreeMap;

use bytes::Bytes;
use highwater_core::{Ballot, EntryIndex, NodeId};

use super::{Plan, Role, Stream, Tail};
use crate::{Members, Message, Nanos, Quorums, Voter};

/// A new leader that lacks a part of the log it must adopt.
#[derive(Debug)]
pub(super) struct Fetching {
    plan: Plan,
    holder: NodeId,
    best: Tail,
    start: EntryIndex,
    entries: Vec<Bytes>,
    ask_at: Nanos,
}

/// A leader.
#[derive(Debug)]
pub(super) struct Leading {
    quorums: Quorums,
    /// Every node that is replicated to, voter or not.
    peers: BTreeMap<NodeId, Peer>,
    /// The ballot of the log that was adopted at the takeover, and where that log ended: a peer's log accepted under it
    /// agrees with ours up to the shorter of the two.
    adopted: (Ballot, EntryIndex),
    /// What the followers were last told.
    told_decided: EntryIndex,
    ask_at: Nanos,
}

/// A follower as its leader sees it.
#[derive(Debug)]
struct Peer {
    voter: Voter,
    /// Its log equals ours up to here, under our ballot.
    acked: EntryIndex,
    /// It received up to here (paces us).
    received: EntryIndex,
    /// Next to send; `None` until its tail is known.
    next: Option<EntryIndex>,
    /// The range it has to adopt; done once acknowledged.
    adopting: Option<(EntryIndex, EntryIndex)>,
}

impl Leading {
    /// Frames to `peer` may have been lost: wait until it says where it stands.
    pub(super) fn forget(&mut self, voter: Voter) {
        match self.peers.get_mut(&voter.node) {
            Some(peer) if peer.voter == voter => peer.next = None,
            _ => {
                self.peers.insert(voter.node, Peer::unknown(voter));
            }
        }
    }
}

impl Leading {
    /// Nothing reaches `node` for now.
    pub(super) fn pause(&mut self, node: NodeId) {
        if let Some(peer) = self.peers.get_mut(&node) {
            peer.next = None;
        }
    }
}

impl Peer {
    fn unknown(voter: Voter) -> Peer {
        let none = EntryIndex::NONE;
        Peer { voter, acked: none, received: none, next: None, adopting: None }
    }
}

impl Stream {
    /// Starts to lead under a ballot that a quorum promised. Fetches what this log lacks of the best one; until then
    /// [`is_leading`](Stream::is_leading) stays false.
    ///
    /// Returns `false` if the best log cannot be had: this log ends before the first entry that its holder keeps.
    pub fn take_over(&mut self, now: Nanos, plan: Plan) -> bool {
        assert_eq!(plan.ballot, self.promised, "a takeover follows the own promise");
        assert_eq!(plan.ballot.node, self.me.node, "only the owner of a ballot leads under it");
        assert!(
            plan.quorums.reached(|voter| plan.tails.contains_key(&voter)),
            "a takeover needs a quorum of promises"
        );
        let (holder, best) = plan
            .tails
            .iter()
            .map(|(voter, tail)| (voter.node, *tail))
            .max_by_key(|(node, tail)| (tail.rank(), *node == self.me.node))
            .expect("a quorum has tails");
        let own = self.tail();
        if own.rank() == best.rank() {
            self.lead(now, plan, best);
            return true;
        }
        // Logs accepted under one ballot are prefixes of one another; else only what is decided surely agrees.
        let start = if own.accepted == best.accepted { own.last } else { own.decided }.next();
        if start < best.first {
            return false;
        }
        self.role = Role::Fetching(Fetching { plan, holder, best, start, entries: Vec::new(), ask_at: now });
        self.tick_fetching(now);
        true
    }

    pub(super) fn tick_fetching(&mut self, now: Nanos) -> Option<Nanos> {
        let Role::Fetching(fetching) = &mut self.role else { return None };
        if fetching.start > fetching.best.last {
            self.finish_fetching(now);
            return self.tick(now);
        }
        if now >= fetching.ask_at {
            fetching.ask_at = now + self.options.retry;
            let from = EntryIndex(fetching.start.0 + fetching.entries.len() as u64);
            let message = Message::Fetch { ballot: fetching.plan.ballot, from, upto: fetching.best.last };
            let holder = fetching.holder;
            self.send(holder, message, Bytes::new());
        }
        match &self.role {
            Role::Fetching(fetching) => Some(fetching.ask_at),
            _ => None,
        }
    }

    pub(super) fn on_fetched(
        &mut self,
        now: Nanos,
        ballot: Ballot,
        index: EntryIndex,
        paused: bool,
        entry: Bytes,
    ) {
        let Role::Fetching(fetching) = &mut self.role else { return };
        let expected = EntryIndex(fetching.start.0 + fetching.entries.len() as u64);
        if fetching.plan.ballot != ballot || index != expected {
            return;
        }
        fetching.entries.push(entry);
        fetching.ask_at = if paused { now } else { now + self.options.retry };
        if index == fetching.best.last {
            self.finish_fetching(now);
        } else if paused {
            self.tick_fetching(now);
        }
    }

    fn finish_fetching(&mut self, now: Nanos) {
        let following = Role::Following(Default::default());
        let Role::Fetching(fetching) = std::mem::replace(&mut self.role, following) else {
            unreachable!("called while fetching");
        };
        self.adopt(fetching.start, fetching.entries);
        assert_eq!(self.log.last(), fetching.best.last, "the adopted log is the best one");
        self.lead(now, fetching.plan, fetching.best);
    }

    /// The own log is the best one: leads with it.
    fn lead(&mut self, now: Nanos, plan: Plan, best: Tail) {
        self.accepted = self.promised;
        // The leader of a ballot may have known more to be decided than the own log did.
        let known = plan.tails.values().map(|tail| tail.decided).max().unwrap_or_default();
        self.decided = self.decided.max(known.min(self.log.last()));
        let voters = plan.quorums.voters();
        let mut peers = BTreeMap::new();
        for voter in voters.into_iter().filter(|voter| voter.node != self.me.node) {
            // Of two lives of one node (a joint quorum names both) the one that promised is alive.
            let alive = plan.tails.contains_key(&voter) || !peers.contains_key(&voter.node);
            if alive {
                peers.insert(voter.node, Peer::unknown(voter));
            }
        }
        self.role = Role::Leading(Leading {
            quorums: plan.quorums,
            peers,
            adopted: (best.accepted, best.last),
            told_decided: EntryIndex::NONE,
            ask_at: now + self.options.retry,
        });
        for (voter, tail) in plan.tails {
            if voter.node != self.me.node {
                self.start_peer(voter, tail);
            }
        }
        self.count();
    }

    /// From now on `members` alone decide: the change to them is decided in every stream.
    pub fn settle(&mut self, members: Members) {
        if let Role::Leading(leading) = &mut self.role {
            leading.quorums = Quorums::of(members);
            self.count();
        }
    }

    /// Index of the next entry to propose.
    #[inline]
    pub fn next_index(&self) -> EntryIndex {
        self.log.last().next()
    }

    /// Appends an entry and sends it to every follower that keeps up.
    ///
    /// # Panics
    /// If this node does not lead.
    pub fn propose(&mut self, entry: Bytes) -> EntryIndex {
        assert!(matches!(self.role, Role::Leading(_)), "only a leader proposes");
        self.log.append(entry);
        let nodes: Vec<NodeId> = self.peer_nodes();
        for node in nodes {
            self.pump(node);
        }
        let decided = self.decided;
        if let Role::Leading(leading) = &mut self.role {
            leading.told_decided = leading.told_decided.max(decided);
        }
        if self.me_alone() {
            self.count();
        }
        self.log.last()
    }

    /// Entries proposed and not decided.
    #[inline]
    pub fn undecided(&self) -> u64 {
        self.log.last().0 - self.decided.0
    }

    /// Bytes of the entries proposed and not decided.
    #[inline]
    pub fn undecided_bytes(&self) -> u64 {
        self.log.bytes_between(self.decided.next(), self.log.last())
    }

    /// Per peer: how many entries it has not acknowledged. Empty unless leading.
    pub fn lags(&self) -> Vec<(Voter, u64)> {
        let Role::Leading(leading) = &self.role else { return Vec::new() };
        let last = self.log.last().0;
        leading.peers.values().map(|peer| (peer.voter, last.saturating_sub(peer.acked.0))).collect()
    }

    /// Tells the followers what is decided, if they were told less. To be called when no entry is about to tell them.
    pub fn announce_decided(&mut self) {
        let (ballot, decided, last) = (self.promised, self.decided, self.log.last());
        let Role::Leading(leading) = &mut self.role else { return };
        if leading.told_decided >= decided {
            return;
        }
        leading.told_decided = decided;
        for (node, _) in leading.peers.iter().filter(|(_, peer)| peer.next.is_some()) {
            let message = Message::Decide { ballot, decided, last, ask: false };
            self.out.push(super::Envelope { to: *node, message, entry: Bytes::new() });
        }
    }

    pub(super) fn on_accepted(
        &mut self,
        now: Nanos,
        from: Voter,
        ballot: Ballot,
        index: EntryIndex,
        received: EntryIndex,
    ) {
        let (promised, last) = (self.promised, self.log.last());
        let Role::Leading(leading) = &mut self.role else { return };
        let Some(peer) = leading.peers.get_mut(&from.node) else { return };
        if ballot != promised || peer.voter != from || peer.next.is_none() {
            return;
        }
        assert!(index <= last, "nobody accepts what was not proposed");
        peer.received = peer.received.max(received);
        if let Some((_, upto)) = peer.adopting
            && index >= upto
        {
            peer.adopting = None;
        }
        let grew = index > peer.acked;
        peer.acked = peer.acked.max(index);
        leading.ask_at = now + self.options.retry;
        if grew {
            self.count();
        }
        self.pump(from.node);
    }

    pub(super) fn on_pull(&mut self, now: Nanos, from: Voter, promised: Ballot, tail: Tail) {
        if promised > self.promised {
            return self.raise(promised);
        }
        let _ = now;
        self.start_peer(from, tail);
    }

    /// Sends to a peer whose log stands at `tail`, from the point where it surely agrees with ours.
    fn start_peer(&mut self, voter: Voter, tail: Tail) {
        let (ballot, first, last) = (self.promised, self.log.first(), self.log.last());
        let Role::Leading(leading) = &mut self.role else { return };
        let (adopted, adopted_last) = leading.adopted;
        let known = leading.peers.entry(voter.node).or_insert_with(|| Peer::unknown(voter));
        if known.voter != voter {
            *known = Peer::unknown(voter);
        }
        let agreed = if tail.accepted == ballot {
            tail.last
        } else if tail.accepted == adopted {
            tail.last.min(adopted_last).max(tail.decided)
        } else {
            tail.decided
        };
        let start = agreed.next();
        if start < first {
            known.next = None;
            return self.send(voter.node, Message::TooFar { ballot, first }, Bytes::new());
        }
        assert!(agreed <= last, "what a peer surely shares with us, we have");
        known.next = Some(start);
        known.received = agreed;
        known.adopting = None;
        if tail.accepted == ballot {
            known.acked = known.acked.max(tail.last);
            self.count();
        } else {
            known.adopting = Some((start, last));
            if start > last {
                let decided = self.decided;
                let message = Message::Adopt { ballot, start, upto: last, index: last, decided };
                self.send(voter.node, message, Bytes::new());
            }
        }
        self.pump(voter.node);
    }

    /// Sends what a peer lacks, as far as its window allows.
    fn pump(&mut self, node: NodeId) {
        let (ballot, decided, window) = (self.promised, self.decided, self.options.window_bytes);
        let Role::Leading(leading) = &mut self.role else { return };
        let Some(peer) = leading.peers.get_mut(&node) else { return };
        while let Some(index) = peer.next {
            let Some(entry) = self.log.get(index).cloned() else {
                if index <= self.log.last() {
                    // Trimmed under a slow peer: it hears so when it pulls next.
                    peer.next = None;
                    let message = Message::TooFar { ballot, first: self.log.first() };
                    self.out.push(super::Envelope { to: node, message, entry: Bytes::new() });
                }
                return;
            };
            let in_flight = self.log.bytes_between(peer.received.next(), index);
            if in_flight > window && peer.received.next() < index {
                return;
            }
            peer.next = Some(index.next());
            let message = match peer.adopting {
                Some((start, upto)) if index <= upto => {
                    Message::Adopt { ballot, start, upto, index, decided }
                }
                _ => Message::Accept { ballot, index, decided },
            };
            self.out.push(super::Envelope { to: node, message, entry });
        }
    }

    /// Raises `decided` to what a quorum holds under this ballot.
    fn count(&mut self) {
        let last = self.log.last();
        let (me, before) = (self.me, self.decided);
        let Role::Leading(leading) = &mut self.role else { return };
        let reached = leading.quorums.largest_reached(|voter| {
            if voter == me {
                return last.0;
            }
            leading.peers.get(&voter.node).filter(|peer| peer.voter == voter).map_or(0, |peer| peer.acked.0)
        });
        self.decided = before.max(EntryIndex(reached));
    }

    pub(super) fn tick_leading(&mut self, now: Nanos) -> Option<Nanos> {
        let (ballot, decided, last) = (self.promised, self.decided, self.log.last());
        let Role::Leading(leading) = &mut self.role else { return None };
        let behind = |peer: &Peer| peer.next.is_some() && peer.acked < last;
        if !leading.peers.values().any(behind) {
            leading.ask_at = now + self.options.retry;
            return None;
        }
        if now >= leading.ask_at {
            leading.ask_at = now + self.options.retry;
            for (node, _) in leading.peers.iter().filter(|(_, peer)| behind(peer)) {
                let message = Message::Decide { ballot, decided, last, ask: true };
                self.out.push(super::Envelope { to: *node, message, entry: Bytes::new() });
            }
        }
        Some(leading.ask_at)
    }

    fn peer_nodes(&self) -> Vec<NodeId> {
        match &self.role {
            Role::Leading(leading) => leading.peers.keys().copied().collect(),
            _ => Vec::new(),
        }
    }

    fn me_alone(&self) -> bool {
        matches!(&self.role, Role::Leading(leading) if leading.peers.is_empty())
    }
}
