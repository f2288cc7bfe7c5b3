//! Real time: what a transaction's timestamp has to do with when it was asked for and answered.
//!
//! As the paper has it, a coordinator whose clock is behind may propose a timestamp below those of transactions that clients have been
//! answered already. What conflicts with them is refused or comes after them; but a read of what they overwrote may be found
//! valid, before their outcomes have come, and clients see the past. The result is serializable, and not strictly so.
//!
//! Engine `meerkat-strict` adds two rules:
//!
//! 1. A replica refuses a transaction that is at or below its own clock when it arrives.
//! 2. A replica that found a transaction valid says so when its clock has come to the timestamp.
//!
//! Let T1 be answered before T2 is asked for. A majority said yes to T1, and each of their clocks was at T1's timestamp by then. A
//! majority says yes to T2, and when it arrived, which was later, each of their clocks was below T2's timestamp. Some replica is in
//! both, and its clock never goes back: T1's timestamp is below T2's. No two clocks are compared, and cores share nothing but the
//! reading of a clock.
//!
//! So coordinators propose timestamps a little in the future: as far as it takes for a transaction to arrive everywhere, by what they
//! are refused. That is what it costs: latency, of about one way through the network, and refusals where that varies.
//!
//! It has to be a majority that said yes to whatever commits. Rule 4 of a change of epoch asks for less where a supermajority is less than
//! all replicas, from four nodes on. So here the fast path takes all of them: [`Quorums::unanimous`](super::quorum::Quorums::unanimous).
//!
//! A vote that is withheld is no vote: whoever promises a later view, or a change of epoch, takes it back.

use highwater_core::Timestamp;

use super::stamps::Layout;

/// How far ahead of its clock a coordinator proposes, in ticks.
#[derive(Default)]
pub struct Lead(u64);

/// The lead shrinks by a part in so many with each transaction that goes well.
const SHRINKS: u64 = 512;

impl Lead {
    /// The lead.
    pub fn ticks(&self) -> u64 {
        self.0
    }

    /// A transaction at `ts` came when a replica's clock was at `clock` already.
    pub fn late(&mut self, layout: Layout, ts: Timestamp, clock: Timestamp) {
        let behind = layout.ticks_between(ts, clock) + 1;
        self.0 = self.0.saturating_add(behind + behind / 4).min(1 << 40);
    }

    /// One was decided.
    pub fn went_well(&mut self) {
        self.0 -= self.0.div_ceil(SHRINKS);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lead_follows_refusals_and_shrinks() {
        let layout = Layout::new(1);
        let mut lead = Lead::default();
        lead.went_well();
        assert_eq!(lead.ticks(), 0);
        lead.late(layout, Timestamp(320), Timestamp(320 + 3200));
        assert_eq!(lead.ticks(), 101 + 25, "in ticks of 32");
        (0..2000).for_each(|_| lead.went_well());
        assert_eq!(lead.ticks(), 0);
    }
}
