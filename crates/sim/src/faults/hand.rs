//! The hand that does what a plan says, and undoes it.

use std::collections::BTreeMap;

use highwater_core::{Epoch, Level, Library, NodeId};
use highwater_engines::EngineKind;
use highwater_seam::Nanos;

use super::cuts::{between, both_ways, strand, web};
use super::standing::{may_all_end, may_end, may_order, newest_open, spare};
use super::victims::{Found, find};
use super::{Fault, LASTING, Scheduled, Victim};
use crate::network::Channel;
use crate::units::MS;
use crate::world::World;
use crate::world::order::Order;

/// How often it looks for somebody whom it waits for, at least.
const LOOK_EVERY: Nanos = MS / 20;
/// How long a flapping connection lives, about.
const FLAP_EVERY: Nanos = 4 * MS;

/// Does and undoes what is due.
pub struct Hand {
    /// From here on times count.
    start: Nanos,
    /// How often operators ask, and when next: not at all while they wait for nothing.
    ask_every: Nanos,
    ask_at: Option<Nanos>,
    /// How often it looks for somebody whom it waits for.
    look_every: Nanos,
    /// Who has been connected for so long has heard who the other is, and has it on disk.
    meeting: Nanos,
    waiting: Vec<Scheduled>,
    /// What was done and is to be undone: when, and what exactly.
    active: Vec<(Nanos, Effect)>,
    /// Of those that wait for an opening: the epoch that was open at the look before.
    opened: Option<Epoch>,
    /// Counts what was done and undone: as long as it stays the same, nothing changes.
    pub changes: u64,
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
    Stuck(NodeId, Channel),
    /// Its commit clock lags by so much.
    Back(NodeId, u64),
    Shun(NodeId),
    /// Its disk is about to be full, or slow.
    BadDisk(NodeId),
    /// Its disk answers nothing.
    Hung(NodeId),
    /// Its disk is about to be full, and the others are to do without it.
    Full(NodeId),
    /// No file can be opened there.
    Lacks(NodeId),
    /// Ends by itself: a pause, connections that flap, a machine that vanished without a word.
    Passing,
}

impl Hand {
    /// Starts counting now; elections take about `timeout`.
    pub fn new(faults: &[Scheduled], now: Nanos, timeout: Nanos) -> Hand {
        let waiting = faults.to_vec();
        Hand {
            start: now,
            ask_every: timeout / 8,
            ask_at: None,
            // Where everything takes long, so do those whom it waits for.
            look_every: LOOK_EVERY.max(timeout / 1000),
            meeting: 2 * timeout + 100 * MS,
            waiting,
            active: Vec::new(),
            opened: None,
            changes: 0,
            done: BTreeMap::new(),
            said: Vec::new(),
        }
    }

    /// When it wants to act next, after `now`. Whom it waits for may come at any time.
    pub fn next(&self, now: Nanos) -> Option<Nanos> {
        let waiting = self.waiting.iter().map(|fault| (self.start + fault.at_ns).max(now + self.look_every));
        let asking = self.ask_at.map(|at| at.max(now + 1));
        waiting.chain(self.active.iter().map(|(until, _)| *until)).chain(asking).min()
    }

    /// Whether clients cannot reach a node.
    pub fn shuns(&self, node: NodeId) -> bool {
        self.active.iter().any(|(_, effect)| *effect == Effect::Shun(node))
    }

    /// Whether something goes on that passes, or whose effect on service has no bound.
    pub fn is_restless(&self) -> bool {
        let passes = |effect: &Effect| {
            matches!(
                effect,
                Effect::Passing | Effect::Lag(_) | Effect::Clog(..) | Effect::Back(..) | Effect::BadDisk(_)
            )
        };
        self.active.iter().any(|(_, effect)| passes(effect))
    }

    /// Whether anything goes on that was meant to last.
    pub fn has_lasting(&self) -> bool {
        self.active.iter().any(|(until, _)| *until >= LASTING)
    }

    /// Does nothing new; what goes on goes on until it is over.
    pub fn stop(&mut self) {
        self.waiting.clear();
    }

