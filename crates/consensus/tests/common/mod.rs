//! A node as small as it can be: streams, an election and the controller that joins them. What the engine does with
//! threads and sockets happens here in one call.

use bytes::Bytes;
use highwater_consensus::*;
use highwater_core::codec::Reader;
use highwater_core::{Ballot, Durability, EntryIndex, Epoch, Incarnation, NodeId, Timestamp};

/// What travels between two nodes.
#[derive(Clone, Debug)]
pub enum Wire {
    Stream(usize, Message, Bytes),
    Election(ElectionMessage),
    /// From a node that forgets, in this life of its process: how far is this stream's log?
    Probe(usize, u64),
    /// So far it was when that was asked, and something was decided since.
    Vouch(usize, u64, EntryIndex),
}

/// How a node catches up with what it has forgotten.
#[derive(Default)]
pub struct Recall {
    /// Of each stream: caught up.
    done: Vec<bool>,
    ask_at: Nanos,
    /// Leader: who asked of which stream in which life, under which ballot, and how far the log was.
    asked: Vec<(NodeId, usize, u64, Ballot, EntryIndex)>,
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
    /// If it has one.
    pub disk: Option<Disk>,
    /// Which life of the process.
    pub life: u64,
    pub recall: Recall,
    /// The last lossy victory: what everybody who promised holds; the checker takes it.
    pub lost: Option<(Ballot, Vec<Voter>)>,
}

/// A disk, and what waits for it.
#[derive(Default)]
pub struct Disk {
    /// Everything written, of all streams, in order.
    pub written: Vec<(usize, Change)>,
    /// How much of it is surely there.
    pub synced: usize,
    /// Of each stream: how many changes of this life were written, and how many are synced.
    counts: Vec<(u64, u64)>,
    /// Messages that vouch for changes of a stream.
    waiting: Vec<(usize, u64, NodeId, Wire)>,
    /// A promise, and what each stream has to have on disk before it is given.
    promise: Option<(Promise, Vec<u64>)>,
}

impl Disk {
    /// Written by earlier lives.
    pub fn with(written: Vec<(usize, Change)>, streams: usize) -> Disk {
        Disk { synced: written.len(), written, counts: vec![(0, 0); streams], ..Disk::default() }
    }

