//! The client's end of [delegation](highwater_meerkat_wire), without sockets, threads or time of its own: it is told what
//! arrives and how late it is, and says what to send.
//!
//! One attempt of one transaction at a time:
//!
//! | step | what goes out | what comes back |
//! |---|---|---|
//! | [`begin`](Core::begin) | | |
//! | [`read`](Core::read), [`scan`](Core::scan) | a question to the home; the first one asks for a stamp, too | [`answer`](Core::answer) |
//! | [`wish`](Core::wish) | nothing, if there is a stamp that will do | [`stamp`](Core::stamp) |
//! | [`propose`](Core::propose) | `Validate` to every voter; perhaps `Accept` | [`ended`](Core::ended) |
//!
//! Once it has [ended](Core::ended) the application may be answered: who has to hear of it is told behind, while the next one is under way.
//!
//! | file | what |
//! |---|---|
//! | [`mod`](self) | what it joins, and what arrives |
//! | `replica` | what is known of replicas, and which one is home |
//! | `question` | reads, and stamps |
//! | `proposal` | votes, the decision, and who is told of it |

mod proposal;
mod question;
mod replica;
#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests may panic")]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use highwater_core::codec::Malformed;
use highwater_core::{Epoch, Nanos, NodeId, Random, Timestamp};
use highwater_kit::validation::quorum::Quorums;
use highwater_meerkat_wire::{Ahead, Ask, Late, Tell};

pub use proposal::Ended;
use proposal::{Proposal, Telling};
use question::Question;
pub use question::{Answer, Trouble};
use replica::Replica;

/// Before anybody has said how long others wait.
const TIMEOUT: Nanos = 1_000_000_000;
const BEAT: Nanos = 20_000_000;

/// How a [`Core`] behaves.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// How many nodes there may be, by id.
    pub nodes: u8,
    /// Its choices follow from it.
    pub seed: u64,
    /// For how long an answer, or a decision, is waited for at most.
    pub patience: Nanos,
}

/// A stamp: the timestamp that the transaction gets.
#[derive(Clone, Copy, Debug)]
struct Stamp {
    epoch: Epoch,
    ts: Timestamp,
    home: NodeId,
    lead: Ahead,
    since: Nanos,
}

/// See the module.
pub struct Core {
    settings: Settings,
    random: Random,
    replicas: Vec<Replica>,
    home: Option<NodeId>,
    ids: u64,
    /// What the attempt under way wants of its stamp: above this; and how the one before came too late.
    above: Timestamp,
    late: Option<Late>,
    question: Option<Question>,
    answer: Option<Result<Answer, Trouble>>,
    /// The question with which a stamp was asked for, while that is not answered.
    asked_stamp: Option<u64>,
    /// All of those: what is granted twice under one number came twice, and may be in use.
    unanswered: BTreeSet<u64>,
    stamp: Option<Stamp>,
    /// The epochs in which replicas answered what the attempt under way read: the first, and the last.
    read_in: Option<(Epoch, Epoch)>,
    /// The earliest of the times as of which they did.
    as_of: Option<Timestamp>,
    /// Invariant: at most one attempt is proposed and not decided.
    proposal: Option<Proposal>,
    ended: Option<Ended>,
    telling: BTreeMap<(Epoch, Timestamp), Telling>,
    round_trip: Nanos,
    out: Vec<(NodeId, Bytes)>,
}

impl Core {
    /// Connected to nobody.
    pub fn new(settings: Settings) -> Core {
        Core {
            settings,
            random: Random::new(settings.seed),
            replicas: (0..settings.nodes).map(|_| Replica::default()).collect(),
            home: None,
            ids: 0,
            above: Timestamp::ZERO,
            late: None,
            question: None,
            answer: None,
            asked_stamp: None,
            unanswered: BTreeSet::new(),
            stamp: None,
            read_in: None,
            as_of: None,
            proposal: None,
            ended: None,
            telling: BTreeMap::new(),
            round_trip: 100_000,
            out: Vec::new(),
        }
    }

    /// The connection to a node is up.
    pub fn up(&mut self, node: NodeId) {
        if let Some(replica) = self.replicas.get_mut(usize::from(node.0)) {
            *replica = Replica { up: true, ..Replica::default() };
        }
    }

    /// It is lost, and with it what is on the way.
    pub fn down(&mut self, now: Nanos, node: NodeId) {
        if let Some(replica) = self.replicas.get_mut(usize::from(node.0)) {
            *replica = Replica::default();
        }
        // A stamp is bound to the connection over which it was granted.
        if self.stamp.is_some_and(|stamp| stamp.home == node) {
            self.stamp = None;
        }
        if self.home == Some(node) {
            self.home = None;
            self.asked_stamp = None;
            self.ask_elsewhere(now);
        }
        self.telling.retain(|_, telling| telling.home != node);
    }

