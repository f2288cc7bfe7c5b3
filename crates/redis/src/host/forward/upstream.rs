//! The side that forwards: what this worker's clients have asked of the leader, and who waits there for data.
//!
//! # When another node leads than before
//!
//! Answers of the one before may be on their way, and what it has not begun it refuses as soon as it knows that it leads no more. So it is
//! waited for, for a quarter of a second (`GRACE`); then nobody tells what became of the rest. Meanwhile nobody else is asked: what a client asked first takes
//! effect first.
//!
//! A request that was refused because its leader led no more was not begun, and is asked of the next one, or run here if that is this node, in the
//! order in which it came. Not if its client has had an answer to what it asked later: then it is told of the refusal. While it may yet have one, it
//! waits: the node that refused may lead again before it comes to the rest, and take effect what was asked later first.
//!
//! A request that is to be run here and that a pause holds (`CLIENT PAUSE`) waits for as long as any other that a pause holds, and its client with it. Nobody else does.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use highwater_core::NodeId;
use highwater_seam::{Frame, Nanos, Refusal, Request, Taken};

use super::message::{Ask, Message, encode_keys};
use super::runs::{Judge, Judged, Runs};
use crate::EngineRequest;
use crate::host::token::{Owner, pack};

/// Requests that may be under way to one leader.
const MAX_ASKED: usize = 8192;
/// How long requests wait for a leader, or for a connection to it, before their clients are told that there is none.
const PATIENCE: Nanos = 1_000_000_000;

/// How long answers of a leader that leads no more are waited for.
const GRACE: Nanos = 250_000_000;
/// After a refusal by a node that is still said to lead, how long until it is asked again.
const AGAIN_AFTER: Nanos = 2_000_000;

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
    /// The node that is asked leads no more: until when answers are waited for.
    leaves_at: Option<Nanos>,
    /// Requests that were refused because their leader led no more, in order, to be asked again.
    again: Again,
    /// Requests that were to be run here and are held by a pause, and what their clients asked behind them, in order; by the slots of these clients. Empty while another node serves.
    paused: BTreeMap<usize, VecDeque<Asked>>,
    /// A request that was to be asked again and is run here, where the engine has put it off: what its client asks next waits for it.
    put_off: Vec<Place>,
    /// Requests that were refused, and are asked of nobody else.
    refused: Vec<Place>,
    /// Requests that were to be run here, and whose users may not any more.
    denied: Vec<(Place, String)>,
    /// A pause has ended: clients that it held go on in the next turn.
    has_news: bool,
    /// Requests whose end nobody will tell.
    unknown: Vec<Place>,
    out: Vec<(NodeId, Frame)>,
}

/// Requests that are to be asked again.
#[derive(Default)]
struct Again {
    requests: VecDeque<Asked>,
    /// The node that refused the last of them.
    by: Option<NodeId>,
    next: Nanos,
}

/// A request that is not answered.
struct Asked {
    place: Place,
    /// Bytes of its arguments.
    bytes: usize,
    /// As it was sent.
    frame: Frame,
    /// When somebody looked first after it was refused for the first time: however often it is asked again, its client does not wait for ever.
    refused_at: Option<Nanos>,
}

impl Asked {
    fn decode(&self) -> (Ask, &[u8]) {
        let (message, args) = Message::of(&self.frame).expect("it was encoded here");
        let Message::Ask(ask) = message else { unreachable!("nothing else is asked") };
        (ask, args)
    }
}

/// The node to which requests go.
struct Asking {
    leader: NodeId,
    /// Tells it from earlier ones.
    serial: u64,
    /// Requests that are not answered, in order; those in between that are leave `None`. The first is not answered.
    asked: VecDeque<Option<Asked>>,
    /// The number of the first.
    first: u64,
    /// Bytes of arguments of those that are not answered.
    bytes: usize,
    /// Clients that stand in line there.
    lined: usize,
}

