//! The hot path allocates nothing: neither generators nor procedures, once their buffers have grown.

#![allow(clippy::unwrap_used)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::collections::BTreeMap;
use std::ops::ControlFlow;

use highwater_core::transaction::KeyRange;
use highwater_core::{Abort, Direction, Library, Registry, TableId, Timestamp, Transaction, View};
use highwater_workloads::testing::Runner;
use highwater_workloads::{AllWorkloads, Options};

thread_local! {
    static ALLOCATIONS: Cell<usize> = const { Cell::new(0) };
}

struct Counting;

// SAFETY: everything is passed on to the system's allocator unchanged; the counter is const-initialised and has no
// destructor, so that touching it allocates nothing.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.with(|count| count.set(count.get() + 1));
        // SAFETY: the caller's promise about `layout` is the one that `System` asks for.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        // SAFETY: `memory` came from `alloc` above, which took it from `System` with this layout.
        unsafe { System.dealloc(memory, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

type Table = BTreeMap<Vec<u8>, Vec<u8>>;

/// Reads a fixed population and forgets writes: allocates nothing itself.
struct Forgetful(Vec<Table>);

impl Transaction for Forgetful {
    fn get(&mut self, table: TableId, key: &[u8]) -> Result<Option<&[u8]>, Abort> {
        Ok(self.0[table.0 as usize].get(key).map(Vec::as_slice))
    }

    fn put(&mut self, _: TableId, _: &[u8], _: &[u8]) -> Result<(), Abort> {
        Ok(())
    }

    fn insert(&mut self, _: TableId, _: &[u8], _: &[u8]) -> Result<bool, Abort> {
        Ok(true)
    }

    fn delete(&mut self, _: TableId, _: &[u8]) -> Result<bool, Abort> {
        Ok(true)
    }

    fn scan<F>(
        &mut self,
        table: TableId,
        range: KeyRange<'_>,
        direction: Direction,
        mut visit: F,
    ) -> Result<(), Abort>
    where
        F: FnMut(&[u8], &[u8]) -> ControlFlow<()>,
    {
        let mut pairs = self.0[table.0 as usize].range::<[u8], _>(range);
        let mut step = || match direction {
            Direction::Forward => pairs.next(),
            Direction::Backward => pairs.next_back(),
        };
        while let Some((key, value)) = step() {
            if visit(key, value).is_break() {
                break;
            }
        }
        Ok(())
    }

    fn version(&mut self, _: TableId, _: &[u8]) -> Result<Timestamp, Abort> {
        Ok(Timestamp::ZERO)
    }
}

#[test]
fn generators_and_procedures_allocate_nothing_once_warm() {
    for (name, options) in [
        ("tpcc", vec![("scale", "0.02"), ("warehouses", "2")]),
        ("tpcc", vec![("scale", "0.02"), ("warehouses", "2"), ("layout", "silo")]),
        ("ycsb", vec![("keys", "1000"), ("value_bytes", "100")]),
        ("bank", vec![("accounts", "100")]),
        ("ycsb-t", vec![("keys", "1000"), ("zipf", "0.6")]),
        ("retwis", vec![("keys", "1000"), ("zipf", "0.6")]),
    ] {
        let workload = Options::parse(name, options).unwrap().build();
        let loaded = Runner::loaded(&*workload);
        let copy = |table: usize| {
            let mut rows = Table::new();
            loaded.view().for_each(TableId(table as u8), &mut |key, value| {
                rows.insert(key.to_vec(), value.to_vec());
            });
            rows
        };
        let mut tx = Forgetful((0..AllWorkloads.tables().len()).map(copy).collect());
        let mut registry = Registry::new();
        AllWorkloads.register(&mut registry);
        let ids: Vec<_> = workload.kinds().iter().map(|kind| registry.find(kind).unwrap()).collect();
        let mut generator = workload.generator(0, 1, 1);
        // The largest request and reply, which a long warm-up would find.
        let (mut args, mut reply) = (Vec::with_capacity(1 << 12), Vec::with_capacity(1 << 12));
        let before = ALLOCATIONS.with(Cell::get);
        for _ in 0..5000 {
            let kind = generator.next(&mut args);
            reply.clear();
            let result = registry.run(ids[kind], &mut tx, &args, &mut reply);
            assert!(matches!(result, Ok(()) | Err(Abort::Rollback)), "{result:?}");
        }
        assert_eq!(ALLOCATIONS.with(Cell::get) - before, 0, "{name}");
    }
}
