//! One log, replicated by MultiPaxos: the acceptor of one replica, and the proposer while its node leads.
//!
//! # The protocol
//!
//! The paper is Lamport's "Paxos made simple" (section 3: a sequence of instances under one leader), with one
//! simplification. A log is accepted *as a whole under one ballot*: an acceptor keeps `accepted`, the ballot under which
//! its log was last adopted or extended, in place of one ballot per entry. Entries are appended in order, and an adoption
//! takes effect only when its whole range has arrived. Hence the logs of all acceptors with the same `accepted` are
//! prefixes of one another, and Paxos's rule for a new proposer ("per index, the value accepted under the highest
//! ballot") becomes: *take over the log with the largest `(accepted, last)` among a majority of promises*.
//!
//! 1. **Promise** ([`Stream::promise`]). A candidate's ballot is promised for all streams at once. Each stream answers
//!    with its [`Tail`](crate::Tail), and takes nothing under a lower ballot from then on.
//! 2. **Take over** ([`Stream::take_over`]). The new leader's stream fetches what it lacks of the best log ([`Plan`]),
//!    counts it as accepted under its own ballot, and has each follower adopt it (`Adopt`) from the point up to which
//!    the two logs surely agree.
//! 3. **Accept** ([`Stream::propose`]). New entries are appended and sent at once, many in flight; an acceptor takes them
//!    in order, and refuses one that leaves a gap.
//! 4. **Decide.** What a majority holds under the leader's ballot is decided, and with it everything before. Unlike in
//!    Raft this holds for entries of older ballots too: what a follower acknowledges under the new ballot it has adopted
//!    completely, so no later leader can miss it.
//!
//! Entries are opaque: an entry that is proposed again keeps whatever epoch is written inside.
//!
//! # An example: propose, accept, decide, trim
//!
//! Three nodes, one stream. Node 0 leads under the ballot `e1.n0`, and the change of epoch stands at index 1 everywhere.
//! `|` marks how far a node knows the log to be decided.
//!
//! | what happens | n0 (leads) | n1 | n2 |
//! |---|---|---|---|
//! | at first | `1 \|` | `1 \|` | `1 \|` |
//! | n0 proposes `a`: `Accept { index: 2 }` to both | `1 \| 2=a` | `1 \|` | `1 \|` |
//! | n1 appends it and says `Accepted { index: 2 }`; n2's message is lost | `1 \| 2=a` | `1 \| 2=a` | `1 \|` |
//! | n0 counts itself and n1, two of three: index 2 is decided | `1 2=a \|` | `1 \| 2=a` | `1 \|` |
//! | n0 has nothing to send, so it says `Decide { decided: 2, last: 2 }` | `1 2=a \|` | `1 2=a \|` | `1 \|` |
//! | n2's log ends before `last`: it misses something and sends `Pull` | `1 2=a \|` | `1 2=a \|` | `1 \|` |
//! | n0 sends index 2 again; n2 takes it, and learns that it is decided | `1 2=a \|` | `1 2=a \|` | `1 2=a \|` |
//! | n1 and n2 have said `decided: 2`, so n0 says `known_by_all: 2`; all three [trim](Stream::trim) | `\|` | `\|` | `\|` |
//!
//! # An example: a takeover
//!
//! It goes on with `b` at index 3, which reaches only n1, and `c` at index 4, which reaches nobody. Then n0 dies. (This
//! is `tests/scripts/leader_change_with_undecided_tail.txt`; entries are shown as if nothing were trimmed.)
//!
//! | what happens | n1 | n2 |
//! |---|---|---|
//! | n0 dies | accepted `e1.n0`: `1 2 \| 3=b` | accepted `e1.n0`: `1 2 \|` |
//! | n2 stands; both promise `e2.n2` with tails `(e1.n0, 3)` and `(e1.n0, 2)` | the best log | lacks index 3 |
//! | Both logs were accepted under `e1.n0`, so n2's is the shorter prefix: it fetches `3..=3` from n1 and leads | accepted `e1.n0`: `1 2 \| 3=b` | accepted `e2.n2`: `1 2 \| 3=b` |
//! | n1's log agrees up to 3: `Adopt` of an empty range. n1 answers `Accepted { index: 3 }`, so `b` is decided | accepted `e2.n2`: `1 2 \| 3=b` | accepted `e2.n2`: `1 2 3=b \|` |
//! | n2 proposes the change of epoch at index 4, and both hold it | accepted `e2.n2`: `1 2 3=b \| 4=[e2]` | accepted `e2.n2`: `1 2 3=b 4=[e2] \|` |
//!
//! `b` may have been decided before (n0 and n1 are a majority, and n0 cannot be asked), so it had to survive. `c`
//! cannot have been: no majority held it, and n0's log loses it when n0 comes back and adopts n2's. Had n1 died too, n2
//! would have got no majority of promises: it would have waited instead of losing `b`.
//!
//! # What makes it live
//!
//! A follower that notices a gap, a new leader or a new connection sends `Pull` with its tail, and the leader goes on
//! from there. A leader whose entries stay unacknowledged asks (`Decide { ask }`). Both repeat by timer, so lost,
//! repeated and reordered messages cost time only.
//!
//! # The files
//!
//! `role` has what a stream keeps as follower, as new leader that still fetches, and as leader; `state` the log and what
//! holds in every role; `change` what must survive a crash, and `durable` what waits for it. On these stand `follow` (the acceptor), `takeover` and `lead` (the proposer),
//! and `confirm`, by which a leader finds out that it still led. This file is where
//! messages, timers and connections arrive and are given to the role that they concern.
//!
//! # Left out
//!
//! Elections ([`crate::Election`]), who votes ([`crate::Quorums`]; a change takes a new ballot), and the disk itself: `durable` says
//! what has to be written, and what waits for it. Without one a voter that forgets comes back as another [`Voter`].

