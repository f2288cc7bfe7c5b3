//! What a node hosts: every table and every procedure of the product, in an order that never changes.

use std::sync::Arc;

use highwater_core::{Library, Registry, TableSpec, Transaction};
use highwater_workloads::{AllWorkloads, Options, Workload};

use crate::resp;

/// The workloads' tables (the Redis keyspace is one of them) and procedures, then those of the RESP door.
#[derive(Clone, Copy, Debug, Default)]
pub struct NodeLibrary;

impl Library for NodeLibrary {
    fn tables(&self) -> Vec<TableSpec> {
        AllWorkloads.tables()
    }

    fn register<T: Transaction>(&self, registry: &mut Registry<T>) {
        AllWorkloads.register(registry);
        resp::register(registry);
    }
}

/// Builds a workload by name.
pub fn workload(name: &str, options: &[(String, String)]) -> Result<Arc<dyn Workload>, String> {
    let pairs = options.iter().map(|(key, value)| (key.as_str(), value.as_str()));
    let options = Options::parse(name, pairs).map_err(|error| error.to_string())?;
    Ok(Arc::from(options.build()))
}

#[cfg(test)]
mod tests {
    use highwater_core::{Clock, Incarnation, NodeId};
    use highwater_engines::{EngineKind, Options, build};

    use super::*;

    #[test]
    fn the_door_finds_its_tables() {
        let keyspace = &NodeLibrary.tables()[resp::KEYSPACE.0 as usize];
        assert_eq!(keyspace.name, "keyspace");
        let sessions = &NodeLibrary.tables()[resp::SESSIONS.0 as usize];
        assert_eq!(*sessions, highwater_engines::sessions::TABLE);
    }

    #[test]
    fn benchmarks_are_told_by_their_names() {
        let options = Options::new(NodeId(0), 1, 1, Incarnation(1));
        let replica = build(EngineKind::Silo, options, &NodeLibrary, Arc::new(Clock::counter()));
        for name in replica.procedures {
            let own = name.starts_with("redis.") || name.starts_with("sessions.");
            assert_eq!(highwater_workloads::library::is_benchmark(name), !own, "{name}");
        }
    }

    #[test]
    fn a_bad_workload_is_explained() {
        let error =
            |name, options: &[(String, String)]| workload(name, options).err().expect("no such thing");
        assert!(error("tpch", &[]).contains("tpcc"));
        assert!(error("bank", &[("acounts".into(), "3".into())]).contains("accounts"));
    }
}
