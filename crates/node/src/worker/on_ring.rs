//! Clients whose sockets stand on a [ring](crate::uring): what it brings, and what is asked of it.
//!
//! All else is as with epoll: who is read from, who is served, who is closed is decided in [`clients`](super::clients). What is different
//! is that bytes come without being read, a little of them after a client is not to be read from any more, and that output which is queued counts as
//! written: what a socket did not take of it comes back with the next call, which follows in the same turn.

use std::io;

use highwater_seam::Nanos;

use super::client::Client;
use super::clients::{Clients, Slot};
use super::keys::KEY_CLIENT;
use super::rationing::recount;
use crate::poll::Poller;
use crate::uring::{News, Ring};

/// How often to ask whether all receives have ended, and for how long at a time: they end at once.
const LAST_CALLS: usize = 100;
const LAST_CALL: Nanos = 10_000_000;

/// The ring, and who leaves it.
#[derive(Default)]
pub(super) struct OnRing {
    /// The ring, for sockets that do not speak TLS; without it all are with epoll.
    ring: Option<Ring>,
    /// So much was received that nobody is received from by the ring, which would bring more than a little of each.
    off: bool,
    /// Clients that are over when their sockets have taken what is queued for them.
    leaving: Vec<usize>,
}

impl OnRing {
    /// Sockets stand on this one.
    pub(super) fn set(&mut self, ring: Option<Ring>) {
        self.ring = ring;
    }

    /// Whether there is one.
    pub(super) fn is_there(&self) -> bool {
        self.ring.is_some()
    }

    /// Whether what the client of a slot sends is brought by the ring, to the end.
    pub(super) fn brings(&self, at: usize) -> bool {
        self.ring.as_ref().is_some_and(|ring| !self.off || !ring.is_off(at))
    }

    /// Whether the ring has nothing under way for a slot.
    pub(super) fn is_off(&self, at: usize) -> bool {
        self.ring.as_ref().is_none_or(|ring| ring.is_off(at))
    }

    /// [Queues](Client::queue) a client's output; whether it did. `who`: its slot and id.
    pub(super) fn queue(&mut self, client: &mut Client, now: Nanos, who: (usize, u64)) -> bool {
        self.ring.as_mut().is_some_and(|ring| client.queue(now, ring, who))
    }

    /// A client is over when its socket has taken what is queued.
    pub(super) fn let_leave_later(&mut self, at: usize) {
        self.leaving.push(at);
    }

    /// A client is gone: its socket is closed when nothing is under way for it.
    pub(super) fn bury(&mut self, at: usize, client: Client) {
        if let Some(ring) = self.ring.as_mut().filter(|_| client.on_ring) {
            ring.stop(at);
            ring.bury(client.stream.into());
        }
    }

    #[cfg(test)]
    pub(super) fn ring(&self) -> Option<&Ring> {
        self.ring.as_ref()
    }

    /// Has a client's socket watched for what it is to be watched for, by the ring and by epoll, or by epoll alone.
    pub(super) fn watch(&mut self, client: &mut Client, at: usize, poller: &Poller) -> io::Result<()> {
        let by_ring = client.on_ring && !self.off;
        let mut receives = false;
        if let Some(ring) = self.ring.as_mut().filter(|_| client.on_ring) {
            match by_ring && client.is_read() {
                true if ring.is_off(at) => ring.receive(at, &client.stream),
                true => {}
                false => ring.stop(at),
            }
            receives = ring.receives(at);
        }
        let wanted = client.wanted(by_ring, receives);
        if wanted == client.interest {
            return Ok(());
        }
        let key = KEY_CLIENT | at as u64;
        match (client.interest, wanted) {
            (None, Some(interest)) => poller.add(&client.stream, key, interest)?,
            (Some(_), Some(interest)) => poller.modify(&client.stream, key, interest)?,
            (Some(_), None) => poller.remove(&client.stream)?,
            (None, None) => {}
        }
        client.interest = wanted;
        Ok(())
    }
}

