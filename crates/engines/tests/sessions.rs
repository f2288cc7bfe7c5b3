//! Sessions on an engine without replication: what is recorded, and what that does to a repeated request.
#![cfg(all(feature = "laboratory", not(any(loom, shuttle))))]
#![allow(clippy::unwrap_used)]

use std::sync::Arc;

use highwater_core::limits::MAX_SESSION_REPLY_BYTES;
use highwater_core::{
    Abort, Clock, Incarnation, IndexKind, KeyKind, Library, NodeId, Outcome, Procedure, ProcedureId,
    Registry, TableId, TableSpec, Transaction, View,
};
use highwater_engines::{EngineKind, build};
use highwater_kit::sessions::*;
use highwater_seam::options::Options;
use highwater_seam::{Outbox, Owner, Replica, Request, Session, Token};

const DATA: TableId = TableId(0);
const SESSIONS: u8 = 1;
const MOST: Most = Most { of_all: 300, of_each: 250 };
const ANNA: Owner = Owner(7);
const BERT: Owner = Owner(u32::MAX);

struct Numbers;

/// Adds one to what stands under the argument, and answers with the sum.
struct Add;

/// The same; then changes its mind, panics, or answers more than a session keeps, as the second argument says.
struct AddAnd;

fn add<T: Transaction>(tx: &mut T, key: u8) -> Result<u8, Abort> {
    let key = u64::from(key).to_be_bytes();
    let sum = tx.get(DATA, &key)?.map_or(0, |value| value[0]) + 1;
    tx.put(DATA, &key, &[sum])?;
    Ok(sum)
}

impl Procedure for Add {
    const NAME: &'static str = "add";

    fn run<T: Transaction>(tx: &mut T, args: &[u8], reply: &mut Vec<u8>) -> Result<(), Abort> {
        reply.push(add(tx, args[0])?);
        Ok(())
    }
}

impl Procedure for AddAnd {
    const NAME: &'static str = "add and";

    fn run<T: Transaction>(tx: &mut T, args: &[u8], reply: &mut Vec<u8>) -> Result<(), Abort> {
        reply.push(add(tx, args[0])?);
        match args[1] {
            b'r' => Err(Abort::Rollback),
            b'p' => panic!("as it was asked to"),
            b'n' if READY.get() => Ok(()),
            b'n' => {
                *reply = b"LATER nothing was done".to_vec();
                Err(Abort::NotReady)
            }
            _ => {
                reply.resize(MAX_SESSION_REPLY_BYTES + 1, 0);
                Ok(())
            }
        }
    }
}

/// Writes a session as a build before owners did, with the argument as its id; one number of it has ended.
struct OldSession;

impl Procedure for OldSession {
    const NAME: &'static str = "old session";

    fn run<T: Transaction>(tx: &mut T, args: &[u8], _: &mut Vec<u8>) -> Result<(), Abort> {
        let (clock, sequence, fingerprint) = (0u64, 1u64, 0u64);
        let numbers = [clock, sequence, fingerprint].map(u64::to_le_bytes);
        let row = [numbers.as_flattened(), &[Kept::Committed as u8], b"old"].concat();
        tx.put(TableId(SESSIONS), args, &row)
    }
}

impl Library for Numbers {
    fn tables(&self) -> Vec<TableSpec> {
        vec![TableSpec { name: "numbers", keys: KeyKind::U64, index: IndexKind::Hash }, TABLE]
    }

    fn register<T: Transaction>(&self, registry: &mut Registry<T>) {
        registry.register::<Add>();
        registry.register::<AddAnd>();
        registry.register::<OldSession>();
        register::<SESSIONS, T>(registry);
    }
}

thread_local! {
    static READY: std::cell::Cell<bool> = const { std::cell::Cell::new(false) };
}

const ADD: ProcedureId = ProcedureId(0);
const ADD_AND: ProcedureId = ProcedureId(1);

struct Alone(Replica);

