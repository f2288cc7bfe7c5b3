//! Reads, and stamps.

use bytes::Bytes;
use highwater_core::{Direction, Nanos, NodeId, TableId, Timestamp};
use highwater_meerkat_wire::{Ask, OwnedRange, Page, Why, Wish};

use super::{Core, Stamp};

/// A stamp is used within so many timeouts, or a fresh one is asked for: homes end those that are held for longer.
const USED_WITHIN: u64 = 4;
/// Stamps that were asked for and may still come, at most; later ones are left for the home to end.
const MOST_UNANSWERED: usize = 64;
/// Records of a page, at first and at most.
const FIRST_PAGE: u32 = 16;
const MOST_PAGE: u32 = 1024;

/// What a replica has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// Under a key.
    Value {
        /// Which commit wrote it, or deleted it; zero: there is no trace of it.
        version: Timestamp,
        /// The key exists.
        live: bool,
        /// What it holds, if that was asked for.
        value: Bytes,
    },
    /// In a part of a range.
    Page(Page),
    /// There is a stamp.
    Stamped,
}

/// Why there is no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trouble {
    /// No replica serves, as far as this client can tell.
    NotServing,
    /// Replicas do not hear a majority.
    NoQuorum,
    /// Too much is under way at replicas.
    Busy,
}

impl From<Why> for Trouble {
    fn from(why: Why) -> Trouble {
        match why {
            Why::NotServing => Trouble::NotServing,
            Why::NoQuorum => Trouble::NoQuorum,
            Why::Busy => Trouble::Busy,
        }
    }
}

/// What is asked.
#[derive(Clone, Debug)]
enum Asks {
    Read { table: TableId, key: Bytes, value: bool },
    Scan { table: TableId, direction: Direction, range: OwnedRange, most: u32 },
    Stamp,
}

/// A question under way.
#[derive(Clone, Debug)]
pub(super) struct Question {
    asks: Asks,
    /// As it was asked last, whom, and when.
    id: u64,
    to: Option<NodeId>,
    asked: Nanos,
    /// Why it was not answered so far.
    why: Trouble,
    /// When it is asked again, and when no more.
    pub due: Nanos,
    pub until: Nanos,
}

impl Core {
    /// Asks what stands under a key. [`answer`](Core::answer) tells.
    pub fn read(&mut self, now: Nanos, table: TableId, key: Bytes, value: bool) {
        self.question(now, Asks::Read { table, key, value });
    }

    /// Asks for the first records of a range; so many parts of it were asked for before: later ones are longer.
    pub fn scan(&mut self, now: Nanos, table: TableId, direction: Direction, range: OwnedRange, before: u32) {
        let most = (FIRST_PAGE << (2 * before).min(8)).min(MOST_PAGE);
        self.question(now, Asks::Scan { table, direction, range, most });
    }

    /// Wishes a stamp above what was seen: asks for one, if there is none that will do.
    pub fn wish(&mut self, now: Nanos, seen: Timestamp) {
        self.above = self.above.max(seen);
        let old = |stamp: &Stamp, core: &Core| now > stamp.since + USED_WITHIN * core.timeout();
        let fit =
            |stamp: &Stamp| stamp.ts > self.above && self.epoch() == Some(stamp.epoch) && !old(stamp, self);
        if self.stamp.as_ref().is_some_and(fit) {
            self.answer = Some(Ok(Answer::Stamped));
            return;
        }
        self.drop_stamp();
        let (until, due) = (now + self.settings.patience, now + self.timeout());
        match self.asked_stamp.filter(|_| self.home.is_some()) {
            // It is on its way, and may do.
            Some(id) => {
                let (asks, to, why) = (Asks::Stamp, self.home, Trouble::NotServing);
                self.answer = None;
                self.question = Some(Question { asks, id, to, asked: now, why, due, until });
            }
            None => self.question(now, Asks::Stamp),
        }
    }

    /// The stamp that is held.
    pub fn stamp(&self) -> Option<Timestamp> {
        self.stamp.map(|stamp| stamp.ts)
    }

    /// What came of the last question, once it is known.
    pub fn answer(&mut self) -> Option<Result<Answer, Trouble>> {
        self.answer.take()
    }

    /// Something was asked then, and is answered now.
    pub(super) fn learn_round_trip(&mut self, now: Nanos, asked: Nanos) {
        let took = now.saturating_sub(asked).min(self.timeout());
        self.round_trip = (7 * self.round_trip + took.max(1)) / 8;
    }

