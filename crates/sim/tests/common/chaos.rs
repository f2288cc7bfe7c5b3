//! Faults of every kind at random, all from one seed.

use highwater_core::NodeId;
use highwater_seam::{Options, Status};

use super::{Lists, MS, small, tiny};

/// One run: what it is made of and what befalls it follow from the seed.
pub fn faults(seed: u64) -> Lists {
    faults_with(seed, if seed.is_multiple_of(3) { tiny } else { small }, |_| {})
}

/// The same with other settings, and something prepared.
pub fn faults_with(seed: u64, tune: fn(&mut Options), prepare: impl FnOnce(&mut Lists)) -> Lists {
    let nodes = if seed.is_multiple_of(5) { 5 } else { 3 };
    let workers = 1 + (seed % 4) as u16;
    let mut lists = Lists::start(seed, nodes, workers, tune);
    prepare(&mut lists);
    let mut cuts_until = 0;
    let mut down: Vec<NodeId> = Vec::new();
    let mut back_at = 0;
    let hardness = 10 + 10 * (seed % 5);
    for _ in 0..500 {
        lists.load();
        if lists.world.random.one_in(40) {
            // Some workers fall silent, others wake.
            let count = 1 + lists.world.random.below(workers.into()) as usize;
            lists.busy = (0..count).map(|_| lists.world.random.below(workers.into()) as u16).collect();
        }
        let length = lists.world.random.between(MS / 10, MS);
        lists.run(length);
        if cuts_until != 0 && lists.world.now > cuts_until {
            lists.world.network.heal();
            cuts_until = 0;
        }
        if back_at != 0 && lists.world.now > back_at {
            down.drain(..).for_each(|id| lists.world.start(id));
            back_at = 0;
        }
        if lists.world.random.one_in(hardness) {
            fault(&mut lists, nodes, &mut cuts_until, &mut down, &mut back_at);
        }
    }
    lists.world.network.heal();
    lists.verify();
    lists
}

fn fault(lists: &mut Lists, nodes: u8, cuts_until: &mut u64, down: &mut Vec<NodeId>, back_at: &mut u64) {
    let leader = lists.world.leader();
    let random = &mut lists.world.random;
    let any = NodeId(random.below(nodes.into()) as u8);
    // Leaders have the more interesting accidents.
    let victim = leader.filter(|_| random.one_in(2)).unwrap_or(any);
    let other = NodeId(random.below(nodes.into()) as u8);
    let soon = lists.world.now + random.between(MS, 120 * MS);
    match random.below(7) {
        // Only while everybody votes: memory is never lost beyond a minority.
        0 if down.is_empty() && lists.whole() => {
            lists.world.kill(victim);
            down.push(victim);
            *back_at = soon;
        }
        // A node that nobody counts may die at any time: in the middle of its copy, say.
        1 if down.is_empty() => {
            let learner = lists.world.ids().find(|id| {
                lists
                    .world
                    .status(*id)
                    .is_some_and(|status| status.incarnation.0 != 0 && status.role == "learner")
            });
            let voters = |id: NodeId| {
                let votes = |status: Status| {
                    let own = lists.world.status(id).map(|own| own.incarnation);
                    status.members.iter().any(|member| member.node == id && Some(member.incarnation) == own)
                };
                lists.world.ids().filter_map(|id| lists.world.status(id)).any(votes)
            };
            if let Some(learner) = learner.filter(|id| !voters(*id))
                && lists.said("has caught up") == lists.said("leading")
            {
                lists.world.kill(learner);
                down.push(learner);
                *back_at = soon;
            }
        }
        2 => lists.world.pause(victim, soon - lists.world.now),
        3 if victim != other => lists.world.break_links(victim, other),
        4 => {
            for id in lists.world.ids().filter(|id| *id != victim) {
                lists.world.network.cut(id, victim);
                lists.world.network.cut(victim, id);
            }
            *cuts_until = soon;
        }
        5 if victim != other => {
            lists.world.network.cut(victim, other);
            *cuts_until = soon;
        }
        6 => {
            for id in lists.world.ids().filter(|id| *id != victim) {
                lists.world.network.cut(victim, id);
            }
            *cuts_until = soon;
        }
        _ => {}
    }
}
