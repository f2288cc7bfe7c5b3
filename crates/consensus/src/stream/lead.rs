//! The proposer's side: have everyone adopt the own log, append, count acknowledgements.
//!
//! Each follower is led on its own ([`Peer`]): from the point where its log surely agrees with ours it is sent
//! everything, in order and without waiting for answers, up to a window of bytes. Answers do three things: they move
//! the window, they are votes (`acked`), and they say what the follower knows to be decided. A follower that misses
//! something says so (`Pull`) and is started again from where it stands; the leader itself asks only one that owes an
//! answer for too long.

use bytes::Bytes;
use highwater_core::{Ballot, EntryIndex, NodeId};

use super::role::{Peer, Role, Sending};
use super::state::{Envelope, Stream};
use crate::{Members, Message, Nanos, Quorums, Tail, Voter};

/// The fields of [`Message::Accepted`].
#[derive(Debug, Clone, Copy)]
pub(super) struct Ack {
    pub(super) index: EntryIndex,
    pub(super) received: EntryIndex,
    pub(super) decided: EntryIndex,
}

impl Stream {
    /// From now on `members` alone decide. Until then a majority of their predecessors had to agree, too.
    ///
    /// To be called once the change to `members` is decided in *every* stream: from then on every candidate learns of the
    /// new members, and none can win without a majority of them.
    pub fn end_joint_quorum(&mut self, members: Members) {
        if let Role::Leading(leading) = &mut self.role {
            leading.quorums = Quorums::of(members);
            leading.alone = leading.quorums.reached(|voter| voter == self.me);
            self.count_acks();
        }
    }

    /// Index of the next entry to propose.
    #[inline]
    pub fn next_index(&self) -> EntryIndex {
        self.log.last().next()
    }

    /// Appends an entry and sends it to every follower whose window is not full. Returns its index.
    ///
    /// # Panics
    /// If this node does not lead.
    pub fn propose(&mut self, entry: Bytes) -> EntryIndex {
        assert!(matches!(self.role, Role::Leading(_)), "only a leader proposes");
        self.append(entry);
        for node in self.peer_nodes() {
            self.pump(node);
        }
        let decided = self.decided;
        if let Role::Leading(leading) = &mut self.role {
            leading.told_decided = leading.told_decided.max(decided);
            if leading.alone {
                self.count_acks();
            }
        }
        self.log.last()
    }

    /// How many entries were proposed and are not decided.
    #[inline]
    pub fn undecided(&self) -> u64 {
        self.log.last().0 - self.decided.0
    }

    /// Bytes of the entries proposed and not decided.
    #[inline]
    pub fn undecided_bytes(&self) -> u64 {
        self.log.bytes_between(self.decided.next(), self.log.last())
    }

    /// For each follower how many entries it has not acknowledged. Empty unless this node leads.
    pub fn lags(&self) -> Vec<(Voter, u64)> {
        let Role::Leading(leading) = &self.role else { return Vec::new() };
        let last = self.log.last().0;
        leading.peers.values().map(|peer| (peer.voter, last.saturating_sub(peer.acked.0))).collect()
    }

    /// The same, all peers together.
    pub fn lag(&self) -> u64 {
        let Role::Leading(leading) = &self.role else { return 0 };
        let last = self.log.last().0;
        leading.peers.values().map(|peer| last.saturating_sub(peer.acked.0)).sum()
    }

    /// Whether followers were told less than what is decided.
    #[inline]
    pub fn owes_announcement(&self) -> bool {
        matches!(&self.role, Role::Leading(leading) if leading.told_decided < self.decided)
    }

    /// Tells the followers what is decided, if they were told less. Every entry tells it along the way; the host calls
    /// this when it is not about to propose one, or followers would learn of the last entries only with the next ones.
    pub fn announce_decided(&mut self) {
        if !self.owes_announcement() {
            return;
        }
        let Role::Leading(leading) = &mut self.role else { return };
        leading.told_decided = self.decided;
        let reachable = leading.peers.iter().filter(|(_, peer)| peer.sending != Sending::Waiting);
        for node in reachable.map(|(node, _)| *node).collect::<Vec<_>>() {
            self.tell(node, false);
        }
    }

