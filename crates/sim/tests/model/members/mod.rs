//! A change of membership, in every order of its steps: who has promised, accepted and learned what, and who decides meanwhile.
//!
//! Up to four nodes, two streams. Some vote from the start, others are strangers that copy the state. The leader of an open epoch has one
//! of the [changes](Bounds::changes) made: it lets everything be decided, and wins a new epoch that names the members after it (decision
//! 0008). Others may stand at any time. The rules are those of `consensus/src/election/candidate.rs` (which memberships may be in force),
//! `members.rs` (who counts), `stream/lead.rs` (what is decided, what a quorum knows) and `log-host/src/controller/{takeover,admission}.rs`.
//!
//! What is written in a stream stands for all that was executed; marks are the other model's business. *No step is ever forced*: so a
//! crash is a node that takes no further step, a partition a message that does not come, and neither is a step of its own. A node's
//! streams promise in one step: what one of them still takes between two of them it can take before both.
//!
//! *Normal form.* What a node does for a ballot it does before it promises a higher one; and no step for a ballot asks what was done for a
//! later one, nor the other way round but for promises, which are of one node. So all that is ever done for a ballot can be done before
//! the next one stands, and of ballots that never win nothing is asked. What the last one decides no later one can lack. [`Bounds::normal`] makes only such runs; `tests.rs` compares what
//! both searches can judge.
//!
//! Judged in every state ([`State::judge`]): whoever leads has in its log what any earlier ballot has decided, now or later; it has a
//! complete store; an epoch has one membership.
//!
//! That an epoch opens only once a quorum knows that its beginning is decided keeps up service (a later candidate would ask members who do
//! not count any more), and no promise that is judged here hangs on it; the planted bug `opens-early` shows what does.
//!
//! Left out: lives of one node (a new life is another node here), contacts, soundness of voters (it keeps service up; what it forbids is
//! searched, too), whom heartbeats tell of what before an epoch is open.

mod steps;
mod tests;

/// Nodes.
pub const NODES: usize = 4;
/// Streams.
pub const STREAMS: usize = 2;

/// Nodes, a bit each.
pub type Nodes = u8;
/// Ballot *b* is the *b*-th campaign; its leader opens epoch *b*.
pub type Ballot = u8;
/// Whose log, and how much of it.
pub type Tail = (Ballot, u8);

/// Who votes, as of which epoch; and who did before.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Members {
    pub epoch: Ballot,
    pub voters: Nodes,
    pub removed: Nodes,
}

/// Comes, goes, or one in the place of the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Change {
    pub admits: Option<usize>,
    pub removes: Option<usize>,
}

/// An entry of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Entry {
    /// An epoch begins.
    Change(Members),
    /// Something that its leader wrote.
    Batch(Ballot),
}

/// One node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Replica {
    /// Answers no lower ballot, in any stream.
    pub promised: Ballot,
    pub accepted: [Tail; STREAMS],
    /// How much of its logs it knows to be decided.
    pub known: [u8; STREAMS],
    /// The newest membership that it knows to be decided in every stream.
    pub members: Members,
    /// Its store has what is not in its log.
    pub complete: bool,
}

/// A promise, as it was when it was given.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Promise {
    pub accepted: [Tail; STREAMS],
    pub known: [u8; STREAMS],
    pub members: Members,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Phase {
    Stands,
    /// It has the promises, and takes over.
    Leads,
    /// Its epoch is open.
    Opened,
}

/// One ballot.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Lead {
    pub node: usize,
    pub phase: Phase,
    /// What its epoch is for, if it is for a change.
    pub change: Option<Change>,
    /// Kept until it leads.
    pub promises: [Option<Promise>; NODES],
    /// Everything that it took over or wrote.
    pub log: [Vec<Entry>; STREAMS],
    /// How much of it it took over.
    pub taken: [u8; STREAMS],
    /// Of its epoch.
    pub members: Members,
    /// Each must agree by majority.
    pub quorums: Vec<Members>,
    /// The most that each ever held of it.
    pub held: [[u8; NODES]; STREAMS],
    pub decided: [u8; STREAMS],
    /// Who knows that the epoch's beginning is decided.
    pub knows: [Nodes; STREAMS],
}

/// Everything.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct State {
    pub replicas: [Replica; NODES],
    /// Ballot *b* is at *b* - 1.
    pub leads: Vec<Lead>,
}

/// A mistake that the search must find.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mistake {
    /// The promises and acknowledgements of a voter that was removed count.
    RemovedCounts,
    /// A candidate that meets an undecided change asks the new members alone.
    OldNotAsked,
    /// The new members alone decide the change that makes them members.
    UsedEarly,
    /// A stranger is let in that lacks a part of the state.
    Incomplete,
    /// A second change begins with the first: the streams name different members.
    TwoAtOnce,
}

/// How much may happen.
#[derive(Clone, Debug)]
pub struct Bounds {
    /// Who votes at first.
    pub voters: Nodes,
    /// What the leader of an open epoch may want.
    pub changes: Vec<Change>,
    /// Ballots, the first leader's included.
    pub ballots: usize,
    /// What each leader may write in all.
    pub batches: usize,
    /// Only runs in normal form.
    pub normal: bool,
    pub mistake: Option<Mistake>,
}

pub const fn bit(node: usize) -> Nodes {
    1 << node
}

impl Members {
    /// Whether those who agree are a majority.
    pub fn reached(&self, agree: Nodes, mistake: Option<Mistake>) -> bool {
        let counted =
            if mistake == Some(Mistake::RemovedCounts) { self.voters | self.removed } else { self.voters };
        (counted & agree).count_ones() > self.voters.count_ones() / 2
    }

    /// These, after a change: as the product's `Members::changed`.
    pub fn changed(&self, epoch: Ballot, change: Change) -> Members {
        let comes = change.admits.map_or(0, bit) & !self.removed;
        let voters = self.voters | comes;
        let goes = change.removes.map_or(0, bit) & voters;
        let goes = if voters.count_ones() > 1 { goes } else { 0 };
        Members { epoch, voters: voters & !goes, removed: self.removed | goes }
    }

    pub fn is_like(&self, other: &Members) -> bool {
        (self.voters, self.removed) == (other.voters, other.removed)
    }
}

impl State {
    pub fn lead(&self, ballot: Ballot) -> &Lead {
        &self.leads[ballot as usize - 1]
    }

    /// A log that somebody accepted.
    pub fn log(&self, stream: usize, (of, len): Tail) -> &[Entry] {
        match of {
            0 => &[],
            of => &self.lead(of).log[stream][..len as usize],
        }
    }

    /// The first promise that is broken.
    pub fn judge(&self) -> Result<(), &'static str> {
        for (at, lead) in self.leads.iter().enumerate().filter(|(_, lead)| lead.phase >= Phase::Leads) {
            if !self.replicas[lead.node].complete {
                return Err("somebody leads who lacks a part of the state");
            }
            for earlier in &self.leads[..at] {
                let lacks = |stream: usize| {
                    !lead.log[stream].starts_with(&earlier.log[stream][..earlier.decided[stream] as usize])
                };
                if (0..STREAMS).any(lacks) {
                    return Err("a leader lacks what an earlier ballot decides");
                }
            }
            if lead.log[0][lead.taken[0] as usize] != lead.log[1][lead.taken[1] as usize] {
                return Err("an epoch has two memberships");
            }
        }
        Ok(())
    }
}
