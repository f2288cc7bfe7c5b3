//! Copies of stores that hold the largest values there may be.

use highwater_core::limits::MAX_VALUE_BYTES;
use highwater_core::{
    Abort, IndexKind, KeyKind, Library, Outcome, Procedure, Registry, TableId, TableSpec, Transaction, View,
};
use highwater_engines::EngineKind;
use highwater_seam::{Nanos, Token};
use highwater_sim::{World, WorldOptions};

const MS: Nanos = 1_000_000;
const TABLES: [TableId; 2] = [TableId(0), TableId(1)];

struct BigLibrary;

impl Library for BigLibrary {
    fn tables(&self) -> Vec<TableSpec> {
        vec![
            TableSpec { name: "hash", keys: KeyKind::Bytes, index: IndexKind::Hash },
            TableSpec { name: "tree", keys: KeyKind::Bytes, index: IndexKind::Ordered },
        ]
    }

    fn register<T: Transaction>(&self, registry: &mut Registry<T>) {
        registry.register::<Put>();
    }
}

/// Arguments: table u8, key u8, length of the value u32.
struct Put;

impl Procedure for Put {
    const NAME: &'static str = "big.put";

    fn run<T: Transaction>(tx: &mut T, args: &[u8], _: &mut Vec<u8>) -> Result<(), Abort> {
        let len = u32::from_le_bytes([args[2], args[3], args[4], args[5]]);
        tx.put(TABLES[args[0] as usize], &args[1..2], &vec![args[1]; len as usize])
    }
}

/// More values of 16 MiB than a frame has room for, in one segment and in one leaf; a follower dies and comes back. (Whole
/// segments were sent at once: the donor's assertion on the length of frames stopped it, and each next donor.)
#[test]
fn a_replica_with_values_of_the_largest_size_is_copied() {
    const VALUES: u8 = 9;
    let mut world = World::new(
        WorldOptions {
            seed: 1,
            engine: EngineKind::Rolis,
            nodes: 3,
            workers: 1,
            tune: (|options: &mut highwater_seam::Options| {
                options.max_transaction_bytes = 2 * MAX_VALUE_BYTES;
                options.max_in_flight_bytes = 2 * MAX_VALUE_BYTES;
                options.log_retain_bytes = options.max_in_flight_bytes;
            })
            .into(),
        },
        BigLibrary,
    );
    let mut tokens = 0;
    let wait =
        |world: &mut World<BigLibrary>, what: &str, done: &mut dyn FnMut(&mut World<BigLibrary>) -> bool| {
            let deadline = world.now + 60_000 * MS;
            while !done(world) {
                assert!(world.now < deadline, "{what} within a minute");
                let until = world.now + MS;
                world.run_until(until);
            }
        };
    world.ids().for_each(|id| world.start(id));
    wait(&mut world, "a leader", &mut |world| world.leader().is_some());
    for table in 0..2 {
        for key in 0..VALUES {
            let mut args = vec![table, key];
            args.extend_from_slice(&(MAX_VALUE_BYTES as u32).to_le_bytes());
            tokens += 1;
            let token = Token(tokens);
            let mut taken = false;
            wait(&mut world, "an acknowledgement", &mut |world| {
                let procedure = world.procedure("big.put");
                let leader = world.leader().expect("nobody disturbs the leader");
                taken = taken || world.submit(leader, 0, token, procedure, &args).is_ok();
                let replies = std::mem::take(&mut world.replies);
                replies.iter().any(|reply| reply.token == token && reply.outcome == Outcome::Committed)
            });
        }
    }
    let leader = world.leader().expect("nobody disturbs the leader");
    let victim = world.ids().find(|id| *id != leader).expect("there are three");
    world.kill(victim);
    let until = world.now + 100 * MS;
    world.run_until(until);
    world.start(victim);
    wait(&mut world, "the copy", &mut |world| {
        let status = world.status(victim);
        let complete = |status: highwater_seam::Status| {
            status.role == "follower" && status.copying_bytes.is_none() && status.trouble.is_none()
        };
        let store = world.replica(victim).map(|replica| replica.controller.store());
        status.is_some_and(complete)
            && store.is_some_and(|store| store.get(TABLES[1], &[VALUES - 1]).is_some())
    });
    let stores = [leader, victim].map(|id| world.replica(id).expect("it is up").controller.store());
    assert_eq!(stores[0].digest(), stores[1].digest());
    let [donor, copy] = stores.map(|store| store.memory());
    assert!(copy.reserved < donor.reserved + donor.reserved / 7 + (8 << 20), "{copy:?} of {donor:?}");
    assert_eq!(world.violations(), Vec::<String>::new());
}
