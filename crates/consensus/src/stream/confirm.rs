//! How a leader finds out that it still led at some moment, without an entry and without a disk.
//!
//! It asks its followers ([`Message::Confirm`]), and numbers its questions. Who has promised nothing higher says so
//! ([`Message::Confirmed`]). Once a quorum has said yes to a question, no later ballot had a quorum of promises in this stream when the
//! question was asked: two quorums have a voter in common, and that one promised later than it answered. So whatever was or will be
//! decided under a later ballot was decided after that moment.
//!
//! A promise that was forgotten would undo this; but a promise is said only when it is on disk, and a voter without a disk that loses its
//! memory comes back as another voter. The answer itself promises nothing, so it need not be on any disk.

use bytes::Bytes;
use highwater_core::Ballot;
use highwater_core::hooks::buggify;

use super::role::Role;
use super::state::Stream;
use crate::hooks::NO_ANSWER;
use crate::{Message, Voter};

impl Stream {
    /// Asks every follower whether it still follows; returns the number of the question, from 1 on for each ballot.
    ///
    /// # Panics
    /// If this node does not lead.
    pub fn ask_for_confirmation(&mut self) -> u64 {
        let ballot = self.promised;
        let Role::Leading(leading) = &mut self.role else { panic!("only a leader asks whether it leads") };
        leading.asked += 1;
        let number = leading.asked;
        if leading.alone {
            leading.confirmed = number;
        }
        for node in leading.peers.keys().copied().collect::<Vec<_>>() {
            self.send(node, Message::Confirm { ballot, number }, Bytes::new());
        }
        number
    }

    /// The last question to which a quorum has said yes: when it was asked this node led. 0: none, or this node does not lead.
    #[inline]
    pub fn confirmed(&self) -> u64 {
        if let Role::Leading(leading) = &self.role { leading.confirmed } else { 0 }
    }

    /// The leader of `ballot` asks. Who knows of a higher one says so; who has not promised this one yet does not follow it yet.
    pub(super) fn on_confirm(&mut self, from: Voter, ballot: Ballot, number: u64) {
        debug_assert_eq!(from.node, ballot.node, "only the owner of a ballot speaks under it");
        if ballot < self.promised {
            self.send(from.node, Message::Stale { promised: self.promised }, Bytes::new());
        } else if ballot == self.promised && ballot.node != self.me.node && !buggify(NO_ANSWER) {
            self.send(from.node, Message::Confirmed { ballot, number }, Bytes::new());
        }
    }

    /// A follower says yes.
    pub(super) fn on_confirmed(&mut self, from: Voter, ballot: Ballot, number: u64) {
        let (me, promised) = (self.me, self.promised);
        let Role::Leading(leading) = &mut self.role else { return };
        let asked = leading.asked;
        let Some(peer) = leading.peers.get_mut(&from.node) else { return };
        if ballot != promised || peer.voter != from || number > asked || number <= peer.confirmed {
            return;
        }
        peer.confirmed = number;
        let reached = leading.quorums.largest_reached(|voter| {
            if voter == me {
                return asked;
            }
            leading.peers.get(&voter.node).filter(|peer| peer.voter == voter).map_or(0, |peer| peer.confirmed)
        });
        leading.confirmed = leading.confirmed.max(reached);
    }
}
