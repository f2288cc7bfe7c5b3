//! Heartbeats of a leader from which nobody wants anything.
//!
//! What an idle cluster costs are wake-ups for heartbeats. So a leader that was not stirred ([`Election::stir`]) for
//! [`CALM`] timeouts says so in its heartbeats ([`Beat::Calm`]), which are answered by
//! [`Patient`](ElectionMessage::Patient). When everybody has said that, the leader *rests*: its heartbeats say so
//! ([`Beat::Rests`]), and come a timeout apart. Who hears one has a timeout more patience until the next. As soon as somebody wants something, as somebody's connection is lost or comes up, or as the leader
//! cannot vouch for itself any more, it sends a usual heartbeat at once, and goes on at the usual pace.
//!
//! So a leader that rests and stops is missed up to a timeout later than one at work; a process that is seen to be dead is missed
//! at once, as ever. A leader that is held up has as much time as one at work: its followers wait for a timeout more, and
//! its heartbeats come less than that later.
//!
//! *Earlier builds* take a calm heartbeat for a usual one, and answer as they do to those. So nobody rests while they are
//! there. Nor does anybody while one of the others is not there at all, or there are no others: decided at once, nothing of
//! a lone leader waits, so that its host could not tell whether it is calm.
//!
//! Safety rests on none of this: it only matters when somebody asks for votes.

use highwater_core::NodeId;

use super::message::{Beat, ElectionMessage};
use super::state::{Election, Standing};
use crate::Nanos;

/// A leader is calm when nobody has wanted anything for so many timeouts.
const CALM: u64 = 8;

impl Election {
    /// Somebody wants something of this node, or it has something to do beside leading: if it leads, its followers shall
    /// know soon if it stops. Told by the host, before each [`tick`](Election::tick) for as long as it is so; what voters say to
    /// its streams tells the same ([`voter_heard`](Election::voter_heard)).
    pub fn stir(&mut self, now: Nanos) {
        self.stirred_at = self.stirred_at.max(now);
    }

    /// Whether this node leads, and its heartbeats come a timeout apart.
    ///
    /// Invariant: then everybody whom it speaks to has answered, over the connection that is still there, a calm heartbeat,
    /// and was sent no other one since.
    pub fn rests(&self) -> bool {
        self.standing == Standing::Leading && self.rests
    }

    /// Tells everybody that this node leads, and how it is.
    pub(super) fn send_heartbeats(&mut self, now: Nanos) {
        let beat = self.beat(now);
        if beat != Beat::Calm {
            self.patient.clear();
        }
        self.rests = self.may_rest(now);
        let beat = if self.rests { Beat::Rests } else { beat };
        self.deadline = now + if self.rests { self.options.timeout } else { self.options.heartbeat };
        let members = self.members.clone().expect("a leader knows the membership");
        self.broadcast(ElectionMessage::Heartbeat { ballot: self.promised, beat, members });
    }

    /// This node leads no more, and nobody leads in its place yet: what its streams still say vouches for nobody.
    pub(super) fn take_word_back(&mut self) {
        (self.rests, self.patient) = (false, Default::default());
        if let Some(members) = self.members.clone() {
            self.broadcast(ElectionMessage::Heartbeat { ballot: self.promised, beat: Beat::Asks, members });
        }
    }

    /// It rests, and should not any more.
    pub(super) fn is_roused(&self, now: Nanos) -> bool {
        self.rests() && !self.may_rest(now)
    }

    /// A follower knows what it means to rest.
    pub(super) fn is_patient(&mut self, follower: NodeId) {
        self.patient.insert(follower);
    }

    /// What a follower said over a connection that is not the present one counts no more: it may be another process.
    pub(super) fn was_patient(&mut self, follower: NodeId) {
        self.patient.remove(&follower);
    }

    fn beat(&self, now: Nanos) -> Beat {
        let calm = now >= self.stirred_at + CALM * self.options.timeout;
        match (self.vouches(now), calm) {
            (false, _) => Beat::Asks,
            (true, false) => Beat::Vouches,
            (true, true) => Beat::Calm,
        }
    }

    fn may_rest(&self, now: Nanos) -> bool {
        let heard = !self.peers.is_empty() && self.peers.iter().all(|peer| self.patient.contains(peer));
        heard && self.beat(now) == Beat::Calm
    }
}
