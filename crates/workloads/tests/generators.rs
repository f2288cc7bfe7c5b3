//! Streams of requests: deterministic by seed and worker, and distributed as the specification says.

#![allow(clippy::unwrap_used)]

use std::collections::BTreeSet;

use highwater_workloads::tpcc::generator::KINDS;
use highwater_workloads::tpcc::layout::LayoutKind;
use highwater_workloads::tpcc::{Config, Tpcc};
use highwater_workloads::{Options, Workload};

fn stream(workload: &dyn Workload, worker: usize, seed: u64) -> Vec<(usize, Vec<u8>)> {
    let mut generator = workload.generator(worker, 4, seed);
    let mut args = vec![1, 2, 3];
    (0..200).map(|_| (generator.next(&mut args), args.clone())).collect()
}

#[test]
fn streams_differ_by_worker_and_seed_and_by_nothing_else() {
    for name in Options::NAMES {
        let build = || Options::default_of(name).unwrap().build();
        let (one, other) = (build(), build());
        assert_eq!(stream(&*one, 0, 1), stream(&*other, 0, 1), "{name}");
        assert_ne!(stream(&*one, 0, 1), stream(&*one, 1, 1), "{name}");
        assert_ne!(stream(&*one, 0, 1), stream(&*one, 0, 2), "{name}");
        assert!(stream(&*one, 0, 1).iter().all(|(kind, _)| *kind < one.kinds().len()), "{name}");
    }
}

#[test]
fn both_layouts_get_the_same_requests_but_for_the_byte_that_says_so() {
    let of = |layout| stream(&Tpcc::new(Config { layout, warehouses: 3, ..Config::default() }), 1, 5);
    let (split, silo) = (of(LayoutKind::Split), of(LayoutKind::Silo));
    for ((kind, args), (other_kind, other)) in split.iter().zip(&silo) {
        assert_eq!((kind, args[0], &args[1..]), (other_kind, 0, &other[1..]));
        assert_eq!(other[0], 1);
    }
}

#[test]
fn parts_of_the_tpcc_load_are_disjoint_and_complete() {
    let tpcc = Tpcc::new(Config { warehouses: 3, ..Config::default() });
    let whole: Vec<_> = tpcc.load(0, 1).collect();
    let unique: BTreeSet<_> = whole.iter().cloned().collect();
    assert_eq!(unique.len(), whole.len());
    for parts in [2, 3, 7] {
        let dealt: Vec<_> = (0..parts).flat_map(|part| tpcc.load(part, parts)).collect();
        assert_eq!(dealt.len(), whole.len());
        assert_eq!(dealt.into_iter().collect::<BTreeSet<_>>(), unique);
    }
}

/// `part` in 10 000 of `whole`.
fn per_ten_thousand(part: usize, whole: usize) -> usize {
    part * 10_000 / whole
}

#[test]
fn tpcc_choices_have_the_specified_frequencies() {
    let tpcc = Tpcc::new(Config { warehouses: 4, ..Config::default() });
    let mut generator = tpcc.generator(2, 4, 9);
    let mut args = Vec::new();
    let (mut orders, mut unused, mut lines, mut remote_lines) = (0, 0, 0, 0);
    let (mut payments, mut remote, mut by_name) = (0, 0, 0);
    for _ in 0..100_000 {
        let kind = generator.next(&mut args);
        assert_eq!(args[..3], [0, 3, 0], "layout split, and worker 2 of 4 stays at warehouse 3");
        match KINDS[kind] {
            "tpcc.new_order" => {
                orders += 1;
                let ordered: Vec<_> = args[16..].chunks(6).collect();
                assert!((5..=15).contains(&ordered.len()));
                let item = |line: &&[u8]| u32::from_le_bytes([line[0], line[1], line[2], 0]);
                let last = ordered.last().map(item);
                unused += usize::from(last == Some(100_001));
                assert!(ordered[..ordered.len() - 1].iter().map(item).all(|i| (1..=100_000).contains(&i)));
                assert!(ordered.iter().all(|line| (1..=10).contains(&line[5])));
                lines += ordered.len();
                remote_lines += ordered.iter().filter(|line| line[3] != 3).count();
            }
            "tpcc.payment" => {
                payments += 1;
                remote += usize::from(args[4] != 3);
                by_name += usize::from(args[7] == 1);
            }
            _ => {}
        }
    }
    let frequencies = [
        ("unused items", per_ten_thousand(unused, orders), 70..=130),
        ("remote lines", per_ten_thousand(remote_lines, lines), 85..=115),
        ("lines per order", per_ten_thousand(lines, orders), 99_000..=101_000),
        ("remote payments", per_ten_thousand(remote, payments), 1430..=1570),
        ("payments by name", per_ten_thousand(by_name, payments), 5900..=6100),
    ];
    for (what, seen, expected) in frequencies {
        assert!(expected.contains(&seen), "{what}: {seen} in 10 000, expected {expected:?}");
    }
}

#[test]
fn fast_ids_are_drawn_once_over_all_workers() {
    let tpcc = Tpcc::new(Config { warehouses: 1, fast_ids: true, ..Config::default() });
    let mut drawn = BTreeSet::new();
    for worker in 0..3 {
        let mut generator = tpcc.generator(worker, 3, 1);
        let mut args = Vec::new();
        for _ in 0..500 {
            if KINDS[generator.next(&mut args)] == "tpcc.new_order" {
                let id = u32::from_le_bytes(args[6..10].try_into().unwrap());
                assert!(id > 3000 && drawn.insert((args[3], id)));
            }
        }
    }
}
