//! The RESP door: `redis-cli` and any Redis client run transactions through it.
//!
//! Sans-IO: a [`Connection`] takes the bytes that a socket gave and hands out engine requests and the bytes that
//! the socket takes. It knows no socket and no thread, and is told the time.
//!
//! # From bytes to a transaction
//!
//! Whatever touches data becomes **one engine request**: a single command, a whole `MULTI` .. `EXEC` body, or a
//! `WATCH`. The arguments of `redis.exec` are the watched keys with the versions seen, and the commands; its reply
//! is the finished RESP text, because the same code path then serves an embedded caller. `redis.watch` reads
//! versions; the connection keeps them until `EXEC`, and takes no further command of that connection until they
//! are released: a version that was never released must not decide a transaction.
//!
//! `HW.ONCE` gives a request a client's session and number, for the engine to run it once; `HW.SESSION` and `HW.OUTCOME` are data
//! commands like others, on the table of sessions. `HW.FRESHNESS` says what a replica's snapshot must hold that is read after `READONLY`,
//! `HW.TOKEN` what this connection has seen.
//!
//! `HW.CALL` is a request of the procedure that it names ([`callables`]). `HW.BEGIN` .. `HW.COMMIT` is a request for each command, and one
//! that commits ([`interactive`]).
//!
//! Commands that touch no data (`PING`, `HELLO`, ..) are answered here, but keep their place in the order.
//!
//! # Where to look
//!
//! - [`frame`], [`reply`]: bytes to commands, replies to bytes. [`command`]: an entry per command.
//! - [`connection`]: the state machine. [`order`]: replies leave in order. [`errors`]: every error text.
//! - [`commands`]: one file per family, entries and functions. [`request`], [`exec`]: what the engine is asked, and the procedures.
//! - [`tables`]: users' tables of typed keys.
//! - [`describe`]: what a request asks, in words. [`operations`]: what operators ask.
//! - [`keyspace`]: how keys and what they hold stand in rows. [`moment`]: the time and the chance of a request. [`waiting`]: who waits for data.
//!
//! - [`settings`]: what `CONFIG` tells and changes. [`encodings`]: what `OBJECT ENCODING` calls small.
//! - [`host`]: what a worker of a node does for its clients, besides its sockets.
//! - [`acl`]: who may do what. [`scripts`]: Lua inside a transaction. [`modules`]: WebAssembly inside a transaction.
//!
//! What is left out: streams, subscriptions.
//!
//! # How a host drives it
//!
//! ```text
//! on readable:  while conn.accepts_input() { read(socket); conn.receive(bytes) }
//! each turn:    while let Some(request) = conn.next(&mut allowance) {
//!                   let seq = request.seq;
//!                   match worker.submit(now, Request::new(token, request.procedure, request.args)) {
//!                       Ok(taken) => conn.submitted(seq, len, taken), // remember token -> (connection, seq)
//!                       Err(refusal) => {
//!                           conn.refused(seq, refusal);         // Busy leaves the request where it was
//!                           if refusal == Busy { break }        // next() gives it again
//!                       }
//!                   }
//!               }
//! on release:   conn.released(seq, outcome, at, bytes); then next() again: a WATCH, or what was put off, was in the way
//! on writable:  write(socket, conn.output()); conn.wrote(n)
//! after each:   if conn.has_more(), give it another turn: it may stop for its allowance or its output, not for want
//!               of input, and then nothing more arrives
//!               if conn.closing() && conn.output().is_empty() { close }
//! ```
//!
//! With edge-triggered readiness, look at [`Connection::accepts_input`] again after `next` and `wrote`.
//! Requests of one connection must be submitted in order, to one worker; they may be released in any order. While one is put off, `next`
//! gives none.

pub mod acl;
mod bare;
pub mod bookmarks;
pub mod callables;
pub mod client_state;
pub mod clients;
pub mod command;
pub mod commands;
pub mod connection;
pub mod describe;
pub mod double;
pub mod effort;
pub mod encodings;
pub mod endings;
pub mod errors;
pub mod exec;
pub mod frame;
pub mod glob;
pub mod host;
pub mod http;
pub mod instances;
pub mod interactive;
pub mod keyspace;
pub mod long_double;
pub mod meter;
pub mod modules;
pub mod moment;
pub mod number;
pub mod operations;
pub mod order;
#[cfg(feature = "planted")]
pub mod planted;
mod product;
pub mod redirect;
pub mod reply;
pub mod request;
pub mod schema;
pub mod scripts;
pub mod settings;
pub mod single;
pub mod slots;
pub mod subscriptions;
pub mod tables;
#[cfg(test)]
mod tests;
pub mod topology;
pub mod waiting;

