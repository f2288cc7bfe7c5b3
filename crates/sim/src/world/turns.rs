//! Whose turn it is, and what comes of it.

use highwater_core::limits::MAX_FRAME_BODY_BYTES;
use highwater_core::{Library, NodeId, hooks};
use highwater_seam::{ControlOutbox, Endpoint, Nanos, Next, Outbox, Refusal, Token};

use super::event::Event;
use super::node::{Away, AwayController};
use super::{Refused, Reply, TURN, ToClient, World};
use crate::network::{Channel, Payload};
use crate::stage::{Fiber, Turned, Why};
use crate::trace::{What, hash};

/// A turn that takes longer is counted.
const LONG: Nanos = 1_000_000;

/// Bytes of frames and replies.
fn bytes_of(out: &Outbox) -> u64 {
    let frames: usize = out.frames.iter().map(|(_, frame)| frame.head.len() + frame.body.len()).sum();
    (frames + out.reply_bytes.len()) as u64
}

impl<L: Library> World<L> {
    /// Plans a turn, unless an earlier one is planned.
    pub(super) fn schedule(&mut self, id: NodeId, who: Channel, at: Nanos) {
        let now = self.now;
        let node = &mut self.nodes[id.0 as usize];
        let life = node.life;
        let slot = node.slot(who);
        if slot.stuck {
            return;
        }
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
        let slot = node.slot(who);
        slot.due = None;
        let in_parts = slot.fiber.is_some() || self.stage.in_parts(who);
        self.act(id, who);
        if in_parts { self.turn_in_parts(id, who) } else { self.turn_at_once(id, who) }
    }

    fn turn_at_once(&mut self, id: NodeId, who: Channel) {
        let before = self.stage.steps.get();
        let now = self.now;
        let node = &mut self.nodes[id.0 as usize];
        let local = node.clock.local(now);
        let (inputs, disk) = (std::mem::take(&mut node.slot(who).inbox), node.disk.state());
        let replica = node.replica.as_mut().expect("its node is up");
        match who {
            Channel::Control => {
                let controller = &mut *replica.controller;
                controller.set_disk(disk);
                controller.set_wall_clock(wall_clock(local));
                inputs.into_iter().for_each(|input| input.hand_to_controller(controller, local));
                let mut out = ControlOutbox::default();
                let next = controller.turn(local, &mut out);
                let length = self.cost(id, who, before, 0);
                self.hand_out_control(id, out, length);
                self.plan_next(id, who, next);
            }
            Channel::Worker(at) => {
                let worker = &mut *replica.workers[at as usize];
                let refused = inputs.into_iter().filter_map(|input| input.hand_to_worker(worker, local));
                let refused: Vec<_> = refused.collect();
                let mut out = Outbox::default();
                let next = worker.turn(local, &mut out);
                self.refuse(refused);
                let length = self.cost(id, who, before, bytes_of(&out));
                self.hand_out(id, at, out, length);
                self.plan_next(id, who, next);
            }
        }
    }

    /// A turn in a coroutine, or the next part of it.
    fn turn_in_parts(&mut self, id: NodeId, who: Channel) {
        let before = self.stage.steps.get();
        let now = self.now;
        let node = &mut self.nodes[id.0 as usize];
        let local = node.clock.local(now);
        let disk = node.disk.state();
        let slot = node.slot(who);
        let mut fiber = match slot.fiber.take() {
            Some(fiber) => fiber,
            None => {
                let inputs = std::mem::take(&mut slot.inbox);
                let replica = node.replica.as_mut().expect("its node is up");
                match who {
                    Channel::Worker(at) => {
                        let worker = std::mem::replace(&mut replica.workers[at as usize], Box::new(Away));
                        Fiber::of_worker(&self.stage, worker, local, inputs)
                    }
                    Channel::Control => {
                        replica.controller.set_disk(disk);
                        replica.controller.set_wall_clock(wall_clock(local));
                        let controller = &replica.controller;
                        let away = AwayController {
                            status: controller.status(local),
                            memory: controller.memory(),
                            store: controller.store(),
                        };
                        let controller = std::mem::replace(&mut replica.controller, Box::new(away));
                        Fiber::of_controller(&self.stage, controller, local, inputs)
                    }
                }
            }
        };
        match fiber.resume(&self.stage) {
            Err(why) => {
                let pause = self.stage.pause_after(why, who);
                let length = self.cost(id, who, before, 0);
                let slot = self.nodes[id.0 as usize].slot(who);
                let pause = match why {
                    Why::Interrupted(_) => {
                        slot.spins = 0;
                        pause
                    }
                    // What it waits for may be with somebody who gets no turn for long.
                    Why::Spins => {
                        slot.spins += 1;
                        pause << (slot.spins / 64).min(8)
                    }
                };
                let at = now + length + pause;
                slot.not_before = at;
                if let Why::Interrupted(point) = why {
                    self.trace.mix(hash(point.name().as_bytes()));
                }
                self.trace.note(now, id, What::Suspended(who, why));
                self.schedule(id, who, at);
                self.nodes[id.0 as usize].slot(who).fiber = Some(fiber);
            }
            Ok(turned) => self.turned(id, who, turned, before),
        }
    }

