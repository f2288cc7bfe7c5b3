//! The product as engines host it: the tables and procedures of the RESP door.

use highwater_core::{Library, Registry, TableSpec, Transaction};
use highwater_kit::sessions;

use super::acl::change::ChangeUsers;
use super::exec::{Exec, ReadVersions};
use super::interactive::Interact;
use super::keyspace::sweep::Sweep;
use super::schema;

/// See the module.
#[derive(Clone, Copy, Debug, Default)]
pub struct Product;

impl Library for Product {
    fn tables(&self) -> Vec<TableSpec> {
        schema::tables()
    }

    fn register<T: Transaction>(&self, registry: &mut Registry<T>) {
        register(registry);
    }
}

/// Registers `redis.exec` and `redis.watch`, and what keeps sessions.
pub fn register<T: Transaction>(registry: &mut Registry<T>) {
    registry.register::<Exec>();
    registry.register::<ReadVersions>();
    sessions::register::<{ schema::SESSIONS_AT }, T>(registry);
    registry.register::<Sweep>();
    registry.register::<ChangeUsers>();
    registry.register::<Interact>();
}