    fn is_synced(&self, stream: usize, after: u64) -> bool {
        self.counts[stream].1 >= after
    }
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
        let bases_len = bases.len();
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
            disk: stream.durability.has_disk().then(|| Disk::with(Vec::new(), bases_len)),
            life: 0,
            recall: Recall::default(),
            lost: None,
        };
        node.election.set_eligible(true);
        node.scan(0);
        node
    }

    /// The same node after a crash: what its disk holds. `members`: of each stream, in force behind the first entry held.
    pub fn recover(
        me: Voter,
        written: Vec<(usize, Change)>,
        members: impl Fn(usize, u64) -> Members,
        (election, stream): (ElectionOptions, StreamOptions),
        (streams, seed): (usize, u64),
        life: u64,
    ) -> Node {
        let mut recovered: Vec<Recovered> = (0..streams).map(|_| Recovered::default()).collect();
        for (at, change) in &written {
            recovered[*at].apply(change.clone()).unwrap_or_else(|why| panic!("stream {at}: {why:?}"));
        }
        let promised = recovered.iter().map(Recovered::promised).max().unwrap();
        let streams: Vec<Stream> =
            recovered.into_iter().map(|recovered| Stream::recover(me, recovered, stream)).collect();
        let known = streams.iter().enumerate().map(|(at, stream)| {
            let base = EntryIndex(stream.tail().first.0 - 1);
            Known { members: members(at, base.0), scanned: base }
        });
        let mut node = Node {
            me,
            election: Election::recover(me, election, seed, promised),
            known: known.collect(),
            lead: None,
            admit: Vec::new(),
            out: Vec::new(),
            timeout: election.timeout,
            won: Vec::new(),
            disk: Some(Disk::with(written, streams.len())),
            life,
            recall: Recall { done: vec![false; streams.len()], ..Recall::default() },
            lost: None,
            streams,
        };
        node.election.set_eligible(true);
        node.election.set_forgets(stream.durability == Durability::Async);
        node.scan(0);
        node
    }

    /// Everything written up to `upto` is on disk.
    pub fn synced(&mut self, now: Nanos, upto: usize) {
        let Some(disk) = &mut self.disk else { return };
        for (stream, _) in &disk.written[disk.synced..upto] {
            disk.counts[*stream].1 += 1;
        }
        disk.synced = upto;
        let counts: Vec<u64> = disk.counts.iter().map(|(_, synced)| *synced).collect();
        self.give_promise(now);
        for (stream, synced) in self.streams.iter_mut().zip(counts) {
            stream.synced(synced);
        }
        self.poll(now);
    }

    /// Gives the promise that waits, if all that it says is on disk.
    fn give_promise(&mut self, now: Nanos) {
        let Some(disk) = &mut self.disk else { return };
        let counts = &disk.counts;
        let ready = |after: &[u64]| after.iter().zip(counts).all(|(after, (_, synced))| synced >= after);
        if let Some((promise, _)) = disk.promise.take_if(|(_, after)| ready(after)) {
            self.election.fenced(now, promise);
        }
    }

    pub fn deliver(&mut self, now: Nanos, from: Voter, wire: Wire) {
        match wire {
            Wire::Stream(stream, message, entry) => self.streams[stream].deliver(now, from, message, entry),
            Wire::Election(message) => self.election.deliver(now, from, message),
            Wire::Probe(at, life) => {
                let (ballot, behind) = (self.election.promised(), self.streams[at].last());
                if self.is_open() && self.lead.as_ref().is_some_and(|lead| lead.settled) {
                    self.recall.asked.push((from.node, at, life, ballot, behind));
                    self.streams[at].propose(Bytes::from("Eprobe"));
                }
            }
            Wire::Vouch(at, life, behind) => {
                if life == self.life && self.streams[at].decided() >= behind {
                    self.recall.done[at] = true;
                }
            }
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
        self.catch_up(now);
        self.poll(now);
        let streams = self.streams.iter_mut().filter_map(|stream| stream.tick(now)).min();
        let election = self.election.tick(now);
        self.collect();
        let recall = self.election.forgets().then_some(self.recall.ask_at);
        streams.into_iter().chain(election).chain(recall).min()
    }

    /// A node that forgets asks its leader how far it has to come; one that leads answers.
    fn catch_up(&mut self, now: Nanos) {
        let (streams, asked) = (&self.streams, std::mem::take(&mut self.recall.asked));
        for (who, at, life, ballot, behind) in asked {
            if !streams[at].is_leading(ballot) {
            } else if streams[at].decided() > behind {
                self.out.push((who, Wire::Vouch(at, life, behind)));
            } else {
                self.recall.asked.push((who, at, life, ballot, behind));
            }
        }
        if !self.election.forgets() {
            return;
        }
        let leads = self.is_open() && self.lead.as_ref().is_some_and(|lead| lead.settled);
        if leads || self.recall.done.iter().all(|done| *done) {
            return self.election.set_forgets(false);
        }
        let leader = self.election.promised().node;
        let due = now >= self.recall.ask_at;
        if due {
            self.recall.ask_at = now + self.timeout / 4;
        }
        if due && leader != self.me.node {
            for (at, _) in self.recall.done.iter().enumerate().filter(|(_, done)| !**done) {
                self.out.push((leader, Wire::Probe(at, self.life)));
            }
        }
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
                    let (above_all, forgets) = (Timestamp(1), self.election.forgets());
                    let promise = Promise { ballot, members, pending, tails, above_all, forgets };
                    let after = self.streams.iter().map(Stream::changes_made).collect();
                    match &mut self.disk {
                        Some(disk) => disk.promise = Some((promise, after)),
                        None => self.election.fenced(now, promise),
                    }
                    self.give_promise(now);
                }
            }
            ElectionEvent::Won { ballot, promises, mut quorums, members, lossy } => {
                self.won.push(ballot);
                self.lost = lossy.then(|| (ballot, promises.keys().copied().collect()));
                let mut members = match lossy {
                    true => members.in_epoch_after_loss(ballot.epoch),
                    false => members.in_epoch(ballot.epoch),
                };
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
            let frames = stream.drain().map(|e| (e.after, e.to, Wire::Stream(at, e.message, e.entry)));
            let frames: Vec<_> = frames.collect();
            if let Some(disk) = &mut self.disk {
                let changes = stream.take_changes();
                disk.counts[at].0 += changes.len() as u64;
                disk.written.extend(changes.into_iter().map(|change| (at, change)));
                disk.waiting.extend(frames.into_iter().map(|(after, to, wire)| (at, after, to, wire)));
            } else {
                self.out.extend(frames.into_iter().map(|(_, to, wire)| (to, wire)));
            }
        }
        if let Some(disk) = &mut self.disk {
            let mut waiting = std::mem::take(&mut disk.waiting);
            let synced = waiting.extract_if(.., |(at, after, ..)| disk.is_synced(*at, *after));
            self.out.extend(synced.map(|(_, _, to, wire)| (to, wire)));
            disk.waiting = waiting;
        }
        self.out.extend(self.election.drain().map(|(to, message)| (to, Wire::Election(message))));
    }
}
