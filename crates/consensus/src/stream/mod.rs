//! One log, replicated by MultiPaxos: the acceptor of one replica, and the proposer while its node leads.
//!
//! # The protocol
//!
//! A log is accepted *as a whole under one ballot*: an acceptor keeps `accepted`, the ballot under which its log was
//! last adopted or extended, in place of one ballot per entry. Because entries are appended in order and an adoption
//! takes effect only when the whole range has arrived, the logs of all acceptors with the same `accepted` are prefixes
//! of one another. So "per index, the value accepted under the highest ballot" (Paxos's rule for a new proposer) is
//! simply: *the log with the largest `(accepted, last)` among a majority of promises*.
//!
//! 1. **Promise.** A candidate's ballot is promised for all streams at once; each answers with its [`Tail`].
//! 2. **Take over.** The new leader's stream fetches what it lacks of the best log ([`Plan`]), makes it its own under
//!    its ballot, and has each follower adopt it from the point where the two surely agree.
//! 3. **Accept.** New entries are appended and sent at once, many in flight; an acceptor takes them in order.
//! 4. **Decide.** What a majority holds under the leader's ballot is decided, and with it everything before. Unlike in
//!    Raft this holds for entries of older ballots too: an adoption is complete before it counts.
//!
//! Entries are opaque: a re-proposed entry keeps whatever epoch is written inside.
//!
//! # What makes it live
//!
//! A follower that notices a gap, a new leader or a new connection sends `Pull` with its tail, and the leader goes on
//! from there. A leader whose entries stay unacknowledged asks (`Decide { ask }`). Both repeat by timer. Lost,
//! repeated and reordered messages cost time only.
//!
//! # Left out
//!
//! Elections ([`crate::Election`]), who votes ([`crate::Quorums`]; a change takes a new ballot), and disks: a voter
//! that forgets comes back as another [`Voter`].

mod follow;
mod lead;
mod role;
mod state;
mod takeover;

use bytes::Bytes;
use highwater_core::{Ballot, EntryIndex, NodeId};

pub use role::Plan;
pub use state::{Envelope, Stream, StreamOptions};

use crate::{Message, Nanos, Voter};
use follow::RangeEntry;
use lead::Ack;
use role::Role;

impl Stream {
    /// Takes a message from the same stream of `from`; `entry` is what travelled along.
    pub fn deliver(&mut self, now: Nanos, from: Voter, message: Message, entry: Bytes) {
        match message {
            Message::Adopt { ballot, start, upto, index, decided } => {
                if self.accept_or_reject_ballot(from, ballot) {
                    self.on_adopt(now, ballot, RangeEntry { start, upto, index, decided }, entry);
                }
            }
            Message::Accept { ballot, index, decided, known_by_all } => {
                if self.accept_or_reject_ballot(from, ballot) {
                    self.known_by_all = self.known_by_all.max(known_by_all);
                    self.on_accept(now, ballot, index, decided, entry);
                }
            }
            Message::Decide { ballot, decided, last, known_by_all, ask } => {
                if self.accept_or_reject_ballot(from, ballot) {
                    self.known_by_all = self.known_by_all.max(known_by_all);
                    self.on_decide(now, ballot, decided, last, ask);
                }
            }
            Message::TooFar { ballot, first, members } => {
                if self.accept_or_reject_ballot(from, ballot) {
                    self.on_too_far(first, members);
                }
            }
            Message::Fetch { ballot, from: first, upto } => {
                if self.accept_or_reject_ballot(from, ballot) {
                    self.on_fetch(from, ballot, first, upto);
                }
            }
            Message::Accepted { ballot, index, received, decided } => {
                self.on_accepted(now, from, ballot, Ack { index, received, decided })
            }
            Message::Pull { promised, tail, received } => self.on_pull(from, promised, tail, received),
            Message::Fetched { ballot, index, paused } => self.on_fetched(now, ballot, index, paused, entry),
            Message::Stale { promised } => self.promise_if_higher(promised),
        }
    }

    /// The connection to `peer` is up (again); what was sent before may be lost. To be called before anything that comes
    /// over this connection is delivered, and after everything of an earlier life of the same node.
    pub fn peer_up(&mut self, now: Nanos, peer: Voter) {
        match &mut self.role {
            Role::Leading(leading) => leading.await_tail(peer),
            Role::Following(following) if peer.node == self.promised.node => {
                following.question();
                self.pull(now);
            }
            _ => {}
        }
    }

    /// The connection to `peer` is lost.
    pub fn peer_down(&mut self, peer: NodeId) {
        if let Role::Leading(leading) = &mut self.role {
            leading.pause(peer);
        }
    }

    /// Lets time pass: repeats what went unanswered. Says when it wants to be called again, if at all.
    pub fn tick(&mut self, now: Nanos) -> Option<Nanos> {
        match self.role {
            Role::Following(_) => self.tick_following(now),
            Role::Fetching(_) => self.tick_fetching(now),
            Role::Leading(_) => self.tick_leading(now),
        }
    }

    /// Drops decided entries up to `upto`, oldest first, while more than `keep_bytes` are held. Of what every replica knows
    /// to be decided a sixteenth of that is enough: so long as nobody lags, the log stays in the cache.
    ///
    /// Says whether there is room again for what was not taken: then a tick asks for it.
    pub fn trim(&mut self, upto: EntryIndex, keep_bytes: u64) -> bool {
        let upto = upto.min(self.decided);
        self.installed = self.installed.max(upto);
        self.log.trim(upto.min(self.known_by_all), keep_bytes / 16);
        self.log.trim(upto, keep_bytes);
        self.take_again_if_room()
    }

    /// Whether a leader's message under `ballot` counts; answers one that came too late.
    fn accept_or_reject_ballot(&mut self, from: Voter, ballot: Ballot) -> bool {
        debug_assert_eq!(from.node, ballot.node, "only the owner of a ballot speaks under it");
        if ballot < self.promised {
            self.send(from.node, Message::Stale { promised: self.promised }, Bytes::new());
            return false;
        }
        self.promise_if_higher(ballot);
        ballot.node != self.me.node
    }
}