impl Clients {
    /// Waits as [`Poller::wait`] does, for what the ring brings, too: that is here when the wait is over, and has to be
    /// [taken](Self::take_news).
    pub fn wait(&mut self, poller: &mut Poller, timeout: Option<Nanos>) -> io::Result<usize> {
        let Some(ring) = &mut self.on_ring.ring else { return poller.wait(timeout) };
        if ring.wait(&*poller, timeout)? {
            return poller.wait(Some(0));
        }
        poller.forget();
        Ok(0)
    }

    /// Hands over what is queued for sockets. A worker that does not wait does this at the end of its turn.
    pub fn hand_over(&mut self, now: Nanos) {
        if self.on_ring.ring.as_mut().is_some_and(Ring::has_queued) {
            self.enter(now);
        }
    }

    fn enter(&mut self, now: Nanos) {
        if let Some(ring) = &mut self.on_ring.ring {
            ring.enter().expect("the kernel takes what is queued on a ring that works");
            self.take_news(now);
        }
    }

    /// Hands over what is queued, if what one client may need has no room any more.
    pub(super) fn make_room(&mut self, now: Nanos) {
        if self.on_ring.ring.as_mut().is_some_and(|ring| !ring.has_room()) {
            self.enter(now);
        }
    }

    /// Takes what came.
    pub fn take_news(&mut self, now: Nanos) {
        while let Some((at, news)) = self.on_ring.ring.as_mut().and_then(Ring::next_news) {
            self.take(at, news, now);
            if self.slots[at].client.is_some() {
                self.something_came(at, now);
            }
        }
    }

    fn take(&mut self, at: usize, news: News, now: Nanos) {
        let ring = self.on_ring.ring.as_mut().expect("it has news");
        let Slot { client, id, .. } = &mut self.slots[at];
        match (news, client) {
            (News::NotSent(whose, rest, broken), Some(client)) if whose == *id => {
                assert!(client.unsent.is_empty(), "behind what a socket did not take nothing is queued");
                (client.unsent, client.gone) = (rest, client.gone | broken);
                recount(client, &mut self.crowd);
                return;
            }
            (News::NotSent(..), _) => return,
            (News::Received(buffer, len), Some(client)) => {
                client.receive(ring.received(buffer, len), now);
                client.rested = false;
                ring.give_back(buffer);
                // What it sent counts at once: the next one in this turn may be one too many.
                recount(client, &mut self.crowd);
            }
            (News::Received(buffer, _), None) => ring.give_back(buffer),
            (News::Ended, Some(client)) => client.end(),
            (News::Broken, Some(client)) => client.gone = true,
            (News::Stopped | News::Ended | News::Broken, _) => {}
        }
        if ring.is_off(at) {
            self.free_if_done(at);
        }
    }

    /// A receive may bring all that the ring's buffers hold before it can be stopped. So the ring is not used while the worker is full with requests, and
    /// until half of them are done: sockets are read from a little at a time then.
    pub(super) fn look_at_crowd(&mut self) {
        let full = if self.on_ring.off { self.crowd.is_half_crowded() } else { self.crowd.is_crowded() };
        if self.on_ring.ring.is_none() || full == self.on_ring.off {
            return;
        }
        self.on_ring.off = full;
        for (at, slot) in self.slots.iter_mut().enumerate() {
            if let Some(client) = &mut slot.client {
                self.lists.dirty.put(&mut client.standing, at);
            }
        }
    }

    /// Closes those that were told all they asked for, once their sockets have taken it.
    pub(super) fn let_leave(&mut self, now: Nanos) {
        if self.on_ring.leaving.is_empty() {
            return;
        }
        self.enter(now);
        for at in std::mem::take(&mut self.on_ring.leaving) {
            let Slot { client: Some(client), unreleased, .. } = &mut self.slots[at] else { continue };
            match client.is_over(*unreleased) {
                true => self.remove(at, now),
                false => self.lists.dirty.put(&mut client.standing, at),
            }
        }
    }

    /// Brings what is under way to its end: nothing is queued and nothing received any more.
    pub(super) fn leave_ring(&mut self, now: Nanos, poller: &Poller) -> io::Result<()> {
        for _ in 0..LAST_CALLS {
            let Some(ring) = &mut self.on_ring.ring else { return Ok(()) };
            if ring.stop_all() && !ring.has_queued() {
                break;
            }
            ring.wait(poller, Some(LAST_CALL))?;
            self.take_news(now);
        }
        Ok(())
    }
}
