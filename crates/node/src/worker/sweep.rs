//! Now and then, and only while there is a reason: buffers are given back, and clients that hold up others, or are not
//! there any more, are closed.

use highwater_seam::Nanos;

use super::client::{Client, Counted};
use super::clients::{Clients, Slots};
use super::crowd::{Pressure, SMALL_INPUT};
use super::lists::{HeldBack, Paused};
use super::rationing::recount;
use crate::tls::HANDSHAKE_PATIENCE;

/// How often to look.
const EVERY: Nanos = 1_000_000_000;
/// How often to look while some may hold up others.
const EVERY_UNDER_PRESSURE: Nanos = 250_000_000;
/// How long who holds up others may take nothing of its replies.
const STUCK_UNDER_PRESSURE: Nanos = 1_000_000_000;
/// How long who holds up others may send nothing of its command, or queue nothing in its transaction.
const SILENT_UNDER_PRESSURE: Nanos = 5_000_000_000;
/// How often to complain of strangers.
const COMPLAIN_EVERY: Nanos = 60_000_000_000;

/// What to do with a client.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Verdict {
    /// Nothing, and nothing later unless something happens.
    Leave,
    /// Nothing now, but then.
    LookAgain(Nanos),
    /// It is closed; why.
    Close(&'static str),
}

/// When to look, and what was complained of.
#[derive(Default)]
pub(super) struct Sweeping {
    at: Option<Nanos>,
    /// When a client that waits for room and is new may be served like those that have shown that they take their replies.
    trusts_at: Option<Nanos>,
    complained_of_http: Option<Nanos>,
    complained_of_tls: Option<Nanos>,
}

impl Sweeping {
    /// When to look.
    pub(super) fn deadline(&self) -> Option<Nanos> {
        self.at
    }
}

impl Clients {
    /// Something happened: there is a reason to look later.
    pub(super) fn sweep_later(&mut self, now: Nanos) {
        let soon = now + self.sweeps_every();
        if self.sweeping.at.is_none_or(|at| at > soon) {
            self.sweeping.at = Some(soon);
        }
    }

    fn sweeps_every(&self) -> Nanos {
        if self.crowd.pressure() >= Pressure::Tight { EVERY_UNDER_PRESSURE } else { EVERY }
    }

    /// Whether room for replies is to be made: they take all of it, or somebody waits for some who is not to blame.
    fn lacks_room(&self) -> bool {
        let waits = |at: usize| {
            let client = self.slots[at].client.as_ref();
            client.is_some_and(|one| HeldBack::has(one.standing) && one.stuck_since.is_none())
        };
        match self.crowd.pressure() {
            Pressure::Over | Pressure::Full => true,
            Pressure::Tight => self.ration.held_back().any(waits),
            Pressure::High | Pressure::Low => false,
        }
    }

    /// Who came new must not wait for as long as others, who take their replies, have half of the room: one a second is served like them.
    fn trust_a_newcomer(&mut self, now: Nanos) {
        if self.crowd.pressure() != Pressure::Tight || self.sweeping.trusts_at.is_some_and(|at| now < at) {
            return;
        }
        let is_new =
            |slots: &Slots, at: usize| slots[at].client.as_ref().is_some_and(|client| !client.proven);
        let Some(at) = self.ration.call_one(&mut self.slots, is_new) else { return };
        self.sweeping.trusts_at = Some(now + EVERY);
        if let Some(client) = &mut self.slots[at].client {
            client.proven = true;
            self.go_on_or_wait(at);
        }
    }

    /// Looks at every client.
    pub(super) fn sweep(&mut self, now: Nanos) {
        let mut next: Option<Nanos> = None;
        self.trust_a_newcomer(now);
        let (lacks_room, every) = (self.lacks_room(), self.sweeps_every());
        for at in 0..self.slots.len() {
            let verdict = self.judge(at, now, lacks_room);
            let slot = &mut self.slots[at];
            let Some(client) = &mut slot.client else { continue };
            match verdict {
                Verdict::Leave => {}
                Verdict::LookAgain(then) => next = Some(next.map_or(then, |next| next.min(then))),
                Verdict::Close(why) => {
                    tracing::info!(client = slot.id, "closed: {why}");
                    client.gone = true;
                    // Its room counts as free at once: no more are closed than must be.
                    self.crowd.update(std::mem::take(&mut client.counted), Counted::default());
                    self.lists.dirty.put(&mut client.standing, at);
                    continue;
                }
            }
            if !client.rested && now - client.active >= EVERY && client.is_idle(slot.unreleased) {
                client.rested = true;
                client.connection.rest();
                recount(client, &mut self.crowd);
            }
            if !client.rested {
                next = Some(next.map_or(now + EVERY, |next| next.min(now + EVERY)));
            }
        }
        self.sweeping.at = next.map(|next| next.max(now + every));
    }

