//! Transactions and commands that took a worker long: the last ones of each, with what was asked.
//!
//! Two thresholds: from one on they are kept here, from the other on they are [latencies](Latencies).

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use serde::{Deserialize, Serialize};

use super::latency::Latencies;

/// Entries that one worker keeps until it is told otherwise.
pub const MOST_SLOW: usize = 128;
/// The most that it may be told to keep.
pub const MOST_EVER: usize = 100_000;
/// The threshold that nothing reaches.
pub const NEVER: u64 = u64::MAX;

/// A slow transaction.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Slow {
    /// Which one of this node since its process started.
    pub number: u64,
    /// When it was executed, in Unix time.
    pub unix_ms: u64,
    /// For how long its worker executed it.
    pub took_us: u64,
    /// From its submission to its release; `None`: not released when this was asked.
    pub released_us: Option<u64>,
    pub worker: u16,
    /// The client's address,
    pub client: String,
    /// and its name, if it has told one.
    pub name: String,
    /// The request, cut: see [`describe`](crate::describe).
    #[serde(with = "words")]
    pub words: Vec<Vec<u8>>,
}

/// Words are shown as text; what is none is escaped.
mod words {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    pub fn serialize<S: Serializer>(words: &[Vec<u8>], to: S) -> Result<S::Ok, S::Error> {
        let words: Vec<String> = words.iter().map(|word| super::shown(word)).collect();
        words.serialize(to)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<Vec<u8>>, D::Error> {
        Ok(Vec::<String>::deserialize(from)?.into_iter().map(String::into_bytes).collect())
    }
}

/// Bytes as text: what is no UTF-8, and what would disturb a terminal, is escaped.
pub fn shown(bytes: &[u8]) -> String {
    match std::str::from_utf8(bytes) {
        Ok(text) if !text.chars().any(char::is_control) => text.to_string(),
        _ => bytes.escape_ascii().to_string(),
    }
}

/// The slow transactions of a node's workers.
#[derive(Debug)]
pub struct SlowLog {
    workers: Vec<Mutex<VecDeque<Slow>>>,
    numbers: AtomicU64,
    /// The smaller one of both thresholds, in ticks.
    notable_ticks: AtomicU64,
    slow_us: AtomicU64,
    watched_us: AtomicU64,
    most: AtomicUsize,
    latencies: Mutex<Latencies>,
}

impl SlowLog {
    /// Of so many workers.
    pub fn new(workers: usize) -> SlowLog {
        SlowLog {
            workers: (0..workers).map(|_| Mutex::default()).collect(),
            numbers: AtomicU64::new(0),
            notable_ticks: AtomicU64::new(NEVER),
            slow_us: AtomicU64::new(NEVER),
            watched_us: AtomicU64::new(NEVER),
            most: AtomicUsize::new(MOST_SLOW),
            latencies: Mutex::default(),
        }
    }

    /// From so many microseconds on something is slow, and from so many on a latency; `ticks` tells how many ticks of the workers' clock so many
    /// microseconds are.
    pub fn set_thresholds(&self, slow_us: u64, watched_us: u64, ticks: impl Fn(u64) -> u64) {
        let least = slow_us.min(watched_us);
        self.slow_us.store(slow_us, Ordering::Relaxed);
        self.watched_us.store(watched_us, Ordering::Relaxed);
        self.notable_ticks.store(if least == NEVER { NEVER } else { ticks(least) }, Ordering::Relaxed);
    }

    /// Both thresholds, in microseconds.
    pub fn thresholds(&self) -> (u64, u64) {
        (self.slow_us.load(Ordering::Relaxed), self.watched_us.load(Ordering::Relaxed))
    }

    /// Whether what took so many ticks is to be kept, one way or the other.
    #[inline]
    pub fn is_notable(&self, ticks: u64) -> bool {
        ticks >= self.notable_ticks.load(Ordering::Relaxed)
    }

    /// How many entries a worker keeps.
    pub fn most(&self) -> usize {
        self.most.load(Ordering::Relaxed)
    }

    /// Keeps so many from now on.
    pub fn set_most(&self, most: usize) {
        self.most.store(most.min(MOST_EVER), Ordering::Relaxed);
    }

    /// Something took so long: it is a latency of this event, if it took long enough for that.
    pub fn watch(&self, event: &'static str, unix_ms: u64, took_us: u64) {
        if took_us >= self.watched_us.load(Ordering::Relaxed) {
            self.lock_latencies().entry(event).or_default().note(unix_ms / 1000, took_us / 1000);
        }
    }

    /// What took long, by event.
    pub fn latencies(&self) -> Latencies {
        self.lock_latencies().clone()
    }

