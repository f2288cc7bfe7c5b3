//! What three replicas and their leaders know.

/// Replicas.
pub const NODES: usize = 3;
/// Streams.
pub const STREAMS: usize = 2;

/// Ballot *b* is the *b*-th campaign; its leader opens epoch *b*. 0: none.
pub type Ballot = u8;

/// An entry of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Entry {
    /// Starts an epoch; larger than every timestamp in the logs that were promised.
    Change { epoch: Ballot, base: u8 },
    /// All that the leader of `epoch` executed in this stream behind the last entry and up to `closed`.
    /// `claim`: the other stream is silent behind this many entries.
    Batch { epoch: Ballot, closed: u8, claim: Option<u8> },
}

/// One replica.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Replica {
    /// Whether it has not crashed.
    pub up: bool,
    /// Per stream: answers no lower ballot.
    pub promised: [Ballot; STREAMS],
    /// Per stream: whose log it holds, and how much of it.
    pub accepted: [(Ballot, u8); STREAMS],
}

/// What one replica reported about one stream with its promise: whose log, how long.
pub type Tail = Option<(Ballot, u8)>;

/// One ballot.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Lead {
    /// Whose it is.
    pub node: u8,
    /// It has a majority's promises and writes.
    pub leading: bool,
    /// Promises that arrived; kept until it leads.
    pub promises: [[Tail; STREAMS]; NODES],
    /// Everything that it wrote or took over.
    pub log: [Vec<Entry>; STREAMS],
    /// How much of `log` it took over.
    pub taken: [u8; STREAMS],
    /// Where its timestamps start.
    pub base: u8,
    /// Per executed transaction the stream; the timestamps are `base + 1 ..`.
    pub executed: Vec<u8>,
    /// Per stream: the most that any follower ever held under this ballot. Its leader holds all, so of three replicas that
    /// is what a majority accepted.
    pub decided: [u8; STREAMS],
}

impl Lead {
    /// The last timestamp that it drew.
    pub fn clock(&self) -> u8 {
        self.base + self.executed.len() as u8
    }

    /// Executed transactions: timestamp, stream.
    pub fn transactions(&self) -> impl Iterator<Item = (u8, usize)> {
        self.executed.iter().enumerate().map(|(at, stream)| (self.base + 1 + at as u8, *stream as usize))
    }

    /// How far the stream is sealed.
    pub fn sealed(&self, stream: usize) -> u8 {
        match self.log[stream].last() {
            Some(Entry::Batch { closed, .. }) => *closed,
            _ => self.base,
        }
    }

    pub fn has_open(&self, stream: usize) -> bool {
        self.transactions().any(|(ts, of)| of == stream && ts > self.sealed(stream))
    }

    /// What a majority accepted under this ballot.
    pub fn decided(&self, stream: usize) -> &[Entry] {
        &self.log[stream][..self.decided[stream] as usize]
    }

    /// Its epoch has begun in every stream, decided.
    pub fn opened(&self) -> bool {
        (0..STREAMS).all(|stream| self.decided(stream).len() > self.taken[stream] as usize)
    }
}

/// Everything.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct State {
    /// All replicas.
    pub replicas: [Replica; NODES],
    /// Ballot *b* is at *b* - 1.
    pub leads: Vec<Lead>,
    /// How many have crashed.
    pub crashes: u8,
}

impl State {
    /// A ballot.
    pub fn lead(&self, ballot: Ballot) -> &Lead {
        &self.leads[ballot as usize - 1]
    }

    pub fn lead_mut(&mut self, ballot: Ballot) -> &mut Lead {
        &mut self.leads[ballot as usize - 1]
    }

    /// A leader holds all that it wrote.
    pub fn hold_all(&mut self, ballot: Ballot, stream: usize) {
        let lead = &mut self.leads[ballot as usize - 1];
        let len = lead.log[stream].len() as u8;
        self.replicas[lead.node as usize].accepted[stream] = (ballot, len);
    }

    /// What is decided in a stream, by any ballot; or that two ballots decided differently.
    pub fn decided(&self, stream: usize) -> Result<&[Entry], &'static str> {
        let mut longest: &[Entry] = &[];
        for lead in self.leads.iter().filter(|lead| lead.leading) {
            let decided = lead.decided(stream);
            let (short, long) =
                if decided.len() < longest.len() { (decided, longest) } else { (longest, decided) };
            if !long.starts_with(short) {
                return Err("two values decided at one index");
            }
            longest = long;
        }
        Ok(longest)
    }
}
