//! The storage layer, which is Meerkat's: execution, validation by marks, and the write phase. All three systems run this code, and
//! what they are compared with does.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use highwater_core::{Outcome, Registry, Schema, Timestamp, planted};
use highwater_kit::code::Code;
use highwater_kit::validation::marks::{InTheWay, Linger, Marks};
use highwater_kit::validation::marks_of;
use highwater_kit::validation::own::Asked;
use highwater_kit::validation::payload::Payload;
use highwater_kit::validation::tx::{MeerkatTx, execute};
use highwater_kit::validation::validate::{unmark, validate};
use highwater_seam::options::Options;
use highwater_seam::{Nanos, Request};
use highwater_store::{Applier, Store};

use super::node::Node;

/// What the workers of a replica execute on.
pub struct Shelf {
    pub store: Arc<Store>,
    marks: Arc<Marks>,
    pub registry: Registry<MeerkatTx>,
}

impl Shelf {
    /// A fresh replica's: the code's tables, empty, and its procedures.
    pub fn new(code: &dyn Code, options: &Options) -> Shelf {
        let schema: Schema = code.schema();
        let marks = marks_of(&schema, options);
        Shelf { store: Store::new(schema), marks, registry: code.validated() }
    }
}

/// One worker's storage layer.
pub struct Storage {
    node: Arc<Node>,
    marks: Arc<Marks>,
    registry: Registry<MeerkatTx>,
    tx: MeerkatTx,
    applier: Applier,
    linger: Linger,
    reply: Vec<u8>,
}

impl Storage {
    /// On a replica's shelf.
    pub fn new(node: Arc<Node>, shelf: &Shelf) -> Storage {
        Storage {
            tx: MeerkatTx::new(shelf.store.clone(), node.options.max_transaction_bytes)
                .of_rows(node.options.max_transaction_rows),
            applier: Applier::new(shelf.store.clone()),
            marks: shelf.marks.clone(),
            registry: shelf.registry.clone(),
            linger: Linger::default(),
            reply: Vec::new(),
            node,
        }
    }

    /// Executes a request, on this replica's store and without a lock. What it came to; `None`: a conflict, and nothing is left of it.
    pub fn execute(&mut self, asked: &Asked) -> Option<Outcome> {
        self.tx.set_as_of(self.node.floor());
        self.tx.set_room(self.node.room.load(Ordering::Relaxed));
        let Asked { token, procedure, session, .. } = *asked;
        let request = Request { session, ..Request::new(token, procedure, &asked.args) };
        execute(&self.registry, &mut self.tx, &request, &mut self.reply)
    }

    /// The latest version that the last execution saw: its timestamp has to be later.
    pub fn seen(&self) -> Timestamp {
        self.tx.seen()
    }

    /// The last execution's reply.
    pub fn reply(&self) -> Vec<u8> {
        self.reply.clone()
    }

    /// What the last execution read and writes, at `ts`.
    pub fn end(&mut self, ts: Timestamp) -> Payload {
        self.tx.end(ts)
    }

    /// Whether a transaction can stand at `ts`; if so, what it reads and writes is marked until it is over.
    pub fn validate(&mut self, payload: &Payload, ts: Timestamp) -> Result<(), InTheWay> {
        let valid = validate(&self.marks, self.tx.latest(), payload, ts);
        if valid.is_ok() && planted!(UnmarkedEarly) {
            unmark(&self.marks, payload, ts, false);
        }
        valid
    }

    /// The write phase: what it wrote is installed, unless it is older than what stands there, and its marks go.
    pub fn commit(&mut self, payload: &Payload, ts: Timestamp) {
        if !payload.transaction().is_empty() {
            let applied = self.applier.apply(payload.transaction(), Timestamp::ZERO, Timestamp::MAX);
            applied.expect("a coordinator encodes what its own tables know");
        }
        unmark(&self.marks, payload, ts, true);
    }

    /// It was found valid here, and aborts: its marks go.
    pub fn abort(&mut self, payload: &Payload, ts: Timestamp) {
        unmark(&self.marks, payload, ts, false);
    }

    /// Unlinks tombstones that nobody will write below; says whether more is due.
    pub fn collect(&mut self, now: Nanos) -> bool {
        let marks = &self.marks;
        let long = self.linger.look(now, self.node.options.election_timeout, || self.node.floor());
        self.applier.collect_telling(long, |table, key, ts| marks.collected(table, key, ts))
    }
}
