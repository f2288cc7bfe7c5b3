//! A node that ends, as its clients see it: the port is closed, what they asked before is answered, and whatever they ask now is
//! refused with the name of whoever serves. A request that meets a connection which breaks is in doubt; one that is refused is not.
//! So connections stay open until those who were asking things of late have been told, or have gone.

use highwater_redis::Allowance;
use highwater_seam::{Nanos, Refusal};

use super::clients::Clients;
use super::rationing::recount;
use super::serving::{SHARE, WORK_PER_TURN};
use crate::poll::Poller;

/// Shares of one client that are refused when the process ends.
const SHARES: i64 = WORK_PER_TURN / SHARE;

/// Who has sent nothing for as long when the node begins to end is not waited for: it may as well go on to send nothing.
const OF_LATE: Nanos = 1_000_000_000;

/// The end.
#[derive(Default)]
pub(super) struct Parting {
    /// Since when the door is closed.
    closed_at: Option<Nanos>,
}

impl Clients {
    /// Lets nobody in any more; those who stand at the door already are in. Refuses all that is asked.
    pub fn part(&mut self, now: Nanos, refusal: Refusal, poller: &Poller) {
        if self.parting.closed_at.is_none() {
            while self.let_some_in(now, poller) {}
            self.entrance.close();
            self.parting.closed_at = Some(now);
            self.end_pauses();
        }
        // A turn has its bound as ever: until another one leads, this node has to say that it does.
        self.counter.close();
        let (lists, slots, mut work) = (&mut self.lists, &mut self.slots, WORK_PER_TURN);
        let mut asking = Vec::new();
        asking.extend(std::iter::from_fn(|| lists.ready.next(slots)));
        asking.extend(std::iter::from_fn(|| lists.later.next(slots)));
        for at in asking {
            let Some(client) = &mut self.slots[at].client else { continue };
            if work <= 0 {
                self.lists.ready.put(&mut client.standing, at);
                continue;
            }
            let left = client.refuse(refusal, Allowance { work: SHARE, ..Allowance::WHOLE });
            work -= SHARE - left.work;
            recount(client, &mut self.crowd);
            self.lists.dirty.put(&mut client.standing, at);
        }
    }

    /// Nobody waits for the end of a pause any more: what it holds is refused with the rest.
    fn end_pauses(&mut self) {
        for at in 0..self.slots.len() {
            if let Some(client) = &mut self.slots[at].client {
                client.connection.leave_pauses();
                self.go_on_or_wait(at);
            }
        }
    }

    /// Whether a client waits for a reply, for the rest of one, or has not been told yet to ask elsewhere.
    pub fn owes(&self) -> bool {
        let of_late = self.parting.closed_at.map_or(0, |at| at.saturating_sub(OF_LATE));
        self.slots.iter().any(|slot| {
            let client = slot.client.as_ref().filter(|client| !client.gone);
            client.is_some_and(|client| {
                let connection = &client.connection;
                slot.unreleased > 0
                    || !connection.output().is_empty()
                    || !client.unsent.is_empty()
                    || connection.has_more()
                    || !client.referred && client.active >= of_late
            })
        })
    }

    /// Before the process ends: what has come is refused, and what is ready is written. Nothing is waited for.
    pub fn say_goodbye(&mut self, now: Nanos, refusal: Refusal, poller: &Poller) {
        if let Err(error) = self.leave_ring(now, poller) {
            tracing::warn!("what clients sent last is not answered: {error}");
        }
        for client in self.slots.iter_mut().filter_map(|slot| slot.client.as_mut()) {
            if self.parting.closed_at.is_some() {
                client.read(&mut self.buffer, now);
                // There is no other turn; but not for ever.
                for _ in 0..SHARES {
                    client.refuse(refusal, Allowance { work: SHARE, ..Allowance::WHOLE });
                    if !client.connection.has_more() {
                        break;
                    }
                }
            }
            client.write(now);
        }
    }
}
