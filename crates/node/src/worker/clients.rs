//! A worker's RESP clients: who is there, and whose socket wants what. Who is served next is in [`serving`](super::serving), who has to wait for
//! room in [`rationing`](super::rationing), and what others have to tell them in [`tidings`](super::tidings).
//!
//! A client goes on when the reason why it stopped is gone, not when something arrives: nothing may arrive any more.
//! So whatever changes a client (its socket, a reply, a turn of its own) puts it on the list `dirty`, and the flush at
//! the end of the turn decides anew whether it is ready, waits, or is over.
//!
//! Sockets are told of by epoll, or, but for those that speak TLS, stand [on a ring](super::on_ring).

use std::collections::VecDeque;
use std::io::{self, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;

use highwater_core::NodeId;
use highwater_redis::clients::Pause;
use highwater_redis::host::forward::Upstream;
use highwater_redis::host::waiters::{LOOK_SELDOM, Waiters};
use highwater_redis::host::watch::Watch;
use highwater_redis::host::{Gate, Gatekeeper};
use highwater_redis::{Connection, Door};
use highwater_seam::Nanos;

use super::client::{Client, Counted};
use super::crowd::{Crowd, Limits, Pressure};
use super::keys::KEY_LISTENER;
use super::on_ring::watch;
use super::rationing::recount;
use crate::acceptor::Acceptor;
use crate::clock::unix_ms;
use crate::poll::{Event, Poller};
use crate::tls::{Keys, Wire};
use crate::transport::socket::tune_client;
use crate::uring::Ring;

/// Connections taken per look at the listener.
const ACCEPTS: usize = 32;
/// Bytes read from one client at one time.
const READ_BYTES: usize = 64 << 10;
/// The same while the worker is full with requests.
const READ_LITTLE_BYTES: usize = 4 << 10;

/// What one worker's clients may do.
#[derive(Clone, Copy, Debug)]
pub struct Rules {
    /// How many there may be.
    pub max: usize,
    /// What they may hold together.
    pub limits: Limits,
    /// Who sends nothing and awaits nothing for as long is disconnected. 0: never.
    pub idle_timeout: Nanos,
    /// Who takes nothing of the replies that wait for as long is disconnected. 0: never.
    pub stuck_timeout: Nanos,
}

/// All clients of one worker.
pub struct Clients {
    pub(super) worker: usize,
    /// `None` once the door is closed.
    pub(super) acceptor: Option<Acceptor>,
    pub(super) door: Arc<Door>,
    pub(super) watch: Watch,
    pub(super) rules: Rules,
    /// A slot is free again when its client is gone *and* its last request is released *and* the ring receives nothing for it: so a
    /// token never names the wrong client, and neither does a completion.
    pub(super) slots: Vec<Slot>,
    pub(super) free: Vec<usize>,
    /// Where sockets stand that do not speak TLS; without it all are with epoll.
    pub(super) ring: Option<Ring>,
    /// Clients that are over when their sockets have taken what is queued for them.
    pub(super) leaving: Vec<usize>,
    /// So much was received that nobody is received from by the ring, which would bring more than a little of each.
    pub(super) off_ring: bool,
    /// Clients that may have requests to submit, in the order in which they are served.
    pub(super) ready: VecDeque<usize>,
    /// Clients whose sockets need a look: something to write, or another interest.
    pub(super) dirty: Vec<usize>,
    /// Clients with requests that wait for the worker's replies to become fewer.
    pub(super) held_back: Vec<usize>,
    /// When one of them that is new may be served like those that have shown that they take their replies.
    pub(super) trusts_at: Option<Nanos>,
    /// The pressure when the list was last looked through.
    pub(super) held_back_at: Pressure,
    /// Clients that are not read from because the worker is full with requests.
    pub(super) paused: VecDeque<usize>,
    /// The one that is read from all the same, and its id: its command gets complete, or it is closed.
    pub(super) favoured: Option<(usize, u64)>,
    pub(super) crowd: Crowd,
    /// Whether the engine had no room at the last attempt.
    pub(super) blocked: bool,
    /// Since when it has taken nothing; and when to look for those who ask for nothing of it.
    pub(super) busy_since: Option<Nanos>,
    pub(super) beside_at: Option<Nanos>,
    pub(super) waiters: Waiters,
    /// The engine names what takes effect here, for somebody waits for it.
    pub(super) hears_writes: bool,
    /// The pause that was seen last, and when it is over.
    pub(super) pause: Pause,
    pub(super) resumes_at: Option<Nanos>,
    pub(super) sweeps_at: Option<Nanos>,
    pub(super) complained_of_http: Option<Nanos>,
    accepted: u64,
    open: usize,
    pub(super) buffer: Vec<u8>,
    /// Since when the door is closed.
    pub(super) closed_at: Option<Nanos>,
    /// If the door speaks TLS.
    keys: Option<Arc<Keys>>,
    pub(super) complained_of_tls: Option<Nanos>,
    pub(super) gatekeeper: Gatekeeper,
    pub(super) gate: Gate,
    /// Clients whose next request waits for a leader, or for room on the way to it.
    pub(super) later: Vec<usize>,
    /// The leader when that was last known.
    pub(super) leader: Option<NodeId>,
    /// The leader's connection when clients that wait for data were last told of it.
    serial: Option<u64>,
    /// Clients of other nodes that wait for data and are to look.
    pub(super) woken_guests: Vec<(NodeId, u64)>,
    /// Clients that are gone and stand in line at the leader, over which connection.
    left_lines: Vec<(u64, u64)>,
    /// The version of the users that every client was held against.
    pub(super) users_seen: u64,
}

/// A place for a client.
#[derive(Default)]
pub struct Slot {
    /// Who is there.
    pub client: Option<Client>,
    /// Its number among all that were ever let in.
    pub id: u64,
    /// Requests submitted and not released.
    pub unreleased: usize,
}

impl Clients {
    /// Nobody yet.
    pub fn new(
        worker: usize,
        listener: TcpListener,
        door: Arc<Door>,
        watch: Watch,
        rules: Rules,
        poller: &Poller,
    ) -> io::Result<Clients> {
        door.clients.employ(worker);
        Ok(Clients {
            worker,
            acceptor: Some(Acceptor::new(listener, KEY_LISTENER, "clients", poller)?),
            waiters: Waiters::new(LOOK_SELDOM),
            hears_writes: false,
            door,
            watch,
            rules,
            keys: None,
            ring: None,
            leaving: Vec::new(),
            off_ring: false,
            complained_of_tls: None,
            gatekeeper: Gatekeeper::default(),
            gate: Gate::Waits,
            later: Vec::new(),
            leader: None,
            serial: None,
            woken_guests: Vec::new(),
            left_lines: Vec::new(),
            users_seen: 0,
            slots: Vec::new(),
            free: Vec::new(),
            ready: VecDeque::new(),
            dirty: Vec::new(),
            held_back: Vec::new(),
            trusts_at: None,
            held_back_at: Pressure::Low,
            paused: VecDeque::new(),
            favoured: None,
            crowd: Crowd::new(rules.limits),
            blocked: false,
            busy_since: None,
            beside_at: None,
            pause: Pause::default(),
            resumes_at: None,
            sweeps_at: None,
            complained_of_http: None,
            accepted: 0,
            open: 0,
            buffer: vec![0; READ_BYTES],
            closed_at: None,
        })
    }

    /// The door speaks TLS with these keys.
    pub fn set_keys(&mut self, keys: Option<Arc<Keys>>) {
        self.keys = keys;
    }

    /// Sockets stand on this ring.
    pub fn set_ring(&mut self, ring: Option<Ring>) {
        self.ring = ring;
    }

    /// How many are connected.
    pub fn count(&self) -> usize {
        self.open
    }

    /// What they hold together.
    pub fn held(&self) -> Counted {
        self.crowd.sum()
    }

    /// What its connections share.
    pub fn door(&self) -> &Door {
        &self.door
    }

    /// Whether a client has requests that the engine may have room for: not while it said that it has none.
    pub fn has_more(&self) -> bool {
        !self.ready.is_empty() && !self.blocked
    }

    /// When to give the next turn at the latest.
    pub fn deadline(&self) -> Option<Nanos> {
        let accepts = self.acceptor.as_ref().and_then(Acceptor::deadline);
        let alarm = self.waiters.deadline();
        [accepts, self.sweeps_at, alarm, self.resumes_at, self.beside_at].into_iter().flatten().min()
    }

    /// Does what is due.
    /// `serial`: of the connection to the leader, if requests are forwarded.
    pub fn turn(&mut self, now: Nanos, poller: &Poller, serial: Option<u64>) {
        if let Some(acceptor) = &mut self.acceptor {
            acceptor.turn(now, poller);
        }
        if self.sweeps_at.is_some_and(|at| at <= now) {
            self.sweep(now);
        }
        self.take_orders();
        self.look_at_pause(now);
        self.wake_waiters(now);
        if std::mem::replace(&mut self.serial, serial) != serial {
            // Whoever leads now does not know who waits for data.
            let woken = self.waiters.all();
            self.have_look(&woken);
        }
        self.look_at_users(now);
    }

    /// Takes new clients.
    pub fn accept(&mut self, now: Nanos, poller: &Poller) {
        self.let_some_in(now, poller);
    }

    /// Takes some of those who wait at the door; whether more may be there.
    pub(super) fn let_some_in(&mut self, now: Nanos, poller: &Poller) -> bool {
        for _ in 0..ACCEPTS {
            let Some(acceptor) = &mut self.acceptor else { return false };
            let Some((stream, _)) = acceptor.next(now, poller) else { return false };
            if self.open >= self.rules.max {
                self.door.clients.reject();
                refuse(stream);
                continue;
            }
            // A socket that cannot be set up or watched is closed: the client will notice.
            if tune_client(&stream, self.rules.stuck_timeout).is_ok() {
                self.admit(stream, now, poller);
            }
        }
        true
    }

    fn admit(&mut self, stream: TcpStream, now: Nanos, poller: &Poller) {
        let at = self.free.pop().unwrap_or_else(|| {
            self.slots.push(Slot::default());
            self.slots.len() - 1
        });
        let keys = self.keys.as_ref().and_then(|keys| keys.current());
        let text =
            |address: io::Result<SocketAddr>| address.map_or_else(|_| String::new(), |text| text.to_string());
        let (from, to) = (text(stream.peer_addr()), text(stream.local_addr()));
        let wire = Wire::accept(stream, keys).ok();
        self.make_room(now);
        let id = (self.accepted + 1) << 8 | (self.worker as u64 & 0xff);
        let client = wire.and_then(|wire| {
            let on_ring = self.ring.is_some() && matches!(wire, Wire::Plain(_));
            let connection = Connection::new(id, self.door.clone(), unix_ms());
            let connection = connection.metered(self.watch.meter.clone());
            let mut client = Client::new(wire, connection, on_ring, now);
            watch(&mut client, at, (self.ring.as_mut(), self.off_ring), poller).ok().map(|()| client)
        });
        let Some(mut client) = client else {
            self.free.push(at);
            return;
        };
        self.accepted += 1;
        self.open += 1;
        client.connection.introduce(from, to);
        let slot = &mut self.slots[at];
        (slot.id, slot.client) = (id, Some(client));
        self.sweep_later(now);
    }

    /// Something happened on a client's socket.
    pub fn event(&mut self, at: usize, event: Event, now: Nanos) {
        let crowded = self.crowd.is_crowded() && self.favoured.is_none_or(|(favoured, _)| favoured != at);
        let Some(client) = self.slots.get_mut(at).and_then(|slot| slot.client.as_mut()) else { return };
        client.gone |= event.broken;
        client.rested = false;
        // The ring brings what comes by it, to the end.
        let by_ring =
            client.on_ring && self.ring.as_ref().is_some_and(|ring| !self.off_ring || !ring.is_off(at));
        if event.readable && !client.paused && !by_ring {
            let room = if crowded { READ_LITTLE_BYTES } else { READ_BYTES };
            client.read(&mut self.buffer[..room], now);
            // What it sent counts at once: the next one in this turn may be one too many.
            recount(client, &mut self.crowd);
        }
        self.something_came(at, now);
    }

    /// After something happened on a client's socket.
    pub(super) fn something_came(&mut self, at: usize, now: Nanos) {
        let Some(client) = &mut self.slots[at].client else { return };
        mark(&mut client.dirty, &mut self.dirty, at);
        // Ready for this turn already.
        self.go_on_or_wait(at);
        self.sweep_later(now);
    }

    /// Writes what is ready, decides who can go on, adjusts what the sockets are watched for, closes what is over.
    pub fn flush(&mut self, now: Nanos, poller: &Poller, upstream: &mut Upstream) {
        for (id, serial) in std::mem::take(&mut self.left_lines) {
            upstream.leave(id, serial);
        }
        self.look_at_crowd();
        for at in std::mem::take(&mut self.dirty) {
            self.make_room(now);
            let Slot { client: Some(client), unreleased, id } = &mut self.slots[at] else { continue };
            client.dirty = false;
            let queued = self.ring.as_mut().is_some_and(|ring| client.queue(now, ring, (at, *id)));
            if !queued {
                client.write(now);
            }
            recount(client, &mut self.crowd);
            if client.is_over(*unreleased) {
                match queued && !client.gone {
                    true => self.leaving.push(at),
                    false => self.remove(at, now),
                }
                continue;
            }
            if upstream.is_on() {
                self.line_up(at, upstream);
            }
            self.go_on_or_wait(at);
            let Slot { client: Some(client), id, .. } = &mut self.slots[at] else { continue };
            self.waiters.note(*id, at, client.connection.waits(), now);
            if watch(client, at, (self.ring.as_mut(), self.off_ring), poller).is_err() {
                // Without a watch it would never be heard of again.
                client.gone = true;
                self.remove(at, now);
            }
        }
        self.let_leave(now);
        self.look_at_held_back();
        self.let_paused_go_on(now);
    }

    /// Whether the sockets of clients need another look before the worker sleeps.
    pub fn is_dirty(&self) -> bool {
        !self.dirty.is_empty()
    }

    pub(super) fn remove(&mut self, at: usize, now: Nanos) {
        self.make_room(now);
        let Some(client) = self.slots[at].client.take() else { return };
        self.waiters.remove(self.slots[at].id);
        if let Some((serial, _)) = client.lined {
            self.left_lines.push((self.slots[at].id, serial));
        }
        self.crowd.update(client.counted, Counted::default());
        if client.connection.spoke_http() {
            self.complain_of_http(&client, now);
        }
        if client.connection.spoke_tls() || client.stream.broken().is_some() {
            self.complain_of_tls(&client, now);
        }
        if self.favoured.is_some_and(|(favoured, _)| favoured == at) {
            self.favoured = None;
        }
        self.open -= 1;
        if let Some(ring) = self.ring.as_mut().filter(|_| client.on_ring) {
            ring.stop(at);
            ring.bury(client.stream.into());
        }
        self.free_if_done(at);
    }

    /// The slot may be another client's, if nothing is under way for the last one. To be called once when any of it has ended.
    pub(super) fn free_if_done(&mut self, at: usize) {
        let Slot { client, unreleased, .. } = &self.slots[at];
        if client.is_none() && *unreleased == 0 && self.ring.as_ref().is_none_or(|ring| ring.is_off(at)) {
            debug_assert!(!self.free.contains(&at), "slot {at} is freed once");
            self.free.push(at);
        }
    }
}

/// Puts a client on a list, once.
pub(super) fn mark(flag: &mut bool, list: &mut Vec<usize>, at: usize) {
    if !std::mem::replace(flag, true) {
        list.push(at);
    }
}

fn refuse(mut stream: TcpStream) {
    // A fresh socket takes this at once; if not, the client finds the connection closed anyway.
    let _ = stream.write(b"-ERR max number of clients reached\r\n");
}