    /// Whether a node is to be down now.
    fn holds_down(&self, node: NodeId) -> bool {
        self.active.iter().any(|(_, effect)| *effect == Effect::Down(node))
    }

    /// Undoes and does what is due.
    pub fn act<L: Library>(&mut self, world: &mut World<L>) {
        let now = world.now;
        let (over, active) =
            std::mem::take(&mut self.active).into_iter().partition(|(until, _)| *until <= now);
        self.active = active;
        self.undo(world, over);
        let due = self.waiting.iter().take_while(|fault| self.start + fault.at_ns <= now).count();
        for at in (0..due).rev() {
            let Scheduled { for_ns, fault, .. } = self.waiting[at].clone();
            if self.act_on(world, &fault, now.saturating_add(for_ns)) {
                self.waiting.remove(at);
            }
        }
        self.ask(world);
        self.upgrade(world);
        let waits =
            |fault: &Scheduled| fault.fault == Fault::Kill(Victim::Opener) && self.start + fault.at_ns <= now;
        let newest = || newest_open(world).max(self.opened).unwrap_or_default();
        self.opened = self.waiting.iter().any(waits).then(newest);
    }

    /// Operators see to those whom the others refuse for their build.
    fn upgrade<L: Library>(&mut self, world: &mut World<L>) {
        for node in world.outdated() {
            if world.finish_control_turns() && may_end(world, node) {
                world.kill(node);
                self.said.push((world.now, format!("upgraded at last: {node}")));
                self.changes += 1;
                self.active.push((world.now, Effect::Down(node)));
            }
        }
    }

    /// An operator gives an order: whom it concerns. `None`: not now, and the run goes on without it.
    fn order<L: Library>(&mut self, world: &mut World<L>, order: Order) -> Option<NodeId> {
        let who = order.comes.or(order.goes).filter(|_| may_order(world, &order));
        if who.is_some() {
            world.order(order);
            self.ask_at.get_or_insert(world.now);
        }
        who
    }

    /// Operators ask for what they wait for.
    fn ask<L: Library>(&mut self, world: &mut World<L>) {
        if self.ask_at.is_none_or(|at| at > world.now) {
            return;
        }
        let before = world.has_orders();
        for order in world.ask_for_orders() {
            self.changes += 1;
            self.said.push((world.now, format!("done: {order:?}")));
            world.mark("changes of membership");
        }
        self.changes += u64::from(before != world.has_orders());
        self.ask_at = world.expects_news().then_some(world.now + self.ask_every);
    }

    /// Undoes everything and does nothing more; operators go on asking.
    pub fn rest<L: Library>(&mut self, world: &mut World<L>) {
        self.waiting.clear();
        let over = std::mem::take(&mut self.active);
        self.undo(world, over);
    }

    fn undo<L: Library>(&mut self, world: &mut World<L>, over: Vec<(Nanos, Effect)>) {
        if over.is_empty() {
            return;
        }
        self.changes += 1;
        for (_, effect) in &over {
            self.said.push((world.now, format!("over: {effect:?}")));
            match effect {
                // Two may hold it down, and what undid the first one started it.
                Effect::Down(node) if world.is_up(*node) => world.spare_sync(*node),
                Effect::Down(node) => world.start(*node),
                Effect::Slow(node) => world.slow_down(*node, 1),
                Effect::Stuck(node, who) => world.stick(*node, *who, false),
                Effect::BadDisk(node) => {
                    world.slow_disk(*node, 0);
                    world.fill_disk(*node, None);
                }
                Effect::Hung(node) => world.hang_disk(*node, false),
                Effect::Full(node) => world.fill_disk(*node, None),
                Effect::Lacks(node) => world.fail_open(*node, None),
                Effect::Back(node, by) => world.clock(*node).leap_commits(*by),
                _ => {}
            }
        }
        self.apply(world);
    }

