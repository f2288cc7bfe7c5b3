//! Execution: a transaction that reads a replica's store, remembers which versions it saw, and keeps its writes to itself.
//!
//! Nothing is locked, and nobody else sees anything of it. What it read and writes becomes a [`Payload`], which every replica
//! validates. A key that it reads twice has to have the same version both times, or it ends as a conflict at once.
//!
//! Who coordinates it executes it: a worker, by its own replica's store ([`Latest`]), or a client, which asks replicas for what
//! they have ([`Source`]).

mod passed;
mod source;

use std::ops::{Bound, ControlFlow, Range};
use std::sync::Arc;

use highwater_core::codec::put_varint;
use highwater_core::contain::unbroken;
use highwater_core::limits::{
    MAX_FRAME_BODY_BYTES, MAX_KEY_BYTES, MAX_OPERATIONS, MAX_TRANSACTION_BYTES, MAX_VALUE_BYTES,
};
use highwater_core::log::{Key, TxWriter, WriteAt};
use highwater_core::transaction::KeyRange;
use highwater_core::work::ADDED;
use highwater_core::{
    Abort, Direction, IndexKind, KeyKind, Outcome, Registry, TableId, Timestamp, Transaction, Work,
};
use highwater_seam::Request;
use highwater_store::{Latest, Store};

use super::payload::{Payload, Read, covers, hash, put_bound, put_read};
use crate::attempt::{Attempts, Ends, attempt};
use crate::call::Call;
use passed::Passed;
pub use source::Source;

/// Marks "none" in the map.
const EMPTY: u32 = u32::MAX;
/// Most bytes of what a transaction read, as it travels: a payload has to fit into a frame.
const MAX_READ_BYTES: usize = 48 << 20;
const _: () =
    assert!(MAX_READ_BYTES + 2 * MAX_KEY_BYTES + MAX_TRANSACTION_BYTES + (1 << 20) <= MAX_FRAME_BODY_BYTES);
/// Fewer keys than this are looked through one by one.
const FEW: usize = 8;

/// A key that the transaction has touched.
struct Touched {
    table: TableId,
    hash: u64,
    key: Range<usize>,
    /// The version that it read, if it read it.
    read: Option<Timestamp>,
    /// What it writes.
    write: Option<Own>,
}

#[derive(Clone, Copy)]
struct Own {
    at: WriteAt,
    delete: bool,
}

/// A coordinator's transactions, one after another.
pub struct MeerkatTx<S = Latest> {
    latest: S,
    writer: TxWriter,
    keys: Vec<u8>,
    touched: Vec<Touched>,
    /// Positions in `touched` by hash, once there are more than a few.
    map: Vec<u32>,
    reads: Vec<u8>,
    read_count: u64,
    scans: Vec<u8>,
    scan_count: u64,
    /// Records that scans passed.
    scanned: usize,
    /// The latest version that was seen.
    seen: Timestamp,
    /// Everything that committed at or below is where it reads.
    as_of: Timestamp,
    /// Bytes by which it may make the store grow.
    room: u64,
    refuses_writes: bool,
    grows: u64,
    value: Vec<u8>,
    work: Work,
    /// The next request goes on with the transaction that is open.
    joins: bool,
    together: Together,
}

/// Whether a transaction is that of several requests.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Together {
    /// It is one request's.
    No,
    /// So far each wrote what it wrote.
    Whole,
    /// One of them took writes back, and with its own those of the others.
    Torn,
}

impl MeerkatTx {
    /// Transactions on `store`, of at most so many bytes.
    #[inline]
    pub fn new(store: Arc<Store>, most: usize) -> MeerkatTx {
        MeerkatTx::over(Latest::new(store), most)
    }
}

impl<S: Source> MeerkatTx<S> {
    /// Transactions that read there, of at most so many bytes.
    pub fn over(source: S, most: usize) -> MeerkatTx<S> {
        let mut writer = TxWriter::new(Vec::new());
        writer.set_most(most);
        MeerkatTx {
            latest: source,
            writer,
            keys: Vec::new(),
            touched: Vec::new(),
            map: Vec::new(),
            reads: Vec::new(),
            read_count: 0,
            scans: Vec::new(),
            scan_count: 0,
            scanned: 0,
            seen: Timestamp::ZERO,
            as_of: Timestamp::ZERO,
            room: u64::MAX,
            refuses_writes: false,
            grows: 0,
            value: Vec::new(),
            work: Work::default(),
            joins: false,
            together: Together::No,
        }
    }

