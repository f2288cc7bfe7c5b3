//! From flags to workloads: what the replicas are told, checked before anything is started.

use std::collections::BTreeMap;

use highwater_node::admin::protocol::WorkloadSpec;
use highwater_workloads::Options;

use crate::failure::{Failure, Result};

/// The TPC-C of these warehouses.
pub fn tpcc(warehouses: u32, fast_ids: bool, scale: f64) -> WorkloadSpec {
    let mut options = vec![("warehouses", warehouses.to_string())];
    if fast_ids {
        options.push(("fast_ids", "true".into()));
    }
    if scale < 1.0 {
        options.push(("scale", scale.to_string()));
    }
    spec("tpcc", options)
}

/// Puts `options` over those of `workload`, and checks all of them before anything is started.
pub fn complete(mut workload: WorkloadSpec, options: &[(String, String)]) -> Result<WorkloadSpec> {
    for (key, value) in options {
        workload.options.retain(|(known, _)| known != key);
        workload.options.push((key.clone(), value.clone()));
    }
    parse(&workload)?;
    Ok(workload)
}

/// Every option of the workload as it will be used, defaults included.
pub fn effective_options(workload: &WorkloadSpec) -> Result<BTreeMap<String, String>> {
    let described = parse(workload)?.build().describe();
    Ok(described.into_iter().map(|(key, value)| (key.to_string(), value)).collect())
}

/// The workload itself, for a run inside this process.
pub fn parse(workload: &WorkloadSpec) -> Result<Options> {
    let options = workload.options.iter().map(|(key, value)| (key.as_str(), value.as_str()));
    Options::parse(&workload.name, options).map_err(Failure::usage)
}

/// A workload and its options, as the replicas are told.
pub fn spec(name: &str, options: Vec<(&str, String)>) -> WorkloadSpec {
    let options = options.into_iter().map(|(key, value)| (key.to_string(), value)).collect();
    WorkloadSpec { name: name.to_string(), options }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_later_option_wins_and_an_unknown_one_is_a_usage_error() {
        let option = |key: &str, value: &str| [(key.to_string(), value.to_string())];
        let spec = complete(tpcc(2, false, 1.0), &option("warehouses", "3")).unwrap();
        assert_eq!(spec.options, option("warehouses", "3"));
        assert_eq!(complete(spec, &option("warehouse", "3")).unwrap_err().kind.code(), 2);
    }
}
