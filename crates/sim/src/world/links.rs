//! Connections are made and lost; frames travel.

use highwater_core::{Incarnation, Library, NodeId};
use highwater_seam::{Endpoint, Nanos};

use super::event::Event;
use super::{TURN, World};
use crate::network::{Channel, Connection, InFlight, Link, Payload};
use crate::stage::{Actor, Input};
use crate::trace::{What, hash};

/// An end of a broken connection hears of it within this time.
const NEWS: Nanos = 200_000;
/// A frame that is off its wire later than this is counted.
const LONG: Nanos = 1_000_000;

impl<L: Library> World<L> {
    /// Breaks a connection, if it is up: both ends hear of it soon, and try again.
    pub(super) fn break_link(&mut self, link: Link) {
        let truncate = self.network.faults.truncate;
        let random = &mut self.random;
        let Some(connection) = self.network.get(link).filter(|connection| connection.alive) else { return };
        let generation = connection.generation;
        let keep = |len: usize| if truncate { random.below(len as u64 + 1) as usize } else { 0 };
        let (lost, last) = connection.break_off(keep);
        self.keep_for_later(link, lost);
        let again;
        if truncate {
            // Behind what still arrives there.
            let heard = link.ends().map(|end| {
                let at = (self.now + self.random.below(NEWS)).max(last[link.side(end)] + 1);
                self.queue.push(at, Event::Lost { link, generation, end: Some(end) });
                at
            });
            // Who dials need not wait for the other one to notice.
            again = heard.into_iter().min().expect("two ends");
        } else {
            again = self.now + self.random.below(NEWS);
            self.queue.push(again, Event::Lost { link, generation, end: None });
        }
        let again = again + 1 + self.random.below(self.network.retry);
        self.queue.push(again, Event::Connect { link });
    }

    /// One end is gone without a word: the other finds out after `silence`.
    pub(super) fn abandon_link(&mut self, link: Link, gone: NodeId, silence: Nanos) {
        let Some(connection) = self.network.get(link).filter(|connection| connection.alive) else { return };
        let generation = connection.generation;
        // What it had sent still arrives.
        let _ = connection.break_off(|len| len);
        connection.under_way[link.side(gone)].clear();
        let (end, at) = (Some(link.other(gone)), self.now + silence);
        self.queue.push(at, Event::Lost { link, generation, end });
        self.queue.push(at + 1 + self.random.below(self.network.retry), Event::Connect { link });
    }

    /// Of the control messages that were lost, half arrive over the next connection.
    fn keep_for_later(&mut self, link: Link, lost: [Vec<InFlight>; 2]) {
        let Some(longest) = self.network.faults.late.filter(|_| link.channel == Channel::Control) else {
            return;
        };
        let lives = link.ends().map(|end| self.incarnation(end));
        for (to, frames) in link.ends().into_iter().zip(lost) {
            for frame in frames {
                if self.random.one_in(2) {
                    let at = self.now + 1 + self.random.below(longest);
                    self.queue.push(at, Event::Late { link, lives, to, payload: frame.payload });
                }
            }
        }
    }

    pub(super) fn connect(&mut self, link: Link) {
        if !link.ends().into_iter().all(|end| self.is_up(end)) {
            return;
        }
        let flows = |from, to| self.network.flows(from, to, link.channel);
        let flows = flows(link.low, link.high) && flows(link.high, link.low);
        // As the handshake does.
        let [one, other] = link.ends().map(|end| self.nodes[end.0 as usize].cluster);
        let flows = flows && one == other && self.fit(link);
        let awake = link.ends().into_iter().all(|end| !self.nodes[end.0 as usize].paused);
        if !flows || !awake {
            return self.queue.push(self.now + self.network.retry, Event::Connect { link });
        }
        let lives = link.ends().map(|end| self.incarnation(end));
        let connection = self.network.entry(link);
        if connection.alive {
            return;
        }
        let believed = connection.believed;
        connection.connect(self.now, lives);
        for (end, believed) in link.ends().into_iter().zip(believed) {
            if believed {
                // It had not heard of the loss: the new connection takes the old one's place.
                self.tell_down(end, link, false);
            }
            self.tell_up(end, link);
        }
    }

