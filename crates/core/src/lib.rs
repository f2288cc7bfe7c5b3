//! The vocabulary of Highwater: what every other crate agrees on, and nothing that does any work.
//!
//! - [`ids`]: nodes, streams, epochs, ballots, entry indexes, timestamps; newtypes with only their legal operations.
//! - [`clock`]: where commit timestamps come from.
//! - [`level`]: what builds of different age agree to write.
//! - [`limits`]: how large everything may be, in one place.
//! - [`durability`]: what a reply promises. [`evidence`]: what proves that a disk is the newest of its node.
//! - [`generation`]: which of several things that take each other's place an answer is about.
//! - [`schema`]: tables, their key kinds and their indexes. [`fingerprint`]: whether two builds have the same.
//! - [`transaction`]: the one way to touch data. [`procedure`]: the one way to name a transaction's code. [`library`]: tables and procedures that are hosted together.
//! - [`work`]: what a transaction does, counted.
//! - [`signature`]: what a procedure takes and gives, by name and type.
//! - [`footprint`]: what a transaction will touch, said beforehand.
//! - [`contain`]: what becomes of a panic.
//! - [`planted`](mod@planted): switches for deliberate bugs, absent from default builds.
//! - [`hooks`]: where a simulator may step in; nothing outside one.
//! - [`random`]: chance from a seed, for simulators and tests.
//! - [`sync`]: atomics and mutexes, from std or from a model checker.
//! - [`wire`](mod@wire): messages whose bytes are declared. [`codec`]: varints and order-preserving key encodings. [`log`]: the wire form of a transaction and of an entry.
//!
//! This crate knows no store, no network, no thread and no file.

#![warn(missing_docs)]

pub mod clock;
pub mod codec;
pub mod contain;
pub mod durability;
pub mod evidence;
pub mod fingerprint;
pub mod footprint;
pub mod generation;
pub mod hooks;
pub mod ids;
pub mod level;
pub mod library;
pub mod limits;
pub mod log;
pub mod planted;
pub mod procedure;
pub mod random;
pub mod schema;
pub mod signature;
pub mod sync;
pub mod threads;
pub mod transaction;
pub mod voter;
pub mod wire;
pub mod work;

pub use clock::{Clock, ClockChoice};
pub use durability::Durability;
pub use fingerprint::Fingerprint;
pub use footprint::{Access, Footprint};
pub use generation::Generation;
pub use ids::{
    Ballot, EntryIndex, Epoch, Incarnation, Nanos, NodeId, ProcedureId, StreamId, TableId, Timestamp,
};
pub use level::{Level, Levels, Speaks};
pub use library::{Library, With};
pub use procedure::{Outcome, Procedure, Registry};
pub use random::Random;
pub use schema::{IndexKind, KeyKind, Schema, TableSpec};
pub use signature::Signature;
pub use transaction::{Abort, Direction, Transaction, View};
pub use voter::Voter;
pub use work::{Progress, Work};
