//! What every part of a controller uses: which replica this is, who is connected, and what goes out.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use highwater_consensus::Voter;
use highwater_core::{Incarnation, NodeId, StreamId};
use highwater_seam::{CheckpointOrder, ControlOutbox, LogPosition, Nanos};

use crate::control::ControlMessage;
use crate::hooks;
use crate::messages::Command;
use crate::shared::Shared;

/// A controller's desk.
pub struct Desk {
    /// With the workers.
    pub shared: Arc<Shared>,
    /// The node, in this life of its memory.
    pub me: Voter,
    /// Which life of each peer is connected.
    peers: BTreeMap<NodeId, Incarnation>,
    messages: Vec<(NodeId, ControlMessage)>,
    events: Vec<String>,
    writes: Vec<Bytes>,
    /// Something counts on this node's disk, or is about to: see [`belong`](Desk::belong).
    belongs: bool,
    /// Bytes of them from the birth of the journal on.
    written: u64,
    checkpoint: Vec<CheckpointOrder>,
    wake_workers: bool,
    /// Answers that came when what they are about had gone, by what that was.
    late: BTreeMap<&'static str, u64>,
    hang_up: Vec<NodeId>,
}

impl Desk {
    /// Nobody is connected.
    pub fn new(shared: Arc<Shared>) -> Desk {
        let options = &shared.options;
        let me = Voter { node: options.node, incarnation: options.incarnation };
        let (messages, events, writes) = (Vec::new(), Vec::new(), Vec::new());
        Desk {
            me,
            peers: BTreeMap::new(),
            messages,
            events,
            writes,
            belongs: false,
            written: 0,
            checkpoint: Vec::new(),
            wake_workers: false,
            late: BTreeMap::new(),
            hang_up: Vec::new(),
            shared,
        }
    }

    /// How many workers, and so streams, there are.
    pub fn workers(&self) -> usize {
        self.shared.options.workers as usize
    }

    /// All of them.
    pub fn streams(&self) -> impl Iterator<Item = StreamId> + use<> {
        (0..self.shared.options.workers).map(StreamId)
    }

    /// So many election timeouts.
    pub fn timeouts(&self, number: u64) -> Nanos {
        number * self.shared.options.election_timeout
    }

    /// How long a quorum may be silent.
    pub fn silence(&self) -> Nanos {
        self.timeouts(highwater_consensus::election::SILENCE)
    }

    /// A connection is there (`Some`), or lost.
    pub fn peer_changed(&mut self, peer: NodeId, incarnation: Option<Incarnation>) {
        match incarnation {
            Some(incarnation) => self.peers.insert(peer, incarnation),
            None => self.peers.remove(&peer),
        };
    }

    /// The life of a node that is connected.
    pub fn peer(&self, node: NodeId) -> Option<Voter> {
        self.peers.get(&node).map(|incarnation| Voter { node, incarnation: *incarnation })
    }

    /// All who are connected.
    pub fn peers(&self) -> Vec<Voter> {
        self.peers
            .iter()
            .map(|(node, incarnation)| Voter { node: *node, incarnation: *incarnation })
            .collect()
    }

    /// Whether it is here, in this life.
    pub fn is_here(&self, voter: Voter) -> bool {
        voter == self.me || self.peer(voter.node) == Some(voter)
    }

    /// To another controller.
    pub fn send(&mut self, to: NodeId, message: ControlMessage) {
        self.messages.push((to, message));
    }

    /// For the log: something that an operator would want to read.
    pub fn note(&mut self, event: impl Into<String>) {
        self.events.push(event.into());
    }

    /// An answer came late: what it is about is gone, and it counts for nothing. Said in the log the first time, and then less and less often.
    pub fn late(&mut self, about: &'static str) {
        let count = self.late.entry(about).or_default();
        *count += 1;
        if count.is_power_of_two() {
            let note = format!("an answer came late, {about}, and is left: {count} so far");
            self.events.push(note);
        }
    }

    /// How many came late, about that.
    #[cfg(test)]
    pub fn came_late(&self, about: &str) -> u64 {
        self.late.get(about).copied().unwrap_or_default()
    }

    /// This node has a part in a cluster: it knows who votes there, or came back with what it wrote then.
    ///
    /// Invariant: nothing is written before. Nobody counts on a node that knows of no membership: it promises, accepts and votes for nothing. So a
    /// disk on which something was written is that of a node that had a part in a cluster, and one that lost all its files before that has
    /// forgotten nothing: it takes part in the birth like a new one. See
    /// docs/decisions/0053-nothing-is-written-before-the-birth.md.
    pub fn belong(&mut self) {
        self.belongs = true;
    }

    /// To be remembered across the end of this process, if there is a disk; once this node [belongs](Desk::belong) to a cluster.
    pub fn write(&mut self, record: impl FnOnce() -> Bytes) {
        if self.shared.options.durability.has_disk() {
            let record = record();
            self.written += record.len() as u64;
            self.writes.push(record);
        }
    }

    /// How far what was written goes.
    pub fn written(&self) -> LogPosition {
        LogPosition(self.written)
    }

    /// What is written goes behind this.
    pub fn starting_at(&mut self, position: LogPosition) {
        self.written = position.0;
    }

    /// A record of an earlier life was handed in.
    pub fn recover(&mut self, record: &Bytes) {
        self.written += record.len() as u64;
    }

    /// Tells the host what becomes of a checkpoint.
    pub fn order(&mut self, order: CheckpointOrder) {
        self.checkpoint.push(order);
    }

    /// Tells every worker.
    pub fn command_all(&mut self, mut command: impl FnMut(StreamId) -> Command) {
        for (at, mailbox) in self.shared.commands.iter().enumerate() {
            hooks::controls();
            mailbox.put(command(StreamId(at as u16)));
        }
        self.wake_workers = true;
    }

    /// What this node sends is nothing that can be read here, or the other way round.
    pub fn hang_up(&mut self, on: NodeId) {
        self.hang_up.push(on);
    }

    /// Gives every worker a turn.
    pub fn wake_workers(&mut self) {
        self.wake_workers = true;
    }

    /// Hands messages to the host.
    pub fn hand_out(&mut self, out: &mut ControlOutbox) {
        out.messages.extend(self.messages.drain(..).map(|(to, message)| (to, message.bytes())));
        out.events.append(&mut self.events);
        if self.belongs {
            out.writes.append(&mut self.writes);
        }
        out.checkpoint.append(&mut self.checkpoint);
        out.hang_up.append(&mut self.hang_up);
        out.wake_workers |= std::mem::take(&mut self.wake_workers);
    }
}
