//! One client's connection: bytes in, engine requests and reply bytes out.
//!
//! Here is what its host drives; `taking` takes commands from the input, `standing` looks at what its user may do, `place`
//! is where it stands in line for data, `short` what goes on where there is no room for long replies.

mod calling;
mod emptying;
mod interacting;
pub(crate) mod place;
mod scanning;
mod short;
mod standing;
mod taking;
mod walking;

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use highwater_core::random::Random;
use highwater_core::{Outcome, ProcedureId, Timestamp, planted};
use highwater_seam::{Freshness, Refusal, Session, Taken};

use emptying::Emptying;
use place::Place;
use scanning::Scanning;
use walking::Walking;

use super::Door;
use super::callables::Call;
use super::client_state::{ClientState, Replies};
use super::command::{Awaited, Command, Control, Spec, Wait, flags};
use super::commands::transactions::{Exec, Transactions, queues, write_known};
use super::commands::{self, op};
use super::effort::Effort;
use super::errors::{CommandError, RequestError};
use super::frame::Parser;
use super::http::is_http;
use super::interactive::Open;
use super::moment::Moment;
use super::order::{KEEP_BYTES, Order, forget_front};
use super::redirect::{slot_of_request, slot_of_watch};
use super::reply::Reply;
use super::request::{Args, Effect, EngineRequest};
use super::single::{self, Typed};
use crate::meter::Meter;

/// Requests of one connection that the engine may hold at a time.
pub const MAX_IN_FLIGHT: usize = 1024;
/// While so many bytes of replies to a client are executed and not written, none of its commands is taken.
pub const MAX_HELD_BYTES: usize = 1 << 20;
/// Work of a command beside its bytes.
pub const COMMAND_WORK: i64 = 1 << 10;
/// Unread commands beyond so many bytes stay in the socket, unless one command alone is longer.
pub const MAX_UNREAD_BYTES: usize = 64 << 10;
/// The same while output waits. Many clients write a whole pipeline before they read the first reply: if we did not
/// read on meanwhile, both sides would wait for the other to read.
pub const MAX_BACKLOG_BYTES: usize = 16 << 20;

/// Places of parts that a parser keeps room for after a long command.
const KEEP_PARTS: usize = 1 << 10;

/// What a connection does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// Takes commands.
    Open,
    /// Offers a request that the engine has not taken yet; [`Connection::args`] holds its arguments.
    Offering { seq: u64, procedure: ProcedureId, kind: Offer, snapshot: bool, session: Option<Session> },
    /// Waits for the end of a request that the engine has put off: what comes next is not to take effect before it.
    PutOff { seq: u64 },
    /// Waits for a request that is done only if its reply is short; [`Connection::args`] still holds it, for it may come again.
    Short { seq: u64, kind: Offer, snapshot: bool },
    /// Waits for the versions of a `WATCH`; [`Connection::args`] still holds its keys.
    Watching { seq: u64 },
    /// Waits for a step of an open transaction: what is told has to be kept before the next one.
    Stepping { seq: u64 },
    /// Waits for what a command found that waits for data.
    Trying { seq: u64 },
    /// Found nothing, and waits until it is woken; [`Connection::args`] holds what it asks.
    Blocked { seq: u64 },
    /// Waits for a `FLUSHALL`, or for a step of it; [`Connection::args`] still holds it.
    Emptying { seq: u64 },
    /// Waits for a step of a walk through the names, or of a scan; [`Connection::args`] still holds it.
    Walking { seq: u64 },
    /// Waits for its change of users.
    Changing { seq: u64 },
    /// Waits for all requests before an `HW.TOKEN`, which tells what they have seen.
    Recalling { seq: u64 },
    /// Takes no more commands: the client quit, or broke the protocol.
    Finished,
}

/// What kind of request is offered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Offer {
    /// It changes no data.
    Reads,
    /// The same, and there are more steps of it.
    Walks,
    /// It may change data: whoever waits for that is to look.
    Writes,
    /// It is a procedure that may change data, but none that anybody waits for.
    Calls,
    /// It is a step of an open transaction: it changes nothing.
    Steps,
    /// It commits an open transaction.
    Commits,
    /// `WATCH`
    Watches,
    /// It waits for data.
    Waits,
    /// It removes all keys, or some of them.
    Empties,
    /// It changes users.
    Changes,
}

