//! Votes that are withheld until their time has come: see [`strict`](crate::strict).

use highwater_core::{NodeId, Timestamp};
use highwater_kit::validation::message::{About, Message};
use highwater_kit::validation::record::Told;
use highwater_kit::validation::validate::unmark;
use highwater_seam::Nanos;

use super::{MeerkatWorker, Whom};

/// How soon it is looked again whether votes' time has come, at the earliest: of a few, and of many.
const LOOK_AGAIN: Nanos = 10_000;
const LOOK_AGAIN_MANY: Nanos = 100_000;
const FEW: usize = 4;
/// And at the latest: clocks of others, too, move this one.
const LOOK_AGAIN_LATEST: Nanos = 500_000;
/// How often it is looked how fast the clock goes.
const PACE_EVERY: Nanos = 1_000_000;
/// No clock goes faster, in its units per microsecond, but by leaps.
const FASTEST_PACE: u64 = 8_000;
/// And none so slowly.
pub(super) const STANDS_STILL_PACE: u64 = 1000 / 64;

impl MeerkatWorker {
    /// What this replica's clock shows, if that is past a transaction's time already.
    pub(super) fn is_late(&self, ts: Timestamp) -> Option<Timestamp> {
        let late = self.shared.strict.then(|| self.shared.clock.now()).filter(|clock| ts <= *clock);
        late.filter(|_| !highwater_core::planted!(LateIsValid))
    }

    /// Votes whose time has come leave.
    pub(super) fn ripen(&mut self, now: Nanos) {
        while let Some((ts, since)) = self.unripe.first_key_value().map(|(ts, since)| (*ts, *since)) {
            let node = self.shared.layout.coordinator(ts).node;
            if self.records.get(node, ts).is_none_or(|record| !record.withheld || record.outcome.is_some()) {
                self.unripe.remove(&ts);
                continue;
            }
            let clock = self.shared.clock.now();
            if clock < ts && !highwater_core::planted!(VotesUnripe) {
                // Where all clocks stand still none would tell the others to go on.
                if now < since + self.patience() || !self.stands_still(now, clock) {
                    return;
                }
                self.shared.clock.advance_past(ts);
            }
            self.unripe.remove(&ts);
            let record = self.records.entry(now, node, ts);
            (record.withheld, record.ripe) = (false, now);
            let to = record.client.map_or(Whom::Node(node), Whom::Client);
            self.note(now, node, Told { valid: Some(true), ..Told::of(ts) });
            let about = About::Vote { valid: true, late: false, hint: Timestamp::ZERO };
            self.vouch(now, to, Message { ts, about });
        }
    }

    /// A clock that went back, as that of a machine may that was moved, goes on from where it was seen to be.
    pub(super) fn hold_clock(&mut self, now: Nanos) {
        self.shown = self.shared.hold_clock(self.shown);
        self.look_at_pace(now);
    }

    /// Looks now and then how fast the clock goes.
    pub(super) fn look_at_pace(&mut self, now: Nanos) {
        let (at, showed, _) = self.pace;
        let took = now.saturating_sub(at);
        if took >= PACE_EVERY {
            if !self.shared.strict {
                self.shown = self.shared.clock.now();
            }
            let went = self.shown.0.saturating_sub(showed.0);
            self.pace = (now, self.shown, (went.saturating_mul(1000) / took).clamp(1, FASTEST_PACE));
        }
    }

    /// When to look again whether votes are ripe: when the first one is, if the clock goes on as it did, or a little later, for some together.
    pub(super) fn next_ripe(&self, now: Nanos) -> Option<Nanos> {
        let (ts, _) = self.unripe.first_key_value()?;
        let (.., pace) = self.pace;
        // One that is moved by being read alone, or by others: nobody knows when it comes there.
        if pace <= STANDS_STILL_PACE {
            return Some(now + LOOK_AGAIN);
        }
        let left = 1000 * ts.0.saturating_sub(self.shown.0).min(1 << 40) / pace;
        let least = if self.unripe.len() > FEW { LOOK_AGAIN_MANY } else { LOOK_AGAIN };
        Some(now + left.clamp(least, LOOK_AGAIN_LATEST))
    }

    /// Whether this replica's clock has stood still for a while: no clock that moves is so slow. Leaps are no pace.
    fn stands_still(&mut self, now: Nanos, clock: Timestamp) -> bool {
        let (at, showed, still) = self.pulse;
        let took = now.saturating_sub(at);
        if took < self.patience() {
            return still;
        }
        let still = clock.0.saturating_sub(showed.0) <= took / 64;
        self.pulse = (now, clock, still);
        still
    }

    /// A vote that nobody was told becomes a refusal.
    pub(super) fn take_back(&mut self, now: Nanos, node: NodeId, ts: Timestamp) {
        let record = self.records.entry(now, node, ts);
        (record.valid, record.withheld, record.marked) = (Some(false), false, false);
        if let Some(payload) = record.payload.clone() {
            unmark(&self.marks, &payload, ts, false);
        }
    }
}
