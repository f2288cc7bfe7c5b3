//! Whoever could serve must: the watch over majorities, on plans made for it.

use std::collections::BTreeMap;

use highwater_sim::faults::{Fault, LASTING, Scheduled, Victim};
use highwater_sim::plan::{Machines, Sizes, Transport};
use highwater_sim::{Failure, FailureKind, Plan, Summary, run};

const MS: u64 = 1_000_000;

/// A plan of so many replicas in which nothing goes wrong but these, for ever.
fn plan(replicas: u8, faults: &[Fault]) -> Plan {
    let mut plan = Plan::draw(7);
    plan.replicas = replicas;
    plan.workers = 2;
    plan.settings.heartbeat = 5 * MS;
    plan.settings.election_timeout = 30 * MS;
    plan.choices = BTreeMap::new();
    plan.transport = Transport::default();
    plan.interleaving = None;
    plan.machines = Machines::default();
    plan.load.sizes = Sizes::default();
    plan.load.mix.blobs = 0;
    plan.load.mix.lists = 1;
    plan.clocks.clear();
    plan.absent = 0;
    (plan.delay_ns, plan.delay_spread_ns) = (20_000, 50_000);
    plan.from_birth = false;
    plan.length_ns = 300 * MS;
    let at = |at: usize| 50 * MS + 20 * MS * at as u64;
    plan.faults = faults
        .iter()
        .enumerate()
        .map(|(nth, fault)| Scheduled { at_ns: at(nth), for_ns: LASTING, fault: fault.clone() })
        .collect();
    Plan::parse(&plan.to_json()).expect("a plan that makes sense")
}

fn served(summary: &Summary) -> bool {
    summary.marks.contains_key("majorities that served beside faults that last")
}

fn told(ended: Result<Summary, Box<Failure>>) -> Summary {
    ended.unwrap_or_else(|failure| panic!("{failure}\n{}", failure.story))
}

/// Dead, cut off, deaf, mute, slow, or without a turn: two of three serve, whoever the third is.
#[test]
fn two_of_three_serve_beside_any_third() {
    for victim in [Victim::Leader, Victim::Node(0), Victim::Node(1), Victim::Node(2)] {
        for fault in [
            Fault::Kill(victim),
            Fault::Isolate(victim),
            Fault::Mute(victim),
            Fault::Slow(victim, 200),
            Fault::StickControl(victim),
        ] {
            let summary = told(run(&plan(3, std::slice::from_ref(&fault))));
            assert!(
                served(&summary),
                "{fault:?} leaves a majority, which was not asked: {:?}",
                summary.marks
            );
        }
    }
}

/// Two of four are not a majority, nor are three that do not all hear each other: nothing is owed, and nothing fails.
#[test]
fn nobody_owes_what_nobody_can_give() {
    for fault in [Fault::Split(0b0011), Fault::Web(0b111011), Fault::Hold(0)] {
        let summary = told(run(&plan(4, std::slice::from_ref(&fault))));
        assert!(!served(&summary), "{fault:?}");
    }
}

/// A leader that hears one of three others has no quorum; the three hear each other, and one of them hears it. They serve
/// (issue 8, item 14: they did not, for ever, while it went on saying that it leads). The same with six.
#[test]
fn who_hears_a_stranded_leader_is_not_held_back_by_it() {
    for (replicas, hears) in [(4, 1), (6, 2), (5, 1)] {
        let summary = told(run(&plan(replicas, &[Fault::Strand(Victim::Leader, hears)])));
        assert!(served(&summary), "{replicas}: {:?}", summary.marks);
    }
}

/// A disk that answers nothing, for good, whosever it is: the others serve, in `sync` and in `async`.
#[test]
fn two_of_three_serve_beside_a_disk_that_hangs() {
    for victim in [Victim::Leader, Victim::Node(0), Victim::Node(1), Victim::Node(2)] {
        for behind in [false, true] {
            let mut plan = plan(3, &[Fault::HungDisk(victim)]);
            (plan.disks, plan.behind) = (true, behind);
            plan.settings.max_entry_bytes = 1 << 10;
            plan.settings.max_in_flight_bytes = 8 << 10;
            plan.settings.log_retain_bytes = 64 << 10;
            plan.load.transactions = 2400;
            let summary = told(run(&plan));
            assert!(served(&summary), "{victim:?}, behind: {behind}: {:?}", summary.marks);
        }
    }
}

/// A leader one of whose workers gets no turn acknowledges nothing: the others go on without it (issue 8, item 13).
#[test]
fn a_leader_with_a_stuck_worker_is_replaced() {
    for worker in 0..2 {
        let summary = told(run(&plan(3, &[Fault::Stick(Victim::Leader, worker)])));
        assert!(served(&summary), "{:?}", summary.marks);
    }
}

/// The watch bites: leaders that step down at every turn, without any fault at all, are a majority that does not serve.
#[test]
fn a_majority_that_does_not_serve_is_told() {
    let mut plan = plan(3, &[]);
    plan.from_birth = true;
    plan.length_ns = 20_000 * MS;
    plan.choices.insert("StepDown".into(), 1);
    let failure = run(&plan).expect_err("nobody ever leads for long enough");
    assert_eq!(failure.kind, FailureKind::Stuck("a connected majority with complete stores serves"));
}

/// Long runs, many epochs: the first of each sort that seeds give.
#[test]
fn minutes_go_by_in_seconds() {
    let long = |stands_still: bool| {
        let plans = (1..).map(Plan::draw).filter(Plan::is_long);
        let still = |plan: &Plan| plan.faults.iter().any(|fault| matches!(fault.fault, Fault::Hold(_)));
        plans.filter(move |plan| still(plan) == stands_still).take(1)
    };
    let (mut opened, mut begun) = (0, 0);
    for plan in long(false).chain(long(true)) {
        let summary = told(run(&plan));
        println!("{summary:?}");
        assert!(summary.simulated > 350_000 * MS, "{} s", summary.simulated / MS / 1000);
        opened = opened.max(summary.failovers);
        begun = begun.max(summary.marks["takeovers begun"]);
    }
    assert!(opened > 20 && begun > 20, "{opened} epochs opened and {begun} takeovers begun at most");
}