impl Asking {
    /// The last request of each client that is not answered: its slot, and the request's number.
    fn latest(&self) -> BTreeMap<usize, u64> {
        let mut latest = BTreeMap::new();
        for (at, seq) in self.asked.iter().flatten().map(|asked| asked.place) {
            let last = latest.entry(at).or_insert(seq);
            *last = seq.max(*last);
        }
        latest
    }
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
            leaves_at: None,
            again: Again::default(),
            paused: BTreeMap::new(),
            put_off: Vec::new(),
            refused: Vec::new(),
            denied: Vec::new(),
            has_news: false,
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
    /// A request that an earlier leader has not answered in time has an unknown fate. What has not left yet goes with the connection, so that nothing
    /// that was given up is done later than what comes next.
    pub fn look(&mut self, now: Nanos, ready: Result<(), Refusal>) -> Option<NodeId> {
        if !self.on {
            return None;
        }
        self.has_news = false;
        self.serves = !matches!(ready, Err(Refusal::NotServing { .. }));
        if !self.serves {
            // The pause was this node's. Whoever leads next may have one of its own.
            self.end_pause();
        }
        let before = self.leader;
        match ready {
            Err(Refusal::NotServing { ask: Some(leader) }) => self.leader = Some(leader),
            // Nobody is known at the moment. The one who was may still answer.
            Err(Refusal::NotServing { ask: None }) => {}
            // This node.
            Ok(()) | Err(Refusal::NoQuorum | Refusal::Busy | Refusal::Unsupported) => self.leader = None,
        }
        let left = if self.has_waited_enough(now) { self.give_up() } else { None };
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
        self.ask_again(now);
        left
    }

    /// Whether the one who is asked leads no more, and owes no answer, or has had the time to give it.
    fn has_waited_enough(&mut self, now: Nanos) -> bool {
        let Some(asking) = self.asking.as_ref().filter(|asking| Some(asking.leader) != self.leader) else {
            self.leaves_at = None;
            return false;
        };
        let at = *self.leaves_at.get_or_insert(now + GRACE);
        asking.asked.is_empty() || now >= at
    }

    /// Whether answers of one who leads no more are waited for: what this node's clients ask now comes behind them.
    #[inline]
    pub fn is_leaving(&self) -> bool {
        self.leaves_at.is_some() || !self.again.requests.is_empty()
    }

    /// Whether the next turn has something to tell clients of, or to go on with.
    pub fn has_more(&self) -> bool {
        self.has_news || !self.denied.is_empty() || !self.refused.is_empty()
    }

    /// Whether this node serves, and what its clients asked of another one before is to be run or answered first.
    pub fn has_own_first(&self) -> bool {
        self.on && self.serves && (self.is_leaving() || !self.put_off.is_empty())
    }

    /// Whether a client waits with all that it asks now, for a pause holds what it asked of another node before.
    pub fn holds(&self, at: usize) -> bool {
        self.paused.contains_key(&at)
    }

    /// Requests that a pause held come before what their clients asked later.
    fn end_pause(&mut self) {
        self.has_news |= !self.paused.is_empty();
        for asked in std::mem::take(&mut self.paused).into_values().flat_map(|asked| asked.into_iter().rev())
        {
            self.again.requests.push_front(asked);
        }
    }

    /// The node ends, and runs nothing more: nobody waits for the end of a pause.
    pub fn refuse_paused(&mut self) {
        let paused = std::mem::take(&mut self.paused).into_values().flatten();
        self.refused.extend(paused.map(|asked| asked.place));
    }

    /// Gives up what was refused for too long, and asks the rest of whoever leads now.
    fn ask_again(&mut self, now: Nanos) {
        if self.again.requests.is_empty() {
            return;
        }
        let Upstream { again, refused, .. } = self;
        again.requests.retain_mut(|asked| {
            let late = now >= *asked.refused_at.get_or_insert(now) + PATIENCE;
            refused.extend(late.then_some(asked.place));
            !late
        });
        let Some(asking) = self.asking.as_ref().filter(|_| self.leaves_at.is_none()) else { return };
        if self.again.by == Some(asking.leader) && now < self.again.next {
            return;
        }
        self.again.next = now + AGAIN_AFTER;
        let (latest, mut waits, mut behind) = (asking.latest(), BTreeSet::new(), VecDeque::new());
        while self.asking.as_ref().is_some_and(|asking| self.has_room(asking))
            && let Some(asked) = self.again.requests.pop_front()
        {
            // What its client asked later is answered, or refused as well, first.
            let (at, seq) = asked.place;
            if latest.get(&at).is_some_and(|later| *later > seq) || waits.contains(&at) {
                waits.insert(at);
                behind.push_back(asked);
                continue;
            }
            let (ask, args) = asked.decode();
            self.send(asked.place, ask, args, asked.refused_at);
        }
        behind.into_iter().rev().for_each(|asked| self.again.requests.push_front(asked));
    }