    fn question(&mut self, now: Nanos, asks: Asks) {
        let until = now + self.settings.patience;
        self.answer = None;
        let why = Trouble::NotServing;
        self.question = Some(Question { asks, id: 0, to: None, asked: now, why, due: now, until });
        self.ask_in_time(now);
    }

    /// Asks, or asks again, if it is time; gives up at last.
    pub(super) fn ask_in_time(&mut self, now: Nanos) {
        let Some(question) = &self.question else { return };
        if now >= question.until {
            self.answer = Some(Err(question.why));
            self.question = None;
            return;
        }
        if now < question.due {
            return;
        }
        if question.to.is_some() && question.to == self.home {
            // It had its time.
            self.leave_home();
        }
        let (timeout, beat, strict) = (self.timeout(), self.beat(), self.strict());
        let Some(home) = self.choose_home() else {
            if let Some(question) = &mut self.question {
                (question.to, question.due) = (None, now + beat);
            }
            return;
        };
        self.ids += 1;
        let id = self.ids;
        let wish = Wish { above: self.above, late: self.late };
        let Some(question) = &mut self.question else { return };
        (question.id, question.to, question.asked, question.due) = (id, Some(home), now, now + timeout);
        // Where real time is promised, a stamp that is as old as the reads would come too late.
        let wants = self.stamp.is_none() && self.asked_stamp.is_none() && !strict;
        let stamp = wants.then_some(wish);
        let ask = match question.asks.clone() {
            Asks::Read { table, key, value } => Ask::Read { id, stamp, table, key, value },
            Asks::Scan { table, direction, range, most } => {
                Ask::Scan { id, stamp, table, direction, range, most }
            }
            Asks::Stamp => Ask::Stamp { id, wish },
        };
        if wants || matches!(ask, Ask::Stamp { .. }) {
            self.asked_stamp = Some(id);
            self.unanswered.insert(id);
            while self.unanswered.len() > MOST_UNANSWERED {
                self.unanswered.pop_first();
            }
        }
        self.send(home, &ask);
    }

    /// Whom it was asked of is lost: somebody else is asked, at once.
    pub(super) fn ask_elsewhere(&mut self, now: Nanos) {
        if let Some(question) = &mut self.question {
            (question.to, question.due) = (None, now);
        }
        self.ask_in_time(now);
    }

    pub(super) fn answered(&mut self, now: Nanos, id: u64, answer: Answer) {
        // A stamp is asked for under the number of a read, which may be answered twice.
        let reads = |question: &mut Question| question.id == id && !matches!(question.asks, Asks::Stamp);
        if let Some(question) = self.question.take_if(reads) {
            if self.strict() {
                // Votes wait there for their time, and say nothing of the network.
                self.learn_round_trip(now, question.asked);
            }
            self.answer = Some(Ok(answer));
        }
    }

    pub(super) fn refused(&mut self, now: Nanos, id: u64, why: Why) {
        if self.asked_stamp == Some(id) {
            self.asked_stamp = None;
        }
        self.unanswered.remove(&id);
        let pause = self.round_trip.max(1_000_000) + self.random.below(self.beat());
        if let Some(question) = self.question.as_mut().filter(|question| question.id == id) {
            (question.why, question.due) = (why.into(), now + pause);
        }
    }

    pub(super) fn granted(&mut self, now: Nanos, from: NodeId, id: u64, stamp: Stamp) {
        if !self.unanswered.remove(&id) {
            return;
        }
        let wanted = self.asked_stamp == Some(id) && self.proposal.is_none() && self.home == Some(from);
        let latest = self.epoch() == Some(stamp.epoch);
        if !wanted || !latest || self.stamp.is_some() {
            return self.send(from, &Ask::Return { epoch: stamp.epoch, ts: stamp.ts });
        }
        self.asked_stamp = None;
        if stamp.ts <= self.above {
            // It was asked for before something was seen that is later.
            self.send(from, &Ask::Return { epoch: stamp.epoch, ts: stamp.ts });
            if self.question.as_ref().is_some_and(|question| question.id == id) {
                self.ask_elsewhere(now);
            }
            return;
        }
        self.stamp = Some(stamp);
        let stamps = |question: &mut Question| question.id == id && matches!(question.asks, Asks::Stamp);
        if self.question.take_if(stamps).is_some() {
            self.answer = Some(Ok(Answer::Stamped));
        }
    }

    /// A stamp that was used nowhere goes back.
    pub(super) fn drop_stamp(&mut self) {
        if let Some(Stamp { epoch, ts, home, .. }) = self.stamp.take() {
            self.send(home, &Ask::Return { epoch, ts });
        }
    }
}