    /// The same; each passes at most so many rows.
    pub fn of_rows(mut self, most: u64) -> MeerkatTx<S> {
        self.work.set_most(most);
        self
    }

    /// Where it reads: for validation, between transactions.
    #[inline]
    pub fn latest(&mut self) -> &mut S {
        &mut self.latest
    }

    /// Everything that committed at or below was there before the first read: see [`Payload::as_of`].
    #[inline]
    pub fn set_as_of(&mut self, ts: Timestamp) {
        self.as_of = ts;
    }

    /// The next transaction may make the store grow by so many bytes.
    #[inline]
    pub fn set_room(&mut self, bytes: u64) {
        self.room = bytes;
    }

    /// Transactions that want to write end with [`Abort::DiskFull`], or not any more.
    #[inline]
    pub fn refuse_writes(&mut self, refuses: bool) {
        self.refuses_writes = refuses;
    }

    /// The next request goes on with the transaction that is open, as if it came behind: it sees what that writes.
    #[inline]
    pub fn join(&mut self) {
        self.joins = true;
    }

    /// Nobody of those that run in this transaction took anything back.
    #[inline]
    pub fn is_whole(&self) -> bool {
        self.together != Together::Torn
    }

    /// Writes are taken back, all of them.
    fn tear(&mut self) {
        if self.together == Together::Whole {
            self.together = Together::Torn;
        }
    }

    /// The next transaction begins, or the next request of this one.
    pub fn open(&mut self) {
        if std::mem::take(&mut self.joins) {
            if self.together == Together::No {
                self.together = Together::Whole;
            }
            return self.work.begin();
        }
        self.together = Together::No;
        self.writer.abort();
        self.writer.take(Vec::new());
        self.writer.begin();
        self.keys.clear();
        self.touched.clear();
        self.map.clear();
        self.reads.clear();
        self.scans.clear();
        (self.read_count, self.scan_count, self.scanned) = (0, 0, 0);
        self.seen = Timestamp::ZERO;
        self.grows = 0;
        self.work.begin();
    }

    /// It writes nothing after all; what it read stays.
    pub fn forget_writes(&mut self) {
        self.tear();
        self.writer.abort();
        self.writer.begin();
        self.touched.iter_mut().for_each(|touched| touched.write = None);
    }

    /// Bytes by which it makes the store grow, about.
    #[inline]
    pub fn grows(&self) -> u64 {
        self.grows
    }

    /// The latest version that it saw: its timestamp has to be later.
    #[inline]
    pub fn seen(&self) -> Timestamp {
        self.seen
    }

    /// Ends the transaction: what it read and writes, at `ts`.
    pub fn end(&mut self, ts: Timestamp) -> Payload {
        self.writer.commit(ts);
        let tx = self.writer.take(Vec::new());
        Payload::build(self.as_of, (&self.reads, self.read_count), (&self.scans, self.scan_count), &tx)
    }

    fn find(&self, table: TableId, hash: u64, key: &[u8]) -> Option<usize> {
        let is = |touched: &Touched| {
            touched.hash == hash && touched.table == table && self.keys[touched.key.clone()] == *key
        };
        if self.map.is_empty() {
            return self.touched.iter().position(is);
        }
        let mask = self.map.len() - 1;
        let mut at = hash as usize & mask;
        while self.map[at] != EMPTY {
            let position = self.map[at] as usize;
            if is(&self.touched[position]) {
                return Some(position);
            }
            at = (at + 1) & mask;
        }
        None
    }

    fn touch(&mut self, table: TableId, hash: u64, key: &[u8], read: Option<Timestamp>) -> usize {
        let start = self.keys.len();
        self.keys.extend_from_slice(key);
        self.touched.push(Touched { table, hash, key: start..self.keys.len(), read, write: None });
        let count = self.touched.len();
        if count > FEW && 2 * count > self.map.len() {
            self.map.clear();
            self.map.resize((4 * count).next_power_of_two(), EMPTY);
            (0..count).for_each(|at| self.enter(at));
        } else if !self.map.is_empty() {
            self.enter(count - 1);
        }
        count - 1
    }

