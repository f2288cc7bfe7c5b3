//! The hand that does what a plan says, and undoes it.

use std::collections::BTreeMap;

use highwater_core::{Epoch, NodeId};
use highwater_engines::{Nanos, Role};

use super::{Fault, MS, Scheduled, Victim};
use crate::network::Channel;
use crate::world::World;

/// How often it looks for somebody whom it waits for.
const LOOK_EVERY: Nanos = MS / 20;
/// How long a flapping connection lives, about.
const FLAP_EVERY: Nanos = 4 * MS;

/// Does and undoes what is due.
pub struct Hand {
    /// From here on times count.
    start: Nanos,
    waiting: Vec<Scheduled>,
    /// What was done and is to be undone: when, and what exactly.
    active: Vec<(Nanos, Effect)>,
    /// Of those that wait for an opening: the epoch that was open at the look before.
    opened: Option<Epoch>,
    /// How often each kind was done.
    pub done: BTreeMap<&'static str, u64>,
    /// What was done, in words: for reports.
    pub said: Vec<(Nanos, String)>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Effect {
    Down(NodeId),
    Cut(Vec<(NodeId, NodeId)>),
    Lag(u64),
    Clog(NodeId, NodeId, Nanos),
    Hold(Channel),
    Slow(NodeId),
    Shun(NodeId),
}

impl Hand {
    /// Starts counting now.
    pub fn new(faults: &[Scheduled], now: Nanos) -> Hand {
        let waiting = faults.to_vec();
        Hand {
            start: now,
            waiting,
            active: Vec::new(),
            opened: None,
            done: BTreeMap::new(),
            said: Vec::new(),
        }
    }

    /// When it wants to act next, after `now`. Whom it waits for may come at any time.
    pub fn next(&self, now: Nanos) -> Option<Nanos> {
        let waiting = self.waiting.iter().map(|fault| (self.start + fault.at_ns).max(now + LOOK_EVERY));
        waiting.chain(self.active.iter().map(|(until, _)| *until)).min()
    }

    /// Whether clients cannot reach a node.
    pub fn shuns(&self, node: NodeId) -> bool {
        self.active.iter().any(|(_, effect)| *effect == Effect::Shun(node))
    }

    /// Whether a node is to be down now.
    fn holds_down(&self, node: NodeId) -> bool {
        self.active.iter().any(|(_, effect)| *effect == Effect::Down(node))
    }

    /// Undoes and does what is due.
    pub fn act<L: highwater_core::Library>(&mut self, world: &mut World<L>) {
        let now = world.now;
        let (over, active) =
            std::mem::take(&mut self.active).into_iter().partition(|(until, _)| *until <= now);
        self.active = active;
        self.undo(world, over);
        let due = self.waiting.iter().take_while(|fault| self.start + fault.at_ns <= now).count();
        for at in (0..due).rev() {
            let Scheduled { for_ns, fault, .. } = self.waiting[at].clone();
            if self.act_on(world, &fault, now + for_ns) {
                self.waiting.remove(at);
            }
        }
        let waits =
            |fault: &Scheduled| fault.fault == Fault::Kill(Victim::Opener) && self.start + fault.at_ns <= now;
        let newest = || newest_open(world).max(self.opened).unwrap_or_default();
        self.opened = self.waiting.iter().any(waits).then(newest);
    }

    /// Undoes everything and does nothing more.
    pub fn rest<L: highwater_core::Library>(&mut self, world: &mut World<L>) {
        self.waiting.clear();
        let over = std::mem::take(&mut self.active);
        self.undo(world, over);
    }

    fn undo<L: highwater_core::Library>(&mut self, world: &mut World<L>, over: Vec<(Nanos, Effect)>) {
        if over.is_empty() {
            return;
        }
        for (_, effect) in &over {
            self.said.push((world.now, format!("over: {effect:?}")));
            match effect {
                Effect::Down(node) => world.start(*node),
                Effect::Slow(node) => world.slow_down(*node, 1),
                _ => {}
            }
        }
        self.apply(world);
    }

