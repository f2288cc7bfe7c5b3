//! What replicas of Rolis must keep together:
//!
//! - a stream has one value at each index, ever;
//! - an epoch has one leader; the same final mark everywhere;
//! - the mark of an epoch never moves back on a node, and never passes the final mark;
//! - whatever was released in an epoch, or applied from it, is at or below its final mark;
//! - a leader that gave its lead up takes nothing more before it leads again;
//! - a leader that hands its lead over leaves no reply behind;
//! - the level in use is raised when every voter, in its life, has said that it reads it, and nobody is sent what it cannot read.

use std::any::Any;
use std::collections::{BTreeMap, BTreeSet};
use std::hash::{DefaultHasher, Hash, Hasher};

use highwater_consensus::Voter;
use highwater_core::{EntryIndex, Epoch, Incarnation, Level, NodeId, StreamId, Timestamp};
use highwater_log_host::facts::LogFact;
use highwater_seam::observer::{EPOCHS, LOSSES, RAISES, Rules, TAKEOVERS, Teller, unknown};

use crate::facts::MarkFact;

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

/// A node in one life.
type Life = (NodeId, Incarnation);

/// Everything of one epoch.
#[derive(Debug, Default)]
struct OfEpoch {
    leader: Option<Life>,
    last: Option<Timestamp>,
    /// How far each [`Reach`] came, and on whom.
    reached: [Option<(Timestamp, NodeId)>; Reach::ALL.len()],
}

/// Compares.
#[derive(Debug, Default)]
pub struct RolisRules {
    /// Hash of the entry at each index (from 1) of each stream; 0 if unknown.
    decided: Vec<Vec<u64>>,
    epochs: BTreeMap<Epoch, OfEpoch>,
    /// The mark of each life of a node.
    marks: BTreeMap<Life, (Epoch, Timestamp)>,
    /// The epoch that each life of a node opened last.
    leads: BTreeMap<Life, Epoch>,
    /// Nodes that have given their lead up, and have not led since.
    gave_up: BTreeSet<Life>,
    /// Who has told another one to stand, and has not taken the lead back.
    hands_over: BTreeSet<Life>,
    /// The newest level that each life of a node said it reads, to whomever.
    reads: BTreeMap<Life, Level>,
    raised: u64,
    entries: u64,
    takeovers: u64,
    handovers: u64,
    losses: u64,
}

impl Rules for RolisRules {
    fn tell(&mut self, who: Teller, fact: &dyn Any) -> Vec<String> {
        match (fact.downcast_ref::<LogFact>(), fact.downcast_ref::<MarkFact>()) {
            (Some(fact), _) => self.hear_of_log(who, fact),
            (_, Some(fact)) => self.hear_of_mark(who, fact),
            _ => vec![unknown(who)],
        }
    }

    fn counts(&self) -> Vec<(&'static str, u64)> {
        let opened = self.epochs.values().filter(|epoch| epoch.leader.is_some()).count() as u64;
        vec![
            (ENTRIES, self.entries),
            (TAKEOVERS, self.takeovers),
            (EPOCHS, opened),
            (HANDOVERS, self.handovers),
            (LOSSES, self.losses),
            (RAISES, self.raised),
        ]
    }
}

/// Distinct entries decided, over all streams.
const ENTRIES: &str = "entries decided";

/// Leads that were handed over: the other one was told to stand.
const HANDOVERS: &str = "leads handed over";

/// A hash of an entry's bytes; never 0.
fn hash(entry: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    entry.hash(&mut hasher);
    hasher.finish() | 1
}

impl RolisRules {
    fn hear_of_log(&mut self, who: Teller, fact: &LogFact) -> Vec<String> {
        let (node, life) = (who.node, (who.node, who.life));
        match fact {
            LogFact::Decided { stream, index, entry } => {
                self.decide(node, *stream, *index, hash(entry)).into_iter().collect()
            }
            LogFact::TakesOver(_) => {
                self.takeovers += 1;
                Vec::new()
            }
            LogFact::Loses(_) => {
                self.losses += 1;
                self.forget();
                Vec::new()
            }
            LogFact::Leads(epoch) => {
                self.hands_over.remove(&life);
                self.gave_up.remove(&life);
                self.lead(life, *epoch).into_iter().collect()
            }
            LogFact::GivesUp => {
                self.gave_up.insert(life);
                Vec::new()
            }
            LogFact::Takes if self.gave_up.contains(&life) => {
                vec![format!("{node} gave its lead up, and takes requests all the same")]
            }
            LogFact::Takes => Vec::new(),
            LogFact::HandsOver => {
                self.hands_over.insert(life);
                self.handovers += 1;
                Vec::new()
            }
            LogFact::TakesBack => {
                self.hands_over.remove(&life);
                Vec::new()
            }
            LogFact::LeavesUnknown(replies) if self.hands_over.contains(&life) => {
                vec![format!("{node} handed its lead over with {replies} replies that nobody gives")]
            }
            LogFact::LeavesUnknown(_) => Vec::new(),
            LogFact::HearsLevels(voter, newest) => {
                let known = self.reads.entry((voter.node, voter.incarnation)).or_insert(*newest);
                *known = (*known).max(*newest);
                Vec::new()
            }
            LogFact::Raises(level, voters) => {
                self.raised += 1;
                let unable = |voter: &&Voter| {
                    let life = (voter.node, voter.incarnation);
                    voter.node != node && self.reads.get(&life).is_none_or(|reads| reads < level)
                };
                let unable = voters.iter().filter(unable).map(|voter| voter.node);
                unable
                    .map(|voter| format!("{node} raises to {level}, and {voter} never said that it reads it"))
                    .collect()
            }
            LogFact::Unreadable(level) => {
                vec![format!("{node} was sent an entry of {level}, which it does not read")]
            }
        }
    }

