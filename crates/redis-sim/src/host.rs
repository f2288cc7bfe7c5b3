//! What the node's worker threads do for their clients, without sockets: bytes to [`Connection`]s, their requests to the engine, replies
//! back, those who wait woken in time, and the sweep asked for. The connections, the lines, the waiters' alarms and the sweep's pace are
//! the product's.
//!
//! A host acts between the turns of its worker only, as the node's thread does, and not while its process is paused or its thread is at work.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use highwater_core::clock::Stopwatch;
use highwater_core::{NodeId, Outcome};
use highwater_redis::host::expiry::Expiry;
use highwater_redis::host::forward::Forwarded;
use highwater_redis::host::waiters::{Waiters, Woken};
use highwater_redis::host::{Gate, Gatekeeper, Users};
use highwater_redis::keyspace::{KEYSPACE, head::Row};
use highwater_redis::moment::Moment;
use highwater_redis::{Allowance, Connection, Door, Procedures};
use highwater_seam::{Frame, Nanos, Refusal, Taken};
use highwater_sim::World;

use crate::door::{self, door};
use crate::forward::{Forward, Told};
use crate::ledger::{Asked, Given, Ledger, Whose, record};
use crate::library::{Joined, place};
use crate::model::Op;
use crate::seat::Seat;
use crate::wires::Arrival;

/// Waiters look by themselves so seldom here that whoever was forgotten is found.
const LOOK_NEVER: Nanos = 1 << 60;
/// A time-out that is so much over has not fired.
const LATE: Nanos = 20_000_000;

/// Runs are short: the sweep comes as much more often than in a node.
const SWEEP_OFTEN: Nanos = 5_000_000;
const SWEEP_SELDOM: Nanos = 20_000_000;

/// A client's connection at its host.
struct Line {
    connection: Connection,
    /// Bytes that are in the socket.
    unread: Vec<u8>,
    /// What the client asks at the moment, if it is one of those that are judged in order.
    op: Option<Op>,
    /// Commands that it has asked behind that, without waiting.
    behind: VecDeque<Op>,
    /// Requests of it that the engine has.
    under_way: u32,
    /// Since when, by the machine's clock, it waits for data, and in which place among all that ever did.
    waits: Option<(Nanos, u64)>,
    /// It was closed by the other end.
    closed: bool,
}

impl Line {
    /// It ended, by whichever end.
    fn is_over(&self) -> bool {
        self.closed || self.connection.is_evicted()
    }

    /// The engine has heard the command, or refused it. One that waits for data is asked again, and has none behind it.
    fn next_op(&mut self) {
        if let Some(next) = self.behind.pop_front() {
            self.op = Some(next);
        }
    }
}

/// One worker's part.
struct Desk {
    lines: BTreeMap<u64, Line>,
    /// Connections that this node has closed: what a client wrote before it heard so is thrown away.
    hung_up: BTreeSet<u64>,
    waiters: Waiters,
    /// If this node forwards.
    forward: Option<Forward>,
    gatekeeper: Gatekeeper,
    /// The version of the users that every client was held against.
    users_seen: u64,
    /// Since when its engine serves.
    serves_since: Option<Nanos>,
}

/// One life of a node.
pub struct Host {
    node: NodeId,
    process: u64,
    door: Arc<Door>,
    woken: door::Woken,
    desks: Vec<Desk>,
    expiry: Expiry,
    sweeps: BTreeSet<u64>,
    /// There is no other sweep.
    rests: bool,
    /// Has the node's users follow the table; `None`: it has none.
    users: Option<Users>,
    /// Requests that the engine has of clients that are gone: what they write stands in the store before anybody is woken for it.
    left_behind: u32,
    /// Clients that ever waited for data here.
    waited: u64,
    /// The time of the last look.
    unix_ms: u64,
}