    /// Forgets those of some events; of how many there was anything.
    pub fn reset_latencies(&self, of: impl Fn(&str) -> bool) -> usize {
        let mut latencies = self.lock_latencies();
        let before = latencies.len();
        latencies.retain(|event, _| !of(event));
        before - latencies.len()
    }

    fn lock_latencies(&self) -> MutexGuard<'_, Latencies> {
        self.latencies.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps one, if it is slow; its number, which names it to [`released`](SlowLog::released).
    pub fn keep(&self, slow: Slow) -> Option<u64> {
        if slow.took_us < self.slow_us.load(Ordering::Relaxed) {
            return None;
        }
        let number = self.numbers.fetch_add(1, Ordering::Relaxed);
        let mut kept = self.of(usize::from(slow.worker));
        kept.push_back(Slow { number, ..slow });
        let surplus = kept.len().saturating_sub(self.most());
        kept.drain(..surplus);
        Some(number)
    }

    /// One was released so long after its submission.
    pub fn released(&self, worker: usize, number: u64, us: u64) {
        let mut kept = self.of(worker);
        if let Some(slow) = kept.iter_mut().rev().find(|slow| slow.number == number) {
            slow.released_us = Some(us);
        }
    }

    /// The last ones of all workers, the latest first; so many at most.
    pub fn latest(&self, most: usize) -> Vec<Slow> {
        let all = (0..self.workers.len()).flat_map(|worker| self.of(worker).clone());
        let mut all: Vec<Slow> = all.collect();
        all.sort_unstable_by_key(|slow| std::cmp::Reverse(slow.number));
        all.truncate(most.min(self.most()));
        all
    }

    /// How many are kept.
    pub fn len(&self) -> usize {
        let all: usize = (0..self.workers.len()).map(|worker| self.of(worker).len()).sum();
        all.min(self.most())
    }

    /// Whether none is.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How many there ever were.
    pub fn ever(&self) -> u64 {
        self.numbers.load(Ordering::Relaxed)
    }

    /// Forgets all.
    pub fn reset(&self) {
        (0..self.workers.len()).for_each(|worker| self.of(worker).clear());
    }

    fn of(&self, worker: usize) -> MutexGuard<'_, VecDeque<Slow>> {
        self.workers[worker].lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slow(worker: u16, took_us: u64) -> Slow {
        let (number, unix_ms, released_us) = (0, 1, None);
        let (client, name, words) = ("127.0.0.1:1".into(), String::new(), vec![b"get\x00".to_vec()]);
        Slow { number, unix_ms, took_us, released_us, worker, client, name, words }
    }

    #[test]
    fn each_worker_keeps_its_last_ones() {
        let log = SlowLog::new(2);
        assert_eq!(log.keep(slow(1, 5)), None, "nothing is slow until somebody says so");
        log.set_thresholds(0, NEVER, |us| us);
        log.set_most(MOST_SLOW + 1);
        let first = log.keep(slow(1, 5)).unwrap();
        log.set_most(MOST_SLOW);
        for us in 0..200 {
            log.keep(slow(0, us));
        }
        log.set_most(MOST_SLOW + 1);
        assert_eq!((log.len(), log.ever()), (MOST_SLOW + 1, 201));
        assert_eq!(log.latest(2).iter().map(|slow| slow.took_us).collect::<Vec<_>>(), [199, 198]);
        log.released(1, first, 77);
        log.released(0, 1, 88);
        assert_eq!(log.latest(1000).last().unwrap().released_us, Some(77));
        let text = serde_json::to_string(&log.latest(1)[0]).unwrap();
        assert!(text.contains(r#""words":["get\\x00"]"#), "{text}");
        log.set_most(1);
        assert_eq!((log.len(), log.latest(10).len()), (1, 1));
        log.reset();
        assert!(log.is_empty() && log.latest(10).is_empty());
    }

    #[test]
    fn thresholds_are_apart() {
        let log = SlowLog::new(1);
        assert!(!log.is_notable(u64::MAX - 1));
        log.set_thresholds(5_000, 2_000, |us| us * 10);
        assert!(!log.is_notable(19_999) && log.is_notable(20_000));
        for us in [1_999, 2_000, 4_999, 5_000] {
            log.keep(slow(0, us));
            log.watch("command", 77_000, us);
        }
        assert_eq!(log.len(), 1);
        assert_eq!(log.latencies()["command"].samples, [super::super::latency::Sample { unix_s: 77, ms: 5 }]);
        assert_eq!((log.reset_latencies(|event| event == "other"), log.reset_latencies(|_| true)), (0, 1));
    }
}
