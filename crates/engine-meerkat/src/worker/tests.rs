//! Three workers of one number whose frames are delivered by hand: late, or in another order than they were sent.

mod ahead;
mod asleep;
#[cfg(feature = "delegates")]
mod clients;
mod named;
mod together;

use std::collections::{BTreeMap, VecDeque};
use std::ops::{Bound, ControlFlow};

use highwater_core::{
    Abort, Clock, Direction, Durability, IndexKind, KeyKind, Levels, Outcome, Procedure, ProcedureId, Schema,
    TableId, TableSpec, Transaction,
};
use highwater_kit::validation::marks_of;
use highwater_kit::validation::message::About;
use highwater_kit::validation::record::{Record, Told};
use highwater_seam::Token;
use highwater_seam::options::Options;

use super::*;
use crate::change::{Change, Members};
use crate::journal::Record as Written;
use crate::shared::{Begin, Command};

const MS: Nanos = 1_000_000;
const TABLE: TableId = TableId(0);
const NODES: u8 = 3;
/// The coordinator of what is asked for, the replica that takes it over, and the third one.
const A: NodeId = NodeId(0);
const B: NodeId = NodeId(1);
const C: NodeId = NodeId(2);

/// Writes the key that its argument is.
struct Put;

impl Procedure for Put {
    const NAME: &'static str = "put";

    fn run<T: Transaction>(tx: &mut T, args: &[u8], _: &mut Vec<u8>) -> Result<(), Abort> {
        tx.put(TABLE, args, b"value")
    }
}

/// Deletes it.
struct Delete;

impl Procedure for Delete {
    const NAME: &'static str = "delete";

    fn run<T: Transaction>(tx: &mut T, args: &[u8], _: &mut Vec<u8>) -> Result<(), Abort> {
        tx.delete(TABLE, args).map(drop)
    }
}

/// Reads it, and sets it.
struct Modify;

impl Procedure for Modify {
    const NAME: &'static str = "change";

    fn run<T: Transaction>(tx: &mut T, args: &[u8], _: &mut Vec<u8>) -> Result<(), Abort> {
        let length = tx.get(TABLE, args)?.map_or(0, <[u8]>::len);
        tx.put(TABLE, args, &vec![1; length % 100 + 1])
    }
}

/// Reads it.
struct Get;

impl Procedure for Get {
    const NAME: &'static str = "get";

    fn run<T: Transaction>(tx: &mut T, args: &[u8], _: &mut Vec<u8>) -> Result<(), Abort> {
        tx.get(TABLE, args).map(drop)
    }
}

/// Scans from it on.
struct Scan;

impl Procedure for Scan {
    const NAME: &'static str = "scan";

    fn run<T: Transaction>(tx: &mut T, args: &[u8], _: &mut Vec<u8>) -> Result<(), Abort> {
        let range = (Bound::Included(args), Bound::Unbounded);
        tx.scan(TABLE, range, Direction::Forward, |_, _| ControlFlow::Continue(()))
    }
}

/// Counts it up; its reply is the number.
struct Count;

impl Procedure for Count {
    const NAME: &'static str = "count";

    fn run<T: Transaction>(tx: &mut T, args: &[u8], reply: &mut Vec<u8>) -> Result<(), Abort> {
        let before = tx.get(TABLE, args)?.and_then(|value| value.try_into().ok());
        let number = (before.map_or(0, u32::from_be_bytes) + 1).to_be_bytes();
        reply.extend_from_slice(&number);
        tx.put(TABLE, args, &number)
    }
}

/// Counts it up, and takes that back.
struct Waver;

impl Procedure for Waver {
    const NAME: &'static str = "waver";

    fn run<T: Transaction>(tx: &mut T, args: &[u8], reply: &mut Vec<u8>) -> Result<(), Abort> {
        Count::run(tx, args, reply)?;
        Err(Abort::Rollback)
    }
}

/// Counts it up if its version is the one that its argument begins with; its reply is the number, or nothing.
struct CountIf;

impl Procedure for CountIf {
    const NAME: &'static str = "count if";

    fn run<T: Transaction>(tx: &mut T, args: &[u8], reply: &mut Vec<u8>) -> Result<(), Abort> {
        let (version, key) = args.split_at(8);
        if tx.version(TABLE, key)?.0.to_be_bytes() != *version {
            return Ok(());
        }
        Count::run(tx, key, reply)
    }
}