/// Bytes and frames that leave a node.
#[derive(Default)]
pub struct Output {
    /// For clients, by connection.
    pub bytes: Vec<(u64, Vec<u8>)>,
    /// For other nodes, by worker.
    pub frames: Vec<(NodeId, u16, Frame)>,
    /// Connections that the node closes.
    pub closed: Vec<u64>,
    /// Connections to other nodes that are to be cut, before that.
    pub cut: Vec<(NodeId, u16)>,
}

impl Host {
    /// Of the process that runs on a node now.
    pub fn new(
        world: &World<Joined>,
        node: NodeId,
        process: u64,
        (salt, has_users): (u64, bool),
        forwards: Option<Stopwatch>,
    ) -> Option<Host> {
        let replica = world.replica(node)?;
        let procedures = Procedures::find(&replica.procedures).expect("the library has the door's");
        let (door, woken) = door(node, procedures, salt, has_users);
        let desk = |worker| {
            let forward = forwards.map(|stopwatch| Forward::new(worker, door.clone(), stopwatch));
            Desk {
                lines: BTreeMap::new(),
                hung_up: BTreeSet::new(),
                waiters: Waiters::new(LOOK_NEVER),
                forward,
                gatekeeper: Gatekeeper::default(),
                users_seen: 0,
                serves_since: None,
            }
        };
        let desks = (0..replica.workers.len() as u16).map(desk).collect();
        Some(Host {
            node,
            process,
            users: has_users.then(|| Users::new(door.clone())),
            door,
            woken,
            desks,
            expiry: Expiry::paced(&replica.procedures, SWEEP_OFTEN, SWEEP_SELDOM),
            sweeps: BTreeSet::new(),
            rests: false,
            left_behind: 0,
            waited: 0,
            unix_ms: 0,
        })
    }

    /// From now on nothing is swept.
    pub fn rest(&mut self) {
        self.rests = true;
    }

    /// Which process it is.
    pub fn process(&self) -> u64 {
        self.process
    }

    /// Bytes of a client have come over a connection, a new one perhaps. `ops`: what they ask, one command after the other.
    pub fn arrive(&mut self, worker: u16, number: u64, bytes: &[u8], ops: Vec<Op>) {
        let id = number << 8 | u64::from(worker);
        let desk = &mut self.desks[usize::from(worker)];
        if desk.hung_up.contains(&number) {
            return;
        }
        let line = desk.lines.entry(number).or_insert_with(|| Line {
            connection: Connection::new(id, self.door.clone(), self.unix_ms),
            unread: Vec::new(),
            op: None,
            behind: VecDeque::new(),
            under_way: 0,
            waits: None,
            closed: false,
        });
        line.unread.extend_from_slice(bytes);
        line.behind = ops.into();
        line.op = line.behind.pop_front();
    }

    /// Something has come from another node.
    pub fn forwarded(&mut self, arrival: Arrival) {
        if let Some(forward) = &mut self.desks[usize::from(arrival.worker)].forward {
            forward.arrive(arrival);
        }
    }

    /// Whether somebody is here to hear how a request ended.
    pub fn hears(&self, asked: &Asked) -> bool {
        let desk = &self.desks[usize::from(asked.worker)];
        match asked.whose {
            Whose::Line(number, _) => desk.lines.contains_key(&number),
            Whose::Guest(_) => desk.forward.is_some(),
            Whose::Sweep | Whose::Users => true,
        }
    }

    /// A client has closed its connection.
    pub fn close(&mut self, worker: u16, number: u64) {
        if let Some(line) = self.desks[usize::from(worker)].lines.get_mut(&number) {
            line.closed = true;
        }
    }

