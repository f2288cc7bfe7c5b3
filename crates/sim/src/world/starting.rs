//! A process starts, step by step; it may end between any two of them, and whoever looks after it starts it again.
//!
//! A start that ends early leaves on the disk what its steps have done there, and nothing of it was heard by anybody before the last one.

use std::sync::Arc;

use bytes::Bytes;
use highwater_core::{Clock, Incarnation, Library, NodeId, hooks};
use highwater_engines::build;
use highwater_seam::options::MIN_TRANSACTION_BYTES;
use highwater_seam::{Nanos, Options, Replica};
use serde::{Deserialize, Serialize};

use super::World;
use super::event::Event;
use crate::network::Link;
use crate::stage::Actor;
use crate::trace::What;
use crate::units::{MS, US};

/// Waits so long before the next start, at most, after one that ended early.
const PAUSE: Nanos = 20 * MS;
/// A process that ends once it runs has done so for so long, at most.
const RUNS: Nanos = 500 * US;

/// The step that a start has done when it ends early.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Step {
    /// It has looked for its folder.
    Opens,
    /// It knows which life it is in: what is left of one that has forgotten something is set aside.
    Settles,
    /// It has read its checkpoint and its journal.
    Reads,
    /// Its identity has noted the start.
    Notes,
    /// It runs, and may have told others of itself.
    Runs,
}

impl Step {
    /// All of them.
    pub const ALL: [Step; 5] = [Step::Opens, Step::Settles, Step::Reads, Step::Notes, Step::Runs];
}

impl<L: Library> World<L> {
    /// Starts a node with empty memory; a stranger, which founds nothing, if it is none of those that the world was made of. It is not up
    /// afterwards if the start [ends early](World::end_starts).
    ///
    /// # Panics
    /// If it runs.
    pub fn start(&mut self, id: NodeId) {
        let engine = self.options.engine;
        self.start_with(id, |options, library, clock| build(engine, options, library, clock));
    }

    /// The same with a replica that the test makes.
    ///
    /// # Panics
    /// If it runs.
    pub fn start_with(&mut self, id: NodeId, build: impl Fn(Options, &L, Arc<Clock>) -> Replica) {
        let _entered = hooks::enter(self.stage.clone());
        self.machine(id);
        self.update_build(id);
        match self.known >> id.0 & 1 == 0 && self.nodes[id.0 as usize].life > 0 {
            // It was there before this cluster was.
            true => {}
            false => {
                self.known |= 1 << id.0;
                self.nodes[id.0 as usize].cluster = self.cluster;
            }
        }
        assert!(self.nodes[id.0 as usize].replica.is_none(), "{id} is running");
        let ends = self.ends_early(id);
        if ends == Some(Step::Opens) {
            return self.start_later(id);
        }
        let fresh = Incarnation(self.random.bits());
        let old = &mut self.nodes[id.0 as usize];
        let forgot = !old.disk.has_all();
        // Who comes back with its disk is who it was.
        let kept = old.disk.remembers_a_life() || old.disk.in_between && keeps_life_in_between();
        let incarnation = if kept { old.incarnation } else { fresh };
        if forgot {
            self.mark("disks that had forgotten, by their own word");
        }
        if ends == Some(Step::Settles) {
            self.nodes[id.0 as usize].disk.in_between |= forgot;
            return self.start_later(id);
        }
        if let Err(why) = self.look_for_damage(id) {
            self.move_away(id, why);
            return self.start_with(id, build);
        }
        if ends == Some(Step::Reads) {
            return self.start_later(id);
        }
        let replica = match self.recover(id, (fresh, incarnation), &build) {
            Ok(replica) => replica,
            Err(why) => {
                let damaged = self.nodes[id.0 as usize].disk.checkpoints.iter().any(|one| one.known);
                assert!(damaged, "records of its own are not enough: {why}");
                self.move_away(id, &why);
                return self.start_with(id, build);
            }
        };
        if ends == Some(Step::Notes) {
            return self.start_later(id);
        }
        self.run_on(id, replica, incarnation);
        if ends == Some(Step::Runs) {
            let (at, life) = (self.now + 1 + self.disks.below(RUNS), self.nodes[id.0 as usize].life);
            self.queue.push(at, Event::EndsEarly { node: id, life });
        }
    }