    /// A turn in parts has ended.
    pub(super) fn turned(&mut self, id: NodeId, who: Channel, turned: Turned, before: u64) {
        let node = &mut self.nodes[id.0 as usize];
        let slot = node.slot(who);
        slot.spins = 0;
        let more = std::mem::take(&mut slot.again) || !slot.inbox.is_empty();
        let replica = node.replica.as_mut().expect("its node is up");
        let next = match (turned, who) {
            (Turned::Worker { worker, out, next, refused }, Channel::Worker(at)) => {
                replica.workers[at as usize] = worker;
                self.refuse(refused);
                let length = self.cost(id, who, before, bytes_of(&out));
                self.hand_out(id, at, out, length);
                next
            }
            (Turned::Controller { controller, out, next }, Channel::Control) => {
                replica.controller = controller;
                let length = self.cost(id, who, before, 0);
                self.hand_out_control(id, out, length);
                next
            }
            _ => unreachable!("a slot's turns are its own"),
        };
        self.plan_next(id, who, if more { Next::Now } else { next });
    }

    fn refuse(&mut self, refused: Vec<(Token, Refusal)>) {
        let at = self.now;
        self.refused.extend(refused.into_iter().map(|(token, why)| Refused { token, why, at }));
    }

    /// What a turn that began at `before` steps took, by what it did and the bytes that came in and go out: its thread is
    /// at work until then, and what it hands out leaves then.
    fn cost(&mut self, id: NodeId, who: Channel, before: u64, out: u64) -> Nanos {
        let slot = self.nodes[id.0 as usize].slot(who);
        let steps = self.stage.steps.get() - before + std::mem::take(&mut slot.steps);
        let bytes = std::mem::take(&mut slot.bytes) + out;
        let length = (steps * self.costs.step + bytes * self.costs.kib / 1024) * slot.slowness;
        slot.not_before = slot.not_before.max(self.now + length);
        if length > LONG {
            self.mark("turns of more than 1 ms");
        }
        length
    }

    /// Lets every turn under way end, without interruptions and without time: so that stores and workers may be looked
    /// at.
    pub fn finish_turns(&mut self) {
        let _entered = hooks::enter(self.stage.clone());
        let interleaving = self.stage.interleaving.take();
        loop {
            let mut under_way = 0;
            for id in self.machines() {
                for who in self.channels() {
                    let Some(mut fiber) = self.nodes[id.0 as usize].slot(who).fiber.take() else { continue };
                    self.act(id, who);
                    let before = self.stage.steps.get();
                    match fiber.resume(&self.stage) {
                        Ok(turned) => {
                            self.nodes[id.0 as usize].slot(who).not_before = 0;
                            self.turned(id, who, turned, before);
                        }
                        Err(_) => {
                            under_way += 1;
                            self.nodes[id.0 as usize].slot(who).fiber = Some(fiber);
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

    /// What a controller hands out goes its way, when its turn is over.
    fn hand_out_control(&mut self, id: NodeId, out: ControlOutbox, length: Nanos) {
        let now = self.now;
        if !out.messages.is_empty() {
            self.trace.note(now, id, What::Turned(Channel::Control, out.messages.len(), 0));
        }
        for event in out.events {
            self.trace.note(now, id, What::Said(event.clone()));
            self.log.push((now, id, event));
        }
        if !out.writes.is_empty() {
            assert!(self.durable(), "the engine writes to a disk, and this host has none");
            self.nodes[id.0 as usize].disk.append(
                self.now,
                Channel::Control,
                self.options.workers,
                out.writes,
            );
            self.sync(id);
        }
        self.take_orders(id, out.checkpoint);
        for (to, message) in out.messages {
            self.send(id, to, Channel::Control, now + length, Payload::Control(message));
        }
        if out.wake_workers {
            for worker in 0..self.options.workers {
                self.wake(id, Channel::Worker(worker));
            }
        }
        self.watch_level(id);
        for peer in out.hang_up {
            self.break_links(id, peer);
        }
        if out.disk_is_stale {
            self.queue
                .push(now + length + 1, Event::SetAside { node: id, life: self.nodes[id.0 as usize].life });
        }
        self.check_kept(id);
    }

    /// What a worker hands out goes its way, when its turn is over.
    fn hand_out(&mut self, id: NodeId, worker: u16, mut out: Outbox, length: Nanos) {
        let (now, who) = (self.now, Channel::Worker(worker));
        self.work.0 += 1;
        self.work.1 += out.frames.len() as u64;
        if !out.frames.is_empty() || !out.replies.is_empty() {
            self.trace.note(now, id, What::Turned(who, out.frames.len(), out.replies.len()));
        }
        for reply in &out.replies {
            let bytes = out.content(reply).to_vec();
            let (token, outcome, moment) = (reply.token, reply.outcome, reply.at);
            self.trace.mix(token.0 ^ (outcome as u64) << 56);
            self.trace.mix(hash(&bytes));
            self.replies.push(Reply { from: (id, worker), token, outcome, moment, bytes, at: now + length });
        }
        for (client, bytes) in out.to_clients.drain(..) {
            self.trace.mix(client.0 ^ hash(&bytes));
            self.to_clients.push(ToClient { from: (id, worker), client, bytes, at: now + length });
        }
        if self.durable() {
            self.nodes[id.0 as usize].disk.append(self.now, who, self.options.workers, out.writes);
            self.sync(id);
        } else {
            out.expect_no_writes();
        }
        for (Endpoint { node: to, worker }, frame) in out.frames {
            // As the node does.
            assert!(frame.body.len() <= MAX_FRAME_BODY_BYTES, "a body of {} bytes", frame.body.len());
            assert!(worker < self.options.workers, "a frame for worker {worker}");
            self.send(id, to, who, now + length, Payload::Frame { worker, frame });
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
            slot.not_before = slot.not_before.max(now + TURN * slot.slowness);
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

/// Milliseconds of a wall clock that goes as the node's own.
fn wall_clock(local: Nanos) -> u64 {
    1_000_000 + local / 1_000_000
}
