//! One worker's part in forwarding (`server.forward`): the node's own code for both sides, between simulated connections and a simulated engine.
//!
//! Not drawn: clients that wait for data stand in line at the leader, and are woken by it; plans with forwarding have none.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use highwater_core::clock::Stopwatch;
use highwater_core::{NodeId, Outcome, ProcedureId, Timestamp};
use highwater_redis::host::forward::guests::Guests;
use highwater_redis::host::forward::message::Message;
use highwater_redis::host::forward::{Forwarded, GuestLimits, Runs, Upstream};
use highwater_redis::host::token::{Owner, unpack};
use highwater_redis::host::{Gate, Watch};
use highwater_redis::{Door, EngineRequest};
use highwater_seam::{Frame, Nanos, Refusal, Request, Taken};
use highwater_sim::World;

use crate::ledger::{Asked, Ledger, Whose};
use crate::library::Joined;
use crate::order::End;
use crate::wires::{Arrival, Came};

/// Bytes of arguments that may be under way to a leader, and of requests and replies that wait there.
const WINDOW: usize = 4 << 10;

/// News of a request that was forwarded.
pub struct Told {
    /// The client's connection.
    pub line: u64,
    /// Its number among the connection's requests.
    pub seq: u64,
    /// How it ended.
    pub outcome: Outcome,
    /// When.
    pub at: Timestamp,
    /// With which reply.
    pub bytes: Vec<u8>,
}

/// See the module.
pub struct Forward {
    door: Arc<Door>,
    upstream: Upstream,
    guests: Guests,
    inbox: VecDeque<Arrival>,
    /// The connection to each node.
    links: BTreeMap<NodeId, u64>,
    /// Clients' connections by the places that they have here.
    lines: Vec<u64>,
    places: BTreeMap<u64, usize>,
    /// Requests that are under way, and what is written down of them.
    asked: BTreeMap<(u64, u64), Option<usize>>,
    told: Vec<Told>,
}

impl Forward {
    /// Nobody is connected.
    pub fn new(worker: u16, door: Arc<Door>, stopwatch: Stopwatch) -> Forward {
        let watch = Watch::new(worker, stopwatch, || 0, door.procedures);
        let limits = GuestLimits { queued: WINDOW, owed: WINDOW };
        Forward {
            upstream: Upstream::new(true, WINDOW),
            guests: Guests::new(door.clone(), watch, limits),
            door,
            inbox: VecDeque::new(),
            links: BTreeMap::new(),
            lines: Vec::new(),
            places: BTreeMap::new(),
            asked: BTreeMap::new(),
            told: Vec::new(),
        }
    }

    /// Something has come, and is looked at when the worker's thread is at hand.
    pub fn arrive(&mut self, arrival: Arrival) {
        self.inbox.push_back(arrival);
    }

    /// Takes what has come, and looks who leads; on whom to hang up.
    pub fn look(&mut self, now: Nanos, standing: Result<(), Refusal>, ledger: &mut Ledger) -> Option<NodeId> {
        while let Some(arrival) = self.inbox.pop_front() {
            if let Some(later) = self.take(arrival, ledger) {
                self.inbox.push_front(later);
                break;
            }
        }
        let left = self.upstream.look(now, standing);
        if let Some(node) = left {
            self.down(node);
            ledger.mark("connections to earlier leaders that were cut");
        }
        for (place, seq) in self.upstream.take_unknown() {
            self.tell(place, seq, (Outcome::Unknown, Timestamp::ZERO), Vec::new());
        }
        for ((place, seq), why) in self.upstream.take_denied() {
            self.tell(place, seq, (Outcome::Denied, Timestamp::ZERO), why.into_bytes());
        }
        for (place, seq) in self.upstream.take_refused() {
            self.refused(place, seq, (Refusal::NotServing { ask: None }, 0), ledger);
        }
        left
    }

    fn down(&mut self, node: NodeId) {
        self.links.remove(&node);
        self.upstream.lost(node);
        self.guests.leave(node);
    }

    /// Takes what came over a connection; gives it back if there is no room for it.
    fn take(&mut self, arrival: Arrival, ledger: &mut Ledger) -> Option<Arrival> {
        let Arrival { from, serial, .. } = arrival;
        let frame = match &arrival.came {
            Came::Up => {
                self.links.insert(from, serial);
                self.upstream.ready(from);
                self.guests.enter(from);
                return None;
            }
            _ if self.links.get(&from) != Some(&serial) => return None,
            Came::Down => {
                self.down(from);
                return None;
            }
            Came::Frame(frame) => frame,
        };
        let (message, content) = Message::of(frame).expect("nodes say what can be read");
        match message {
            Message::Ask(_) if !self.guests.has_room(from) => return Some(arrival),
            Message::Ask(ask) => self.guests.ask(from, ask, frame.clone()),
            Message::Answer { number, outcome, at } => {
                if let Some((place, seq)) = self.upstream.answered(from, number) {
                    self.tell(place, seq, (outcome, at), content.to_vec());
                }
            }
            Message::Refused { number, refusal, slot } => {
                ledger.mark("forwarded requests that a node refused");
                if let Some((place, seq)) = self.upstream.refused(from, number, refusal) {
                    self.refused(place, seq, (refusal, slot), ledger);
                }
            }
            other => panic!("nobody waits for data: {other:?}"),
        }
        None
    }

