//! Transactions that took a worker long: the last ones of each, with what was asked.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use serde::{Deserialize, Serialize};

/// Entries that one worker keeps.
pub const MOST_SLOW: usize = 128;

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
    /// By which worker.
    pub worker: u16,
    /// The client's address,
    pub client: String,
    /// and its name, if it has told one.
    pub name: String,
    /// What was asked, cut: see [`describe`](crate::resp::describe).
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
}

impl SlowLog {
    /// Of so many workers.
    pub fn new(workers: usize) -> SlowLog {
        SlowLog { workers: (0..workers).map(|_| Mutex::default()).collect(), numbers: AtomicU64::new(0) }
    }

    /// Keeps one; its number, which names it to [`released`](SlowLog::released).
    pub fn keep(&self, slow: Slow) -> u64 {
        let number = self.numbers.fetch_add(1, Ordering::Relaxed);
        let mut kept = self.of(usize::from(slow.worker));
        if kept.len() == MOST_SLOW {
            kept.pop_front();
        }
        kept.push_back(Slow { number, ..slow });
        number
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
        all.truncate(most);
        all
    }

    /// How many are kept.
    pub fn len(&self) -> usize {
        (0..self.workers.len()).map(|worker| self.of(worker).len()).sum()
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
        let first = log.keep(slow(1, 5));
        for us in 0..200 {
            log.keep(slow(0, us));
        }
        assert_eq!((log.len(), log.ever()), (MOST_SLOW + 1, 201));
        assert_eq!(log.latest(2).iter().map(|slow| slow.took_us).collect::<Vec<_>>(), [199, 198]);
        log.released(1, first, 77);
        log.released(0, 1, 88);
        assert_eq!(log.latest(1000).last().unwrap().released_us, Some(77));
        let text = serde_json::to_string(&log.latest(1)[0]).unwrap();
        assert!(text.contains(r#""words":["get\\x00"]"#), "{text}");
        log.reset();
        assert!(log.is_empty() && log.latest(10).is_empty());
    }
}
