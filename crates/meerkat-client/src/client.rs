//! The client that an application has: it waits for everything it asks.

use std::ops::ControlFlow;
use std::time::Duration;

use highwater_core::level::NEWEST;
use highwater_core::limits::{MAX_NODES, MAX_TRANSACTION_BYTES};
use highwater_core::transaction::KeyRange;
use highwater_core::{
    Abort, Direction, Library, Nanos, Outcome, Random, Registry, TableId, Timestamp, Transaction,
};
use highwater_kit::validation::own::pause;
use highwater_kit::validation::tx::{MeerkatTx, execute};
use highwater_seam::{Request, Token};

use crate::attempts::Attempts;
use crate::core::{Core, Ended, Settings};
use crate::error::Error;
use crate::net::Net;
use crate::remote::Remote;

/// How a client behaves.
#[derive(Clone, Debug)]
pub struct Options {
    /// The cluster's name: `cluster.id` of its nodes' configurations.
    pub cluster: String,
    /// The *peer* addresses of all nodes, `host:port`.
    pub nodes: Vec<String>,
    /// Which worker of each node it speaks to, modulo how many there are: clients of one number share one. Drawn, if nothing is said.
    pub worker: Option<u16>,
    /// For how long a transaction is tried, and an answer waited for. At the end it is [`NotServing`](Error::NotServing),
    /// [`Conflict`](Error::Conflict), or, if it was proposed, [`Unknown`](Error::Unknown).
    pub patience: Duration,
    /// Attempts of one transaction.
    pub attempts: u32,
    /// Most bytes that a transaction writes: the nodes' `limits.max_transaction`, where that is less.
    pub max_transaction_bytes: usize,
}

impl Options {
    /// Sane defaults.
    pub fn new(cluster: &str, nodes: impl IntoIterator<Item = impl Into<String>>) -> Options {
        Options {
            cluster: cluster.into(),
            nodes: nodes.into_iter().map(Into::into).collect(),
            worker: None,
            patience: Duration::from_secs(10),
            attempts: 100,
            max_transaction_bytes: MAX_TRANSACTION_BYTES,
        }
    }
}

/// How transactions of a client ended so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// In one round trip to all replicas.
    pub fast: u64,
    /// In two.
    pub slow: u64,
    /// Attempts that came to nothing; most were made again.
    pub aborted: u64,
    /// Nobody said.
    pub unknown: u64,
}

/// A procedure that ran to its end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ran {
    /// How it ended: as a replica would have said.
    pub outcome: Outcome,
    /// What it replied.
    pub reply: Vec<u8>,
}

/// A client that coordinates its transactions itself, one at a time: an application that wants several at a time has several.
///
/// Dropping it tells replicas what they have not heard, as far as they take it at once.
pub struct Client {
    tx: MeerkatTx<Remote>,
    registry: Registry<MeerkatTx<Remote>>,
    options: Options,
    random: Random,
    counts: Counts,
}

impl Client {
    /// Connects to a cluster whose nodes have this library, and waits until one of them serves.
    ///
    /// # Errors
    /// [`Error::Refused`], if a node does not speak with such clients; [`Error::NotServing`], if none serves in time.
    pub fn connect<L: Library>(library: &L, options: Options) -> Result<Client, Error> {
        let seed = seed();
        let mut random = Random::new(seed);
        let number = options.worker.unwrap_or_else(|| random.below(1 << 16) as u16);
        let patience = options.patience.as_nanos() as Nanos;
        let schema = library.schema();
        let core = Core::new(Settings { nodes: MAX_NODES, seed, patience });
        let net = Net::new(&options.nodes, &options.cluster, &schema, NEWEST, number);
        let mut registry = Registry::new();
        library.register(&mut registry);
        let tx = MeerkatTx::over(Remote::new(schema, core, net), options.max_transaction_bytes);
        let mut client = Client { tx, registry, options, random, counts: Counts::default() };
        client.meet(patience)?;
        Ok(client)
    }

    fn meet(&mut self, patience: Nanos) -> Result<(), Error> {
        let remote = self.tx.latest();
        let until = remote.net.now() + patience;
        while !remote.core.is_served() {
            if let Some(why) = remote.net.refusal() {
                return Err(Error::Refused(why.into()));
            }
            if remote.net.now() >= until {
                return Err(Error::NotServing);
            }
            remote.net.pump(&mut remote.core, until);
        }
        Ok(())
    }