    /// A request was released.
    ///
    /// # Errors
    /// Who came later was served before.
    pub fn released(
        &mut self,
        world: &mut World<Joined>,
        asked: Asked,
        given: &Given,
        unix_ms: u64,
    ) -> Result<(), String> {
        let local = local(world, self.node);
        let desk = &mut self.desks[usize::from(asked.worker)];
        let (number, seq) = match asked.whose {
            Whose::Sweep => {
                self.sweeps.clear();
                self.expiry.released(local, unix_ms, given.outcome, &given.bytes);
                return Ok(());
            }
            Whose::Users => {
                let users = self.users.as_mut().expect("it has asked");
                users.released(local, given.outcome, &given.bytes);
                return Ok(());
            }
            Whose::Guest(number) => {
                let forward = desk.forward.as_mut().expect("another node has asked");
                forward.released(number, given.outcome, given.moment, &given.bytes);
                return Ok(());
            }
            Whose::Line(number, seq) => (number, seq),
        };
        if let Some(forward) = &mut desk.forward {
            forward.ended(number, seq);
        }
        let Some(line) = desk.lines.get_mut(&number) else {
            self.left_behind -= 1;
            self.door.waiting.written_by_one_that_left(given.outcome);
            return Ok(());
        };
        line.under_way -= 1;
        line.connection.released(seq, given.outcome, given.moment, &given.bytes);
        let served = given.outcome == Outcome::Committed && line.connection.waits().is_none();
        let found = !matches!(&given.bytes[..], b"*-1\r\n" | b"$-1\r\n");
        let came = line.waits.map(|(_, came)| came);
        let key = line.op.as_ref().and_then(Op::waits).map(|(keys, _)| keys);
        if let (true, true, Some(came), Some([key])) = (served, found, came, key.as_deref()) {
            return self.in_turn(came, key);
        }
        Ok(())
    }

    /// One that came so has got something of a key: nobody came before it who still waits for that alone.
    fn in_turn(&self, came: u64, key: &str) -> Result<(), String> {
        for line in self.desks.iter().flat_map(|desk| desk.lines.values()) {
            let Some((_, earlier)) = line.waits.filter(|(_, earlier)| *earlier < came) else { continue };
            let waits_for = line.op.as_ref().and_then(Op::waits).map(|(keys, _)| keys);
            let idle = line.under_way == 0 && !line.connection.has_more() && !line.closed;
            if idle && waits_for.is_some_and(|keys| keys == [key]) && line.connection.waits().is_some() {
                return Err(format!(
                    "on {} waiter {came} of {key} was served while waiter {earlier} of it sleeps",
                    self.node
                ));
            }
        }
        Ok(())
    }

    /// All desks whose threads are at hand do what there is to do; what leaves for which connection.
    ///
    /// # Errors
    /// What must not be.
    pub fn act(
        &mut self,
        world: &mut World<Joined>,
        ledger: &mut Ledger,
        unix_ms: u64,
    ) -> Result<Output, String> {
        self.unix_ms = unix_ms;
        let mut output = Output::default();
        // A desk may wake another one.
        for _ in 0..3 {
            self.woken.store(0, Ordering::Relaxed);
            for worker in 0..self.desks.len() as u16 {
                if let Some(ready) = world.ready(self.node, worker) {
                    self.act_at(world, ledger, worker, ready, unix_ms, &mut output);
                }
            }
            if self.woken.load(Ordering::Relaxed) == 0 {
                break;
            }
        }
        self.look_for_sleepers(world)?;
        ledger.wrong.take().map_or(Ok(output), Err)
    }