impl Alone {
    fn new() -> Alone {
        let options = Options::new(NodeId(0), 1, 1, Incarnation(1));
        Alone(build(EngineKind::Silo, options, &Numbers, Arc::new(Clock::counter())))
    }

    fn run(&mut self, procedure: ProcedureId, args: &[u8], session: Option<Session>) -> (Outcome, Vec<u8>) {
        let request = Request { session, ..Request::new(Token(1), procedure, args) };
        self.0.workers[0].submit(1, request).unwrap();
        let mut out = Outbox::default();
        self.0.workers[0].turn(1, &mut out);
        (out.replies[0].outcome, out.content(&out.replies[0]).to_vec())
    }

    fn once(
        &mut self,
        (id, sequence): (u64, u64),
        procedure: ProcedureId,
        args: &[u8],
    ) -> (Outcome, Vec<u8>) {
        self.run(procedure, args, Some(Session { id, sequence, owner: ANNA }))
    }

    fn denied(&mut self, at: (u64, u64), args: &[u8], word: &str) {
        let (outcome, why) = self.once(at, ADD, args);
        let why = String::from_utf8(why).unwrap();
        assert_eq!(outcome, Outcome::Denied, "{why}");
        assert!(why.starts_with(word), "{why}");
    }

    fn call(&mut self, name: &str, args: &[u8]) -> (Outcome, Vec<u8>) {
        let at = self.0.procedures.iter().position(|known| *known == name).unwrap();
        self.run(ProcedureId(at as u16), args, None)
    }

    fn open(&mut self) -> u64 {
        self.open_for(ANNA).expect("there is room")
    }

    /// Opens a session with ever the same chance, so that ids have to differ by themselves.
    fn open_for(&mut self, owner: Owner) -> Option<u64> {
        let (outcome, id) = self.call("sessions.open", &Open::<SESSIONS>::arguments(MOST, owner, 0xabcdef));
        match outcome {
            Outcome::Committed => Some(u64::from_le_bytes(id.try_into().unwrap())),
            outcome => {
                assert_eq!(outcome, Outcome::RolledBack);
                None
            }
        }
    }

    fn end(&mut self, id: u64, owner: Owner) -> bool {
        let (outcome, reply) = self.call("sessions.end", &End::<SESSIONS>::arguments(id, owner));
        assert_eq!(outcome, Outcome::Committed);
        reply == [1]
    }

    fn ask(&mut self, id: u64, sequence: u64) -> Answer {
        self.ask_as(Session { id, sequence, owner: ANNA })
    }

    fn ask_as(&mut self, of: Session) -> Answer {
        let args = Ask::<SESSIONS>::arguments(of);
        Answer::decode(&self.call("sessions.ask", &args).1).unwrap()
    }

    /// A round of sweeps; how many sessions it ended.
    fn sweep(&mut self) -> u64 {
        let [_, _, seen] = self.sweep_from(0, u64::MAX);
        let (mut from, mut expired) = (0, 0);
        loop {
            let [next, ended, _] = self.sweep_from(from, seen);
            (from, expired) = (next, expired + ended);
            if from == 0 {
                return expired;
            }
        }
    }

    fn sweep_from(&mut self, from: u64, seen: u64) -> [u64; 3] {
        let args = [from.to_le_bytes(), seen.to_le_bytes()].concat();
        let reply = self.call("sessions.sweep", &args).1;
        [0, 8, 16].map(|at| u64::from_le_bytes(reply[at..at + 8].try_into().unwrap()))
    }

    /// What stands under a key.
    fn number(&self, key: u8) -> Option<u8> {
        let store = self.0.controller.store();
        View::get(&*store, DATA, &u64::from(key).to_be_bytes()).map(|value| value[0])
    }
}

const COMMITTED: Outcome = Outcome::Committed;

