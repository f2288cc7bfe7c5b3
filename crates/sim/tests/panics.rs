//! A procedure that panics, on every engine, on a leader and on a follower's snapshot: its client is told, and the replica
//! goes on.

use highwater_core::{
    Abort, IndexKind, KeyKind, Library, NodeId, Outcome, Procedure, Registry, TableId, TableSpec, Transaction,
};
use highwater_engines::EngineKind;
use highwater_seam::{Nanos, Token};
use highwater_sim::{World, WorldOptions};

const MS: Nanos = 1_000_000;
const TABLE: TableId = TableId(0);
const KEY: [u8; 8] = [7; 8];

/// Counts, or panics if it is told to, having counted.
struct Count;

impl Procedure for Count {
    const NAME: &'static str = "test.count";

    fn run<T: Transaction>(tx: &mut T, args: &[u8], reply: &mut Vec<u8>) -> Result<(), Abort> {
        let old = tx.get(TABLE, &KEY)?.map_or(0, |value| value[0]);
        reply.push(old);
        if args != b"read" {
            tx.put(TABLE, &KEY, &[old + 1])?;
        }
        assert!(args != b"panic", "nobody counts beyond {old}");
        Ok(())
    }
}

/// Reads, and panics.
struct Doubt;

impl Procedure for Doubt {
    const NAME: &'static str = "test.doubt";

    fn run<T: Transaction>(tx: &mut T, _: &[u8], reply: &mut Vec<u8>) -> Result<(), Abort> {
        reply.extend_from_slice(b"not to be seen");
        let value = tx.get(TABLE, &KEY)?.expect("somebody counted")[0];
        panic!("{value} is doubtful")
    }

    fn explain_panic(message: &str, args: &[u8], reply: &mut Vec<u8>) {
        reply.extend_from_slice(args);
        reply.extend_from_slice(message.as_bytes());
    }
}

struct Panics;

impl Library for Panics {
    fn tables(&self) -> Vec<TableSpec> {
        vec![TableSpec { name: "table", keys: KeyKind::U64, index: IndexKind::Hash }]
    }

    fn register<T: Transaction>(&self, registry: &mut Registry<T>) {
        registry.register::<Count>();
        registry.register::<Doubt>();
    }
}

fn started(engine: EngineKind, nodes: u8) -> World<Panics> {
    let tune: fn(&mut highwater_seam::Options) = |_| {};
    let mut world =
        World::new(WorldOptions { seed: 5, engine, nodes, workers: 2, tune: tune.into() }, Panics);
    // Panics are noted, too: whoever simulates procedures that do not panic wants to know.
    world.lenient = true;
    world.ids().for_each(|id| world.start(id));
    while world.leader().is_none() {
        assert!(world.now < 2000 * MS, "no leader");
        world.run_until(world.now + MS);
    }
    world
}

/// The one reply that comes within a while.
fn reply(world: &mut World<Panics>) -> (Outcome, Vec<u8>) {
    let until = world.now + 500 * MS;
    while world.replies.is_empty() {
        assert!(world.now < until, "no reply");
        world.run_until(world.now + MS);
    }
    let reply = world.replies.pop().unwrap();
    assert!(world.replies.is_empty());
    (reply.outcome, reply.bytes)
}

fn ask(world: &mut World<Panics>, name: &str, args: &[u8], worker: u16) -> (Outcome, Vec<u8>) {
    let (leader, procedure) = (world.leader().unwrap(), world.procedure(name));
    let until = world.now + 500 * MS;
    while world.submit(leader, worker, Token(1), procedure, args).is_err() {
        assert!(world.now < until, "the leader takes requests");
        world.run_until(world.now + MS);
    }
    reply(world)
}

#[test]
fn whoever_runs_a_procedure_that_panics_tells_its_client_and_goes_on() {
    for (engine, nodes) in [(EngineKind::Rolis, 3), (EngineKind::Strawman, 3), (EngineKind::Silo, 1)] {
        let mut world = started(engine, nodes);
        for round in 0..20u8 {
            let worker = u16::from(round % 2);
            let counted = ask(&mut world, Count::NAME, b"", worker);
            assert_eq!(counted, (Outcome::Committed, vec![round]), "{engine:?}: a panic changed something");
            let text = format!("test.count panicked: nobody counts beyond {}", round + 1);
            let panicked = ask(&mut world, Count::NAME, b"panic", worker);
            assert_eq!(panicked, (Outcome::BadRequest, text.into_bytes()), "{engine:?}");
            let text = format!("I say: {} is doubtful", round + 1);
            let panicked = ask(&mut world, Doubt::NAME, b"I say: ", worker);
            assert_eq!(panicked, (Outcome::BadRequest, text.into_bytes()), "{engine:?}");
        }
        let violations = world.violations();
        assert!(!violations.is_empty(), "a simulator notices");
        assert!(violations.iter().all(|violation| violation.contains("panicked on")), "{violations:?}");
    }
}

#[test]
fn a_panic_on_a_follower_s_snapshot_is_that_read_s_outcome() {
    let mut world = started(EngineKind::Rolis, 3);
    assert_eq!(ask(&mut world, Count::NAME, b"", 0).0, Outcome::Committed);
    world.run_until(world.now + 50 * MS);
    let leader = world.leader().unwrap();
    let follower = (0..3).map(NodeId).find(|id| *id != leader).unwrap();
    let (count, doubt) = (world.procedure(Count::NAME), world.procedure(Doubt::NAME));
    // All in one turn, on one snapshot: those that panic do not spoil the others.
    for round in 0..10 {
        for (token, procedure, args) in [(0, count, &b"read"[..]), (1, doubt, b""), (2, count, b"read")] {
            world.submit_snapshot(follower, 1, Token(3 * round + token), procedure, args).unwrap();
        }
        world.run_until(world.now + 100 * MS);
        let mut replies: Vec<_> =
            world.replies.drain(..).map(|reply| (reply.token.0 % 3, reply.outcome, reply.bytes)).collect();
        replies.sort_unstable_by_key(|reply| reply.0);
        let told = (1, Outcome::BadRequest, b"1 is doubtful".to_vec());
        let read = |token| (token, Outcome::Committed, vec![1]);
        assert_eq!(replies, [read(0), told, read(2)]);
    }
    let store = world.replica(follower).unwrap().controller.store();
    world.run_until(world.now + 500 * MS);
    assert_eq!(store.versions_kept(), 0);
}
