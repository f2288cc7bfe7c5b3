//! One client's connection: bytes in, engine requests and reply bytes out.

use std::collections::VecDeque;
use std::sync::Arc;

use highwater_core::random::Random;
use highwater_core::{Outcome, ProcedureId, Timestamp};
use highwater_engines::seam::{Refusal, Session};

use super::Door;
use super::client_state::ClientState;
use super::command::{Command, Control, Data, Local};
use super::commands::blocking::{Wait, wait_of};
use super::commands::connection as local;
use super::commands::transactions::{Exec, Transactions, queues, write_known};
use super::errors::{CommandError, RequestError};
use super::frame::Parser;
use super::http::is_http;
use super::moment::Moment;
use super::order::{KEEP_BYTES, Order, forget_front};
use super::reply::Reply;
use super::request::{Args, EngineRequest};
use super::single::{self, Typed};

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
    /// Waits for the versions of a `WATCH`; [`Connection::args`] still holds its keys.
    Watching { seq: u64 },
    /// Waits for what a command found that waits for data.
    Trying { seq: u64 },
    /// Found nothing, and waits until it is woken; [`Connection::args`] holds what it asks.
    Blocked { seq: u64 },
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
    /// It may change data: whoever waits for that is to look.
    Writes,
    /// `WATCH`
    Watches,
    /// It waits for data.
    Waits,
}

/// A client in line.
struct Place {
    door: Arc<Door>,
    client: u64,
    wait: Wait,
    /// It has looked before.
    looked: bool,
    /// Somebody wrote while it looked.
    woken: bool,
    /// Its time is over.
    late: bool,
}

impl Place {
    /// At the end of the line; whether others are in front of it for every key.
    fn enter(&self) -> bool {
        self.door.waiting.enter(self.client, &self.wait.keys)
    }

    fn new(door: Arc<Door>, client: u64, wait: Wait) -> Place {
        Place { door, client, wait, looked: false, woken: false, late: false }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.door.waiting.leave(self.client, &self.wait.keys);
    }
}

/// A request that may change data, and what of its words somebody waited for when it was submitted; `None`: nobody waited at all.
type Write = (u64, Option<Vec<Vec<u8>>>);

/// What a connection may do in one turn of its host.
#[derive(Clone, Copy, Debug)]
pub struct Allowance {
    /// Work in bytes: a command costs [`COMMAND_WORK`], its bytes and those of its reply. It is spent until it is 0 or
    /// below, and how far below nobody knows before: a single command may be long, and so may be its reply.
    pub work: i64,
    /// While so many bytes of replies are executed and not written, no command is taken.
    pub max_held: usize,
}

impl Allowance {
    /// As much as one connection may do where nobody else waits.
    pub const WHOLE: Allowance = Allowance { work: i64::MAX, max_held: MAX_HELD_BYTES };
}

/// A client's connection; see the [module](super) for how a host drives it.
pub struct Connection {
    door: Arc<Door>,
    client: ClientState,
    transactions: Transactions,
    /// Bytes received; the first `taken` belong to commands that were taken.
    input: Vec<u8>,
    taken: usize,
    parser: Parser,
    /// The input holds no complete command.
    starved: bool,
    /// A line of an HTTP request came.
    spoke_http: bool,
    stage: Stage,
    /// The command being taken, encoded as a request of its own.
    args: Vec<u8>,
    order: Order,
    /// Where this client stands in line, if it waits for data.
    place: Option<Place>,
    /// Requests in flight that may change data.
    writes: VecDeque<Write>,
    /// Seeds of requests.
    random: Random,
}

impl Connection {
    /// A fresh connection. `id` is what `CLIENT ID` and `HELLO` answer: unique on this node.
    pub fn new(id: u64, door: Arc<Door>) -> Connection {
        let seed = door.salt ^ id.rotate_left(32) ^ u64::from(door.node.0).rotate_right(8);
        Connection {
            place: None,
            writes: VecDeque::new(),
            random: Random::new(seed),
            door,
            client: ClientState::new(id),
            transactions: Transactions::default(),
            input: Vec::new(),
            taken: 0,
            parser: Parser::default(),
            starved: true,
            spoke_http: false,
            stage: Stage::Open,
            args: Vec::new(),
            order: Order::default(),
        }
    }