#[test]
fn a_repeated_request_gets_the_first_answer_and_does_nothing() {
    let mut alone = Alone::new();
    let id = alone.open();
    assert_eq!(alone.once((id, 1), ADD, &[7]), (COMMITTED, vec![1]));
    assert_eq!(alone.run(ADD, &[7], None), (COMMITTED, vec![2]), "somebody else's");
    assert_eq!(alone.once((id, 1), ADD, &[7]), (COMMITTED, vec![1]));
    assert_eq!(alone.once((id, 2), ADD, &[7]), (COMMITTED, vec![3]));
    assert_eq!(alone.number(7), Some(3));
}

#[test]
fn an_end_without_writes_is_kept_too() {
    let mut alone = Alone::new();
    let id = alone.open();
    alone.run(ADD, &[9], None);
    for (sequence, how, outcome) in
        [(1, b'r', Outcome::RolledBack), (2, b'p', Outcome::BadRequest), (3, b'l', Outcome::TooLarge)]
    {
        // Of a key that exists, and of one that does not.
        for key in [9, how] {
            let sequence = 2 * sequence + u64::from(key == how);
            let first = alone.once((id, sequence), ADD_AND, &[key, how]);
            assert_eq!(first.0, outcome);
            assert_eq!(alone.once((id, sequence), ADD_AND, &[key, how]), first);
        }
    }
    assert_eq!((alone.number(9), alone.number(b'r')), (Some(1), None), "nothing was written");
    assert!(matches!(alone.ask(id, 7), Answer::Ended(Kept::TooLarge, _)));
    assert_eq!(alone.once((id, 8), ADD, &[9]), (COMMITTED, vec![2]));
}

/// A block that a node gets ready takes no number: the same one is asked again, and runs.
#[test]
fn what_was_not_ready_is_no_end() {
    let mut alone = Alone::new();
    let id = alone.open();
    let session = Some(Session { id, sequence: 1, owner: ANNA });
    for _ in 0..2 {
        let told = alone.run(ADD_AND, &[7, b'n'], session);
        assert_eq!(told, (Outcome::Denied, b"LATER nothing was done".to_vec()));
        assert_eq!(alone.number(7), None);
    }
    READY.set(true);
    for _ in 0..2 {
        assert_eq!(alone.run(ADD_AND, &[7, b'n'], session), (Outcome::Committed, vec![1]));
        assert_eq!(alone.number(7), Some(1));
    }
}

#[test]
fn what_may_not_run_is_told_why() {
    let mut alone = Alone::new();
    let id = alone.open();
    alone.once((id, 5), ADD, &[1]);
    alone.denied((id, 4), &[1], "STALE");
    alone.denied((id, 0), &[1], "STALE");
    alone.denied((id, 5), &[2], "REUSED");
    alone.denied((id + 1, 1), &[1], "EXPIRED");
    // Those of the clock, of the counts, of an owner.
    for id in [u64::MAX, u64::MAX - 1, 1 << 63 | u64::from(ANNA.0)] {
        alone.denied((id, 1), &[1], "EXPIRED");
        assert_eq!((alone.end(id, ANNA), alone.ask(id, 1)), (false, Answer::Expired));
    }
    assert_eq!((alone.end(id, ANNA), alone.end(id, ANNA)), (true, false));
    alone.denied((id, 5), &[1], "EXPIRED");
    assert_eq!(alone.ask(id, 5), Answer::Expired);
    assert_eq!((alone.number(1), alone.number(2)), (Some(1), None));
    let ids = [alone.open(), alone.open()];
    assert_ne!(ids[0], ids[1]);
    assert!(ids.iter().all(|id| (1 << 52..1 << 53).contains(id)), "{ids:?}");
}

