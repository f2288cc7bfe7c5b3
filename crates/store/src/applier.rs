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
    /// The key's, if its index uses it.
    hash: u64,
    value: Option<&'a [u8]>,
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

    /// The store.
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
        let mut window = Window {
            hand,
            store,
            ring: [None; WINDOW],
            ways: [Way::Nowhere; WINDOW],
            entered: 0,
            steps_until: 0,
        };
        let applied = window.run(body, after, upto);
        window.drain();
        hand.heap.unpin();
        applied
    }

    /// Unlinks tombstones at or below `floor`: no older write can still be applied. Bounded work;
    /// says whether more is due.
    pub fn collect(&mut self, floor: Timestamp) -> bool {
        let Hand { graveyard, fingers, heap, .. } = &mut self.hand;
        let more = graveyard.collect(&self.store, floor, fingers, heap);
        heap.tend();
        more
    }
}

impl Hand {
    #[inline]
    fn install(&mut self, store: &Store, write: &WindowWrite<'_>) {
        hooks::point(APPLY);
        with_index!(write.index, index => self.install_in(store, index, write));
    }

    #[inline]
    fn install_in<I: Index>(&mut self, store: &Store, index: &I, write: &WindowWrite<'_>) {
        let Some(key) = I::Keys::logged_key(write.key) else { unreachable!("checked on entering") };
        let hint = write.hint.filter(|record| I::Keys::same(I::Keys::stored(record), key));
        let mut backoff = Backoff::default();
        let mut found = hint;
        loop {
            let record = match found.take() {
                Some(record) => record,
                None => match self.find_or_add(index, key, write) {
                    (record, false) => record,
                    (record, true) => return self.write(store, record, TOMBSTONE, write),
                },
            };
            match record.word().lock() {
                // The record was taken out of the index: look the key up again.
                Ok(DEAD) => {}
                Ok(before) => return self.write(store, record, before, write),
                Err(_) => found = Some(record),
            }
            backoff.wait();
        }
    }

    /// The key's record; or a new one, which is locked.
    #[inline]
    fn find_or_add<I: Index>(
        &mut self,
        index: &I,
        key: KeyOf<'_, I>,
        write: &WindowWrite<'_>,
    ) -> (Record, bool) {
        let value_len = write.value.map_or(0, <[u8]>::len);
        let fingers = &mut self.fingers[write.table.0 as usize];
        index.find_or_add(key, write.hash, value_len, BORN_LOCKED, fingers, &mut self.heap, &mut ())
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

/// The writes between parsing and installing, oldest at `entered % WINDOW`.
struct Window<'a, 'b> {
    hand: &'a mut Hand,
    store: &'b Store,
    ring: [Option<WindowWrite<'b>>; WINDOW],
    /// Where in their indexes they are.
    ways: [Way; WINDOW],
    entered: usize,
    /// Until so many have entered, some may have steps in front of them.
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
                    let write = write?;
                    let index = self.store.table(write.table).ok_or(Malformed("table"))?;
                    let hash = with_index!(index, index => self.enter(index, &write))?;
                    let (table, key, value) = (write.table, write.key, write.value);
                    *self.advance() = Some(WindowWrite { ts, table, index, key, hash, value, hint: None });
                    applied.writes += 1;
                }
                applied.transactions += 1;
            }
            applied.last_ts = ts;
            applied.bytes = body.len() - transactions.rest_len();
        }
        Ok(applied)
    }

    /// Lets the oldest write leave, takes some of the others a step further, and returns the place for one to enter.
    #[inline]
    fn advance(&mut self) -> &mut Option<WindowWrite<'b>> {
        let at = self.entered % WINDOW;
        self.entered += 1;
        if let Some(oldest) = &self.ring[at] {
            self.hand.install(self.store, oldest);
        }
        if self.entered < self.steps_until {
            self.take_steps(at);
        }
        let at_record = (at + WINDOW - RECORD_AT) % WINDOW;
        if let Some(write) = &mut self.ring[at_record] {
            write.hint = with_index!(write.index, index => {
                peek(index, self.ways[at_record], write.key, &mut self.hand.fingers[write.table.0 as usize])
            });
            if let Some(record) = write.hint {
                record.prefetch_bytes(front_of(write.key) + write.value.map_or(0, <[u8]>::len));
            }
        }
        &mut self.ring[at]
    }

    /// Takes those a level down that have entered some time ago.
    #[inline(never)]
    fn take_steps(&mut self, at: usize) {
        for at in STEPS_AT.map(|behind| (at + WINDOW - behind) % WINDOW) {
            if let (Some(write), way) = (&self.ring[at], &mut self.ways[at])
                && way.is_under_way()
            {
                *way = with_index!(write.index, index => go_on(index, *way, write.key));
            }
        }
    }

    /// A write is about to enter: checks its key, and asks for its bucket or leaf, or the first node above that. Returns its hash, if that will
    /// be used.
    #[inline(always)]
    fn enter<I: Index>(&mut self, index: &'b I, write: &Write<'_>) -> Result<u64, Malformed> {
        let key = I::Keys::logged_key(write.key).ok_or(Malformed("key (wrong kind for its table)"))?;
        // Logs have runs: order lines, elements of a list.
        let way = index.enter(key, Some(&mut self.hand.fingers[write.table.0 as usize]));
        self.ways[self.entered % WINDOW] = way;
        if way.is_under_way() {
            self.steps_until = self.entered + WINDOW;
        }
        Ok(way.hash())
    }

    fn drain(&mut self) {
        for _ in 0..WINDOW {
            *self.advance() = None;
        }
    }
}

#[inline]
fn go_on<I: Index>(index: &I, way: Way, key: Key<'_>) -> Way {
    I::Keys::logged_key(key).map_or(Way::Nowhere, |key| index.go_on(way, key))
}

#[inline(always)]
fn peek<I: Index>(index: &I, way: Way, key: Key<'_>, fingers: &mut Fingers) -> Option<Record> {
    index.peek(way, I::Keys::logged_key(key)?, fingers)
}
