//! How the memory of one node is divided beforehand; [`memory`](crate::memory) has the reasons.

/// The budget of one node, by part, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shares {
    /// All of it; `u64::MAX` if it has no limit.
    pub whole: u64,
    /// The logs of all streams.
    pub logs: u64,
    /// What the workers hold for transactions under way: open entries, replies, before-images, arguments.
    pub work: u64,
    /// Buffers of connections, to clients and to other nodes: the host's.
    pub buffers: u64,
    /// Pieces of memory that lie idle because they have other sizes than what is asked for; tombstones and versions.
    pub slack: u64,
    /// What is left for the store.
    pub store: u64,
}

/// A node whose store would have less than this is not started.
const LEAST_STORE_BYTES: u64 = 16 << 20;

impl Shares {
    /// No limit.
    pub const UNLIMITED: Shares =
        Shares { whole: u64::MAX, logs: 0, work: 0, buffers: 0, slack: 0, store: u64::MAX };

    /// Divides a budget of which `logs` and `work` are taken; says what does not fit.
    pub fn divide(whole: u64, logs: u64, work: u64) -> Result<Shares, String> {
        if whole == u64::MAX {
            return Ok(Shares::UNLIMITED);
        }
        let buffers = whole / 8;
        let left = whole.saturating_sub(logs + work + buffers);
        let slack = left / 8;
        let store = left - slack;
        if store < LEAST_STORE_BYTES {
            let mib = |bytes: u64| bytes.div_ceil(1 << 20);
            return Err(format!(
                "memory of {} MiB leaves too little for data: logs take {} MiB, work {} MiB, buffers {} MiB; give it \
                 more, or fewer workers, or lower limits",
                mib(whole),
                mib(logs),
                mib(work),
                mib(buffers)
            ));
        }
        Ok(Shares { whole, logs, work, buffers, slack, store })
    }

    /// The budget that leaves `store` bytes for the store, or a little more.
    pub fn whole_for(store: u64, logs: u64, work: u64) -> u64 {
        ((store + 7) * 8 / 7 + logs + work + 7) * 8 / 7
    }
}
