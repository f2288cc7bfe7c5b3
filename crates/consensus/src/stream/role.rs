//! What a stream keeps for its role: as follower, as new leader that fetches the best log, as leader.
//!
//! Nothing here outlives a higher ballot: whoever promises one is a follower that knows nothing of its leader yet. What
//! has to last (the log, the promise, how far is decided) is the stream's own.
//!
//! ```text
//!              take_over: own log is the best
//!            +--------------------------------+
//!            |                                v
//! Following -+-> Fetching -- fetched all --> Leading
//!      ^            |                          |
//!      +------------+---- a higher ballot -----+
//! ```

use std::collections::BTreeMap;

use bytes::Bytes;
use highwater_core::{Ballot, EntryIndex, NodeId};

use crate::{Nanos, Quorums, Tail, Voter};

/// What this node does in the stream.
#[derive(Debug)]
pub enum Role {
    /// Accepts what the leader of `promised` sends.
    Following(Following),
    /// Has the promises; collects the best log.
    Fetching(Fetching),
    /// Proposes.
    Leading(Leading),
}

/// What a follower remembers beside its log.
#[derive(Debug, Default)]
pub struct Following {
    /// The range that the leader wants this log to adopt, as far as it has come.
    pub adopting: Option<Adopting>,
    /// The leader of the promised ballot has been heard. Before that nobody may have won under it, and a question would
    /// have nobody to answer it.
    pub leader_seen: bool,
    /// Something was missed: ask the leader with `Pull` at `ask_at`, and again until it has been answered.
    pub questioning: bool,
    /// When to ask; 0 for "at the next tick".
    pub ask_at: Nanos,
    /// An entry was refused, because more is held uninstalled than the options allow. The leader counts it as sent and
    /// will not send it again, so it must be asked for once there is room.
    pub full: bool,
    /// How often the leader has asked since the refusal while there was a little room: see `FULL_ASKS`.
    pub asked_while_full: u32,
    /// The first entry that the leader still holds, if the entry that this log needs next is an older one: only a copy of
    /// the state helps.
    pub too_far: Option<EntryIndex>,
}

/// A range on its way in: a part of the log of the promised ballot's leader.
#[derive(Debug)]
pub struct Adopting {
    pub start: EntryIndex,
    pub entries: Vec<Bytes>,
}

impl Adopting {
    /// The last entry of the range that has arrived; the one before `start` at first.
    pub fn received(&self) -> EntryIndex {
        EntryIndex(self.start.0 + self.entries.len() as u64 - 1)
    }
}

impl Following {
    /// Something may have been missed: ask at the next opportunity.
    pub fn question(&mut self) {
        self.questioning = true;
        self.ask_at = 0;
    }

    /// There is room for entries again, and those that were refused are asked for.
    pub fn take_entries_again(&mut self) {
        (self.full, self.asked_while_full) = (false, 0);
        self.question();
    }

    /// A follower whose log goes on behind a copied state: of what it knew only that its leader is at work still holds,
    /// and the first thing it does is ask that leader for the entries behind the copy.
    pub fn restarted(&self) -> Following {
        Following { leader_seen: self.leader_seen, questioning: true, ..Following::default() }
    }
}

/// What a new leader's stream needs to take over.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The promised ballot.
    pub ballot: Ballot,
    /// Tails of this stream in the promises, by voter; the own one included.
    pub tails: BTreeMap<Voter, Tail>,
    /// Who must accept: those who had to promise, and the new membership if this change of epoch makes one. A newcomer in
    /// it need not have promised: no earlier leader counted it, so its log cannot be needed to find what was decided.
    pub quorums: Quorums,
}

/// A new leader that lacks a part of the log it must adopt.
#[derive(Debug)]
pub struct Fetching {
    /// What it was told to take over.
    pub plan: Plan,
    /// Where the best log among the promises ends: what the own log will be.
    pub best: Tail,
    /// Who has which part of `start..=best.last`. Whoever was asked goes to the end of the line: one that does not answer is asked
    /// again only after the others.
    pub holders: Vec<Part>,
    /// The first entry that is fetched: behind what the own log surely shares with the best one.
    pub start: EntryIndex,
    /// What has come of it, in order.
    pub entries: Vec<Bytes>,
    /// Where what was asked for last ends.
    pub asked_upto: EntryIndex,
    /// When to ask (again).
    pub ask_at: Nanos,
}

impl Fetching {
    /// The entry that has to come next.
    pub fn next_index(&self) -> EntryIndex {
        EntryIndex(self.start.0 + self.entries.len() as u64)
    }

    /// Who is asked for that.
    pub fn next_holder(&mut self) -> Part {
        let next = self.next_index();
        let at = self.holders.iter().position(|part| part.has(next)).expect("the parts leave no gap");
        let part = self.holders.remove(at);
        self.holders.push(part);
        part
    }
}

/// The entries `first..=last` of the best log, which a voter holds.
#[derive(Debug, Clone, Copy)]
pub struct Part {
    pub node: NodeId,
    pub first: EntryIndex,
    pub last: EntryIndex,
}

impl Part {
    /// What a log that stands at `tail` surely holds of the best one: all, if it was accepted under the same ballot, for then it is a
    /// prefix; else what is decided.
    pub fn of(node: NodeId, tail: &Tail, best: &Tail) -> Part {
        let last = if tail.accepted == best.accepted { tail.last } else { tail.decided };
        Part { node, first: tail.first, last: last.min(best.last) }
    }