const PUT: ProcedureId = ProcedureId(0);
const DELETE: ProcedureId = ProcedureId(1);
const CHANGE: ProcedureId = ProcedureId(2);
const GET: ProcedureId = ProcedureId(3);
const COUNT: ProcedureId = ProcedureId(4);
const WAVER: ProcedureId = ProcedureId(5);
const COUNT_IF: ProcedureId = ProcedureId(6);
const SCAN: ProcedureId = ProcedureId(7);

/// The workers of number 0 of three nodes, in epoch 1.
struct Trio {
    workers: Vec<MeerkatWorker>,
    /// On its way, by sender and receiver.
    frames: BTreeMap<(NodeId, NodeId), VecDeque<Frame>>,
    /// Records that each has handed out to be written.
    written: Vec<Vec<Bytes>>,
    replies: Vec<(NodeId, Token, Outcome)>,
    /// The reply of each.
    answers: Vec<(Token, Vec<u8>)>,
    /// Keys that were named to the hosts as they took effect.
    named: Vec<(NodeId, Box<[u8]>)>,
}

fn life(node: NodeId) -> Incarnation {
    Incarnation(u64::from(node.0) + 10)
}

fn options(node: NodeId, workers: u16, durability: Durability) -> Options {
    let mut options = Options::new(node, NODES, workers, life(node));
    (options.heartbeat, options.election_timeout, options.durability) = (5 * MS, 30 * MS, durability);
    options
}

/// The workers of a node, about to begin epoch 1.
fn replica(options: Options, clock: Clock, strict: bool) -> Vec<MeerkatWorker> {
    let workers = options.workers;
    let spec = TableSpec { name: "t", keys: KeyKind::Bytes, index: IndexKind::Ordered };
    let schema = || Schema::new(vec![spec.clone()]);
    let (store, marks) = (Store::new(schema()), marks_of(&schema(), &options));
    let mut registry = Registry::new();
    registry.register::<Put>();
    registry.register::<Delete>();
    registry.register::<Modify>();
    registry.register::<Get>();
    registry.register::<Count>();
    registry.register::<Waver>();
    registry.register::<CountIf>();
    registry.register::<Scan>();
    let shared = Arc::new(Shared::new(options, Arc::new(clock), strict));
    let voters = (0..NODES).map(|node| (NodeId(node), life(NodeId(node)))).collect();
    let members = Members { voters, ..Members::default() };
    let ended = vec![Vec::new(); workers.into()];
    let change = Change { epoch: Epoch(1), base: Timestamp(1000), members, ended, cut: None };
    let (change, store, marks) = (Arc::new(change), &store, &marks);
    let begin = Begin { change, store: store.clone(), marks: marks.clone(), afresh: false, more: false };
    let begin = Arc::new(begin);
    let worker = |at: u16| {
        shared.commands[usize::from(at)].put(Command::Begin(begin.clone()));
        MeerkatWorker::new(at, shared.clone(), (store, marks), registry.clone(), Arc::default())
    };
    (0..workers).map(worker).collect()
}

impl Trio {
    fn new(durability: Durability) -> Trio {
        Trio::of((0..NODES).map(|node| Trio::worker(NodeId(node), durability)).collect())
    }

    fn of(workers: Vec<MeerkatWorker>) -> Trio {
        let (frames, written) = (BTreeMap::new(), vec![Vec::new(); usize::from(NODES)]);
        let (replies, answers, named) = (Vec::new(), Vec::new(), Vec::new());
        let mut trio = Trio { workers, frames, written, replies, answers, named };
        for node in (0..NODES).map(NodeId) {
            for other in (0..NODES).map(NodeId).filter(|other| *other != node) {
                trio.at(node).peer_up(0, other, life(other), Levels::default());
            }
            trio.turn(node, 0);
            trio.at(node).context.shared.set_open(Some(Epoch(1)));
        }
        // They meet; what is said then comes.
        for _ in 0..3 {
            for node in [A, B, C] {
                trio.sync(node, 0);
                trio.turn(node, 0);
                [A, B, C].into_iter().filter(|to| *to != node).for_each(|to| trio.deliver(node, to, 0));
            }
        }
        trio.frames.clear();
        trio
    }

