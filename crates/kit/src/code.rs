//! The code that an engine hosts, as it runs it: tables, and procedures that are compiled for each kind of transaction there is.
//!
//! A procedure is generic over its transaction, and it is compiled where somebody says for which. Engines say it through [`Code`], without generics. Every
//! [`Library`] is code: it is compiled in the crate that hands it to an engine. A crate with large procedures implements [`Code`] by itself, once, and nobody
//! who hosts them compiles them again.

use std::sync::Arc;

use highwater_core::{Clock, Library, Registry, Schema};
use highwater_seam::{Engine, Options, Replica};
use highwater_store::{Occ, SnapshotTx};

use crate::validation::tx::MeerkatTx;

/// See the module.
pub trait Code: Send + Sync {
    /// The tables.
    fn schema(&self) -> Schema;

    /// The procedures, for transactions of a replica that decides by itself what commits.
    fn leaders(&self) -> Registry<Occ>;

    /// The same, for reads on a snapshot.
    fn readers(&self) -> Registry<SnapshotTx>;

    /// The same, for transactions that replicas validate.
    fn validated(&self) -> Registry<MeerkatTx>;
}

/// An engine that makes replicas of code.
pub trait Builds: Engine {
    /// A fresh replica: the code's tables, empty, and its procedures.
    fn build(options: Options, code: &dyn Code, clock: Arc<Clock>) -> Replica;
}

impl<L: Library> Code for L {
    fn schema(&self) -> Schema {
        Library::schema(self)
    }

    fn leaders(&self) -> Registry<Occ> {
        registered(self)
    }

    fn readers(&self) -> Registry<SnapshotTx> {
        registered(self)
    }

    fn validated(&self) -> Registry<MeerkatTx> {
        registered(self)
    }
}

fn registered<T: highwater_core::Transaction>(library: &impl Library) -> Registry<T> {
    let mut registry = Registry::new();
    library.register(&mut registry);
    registry
}
