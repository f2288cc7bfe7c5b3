//! What an attempt of a [stepped](crate::stepped) transaction has read so far: it runs again from its start with that, until nothing is missing.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use bytes::Bytes;
use highwater_core::transaction::KeyRange;
use highwater_core::{Abort, Direction, Schema, TableId, TableSpec, Timestamp};
use highwater_kit::validation::tx::Source;
use highwater_meerkat_wire::{Item, OwnedRange, Page};
use highwater_store::Version;

use crate::core::Answer;

/// What a key showed.
#[derive(Clone, Debug)]
struct Seen {
    version: Timestamp,
    live: bool,
    /// `None`: only the version was asked for.
    value: Option<Bytes>,
}

/// A scan, as far as it was asked for.
#[derive(Clone, Debug)]
struct Scanned {
    table: TableId,
    direction: Direction,
    range: OwnedRange,
    items: Vec<Item>,
    pages: u32,
    more: bool,
}

/// What is missing.
#[derive(Clone, Debug)]
pub enum Missing {
    /// A key, with its value or without.
    Key(TableId, Bytes, bool),
    /// The next part of a range: which scan it is of, and so many parts came before.
    Part(usize, TableId, Direction, OwnedRange, u32),
}

/// See the module.
pub struct Cache {
    schema: Schema,
    keys: BTreeMap<(TableId, Bytes), Seen>,
    scans: Vec<Scanned>,
    missing: Option<Missing>,
}

impl Cache {
    /// An empty one.
    pub fn new(schema: Schema) -> Cache {
        Cache { schema, keys: BTreeMap::new(), scans: Vec::new(), missing: None }
    }

    /// Another attempt begins: nothing has been read.
    pub fn clear(&mut self) {
        self.keys.clear();
        self.scans.clear();
        self.missing = None;
    }

    /// What the last run missed, if anything.
    pub fn take_missing(&mut self) -> Option<Missing> {
        self.missing.take()
    }

    /// What was missing has come.
    pub fn fill(&mut self, missing: Missing, answer: Answer) {
        match (missing, answer) {
            (Missing::Key(table, key, wants), Answer::Value { version, live, value }) => {
                self.keys.insert((table, key), Seen { version, live, value: wants.then_some(value) });
            }
            (Missing::Part(at, ..), Answer::Page(Page { items, more })) => {
                let scan = &mut self.scans[at];
                // An empty part is the last one, whatever it says.
                scan.more = more && !items.is_empty();
                scan.items.extend(items);
                scan.pages += 1;
            }
            (missing, answer) => unreachable!("{missing:?} is not answered by {answer:?}"),
        }
    }

    fn look(&mut self, table: TableId, key: &[u8], value: bool) -> Result<&Seen, Abort> {
        let name = (table, Bytes::copy_from_slice(key));
        let known = self.keys.get(&name).is_some_and(|seen| !value || seen.value.is_some());
        if !known {
            self.missing = Some(Missing::Key(table, name.1, value));
            return Err(Abort::Conflict);
        }
        Ok(&self.keys[&name])
    }
}

/// What is left of a range behind a record that a scan has passed.
pub fn rest_of(range: &OwnedRange, direction: Direction, last: Option<&[u8]>) -> OwnedRange {
    use std::ops::Bound::Excluded;
    match (last, direction) {
        (None, _) => range.clone(),
        (Some(last), Direction::Forward) => (Excluded(last.to_vec()), range.1.clone()),
        (Some(last), Direction::Backward) => (range.0.clone(), Excluded(last.to_vec())),
    }
}

/// The same range, of its own.
pub fn owned(range: KeyRange<'_>) -> OwnedRange {
    (range.0.map(<[u8]>::to_vec), range.1.map(<[u8]>::to_vec))
}

impl Source for Cache {
    fn spec(&self, table: TableId) -> Option<&TableSpec> {
        self.schema.get(table)
    }

    fn get(&mut self, table: TableId, key: &[u8]) -> Result<Version<'_>, Abort> {
        let seen = self.look(table, key, true)?;
        let value = seen.value.as_deref().filter(|_| seen.live);
        Ok(Version { ts: seen.version, value })
    }

    fn version(&mut self, table: TableId, key: &[u8]) -> Result<(Timestamp, bool), Abort> {
        let seen = self.look(table, key, false)?;
        Ok((seen.version, seen.live))
    }

    fn scan(
        &mut self,
        table: TableId,
        range: KeyRange<'_>,
        direction: Direction,
        mut visit: impl FnMut(&[u8], Version<'_>) -> ControlFlow<()>,
    ) -> Result<(), Abort> {
        let range = owned(range);
        let same = |scan: &Scanned| (scan.table, scan.direction, &scan.range) == (table, direction, &range);
        let at = self.scans.iter().position(same).unwrap_or_else(|| {
            let (items, pages, more) = (Vec::new(), 0, true);
            self.scans.push(Scanned { table, direction, range: range.clone(), items, pages, more });
            self.scans.len() - 1
        });
        let scan = &self.scans[at];
        for Item { key, version, value } in &scan.items {
            if visit(key, Version { ts: *version, value: value.as_deref() }).is_break() {
                return Ok(());
            }
        }
        if !scan.more {
            return Ok(());
        }
        let rest = rest_of(&range, direction, scan.items.last().map(|item| &item.key[..]));
        self.missing = Some(Missing::Part(at, table, direction, rest, scan.pages));
        Err(Abort::Conflict)
    }
}