    /// Has this node's engine run what was refused elsewhere, as far as it takes it: this node leads now. As with requests of other nodes, a user
    /// who may not any more is told so, a pause holds them back, they have the time at which they are run (which is set with the judgement), and what a
    /// client asked behind a request that was put off waits for that one's end.
    pub fn run_again(&mut self, now: Nanos, engine: &mut (impl Runs + ?Sized), judge: &impl Judge) {
        // If one of them waits, a pause lasts.
        if let Some(first) = self.paused.values().next().and_then(VecDeque::front)
            && !judge.pauses(&first.decode().0)
        {
            self.end_pause();
        }
        if !self.serves || self.again.requests.is_empty() {
            return;
        }
        let mut stand_still: BTreeSet<usize> = self.put_off.iter().map(|(at, _)| *at).collect();
        // Whoever led before may yet answer what these clients asked later.
        stand_still.extend(self.asking.iter().flat_map(|asking| asking.latest().into_keys()));
        let mut behind = VecDeque::new();
        while let Some(mut asked) = self.again.requests.pop_front() {
            let (at, seq) = asked.place;
            if stand_still.contains(&at) {
                behind.push_back(asked);
                continue;
            }
            let (ask, args) = asked.decode();
            let mut args = args.to_vec();
            let judged = if self.holds(at) { Judged::Waits } else { judge.prepare(&ask, &mut args) };
            match judged {
                Judged::May => {}
                Judged::Waits => {
                    asked.refused_at = None;
                    self.paused.entry(at).or_default().push_back(asked);
                    continue;
                }
                Judged::Denied(why) => {
                    self.denied.push((asked.place, why));
                    continue;
                }
            }
            let token = pack(Owner::Client, at, seq);
            let request = Request { session: ask.session, ..Request::new(token, ask.procedure, &args) };
            match engine.submit(now, request) {
                Ok(Taken::PutOff) => {
                    stand_still.insert(at);
                    self.put_off.push(asked.place);
                }
                Ok(Taken::Placed) => {}
                Err(Refusal::Busy | Refusal::NotServing { .. }) => {
                    self.again.requests.push_front(asked);
                    break;
                }
                Err(_) => self.refused.push(asked.place),
            }
        }
        behind.into_iter().rev().for_each(|asked| self.again.requests.push_front(asked));
    }

    /// A request of a client has ended here.
    #[inline]
    pub fn ended(&mut self, place: Place) {
        if !self.put_off.is_empty() {
            self.put_off.retain(|known| *known != place);
        }
    }

    /// Bytes of requests that are not answered: they may have to be asked again.
    pub fn held_bytes(&self) -> usize {
        let again: usize =
            self.again.requests.iter().chain(self.paused.values().flatten()).map(|asked| asked.bytes).sum();
        self.asking.as_ref().map_or(0, |asking| asking.bytes) + again
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
        self.leaves_at = None;
        self.out.retain(|(to, _)| *to != asking.leader);
        let waits = !asking.asked.is_empty() || asking.lined > 0;
        // It may have been done: what its client asked before it must not be done behind it.
        for (at, seq) in asking.latest() {
            self.refuse_earlier((at, seq));
        }
        self.unknown.extend(asking.asked.into_iter().flatten().map(|asked| asked.place));
        waits.then_some(asking.leader)
    }

    /// Requests whose end nobody will tell.
    pub fn take_unknown(&mut self) -> Vec<Place> {
        std::mem::take(&mut self.unknown)
    }

    /// Requests that were refused, and are asked of nobody else.
    pub fn take_refused(&mut self) -> Vec<Place> {
        std::mem::take(&mut self.refused)
    }

    /// Requests that were to be run here, and what their clients are told instead.
    pub fn take_denied(&mut self) -> Vec<(Place, String)> {
        std::mem::take(&mut self.denied)
    }

