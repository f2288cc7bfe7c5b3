//! Which of a worker's clients go on while it holds much for all of them, and which wait.
//!
//! Back-pressure: a client whose request the engine has no room for, whose replies wait, or who sent more than it may,
//! is not read from. Its socket is then watched for nothing, so that it costs nothing. What all clients hold together
//! is bounded, too ([`crowd`](super::crowd)).

use highwater_seam::Nanos;

use super::client::Client;
use super::clients::{Clients, Slot, Slots};
use super::crowd::{Crowd, Pressure, SMALL_INPUT};
use super::lists::{HeldBack, Later, Paused};

/// Clients that wait for room.
pub(super) struct Ration {
    held_back: HeldBack,
    /// The pressure when that list was last looked through.
    held_back_at: Pressure,
    paused: Paused,
    /// The one that is read from all the same, and its id: its command gets complete, or it is closed.
    favoured: Option<(usize, u64)>,
}

impl Default for Ration {
    fn default() -> Ration {
        Ration {
            held_back: HeldBack::default(),
            held_back_at: Pressure::Low,
            paused: Paused::default(),
            favoured: None,
        }
    }
}

impl Ration {
    /// Whether the favoured one has this slot.
    pub(super) fn favours_slot(&self, at: usize) -> bool {
        self.favoured.is_some_and(|(favoured, _)| favoured == at)
    }

    /// The client of this slot is gone.
    pub(super) fn forget(&mut self, at: usize) {
        if self.favours_slot(at) {
            self.favoured = None;
        }
    }

    /// Clients that wait for the worker's replies to become fewer.
    pub(super) fn held_back(&self) -> impl Iterator<Item = usize> {
        self.held_back.iter()
    }

    /// Calls the first of them of this kind: it is to go on.
    pub(super) fn call_one(
        &mut self,
        slots: &mut Slots,
        wanted: impl FnMut(&Slots, usize) -> bool,
    ) -> Option<usize> {
        self.held_back.next_where(slots, wanted)
    }
}

impl Clients {
    /// Puts a client on the list that it belongs to, unless it waits for input or a reply.
    pub(super) fn go_on_or_wait(&mut self, at: usize) {
        let crowded = self.crowd.is_crowded();
        let pressure = self.crowd.pressure();
        let slot = &mut self.slots[at];
        let Some(client) = &mut slot.client else { return };
        if client.connection.has_more() && !Later::has(client.standing) {
            let held = client.connection.held_bytes();
            let for_short = held == 0 && pressure.lets_short_ones();
            if held < pressure.max_held(client.proven) || for_short && !client.connection.needs_room() {
                self.lists.ready.put(&mut client.standing, at);
            } else if held < Pressure::Low.max_held(true) {
                self.ration.held_back_at = self.ration.held_back_at.max(pressure);
                self.ration.held_back.put(&mut client.standing, at);
            }
        }
        if crowded
            && client.counted.requests > SMALL_INPUT
            && client.connection.pending_bytes() <= SMALL_INPUT
        {
            // Nothing but empty memory.
            client.connection.rest();
            recount(client, &mut self.crowd);
        }
        // The favoured one goes on until what it holds is little again.
        if self.ration.favoured == Some((at, slot.id)) {
            if client.counted.requests > SMALL_INPUT {
                return;
            }
            self.ration.favoured = None;
        }
        if crowded && client.wants_to_send() && client.counted.requests > SMALL_INPUT {
            self.ration.paused.put(&mut client.standing, at);
        }
    }

    /// The worker's replies became fewer: who waited for that can go on.
    pub(super) fn look_at_held_back(&mut self) {
        let pressure = self.crowd.pressure();
        if pressure >= self.ration.held_back_at || self.ration.held_back.is_empty() {
            return;
        }
        self.ration.held_back_at = Pressure::Low;
        for _ in 0..self.ration.held_back.len() {
            let Some(at) = self.ration.held_back.next(&mut self.slots) else { break };
            self.go_on_or_wait(at);
        }
    }

    /// The worker's requests became fewer, or the favoured one's are done: who waited for that is read from.
    pub(super) fn let_paused_go_on(&mut self, now: Nanos) {
        if self.ration.paused.is_empty() || self.crowd.is_crowded() && self.ration.favoured.is_some() {
            return;
        }
        let crowded = self.crowd.is_crowded();
        while let Some(at) = self.ration.paused.next(&mut self.slots) {
            let Slot { client: Some(client), id, .. } = &mut self.slots[at] else { continue };
            // Its silence was ours.
            client.active = now;
            self.lists.dirty.put(&mut client.standing, at);
            if crowded {
                self.ration.favoured = Some((at, *id));
                break;
            }
        }
    }

    /// Whether somebody may send though the worker is full with requests.
    pub(super) fn is_favoured(&self, at: usize) -> bool {
        self.ration.favoured.is_some_and(|(favoured, id)| favoured == at && id == self.slots[at].id)
    }
}

/// Counts a client anew.
pub(super) fn recount(client: &mut Client, crowd: &mut Crowd) {
    client.beyond = client.beyond.min(client.connection.held_bytes());
    let now = client.count();
    let before = std::mem::replace(&mut client.counted, now);
    client.proven |= before.held > 0 && now.held == 0;
    crowd.update(before, now);
}
