//! The side that forwards: what this worker's clients have asked of the leader, and who waits there for data.

use std::collections::{BTreeSet, VecDeque};

use highwater_core::NodeId;
use highwater_engines::{Frame, Nanos, Refusal};

use super::message::{Ask, Message, encode_keys};
use crate::resp::EngineRequest;

/// Requests that may be under way to one leader.
const MAX_ASKED: usize = 8192;
/// How long requests wait for a leader, or for a connection to it, before their clients are told that there is none.
const PATIENCE: Nanos = 1_000_000_000;

/// What became of a request that was to be forwarded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Forwarded {
    /// It is on its way: an answer comes, or [`Upstream::take_unknown`] names it.
    Sent,
    /// Not now: try again when [`Upstream::may_ask`].
    Later,
    /// There is nobody to send it to.
    No,
}

/// A client's request: its slot, and its number on its connection.
pub type Place = (usize, u64);

/// See the module.
pub struct Upstream {
    /// `server.forward`
    on: bool,
    /// Bytes of arguments that may be under way; one request more is always taken.
    window: usize,
    /// Nodes with a connection, of whom it is known that a request means the same there.
    ready: BTreeSet<NodeId>,
    /// Who leads, as the engine said last.
    leader: Option<NodeId>,
    /// This node takes requests itself.
    serves: bool,
    asking: Option<Asking>,
    /// Counts leaders and connections.
    serial: u64,
    /// Since when there is nobody to ask.
    lacks_since: Option<Nanos>,
    /// Requests whose end nobody will tell.
    unknown: Vec<Place>,
    out: Vec<(NodeId, Frame)>,
}

/// Whom requests go to.
struct Asking {
    leader: NodeId,
    /// Tells it from earlier ones.
    serial: u64,
    /// Requests that are not answered, in order; those in between that are leave `None`. The first is not answered.
    asked: VecDeque<Option<(Place, usize)>>,
    /// The number of the first.
    first: u64,
    /// Bytes of arguments of those that are not answered.
    bytes: usize,
    /// Clients that stand in line there.
    lined: usize,
}

impl Upstream {
    /// Nobody leads yet.
    pub fn new(on: bool, window: usize) -> Upstream {
        Upstream {
            on,
            window,
            ready: BTreeSet::new(),
            leader: None,
            serves: false,
            asking: None,
            serial: 0,
            lacks_since: None,
            unknown: Vec::new(),
            out: Vec::new(),
        }
    }

    /// Whether requests are forwarded at all.
    #[inline]
    pub fn is_on(&self) -> bool {
        self.on
    }

    /// Which connection to which leader there is now, if there is one.
    pub fn serial(&self) -> Option<u64> {
        self.asking.as_ref().map(|asking| asking.serial)
    }

    /// Looks who leads; the node to hang up on, if what was asked of it must not be done any more.
    ///
    /// Whatever waits for an earlier leader's answer will not have one that counts: its fate is unknown. What has not left yet goes with
    /// the connection, so that nothing that was given up is done later than what comes next.
    pub fn look(&mut self, now: Nanos, ready: Result<(), Refusal>) -> Option<NodeId> {
        if !self.on {
            return None;
        }
        self.serves = !matches!(ready, Err(Refusal::NotServing { .. }));
        let before = self.leader;
        match ready {
            Err(Refusal::NotServing { ask: Some(leader) }) => self.leader = Some(leader),
            // Nobody is known at the moment. The one who was may still answer.
            Err(Refusal::NotServing { ask: None }) => {}
            // This node.
            Ok(()) | Err(Refusal::NoQuorum | Refusal::Busy | Refusal::Unsupported) => self.leader = None,
        }
        let left = match &self.asking {
            Some(asking) if Some(asking.leader) != self.leader => self.give_up(),
            _ => None,
        };
        if let (None, Some(leader)) = (&self.asking, self.leader)
            && self.ready.contains(&leader)
        {
            self.serial += 1;
            let (asked, serial) = (VecDeque::new(), self.serial);
            self.asking = Some(Asking { leader, serial, asked, first: 0, bytes: 0, lined: 0 });
        }
        self.lacks_since = match &self.asking {
            Some(_) => None,
            None if self.serves => None,
            // The connection to this one may take a moment.
            None if self.leader.is_some() && self.leader != before => Some(now),
            None => Some(self.lacks_since.unwrap_or(now)),
        };
        left
    }

