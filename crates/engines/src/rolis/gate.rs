//! What waits for the disk: frames and reports that vouch for what this worker's stream must not forget.
//!
//! Without a disk nothing is written, and nothing waits. With one the stream says what changed and which of its messages vouch for
//! how many changes ([`highwater_consensus::Stream`] has the rule); this part turns changes into records, and records that are
//! synced back into changes.
//!
//! Invariant: a frame or report leaves when the changes made before it are synced, in the order in which they came.

use std::collections::VecDeque;

use bytes::Bytes;
use highwater_consensus::Stream;

use super::context::{Context, Turn};
use super::hooks;
use super::messages::Report;
use crate::seam::{Endpoint, Frame, LogPosition, Outbox};

/// What waits for the disk.
#[derive(Default)]
pub struct Gate {
    /// Bytes that were handed out to be written.
    written: u64,
    /// How many of them are synced.
    synced_bytes: u64,
    /// At which of them which number of changes is complete.
    ends: VecDeque<(u64, u64)>,
    /// How many changes are synced.
    synced: u64,
    frames: VecDeque<(u64, (Endpoint, Frame))>,
    reports: VecDeque<(u64, Report)>,
}

impl Gate {
    /// Hands out what the stream has to have written.
    pub fn write(&mut self, stream: &mut Stream, out: &mut Outbox) {
        let changes = stream.take_changes();
        if changes.is_empty() {
            return;
        }
        for change in changes {
            let (head, entry) = change.encode();
            let record = if entry.is_empty() { head } else { Bytes::from([head, entry].concat()) };
            self.written += record.len() as u64;
            out.writes.push(record);
        }
        self.ends.push_back((self.written, stream.changes_made()));
    }

    /// Everything written up to `position` is on disk: how many changes that are.
    pub fn synced(&mut self, position: LogPosition) -> u64 {
        self.synced_bytes = position.0;
        while let Some((_, changes)) = self.ends.pop_front_if(|(end, _)| *end <= position.0) {
            self.synced = changes;
        }
        self.synced
    }

    /// Bytes that were handed out to be written and are not on disk.
    #[inline]
    pub fn unsynced_bytes(&self) -> u64 {
        self.written - self.synced_bytes
    }

    /// A frame leaves now, or when so many changes are on disk.
    #[inline]
    pub fn send(&mut self, after: u64, to: Endpoint, frame: Frame, out: &mut Outbox) {
        if after <= self.synced && (after == 0 || self.frames.is_empty()) {
            out.frames.push((to, frame));
        } else {
            self.frames.push_back((after, (to, frame)));
        }
    }

    /// The same for a report.
    pub fn report(&mut self, after: u64, report: Report, context: &Context, turn: &mut Turn<'_>) {
        if after <= self.synced && self.reports.is_empty() || hooks::reports_unsynced() {
            turn.report(context, report);
        } else {
            self.reports.push_back((after, report));
        }
    }

    /// Hands out what need not wait any more.
    pub fn open(&mut self, context: &Context, turn: &mut Turn<'_>) {
        let synced = self.synced;
        while let Some((_, frame)) = self.frames.pop_front_if(|(after, _)| *after <= synced) {
            turn.out.frames.push(frame);
        }
        while let Some((_, report)) = self.reports.pop_front_if(|(after, _)| *after <= synced) {
            turn.report(context, report);
        }
    }

    /// The connection to a node is lost, and with it what waits to be sent there.
    pub fn peer_down(&mut self, peer: highwater_core::NodeId) {
        self.frames.retain(|(_, (to, _))| to.node != peer);
    }
}
