//! Highwater inside a program: a replica, or a cluster of them for tests; typed tables; closures as transactions.
//!
//! ```
//! use highwater_db::{Database, Hashed, Table};
//!
//! const BALANCES: Table<String, i64, Hashed> = Table::hashed(0, "balances");
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let db = Database::builder().table(BALANCES).open()?;
//! db.transaction(|tx| tx.put(BALANCES, "alice", &100))?;
//! let moved = db.transaction(|tx| {
//!     let alice = tx.get(BALANCES, "alice")?.unwrap_or(0);
//!     if alice < 30 {
//!         return Ok(false);
//!     }
//!     let bob = tx.get(BALANCES, "bob")?.unwrap_or(0);
//!     tx.put(BALANCES, "alice", &(alice - 30))?;
//!     tx.put(BALANCES, "bob", &(bob + 30))?;
//!     Ok(true)
//! })?;
//! assert!(moved);
//! # Ok(())
//! # }
//! ```
#![doc = include_str!("../README.md")]
//!
//! # Where to look
//!
//! | module | what |
//! |---|---|
//! | [`Builder`] | what is to be opened: tables, procedures, durability |
//! | [`Database`], [`Cluster`] | one replica; all of a cluster, for tests |
//! | [`Table`], [`Key`], [`Value`] | a program's tables, and what may be in them |
//! | [`Tx`] | a transaction under way |
//! | [`Procedures`] | transactions by name, for those who want them compiled for the engine, or called from elsewhere |
//! | `closure` | how a closure gets to a worker, and why not on every engine |
//! | `replicas` | who is asked, and for how long |

mod builder;
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
pub use closure::ENGINES;
pub use database::{Cluster, Database};
pub use error::{Error, OpenError};
pub use highwater_core::{Abort, Procedure, Registry, Transaction};
pub use highwater_node::Config;
pub use highwater_node::config::Durability;
pub use hosted::{NoProcedures, Procedures};
pub use keys::Key;
pub use tables::{FIRST_TABLE, Hashed, Index, MAX_TABLES, Ordered, Table, table_id};
pub use tx::Tx;
pub use values::Value;