    fn worker(node: NodeId, durability: Durability) -> MeerkatWorker {
        replica(options(node, 1, durability), Clock::counter(), false).remove(0)
    }

    fn at(&mut self, node: NodeId) -> &mut MeerkatWorker {
        &mut self.workers[usize::from(node.0)]
    }

    /// A worker's turn; what it hands out is on its way.
    fn turn(&mut self, node: NodeId, now: Nanos) {
        let mut out = Outbox::default();
        self.at(node).turn(now, &mut out);
        self.answers.extend(out.replies.iter().map(|reply| (reply.token, out.content(reply).to_vec())));
        for (to, frame) in out.frames {
            self.frames.entry((node, to.node)).or_default().push_back(frame);
        }
        self.written[usize::from(node.0)].extend(out.writes);
        self.named.extend(out.written.into_iter().map(|(_, key)| (node, key)));
        self.replies.extend(out.replies.iter().map(|reply| (node, reply.token, reply.outcome)));
    }

    /// All that was written is on a node's disk.
    fn sync(&mut self, node: NodeId, now: Nanos) {
        let position = self.at(node).journal.position();
        self.at(node).synced(now, position);
        self.turn(node, now);
    }

    /// Asks a node to write a key; the transaction's timestamp.
    fn ask(&mut self, node: NodeId, now: Nanos, key: &[u8]) -> Timestamp {
        self.at(node).submit(now, Request::new(Token(now), PUT, key)).expect("it serves");
        let ts = *self.at(node).owns.all.last_key_value().expect("it is under way").0;
        self.turn(node, now);
        ts
    }

    /// Takes the first frame off its way.
    fn take(&mut self, from: NodeId, to: NodeId) -> Frame {
        let frame = self.frames.get_mut(&(from, to)).and_then(VecDeque::pop_front);
        frame.unwrap_or_else(|| panic!("{from} has sent {to} something"))
    }

    /// A frame comes, and the receiver has a turn.
    fn hand(&mut self, from: NodeId, to: NodeId, now: Nanos, frame: Frame) {
        self.at(to).deliver(now, Endpoint { node: from, worker: 0 }, frame);
        self.turn(to, now);
    }

    /// Everything that is on its way from one to another comes.
    fn deliver(&mut self, from: NodeId, to: NodeId, now: Nanos) {
        while self.frames.get(&(from, to)).is_some_and(|frames| !frames.is_empty()) {
            let frame = self.take(from, to);
            self.hand(from, to, now, frame);
        }
    }

    fn record(&mut self, at: NodeId, node: NodeId, ts: Timestamp) -> Option<&Record> {
        self.at(at).records.get(node, ts)
    }

    /// Messages about transactions from one node to another that have not come.
    fn said(&self, from: NodeId, to: NodeId) -> Vec<About> {
        let mut all = Vec::new();
        for frame in self.frames.get(&(from, to)).into_iter().flatten() {
            let mut reader = Reader::new(&frame.head[1..]);
            Head::decode(&mut reader).expect("a head is in front");
            let light = Bytes::copy_from_slice(reader.rest());
            for mut rest in [light, frame.body.clone()] {
                while !rest.is_empty() {
                    all.push(Message::decode(&mut rest).expect("sound").about);
                }
            }
        }
        all
    }

    /// T is valid everywhere, and its coordinator stalls before it hears so; B takes it over; C's promise to B and B's question to A are
    /// on their way. Then A goes on: T commits, and is over everywhere. The late frames.
    fn taken_over_while_it_commits(&mut self) -> (Timestamp, Frame, Frame) {
        let ts = self.ask(A, MS, b"k");
        for replica in [B, C] {
            self.deliver(A, replica, MS);
        }
        let votes = [B, C].map(|replica| (replica, self.take(replica, A)));
        self.turn(B, 70 * MS);
        let asks = self.take(B, A);
        self.deliver(B, C, 70 * MS);
        let promise = self.take(C, B);
        for (replica, vote) in votes {
            self.at(A).deliver(71 * MS, Endpoint { node: replica, worker: 0 }, vote);
        }
        self.turn(A, 71 * MS);
        assert_eq!(self.replies.last().map(|reply| reply.2), Some(Outcome::Committed));
        for replica in [B, C] {
            self.deliver(A, replica, 71 * MS);
        }
        // The next one tells that all have heard, and then that it is over everywhere.
        self.ask(A, 72 * MS, b"other");
        for replica in [B, C] {
            self.deliver(A, replica, 72 * MS);
            self.deliver(replica, A, 72 * MS);
        }
        for replica in [B, C] {
            self.deliver(A, replica, 73 * MS);
        }
        for node in [A, B, C] {
            assert!(self.record(node, A, ts).is_none(), "{node} has trimmed it");
        }
        (ts, promise, asks)
    }
}

