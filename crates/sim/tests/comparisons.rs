//! Engines for normal operation: Meerkat-PB, TAPIR and KuaFu++, and what plain primary-backup has in common with them.

use highwater_core::NodeId;
use highwater_engines::EngineKind;
use highwater_seam::Refusal;
use highwater_sim::Interleaving;

use super::common::{Lists, MS, small};

const ALL: [EngineKind; 3] = [EngineKind::MeerkatPb, EngineKind::Tapir, EngineKind::Kuafu];

/// These and plain primary-backup.
fn without_takeover() -> impl Iterator<Item = EngineKind> {
    ALL.into_iter().chain([EngineKind::Backup])
}

fn start(engine: EngineKind, seed: u64, nodes: u8) -> Lists {
    Lists::on(engine, seed, nodes, 3, small, |_| {})
}

/// Connections break all the time, and workers are interrupted anywhere: every list is as the clients saw it, everywhere.
#[test]
fn replicas_hold_what_was_answered_though_connections_break() {
    for engine in without_takeover() {
        for seed in 1..=5 {
            let mut lists = start(engine, seed, 3);
            lists.world.interleave(Interleaving { one_in: 20, long_one_in: 10, longest: MS });
            for round in 0..100 {
                lists.load();
                lists.run(MS);
                if round % 7 == 0 {
                    lists.world.break_links(NodeId(0), NodeId(1 + (round / 7 % 2) as u8));
                }
            }
            lists.world.interleave(None);
            lists.verify();
            assert!(lists.all_acknowledged() > 50, "{engine}: {} acknowledged", lists.all_acknowledged());
        }
    }
}

#[test]
fn one_replica_answers_alone() {
    for engine in without_takeover() {
        let mut lists = start(engine, 1, 1);
        let token = lists.ask(NodeId(0), 2, &[0], &[1]).unwrap();
        lists.run(MS);
        assert!(lists.acknowledged(token), "{engine}");
        lists.verify();
    }
}

/// A transaction that waits for a node that is gone is not answered by a primary; once that node is back without its memory there is no
/// service any more, at any node, and every node says why.
#[test]
fn a_node_that_lost_its_memory_ends_the_service() {
    for engine in ALL {
        for victim in [0, 2] {
            let mut lists = start(engine, 2, 3);
            lists.run(10 * MS);
            lists.world.kill(NodeId(victim));
            if victim != 0 {
                let token = lists.ask(NodeId(0), 0, &[], &[1]).unwrap();
                lists.run(100 * MS);
                // With one of three away `tapir` takes two rounds.
                assert_eq!(lists.acknowledged(token), engine == EngineKind::Tapir, "{engine}");
                let missing = lists.world.converged().unwrap_err();
                assert_eq!(missing, "replica 2 does not answer");
            }
            lists.world.start(NodeId(victim));
            lists.run(100 * MS);
            let unknown = u64::from(victim != 0 && engine != EngineKind::Tapir);
            assert_eq!(lists.outcomes.get("unknown").copied().unwrap_or(0), unknown, "{engine}");
            let trouble = |id| lists.world.status(NodeId(id)).unwrap().trouble.unwrap_or_default();
            assert!((0..3).all(|id| trouble(id).contains("lost its memory")), "{engine} {}", lists.story());
            let (token, procedure) = (highwater_seam::Token(99), lists.world.procedure("list.step"));
            for node in 0..3 {
                let refused = lists.world.submit(NodeId(node), 0, token, procedure, &[0; 5]).unwrap_err();
                let elsewhere = node > 0 && engine != EngineKind::Tapir;
                let expected = match elsewhere {
                    true => Refusal::NotServing { ask: Some(NodeId(0)) },
                    false => Refusal::NoQuorum,
                };
                assert_eq!(refused, expected, "{engine}, node {node}");
            }
        }
    }
}

/// What some replica has not got is bounded: requests are put off, not taken.
#[test]
fn a_replica_that_is_cut_off_holds_requests_up_within_bounds() {
    for engine in ALL {
        let mut lists = start(engine, 4, 3);
        lists.run(10 * MS);
        for other in 0..2 {
            lists.world.network.cut(NodeId(2), NodeId(other));
            lists.world.network.cut(NodeId(other), NodeId(2));
        }
        for worker in 0..3 {
            let refused = (0..3000).any(|_| {
                let refused = lists.ask(NodeId(0), worker, &[0], &[]).is_none();
                lists.run(MS / 20);
                refused
            });
            assert!(refused, "{engine} takes more and more\n{}", lists.story());
        }
        let (token, procedure) = (highwater_seam::Token(99), lists.world.procedure("list.step"));
        let refused = lists.world.submit(NodeId(0), 0, token, procedure, &[0; 5]);
        assert_eq!(refused, Err(Refusal::Busy), "{engine}");
        let kept = lists.world.replica(NodeId(0)).unwrap().controller.memory().logs;
        assert!(kept > 0 && kept < 3 * 3 * (1 << 20), "{engine} keeps {kept} bytes");
        lists.world.network.heal();
        lists.run(200 * MS);
        lists.verify();
    }
}
