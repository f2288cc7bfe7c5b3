//! What machines and links of a run can do: bytes take time.

use highwater_seam::Nanos;
use serde::{Deserialize, Serialize};

use crate::network::Wire;
use crate::units::MS;
use crate::world::Costs;
use highwater_core::Random;

/// Bytes take time on links and in turns; 0 for none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Machines {
    /// What a connection carries in a millisecond, in each direction.
    pub bytes_per_ms: u64,
    /// A connection on which more would wait breaks.
    pub backlog_bytes: u64,
    /// What a turn takes longer for each step in it, in ns.
    pub step_ns: Nanos,
    /// And for each 1,024 bytes that come in or go out, in ns.
    pub kib_ns: Nanos,
}

impl Machines {
    /// The largest transaction takes a quarter of an election timeout on a link, and as much in a turn, at most: with less
    /// no cluster could work, and nothing else would be tested.
    pub(super) fn draw(random: &mut Random, timeout: Nanos, largest: u64) -> Machines {
        let mut machines = Machines::default();
        if random.one_in(2) {
            let least = (4 * largest).div_ceil(timeout / MS);
            machines.bytes_per_ms = random.pick(&[1_000, 10_000, 100_000]).max(least);
            let backlog = machines.bytes_per_ms * random.pick(&[2, 20, 200]) * timeout / MS;
            machines.backlog_bytes = backlog.max(4 * largest);
        }
        if random.one_in(2) {
            let most = (timeout / 4 * 1024 / largest.max(1)).max(1);
            machines.step_ns = random.pick(&[0, 100, 1_000]);
            machines.kib_ns = random.pick(&[100, 1_000, 10_000]).min(most);
        }
        machines
    }

    pub(super) fn wire(self) -> Option<Wire> {
        let Machines { bytes_per_ms, backlog_bytes, .. } = self;
        (bytes_per_ms > 0).then_some(Wire { bytes_per_ms, backlog_bytes })
    }

    /// What turns cost.
    pub(crate) fn costs(self) -> Costs {
        Costs { step: self.step_ns, kib: self.kib_ns }
    }
}

/// How large blobs are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Sizes {
    /// The largest value, in bytes; most are small. 0: there are no blobs.
    pub largest: u32,
    /// All together may write so many bytes; behind that, a few bytes each.
    pub total: u64,
    /// What a replica's store may come to; 0 for no limit.
    #[serde(default)]
    pub memory: u64,
}

impl Sizes {
    /// Half of all plans have none. Sums stay small enough that a run costs about what it did; a few plans go to the
    /// limits.
    pub(super) fn draw(random: &mut Random) -> Sizes {
        const LIMIT: u32 = highwater_core::limits::MAX_VALUE_BYTES as u32;
        match random.below(200) {
            0 => Sizes { largest: LIMIT, total: 3 * u64::from(LIMIT), memory: 0 },
            1..5 => Sizes { largest: 1 << 20, total: 8 << 20, memory: 0 },
            5..40 => Sizes { largest: 64 << 10, total: 512 << 10, memory: 0 },
            40..100 => Sizes { largest: 4 << 10, total: 128 << 10, memory: 0 },
            _ => Sizes::default(),
        }
    }

    /// Of a transaction with up to `operations`, its values alone.
    pub(crate) fn largest_transaction(self, operations: u32) -> u64 {
        (u64::from(self.largest) * u64::from(operations)).min(self.total)
    }
}