    /// The network mends everything at once; what goes on is done again.
    fn apply<L: highwater_core::Library>(&self, world: &mut World<L>) {
        world.network.heal();
        let ids: Vec<NodeId> = world.ids().collect();
        for (_, effect) in &self.active {
            match effect {
                Effect::Cut(pairs) => pairs.iter().for_each(|(from, to)| world.network.cut(*from, *to)),
                Effect::Lag(times) => {
                    let pairs = ids.iter().flat_map(|from| ids.iter().map(move |to| (*from, *to)));
                    pairs.for_each(|(from, to)| world.network.slow_down(from, to, *times));
                }
                Effect::Clog(from, to, until) => world.network.clog(*from, *to, *until),
                Effect::Hold(channel) => world.network.hold(*channel),
                Effect::Down(_) | Effect::Slow(_) | Effect::Shun(_) => {}
            }
        }
    }

    /// Whether the fault need not be looked at again.
    fn act_on<L: highwater_core::Library>(
        &mut self,
        world: &mut World<L>,
        fault: &Fault,
        until: Nanos,
    ) -> bool {
        let ids: Vec<NodeId> = world.ids().collect();
        let now = world.now;
        let victim = |hand: &Hand, world: &World<L>, victim: &Victim| match hand.find(world, *victim) {
            Found::Now(node) => Some(node),
            Found::Later | Found::Nobody => None,
        };
        // What undoes itself happens here; the rest leaves an effect.
        let mut who = None;
        let mut effect = None;
        match fault {
            Fault::Kill(wanted) | Fault::Vanish(wanted, _) => match self.find(world, *wanted) {
                Found::Now(node) if spare(world, node) => {
                    match fault {
                        Fault::Vanish(_, silence) => world.vanish(node, *silence),
                        _ => world.kill(node),
                    }
                    effect = Some(Effect::Down(node));
                    who = Some(node);
                }
                Found::Later => return false,
                _ => {}
            },
            Fault::Pause(wanted) => {
                who = victim(self, world, wanted);
                who.into_iter().for_each(|node| world.pause(node, until - now));
            }
            Fault::Break(a, b) => {
                who = Some(NodeId(*a));
                world.break_links(NodeId(*a), NodeId(*b));
            }
            Fault::Flap(a, b) => {
                who = Some(NodeId(*a));
                world.flap_links(NodeId(*a), NodeId(*b), FLAP_EVERY, until - now);
            }
            Fault::Isolate(wanted) | Fault::Mute(wanted) | Fault::Deafen(wanted) => {
                who = victim(self, world, wanted);
                let (out, into) = (!matches!(fault, Fault::Deafen(_)), !matches!(fault, Fault::Mute(_)));
                effect = who.map(|node| {
                    let others = ids.iter().filter(|id| **id != node);
                    let pairs = others.flat_map(|id| [(out, node, *id), (into, *id, node)]);
                    Effect::Cut(pairs.filter(|pair| pair.0).map(|(_, from, to)| (from, to)).collect())
                });
            }
            Fault::OneWay(from, to) => effect = Some(Effect::Cut(vec![(NodeId(*from), NodeId(*to))])),
            Fault::Split(side) => effect = Some(Effect::Cut(between(&ids, *side, None))),
            Fault::Bridge(side, bridge) => {
                effect = Some(Effect::Cut(between(&ids, *side, Some(NodeId(*bridge)))));
            }
            Fault::Lag(times) => effect = Some(Effect::Lag(*times)),
            Fault::Clog(from, to) => effect = Some(Effect::Clog(NodeId(*from), NodeId(*to), until)),
            Fault::Hold(worker) => effect = Some(Effect::Hold(Channel::Worker(*worker))),
            Fault::Slow(wanted, times) => {
                who = victim(self, world, wanted);
                who.into_iter().for_each(|node| world.slow_down(node, *times));
                effect = who.map(Effect::Slow);
            }
            Fault::Starve(wanted, worker, times) => {
                who = victim(self, world, wanted);
                who.into_iter().for_each(|node| world.starve(node, Channel::Worker(*worker), *times));
                effect = who.map(Effect::Slow);
            }
            Fault::Leap(node, by) => {
                who = Some(NodeId(*node));
                world.clock(NodeId(*node)).leap(now, *by);
            }
            Fault::Rate(node, rate) => {
                who = Some(NodeId(*node));
                world.clock(NodeId(*node)).set_rate(now, *rate);
            }
            Fault::LeapCommits(node, by) => {
                who = Some(NodeId(*node));
                world.clock(NodeId(*node)).leap_commits(*by);
            }
            Fault::StallCommits(node) => {
                who = Some(NodeId(*node));
                world.clock(NodeId(*node)).stall_commits(now, until - now);
            }
            Fault::Shun(wanted) => {
                who = victim(self, world, wanted);
                effect = who.map(Effect::Shun);
            }
        }
        if who.is_none() && effect.is_none() {
            return true;
        }
        *self.done.entry(fault.kind()).or_default() += 1;
        let who = who.map_or(String::new(), |node| format!(" ({node})"));
        self.said.push((now, format!("{fault:?}{who}")));
        if let Some(effect) = effect {
            self.active.push((until, effect));
            self.apply(world);
        }
        true
    }

