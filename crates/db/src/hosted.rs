//! What a node of a program hosts: all of the product's, then the program's.

use highwater_core::{IndexKind, KeyKind, Library, Registry, TableSpec, Transaction};
use highwater_disk::checkpoint::RESERVED;
use highwater_node::library::NodeLibrary;

use crate::catalogue::{Agree, CATALOGUE, CATALOGUE_SPEC, Compare};
use crate::closure::Closure;

/// The procedures of a program.
pub trait Procedures: Clone + Send + Sync + 'static {
    /// Registers them, always in the same order, and on all replicas the same.
    fn register<T: Transaction>(&self, registry: &mut Registry<T>);
}

/// None: for programs whose transactions are closures.
#[derive(Clone, Copy, Debug)]
pub struct NoProcedures;

impl Procedures for NoProcedures {
    fn register<T: Transaction>(&self, _: &mut Registry<T>) {}
}

/// See the module.
#[derive(Clone)]
pub struct Hosted<P> {
    pub tables: Vec<TableSpec>,
    pub procedures: P,
}

impl<P: Procedures> Library for Hosted<P> {
    fn tables(&self) -> Vec<TableSpec> {
        let mut tables = NodeLibrary.tables();
        assert!(
            tables.len() <= CATALOGUE.0.into(),
            "the product has more tables than programs leave room for"
        );
        // A later build of the product, with tables in some of these places, finds the program's where they were.
        let reserved = TableSpec { name: RESERVED, keys: KeyKind::U64, index: IndexKind::Hash };
        tables.resize(CATALOGUE.0.into(), reserved);
        tables.push(CATALOGUE_SPEC);
        tables.extend(self.tables.iter().cloned());
        tables
    }

    fn register<T: Transaction>(&self, registry: &mut Registry<T>) {
        NodeLibrary.register(registry);
        registry.register::<Closure>();
        self.procedures.register(registry);
        // Last: the ids of a program's procedures stay what they were.
        registry.register::<Agree>();
        registry.register::<Compare>();
    }
}
