//! What replicas must keep together, for an observer of all of them: facts, and the rules that compare them.

use std::any::Any;
use std::collections::BTreeMap;

use highwater_core::{Epoch, Timestamp};
use highwater_seam::observer::{EPOCHS, LOSSES, Rules, TAKEOVERS, Teller, unknown};

/// A replica has learnt what became of a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ended {
    /// In which epoch that was.
    pub epoch: Epoch,
    pub ts: Timestamp,
    /// It committed.
    pub commit: bool,
}

/// A replica has found a transaction valid. Nobody is answered before that.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Found {
    pub epoch: Epoch,
    pub ts: Timestamp,
}

/// A replica has begun an epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Began {
    pub epoch: Epoch,
    /// See [`Change`](super::change::Change).
    pub base: Timestamp,
    /// Of all that was decided with it.
    pub hash: u64,
}

/// An epoch begins from what disks have up to a moment: what committed later is lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cut {
    pub epoch: Epoch,
    /// That moment.
    pub at: Timestamp,
}

/// A controller asks for promises.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Asked;

/// Compares: a transaction has one outcome, an epoch one beginning.
#[derive(Debug, Default)]
pub struct MeerkatRules {
    /// Whether they committed.
    ended: BTreeMap<(Epoch, Timestamp), bool>,
    /// When a transaction was found valid first.
    found: BTreeMap<(Epoch, Timestamp), u64>,
    now: u64,
    cuts: BTreeMap<Epoch, Timestamp>,
    lost_since: Option<u64>,
    began: BTreeMap<Epoch, (Timestamp, u64)>,
    asked: u64,
}

impl Rules for MeerkatRules {
    fn tell(&mut self, who: Teller, fact: &dyn Any) -> Vec<String> {
        if let Some(Ended { epoch, ts, commit }) = fact.downcast_ref() {
            let known = *self.ended.entry((*epoch, *ts)).or_insert(*commit);
            // What a later epoch was cut below did not take part in it, whoever had learnt that it committed.
            let cut = self.cuts.range(epoch.next()..).any(|(_, at)| ts > at);
            if known && !*commit && cut {
                return Vec::new();
            }
            let words =
                || format!("{} says that {ts} of {epoch} committed: {commit}; it was {known}", who.node);
            return (known != *commit).then(words).into_iter().collect();
        }
        if let Some(Found { epoch, ts }) = fact.downcast_ref() {
            self.found.entry((*epoch, *ts)).or_insert(self.now);
            return Vec::new();
        }
        if let Some(Began { epoch, base, hash }) = fact.downcast_ref() {
            let known = *self.began.entry(*epoch).or_insert((*base, *hash));
            let mut wrong = Vec::new();
            if known != (*base, *hash) {
                wrong.push(format!("{} begins {epoch} otherwise than others", who.node));
            }
            let before = self.began.range(..*epoch).next_back();
            if before.is_some_and(|(_, (earlier, _))| earlier > base) {
                wrong.push(format!("{epoch} begins below the one before"));
            }
            // Outcomes of old epochs are compared within a few.
            self.ended.retain(|(of, _), _| of.0 + 3 > epoch.0);
            self.found.retain(|(of, _), _| of.0 + 3 > epoch.0);
            return wrong;
        }
        if let Some(Cut { epoch, at }) = fact.downcast_ref() {
            let known = self.cuts.insert(*epoch, *at);
            if known.is_none() {
                // Who coordinates one may have been answered before any replica knows that it committed.
                let aborted = |name: &(Epoch, Timestamp)| self.ended.get(name) == Some(&false);
                let lost =
                    self.found.iter().filter(|(name, _)| name.0 < *epoch && name.1 > *at && !aborted(name));
                let since = lost.map(|(_, when)| *when).min();
                self.lost_since = self.lost_since.into_iter().chain(since).min();
            }
            let words = || format!("{} begins {epoch} at another cut than others", who.node);
            return known.is_some_and(|known| known != *at).then(words).into_iter().collect();
        }
        if fact.is::<Asked>() {
            self.asked += 1;
            return Vec::new();
        }
        vec![unknown(who)]
    }

    fn set_now(&mut self, now: u64) {
        self.now = now;
    }

    fn take_lost_since(&mut self) -> Option<u64> {
        self.lost_since.take()
    }

    fn counts(&self) -> Vec<(&'static str, u64)> {
        vec![(EPOCHS, self.began.len() as u64), (TAKEOVERS, self.asked), (LOSSES, self.cuts.len() as u64)]
    }
}

#[cfg(test)]
mod tests {
    use highwater_core::{Incarnation, NodeId};

    use super::*;

    const WHO: Teller = Teller { node: NodeId(1), life: Incarnation(9), worker: Some(0) };

    #[test]
    fn a_transaction_has_one_outcome_and_an_epoch_one_beginning() {
        let mut rules = MeerkatRules::default();
        let ended = |epoch, commit| Ended { epoch: Epoch(epoch), ts: Timestamp(5), commit };
        assert!(rules.tell(WHO, &ended(1, true)).is_empty());
        assert!(rules.tell(WHO, &ended(2, false)).is_empty(), "a name is of one epoch");
        assert_eq!(rules.tell(WHO, &ended(1, false)).len(), 1);
        let began = |epoch, base, hash| Began { epoch: Epoch(epoch), base: Timestamp(base), hash };
        assert!(rules.tell(WHO, &began(1, 10, 7)).is_empty());
        assert_eq!(rules.tell(WHO, &began(1, 10, 8)).len(), 1);
        assert_eq!(rules.tell(WHO, &began(2, 9, 8)).len(), 1);
        assert_eq!(rules.tell(WHO, &7u32).len(), 1, "no rule is about that");
        assert_eq!(rules.counts()[0], (EPOCHS, 2));
    }

    #[test]
    fn a_cut_tells_since_when_what_was_said_is_lost() {
        let mut rules = MeerkatRules::default();
        for (now, ts, commit) in [(10, 5, true), (20, 8, false), (30, 7, true), (40, 9, true)] {
            let (epoch, ts) = (Epoch(1), Timestamp(ts));
            rules.set_now(now);
            assert!(rules.tell(WHO, &Found { epoch, ts }).is_empty());
            rules.set_now(now + 5);
            assert!(rules.tell(WHO, &Found { epoch, ts }).is_empty());
            assert!(rules.tell(WHO, &Ended { epoch, ts, commit }).is_empty());
        }
        let cut = |at| Cut { epoch: Epoch(2), at: Timestamp(at) };
        assert!(rules.tell(WHO, &cut(6)).is_empty() && rules.tell(WHO, &cut(6)).is_empty());
        assert_eq!((rules.take_lost_since(), rules.take_lost_since()), (Some(30), None));
        let ended = |ts| Ended { epoch: Epoch(1), ts: Timestamp(ts), commit: false };
        assert!(rules.tell(WHO, &ended(9)).is_empty(), "it was cut off");
        assert_eq!(rules.tell(WHO, &ended(5)).len(), 1);
        assert_eq!(rules.tell(WHO, &cut(7)).len(), 1);
        assert_eq!(rules.counts()[2], (LOSSES, 1));
    }
}