/// To anybody else a session does not exist, whatever is tried, and nothing of it changes.
/// Once: sessions belonged to nobody, and their ids were found in 8 s: others' replies read, numbers used up, sessions
/// ended, all 100,000 taken.
#[test]
fn a_session_is_its_owners() {
    let mut alone = Alone::new();
    let id = alone.open();
    assert_eq!(alone.once((id, 5), ADD, &[1]), (COMMITTED, vec![1]));
    let strange = |sequence, owner| Session { id, sequence, owner };
    for owner in [BERT, Owner::NOBODY, Owner(ANNA.0 ^ 1)] {
        for sequence in [0, 4, 5, 6, u64::MAX] {
            let (outcome, told) = alone.run(ADD, &[1], Some(strange(sequence, owner)));
            let none = Session { id: id ^ 1, ..strange(sequence, owner) };
            let (unknown, said) = alone.run(ADD, &[1], Some(none));
            let named =
                |bytes: Vec<u8>, id: u64| String::from_utf8(bytes).unwrap().replace(&id.to_string(), "N");
            assert_eq!((outcome, named(told, id)), (unknown, named(said, id ^ 1)), "{owner:?}");
            assert_eq!(outcome, Outcome::Denied);
            assert_eq!(alone.ask_as(strange(sequence, owner)), Answer::Expired);
        }
        assert!(!alone.end(id, owner));
    }
    assert_eq!(alone.ask(id, 5), Answer::Ended(Kept::Committed, vec![1]));
    assert_eq!(alone.once((id, 6), ADD, &[1]), (COMMITTED, vec![2]));
}

#[test]
fn an_owner_takes_no_more_than_a_share() {
    let mut alone = Alone::new();
    let ids: Vec<u64> = (0..MOST.of_each).map(|_| alone.open()).collect();
    assert_eq!(alone.open_for(ANNA), None);
    // Others have the rest, and nobody's are bounded by all alone.
    let others: Vec<_> = (0..40).map(|_| alone.open_for(BERT).unwrap()).collect();
    (0..10).for_each(|_| assert!(alone.open_for(Owner::NOBODY).is_some()));
    assert_eq!((alone.open_for(BERT), alone.open_for(Owner::NOBODY)), (None, None));
    // What ends, by asking or by time, may be opened anew.
    assert!(alone.end(ids[0], ANNA) && alone.open_for(ANNA).is_some());
    assert_eq!(alone.open_for(ANNA), None);
    for sequence in 1..=IDLE_TICKS {
        assert_eq!(alone.sweep(), 0);
        alone.once((ids[1], sequence), ADD, &[1]);
    }
    assert_eq!(alone.sweep(), MOST.of_all - 1);
    assert!(!alone.end(others[0], BERT));
    (0..MOST.of_each - 1).for_each(|_| assert!(alone.open_for(ANNA).is_some()));
    assert_eq!(alone.open_for(ANNA), None);
}

/// A build before owners wrote the clock with 64 bits: its sessions go on, and are nobody's.
#[test]
fn sessions_of_a_build_without_owners_go_on() {
    let mut alone = Alone::new();
    let id = 1 << 20 | 7;
    assert_eq!(alone.call("old session", &u64::to_be_bytes(id)).0, COMMITTED);
    assert_eq!(alone.ask(id, 1), Answer::Ended(Kept::Committed, b"old".to_vec()));
    assert_eq!(alone.once((id, 2), ADD, &[1]), (COMMITTED, vec![1]));
    let bert = Session { id, sequence: 2, owner: BERT };
    assert_eq!(alone.run(ADD, &[1], Some(bert)), (COMMITTED, vec![1]));
    for _ in 0..IDLE_TICKS {
        assert_eq!(alone.sweep(), 0);
    }
    assert_eq!(alone.sweep(), 1);
    alone.denied((id, 3), &[1], "EXPIRED");
}

#[test]
fn what_was_asked_for_before_it_came_never_comes() {
    let mut alone = Alone::new();
    let id = alone.open();
    assert_eq!(alone.ask(id, 1), Answer::Never);
    alone.denied((id, 1), &[1], "ABANDONED");
    alone.once((id, 2), ADD, &[1]);
    assert_eq!(alone.ask(id, 2), Answer::Ended(Kept::Committed, vec![1]));
    assert_eq!(alone.ask(id, 1), Answer::Stale(2));
    assert_eq!(alone.ask(id, 3), Answer::Never);
    assert_eq!(alone.ask(id, 3), Answer::Never);
    assert_eq!(alone.number(1), Some(1));
}