    /// Says what time it is: what is requested from now on is at that moment.
    pub fn tell_time(&mut self, unix_ms: u64) {
        self.client.unix_ms = unix_ms;
    }

    /// Takes bytes from the socket. Parses nothing yet.
    pub fn receive(&mut self, bytes: &[u8]) {
        if self.stage != Stage::Finished {
            self.input.extend_from_slice(bytes);
            self.starved = self.parser.lacks(self.input.len() - self.taken);
        }
    }

    /// Whether the host should read more from the socket. False while enough unread input waits, and once the
    /// connection takes no more commands; [`next`](Self::next) and [`wrote`](Self::wrote) may change it.
    pub fn accepts_input(&self) -> bool {
        let unread = self.input.len() - self.taken;
        let most = if self.output().is_empty() { MAX_UNREAD_BYTES } else { MAX_BACKLOG_BYTES };
        self.stage != Stage::Finished && (self.starved || unread < most)
    }

    /// Bytes of replies that are executed and not written.
    pub fn held_bytes(&self) -> usize {
        self.order.held_bytes()
    }

    /// Whether [`next`](Self::next) could go on without new input: with an allowance, and once it holds less.
    pub fn has_more(&self) -> bool {
        match self.stage {
            Stage::Offering { .. } => true,
            Stage::Open => !self.starved && self.order.in_flight() < self.door.most_in_flight(),
            Stage::Watching { .. }
            | Stage::Trying { .. }
            | Stage::Blocked { .. }
            | Stage::Recalling { .. }
            | Stage::Finished => false,
        }
    }

