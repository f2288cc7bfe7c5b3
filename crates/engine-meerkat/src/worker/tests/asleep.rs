//! Replicas of several workers that have a turn when they asked for one, when something comes, or when their controller wakes them.

use super::*;
use highwater_kit::validation::own::Asked;

/// Three replicas; frames take no time.
struct Cluster {
    /// Workers by node and number; and when each wants its next turn.
    workers: Vec<Vec<(MeerkatWorker, Nanos)>>,
    now: Nanos,
    /// How many turns were had.
    turns: u64,
    committed: usize,
}

impl Cluster {
    fn new(workers: u16, durability: Durability) -> Cluster {
        let replica = |node| replica(options(NodeId(node), workers, durability), Clock::counter(), false);
        let workers = (0..NODES).map(|node| replica(node).into_iter().map(|worker| (worker, 0)).collect());
        let mut cluster = Cluster { workers: workers.collect(), now: 0, turns: 0, committed: 0 };
        for (node, worker) in cluster.all() {
            for other in (0..NODES).map(NodeId).filter(|other| *other != node) {
                cluster.at(node, worker).0.peer_up(0, other, life(other), Levels::default());
            }
            cluster.at(node, worker).0.take_commands(0);
            cluster.at(node, worker).0.context.shared.set_open(Some(Epoch(1)));
        }
        cluster
    }

    fn all(&self) -> Vec<(NodeId, u16)> {
        let each =
            |(node, of): (usize, &Vec<_>)| (0..of.len()).map(move |at| (NodeId(node as u8), at as u16));
        self.workers.iter().enumerate().flat_map(each).collect()
    }

    fn at(&mut self, node: NodeId, worker: u16) -> &mut (MeerkatWorker, Nanos) {
        &mut self.workers[usize::from(node.0)][usize::from(worker)]
    }

    fn turn(&mut self, node: NodeId, worker: u16) {
        let (now, mut out) = (self.now, Outbox::default());
        self.turns += 1;
        let (own, due) = self.at(node, worker);
        *due = match own.turn(now, &mut out) {
            Next::Now => now,
            Next::At(at) => at,
            Next::Idle => Nanos::MAX,
        };
        let position = own.journal.position();
        if !out.writes.is_empty() {
            own.synced(now, position);
            *due = now;
        }
        self.committed += out.replies.iter().filter(|reply| reply.outcome == Outcome::Committed).count();
        for (to, frame) in out.frames {
            let (other, due) = self.at(to.node, to.worker);
            other.deliver(now, Endpoint { node, worker }, frame);
            *due = now;
        }
    }

    /// Lets time pass. At each heartbeat the controllers look whether somebody has to be woken.
    fn run(&mut self, for_ns: Nanos) {
        let end = self.now + for_ns;
        while self.now < end {
            self.now += MS / 2;
            for (node, worker) in self.all() {
                let beats = self.now.is_multiple_of(5 * MS);
                let (own, due) = self.at(node, worker);
                let woken = beats && own.context.shared.awaited().is_some();
                if *due <= self.now || woken {
                    self.turn(node, worker);
                }
            }
        }
    }

    /// A client of a worker has a key written and deleted.
    fn write_and_delete(&mut self, node: NodeId, worker: u16, key: &[u8]) {
        for procedure in [PUT, DELETE] {
            let now = self.now;
            let (own, due) = self.at(node, worker);
            own.submit(now, Request::new(Token(now), procedure, key)).expect("it serves");
            *due = now;
            self.run(2 * MS);
        }
    }

    fn tombstones(&self) -> usize {
        self.workers.iter().flatten().filter(|(own, _)| own.rows.has_tombstones()).count()
    }
}

/// Tombstones that nobody needs any more go, though one worker number has nothing to do at any node, and says nothing by itself.
#[test]
fn tombstones_go_while_a_worker_number_is_idle() {
    for durability in [Durability::Memory, Durability::Sync] {
        let mut cluster = Cluster::new(2, durability);
        cluster.run(100 * MS);
        (0..20u8).for_each(|key| cluster.write_and_delete(NodeId(key % NODES), 0, &[key]));
        assert!(cluster.tombstones() > 0, "they linger");
        cluster.run(300 * MS);
        assert_eq!(cluster.tombstones(), 0, "{durability:?}");
        let turns = cluster.turns;
        cluster.run(1000 * MS);
        assert!(cluster.turns <= turns + 12, "{} turns for nothing", cluster.turns - turns);
    }
}

/// Those who want the same key at one replica wait for each other there, and are in nobody's way.
#[test]
fn who_wants_the_same_key_waits_in_a_lane() {
    let mut cluster = Cluster::new(1, Durability::Memory);
    cluster.run(10 * MS);
    for round in 0..10 {
        for client in 0..20 {
            let (now, token) = (cluster.now, Token(round * 20 + client));
            let (own, due) = cluster.at(A, 0);
            own.submit(now, Request::new(token, CHANGE, b"hot")).expect("it serves");
            *due = now;
        }
        cluster.run(200 * MS);
        assert_eq!(cluster.committed as u64, 20 * (round + 1));
    }
    let conflicts = cluster.at(A, 0).0.context.counters.conflicts.load(Ordering::Relaxed);
    assert!(conflicts < 100, "{conflicts} attempts of 200 transactions came to nothing");
}

/// A request that was refused again and again is proposed ahead of its coordinator's clock. Its record goes when it is over everywhere, though that clock stands still, and
/// nobody asks for anything any more.
#[test]
fn what_was_ahead_of_a_clock_that_stands_still_is_forgotten() {
    let mut cluster = Cluster::new(1, Durability::Memory);
    cluster.run(10 * MS);
    let now = cluster.now;
    let (own, due) = cluster.at(A, 0);
    let asked = Asked { attempts: 20, ..Asked::of(now, &Request::new(Token(1), PUT, b"k")) };
    own.attempt(now, asked, Timestamp::ZERO);
    let ahead = own.context.shared.layout.ticks_between(own.stamps.last(), own.latest);
    assert!(ahead > 500, "{ahead} ticks");
    *due = now;
    cluster.run(300 * MS);
    assert_eq!(cluster.committed, 1);
    let left: usize = cluster.workers.iter().flatten().map(|(own, _)| own.records.len()).sum();
    assert_eq!(left, 0, "records of what is over everywhere");
}
