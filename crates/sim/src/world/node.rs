//! A process and its machine.

use std::sync::Arc;

use bytes::Bytes;
use highwater_core::{Incarnation, Level, Levels, NodeId, Speaks};
use highwater_seam::memory::MemoryStatus;
use highwater_seam::{
    ControlOutbox, Controller, Endpoint, Frame, Nanos, Next, Outbox, Refusal, Replica, Request, Status,
    Taken, Worker,
};
use highwater_store::Store;

use super::clock::NodeClock;
use super::disk::Disk;
use super::event::Event;
use crate::network::Channel;
use crate::stage::{Fiber, Input, Stage};

/// One node. Clock and disk are the machine's, the rest is the process's.
pub(super) struct Node {
    /// Counts starts and kills: what was planned for an earlier life is void.
    pub life: u64,
    pub incarnation: Incarnation,
    /// What its build speaks.
    pub levels: Levels,
    /// Of which cluster its disk is.
    pub cluster: u64,
    pub replica: Option<Replica>,
    pub clock: NodeClock,
    pub disk: Disk,
    /// Takes no turn (a pause); what arrives waits.
    pub paused: bool,
    pub held: Vec<Event>,
    /// One per worker, then the controller's.
    pub slots: Vec<Slot>,
}

/// A worker's (or the controller's) place on its machine.
pub(super) struct Slot {
    /// When the next turn is.
    pub due: Option<Nanos>,
    /// No turn before this: it has lost its core, or is slow, or at work.
    pub not_before: Nanos,
    /// Turns take so many times as long.
    pub slowness: u64,
    /// It gets no turn at all, and takes nothing in.
    pub stuck: bool,
    /// Bytes that came in since the last turn, and steps made while they did: what the next one costs.
    pub bytes: u64,
    pub steps: u64,
    /// How often in a row it was found spinning: it is looked at less and less often.
    pub spins: u32,
    /// A turn under way.
    pub fiber: Option<Fiber>,
    /// Somebody woke it since the turn began: another one follows.
    pub again: bool,
    /// What arrived since the turn began.
    pub inbox: Vec<Input>,
}

impl Slot {
    /// Whether what arrives waits for the next turn: turns may be interrupted, or the thread is at work, or something
    /// waits already.
    pub fn waits(&self, stage: &Stage, who: Channel, now: Nanos) -> bool {
        stage.in_parts(who)
            || self.fiber.is_some()
            || !self.inbox.is_empty()
            || self.stuck
            || self.not_before > now
    }

    fn new() -> Slot {
        Slot {
            due: None,
            not_before: 0,
            slowness: 1,
            stuck: false,
            bytes: 0,
            steps: 0,
            spins: 0,
            fiber: None,
            again: false,
            inbox: Vec::new(),
        }
    }
}

impl Node {
    pub fn new(workers: u16) -> Node {
        Node {
            life: 0,
            incarnation: Incarnation(0),
            levels: Levels::default(),
            cluster: 0,
            replica: None,
            clock: NodeClock::default(),
            disk: Disk::default(),
            paused: false,
            held: Vec::new(),
            slots: (0..=workers).map(|_| Slot::new()).collect(),
        }
    }

    pub fn slot(&mut self, who: Channel) -> &mut Slot {
        match who {
            Channel::Worker(at) => &mut self.slots[at as usize],
            Channel::Control => self.slots.last_mut().expect("the controller's is the last"),
        }
    }

    /// What its process says in handshakes, if it is up.
    pub fn speaks(&self) -> Option<Speaks> {
        let in_use = self.replica.as_ref()?.controller.level();
        Some(match in_use {
            Some(in_use) => Speaks { levels: self.levels, in_use },
            None => Speaks { levels: Levels::only(self.levels.newest), in_use: self.levels.newest },
        })
    }

    /// A new process: nothing is planned or under way.
    pub fn reset(&mut self) {
        self.paused = false;
        self.held.clear();
        for slot in &mut self.slots {
            slot.due = None;
            slot.not_before = 0;
            slot.stuck = false;
            slot.bytes = 0;
            slot.steps = 0;
            slot.again = false;
            slot.inbox.clear();
        }
    }
}

/// Stands for a worker that is in the middle of a turn.
pub(super) struct Away;

impl Worker for Away {
    fn ready(&self) -> Result<(), Refusal> {
        Err(Refusal::Busy)
    }

    fn submit(&mut self, _: Nanos, _: Request<'_>) -> Result<Taken, Refusal> {
        unreachable!("requests wait for the turn to end")
    }

    fn peer_up(&mut self, _: Nanos, _: NodeId, _: Incarnation, _: Levels) {
        unreachable!("news waits for the turn to end")
    }

    fn peer_down(&mut self, _: Nanos, _: NodeId) {
        unreachable!("news waits for the turn to end")
    }

    fn deliver(&mut self, _: Nanos, _: Endpoint, _: Frame) {
        unreachable!("frames wait for the turn to end")
    }

    fn turn(&mut self, _: Nanos, _: &mut Outbox) -> Next {
        unreachable!("one turn at a time")
    }

    fn describe(&self) -> String {
        "in the middle of a turn".into()
    }
}

/// Stands for a controller that is in the middle of a turn: it is what it was before.
pub(super) struct AwayController {
    pub status: Status,
    pub memory: MemoryStatus,
    pub store: Arc<Store>,
}

impl Controller for AwayController {
    fn peer_up(&mut self, _: Nanos, _: NodeId, _: Incarnation, _: Levels) {
        unreachable!("news waits for the turn to end")
    }

    fn peer_down(&mut self, _: Nanos, _: NodeId, _: bool) {
        unreachable!("news waits for the turn to end")
    }

    fn deliver(&mut self, _: Nanos, _: NodeId, _: Bytes) {
        unreachable!("messages wait for the turn to end")
    }

    fn turn(&mut self, _: Nanos, _: &mut ControlOutbox) -> Next {
        unreachable!("one turn at a time")
    }

    fn level(&self) -> Option<Level> {
        self.status.level
    }

    fn status(&self, _: Nanos) -> Status {
        self.status.clone()
    }

    fn memory(&self) -> MemoryStatus {
        self.memory
    }

    fn store(&self) -> Arc<Store> {
        self.store.clone()
    }
}
