//! The level in use, and who raises it.
//!
//! A replica's level in use is what it may write, and a bound of what it holds: it is shared with the workers, and never falls. It rises
//!
//! - on the leader, once every voter is connected in its present life and has said, over that connection, that it can, and no learner
//!   that is connected cannot;
//! - on whoever is told by another controller, or holds an entry of a higher level than its own, be it from a peer or from its disk.
//!
//! Invariant: a replica's level in use is at or above that of every entry that it holds, and at or below what the other end of each
//! connection reads that its workers use. So nobody is sent what it cannot read: a worker that finds the level raised has nothing more
//! to do with peers that cannot follow, as if their connections were lost, and the host ends them in words. It is the connection that
//! counts, not the life: who comes back with its disk is who it was, and may be an older build.
//!
//! To raise the level is a permission and no duty. A new leader that has not heard of it writes as before, which all can read, and is
//! told by whoever has heard. An epoch, a ballot, a decision say nothing of levels.

use std::collections::BTreeMap;

use bytes::Bytes;
use highwater_consensus::{Members, Voter};
use highwater_core::codec::{Malformed, Reader};
use highwater_core::{Level, Levels, NodeId};
use highwater_seam::Nanos;

use crate::control::ControlMessage;
use crate::desk::Desk;
use crate::hooks;
use crate::readable::{beyond, name};

/// A node says again what it uses after so many heartbeats: the last message may be lost.
const REPEAT: u64 = 25;

/// What such a record of the controller begins with; no membership's epoch is so high.
const RECORD: u64 = u64::MAX - 3;

/// Whom this replica is connected with, by what they speak, and what it has told them.
#[derive(Debug, Default)]
pub struct Raising {
    peers: BTreeMap<NodeId, Levels>,
    /// The level in use, and when the others were told last.
    said: Option<(Level, Nanos)>,
    /// The level that is on this replica's disk.
    written: Option<Level>,
}

impl Raising {
    /// A connection to a build that speaks these.
    pub fn peer_up(&mut self, peer: NodeId, levels: Levels, desk: &mut Desk) {
        self.peers.insert(peer, levels);
        hooks::hears_levels(peer, desk.peer(peer).map(|voter| voter.incarnation), levels.newest);
        self.tell(peer, desk);
    }

    /// It is lost.
    pub fn peer_down(&mut self, peer: NodeId) {
        self.peers.remove(&peer);
    }

    /// What a node's build speaks, as far as it is connected.
    pub fn levels(&self, node: NodeId, desk: &Desk) -> Option<Levels> {
        if node == desk.me.node { Some(desk.shared.options.levels) } else { self.peers.get(&node).copied() }
    }

    /// The builds before levels know no such message, and need none at the first.
    fn tell(&self, peer: NodeId, desk: &mut Desk) {
        let level = desk.shared.level();
        if level > Level::FIRST {
            desk.send(peer, ControlMessage::Level(level));
        }
    }

    /// A peer uses this level.
    pub fn hear(&mut self, from: NodeId, level: Level, desk: &mut Desk) {
        if level > desk.shared.options.levels.newest {
            // Who says so has ended the connection, or is about to.
            self.cannot_read(from, level, desk);
        } else {
            desk.shared.raise(level);
        }
    }

    /// A peer uses or sent what this build does not read: the invariant is broken, and not by this node.
    pub fn cannot_read(&self, from: NodeId, level: Level, desk: &mut Desk) {
        desk.note(format!("{from} uses {}, {}", name(level), beyond(desk.shared.options.levels)));
        desk.hang_up(from);
    }

    /// If this replica `leads` these members, and nothing is under way: raises the level as far as all can. Tells the others what is
    /// used, and writes it down.
    pub fn turn(&mut self, now: Nanos, leads: Option<&Members>, desk: &mut Desk) {
        if let Some(level) = leads.and_then(|members| self.all_can(members, desk))
            && desk.shared.raise(level)
        {
            let voters = leads.map(|members| members.voters().to_vec()).unwrap_or_default();
            hooks::raises(level, voters);
            desk.note(format!("all members can read {level}: this leader raises the level in use"));
        }
        let level = desk.shared.level();
        if level > Level::FIRST {
            self.write_down(level, desk);
        }
        let rose = self.said.map_or(level > desk.shared.options.levels.oldest, |(said, _)| said < level);
        if rose {
            desk.note(format!("{level} is in use"));
            // They end what they have with peers that cannot read it.
            desk.wake_workers();
        }
        let repeat = REPEAT * desk.shared.options.heartbeat;
        if rose || self.said.is_none_or(|(_, at)| now.saturating_sub(at) >= repeat) {
            self.said = Some((level, now));
            desk.peers().into_iter().for_each(|peer| self.tell(peer.node, desk));
        }
    }

    /// The level that all members can use, and whoever else is connected.
    fn all_can(&self, members: &Members, desk: &Desk) -> Option<Level> {
        let newest = |voter: &Voter| {
            desk.is_here(*voter).then(|| self.levels(voter.node, desk)).flatten().map(|levels| levels.newest)
        };
        if hooks::raises_early() {
            let mut can: Vec<Level> = members.voters().iter().filter_map(newest).collect();
            can.sort();
            return can.get(can.len().checked_sub(members.voters().len() / 2 + 1)?).copied();
        }
        let voters = members.voters().iter().map(newest).collect::<Option<Vec<Level>>>()?;
        let connected = self.peers.iter().filter(|(node, _)| !members.has_removed(**node));
        voters.into_iter().chain(connected.map(|(_, levels)| levels.newest)).min()
    }

    /// Who cannot use the level after the one in use, of the voters and whoever else is connected; nobody if this build has none.
    pub fn held_back_by(&self, members: &Members, desk: &Desk) -> Vec<NodeId> {
        let next = Level(desk.shared.level().0 + 1);
        let able = |node: NodeId| self.levels(node, desk).is_some_and(|levels| levels.newest >= next);
        let voters = members.voters();
        let learners = self.peers.keys().filter(|node| !members.has_removed(**node));
        let mut all: Vec<NodeId> = voters.iter().map(|voter| voter.node).chain(learners.copied()).collect();
        all.sort();
        all.dedup();
        let lacking: Vec<NodeId> = all.iter().copied().filter(|node| !able(*node)).collect();
        if lacking.len() == all.len() { Vec::new() } else { lacking }
    }

    // ---- on disk ----

    /// Once; and again after [`forget_written`](Raising::forget_written).
    fn write_down(&mut self, level: Level, desk: &mut Desk) {
        if self.written.replace(level) != Some(level) {
            desk.write(|| record(level));
        }
    }

    /// What was written before is about to be dropped.
    pub fn forget_written(&mut self) {
        self.written = None;
    }
}

/// That this level is in use: `2^64 - 4 u64 | level u8`. Builds that do not know it do not go on from the disk, and it is written at
/// levels that they do not know either.
pub fn record(level: Level) -> Bytes {
    [&RECORD.to_le_bytes()[..], &[level.0]].concat().into()
}

/// Reads one; `None` if it is another record.
///
/// # Errors
/// If it begins as one and is none.
pub fn decode(record: &[u8]) -> Result<Option<Level>, Malformed> {
    let mut reader = Reader::new(record);
    if reader.u64()? != RECORD {
        return Ok(None);
    }
    let level = Level(reader.u8()?);
    if reader.is_empty() { Ok(Some(level)) } else { Err(Malformed("length of a level")) }
}
