//! The receiver's worker: asks for its part of the state and installs it.

use std::sync::Arc;

use bytes::Bytes;
use highwater_core::{NodeId, Timestamp};
use highwater_seam::{Nanos, Next};
use highwater_store::{Importer, Store};

use super::CRC_BYTES;
use super::message::CopyMessage;

/// The part of a copied state that one worker receives.
#[derive(Default)]
pub struct Installer {
    arriving: Option<Arriving>,
    /// A copy failed; to be told to the controller.
    stalled: Option<u64>,
    /// The last chunk is installed; to be told to the controller.
    completed: Option<(u64, Timestamp)>,
    /// Chunks to acknowledge.
    acks: Vec<(NodeId, u64, u32)>,
}

struct Arriving {
    donor: NodeId,
    copy: u64,
    next: u32,
    started: bool,
    last_at: Nanos,
    importer: Importer,
}

/// Silence after which a receiver gives its donor up.
const STALL: Nanos = 2_000_000_000;

impl Installer {
    /// Waits for a part of `copy` from `donor`, for `store`.
    pub fn expect(now: Nanos, donor: NodeId, copy: u64, store: Arc<Store>) -> Installer {
        let importer = Importer::new(store);
        let arriving = Arriving { donor, copy, next: 0, started: false, last_at: now, importer };
        Installer { arriving: Some(arriving), ..Installer::default() }
    }

    /// Whether a copy is arriving.
    pub fn is_receiving(&self) -> bool {
        self.arriving.is_some()
    }

    /// The connection to `peer` was lost or is new: a copy from it starts anew.
    pub fn peer_changed(&mut self, peer: NodeId) {
        if let Some(arriving) = self.arriving.take_if(|arriving| arriving.donor == peer && arriving.started) {
            self.stalled = Some(arriving.copy);
        }
    }

    /// Installs a chunk; says how many bytes came, 0 if none were for this copy.
    pub fn take(
        &mut self,
        now: Nanos,
        from: NodeId,
        (copy, seq): (u64, u32),
        complete_at: Option<Timestamp>,
        body: &Bytes,
    ) -> usize {
        let Some(arriving) = &mut self.arriving else { return 0 };
        if arriving.copy != copy || arriving.donor != from || seq < arriving.next {
            return 0;
        }
        let sound = body
            .split_at_checked(CRC_BYTES)
            .is_some_and(|(crc, records)| crc32fast::hash(records).to_le_bytes() == *crc);
        if seq > arriving.next || !sound || arriving.importer.import(&body[CRC_BYTES..]).is_err() {
            self.stalled = Some(copy);
            self.arriving = None;
            return 0;
        }
        arriving.next = seq + 1;
        arriving.last_at = now;
        self.acks.push((from, copy, seq));
        if let Some(complete_at) = complete_at {
            self.arriving = None;
            self.completed = Some((copy, complete_at));
        }
        body.len()
    }

    /// Hands acknowledgements to `send`.
    pub fn acknowledge(&mut self, mut send: impl FnMut(NodeId, CopyMessage)) {
        for (to, copy, seq) in self.acks.drain(..) {
            send(to, CopyMessage::CopyAck { copy, seq });
        }
    }

    /// Asks for the copy once its donor is `connected`, and gives it up if nothing comes for long.
    pub fn watch(
        &mut self,
        now: Nanos,
        connected: impl Fn(NodeId) -> bool,
        mut send: impl FnMut(NodeId, CopyMessage),
    ) -> Next {
        let Some(arriving) = &mut self.arriving else { return Next::Idle };
        if !arriving.started && connected(arriving.donor) {
            arriving.started = true;
            send(arriving.donor, CopyMessage::CopyStart { copy: arriving.copy });
        }
        if now.saturating_sub(arriving.last_at) > STALL {
            self.stalled = Some(arriving.copy);
            self.arriving = None;
            return Next::Idle;
        }
        Next::At(arriving.last_at + STALL + 1)
    }

    /// The copy whose part is installed, and at which position it is complete.
    pub fn take_completed(&mut self) -> Option<(u64, Timestamp)> {
        self.completed.take()
    }

    /// The copy that cannot go on.
    pub fn take_stalled(&mut self) -> Option<u64> {
        self.stalled.take()
    }
}
