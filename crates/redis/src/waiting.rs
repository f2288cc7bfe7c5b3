//! Clients that wait for data (`BLPOP` and its like): who waits for which key, in the order of arrival, over all workers of a node.
//!
//! A client puts itself in line *before* it looks whether there is something, and looks when it is woken. A client that has
//! written wakes the first in line of each key that it named, *after* its write. So whatever is written after a look finds the client in
//! line. Whoever leaves a line, served or not, wakes the next one: there may be more.
//!
//! Nobody is handed anything: to be woken is to look again, in a transaction like any other. While nobody waits, all that it costs is one
//! look at a number for each write.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use highwater_core::NodeId;
use highwater_core::codec::Reader;
use highwater_core::{Outcome, planted};

use super::moment::Moment;
use super::request::{Framing, Step, Watch};

/// Of a request with more bytes in its words nobody keeps them: all who wait look.
const MOST_NAMED: usize = 4096;

/// Wakes a worker's thread.
pub type Wake = Box<dyn Fn(usize) + Send + Sync>;

/// The lines of a node.
pub struct Waiting {
    /// How many clients wait. Sequentially consistent, as is whoever reads it: a client that stands in line looks at the data afterwards, a
    /// writer reads this after its write.
    count: AtomicUsize,
    lines: Mutex<Lines>,
    wake: Wake,
}

#[derive(Default)]
struct Lines {
    /// Clients by key, the first that came first.
    by_key: BTreeMap<Vec<u8>, VecDeque<u64>>,
    /// Clients that are to look again, by their worker.
    woken: BTreeMap<usize, Vec<u64>>,
}

/// The worker whose client this is: hosts number clients so.
pub fn worker_of(client: u64) -> usize {
    (client & 0xff) as usize
}

/// Where the node stands in the number of another node's client.
const NODE_SHIFT: u32 = 55;

/// The number under which the client of another node stands in line here; the worker is the one that it has there.
pub fn guest(node: NodeId, client: u64) -> u64 {
    (u64::from(node.0) + 1) << NODE_SHIFT | client & ((1 << NODE_SHIFT) - 1)
}

/// Whose client this is, and its number there, if it is another node's.
pub fn of_guest(client: u64) -> Option<(NodeId, u64)> {
    let node = (client >> NODE_SHIFT).checked_sub(1)?;
    Some((NodeId(node as u8), client & ((1 << NODE_SHIFT) - 1)))
}

impl Waiting {
    /// Nobody waits.
    pub fn new(wake: Wake) -> Waiting {
        Waiting { count: AtomicUsize::new(0), lines: Mutex::default(), wake }
    }

    /// Whether anybody waits.
    #[inline]
    pub fn is_any(&self) -> bool {
        self.count.load(Ordering::SeqCst) > 0
    }

    /// A client gets in line for these keys; whether others are in front of it for each of them.
    pub fn enter(&self, client: u64, keys: &[Vec<u8>]) -> bool {
        let mut lines = self.lock();
        let mut behind = true;
        for key in keys {
            let line = lines.by_key.entry(key.clone()).or_default();
            behind &= line.front().is_some_and(|first| *first != client);
            if !line.contains(&client) {
                line.push_back(client);
            }
        }
        self.count.fetch_add(1, Ordering::SeqCst);
        behind
    }

    /// It waits no more; whoever stands behind it is woken.
    pub fn leave(&self, client: u64, keys: &[Vec<u8>]) {
        let mut lines = self.lock();
        for key in keys {
            if let Some(line) = lines.by_key.get_mut(key) {
                line.retain(|other| *other != client);
                if line.is_empty() {
                    lines.by_key.remove(key);
                }
            }
        }
        self.count.fetch_sub(1, Ordering::SeqCst);
        self.wake_first(lines, keys.iter().map(Vec::as_slice));
    }

    /// The words of a request, be it that somebody waits for them or not: whoever gets in line before it is executed looks in vain, and is to be
    /// woken. `None`: it runs a script, which may write other keys, too; or they are many bytes.
    pub fn named_in(&self, request: &[u8]) -> Option<Vec<Vec<u8>>> {
        let (mut named, mut bytes) = (Vec::new(), 0);
        let whole = words(request, |word| {
            bytes += word.len();
            if bytes <= MOST_NAMED {
                named.push(word.to_vec());
            }
        });
        (whole && bytes <= MOST_NAMED).then_some(named)
    }

    /// A request of a client that is gone was released: whoever waits for what it may have written is to look.
    pub fn written_by_one_that_left(&self, outcome: Outcome) {
        if outcome == Outcome::Committed && self.is_any() {
            self.wake_all();
        }
    }

