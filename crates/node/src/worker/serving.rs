//! Whose requests a worker submits next, and where replies go.

use highwater_core::{Outcome, Timestamp};
use highwater_redis::Allowance;
use highwater_redis::host::forward::Upstream;
use highwater_redis::host::users::{Gate, Gatekeeper, standing};
use highwater_seam::{Nanos, Refusal, Worker};

use super::client::{Room, Ways};
use super::clients::{Clients, Slot, Slots};
use super::crowd::Pressure;
use super::rationing::recount;
use crate::clock::Ticks;

/// Work of one client in one round: about a hundred small commands. Beyond it the others have their turn.
pub(super) const SHARE: i64 = 128 << 10;
/// An engine that took nothing for so long may take nothing for long: who asks for nothing of it is looked for.
const BESIDE_AFTER: Nanos = 2_000_000;
/// Work of all clients in one turn, about: then the engine has its turn, and the sockets are looked at.
pub(super) const WORK_PER_TURN: i64 = 2 << 20;

/// Whether requests are handed in.
pub(super) struct Counter {
    /// Whether the engine had no room at the last attempt.
    blocked: bool,
    /// Since when it has taken nothing; and when to look for those who ask for nothing of it.
    busy_since: Option<Nanos>,
    beside_at: Option<Nanos>,
    gatekeeper: Gatekeeper,
    gate: Gate,
}

impl Default for Counter {
    fn default() -> Counter {
        let gatekeeper = Gatekeeper::default();
        Counter { blocked: false, busy_since: None, beside_at: None, gatekeeper, gate: Gate::Waits }
    }
}

impl Counter {
    /// Whether the engine had no room at the last attempt.
    pub(super) fn is_blocked(&self) -> bool {
        self.blocked
    }

    /// Nothing is handed in any more: nobody waits for the engine's room.
    pub(super) fn close(&mut self) {
        self.blocked = false;
    }

    /// When to look for those who ask for nothing of the engine.
    pub(super) fn deadline(&self) -> Option<Nanos> {
        self.beside_at
    }
}

impl Clients {
    /// Submits requests of the clients that are ready, by turns, until the engine has no room or the turn's work is
    /// done.
    ///
    /// A share of work to each; who did more because a single command or its reply was long owes the rest, and is
    /// passed over until others had as much, or nobody else is there. So a small request waits for one long one at
    /// most, however many clients send long ones.
    pub fn submit(&mut self, now: Nanos, engine: &mut dyn Worker, upstream: &mut Upstream) {
        self.counter.blocked = false;
        self.try_later_ones(now, upstream);
        let standing = standing(engine);
        self.counter.gate = self.counter.gatekeeper.watch(&self.door.access, engine);
        self.look_at_leader(standing);
        // Who waits for data waits on while it is not known who serves next.
        let woken = self.waiters.tell_serving(!matches!(engine.ready(), Err(Refusal::NotServing { .. })));
        self.have_look(&woken);
        self.look_at_held_back();
        if !self.round(now, engine, upstream)
            && let Some(at) = self.forgive_one()
        {
            self.serve(at, now, engine, upstream);
        }
        self.look_beside(now, engine, upstream);
    }

    /// An engine may have no room for long: its disk hangs, say. Then clients that ask for nothing of it are answered all the same, so that
    /// who looks whether this node is there (`PING`, `INFO`) finds it. A turn has the same bound of work as any other.
    fn look_beside(&mut self, now: Nanos, engine: &mut dyn Worker, upstream: &mut Upstream) {
        self.counter.beside_at = None;
        if !self.counter.blocked {
            self.counter.busy_since = None;
            return;
        }
        let at = *self.counter.busy_since.get_or_insert(now) + BESIDE_AFTER;
        if now < at {
            self.counter.beside_at = Some(at);
            return;
        }
        let mut work = WORK_PER_TURN;
        for _ in 0..self.lists.ready.len() {
            if work <= 0 {
                // The others are in front now.
                self.counter.beside_at = Some(now);
                break;
            }
            let Some(at) = self.lists.ready.next(&mut self.slots) else { break };
            let Some(client) = &mut self.slots[at].client else { continue };
            // What the engine has to see is known of some already: they keep their places.
            if client.is_blocked() {
                self.wait_for_room(at, false);
                continue;
            }
            let (done, room) = self.hand_in(at, now, Gate::Waits, engine, upstream);
            work -= done;
            if room == Room::None {
                self.wait_for_room(at, false);
            }
        }
    }

