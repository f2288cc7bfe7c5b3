//! When a leader is missed, and when a leader must not be believed.
//!
//! # The follower's side
//!
//! A follower waits for a sign of life for its *patience*, and up to one timeout more, at random. Signs are heartbeats
//! that vouch ([`Beat`](super::Beat)) and what the leader's streams send ([`Election::streams_heard`]): on a
//! starved machine the thread that sends heartbeats may wait for long beside workers that do their duty. Streams alone
//! vouch for [`STREAMS_VOUCH`] timeouts.
//!
//! *Patience* is the timeout, or three times the longest silence of the last half minute that ended well, up to
//! [`MOST_PATIENCE`] timeouts: where signs are often late, a late one says little. A silence loses its weight slowly. All this
//! for a leader that has led for [`PROVED`] timeouts. And a timeout more while the last heartbeat was that of a leader that rests
//! (`rest`).
//!
//! A follower whose own timer fires late doubts itself first. While it slept, so may have the leader, and signs may
//! wait to be read: it gives the leader as much time as it was late, up to [`MOST_DOUBT`] timeouts between two signs.
//!
//! So a leader that stops is missed after its followers' patience, at most four timeouts (five if it rested) and the random part. None of
//! this concerns a leader whose process is seen to be dead: that is missed at once.
//!
//! # The leader's side
//!
//! A leader vouches with its heartbeats for its service: it has heard from a quorum within [`SILENCE`] timeouts, and
//! its host finds its workers in order ([`Election::set_sound`]). When it cannot vouch it goes on asking who is there,
//! with heartbeats that are no sign of life. Whoever can form a quorum without it is then free to do so; and if nobody
//! can, it goes on in its own epoch as soon as a quorum answers. No epoch is spent on a partition that leaves no
//! majority.

use highwater_core::{Epoch, NodeId, planted};

use super::signs::Signs;
use super::state::{Election, Standing};
use crate::{Nanos, Quorums, Voter};

/// A leader that has not heard from a quorum for so many timeouts does not vouch for itself.
pub const SILENCE: u64 = 4;
/// Patience is at most so many timeouts.
const MOST_PATIENCE: u64 = 4;
/// A leader has proved that it can lead after so many timeouts.
const PROVED: u64 = 8;
/// Streams vouch for a leader whose heartbeats stay away for so many timeouts.
const STREAMS_VOUCH: u64 = 8;
/// A node that wakes up late waits so many timeouts longer at most.
const MOST_DOUBT: u64 = 2;
/// The longest silence weighs three times.
const WEIGHT: u64 = 3;
/// With each heartbeat it loses this fraction: half of it in 710 heartbeats.
const FADES: u64 = 1024;

impl Election {
    /// How long a leader may be silent before this follower misses it.
    ///
    /// A leader that has not led for long gets the plain timeout from everybody. If some followers were more patient
    /// from the start, the others would always stand first, and they may be the very ones that cannot lead.
    pub(super) fn patience(&self) -> Nanos {
        let timeout = self.options.timeout;
        let patience = match self.following {
            Some(_) if self.signs.vouched && self.signs.at >= self.signs.since + PROVED * timeout => {
                (WEIGHT * self.signs.longest).clamp(timeout, MOST_PATIENCE * timeout)
            }
            // The leader has not shown up yet, or not for long, or says itself that it cannot serve.
            _ => timeout,
        };
        patience + self.signs.allowance(timeout)
    }

    /// The leader that was last heard of, if it is the current one and gave a sign of life lately.
    pub fn leader(&self, now: Nanos) -> Option<NodeId> {
        if self.standing == Standing::Leading {
            return Some(self.me.node);
        }
        let heard = now < self.signs.at + self.patience() + self.options.timeout;
        let current = self.following.filter(|ballot| *ballot == self.promised);
        current.filter(|_| heard && !self.suspected).map(|ballot| ballot.node)
    }

    /// The leader whose heartbeats come, whether they vouch for it or not.
    ///
    /// That is enough to ask it for a copy of the state. To wait until it vouches would be wrong: it may lack a quorum,
    /// and need the very vote of the node that waits for the copy.
    pub fn followed(&self, now: Nanos) -> Option<NodeId> {
        if self.standing == Standing::Leading {
            return Some(self.me.node);
        }
        let heard = now < self.signs.met_at + (MOST_PATIENCE + 2) * self.options.timeout;
        let current = self.following.filter(|ballot| *ballot == self.promised);
        current.filter(|_| heard && !self.suspected).map(|ballot| ballot.node)
    }

    /// Who gave the last sign of a leader's life that was heard here, and when.
    pub fn last_heard(&self) -> Option<(NodeId, Nanos)> {
        self.signs.of.map(|node| (node, self.signs.at))
    }