    /// Whether a quorum knows that everything proposed is decided. If not, tells all followers, and asks them to answer.
    ///
    /// A host that opens an epoch waits for this: then any majority of the members reveals to the next candidate that the
    /// change of epoch is decided.
    pub fn all_is_known_to_a_quorum(&mut self) -> bool {
        let (me, decided, last) = (self.me, self.decided, self.log.last());
        if decided < last || !matches!(self.role, Role::Leading(_)) {
            return false;
        }
        self.record_decided();
        let own = self.surely_known_decided();
        let Role::Leading(leading) = &mut self.role else { return false };
        let knows = |voter: Voter| {
            voter == me && own >= last
                || leading
                    .peers
                    .get(&voter.node)
                    .is_some_and(|peer| peer.voter == voter && peer.decided >= last)
        };
        let known = leading.quorums.reached(knows);
        if !known && leading.told_decided < decided {
            leading.told_decided = decided;
            for node in leading.peers.keys().copied().collect::<Vec<_>>() {
                self.tell(node, true);
            }
        }
        known
    }

    /// Where nobody listens, this node is all that there are: what it surely knows to be decided, all know. Who comes later copies the state.
    pub(super) fn know_alone(&mut self) {
        if let Role::Leading(leading) = &self.role
            && leading.peers.is_empty()
        {
            self.known_by_all = self.known_by_all.max(self.surely_known_decided());
        }
    }

    /// A follower's acknowledgement.
    pub(super) fn on_accepted(&mut self, now: Nanos, from: Voter, ballot: Ballot, ack: Ack) {
        let (promised, last) = (self.promised, self.log.last());
        let own_known = self.surely_known_decided();
        let Role::Leading(leading) = &mut self.role else { return };
        let Some(peer) = leading.peers.get_mut(&from.node) else { return };
        // A log that is longer than its leader's goes on behind a copied state that knows more than we do. So somebody
        // else leads by now, and this node has yet to hear of it.
        if ballot != promised || peer.voter != from || ack.index > last {
            return;
        }
        peer.received = peer.received.max(ack.received);
        peer.decided = peer.decided.max(ack.decided);
        peer.adopting = peer.adopting.filter(|(_, upto)| ack.index < *upto);
        let grew = ack.index > peer.acked;
        peer.acked = peer.acked.max(ack.index);
        peer.ask_at = Some(now + self.options.retry);
        if peer.sending == Sending::Waiting && peer.adopting.is_none() && ack.index > EntryIndex::NONE {
            // It is waiting to be asked where it stands: its `Pull` was lost, and since it heard from us again it asks no
            // more. This acknowledgement says where it stands just as well.
            peer.sending = Sending::From(ack.index.next());
        }
        let known = leading.peers.values().map(|peer| peer.decided).min().unwrap_or_default();
        self.known_by_all = self.known_by_all.max(known.min(own_known));
        if grew {
            self.count_acks();
        }
        self.pump(from.node);
    }

    /// A follower says where its log stands, and wants what it lacks.
    pub(super) fn on_pull(&mut self, from: Voter, promised: Ballot, tail: Tail, received: EntryIndex) {
        if promised > self.promised {
            return self.promise_if_higher(promised);
        }
        if !matches!(self.role, Role::Leading(_)) {
            return;
        }
        let waiting = self.out.len();
        // Before the follower promised our ballot another leader may have changed its log again, so its tail says
        // nothing. Our answer makes it promise ours, and it asks again.
        if promised == self.promised {
            self.start_peer(from, tail, received);
        }
        // A question gets an answer even if there is nothing to send, or the follower would ask for ever.
        if self.out.len() == waiting {
            self.tell(from.node, true);
        }
    }

    /// Tells `node` what is decided, and where its log ends if nothing was lost. With `ask` it answers even if it misses
    /// nothing, otherwise only if it does.
    fn tell(&mut self, node: NodeId, ask: bool) {
        let (ballot, decided, last) = (self.promised, self.decided, self.log.last());
        let Role::Leading(leading) = &self.role else { return };
        let last = leading.peers.get(&node).map_or(last, |peer| peer.sent(last));
        let known_by_all = self.known_by_all;
        self.send(node, Message::Decide { ballot, decided, last, known_by_all, ask }, Bytes::new());
    }

