//! What the replicas acknowledged: the audit rows that must never go missing.
//!
//! A load numbers its audit rows per worker (its *generator*), and reports the ranges that were released. A report of
//! a process that died later counts all the same: somebody was told that those rows are safe.

use std::collections::BTreeMap;

use highwater_node::admin::protocol::LoadReport;

/// The union of everything that was ever reported as acknowledged.
///
/// Invariant: the ranges of a generator are inclusive, sorted, disjoint and not adjacent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Acknowledged {
    by_generator: BTreeMap<u32, Vec<(u32, u32)>>,
}

impl Acknowledged {
    /// Adds what a report says.
    pub fn add(&mut self, report: &LoadReport) {
        for (generator, ranges) in &report.audit {
            let known = self.by_generator.entry(*generator).or_default();
            known.extend_from_slice(ranges);
            coalesce(known);
        }
    }

    /// Adds everything that another one knows.
    pub fn merge(&mut self, other: &Acknowledged) {
        for (generator, ranges) in &other.by_generator {
            let known = self.by_generator.entry(*generator).or_default();
            known.extend_from_slice(ranges);
            coalesce(known);
        }
    }

    /// The ranges of every generator.
    pub fn iter(&self) -> impl Iterator<Item = (u32, &[(u32, u32)])> {
        self.by_generator.iter().map(|(generator, ranges)| (*generator, &ranges[..]))
    }

    /// How many rows.
    pub fn rows(&self) -> u64 {
        self.by_generator.values().flatten().map(|(from, to)| u64::from(to - from) + 1).sum()
    }
}

fn coalesce(ranges: &mut Vec<(u32, u32)>) {
    ranges.retain(|(from, to)| from <= to);
    ranges.sort_unstable();
    ranges.dedup_by(|next, kept| {
        let joins = next.0 <= kept.1.saturating_add(1);
        if joins {
            kept.1 = kept.1.max(next.1);
        }
        joins
    });
}

/// Hands out generator numbers, so that no two loads of a cluster's life write the same audit rows.
#[derive(Debug, Default)]
pub struct Generators {
    next: u32,
}

impl Generators {
    /// The first of `workers` fresh numbers.
    pub fn take(&mut self, workers: u16) -> u32 {
        let base = self.next;
        self.next += u32::from(workers);
        base
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(audit: Vec<(u32, Vec<(u32, u32)>)>) -> LoadReport {
        LoadReport { audit, ..LoadReport::default() }
    }

    #[test]
    fn reports_add_up_without_counting_twice() {
        let mut acknowledged = Acknowledged::default();
        acknowledged.add(&report(vec![(0, vec![(1, 5)]), (1, vec![(1, 1)])]));
        acknowledged.add(&report(vec![(0, vec![(1, 7), (9, 9)])]));
        acknowledged.add(&report(vec![(0, vec![(8, 8)])]));
        assert_eq!(acknowledged.rows(), 10);
        assert_eq!(acknowledged.iter().next(), Some((0, &[(1, 9)][..])));
    }

    #[test]
    fn an_empty_range_counts_nothing() {
        let mut acknowledged = Acknowledged::default();
        acknowledged.add(&report(vec![(0, vec![(1, 0), (u32::MAX, u32::MAX)])]));
        assert_eq!(acknowledged.rows(), 1);
    }
}
