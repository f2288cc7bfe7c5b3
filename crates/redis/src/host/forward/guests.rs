//! The side that serves: what other nodes' clients ask of this one.
//!
//! Requests of one connection are submitted in the order in which they came, so those of one client take effect in order. One that has to
//! wait (the engine is busy, writes are paused, users are not known yet, the other node takes no answers) has those behind it wait, too.
//! One that the engine puts off has those of the same client wait, and the other clients of that node go on.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use bytes::Bytes;
use highwater_core::clock::Ticks;
use highwater_core::{NodeId, Outcome, Timestamp, planted};
use highwater_seam::{Frame, Nanos, Refusal, Request, Taken};

use super::message::{Ask, Message, decode_keys};
use super::runs::{Judge, Judged, Runs};
use crate::acl::change::News;
use crate::acl::requests;
use crate::connection::place::is_nothing;
use crate::describe::{command_of, words};
use crate::host::token::{Owner, keeper, pack};
use crate::host::users::Gate;
use crate::host::watch::Watch;
use crate::redirect::{slot_of_request, slot_of_watch};
use crate::request::Effect;
use crate::{Door, EngineRequest, waiting};

/// Bytes of arguments and replies in a turn, about; a request costs some beside.
const WORK_PER_TURN: usize = 2 << 20;
const WORK_PER_REQUEST: usize = 1 << 10;
/// Lines that one node's clients may stand in.
const MAX_LINES: usize = 1 << 16;

/// What one other node may have here.
#[derive(Clone, Copy, Debug)]
pub struct GuestLimits {
    /// Bytes of requests that wait; one more is always taken.
    pub queued: usize,
    /// Bytes of replies that are executed and not sent; exceeded by one reply.
    pub owed: usize,
}

/// See the module.
pub struct Guests {
    door: Arc<Door>,
    watch: Watch,
    limits: GuestLimits,
    by_node: BTreeMap<NodeId, Guest>,
    /// Requests that the engine has, in order of submission; those in between that are released leave `None`.
    running: VecDeque<Option<Running>>,
    /// The number of the first.
    first: u64,
    lives: u64,
    /// The time of this turn, by this node's clock on the wall.
    unix_ms: u64,
    /// The arguments of the request that is being submitted.
    args: Vec<u8>,
    /// Something waits that could go on now.
    has_more: bool,
    out: Vec<(NodeId, Frame)>,
}

/// A node whose clients ask.
struct Guest {
    /// Which connection.
    life: u64,
    /// Its requests in order: what came, and how long the arguments are.
    queue: VecDeque<(Ask, Frame)>,
    /// Clients of which the engine has put a request off, and what they asked behind it, in order. Few at a time.
    put_off: BTreeMap<u64, VecDeque<(Ask, Frame)>>,
    queued: usize,
    /// Requests wait because it does not take replies.
    stalled: bool,
    /// Bytes of its replies that the engine holds.
    unreleased: usize,
    /// Its clients that wait for data, and for which keys.
    lines: BTreeMap<u64, Vec<Vec<u8>>>,
}

/// A request that the engine has taken.
struct Running {
    node: NodeId,
    life: u64,
    number: u64,
    /// Whose it is, if it is put off.
    put_off: Option<u64>,
    effect: Effect,
    /// What of its words somebody waits for; `Some(None)`: anybody is to look.
    wakes: Option<Option<Vec<Vec<u8>>>>,
    reply_bytes: usize,
}

/// What a try to submit came to.
enum Tried {
    Gone,
    Waits,
    Busy,
}

impl Judge for Guests {
    fn pauses(&self, ask: &Ask) -> bool {
        self.door.clients.pauses(ask.effect != Effect::Reads, self.unix_ms)
    }

    fn prepare(&self, ask: &Ask, args: &mut [u8]) -> Judged {
        self.door.procedures.set_time(ask.procedure, args, self.unix_ms);
        self.judge(ask, args)
    }
}

impl Guest {
    /// The requests that a client asked behind one that was put off, and is not any more, come before what its node asked later.
    fn let_go_on(&mut self, client: u64) {
        let behind = self.put_off.remove(&client).unwrap_or_default();
        behind.into_iter().rev().for_each(|asked| self.queue.push_front(asked));
    }

    /// Nothing is begun any more: nobody need wait.
    fn let_all_go_on(&mut self) {
        while let Some((client, _)) = self.put_off.first_key_value() {
            let client = *client;
            self.let_go_on(client);
        }
    }
}

