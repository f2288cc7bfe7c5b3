//! A map that plays the engine, and a client that types commands.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, VecDeque};
use std::ops::{Bound, ControlFlow};
use std::rc::Rc;
use std::sync::{Arc, LazyLock};

use highwater_core::transaction::KeyRange;
use highwater_core::work::ADDED;
use highwater_core::{
    Abort, Direction, Epoch, IndexKind, Library, NodeId, Outcome, ProcedureId, Registry, TableId, Timestamp,
    Transaction, Work,
};
use highwater_seam::Service;
use highwater_seam::{Freshness, Refusal, Taken};

use super::WITH_WORKLOADS;
use crate::acl::change::News;
use crate::{
    Allowance, Callables, Connection, Description, Door, Member, Procedures, Redirect, Topology, frame,
    register,
};

/// What time it is for every client, until it is told another.
pub const START_MS: u64 = 1_700_000_000_000;

/// Whether the product's table may be scanned.
fn is_ordered(table: TableId) -> bool {
    static ORDERED: LazyLock<Vec<bool>> = LazyLock::new(|| {
        WITH_WORKLOADS.tables().iter().map(|table| table.index == IndexKind::Ordered).collect()
    });
    ORDERED[usize::from(table.0)]
}

type Record = (Timestamp, Option<Vec<u8>>);
/// Which record was replaced, and what it was.
type Replaced = ((TableId, Vec<u8>), Option<Record>);

/// All records ever, deleted ones too.
#[derive(Clone, Debug, Default)]
pub struct Map {
    records: BTreeMap<(TableId, Vec<u8>), Record>,
    now: Timestamp,
    /// Records that the open transaction, or else the last one, has replaced.
    replaced: Vec<Replaced>,
    /// How many single rows of each table were read.
    reads: BTreeMap<TableId, usize>,
    /// Rows that the open transaction, or else the last one, has passed.
    pub work: Work,
}

impl Map {
    fn set(&mut self, table: TableId, key: &[u8], value: Option<&[u8]>) {
        let key = (table, key.to_vec());
        let old = self.records.insert(key.clone(), (self.now.next(), value.map(<[u8]>::to_vec)));
        self.replaced.push((key, old));
    }

    fn begin(&mut self) {
        self.work.begin();
        self.replaced.clear();
    }

    fn roll_back(&mut self) {
        for (key, old) in std::mem::take(&mut self.replaced).into_iter().rev() {
            match old {
                Some(old) => self.records.insert(key, old),
                None => self.records.remove(&key),
            };
        }
    }
}

impl Map {
    /// How many single rows of a table were read so far.
    pub fn reads(&self, table: TableId) -> usize {
        self.reads.get(&table).copied().unwrap_or(0)
    }

    /// Takes a row out.
    pub fn remove(&mut self, table: TableId, key: &[u8]) {
        self.set(table, key, None);
    }
}

impl Transaction for Map {
    fn get(&mut self, table: TableId, key: &[u8]) -> Result<Option<&[u8]>, Abort> {
        *self.reads.entry(table).or_default() += 1;
        Ok(self.records.get(&(table, key.to_vec())).and_then(|(_, value)| value.as_deref()))
    }

    fn put(&mut self, table: TableId, key: &[u8], value: &[u8]) -> Result<(), Abort> {
        self.work.pass(ADDED)?;
        self.set(table, key, Some(value));
        Ok(())
    }

    fn insert(&mut self, table: TableId, key: &[u8], value: &[u8]) -> Result<bool, Abort> {
        let absent = self.get(table, key)?.is_none();
        if absent {
            self.work.pass(ADDED)?;
            self.set(table, key, Some(value));
        }
        Ok(absent)
    }

    fn delete(&mut self, table: TableId, key: &[u8]) -> Result<bool, Abort> {
        let present = self.get(table, key)?.is_some();
        if present {
            self.set(table, key, None);
        }
        Ok(present)
    }

    fn scan<F>(
        &mut self,
        table: TableId,
        (start, end): KeyRange<'_>,
        direction: Direction,
        mut visit: F,
    ) -> Result<(), Abort>
    where
        F: FnMut(&[u8], &[u8]) -> ControlFlow<()>,
    {
        assert!(is_ordered(table), "{table:?} is no ordered table");
        let bound = |bound: Bound<&[u8]>| bound.map(|key| (table, key.to_vec()));
        let start = match start {
            Bound::Unbounded => Bound::Included((table, Vec::new())),
            _ => bound(start),
        };
        let end = match end {
            Bound::Unbounded => Bound::Excluded((TableId(table.0 + 1), Vec::new())),
            _ => bound(end),
        };
        let rows = self.records.range((start, end));
        let mut rows = rows.filter_map(|((_, key), (_, value))| Some((key, value.as_deref()?)));
        let work = &mut self.work;
        let mut each = |(key, value): (&Vec<u8>, &[u8])| match work.pass(1) {
            Ok(()) => visit(key, value).map_break(Ok),
            Err(abort) => ControlFlow::Break(Err(abort)),
        };
        let ended = match direction {
            Direction::Forward => rows.try_for_each(&mut each),
            Direction::Backward => rows.rev().try_for_each(&mut each),
        };
        ended.break_value().unwrap_or(Ok(()))
    }

