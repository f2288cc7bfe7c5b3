//! Verdicts compared with those of `adya`, a checker by other people, on their histories and on ours.
//!
//! It cannot be asked about snapshot reads (it has one level for all transactions), about histories that mix lists and
//! registers, or about records that no client can have made. Of registers it infers less or, with `linearizable_keys`,
//! from other pairs; there we ask only that what it proves wrong, we prove wrong, and that neither doubts what is right.

#![allow(clippy::unwrap_used, reason = "their events are what they say they are")]

use adya::sim::{Isolation, SimOpts};
use adya::{Opts, Valid, Workload};
use highwater_checker::generate::{Random, Shape, generate};
use highwater_checker::history::{write_edn, write_json_events};
use highwater_checker::{History, Level, Op, Options, Status, Txn, check};
use serde_json::Value;

const LEVELS: [(Level, &str); 3] = [
    (Level::Serializable, "serializable"),
    (Level::Session, "strong-session-serializable"),
    (Level::Strict, "strict-serializable"),
];

fn theirs(history: &adya::History, workload: Workload, model: &str) -> adya::check::Report {
    let linearizable = workload == Workload::RwRegister && model == "strict-serializable";
    let opts = Opts {
        models: vec![model.into()],
        wfr_keys: true,
        linearizable_keys: linearizable,
        sequential_keys: workload == Workload::RwRegister && model == "strong-session-serializable",
        ..Opts::default()
    };
    adya::check(history, workload, &opts)
}

fn ours(history: &History, level: Level) -> highwater_checker::Verdict {
    check(history, &Options { level, ..Options::strict() })
}

/// Their simulated database's events, as our transactions; the number of an event is its time.
fn import(events: &str) -> History {
    let mut history = History::new();
    let mut open: Vec<(u64, u64, Value)> = Vec::new();
    let mut again = std::collections::HashMap::new();
    for (time, line) in events.lines().enumerate() {
        let event: Value = serde_json::from_str(line).unwrap();
        let process = event["process"].as_u64().unwrap();
        let kind = event["type"].as_str().unwrap();
        if kind == "invoke" {
            open.push((process, time as u64, event["value"].clone()));
            continue;
        }
        let at = open.iter().position(|(open, _, _)| *open == process).unwrap();
        let (_, t0, asked) = open.swap_remove(at);
        let (status, t1) = match kind {
            "ok" => (Status::Ok, Some(time as u64)),
            "fail" => (Status::Fail, Some(time as u64)),
            _ => (Status::Info, None),
        };
        let told = if status == Status::Ok { &event["value"] } else { &asked };
        let ops = told.as_array().unwrap().iter().map(|op| import_op(&mut history, op, status)).collect();
        // A client goes on under a new number after an unknown outcome.
        let life = again.entry(process).or_insert(0_u64);
        history.push(Txn {
            process: process + 1000 * *life,
            t0,
            t1,
            status,
            ops,
            snap: false,
            since: None,
            place: None,
        });
        *life += u64::from(status == Status::Info);
    }
    history
}

fn import_op(history: &mut History, op: &Value, status: Status) -> Op {
    let key = history.keys.intern(&format!("k{}", op[1]));
    let told = status == Status::Ok;
    match (op[0].as_str().unwrap(), &op[2]) {
        ("append", value) => Op::Append { key, value: value.as_i64().unwrap() },
        ("w", value) => Op::Write { key, value: value.as_i64().unwrap() },
        (_, Value::Array(list)) if told => {
            Op::ReadList { key, value: Some(list.iter().map(|value| value.as_i64().unwrap()).collect()) }
        }
        (_, _) if !told => Op::ReadList { key, value: None },
        (_, value) => Op::ReadReg { key, value: Some(value.as_i64()) },
    }
}

#[test]
fn on_their_histories_of_lists_verdicts_agree_at_every_level() {
    let levels = [
        Isolation::Serializable,
        Isolation::SnapshotIsolation,
        Isolation::ReadCommitted,
        Isolation::ReadUncommitted,
        Isolation::LostUpdate,
    ];
    let mut wrong = 0;
    for seed in 0..30 {
        for isolation in levels {
            let txns = 10 + (seed as usize * 7) % 150;
            let events = adya::sim::run(&SimOpts { isolation, seed, txns, ..SimOpts::default() });
            let (mine, other) = (import(&events), adya::History::from_json(&events).unwrap());
            for (level, model) in LEVELS {
                let (ours, theirs) = (ours(&mine, level), theirs(&other, Workload::ListAppend, model));
                if theirs.valid == Valid::Unknown {
                    continue;
                }
                wrong += usize::from(!ours.passed());
                assert_eq!(
                    ours.passed(),
                    theirs.valid == Valid::True,
                    "seed {seed}, {isolation:?}, {model}: ours {:?}, theirs {:?}\n{}",
                    ours.found,
                    theirs.anomaly_types,
                    ours.anomalies
                        .iter()
                        .map(|anomaly| anomaly.text.as_str())
                        .collect::<Vec<_>>()
                        .join("\n\n")
                );
            }
        }
    }
    assert!(wrong > 100, "only {wrong} bad verdicts were compared");
}