impl Guests {
    /// Nobody yet.
    pub fn new(door: Arc<Door>, watch: Watch, limits: GuestLimits) -> Guests {
        Guests {
            door,
            watch,
            limits,
            by_node: BTreeMap::new(),
            running: VecDeque::new(),
            first: 0,
            lives: 0,
            unix_ms: 0,
            args: Vec::new(),
            has_more: false,
            out: Vec::new(),
        }
    }

    /// It is now so late on the wall: the time of the requests that are submitted from now on.
    pub fn tell_time(&mut self, unix_ms: u64) {
        self.unix_ms = unix_ms;
    }

    /// A node has a connection, and no request there yet.
    pub fn enter(&mut self, node: NodeId) {
        self.leave(node);
        self.lives += 1;
        let guest = Guest {
            life: self.lives,
            queue: VecDeque::new(),
            put_off: BTreeMap::new(),
            queued: 0,
            stalled: false,
            unreleased: 0,
            lines: BTreeMap::new(),
        };
        self.by_node.insert(node, guest);
    }

    /// Its connection is down: what it asked and was not begun is not done, and its clients stand in line no more.
    pub fn leave(&mut self, node: NodeId) {
        self.out.retain(|(to, _)| *to != node);
        for (client, keys) in self.by_node.remove(&node).map(|guest| guest.lines).into_iter().flatten() {
            self.door.waiting.leave(waiting::guest(node, client), &keys);
        }
    }

    /// Whether there is room for another request of a node.
    pub fn has_room(&self, node: NodeId) -> bool {
        self.by_node.get(&node).is_none_or(|guest| guest.queued < self.limits.queued)
    }

    /// A request came.
    pub fn ask(&mut self, node: NodeId, ask: Ask, frame: Frame) {
        if let Some(guest) = self.by_node.get_mut(&node) {
            guest.queued += frame.head.len() + frame.body.len();
            guest.queue.push_back((ask, frame));
        }
    }

