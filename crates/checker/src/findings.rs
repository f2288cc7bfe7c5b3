//! What has been found so far: all of it counted, the first of each kind explained.

use std::collections::BTreeMap;

use crate::verdict::{Anomaly, AnomalyKind};

#[derive(Debug)]
pub(crate) struct Findings {
    limit: usize,
    pub(crate) anomalies: Vec<Anomaly>,
    pub(crate) found: BTreeMap<AnomalyKind, usize>,
}

impl Findings {
    pub(crate) fn new(limit: usize) -> Findings {
        Findings { limit, anomalies: Vec::new(), found: BTreeMap::new() }
    }

    /// Counts an anomaly and, if few of its kind are explained yet, explains it.
    pub(crate) fn report(&mut self, kind: AnomalyKind, txns: &[u32], text: impl FnOnce() -> String) {
        let count = self.found.entry(kind).or_default();
        *count += 1;
        if *count <= self.limit {
            let txns = txns.iter().map(|txn| *txn as usize).collect();
            self.anomalies.push(Anomaly { kind, text: text(), txns });
        }
    }
}
