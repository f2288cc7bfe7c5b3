//! A schema and procedures of your own, on one replica; and a request that runs once however often it is sent.
//!
//! ```text
//! cargo run -p highwater-node --example own_procedure
//! ```
//!
//! A node lets clients call what stands behind Redis commands; calling any procedure over the network is not built yet. So
//! this program is a host itself: it gives the engine its turns and submits requests over the seam, as the node's workers
//! and the simulator do.

use std::sync::Arc;
use std::time::Instant;

use highwater_core::codec::Reader;
use highwater_core::{
    Abort, Clock, Incarnation, IndexKind, KeyKind, Library, NodeId, Outcome, Procedure, ProcedureId,
    Registry, TableId, TableSpec, Transaction,
};
use highwater_engines::{
    ControlOutbox, Controller, EngineKind, Nanos, Options, Outbox, Request, Session, Token, Worker, sessions,
};

/// The table of accounts: number of an account, 8 bytes big endian, to its balance, 8 bytes little endian.
const ACCOUNTS: TableId = TableId(0);
/// The number of the table in which the engine keeps clients' sessions.
const SESSIONS: u8 = 1;

/// Tables and procedures. Their order gives them their ids, and is the same on every replica.
struct Accounts;

impl Library for Accounts {
    fn tables(&self) -> Vec<TableSpec> {
        let accounts = TableSpec { name: "accounts", keys: KeyKind::U64, index: IndexKind::Hash };
        vec![accounts, sessions::TABLE]
    }

    fn register<T: Transaction>(&self, registry: &mut Registry<T>) {
        registry.register::<Deposit>();
        registry.register::<Transfer>();
        // A library that wants no sessions does without this, and the table.
        sessions::register::<SESSIONS, T>(registry);
    }
}

/// `account u64 | amount u64`. The reply is the new balance.
struct Deposit;

impl Procedure for Deposit {
    const NAME: &'static str = "accounts.deposit";

    fn run<T: Transaction>(tx: &mut T, args: &[u8], reply: &mut Vec<u8>) -> Result<(), Abort> {
        let [account, amount] = numbers(args)?;
        // What does not fit cannot be done, however often it is tried.
        let balance = balance(tx, account)?.checked_add(amount).ok_or(Abort::BadRequest)?;
        set(tx, account, balance)?;
        reply.extend_from_slice(&balance.to_le_bytes());
        Ok(())
    }
}

/// `from u64 | to u64 | amount u64`. The reply is what is left, and what was there if that is not enough.
struct Transfer;

impl Procedure for Transfer {
    const NAME: &'static str = "accounts.transfer";

    fn run<T: Transaction>(tx: &mut T, args: &[u8], reply: &mut Vec<u8>) -> Result<(), Abort> {
        let [from, to, amount] = numbers(args)?;
        let before = balance(tx, from)?;
        let Some(left) = before.checked_sub(amount) else {
            reply.extend_from_slice(&before.to_le_bytes());
            // A decision of ours: nothing is written, and the reply is delivered all the same.
            return Err(Abort::Rollback);
        };
        set(tx, from, left)?;
        // A transaction sees its own writes, so a transfer to the same account changes nothing.
        let more = balance(tx, to)?.checked_add(amount).ok_or(Abort::BadRequest)?;
        set(tx, to, more)?;
        reply.extend_from_slice(&left.to_le_bytes());
        Ok(())
    }
}

/// Every `?` passes on what the engine decides, a conflict for example: then the procedure runs again from its start.
fn balance<T: Transaction>(tx: &mut T, account: u64) -> Result<u64, Abort> {
    let value = tx.get(ACCOUNTS, &account.to_be_bytes())?;
    Ok(value.map_or(0, |bytes| u64::from_le_bytes(bytes.try_into().expect("a balance is 8 bytes"))))
}

fn set<T: Transaction>(tx: &mut T, account: u64, balance: u64) -> Result<(), Abort> {
    tx.put(ACCOUNTS, &account.to_be_bytes(), &balance.to_le_bytes())
}

/// Arguments come from outside: whatever they are, the procedure must not trust them.
fn numbers<const N: usize>(args: &[u8]) -> Result<[u64; N], Abort> {
    let mut reader = Reader::new(args);
    let mut numbers = [0; N];
    for number in &mut numbers {
        *number = reader.u64().map_err(|_| Abort::BadRequest)?;
    }
    if reader.is_empty() { Ok(numbers) } else { Err(Abort::BadRequest) }
}

