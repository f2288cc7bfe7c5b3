//! What befalls processes and connections.

use highwater_core::{Library, NodeId, hooks};
use highwater_seam::{Controller, Handover, MemberAnswer, MemberChange, Nanos};

use super::World;
use super::event::Event;
use super::node::Slot;
use crate::network::{Channel, Faults, Link};
use crate::stage::{Actor, Buggify, Fiber};
use crate::trace::What;

/// Who is at work on one turn for longer than this began it while it got next to no time.
const LONG_TURN: Nanos = 500_000_000;

impl<L: Library> World<L> {
    /// Asks a node for another membership, as an operator would; `None` if it is down.
    pub fn change_members(&mut self, id: NodeId, change: MemberChange) -> Option<MemberAnswer> {
        if !self.finish_control_turns() {
            return None;
        }
        let _entered = hooks::enter(self.stage.clone());
        let now = self.now;
        let node = self.nodes.get_mut(usize::from(id.0)).filter(|node| !node.paused)?;
        let replica = node.replica.as_mut()?;
        self.stage.enter(Actor { node: id, life: node.incarnation, who: Channel::Control });
        node.clock.tick(now);
        let answer = replica.controller.change_members(node.clock.local(now), change);
        self.schedule(id, Channel::Control, now);
        Some(answer)
    }

    /// Ends a process; its memory is gone. Its machine says so: peers find out at once that nothing listens there.
    pub fn kill(&mut self, id: NodeId) {
        if self.end(id) {
            for channel in self.channels() {
                for other in self.machines().filter(|other| *other != id) {
                    self.break_link(Link::new(id, other, channel));
                }
            }
        }
    }

    /// The same with the machine: nobody says anything. Peers find out after `silence`, by their own timers.
    pub fn vanish(&mut self, id: NodeId, silence: Nanos) {
        if self.end(id) {
            for channel in self.channels() {
                for other in self.machines().filter(|other| *other != id) {
                    self.abandon_link(Link::new(id, other, channel), id, silence);
                }
            }
        }
    }

    fn end(&mut self, id: NodeId) -> bool {
        let _entered = hooks::enter(self.stage.clone());
        self.drain(id);
        let node = &mut self.nodes[id.0 as usize];
        if node.replica.take().is_none() {
            return false;
        }
        node.life += 1;
        node.reset();
        if !node.disk.is_empty() {
            node.disk.crash(self.options.workers, &mut self.disks);
        }
        self.network.forget(id);
        self.trace.note(self.now, id, What::Killed);
        true
    }

    /// Lets the turns under way on a dying node run to their end, unseen.
    pub(super) fn drain(&mut self, id: NodeId) {
        let slots = &mut self.nodes[id.0 as usize].slots;
        let mut fibers: Vec<Fiber> = slots.iter_mut().filter_map(|slot| slot.fiber.take()).collect();
        self.stage.drain(&mut fibers);
    }

    /// Stops a node for a while; it keeps its memory, and what arrives waits.
    pub fn pause(&mut self, id: NodeId, length: Nanos) {
        let node = &mut self.nodes[id.0 as usize];
        if node.replica.is_some() && !node.paused {
            node.paused = true;
            let life = node.life;
            self.trace.note(self.now, id, What::Paused);
            self.queue.push(self.now + length, Event::Resume { node: id, life });
        }
    }

    pub(super) fn resume(&mut self, id: NodeId, life: u64) {
        let node = &mut self.nodes[id.0 as usize];
        if node.life != life || !node.paused {
            return;
        }
        node.paused = false;
        let held = std::mem::take(&mut node.held);
        self.trace.note(self.now, id, What::Resumed);
        for event in held {
            self.handle(event);
        }
        for channel in self.channels() {
            self.nodes[id.0 as usize].slot(channel).due = None;
            self.schedule(id, channel, self.now);
        }
    }

    /// Every turn of a node takes `times` as long from now on; 1 is usual.
    pub fn slow_down(&mut self, id: NodeId, times: u64) {
        for channel in self.channels() {
            self.starve(id, channel, times);
        }
    }

    /// Every turn of one worker (or the controller) takes `times` as long from now on; 1 is usual.
    pub fn starve(&mut self, id: NodeId, who: Channel, times: u64) {
        self.nodes[id.0 as usize].slot(who).slowness = times.max(1);
    }

    /// One worker (or the controller) takes no turn for a while, as a thread that gets no core.
    pub fn stall(&mut self, id: NodeId, who: Channel, length: Nanos) {
        let until = self.now + length;
        let slot = self.nodes[id.0 as usize].slot(who);
        slot.not_before = slot.not_before.max(until);
        slot.due = None;
        self.schedule(id, who, until);
    }

    /// From now on one worker (or the controller) of a node gets no turn and takes nothing in, wherever it stands; or it
    /// goes on.
    pub fn stick(&mut self, id: NodeId, who: Channel, stuck: bool) {
        let now = self.now;
        let slot = self.nodes[id.0 as usize].slot(who);
        if std::mem::replace(&mut slot.stuck, stuck) != stuck {
            // What was planned is void.
            slot.due = None;
            self.schedule(id, who, now);
        }
    }

