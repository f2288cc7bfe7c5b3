//! What goes wrong: pauses, crashes, cuts; and how it heals.

use highwater_consensus::*;
use highwater_core::{Durability, EntryIndex, Incarnation, NodeId};

use super::cluster::{MS, Seen, Simulation};
use crate::common::Node;

impl Simulation {
    pub fn fault(&mut self) {
        let (n, now) = (self.nodes.len(), self.now);
        let (a, b) = (self.rng.below(n as u64) as usize, self.rng.below(n as u64) as usize);
        match self.rng.below(10) {
            0 | 1 if !self.down[a] => self.paused_until[a] = now + self.rng.below(60 * MS),
            2 | 3 if self.may_crash(a) => self.crash(a),
            4 | 5 => {
                if let Some(node) = (0..n).find(|node| self.down[*node]) {
                    self.restart(node);
                }
            }
            6 if a != b => self.cut(a, b),
            7 => (0..n).filter(|b| *b != a).for_each(|b| self.cut(a, b)),
            _ => self.mend_all(),
        }
    }

    /// Loses what is under way; with datagrams, one way only.
    pub fn cut(&mut self, a: usize, b: usize) {
        let (_, line) = self.line(a, b);
        self.lines.insert((a, b), (false, line + 1));
        if self.connections {
            self.lines.insert((b, a), (false, line + 1));
            let now = self.now;
            for (node, peer) in [(a, b), (b, a)] {
                if !self.down[node] {
                    let gone = self.down[peer];
                    self.nodes[node].peer_down(now, NodeId(peer as u8), gone);
                    self.after(node);
                }
            }
        }
    }

    pub fn mend_all(&mut self) {
        let closed: Vec<_> =
            self.lines.iter().filter(|(_, (open, _))| !open).map(|(pair, _)| *pair).collect();
        for (a, b) in closed {
            if !self.connections {
                self.lines.get_mut(&(a, b)).unwrap().0 = true;
            } else if a < b && !self.down[a] && !self.down[b] {
                for pair in [(a, b), (b, a)] {
                    self.lines.get_mut(&pair).unwrap().0 = true;
                }
                for (node, peer) in [(a, b), (b, a)] {
                    let peer = self.nodes[peer].me;
                    self.nodes[node].peer_up(self.now, peer);
                    self.after(node);
                }
            }
        }
    }

    /// Whether every membership that may matter keeps a majority of lives.
    pub fn may_crash(&self, node: usize) -> bool {
        let alive = |voter: Voter| {
            let at = voter.node.0 as usize;
            at != node && !self.down[at] && self.nodes[at].me == voter && !self.nodes[at].election.forgets()
        };
        let live = (0..self.nodes.len()).filter(|at| !self.down[*at] && *at != node);
        let lossless = self.options.1.durability == Durability::Sync || self.powerless;
        if self.disks.is_some() && lossless {
            return !self.down[node];
        }
        !self.down[node]
            && live.clone().all(|at| {
                let node = &self.nodes[at];
                let mut all = node.pending();
                all.push(node.members());
                all.extend(node.lead.as_ref().map(|lead| lead.members.clone()));
                all.into_iter().all(|members| Quorums::of(members).reached(alive))
            })
    }

    pub fn crash(&mut self, node: usize) {
        self.down[node] = true;
        self.paused_until[node] = 0;
        self.tick_at[node] = None;
        if self.connections {
            (0..self.nodes.len()).filter(|peer| *peer != node).for_each(|peer| self.cut(node, peer));
        }
    }

    pub fn restart(&mut self, node: usize) {
        if self.disks.is_some() {
            return self.restart_from_disk(node);
        }
        let me = Voter { node: NodeId(node as u8), incarnation: Incarnation(self.next_life) };
        self.next_life += 1;
        let mut bases = Vec::new();
        for stream in 0..self.streams {
            let decided = self.history[stream].len() as u64;
            let base = decided - self.rng.below(6).min(decided);
            bases.push((EntryIndex(base), self.members_at(stream, base)));
        }
        let (election, stream) = self.options;
        self.nodes[node] = Node::new(me, bases, election, stream, self.rng.bits());
        self.seen[node] = Seen::default();
        self.down[node] = false;
        self.after(node);
        self.mend_all();
    }

    /// What was synced is there, and of what was written after any part of each stream's, as far as it goes without a hole.
    pub fn restart_from_disk(&mut self, node: usize) {
        let (rng, disk) = (self.disks.as_mut().unwrap(), self.nodes[node].disk.take().unwrap());
        let mut written = disk.written;
        let unsynced = written.split_off(disk.synced);
        let mut kept: Vec<u64> = (0..self.streams as u64)
            .map(|stream| unsynced.iter().filter(|(at, _)| *at as u64 == stream).count() as u64)
            .map(|count| rng.below(count + 1))
            .collect();
        written.extend(unsynced.into_iter().filter(|(at, _)| {
            let keeps = kept[*at] > 0;
            kept[*at] -= u64::from(keeps);
            keeps
        }));
        let (me, seed) = (self.nodes[node].me, rng.bits());
        let members = |stream, base| self.members_at(stream, base);
        let life = self.lives[node] + 1;
        let node_again = Node::recover(me, written, members, self.options, (self.streams, seed), life);
        self.nodes[node] = node_again;
        self.seen[node] = Seen::default();
        self.lives[node] += 1;
        self.syncing[node] = false;
        self.down[node] = false;
        self.after(node);
        self.mend_all();
    }

    pub fn heal(&mut self) {
        self.faults = false;
        (self.loss, self.repetition, self.delay) = (0, 0, MS);
        self.paused_until.fill(0);
        (0..self.nodes.len()).filter(|node| self.down[*node]).collect::<Vec<_>>().into_iter().for_each(|n| {
            self.restart(n);
        });
        self.mend_all();
    }
}
