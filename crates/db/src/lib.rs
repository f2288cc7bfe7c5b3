//! Highwater inside a program: a replica, or a cluster of them for tests; typed tables; closures as transactions.
//!
#![doc = include_str!("../README.md")]
//!
//! # Where to look
//!
//! | module | what |
//! |---|---|
//! | [`Builder`] | what is to be opened: tables, procedures, durability |
//! | [`Database`], [`Cluster`] | one replica; all of a cluster, for tests |
//! | [`Table`], [`Key`], [`Value`] | a program's tables, and what may be in them |
//! | [`Tx`], [`ReadTx`] | a transaction under way, and what of it only reads |
//! | `catalogue` | which tables there are, so that none is taken for another |
//! | [`Procedures`] | transactions by name, for those who want them compiled for the engine, or called from elsewhere |
//! | `closure` | how a closure gets to a worker, and why not on every engine |
//! | `replicas` | who is asked, and for how long |

#![warn(missing_docs)]

mod builder;
mod catalogue;
mod closure;
mod database;
mod error;
mod hosted;
mod keys;
mod replicas;
mod tables;
mod tx;
mod values;

pub use builder::Builder;
pub use closure::engines;
pub use database::{Cluster, Database};
pub use error::{Error, OpenError};
pub use highwater_core::{Abort, Footprint, Procedure, Registry, Transaction, signature};
pub use highwater_node::Config;
pub use highwater_node::config::Durability;
pub use hosted::{NoProcedures, Procedures};
pub use keys::Key;
pub use tables::{FIRST_TABLE, Hashed, Index, MAX_TABLES, Ordered, Table, table_id};
pub use tx::{ReadTx, Tx};
pub use values::Value;
