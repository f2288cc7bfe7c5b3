//! Which of a worker's clients go on while it holds much for all of them, and which wait.
//!
//! Back-pressure: a client whose request the engine has no room for, whose replies wait, or who sent more than it may,
//! is not read from. Its socket is then watched for nothing, so that it costs nothing. What all clients hold together
//! is bounded, too ([`crowd`](super::crowd)).

use highwater_seam::Nanos;

use super::client::Client;
use super::clients::{Clients, Slot, mark};
use super::crowd::{Crowd, Pressure, SMALL_INPUT};

impl Clients {
    /// Puts a client on the list that it belongs to, unless it waits for input or a reply.
    pub(super) fn go_on_or_wait(&mut self, at: usize) {
        let crowded = self.crowd.is_crowded();
        let pressure = self.crowd.pressure();
        let slot = &mut self.slots[at];
        let Some(client) = &mut slot.client else { return };
        if client.connection.has_more() && !client.later {
            let held = client.connection.held_bytes();
            let for_short = held == 0 && pressure.lets_short_ones();
            if held < pressure.max_held(client.proven) || for_short && !client.connection.needs_room() {
                if !std::mem::replace(&mut client.ready, true) {
                    self.ready.push_back(at);
                }
            } else if held < Pressure::Low.max_held(true) {
                self.held_back_at = self.held_back_at.max(pressure);
                mark(&mut client.held_back, &mut self.held_back, at);
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
        if self.favoured == Some((at, slot.id)) {
            if client.counted.requests > SMALL_INPUT {
                return;
            }
            self.favoured = None;
        }
        if crowded && !client.paused && client.wants_to_send() && client.counted.requests > SMALL_INPUT {
            client.paused = true;
            self.paused.push_back(at);
        }
    }

    /// The worker's replies became fewer: who waited for that can go on.
    pub(super) fn look_at_held_back(&mut self) {
        let pressure = self.crowd.pressure();
        if pressure >= self.held_back_at || self.held_back.is_empty() {
            return;
        }
        self.held_back_at = Pressure::Low;
        for at in std::mem::take(&mut self.held_back) {
            if let Some(client) = &mut self.slots[at].client {
                client.held_back = false;
                self.go_on_or_wait(at);
            }
        }
    }

    /// The worker's requests became fewer, or the favoured one's are done: who waited for that is read from.
    pub(super) fn let_paused_go_on(&mut self, now: Nanos) {
        if self.paused.is_empty() || self.crowd.is_crowded() && self.favoured.is_some() {
            return;
        }
        let crowded = self.crowd.is_crowded();
        while let Some(at) = self.paused.pop_front() {
            let Slot { client: Some(client), id, .. } = &mut self.slots[at] else { continue };
            if !std::mem::take(&mut client.paused) {
                continue;
            }
            // Its silence was ours.
            client.active = now;
            mark(&mut client.dirty, &mut self.dirty, at);
            if crowded {
                self.favoured = Some((at, *id));
                break;
            }
        }
    }

    /// Whether somebody may send though the worker is full with requests.
    pub(super) fn is_favoured(&self, at: usize) -> bool {
        self.favoured.is_some_and(|(favoured, id)| favoured == at && id == self.slots[at].id)
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
