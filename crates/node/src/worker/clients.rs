//! A worker's RESP clients: who is there, and whose socket wants what. Who is served next is in [`serving`](super::serving), who has to wait for
//! room in [`rationing`](super::rationing), and what others have to tell them in [`tidings`](super::tidings).
//!
//! A client goes on when the reason why it stopped is gone, not when something arrives: nothing may arrive any more.
//! So whatever changes a client (its socket, a reply, a turn of its own) puts it on the list [`Dirty`], and the flush at
//! the end of the turn decides anew whether it is ready, waits, or is over.
//!
//! Sockets are told of by epoll, or, but for those that speak TLS, stand [on a ring](super::on_ring).

use std::io::{self, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::ops::{Index, IndexMut};
use std::sync::Arc;

use highwater_redis::host::forward::Upstream;
use highwater_redis::host::waiters::{LOOK_SELDOM, Waiters};
use highwater_redis::host::watch::Watch;
use highwater_redis::{Connection, Door};
use highwater_seam::Nanos;

use super::client::{Client, Counted};
use super::crowd::{Crowd, Limits};
use super::farewell::Parting;
use super::keys::KEY_LISTENER;
use super::lists::{Lists, Paused, Standing, Standings};
use super::on_ring::OnRing;
use super::rationing::{Ration, recount};
use super::serving::Counter;
use super::sweep::Sweeping;
use super::tidings::Tidings;
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

// circle: each file has its part of the state, and the methods of all clients that are about it.
/// All clients of one worker. What a part has to itself is private to the file that it stands in; what a part needs besides, it is handed.
pub struct Clients {
    pub(super) worker: usize,
    pub(super) door: Arc<Door>,
    pub(super) watch: Watch,
    pub(super) rules: Rules,
    pub(super) slots: Slots,
    pub(super) lists: Lists,
    pub(super) crowd: Crowd,
    pub(super) waiters: Waiters,
    /// The door by which they come in.
    pub(super) entrance: Entrance,
    /// The ring, for sockets that do not speak TLS.
    pub(super) on_ring: OnRing,
    /// Clients that have to wait for room.
    pub(super) ration: Ration,
    /// Whether requests are handed in.
    pub(super) counter: Counter,
    /// News for them from others.
    pub(super) tidings: Tidings,
    /// Clients that are looked after.
    pub(super) sweeping: Sweeping,
    /// Since when the door is closed.
    pub(super) parting: Parting,
    pub(super) buffer: Vec<u8>,
}

/// The door: who comes in, and how.
pub(super) struct Entrance {
    /// `None` once it is closed.
    acceptor: Option<Acceptor>,
    /// If it speaks TLS.
    keys: Option<Arc<Keys>>,
    accepted: u64,
    open: usize,
}

/// Places for clients.
///
/// A slot is free again when its client is gone *and* its last request is released *and* the ring receives nothing for it: so a
/// token never names the wrong client, and neither does a completion.
#[derive(Default)]
pub(super) struct Slots {
    all: Vec<Slot>,
    free: Vec<usize>,
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
        let acceptor = Some(Acceptor::new(listener, KEY_LISTENER, "clients", poller)?);
        Ok(Clients {
            worker,
            door,
            watch,
            rules,
            slots: Slots::default(),
            lists: Lists::default(),
            crowd: Crowd::new(rules.limits),
            waiters: Waiters::new(LOOK_SELDOM),
            entrance: Entrance { acceptor, keys: None, accepted: 0, open: 0 },
            on_ring: OnRing::default(),
            ration: Ration::default(),
            counter: Counter::default(),
            tidings: Tidings::default(),
            sweeping: Sweeping::default(),
            parting: Parting::default(),
            buffer: vec![0; READ_BYTES],
        })
    }

    /// The door speaks TLS with these keys.
    pub fn set_keys(&mut self, keys: Option<Arc<Keys>>) {
        self.entrance.keys = keys;
    }

    /// Sockets stand on this ring.
    pub fn set_ring(&mut self, ring: Option<Ring>) {
        self.on_ring.set(ring);
    }

    /// How many are connected.
    pub fn count(&self) -> usize {
        self.entrance.open
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
        !self.lists.ready.is_empty() && !self.counter.is_blocked()
    }

    /// When to give the next turn at the latest.
    pub fn deadline(&self) -> Option<Nanos> {
        let accepts = self.entrance.acceptor.as_ref().and_then(Acceptor::deadline);
        let (sweeps, alarm) = (self.sweeping.deadline(), self.waiters.deadline());
        let (resumes, beside) = (self.tidings.deadline(), self.counter.deadline());
        [accepts, sweeps, alarm, resumes, beside].into_iter().flatten().min()
    }

    /// Does what is due.
    /// `serial`: of the connection to the leader, if requests are forwarded.
    pub fn turn(&mut self, now: Nanos, poller: &Poller, serial: Option<u64>) {
        if let Some(acceptor) = &mut self.entrance.acceptor {
            acceptor.turn(now, poller);
        }
        if self.sweeping.deadline().is_some_and(|at| at <= now) {
            self.sweep(now);
        }
        self.take_orders();
        self.look_at_pause(now);
        self.wake_waiters(now);
        self.look_at_connection(serial);
        self.look_at_users(now);
    }

    /// Takes new clients.
    pub fn accept(&mut self, now: Nanos, poller: &Poller) {
        self.let_some_in(now, poller);
    }

    /// Takes some of those who wait at the door; whether more may be there.
    pub(super) fn let_some_in(&mut self, now: Nanos, poller: &Poller) -> bool {
        for _ in 0..ACCEPTS {
            let Some(acceptor) = &mut self.entrance.acceptor else { return false };
            let Some((stream, _)) = acceptor.next(now, poller) else { return false };
            if self.entrance.open >= self.rules.max {
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
        let at = self.slots.find_free();
        let keys = self.entrance.keys.as_ref().and_then(|keys| keys.current());
        let text =
            |address: io::Result<SocketAddr>| address.map_or_else(|_| String::new(), |text| text.to_string());
        let (from, to) = (text(stream.peer_addr()), text(stream.local_addr()));
        let wire = Wire::accept(stream, keys).ok();
        self.make_room(now);
        let id = (self.entrance.accepted + 1) << 8 | (self.worker as u64 & 0xff);
        let client = wire.and_then(|wire| {
            let on_ring = self.on_ring.is_there() && matches!(wire, Wire::Plain(_));
            let connection = Connection::new(id, self.door.clone(), unix_ms());
            let connection = connection.metered(self.watch.meter.clone());
            let mut client = Client::new(wire, connection, on_ring, now);
            self.on_ring.watch(&mut client, at, poller).ok().map(|()| client)
        });
        let Some(mut client) = client else {
            self.slots.free.push(at);
            return;
        };
        self.entrance.accepted += 1;
        self.entrance.open += 1;
        client.connection.introduce(from, to);
        let slot = &mut self.slots[at];
        (slot.id, slot.client) = (id, Some(client));
        self.sweep_later(now);
    }

    /// Something happened on a client's socket.
    pub fn event(&mut self, at: usize, event: Event, now: Nanos) {
        let crowded = self.crowd.is_crowded() && !self.ration.favours_slot(at);
        let Some(client) = self.slots.all.get_mut(at).and_then(|slot| slot.client.as_mut()) else { return };
        client.gone |= event.broken;
        client.rested = false;
        // The ring brings what comes by it, to the end.
        let by_ring = client.on_ring && self.on_ring.brings(at);
        if event.readable && !Paused::has(client.standing) && !by_ring {
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
        self.lists.dirty.put(&mut client.standing, at);
        // Ready for this turn already.
        self.go_on_or_wait(at);
        self.sweep_later(now);
    }

    /// Writes what is ready, decides who can go on, adjusts what the sockets are watched for, closes what is over.
    pub fn flush(&mut self, now: Nanos, poller: &Poller, upstream: &mut Upstream) {
        self.tidings.leave_lines(upstream);
        self.look_at_crowd();
        for _ in 0..self.lists.dirty.len() {
            let Some(at) = self.lists.dirty.next(&mut self.slots) else { break };
            self.make_room(now);
            let Slot { client: Some(client), unreleased, id } = &mut self.slots[at] else { continue };
            let queued = self.on_ring.queue(client, now, (at, *id));
            if !queued {
                client.write(now);
            }
            recount(client, &mut self.crowd);
            if client.is_over(*unreleased) {
                match queued && !client.gone {
                    true => self.on_ring.let_leave_later(at),
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
            if self.on_ring.watch(client, at, poller).is_err() {
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
        !self.lists.dirty.is_empty()
    }

    pub(super) fn remove(&mut self, at: usize, now: Nanos) {
        self.make_room(now);
        let Some(client) = self.slots[at].client.take() else { return };
        self.waiters.remove(self.slots[at].id);
        if let Some((serial, _)) = client.lined {
            self.tidings.left_line(self.slots[at].id, serial);
        }
        self.crowd.update(client.counted, Counted::default());
        if client.connection.spoke_http() {
            self.complain_of_http(&client, now);
        }
        if client.connection.spoke_tls() || client.stream.broken().is_some() {
            self.complain_of_tls(&client, now);
        }
        self.ration.forget(at);
        self.entrance.open -= 1;
        self.on_ring.bury(at, client);
        self.free_if_done(at);
    }

    /// The slot may be another client's, if nothing is under way for the last one. To be called once when any of it has ended.
    pub(super) fn free_if_done(&mut self, at: usize) {
        let Slot { client, unreleased, .. } = &self.slots[at];
        if client.is_none() && *unreleased == 0 && self.on_ring.is_off(at) {
            debug_assert!(!self.slots.free.contains(&at), "slot {at} is freed once");
            self.slots.free.push(at);
        }
    }
}

impl Entrance {
    /// Lets nobody in any more: callers find nobody at the port.
    pub(super) fn close(&mut self) {
        self.acceptor = None;
    }
}

impl Slots {
    fn find_free(&mut self) -> usize {
        self.free.pop().unwrap_or_else(|| {
            self.all.push(Slot::default());
            self.all.len() - 1
        })
    }

    /// How many there are, free ones among them.
    pub(super) fn len(&self) -> usize {
        self.all.len()
    }

    /// How many are free.
    #[cfg(test)]
    pub(super) fn free(&self) -> usize {
        self.free.len()
    }

    /// All of them.
    pub(super) fn iter(&self) -> std::slice::Iter<'_, Slot> {
        self.all.iter()
    }

    /// All of them, to be changed.
    pub(super) fn iter_mut(&mut self) -> std::slice::IterMut<'_, Slot> {
        self.all.iter_mut()
    }
}

impl Standings for Slots {
    #[inline]
    fn standing(&self, at: usize) -> Option<Standing> {
        self.all[at].client.as_ref().map(|client| client.standing)
    }

    #[inline]
    fn standing_mut(&mut self, at: usize) -> Option<&mut Standing> {
        self.all[at].client.as_mut().map(|client| &mut client.standing)
    }
}

impl Index<usize> for Slots {
    type Output = Slot;

    #[inline]
    fn index(&self, at: usize) -> &Slot {
        &self.all[at]
    }
}

impl IndexMut<usize> for Slots {
    #[inline]
    fn index_mut(&mut self, at: usize) -> &mut Slot {
        &mut self.all[at]
    }
}

fn refuse(mut stream: TcpStream) {
    // A fresh socket takes this at once; if not, the client finds the connection closed anyway.
    let _ = stream.write(b"-ERR max number of clients reached\r\n");
}