#[test]
fn our_right_histories_are_right_for_them_and_our_exports_are_readable() {
    for seed in 0..40 {
        let registers = if seed % 2 == 0 { 0.0 } else { 1.0 };
        let shape = Shape { txns: 200, registers, snap: 0.0, ..Shape::default() };
        let history = generate(seed, &shape);
        let (mut edn, mut json) = (Vec::new(), Vec::new());
        write_edn(&history, &mut edn).unwrap();
        write_json_events(&history, &mut json).unwrap();
        let edn = adya::History::from_edn(&String::from_utf8(edn).unwrap()).unwrap();
        let json = adya::History::from_json(&String::from_utf8(json).unwrap()).unwrap();
        let workload = if registers == 0.0 { Workload::ListAppend } else { Workload::RwRegister };
        for (_, model) in LEVELS {
            for history in [&edn, &json] {
                let report = theirs(history, workload, model);
                assert_eq!(report.valid, Valid::True, "seed {seed}, {model}: {:?}", report.anomaly_types);
            }
        }
    }
}

#[test]
fn broken_at_random_lists_get_the_same_verdict() {
    let (mut wrong, mut right) = (0, 0);
    for seed in 0..150 {
        let mut random = Random::new(seed);
        let shape = Shape { txns: 60, clients: 6, live_keys: 3, ops: 4, snap: 0.0, ..Shape::default() };
        let mut history = generate(seed, &shape);
        damage(&mut history, &mut random);
        let mut edn = Vec::new();
        write_edn(&history, &mut edn).unwrap();
        let other = adya::History::from_edn(&String::from_utf8(edn).unwrap()).unwrap();
        for (level, model) in LEVELS {
            let (ours, theirs) = (ours(&history, level), theirs(&other, Workload::ListAppend, model));
            assert_eq!(
                ours.passed(),
                theirs.valid == Valid::True,
                "seed {seed}, {model}: ours {:?}, theirs {:?}\n{}",
                ours.found,
                theirs.anomaly_types,
                ours.anomalies.iter().map(|anomaly| anomaly.text.as_str()).collect::<Vec<_>>().join("\n\n")
            );
            *(if ours.passed() { &mut right } else { &mut wrong }) += 1;
        }
    }
    assert!(wrong > 50 && right > 50, "{wrong} wrong and {right} right is one-sided");
}

/// Makes some reads of lists shorter: never impossible by itself, often impossible together.
fn damage(history: &mut History, random: &mut Random) {
    for txn in history.txns.iter_mut().filter(|txn| txn.status == Status::Ok) {
        let ops = txn.ops.clone();
        for op in &mut txn.ops {
            let alone = ops.iter().filter(|other| other.key() == op.key()).count() == 1;
            if let Op::ReadList { value: Some(list), .. } = op
                && alone
                && random.chance(0.01)
            {
                list.truncate(list.len().saturating_sub(1 + random.below(2) as usize));
            }
        }
    }
}

#[test]
fn on_their_histories_of_registers_we_prove_at_least_what_they_prove() {
    let mut wrong = 0;
    for seed in 0..60 {
        for isolation in [Isolation::Serializable, Isolation::SnapshotIsolation, Isolation::ReadCommitted] {
            let mut options = SimOpts { isolation, seed, txns: 120, ..SimOpts::default() };
            options.r#gen.kind = adya::r#gen::Kind::RwRegister;
            let events = adya::sim::run(&options);
            let (mine, other) = (import(&events), adya::History::from_json(&events).unwrap());
            for (level, model) in LEVELS {
                let (ours, theirs) = (ours(&mine, level), theirs(&other, Workload::RwRegister, model));
                assert!(
                    isolation != Isolation::Serializable || ours.passed(),
                    "seed {seed}, {model}: {:?}",
                    ours.anomalies
                );
                if theirs.valid == Valid::False {
                    wrong += 1;
                    assert!(
                        !ours.passed(),
                        "seed {seed}, {isolation:?}, {model}: theirs {:?}",
                        theirs.anomaly_types
                    );
                }
            }
        }
    }
    assert!(wrong > 50, "only {wrong} bad verdicts were compared");
}