#[test]
fn sessions_end_that_nobody_uses() {
    let mut alone = Alone::new();
    let ids: Vec<u64> = (0..200).map(|_| alone.open()).collect();
    for sequence in 1..=IDLE_TICKS {
        assert_eq!(alone.sweep(), 0);
        alone.once((ids[100], sequence), ADD, &[1]);
    }
    assert_eq!(alone.sweep(), 199);
    alone.denied((ids[0], 1), &[1], "EXPIRED");
    assert_eq!(alone.once((ids[100], 100), ADD, &[1]).0, COMMITTED);
    // There is room again.
    (0..MOST.of_each - 1).for_each(|_| assert!(alone.open_for(ANNA).is_some()));
    assert_eq!(alone.open_for(ANNA), None);
}

fn told(next: u64, clock: u64) -> Vec<u8> {
    [next, 0, clock].map(u64::to_le_bytes).concat()
}

fn asks(from: u64, seen: u64) -> Option<[u8; 16]> {
    Some([from, seen].map(u64::to_le_bytes).concat().try_into().unwrap())
}

#[test]
fn a_keeper_waits_a_whole_interval() {
    let mut keeper = Keeper::new(8000);
    assert_eq!((keeper.due(0, false), keeper.next()), (None, None));
    assert_eq!(keeper.due(500, true), asks(0, u64::MAX), "it looks");
    keeper.asked();
    keeper.ended(500, COMMITTED, &told(0, 3));
    assert_eq!((keeper.next(), keeper.due(1500, true)), (Some(1501), None));
    assert_eq!(keeper.due(1501, true), asks(0, 3));
    keeper.asked();
    assert_eq!(keeper.due(9000, true), None, "one at a time");
    keeper.ended(9000, COMMITTED, &told(77, 4));
    assert_eq!(keeper.due(9001, true), asks(77, 4), "the rest of the round at once");
    keeper.asked();
    keeper.ended(9002, Outcome::Unknown, &[]);
    assert_eq!((keeper.due(9003, true), keeper.next()), (None, Some(9002 + 1001)));
    assert_eq!(keeper.due(10_003, true), asks(0, u64::MAX), "nobody knows whether that was a tick");
    // Another serves meanwhile.
    assert_eq!((keeper.due(10_500, false), keeper.next()), (None, None));
    assert_eq!(keeper.due(12_000, true), asks(0, u64::MAX));
}

/// If several replicas serve at once, as without a leader all do, each has a keeper. A session lasts as long as with one.
#[test]
fn several_keepers_make_no_clock_run_fast() {
    const IDLE: u64 = 8000;
    let mut alone = Alone::new();
    alone.open();
    let mut keepers: Vec<Keeper> = (0..5).map(|_| Keeper::new(IDLE)).collect();
    let (mut now, mut since) = (0u64, 0u64);
    while since == 0 {
        now += 100;
        for (at, keeper) in keepers.iter_mut().enumerate() {
            // One comes late, one goes away now and then.
            let serves = at != 0 || now > 3000 && !now.is_multiple_of(1700);
            let Some(args) = keeper.due(now, serves) else { continue };
            keeper.asked();
            let (outcome, reply) = alone.call("sessions.sweep", &args);
            keeper.ended(now, outcome, &reply);
            since = if reply[8] > 0 { now } else { since };
        }
    }
    assert!((IDLE..=2 * IDLE).contains(&since), "a session of {IDLE} ended after {since}");
}

#[test]
fn without_a_table_nothing_runs_under_a_session() {
    struct Bare;
    impl Library for Bare {
        fn tables(&self) -> Vec<TableSpec> {
            Numbers.tables()
        }

        fn register<T: Transaction>(&self, registry: &mut Registry<T>) {
            registry.register::<Add>();
        }
    }
    let options = Options::new(NodeId(0), 1, 1, Incarnation(1));
    let mut alone = Alone(build(EngineKind::Silo, options, &Bare, Arc::new(Clock::counter())));
    alone.denied((1, 1), &[1], "ERR");
    assert_eq!(alone.number(1), None);
}