    /// A connection to this node is up, and a request means the same there.
    pub fn ready(&mut self, node: NodeId) {
        self.lost(node);
        self.ready.insert(node);
    }

    /// The connection to this node is down.
    pub fn lost(&mut self, node: NodeId) {
        self.ready.remove(&node);
        if self.asking.as_ref().is_some_and(|asking| asking.leader == node) {
            self.give_up();
        }
    }

    /// Nothing is asked of the present one any more; who it is, if it was asked something.
    fn give_up(&mut self) -> Option<NodeId> {
        let asking = self.asking.take()?;
        self.out.retain(|(to, _)| *to != asking.leader);
        let waits = !asking.asked.is_empty() || asking.lined > 0;
        self.unknown.extend(asking.asked.into_iter().flatten().map(|(place, _)| place));
        waits.then_some(asking.leader)
    }

    /// Requests whose end nobody will tell.
    pub fn take_unknown(&mut self) -> Vec<Place> {
        std::mem::take(&mut self.unknown)
    }

    /// Whether a request that was put off is to be tried again.
    pub fn may_ask(&self, now: Nanos) -> bool {
        match &self.asking {
            Some(asking) => self.has_room(asking),
            None => self.serves || self.lacks_since.is_none_or(|since| now >= since + PATIENCE),
        }
    }

    /// When those that were put off are told that there is nobody.
    pub fn deadline(&self) -> Option<Nanos> {
        self.lacks_since.map(|since| since + PATIENCE)
    }

    fn has_room(&self, asking: &Asking) -> bool {
        asking.asked.len() < MAX_ASKED && (asking.bytes == 0 || asking.bytes < self.window)
    }

    /// Forwards a request that the engine has refused because another node serves.
    pub fn ask(&mut self, now: Nanos, request: &EngineRequest<'_>, client: u64, place: Place) -> Forwarded {
        if !self.on || request.snapshot {
            return Forwarded::No;
        }
        match &self.asking {
            Some(asking) if self.has_room(asking) => {}
            Some(_) => return Forwarded::Later,
            None if self.may_ask(now) => return Forwarded::No,
            None => return Forwarded::Later,
        }
        let asking = self.asking.as_mut().expect("it has room");
        let ask = Message::Ask(Ask {
            number: asking.first + asking.asked.len() as u64,
            client,
            procedure: request.procedure,
            effect: request.effect,
            user: request.user.to_vec(),
            session: request.session,
        });
        asking.asked.push_back(Some((place, request.args.len())));
        asking.bytes += request.args.len();
        self.out.push((asking.leader, ask.encode(request.args)));
        Forwarded::Sent
    }

    /// The leader has answered, or refused; whose request it was. `None`: one that was given up.
    pub fn answered(&mut self, from: NodeId, number: u64) -> Option<Place> {
        let asking = self.asking.as_mut().filter(|asking| asking.leader == from)?;
        let at = usize::try_from(number.checked_sub(asking.first)?).ok()?;
        let (place, bytes) = asking.asked.get_mut(at)?.take()?;
        asking.bytes -= bytes;
        while let Some(None) = asking.asked.front() {
            asking.asked.pop_front();
            asking.first += 1;
        }
        Some(place)
    }

    /// A client waits for data: the leader puts it in line.
    pub fn line(&mut self, client: u64, keys: &[Vec<u8>]) {
        if let Some(asking) = &mut self.asking {
            asking.lined += 1;
            self.out.push((asking.leader, Message::Line { client }.encode(&encode_keys(keys))));
        }
    }

    /// A client that was put in line over this connection waits no more.
    pub fn leave(&mut self, client: u64, serial: u64) {
        if let Some(asking) = self.asking.as_mut().filter(|asking| asking.serial == serial) {
            asking.lined -= 1;
            self.out.push((asking.leader, Message::Leave { client }.encode(&[])));
        }
    }

    /// What is to be sent.
    pub fn drain(&mut self) -> std::vec::Drain<'_, (NodeId, Frame)> {
        self.out.drain(..)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::resp::request::Effect;
    use highwater_core::ProcedureId;

    const ELSEWHERE: Result<(), Refusal> = Err(Refusal::NotServing { ask: Some(NodeId(1)) });
    const OTHER: Result<(), Refusal> = Err(Refusal::NotServing { ask: Some(NodeId(2)) });

