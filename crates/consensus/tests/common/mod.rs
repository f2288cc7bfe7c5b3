//! A node as small as it can be: streams, an election and the controller that joins them. What the engine does with
//! threads and sockets happens here in one call.

#![allow(dead_code)] // each test binary uses a part

use bytes::Bytes;
use highwater_consensus::*;
use highwater_core::codec::Reader;
use highwater_core::{Ballot, EntryIndex, Epoch, Incarnation, NodeId, Timestamp};

/// What travels between two nodes.
#[derive(Clone, Debug)]
pub enum Wire {
    Stream(usize, Message, Bytes),
    Election(ElectionMessage),
}

/// The life that formed the cluster.
pub fn founder(node: u8) -> Voter {
    Voter { node: NodeId(node), incarnation: Incarnation(1) }
}

/// The membership before any leader.
pub fn founders(nodes: u8) -> Members {
    Members::new(Epoch(0), (0..nodes).map(founder).collect())
}

/// An entry that changes the epoch.
pub fn change(members: &Members) -> Bytes {
    let mut bytes = vec![b'M'];
    members.encode(&mut bytes);
    bytes.into()
}

/// The membership in an entry, if it changes the epoch.
pub fn as_change(entry: &Bytes) -> Option<Members> {
    (entry.first() == Some(&b'M')).then(|| Members::decode(&mut Reader::new(&entry[1..])).unwrap())
}

/// What a node's controller knows of one of its streams.
pub struct Known {
    /// Newest membership at or below `scanned`.
    pub members: Members,
    pub scanned: EntryIndex,
}

/// A lead, from the promises on.
pub struct Lead {
    pub ballot: Ballot,
    pub members: Members,
    pub since: Nanos,
    /// Streams that hold the epoch change.
    pub opened: Vec<bool>,
    pub settled: bool,
}

pub struct Node {
    pub me: Voter,
    pub election: Election,
    pub streams: Vec<Stream>,
    pub known: Vec<Known>,
    pub lead: Option<Lead>,
    /// Lives to be admitted with the next change of epoch.
    pub admit: Vec<Voter>,
    pub out: Vec<(NodeId, Wire)>,
    pub timeout: Nanos,
    /// Ballots won in this life; the checker empties it.
    pub won: Vec<Ballot>,
}

impl Node {
    /// A node whose streams start behind `bases`, each with the newest membership up to there.
    pub fn new(
        me: Voter,
        bases: Vec<(EntryIndex, Members)>,
        election: ElectionOptions,
        stream: StreamOptions,
        seed: u64,
    ) -> Node {
        let mut node = Node {
            me,
            election: Election::new(me, election, seed),
            streams: bases.iter().map(|(base, _)| Stream::new(me, *base, stream)).collect(),
            known: bases.into_iter().map(|(scanned, members)| Known { members, scanned }).collect(),
            lead: None,
            admit: Vec::new(),
            out: Vec::new(),
            timeout: election.timeout,
            won: Vec::new(),
        };
        node.election.set_eligible(true);
        node.scan(0);
        node
    }

    pub fn deliver(&mut self, now: Nanos, from: Voter, wire: Wire) {
        match wire {
            Wire::Stream(stream, message, entry) => self.streams[stream].deliver(now, from, message, entry),
            Wire::Election(message) => self.election.deliver(now, from, message),
        }
        self.poll(now);
    }

    pub fn peer_up(&mut self, now: Nanos, peer: Voter) {
        self.streams.iter_mut().for_each(|stream| stream.peer_up(now, peer));
        self.poll(now);
    }

    pub fn peer_down(&mut self, now: Nanos, peer: NodeId, gone: bool) {
        self.streams.iter_mut().for_each(|stream| stream.peer_down(peer));
        self.election.peer_down(now, peer, gone);
        self.poll(now);
    }

    /// Lets time pass; says when to be called again.
    pub fn tick(&mut self, now: Nanos) -> Option<Nanos> {
        self.election.tick(now);
        self.watch_lead(now);
        self.poll(now);
        let streams = self.streams.iter_mut().filter_map(|stream| stream.tick(now)).min();
        let election = self.election.tick(now);
        self.collect();
        streams.into_iter().chain(election).min()
    }

    /// A lead that doesn't get going is given up.
    fn watch_lead(&mut self, now: Nanos) {
        if self.election.standing() != Standing::Leading {
            return;
        }
        let idle = self.lead.as_ref().is_none_or(|lead| {
            now > lead.since + 4 * self.timeout && !self.streams.iter().all(|s| s.is_leading(lead.ballot))
        });
        if idle {
            self.election.abandon(now);
            self.lead = None;
        }
    }

    /// Runs the controller until nothing is left to do.
    pub fn poll(&mut self, now: Nanos) {
        loop {
            if let Some(ahead) = self.streams.iter().map(|s| s.promised()).max()
                && ahead > self.election.promised()
            {
                self.election.met(now, ahead);
            }
            let events = self.election.events();
            let quiet = events.is_empty();
            for event in events {
                self.on_event(now, event);
            }
            self.open_epoch();
            self.scan(now);
            if quiet {
                break;
            }
        }
        self.collect();
    }