    /// Starts to send to a peer from the point up to which its log surely agrees with ours. `tail` is where its log stood
    /// after it had promised our ballot, so that nobody but us has changed it since; `received` is how far the range that
    /// it has to adopt has come already.
    pub(super) fn start_peer(&mut self, voter: Voter, tail: Tail, received: EntryIndex) {
        let (ballot, first, last) = (self.promised, self.log.first(), self.log.last());
        let Role::Leading(leading) = &mut self.role else { return };
        let (_, adopted_last) = leading.adopted;
        let agreed = leading.agrees_up_to(ballot, tail);
        if agreed > last {
            // It copied a state that knows more to be decided than we hold. So somebody else leads by now.
            return;
        }
        let peer = leading.peers.entry(voter.node).or_insert_with(|| Peer::unknown(voter));
        if peer.voter != voter {
            *peer = Peer::unknown(voter);
        }
        let start = agreed.next();
        peer.received = agreed;
        peer.decided = peer.decided.max(tail.decided);
        peer.adopting = None;
        if start < first {
            peer.sending = Sending::TooFar;
            let gone = self.what_is_gone();
            return self.send(voter.node, gone, Bytes::new());
        }
        peer.sending = Sending::From(start);
        if tail.accepted == ballot {
            peer.acked = peer.acked.max(tail.last);
            self.count_acks();
        } else {
            // The range ends where the log ended that was taken over. Entries proposed since are appended afterwards;
            // if they were part of the range, its end would move away from a slow follower, whose vote would never
            // count.
            let upto = adopted_last.max(agreed);
            peer.adopting = Some((start, upto));
            if received < upto {
                peer.received = agreed.max(received);
                peer.sending = Sending::From(peer.received.next());
            }
            if start > upto {
                let decided = self.decided;
                let message = Message::Adopt { ballot, start, upto, index: upto, decided };
                self.send(voter.node, message, Bytes::new());
            }
        }
        self.pump(voter.node);
    }

    /// Where this log begins: a peer that needs more will begin its own behind that, and say that it is decided.
    fn what_is_gone(&self) -> Message {
        let first = self.log.first();
        assert!(first <= self.surely_known_decided().next(), "what a leader drops is on its disk");
        Message::TooFar { ballot: self.promised, first, members: self.members.clone() }
    }

    /// Sends a peer what it lacks, as far as its window allows; at least one entry if it has received everything sent.
    fn pump(&mut self, node: NodeId) {
        let (ballot, decided, known_by_all) = (self.promised, self.decided, self.known_by_all);
        let window = self.options.window_bytes;
        let Role::Leading(leading) = &mut self.role else { return };
        let Some(peer) = leading.peers.get_mut(&node) else { return };
        while let Sending::From(index) = peer.sending {
            let Some(entry) = self.log.get(index).cloned() else {
                if index <= self.log.last() {
                    // The entry was trimmed while the window of this slow peer was full.
                    peer.sending = Sending::TooFar;
                    let message = self.what_is_gone();
                    self.out.push(Envelope { to: node, message, entry: Bytes::new(), after: 0 });
                }
                return;
            };
            // What it has not received may be trimmed: then nobody knows any more how much that is, and it was a window's worth before.
            let next = peer.received.next();
            let is_full = next < self.log.first() || self.log.bytes_between(next, index) > window;
            if is_full && next < index {
                return;
            }
            peer.sending = Sending::From(index.next());
            let message = match peer.adopting {
                Some((start, upto)) if index <= upto => {
                    Message::Adopt { ballot, start, upto, index, decided }
                }
                _ => Message::Accept { ballot, index, decided, known_by_all },
            };
            self.out.push(Envelope { to: node, message, entry, after: 0 });
        }
    }

    /// Raises `decided` to what every quorum holds under this ballot; this node's own log is its vote, as far as it is on disk if
    /// there is one.
    pub(super) fn count_acks(&mut self) {
        let own = self.own_vote();
        let (me, before) = (self.me, self.decided);
        let Role::Leading(leading) = &mut self.role else { return };
        let reached = leading.quorums.largest_reached(|voter| {
            if voter == me {
                return own.0;
            }
            leading.peers.get(&voter.node).filter(|peer| peer.voter == voter).map_or(0, |peer| peer.acked.0)
        });
        self.decided = before.max(EntryIndex(reached));
    }

    /// Asks followers that owe an answer for a retry interval.
    pub(super) fn tick_leading(&mut self, now: Nanos) -> Option<Nanos> {
        let (decided, last, retry) = (self.decided, self.log.last(), self.options.retry);
        let Role::Leading(leading) = &mut self.role else { return None };
        let mut silent = Vec::new();
        let mut next = None;
        for (node, peer) in &mut leading.peers {
            if !peer.is_behind(last, decided) {
                peer.ask_at = None;
                continue;
            }
            let ask_at = peer.ask_at.get_or_insert(now + retry);
            if *ask_at <= now {
                *ask_at = now + retry;
                silent.push(*node);
            }
            next = Some(next.map_or(*ask_at, |next: Nanos| next.min(*ask_at)));
        }
        for node in silent {
            self.tell(node, true);
        }
        next
    }

    fn peer_nodes(&self) -> Vec<NodeId> {
        match &self.role {
            Role::Leading(leading) => leading.peers.keys().copied().collect(),
            _ => Vec::new(),
        }
    }
}