    /// Whether a request that was put off is to be tried again.
    pub fn may_ask(&self, now: Nanos) -> bool {
        match &self.asking {
            _ if self.is_leaving() => false,
            Some(asking) => self.has_room(asking),
            None => self.serves || self.lacks_since.is_none_or(|since| now >= since + PATIENCE),
        }
    }

    /// When those that were put off are told that there is nobody, or whoever leads no more has had the time to answer.
    pub fn deadline(&self) -> Option<Nanos> {
        let lacks = self.lacks_since.map(|since| since + PATIENCE);
        let asks = self.asking.is_some() && self.leaves_at.is_none();
        let late = self.again.requests.iter().filter_map(|asked| Some(asked.refused_at? + PATIENCE)).min();
        let again = late.map(|late| if asks { self.again.next.min(late) } else { late });
        [lacks, again, self.leaves_at].into_iter().flatten().min()
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
            _ if self.is_leaving() => return Forwarded::Later,
            Some(asking) if self.has_room(asking) => {}
            Some(_) => return Forwarded::Later,
            None if self.may_ask(now) => return Forwarded::No,
            None => return Forwarded::Later,
        }
        let ask = Ask {
            number: 0,
            client,
            procedure: request.procedure,
            effect: request.effect,
            user: request.user.to_vec(),
            session: request.session,
        };
        self.send(place, ask, request.args, None);
        Forwarded::Sent
    }

    /// Sends a request to the one who is asked.
    fn send(&mut self, place: Place, ask: Ask, args: &[u8], refused_at: Option<Nanos>) {
        let asking = self.asking.as_mut().expect("it has room");
        let number = asking.first + asking.asked.len() as u64;
        let frame = Message::Ask(Ask { number, ..ask }).frame(args);
        let asked = Asked { place, bytes: args.len(), frame: frame.clone(), refused_at };
        asking.asked.push_back(Some(asked));
        asking.bytes += args.len();
        self.out.push((asking.leader, frame));
    }

    /// The leader has answered; whose request it was. `None`: one that was given up.
    pub fn answered(&mut self, from: NodeId, number: u64) -> Option<Place> {
        let place = self.take(from, number)?.place;
        self.refuse_earlier(place);
        Some(place)
    }

    /// The leader has refused a request; whose it was, if that one is to be told, for it is asked of nobody else.
    pub fn refused(&mut self, from: NodeId, number: u64, refusal: Refusal) -> Option<Place> {
        let asked = self.take(from, number)?;
        if !matches!(refusal, Refusal::NotServing { .. }) {
            self.refuse_earlier(asked.place);
            return Some(asked.place);
        }
        self.again.by = Some(from);
        self.again.requests.push_back(asked);
        None
    }

    fn take(&mut self, from: NodeId, number: u64) -> Option<Asked> {
        let asking = self.asking.as_mut().filter(|asking| asking.leader == from)?;
        let at = usize::try_from(number.checked_sub(asking.first)?).ok()?;
        let asked = asking.asked.get_mut(at)?.take()?;
        asking.bytes -= asked.bytes;
        while let Some(None) = asking.asked.front() {
            asking.asked.pop_front();
            asking.first += 1;
        }
        Some(asked)
    }

    /// A client has an answer: what it asked before that must not be run later.
    fn refuse_earlier(&mut self, answered: Place) {
        let Upstream { again, refused, .. } = self;
        again.requests.retain(|asked| {
            let earlier = asked.place.0 == answered.0 && asked.place.1 < answered.1;
            refused.extend(earlier.then_some(asked.place));
            !earlier
        });
    }

    /// A client waits for data: the leader puts it in line.
    pub fn line(&mut self, client: u64, keys: &[Vec<u8>]) {
        if let Some(asking) = &mut self.asking {
            asking.lined += 1;
            self.out.push((asking.leader, Message::Line { client }.frame(&encode_keys(keys))));
        }
    }

    /// A client that was put in line over this connection waits no more.
    pub fn leave(&mut self, client: u64, serial: u64) {
        if let Some(asking) = self.asking.as_mut().filter(|asking| asking.serial == serial) {
            asking.lined -= 1;
            self.out.push((asking.leader, Message::Leave { client }.frame(&[])));
        }
    }

    /// What is to be sent.
    pub fn drain(&mut self) -> std::vec::Drain<'_, (NodeId, Frame)> {
        self.out.drain(..)
    }
}

#[cfg(test)]
mod tests;
