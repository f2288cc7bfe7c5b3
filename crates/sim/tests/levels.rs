//! Builds of two releases in one cluster: when the level in use is raised, what may be written before, and who is refused after.

use highwater_core::{
    Abort, IndexKind, KeyKind, Level, Library, NodeId, Outcome, Procedure, Registry, Schema, TableId,
    TableSpec, Transaction,
};
use highwater_engines::EngineKind;
use highwater_seam::{Options, Token};
use highwater_sim::{World, WorldOptions};

use crate::common::cluster::{converged, story};
use crate::common::{MS, small};

const OLD: Level = Level(1);
const NEW: Level = Level(2);
const TABLES: [TableId; 2] = [TableId(0), TableId(1)];

/// A table that there always was, and one that came with the newer level.
#[derive(Clone, Copy, Debug)]
struct Grown;

impl Library for Grown {
    fn tables(&self) -> Vec<TableSpec> {
        vec![TableSpec { name: "old", keys: KeyKind::U64, index: IndexKind::Hash }]
    }

    fn schema(&self) -> Schema {
        let rates = TableSpec { name: "rates", keys: KeyKind::U64, index: IndexKind::Ordered };
        Schema::new(self.tables()).with_tables_of(NEW, vec![rates])
    }

    fn register<T: Transaction>(&self, registry: &mut Registry<T>) {
        registry.register::<Count>();
    }
}

/// Adds 1 to a number, in the table that the argument names. Reply: what it is then.
struct Count;

impl Procedure for Count {
    const NAME: &'static str = "count";

    fn run<T: Transaction>(tx: &mut T, args: &[u8], reply: &mut Vec<u8>) -> Result<(), Abort> {
        let table = TABLES[usize::from(args[0])];
        let number = tx.get(table, &[0; 8])?.map_or(0, |value| value[0]);
        tx.put(table, &[0; 8], &[number + 1])?;
        reply.push(number + 1);
        Ok(())
    }
}

struct Mixed {
    world: World<Grown>,
    tokens: u64,
}

impl Mixed {
    /// Nodes of builds with these newest levels.
    fn start(seed: u64, builds: &[Level], tune: fn(&mut Options)) -> Mixed {
        let (engine, nodes) = (EngineKind::Rolis, builds.len() as u8);
        let options = WorldOptions { seed, engine, nodes, workers: 2, tune: tune.into() };
        let mut mixed = Mixed { world: World::new(options, Grown), tokens: 0 };
        for (id, newest) in (0..nodes).map(NodeId).zip(builds) {
            mixed.world.set_build(id, *newest);
            mixed.world.start(id);
        }
        mixed.until("they serve together", |mixed| converged(&mixed.world));
        mixed
    }

    fn run(&mut self, ms: u64) {
        self.world.run_until(self.world.now + ms * MS);
    }

    fn until(&mut self, what: &str, holds: impl Fn(&Mixed) -> bool) {
        let end = self.world.now + 5000 * MS;
        while !holds(self) {
            assert!(self.world.now < end, "{what}: {}", story(&self.world));
            self.run(1);
        }
    }

    fn leader(&self) -> NodeId {
        self.world.leader().expect("somebody leads")
    }

    fn level(&self, id: NodeId) -> Option<Level> {
        self.world.status(id).and_then(|status| status.level)
    }

    fn all_use(&self, level: Level) -> bool {
        self.world.ids().all(|id| self.level(id) == Some(level))
    }

    /// Restarts a node as a build whose newest level is this.
    fn restart(&mut self, id: NodeId, newest: Level) {
        self.world.kill(id);
        self.run(5);
        self.world.set_build(id, newest);
        self.world.start(id);
    }

    /// Counts in a table, at whoever leads, until it is answered.
    fn count(&mut self, table: u8) -> (Outcome, Vec<u8>) {
        let procedure = self.world.procedure("count");
        let end = self.world.now + 2000 * MS;
        self.tokens += 1;
        let token = Token(self.tokens);
        loop {
            assert!(self.world.now < end, "no answer: {}", story(&self.world));
            let leader = self.world.leader();
            if leader.is_some_and(|leader| self.world.submit(leader, 1, token, procedure, &[table]).is_ok()) {
                break;
            }
            self.run(1);
        }
        self.until("an answer", |mixed| mixed.world.replies.iter().any(|reply| reply.token == token));
        let reply = self.world.replies.drain(..).find(|reply| reply.token == token).expect("just seen");
        (reply.outcome, reply.bytes)
    }

    fn converge(&mut self) {
        self.until("all hold the same", |mixed| converged(&mixed.world));
    }
}