    /// A node says something.
    ///
    /// # Errors
    /// If it makes no sense: the connection is of no use.
    pub fn hear(&mut self, now: Nanos, from: NodeId, message: &Bytes) -> Result<(), Malformed> {
        let tell = Tell::decode(message)?;
        if !self.replicas.get(usize::from(from.0)).is_some_and(|replica| replica.up) {
            return Ok(());
        }
        match tell {
            Tell::Standing(standing) => {
                self.replicas[usize::from(from.0)].standing = Some(standing);
                self.epoch_heard(now, from);
            }
            Tell::Value { id, as_of, version, live, value } => {
                self.note_read(from, as_of);
                self.answered(now, id, Answer::Value { version, live, value });
            }
            Tell::Page { id, as_of, page } => {
                self.note_read(from, as_of);
                self.answered(now, id, Answer::Page(page));
            }
            Tell::Refused { id, why } => self.refused(now, id, why),
            Tell::Granted { id, epoch, ts, lead, room, disk_full } => {
                self.granted(now, from, id, Stamp { epoch, ts, home: from, lead, since: now });
                if let Some(standing) = &mut self.replicas[usize::from(from.0)].standing {
                    (standing.room, standing.disk_full) = (room, disk_full);
                }
            }
            Tell::About { epoch, message } => self.heard_about(now, from, epoch, message),
            Tell::Gone { epoch, ts } => self.heard_gone(now, from, epoch, ts),
        }
        Ok(())
    }

    /// What a replica answers now it read in the epoch of which it told last, or in the one after.
    fn note_read(&mut self, from: NodeId, as_of: Timestamp) {
        self.as_of = Some(self.as_of.map_or(as_of, |before| before.min(as_of)));
        let Some(standing) = self.replicas[usize::from(from.0)].standing else { return };
        let (first, last) = self.read_in.unwrap_or((standing.epoch, standing.epoch));
        self.read_in = Some((first.min(standing.epoch), last.max(standing.epoch)));
    }

    /// Whether all that the attempt read was read in this epoch. Between two of them what was committed may have been lost (durability
    /// `async`), and a version that was read and is not there any more looks to replicas like one that is on its way.
    fn has_read_in(&self, epoch: Epoch) -> bool {
        self.read_in.is_none_or(|read| read == (epoch, epoch))
    }

    /// Everything that committed at or below was there whenever this attempt has read.
    pub fn as_of(&self) -> Timestamp {
        self.as_of.unwrap_or_default()
    }

    /// Does what is due.
    pub fn tick(&mut self, now: Nanos) {
        self.ask_in_time(now);
        self.decide_in_time(now);
        self.tell_again(now);
    }

    /// When to [`tick`](Core::tick) next.
    pub fn next(&self) -> Option<Nanos> {
        let question = self.question.as_ref().map(|question| question.due.min(question.until));
        let telling = self.telling.values().map(|telling| telling.again);
        let proposal = self.proposal.as_ref().map(|proposal| self.due(proposal));
        question.into_iter().chain(telling).chain(proposal).min()
    }

    /// What to send, in order.
    pub fn take_outgoing(&mut self) -> Vec<(NodeId, Bytes)> {
        std::mem::take(&mut self.out)
    }

    /// A new attempt begins, whose timestamp has to be above what was in the way of earlier ones (`hint`); `late`: the last one came too
    /// late.
    pub fn begin(&mut self, hint: Timestamp, late: Option<Late>) {
        assert!(self.proposal.is_none(), "one transaction at a time");
        self.drop_stamp();
        (self.question, self.answer, self.ended, self.asked_stamp) = (None, None, None, None);
        (self.above, self.late, self.read_in, self.as_of) = (hint, late, None, None);
    }

    /// The attempt ends without having been proposed.
    pub fn give_up(&mut self) {
        self.begin(Timestamp::ZERO, None);
    }

    /// By how many bytes a transaction may make stores grow, and whether it may write at all, as was told last.
    pub fn room(&self) -> (u64, bool) {
        let home = self.home.and_then(|home| self.replicas[usize::from(home.0)].standing);
        let known = home.or_else(|| self.replicas.iter().find_map(|replica| replica.standing));
        known.map_or((u64::MAX, false), |standing| (standing.room, standing.disk_full))
    }

    /// About how long a round trip takes.
    pub fn round_trip(&self) -> Nanos {
        self.round_trip
    }

    /// After so long replicas give each other up.
    pub fn timeout(&self) -> Nanos {
        self.replicas.iter().find_map(|replica| replica.standing).map_or(TIMEOUT, |standing| standing.timeout)
    }

    /// Whether everybody who has to hear what became of transactions has.
    pub fn is_quiet(&self) -> bool {
        self.telling.is_empty()
    }

    /// Whether some replica serves, as far as is known.
    pub fn is_served(&self) -> bool {
        self.replicas.iter().any(Replica::serves)
    }

    fn beat(&self) -> Nanos {
        self.replicas.iter().find_map(|replica| replica.standing).map_or(BEAT, |standing| standing.beat)
    }

    fn strict(&self) -> bool {
        self.replicas.iter().any(|replica| replica.standing.is_some_and(|standing| standing.strict))
    }

    fn quorums(&self) -> Quorums {
        let standing = self.replicas.iter().find_map(|replica| replica.standing);
        let nodes = standing.map_or(self.settings.nodes, |standing| standing.nodes);
        if self.strict() { Quorums::of(nodes).unanimous() } else { Quorums::of(nodes) }
    }

    fn send(&mut self, to: NodeId, ask: &Ask) {
        if self.replicas.get(usize::from(to.0)).is_some_and(|replica| replica.up) {
            self.out.push((to, ask.encode()));
        }
    }
}

impl std::fmt::Debug for Core {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Core")
            .field("home", &self.home)
            .field("question", &self.question)
            .field("stamp", &self.stamp)
            .field("proposal", &self.proposal)
            .field("ended", &self.ended)
            .field("telling", &self.telling.len())
            .field("replicas", &self.replicas)
            .finish()
    }
}