    /// How its transactions ended so far.
    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// Runs an interactive transaction: `body` reads and writes by what it is given, and is run again from its start if others were in the
    /// way. What it returns is returned once it is committed.
    ///
    /// # Errors
    /// Why it did not commit; [`Error::Unknown`], if that is not known. `body`'s own [`Abort`] becomes [`Error::RolledBack`] or
    /// [`Error::Refused`], after what it has read was found valid.
    pub fn transaction<R>(
        &mut self,
        mut body: impl FnMut(&mut Tx<'_>) -> Result<R, Abort>,
    ) -> Result<R, Error> {
        self.attempts(|client| {
            client.tx.open();
            match body(&mut Tx(&mut client.tx)) {
                Ok(result) => Some(Ok(result)),
                Err(Abort::Conflict) => None,
                Err(why) => {
                    client.tx.forget_writes();
                    Some(Err(refusal(why)))
                }
            }
        })?
    }

    /// Runs a procedure of the library, by its name, here: as a replica would.
    ///
    /// # Errors
    /// [`Error::Refused`], if there is none of this name; else why nothing was done, or [`Error::Unknown`].
    pub fn run(&mut self, procedure: &str, args: &[u8]) -> Result<Ran, Error> {
        let id = self.registry.find(procedure);
        let id = id.ok_or_else(|| Error::Refused(format!("there is no procedure {procedure:?}")))?;
        self.attempts(|client| {
            let mut reply = Vec::new();
            let request = Request::new(Token(0), id, args);
            let outcome = execute(&client.registry, &mut client.tx, &request, &mut reply)?;
            Some(Ran { outcome, reply })
        })
    }

    /// Tries until an attempt commits what `execute` has executed; `None`: it met a conflict.
    fn attempts<R>(&mut self, mut execute: impl FnMut(&mut Client) -> Option<R>) -> Result<R, Error> {
        let patience = self.options.patience.as_nanos() as Nanos;
        let mut attempts = Attempts::new(self.tx.latest().net.now());
        loop {
            let remote = self.tx.latest();
            attempts.begin(&mut remote.core);
            remote.trouble = None;
            let (room, disk_full) = remote.core.room();
            self.tx.set_room(room);
            self.tx.refuse_writes(disk_full);
            if let Some(result) = execute(self)
                && self.tx.latest().trouble.is_none()
            {
                match self.commit()? {
                    Ended::Committed { fast } => {
                        *(if fast { &mut self.counts.fast } else { &mut self.counts.slow }) += 1;
                        return Ok(result);
                    }
                    Ended::Unknown => {
                        self.counts.unknown += 1;
                        return Err(Error::Unknown);
                    }
                    Ended::Aborted { hint, late } => attempts.learn(hint, late),
                }
            }
            self.counts.aborted += 1;
            let remote = self.tx.latest();
            if let Some(trouble) = remote.trouble.take() {
                remote.core.give_up();
                return Err(trouble.into());
            }
            let now = remote.net.now();
            if !attempts.may_go_on(now, self.options.attempts, patience) {
                remote.core.give_up();
                return Err(Error::Conflict);
            }
            let (round_trip, timeout) = (remote.core.round_trip(), remote.core.timeout());
            let until = now + pause(attempts.count(), round_trip, timeout, &mut self.random);
            while remote.net.now() < until {
                remote.net.pump(&mut remote.core, until);
            }
        }
    }

    /// Proposes what was executed, and waits for what becomes of it.
    fn commit(&mut self) -> Result<Ended, Error> {
        let seen = self.tx.seen();
        let remote = self.tx.latest();
        let now = remote.net.now();
        remote.core.wish(now, seen);
        if remote.answer().is_err() {
            let trouble = remote.trouble.take();
            remote.core.give_up();
            return Err(trouble.map_or(Error::NotServing, Error::from));
        }
        let ts = remote.core.stamp().expect("it was just granted");
        let as_of = remote.core.as_of();
        self.tx.set_as_of(as_of);
        let payload = self.tx.end(ts);
        let remote = self.tx.latest();
        let now = remote.net.now();
        remote.core.propose(now, payload);
        let ended = remote.ended();
        // Who has to hear of it is told before the application goes on, and not waited for.
        remote.net.post(&mut remote.core);
        Ok(ended)
    }
}

fn refusal(why: Abort) -> Error {
    match why {
        Abort::Rollback => Error::RolledBack,
        Abort::Conflict => Error::Conflict,
        Abort::BadRequest => Error::Refused("the transaction makes no sense".into()),
        Abort::TooLarge => Error::Refused("the transaction is too large".into()),
        Abort::TooNew => Error::Refused("it writes to a table that not all nodes know".into()),
        Abort::OutOfMemory => Error::Refused("no memory is left for it".into()),
        Abort::NotReady => Error::Refused("what it needs is not at hand yet".into()),
        Abort::DiskFull => Error::Refused("disks are full".into()),
    }
}

/// A number that other clients do not have.
fn seed() -> u64 {
    use std::hash::{BuildHasher, RandomState};
    RandomState::new().hash_one(std::process::id())
}

impl Drop for Client {
    fn drop(&mut self) {
        /// Nobody waits longer for a client to go.
        const MOST: Nanos = 50_000_000;
        let remote = self.tx.latest();
        if std::thread::panicking() {
            return;
        }
        remote.net.post(&mut remote.core);
        let until = remote.net.now() + MOST;
        while remote.net.is_writing() && remote.net.now() < until {
            remote.net.pump(&mut remote.core, until);
        }
    }
}

/// What an interactive transaction reads and writes by.
pub struct Tx<'a>(&'a mut MeerkatTx<Remote>);

impl Transaction for Tx<'_> {
    fn get(&mut self, table: TableId, key: &[u8]) -> Result<Option<&[u8]>, Abort> {
        self.0.get(table, key)
    }

    fn put(&mut self, table: TableId, key: &[u8], value: &[u8]) -> Result<(), Abort> {
        self.0.put(table, key, value)
    }

    fn insert(&mut self, table: TableId, key: &[u8], value: &[u8]) -> Result<bool, Abort> {
        self.0.insert(table, key, value)
    }

    fn delete(&mut self, table: TableId, key: &[u8]) -> Result<bool, Abort> {
        self.0.delete(table, key)
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
        self.0.scan(table, range, direction, visit)
    }

    fn version(&mut self, table: TableId, key: &[u8]) -> Result<Timestamp, Abort> {
        self.0.version(table, key)
    }
}
