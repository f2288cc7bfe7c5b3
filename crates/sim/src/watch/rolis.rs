//! What replicas of Rolis must keep together:
//!
//! - a stream has one value at each index, ever;
//! - an epoch has one leader; the same final mark everywhere;
//! - the mark of an epoch never moves back on a node, and never passes the final mark;
//! - whatever was released in an epoch, or applied from it, is at or below its final mark.

use std::collections::BTreeMap;

use highwater_core::hooks::Fact;
use highwater_core::{EntryIndex, Epoch, StreamId, Timestamp};

use super::rules::Rules;
use super::seen::Seen;
use crate::network::Channel;
use crate::stage::Actor;
use crate::trace::hash;

/// What came how far in an epoch.
#[derive(Clone, Copy, Debug)]
enum Reach {
    Mark,
    Release,
    Application,
}

impl Reach {
    const ALL: [Reach; 3] = [Reach::Mark, Reach::Release, Reach::Application];

    fn words(self) -> &'static str {
        match self {
            Reach::Mark => "the mark",
            Reach::Release => "a release",
            Reach::Application => "an application",
        }
    }
}

/// Everything of one epoch.
#[derive(Debug, Default)]
struct OfEpoch {
    leader: Option<Actor>,
    last: Option<Timestamp>,
    /// How far each [`Reach`] came, and on whom.
    reached: [Option<(Timestamp, Actor)>; Reach::ALL.len()],
}

/// A node in one life.
type Life = (u8, u64);

/// Compares.
#[derive(Debug, Default)]
pub(super) struct RolisRules {
    /// Hash of the entry at each index (from 1) of each stream; 0 if unknown.
    decided: Vec<Vec<u64>>,
    epochs: BTreeMap<Epoch, OfEpoch>,
    /// The mark of each life of a node.
    marks: BTreeMap<Life, (Epoch, Timestamp)>,
    /// The epoch that each life of a node opened last.
    leads: BTreeMap<Life, Epoch>,
    entries: u64,
    takeovers: u64,
}

impl Rules for RolisRules {
    fn tell(&mut self, actor: Actor, fact: Fact<'_>) -> Vec<String> {
        let life = (actor.node.0, actor.life.0);
        match fact {
            Fact::Decided { stream, index, entry } => {
                self.decide(actor, stream, index, hash(entry) | 1).into_iter().collect()
            }
            Fact::TakesOver(_) => {
                self.takeovers += 1;
                Vec::new()
            }
            Fact::Leads(epoch) => self.lead(actor, life, epoch).into_iter().collect(),
            Fact::Mark(epoch, mark) => {
                let back = self.move_mark(actor, life, epoch, mark);
                back.into_iter().chain(self.reach(Reach::Mark, epoch, actor, mark)).collect()
            }
            Fact::Restarted => {
                self.marks.remove(&life);
                Vec::new()
            }
            Fact::Final(epoch, mark) => self.end(epoch, actor, mark),
            Fact::Released(ts) => match self.leads.get(&life).copied() {
                Some(epoch) => self.reach(Reach::Release, epoch, actor, ts).into_iter().collect(),
                None => vec![format!("{} released {ts} and never led", actor.node)],
            },
            Fact::Applied(epoch, _, ts) => {
                self.reach(Reach::Application, epoch, actor, ts).into_iter().collect()
            }
            // Of any engine: the watch's own.
            Fact::Holds { .. } | Fact::Panicked { .. } => Vec::new(),
        }
    }

    fn count(&self, seen: &mut Seen) {
        seen.entries += self.entries;
        seen.takeovers += self.takeovers;
        seen.epochs += self.epochs.values().filter(|epoch| epoch.leader.is_some()).count() as u64;
        seen.finals += self.epochs.values().filter(|epoch| epoch.last.is_some()).count() as u64;
    }
}

impl RolisRules {
    fn decide(&mut self, actor: Actor, stream: StreamId, index: EntryIndex, value: u64) -> Option<String> {
        let (stream, index) = (stream.0 as usize, index.0 as usize);
        if self.decided.len() <= stream {
            self.decided.resize(stream + 1, Vec::new());
        }
        let values = &mut self.decided[stream];
        if values.len() <= index {
            values.resize(index + 1, 0);
        }
        let known = std::mem::replace(&mut values[index], value);
        if known == 0 {
            self.entries += 1;
            return None;
        }
        let says = || format!("stream {stream} has two values at {index}; {} has the second", actor.node);
        (known != value).then(says)
    }

    fn lead(&mut self, actor: Actor, life: Life, epoch: Epoch) -> Option<String> {
        self.leads.insert(life, epoch);
        let own = Actor { who: Channel::Control, ..actor };
        let first = *self.epochs.entry(epoch).or_default().leader.get_or_insert(own);
        (first != own).then(|| format!("two led {epoch}: {} and {}", first.node, actor.node))
    }

    fn move_mark(&mut self, actor: Actor, life: Life, epoch: Epoch, mark: Timestamp) -> Option<String> {
        let before = self.marks.insert(life, (epoch, mark)).filter(|before| before.0 == epoch)?.1;
        let says = || format!("the mark of {epoch} moved back on {}: {mark} after {before}", actor.node);
        (before > mark).then(says)
    }

    /// Something of the epoch happened at `ts`.
    fn reach(&mut self, what: Reach, epoch: Epoch, actor: Actor, ts: Timestamp) -> Option<String> {
        let of = self.epochs.entry(epoch).or_default();
        let largest = &mut of.reached[what as usize];
        if largest.is_none_or(|(known, _)| known < ts) {
            *largest = Some((ts, actor));
        }
        let last = of.last.filter(|last| *last < ts)?;
        let (what, node) = (what.words(), actor.node);
        Some(format!("{what} of {epoch} on {node} at {ts}, above its final mark {last}"))
    }

    fn end(&mut self, epoch: Epoch, actor: Actor, last: Timestamp) -> Vec<String> {
        let of = self.epochs.entry(epoch).or_default();
        let known = *of.last.get_or_insert(last);
        let above = Reach::ALL.iter().filter_map(|what| {
            let (ts, whose) = of.reached[*what as usize].filter(|(ts, _)| *ts > last)?;
            let (what, node) = (what.words(), actor.node);
            Some(format!("{epoch} ended at {last} on {node}, below {what} on {} at {ts}", whose.node))
        });
        let says = || format!("{epoch} ended at {known} and, on {}, at {last}", actor.node);
        let two = (known != last).then(says);
        above.chain(two).collect()
    }
}
