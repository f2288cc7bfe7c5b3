//! A build without the feature `delegates`: the peer port refuses clients that coordinate, so no worker has one.

use bytes::Bytes;
use highwater_seam::{ClientId, Nanos, Worker};

use super::clients::Rules;
use crate::poll::{Event, Poller};
use crate::tls::Wire;

/// None.
pub struct Coordinators;

impl Coordinators {
    pub fn new(_: Rules, _: usize) -> Coordinators {
        Coordinators
    }

    pub fn deadline(&self) -> Option<Nanos> {
        None
    }

    pub fn turn(&mut self, _: Nanos, _: &mut dyn Worker) {}

    pub fn count(&self) -> usize {
        0
    }

    pub fn held_bytes(&self) -> (usize, usize) {
        (0, 0)
    }

    pub fn adopt(&mut self, _: Nanos, _: Wire, _: &mut dyn Worker, _: &Poller) {
        unreachable!("the peer port refuses them");
    }

    pub fn event(&mut self, _: u32, _: Event, _: Nanos, _: &mut dyn Worker) {}

    pub fn tell(&mut self, client: ClientId, _: &Bytes) {
        unreachable!("{client:?} is not connected");
    }

    pub fn flush(&mut self, _: Nanos, _: &mut dyn Worker, _: &Poller) -> bool {
        false
    }
}
