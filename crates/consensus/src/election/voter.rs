//! The voter's side: say yes, promise, follow.

use highwater_core::{Ballot, Epoch};

use super::message::ElectionMessage;
use super::state::{Election, ElectionEvent, Standing};
use crate::{Members, Nanos, Voter};

impl Election {
    pub(super) fn on_pre_vote(&mut self, now: Nanos, from: Voter, ballot: Ballot) {
        self.highest = self.highest.max(Epoch(ballot.epoch.0.saturating_sub(1)));
        // Also one that does not know yet that it was admitted: the candidate counts those whom *its* membership
        // names, and may depend on this one.
        if self.members.is_none() {
            return;
        }
        let misses_leader = match self.standing {
            Standing::Leading => !self.vouches(now),
            _ => self.suspected || now.saturating_sub(self.signs.at) >= self.patience(),
        };
        let outbids = self.standing == Standing::Asking && self.asked > ballot;
        let granted = ballot.epoch > self.promised.epoch && misses_leader && !outbids;
        if granted {
            self.hold_back(now);
        } else if outbids {
            // The sender may have refused this node before it missed the leader itself.
            self.out.push((from.node, ElectionMessage::PreVote { ballot: self.asked }));
        }
        let reply = ElectionMessage::PreVoteReply { ballot, granted, promised: self.promised };
        self.out.push((from.node, reply));
    }

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
            // Asked again: the answer may have been lost.
            self.events.push(ElectionEvent::Fence(ballot));
        }
        // Time for the new leader to show up.
        self.wait(now);
    }

    pub(super) fn on_heartbeat(
        &mut self,
        now: Nanos,
        from: Voter,
        ballot: Ballot,
        vouches: bool,
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
        if vouches {
            debug_assert_ne!(ballot.node, self.me.node);
            self.standing = Standing::Follower;
            self.hear_leader(now, from.node);
        } else {
            self.disbelieve_leader();
            if self.standing == Standing::Follower {
                // It says itself that it cannot serve: no more patience than with one that never showed up.
                self.deadline = self.deadline.min(self.signs.at + self.patience() + self.spread);
            }
        }
        self.out.push((from.node, ElectionMessage::HeartbeatReply { ballot }));
    }

    /// Promises a higher ballot and has the streams do so.
    pub(super) fn promise(&mut self, now: Nanos, ballot: Ballot) {
        assert!(ballot > self.promised, "a promise never moves back");
        self.promised = ballot;
        self.highest = self.highest.max(ballot.epoch);
        self.following = None;
        // Also if the ballot is one of this node's own: an earlier life may have asked for it. Promises of two ballots
        // must never be counted together.
        self.standing = Standing::Follower;
        self.promises.clear();
        self.outbid = false;
        if ballot.node != self.me.node {
            self.suspected = false;
            self.signs.at = now;
            self.disbelieve_leader();
            self.wait(now);
        }
        self.events.push(ElectionEvent::Fence(ballot));
    }

    /// Leaves the next round trips to somebody who stands. Not longer: it may be one whom no answer reaches.
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