/// The record of a transaction that is over everywhere is gone for good: one made anew would be under way for ever, keep all later ones, and have
/// the next change of epoch commit what nobody can say.
#[test]
fn a_promise_that_comes_when_all_is_over_makes_no_record() {
    let mut trio = Trio::new(Durability::Memory);
    let (ts, promise, _) = trio.taken_over_while_it_commits();
    trio.hand(C, B, 73 * MS, promise);
    assert!(trio.record(B, A, ts).is_none());
    assert_eq!((trio.at(B).records.pending(), trio.at(B).terminations.len()), (0, 0));
}

/// The same of a question about an own transaction: where frames keep their order it comes before all that closes it.
#[test]
fn a_question_about_an_own_transaction_that_is_over_makes_no_record() {
    let mut trio = Trio::new(Durability::Memory);
    let (ts, _, asks) = trio.taken_over_while_it_commits();
    trio.hand(B, A, 73 * MS, asks);
    assert!(trio.record(A, A, ts).is_none());
    assert_eq!(trio.at(A).records.pending(), 0);
}

/// Every kind of message about a transaction that is over everywhere, and from everybody.
#[test]
fn no_late_message_makes_a_record_of_what_is_closed() {
    for late in 0..10 {
        for to in [A, B, C] {
            let mut trio = Trio::new(Durability::Memory);
            let (ts, ..) = trio.taken_over_while_it_commits();
            trio.at(A).executor.tx().open();
            let payload = trio.at(A).executor.tx().end(ts);
            let some = Some(payload.clone());
            let about = match late {
                0 => About::Validate { payload },
                1 => About::Accept { view: 0, commit: true, payload: None },
                2 => About::Accept { view: 4, commit: true, payload: some },
                3 => About::Accept { view: 5, commit: false, payload: None },
                4 => About::Outcome { number: 1, commit: true, payload: some },
                5 => About::Over { commit: true },
                6 => About::Prepare { view: 4 },
                7 => About::Promise { view: 1, valid: true, accepted: None, payload: some },
                8 => About::Settle { commit: true, payload: some },
                _ => About::Accepted { view: 1 },
            };
            for from in [A, B, C].into_iter().filter(|from| *from != to) {
                let message = Message { ts, about: about.clone() };
                trio.at(to).on_message(73 * MS, from, true, message);
                trio.turn(to, 74 * MS);
                assert!(trio.record(to, A, ts).is_none(), "{about:?} from {from} to {to}");
            }
        }
    }
}

fn promises(said: &[About]) -> usize {
    said.iter().filter(|about| matches!(about, About::Promise { valid: true, .. })).count()
}

/// With `sync` whoever hears of a vote counts on its being on a disk, a backup coordinator as well.
/// Once: with `sync` an acknowledged write was on one disk of three: a promise to a backup coordinator told a vote that
/// was on no disk yet, and who accepted its proposal did not have what it writes. After a loss of power the change of
/// epoch ended its leaders again and again.
#[test]
fn a_promise_that_tells_a_vote_waits_until_the_vote_is_on_disk() {
    let mut trio = Trio::new(Durability::Sync);
    let ts = trio.ask(A, MS, b"k");
    trio.deliver(A, B, MS);
    trio.deliver(A, C, MS);
    trio.sync(C, 2 * MS);
    trio.turn(C, 70 * MS);
    trio.deliver(C, B, 70 * MS);
    assert_eq!(promises(&trio.said(B, C)), 0, "B's vote is on no disk");
    assert!(trio.record(B, A, ts).is_some_and(|record| record.valid == Some(true)));
    trio.sync(B, 71 * MS);
    assert_eq!(promises(&trio.said(B, C)), 1);
}