    fn goes_on(&mut self) -> Result<(), Abort> {
        self.work.go_on()
    }

    fn expects(&mut self, passed: u64, added: u64) -> Result<(), Abort> {
        self.work.expect(passed, added)
    }

    fn version(&mut self, table: TableId, key: &[u8]) -> Result<Timestamp, Abort> {
        Ok(self.records.get(&(table, key.to_vec())).map_or(Timestamp::ZERO, |(version, _)| *version))
    }
}

/// Something the engine holds: which request, and its reply.
pub struct Held {
    pub seq: u64,
    pub outcome: Outcome,
    pub reply: Vec<u8>,
    /// Whether it might have run on a snapshot.
    pub snapshot: bool,
    /// What it asks of the snapshot.
    pub freshness: Option<Freshness>,
    /// When it ran.
    pub at: Timestamp,
}

/// A node with one map.
#[derive(Clone)]
pub struct Node {
    pub map: Rc<RefCell<Map>>,
    registry: Rc<Registry<Map>>,
    door: Arc<Door>,
    /// Whether what is submitted is put off. (It runs at once all the same.)
    pub puts_off: Rc<Cell<bool>>,
}

impl Node {
    pub fn new() -> Node {
        Node::that_serves(true)
    }

    pub fn that_serves(serves: bool) -> Node {
        Node::of_service(if serves { Service::Serving } else { Service::Standby })
    }

    pub fn of_service(service: Service) -> Node {
        let serves = service.leads();
        let mut registry = Registry::new();
        register(&mut registry);
        let procedures = Procedures::find(&registry.names()).unwrap();
        let describe = move || Description {
            service,
            role: if serves { "leader" } else { "follower" }.into(),
            epoch: Epoch(3),
            ask: Some(NodeId(1)),
            uptime_s: 60,
            connected_clients: 2,
            memory: (1 << 20, 4 << 20),
        };
        let door = Door {
            callables: Callables::of(&registry.names(), &registry.versions(), &registry.signatures()),
            node: NodeId(if serves { 1 } else { 0 }),
            sessions: highwater_kit::sessions::Most { of_all: 2, of_each: 2 },
            addresses: Box::new(|node| {
                ["10.0.0.1:6379", "10.0.0.2:6380"].get(usize::from(node.0)).map(ToString::to_string)
            }),
            topology: Box::new(|| {
                let member = |(node, host, port, up)| Member {
                    node: NodeId(node),
                    host: String::from(host),
                    port,
                    peer_port: 7100,
                    up,
                };
                let members =
                    [(0, "10.0.0.1", 6379, true), (1, "10.0.0.2", 6380, true), (2, "10.0.0.3", 6381, false)];
                Topology { cluster: "ledger".into(), members: members.map(member).into() }
            }),
            entropy: Box::new(|bytes| {
                bytes.fill(0x5a);
                true
            }),
            describe: Box::new(describe),
            ..Door::bare(procedures)
        };
        door.access.install(&News { whole: true, ..News::default() });
        let (registry, door) = (Rc::new(registry), Arc::new(door));
        Node { map: Rc::default(), registry, door, puts_off: Rc::default() }
    }

    /// One of an engine without a leader, whose requests do not take effect in the order of their submission.
    pub fn leaderless() -> Node {
        let mut node = Node::new();
        let door = Arc::get_mut(&mut node.door).expect("nobody else has it yet");
        door.leaderless = true;
        node.puts_off.set(true);
        node
    }

    /// Another node, to which the same map is replicated.
    pub fn beside(&self) -> Node {
        Node { map: self.map.clone(), ..Node::new() }
    }

    /// What its connections share.
    pub fn door(&self) -> &Door {
        &self.door
    }

    /// The same with other words for "ask elsewhere".
    pub fn in_words_of(mut self, redirect: Redirect) -> Node {
        Arc::get_mut(&mut self.door).expect("nobody else has it yet").redirect = redirect;
        self
    }

    pub fn client(&self) -> Client {
        self.client_of(7)
    }

    /// One that has this id.
    pub fn client_of(&self, id: u64) -> Client {
        self.client_at(id, START_MS)
    }

    /// One that comes at this moment.
    pub fn client_at(&self, id: u64, unix_ms: u64) -> Client {
        let connection = Connection::new(id, self.door.clone(), unix_ms);
        Client { node: self.clone(), connection, held: VecDeque::new() }
    }