    /// A client of that node waits for data: whatever is written from now on wakes it.
    pub fn line(&mut self, node: NodeId, client: u64, content: &[u8]) -> Result<(), &'static str> {
        let keys = decode_keys(content).map_err(|why| why.0)?;
        let Some(guest) = self.by_node.get_mut(&node) else { return Ok(()) };
        if guest.lines.len() >= MAX_LINES || guest.lines.contains_key(&client) {
            return Err("a line too many");
        }
        self.door.waiting.enter(waiting::guest(node, client), &keys);
        guest.lines.insert(client, keys);
        Ok(())
    }

    /// It waits no more.
    pub fn leave_line(&mut self, node: NodeId, client: u64) {
        let keys = self.by_node.get_mut(&node).and_then(|guest| guest.lines.remove(&client));
        if let Some(keys) = keys {
            self.door.waiting.leave(waiting::guest(node, client), &keys);
        }
    }

    /// There may be something for these clients of other nodes.
    pub fn wake(&mut self, clients: impl Iterator<Item = (NodeId, u64)>) {
        for (node, client) in clients {
            if self.by_node.get(&node).is_some_and(|guest| guest.lines.contains_key(&client)) {
                self.out.push((node, Message::Wake { client }.frame(&[])));
            }
        }
    }

    /// Submits what the engine takes. `sending`: bytes that wait for a node's socket.
    pub fn serve(
        &mut self,
        now: Nanos,
        engine: &mut (impl Runs + ?Sized),
        gate: Gate,
        ending: Option<Refusal>,
        sending: impl Fn(NodeId) -> usize,
    ) {
        self.has_more = false;
        let nodes: Vec<NodeId> = self.by_node.keys().copied().collect();
        let share = WORK_PER_TURN / nodes.len().max(1);
        for node in nodes {
            let mut work = 0;
            while work < share {
                let Some(guest) = self.by_node.get_mut(&node) else { break };
                if ending.is_some() {
                    guest.let_all_go_on();
                }
                let owed = guest.unreleased + sending(node);
                guest.stalled = !guest.queue.is_empty() && owed >= self.limits.owed && ending.is_none();
                if guest.stalled {
                    break;
                }
                let Some((ask, frame)) = guest.queue.pop_front() else { break };
                if !guest.put_off.is_empty()
                    && !planted!(ForwardedOvertakes)
                    && let Some(behind) = guest.put_off.get_mut(&ask.client)
                {
                    behind.push_back((ask, frame));
                    continue;
                }
                let len = frame.head.len() + frame.body.len();
                match self.submit(now, engine, gate, ending, node, &ask, &frame) {
                    Tried::Gone => {
                        let guest = self.by_node.get_mut(&node).expect("it is served");
                        guest.queued -= len;
                        work += len + WORK_PER_REQUEST;
                    }
                    tried => {
                        let guest = self.by_node.get_mut(&node).expect("it is served");
                        guest.queue.push_front((ask, frame));
                        if matches!(tried, Tried::Busy) {
                            return;
                        }
                        break;
                    }
                }
            }
            self.has_more |= work >= share;
        }
    }

    /// Whether a request may be submitted, by the pauses and users as this node knows them now.
    fn judge(&self, ask: &Ask, args: &[u8]) -> Judged {
        if self.pauses(ask) {
            return Judged::Waits;
        }
        let name = self.watch.names.get(usize::from(ask.procedure.0)).copied().unwrap_or_default();
        let once = ask.session.is_some();
        let asked = requests::Asked { user: &ask.user, procedure: ask.procedure, name, once };
        let Some(user) = self.door.access.user(&ask.user) else {
            return Judged::Denied("NOPERM the user does not exist any more".into());
        };
        match requests::check(&user, &asked, args, self.door.procedures) {
            Ok(()) => Judged::May,
            Err(error) => Judged::Denied(error.to_string()),
        }
    }

    #[allow(clippy::too_many_arguments, reason = "one place calls it, with what that place has")]
    fn submit(
        &mut self,
        now: Nanos,
        engine: &mut (impl Runs + ?Sized),
        gate: Gate,
        ending: Option<Refusal>,
        node: NodeId,
        ask: &Ask,
        frame: &Frame,
    ) -> Tried {
        let (_, args) = Message::of(frame).expect("it was decoded when it came");
        if let Some(refusal) = ending {
            return self.refuse(node, ask, args, refusal);
        }
        match gate {
            Gate::Open => {}
            Gate::Waits => return Tried::Waits,
            Gate::Refuses(refusal) => return self.refuse(node, ask, args, refusal),
        }
        match self.judge(ask, args) {
            Judged::May => {}
            Judged::Waits => return Tried::Waits,
            Judged::Denied(why) => {
                self.answer(node, ask.number, Outcome::Denied, Timestamp::ZERO, why.as_bytes());
                return Tried::Gone;
            }
        }
        self.args.clear();
        self.args.extend_from_slice(args);
        self.door.procedures.set_time(ask.procedure, &mut self.args, self.unix_ms);
        let token = pack(Owner::Keeper, keeper::GUESTS, self.first + self.running.len() as u64);
        let request = Request { session: ask.session, ..Request::new(token, ask.procedure, &self.args) };
        let (before, began) = (engine.unreleased_reply_bytes(), self.watch.stopwatch.now());
        match engine.submit(now, request) {
            Ok(taken) => {
                let reply_bytes = engine.unreleased_reply_bytes().saturating_sub(before);
                self.note_slow(node, ask, began);
                self.taken(node, ask, reply_bytes, taken);
                Tried::Gone
            }
            Err(Refusal::Busy) => Tried::Busy,
            Err(refusal) => {
                let args = std::mem::take(&mut self.args);
                let tried = self.refuse(node, ask, &args, refusal);
                self.args = args;
                tried
            }
        }
    }

    /// The engine has taken it: what is to be known when it is released.
    fn taken(&mut self, node: NodeId, ask: &Ask, reply_bytes: usize, taken: Taken) {
        crate::meter::add(&self.watch.meter.taken_for_others, 1);
        let waiting = &self.door.waiting;
        let wakes = match ask.effect {
            Effect::Writes | Effect::Tries if waiting.is_any() => Some(waiting.named_in(&self.args)),
            // Somebody may begin to wait before this is released.
            Effect::Writes | Effect::Tries | Effect::Commits => Some(None),
            Effect::Reads | Effect::Calls | Effect::Users => None,
        };
        let guest = self.by_node.get_mut(&node).expect("it is served");
        guest.unreleased += reply_bytes;
        let (life, number, effect) = (guest.life, ask.number, ask.effect);
        let put_off = (taken == Taken::PutOff).then_some(ask.client);
        if let Some(client) = put_off {
            guest.put_off.insert(client, VecDeque::new());
        }
        self.running.push_back(Some(Running { node, life, number, put_off, effect, wakes, reply_bytes }));
        self.args.shrink_to(64 << 10);
    }

    fn note_slow(&self, node: NodeId, ask: &Ask, began: Ticks) {
        let ended = self.watch.stopwatch.now();
        if self.watch.is_notable(began, ended) {
            let asked = EngineRequest {
                seq: 0,
                snapshot: false,
                freshness: None,
                session: ask.session,
                procedure: ask.procedure,
                args: &self.args,
                effect: ask.effect,
                user: &ask.user,
            };
            let words = words(&asked, self.watch.procedures, &self.watch.names);
            let command = command_of(&asked, self.watch.procedures);
            let from = format!("{node}, {}", command.spec.name);
            self.watch.keep((began, ended), &command, from, b"", words);
        }
    }

    fn refuse(&mut self, node: NodeId, ask: &Ask, args: &[u8], refusal: Refusal) -> Tried {
        let slot = match ask.procedure {
            exec if exec == self.door.procedures.exec => slot_of_request(args),
            watch if watch == self.door.procedures.watch => slot_of_watch(args),
            _ => 0,
        };
        let number = ask.number;
        self.out.push((node, Message::Refused { number, refusal, slot }.frame(&[])));
        Tried::Gone
    }

    fn answer(&mut self, node: NodeId, number: u64, outcome: Outcome, at: Timestamp, reply: &[u8]) {
        self.out.push((node, Message::Answer { number, outcome, at }.frame(reply)));
    }

    pub fn released(&mut self, number: u64, outcome: Outcome, at: Timestamp, reply: &[u8]) {
        let place = number.checked_sub(self.first).and_then(|at| usize::try_from(at).ok());
        let running = place.and_then(|at| self.running.get_mut(at)?.take());
        while let Some(None) = self.running.front() {
            self.running.pop_front();
            self.first += 1;
        }
        let Some(running) = running else { return };
        let Running { node, life, number, put_off, effect, wakes, reply_bytes } = running;
        if effect == Effect::Users {
            self.users_changed(reply);
        }
        let found = effect != Effect::Tries || !(is_nothing(reply) || reply.starts_with(b"-WRONGTYPE"));
        if let Some(wakes) = wakes.filter(|_| outcome == Outcome::Committed && found)
            && self.door.waiting.is_any()
        {
            match wakes {
                Some(keys) => self.door.waiting.wake(keys.iter().map(Vec::as_slice)),
                None => self.door.waiting.wake_all(),
            }
        }
        if let Some(guest) = self.by_node.get_mut(&node).filter(|guest| guest.life == life) {
            guest.unreleased -= reply_bytes;
            if let Some(client) = put_off {
                guest.let_go_on(client);
                self.has_more |= !guest.queue.is_empty();
            }
            self.answer(node, number, outcome, at, reply);
        }
    }

    /// A change of users is released: here they are others from now on, before anybody hears of it.
    fn users_changed(&self, reply: &[u8]) {
        match News::decode(reply) {
            Ok(news) => self.door.access.install(&news),
            Err(_) => self.door.access.read_again(),
        }
    }

    /// What is to be sent.
    pub fn drain(&mut self) -> std::vec::Drain<'_, (NodeId, Frame)> {
        self.out.drain(..)
    }

    /// Whether another turn would find something to do. `sending`: bytes that wait for a node's socket.
    pub fn has_more(&self, sending: impl Fn(NodeId) -> usize) -> bool {
        let goes_on = |(node, guest): (&NodeId, &Guest)| {
            guest.stalled && guest.unreleased + sending(*node) < self.limits.owed
        };
        self.has_more || self.by_node.iter().any(goes_on)
    }

    /// Whether anybody waits for an answer.
    pub fn owes(&self) -> bool {
        let waits = |guest: &Guest| guest.unreleased > 0 || !guest.queue.is_empty();
        !self.running.is_empty() || self.by_node.values().any(waits)
    }

    /// Bytes of requests that wait here.
    pub fn held_bytes(&self) -> usize {
        self.by_node.values().map(|guest| guest.queued).sum::<usize>() + self.args.capacity()
    }

    /// A frame that keeps no more memory than it needs.
    pub fn own(frame: Frame) -> Frame {
        let own = |bytes: Bytes| if bytes.len() < 64 << 10 { Bytes::copy_from_slice(&bytes) } else { bytes };
        Frame { head: own(frame.head), body: own(frame.body) }
    }
}