    fn request(args: &[u8], snapshot: bool) -> EngineRequest<'_> {
        let (procedure, effect) = (ProcedureId(0), Effect::Writes);
        EngineRequest {
            seq: 0,
            snapshot,
            freshness: None,
            session: None,
            procedure,
            args,
            effect,
            user: b"default",
        }
    }

    fn asking() -> Upstream {
        let mut upstream = Upstream::new(true, 100);
        upstream.ready(NodeId(1));
        upstream.ready(NodeId(2));
        assert_eq!(upstream.look(0, ELSEWHERE), None);
        upstream
    }

    #[test]
    fn answers_come_in_any_order_and_count_once() {
        let mut upstream = asking();
        for seq in 0..3 {
            assert_eq!(upstream.ask(0, &request(b"x", false), 9, (4, seq)), Forwarded::Sent);
        }
        assert_eq!(upstream.answered(NodeId(1), 1), Some((4, 1)));
        assert_eq!(upstream.answered(NodeId(1), 1), None, "it was answered");
        assert_eq!(upstream.answered(NodeId(2), 0), None, "it was not asked");
        assert_eq!(upstream.answered(NodeId(1), 0), Some((4, 0)));
        assert_eq!(upstream.answered(NodeId(1), 2), Some((4, 2)));
        assert_eq!(upstream.answered(NodeId(1), 3), None, "there is none");
        assert_eq!(upstream.drain().count(), 3);
    }

    #[test]
    fn what_waits_for_an_earlier_leader_is_unknown_and_its_late_answer_nobodys() {
        let mut upstream = asking();
        upstream.ask(0, &request(b"x", false), 9, (4, 7));
        assert_eq!(upstream.look(1, Err(Refusal::NotServing { ask: None })), None, "it may still answer");
        assert_eq!(upstream.look(2, OTHER), Some(NodeId(1)), "what it was not sent yet is not to be sent");
        assert_eq!(upstream.drain().count(), 0);
        assert_eq!(upstream.take_unknown(), [(4, 7)]);
        assert_eq!(upstream.answered(NodeId(1), 0), None);
        assert_eq!(upstream.ask(2, &request(b"x", false), 9, (4, 8)), Forwarded::Sent);
        upstream.lost(NodeId(2));
        assert_eq!(upstream.take_unknown(), [(4, 8)]);
        // This node leads now: nobody is asked.
        assert_eq!(upstream.look(3, Ok(())), None);
        assert_eq!(upstream.serial(), None);
        assert!(upstream.may_ask(3), "what waited is for this node now");
    }

    #[test]
    fn a_request_waits_for_a_leader_but_not_for_ever_and_a_snapshot_not_at_all() {
        let mut upstream = Upstream::new(true, 100);
        upstream.look(5, ELSEWHERE);
        assert_eq!(upstream.ask(5, &request(b"x", false), 9, (0, 0)), Forwarded::Later);
        assert!(!upstream.may_ask(5 + PATIENCE - 1));
        assert_eq!(upstream.deadline(), Some(5 + PATIENCE));
        assert_eq!(upstream.ask(5 + PATIENCE, &request(b"x", false), 9, (0, 0)), Forwarded::No);
        assert_eq!(asking().ask(0, &request(b"x", true), 9, (0, 0)), Forwarded::No);
        assert_eq!(Upstream::new(false, 100).ask(0, &request(b"x", false), 9, (0, 0)), Forwarded::No);
    }

    #[test]
    fn the_window_closes_and_opens_and_one_request_always_fits() {
        let mut upstream = asking();
        assert_eq!(upstream.ask(0, &request(&[0; 5000], false), 9, (0, 0)), Forwarded::Sent);
        assert_eq!(upstream.ask(0, &request(b"x", false), 9, (0, 1)), Forwarded::Later);
        assert!(!upstream.may_ask(0));
        upstream.answered(NodeId(1), 0);
        assert!(upstream.may_ask(0));
        for seq in 0..MAX_ASKED as u64 {
            assert_eq!(upstream.ask(0, &request(b"", false), 9, (0, seq)), Forwarded::Sent);
        }
        assert_eq!(upstream.ask(0, &request(b"", false), 9, (0, 0)), Forwarded::Later);
    }
}