impl Offer {
    /// Whether it waits for the end of a pause of writes.
    fn writes(self) -> bool {
        self.effect() != Effect::Reads
    }

    fn effect(self) -> Effect {
        match self {
            Offer::Reads | Offer::Walks | Offer::Watches | Offer::Steps => Effect::Reads,
            Offer::Writes | Offer::Empties => Effect::Writes,
            Offer::Calls => Effect::Calls,
            Offer::Commits => Effect::Commits,
            Offer::Waits => Effect::Tries,
            Offer::Changes => Effect::Users,
        }
    }
}

/// A request that may change data, and its words, any of which somebody may wait for when it is released; `None`: nobody waited at all when
/// it was submitted, it runs a script, or they are long.
type Write = (u64, Option<Vec<Vec<u8>>>);

/// What a connection may do in one turn of its host.
#[derive(Clone, Copy, Debug)]
pub struct Allowance {
    /// Work in bytes: a command costs [`COMMAND_WORK`], its bytes and those of its reply, and the steps of what is answered here
    /// ([`effort`](super::effort)). It is spent until it is 0 or below, and how far below nobody knows before: a single command may be
    /// long, and so may be its reply.
    pub work: i64,
    /// While so many bytes of replies are executed and not written, no command is taken.
    pub max_held: usize,
    /// There is room for short replies alone: what may have a long one [waits](Connection::needs_room).
    pub short: bool,
}

impl Allowance {
    /// As much as one connection may do where nobody else waits.
    pub const WHOLE: Allowance = Allowance { work: i64::MAX, max_held: MAX_HELD_BYTES, short: false };
}

/// A client's connection; see the [module](super) for how a host drives it.
pub struct Connection {
    door: Arc<Door>,
    client: ClientState,
    transactions: Transactions,
    /// The transaction that `HW.BEGIN` opened, or what is left of it.
    open: Option<Open>,
    /// Its step that the engine has.
    step: Option<u64>,
    /// Bytes received; the first `taken` belong to commands that were taken.
    input: Vec<u8>,
    taken: usize,
    parser: Parser,
    /// The input holds no complete command.
    starved: bool,
    /// A line of an HTTP request came.
    spoke_http: bool,
    /// It began with TLS's first bytes.
    spoke_tls: bool,
    stage: Stage,
    /// The command being taken, encoded as a request of its own.
    args: Vec<u8>,
    /// The version of the users by which that command may be run.
    ///
    /// Invariant: nothing is offered under any other version. [`Caller::seen`](super::acl::Caller::seen) is no measure of it: whoever hosts the
    /// connection has it look at every change of users, and what was admitted before is not looked at by that.
    admitted_by: u64,
    /// The cost of what was answered here, of the command being taken.
    effort: Effort,
    order: Order,
    /// Where this client stands in line, if it waits for data.
    place: Option<Place>,
    /// How often it has begun to wait for data.
    waits_begun: u64,
    /// How far its `FLUSHALL` has got, if it is asked in steps.
    emptying: Option<Emptying>,
    /// How far its walk through the names has got.
    walking: Option<Walking>,
    /// Its scan that goes on in the middle of a crowd.
    scanning: Option<Scanning>,
    /// Requests in flight that may change data.
    writes: VecDeque<Write>,
    /// `HW.CALL`s that are offered or in flight, oldest first.
    calls: VecDeque<Call>,
    /// Seeds of requests.
    random: Random,
    /// What is on offer is an `EXEC` that ordered a pause itself: it goes ahead of it.
    ahead_of_pause: bool,
    /// The freshness that reads of snapshots asked when the last request was submitted.
    asked_freshness: Option<Freshness>,
    /// No pause holds it any more: its node ends, and nothing that it asks is executed.
    past_pauses: bool,
    /// Its user was deleted.
    evicted: bool,
    /// The request whose reply turned out not to be short.
    long: Option<u64>,
    /// The next command is answered here, and may have a long reply: it stays in the input until there is room.
    long_answer: bool,
    /// Where its commands are counted, if they are.
    meter: Option<Arc<Meter>>,
}