    fn on_event(&mut self, now: Nanos, event: ElectionEvent) {
        match event {
            ElectionEvent::Fence(ballot) => {
                if self.lead.as_ref().is_some_and(|lead| lead.ballot < ballot) {
                    self.lead = None;
                }
                if self.streams.iter().all(|stream| stream.promised() <= ballot) {
                    let tails = self.streams.iter_mut().map(|stream| stream.promise(ballot)).collect();
                    let (members, pending) = (self.members(), self.pending_by_stream());
                    let promise = Promise { ballot, members, pending, tails, above_all: Timestamp(1) };
                    self.election.fenced(now, promise);
                }
            }
            ElectionEvent::Won { ballot, promises, mut quorums, members } => {
                self.won.push(ballot);
                let mut members = members.in_epoch(ballot.epoch);
                // Only a life that is here now: one chosen long ago may have ended.
                let present =
                    std::mem::take(&mut self.admit).into_iter().filter(|v| promises.contains_key(v));
                for voter in present {
                    members = members.with(ballot.epoch, voter);
                }
                quorums.and(members.clone());
                let opened = vec![false; self.streams.len()];
                self.lead = Some(Lead { ballot, members, since: now, opened, settled: false });
                for (at, stream) in self.streams.iter_mut().enumerate() {
                    let tails = promises.iter().map(|(voter, promise)| (*voter, promise.tails[at])).collect();
                    if !stream.take_over(now, Plan { ballot, tails, quorums: quorums.clone() }) {
                        self.election.abandon(now);
                        self.lead = None;
                        return;
                    }
                }
            }
            ElectionEvent::Follow(ballot) => {
                self.streams.iter_mut().for_each(|stream| stream.follow(now, ballot));
            }
        }
    }

    /// Each stream that is ready gets the epoch change as its first entry.
    fn open_epoch(&mut self) {
        let Some(lead) = &mut self.lead else { return };
        for (stream, opened) in self.streams.iter_mut().zip(&mut lead.opened) {
            if !*opened && stream.is_leading(lead.ballot) {
                stream.propose(change(&lead.members));
                *opened = true;
            }
        }
    }

    /// Looks for memberships among what is decided, and settles the one that is decided everywhere.
    fn scan(&mut self, now: Nanos) {
        for (stream, known) in self.streams.iter().zip(&mut self.known) {
            while known.scanned < stream.decided() {
                known.scanned = known.scanned.next();
                let entry = stream.entry(known.scanned).expect("what is new is held");
                known.members = as_change(entry).unwrap_or(known.members.clone());
            }
        }
        self.election.set_members(now, self.members());
        if let Some(lead) = &mut self.lead
            && !lead.settled
            && self.known.iter().all(|known| known.members.epoch == lead.ballot.epoch)
        {
            lead.settled = true;
            self.streams.iter_mut().for_each(|stream| stream.end_joint_quorum(lead.members.clone()));
        }
    }

    /// The newest membership that is decided in every stream.
    pub fn members(&self) -> Members {
        let of_streams = self.known.iter().map(|known| &known.members);
        of_streams.min_by_key(|members| members.epoch).expect("there are streams").clone()
    }

    /// Newer ones, in whatever stream.
    pub fn pending(&self) -> Vec<Members> {
        let decided = self.members().epoch;
        let mut pending: Vec<Members> = self.known.iter().map(|known| known.members.clone()).collect();
        for stream in &self.streams {
            let undecided = (stream.decided().0 + 1..=stream.last().0).map(EntryIndex);
            pending.extend(undecided.filter_map(|index| as_change(stream.entry(index)?)));
        }
        pending.retain(|members| members.epoch > decided);
        pending.sort_by_key(|members| members.epoch);
        pending.dedup();
        pending
    }

    /// The same as a promise names them: each set of voters once.
    fn pending_by_stream(&self) -> Vec<PendingChange> {
        let (mut pending, streams) = (Vec::new(), self.streams.len());
        for change in self.pending() {
            for (at, known) in self.known.iter().enumerate() {
                PendingChange::note(&mut pending, streams, at, &change, known.members == change);
            }
        }
        pending
    }

    /// Whether it takes entries: it leads, and every stream is open.
    pub fn is_open(&self) -> bool {
        let Some(lead) = &self.lead else { return false };
        lead.opened.iter().all(|opened| *opened) && self.streams.iter().all(|s| s.is_leading(lead.ballot))
    }

    pub fn propose(&mut self, now: Nanos, stream: usize, text: &str) -> EntryIndex {
        let index = self.streams[stream].propose(Bytes::from(format!("E{text}")));
        self.poll(now);
        index
    }

    /// Copies a state that reaches to `base` in `stream`.
    pub fn copy_state(&mut self, stream: usize, base: EntryIndex, members: Members) {
        self.streams[stream].restart_after(base);
        self.known[stream] = Known { members, scanned: base };
    }

    fn collect(&mut self) {
        for (at, stream) in self.streams.iter_mut().enumerate() {
            stream.announce_decided();
            self.out.extend(stream.drain().map(|e| (e.to, Wire::Stream(at, e.message, e.entry))));
        }
        self.out.extend(self.election.drain().map(|(to, message)| (to, Wire::Election(message))));
    }
}
