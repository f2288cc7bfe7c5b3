//! The candidate's side: ask for yeses, prepare, count promises.
//!
//! Yeses are counted by node, since they only keep the peace. Promises are counted by voter, that is by node *and*
//! life: a node that lost its memory must not be counted for what its earlier life accepted.

use highwater_core::{Ballot, planted};

use super::message::{ElectionMessage, PendingChange, Promise};
use super::signs::Heard;
use super::state::{Election, ElectionEvent, Standing};
use crate::{Members, Nanos, Quorums, Voter};

/// What a voter said.
struct Word {
    forgets: bool,
}

/// What so many words are enough for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Outcome {
    /// Nothing that was decided is missing.
    Whole,
    /// Something may be, and nobody has it.
    Lossy,
}

/// A majority of each membership, and so many of it that forget nothing that every majority has one of them; or all of each.
fn count(quorums: &Quorums, said: impl Fn(Voter) -> Option<Word>) -> Option<Outcome> {
    let remembers = |voter| said(voter).is_some_and(|word| !word.forgets);
    if quorums.reached(|voter| said(voter).is_some()) && quorums.covered(remembers) {
        return Some(Outcome::Whole);
    }
    let all = quorums.voters().into_iter().all(|voter| said(voter).is_some());
    all.then_some(Outcome::Lossy)
}

impl Election {
    /// Asks everybody who else misses the leader. A node that may not stand, or does not vote, only waits on.
    pub(super) fn ask(&mut self, now: Nanos) {
        self.wait(now);
        let rests = self.standing == Standing::Asking && std::mem::take(&mut self.denied);
        if !self.eligible || !self.votes() || rests {
            self.standing = Standing::Follower;
            return;
        }
        self.standing = Standing::Asking;
        self.denied = false;
        self.granted = vec![(self.me, self.forgets)];
        self.asked = self.next_ballot();
        self.broadcast(ElectionMessage::PreVote { ballot: self.asked });
        self.count_pre_votes(now);
    }

    /// A ballot of this node that is higher than everything it has heard of.
    fn next_ballot(&self) -> Ballot {
        Ballot { epoch: self.highest.max(self.promised.epoch).next(), node: self.me.node }
    }

    /// Prepares as soon as so many miss the leader that their promises would do.
    pub(super) fn count_pre_votes(&mut self, now: Nanos) {
        let Some(members) = &self.members else { return };
        // By node, whatever its life: this node may not know yet which life was admitted last.
        let granted = |voter: Voter| {
            let of_node = self.granted.iter().find(|(known, _)| known.node == voter.node);
            of_node.map(|(_, forgets)| Word { forgets: *forgets })
        };
        if count(&Quorums::of(members.clone()), granted).is_some() {
            self.prepare(now);
        }
    }

    /// Takes the next ballot, promises it, and asks everybody for a promise.
    pub(super) fn prepare(&mut self, now: Nanos) {
        let ballot = self.next_ballot();
        self.promise(now, ballot);
        self.standing = Standing::Preparing;
        self.prepared = Some(ballot);
        self.wait(now);
        self.broadcast(ElectionMessage::Prepare { ballot });
    }

    /// A promise has come, perhaps this node's own. Leads if a majority of every membership that may be in force has
    /// promised, or all of it if too few remember everything.
    pub(super) fn on_promise(&mut self, now: Nanos, from: Voter, promise: Promise) {
        if self.prepared != Some(promise.ballot) || promise.ballot != self.promised {
            return;
        }
        self.promises.insert(from, promise);
        let known = self.promises.values().map(|promise| &promise.members).chain(&self.members).cloned();
        let newest = known.chain(self.decided_by_all_accounts());
        let newest = newest.max_by_key(|members| members.epoch).expect("every promise has a membership");
        let mut quorums = Quorums::of(newest.clone());
        let mut latest = newest.clone();
        for pending in
            self.promises.values().flat_map(|promise| &promise.pending).map(|pending| &pending.members)
        {
            if pending.epoch > newest.epoch {
                quorums.and(pending.clone());
                if pending.epoch > latest.epoch {
                    latest = pending.clone();
                }
            }
        }
        let still_votes = newest.contains(self.me);
        self.set_members(now, newest);
        if !still_votes {
            return self.abandon(now);
        }
        let same_node = |voter: Voter| self.promises.iter().find(|(promised, _)| promised.node == voter.node);
        let promised = |voter: Voter| {
            let own = self.promises.get_key_value(&voter);
            let counted = own.or_else(|| same_node(voter).filter(|_| planted!(PromiseByNode)));
            counted.map(|(_, promise)| Word { forgets: promise.forgets && !planted!(ForgetfulCounted) })
        };
        // A takeover compares the own log with the others' (see `Stream::take_over`), so it needs the own promise, even
        // if a quorum of others was faster.
        let Some(outcome) = count(&quorums, promised).filter(|_| self.promises.contains_key(&self.me)) else {
            return;
        };
        if self.outbid {
            return self.prepare(now);
        }
        self.standing = Standing::Leading;
        self.prepared = None;
        self.following = None;
        self.suspected = false;
        let heard = Heard::at(now);
        self.heard_from = self.promises.keys().map(|voter| (*voter, heard)).collect();
        let promises = std::mem::take(&mut self.promises);
        let (ballot, lossy) = (self.promised, outcome == Outcome::Lossy);
        self.events.push(ElectionEvent::Won { ballot, promises, quorums, members: latest, lossy });
        self.stir(now);
        self.send_heartbeats(now);
    }

    /// The memberships that are decided in every stream once the knowledge of all promises is combined, though perhaps no
    /// single voter knows it of every stream.
    ///
    /// That is enough to find every epoch that ever opened. A leader opens its epoch only when, for each stream, a
    /// majority of the new members knows that the change is decided there. So the promises of any majority of its
    /// members, taken together, tell of every stream.
    ///
    /// | | stream 0 | stream 1 |
    /// |---|---|---|
    /// | n1 knows decided | change of epoch 5 to V | |
    /// | n2 knows decided | | change of epoch 4 to V |
    /// | combined | V since epoch 5 | V since epoch 4: the voters V are in force, as of epoch 4 |
    ///
    /// The changes to the voters V need not be the same one in all streams, as the table shows: a takeover that was cut
    /// short left its change in one stream only, and the next leader made another. That does no harm. From a decided
    /// change to V on, whatever is decided in that stream was accepted by a majority of V, unless a later change
    /// decided otherwise, for the leader of each later ballot met the change in the log that it adopted. So with one
    /// such change in every stream, V may decide. But a change that is later than the *oldest* of these may stand
    /// behind it in some stream: it stays pending, and the candidate needs a majority of its members, too.
    fn decided_by_all_accounts(&self) -> Vec<Members> {
        let mut known: Vec<PendingChange> = Vec::new();
        for pending in self.promises.values().flat_map(|promise| &promise.pending) {
            for (stream, epoch) in pending.decided.iter().enumerate().filter(|(_, epoch)| epoch.0 > 0) {
                let change = pending.members.in_epoch(*epoch);
                PendingChange::note(&mut known, pending.decided.len(), stream, &change, true);
            }
        }
        let everywhere = known.iter().filter_map(|pending| {
            let oldest = *pending.decided.iter().min()?;
            (oldest.0 > 0).then(|| pending.members.in_epoch(oldest))
        });
        everywhere.collect()
    }
}