impl Connection {
    /// A connection that begins at this moment, in Unix time in ms. `id` is what `CLIENT ID` and `HELLO` answer: unique on this node.
    pub fn new(id: u64, door: Arc<Door>, unix_ms: u64) -> Connection {
        let seed = door.salt ^ id.rotate_left(32) ^ u64::from(door.node.0).rotate_right(8);
        Connection {
            place: None,
            waits_begun: 0,
            emptying: None,
            walking: None,
            scanning: None,
            writes: VecDeque::new(),
            calls: VecDeque::new(),
            random: Random::new(seed),
            ahead_of_pause: false,
            asked_freshness: None,
            past_pauses: false,
            evicted: false,
            long: None,
            long_answer: false,
            client: ClientState::new(id, &door.clients, &door.access, unix_ms),
            door,
            transactions: Transactions::default(),
            open: None,
            step: None,
            input: Vec::new(),
            taken: 0,
            parser: Parser::default(),
            starved: true,
            spoke_http: false,
            spoke_tls: false,
            stage: Stage::Open,
            args: Vec::new(),
            admitted_by: 0,
            effort: Effort::default(),
            order: Order::default(),
            meter: None,
        }
    }

    /// The same, and its commands are counted.
    pub fn metered(mut self, meter: Arc<Meter>) -> Connection {
        self.meter = Some(meter);
        self
    }

    /// What its client has told to be called; empty: nothing.
    pub fn name(&self) -> &[u8] {
        &self.client.name
    }

    /// Says what time it is: what is requested from now on is at that moment.
    pub fn tell_time(&mut self, unix_ms: u64) {
        self.client.unix_ms = unix_ms;
    }

    /// Says who is at the other end, and at this one.
    pub fn introduce(&mut self, address: String, local: String) {
        let mut words = self.client.card().words();
        (words.address, words.local) = (address, local);
    }

    /// No pause holds it from here on: its node ends, and will refuse what it asks.
    pub fn leave_pauses(&mut self) {
        self.past_pauses = true;
    }

    /// Whether the next command would wait for the end of a pause, or does.
    pub fn is_paused(&self) -> bool {
        match self.stage {
            Stage::Offering { kind, .. } => self.is_held(kind),
            Stage::Open => !self.past_pauses && self.door.clients.pauses(false, self.client.unix_ms),
            _ => false,
        }
    }

    /// Whether what is on offer waits for reads of another freshness: one that asks for less would be answered with an older moment.
    fn would_overtake(&self, snapshot: bool) -> bool {
        snapshot && self.client.freshness != self.asked_freshness && self.order.in_flight() > 1
    }

    /// Whether it has asked something that a pause holds back: it is owed a reply, however long it has been silent.
    pub fn is_held_back(&self) -> bool {
        self.is_paused() && (!self.starved || self.stage != Stage::Open)
    }

    /// Whether a pause holds what is on offer.
    fn is_held(&self, kind: Offer) -> bool {
        let goes_ahead = self.ahead_of_pause || self.past_pauses;
        !goes_ahead && self.door.clients.pauses(kind.writes(), self.client.unix_ms)
    }

    /// `INFO` tells how many clients a pause holds back.
    #[inline]
    fn tell_of_pause(&self) {
        let card = self.client.card();
        if self.door.clients.last_pause().until_ms != 0 || card.paused.load(Relaxed) {
            card.paused.store(self.is_held_back(), Relaxed);
        }
    }

    /// Takes bytes from the socket. Parses nothing yet.
    pub fn receive(&mut self, bytes: &[u8]) {
        if self.stage != Stage::Finished {
            self.input.extend_from_slice(bytes);
            self.starved = self.parser.lacks(self.input.len() - self.taken);
            self.tell_of_pause();
        }
    }

    /// Whether the host should read more from the socket. False while enough unread input waits, and once the
    /// connection takes no more commands; [`next`](Self::next) and [`wrote`](Self::wrote) may change it.
    pub fn accepts_input(&self) -> bool {
        let unread = self.input.len() - self.taken;
        let stranger = self.client.caller.needs_authentication();
        let most = if stranger || self.output().is_empty() { MAX_UNREAD_BYTES } else { MAX_BACKLOG_BYTES };
        self.stage != Stage::Finished && (self.starved || unread < most)
    }

    /// Bytes of replies that are executed and not written.
    pub fn held_bytes(&self) -> usize {
        self.order.held_bytes()
    }