use std::borrow::Cow;
use std::sync::Arc;

use highwater_core::{Epoch, NodeId, Procedure, ProcedureId};
use highwater_kit::sessions;
use highwater_seam::Service;

pub use callables::Callables;
pub use clients::Clients;
pub use connection::{Allowance, Connection};
pub use instances::Compiled;
pub use keyspace::{KEYSPACE, SESSIONS};
pub use operations::Operations;
pub use product::{Product, register};
pub use redirect::Redirect;
pub use reply::Protocol;
pub use request::EngineRequest;
pub use topology::{Member, Topology};
pub use waiting::Waiting;

/// Where the door's procedures stand in the registry.
#[derive(Clone, Copy, Debug)]
pub struct Procedures {
    /// `redis.exec`
    pub exec: ProcedureId,
    /// `redis.watch`
    pub watch: ProcedureId,
    /// `redis.interact`
    pub interact: ProcedureId,
    /// `redis.users`
    pub users: ProcedureId,
}

impl Procedures {
    /// Finds them among a replica's procedure names (the position is the id). `None`: not registered.
    pub fn find(names: &[&str]) -> Option<Procedures> {
        let id = |name| names.iter().position(|known| *known == name).map(|at| ProcedureId(at as u16));
        Some(Procedures {
            exec: id(exec::Exec::NAME)?,
            watch: id(exec::ReadVersions::NAME)?,
            interact: id(interactive::Interact::NAME)?,
            users: id(acl::change::ChangeUsers::NAME)?,
        })
    }

    /// Sets the time of a request on the data: when this node submits it to its engine. An open transaction stands in its first moment.
    pub fn set_time(&self, procedure: ProcedureId, args: &mut [u8], unix_ms: u64) {
        if procedure == self.exec || procedure == self.watch {
            moment::Moment::set_time(args, unix_ms);
        }
    }
}

/// Fills bytes with chance; false if there is none.
pub type Entropy = Box<dyn Fn(&mut [u8]) -> bool + Send + Sync>;

/// What all connections of a node share; the host fills it in once.
pub struct Door {
    /// Where the door's procedures stand.
    pub procedures: Procedures,
    /// What clients may call by name.
    pub callables: Callables,
    pub node: NodeId,
    /// Every node that has its say takes requests: none leads.
    pub leaderless: bool,
    /// How many sessions may be open.
    pub sessions: sessions::Most,
    /// A number that nobody else knows: gets into requests' seeds.
    pub salt: u64,
    /// The number of this life of the node, which clients may know.
    pub run_id: u64,
    /// Where each node's door listens: errors name the leader's.
    pub addresses: Box<dyn Fn(NodeId) -> Option<String> + Send + Sync>,
    /// All clients of the node.
    pub clients: Arc<Clients>,
    /// How a client is told that another node serves.
    pub redirect: Redirect,
    /// Who belongs to the cluster. Called on CLUSTER and SENTINEL only.
    pub topology: Box<dyn Fn() -> Topology + Send + Sync>,
    /// On how many other nodes everything is, at least, that was acknowledged.
    pub backed_by: u64,
    /// Who waits for data.
    pub waiting: Waiting,
    /// The spots where scans go on in the middle of crowds.
    pub bookmarks: bookmarks::Bookmarks,
    /// Who may do what.
    pub access: acl::Access,
    /// Fills bytes with chance that nobody can guess, for `ACL GENPASS` and sessions' ids; false if there is none.
    pub entropy: Entropy,
    /// What the node does at the moment. Called on `INFO` and `HELLO` only.
    pub describe: Box<dyn Fn() -> Description + Send + Sync>,
    /// What `CONFIG SET` changed.
    pub settings: settings::Settings,
    /// What operators ask. Called on their commands only.
    pub operations: Box<dyn Operations>,
}

impl Door {
    /// Where the door of a node listens.
    pub fn address(&self, node: NodeId) -> Option<String> {
        (self.addresses)(node)
    }
}

/// What a node says about itself in `INFO` and `HELLO`.
#[derive(Clone, Debug)]
pub struct Description {
    /// How far it is on its way to take transactions.
    pub service: Service,
    /// What it does, in its engine's word.
    pub role: Cow<'static, str>,
    /// The epoch it is in.
    pub epoch: Epoch,
    /// Whom clients should ask, as far as it knows.
    pub ask: Option<NodeId>,
    /// Seconds since the process started.
    pub uptime_s: u64,
    /// Open RESP connections.
    pub connected_clients: u64,
    /// Bytes that the store uses, and what it may come to if this node leads; the largest number if there is no limit.
    pub memory: (u64, u64),
}
