//! An in-memory database for tests: one transaction at a time, no concurrency, no conflicts.
//!
//! It is stricter than a store has to be: integer keys must be 8 bytes long, only ordered tables may be scanned, and
//! only integer tables prefetched. It also measures what a commit would put into the log.

use std::collections::{BTreeMap, HashMap};
use std::ops::ControlFlow;

use highwater_core::log::{Key, TxWriter, WriteAt};
use highwater_core::transaction::KeyRange;
use highwater_core::{
    Abort, Direction, IndexKind, KeyKind, Library, Registry, Schema, TableId, Timestamp, Transaction, View,
};

use crate::library::AllWorkloads;
use crate::workload::{Check, Workload};

/// How a test names a row: by its number in an integer table, else by its bytes.
pub trait KeyOf {
    /// The key as tables have it.
    fn bytes(&self) -> Vec<u8>;
}

impl KeyOf for u64 {
    fn bytes(&self) -> Vec<u8> {
        self.to_be_bytes().to_vec()
    }
}

impl KeyOf for &[u8] {
    fn bytes(&self) -> Vec<u8> {
        self.to_vec()
    }
}

impl<const N: usize> KeyOf for [u8; N] {
    fn bytes(&self) -> Vec<u8> {
        self.to_vec()
    }
}

/// Committed tables.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tables {
    tables: Vec<BTreeMap<Vec<u8>, Vec<u8>>>,
}

impl Tables {
    /// How many rows the table has.
    pub fn len(&self, table: TableId) -> usize {
        self.tables[table.0 as usize].len()
    }

    /// Sets a row behind everybody's back.
    pub fn put(&mut self, table: TableId, key: impl KeyOf, value: &[u8]) {
        self.tables[table.0 as usize].insert(key.bytes(), value.to_vec());
    }

    /// Removes a row behind everybody's back.
    ///
    /// # Panics
    /// If there is no such row: the test is wrong.
    pub fn remove(&mut self, table: TableId, key: impl KeyOf) {
        let key = key.bytes();
        let removed = self.tables[table.0 as usize].remove(&key);
        assert!(removed.is_some(), "{table} has no key {key:02x?}");
    }

    /// Changes a row behind everybody's back.
    ///
    /// # Panics
    /// If there is no such row: the test is wrong.
    pub fn corrupt(&mut self, table: TableId, key: impl KeyOf, change: impl FnOnce(&mut Vec<u8>)) {
        let key = key.bytes();
        let row = self.tables[table.0 as usize].get_mut(&key);
        change(row.unwrap_or_else(|| panic!("{table} has no key {key:02x?}")));
    }

    /// The integer keys of a table, in order.
    pub fn keys(&self, table: TableId) -> Vec<u64> {
        let integer = |key: &Vec<u8>| u64::from_be_bytes(key[..].try_into().expect("an integer table"));
        self.tables[table.0 as usize].keys().map(integer).collect()
    }
}

impl View for Tables {
    fn get(&self, table: TableId, key: &[u8]) -> Option<Vec<u8>> {
        self.tables[table.0 as usize].get(key).cloned()
    }

    fn for_each(&self, table: TableId, visit: &mut dyn FnMut(&[u8], &[u8])) {
        self.tables[table.0 as usize].iter().for_each(|(key, value)| visit(key, value));
    }
}

/// What one transaction did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Touched {
    /// Tables and keys of every `get`, `insert` and `delete`, in order.
    pub reads: Vec<(TableId, Vec<u8>)>,
    /// Tables and keys of every write, in order.
    pub writes: Vec<(TableId, Vec<u8>)>,
    /// How many pairs scans visited.
    pub scanned: usize,
    /// Bytes of the values that were written; keys not included.
    pub value_bytes: usize,
}

impl Touched {
    /// Whether the table was read or written (scans do not count).
    pub fn touches(&self, table: TableId) -> bool {
        self.reads.iter().chain(&self.writes).any(|(touched, _)| *touched == table)
    }
}

/// Tables and the one transaction that is open on them: writes go straight in, an abort takes them back.
pub struct Memory {
    schema: Schema,
    tables: Tables,
    touched: Touched,
    undo: Vec<(TableId, Vec<u8>, Option<Vec<u8>>)>,
    log: TxWriter,
    logged: HashMap<(TableId, Vec<u8>), WriteAt>,
}

