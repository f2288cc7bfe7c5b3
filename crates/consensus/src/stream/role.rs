//! What a stream keeps for its role: nothing of it outlives a higher ballot.

use std::collections::BTreeMap;

use bytes::Bytes;
use highwater_core::{Ballot, EntryIndex, NodeId};

use crate::{Nanos, Quorums, Tail, Voter};

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
    pub adopting: Option<Adopting>,
    /// The leader is known to be at work: questions make sense.
    pub leader_seen: bool,
    /// Something was missed; ask at `ask_at`.
    pub questioning: bool,
    pub ask_at: Nanos,
    /// An entry was not taken: too much is held that is not installed. To be asked for once there is room.
    pub full: bool,
    /// How often the leader asked since then though there was a little room.
    pub asked_while_full: u32,
    /// The leader no longer keeps what this log lacks; it keeps entries from here on.
    pub too_far: Option<EntryIndex>,
}

/// A range on its way in: a part of the log of the promised ballot's leader.
#[derive(Debug)]
pub struct Adopting {
    pub start: EntryIndex,
    pub entries: Vec<Bytes>,
}

impl Adopting {
    pub fn received(&self) -> EntryIndex {
        EntryIndex(self.start.0 + self.entries.len() as u64 - 1)
    }
}

impl Following {
    /// Something may have been missed.
    pub fn question(&mut self) {
        self.questioning = true;
        self.ask_at = 0;
    }

    /// Entries are taken again.
    pub fn take_entries_again(&mut self) {
        (self.full, self.asked_while_full) = (false, 0);
        self.question();
    }

    /// Forgets everything but the leader, to ask it anew.
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
    /// Who must accept: those who had to promise, and the new membership if this change of epoch makes one. Newcomers
    /// need not have promised: nobody ever counted them.
    pub quorums: Quorums,
}

/// A new leader that lacks a part of the log it must adopt.
#[derive(Debug)]
pub struct Fetching {
    pub plan: Plan,
    pub best: Tail,
    /// Who has what is missing; the first is asked next.
    pub holders: Vec<NodeId>,
    pub start: EntryIndex,
    pub entries: Vec<Bytes>,
    pub ask_at: Nanos,
}

impl Fetching {
    pub fn next_index(&self) -> EntryIndex {
        EntryIndex(self.start.0 + self.entries.len() as u64)
    }
}

/// A leader.
#[derive(Debug)]
pub struct Leading {
    pub quorums: Quorums,
    /// The own vote alone decides.
    pub alone: bool,
    /// Every node that is replicated to, voter or not.
    pub peers: BTreeMap<NodeId, Peer>,
    /// The ballot of the log that was adopted at the takeover, and where that log ended: a peer's log accepted under it
    /// agrees with ours up to the shorter of the two.
    pub adopted: (Ballot, EntryIndex),
    /// What the followers were last told.
    pub told_decided: EntryIndex,
}

/// A follower as its leader sees it.
#[derive(Debug)]
pub struct Peer {
    pub voter: Voter,
    /// Its log equals ours up to here, under our ballot.
    pub acked: EntryIndex,
    /// It received up to here (paces us).
    pub received: EntryIndex,
    /// It knows that this much is decided.
    pub decided: EntryIndex,
    pub sending: Sending,
    /// The range it has to adopt; done once acknowledged.
    pub adopting: Option<(EntryIndex, EntryIndex)>,
    /// When to ask it, unless it says something before; `None` if nothing is expected of it.
    pub ask_at: Option<Nanos>,
}

/// Whether entries flow to a peer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sending {
    /// It is cut off, or has yet to say where it stands.
    Waiting,
    /// What it lacks is no longer held. It may not have heard so: keep asking.
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
        Leading { quorums, alone, peers, adopted, told_decided: EntryIndex::NONE }
    }

    /// Frames to `voter` may have been lost: wait until it says where it stands.
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
    pub fn unknown(voter: Voter) -> Peer {
        let none = EntryIndex::NONE;
        let sending = Sending::Waiting;
        Peer { voter, acked: none, received: none, decided: none, sending, adopting: None, ask_at: None }
    }

    /// Where its log ends if nothing was lost. Less than ours while its window is full.
    pub fn sent(&self, last: EntryIndex) -> EntryIndex {
        match self.sending {
            Sending::From(next) => EntryIndex(next.0 - 1),
            Sending::Waiting | Sending::TooFar => last,
        }
    }

    /// Whether something is expected of it: that it accept what there is, or learn that it is decided.
    pub fn is_behind(&self, last: EntryIndex, decided: EntryIndex) -> bool {
        let lacks = self.adopting.is_some() || self.acked < last || self.decided < decided;
        lacks && self.sending != Sending::Waiting
    }
}
