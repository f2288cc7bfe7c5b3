//! The executor of transactions, on this replica's store.

use std::sync::Arc;

use highwater_core::{Outcome, Registry};
use highwater_kit::validation::own::Asked;
use highwater_kit::validation::tx::{MeerkatTx, execute};
use highwater_seam::Request;
use highwater_seam::options::Options;
use highwater_store::Store;

pub(super) struct Executor {
    registry: Registry<MeerkatTx>,
    tx: MeerkatTx,
    /// That of the last request.
    reply: Vec<u8>,
}

fn transaction(store: &Arc<Store>, options: &Options) -> MeerkatTx {
    MeerkatTx::new(store.clone(), options.max_transaction_bytes).of_rows(options.max_transaction_rows)
}

impl Executor {
    pub fn new(registry: Registry<MeerkatTx>, store: &Arc<Store>, options: &Options) -> Executor {
        Executor { registry, tx: transaction(store, options), reply: Vec::new() }
    }

    /// From here on on another store.
    pub fn replace(&mut self, store: &Arc<Store>, options: &Options) {
        self.tx = transaction(store, options);
    }

    /// Runs a request. `None`: a conflict already.
    pub fn run(&mut self, asked: &Asked) -> Option<Outcome> {
        let Asked { token, procedure, session, .. } = *asked;
        let request = Request { session, ..Request::new(token, procedure, &asked.args) };
        execute(&self.registry, &mut self.tx, &request, &mut self.reply)
    }

    /// The answer to the last request.
    pub fn reply(&self) -> Vec<u8> {
        self.reply.clone()
    }

    /// The transaction that was run.
    pub fn tx(&mut self) -> &mut MeerkatTx {
        &mut self.tx
    }
}