/// The same of the backup coordinator's own vote.
#[test]
fn a_backup_coordinator_counts_its_own_vote_once_that_is_on_disk() {
    let mut trio = Trio::new(Durability::Sync);
    let ts = trio.ask(A, MS, b"k");
    trio.deliver(A, B, MS);
    trio.deliver(A, C, MS);
    trio.sync(B, 2 * MS);
    trio.turn(C, 70 * MS);
    trio.deliver(C, B, 70 * MS);
    trio.sync(B, 70 * MS);
    trio.deliver(B, C, 71 * MS);
    assert!(trio.record(C, A, ts).is_some_and(|record| record.accepted.is_none()), "C's vote is on no disk");
    trio.sync(C, 72 * MS);
    assert!(trio.record(C, A, ts).is_some_and(|record| record.accepted == Some((2, true))));
}

/// A replica can tell whole what it accepts of a backup coordinator, when it comes back with its disk: C and A, who have accepted it, may be all
/// who are left.
#[test]
fn a_commit_is_accepted_from_a_backup_coordinator_with_what_it_writes() {
    let mut trio = Trio::new(Durability::Sync);
    // A question is lost on its way to C.
    let ts = trio.ask(A, MS, b"k");
    trio.sync(A, MS);
    trio.deliver(A, B, MS);
    trio.sync(B, 2 * MS);
    drop(trio.take(A, C));
    // And B's answer on its way to A.
    drop(trio.take(B, A));
    trio.turn(B, 70 * MS);
    for other in [A, C] {
        trio.deliver(B, other, 70 * MS);
        trio.sync(other, 70 * MS);
    }
    assert_eq!(promises(&trio.said(A, B)), 1, "A found it valid: {:?}", trio.said(A, B));
    trio.deliver(A, B, 71 * MS);
    trio.deliver(C, B, 71 * MS);
    trio.sync(B, 71 * MS);
    let said = trio.said(B, C);
    let whole = |about: &About| matches!(about, About::Accept { view: 1, commit: true, payload: Some(_) });
    assert!(said.iter().any(whole), "{said:?}");
    trio.deliver(B, C, 72 * MS);
    assert!(trio.record(C, A, ts).is_some_and(|record| record.payload.is_some()));
    let told = trio.written[2].iter().filter_map(|bytes| match Written::decode(bytes) {
        Ok(Written::Told(_, told)) if told.ts == ts => Some(told),
        _ => None,
    });
    let accepted: Vec<_> = told.filter(|told| told.accepted == Some((1, true))).collect();
    assert_eq!(accepted.len(), 1);
    assert!(accepted[0].payload.is_some(), "what it writes is on C's disk with the acceptance");
}

/// With `async` a change may begin from a cut of what disks have. A replica had it on its disk, but one of its workers had not begun it: what that had written of the
/// epoch before, above the cut, no other replica has.
#[test]
fn who_comes_back_leaves_out_what_a_change_cut_that_it_had_not_begun() {
    for (at, there) in [(2000, true), (1500, false)] {
        let mut trio = Trio::new(Durability::Memory);
        trio.ask(A, MS, b"k");
        let payload = trio.at(A).records.tell()[0].payload.clone();
        let mut worker = replica(options(B, 1, Durability::Async), Clock::counter(), false).remove(0);
        let first = worker.context.shared.commands[0].take().pop_front().expect("the first change");
        let Command::Begin(first) = first else { panic!("it begins") };
        let told = Told { outcome: Some(true), payload, ..Told::of(Timestamp(1600)) };
        let began = Written::Began { epoch: Epoch(1), afresh: false, cut: None, ended: Vec::new() };
        for record in [began, Written::Told(Epoch(1), told)] {
            worker.recover(record.encode()).expect("it is a record");
        }
        worker.recovered().expect("all was handed in");
        let Begin { change, store, marks, .. } = &*first;
        let begin = |change: Change, more| {
            let (change, store, marks) = (Arc::new(change), store.clone(), marks.clone());
            Command::Begin(Arc::new(Begin { change, store, marks, afresh: false, more }))
        };
        let cut = Some(Timestamp(at));
        let second = Change { epoch: Epoch(2), base: Timestamp(3000), cut, ..(**change).clone() };
        worker.context.shared.commands[0].put(begin((**change).clone(), true));
        worker.context.shared.commands[0].put(begin(second, false));
        worker.take_commands(MS);
        let mut latest = highwater_store::Latest::new(store.clone());
        let version = latest.get(TABLE, b"k").expect("it is read");
        assert_eq!(version.value.is_some(), there, "cut at {at}");
    }
}
