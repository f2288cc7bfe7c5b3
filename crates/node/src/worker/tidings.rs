//! What a worker's clients are told from elsewhere: that their user is gone, what other clients order, that a pause is over, that there may be data that
//! they wait for, here or at the leader.

use std::sync::atomic::{Ordering, fence};

use highwater_core::{NodeId, TableId};
use highwater_redis::clients::{Order, Pause};
use highwater_redis::host::forward::Upstream;
use highwater_redis::host::waiters::Woken;
use highwater_redis::keyspace::KEYSPACE;
use highwater_redis::subscriptions::SWITCHED;
use highwater_redis::waiting::of_guest;
use highwater_seam::{Nanos, Refusal};

use super::clients::{Clients, Slot};
use crate::clock::unix_ms;

const NS_PER_MS: Nanos = 1_000_000;

/// The last that was heard.
#[derive(Default)]
pub(super) struct Tidings {
    /// The version of the users that every client was held against.
    users_seen: u64,
    /// The pause that was seen last, and when it is over.
    pause: Pause,
    resumes_at: Option<Nanos>,
    /// The leader when that was last known.
    leader: Option<NodeId>,
    /// The leader's connection when clients that wait for data were last told of it.
    serial: Option<u64>,
    /// The engine names what takes effect here, for somebody waits for it.
    hears_writes: bool,
    /// Clients of other nodes that wait for data and are to look.
    woken_guests: Vec<(NodeId, u64)>,
    /// Clients that are gone and stand in line at the leader, over which connection.
    left_lines: Vec<(u64, u64)>,
}

impl Tidings {
    /// When a pause is over.
    pub(super) fn deadline(&self) -> Option<Nanos> {
        self.resumes_at
    }

    /// A client is gone that stands in line at the leader.
    pub(super) fn left_line(&mut self, id: u64, serial: u64) {
        self.left_lines.push((id, serial));
    }

    /// Has the leader take those out of line that are gone.
    pub(super) fn leave_lines(&mut self, upstream: &mut Upstream) {
        for (id, serial) in std::mem::take(&mut self.left_lines) {
            upstream.leave(id, serial);
        }
    }
}

impl Clients {
    /// `serial`: of the connection to the leader, if requests are forwarded.
    pub(super) fn look_at_connection(&mut self, serial: Option<u64>) {
        if std::mem::replace(&mut self.tidings.serial, serial) != serial {
            // Whoever leads now does not know who waits for data.
            let woken = self.waiters.all();
            self.have_look(&woken);
        }
    }

    /// Some user is another: ends the connections of those that are gone.
    pub(super) fn look_at_users(&mut self, now: Nanos) {
        if std::mem::replace(&mut self.tidings.users_seen, self.door.access.version())
            == self.tidings.users_seen
        {
            return;
        }
        for at in 0..self.slots.len() {
            let Some(client) = &mut self.slots[at].client else { continue };
            client.connection.look_at_users();
            if client.connection.is_evicted() {
                self.remove(at, now);
            }
        }
    }

    /// Does what other clients have ordered.
    pub(super) fn take_orders(&mut self) {
        for (id, order) in self.door.clients.take_orders(self.worker) {
            let Some(at) = self.slots.iter().position(|slot| slot.id == id && slot.client.is_some()) else {
                continue;
            };
            let client = self.slots[at].client.as_mut().expect("it was found there");
            match order {
                Order::Kill => client.gone = true,
                Order::Unblock { error } => client.connection.unblock(error),
            }
            self.lists.dirty.put(&mut client.standing, at);
        }
    }

    /// When another node leads than before, those are told who have subscribed to that.
    pub(super) fn look_at_leader(&mut self, ready: Result<(), Refusal>) {
        let leader = match ready {
            Ok(()) | Err(Refusal::Busy) => Some(self.door.node),
            Err(Refusal::NotServing { ask }) => ask,
            Err(_) => None,
        };
        if leader.is_none() || self.tidings.leader == leader {
            return;
        }
        let before = std::mem::replace(&mut self.tidings.leader, leader);
        let Some(message) = before.zip(leader).and_then(|(old, new)| self.door.switched(old, new)) else {
            return;
        };
        for (at, slot) in self.slots.iter_mut().enumerate() {
            if let Some(client) = slot.client.as_mut().filter(|client| client.connection.listens()) {
                client.connection.tell_event(SWITCHED, message.as_bytes());
                self.lists.dirty.put(&mut client.standing, at);
            }
        }
    }

