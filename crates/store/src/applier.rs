//! A follower's way to write: transactions from the log, directly onto the records, one [`Applier`] for each stream.
//!
//! A write is installed if the record's timestamp is smaller, else skipped: so streams may be applied in parallel and
//! anything may be applied twice. Deletes leave tombstones, also where the key is absent: an older write of another
//! stream may still come.
//!
//! The cost of a write is its cache misses. So writes pass through a window: when a write enters, its bucket is asked
//! for, or the first node; on its way the next nodes; then its record; when it leaves it is installed. The misses of a
//! window's writes overlap.

use std::sync::Arc;

use highwater_core::codec::Malformed;
use highwater_core::hooks;
use highwater_core::log::{Key, Transactions, Write, Writes};
use highwater_core::{TableId, Timestamp, planted};

use crate::graveyard::Graveyard;
use crate::hash;
use crate::heap::Heap;
use crate::hooks::APPLY;
use crate::index::{Index, KeyOf, Way};
use crate::keys::Keys;
use crate::record::{Record, front_of};
use crate::store::{AnyIndex, Store, with_index};
use crate::sync::Backoff;
use crate::tree::Fingers;
use crate::versions::Pins;
use crate::word::{BORN_LOCKED, DEAD, TIMESTAMP, TOMBSTONE};

/// Writes under way: about as many misses as a core keeps in flight.
const WINDOW: usize = 16;
/// After so many others have entered, a write that goes down a tree takes its next step.
const STEPS_AT: [usize; 3] = [2, 4, 6];
/// After so many its record is looked for.
const RECORD_AT: usize = WINDOW / 2;

const _: () = assert!(STEPS_AT[2] < RECORD_AT && RECORD_AT < WINDOW);

/// What a call of [`Applier::apply`] did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Applied {
    /// How much of the body is done with, skipped transactions included.
    pub bytes: usize,
    /// Transactions applied.
    pub transactions: u64,
    /// Their writes, superseded by newer ones or not.
    pub writes: u64,
    /// Timestamp of the last transaction that is done with; zero if there was none.
    pub last_ts: Timestamp,
}

/// Applies one stream.
pub struct Applier {
    hand: Hand,
    store: Arc<Store>,
}

/// What an applier works with, apart from the store. They are two fields, so that a call can borrow the store while it
/// changes these. To clone the store's `Arc` for each call instead would have all workers write to the cache line of
/// its count.
struct Hand {
    heap: Heap,
    fingers: Box<[Fingers]>,
    graveyard: Graveyard,
    pins: Pins,
}

/// A write in the window.
#[derive(Clone, Copy)]
struct WindowWrite<'a> {
    ts: Timestamp,
    table: TableId,
    index: &'a AnyIndex,
    key: Key<'a>,
    value: Option<&'a [u8]>,
    /// Where in its index it is.
    way: Way,
    /// Probably the key's record, found on the way through the window. Its key has to be compared.
    hint: Option<Record>,
}

impl Applier {
    /// An applier on `store`.
    pub fn new(store: Arc<Store>) -> Applier {
        let hand = Hand {
            heap: Heap::new(&store.heaps),
            fingers: store.fingers(),
            graveyard: Graveyard::default(),
            pins: Pins::default(),
        };
        Applier { hand, store }
    }

    pub fn store(&self) -> &Arc<Store> {
        &self.store
    }

    /// Applies the transactions with `after < ts <= upto` of a body in wire form, in order; stops in front of the first
    /// above `upto`.
    ///
    /// # Errors
    /// If the body makes no sense. What precedes the nonsense may have been applied: the caller cannot go on.
    pub fn apply(&mut self, body: &[u8], after: Timestamp, upto: Timestamp) -> Result<Applied, Malformed> {
        let Applier { hand, store } = self;
        hand.heap.pin();
        hand.pins.refresh(&store.snapshots);
        let mut window = Window { hand, store, ring: [None; WINDOW], entered: 0, steps_until: 0 };
        let applied = window.run(body, after, upto);
        window.drain();
        hand.heap.unpin();
        applied
    }

    /// Whether it has made tombstones that are not unlinked yet.
    pub fn has_tombstones(&self) -> bool {
        self.hand.graveyard.len() > 0
    }