    fn enter(&mut self, position: usize) {
        let mask = self.map.len() - 1;
        let mut at = self.touched[position].hash as usize & mask;
        while self.map[at] != EMPTY {
            at = (at + 1) & mask;
        }
        self.map[at] = position as u32;
    }

    /// Looks a key up, and its value if `value`; remembers what was seen. Where it is among the touched, and whether the key exists
    /// for this transaction.
    fn look(&mut self, table: TableId, key: &[u8], value: bool) -> Result<(usize, bool), Abort> {
        let hash = hash(table, key);
        let known = self.find(table, hash, key);
        if let Some(own) = known.and_then(|at| self.touched[at].write) {
            return Ok((known.expect("it was found"), !own.delete));
        }
        if self.touched.len() + self.scanned >= MAX_OPERATIONS || self.read_bytes() >= MAX_READ_BYTES {
            return Err(Abort::TooLarge);
        }
        self.work.pass(1)?;
        let (ts, live) = if value {
            let version = self.latest.get(table, key)?;
            self.value.clear();
            self.value.extend_from_slice(version.value.unwrap_or_default());
            (version.ts, version.value.is_some())
        } else {
            self.latest.version(table, key)?
        };
        self.seen = self.seen.max(ts);
        match known {
            Some(at) => {
                match self.touched[at].read {
                    Some(before) if before != ts => return Err(Abort::Conflict),
                    Some(_) => {}
                    None => {
                        self.touched[at].read = Some(ts);
                        self.remember(table, key, (ts, live));
                    }
                }
                Ok((at, live))
            }
            None => {
                let at = self.touch(table, hash, key, Some(ts));
                self.remember(table, key, (ts, live));
                Ok((at, live))
            }
        }
    }

    /// Bytes of what it has read and written so far.
    #[inline]
    pub fn size(&self) -> usize {
        self.read_bytes() + self.writer.bytes().len()
    }

    /// Whether a value takes no more room than the one that stands there.
    fn shrinks(&mut self, table: TableId, key: &[u8], len: usize) -> Result<bool, Abort> {
        let now = self.latest.get(table, key)?;
        Ok(now.value.is_some_and(|value| len <= value.len()))
    }

    fn read_bytes(&self) -> usize {
        self.reads.len() + self.scans.len()
    }

    fn remember(&mut self, table: TableId, key: &[u8], (version, live): (Timestamp, bool)) {
        put_read(&mut self.reads, Read { table, key, version, deleted: !live });
        self.read_count += 1;
    }

    /// Whether one more write is within all limits.
    fn check_write(&self, table: TableId, key: &[u8], value_len: usize) -> Result<(), Abort> {
        let spec = self.latest.spec(table).ok_or(Abort::BadRequest)?;
        let fits_table = spec.keys == KeyKind::Bytes || key.len() == 8;
        if !fits_table || key.len() > MAX_KEY_BYTES || value_len > MAX_VALUE_BYTES {
            return Err(Abort::BadRequest);
        }
        let fits =
            self.writer.fits(key.len(), value_len) && self.touched.len() + self.scanned < MAX_OPERATIONS;
        if fits { Ok(()) } else { Err(Abort::TooLarge) }
    }

    /// Writes a key that it has touched; `None` deletes.
    fn write(&mut self, at: usize, key: &[u8], value: Option<&[u8]>) -> Result<(), Abort> {
        let table = self.touched[at].table;
        if self.refuses_writes {
            return Err(Abort::DiskFull);
        }
        if let Some(value) = value {
            // By the size of what it writes, as if nothing was there: exact enough for a bound, while there is room.
            let cost = Store::cost(key.len(), value.len());
            if self.grows.saturating_add(cost) > self.room && !self.shrinks(table, key, value.len())? {
                return Err(Abort::OutOfMemory);
            }
            self.grows = self.grows.saturating_add(cost);
        }
        if let Some(own) = self.touched[at].write {
            match value {
                Some(value) if !own.delete && own.at.len as usize == value.len() => {
                    self.writer.overwrite(own.at, value);
                    return Ok(());
                }
                _ => self.writer.supersede(own.at),
            }
        }
        let kind = self.latest.spec(table).map(|spec| spec.keys);
        let logged = match kind {
            Some(KeyKind::U64) => {
                Key::U64(u64::from_be_bytes(key.try_into().map_err(|_| Abort::BadRequest)?))
            }
            _ => Key::Bytes(key),
        };
        let own = match value {
            Some(value) => Own { at: self.writer.put(table, logged, value), delete: false },
            None => Own { at: self.writer.delete(table, logged), delete: true },
        };
        self.touched[at].write = Some(own);
        Ok(())
    }