    /// The names of all procedures.
    pub fn procedures(&self) -> Vec<&'static str> {
        self.registry.names()
    }

    /// How many rows a table has.
    pub fn rows(&self, table: TableId) -> usize {
        let map = self.map.borrow();
        map.records.iter().filter(|((at, _), (_, value))| *at == table && value.is_some()).count()
    }

    /// Sets a row.
    pub fn put(&self, table: TableId, key: &[u8], value: &[u8]) {
        self.map.borrow_mut().set(table, key, Some(value));
    }

    /// Clients of the first worker that are to look again.
    pub fn woken(&self) -> Vec<u64> {
        self.door.waiting.take_woken(0)
    }

    /// Runs a transaction; an abort undoes it.
    pub fn run(&self, procedure: ProcedureId, args: &[u8]) -> (Outcome, Vec<u8>) {
        let mut map = self.map.borrow_mut();
        let mut reply = Vec::new();
        map.begin();
        let outcome = match self.registry.run(procedure, &mut map, args, &mut reply) {
            Ok(()) => Outcome::Committed,
            Err(Abort::Rollback) => Outcome::RolledBack,
            Err(Abort::BadRequest | Abort::TooNew) => Outcome::BadRequest,
            Err(Abort::NotReady) => Outcome::Denied,
            Err(Abort::TooLarge) => {
                reply = b"the limits".to_vec();
                Outcome::TooLarge
            }
            Err(Abort::OutOfMemory) => Outcome::OutOfMemory,
            Err(Abort::DiskFull) => Outcome::DiskFull,
            Err(Abort::Conflict) => unreachable!("nobody else is here"),
        };
        if outcome == Outcome::Committed {
            map.now = map.now.next();
        } else {
            map.roll_back();
        }
        (outcome, reply)
    }
}

/// A client's connection and what the engine holds of it.
pub struct Client {
    pub node: Node,
    pub connection: Connection,
    pub held: VecDeque<Held>,
}

impl Client {
    /// Sends a command, typed as for `redis-cli`, and releases every reply.
    pub fn ask(&mut self, command: &str) -> String {
        self.send(&wire(command))
    }

    /// Sends bytes and releases every reply at once.
    pub fn send(&mut self, bytes: &[u8]) -> String {
        self.connection.receive(bytes);
        while self.submit() > 0 {
            self.release_all();
        }
        self.output()
    }

    /// The same, whatever bytes the reply has.
    pub fn send_bytes(&mut self, bytes: &[u8]) -> Vec<u8> {
        self.connection.receive(bytes);
        while self.submit() > 0 {
            self.release_all();
        }
        let output = self.connection.output().to_vec();
        self.connection.wrote(output.len());
        output
    }

    /// Goes on without new input.
    pub fn go_on(&mut self) -> String {
        self.send(&[])
    }

    /// Sends commands; the engine keeps the replies.
    pub fn start(&mut self, commands: &[&str]) {
        commands.iter().for_each(|command| self.connection.receive(&wire(command)));
        self.submit();
    }

    /// Hands the engine what it may have; how much that was.
    pub fn submit(&mut self) -> usize {
        let before = self.held.len();
        while let Some(request) = self.connection.next(&mut { Allowance::WHOLE }) {
            let (seq, snapshot, freshness) = (request.seq, request.snapshot, request.freshness);
            let (outcome, reply) = self.node.run(request.procedure, request.args);
            let taken = if self.node.puts_off.get() { Taken::PutOff } else { Taken::Placed };
            self.connection.submitted(seq, reply.len(), taken);
            let at = self.node.map.borrow().now;
            self.held.push_back(Held { seq, outcome, reply, snapshot, freshness, at });
        }
        self.held.len() - before
    }

    /// Has the engine refuse whatever is asked.
    pub fn ask_refused(&mut self, command: &str, refusal: Refusal) -> String {
        self.connection.receive(&wire(command));
        while let Some(seq) = self.connection.next(&mut { Allowance::WHOLE }).map(|request| request.seq) {
            self.connection.refused(seq, refusal);
        }
        self.output()
    }

    /// Releases the held reply at this place.
    pub fn release(&mut self, at: usize) {
        let held = self.held.remove(at).unwrap();
        self.connection.released(held.seq, held.outcome, held.at, &held.reply);
    }

    /// Ends the held request at this place otherwise.
    pub fn lose(&mut self, at: usize, outcome: Outcome) {
        let held = self.held.remove(at).unwrap();
        self.connection.released(held.seq, outcome, Timestamp::ZERO, &[]);
    }

    pub fn release_all(&mut self) {
        while !self.held.is_empty() {
            self.release(0);
        }
    }

    /// What came out since the last time.
    pub fn output(&mut self) -> String {
        let bytes = self.connection.output().to_vec();
        self.connection.wrote(bytes.len());
        String::from_utf8(bytes).unwrap()
    }
}

/// A typed command as clients send it.
pub fn wire(command: &str) -> Vec<u8> {
    let mut parser = frame::Parser::default();
    let line = format!("{command}\n");
    let frame = parser.parse(line.as_bytes()).unwrap().unwrap();
    multibulk(frame.parts())
}

/// Words as clients send them.
pub fn multibulk<'a>(words: impl ExactSizeIterator<Item = &'a [u8]>) -> Vec<u8> {
    let mut out = format!("*{}\r\n", words.len()).into_bytes();
    for word in words {
        out.extend_from_slice(format!("${}\r\n", word.len()).as_bytes());
        out.extend_from_slice(word);
        out.extend_from_slice(b"\r\n");
    }
    out
}