    /// The network mends everything at once; what goes on is done again.
    fn apply<L: Library>(&self, world: &mut World<L>) {
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
                Effect::Down(_)
                | Effect::Slow(_)
                | Effect::Stuck(..)
                | Effect::Back(..)
                | Effect::Shun(_)
                | Effect::BadDisk(_)
                | Effect::Hung(_)
                | Effect::Full(_)
                | Effect::Lacks(_)
                | Effect::Passing => {}
            }
        }
    }

    /// Whether the fault need not be looked at again.
    fn act_on<L: Library>(&mut self, world: &mut World<L>, fault: &Fault, until: Nanos) -> bool {
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
                // By accounts of now, not of before a turn under way.
                Found::Now(node) if world.finish_control_turns() && may_end(world, node) => {
                    match fault {
                        Fault::Vanish(_, silence) => {
                            world.vanish(node, *silence);
                            self.active.push((now + silence, Effect::Passing));
                        }
                        _ => world.kill(node),
                    }
                    effect = Some(Effect::Down(node));
                    who = Some(node);
                }
                Found::Later => return false,
                _ => {}
            },
            Fault::Wipe(node) | Fault::LoseNames(node) => {
                let node = NodeId(*node);
                if world.durable() && world.is_up(node) && world.finish_control_turns() && spare(world, node)
                {
                    match fault {
                        Fault::LoseNames(_) => world.lose_names(node),
                        _ => world.wipe(node),
                    }
                    effect = Some(Effect::Down(node));
                    who = Some(node);
                }
            }
            Fault::RestoreDisk(node) | Fault::RestoreUnheard(node, _) => {
                let node = NodeId(*node);
                let unheard = if let Fault::RestoreUnheard(_, starts) = fault { *starts } else { 0 };
                // Cuts change nothing of what was told before them.
                let calm = |(_, effect): &(Nanos, Effect)| matches!(effect, Effect::Cut(_) | Effect::Shun(_));
                let ready = world.is_up(node)
                    && self.active.iter().all(calm)
                    && world.has_older_disk(node, self.meeting);
                if !world.durable() || !ready {
                    return !world.durable();
                }
                if world.finish_control_turns() && spare(world, node) {
                    world.restore_older(node, unheard);
                    effect = Some(Effect::Down(node));
                    who = Some(node);
                }
            }
            Fault::Build(node, newest) => {
                let (node, newest) = (NodeId(*node), Level(*newest));
                let wanted =
                    world.build(node).newest != newest && world.raised_to().is_none_or(|at| at <= newest);
                if wanted && world.is_up(node) && world.finish_control_turns() && may_end(world, node) {
                    world.kill(node);
                    world.set_build(node, newest);
                    effect = Some(Effect::Down(node));
                    who = Some(node);
                }
            }
            Fault::Add(node) => who = self.order(world, Order::new(Some(NodeId(*node)), None)),
            Fault::Remove(node) => {
                who = self.order(world, Order::new(None, Some(NodeId(*node))));
            }
            Fault::Replace(node, by) => {
                who = self.order(world, Order::new(Some(NodeId(*by)), Some(NodeId(*node))));
            }
            Fault::FoundAnew(founders) => {
                // An operator who stops all of them has all the time there is.
                if !world.durable() || !world.finish_control_turns() || !may_all_end(world) {
                    return !world.durable();
                }
                if let Err(why) = world.found_anew(*founders) {
                    self.said.push((now, why));
                }
                self.active.extend(ids.iter().skip(1).map(|id| (until, Effect::Down(*id))));
                effect = Some(Effect::Down(ids[0]));
            }
            Fault::PowerCut if may_all_end(world) => {
                world.cut_power();
                self.active.extend(ids.iter().skip(1).map(|id| (until, Effect::Down(*id))));
                effect = Some(Effect::Down(ids[0]));
            }
            Fault::PowerCut => {}
            Fault::FillDisk(wanted, room) => {
                who = victim(self, world, wanted).filter(|_| world.durable());
                who.into_iter().for_each(|node| world.fill_disk(node, Some(*room)));
                // What others make of it has a bound where a leader makes way for it.
                let makes_way = world.engine() == EngineKind::Rolis;
                effect = who.map(if makes_way { Effect::Full } else { Effect::BadDisk });
            }
            Fault::SlowDisk(wanted, by) => {
                who = victim(self, world, wanted).filter(|_| world.durable());
                who.into_iter().for_each(|node| world.slow_disk(node, *by));
                effect = who.map(Effect::BadDisk);
            }
            Fault::HungDisk(wanted) => {
                who = victim(self, world, wanted).filter(|_| world.durable());
                who.into_iter().for_each(|node| world.hang_disk(node, true));
                effect = who.map(Effect::Hung);
            }
            Fault::Rot(node, part) => {
                let node = NodeId(*node);
                let may = world.durable() && world.finish_control_turns() && spare(world, node);
                who = (may && world.rot(node, *part)).then_some(node);
            }
            Fault::FailOpen(wanted, lack) => {
                who = victim(self, world, wanted).filter(|node| world.durable() && world.disk_leads(*node));
                who.into_iter().for_each(|node| world.fail_open(node, Some(*lack)));
                effect = who.map(Effect::Lacks);
            }
            Fault::EndStarts(node, steps) => {
                who = Some(NodeId(*node)).filter(|_| world.durable());
                who.into_iter().for_each(|node| world.end_starts(node, steps.iter().copied()));
            }
            Fault::HandOver(wanted) => {
                who = victim(self, world, wanted).filter(|node| world.hand_over(*node, None).is_ok());
            }
            Fault::FailSync(wanted) => {
                // Where what is accepted does not wait for disks, that is a crash like any other: what was in the sync is forgotten.
                who = victim(self, world, wanted).filter(|_| world.durable());
                if world.is_behind() || who.is_some_and(|node| !world.disk_leads(node)) {
                    who = who.filter(|node| world.finish_control_turns() && may_end(world, *node));
                }
                who.into_iter().for_each(|node| world.fail_sync(node));
                effect = who.map(Effect::Down);
            }
            Fault::Pause(wanted) => {
                who = victim(self, world, wanted);
                who.into_iter().for_each(|node| world.pause(node, until - now));
                effect = who.map(|_| Effect::Passing);
            }
            Fault::Break(a, b) => {
                who = Some(NodeId(*a));
                world.break_links(NodeId(*a), NodeId(*b));
            }
            Fault::Flap(a, b) => {
                who = Some(NodeId(*a));
                world.flap_links(NodeId(*a), NodeId(*b), FLAP_EVERY, until - now);
                effect = Some(Effect::Passing);
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
            Fault::Strand(wanted, hears) => {
                who = victim(self, world, wanted);
                effect = who.map(|node| Effect::Cut(strand(&ids, node, *hears)));
            }
            Fault::Part(a, b) => effect = Some(Effect::Cut(both_ways(NodeId(*a), NodeId(*b)).to_vec())),
            Fault::Web(pairs) => effect = Some(Effect::Cut(web(&ids, *pairs))),
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
            Fault::StarveControl(wanted, times) => {
                who = victim(self, world, wanted);
                who.into_iter().for_each(|node| world.starve(node, Channel::Control, *times));
                effect = who.map(Effect::Slow);
            }
            Fault::Stick(wanted, worker) => {
                who = victim(self, world, wanted);
                who.into_iter().for_each(|node| world.stick(node, Channel::Worker(*worker), true));
                effect = who.map(|node| Effect::Stuck(node, Channel::Worker(*worker)));
            }
            Fault::StickControl(wanted) => {
                who = victim(self, world, wanted);
                who.into_iter().for_each(|node| world.stick(node, Channel::Control, true));
                effect = who.map(|node| Effect::Stuck(node, Channel::Control));
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
            Fault::SetBack(node, by) => {
                who = Some(NodeId(*node));
                world.clock(NodeId(*node)).set_back_commits(*by);
                effect = Some(Effect::Back(NodeId(*node), *by));
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
        self.changes += 1;
        *self.done.entry(fault.kind()).or_default() += 1;
        let who = who.map_or(String::new(), |node| format!(" ({node})"));
        self.said.push((now, format!("{fault:?}{who}")));
        if let Some(effect) = effect {
            self.active.push((until, effect));
            self.apply(world);
        }
        true
    }

    fn find<L: Library>(&self, world: &World<L>, victim: Victim) -> Found {
        find(world, victim, self.opened, |node| self.holds_down(node))
    }
}