    fn hear_of_mark(&mut self, who: Teller, fact: &MarkFact) -> Vec<String> {
        let (node, life) = (who.node, (who.node, who.life));
        match fact {
            MarkFact::Mark(epoch, mark) => {
                let back = self.move_mark(life, *epoch, *mark);
                back.into_iter().chain(self.reach(Reach::Mark, *epoch, node, *mark)).collect()
            }
            MarkFact::Restarted => {
                self.marks.remove(&life);
                Vec::new()
            }
            MarkFact::Final(epoch, mark) => self.end(*epoch, node, *mark),
            MarkFact::Released(ts) => match self.leads.get(&life).copied() {
                Some(epoch) => self.reach(Reach::Release, epoch, node, *ts).into_iter().collect(),
                None => vec![format!("{node} released {ts} and never led")],
            },
            MarkFact::Applied(epoch, _, ts) => {
                self.reach(Reach::Application, *epoch, node, *ts).into_iter().collect()
            }
        }
    }

    /// What was decided last may be lost, and decided otherwise: the ends of logs, and what was reached in epochs that had not ended.
    fn forget(&mut self) {
        self.decided.clear();
        for epoch in self.epochs.values_mut() {
            (epoch.last, epoch.reached) = (None, Default::default());
        }
    }

    fn decide(&mut self, node: NodeId, stream: StreamId, index: EntryIndex, value: u64) -> Option<String> {
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
        let says = || format!("stream {stream} has two values at {index}; {node} has the second");
        (known != value).then(says)
    }

    fn lead(&mut self, life: Life, epoch: Epoch) -> Option<String> {
        self.leads.insert(life, epoch);
        let first = *self.epochs.entry(epoch).or_default().leader.get_or_insert(life);
        (first != life).then(|| format!("two led {epoch}: {} and {}", first.0, life.0))
    }

    fn move_mark(&mut self, life: Life, epoch: Epoch, mark: Timestamp) -> Option<String> {
        let before = self.marks.insert(life, (epoch, mark)).filter(|before| before.0 == epoch)?.1;
        let says = || format!("the mark of {epoch} moved back on {}: {mark} after {before}", life.0);
        (before > mark).then(says)
    }

    /// Something of the epoch happened at `ts`.
    fn reach(&mut self, what: Reach, epoch: Epoch, node: NodeId, ts: Timestamp) -> Option<String> {
        let of = self.epochs.entry(epoch).or_default();
        let largest = &mut of.reached[what as usize];
        if largest.is_none_or(|(known, _)| known < ts) {
            *largest = Some((ts, node));
        }
        let last = of.last.filter(|last| *last < ts)?;
        Some(format!("{} of {epoch} on {node} at {ts}, above its final mark {last}", what.words()))
    }

