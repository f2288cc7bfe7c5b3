//! A program as the product hosts it: its tables behind the catalogue of them, its procedures, and ours for it.

use highwater_core::library::program_tables;
use highwater_core::{Library, Registry, TableSpec, Transaction, With};
use highwater_redis::Product;

use crate::catalogue::{Agree, CATALOGUE_SPEC, Compare};
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
pub struct Program<P> {
    pub tables: Vec<TableSpec>,
    pub procedures: P,
}

impl<P> Program<P> {
    /// All that a node of this program hosts.
    pub fn hosted(tables: Vec<TableSpec>, procedures: P) -> With<Product, Program<P>> {
        With(Product, Program { tables, procedures })
    }
}

impl<P: Procedures> Library for Program<P> {
    fn tables(&self) -> Vec<TableSpec> {
        program_tables([CATALOGUE_SPEC].into_iter().chain(self.tables.iter().cloned()))
    }

    fn register<T: Transaction>(&self, registry: &mut Registry<T>) {
        registry.register::<Closure>();
        self.procedures.register(registry);
        // Last: the ids of a program's procedures stay what they were.
        registry.register::<Agree>();
        registry.register::<Compare>();
    }
}
