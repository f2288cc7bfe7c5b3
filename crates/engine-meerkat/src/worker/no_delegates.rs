//! A build without the feature `delegates`: no client coordinates a transaction, and no stamp is granted to one.

use bytes::Bytes;
use highwater_core::{NodeId, Timestamp};
use highwater_kit::validation::message::Message;
use highwater_kit::validation::payload::Payload;
use highwater_seam::{ClientId, Nanos};

use super::MeerkatWorker;

/// Nobody.
#[derive(Default)]
pub(super) struct Delegates {}

impl Delegates {
    pub fn granted(&self) -> usize {
        0
    }

    pub fn has_granted(&self, _: Timestamp) -> bool {
        false
    }

    pub fn assert_open(&self, _: Timestamp) {}

    pub fn hand_out(&mut self, _: &mut Vec<(ClientId, Bytes)>) {}
}

impl MeerkatWorker {
    pub(super) fn tell_standing(&mut self) {}

    pub(super) fn tell_about(&mut self, client: ClientId, _: Message) {
        unreachable!("{client:?} is not connected");
    }

    pub(super) fn tell_client_of(&mut self, _: NodeId, _: Timestamp, _: bool) {}

    pub(super) fn settle_granted(&mut self, _: Nanos, ts: Timestamp, _: bool, _: (Option<Payload>, u32)) {
        unreachable!("{ts} was granted to nobody");
    }

    pub(super) fn end_abandoned(&mut self, _: Nanos) {}

    pub(super) fn void_grants(&mut self) {}

    pub(super) fn forget_grants(&mut self) {}
}