    fn act_at(
        &mut self,
        world: &mut World<Joined>,
        ledger: &mut Ledger,
        worker: u16,
        ready: Result<(), Refusal>,
        unix_ms: u64,
        output: &mut Output,
    ) {
        let local = local(world, self.node);
        self.look_who_leads(world, ledger, worker, ready, local, output);
        let (node, process) = (self.node, self.process);
        let gate = self.look_at_users(world, worker, ready);
        let desk = &mut self.desks[usize::from(worker)];
        let mut woken = desk.waiters.tell_serving(!matches!(ready, Err(Refusal::NotServing { .. })));
        woken.extend(desk.waiters.wake(self.door.waiting.take_woken(worker.into()), local));
        for Woken { at, late } in woken {
            let Some(line) = desk.lines.get_mut(&(at as u64)) else { continue };
            line.connection.tell_time(unix_ms);
            if late {
                line.connection.give_up_waiting()
            } else {
                line.connection.look_again()
            }
            ledger.mark(if late { "time-outs of waiting guests" } else { "guests that were woken" });
        }
        let gone: Vec<u64> =
            desk.lines.iter().filter(|(_, line)| line.is_over()).map(|(number, _)| *number).collect();
        for number in gone {
            let line = desk.lines.remove(&number).expect("it is there");
            if !line.closed {
                ledger.mark("connections that ended with their user");
                output.closed.push(number);
                desk.hung_up.insert(number);
            }
            if line.connection.waits().is_some() {
                ledger.mark("guests that left while they waited");
            }
            desk.waiters.remove(number << 8 | u64::from(worker));
            self.left_behind += line.under_way;
        }
        let own_first = desk.forward.as_ref().is_some_and(Forward::has_own_first);
        let gate_of_lines = if own_first && gate == Gate::Open { Gate::Waits } else { gate };
        for (number, line) in &mut desk.lines {
            line.connection.tell_time(unix_ms);
            line.connection.receive(&std::mem::take(&mut line.unread));
            while let Some(request) = line.connection.next(&mut { Allowance::WHOLE }) {
                let seq = request.seq;
                match gate_of_lines {
                    Gate::Open => {}
                    Gate::Waits => {
                        line.connection.refused(seq, Refusal::Busy);
                        break;
                    }
                    Gate::Refuses(refusal) => {
                        line.connection.refused(seq, refusal);
                        line.next_op();
                        continue;
                    }
                }
                let token = ledger.token();
                let taken = world.place(node, worker, token, request.procedure, request.args);
                match taken {
                    Ok(taken) => {
                        let changes = request.procedure == self.door.procedures.users;
                        ledger.weigh(request.args, changes, (node, process), desk.serves_since);
                        let record = line.op.clone().map(|op| record(op, request.args, world.now, *number));
                        let record = record.map(|record| ledger.note(record, request.args));
                        if record.is_some() {
                            ledger.begins(request.args);
                        }
                        let whose = Whose::Line(*number, seq);
                        ledger.asked(Asked { node, process, worker, whose, record });
                        if taken == Taken::PutOff {
                            ledger.mark("guests' requests put off");
                        }
                        line.under_way += 1;
                        line.connection.submitted(seq, 0, taken);
                        line.next_op();
                    }
                    Err(refusal) => {
                        let asked = desk.forward.as_mut().filter(|_| is_elsewhere(refusal));
                        let id = *number << 8 | u64::from(worker);
                        let asked = asked.map(|forward| (forward.ask(local, *number, id, &request), forward));
                        match asked {
                            Some((Forwarded::Sent, forward)) => {
                                let record =
                                    line.op.clone().map(|op| record(op, request.args, world.now, *number));
                                let record = record.map(|record| ledger.note(record, request.args));
                                forward.sent(*number, seq, record);
                                ledger.mark("guests' requests forwarded");
                                line.under_way += 1;
                                line.connection.submitted(seq, 0, Taken::Placed);
                                line.next_op();
                                continue;
                            }
                            Some((Forwarded::Later, _)) => {
                                line.connection.refused(seq, Refusal::Busy);
                                break;
                            }
                            Some((Forwarded::No, _)) | None => {}
                        }
                        line.connection.refused(seq, refusal);
                        if refusal == Refusal::Busy {
                            break;
                        }
                        line.next_op();
                    }
                }
            }
            match (line.connection.waits(), line.waits) {
                (Some(_), None) => {
                    self.waited += 1;
                    line.waits = Some((local, self.waited));
                }
                (None, Some(_)) => line.waits = None,
                _ => {}
            }
            let (id, at) = (*number << 8 | u64::from(worker), *number as usize);
            desk.waiters.note(id, at, line.connection.waits(), local);
            let ready = line.connection.output().to_vec();
            if !ready.is_empty() {
                line.connection.wrote(ready.len());
                output.bytes.push((*number, ready));
            }
        }
        self.serve_others((&mut *world, &mut *ledger), worker, gate, (local, unix_ms), output);
        if worker == 0 {
            self.read_users(world, ledger, ready, local);
        }
        if worker == 0 && !self.rests && self.expiry.is_due(local) {
            let token = ledger.token();
            let mut args = Vec::new();
            let released = world.released_up_to(node, worker);
            // A node's is the system's chance; the first sweep draws the secret of cursors with it.
            let moment = Moment { unix_ms, seed: world.now | 1 };
            self.expiry.ask(local, (ready, released), moment, |sweep, moment| {
                args = moment.to_vec();
                world.submit(node, worker, token, sweep, moment).is_ok()
            });
            if self.expiry.next().is_none() {
                ledger.records.push(record(Op::Sweep, &args, world.now, SWEEPS));
                let record = Some(ledger.records.len() - 1);
                let whose = Whose::Sweep;
                self.sweeps.insert(ledger.asked(Asked { node, process, worker, whose, record }));
                ledger.mark("sweeps");
            }
        }
    }

