//! What must hold over all nodes and all their lives, compared while the world runs.
//!
//! The product tells facts (`highwater_core::hooks::tell`); here they meet those of the other nodes:
//! - a stream has one value at each index, ever;
//! - an epoch has one leader; the same final mark everywhere;
//! - the mark of an epoch never moves back on a node, and never passes the final mark;
//! - whatever was released in an epoch, or applied from it, is at or below its final mark;
//! - what a leading worker holds is bounded.

use std::collections::BTreeMap;

use highwater_core::hooks::Fact;
use highwater_core::{Epoch, Timestamp};
use highwater_engines::Options;
use highwater_engines::memory::MemoryStatus;

use crate::stage::Actor;
use crate::trace::hash;

/// What a worker may hold.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Limits {
    /// Bytes proposed and not decided, per stream.
    pub undecided_bytes: u64,
    /// Replies that wait, per worker.
    pub replies: usize,
    /// Bytes of log kept, per stream.
    pub log_bytes: u64,
}

/// Requests that wait for another attempt come on top of the limit.
const RETRIES: usize = 256;

impl Limits {
    /// What `options` allow: a limit may be passed by one entry, an entry's by one transaction.
    pub fn of(options: &Options) -> Limits {
        let undecided_bytes = (options.max_in_flight_bytes + options.longest_entry()) as u64;
        let replies = options.max_in_flight_requests + RETRIES;
        Limits { undecided_bytes, replies, log_bytes: options.most_log_bytes() }
    }
}

/// What was seen so far.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Seen {
    /// Distinct entries decided, over all streams.
    pub entries: u64,
    /// Takeovers that were begun.
    pub takeovers: u64,
    /// Epochs that were opened.
    pub epochs: u64,
    /// Epochs whose final mark is known.
    pub finals: u64,
    /// The most that anybody held.
    pub most: Limits,
}

/// Everything of one epoch.
#[derive(Debug, Default)]
struct OfEpoch {
    leader: Option<Actor>,
    last: Option<Timestamp>,
    /// The largest mark, release and application, and whose.
    mark: Option<(Timestamp, Actor)>,
    released: Option<(Timestamp, Actor)>,
    applied: Option<(Timestamp, Actor)>,
}

/// Compares.
#[derive(Debug, Default)]
pub struct Watch {
    /// Hash of the entry at each index (from 1) of each stream; 0 if unknown.
    decided: Vec<Vec<u64>>,
    epochs: BTreeMap<Epoch, OfEpoch>,
    /// The mark of each life of a node.
    marks: BTreeMap<(u8, u64), (Epoch, Timestamp)>,
    /// The epoch that each life of a node opened last.
    leads: BTreeMap<(u8, u64), Epoch>,
    pub(crate) limits: Limits,
    seen: Seen,
    violations: Vec<String>,
}

impl Watch {
    /// What was wrong, in words.
    pub fn violations(&self) -> &[String] {
        &self.violations
    }

    /// What was seen.
    pub fn seen(&self) -> Seen {
        let epochs = self.epochs.values().filter(|epoch| epoch.leader.is_some()).count() as u64;
        let finals = self.epochs.values().filter(|epoch| epoch.last.is_some()).count() as u64;
        Seen { epochs, finals, ..self.seen.clone() }
    }

    pub(crate) fn log_bytes(&mut self, node: highwater_core::NodeId, bytes: u64) {
        self.seen.most.log_bytes = self.seen.most.log_bytes.max(bytes);
        if bytes > self.limits.log_bytes {
            self.violation(format!(
                "{node} keeps {bytes} bytes of one log, more than {}",
                self.limits.log_bytes
            ));
        }
    }

    /// A store and its logs keep to their shares and the slack. What is installed before the leader hears how much that takes
    /// was in a log, and paid for there.
    pub(crate) fn memory(&mut self, node: highwater_core::NodeId, memory: MemoryStatus) {
        let MemoryStatus { shares, used, logs, .. } = memory;
        let most = shares.store.saturating_add(shares.slack).saturating_add(shares.logs);
        if used + logs > most {
            self.violation(format!("{node}'s store takes {used} bytes, its logs {logs}, of {most}"));
        }
    }

    fn violation(&mut self, what: String) {
        // One is enough; the others are its children.
        if self.violations.len() < 16 {
            self.violations.push(what);
        }
    }

    pub(crate) fn tell(&mut self, actor: Actor, fact: Fact<'_>) {
        let life = (actor.node.0, actor.life.0);
        match fact {
            Fact::Decided { stream, index, entry } => {
                self.decide(actor, stream.0 as usize, index.0 as usize, hash(entry) | 1);
            }
            Fact::TakesOver(_) => self.seen.takeovers += 1,
            Fact::Leads(epoch) => {
                self.leads.insert(life, epoch);
                let own = Actor { who: crate::network::Channel::Control, ..actor };
                let first = *self.epochs.entry(epoch).or_default().leader.get_or_insert(own);
                if first != own {
                    self.violation(format!("two led {epoch}: {} and {}", first.node, actor.node));
                }
            }
            Fact::Mark(epoch, mark) => {
                let before = self.marks.insert(life, (epoch, mark)).unwrap_or((epoch, mark));
                if before.0 == epoch && before.1 > mark {
                    self.violation(format!(
                        "the mark of {epoch} moved back on {}: {mark} after {}",
                        actor.node, before.1
                    ));
                }
                self.reach(epoch, actor, mark, "the mark of", |of| &mut of.mark);
            }
            Fact::Restarted => {
                self.marks.remove(&life);
            }
            Fact::Final(epoch, mark) => self.end(epoch, actor, mark),
            Fact::Released(ts) => match self.leads.get(&life).copied() {
                Some(epoch) => self.reach(epoch, actor, ts, "a release in", |of| &mut of.released),
                None => self.violation(format!("{} released {ts} and never led", actor.node)),
            },
            Fact::Applied(epoch, _, ts) => {
                self.reach(epoch, actor, ts, "an application in", |of| &mut of.applied);
            }
            // The simulated procedures bear whatever they may see.
            Fact::Panicked { procedure, message } => {
                self.violation(format!("{procedure} panicked on {}: {message}", actor.node));
            }
            Fact::Holds { undecided_bytes, replies } => {
                let most = &mut self.seen.most;
                most.undecided_bytes = most.undecided_bytes.max(undecided_bytes);
                most.replies = most.replies.max(replies);
                if undecided_bytes > self.limits.undecided_bytes || replies > self.limits.replies {
                    self.violation(format!(
                        "{} holds {undecided_bytes} undecided bytes and {replies} replies, limits {:?}",
                        actor.node, self.limits
                    ));
                }
            }
        }
    }