#[test]
fn the_level_is_raised_once_every_member_can_read_it() {
    let mut mixed = Mixed::start(1, &[NEW, NEW, OLD], small);
    mixed.run(1000);
    assert!(mixed.all_use(OLD), "{}", story(&mixed.world));
    let status = mixed.world.status(mixed.leader()).unwrap();
    let held_back_by = if mixed.leader() == NodeId(2) { vec![] } else { vec![NodeId(2)] };
    assert!(status.held_back_by == held_back_by || status.held_back_by == [NodeId(2)], "{status:?}");
    assert_eq!(mixed.count(0), (Outcome::Committed, vec![1]));
    mixed.restart(NodeId(2), NEW);
    mixed.until("the level is raised", |mixed| mixed.all_use(NEW));
    assert_eq!(mixed.world.status(mixed.leader()).unwrap().held_back_by, []);
    assert_eq!(mixed.count(0), (Outcome::Committed, vec![2]));
    mixed.converge();
}

/// A member that is away might come back as an older build.
#[test]
fn who_is_away_holds_the_level_back() {
    let mut mixed = Mixed::start(2, &[NEW, NEW, OLD], small);
    mixed.world.kill(NodeId(2));
    mixed.run(1000);
    assert_eq!((mixed.level(NodeId(0)), mixed.level(NodeId(1))), (Some(OLD), Some(OLD)));
    mixed.world.set_build(NodeId(2), NEW);
    mixed.world.start(NodeId(2));
    mixed.until("the level is raised", |mixed| mixed.all_use(NEW));
}

#[test]
fn an_older_build_that_comes_back_too_late_is_sent_nothing_and_harms_nobody() {
    let mut mixed = Mixed::start(3, &[NEW; 3], small);
    mixed.until("the level is raised", |mixed| mixed.all_use(NEW));
    assert_eq!(mixed.count(1), (Outcome::Committed, vec![1]));
    let follower = mixed.world.ids().find(|id| *id != mixed.leader()).unwrap();
    mixed.world.careless = true;
    mixed.restart(follower, OLD);
    mixed.run(1000);
    // What it would not read was not sent: that is a rule over all nodes, and ends the test.
    assert_eq!(mixed.level(follower), Some(OLD));
    assert_eq!(mixed.world.status(follower).unwrap().ask, None, "nobody speaks with it");
    assert_eq!(mixed.count(1), (Outcome::Committed, vec![2]));
    mixed.restart(follower, NEW);
    mixed.converge();
    assert!(mixed.all_use(NEW));
}

/// Both may be restarted as the build before as long as the level was not raised.
#[test]
fn a_node_is_taken_back_to_the_older_build_while_the_level_is_not_raised() {
    let mut mixed = Mixed::start(4, &[OLD; 3], small);
    let follower = mixed.world.ids().find(|id| *id != mixed.leader()).unwrap();
    mixed.restart(follower, NEW);
    mixed.converge();
    mixed.restart(follower, OLD);
    mixed.converge();
    assert!(mixed.all_use(OLD));
    assert_eq!(mixed.count(0), (Outcome::Committed, vec![1]));
}

/// The table is there on the leader, and yet not for everybody.
#[test]
fn what_not_all_nodes_know_is_not_written() {
    let mut mixed = Mixed::start(5, &[NEW, NEW, OLD], small);
    let (outcome, why) = mixed.count(1);
    let why = String::from_utf8(why).unwrap();
    assert_eq!(outcome, Outcome::BadRequest);
    assert!(why.contains("upgrade the nodes that hold the level back"), "{why}");
    assert_eq!(mixed.count(0), (Outcome::Committed, vec![1]), "nothing was left of it");
    mixed.converge();
    mixed.restart(NodeId(2), NEW);
    mixed.until("the level is raised", |mixed| mixed.all_use(NEW));
    assert_eq!(mixed.count(1), (Outcome::Committed, vec![1]));
    // Whoever leads next knows of it, though it did not raise it.
    let leader = mixed.leader();
    mixed.world.kill(leader);
    assert_eq!(mixed.count(1), (Outcome::Committed, vec![2]));
    mixed.world.start(leader);
    mixed.converge();
}

fn with_disks(options: &mut Options) {
    small(options);
    options.durability = highwater_core::Durability::Sync;
}

/// The level is on the disks: all of them together come back with it, and one that is away does not take it from them.
#[test]
fn a_level_outlives_the_power() {
    let mut mixed = Mixed::start(6, &[NEW; 3], with_disks);
    mixed.until("the level is raised", |mixed| mixed.all_use(NEW));
    assert_eq!(mixed.count(1), (Outcome::Committed, vec![1]));
    mixed.run(100);
    mixed.world.cut_power();
    for id in [0, 1].map(NodeId) {
        mixed.world.start(id);
        assert_eq!(mixed.level(id), Some(NEW), "{id}");
    }
    assert_eq!(mixed.count(1), (Outcome::Committed, vec![2]));
}