    /// Unlinks tombstones at or below `floor`: no older write can still be applied. Bounded work;
    /// says whether more is due.
    pub fn collect(&mut self, floor: Timestamp) -> bool {
        self.collect_telling(floor, |_, _, _| {})
    }

    /// The same; `told` hears of each before it goes, by table, key and timestamp: whoever finds no trace of a key can know that there was one.
    #[inline]
    pub fn collect_telling(&mut self, floor: Timestamp, told: impl FnMut(TableId, &[u8], Timestamp)) -> bool {
        let Hand { graveyard, fingers, heap, .. } = &mut self.hand;
        let more = graveyard.collect(&self.store, floor, (fingers, heap), told);
        heap.tend();
        more
    }
}

impl Hand {
    #[inline]
    fn install(&mut self, store: &Store, write: &WindowWrite<'_>) {
        hooks::point(APPLY);
        let (record, before) = self.lock(write);
        self.write(store, record, before, write);
    }

    /// The key's record, which may be a new one, locked, and its word as it was.
    #[inline]
    fn lock(&mut self, write: &WindowWrite<'_>) -> (Record, u64) {
        let mut found = write.hint.filter(|record| record.is_of(write.key));
        let mut backoff = Backoff::default();
        loop {
            let record = match found.take() {
                Some(record) => record,
                None => match self.find_or_add(write) {
                    (record, false) => record,
                    (record, true) => return (record, TOMBSTONE),
                },
            };
            match record.word().lock() {
                // The record was taken out of the index: look the key up again.
                Ok(DEAD) => {}
                Ok(before) => return (record, before),
                Err(_) => found = Some(record),
            }
            backoff.wait();
        }
    }

    /// The key's record; or a new one, which is locked. Out of line: inlined, much of its work is done ahead for records that are at hand.
    #[inline(never)]
    fn find_or_add(&mut self, write: &WindowWrite<'_>) -> (Record, bool) {
        let value_len = write.value.map_or(0, <[u8]>::len);
        let (fingers, heap) = (&mut self.fingers[write.table.0 as usize], &mut self.heap);
        fingers.follow(write.way);
        with_index!(write.index, index => {
            let Some(key) = logged_key(index, write.key) else { unreachable!("checked on entering") };
            index.find_or_add(key, write.way.hash(), value_len, BORN_LOCKED, fingers, heap, &mut ())
        })
    }

    /// Installs the write in the locked record, unless that is newer, and unlocks it.
    #[inline]
    fn write(&mut self, store: &Store, record: Record, before: u64, write: &WindowWrite<'_>) {
        if before & TIMESTAMP >= write.ts.0 && !planted!(ReplayUnordered) {
            self.superseded(store, record, before, write);
            record.word().unlock(before);
            return;
        }
        if self.pins.separate(before, write.ts.0) {
            store.snapshots.keep(record, before, write.ts.0);
        }
        match write.value {
            Some(value) => {
                record.write_value(value, &mut self.heap);
                record.word().unlock(write.ts.0);
            }
            None => {
                record.word().unlock(write.ts.0 | TOMBSTONE);
                self.graveyard.bury(write.table, write.ts, write.key);
            }
        }
    }

    /// The record is newer already, for another stream's applier was faster. A snapshot whose timestamp is between the
    /// two versions needs this one.
    ///
    /// This applier looked at the pins when its call began. A snapshot may have been pinned since, and the other
    /// applier may have passed it, so this one looks again. It sees the pin: the pin was set before the record was
    /// written above it, and this thread has locked the record after that.
    #[cold]
    fn superseded(&mut self, store: &Store, record: Record, before: u64, write: &WindowWrite<'_>) {
        self.pins.refresh(&store.snapshots);
        if self.pins.separate(write.ts.0, before & TIMESTAMP) {
            store.snapshots.keep_late(record, write.ts, write.value, before);
        }
    }
}

impl Drop for Applier {
    fn drop(&mut self) {
        self.hand.graveyard.abandon(&self.store);
    }
}

