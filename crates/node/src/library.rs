//! The tables and procedures that a node hosts: the product's, and those of the program or the workloads that it is started with.

use std::sync::Arc;

use highwater_core::With;
use highwater_kit::code::Code;
use highwater_redis::{Compiled, Product};
use highwater_workloads::{AllWorkloads, Options, Workload};

use crate::config::Benchmarks;

/// The product and the workloads: `server.benchmarks = "on"`.
pub const WITH_WORKLOADS: With<Product, AllWorkloads> = With(Product, AllWorkloads);

/// The code that a node hosts, as engines want it: the product, and the workloads if they are on.
pub fn hosted(benchmarks: Benchmarks) -> &'static dyn Code {
    match benchmarks {
        Benchmarks::Off => &Compiled(Product),
        Benchmarks::On => &Compiled(WITH_WORKLOADS),
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
    use highwater_engines::{EngineKind, build};
    use highwater_redis::callables::is_benchmark;
    use highwater_seam::Options;

    use super::*;

    #[test]
    fn benchmarks_are_told_by_their_names() {
        let options = Options::new(NodeId(0), 1, 1, Incarnation(1));
        let replica = build(EngineKind::Silo, options, hosted(Benchmarks::On), Arc::new(Clock::counter()));
        for name in replica.procedures {
            let own = name.starts_with("redis.") || name.starts_with("sessions.");
            assert_eq!(is_benchmark(name), !own, "{name}");
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
