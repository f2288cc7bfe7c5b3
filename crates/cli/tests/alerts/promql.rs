//! As much of PromQL as rules need that compare what is exported at one moment.
//!
//! ```text
//! expression = vector [ " unless on (" label ")" vector ]
//! vector     = selector [ " == " number ] | "absent(" vector ")" | "count by (" label ") (" vector ")"
//! selector   = metric [ "{" label ("=" | "=~") "\"" value "\"" .. "}" ]
//! ```
//!
//! A pattern of `=~` is a list of words with `|` between them, each of which may end in `.*`.

use std::collections::BTreeMap;
use std::fmt;

/// A value of a metric with its labels.
#[derive(Clone, Debug, PartialEq)]
pub struct Sample {
    pub metric: String,
    pub labels: BTreeMap<String, String>,
    pub value: f64,
}

/// Values of one moment.
#[derive(Clone, Debug, Default)]
pub struct Samples(Vec<Sample>);

/// Which samples are meant.
#[derive(Debug)]
pub struct Selector {
    pub metric: String,
    /// Label, whether it is a pattern, value.
    matchers: Vec<(String, bool, String)>,
}

impl Sample {
    pub fn new(metric: &str, labels: &[(&str, &str)], value: f64) -> Sample {
        let labels = labels.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect();
        Sample { metric: metric.into(), labels, value }
    }
}

impl fmt::Display for Sample {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let labels: Vec<String> =
            self.labels.iter().map(|(name, value)| format!("{name}=\"{value}\"")).collect();
        write!(f, "{}{{{}}}", self.metric, labels.join(","))
    }
}

impl Samples {
    /// From the text of OpenMetrics; no label's value has a comma or a quotation mark in it.
    pub fn parse(text: &str, scraped: &[(&str, &str)]) -> Samples {
        let lines = text.lines().filter(|line| !line.starts_with('#'));
        Samples(
            lines
                .map(|line| {
                    let (series, value) = line.rsplit_once(' ').unwrap();
                    let (metric, labels) = series.split_once('{').unwrap_or((series, "}"));
                    let labels =
                        labels.strip_suffix('}').unwrap().split(',').filter(|label| !label.is_empty());
                    let labels = labels.map(|label| {
                        let (name, value) = label.split_once('=').unwrap();
                        (name, value.trim_matches('"'))
                    });
                    let labels: Vec<_> = labels.chain(scraped.iter().copied()).collect();
                    Sample::new(metric, &labels, value.parse().unwrap())
                })
                .collect(),
        )
    }

    pub fn push(&mut self, sample: Sample) {
        self.0.push(sample);
    }

    pub fn and(mut self, other: Samples) -> Samples {
        self.0.extend(other.0);
        self
    }

    pub fn iter(&self) -> impl Iterator<Item = &Sample> {
        self.0.iter()
    }

    pub fn has_label(&self, metric: &str, label: &str) -> bool {
        self.0.iter().any(|sample| sample.metric == metric && sample.labels.contains_key(label))
    }

    pub fn sum(&self, metric: &str, labels: &[(&str, &str)]) -> f64 {
        let has = |sample: &&Sample| {
            labels.iter().all(|(name, value)| sample.labels.get(*name).is_some_and(|own| own == value))
        };
        self.0.iter().filter(|sample| sample.metric == metric).filter(has).map(|sample| sample.value).sum()
    }
}

impl Selector {
    /// Reads one; what is behind it, too.
    fn read(text: &str) -> Option<(Selector, &str)> {
        let end =
            text.find(|letter: char| !letter.is_ascii_lowercase() && letter != '_').unwrap_or(text.len());
        let (metric, rest) = text.split_at(end);
        if metric.is_empty() {
            return None;
        }
        let metric = metric.to_string();
        let Some(inside) = rest.strip_prefix('{') else {
            return Some((Selector { metric, matchers: Vec::new() }, rest));
        };
        let (inside, rest) = inside.split_once('}')?;
        let matchers = inside.split(',').map(|matcher| {
            let (name, value) = matcher.split_once('=')?;
            let (pattern, value) = value.strip_prefix('~').map_or((false, value), |value| (true, value));
            Some((name.to_string(), pattern, value.trim_matches('"').to_string()))
        });
        Some((Selector { metric, matchers: matchers.collect::<Option<_>>()? }, rest))
    }

    pub fn select(&self, samples: &Samples) -> Vec<Sample> {
        let matches = |(name, pattern, wanted): &(String, bool, String), sample: &Sample| {
            let own = sample.labels.get(name).map_or("", String::as_str);
            let is = |word: &str| match word.strip_suffix(".*") {
                Some(start) => own.starts_with(start),
                None => own == word,
            };
            if *pattern { wanted.split('|').any(is) } else { own == wanted }
        };
        let named = samples.0.iter().filter(|sample| sample.metric == self.metric);
        named.filter(|sample| self.matchers.iter().all(|one| matches(one, sample))).cloned().collect()
    }
}

/// Every selector of an expression, whatever else there is.
pub fn selectors(expr: &str) -> Vec<Selector> {
    let starts = ["highwater_", "up{"].into_iter().flat_map(|metric| expr.match_indices(metric));
    starts.map(|(at, _)| Selector::read(&expr[at..]).unwrap().0).collect()
}

/// The values that an expression yields; an error if it is more than this knows.
pub fn eval(expr: &str, samples: &Samples) -> Result<Vec<Sample>, String> {
    let Some((left, right)) = expr.split_once(" unless on (") else { return vector(expr, samples) };
    let (label, right) = right.split_once(") ").ok_or("no vector behind unless")?;
    let (left, right) = (vector(left, samples)?, vector(right, samples)?);
    let absent = |one: &Sample| right.iter().all(|other| other.labels.get(label) != one.labels.get(label));
    Ok(left.into_iter().filter(absent).collect())
}

fn vector(text: &str, samples: &Samples) -> Result<Vec<Sample>, String> {
    if let Some(inside) = text.strip_prefix("absent(").and_then(|text| text.strip_suffix(')')) {
        let empty = vector(inside, samples)?.is_empty();
        return Ok(empty.then(|| Sample::new("", &[], 1.0)).into_iter().collect());
    }
    if let Some(inside) = text.strip_prefix("count by (").and_then(|text| text.strip_suffix(')')) {
        let (label, inside) = inside.split_once(") (").ok_or("no vector behind count")?;
        let mut counts: BTreeMap<String, f64> = BTreeMap::new();
        for sample in vector(inside, samples)? {
            *counts.entry(sample.labels.get(label).cloned().unwrap_or_default()).or_default() += 1.0;
        }
        return Ok(counts.iter().map(|(value, count)| Sample::new("", &[(label, value)], *count)).collect());
    }
    let unknown = || format!("more than a comparison: {text}");
    let (selector, rest) = Selector::read(text).ok_or_else(unknown)?;
    let found = selector.select(samples);
    if rest.is_empty() {
        return Ok(found);
    }
    let number: f64 = rest.strip_prefix(" == ").and_then(|number| number.parse().ok()).ok_or_else(unknown)?;
    Ok(found.into_iter().filter(|sample| sample.value == number).collect())
}
