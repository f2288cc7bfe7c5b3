//! How long the ordinary clients' transactions took, by what went on meanwhile.

use std::collections::BTreeMap;
use std::fmt;

use serde::Serialize;

use super::events::Event;

/// Of transactions that committed, in milliseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Latency {
    /// How many.
    pub count: usize,
    /// The median.
    pub p50_ms: f64,
    /// 99 %.
    pub p99_ms: f64,
    /// The longest.
    pub max_ms: f64,
}

impl Latency {
    fn of(mut times: Vec<u64>) -> Option<Latency> {
        times.sort_unstable();
        let at = |share: f64| times[((times.len() - 1) as f64 * share) as usize] as f64 / 1e6;
        (!times.is_empty()).then(|| Latency {
            count: times.len(),
            p50_ms: at(0.5),
            p99_ms: at(0.99),
            max_ms: at(1.0),
        })
    }
}

impl fmt::Display for Latency {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Latency { count, p50_ms, p99_ms, max_ms } = self;
        write!(f, "p50 {p50_ms:.1} ms, p99 {p99_ms:.1} ms, longest {max_ms:.0} ms of {count}")
    }
}

/// Under this name: while the cluster was whole and nothing was done to it.
pub const QUIET: &str = "quiet";

/// By kind of what was going on when a transaction began; one that met several counts for each.
pub fn by_kind(
    committed: &[(u64, u64)],
    events: &[Event],
    unrest: &[(u64, u64)],
) -> BTreeMap<String, Latency> {
    let mut times: BTreeMap<String, Vec<u64>> = BTreeMap::new();
    for (began, ended) in committed {
        let within = |(from, to): (u64, u64)| from <= *began && *began < to;
        let mut kinds: Vec<&str> = events
            .iter()
            .filter(|event| within((event.from_ns, event.to_ns)))
            .map(|event| event.kind.name())
            .collect();
        kinds.sort_unstable();
        kinds.dedup();
        if kinds.is_empty() && !unrest.iter().any(|spell| within(*spell)) {
            kinds.push(QUIET);
        }
        for kind in kinds {
            times.entry(kind.to_string()).or_default().push(ended - began);
        }
    }
    times.into_iter().filter_map(|(kind, times)| Some((kind, Latency::of(times)?))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::torture::schedule::FaultKind;

    #[test]
    fn a_transaction_counts_for_what_it_began_in() {
        let ms = |ms: u64| ms * 1_000_000;
        let event = |kind, from, to| Event {
            kind,
            what: String::new(),
            from_ns: ms(from),
            to_ns: ms(to),
            leader_changes: 0,
        };
        let events = [event(FaultKind::Hogs, 100, 200), event(FaultKind::Floods, 150, 200)];
        let committed = [(10, 12), (110, 120), (160, 190), (210, 211)].map(|(t0, t1)| (ms(t0), ms(t1)));
        // Until 220 the cluster was not whole.
        let latency = by_kind(&committed, &events, &[(ms(100), ms(220))]);
        let of = |kind: &str| (latency[kind].count, latency[kind].max_ms);
        assert_eq!((of("hogs"), of("floods"), of(QUIET)), ((2, 30.0), (1, 30.0), (1, 2.0)));
        assert_eq!(latency.len(), 3);
    }
}