    fn decide(&mut self, actor: Actor, stream: usize, index: usize, value: u64) {
        if self.decided.len() <= stream {
            self.decided.resize(stream + 1, Vec::new());
        }
        let values = &mut self.decided[stream];
        if values.len() <= index {
            values.resize(index + 1, 0);
        }
        let known = std::mem::replace(&mut values[index], value);
        if known == 0 {
            self.seen.entries += 1;
        } else if known != value {
            self.violation(format!(
                "stream {stream} has two values at {index}; {} has the second",
                actor.node
            ));
        }
    }

    /// Something of the epoch happened at `ts`.
    fn reach(
        &mut self,
        epoch: Epoch,
        actor: Actor,
        ts: Timestamp,
        what: &str,
        slot: fn(&mut OfEpoch) -> &mut Option<(Timestamp, Actor)>,
    ) {
        let of = self.epochs.entry(epoch).or_default();
        let largest = slot(of);
        if largest.is_none_or(|(known, _)| known < ts) {
            *largest = Some((ts, actor));
        }
        if let Some(last) = of.last.filter(|last| *last < ts) {
            self.violation(format!("{what} {epoch} on {} at {ts}, above its final mark {last}", actor.node));
        }
    }

    fn end(&mut self, epoch: Epoch, actor: Actor, last: Timestamp) {
        let of = self.epochs.entry(epoch).or_default();
        let known = *of.last.get_or_insert(last);
        let above = |what: &str, at: Option<(Timestamp, Actor)>| {
            at.filter(|(ts, _)| *ts > last).map(|(ts, whose)| {
                format!("{epoch} ended at {last} on {}, below {what} on {} at {ts}", actor.node, whose.node)
            })
        };
        let wrong = [
            above("the mark", of.mark),
            above("a release", of.released),
            above("an application", of.applied),
        ];
        wrong.into_iter().flatten().for_each(|what| self.violation(what));
        if known != last {
            self.violation(format!("{epoch} ended at {known} and, on {}, at {last}", actor.node));
        }
    }
}

#[cfg(test)]
mod tests {
    use highwater_core::{EntryIndex, Incarnation, NodeId, StreamId};

    use super::*;
    use crate::network::Channel;

    fn actor(node: u8) -> Actor {
        Actor { node: NodeId(node), life: Incarnation(9), who: Channel::Worker(0) }
    }

    fn told(facts: &[(u8, Fact<'_>)]) -> Vec<String> {
        let mut watch =
            Watch { limits: Limits { undecided_bytes: 10, replies: 10, log_bytes: 10 }, ..Watch::default() };
        facts.iter().for_each(|(node, fact)| watch.tell(actor(*node), *fact));
        watch.violations
    }

    #[test]
    fn each_violation_is_noticed_in_either_order() {
        let (one, two) = (Epoch(1), Epoch(2));
        let decided = |entry| Fact::Decided { stream: StreamId(0), index: EntryIndex(3), entry };
        assert!(
            told(&[(0, decided(b"a")), (1, decided(b"a")), (0, Fact::Leads(one)), (1, Fact::Leads(two))])
                .is_empty()
        );
        for wrong in [
            [(0, decided(b"a")), (1, decided(b"b"))],
            [(0, Fact::Leads(one)), (1, Fact::Leads(one))],
            [(0, Fact::Mark(one, Timestamp(5))), (0, Fact::Mark(one, Timestamp(4)))],
            [(0, Fact::Mark(one, Timestamp(5))), (1, Fact::Final(one, Timestamp(4)))],
            [(0, Fact::Final(one, Timestamp(4))), (1, Fact::Applied(one, StreamId(0), Timestamp(5)))],
            [(1, Fact::Applied(one, StreamId(0), Timestamp(5))), (0, Fact::Final(one, Timestamp(4)))],
            [(0, Fact::Final(one, Timestamp(4))), (1, Fact::Final(one, Timestamp(5)))],
            [(0, Fact::Leads(one)), (0, Fact::Holds { undecided_bytes: 11, replies: 0 })],
        ] {
            assert_eq!(told(&wrong).len(), 1, "{wrong:?}");
        }
        let released =
            [(0, Fact::Leads(one)), (0, Fact::Released(Timestamp(5))), (1, Fact::Final(one, Timestamp(4)))];
        assert_eq!(told(&released).len(), 1);
        let restarted =
            [(0, Fact::Mark(one, Timestamp(5))), (0, Fact::Restarted), (0, Fact::Mark(one, Timestamp(4)))];
        assert!(told(&restarted).is_empty());
    }
}