    /// Puts a client back whose place was taken: the engine has no room. It is the first again, or the last.
    fn wait_for_room(&mut self, at: usize, first: bool) {
        self.counter.blocked = true;
        let Some(client) = &mut self.slots[at].client else { return };
        match first {
            true => self.lists.ready.put_first(&mut client.standing, at),
            false => self.lists.ready.put(&mut client.standing, at),
        }
    }

    /// What a worker does with requests on data, as it was at the last [`submit`](Self::submit).
    pub fn gate(&self) -> Gate {
        self.counter.gate
    }

    /// Whether a request waits for a leader, or for room on the way to it.
    pub fn puts_off(&self) -> bool {
        !self.lists.later.is_empty()
    }

    /// Those whose requests were put off are served again, if there is reason to.
    fn try_later_ones(&mut self, now: Nanos, upstream: &Upstream) {
        if self.lists.later.is_empty() || !upstream.may_ask(now) {
            return;
        }
        for _ in 0..self.lists.later.len() {
            let Some(at) = self.lists.later.next(&mut self.slots) else { break };
            let Some(client) = &mut self.slots[at].client else { continue };
            if upstream.holds(at) {
                self.lists.later.put(&mut client.standing, at);
                continue;
            }
            self.go_on_or_wait(at);
        }
    }

    /// Serves each client that is ready once, as long as there is work left in this turn; debtors pay a share instead.
    /// Whether any was served.
    fn round(&mut self, now: Nanos, engine: &mut dyn Worker, upstream: &mut Upstream) -> bool {
        let (mut work, mut served) = (WORK_PER_TURN, false);
        for _ in 0..self.lists.ready.len() {
            if work <= 0 || self.counter.blocked {
                break;
            }
            let Some(at) = self.lists.ready.next(&mut self.slots) else { break };
            let Some(client) = &mut self.slots[at].client else { continue };
            if client.debt >= SHARE {
                client.debt -= SHARE;
                self.lists.ready.put(&mut client.standing, at);
                continue;
            }
            work -= self.serve(at, now, engine, upstream);
            served = true;
        }
        served
    }

    /// Only debtors are ready: takes the one that owes least off the list, its debt paid. The others pay as much, and
    /// stay debtors, so that who comes now and owes nothing is served before them.
    fn forgive_one(&mut self) -> Option<usize> {
        let debt = |slots: &Slots, at: usize| slots[at].client.as_ref().map_or(0, |client| client.debt);
        let chosen = self.lists.ready.next_least(&mut self.slots, debt)?;
        let least = debt(&self.slots, chosen);
        for at in self.lists.ready.iter() {
            if let Some(client) = &mut self.slots[at].client {
                client.debt = (client.debt - least).max(SHARE);
            }
        }
        self.slots[chosen].client.as_mut()?.debt = 0;
        Some(chosen)
    }

    /// Serves a client that was taken off the list; the work that this was.
    fn serve(&mut self, at: usize, now: Nanos, engine: &mut dyn Worker, upstream: &mut Upstream) -> i64 {
        let (work, room) = self.hand_in(at, now, self.counter.gate, engine, upstream);
        match room {
            Room::None => {
                self.wait_for_room(at, true);
            }
            Room::Enough | Room::Later => {}
        }
        if work > 0 {
            self.counter.busy_since = None;
        }
        work
    }

