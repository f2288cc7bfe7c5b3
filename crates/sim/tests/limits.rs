//! Procedures that want too much: whatever the engine, they are answered, and nobody falls over.

use std::ops::{Bound, ControlFlow};

use crate::common::MS;
use highwater_core::limits::{MAX_REPLY_BYTES, MAX_TRANSACTION_BYTES, MAX_VALUE_BYTES};
use highwater_core::{
    Abort, Direction, IndexKind, KeyKind, Library, NodeId, Outcome, Procedure, Registry, TableId, TableSpec,
    Transaction,
};
use highwater_engines::EngineKind;
use highwater_seam::options::MIN_TRANSACTION_ROWS;
use highwater_seam::{Options, Token};
use highwater_sim::{World, WorldOptions};

const TABLE: TableId = TableId(0);

#[derive(Clone, Copy, Debug)]
struct Greedy;

impl Library for Greedy {
    fn tables(&self) -> Vec<TableSpec> {
        vec![TableSpec { name: "rows", keys: KeyKind::U64, index: IndexKind::Ordered }]
    }

    fn register<T: Transaction>(&self, registry: &mut Registry<T>) {
        registry.register::<Fill>();
        registry.register::<Tell>();
        registry.register::<Clear>();
    }
}

/// Sets rows. Arguments: first u64, count u64, length of each value u64, what to set them to u8.
struct Fill;

impl Procedure for Fill {
    const NAME: &'static str = "greedy.fill";

    fn run<T: Transaction>(tx: &mut T, args: &[u8], _: &mut Vec<u8>) -> Result<(), Abort> {
        let number = |at: usize| u64::from_le_bytes(args[at * 8..][..8].try_into().expect("8 bytes"));
        let value = vec![args[24]; number(2) as usize];
        (number(0)..number(0) + number(1)).try_for_each(|key| tx.put(TABLE, &key.to_be_bytes(), &value))
    }
}

/// Answers all rows, so many times. Arguments: times u8.
struct Tell;

impl Procedure for Tell {
    const NAME: &'static str = "greedy.tell";

    fn run<T: Transaction>(tx: &mut T, args: &[u8], reply: &mut Vec<u8>) -> Result<(), Abort> {
        for _ in 0..args[0] {
            tx.scan(TABLE, (Bound::Unbounded, Bound::Unbounded), Direction::Forward, |_, value| {
                reply.extend_from_slice(value);
                ControlFlow::Continue(())
            })?;
        }
        Ok(())
    }
}

/// Deletes all rows.
struct Clear;

impl Procedure for Clear {
    const NAME: &'static str = "greedy.clear";

    fn run<T: Transaction>(tx: &mut T, _: &[u8], _: &mut Vec<u8>) -> Result<(), Abort> {
        let mut keys = Vec::new();
        tx.scan(TABLE, (Bound::Unbounded, Bound::Unbounded), Direction::Forward, |key, _| {
            keys.push(key.to_vec());
            ControlFlow::Continue(())
        })?;
        keys.iter().try_for_each(|key| tx.delete(TABLE, key).map(drop))
    }
}

fn world(engine: EngineKind) -> World<Greedy> {
    world_of(engine, |options| options.max_transaction_bytes = MAX_TRANSACTION_BYTES)
}

fn world_of(engine: EngineKind, tune: fn(&mut Options)) -> World<Greedy> {
    let options = WorldOptions { seed: 7, engine, nodes: 3, workers: 2, tune: tune.into() };
    let mut world = World::new(options, Greedy);
    world.ids().for_each(|id| world.start(id));
    // Its transactions are larger than the watch expects of any.
    world.lenient = true;
    let patience = 5_000 * MS;
    while world.leader().is_none() && world.now < patience {
        world.run_until(world.now + MS);
    }
    world
}

/// Submits to worker 1 of the leader and waits for the answer.
fn ask(world: &mut World<Greedy>, procedure: &str, args: &[u8]) -> (Outcome, Vec<u8>) {
    let leader = world.leader().unwrap_or(NodeId(0));
    let (procedure, token) = (world.procedure(procedure), Token(world.now));
    let deadline = world.now + 10_000 * MS;
    while world.submit(leader, 1, token, procedure, args).is_err() {
        assert!(world.now < deadline, "nobody takes it");
        world.run_until(world.now + MS);
    }
    loop {
        world.run_until(world.now + MS);
        let answer = world.replies.iter().position(|reply| reply.token == token);
        if let Some(at) = answer {
            let reply = world.replies.swap_remove(at);
            return (reply.outcome, reply.bytes);
        }
        assert!(world.now < deadline, "no answer");
    }
}