    pub fn has(&self, index: EntryIndex) -> bool {
        self.first <= index && index <= self.last
    }
}

/// What a leader knows of its followers.
#[derive(Debug)]
pub struct Leading {
    /// Who must hold an entry for it to be decided.
    pub quorums: Quorums,
    /// Whether the own vote alone reaches the quorums: then no acknowledgement will come that could decide an entry.
    pub alone: bool,
    /// Every node that is replicated to, voter or not.
    pub peers: BTreeMap<NodeId, Peer>,
    /// The ballot of the log that was adopted at the takeover, and where that log ended. Logs accepted under one ballot
    /// are prefixes of one another: so a peer's log that was accepted under it agrees with ours up to its own end or
    /// that one, whichever comes first.
    pub adopted: (Ballot, EntryIndex),
    /// The largest `decided` that was sent to the followers. If it is less than what is decided, they have yet to be
    /// told.
    pub told_decided: EntryIndex,
    /// Questions that were asked whether this node leads,
    pub asked: u64,
    /// and the last one to which a quorum has said yes.
    pub confirmed: u64,
}

/// A follower as its leader sees it.
#[derive(Debug)]
pub struct Peer {
    pub voter: Voter,
    /// Its log equals ours up to here and was accepted under our ballot: what it has a vote for.
    pub acked: EntryIndex,
    /// It has received up to here, adopted or not. Bounds what is in flight (the window); proves nothing.
    pub received: EntryIndex,
    /// It knows that this much is decided.
    pub decided: EntryIndex,
    pub sending: Sending,
    /// The range it has to adopt; done once acknowledged.
    pub adopting: Option<(EntryIndex, EntryIndex)>,
    /// When to ask it whether something was lost, unless it says something before; `None` if it owes no answer.
    pub ask_at: Option<Nanos>,
    /// The last question whether we lead to which it said yes.
    pub confirmed: u64,
}

/// Whether entries flow to a peer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sending {
    /// It is cut off, or has yet to say where it stands.
    Waiting,
    /// The next entry that it lacks is no longer held, and it was told so. That message may have been lost, so it is
    /// still asked by timer; its `Pull` is answered with `TooFar` again.
    TooFar,
    /// This is the next to send.
    From(EntryIndex),
}

impl Leading {
    /// Replicates to the voters of `quorums`; of two lives of one node (a joint quorum names both) to the one that
    /// `promised`, for it is alive.
    pub fn new(
        me: Voter,
        quorums: Quorums,
        adopted: (Ballot, EntryIndex),
        promised: impl Fn(&Voter) -> bool,
    ) -> Leading {
        let mut peers = BTreeMap::new();
        for voter in quorums.voters().into_iter().filter(|voter| voter.node != me.node) {
            if promised(&voter) || !peers.contains_key(&voter.node) {
                peers.insert(voter.node, Peer::unknown(voter));
            }
        }
        let alone = quorums.reached(|voter| voter == me);
        let told_decided = EntryIndex::NONE;
        Leading { quorums, alone, peers, adopted, told_decided, asked: 0, confirmed: 0 }
    }

    /// Up to where a log that stands at `tail` surely agrees with ours; `ballot` is ours.
    ///
    /// | it was accepted under | it agrees with ours up to |
    /// |---|---|
    /// | our ballot | its end, for it is a prefix of ours |
    /// | the ballot of the log that we took over | its end, or the end of that log if that comes first |
    /// | another ballot | what is decided there, and no further |
    ///
    /// What is decided there is decided, and so in our log, in any case.
    pub fn agrees_up_to(&self, ballot: Ballot, tail: Tail) -> EntryIndex {
        let (adopted, adopted_last) = self.adopted;
        if tail.accepted == ballot {
            tail.last
        } else if tail.accepted == adopted {
            tail.last.min(adopted_last).max(tail.decided)
        } else {
            tail.decided
        }
    }

    /// Messages to `voter` may have been lost: send nothing until it says where its log stands. If another life of its
    /// node was known, that one is gone, and what it acknowledged counts no more.
    pub fn await_tail(&mut self, voter: Voter) {
        match self.peers.get_mut(&voter.node) {
            Some(peer) if peer.voter == voter => peer.sending = Sending::Waiting,
            _ => {
                self.peers.insert(voter.node, Peer::unknown(voter));
            }
        }
    }

    /// Nothing reaches `node` for now.
    pub fn pause(&mut self, node: NodeId) {
        if let Some(peer) = self.peers.get_mut(&node) {
            peer.sending = Sending::Waiting;
        }
    }
}

impl Peer {
    /// A follower that has said nothing yet.
    pub fn unknown(voter: Voter) -> Peer {
        let none = EntryIndex::NONE;
        let sending = Sending::Waiting;
        Peer {
            voter,
            acked: none,
            received: none,
            decided: none,
            sending,
            adopting: None,
            ask_at: None,
            confirmed: 0,
        }
    }

    /// Where its log ends if nothing was lost: before our own end while its window is full.
    pub fn sent(&self, last: EntryIndex) -> EntryIndex {
        match self.sending {
            Sending::From(next) => EntryIndex(next.0 - 1),
            Sending::Waiting | Sending::TooFar => last,
        }
    }

    /// Whether it owes an answer: it has yet to accept something, or to say that it knows what is decided.
    pub fn is_behind(&self, last: EntryIndex, decided: EntryIndex) -> bool {
        let lacks = self.adopting.is_some() || self.acked < last || self.decided < decided;
        lacks && self.sending != Sending::Waiting
    }
}
