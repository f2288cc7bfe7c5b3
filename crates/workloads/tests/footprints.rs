//! What a procedure says that it will touch covers what it touches.

#![allow(clippy::unwrap_used)]

use highwater_core::{Access, Footprint, Library, Registry};
use highwater_workloads::testing::{Memory, Runner};
use highwater_workloads::{AllWorkloads, Options};

/// Runs requests of every workload; how many of each procedure said what they would touch.
#[test]
fn nothing_is_touched_that_was_not_said() {
    let mut registry = Registry::<Memory>::new();
    AllWorkloads.register(&mut registry);
    let mut said = std::collections::BTreeMap::new();
    for (name, options) in [
        ("tpcc", vec![("scale", "0.01"), ("warehouses", "2")]),
        ("tpcc", vec![("scale", "0.01"), ("warehouses", "2"), ("layout", "silo")]),
        ("ycsb", vec![("keys", "1000")]),
        ("bank", vec![("accounts", "100")]),
        ("ycsb-t", vec![("keys", "1000"), ("zipf", "0.6")]),
        ("retwis", vec![("keys", "1000"), ("zipf", "0.6")]),
    ] {
        let workload = Options::parse(name, options).unwrap().build();
        let mut runner = Runner::loaded(&*workload);
        let mut generator = workload.generator(0, 1, 1);
        let (mut args, mut footprint) = (Vec::new(), Footprint::default());
        for _ in 0..2000 {
            let procedure = workload.kinds()[generator.next(&mut args)];
            footprint.clear();
            if !registry.footprint(registry.find(procedure).unwrap(), &args, &mut footprint) {
                continue;
            }
            *said.entry(procedure).or_insert(0) += 1;
            let _ = runner.run(procedure, &args);
            assert_eq!(runner.last.scanned, 0, "{procedure}: a scan has no keys");
            let covers = |table, key: &[u8], write: bool| {
                footprint
                    .keys()
                    .any(|(t, k, access)| t == table && k == key && (access == Access::Write || !write))
            };
            let (reads, writes) = (&runner.last.reads, &runner.last.writes);
            assert!(reads.iter().all(|(table, key)| covers(*table, key, false)), "{procedure} reads more");
            assert!(writes.iter().all(|(table, key)| covers(*table, key, true)), "{procedure} writes more");
        }
    }
    let kinds: Vec<_> = said.keys().copied().collect();
    let retwis = ["retwis.add_user", "retwis.follow", "retwis.post", "retwis.timeline"];
    assert_eq!(kinds, [&["bank.sample", "bank.transfer"], &retwis[..], &["ycsb-t.rmw"]].concat(), "{said:?}");
    assert!(said.values().all(|count| *count > 50), "{said:?}");
}

#[test]
fn arguments_that_make_no_sense_have_no_footprint() {
    let mut registry = Registry::<Memory>::new();
    AllWorkloads.register(&mut registry);
    for name in registry.names() {
        let id = registry.find(name).unwrap();
        assert!(!registry.footprint(id, &[1, 2, 3], &mut Footprint::default()), "{name}");
    }
}