    /// Something may be there under these keys.
    pub fn wake<'a>(&self, keys: impl Iterator<Item = &'a [u8]>) {
        self.wake_first(self.lock(), keys);
    }

    /// The thing that everybody in this line waits for is there for all of them.
    pub fn wake_line(&self, key: &[u8]) {
        let mut lines = self.lock();
        let line: Vec<u64> = lines.by_key.get(key).into_iter().flatten().copied().collect();
        for client in &line {
            let woken = lines.woken.entry(worker_of(*client)).or_default();
            if !woken.contains(client) {
                woken.push(*client);
            }
        }
        drop(lines);
        let workers: BTreeSet<usize> = line.into_iter().map(worker_of).collect();
        workers.into_iter().for_each(|worker| (self.wake)(worker));
    }

    /// Something may be there under any key.
    pub fn wake_all(&self) {
        let lines = self.lock();
        let keys: Vec<Vec<u8>> = lines.by_key.keys().cloned().collect();
        self.wake_first(lines, keys.iter().map(Vec::as_slice));
    }

    fn wake_first<'a>(&self, mut lines: MutexGuard<'_, Lines>, keys: impl Iterator<Item = &'a [u8]>) {
        let mut workers = Vec::new();
        for key in keys {
            let Some(line) = lines.by_key.get(key) else { continue };
            let first = if planted!(LastIsFirst) { line.back() } else { line.front() };
            let Some(first) = first.copied() else { continue };
            let woken = lines.woken.entry(worker_of(first)).or_default();
            if !woken.contains(&first) {
                woken.push(first);
                workers.push(worker_of(first));
            }
        }
        drop(lines);
        workers.into_iter().for_each(|worker| (self.wake)(worker));
    }

    /// The clients of a worker that are to look again.
    pub fn take_woken(&self, worker: usize) -> Vec<u64> {
        if !self.is_any() {
            return Vec::new();
        }
        self.lock().woken.remove(&worker).unwrap_or_default()
    }

    /// What a panic left behind is as good as before: every change is whole.
    fn lock(&self) -> MutexGuard<'_, Lines> {
        self.lines.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Visits every argument of every command of a request; false if a command does more than its words say, or it cannot be read.
fn words(request: &[u8], mut visit: impl FnMut(&[u8])) -> bool {
    let mut reader = Reader::new(request);
    let mut whole = true;
    let mut read = || {
        Moment::decode(&mut reader)?;
        Framing::decode(&mut reader)?;
        for _ in 0..reader.varint()? {
            Watch::decode(&mut reader)?;
        }
        for _ in 0..reader.varint()? {
            if let Step::Command { opcode, args, .. } = Step::decode(&mut reader)? {
                whole &= !opcode.spec().runs_code();
                args.for_each(&mut visit);
            }
        }
        Ok::<_, highwater_core::codec::Malformed>(())
    };
    let read = read().is_ok();
    read && whole
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(keys: &[&str]) -> Vec<Vec<u8>> {
        keys.iter().map(|key| key.as_bytes().to_vec()).collect()
    }

    #[test]
    fn guests_have_numbers_of_their_own() {
        for (node, client) in [(NodeId(0), 0x100), (NodeId(254), (1 << 55) - 1)] {
            let guest = guest(node, client);
            assert_eq!(of_guest(guest), Some((node, client)));
            assert_eq!(worker_of(guest), worker_of(client));
            assert_eq!(of_guest(client), None);
        }
    }

    #[test]
    fn the_first_is_woken_and_the_next_when_it_leaves() {
        let waiting = Waiting::new(Box::new(|_| ()));
        assert!(!waiting.enter(0x100, &keys(&["a", "b"])));
        assert!(waiting.enter(0x201, &keys(&["a"])));
        waiting.wake([&b"a"[..], b"c"].into_iter());
        assert_eq!((waiting.take_woken(0), waiting.take_woken(1)), (vec![0x100], vec![]));
        waiting.leave(0x100, &keys(&["a", "b"]));
        assert_eq!((waiting.take_woken(0), waiting.take_woken(1)), (vec![], vec![0x201]));
        waiting.leave(0x201, &keys(&["a"]));
        assert!(!waiting.is_any());
    }

    #[test]
    fn a_whole_line_is_woken() {
        let waiting = Waiting::new(Box::new(|_| ()));
        [0x100, 0x201, 0x300].iter().for_each(|client| {
            waiting.enter(*client, &keys(&["a"]));
        });
        waiting.enter(0x400, &keys(&["b"]));
        waiting.wake_line(b"a");
        assert_eq!((waiting.take_woken(0), waiting.take_woken(1)), (vec![0x100, 0x300], vec![0x201]));
    }

    fn request(words: &[&[u8]]) -> Vec<u8> {
        let wire: Vec<u8> = crate::tests::double::multibulk(words.iter().copied());
        let mut parser = crate::frame::Parser::default();
        let frame = parser.parse(&wire).unwrap().unwrap();
        let mut request = Vec::new();
        crate::single::encode(frame, (crate::Protocol::Resp2, highwater_seam::Owner::NOBODY), &mut request)
            .unwrap();
        request
    }

    /// Somebody may get in line, look and find nothing between the submission of a write and its execution.
    #[test]
    fn who_comes_between_a_writes_submission_and_its_release_is_woken() {
        let waiting = Waiting::new(Box::new(|_| ()));
        waiting.enter(0x100, &keys(&["other"]));
        let named = waiting.named_in(&request(&[b"RPUSH", b"a", b"x"])).unwrap();
        waiting.enter(0x200, &keys(&["a"]));
        waiting.wake(named.iter().map(Vec::as_slice));
        assert_eq!(waiting.take_woken(0), [0x200]);
        // Long words are not kept: then all look.
        assert_eq!(waiting.named_in(&request(&[b"RPUSH", b"a", &[7; MOST_NAMED]])), None);
    }

    /// Once: what a client pushed whose connection broke before its release woke nobody: who waited slept for up to 5 s.
    #[test]
    fn what_one_wrote_that_left_wakes_others() {
        let waiting = Waiting::new(Box::new(|_| ()));
        waiting.enter(0x100, &keys(&["a"]));
        waiting.written_by_one_that_left(Outcome::Conflict);
        assert!(waiting.take_woken(0).is_empty());
        waiting.written_by_one_that_left(Outcome::Committed);
        assert_eq!(waiting.take_woken(0), [0x100]);
    }
}