fn fill(world: &mut World<Greedy>, first: u64, count: u64, len: usize, with: u8) -> Outcome {
    let mut args = [first, count, len as u64].map(u64::to_le_bytes).concat();
    args.push(with);
    ask(world, "greedy.fill", &args).0
}

#[test]
fn a_procedure_that_wants_too_much_is_told_so_on_every_engine() {
    for engine in EngineKind::ALL.iter().copied() {
        let mut world = world(engine);
        let (most, leader) = (MAX_TRANSACTION_BYTES / MAX_VALUE_BYTES, world.leader());
        let tell = |world: &mut World<Greedy>, times| ask(world, "greedy.tell", &[times]);
        // Too much to write, in few large rows and in many small ones.
        assert_eq!(fill(&mut world, 0, most as u64, MAX_VALUE_BYTES, 1), Outcome::TooLarge, "{engine:?}");
        assert_eq!(fill(&mut world, 0, 1 << 40, 1000, 1), Outcome::TooLarge);
        assert_eq!(fill(&mut world, 0, 1, MAX_VALUE_BYTES + 1, 1), Outcome::BadRequest);
        assert_eq!(tell(&mut world, 1), (Outcome::Committed, vec![]), "nothing of it was done");
        // As much as goes, twice.
        for first in [0, 10] {
            assert_eq!(fill(&mut world, first, most as u64 - 1, MAX_VALUE_BYTES, 2), Outcome::Committed);
        }
        // Too much to answer, and to replace.
        let (outcome, reply) = tell(&mut world, 1);
        assert!(2 * (most - 1) * MAX_VALUE_BYTES > MAX_REPLY_BYTES);
        assert_eq!(outcome, Outcome::TooLarge);
        let words = String::from_utf8(reply).expect("words");
        assert!(words.contains(&MAX_REPLY_BYTES.to_string()), "{words}");
        let cleared = ask(&mut world, "greedy.clear", &[]).0;
        // Who installs nothing that it may have to roll back keeps nothing of what it replaces.
        let rolls_back = matches!(engine, EngineKind::Rolis | EngineKind::Strawman);
        let expected = if rolls_back { Outcome::TooLarge } else { Outcome::Committed };
        assert_eq!(cleared, expected);
        assert_eq!(fill(&mut world, 0, 10, 3, 3), Outcome::Committed);
        assert_eq!(world.leader(), leader, "{engine:?}: nobody fell over");
        assert!(world.ids().all(|id| world.is_up(id)));
    }
}

/// A request takes no longer than its rows allow, whether it reads, writes or deletes them, and whatever they hold.
#[test]
fn a_transaction_of_too_many_rows_is_refused_on_every_engine() {
    const MOST: u64 = MIN_TRANSACTION_ROWS;
    for engine in EngineKind::ALL.iter().copied() {
        let mut world = world_of(engine, |options| {
            options.max_transaction_bytes = MAX_TRANSACTION_BYTES;
            options.max_transaction_rows = MOST;
        });
        let refused = |(outcome, reply): (Outcome, Vec<u8>), what: &str| {
            let words = String::from_utf8_lossy(&reply);
            assert_eq!(outcome, Outcome::TooLarge, "{engine:?}: {what}");
            assert!(
                words.contains(&format!("{MOST} rows (limits.transaction_rows; ")),
                "{engine:?}: {what}: {words}"
            );
        };
        let many = [0, MOST + 1, 1].map(u64::to_le_bytes).concat();
        refused(ask(&mut world, "greedy.fill", &[&many[..], &[1]].concat()), "a write");
        assert_eq!(
            ask(&mut world, "greedy.tell", &[1]),
            (Outcome::Committed, vec![]),
            "{engine:?}: nothing of it was done"
        );
        // A row that is added counts four.
        let added = MOST / 4 - 100;
        for at in 0..3 {
            let filled = fill(&mut world, at * added, added, 1, 1);
            assert_eq!(filled, Outcome::Committed, "{engine:?}: each transaction has its own");
        }
        assert_eq!(
            ask(&mut world, "greedy.tell", &[1]).1.len() as u64,
            3 * added,
            "{engine:?}: what goes, goes"
        );
        // Rows that are read again, and what follows rows that were read.
        refused(ask(&mut world, "greedy.tell", &[2]), "a read");
        refused(ask(&mut world, "greedy.clear", &[]), "a delete");
        assert!(world.ids().all(|id| world.is_up(id)));
    }
}