    /// Lets the turns of controllers that are under way end, without interruptions and without time: so that their
    /// accounts are of now. Says whether all did.
    pub fn finish_control_turns(&mut self) -> bool {
        let _entered = hooks::enter(self.stage.clone());
        let interleaving = self.stage.interleaving.take();
        let who = Channel::Control;
        let mut all = true;
        for id in self.machines() {
            let Some(mut fiber) = self.nodes[id.0 as usize].slot(who).fiber.take() else { continue };
            self.act(id, who);
            let before = self.stage.steps.get();
            match fiber.resume(&self.stage) {
                Ok(turned) => self.turned(id, who, turned, before),
                Err(_) => {
                    all = false;
                    self.nodes[id.0 as usize].slot(who).fiber = Some(fiber);
                }
            }
        }
        self.stage.interleaving.set(interleaving);
        all
    }

    /// Whether a node runs, and each of its threads gets its turns.
    pub fn is_well(&self, id: NodeId) -> bool {
        let node = &self.nodes[id.0 as usize];
        let well = |slot: &Slot| !slot.stuck && slot.slowness == 1 && slot.not_before <= self.now + LONG_TURN;
        let disk = &node.disk;
        let disk_is_well = !disk.hung && disk.room.is_none() && disk.lacks.is_none();
        node.replica.is_some() && !node.paused && disk_is_well && node.slots.iter().all(well)
    }

    /// When the last of those turns ends that began while their thread was starved, and are far from over.
    pub fn starved_until(&self) -> Option<Nanos> {
        let ends = self.nodes.iter().flat_map(|node| &node.slots).map(|slot| slot.not_before);
        ends.max().filter(|end| *end > self.now + LONG_TURN)
    }

    /// Asks a node to hand its lead over, as an operator would.
    ///
    /// # Errors
    /// What its engine says against it; or the node is down.
    pub fn hand_over(&mut self, id: NodeId, to: Option<NodeId>) -> Result<(), String> {
        self.tell_controller(id, |controller, now| controller.hand_over(now, to)).ok_or("it is down")?
    }

    /// Tells a node that its process is about to end. It may once [`handover`](World::handover) is not under way.
    pub fn retire(&mut self, id: NodeId) {
        self.tell_controller(id, |controller, now| controller.retire(now));
    }

    /// What became of the last [`hand_over`](World::hand_over) or [`retire`](World::retire) of a node.
    pub fn handover(&self, id: NodeId) -> Handover {
        let node = &self.nodes[id.0 as usize];
        let local = node.clock.local(self.now);
        node.replica.as_ref().map_or(Handover::None, |replica| replica.controller.handover(local))
    }

    fn tell_controller<R>(
        &mut self,
        id: NodeId,
        tell: impl FnOnce(&mut dyn Controller, Nanos) -> R,
    ) -> Option<R> {
        self.finish_control_turns();
        let _entered = hooks::enter(self.stage.clone());
        let now = self.now;
        let node = &mut self.nodes[id.0 as usize];
        let replica = node.replica.as_mut()?;
        self.stage.enter(Actor { node: id, life: node.incarnation, who: Channel::Control });
        node.clock.tick(now);
        let told = tell(&mut *replica.controller, node.clock.local(now));
        self.schedule(id, Channel::Control, now);
        Some(told)
    }

    /// Nothing goes wrong any more: the network is whole, turns are not interrupted, no rare choice is made. Clocks keep
    /// their rates, and whoever is down or paused stays so.
    pub fn calm(&mut self) {
        self.finish_turns();
        self.interleave(None);
        self.buggify(Buggify::default());
        self.network.heal();
        self.network.faults = Faults::default();
        for id in self.machines() {
            self.slow_down(id, 1);
            self.channels().for_each(|who| self.stick(id, who, false));
        }
    }

    /// Breaks every connection between two nodes (they reconnect unless the network is cut).
    pub fn break_links(&mut self, a: NodeId, b: NodeId) {
        for channel in self.channels() {
            self.break_link(Link::new(a, b, channel));
        }
    }

    /// Breaks the connections between two nodes again and again.
    pub fn flap_links(&mut self, a: NodeId, b: NodeId, every: Nanos, length: Nanos) {
        self.queue.push(self.now, Event::Flap { a, b, every, until: self.now + length });
    }

    pub(super) fn flap(&mut self, a: NodeId, b: NodeId, every: Nanos, until: Nanos) {
        self.break_links(a, b);
        let next = self.now + 1 + self.random.below(2 * every);
        if next < until {
            self.queue.push(next, Event::Flap { a, b, every, until });
        }
    }
}

impl<L: Library> Drop for World<L> {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            let _entered = hooks::enter(self.stage.clone());
            self.machines().for_each(|id| self.drain(id));
        }
    }
}
