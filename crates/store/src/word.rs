//! A record's word: who wrote it, whether it is there, and whether somebody is writing it.
//!
//! ```text
//! bit 63       locked
//! bit 62       tombstone: the key does not exist
//! bits 0-61    timestamp of the commit that wrote it (0: never written)
//! all ones     dead: unlinked from the index, locked for ever
//! ```
//!
//! Values are read without locks: word, copy, fence, word again. A commit always changes the word, because it always
//! raises the timestamp; so an unchanged word means an unchanged value.

use crate::sync::{AtomicU64, Ordering, fence, spin_loop};

/// Somebody writes the record, or is about to.
pub const LOCKED: u64 = 1 << 63;
/// The key does not exist.
pub const TOMBSTONE: u64 = 1 << 62;
/// Unlinked: whoever still holds the record must look its key up again.
pub const DEAD: u64 = u64::MAX;
/// The first word of a record whose maker is about to write it.
pub const BORN_LOCKED: u64 = LOCKED | TOMBSTONE;
/// The bits of the timestamp.
pub const TIMESTAMP: u64 = TOMBSTONE - 1;

/// How often a reader or a writer looks again at a record that another transaction holds, before it gives up. A lock
/// is held from lock to install: a microsecond or two, unless its holder was preempted.
#[cfg(not(any(loom, shuttle)))]
const PATIENCE: u32 = 128;
#[cfg(any(loom, shuttle))]
const PATIENCE: u32 = 2;

/// Another transaction held the record for longer than we wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Busy;

/// A record's word.
#[derive(Debug)]
#[repr(transparent)]
pub struct RecordWord(AtomicU64);

impl RecordWord {
    /// The word of a record that nobody else knows.
    pub fn new(word: u64) -> RecordWord {
        debug_assert!(word == TOMBSTONE || word == BORN_LOCKED);
        RecordWord(AtomicU64::new(word))
    }

    /// The word as it is now; for comparing it with the one that was seen.
    #[inline]
    pub fn load(&self) -> u64 {
        // Acquire; pairs with the Release in `unlock`.
        self.0.load(Ordering::Acquire)
    }

    /// Runs `copy` until no write disturbed it, and returns the word that its result belongs to: unlocked, or
    /// [`DEAD`] (then the copy is worthless). `copy` reads the value by relaxed atomic loads and may see any mixture
    /// of values on the way.
    #[inline(always)]
    pub fn read(&self, mut copy: impl FnMut()) -> Result<u64, Busy> {
        for _ in 0..PATIENCE {
            match self.begin_read() {
                Some(before) => {
                    copy();
                    if self.end_read(before) {
                        return Ok(before);
                    }
                }
                None if self.load() == DEAD => return Ok(DEAD),
                None => {}
            }
            spin_loop();
        }
        Err(Busy)
    }

    /// The word before a copy of the value; `None`: it is locked, or [`DEAD`].
    #[inline(always)]
    pub fn begin_read(&self) -> Option<u64> {
        // Acquire; pairs with the Release in `unlock`: the copy sees at least the value of this word.
        let before = self.0.load(Ordering::Acquire);
        (before & LOCKED == 0).then_some(before)
    }

    /// Whether nobody has written since [`begin_read`](RecordWord::begin_read): what was copied is that word's value.
    #[inline(always)]
    pub fn end_read(&self, before: u64) -> bool {
        // Pairs with the release fence in `lock`: if the copy saw a later value, the load sees its lock.
        fence(Ordering::Acquire);
        self.0.load(Ordering::Relaxed) == before
    }

    /// Takes the lock and returns the word as it was (unlocked), or [`DEAD`] without taking it.
    #[inline]
    pub fn lock(&self) -> Result<u64, Busy> {
        for _ in 0..PATIENCE {
            let before = self.0.load(Ordering::Relaxed);
            if before & LOCKED == 0 {
                if self.try_lock(before) {
                    return Ok(before);
                }
            } else if before == DEAD {
                return Ok(DEAD);
            }
            spin_loop();
        }
        Err(Busy)
    }

    /// The same without waiting for whoever holds it.
    #[inline]
    pub fn lock_at_once(&self) -> Result<u64, Busy> {
        match self.0.load(Ordering::Relaxed) {
            DEAD => Ok(DEAD),
            before if before & LOCKED == 0 && self.try_lock(before) => Ok(before),
            _ => Err(Busy),
        }
    }

    /// Takes the lock if the word is still `expected`.
    #[inline]
    pub fn try_lock(&self, expected: u64) -> bool {
        debug_assert!(expected & LOCKED == 0);
        // Acquire; pairs with the Release in `unlock`: we write after the previous holder did.
        let taken = self
            .0
            .compare_exchange(expected, expected | LOCKED, Ordering::Acquire, Ordering::Relaxed)
            .is_ok();
        if taken {
            // Pairs with the acquire fence in `end_read`: whoever sees what we write next sees that we hold the lock.
            fence(Ordering::Release);
        }
        taken
    }

    /// Makes the record dead, for whoever is about to take it out of its index, if the word is `expected`. Says whether
    /// it was; busy if somebody holds the lock, who may give up and leave `expected` behind.
    #[inline]
    pub fn die(&self, expected: u64) -> Result<bool, Busy> {
        // Acquire; pairs with the Release in `unlock`.
        match self.0.compare_exchange(expected, DEAD, Ordering::Acquire, Ordering::Relaxed) {
            Ok(_) => Ok(true),
            Err(now) if now == expected | LOCKED => Err(Busy),
            Err(_) => Ok(false),
        }
    }

    /// Releases the lock that this thread holds and publishes what it wrote.
    #[inline]
    pub fn unlock(&self, word: u64) {
        debug_assert!(word & LOCKED == 0 || word == DEAD);
        // Release; pairs with the Acquires in `load`, `begin_read` and `try_lock`.
        self.0.store(word, Ordering::Release);
    }
}