    pub(super) fn lost(&mut self, link: Link, generation: u64, end: Option<NodeId>) {
        let ends: Vec<NodeId> = end.map_or(link.ends().to_vec(), |end| vec![end]);
        for end in ends {
            let Some(connection) = self.network.get(link) else { return };
            let side = link.side(end);
            if connection.generation != generation || !connection.believed[side] {
                continue;
            }
            let node = &mut self.nodes[end.0 as usize];
            if node.paused {
                node.held.push(Event::Lost { link, generation, end: Some(end) });
                continue;
            }
            connection.believed[side] = false;
            connection.under_way[side].clear();
            if node.replica.is_some() {
                let refused = !self.is_up(link.other(end));
                self.tell_down(end, link, refused);
            }
        }
    }

    fn tell_up(&mut self, id: NodeId, link: Link) {
        let peer = link.other(id);
        let incarnation = self.incarnation(peer);
        self.give(id, link.channel, Input::Up(peer, incarnation, self.build(peer)));
        self.trace.note(self.now, id, What::Up(link.channel, peer));
        self.schedule(id, link.channel, self.now);
    }

    fn tell_down(&mut self, id: NodeId, link: Link, refused: bool) {
        if !self.is_up(id) {
            return;
        }
        let peer = link.other(id);
        self.give(id, link.channel, Input::Down(peer, refused));
        self.trace.note(self.now, id, What::Down(link.channel, peer));
        self.schedule(id, link.channel, self.now);
    }

    /// A thread of a node that is up takes something in, or finds it when it has a turn.
    fn give(&mut self, id: NodeId, who: Channel, input: Input) {
        let now = self.now;
        self.act(id, who);
        let node = &mut self.nodes[id.0 as usize];
        let local = node.clock.local(now);
        let slot = node.slot(who);
        slot.bytes += input.len();
        if slot.waits(&self.stage, who, now) {
            let late = slot.stuck || slot.not_before > now && slot.fiber.is_none();
            slot.inbox.push(input);
            if late {
                self.mark("arrivals that wait for a busy thread");
            }
            return;
        }
        let before = self.stage.steps.get();
        let replica = node.replica.as_mut().expect("its node is up");
        match who {
            Channel::Control => input.hand_to_controller(&mut *replica.controller, local),
            Channel::Worker(at) => {
                let refused = input.hand_to_worker(&mut *replica.workers[at as usize], local);
                assert!(refused.is_none(), "what arrives from peers is not refused");
            }
        }
        node.slot(who).steps += self.stage.steps.get() - before;
    }

    /// A thread hands out a frame, which leaves at `leaves`.
    pub(super) fn send(
        &mut self,
        from: NodeId,
        to: NodeId,
        channel: Channel,
        leaves: Nanos,
        payload: Payload,
    ) {
        let link = Link::new(from, to, channel);
        match &payload {
            Payload::Control(message) => self.trace.mix(hash(message)),
            Payload::Frame { worker, frame } => {
                if payload.receiver() != channel {
                    self.trace.mix((*worker).into());
                }
                self.trace.mix(hash(&frame.head));
                self.trace.mix(hash(&frame.body));
            }
        }
        let wire = self.network.wire;
        let Some(connection) = self.network.get(link).filter(|connection| connection.alive) else { return };
        let generation = connection.generation;
        let Some(off) = connection.occupy(link.side(to), leaves, payload.len() as u64, wire) else {
            self.mark("connections that overflow");
            return self.break_link(link);
        };
        if off > leaves + LONG {
            self.mark("frames that occupy or wait for their wire for more than 1 ms");
        }
        let at = off + self.network.draw_delay(from, to, &mut self.random);
        if let Some(datagrams) = self.network.faults.datagrams.filter(|_| is_of_stream(channel, &payload)) {
            if self.random.below(1000) < datagrams.lost {
                return;
            }
            if self.random.below(1000) < datagrams.repeated {
                let at = at + self.network.draw_delay(from, to, &mut self.random);
                let payload = payload.clone();
                self.queue.push(at, Event::Datagram { link, generation, to, payload });
            }
            if datagrams.reordered && self.random.one_in(50) {
                return self.queue.push(at, Event::Datagram { link, generation, to, payload });
            }
        }
        let now = self.now;
        let at = self.network.entry(link).send(link.side(to), now, at, payload);
        self.queue.push(at, Event::Arrive { link, generation, to });
    }