    fn find<L: highwater_core::Library>(&self, world: &World<L>, victim: Victim) -> Found {
        let role = |wanted: fn(Role) -> bool| {
            world.ids().find(|id| world.status(*id).is_some_and(|status| wanted(status.role)))
        };
        let (found, wait) = match victim {
            Victim::Leader => (world.leader(), false),
            Victim::Candidate => (role(|role| role == Role::Candidate), true),
            Victim::Learner => (role(|role| role == Role::Learner), true),
            Victim::Opener => {
                let new = self.opened.is_some_and(|before| newest_open(world) > Some(before));
                (world.leader().filter(|_| new), true)
            }
            Victim::Node(node) => (world.ids().find(|id| *id == NodeId(node)), false),
        };
        match found {
            Some(node) if world.is_up(node) && !self.holds_down(node) => Found::Now(node),
            None if wait => Found::Later,
            _ => Found::Nobody,
        }
    }
}

enum Found {
    Now(NodeId),
    Later,
    Nobody,
}

/// Every direction between a set of nodes and the others; the bridge belongs to both sides.
fn between(ids: &[NodeId], side: u8, bridge: Option<NodeId>) -> Vec<(NodeId, NodeId)> {
    let inside = |id: &NodeId| side >> id.0 & 1 == 1;
    let mut pairs = Vec::new();
    for from in ids.iter().filter(|id| Some(**id) != bridge) {
        let others = ids.iter().filter(|id| Some(**id) != bridge && inside(id) != inside(from));
        pairs.extend(others.map(|to| (*from, *to)));
    }
    pairs
}

/// The newest epoch that somebody leads.
fn newest_open<L: highwater_core::Library>(world: &World<L>) -> Option<Epoch> {
    world.leader().and_then(|leader| world.status(leader)).map(|status| status.epoch)
}

/// Whether a node may lose its memory: the voters with complete stores that are left are a majority.
///
/// Who votes depends on whom one asks while a membership changes; only those count who vote by every account, but for
/// accounts of epochs that are over: the membership with which an epoch opened is in force from then on. While nobody
/// leads this is stricter than the guarantee asks for, never laxer.
pub fn spare<L: highwater_core::Library>(world: &World<L>, victim: NodeId) -> bool {
    let statuses: Vec<_> = world.ids().filter_map(|id| world.status(id)).collect();
    let open = newest_open(world).unwrap_or_default();
    let accounts: Vec<_> = statuses
        .iter()
        .filter(|status| !matches!(status.role, Role::Starting | Role::Learner) && status.epoch >= open)
        .collect();
    let sound = statuses.iter().filter(|status| {
        let votes = accounts.iter().all(|account| {
            account.members.iter().any(|member| {
                member.node == status.node && member.voter && member.incarnation == status.incarnation
            })
        });
        status.node != victim && votes && !accounts.is_empty() && status.copying_bytes.is_none()
    });
    sound.count() > world.ids().count() / 2
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bridge_hears_both_sides() {
        let ids: Vec<NodeId> = (0..5).map(NodeId).collect();
        let cut = between(&ids, 0b00011, Some(NodeId(2)));
        assert_eq!(cut.len(), 2 * 2 * 2);
        assert!(!cut.iter().any(|(from, to)| *from == NodeId(2) || *to == NodeId(2)));
        assert!(cut.contains(&(NodeId(0), NodeId(4))) && cut.contains(&(NodeId(4), NodeId(0))));
        assert_eq!(between(&ids, 0b11100, None).len(), 2 * 2 * 3);
    }
}
