//! What a database is asked to do: benchmark workloads, written once against [`Procedure`](highwater_core::Procedure)
//! and hosted by every engine.
//!
//! - [`workload`]: the seam. A [`Workload`] says how to load the data, what to ask for, and which conditions must hold
//!   afterwards. Bench, simulator and real clusters use the same three.
//! - [`options`]: builds a workload from a name and key-value options.
//! - [`tables`] and [`library`]: every table and every procedure, under fixed ids, for all workloads at once. A cluster
//!   hosts [`AllWorkloads`] and any of them can run on it.
//! - [`tpcc`], [`ycsb`], [`ycsb_t`], [`retwis`], [`bank`]: one folder each; [`row64`] is what YCSB-T and Retwis share.
//!   [`audit`]: counting what failover must not lose.
//! - [`testing`]: an in-memory transaction and view, for tests here and in other crates.
//! - [`random`], [`choice`] and [`bytes`]: what generators and rows are made of.
//!
//! Nothing here reads a clock or global randomness: a generator's stream is a function of its seed, and a procedure's
//! effect a function of its arguments and the data.

pub mod audit;
pub mod bank;
pub mod bytes;
pub mod choice;
pub mod library;
pub mod options;
pub mod random;
pub mod retwis;
pub mod row64;
pub mod tables;
pub mod testing;
pub mod tpcc;
pub mod workload;
pub mod ycsb;
pub mod ycsb_t;

pub use library::AllWorkloads;
pub use options::{OptionError, Options};
pub use workload::{Check, Generator, Requests, Workload};