    pub(super) fn arrive(&mut self, link: Link, generation: u64, to: NodeId) {
        let (now, from, side) = (self.now, link.other(to), link.side(to));
        let Some(connection) = self.network.get(link) else { return };
        let Some(first) = connection.under_way[side].front().filter(|_| connection.generation == generation)
        else {
            return;
        };
        let (sent, arrives) = (first.sent, first.arrives);
        if arrives > now {
            return self.queue.push(arrives, Event::Arrive { link, generation, to });
        }
        if !self.network.flows(from, to, link.channel) {
            // Standing still: the sender's transport repeats it, until it loses its patience.
            if self.network.faults.patience.is_some_and(|patience| now - sent > patience) {
                return self.break_link(link);
            }
            return self.queue.push(now + self.network.retry, Event::Arrive { link, generation, to });
        }
        if let Some(until) = self.network.clogged_until(from, to, now) {
            return self.queue.push(until, Event::Arrive { link, generation, to });
        }
        let node = &mut self.nodes[to.0 as usize];
        if node.paused {
            return node.held.push(Event::Arrive { link, generation, to });
        }
        let connection = self.network.get(link).expect("just used");
        let frame = connection.under_way[side].pop_front().expect("just seen");
        if frame.payload.receiver() == link.channel {
            self.hand_in(link, to, frame.payload);
        } else {
            self.pass_on(link, to, frame.payload);
        }
    }

    /// A frame came for a worker of another number than its connection's: that one has it a little later.
    fn pass_on(&mut self, link: Link, to: NodeId, payload: Payload) {
        let at = self.now + 1 + self.random.below(TURN);
        let connection = self.network.entry(link);
        let (at, lives) = (connection.pass_on(link.side(to), payload.receiver(), at), connection.lives);
        self.queue.push(at, Event::PassedOn { link, lives, to, payload });
    }

    pub(super) fn passed_on(&mut self, link: Link, lives: [Incarnation; 2], to: NodeId, payload: Payload) {
        let node = &mut self.nodes[to.0 as usize];
        if node.paused {
            return node.held.push(Event::PassedOn { link, lives, to, payload });
        }
        // It counts while the worker's own connection is up, between the same lives.
        let own = Link { channel: payload.receiver(), ..link };
        let up = |own: &mut Connection| own.believed[link.side(to)] && own.lives == lives;
        if !self.network.get(own).is_some_and(up) {
            return self.mark("frames for another worker that were lost in its node");
        }
        self.hand_in(link, to, payload);
    }

    pub(super) fn datagram(&mut self, link: Link, generation: u64, to: NodeId, payload: Payload) {
        let from = link.other(to);
        let current = self.network.get(link).is_some_and(|c| c.alive && c.generation == generation);
        if !current || !self.network.flows(from, to, link.channel) {
            return;
        }
        let node = &mut self.nodes[to.0 as usize];
        if node.paused {
            return node.held.push(Event::Datagram { link, generation, to, payload });
        }
        self.hand_in(link, to, payload);
    }

    pub(super) fn late(&mut self, link: Link, lives: [Incarnation; 2], to: NodeId, payload: Payload) {
        let up = self.network.get(link).is_some_and(|connection| connection.alive);
        let same = link.ends().map(|end| self.incarnation(end)) == lives;
        if up && same && !self.nodes[to.0 as usize].paused {
            self.hand_in(link, to, payload);
        }
    }

    /// What came over a connection reaches the thread that it is for.
    fn hand_in(&mut self, link: Link, to: NodeId, payload: Payload) {
        let (now, from) = (self.now, link.other(to));
        if !self.is_up(to) {
            return;
        }
        let who = payload.receiver();
        self.trace.note(now, to, What::arrived(who, from, &payload));
        let input = match (payload, link.channel) {
            (Payload::Control(message), _) => Input::Message(from, message),
            (Payload::Frame { frame, .. }, Channel::Worker(worker)) => {
                Input::Frame(Endpoint { node: from, worker }, frame)
            }
            (Payload::Frame { .. }, Channel::Control) => {
                unreachable!("workers send over their own connections")
            }
        };
        self.give(to, who, input);
        let at = now + self.random.below(TURN);
        self.schedule(to, who, at);
    }

    /// From now on `who` of a node acts.
    pub(super) fn act(&mut self, id: NodeId, who: Channel) {
        let node = &self.nodes[id.0 as usize];
        node.clock.tick(self.now);
        self.stage.enter(Actor { node: id, life: node.incarnation, who });
    }
}

/// Whether a stream's contract covers it: it bears anything. State copies rely on their connection, and so does what goes to
/// a worker of another number.
fn is_of_stream(channel: Channel, payload: &Payload) -> bool {
    payload.receiver() == channel
        && matches!(payload, Payload::Frame { frame, .. } if frame.head.first() == Some(&0))
}