    /// Whether a start finds something to begin from.
    fn look_for_damage(&mut self, id: NodeId) -> Result<(), &'static str> {
        let (durable, workers) = (self.durable, self.options.workers);
        let World { nodes, disks, .. } = self;
        let disk = &mut nodes[id.0 as usize].disk;
        if !durable || disk.is_empty() {
            return Ok(());
        }
        // A disk that leads nowhere without its newest checkpoint is as good as lost: that is another fault.
        if disks.one_in(4) && disk.can_spare_newest(workers) {
            disk.rot(crate::faults::Part::Checkpoints(1), |_| 0);
        }
        if super::damage::takes_damage_for_the_end() {
            disk.cut_at_damage(workers);
        }
        let base = disk.base()?;
        disk.find_damage(base);
        Ok(())
    }

    /// A replica with what is on the disk, whose identity has noted that it starts.
    fn recover(
        &mut self,
        id: NodeId,
        (fresh, incarnation): (Incarnation, Incarnation),
        build: impl Fn(Options, &L, Arc<Clock>) -> Replica,
    ) -> Result<Replica, String> {
        let mut options = Options::new(id, self.options.nodes, self.options.workers, incarnation);
        if id.0 >= self.options.nodes {
            options.founders.push((id, Bytes::new()));
        }
        // The simulator's own workloads need no more, and what is held is bounded by it.
        options.max_transaction_bytes = MIN_TRANSACTION_BYTES;
        options.levels = self.build(id);
        (self.options.tune.0)(&mut options);
        let (now, workers) = (self.now, self.options.workers);
        let node = &mut self.nodes[id.0 as usize];
        options.forgets = self.behind && incarnation != fresh;
        options.has_a_past = node.disk.past;
        node.clock.tick(now);
        if self.durable {
            node.disk.begin(&mut self.disks);
        }
        let mut replica = build(options, &self.library, node.clock.commits());
        replica.controller.set_disk(node.disk.state());
        node.disk.began_with = Arc::downgrade(&replica.controller.store());
        if !node.disk.is_empty() {
            self.stage.enter(Actor { node: id, life: incarnation, who: crate::network::Channel::Control });
            let base = node.disk.base()?;
            node.disk.recover(&mut replica, workers, base, node.clock.local(now))?;
        }
        Ok(replica)
    }

    /// It runs, and looks for the others.
    fn run_on(&mut self, id: NodeId, replica: Replica, incarnation: Incarnation) {
        let now = self.now;
        let node = &mut self.nodes[id.0 as usize];
        node.replica = Some(replica);
        node.life += 1;
        node.incarnation = incarnation;
        node.disk.in_between = false;
        node.reset();
        self.trace.note(now, id, What::Started);
        for channel in self.channels() {
            self.schedule(id, channel, now);
            for other in self.machines().filter(|other| *other != id) {
                let at = now + self.random.below(self.network.retry);
                self.queue.push(at, Event::Connect { link: Link::new(id, other, channel) });
            }
        }
    }

    /// The next so many starts of a node end early, at these steps.
    pub fn end_starts(&mut self, id: NodeId, at: impl IntoIterator<Item = Step>) {
        self.nodes[id.0 as usize].disk.early.extend(at);
    }

    /// The step at which this start of a node ends, if it does early.
    fn ends_early(&mut self, id: NodeId) -> Option<Step> {
        let disk = &mut self.nodes[id.0 as usize].disk;
        if disk.lacks.is_some() {
            return Some(Step::Opens);
        }
        (!disk.early.is_empty()).then(|| disk.early.remove(0))
    }

    /// Somebody looks after the node, and tries again.
    pub(super) fn start_later(&mut self, id: NodeId) {
        self.mark("starts that ended early");
        let at = self.now + 1 + self.disks.below(PAUSE);
        self.queue.push(at, Event::StartAgain { node: id });
    }

    pub(super) fn start_again(&mut self, id: NodeId) {
        if !self.is_up(id) {
            self.start(id);
        }
    }

    pub(super) fn end_early(&mut self, id: NodeId, life: u64) {
        if self.nodes[id.0 as usize].life == life && self.is_up(id) {
            self.kill(id);
            self.start_later(id);
        }
    }
}

/// Whether a node that set its journal aside is who it was if its start ended before its identity said otherwise: never.
#[cfg(feature = "planted")]
fn keeps_life_in_between() -> bool {
    highwater_core::planted::on(&highwater_engine_meerkat::planted::LifeKeptInBetween)
}

#[cfg(not(feature = "planted"))]
fn keeps_life_in_between() -> bool {
    false
}
