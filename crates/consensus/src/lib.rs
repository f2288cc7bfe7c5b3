//! Consensus without IO: many MultiPaxos streams under one ballot.
//!
//! Rolis gives each worker a stream of its own, so that replication scales like execution does. What the streams share
//! is *who leads*: one ballot covers all of them, and one election decides it.
//!
//! - [`Stream`] is one log on one replica: acceptor, and proposer if its node leads. Opaque entries, in order.
//! - [`Election`] is the part that is shared: pre-votes, promises, heartbeats.
//! - [`Members`] and [`Quorums`] say who votes. Every change of membership is a change of epoch.
//!
//! Nothing here knows a clock, a thread, a socket or what an entry means. Time and messages come in as arguments,
//! messages go out through a queue, and every map is walked in sorted order, so that a run is a function of its inputs.

pub mod election;
pub mod hooks;
pub mod log;
pub mod members;
pub mod message;
#[cfg(feature = "planted")]
pub mod planted;
pub mod stream;
mod tail;

pub use election::{
    Beat, Election, ElectionEvent, ElectionMessage, ElectionOptions, PendingChange, Promise, Standing, Voice,
};
pub use highwater_core::Nanos;
pub use log::Log;
pub use members::{Members, MembersChange, Quorums, Voter};
pub use message::Message;
pub use stream::{Change, Envelope, Plan, Recovered, RecoveryPoint, Stream, StreamOptions};
pub use tail::Tail;
