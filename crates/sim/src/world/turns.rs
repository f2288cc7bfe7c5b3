//! Whose turn it is, and what comes of it.

use highwater_core::limits::MAX_FRAME_BODY_BYTES;
use highwater_core::{Library, NodeId, hooks};
use highwater_engines::{ControlOutbox, Nanos, Next, Outbox};

use super::node::Away;
use super::{Event, Refused, Reply, TURN, World};
use crate::network::{Channel, Payload};
use crate::stage::{Fiber, Turned, Why};
use crate::trace::{What, hash};

impl<L: Library> World<L> {
    /// Plans a turn, unless an earlier one is planned.
    pub(super) fn schedule(&mut self, id: NodeId, who: Channel, at: Nanos) {
        let now = self.now;
        let node = &mut self.nodes[id.0 as usize];
        let life = node.life;
        let slot = node.slot(who);
        let at = at.max(now).max(slot.not_before);
        if slot.fiber.is_some() {
            // The turn under way may have looked already; when it goes on is planned, unless a pause undid that.
            slot.again = true;
        }
        if slot.due.is_some_and(|due| due <= at) {
            return;
        }
        slot.due = Some(at);
        self.queue.push(at, Event::Turn { node: id, life, who });
    }

    pub(super) fn turn(&mut self, id: NodeId, life: u64, who: Channel) {
        let now = self.now;
        let node = &mut self.nodes[id.0 as usize];
        let slot = node.slot(who);
        if slot.due != Some(now) {
            return;
        }
        if node.life != life || node.paused || node.replica.is_none() {
            return;
        }
        node.slot(who).due = None;
        self.act(id, who);
        match who {
            Channel::Control => {
                let next = self.turn_of_controller(id);
                self.plan_next(id, who, next);
            }
            Channel::Worker(at) if self.nodes[id.0 as usize].slots[at as usize].waits(&self.stage) => {
                self.turn_in_parts(id, at);
            }
            Channel::Worker(at) => {
                let node = &mut self.nodes[id.0 as usize];
                let local = node.clock.local(now);
                let mut out = Outbox::default();
                let replica = node.replica.as_mut().expect("checked above");
                let next = replica.workers[at as usize].turn(local, &mut out);
                self.hand_out(id, at, out);
                self.plan_next(id, who, next);
            }
        }
    }

    /// A worker's turn in a coroutine, or the next part of it.
    fn turn_in_parts(&mut self, id: NodeId, worker: u16) {
        let (now, who) = (self.now, Channel::Worker(worker));
        let node = &mut self.nodes[id.0 as usize];
        let local = node.clock.local(now);
        let slot = &mut node.slots[worker as usize];
        let mut fiber = match slot.fiber.take() {
            Some(fiber) => fiber,
            None => {
                let replica = node.replica.as_mut().expect("its node is up");
                let engine = std::mem::replace(&mut replica.workers[worker as usize], Box::new(Away));
                Fiber::new(&self.stage, engine, local, std::mem::take(&mut slot.inbox))
            }
        };
        match fiber.resume(&self.stage) {
            Err(why) => {
                let at = now + self.stage.pause_after(why);
                self.nodes[id.0 as usize].slots[worker as usize].not_before = at;
                if let Why::Interrupted(point) = why {
                    self.trace.mix(point as u64);
                }
                self.trace.note(now, id, What::Suspended(worker, why));
                self.schedule(id, who, at);
                self.nodes[id.0 as usize].slots[worker as usize].fiber = Some(fiber);
            }
            Ok(turned) => self.turned(id, worker, turned),
        }
    }

    /// A turn in parts has ended.
    fn turned(&mut self, id: NodeId, worker: u16, turned: Turned) {
        let Turned { worker: engine, out, next, refused } = turned;
        let node = &mut self.nodes[id.0 as usize];
        let slot = &mut node.slots[worker as usize];
        let more = std::mem::take(&mut slot.again) || !slot.inbox.is_empty();
        node.replica.as_mut().expect("its node is up").workers[worker as usize] = engine;
        let at = self.now;
        self.refused.extend(refused.into_iter().map(|(token, why)| Refused { token, why, at }));
        self.hand_out(id, worker, out);
        self.plan_next(id, Channel::Worker(worker), if more { Next::Now } else { next });
    }