impl Memory {
    /// Empty tables.
    pub fn new(schema: Schema) -> Memory {
        let tables = Tables { tables: vec![BTreeMap::new(); schema.len()] };
        let mut log = TxWriter::new(Vec::new());
        log.begin();
        let (touched, undo, logged) = (Touched::default(), Vec::new(), HashMap::new());
        Memory { schema, tables, touched, undo, log, logged }
    }

    fn check_key(&self, table: TableId, key: &[u8]) {
        let spec = self.schema.get(table).unwrap_or_else(|| panic!("no {table}"));
        assert!(spec.keys == KeyKind::Bytes || key.len() == 8, "{} has 8-byte keys", spec.name);
    }

    fn read(&mut self, table: TableId, key: &[u8]) {
        self.check_key(table, key);
        self.touched.reads.push((table, key.to_vec()));
    }

    fn write(&mut self, table: TableId, key: &[u8], value: Option<&[u8]>) {
        self.check_key(table, key);
        self.touched.writes.push((table, key.to_vec()));
        self.touched.value_bytes += value.map_or(0, <[u8]>::len);
        let log_key = match self.schema.get(table).map(|spec| spec.keys) {
            Some(KeyKind::U64) => Key::U64(u64::from_be_bytes(key.try_into().expect("checked above"))),
            _ => Key::Bytes(key),
        };
        if let Some(&older) = self.logged.get(&(table, key.to_vec())) {
            self.log.supersede(older);
        }
        let at = match value {
            Some(value) => self.log.put(table, log_key, value),
            None => self.log.delete(table, log_key),
        };
        self.logged.insert((table, key.to_vec()), at);
        let rows = &mut self.tables.tables[table.0 as usize];
        let before = match value {
            Some(value) => rows.insert(key.to_vec(), value.to_vec()),
            None => rows.remove(key),
        };
        self.undo.push((table, key.to_vec(), before));
    }

    /// Ends the transaction and opens the next. Returns what it touched and its size in the log (0 if it left none).
    fn finish(&mut self, commit: bool) -> (Touched, usize) {
        let mut log_bytes = 0;
        if commit {
            log_bytes = self.log.commit(Timestamp(1));
        } else {
            self.log.abort();
            while let Some((table, key, before)) = self.undo.pop() {
                let rows = &mut self.tables.tables[table.0 as usize];
                match before {
                    Some(value) => rows.insert(key, value),
                    None => rows.remove(&key),
                };
            }
        }
        self.undo.clear();
        self.logged.clear();
        self.log.take(Vec::new());
        self.log.begin();
        (std::mem::take(&mut self.touched), log_bytes)
    }
}

impl Transaction for Memory {
    fn get(&mut self, table: TableId, key: &[u8]) -> Result<Option<&[u8]>, Abort> {
        self.read(table, key);
        Ok(self.tables.tables[table.0 as usize].get(key).map(Vec::as_slice))
    }

    fn put(&mut self, table: TableId, key: &[u8], value: &[u8]) -> Result<(), Abort> {
        self.write(table, key, Some(value));
        Ok(())
    }

    fn insert(&mut self, table: TableId, key: &[u8], value: &[u8]) -> Result<bool, Abort> {
        self.read(table, key);
        let absent = !self.tables.tables[table.0 as usize].contains_key(key);
        if absent {
            self.write(table, key, Some(value));
        }
        Ok(absent)
    }

    fn delete(&mut self, table: TableId, key: &[u8]) -> Result<bool, Abort> {
        self.read(table, key);
        let present = self.tables.tables[table.0 as usize].contains_key(key);
        if present {
            self.write(table, key, None);
        }
        Ok(present)
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
        let spec = self.schema.get(table).expect("a known table");
        assert!(spec.index == IndexKind::Ordered, "{} cannot be scanned", spec.name);
        let mut pairs = self.tables.tables[table.0 as usize].range::<[u8], _>(range);
        let mut step = || match direction {
            Direction::Forward => pairs.next(),
            Direction::Backward => pairs.next_back(),
        };
        while let Some((key, value)) = step() {
            self.touched.scanned += 1;
            if visit(key, value).is_break() {
                break;
            }
        }
        Ok(())
    }

