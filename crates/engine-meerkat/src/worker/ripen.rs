//! Votes that are withheld until their time has come: see [`strict`](crate::strict).

use std::collections::BTreeMap;

use highwater_core::{Clock, NodeId, Timestamp};
use highwater_kit::validation::message::{About, Message};
use highwater_kit::validation::record::Told;
use highwater_kit::validation::validate::unmark;
use highwater_seam::Nanos;

use super::time::Pace;
use super::{MeerkatWorker, Whom};
use crate::hooks;
use crate::strict::Lead;

/// How soon it is looked again whether votes' time has come, at the earliest: of a few, and of many.
const LOOK_AGAIN: Nanos = 10_000;
const LOOK_AGAIN_MANY: Nanos = 100_000;
const FEW: usize = 4;
/// And at the latest: clocks of others, too, move this one.
const LOOK_AGAIN_LATEST: Nanos = 500_000;

/// Votes that are withheld, by their transactions, and since when.
#[derive(Default)]
pub(super) struct Unripe(BTreeMap<Timestamp, Nanos>);

impl Unripe {
    pub fn add(&mut self, ts: Timestamp, now: Nanos) {
        self.0.insert(ts, now);
    }

    fn first(&self) -> Option<(Timestamp, Nanos)> {
        self.0.first_key_value().map(|(ts, since)| (*ts, *since))
    }

    fn remove(&mut self, ts: Timestamp) {
        self.0.remove(&ts);
    }

    pub fn clear(&mut self) {
        self.0.clear();
    }

    /// All of them: none leaves any more.
    pub fn take(&mut self) -> impl Iterator<Item = Timestamp> + use<> {
        std::mem::take(&mut self.0).into_keys()
    }

    /// When to look again whether votes are ripe: when the first one is, if the clock goes on as it did, or a little later, for some together.
    pub fn next(&self, now: Nanos, pace: &Pace) -> Option<Nanos> {
        let (ts, _) = self.first()?;
        // One that is moved by being read alone, or by others: nobody knows when it comes there.
        if !pace.moves() {
            return Some(now + LOOK_AGAIN);
        }
        let least = if self.0.len() > FEW { LOOK_AGAIN_MANY } else { LOOK_AGAIN };
        Some(now + pace.left(ts).clamp(least, LOOK_AGAIN_LATEST))
    }

    /// For people, if there are any.
    pub fn describe(&self, clock: &Clock, lead: &Lead) -> String {
        self.first().map_or(String::new(), |(ts, since)| {
            let (count, clock) = (self.0.len(), clock.now());
            format!(", {count} withheld: {ts} since {since}, it is {clock}; lead {lead}")
        })
    }
}

impl MeerkatWorker {
    /// What this replica's clock shows, if that is past a transaction's time already.
    pub(super) fn is_late(&self, ts: Timestamp) -> Option<Timestamp> {
        let late =
            self.context.shared.strict.then(|| self.context.shared.clock.now()).filter(|clock| ts <= *clock);
        late.filter(|_| hooks::refuses_late())
    }

    /// Votes whose time has come leave.
    pub(super) fn ripen(&mut self, now: Nanos) {
        while let Some((ts, since)) = self.unripe.first() {
            let node = self.context.shared.layout.coordinator(ts).node;
            if self.records.get(node, ts).is_none_or(|record| !record.withheld || record.outcome.is_some()) {
                self.unripe.remove(ts);
                continue;
            }
            let clock = self.context.shared.clock.now();
            if clock < ts && hooks::ripens() {
                // Where all clocks stand still none would tell the others to go on.
                let patience = self.times.patience(self.context.beat());
                if now < since + patience || !self.pace.stands_still(now, clock, patience) {
                    return;
                }
                self.context.shared.clock.advance_past(ts);
            }
            self.unripe.remove(ts);
            let record = self.records.entry(now, node, ts);
            (record.withheld, record.ripe) = (false, now);
            let to = record.client.map_or(Whom::Node(node), Whom::Client);
            self.note(now, node, Told { valid: Some(true), ..Told::of(ts) });
            let about = About::Vote { valid: true, late: false, hint: Timestamp::ZERO };
            self.vouch(now, to, Message { ts, about });
        }
    }

    /// A vote that nobody was told becomes a refusal.
    pub(super) fn take_back(&mut self, now: Nanos, node: NodeId, ts: Timestamp) {
        let record = self.records.entry(now, node, ts);
        (record.valid, record.withheld, record.marked) = (Some(false), false, false);
        if let Some(payload) = record.payload.clone() {
            unmark(self.rows.marks(), &payload, ts, false);
        }
    }
}