    /// Hands in what a client asks, that was taken off the list; the work that this was, and whether there was room.
    fn hand_in(
        &mut self,
        at: usize,
        now: Nanos,
        gate: Gate,
        engine: &mut dyn Worker,
        upstream: &mut Upstream,
    ) -> (i64, Room) {
        let Slot { client: Some(client), unreleased, id, .. } = &mut self.slots[at] else {
            return (0, Room::Enough);
        };
        if upstream.holds(at) {
            self.lists.later.put(&mut client.standing, at);
            return (0, Room::Later);
        }
        let share = SHARE - client.debt;
        let pressure = self.crowd.pressure();
        let max_held = pressure.max_held(client.proven);
        let short = max_held == 0 && pressure.lets_short_ones();
        let allowance = Allowance { work: share, max_held: if short { 1 } else { max_held }, short };
        let held = client.connection.held_bytes();
        // What clients asked of another node, and may yet be run here, goes first.
        let gate = if upstream.has_own_first() && gate == Gate::Open { Gate::Waits } else { gate };
        let ways = Ways { engine, gate, upstream };
        let (left, room) = client.submit(now, (at, *id), unreleased, ways, allowance, &self.watch);
        client.debt = (-left.work).max(0);
        if short && pressure == Pressure::Full {
            client.beyond += client.connection.held_bytes().saturating_sub(held);
        }
        recount(client, &mut self.crowd);
        self.lists.dirty.put(&mut client.standing, at);
        if room == Room::Later {
            self.lists.later.put(&mut client.standing, at);
        }
        (share - left.work, room)
    }

    /// Hands a reply to its client, if it is still there; this moment is the stopwatch's.
    pub fn released(
        &mut self,
        at: usize,
        seq: u64,
        moment: Ticks,
        outcome: Outcome,
        when: Timestamp,
        reply: &[u8],
    ) {
        let slot = &mut self.slots[at];
        slot.unreleased -= 1;
        match &mut slot.client {
            Some(client) => {
                let failed = reply.first() == Some(&b'-');
                match client.connection.was_in_vain(seq, outcome, reply) {
                    true => client.unreleased.forget(seq),
                    false => client.unreleased.released(seq, outcome, moment, failed, &self.watch),
                }
                client.connection.released(seq, outcome, when, reply);
                client.rested = false;
                self.lists.dirty.put(&mut client.standing, at);
            }
            None => {
                self.door.waiting.written_by_one_that_left(outcome);
                self.free_if_done(at);
            }
        }
    }

    /// The leader has answered.
    pub fn answered(
        &mut self,
        at: usize,
        seq: u64,
        moment: Ticks,
        outcome: Outcome,
        when: Timestamp,
        reply: &[u8],
    ) {
        if let Some(client) = &mut self.slots[at].client
            && !client.connection.was_in_vain(seq, outcome, reply)
        {
            client.learn(reply.len());
        }
        self.released(at, seq, moment, outcome, when, reply);
        if let Some(client) = &mut self.slots[at].client {
            recount(client, &mut self.crowd);
        }
        self.go_on_or_wait(at);
    }

    /// The leader has refused, and nothing was done.
    pub fn refused(&mut self, at: usize, seq: u64, moment: Ticks, refusal: Refusal, slot: u16) {
        let why = self.door.referral(refusal, || slot).to_string();
        self.released(at, seq, moment, Outcome::Denied, Timestamp::ZERO, why.as_bytes());
        self.go_on_or_wait(at);
    }

    /// Nobody will say what has become of it.
    pub fn unanswered(&mut self, at: usize, seq: u64, moment: Ticks) {
        self.released(at, seq, moment, Outcome::Unknown, Timestamp::ZERO, &[]);
        self.go_on_or_wait(at);
    }

    /// Whether so many replies wait for clients to take them that no answers of a leader are taken.
    pub fn is_full_of_output(&self) -> bool {
        self.crowd.is_full_of_output()
    }
}
