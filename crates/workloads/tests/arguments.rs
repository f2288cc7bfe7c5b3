//! Whatever the arguments, a procedure ends in a result: it never panics, and what it refuses it explains.

#![allow(clippy::unwrap_used)]

use highwater_core::{Abort, Library, Registry};
use highwater_workloads::testing::{Memory, Runner};
use highwater_workloads::{AllWorkloads, Options};
use proptest::prelude::*;

fn names() -> Vec<&'static str> {
    let mut registry = Registry::<Memory>::new();
    AllWorkloads.register(&mut registry);
    registry.names()
}

fn run(runner: &mut Runner, name: &str, args: &[u8]) {
    let (result, reply) = runner.run(name, args);
    if result == Err(Abort::BadRequest) {
        assert!(!reply.is_empty(), "{name} refuses {args:02x?} without a reason");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn random_bytes_are_survived(args in proptest::collection::vec(any::<u8>(), 0..120)) {
        let mut runner = Runner::new();
        names().into_iter().for_each(|name| run(&mut runner, name, &args));
    }
}

#[test]
fn requests_with_a_changed_byte_are_survived() {
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
        let mut args = Vec::new();
        for round in 0..3000usize {
            let procedure = workload.kinds()[generator.next(&mut args)];
            let at = round * 7 % args.len();
            args[at] ^= 1 << (round % 8);
            run(&mut runner, procedure, &args);
        }
        for (procedure, args) in workload.load(0, 1).step_by(5) {
            for at in 0..args.len() {
                let mut changed = args.clone();
                changed[at] ^= 0x80;
                run(&mut runner, procedure, &changed);
            }
        }
    }
}
