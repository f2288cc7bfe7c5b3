//! How a program says what it wants.

use std::path::PathBuf;
use std::time::Duration;

use highwater_core::With;
use highwater_node::config::{Durability, NodeConfig};
use highwater_node::{Config, Node, free_loopback_ports};
use highwater_redis::{Compiled, Product};

use crate::catalogue::{Catalogue, Entry};
use crate::database::{Cluster, Database};
use crate::error::OpenError;
use crate::hosted::{NoProcedures, Procedures, Program};
use crate::keys::Key;
use crate::replicas::Replicas;
use crate::tables::{Index, Table};
use crate::values::Value;

/// For how long a transaction waits for a replica that serves.
const PATIENCE: Duration = Duration::from_secs(10);
/// What replicas of a test have of memory, if nothing else is said.
const SMALL_MB: u64 = 512;
/// The most replicas of a cluster in one process.
const MOST: u8 = 7;

/// What is to be opened. Unless it says otherwise: in memory, engine `rolis`, two workers.
pub struct Builder<P> {
    tables: Vec<Entry>,
    procedures: P,
    config: Config,
    /// The configuration names addresses.
    addressed: bool,
    patience: Duration,
}

impl Builder<NoProcedures> {
    pub(crate) fn new() -> Self {
        let mut config = Config::default();
        config.cluster.durability = Durability::Memory;
        Builder { tables: Vec::new(), procedures: NoProcedures, config, addressed: false, patience: PATIENCE }
    }
}

impl<P: Procedures> Builder<P> {
    /// One of the program's tables.
    pub fn table<K: Key, V: Value, I: Index>(mut self, table: Table<K, V, I>) -> Self {
        self.tables.push(Entry::of(table));
        self
    }

    /// The program's procedures, beside closures.
    pub fn procedures<Q: Procedures>(self, procedures: Q) -> Builder<Q> {
        let Builder { tables, config, addressed, patience, .. } = self;
        Builder { tables, procedures, config, addressed, patience }
    }

    /// Keeps the data in this folder, which is made if it is not there: [`Durability::Sync`], unless [`durability`](Builder::durability)
    /// says otherwise afterwards. Opened again it has what it had.
    pub fn folder(mut self, folder: impl Into<PathBuf>) -> Self {
        self.config.storage.dir = folder.into();
        self.durability(Durability::Sync)
    }

    /// What it means that a transaction has returned.
    pub fn durability(mut self, durability: Durability) -> Self {
        self.config.cluster.durability = durability;
        self
    }

    /// The engine, by name; [`engines`](crate::engines) run closures.
    pub fn engine(mut self, name: &str) -> Self {
        self.config.cluster.engine = name.into();
        self
    }

    /// Worker threads of a replica.
    pub fn workers(mut self, workers: u16) -> Self {
        self.config.cluster.workers = workers;
        self
    }

    /// Memory that a replica may use, in MiB; 0: three quarters of what there is (512 MiB in a [cluster](Builder::cluster)).
    pub fn memory_mb(mut self, mb: u64) -> Self {
        self.config.limits.memory_mb = mb;
        self
    }

    /// For how long a transaction waits for a replica that serves, and is tried again if others are in the way.
    pub fn patience(mut self, patience: Duration) -> Self {
        self.patience = patience;
        self
    }

    /// The whole configuration, with addresses: for a replica of a cluster whose others run elsewhere. They have the same tables and
    /// procedures.
    pub fn config(mut self, config: Config) -> Self {
        self.config = config;
        self.addressed = true;
        self
    }

    /// Opens the replica. It serves a moment later, or when the others of its cluster are there: transactions wait for that. The first one
    /// also compares the program's tables with those that were written: [`Error::Failed`](crate::Error::Failed) tells a difference.
    ///
    /// If the others say that its folder is an older copy of itself, the replica ends: transactions end with
    /// [`Error::Unknown`](crate::Error::Unknown), and [`close`](Database::close) says so. Opened again, it copies their state.
    ///
    /// # Errors
    /// If the tables or the configuration make no sense, the folder is another one's or damaged, or the system refuses.
    pub fn open(mut self) -> Result<Database, OpenError> {
        let hosted = self.hosted()?;
        if !self.addressed {
            // A lone node is called by nobody, but has to name a port.
            let peer = ports(1)?[0];
            self.config.cluster.nodes = vec![NodeConfig {
                id: 0,
                peer: loopback(peer),
                resp: loopback(0),
                admin: loopback(0),
                announce: None,
            }];
        }
        let opened = Node::open(&self.config, &hosted)?;
        let engine = self.config.engine().map_err(|error| OpenError(error.to_string()))?;
        Ok(Database(Replicas::new(vec![opened], self.patience, engine, self.catalogue())))
    }

    /// Opens so many replicas in this process, on free loopback ports: for tests.
    ///
    /// # Errors
    /// As [`open`](Builder::open); or with no replicas, or more than 7.
    pub fn cluster(mut self, replicas: u8) -> Result<Cluster, OpenError> {
        let hosted = self.hosted()?;
        if replicas == 0 || replicas > MOST {
            return Err(OpenError(format!(
                "a cluster in one process has 1 to {MOST} replicas, not {replicas}"
            )));
        }
        let ports = ports(3 * usize::from(replicas))?;
        let node = |(id, ports): (u8, &[u16])| NodeConfig {
            id,
            peer: loopback(ports[0]),
            resp: loopback(ports[1]),
            admin: loopback(ports[2]),
            announce: None,
        };
        self.config.cluster.nodes = (0..replicas).zip(ports.chunks(3)).map(node).collect();
        if self.config.limits.memory_mb == 0 {
            self.config.limits.memory_mb = SMALL_MB;
        }
        let catalogue = self.catalogue();
        let (config, patience) = (self.config, self.patience);
        let engine = config.engine().map_err(|error| OpenError(error.to_string()))?;
        let reopen = Box::new(move |node| {
            let config = Config { node, ..config.clone() };
            Ok(Node::open(&config, &hosted)?)
        });
        let opened: Result<Vec<_>, OpenError> = (0..replicas).map(&reopen).collect();
        Ok(Cluster { replicas: Replicas::new(opened?, patience, engine, catalogue), reopen })
    }

    /// Its tables, by number.
    fn hosted(&mut self) -> Result<Compiled<With<Product, Program<P>>>, OpenError> {
        self.tables.sort_by_key(|table| table.number);
        for (at, Entry { number, spec, .. }) in self.tables.iter().enumerate() {
            let (number, name) = (usize::from(*number), spec.name);
            if number < at {
                return Err(OpenError(format!("two tables have number {number}, one of them {name:?}")));
            }
            if number > at {
                return Err(OpenError(format!(
                    "no table has number {at}, and {name:?} has number {number}: a program's tables are numbered 0, 1, 2, .."
                )));
            }
        }
        let tables = self.tables.iter().map(|table| table.spec.clone()).collect();
        Ok(Compiled(Program::hosted(tables, self.procedures.clone())))
    }

    /// The tables that closures and procedures may ask for.
    fn catalogue(&self) -> Catalogue {
        let catalogue = Catalogue::of(self.tables.clone());
        catalogue.share();
        catalogue
    }
}

fn loopback(port: u16) -> String {
    format!("127.0.0.1:{port}")
}

fn ports(count: usize) -> Result<Vec<u16>, OpenError> {
    free_loopback_ports(count).map_err(|error| OpenError(format!("cannot find free ports: {error}")))
}
