//! Takeovers that are cut short leave changes of epoch in the logs, and every later promise has to name them.

use crate::common::{Node, Wire, founder, founders};
use highwater_consensus::*;
use highwater_core::codec::Reader;
use highwater_core::{EntryIndex, NodeId};

const MS: Nanos = 1_000_000;
const STREAMS: usize = 2;

struct Cluster {
    now: Nanos,
    nodes: Vec<Node>,
    /// Bytes of the largest promise.
    largest: usize,
}

impl Cluster {
    fn new() -> Cluster {
        let election = ElectionOptions { nodes: 3, heartbeat: 10 * MS, timeout: 50 * MS };
        let stream = StreamOptions { window_bytes: 1 << 20, retry: 20 * MS, ..StreamOptions::default() };
        let bases = || vec![(EntryIndex::NONE, founders(3)); STREAMS];
        let node = |n: u8| Node::new(founder(n), bases(), election, stream, n.into());
        Cluster { now: 0, nodes: (0..3).map(node).collect(), largest: 0 }
    }

    /// Delivers until nothing is under way; what `lost` chooses is. What controllers say travels as bytes.
    fn run_until_quiet(&mut self, lost: impl Fn(&Wire) -> bool) {
        loop {
            let mut quiet = true;
            for from in 0..self.nodes.len() {
                let sender = self.nodes[from].me;
                for (to, wire) in std::mem::take(&mut self.nodes[from].out) {
                    if lost(&wire) {
                        continue;
                    }
                    quiet = false;
                    let wire = self.through_bytes(wire);
                    self.nodes[to.0 as usize].deliver(self.now, sender, wire);
                }
            }
            if quiet {
                return;
            }
        }
    }

    fn through_bytes(&mut self, wire: Wire) -> Wire {
        let Wire::Election(message) = wire else { return wire };
        let mut bytes = Vec::new();
        message.encode(&mut bytes);
        if matches!(message, ElectionMessage::Promise(_)) {
            self.largest = self.largest.max(bytes.len());
        }
        let mut reader = Reader::new(&bytes);
        let read = ElectionMessage::decode(&mut reader).expect("what was written can be read");
        assert!(reader.is_empty());
        Wire::Election(read)
    }

    fn pass(&mut self, time: Nanos) {
        self.now += time;
        for node in &mut self.nodes {
            node.tick(self.now);
        }
    }
}

/// A promise counted its pending changes in one byte. After 256 takeovers that were cut short no promise could be read, and
/// no election was ever won again.
#[test]
fn three_hundred_unfinished_takeovers_do_not_end_elections() {
    let mut cluster = Cluster::new();
    for round in 0..300 {
        let candidate = round % 3;
        cluster.nodes[candidate].election.campaign(cluster.now);
        cluster.nodes[candidate].poll(cluster.now);
        // No leader of stream 1 hears that anybody accepted; every other leader of stream 0 does.
        cluster.run_until_quiet(|wire| match wire {
            Wire::Stream(1, Message::Accepted { .. }, _) => true,
            Wire::Stream(0, Message::Accepted { .. }, _) => round % 2 == 0,
            _ => false,
        });
        assert_eq!(cluster.nodes[candidate].election.standing(), Standing::Leading, "round {round}");
        cluster.pass(MS);
    }
    let pending = cluster.nodes.iter().map(|node| node.pending().len()).max().unwrap();
    assert!(pending >= 256, "{pending} changes are pending");
    assert!(cluster.largest < 1000, "a promise names voters, not attempts: {} bytes", cluster.largest);
    cluster.nodes[1].election.campaign(cluster.now);
    cluster.nodes[1].poll(cluster.now);
    for _ in 0..100 {
        cluster.run_until_quiet(|_| false);
        cluster.pass(MS);
    }
    let leader = &cluster.nodes[1];
    assert!(leader.is_open() && leader.lead.as_ref().unwrap().settled, "an epoch opens");
    assert_eq!(cluster.nodes[0].election.leader(cluster.now), Some(NodeId(1)));
    assert_eq!(leader.members().epoch, leader.election.promised().epoch);
}

/// Different unfinished changes to the same voters, one decided in each stream: together they put these voters in force, and
/// the one that they replaced is not needed any more. What came later than the older of the two is asked, too.
#[test]
fn changes_to_the_same_voters_count_together() {
    let new = founders(3).with(
        highwater_core::Epoch(5),
        Voter { node: NodeId(2), incarnation: highwater_core::Incarnation(9) },
    );
    let later = new.in_epoch(highwater_core::Epoch(7));
    let mut pending = Vec::new();
    PendingChange::note(&mut pending, STREAMS, 0, &new, true);
    PendingChange::note(&mut pending, STREAMS, 0, &later, false);
    PendingChange::note(&mut pending, STREAMS, 1, &later, true);
    assert_eq!(pending.len(), 1);
    assert_eq!(pending[0].members, later);
    assert_eq!(pending[0].decided, [new.epoch, later.epoch]);
    let options = ElectionOptions { nodes: 3, heartbeat: 10 * MS, timeout: 50 * MS };
    let mut election = Election::new(founder(0), options, 1);
    election.set_members(0, founders(3));
    election.set_eligible(true);
    election.campaign(0);
    let ballot = election.promised();
    let tails = vec![Tail::default(); STREAMS];
    let promise = Promise {
        ballot,
        members: founders(3),
        pending,
        tails,
        above_all: highwater_core::Timestamp(1),
        forgets: false,
    };
    // The own promise, and the newcomer's: no majority of the founders, but one of the new voters.
    election.fenced(0, promise.clone());
    assert_eq!(election.standing(), Standing::Preparing);
    let newcomer = *new.voters().last().unwrap();
    election.deliver(0, newcomer, ElectionMessage::Promise(promise));
    assert_eq!(election.standing(), Standing::Leading);
    assert_eq!(election.members().unwrap().epoch, new.epoch, "in force from the older change on");
}