/// The writes between parsing and installing: the next one enters at `entered % WINDOW`, where the oldest has left.
struct Window<'a, 'b> {
    hand: &'a mut Hand,
    store: &'b Store,
    ring: [Option<WindowWrite<'b>>; WINDOW],
    entered: usize,
    /// Until so many have entered, some have steps to take.
    steps_until: usize,
}

impl<'b> Window<'_, 'b> {
    fn run(&mut self, body: &'b [u8], after: Timestamp, upto: Timestamp) -> Result<Applied, Malformed> {
        let mut applied = Applied::default();
        let mut transactions = Transactions::new(body);
        while let Some(transaction) = transactions.next() {
            let (ts, writes) = transaction?;
            if ts > upto {
                break;
            }
            if ts > after {
                for write in Writes::new(writes) {
                    self.enter(ts, write?)?;
                    self.advance();
                    applied.writes += 1;
                }
                applied.transactions += 1;
            }
            applied.last_ts = ts;
            applied.bytes = body.len() - transactions.rest_len();
        }
        Ok(applied)
    }

    /// Checks a write's table and key, and asks for its bucket or leaf, or the first node above that.
    #[inline(always)]
    fn enter(&mut self, ts: Timestamp, write: Write<'b>) -> Result<(), Malformed> {
        let Write { table, key, value } = write;
        let index = self.store.table(table).ok_or(Malformed("table"))?;
        let fingers = &mut self.hand.fingers[table.0 as usize];
        let way = with_index!(index, index => begin(index, key, fingers));
        let way = way.ok_or(Malformed("key (wrong kind for its table)"))?;
        if way.is_under_way() {
            self.steps_until = self.entered + STEPS_AT[2];
        }
        self.ring[self.entered % WINDOW] =
            Some(WindowWrite { ts, table, index, key, value, way, hint: None });
        Ok(())
    }

    /// Behind a write that has entered, or one that would have: takes some of the others a step further, and lets the oldest leave.
    fn advance(&mut self) {
        if self.entered <= self.steps_until {
            self.take_steps();
        }
        if let Some(write) = &mut self.ring[self.entered.wrapping_sub(RECORD_AT) % WINDOW] {
            write.hint = match write.way {
                Way::Bucket(hash, bucket) => hash::peek(hash, bucket),
                Way::Down(_) => {
                    let fingers = &mut self.hand.fingers[write.table.0 as usize];
                    with_index!(write.index, index => peek(index, write.way, write.key, fingers))
                }
                Way::Finger(_) | Way::Nowhere => None,
            };
            if let Some(record) = write.hint {
                record.prefetch_bytes(front_of(write.key) + write.value.map_or(0, <[u8]>::len));
            }
        }
        self.entered += 1;
        if let Some(oldest) = &self.ring[self.entered % WINDOW] {
            self.hand.install(self.store, oldest);
        }
    }

    /// Takes those a level down that have entered some time ago.
    #[inline(never)]
    fn take_steps(&mut self) {
        for behind in STEPS_AT {
            if let Some(write) = &mut self.ring[self.entered.wrapping_sub(behind) % WINDOW]
                && write.way.is_under_way()
            {
                write.way = with_index!(write.index, index => go_on(index, write.way, write.key));
            }
        }
    }

    fn drain(&mut self) {
        for _ in 0..WINDOW {
            self.ring[self.entered % WINDOW] = None;
            self.advance();
        }
    }
}

/// The key, if it is of the index's kind.
#[inline(always)]
fn logged_key<'k, I: Index>(_: &I, key: Key<'k>) -> Option<KeyOf<'k, I>> {
    I::Keys::logged_key(key)
}

/// The first step of a key's lookup, if it is of the index's kind.
#[inline(always)]
fn begin<I: Index>(index: &I, key: Key<'_>, fingers: &mut Fingers) -> Option<Way> {
    // Logs have runs: order lines, elements of a list.
    Some(index.enter(logged_key(index, key)?, Some(fingers)))
}

#[inline]
fn go_on<I: Index>(index: &I, way: Way, key: Key<'_>) -> Way {
    logged_key(index, key).map_or(Way::Nowhere, |key| index.go_on(way, key))
}

#[inline]
fn peek<I: Index>(index: &I, way: Way, key: Key<'_>, fingers: &mut Fingers) -> Option<Record> {
    index.peek(way, logged_key(index, key)?, fingers)
}
