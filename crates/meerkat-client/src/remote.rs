//! Reads of a client that waits for each.

use std::ops::ControlFlow;

use bytes::Bytes;
use highwater_core::transaction::KeyRange;
use highwater_core::{Abort, Direction, Nanos, Schema, TableId, TableSpec, Timestamp};
use highwater_kit::validation::tx::Source;
use highwater_meerkat_wire::{Item, Page};
use highwater_store::Version;

use crate::cache::{owned, rest_of};
use crate::core::{Answer, Core, Ended, Trouble};
use crate::net::Net;

/// While nothing is due.
const LONG: Nanos = 1_000_000_000;

/// What a client reads, by asking replicas and waiting for the answer.
pub struct Remote {
    schema: Schema,
    pub(crate) core: Core,
    pub(crate) net: Net,
    /// Why a read of this attempt was not answered.
    pub(crate) trouble: Option<Trouble>,
    value: Bytes,
}

impl Remote {
    pub(crate) fn new(schema: Schema, core: Core, net: Net) -> Remote {
        Remote { schema, core, net, trouble: None, value: Bytes::new() }
    }

    /// Lets time pass, until something happens.
    pub(crate) fn pump(&mut self) {
        let until = self.net.now() + LONG;
        self.net.pump(&mut self.core, until);
    }

    /// Waits for the answer to what was asked.
    pub(crate) fn answer(&mut self) -> Result<Answer, Abort> {
        loop {
            match self.core.answer() {
                Some(Ok(answer)) => return Ok(answer),
                Some(Err(trouble)) => {
                    self.trouble = Some(trouble);
                    return Err(Abort::Conflict);
                }
                None => self.pump(),
            }
        }
    }

    /// Waits until it is known how what was proposed has ended.
    pub(crate) fn ended(&mut self) -> Ended {
        loop {
            match self.core.ended() {
                Some(ended) => return ended,
                None => self.pump(),
            }
        }
    }

    fn read(&mut self, table: TableId, key: &[u8], value: bool) -> Result<(Timestamp, bool), Abort> {
        // Nobody is asked what makes no sense.
        let spec = self.schema.get(table).ok_or(Abort::BadRequest)?;
        if spec.keys == highwater_core::KeyKind::U64 && key.len() != 8 {
            return Err(Abort::BadRequest);
        }
        let now = self.net.now();
        self.core.read(now, table, Bytes::copy_from_slice(key), value);
        let Answer::Value { version, live, value } = self.answer()? else { return Err(Abort::Conflict) };
        self.value = value;
        Ok((version, live))
    }
}

impl Source for Remote {
    fn spec(&self, table: TableId) -> Option<&TableSpec> {
        self.schema.get(table)
    }

    fn get(&mut self, table: TableId, key: &[u8]) -> Result<Version<'_>, Abort> {
        let (ts, live) = self.read(table, key, true)?;
        Ok(Version { ts, value: live.then_some(&self.value[..]) })
    }

    fn version(&mut self, table: TableId, key: &[u8]) -> Result<(Timestamp, bool), Abort> {
        self.read(table, key, false)
    }

    fn scan(
        &mut self,
        table: TableId,
        range: KeyRange<'_>,
        direction: Direction,
        mut visit: impl FnMut(&[u8], Version<'_>) -> ControlFlow<()>,
    ) -> Result<(), Abort> {
        let (mut rest, mut before) = (owned(range), 0);
        loop {
            let now = self.net.now();
            self.core.scan(now, table, direction, rest.clone(), before);
            let Answer::Page(Page { items, more }) = self.answer()? else { return Err(Abort::Conflict) };
            for Item { key, version, value } in &items {
                if visit(key, Version { ts: *version, value: value.as_deref() }).is_break() {
                    return Ok(());
                }
            }
            let Some(last) = items.last().filter(|_| more) else { return Ok(()) };
            rest = rest_of(&rest, direction, Some(&last.key));
            before += 1;
        }
    }
}