    /// Takes what has come from other nodes, and tells whoever asked.
    fn look_who_leads(
        &mut self,
        world: &World<Joined>,
        ledger: &mut Ledger,
        worker: u16,
        ready: Result<(), Refusal>,
        local: Nanos,
        output: &mut Output,
    ) {
        let standing = self.standing(world, worker, ready);
        let desk = &mut self.desks[usize::from(worker)];
        let Some(forward) = &mut desk.forward else { return };
        output.cut.extend(forward.look(local, standing, ledger).map(|node| (node, worker)));
        for Told { line, seq, outcome, at, bytes } in forward.take_told() {
            match desk.lines.get_mut(&line) {
                Some(line) => {
                    line.under_way -= 1;
                    line.connection.released(seq, outcome, at, &bytes);
                }
                None => self.left_behind -= 1,
            }
        }
    }

    /// An engine's answer to whoever asks who serves.
    fn standing(
        &self,
        world: &World<Joined>,
        worker: u16,
        ready: Result<(), Refusal>,
    ) -> Result<(), Refusal> {
        match ready {
            Err(Refusal::Busy) if world.waits_for_leader(self.node, worker) => {
                Err(Refusal::NotServing { ask: None })
            }
            ready => ready,
        }
    }

    /// When some user is another, holds every client against that. What is done with requests on data.
    fn look_at_users(&mut self, world: &World<Joined>, worker: u16, ready: Result<(), Refusal>) -> Gate {
        let serves = matches!(self.standing(world, worker, ready), Ok(()) | Err(Refusal::Busy));
        let seat = Seat::new(ready, world.waits_for_leader(self.node, worker));
        let desk = &mut self.desks[usize::from(worker)];
        desk.serves_since = serves.then(|| desk.serves_since.unwrap_or(world.now));
        if self.users.is_none() {
            return Gate::Open;
        }
        let access = &self.door.access;
        if std::mem::replace(&mut desk.users_seen, access.version()) != desk.users_seen {
            desk.lines.values_mut().for_each(|line| line.connection.look_at_users());
        }
        desk.gatekeeper.watch(access, &seat)
    }

    /// Reads the users, if it is time.
    fn read_users(
        &mut self,
        world: &mut World<Joined>,
        ledger: &mut Ledger,
        ready: Result<(), Refusal>,
        local: Nanos,
    ) {
        let Some(users) = &mut self.users else { return };
        let mut seat = Seat::new(ready, world.waits_for_leader(self.node, 0));
        users.turn(local, &mut seat);
        let Some((snapshot, procedure, args)) = seat.asked else { return };
        let token = ledger.token();
        let taken = match snapshot {
            true => world.submit_snapshot(self.node, 0, token, procedure, &args),
            false => world.submit(self.node, 0, token, procedure, &args),
        };
        match taken {
            Ok(()) => {
                let (node, process, whose) = (self.node, self.process, Whose::Users);
                ledger.asked(Asked { node, process, worker: 0, whose, record: None });
                ledger.mark("readings of the users");
            }
            Err(_) => users.released(local, Outcome::Conflict, &[]),
        }
    }