    /// Of a scan that ended early it is the part that was visited that counts.
    fn remember_scan(&mut self, table: TableId, range: KeyRange<'_>, direction: Direction, passed: &Passed) {
        let end = passed.last.as_deref().map(Bound::Included);
        let range = match (direction, end) {
            (_, None) => range,
            (Direction::Forward, Some(end)) => (range.0, end),
            (Direction::Backward, Some(end)) => (end, range.1),
        };
        self.scans.push(table.0);
        put_bound(&mut self.scans, range.0);
        put_bound(&mut self.scans, range.1);
        put_varint(&mut self.scans, passed.count);
        self.scans.extend_from_slice(&passed.items);
        self.scan_count += 1;
        self.scanned += passed.count as usize;
        self.seen = self.seen.max(passed.seen);
    }

    /// What it writes in a range, in the order of a scan.
    fn own_in(&self, table: TableId, range: KeyRange<'_>, direction: Direction) -> Vec<(Vec<u8>, Own)> {
        let own = self.touched.iter().filter(|touched| touched.table == table);
        let own = own.filter_map(|touched| Some((&self.keys[touched.key.clone()], touched.write?)));
        let mut own: Vec<_> =
            own.filter(|(key, _)| covers(range, key)).map(|(key, own)| (key.to_vec(), own)).collect();
        own.sort_unstable_by(|a, b| a.0.cmp(&b.0));
        if direction == Direction::Backward {
            own.reverse();
        }
        own
    }
}

impl Own {
    /// What it writes; nothing if it deletes.
    fn value(self, writer: &TxWriter) -> Option<&[u8]> {
        (!self.delete).then(|| writer.value(self.at))
    }
}

/// Runs a request's procedure once, up to where it is proposed: how it ends if what it read is found valid, with its writes or without
/// ([`forget_writes`](MeerkatTx::forget_writes) was called). `None`: a conflict, and nothing is left of it.
pub fn execute<S: Source>(
    registry: &Registry<MeerkatTx<S>>,
    tx: &mut MeerkatTx<S>,
    request: &Request<'_>,
    reply: &mut Vec<u8>,
) -> Option<Outcome> {
    attempt(registry, tx, Call::of(request), reply, &mut ValidatedLater).map(|(_, outcome)| outcome)
}

/// What a transaction reveals is validated by a quorum, whatever it came to.
struct ValidatedLater;

impl<S: Source> Ends<MeerkatTx<S>> for ValidatedLater {
    fn commit(&mut self, _: &mut MeerkatTx<S>) -> Result<Timestamp, Abort> {
        Ok(Timestamp::ZERO)
    }

    fn roll_back(&mut self, tx: &mut MeerkatTx<S>) -> Result<Timestamp, Abort> {
        tx.forget_writes();
        Ok(Timestamp::ZERO)
    }
}

impl<S: Source> Attempts for MeerkatTx<S> {
    fn begin(&mut self) {
        self.open();
    }

    fn abort(&mut self) {
        self.tear();
        self.writer.abort();
    }

    fn drop_writes(&mut self) {
        self.forget_writes();
    }

    fn most(&mut self) -> usize {
        self.writer.most()
    }

    fn work(&mut self) -> &Work {
        &self.work
    }
}

impl<S: Source> Transaction for MeerkatTx<S> {
    fn get(&mut self, table: TableId, key: &[u8]) -> Result<Option<&[u8]>, Abort> {
        let (at, live) = unbroken(|| self.look(table, key, true))?;
        if !live {
            return Ok(None);
        }
        let value = match self.touched[at].write {
            Some(own) => self.writer.value(own.at),
            None => &self.value,
        };
        self.work.read(value.len())?;
        Ok(Some(value))
    }

