//! What comes to a worker's thread: events of its sockets, letters of other threads, frames that other workers received for it; and connections that end.

use highwater_seam::{Endpoint, Nanos, Worker};

use super::keys::{KEY_CLIENT, KEY_COORDINATOR, KEY_FORWARD, KEY_LISTENER, KEY_PEER, KIND_MASK};
use super::{REST_EVERY, WorkerThread};
use crate::poll::Event;
use crate::relay::Relayed;
use crate::shared::{ControlLetter, Shared, WorkerLetter};
use crate::transport::link::Closed;
use crate::transport::peers::Lost;
use crate::transport::{Arrival, Channel};

impl WorkerThread {
    /// Has whoever it concerns take an event.
    pub(super) fn take_event(&mut self, now: Nanos, event: Event) {
        match event.key & KIND_MASK {
            KEY_PEER => {
                self.rests_at.get_or_insert(now + REST_EVERY);
                let node = (event.key & !KIND_MASK) as usize;
                let (engine, shared, index) = (&mut *self.engine, &*self.shared, self.index);
                let taken = self
                    .peers
                    .event(node, event, &self.poller, |arrival| deliver(engine, shared, index, now, arrival));
                if let Err(closed) = taken {
                    self.peer_lost(now, closed);
                }
            }
            KEY_FORWARD => {
                self.rests_at.get_or_insert(now + REST_EVERY);
                let node = (event.key & !KIND_MASK) as usize;
                self.forwarding.event(node, event, &self.poller, &mut self.clients);
            }
            KEY_LISTENER => self.clients.accept(now, &self.poller),
            KEY_COORDINATOR => {
                let low = (event.key & !KIND_MASK) as u32;
                self.coordinators.event(low, event, now, &mut *self.engine);
            }
            KEY_CLIENT => self.clients.event((event.key & !KIND_MASK) as usize, event, now),
            _ => {}
        }
    }

    /// Takes what other workers received for this one. It counts while this worker's own connection to the sender's node is
    /// up, to the same life of it: so the engine knows who it is that speaks.
    pub(super) fn take_relayed(&mut self, now: Nanos) {
        for Relayed { over, arrival } in self.shared.take_relayed(self.index) {
            if self.peers.is_up(arrival.from, arrival.incarnation) {
                let from = Endpoint { node: arrival.from, worker: over };
                self.engine.deliver(now, from, arrival.frame);
            }
        }
    }

    /// Goes on with connections that stood still because another worker had no room for their frames.
    pub(super) fn retry_stuck(&mut self, now: Nanos) {
        let (engine, shared, index) = (&mut *self.engine, &*self.shared, self.index);
        let lost = self.peers.retry(&self.poller, |arrival| deliver(engine, shared, index, now, arrival));
        lost.into_iter().for_each(|lost| self.peer_lost(now, lost));
        self.forwarding.retry(&self.poller, &mut self.clients);
    }

    /// Connections for forwarded requests that ended are dialed again.
    pub(super) fn report_lost_forwards(&mut self) {
        for Lost { peer, channel, generation, why } in self.forwarding.take_lost() {
            tracing::info!(worker = self.index, %peer, "connection for forwarded requests lost: {why}");
            self.shared.control.post(ControlLetter::Lost { peer, channel, generation });
        }
    }

    pub(super) fn peer_lost(&mut self, now: Nanos, lost: Lost) {
        tracing::info!(worker = self.index, peer = %lost.peer, "connection lost: {}", lost.why);
        self.engine.peer_down(now, lost.peer);
        let Lost { peer, channel, generation, .. } = lost;
        self.shared.control.post(ControlLetter::Lost { peer, channel, generation });
    }

    pub(super) fn read_letter(&mut self, now: Nanos, letter: WorkerLetter) {
        match letter {
            WorkerLetter::Adopt(connection) if matches!(connection.channel, Channel::Forward(_)) => {
                self.forwarding.adopt(connection, &self.poller);
            }
            WorkerLetter::Adopt(connection) => {
                let (peer, incarnation, levels) =
                    (connection.peer, connection.incarnation, connection.levels);
                match self.peers.adopt(connection, &self.poller) {
                    Ok(replaces) => {
                        if replaces {
                            self.engine.peer_down(now, peer);
                        }
                        self.engine.peer_up(now, peer, incarnation, levels);
                    }
                    Err(lost) => self.peer_lost(now, lost),
                }
            }
            WorkerLetter::Pulse => self.shared.pulse(self.index),
            WorkerLetter::Coordinator(stream) => {
                self.coordinators.adopt(now, stream, &mut *self.engine, &self.poller);
            }
            WorkerLetter::HangUp(peer) => {
                self.forwarding.hang_up(peer);
                let lost = self.peers.hang_up(peer, Closed::Ended);
                lost.into_iter().for_each(|lost| self.peer_lost(now, lost));
            }
            WorkerLetter::GiveUp { peer, generation } => {
                let lost = self.peers.give_up(peer, generation);
                lost.into_iter().for_each(|lost| self.peer_lost(now, lost));
            }
            WorkerLetter::Look { peer, generation, bytes } => {
                let lost = self.peers.look(peer, generation, bytes);
                lost.into_iter().for_each(|lost| self.peer_lost(now, lost));
            }
            WorkerLetter::Local(request) => {
                self.locals.take(request);
            }
            WorkerLetter::Load(ticket, command) => {
                if let Some(answer) = self.command(now, ticket, command) {
                    self.answer(ticket, answer);
                }
            }
        }
    }
}

/// Gives a frame to this worker's engine, or passes it on to the worker that it is for; gives it back if that has no room.
fn deliver(
    engine: &mut dyn Worker,
    shared: &Shared,
    index: usize,
    now: Nanos,
    arrival: Arrival,
) -> Result<(), Arrival> {
    let Channel::Worker(to) = arrival.to else {
        unreachable!("a worker's connection does not reach the controller")
    };
    if usize::from(to) != index {
        return shared.relay(index, to.into(), arrival);
    }
    engine.deliver(now, Endpoint { node: arrival.from, worker: to }, arrival.frame);
    Ok(())
}