    /// Hands to the engine what other nodes ask, and sends what is asked of them.
    fn serve_others(
        &mut self,
        (world, ledger): (&mut World<Joined>, &mut Ledger),
        worker: u16,
        gate: Gate,
        (local, unix_ms): (Nanos, u64),
        output: &mut Output,
    ) {
        let at = (self.node, self.process, worker);
        let desk = &mut self.desks[usize::from(worker)];
        let Some(forward) = &mut desk.forward else { return };
        forward.serve(local, unix_ms, at, (world, ledger), (gate, desk.serves_since));
        output.frames.extend(forward.drain().into_iter().map(|(to, frame)| (to, worker, frame)));
    }

    /// Whoever waits has nothing to wait for, and its time is not over: once everything that was asked here has come to its end.
    fn look_for_sleepers(&mut self, world: &mut World<Joined>) -> Result<(), String> {
        let at_hand = |worker: u16| world.ready(self.node, worker) == Some(Ok(()));
        if !(0..self.desks.len() as u16).all(at_hand) {
            return Ok(());
        }
        let local = local(world, self.node);
        let busy = |line: &Line| line.under_way > 0 || line.connection.has_more() || !line.unread.is_empty();
        let lines = || self.desks.iter().flat_map(|desk| desk.lines.values());
        let idle = self.sweeps.is_empty() && self.left_behind == 0 && !lines().any(busy);
        let quiet = idle && self.woken.load(Ordering::Relaxed) == 0;
        let store = world.replica(self.node).map(|replica| replica.controller.store());
        for line in lines() {
            let (Some((since, _)), Some((keys, timeout))) =
                (line.waits, line.op.as_ref().and_then(Op::waits))
            else {
                continue;
            };
            let over = since + timeout * 1_000_000 + LATE;
            if timeout > 0 && over < local && !busy(line) && line.connection.waits().is_some() {
                return Err(format!(
                    "on {} a time-out of {timeout} ms has not fired: {:?}",
                    self.node, line.op
                ));
            }
            let Some(store) = store.as_ref().filter(|_| quiet && line.connection.waits().is_some()) else {
                continue;
            };
            let holds = |key: &&String| {
                let row = highwater_core::View::get(&**store, place(KEYSPACE), key.as_bytes());
                row.is_some_and(|row| Row::decode(&row).head.count > 0)
            };
            if let Some(key) = keys.iter().find(holds) {
                return Err(format!(
                    "on {} a guest sleeps though there is something under {key}: {:?}",
                    self.node, line.op
                ));
            }
        }
        Ok(())
    }

    /// Whether somebody's connection is still open here.
    pub fn describe(&self) -> String {
        let lines = self.desks.iter().flat_map(|desk| desk.lines.iter());
        let said = lines.map(|(number, line)| {
            let (waits, more) = (line.connection.waits(), line.connection.has_more());
            format!(
                "    connection {number}: {:?}, {} under way, waits {waits:?}, has more {more}\n",
                line.op, line.under_way
            )
        });
        format!("  host of {}, process {}\n{}", self.node, self.process, said.collect::<String>())
    }
}

/// What a machine's clock shows.
fn local(world: &mut World<Joined>, node: NodeId) -> Nanos {
    let now = world.now;
    world.clock(node).local(now)
}

/// No connection has this number.
const SWEEPS: u64 = u64::MAX;

fn is_elsewhere(refusal: Refusal) -> bool {
    matches!(refusal, Refusal::NotServing { .. })
}
