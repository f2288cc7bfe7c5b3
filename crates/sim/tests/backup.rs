//! The smallest engine: that what runs Rolis runs anything behind the seam.

use highwater_core::NodeId;
use highwater_engines::EngineKind;
use highwater_seam::Refusal;

use super::common::{Lists, MS, small};

fn start(seed: u64, nodes: u8) -> Lists {
    Lists::on(EngineKind::Backup, seed, nodes, 3, small, |_| {})
}

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
    let (token, procedure) = (highwater_seam::Token(99), lists.world.procedure("list.step"));
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