    /// When a pause is over, everybody goes on.
    pub(super) fn look_at_pause(&mut self, now: Nanos) {
        if self.tidings.resumes_at.is_some_and(|at| at <= now) {
            self.door.clients.forget_pause(unix_ms());
        }
        let pause = self.door.clients.last_pause();
        if pause == self.tidings.pause && self.tidings.resumes_at.is_none_or(|at| at > now) {
            return;
        }
        self.tidings.pause = pause;
        let (time, until, clients) = (unix_ms(), pause.until_ms, &mut self.slots);
        self.tidings.resumes_at =
            (until > time).then(|| now.saturating_add((until - time).saturating_mul(NS_PER_MS)));
        for (at, slot) in clients.iter_mut().enumerate() {
            if let Some(client) = &mut slot.client {
                client.connection.tell_time(time);
                self.lists.dirty.put(&mut client.standing, at);
            }
        }
    }

    /// Has clients that wait for data look again, or give up.
    pub(super) fn wake_waiters(&mut self, now: Nanos) {
        let mut own = Vec::new();
        for id in self.door.waiting.take_woken(self.worker) {
            match of_guest(id) {
                None => own.push(id),
                Some(guest) => self.tidings.woken_guests.push(guest),
            }
        }
        if self.waiters.is_empty() {
            return;
        }
        let woken = self.waiters.wake(own, now);
        self.have_look(&woken);
    }

    /// On engines where every replica takes writes: wakes those who wait for a row that took effect here, whoever was asked to write it. Whether the engine is to name
    /// such rows from now on, if that is news.
    ///
    /// A client gets in line and then looks. What took effect before it stood there may not have been named, and may have come behind its look: so
    /// all look once when the naming begins.
    pub fn take_written(&mut self, written: &[(TableId, Box<[u8]>)]) -> Option<bool> {
        if !self.door.leaderless {
            return None;
        }
        // What took effect is written before it is looked whether anybody waits; pairs with the count in `Waiting::enter`, which is written before
        // the look.
        fence(Ordering::SeqCst);
        let any = self.door.waiting.is_any();
        if any {
            let rows = written.iter().filter(|(table, _)| *table == KEYSPACE);
            self.door.waiting.wake(rows.map(|(_, key)| &**key));
        }
        let news = std::mem::replace(&mut self.tidings.hears_writes, any) != any;
        if news && any {
            self.door.waiting.wake_all();
        }
        news.then_some(any)
    }

    /// There may be something for this client, if it still waits for data.
    pub fn wake_by_id(&mut self, id: u64) {
        let woken = self.waiters.wake(vec![id], 0);
        self.have_look(&woken);
    }

    /// Clients of other nodes for whom there may be something.
    pub fn woken_guests(&mut self) -> std::vec::Drain<'_, (NodeId, u64)> {
        self.tidings.woken_guests.drain(..)
    }

    /// Has the leader put a client in line that waits for data, if what it asks is forwarded; and takes one out that waits no more.
    pub(super) fn line_up(&mut self, at: usize, upstream: &mut Upstream) {
        let Slot { client: Some(client), id, .. } = &mut self.slots[at] else { return };
        let serial = upstream.serial();
        let waits = client.connection.waits_for();
        let wanted = serial.zip(waits.map(|(seq, _)| seq));
        if client.lined == wanted {
            return;
        }
        if let Some((serial, _)) = client.lined.take() {
            upstream.leave(*id, serial);
        }
        if let (Some(_), Some((_, keys))) = (wanted, waits) {
            upstream.line(*id, keys);
            client.lined = wanted;
            // What was written before it stood in line wakes nobody.
            client.connection.look_again();
        }
    }

    pub(super) fn have_look(&mut self, woken: &[Woken]) {
        for Woken { at, late } in woken.iter().copied() {
            let Some(client) = &mut self.slots[at].client else { continue };
            client.connection.tell_time(unix_ms());
            match late {
                true => client.connection.give_up_waiting(),
                false => client.connection.look_again(),
            }
            self.lists.dirty.put(&mut client.standing, at);
            self.go_on_or_wait(at);
        }
    }
}