    fn put(&mut self, table: TableId, key: &[u8], value: &[u8]) -> Result<(), Abort> {
        self.check_write(table, key, value.len())?;
        unbroken(|| {
            let hash = hash(table, key);
            let at = match self.find(table, hash, key) {
                Some(at) => at,
                None => {
                    self.work.pass(ADDED)?;
                    self.touch(table, hash, key, None)
                }
            };
            self.write(at, key, Some(value))
        })
    }

    fn insert(&mut self, table: TableId, key: &[u8], value: &[u8]) -> Result<bool, Abort> {
        self.check_write(table, key, value.len())?;
        unbroken(|| {
            let (at, live) = self.look(table, key, false)?;
            if !live {
                self.write(at, key, Some(value))?;
            }
            Ok(!live)
        })
    }

    fn delete(&mut self, table: TableId, key: &[u8]) -> Result<bool, Abort> {
        self.check_write(table, key, 0)?;
        unbroken(|| {
            let (at, live) = self.look(table, key, false)?;
            if live {
                self.write(at, key, None)?;
            }
            Ok(live)
        })
    }

    fn scan<F>(
        &mut self,
        table: TableId,
        range: KeyRange<'_>,
        direction: Direction,
        mut visit: F,
    ) -> Result<(), Abort>
    where
        F: FnMut(&[u8], &[u8]) -> ControlFlow<()>,
    {
        let spec = self.latest.spec(table).ok_or(Abort::BadRequest)?;
        if spec.index != IndexKind::Ordered {
            return Err(Abort::BadRequest);
        }
        let own = unbroken(|| self.own_in(table, range, direction));
        let mut own = own.iter().peekable();
        let room = MAX_OPERATIONS - self.touched.len() - self.scanned;
        let room = self.work.left().min(room as u64) as usize;
        let mut passed = Passed { room, ..Passed::default() };
        passed.room_bytes = MAX_READ_BYTES.saturating_sub(self.read_bytes());
        let before = |a: &[u8], b: &[u8]| if direction == Direction::Forward { a < b } else { a > b };
        let (latest, writer) = (&mut self.latest, &self.writer);
        latest.scan(table, range, direction, |key, version| {
            while let Some((own_key, write)) = own.next_if(|(own_key, _)| before(own_key, key)) {
                if passed.show(own_key, write.value(writer), &mut visit) {
                    return ControlFlow::Break(());
                }
            }
            if unbroken(|| passed.take(key, version.ts, version.value.is_none())) {
                return ControlFlow::Break(());
            }
            let value = match own.next_if(|(own_key, _)| own_key == key) {
                Some((_, write)) => write.value(writer),
                None => version.value,
            };
            if passed.show(key, value, &mut visit) {
                ControlFlow::Break(())
            } else {
                ControlFlow::Continue(())
            }
        })?;
        if passed.full {
            return Err(Abort::TooLarge);
        }
        while !passed.broke
            && let Some((own_key, write)) = own.next()
        {
            passed.show(own_key, write.value(writer), &mut visit);
        }
        self.work.pass(passed.count as usize)?;
        unbroken(|| self.remember_scan(table, range, direction, &passed));
        Ok(())
    }

    fn goes_on(&mut self) -> Result<(), Abort> {
        self.work.go_on()
    }

    fn expects(&mut self, passed: u64, added: u64) -> Result<(), Abort> {
        self.work.expect(passed, added)
    }

    fn version(&mut self, table: TableId, key: &[u8]) -> Result<Timestamp, Abort> {
        let (at, live) = unbroken(|| self.look(table, key, false))?;
        let (read, own) =
            (self.touched[at].read.unwrap_or(Timestamp::ZERO), self.touched[at].write.is_some());
        if own && self.together != Together::No {
            // Another request wrote it, in this transaction: that is no version yet, and not the one that stands in the store.
            return Err(Abort::Conflict);
        }
        // Tombstones go at each replica in its own time.
        Ok(if live || own { read } else { read.max(self.latest.gone(table, key)) })
    }
}

#[cfg(test)]
mod tests;