    /// Whether [`next`](Self::next) could go on without new input: with an allowance, and once it holds less.
    pub fn has_more(&self) -> bool {
        match self.stage {
            Stage::Offering { snapshot, .. } => !self.is_paused() && !self.would_overtake(snapshot),
            Stage::Open => !self.starved && self.order.in_flight() < MAX_IN_FLIGHT && !self.is_paused(),
            Stage::PutOff { .. }
            | Stage::Short { .. }
            | Stage::Watching { .. }
            | Stage::Stepping { .. }
            | Stage::Trying { .. }
            | Stage::Blocked { .. }
            | Stage::Emptying { .. }
            | Stage::Walking { .. }
            | Stage::Changing { .. }
            | Stage::Recalling { .. }
            | Stage::Finished => false,
        }
    }

    /// The next engine request, if there is one; the same one until it is [`submitted`](Self::submitted) or
    /// [`refused`](Self::refused). Answers local commands on the way. `None`: needs input, waits for a `WATCH`, for a request that was put off
    /// or for what an `HW.TOKEN` tells of, has too much in flight, waits for the client to read, has used its allowance up, or takes no
    /// more commands.
    #[allow(clippy::should_implement_trait, reason = "what it gives borrows from the connection")]
    pub fn next(&mut self, allowance: &mut Allowance) -> Option<EngineRequest<'_>> {
        let max_held = allowance.max_held.min(MAX_HELD_BYTES);
        self.tell_of_pause();
        if self.is_paused() {
            return None;
        }
        self.long_answer &= allowance.short;
        while matches!(self.stage, Stage::Open)
            && self.order.in_flight() < MAX_IN_FLIGHT
            && allowance.work > 0
            && self.held_bytes() < max_held
        {
            if !self.take_command(allowance) {
                break;
            }
        }
        self.tell_of_pause();
        self.look_at_what_is_offered();
        match self.stage {
            Stage::Offering { kind, snapshot, .. } if self.is_held(kind) || self.would_overtake(snapshot) => {
                None
            }
            Stage::Offering { .. } if allowance.short && self.needs_room() => None,
            Stage::Offering { seq, procedure, kind, snapshot, session } if self.held_bytes() < max_held => {
                self.prepare(procedure, kind, session, allowance.short);
                let freshness = self.client.freshness.filter(|_| snapshot);
                let (args, user) = (&self.args[..], self.client.caller.user().name());
                let effect = kind.effect();
                Some(EngineRequest { seq, snapshot, freshness, session, procedure, args, effect, user })
            }
            _ => None,
        }
    }

    /// The engine took the request that [`next`](Self::next) offered, and holds so many bytes of its reply already. While it is put off
    /// the next one is not offered.
    ///
    /// # Panics
    /// If that was another one.
    pub fn submitted(&mut self, seq: u64, reply_bytes: usize, taken: Taken) {
        let kind = self.offered(seq);
        self.ahead_of_pause = false;
        if matches!(self.stage, Stage::Offering { snapshot: true, .. }) {
            self.asked_freshness = self.client.freshness;
        }
        self.order.expect(seq, reply_bytes);
        if matches!(kind, Offer::Writes | Offer::Waits) {
            let waiting = &self.door.waiting;
            let named = if waiting.is_any() { waiting.named_in(&self.args) } else { None };
            self.writes.push_back((seq, named));
        }
        if kind == Offer::Commits {
            // Whatever its steps wrote: that is no request whose words could be looked at.
            self.writes.push_back((seq, None));
        }
        if kind == Offer::Steps {
            self.step = Some(seq);
        }
        if let Some(place) = &mut self.place {
            place.timed = true;
        }
        self.stage = match kind {
            Offer::Reads | Offer::Writes if self.is_kept_short() => {
                let Stage::Offering { snapshot, .. } = self.stage else { unreachable!("it was offered") };
                Stage::Short { seq, kind, snapshot }
            }
            Offer::Watches => Stage::Watching { seq },
            Offer::Steps => Stage::Stepping { seq },
            Offer::Waits => Stage::Trying { seq },
            Offer::Empties => Stage::Emptying { seq },
            Offer::Walks => Stage::Walking { seq },
            Offer::Changes => Stage::Changing { seq },
            Offer::Reads | Offer::Writes | Offer::Calls | Offer::Commits => match taken {
                Taken::PutOff if !planted!(PipelineUnordered) => Stage::PutOff { seq },
                _ => Stage::Open,
            },
        };
        if matches!(self.stage, Stage::Open | Stage::PutOff { .. }) {
            self.args.clear();
            self.args.shrink_to(KEEP_BYTES);
        }
    }

    /// The engine did not take the request. `Busy` leaves it where it was; the others answer it with an error.
    ///
    /// # Panics
    /// If another one was offered.
    pub fn refused(&mut self, seq: u64, refusal: Refusal) {
        let kind = self.offered(seq);
        if refusal == Refusal::Busy {
            return;
        }
        if self.take_back(seq, kind) {
            return;
        }
        let slot = match kind {
            Offer::Watches => slot_of_watch(&self.args),
            Offer::Reads | Offer::Walks | Offer::Writes | Offer::Waits | Offer::Empties => {
                slot_of_request(&self.args)
            }
            Offer::Calls | Offer::Steps | Offer::Commits | Offer::Changes => 0,
        };
        self.fail(seq, |door| door.referral(refusal, || slot));
    }

    /// Takes back the request that was on offer, which has no answer yet. Whether it was given one: it was begun.
    fn take_back(&mut self, seq: u64, kind: Offer) -> bool {
        self.stage = Stage::Open;
        self.ahead_of_pause = false;
        self.place = None;
        self.walking = None;
        self.scanning = None;
        self.take_call(seq);
        if kind == Offer::Steps {
            self.step_refused();
        }
        if kind == Offer::Empties && self.emptying_refused(seq) {
            return true;
        }
        if kind == Offer::Watches {
            self.transactions.watch_failed();
        }
        false
    }

    /// Checks that this request is on offer; what it is.
    fn offered(&self, seq: u64) -> Offer {
        match self.stage {
            Stage::Offering { seq: offered, kind, .. } if offered == seq => kind,
            other => panic!("request {seq} is not on offer: {other:?}"),
        }
    }

    /// The engine released a reply, about what was [`at`](highwater_seam::Released::at) that moment.
    ///
    /// # Panics
    /// If no such request is in flight.
    pub fn released(&mut self, seq: u64, outcome: Outcome, at: Timestamp, bytes: &[u8]) {
        if self.evicted {
            return;
        }
        self.client.seen = self.client.seen.max(at);
        let awaited = self.awaits(seq);
        if awaited && self.comes_again(seq, outcome, bytes) {
            return;
        }
        let goes_on = awaited
            && (self.goes_on_waiting(seq, outcome, bytes)
                || self.goes_on_emptying(seq, outcome, bytes)
                || self.goes_on_scanning(seq, outcome, bytes)
                || self.goes_on_walking(seq, outcome, bytes));
        self.wake_others(seq, outcome == Outcome::Committed && !goes_on);
        if !goes_on {
            self.answer_released(seq, outcome, bytes);
            self.recall();
        }
    }

    /// Whether what comes next waits for this request.
    #[inline]
    fn awaits(&self, seq: u64) -> bool {
        match self.stage {
            Stage::Open | Stage::Finished => false,
            Stage::Offering { seq: awaited, .. }
            | Stage::Short { seq: awaited, .. }
            | Stage::PutOff { seq: awaited }
            | Stage::Watching { seq: awaited }
            | Stage::Stepping { seq: awaited }
            | Stage::Trying { seq: awaited }
            | Stage::Blocked { seq: awaited }
            | Stage::Emptying { seq: awaited }
            | Stage::Walking { seq: awaited }
            | Stage::Changing { seq: awaited }
            | Stage::Recalling { seq: awaited } => awaited == seq,
        }
    }

    fn answer_released(&mut self, seq: u64, outcome: Outcome, bytes: &[u8]) {
        let mut changes = false;
        if self.awaits(seq) {
            match self.stage {
                Stage::Offering { .. } => panic!("request {seq} is on offer, and was released"),
                Stage::PutOff { .. } => self.stage = Stage::Open,
                Stage::Watching { .. } => return self.watch_released(seq, outcome, bytes),
                Stage::Changing { .. } => changes = true,
                _ => {}
            }
        }
        if self.step == Some(seq) {
            self.step = None;
            if self.step_released(seq, outcome, bytes) {
                return;
            }
        }
        let call = self.take_call(seq);
        let bytes = if changes { self.users_changed(bytes) } else { bytes };
        match outcome {
            Outcome::Committed | Outcome::RolledBack | Outcome::BadRequest => {
                if bytes.first() == Some(&b'-') {
                    self.door.clients.count_error(&bytes[1..]);
                }
                match call {
                    Some(call) => self.order.answer(seq, |out| call.answer(outcome, bytes, out)),
                    // Without any reply the next one would be taken for it.
                    None if bytes.is_empty() => self.fail(seq, |_| RequestError::Malformed),
                    None => self.order.answer(seq, |out| out.extend_from_slice(bytes)),
                }
            }
            Outcome::Conflict => self.fail(seq, |_| RequestError::Conflict),
            Outcome::TooLarge => {
                let limits = std::str::from_utf8(bytes).unwrap_or("its limits are unknown");
                self.fail(seq, |_| RequestError::TooLarge { limits });
            }
            Outcome::OutOfMemory => self.fail(seq, |_| RequestError::OutOfMemory),
            Outcome::DiskFull => self.fail(seq, |_| RequestError::DiskFull),
            Outcome::Denied => self.deny(seq, bytes),
            Outcome::Unknown => self.fail(seq, |_| RequestError::Unknown),
        }
    }

    fn watch_released(&mut self, seq: u64, outcome: Outcome, versions: &[u8]) {
        self.stage = Stage::Open;
        if outcome == Outcome::Committed {
            self.transactions.watched(&self.args, versions);
            let protocol = self.client.protocol;
            return self.order.answer(seq, |out| Reply::new(out, protocol).ok());
        }
        self.transactions.watch_failed();
        match outcome {
            Outcome::Unknown => self.fail(seq, |_| RequestError::Unknown),
            Outcome::Denied => self.deny(seq, versions),
            _ => self.fail(seq, |_| RequestError::Conflict),
        }
    }

    fn deny(&mut self, seq: u64, why: &[u8]) {
        let why = std::str::from_utf8(why).unwrap_or("ERR denied");
        self.fail(seq, |_| RequestError::Denied { why });
    }

    fn fail<'a>(&'a mut self, seq: u64, error: impl FnOnce(&'a Door) -> RequestError<'a>) {
        let error = error(&self.door);
        let protocol = self.client.protocol;
        let clients = &self.door.clients;
        self.order.answer(seq, |out| {
            let start = out.len() + 1;
            Reply::new(out, protocol).error(error);
            clients.count_error(&out[start..]);
        });
    }

    /// Bytes that are ready for the socket.
    pub fn output(&self) -> &[u8] {
        self.order.output()
    }

    /// The first `n` bytes of [`output`](Self::output) were written.
    pub fn wrote(&mut self, n: usize) {
        self.order.wrote(n);
    }

    /// Nothing more will come: close once the output is written.
    pub fn closing(&self) -> bool {
        self.stage == Stage::Finished && self.order.in_flight() == 0
    }

    /// It sent a line of an HTTP request, and nothing behind that was looked at.
    pub fn spoke_http(&self) -> bool {
        self.spoke_http
    }

    /// It began with TLS's first bytes, and nothing behind them was looked at.
    pub fn spoke_tls(&self) -> bool {
        self.spoke_tls
    }

    /// Bytes of commands that are received, queued or watched.
    pub fn pending_bytes(&self) -> usize {
        self.input.len() - self.taken
            + self.args.len()
            + self.transactions.pending_bytes()
            + self.open.as_ref().map_or(0, Open::pending_bytes)
    }

    /// Memory of what was received and not executed, in bytes.
    pub fn request_memory(&self) -> usize {
        let buffers = self.input.capacity() + self.args.capacity();
        let open = self.open.as_ref().map_or(0, Open::memory_bytes);
        let scanning = self.scanning.as_ref().map_or(0, Scanning::memory_bytes);
        buffers + self.transactions.memory_bytes() + open + self.parser.memory_bytes() + scanning
    }

    /// Memory of what was released and not written, in bytes.
    pub fn reply_memory(&self) -> usize {
        self.order.memory_bytes() + self.walking.as_ref().map_or(0, Walking::memory_bytes)
    }

    /// Nothing happened here for a while: gives back memory that holds nothing.
    pub fn rest(&mut self) {
        self.input.drain(..self.taken);
        self.taken = 0;
        self.input.shrink_to_fit();
        if matches!(self.stage, Stage::Open | Stage::Finished) {
            self.args = Vec::new();
        }
        self.parser.rest(0);
        self.transactions.rest();
        self.order.rest();
    }
}
