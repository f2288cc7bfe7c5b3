//! Builds of two releases: what each node's speaks, and what the network does about it, as the handshake and the host of the node do.

use highwater_core::level::REHEARSED;
use highwater_core::{Level, Levels, Library, NodeId};
use highwater_seam::observer::RAISES;

use super::World;
use crate::network::Link;

impl<L: Library> World<L> {
    /// The node's next process is of a build whose newest level is this.
    pub fn set_build(&mut self, id: NodeId, newest: Level) {
        self.machine(id).levels = Levels::up_to(newest);
    }

    /// What a node's build speaks.
    pub fn build(&self, id: NodeId) -> Levels {
        self.nodes[id.0 as usize].levels
    }

    /// The level that was raised to, if it was: who starts then is of a build that reads it, or it is refused.
    pub fn raised_to(&mut self) -> Option<Level> {
        let could = || self.nodes.iter().any(|node| node.levels.newest > Level::FIRST);
        self.raised = self.raised || could() && self.seen().count(RAISES) > 0;
        self.raised.then_some(REHEARSED)
    }

    /// Nodes of builds that do not read what is in use by now: an operator was too late with them.
    pub fn outdated(&mut self) -> Vec<NodeId> {
        let Some(level) = self.raised_to() else { return Vec::new() };
        self.ids().filter(|id| self.is_up(*id) && self.build(*id).newest < level).collect()
    }

    /// Whether all who belong use the newest level that all of their builds speak.
    pub fn use_what_all_can(&self) -> bool {
        let all: Vec<NodeId> = self.belonging().collect();
        let least = all.iter().map(|id| self.build(*id).newest).min();
        let uses = |id: &NodeId| self.status(*id).and_then(|status| status.level);
        all.iter().filter_map(uses).all(|level| Some(level) >= least)
    }

    /// Whoever starts is of a build that the others let in: an operator reads what the log says.
    pub(super) fn update_build(&mut self, id: NodeId) {
        let Some(level) = self.raised_to().filter(|_| !self.careless) else { return };
        if self.machine(id).levels.newest < level {
            self.set_build(id, level);
            self.mark("builds that were too old");
        }
    }

    /// Whether the handshake finds that two nodes speak what the other uses.
    pub(super) fn fit(&self, link: Link) -> bool {
        let [one, other] = link.ends().map(|end| self.nodes[end.0 as usize].speaks());
        one.zip(other).is_some_and(|(one, other)| one.fits(other))
    }

    /// A controller had a turn: its host ends connections to those that do not read the level that is in use by now.
    pub(super) fn watch_level(&mut self, id: NodeId) {
        let Some(speaks) = self.nodes[id.0 as usize].speaks() else { return };
        for other in self.machines().filter(|other| *other != id) {
            if self.build(other).newest < speaks.in_use {
                self.channels().for_each(|channel| self.break_link(Link::new(id, other, channel)));
            }
        }
    }
}