    /// The next engine request, if there is one; the same one until it is [`submitted`](Self::submitted) or
    /// [`refused`](Self::refused). Answers local commands on the way. `None`: needs input, waits for a `WATCH` or for what an `HW.TOKEN` tells of, has
    /// too much in flight, waits for the client to read, has used its allowance up, or takes no more commands.
    #[allow(clippy::should_implement_trait, reason = "what it gives borrows from the connection")]
    pub fn next(&mut self, allowance: &mut Allowance) -> Option<EngineRequest<'_>> {
        let max_held = allowance.max_held.min(MAX_HELD_BYTES);
        while self.stage == Stage::Open
            && self.order.in_flight() < self.door.most_in_flight()
            && allowance.work > 0
            && self.held_bytes() < max_held
        {
            if !self.take_command(allowance) {
                break;
            }
        }
        match self.stage {
            Stage::Offering { seq, procedure, snapshot, session, .. } if self.held_bytes() < max_held => {
                let freshness = self.client.freshness.filter(|_| snapshot);
                Some(EngineRequest { seq, snapshot, freshness, session, procedure, args: &self.args })
            }
            _ => None,
        }
    }

    /// The engine took the request that [`next`](Self::next) offered, and holds so many bytes of its reply already.
    ///
    /// # Panics
    /// If that was another one.
    pub fn submitted(&mut self, seq: u64, reply_bytes: usize) {
        let kind = self.offered(seq);
        self.order.expect(seq, reply_bytes);
        if matches!(kind, Offer::Writes | Offer::Waits) {
            let waiting = &self.door.waiting;
            let named = waiting.is_any().then(|| waiting.named_in(&self.args));
            self.writes.push_back((seq, named));
        }
        self.stage = match kind {
            Offer::Watches => Stage::Watching { seq },
            Offer::Waits => Stage::Trying { seq },
            Offer::Reads | Offer::Writes => Stage::Open,
        };
        if self.stage == Stage::Open {
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
        self.stage = Stage::Open;
        self.place = None;
        if kind == Offer::Watches {
            self.transactions.watch_failed();
        }
        self.fail(seq, |door| {
            let ask = match refusal {
                Refusal::NotServing { ask } => ask,
                Refusal::NoQuorum | Refusal::Busy | Refusal::Unsupported => None,
            };
            let address = ask.and_then(|node| door.address(node));
            match refusal {
                Refusal::NotServing { ask } if door.leaderless => RequestError::Elsewhere(ask, address),
                _ => RequestError::Refused(refusal, address),
            }
        });
    }

    /// Checks that this request is on offer; what it is.
    fn offered(&self, seq: u64) -> Offer {
        match self.stage {
            Stage::Offering { seq: offered, kind, .. } if offered == seq => kind,
            other => panic!("request {seq} is not on offer: {other:?}"),
        }
    }

    /// The engine released a reply, about what was [`at`](highwater_engines::Released::at) that moment.
    ///
    /// # Panics
    /// If no such request is in flight.
    pub fn released(&mut self, seq: u64, outcome: Outcome, at: Timestamp, bytes: &[u8]) {
        self.client.seen = self.client.seen.max(at);
        let goes_on = self.goes_on_waiting(seq, outcome, bytes);
        self.wake_others(seq, outcome == Outcome::Committed && !goes_on);
        if !goes_on {
            self.answer_released(seq, outcome, bytes);
            self.recall();
        }
    }

    /// Whoever waits for what was written is to look.
    fn wake_others(&mut self, seq: u64, wrote: bool) {
        let Some(at) = self.writes.iter().position(|(written, _)| *written == seq) else { return };
        let (_, named) = self.writes.remove(at).expect("it was found there");
        if wrote && self.door.waiting.is_any() {
            match named {
                Some(keys) => self.door.waiting.wake(keys.iter().map(Vec::as_slice)),
                None => self.door.waiting.wake_all(),
            }
        }
    }

    /// Whether this is a command that found nothing and has time left.
    fn goes_on_waiting(&mut self, seq: u64, outcome: Outcome, bytes: &[u8]) -> bool {
        if self.stage != (Stage::Trying { seq }) {
            return false;
        }
        let place = self.place.as_mut().expect("who tries stands in line");
        let again = outcome == Outcome::Conflict || std::mem::take(&mut place.woken);
        // What has become another type meanwhile is nothing, too.
        let nothing = matches!(bytes, b"$-1\r\n" | b"*-1\r\n" | b"_\r\n")
            || place.looked && bytes.starts_with(b"-WRONGTYPE");
        place.looked = true;
        if (outcome == Outcome::Committed && nothing || outcome == Outcome::Conflict) && !place.late {
            // What the engine holds of it is no reply: the client gets none yet.
            self.order.expect(seq, 0);
            self.stage = Stage::Blocked { seq };
            if again {
                self.look_again();
            }
            return true;
        }
        let late = place.late && nothing;
        self.place = None;
        self.stage = Stage::Open;
        self.args.clear();
        if late {
            let protocol = self.client.protocol;
            self.order.answer(seq, |out| Reply::new(out, protocol).null_array());
            self.recall();
        }
        late
    }

    /// For how long it waits for data, in ms, if it does. `Some(None)`: for ever.
    pub fn waits(&self) -> Option<Option<u64>> {
        self.place.as_ref().map(|place| place.wait.timeout_ms)
    }

    /// There may be something for a client that waits.
    pub fn look_again(&mut self) {
        let Some(place) = &mut self.place else { return };
        match self.stage {
            Stage::Blocked { seq } => {
                let moment = Moment { unix_ms: self.client.unix_ms, seed: self.random.bits() };
                self.args[..Moment::BYTES].copy_from_slice(&moment.bytes());
                let procedure = self.door.procedures.exec;
                self.stage =
                    Stage::Offering { seq, procedure, kind: Offer::Waits, snapshot: false, session: None };
            }
            _ => place.woken = true,
        }
    }

    /// The time is over of a client that waits for data.
    pub fn give_up_waiting(&mut self) {
        let Some(place) = &mut self.place else { return };
        place.late = true;
        if let Stage::Blocked { seq } = self.stage {
            self.place = None;
            self.stage = Stage::Open;
            self.args.clear();
            let protocol = self.client.protocol;
            self.order.answer(seq, |out| Reply::new(out, protocol).null_array());
            self.recall();
        }
    }

    fn answer_released(&mut self, seq: u64, outcome: Outcome, bytes: &[u8]) {
        assert!(!matches!(self.stage, Stage::Offering { seq: offered, .. } if offered == seq));
        if self.stage == (Stage::Watching { seq }) {
            return self.watch_released(seq, outcome, bytes);
        }
        match outcome {
            Outcome::Committed | Outcome::RolledBack | Outcome::BadRequest => {
                self.order.answer(seq, |out| out.extend_from_slice(bytes));
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
        self.order.answer(seq, |out| Reply::new(out, protocol).error(error));
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

    /// Bytes of commands that are received, queued or watched.
    pub fn pending_bytes(&self) -> usize {
        self.input.len() - self.taken + self.args.len() + self.transactions.pending_bytes()
    }

    /// Memory of what was received and not executed, in bytes.
    pub fn request_memory(&self) -> usize {
        let buffers = self.input.capacity() + self.args.capacity();
        buffers + self.transactions.memory_bytes() + self.parser.memory_bytes()
    }

    /// Memory of what was released and not written, in bytes.
    pub fn reply_memory(&self) -> usize {
        self.order.memory_bytes()
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

    /// Takes one command from the input; false if there is no complete one.
    fn take_command(&mut self, allowance: &mut Allowance) -> bool {
        let held = self.held_bytes();
        let frame = match self.parser.parse(&self.input[self.taken..]) {
            Ok(Some(frame)) => frame,
            Ok(None) => {
                self.starved = true;
                return false;
            }
            Err(error) => {
                self.reply(|reply| reply.error(format_args!("ERR {error}")));
                self.finish();
                return true;
            }
        };
        if is_http(frame.parts()) {
            self.spoke_http = true;
            self.finish();
            return true;
        }
        let len = frame.len;
        let command = single::encode(frame, self.client.protocol, &mut self.args);
        self.taken += len;
        forget_front(&mut self.input, &mut self.taken);
        if len > KEEP_BYTES {
            self.parser.rest(KEEP_PARTS);
        }
        match command {
            Ok(Some(typed)) => self.act(typed),
            Ok(None) => {}
            Err(error) => self.refuse(error),
        }
        let replied = self.held_bytes().saturating_sub(held);
        allowance.work -= COMMAND_WORK + (len + replied) as i64;
        true
    }

    fn act(&mut self, Typed { opcode, session }: Typed) {
        let command = opcode.spec().command;
        if self.transactions.in_block() && session.is_some() {
            return self.refuse(CommandError::NotOnce);
        }
        if self.transactions.in_block() && queues(command) {
            return match self.number_block(command).and_then(|()| {
                self.transactions.queue(opcode, single::step(&self.args), single::args(&self.args).count())
            }) {
                Ok(()) => self.reply(|reply| reply.simple("QUEUED")),
                Err(error) => self.refuse(error),
            };
        }
        match command {
            Command::Data(Data::Session) => {
                let salt = (self.door.salt ^ self.client.id).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40;
                match single::complete_session(&mut self.args, opcode, self.door.sessions, salt) {
                    Ok(()) => self.offer(self.door.procedures.exec, Offer::Writes, None),
                    Err(error) => self.refuse(error),
                }
            }
            Command::Data(data) => {
                let wait = wait_of(data, single::args(&self.args)).filter(|_| session.is_none());
                let kind = match wait {
                    Some(wait) => return self.wait(wait),
                    None if opcode.spec().reads() => Offer::Reads,
                    None => Offer::Writes,
                };
                self.offer(self.door.procedures.exec, kind, session);
            }
            Command::Local(local) => self.answer(local),
            Command::Control(control) => {
                if let Err(error) = self.control(control) {
                    self.reply(|reply| reply.error(error));
                }
            }
        }
    }

    /// Gets in line, and looks, unless others who wait for the same come first.
    fn wait(&mut self, wait: Wait) {
        let place = Place::new(self.door.clone(), self.client.id, wait);
        let behind = place.enter();
        self.place = Some(place);
        if behind {
            self.stage = Stage::Blocked { seq: self.order.open() };
        } else {
            self.offer(self.door.procedures.exec, Offer::Waits, None);
        }
    }

    /// `HW.ONCE` gives the open block its number; any other command does nothing of the kind.
    fn number_block(&mut self, command: Command) -> Result<(), CommandError> {
        if command != Command::Control(Control::Once) {
            return Ok(());
        }
        self.transactions.once(single::numbers(&mut single::args(&self.args))?)
    }

    /// Makes [`args`](Self::args) the next request. What a session keeps of it is in the latest state.
    fn offer(&mut self, procedure: ProcedureId, kind: Offer, session: Option<Session>) {
        let moment = Moment { unix_ms: self.client.unix_ms, seed: self.random.bits() };
        self.args[..Moment::BYTES].copy_from_slice(&moment.bytes());
        let seq = self.order.open();
        let reads = matches!(kind, Offer::Reads | Offer::Watches);
        let snapshot = reads && self.client.snapshots && session.is_none();
        self.stage = Stage::Offering { seq, procedure, kind, snapshot, session };
    }

    fn answer(&mut self, command: Local) {
        let args = single::args(&self.args);
        self.order.local(|out| local::run(command, args, &mut self.client, &self.door, out));
    }

    fn control(&mut self, command: Control) -> Result<(), CommandError> {
        match command {
            Control::Multi => self.transactions.multi()?,
            Control::Exec => return self.exec(),
            Control::Discard => self.transactions.discard()?,
            Control::Watch => return self.watch(),
            Control::Unwatch => self.transactions.unwatch(),
            // Only a block does without a command behind the number.
            Control::Once => return Err(CommandError::WrongArity("hw.once")),
            Control::Token => return self.token(),
            Control::Quit => self.finish(),
            Control::Reset => {
                self.reset();
                self.reply(|reply| reply.simple("RESET"));
                return Ok(());
            }
        }
        self.reply(|reply| reply.ok());
        Ok(())
    }

    /// `RESET`: as if it had just connected.
    fn reset(&mut self) {
        self.transactions = Transactions::default();
        let ClientState { id, unix_ms, seen, .. } = self.client;
        self.client = ClientState { unix_ms, seen, ..ClientState::new(id) };
    }

    /// `HW.TOKEN`: of everything that was asked before it.
    fn token(&mut self) -> Result<(), CommandError> {
        if self.transactions.in_block() {
            return Err(CommandError::NotInsideMulti);
        }
        self.stage = Stage::Recalling { seq: self.order.open() };
        self.recall();
        Ok(())
    }

    /// Answers an `HW.TOKEN`, once all before it are answered.
    fn recall(&mut self) {
        let Stage::Recalling { seq } = self.stage else { return };
        if self.order.in_flight() == 1 {
            self.stage = Stage::Open;
            let (seen, protocol) = (self.client.seen, self.client.protocol);
            self.order.answer(seq, |out| Reply::new(out, protocol).integer(seen.0 as i64));
        }
    }

    fn exec(&mut self) -> Result<(), CommandError> {
        let Connection { client, door, transactions, args, .. } = self;
        let protocol = client.protocol;
        let answer =
            |command, words: Args<'_>, out: &mut Vec<u8>| local::run(command, words, client, door, out);
        match transactions.exec(protocol, answer, args)? {
            Exec::Submit { writes, session } => {
                let kind = if writes { Offer::Writes } else { Offer::Reads };
                self.offer(self.door.procedures.exec, kind, session);
            }
            Exec::Changed => self.reply(|reply| reply.null_array()),
            Exec::Known => {
                self.order.local(|out| write_known(&self.args, out).expect("exec wrote the arguments"))
            }
        }
        Ok(())
    }

    fn watch(&mut self) -> Result<(), CommandError> {
        if self.transactions.in_block() {
            return Err(CommandError::WatchInsideMulti);
        }
        self.transactions.check_watch(single::args(&self.args))?;
        self.args.drain(Moment::BYTES..single::ARGS_AT);
        self.offer(self.door.procedures.watch, Offer::Watches, None);
        Ok(())
    }

    /// A command that cannot run: an error, and an open block is refused with it.
    fn refuse(&mut self, error: CommandError) {
        self.transactions.refuse();
        if error == CommandError::WrongArity("exec") {
            // Redis ends the block, if there is one, and says so in any case.
            let _no_block = self.transactions.discard();
            return self.reply(|reply| reply.error(CommandError::ExecAbortedBecause("exec")));
        }
        self.reply(|reply| reply.error(error));
    }

    fn reply(&mut self, write: impl FnOnce(&mut Reply<'_>)) {
        let protocol = self.client.protocol;
        self.order.local(|out| write(&mut Reply::new(out, protocol)));
    }

    fn finish(&mut self) {
        self.stage = Stage::Finished;
        self.place = None;
        self.transactions = Transactions::default();
        self.input = Vec::new();
        self.taken = 0;
    }
}