    /// Lets every turn under way end, without interruptions and without time: so that stores and workers may be looked
    /// at.
    pub fn finish_turns(&mut self) {
        let _entered = hooks::enter(self.stage.clone());
        let interleaving = self.stage.interleaving.take();
        loop {
            let mut under_way = 0;
            for id in self.ids() {
                for worker in 0..self.options.workers {
                    let Some(mut fiber) = self.nodes[id.0 as usize].slots[worker as usize].fiber.take()
                    else {
                        continue;
                    };
                    self.act(id, Channel::Worker(worker));
                    match fiber.resume(&self.stage) {
                        Ok(turned) => {
                            self.nodes[id.0 as usize].slots[worker as usize].not_before = 0;
                            self.turned(id, worker, turned);
                        }
                        Err(_) => {
                            under_way += 1;
                            self.nodes[id.0 as usize].slots[worker as usize].fiber = Some(fiber);
                        }
                    }
                }
            }
            if under_way == 0 {
                break;
            }
        }
        self.stage.interleaving.set(interleaving);
    }

    fn turn_of_controller(&mut self, id: NodeId) -> Next {
        let now = self.now;
        let node = &mut self.nodes[id.0 as usize];
        let local = node.clock.local(now);
        let mut out = ControlOutbox::default();
        let next = node.replica.as_mut().expect("its node is up").controller.turn(local, &mut out);
        if !out.messages.is_empty() {
            self.trace.note(now, id, What::Turned(Channel::Control, out.messages.len(), 0));
        }
        for event in out.events {
            self.trace.note(now, id, What::Said(event.clone()));
            self.log.push((now, id, event));
        }
        for (to, message) in out.messages {
            self.send(id, to, Channel::Control, Payload::Control(message));
        }
        if out.wake_workers {
            for worker in 0..self.options.workers {
                self.wake(id, Channel::Worker(worker));
            }
        }
        next
    }

    /// What a worker hands out goes its way.
    fn hand_out(&mut self, id: NodeId, worker: u16, out: Outbox) {
        let (now, who) = (self.now, Channel::Worker(worker));
        self.work.0 += 1;
        self.work.1 += out.frames.len() as u64;
        if !out.frames.is_empty() || !out.replies.is_empty() {
            self.trace.note(now, id, What::Turned(who, out.frames.len(), out.replies.len()));
        }
        for reply in &out.replies {
            let bytes = out.content(reply).to_vec();
            let (token, outcome) = (reply.token, reply.outcome);
            self.trace.mix(token.0 ^ (outcome as u64) << 56);
            self.trace.mix(hash(&bytes));
            self.replies.push(Reply { from: (id, worker), token, outcome, bytes, at: now });
        }
        for (to, frame) in out.frames {
            // As the node does.
            assert!(frame.body.len() <= MAX_FRAME_BODY_BYTES, "a body of {} bytes", frame.body.len());
            self.send(id, to, who, Payload::Frame(frame));
        }
        if out.wake_controller {
            self.wake(id, Channel::Control);
        }
        if out.wake_workers {
            for other in (0..self.options.workers).filter(|other| *other != worker) {
                self.wake(id, Channel::Worker(other));
            }
        }
    }

    fn plan_next(&mut self, id: NodeId, who: Channel, next: Next) {
        let now = self.now;
        let node = &mut self.nodes[id.0 as usize];
        let clock = node.clock.clone();
        let slot = node.slot(who);
        if slot.slowness > 1 {
            slot.not_before = now + TURN * slot.slowness;
        }
        match next {
            Next::Now => self.schedule(id, who, now + TURN),
            Next::At(at) => self.schedule(id, who, clock.global(at).max(now + 1)),
            Next::Idle => {}
        }
    }

    fn wake(&mut self, id: NodeId, who: Channel) {
        let at = self.now + 1 + self.random.below(TURN);
        self.schedule(id, who, at);
    }
}