    fn end(&mut self, epoch: Epoch, node: NodeId, last: Timestamp) -> Vec<String> {
        // A newcomer that has not copied the state yet may look at the log's beginning. Of a cluster that began from a state, its founders'
        // marks are above that of its birth.
        if (epoch, last) == (Epoch(0), Timestamp::ZERO) {
            return Vec::new();
        }
        let of = self.epochs.entry(epoch).or_default();
        let known = *of.last.get_or_insert(last);
        let above = Reach::ALL.iter().filter_map(|what| {
            let (ts, whose) = of.reached[*what as usize].filter(|(ts, _)| *ts > last)?;
            let what = what.words();
            Some(format!("{epoch} ended at {last} on {node}, below {what} on {whose} at {ts}"))
        });
        let says = || format!("{epoch} ended at {known} and, on {node}, at {last}");
        let two = (known != last).then(says);
        above.chain(two).collect()
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;

    /// Either kind of fact.
    #[derive(Clone, Debug)]
    enum Told {
        Log(LogFact),
        Mark(MarkFact),
    }

    impl Told {
        fn fact(&self) -> &dyn Any {
            match self {
                Told::Log(fact) => fact,
                Told::Mark(fact) => fact,
            }
        }
    }

    fn log(fact: LogFact) -> Told {
        Told::Log(fact)
    }

    fn mark(fact: MarkFact) -> Told {
        Told::Mark(fact)
    }

    fn told(facts: &[(u8, Told)]) -> Vec<String> {
        let mut rules = RolisRules::default();
        let teller = |node| Teller { node: NodeId(node), life: Incarnation(9), worker: Some(0) };
        facts.iter().flat_map(|(node, fact)| rules.tell(teller(*node), fact.fact())).collect()
    }

    #[test]
    fn each_violation_is_noticed_in_either_order() {
        use LogFact::{HandsOver, HearsLevels, Leads, LeavesUnknown, Raises, TakesBack, Unreadable};
        use MarkFact::{Applied, Final, Mark, Released, Restarted};
        let (one, two) = (Epoch(1), Epoch(2));
        let decided = |entry: &'static [u8]| {
            log(LogFact::Decided {
                stream: StreamId(0),
                index: EntryIndex(3),
                entry: Bytes::from_static(entry),
            })
        };
        let good = [(0, decided(b"a")), (1, decided(b"a")), (0, log(Leads(one))), (1, log(Leads(two)))];
        assert!(told(&good).is_empty());
        let restarted =
            [(0, mark(Mark(one, Timestamp(5)))), (0, mark(Restarted)), (0, mark(Mark(one, Timestamp(4))))];
        assert!(told(&restarted).is_empty());
        for wrong in [
            [(0, decided(b"a")), (1, decided(b"b"))],
            [(0, log(Leads(one))), (1, log(Leads(one)))],
            [(0, mark(Mark(one, Timestamp(5)))), (0, mark(Mark(one, Timestamp(4))))],
            [(0, mark(Mark(one, Timestamp(5)))), (1, mark(Final(one, Timestamp(4))))],
            [(0, mark(Final(one, Timestamp(4)))), (1, mark(Applied(one, StreamId(0), Timestamp(5))))],
            [(1, mark(Applied(one, StreamId(0), Timestamp(5)))), (0, mark(Final(one, Timestamp(4))))],
            [(0, mark(Final(one, Timestamp(4)))), (1, mark(Final(one, Timestamp(5))))],
        ] {
            assert_eq!(told(&wrong).len(), 1, "{wrong:?}");
        }
        let takes_back = [(0, log(HandsOver)), (0, log(TakesBack)), (0, log(LeavesUnknown(1)))];
        assert!(told(&takes_back).is_empty());
        assert!(told(&[(0, log(HandsOver)), (0, log(Leads(two))), (0, log(LeavesUnknown(1)))]).is_empty());
        assert_eq!(
            told(&[(0, log(HandsOver)), (1, log(LeavesUnknown(2))), (0, log(LeavesUnknown(1)))]).len(),
            1
        );
        let released =
            [(0, log(Leads(one))), (0, mark(Released(Timestamp(5)))), (1, mark(Final(one, Timestamp(4))))];
        assert_eq!(told(&released).len(), 1);
        assert_eq!(told(&[(0, mark(Released(Timestamp(5))))]).len(), 1, "of a node that never led");
        let voters = || {
            (0..3).map(|node| Voter { node: NodeId(node), incarnation: Incarnation(9) }).collect::<Vec<_>>()
        };
        let hears = |node: usize, level| (0, log(HearsLevels(voters()[node], Level(level))));
        let raises = (0, log(Raises(Level(2), voters())));
        assert!(told(&[hears(1, 2), hears(2, 2), hears(2, 1), raises.clone()]).is_empty());
        assert_eq!(told(&[hears(1, 2), hears(2, 1), raises.clone()]).len(), 1, "one of them reads less");
        assert_eq!(told(&[raises]).len(), 2, "two were never heard");
        assert_eq!(told(&[(1, log(Unreadable(Level(2))))]).len(), 1);
    }

    #[test]
    fn what_was_told_is_counted_and_what_is_not_rolis_s_is_refused() {
        let mut rules = RolisRules::default();
        let who = Teller { node: NodeId(0), life: Incarnation(9), worker: None };
        for fact in [LogFact::TakesOver(Epoch(1)), LogFact::Leads(Epoch(1))] {
            assert!(rules.tell(who, &fact).is_empty());
        }
        let counts = [(ENTRIES, 0), (TAKEOVERS, 1), (EPOCHS, 1), (HANDOVERS, 0), (LOSSES, 0), (RAISES, 0)];
        assert_eq!(rules.counts(), counts);
        assert_eq!(rules.tell(who, &"something else").len(), 1);
    }
}
