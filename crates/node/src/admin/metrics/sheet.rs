//! Metrics of one moment, for the encoder.

use std::fmt;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, MetricEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;

use highwater_redis::meter::histogram::Counts;

/// Names and values, in order.
#[derive(Debug, Default)]
pub struct Sheet(Vec<Metric>);

/// Labels of a value.
pub type Labels = Vec<(&'static str, String)>;

#[derive(Debug)]
struct Metric {
    name: &'static str,
    help: &'static str,
    values: Values,
}

#[derive(Debug)]
enum Values {
    Counter(Vec<(Labels, u64)>),
    Gauge(Vec<(Labels, f64)>),
    Histogram(Counts),
}

/// Powers of two microseconds at which buckets of a histogram end: 16 us to 67 s.
const ENDS: std::ops::RangeInclusive<u32> = 4..=26;

impl Sheet {
    /// What only grows.
    pub fn counter(&mut self, name: &'static str, help: &'static str, value: u64) {
        self.counters(name, help, [(Vec::new(), value)]);
    }

    /// The same, several by labels.
    pub fn counters(
        &mut self,
        name: &'static str,
        help: &'static str,
        values: impl IntoIterator<Item = (Labels, u64)>,
    ) {
        self.0.push(Metric { name, help, values: Values::Counter(values.into_iter().collect()) });
    }

    /// What grows and shrinks.
    pub fn gauge(&mut self, name: &'static str, help: &'static str, value: f64) {
        self.gauges(name, help, [(Vec::new(), value)]);
    }

    /// The same, several by labels.
    pub fn gauges(
        &mut self,
        name: &'static str,
        help: &'static str,
        values: impl IntoIterator<Item = (Labels, f64)>,
    ) {
        self.0.push(Metric { name, help, values: Values::Gauge(values.into_iter().collect()) });
    }

    /// How long things took, in seconds.
    pub fn seconds(&mut self, name: &'static str, help: &'static str, counts: Counts) {
        self.0.push(Metric { name, help, values: Values::Histogram(counts) });
    }
}

impl Collector for Sheet {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        for Metric { name, help, values } in &self.0 {
            let kind = match values {
                Values::Counter(_) => MetricType::Counter,
                Values::Gauge(_) => MetricType::Gauge,
                Values::Histogram(_) => MetricType::Histogram,
            };
            let mut metric = encoder.encode_descriptor(name, help, None, kind)?;
            match values {
                Values::Counter(values) => each(&mut metric, values, |metric, value| {
                    metric.encode_counter::<NoLabelSet, u64, f64>(value, None)
                })?,
                Values::Gauge(values) => {
                    each(&mut metric, values, |metric, value| metric.encode_gauge(value))?
                }
                Values::Histogram(counts) => histogram(&mut metric, counts)?,
            }
        }
        Ok(())
    }
}

fn each<T>(
    metric: &mut MetricEncoder<'_>,
    values: &[(Labels, T)],
    encode: impl Fn(&mut MetricEncoder<'_>, &T) -> fmt::Result,
) -> fmt::Result {
    for (labels, value) in values {
        match labels.is_empty() {
            true => encode(metric, value)?,
            false => encode(&mut metric.encode_family(labels)?, value)?,
        }
    }
    Ok(())
}

fn histogram(metric: &mut MetricEncoder<'_>, counts: &Counts) -> fmt::Result {
    let (total, mut before, mut buckets) = (counts.total(), 0, Vec::new());
    for power in ENDS {
        let below = counts.below(power);
        buckets.push(((1u64 << power) as f64 / 1e6, below - before));
        before = below;
    }
    buckets.push((f64::INFINITY, total - before));
    metric.encode_histogram::<NoLabelSet>(counts.sum_ns as f64 / 1e9, total, &buckets, None)
}
