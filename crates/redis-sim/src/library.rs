//! What the replicas of such a run hold: the simulator's tables and procedures, and the door's behind them.
//!
//! The door's tables have numbers of their own in the product; here they stand behind the simulator's. Its procedures are the product's,
//! and see their tables where they expect them.

use std::ops::ControlFlow;

use highwater_core::transaction::KeyRange;
use highwater_core::{
    Abort, Direction, IndexKind, KeyKind, Library, Procedure, Registry, TableId, TableSpec, Timestamp,
    Transaction,
};
use highwater_redis::acl::USERS;
use highwater_redis::acl::change::ChangeUsers;
use highwater_redis::exec::{Exec, ReadVersions};
use highwater_redis::interactive::Interact;
use highwater_redis::keyspace::sweep::Sweep;
use highwater_redis::keyspace::{DUE, ELEMENTS, ITEMS, KEYSPACE, NAMES};
use highwater_redis::schema;
use highwater_sim::library::{SimLibrary, TABLES};

/// The tables that guests' commands use, in the order in which they stand behind the simulator's.
const MOVED: [(TableId, &str, IndexKind); 7] = [
    (KEYSPACE, "keyspace", IndexKind::Hash),
    (NAMES, "names", IndexKind::Ordered),
    (ELEMENTS, "elements", IndexKind::Ordered),
    (ITEMS, "items", IndexKind::Ordered),
    (DUE, "due", IndexKind::Ordered),
    (USERS, "users", IndexKind::Ordered),
    (schema::TABLES, "tables", IndexKind::Ordered),
];

/// Where a table of the product stands here. Of those that no guest uses, nowhere.
pub fn place(table: TableId) -> TableId {
    let at = MOVED.iter().position(|(moved, ..)| *moved == table);
    at.map_or(TableId(u8::MAX), |at| TableId(TABLES + at as u8))
}

/// See the module.
#[derive(Clone, Copy, Debug)]
pub struct Joined;

impl Library for Joined {
    fn tables(&self) -> Vec<TableSpec> {
        let moved = MOVED.map(|(_, name, index)| TableSpec { name, keys: KeyKind::Bytes, index });
        SimLibrary.tables().into_iter().chain(moved).collect()
    }

    fn register<T: Transaction>(&self, registry: &mut Registry<T>) {
        SimLibrary.register(registry);
        registry.register::<Moved<Exec>>();
        registry.register::<Moved<ReadVersions>>();
        registry.register::<Moved<Interact>>();
        registry.register::<Moved<ChangeUsers>>();
        registry.register::<Moved<Sweep>>();
    }
}

/// A procedure of the product.
struct Moved<P>(std::marker::PhantomData<P>);

impl<P: Procedure> Procedure for Moved<P> {
    const NAME: &'static str = P::NAME;
    const VERSION: u32 = P::VERSION;

    fn identity(args: &[u8]) -> &[u8] {
        P::identity(args)
    }

    fn run<T: Transaction>(tx: &mut T, args: &[u8], reply: &mut Vec<u8>) -> Result<(), Abort> {
        P::run(&mut Elsewhere(tx), args, reply)
    }

    fn explain_panic(message: &str, args: &[u8], reply: &mut Vec<u8>) {
        P::explain_panic(message, args, reply);
    }
}

/// A transaction whose tables stand elsewhere.
struct Elsewhere<'a, T>(&'a mut T);

impl<T: Transaction> Transaction for Elsewhere<'_, T> {
    fn get(&mut self, table: TableId, key: &[u8]) -> Result<Option<&[u8]>, Abort> {
        self.0.get(place(table), key)
    }

    fn put(&mut self, table: TableId, key: &[u8], value: &[u8]) -> Result<(), Abort> {
        self.0.put(place(table), key, value)
    }

    fn insert(&mut self, table: TableId, key: &[u8], value: &[u8]) -> Result<bool, Abort> {
        self.0.insert(place(table), key, value)
    }

    fn delete(&mut self, table: TableId, key: &[u8]) -> Result<bool, Abort> {
        self.0.delete(place(table), key)
    }

    fn scan<F>(
        &mut self,
        table: TableId,
        range: KeyRange<'_>,
        direction: Direction,
        visit: F,
    ) -> Result<(), Abort>
    where
        F: FnMut(&[u8], &[u8]) -> ControlFlow<()>,
    {
        self.0.scan(place(table), range, direction, visit)
    }

    fn version(&mut self, table: TableId, key: &[u8]) -> Result<Timestamp, Abort> {
        self.0.version(place(table), key)
    }
}
