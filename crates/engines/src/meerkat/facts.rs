//! What replicas must keep together, for an observer of all of them: facts, and the rules that compare them.

use std::any::Any;
use std::collections::BTreeMap;

use highwater_core::{Epoch, Timestamp};

use crate::observer::{EPOCHS, Rules, TAKEOVERS, Teller, unknown};

/// A replica has learnt what became of a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ended {
    /// In which epoch that was.
    pub epoch: Epoch,
    /// Which.
    pub ts: Timestamp,
    /// It committed.
    pub commit: bool,
}

/// A replica has begun an epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Began {
    /// Which.
    pub epoch: Epoch,
    /// See [`Change`](super::change::Change).
    pub base: Timestamp,
    /// Of all that was decided with it.
    pub hash: u64,
}

/// A controller asks for promises.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Asked;

/// Compares: a transaction has one outcome, an epoch one beginning.
#[derive(Debug, Default)]
pub struct MeerkatRules {
    ended: BTreeMap<(Epoch, Timestamp), bool>,
    began: BTreeMap<Epoch, (Timestamp, u64)>,
    asked: u64,
}

impl Rules for MeerkatRules {
    fn tell(&mut self, who: Teller, fact: &dyn Any) -> Vec<String> {
        if let Some(Ended { epoch, ts, commit }) = fact.downcast_ref() {
            let known = *self.ended.entry((*epoch, *ts)).or_insert(*commit);
            let words =
                || format!("{} says that {ts} of {epoch} committed: {commit}; it was {known}", who.node);
            return (known != *commit).then(words).into_iter().collect();
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
            return wrong;
        }
        if fact.is::<Asked>() {
            self.asked += 1;
            return Vec::new();
        }
        vec![unknown(who)]
    }

    fn counts(&self) -> Vec<(&'static str, u64)> {
        vec![(EPOCHS, self.began.len() as u64), (TAKEOVERS, self.asked)]
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
}
