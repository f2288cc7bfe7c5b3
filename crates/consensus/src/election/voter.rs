//! The voter's side: say yes, promise, follow.
//!
//! A yes (to `PreVote`) binds to nothing and says: I miss the leader, too. A promise (to `Prepare`) binds every stream
//! of the node, so it is answered only when all of them have promised ([`ElectionEvent::Fence`]).

use highwater_core::{Ballot, Epoch};

use super::message::{Beat, ElectionMessage, Voice};
use super::state::{Election, ElectionEvent, Standing};
use crate::{Members, Nanos, Voter};

impl Election {
    /// Somebody asks whether this node misses the leader, and would promise `ballot`.
    pub(super) fn on_pre_vote(&mut self, now: Nanos, from: Voter, ballot: Ballot) {
        self.highest = self.highest.max(Epoch(ballot.epoch.0.saturating_sub(1)));
        // A node answers even if it does not vote as far as it knows: it may have been admitted without having heard of
        // it yet. The candidate counts those whom *its* membership names, and may depend on this answer.
        if self.members.is_none() {
            return;
        }
        let misses_leader = match self.standing {
            Standing::Leading => !self.vouches(now),
            _ => self.suspected || now.saturating_sub(self.signs.at) >= self.patience(),
        };
        let outbids = self.standing == Standing::Asking && self.asked > ballot;
        let granted = ballot.epoch > self.promised.epoch && misses_leader && !outbids && !self.is_fencing();
        if granted {
            self.hold_back(now);
        } else if outbids {
            self.denied = true;
            // The sender misses the leader now, but may have refused this node before it did. Asked again, it says yes.
            self.out.push((from.node, ElectionMessage::PreVote { ballot: self.asked }));
        }
        let voice = Voice { granted, forgets: self.forgets };
        let reply = ElectionMessage::PreVoteReply { ballot, voice, promised: self.promised };
        self.out.push((from.node, reply));
    }

    /// Somebody wants a promise of `ballot`. A lower ballot, or a rival's of an epoch in which this node has promised, is
    /// refused.
    pub(super) fn on_prepare(&mut self, now: Nanos, from: Voter, ballot: Ballot) {
        debug_assert_eq!(from.node, ballot.node);
        if self.members.is_none() {
            return;
        }
        let rival = ballot.epoch == self.promised.epoch && ballot != self.promised;
        if ballot < self.promised || rival {
            return self.out.push((from.node, ElectionMessage::Stale { promised: self.promised }));
        }
        if ballot > self.promised {
            self.promise(now, ballot);
        } else if ballot.node != self.me.node {
            // Promised before, and asked again: the answer may have been lost, so the streams report their tails anew.
            self.fence(ballot);
        }
        // Leaves the candidate time to win, and to show up as a leader.
        self.wait(now);
    }

    /// The leader of `ballot` says that it is there.
    pub(super) fn on_heartbeat(
        &mut self,
        now: Nanos,
        from: Voter,
        ballot: Ballot,
        beat: Beat,
        members: Members,
    ) {
        debug_assert_eq!(from.node, ballot.node);
        if ballot < self.promised {
            return self.out.push((from.node, ElectionMessage::Stale { promised: self.promised }));
        }
        if ballot > self.promised {
            self.promise(now, ballot);
        }
        self.set_members(now, members);
        if self.following.replace(ballot) != Some(ballot) {
            self.signs.since = now;
            self.events.push(ElectionEvent::Follow(ballot));
        }
        self.signs.met_at = now;
        let calm = matches!(beat, Beat::Calm | Beat::Rests);
        if beat != Beat::Asks {
            debug_assert_ne!(ballot.node, self.me.node);
            self.standing = Standing::Follower;
            self.hear_leader(now, from.node, beat == Beat::Rests);
        } else {
            self.disbelieve_leader();
            if self.standing == Standing::Follower {
                // The leader says itself that it cannot serve. So it gets no more patience than one that never showed up.
                self.deadline = self.deadline.min(self.signs.at + self.patience() + self.spread);
            }
        }
        let reply = if calm {
            ElectionMessage::Patient { ballot }
        } else {
            ElectionMessage::HeartbeatReply { ballot }
        };
        self.out.push((from.node, reply));
    }

    /// Promises a higher ballot and has the streams do so. Ends whatever this node did under a lower one.
    pub(super) fn promise(&mut self, now: Nanos, ballot: Ballot) {
        assert!(ballot > self.promised, "a promise never moves back");
        self.promised = ballot;
        self.highest = self.highest.max(ballot.epoch);
        self.following = None;
        // Even if the ballot is this node's own, it need not be a candidate for it: an earlier life may have asked for
        // it. And promises of two ballots must never be counted together, so those that came are forgotten.
        self.standing = Standing::Follower;
        self.prepared = None;
        self.promises.clear();
        self.outbid = false;
        if ballot.node != self.me.node {
            self.suspected = false;
            self.signs.at = now;
            self.disbelieve_leader();
            self.wait(now);
        }
        self.fence(ballot);
    }

    /// Somebody else stands and got a yes from here: leaves it the next round trips. Not more than those, for it may be
    /// a node that is heard but hears nobody.
    fn hold_back(&mut self, now: Nanos) {
        let until = now + self.options.heartbeat + self.random_below(self.options.heartbeat);
        match self.standing {
            Standing::Asking => {
                self.standing = Standing::Follower;
                self.deadline = until;
            }
            Standing::Follower => self.deadline = self.deadline.max(until),
            Standing::Preparing | Standing::Leading => {}
        }
    }
}