mod change;
mod confirm;
mod durable;
mod follow;
mod lead;
mod role;
mod state;
mod takeover;

use bytes::Bytes;
use highwater_core::{Ballot, EntryIndex, NodeId};

pub use change::{Change, Recovered, RecoveryPoint};
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
            Message::Confirm { ballot, number } => self.on_confirm(from, ballot, number),
            Message::Confirmed { ballot, number } => self.on_confirmed(from, ballot, number),
        }
    }

    /// The connection to `peer` is up (again), and what was sent over the last one may be lost. A leader sends nothing
    /// more to `peer` until it says where its log stands; a follower of `peer` says so at once.
    ///
    /// To be called before anything that comes over this connection is delivered, and after everything that an earlier
    /// life of the same node sent: the call replaces that life by this one.
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

    /// The connection to `peer` is lost: a leader stops sending to it until [`peer_up`](Stream::peer_up).
    pub fn peer_down(&mut self, peer: NodeId) {
        if let Role::Leading(leading) = &mut self.role {
            leading.pause(peer);
        }
    }

    /// Lets time pass: repeats questions that went unanswered. Returns when it wants to be called again; `None` if this
    /// stream waits for nothing.
    pub fn tick(&mut self, now: Nanos) -> Option<Nanos> {
        let next = match self.role {
            Role::Following(_) => self.tick_following(now),
            Role::Fetching(_) => self.tick_fetching(now),
            Role::Leading(_) => self.tick_leading(now),
        };
        [next, self.tick_durable(now)].into_iter().flatten().min()
    }

    /// Entries up to here are installed, though [`trim`](Stream::trim) may be told to keep some of them.
    pub fn know_installed(&mut self, upto: EntryIndex) {
        self.installed = self.installed.max(upto.min(self.decided));
    }

    /// Drops decided entries up to `upto`, oldest first, while more than `keep_bytes` are held: a replica that lags may
    /// pull them. Entries that every replica knows to be decided are pulled by nobody, so of these only a sixteenth of
    /// `keep_bytes` is kept; as long as no replica lags, the log is small enough to stay in the processor's cache.
    ///
    /// What a promise told of this log stays in it until the leader that it was for has taken it over: that leader may lack it, and
    /// have it from nobody else.
    ///
    /// Returns whether this follower had refused entries for lack of room and now has room for them: then the next
    /// [`tick`](Stream::tick) asks the leader for them.
    pub fn trim(&mut self, upto: EntryIndex, keep_bytes: u64) -> bool {
        let upto = upto.min(self.decided);
        self.installed = self.installed.max(upto);
        self.know_alone();
        if self.accepted == self.promised {
            self.log.trim(upto.min(self.known_by_all), keep_bytes / 16);
            self.log.trim(upto.min(self.may_be_gone()), keep_bytes);
        }
        self.take_again_if_room()
    }

    /// Whether to act on a message that its sender sends as the leader of `ballot`.
    ///
    /// Accepts the ballot if no higher one was promised, and promises it. Rejects a lower one, and tells the sender with
    /// `Stale` which ballot it lost to: a deposed leader hears so that it has been deposed. A ballot of this very node is
    /// promised, too, but not acted on: only an earlier life can have sent under it.
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
