//! The smallest engine: that what runs Rolis runs anything behind the seam.

use highwater_core::NodeId;
use highwater_engines::{EngineKind, Refusal};
use highwater_sim::Interleaving;

use super::common::{Lists, MS, small};

fn start(seed: u64, nodes: u8) -> Lists {
    Lists::on(EngineKind::Backup, seed, nodes, 3, small, |_| {})
}

/// Connections break all the time, and workers are interrupted anywhere: every list is as the clients saw it, everywhere.
#[test]
fn backups_hold_what_was_answered_though_connections_break() {
    for seed in 1..=10 {
        let mut lists = start(seed, 3);
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
        assert!(lists.all_acknowledged() > 100, "{} acknowledged", lists.all_acknowledged());
    }
}

#[test]
fn one_replica_answers_alone() {
    let mut lists = start(1, 1);
    let token = lists.ask(NodeId(0), 2, &[0], &[1]).unwrap();
    lists.run(MS);
    assert!(lists.acknowledged(token));
    lists.verify();
}

/// What a backup did not acknowledge is not answered; a backup that lost its memory ends the service, with a word.
#[test]
fn a_backup_that_lost_its_memory_ends_the_service() {
    let mut lists = start(2, 3);
    lists.run(10 * MS);
    lists.world.kill(NodeId(2));
    let token = lists.ask(NodeId(0), 0, &[], &[1]).unwrap();
    lists.run(100 * MS);
    assert!(!lists.acknowledged(token) && lists.outcomes.is_empty(), "one of three has not got it");
    assert_eq!(lists.world.converged(), Err("replica 2 does not answer".into()));
    lists.world.start(NodeId(2));
    lists.run(100 * MS);
    assert_eq!(lists.outcomes.get("unknown"), Some(&1));
    let status = lists.world.status(NodeId(0)).unwrap();
    assert!(status.trouble.is_some_and(|trouble| trouble.contains("lost its memory")));
    let (token, procedure) = (highwater_engines::Token(99), lists.world.procedure("list.step"));
    let refused = |lists: &mut Lists, to| lists.world.submit(NodeId(to), 0, token, procedure, &[0; 5]);
    assert_eq!(refused(&mut lists, 0), Err(Refusal::NoQuorum));
    assert_eq!(refused(&mut lists, 1), Err(Refusal::NotServing { ask: Some(NodeId(0)) }));
}

/// The same for the primary, also if its backups have nothing yet.
#[test]
fn a_primary_that_lost_its_memory_serves_no_more() {
    for entries in [0, 3] {
        let mut lists = start(3, 3);
        lists.run(20 * MS);
        for _ in 0..entries {
            lists.ask(NodeId(0), 1, &[], &[1]).unwrap();
            lists.run(5 * MS);
        }
        assert_eq!(lists.all_acknowledged(), entries);
        lists.world.kill(NodeId(0));
        lists.run(10 * MS);
        lists.world.start(NodeId(0));
        lists.run(100 * MS);
        assert_eq!(lists.ask(NodeId(0), 1, &[1], &[]), None, "what it has forgotten it does not deny");
        let trouble = |id| lists.world.status(NodeId(id)).unwrap().trouble.unwrap_or_default();
        assert!((0..3).all(|id| trouble(id).contains("lost its memory")), "{}", lists.story());
    }
}
