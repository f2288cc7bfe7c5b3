//! A cluster ends, with the power, and another one begins from its disks; nodes of the old one come back meanwhile. Clients go on, and
//! their history is judged as one: nothing that was acknowledged by either is lost, and the two do not mix.

use highwater_sim::faults::{Fault, Scheduled};
use highwater_sim::{Plan, run};

use highwater_core::NodeId;
use highwater_seam::{Options, Token};
use highwater_sim::network::Channel;

use crate::common::{Lists, MS, number, small};

/// The plan of a seed with disks; a majority of its nodes begins anew in the middle of it.
fn plan(seed: u64) -> Plan {
    let mut plan = Plan::draw(seed).with_disks();
    let (replicas, founders) = (plan.replicas, plan.replicas / 2 + 1);
    plan.newcomers = 0;
    plan.faults.retain(|fault| !fault.fault.is_order() && fault.fault.fits(replicas));
    let (at_ns, for_ns) = (plan.length_ns / 2, plan.settings.election_timeout / 4);
    plan.faults.push(Scheduled { at_ns, for_ns, fault: Fault::FoundAnew(founders) });
    plan.faults.sort_by_key(|fault| fault.at_ns);
    plan
}

#[test]
fn clusters_begin_anew_under_faults() {
    let (first, seeds) = (number("FIRST", 1), number("SEEDS", 30));
    let (mut founded, mut acknowledged) = (0, 0);
    for seed in first..first + seeds {
        let plan = plan(seed);
        if plan.is_long() {
            continue;
        }
        match run(&plan) {
            Ok(summary) => {
                founded += summary.marks.get("clusters founded anew").copied().unwrap_or_default();
                acknowledged += summary.acknowledged;
            }
            Err(failure) => panic!("{failure}\n{}", failure.story),
        }
    }
    assert!(founded > seeds / 2, "only {founded} clusters founded in {seeds} runs");
    assert!(acknowledged > seeds * 50, "only {acknowledged} acknowledged");
}

/// A restored cluster's log begins behind the state that its founders have. Who joins it may hear of that log before it hears that it has
/// to copy the state: until it has, it has nothing to show.
#[test]
fn who_joins_a_restored_cluster_shows_nothing_before_it_has_copied_the_state() {
    let with_disks = |options: &mut Options| {
        small(options);
        options.durability = highwater_core::Durability::Sync;
        options.heartbeat = 20 * MS;
        options.election_timeout = 240 * MS;
    };
    let (mut early, mut shown) = (0, 0);
    for seed in number("FIRST", 0)..number("FIRST", 0) + number("SEEDS", 20) {
        let mut lists = Lists::start(seed, 3, 2, with_disks);
        for _ in 0..40 {
            lists.load();
            lists.run(MS / 2);
        }
        let leader = lists.world.leader().expect("somebody leads");
        let mut appended = None;
        while appended.is_none_or(|token| !lists.acknowledged(token)) {
            appended = lists.ask(leader, 0, &[], &[0]).or(appended);
            lists.run(MS);
        }
        lists.world.found_anew(3).expect("all disks are there");
        (0..3).map(NodeId).for_each(|id| lists.world.start(id));
        lists.wait_for(4000 * MS, "the new cluster serves", |lists| lists.world.leader().is_some());
        let newcomer = NodeId(3);
        lists.world.start(newcomer);
        // Its streams meet the leader's first.
        lists.world.network.hold(Channel::Control);
        let (begun, mut reads) = (lists.world.now, Vec::new());
        while lists.world.now < begun + 400 * MS {
            if lists.world.now >= begun + 100 * MS {
                lists.world.network.heal();
            }
            let leader = lists.world.leader();
            leader.and_then(|leader| lists.ask(leader, 1, &[], &[1]));
            let has_copied = |(_, node, said): &(u64, NodeId, String)| {
                *node == newcomer && said.contains("the state is complete")
            };
            let copied = lists.world.log.iter().any(has_copied);
            for worker in 0..2 {
                let read = lists.ask_snapshot(newcomer, worker, &[0]);
                early += u32::from(!copied && read.is_none());
                reads.extend(read);
            }
            lists.run(MS / 5);
            let answered = |token: &Token| lists.seen(*token).cloned();
            for seen in reads.iter().filter_map(answered) {
                assert!(!seen[0].is_empty(), "what was restored is not there\n{}", lists.story());
                shown += 1;
            }
            reads.retain(|token| lists.seen(*token).is_none());
        }
        lists.world.network.heal();
    }
    assert!(early > 0 && shown > 0, "{early} reads were refused, {shown} were answered");
}