    /// The leader that this node follows vouches for itself.
    pub(super) fn hear_leader(&mut self, now: Nanos, node: NodeId, rests: bool) {
        // Counts only the silence between two signs of one leader that vouched. Any other says nothing about how late
        // signs are here: the leader was gone, or there was none.
        if self.signs.vouched && !self.suspected {
            let timeout = self.options.timeout;
            let silence = now.saturating_sub(self.signs.at).saturating_sub(self.signs.allowance(timeout));
            let silence = silence.min(MOST_PATIENCE * timeout / WEIGHT);
            let faded = self.signs.longest - self.signs.longest / FADES;
            self.signs.longest = faded.max(silence);
        }
        self.suspected = false;
        let longest = self.signs.longest;
        let of = Some(node);
        let since = self.signs.since;
        self.signs = Signs {
            at: now,
            beat_at: now,
            since,
            met_at: now,
            vouched: true,
            rests,
            longest,
            doubted: 0,
            of,
        };
        self.wait(now);
        self.deadline = now + self.patience() + self.spread;
    }

    /// A heartbeat came that does not vouch for its leader: it only asks who is there.
    pub(super) fn disbelieve_leader(&mut self) {
        self.signs.vouched = false;
    }

    /// The leader of `epoch` sent something to a stream of this node, at `at`. That is a sign of life, too, as long as
    /// its heartbeats have not stayed away for too long.
    pub fn streams_heard(&mut self, epoch: Epoch, at: Nanos) {
        let of_leader = self.following == Some(self.promised) && self.promised.epoch == epoch;
        let believed = self.signs.vouched && !self.suspected && self.standing == Standing::Follower;
        let until = self.signs.beat_at + STREAMS_VOUCH * self.options.timeout;
        if of_leader && believed && at > self.signs.at && at <= until {
            self.signs.at = at;
            self.signs.doubted = 0;
            self.deadline = self.deadline.max(at + self.patience() + self.spread);
        }
    }

    /// A voter sent something to a stream of this node at `at`. For a leader that is as good as an answer to a heartbeat, and
    /// somebody wants something.
    pub fn voter_heard(&mut self, voter: Voter, at: Nanos) {
        self.stir(at);
        self.has_answered(voter, at);
    }

    /// A voter answered a heartbeat.
    pub(super) fn has_answered(&mut self, voter: Voter, at: Nanos) {
        if self.standing == Standing::Leading {
            self.heard_from.entry(voter).or_default().hear(at);
        }
    }

    /// The deadline has passed. If it passed a while ago, this node slept, and what others said meanwhile may lie unread.
    /// Returns whether it waits a little longer before it acts.
    pub(super) fn doubts_itself(&mut self, now: Nanos) -> bool {
        let late = now.saturating_sub(self.deadline);
        if late <= self.options.heartbeat {
            return false;
        }
        match self.standing {
            Standing::Follower if self.following.is_some() && !self.suspected => {
                let left = (MOST_DOUBT * self.options.timeout).saturating_sub(self.signs.doubted);
                let longer = late.min(left);
                self.signs.doubted += longer;
                self.deadline = now + longer;
                longer > 0
            }
            Standing::Leading => {
                // Answers may have come meanwhile that nobody has read: nobody is blamed for the time that this node
                // slept.
                self.heard_from.values_mut().for_each(|heard| heard.pardon(now, late));
                false
            }
            Standing::Follower | Standing::Asking | Standing::Preparing => false,
        }
    }

    /// Whether a quorum was heard within the last `within` nanoseconds. Meaningful on a leader only.
    pub fn quorum_heard(&self, now: Nanos, within: Nanos) -> bool {
        let Some(members) = &self.members else { return false };
        let recent = |voter: Voter| {
            voter == self.me
                || self.heard_from.get(&voter).is_some_and(|heard| now.saturating_sub(heard.at) <= within)
        };
        Quorums::of(members.clone()).reached(recent)
    }

    /// When a voter was last heard. Meaningful on a leader only.
    pub fn heard_at(&self, voter: Voter) -> Option<Nanos> {
        self.heard_from.get(&voter).map(|heard| heard.at)
    }

    /// Whether this node, which leads, can say so: it hears a quorum, and its host finds it in order.
    pub fn vouches(&self, now: Nanos) -> bool {
        // Who is asked once in a timeout answers no more often.
        let silence = SILENCE + u64::from(self.rests());
        let hears = self.quorum_heard(now, silence * self.options.timeout);
        self.sound && (hears || planted!(VouchesBlindly))
    }

    /// Whether the host finds this node's workers in order. If one is stuck, the node cannot serve, however lively its
    /// controller is: as a leader it does not vouch for itself then, and makes way for another.
    pub fn set_sound(&mut self, sound: bool) {
        self.sound = sound;
    }

    /// Waits long enough that everybody else has a turn first, after a lead that was given up. Those who heard this
    /// node's heartbeats are patient with it; without the longer wait it would stand first again, though it may be the
    /// one that cannot lead.
    pub(super) fn give_way(&mut self, now: Nanos) {
        self.wait(now);
        self.deadline += (MOST_PATIENCE + 2) * self.options.timeout;
    }
}