    fn version(&mut self, table: TableId, key: &[u8]) -> Result<Timestamp, Abort> {
        self.read(table, key);
        let exists = self.tables.tables[table.0 as usize].contains_key(key);
        Ok(if exists { Timestamp(1) } else { Timestamp::ZERO })
    }

    fn prefetch(&mut self, wanted: &[(TableId, u64)]) {
        for (table, _) in wanted {
            let spec = self.schema.get(*table).expect("a known table");
            assert!(spec.keys == KeyKind::U64, "{} has no integer keys", spec.name);
        }
    }
}

/// Runs procedures of [`AllWorkloads`] by name, each to its end.
pub struct Runner {
    registry: Registry<Memory>,
    memory: Memory,
    /// What the last transaction did.
    pub last: Touched,
    /// How many bytes the last transaction would put into the log; 0 if it wrote nothing or aborted.
    pub last_log_bytes: usize,
}

impl Default for Runner {
    fn default() -> Self {
        Runner::new()
    }
}

impl Runner {
    /// Empty tables.
    pub fn new() -> Runner {
        let mut registry = Registry::new();
        AllWorkloads.register(&mut registry);
        let memory = Memory::new(Schema::new(AllWorkloads.tables()));
        Runner { registry, memory, last: Touched::default(), last_log_bytes: 0 }
    }

    /// Tables that `workload` has populated, by two loaders one after the other.
    ///
    /// # Panics
    /// If a load request does not commit.
    pub fn loaded(workload: &dyn Workload) -> Runner {
        let mut runner = Runner::new();
        for (name, args) in (0..2).flat_map(|part| workload.load(part, 2)) {
            let (result, reply) = runner.run(name, &args);
            assert_eq!(result, Ok(()), "{name}: {}", String::from_utf8_lossy(&reply));
        }
        runner
    }

    /// Runs one transaction; what it wrote stays only if it succeeds.
    ///
    /// # Panics
    /// If no procedure has this name.
    pub fn run(&mut self, name: &str, args: &[u8]) -> (Result<(), Abort>, Vec<u8>) {
        let id = self.registry.find(name).unwrap_or_else(|| panic!("no procedure {name}"));
        let mut reply = Vec::new();
        let result = self.registry.run(id, &mut self.memory, args, &mut reply);
        (self.last, self.last_log_bytes) = self.memory.finish(result.is_ok());
        (result, reply)
    }

    /// Runs `count` transactions of one generator, and says of each kind and result how many there were.
    pub fn run_mix(
        &mut self,
        workload: &dyn Workload,
        seed: u64,
        count: usize,
    ) -> BTreeMap<(&'static str, &'static str), usize> {
        let mut generator = workload.generator(0, 1, seed);
        let (mut args, mut outcomes) = (Vec::new(), BTreeMap::new());
        for _ in 0..count {
            let name = workload.kinds()[generator.next(&mut args)];
            let result = match self.run(name, &args).0 {
                Ok(()) => "committed",
                Err(Abort::Rollback) => "rolled back",
                Err(Abort::Conflict) => "conflict",
                Err(Abort::BadRequest) => "bad request",
                Err(Abort::TooLarge) => "too large",
                Err(Abort::OutOfMemory) => "out of memory",
                Err(Abort::TooNew) => "too new",
                Err(Abort::NotReady) => "not ready",
                Err(Abort::DiskFull) => "disk full",
            };
            *outcomes.entry((name, result)).or_default() += 1;
        }
        outcomes
    }

    /// The committed tables.
    pub fn view(&self) -> &Tables {
        &self.memory.tables
    }

    /// The committed tables, to be tampered with.
    pub fn tables_mut(&mut self) -> &mut Tables {
        &mut self.memory.tables
    }

    /// The names of the conditions that do not hold.
    pub fn failing(&self, workload: &dyn Workload) -> Vec<&'static str> {
        let failing = |check: Check| (!check.passed()).then_some(check.name);
        workload.check(self.view()).into_iter().filter_map(failing).collect()
    }
}