    fn judge(&self, at: usize, now: Nanos, lacks_room: bool) -> Verdict {
        let slot = &self.slots[at];
        let Some(client) = &slot.client else { return Verdict::Leave };
        let (rules, silent) = (&self.rules, now - client.active);
        if !client.stream.is_established() {
            if now - client.came >= HANDSHAKE_PATIENCE {
                return Verdict::Close("its TLS handshake did not end");
            }
            return Verdict::LookAgain(client.came + HANDSHAKE_PATIENCE);
        }
        if let Some(since) = client.stuck_since {
            let stuck = now - since;
            if rules.stuck_timeout > 0 && stuck >= rules.stuck_timeout {
                return Verdict::Close("it took none of its replies for limits.stuck_timeout_s");
            }
            if lacks_room && self.crowd.is_half_full() && stuck >= STUCK_UNDER_PRESSURE {
                return Verdict::Close("it takes none of its replies, and others wait for their room");
            }
            let holds_up = self.crowd.is_crowded() && client.counted.requests > SMALL_INPUT;
            if holds_up && stuck >= SILENT_UNDER_PRESSURE {
                return Verdict::Close("it sends and takes no replies, and others wait for its room");
            }
            return Verdict::LookAgain(now + self.sweeps_every());
        }
        let waits_for_it = client.is_idle(slot.unreleased);
        if self.crowd.is_crowded() && waits_for_it && client.counted.requests > SMALL_INPUT {
            let may_send = !Paused::has(client.standing) || self.is_favoured(at);
            if may_send && silent >= SILENT_UNDER_PRESSURE {
                return Verdict::Close("it does not complete what it sent, and others wait for its room");
            }
            return Verdict::LookAgain(now + EVERY);
        }
        if rules.idle_timeout > 0 && waits_for_it && !Paused::has(client.standing) {
            if silent >= rules.idle_timeout {
                return Verdict::Close("it was idle for limits.idle_timeout_s");
            }
            return Verdict::LookAgain(client.active + rules.idle_timeout);
        }
        Verdict::Leave
    }

    /// Says that somebody speaks TLS where it is not spoken, or the other way round, or badly.
    #[cold]
    pub(super) fn complain_of_tls(&mut self, client: &Client, now: Nanos) {
        if self.sweeping.complained_of_tls.is_none_or(|at| now - at >= COMPLAIN_EVERY) {
            self.sweeping.complained_of_tls = Some(now);
            let from = client.stream.peer_addr().map_or("somebody".into(), |from| from.to_string());
            match client.stream.broken() {
                None => tracing::warn!(
                    "{from} speaks TLS at the RESP port, which does not (tls.resp); the connection was closed"
                ),
                Some(why) => tracing::warn!(
                    "the TLS of {from} at the RESP port failed: {why}; the connection was closed. A client that does not speak TLS \
                     looks so, too (tls.resp)"
                ),
            }
        }
    }

    /// Says that somebody's browser was made to talk to this port.
    #[cold]
    pub(super) fn complain_of_http(&mut self, client: &Client, now: Nanos) {
        if self.sweeping.complained_of_http.is_none_or(|at| now - at >= COMPLAIN_EVERY) {
            self.sweeping.complained_of_http = Some(now);
            let from = client.stream.peer_addr().map_or("somebody".into(), |from| from.to_string());
            tracing::warn!(
                "possible attack: {from} speaks HTTP at the RESP port. A web page may be making somebody's browser send \
                 commands here (cross-protocol scripting). The connection was closed, nothing behind its first line was run"
            );
        }
    }
}