    fn tell(&mut self, place: usize, seq: u64, (outcome, at): (Outcome, Timestamp), bytes: Vec<u8>) {
        let line = self.lines[place];
        self.asked.remove(&(line, seq));
        self.told.push(Told { line, seq, outcome, at, bytes });
    }

    /// Nobody has run it, and nobody will.
    fn refused(&mut self, place: usize, seq: u64, (refusal, slot): (Refusal, u16), ledger: &mut Ledger) {
        if let Some(Some(record)) = self.asked.get(&(self.lines[place], seq)).copied() {
            ledger.records[record].end = End::Nothing;
        }
        let why = self.door.referral(refusal, || slot).to_string();
        self.tell(place, seq, (Outcome::Denied, Timestamp::ZERO), why.into_bytes());
    }

    /// Answers for clients of this node.
    pub fn take_told(&mut self) -> Vec<Told> {
        std::mem::take(&mut self.told)
    }

    /// Whether what clients asked of another node comes before what they ask of this one.
    pub fn has_own_first(&self) -> bool {
        self.upstream.has_own_first()
    }

    /// The engine has refused a request, because another node serves.
    pub fn ask(&mut self, now: Nanos, line: u64, client: u64, request: &EngineRequest<'_>) -> Forwarded {
        let place = *self.places.entry(line).or_insert_with(|| {
            self.lines.push(line);
            self.lines.len() - 1
        });
        self.upstream.ask(now, request, client, (place, request.seq))
    }

    /// It was sent; `record`: what is judged.
    pub fn sent(&mut self, line: u64, seq: u64, record: Option<usize>) {
        self.asked.insert((line, seq), record);
    }

    /// A request that was to be asked again, and is run here, has ended.
    pub fn ended(&mut self, line: u64, seq: u64) {
        if let Some(place) = self.places.get(&line) {
            self.upstream.ended((*place, seq));
            self.asked.remove(&(line, seq));
        }
    }

    /// Has the engine run what other nodes ask, and what this node's clients asked of who leads no more.
    pub fn serve(
        &mut self,
        now: Nanos,
        unix_ms: u64,
        at: (NodeId, u64, u16),
        (world, ledger): (&mut World<Joined>, &mut Ledger),
        (gate, serves_since): (Gate, Option<Nanos>),
    ) {
        let Forward { upstream, guests, lines, door, .. } = self;
        guests.tell_time(unix_ms);
        let mut engine = Engine { at, world, ledger, lines, users: door.procedures.users, serves_since };
        if gate == Gate::Open {
            upstream.run_again(now, &mut engine, &*guests);
        }
        guests.serve(now, &mut engine, gate, None, |_| 0);
    }

    /// The engine has released what another node asked.
    pub fn released(&mut self, number: u64, outcome: Outcome, at: Timestamp, bytes: &[u8]) {
        self.guests.released(number, outcome, at, bytes);
    }

    /// Frames for other nodes.
    pub fn drain(&mut self) -> Vec<(NodeId, Frame)> {
        self.upstream.drain().chain(self.guests.drain()).collect()
    }
}

/// The engine of a worker, to whoever forwards.
struct Engine<'a> {
    at: (NodeId, u64, u16),
    world: &'a mut World<Joined>,
    ledger: &'a mut Ledger,
    lines: &'a [u64],
    /// The procedure that changes users.
    users: ProcedureId,
    serves_since: Option<Nanos>,
}

impl Runs for Engine<'_> {
    fn submit(&mut self, _: Nanos, request: Request<'_>) -> Result<Taken, Refusal> {
        let (node, process, worker) = self.at;
        let token = self.ledger.token();
        let taken = self.world.place(node, worker, token, request.procedure, request.args)?;
        let changes = request.procedure == self.users;
        self.ledger.weigh(request.args, changes, (node, process), self.serves_since);
        let whose = match unpack(request.token) {
            (Owner::Client, place, seq) => Whose::Line(self.lines[place], seq),
            (_, _, number) => Whose::Guest(number),
        };
        let record = self.ledger.begins(request.args);
        self.ledger.asked(Asked { node, process, worker, whose, record });
        self.ledger.mark("forwarded requests that were run");
        if taken == Taken::PutOff {
            self.ledger.mark("forwarded requests put off");
        }
        Ok(taken)
    }

    fn unreleased_reply_bytes(&self) -> usize {
        0
    }
}
