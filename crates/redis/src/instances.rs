//! The product's procedures, compiled for each kind of transaction: here, and in no crate that hosts them.

use highwater_core::{Library, Registry, Schema, Transaction, With};
use highwater_kit::code::Code;
use highwater_kit::validation::tx::MeerkatTx;
use highwater_store::{Occ, SnapshotTx};

use crate::Product;

/// The product, or the product and a program, as engines host it: what is the product's is compiled in this crate, the program where it is named.
#[derive(Clone, Copy, Debug)]
pub struct Compiled<L>(pub L);

impl Code for Compiled<Product> {
    fn schema(&self) -> Schema {
        Library::schema(&self.0)
    }

    fn leaders(&self) -> Registry<Occ> {
        leaders()
    }

    fn readers(&self) -> Registry<SnapshotTx> {
        readers()
    }

    fn validated(&self) -> Registry<MeerkatTx> {
        validated()
    }
}

impl<P: Library> Code for Compiled<With<Product, P>> {
    fn schema(&self) -> Schema {
        Library::schema(&self.0)
    }

    fn leaders(&self) -> Registry<Occ> {
        with(leaders(), &self.0.1)
    }

    fn readers(&self) -> Registry<SnapshotTx> {
        with(readers(), &self.0.1)
    }

    fn validated(&self) -> Registry<MeerkatTx> {
        with(validated(), &self.0.1)
    }
}

/// A program's procedures behind these: in the order of [`With`].
fn with<T: Transaction>(mut registry: Registry<T>, program: &impl Library) -> Registry<T> {
    program.register(&mut registry);
    registry
}

// None of these may be inlined: that would be to compile it elsewhere.
#[inline(never)]
fn leaders() -> Registry<Occ> {
    with(Registry::new(), &Product)
}

#[inline(never)]
fn readers() -> Registry<SnapshotTx> {
    with(Registry::new(), &Product)
}

#[inline(never)]
fn validated() -> Registry<MeerkatTx> {
    with(Registry::new(), &Product)
}

#[cfg(test)]
mod tests {
    use highwater_workloads::AllWorkloads;

    use super::*;

    /// An engine is given what the library says, in the same order: procedures travel by number.
    #[test]
    fn what_is_compiled_here_is_the_library() {
        fn same(compiled: &dyn Code, library: &dyn Code) {
            assert_eq!(compiled.schema(), library.schema());
            assert_eq!(compiled.leaders().names(), library.leaders().names());
            assert_eq!(compiled.readers().names(), library.readers().names());
            assert_eq!(compiled.validated().names(), library.validated().names());
        }
        same(&Compiled(Product), &Product);
        let both = With(Product, AllWorkloads);
        same(&Compiled(both), &both);
    }
}
