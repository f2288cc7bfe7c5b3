//! Real nodes of builds of two releases, in one process: they work together, the level rises, and an older build is refused in words.

#![allow(clippy::unwrap_used)] // a test may fail so

mod common;

use std::sync::Arc;
use std::time::{Duration, Instant};

use common::{AdminClient, call, config, identity};
use highwater_core::{Clock, Incarnation, Level, Levels, NodeId, Speaks};
use highwater_node::admin::protocol::{AdminRequest, AdminResponse, StatusReport};
use highwater_node::config::Benchmarks;
use highwater_node::library::hosted;
use highwater_node::transport::Channel;
use highwater_node::transport::handshake::{Hello, Identity};
use highwater_node::{Config, Node, Signals};

fn start(config: &Config, id: u8, life: u64, newest: u8) -> Node {
    let config = Config { node: id, levels: Levels::up_to(Level(newest)), ..config.clone() };
    let incarnation = Incarnation(life);
    let clock = Arc::new(Clock::chosen(config.clock()).unwrap().0);
    let options = config.options(incarnation);
    let replica = highwater_engines::build(config.engine().unwrap(), options, hosted(Benchmarks::On), clock);
    Node::start(&config, incarnation, replica, Signals::Leave).unwrap()
}

fn status(node: &Node) -> StatusReport {
    match AdminClient::connect(node.admin_address()).ask(&AdminRequest::Status) {
        AdminResponse::Status(status) => *status,
        other => panic!("{other:?}"),
    }
}

/// Waits until the nodes' statuses are as wanted.
fn until(nodes: &[Node], what: &str, holds: impl Fn(&[StatusReport]) -> bool) -> Vec<StatusReport> {
    let deadline = Instant::now() + Duration::from_secs(30);
    loop {
        let all: Vec<StatusReport> = nodes.iter().map(status).collect();
        if holds(&all) {
            return all;
        }
        assert!(Instant::now() < deadline, "{what}: {all:#?}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn leader(all: &[StatusReport]) -> Option<&StatusReport> {
    all.iter().find(|status| status.serves() && status.trouble.is_none())
}

/// Everybody votes, by the leader's word.
fn whole(all: &[StatusReport]) -> bool {
    let sound = |status: &StatusReport| status.trouble.is_none() && status.leader.is_some();
    let votes = |leader: &StatusReport| {
        leader.members.iter().filter(|member| member.voter && member.connected == Some(true)).count()
    };
    all.iter().all(sound) && leader(all).is_some_and(|leader| votes(leader) == all.len())
}

#[test]
fn the_level_rises_with_the_last_upgrade_and_older_builds_are_refused() {
    let config = config(3, 1);
    let mut nodes = vec![start(&config, 0, 100, 2), start(&config, 1, 101, 2), start(&config, 2, 102, 1)];
    let all = until(&nodes, "they vote together", whole);
    assert!(all.iter().all(|status| status.level == Some(1)), "{all:#?}");
    let leading = leader(&all).unwrap();
    assert_eq!(leading.held_back_by, [2]);
    assert_eq!(leading.level_in_use().unwrap(), "level 1 is in use; for level 2 upgrade and start node 2");
    let builds: Vec<u8> = leading.members.iter().map(|member| member.levels.unwrap().newest).collect();
    assert_eq!(builds, [2, 2, 1]);
    // It comes back as the newer build, in another life: its memory is gone.
    drop(nodes.pop());
    nodes.push(start(&config, 2, 202, 2));
    let all = until(&nodes, "all use the next level", |all| all.iter().all(|status| status.level == Some(2)));
    assert!(all.iter().all(|status| status.held_back_by.is_empty()), "{all:#?}");
    // The older build again: in the same life, so that it is no matter whether the end of the other was noticed.
    drop(nodes.pop());
    for (speaks, refused) in
        [(Speaks::FIRST, true), (Speaks { levels: Levels::up_to(Level(2)), in_use: Level(1) }, false)]
    {
        let me = Identity { speaks, incarnation: Incarnation(202), ..identity(2, 1) };
        let (_stream, welcome) =
            call(&config.cluster.nodes[0].peer, &Hello::new(&me, NodeId(0), Channel::Worker(0)));
        let why = "level: n0 uses level 2 by now, and the build of n2 reads up to level 1: start n2 with a newer build";
        assert_eq!(welcome.refusal, refused.then(|| why.to_string()));
        assert_eq!(welcome.speaks, Speaks { levels: Levels::up_to(Level(2)), in_use: Level(2) });
    }
}