/// One replica with one worker, both on this thread.
struct Host {
    start: Instant,
    controller: Box<dyn Controller>,
    worker: Box<dyn Worker>,
    /// Names of the procedures, by id.
    procedures: Vec<&'static str>,
    out: Outbox,
    control_out: ControlOutbox,
    requests: u64,
}

impl Host {
    fn new() -> Host {
        let (nodes, workers) = (1, 1);
        // Another life of the same node has another incarnation: a real host draws it at random.
        let options = Options::new(NodeId(0), nodes, workers, Incarnation(1));
        let (clock, _) = Clock::chosen(Default::default()).expect("every machine has some clock");
        let replica = highwater_engines::build(EngineKind::Rolis, options, &Accounts, Arc::new(clock));
        Host {
            start: Instant::now(),
            controller: replica.controller,
            worker: replica.workers.into_iter().next().expect("one worker was asked for"),
            procedures: replica.procedures,
            out: Outbox::default(),
            control_out: ControlOutbox::default(),
            requests: 0,
        }
    }

    /// A turn for the controller, which elects this lone node, and one for the worker. With more nodes the frames and
    /// messages in the outboxes would have to be carried; with more workers, each would have its own thread.
    fn turn(&mut self) {
        self.control_out = ControlOutbox::default();
        let now = self.now();
        self.controller.turn(now, &mut self.control_out);
        self.out.clear();
        self.worker.turn(now, &mut self.out);
    }

    fn now(&self) -> Nanos {
        self.start.elapsed().as_nanos() as Nanos
    }

    /// Runs a procedure; its outcome and reply once they are released.
    fn call(&mut self, procedure: &str, args: &[u64], session: Option<Session>) -> (Outcome, u64) {
        let id = self.procedures.iter().position(|name| *name == procedure).expect("it is registered");
        let args: Vec<u8> = args.iter().flat_map(|number| number.to_le_bytes()).collect();
        self.requests += 1;
        let token = Token(self.requests);
        let request = Request { session, ..Request::new(token, ProcedureId(id as u16), &args) };
        // Refused means that nothing was done. At first nobody leads; later the worker may have too much under way.
        while self.worker.submit(self.now(), request).is_err() {
            self.turn();
        }
        loop {
            self.turn();
            if let Some(released) = self.out.replies.iter().find(|released| released.token == token) {
                let reply = self.out.content(released).try_into().map_or(0, u64::from_le_bytes);
                return (released.outcome, reply);
            }
        }
    }
}

fn main() {
    let mut host = Host::new();
    let (alice, bob) = (1, 2);
    let calls: [(&str, &[u64], (Outcome, u64)); 5] = [
        ("accounts.deposit", &[alice, 100], (Outcome::Committed, 100)),
        ("accounts.transfer", &[alice, bob, 30], (Outcome::Committed, 70)),
        ("accounts.transfer", &[alice, bob, 80], (Outcome::RolledBack, 70)),
        ("accounts.deposit", &[bob, 0], (Outcome::Committed, 30)),
        ("accounts.transfer", &[alice], (Outcome::BadRequest, 0)),
    ];
    for (procedure, args, expected) in calls {
        let (outcome, reply) = host.call(procedure, args, None);
        println!("{procedure} {args:?}: {outcome:?}, {reply}");
        assert_eq!((outcome, reply), expected);
    }

    // Up to ten sessions may be open; the other number only tells ids of different clusters apart. (A host has to sweep now and
    // then, so that they expire: see `sessions::Keeper`.)
    let (_, id) = host.call("sessions.open", &[10, 7], None);
    let first = Some(Session { id, sequence: 1 });
    // The second one is a repetition: it gets the first one's reply, and nothing is done.
    for _ in 0..2 {
        let (outcome, reply) = host.call("accounts.transfer", &[alice, bob, 30], first);
        println!("once: accounts.transfer: {outcome:?}, {reply}");
        assert_eq!((outcome, reply), (Outcome::Committed, 40));
    }
    let (outcome, _) =
        host.call("accounts.transfer", &[alice, bob, 10], Some(Session { id: id + 1, sequence: 1 }));
    assert_eq!(outcome, Outcome::Denied, "nobody opened that session");
    assert_eq!(host.call("accounts.deposit", &[alice, 0], None), (Outcome::Committed, 40));
}

#[test]
fn it_runs() {
    main();
}
