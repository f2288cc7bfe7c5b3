//! What operators ask of a node over RESP, and its host knows: slow transactions, latencies, hot keys.

use super::clients::Card;
use super::command::Opcode;
use super::describe;
use super::request::Args;
use crate::meter::commands::CommandCounts;
use crate::meter::hot::HotKey;
use crate::meter::latency::Latencies;
use crate::meter::slow::Slow;

/// What the host of the door keeps.
pub trait Operations: Send + Sync {
    /// The last slow transactions, the latest first.
    fn slow(&self, most: usize) -> Vec<Slow>;
    /// How many are kept.
    fn slow_len(&self) -> usize;
    /// Forgets them.
    fn reset_slow(&self);
    /// From how many microseconds on a transaction is slow; `None`: none is.
    fn slower_than_us(&self) -> Option<u64>;
    /// Another threshold.
    fn set_slower_than_us(&self, us: Option<u64>);
    /// How many slow transactions are kept.
    fn most_slow(&self) -> usize;
    /// Another number.
    fn set_most_slow(&self, most: usize);
    /// What took long, by event.
    fn latencies(&self) -> Latencies;
    /// Forgets those of some events; of how many there was anything.
    fn reset_latencies(&self, of: &dyn Fn(&str) -> bool) -> usize;
    /// From how many milliseconds on something is a latency; 0: nothing is.
    fn watched_from_ms(&self) -> u64;
    /// Another threshold.
    fn set_watched_from_ms(&self, ms: u64);
    /// A reading of the clock by which commands are measured that are answered at the door.
    fn began(&self) -> u64;
    /// Such a command has been answered; how many nanoseconds it took.
    fn took(&self, took: Took<'_>) -> u64;
    /// After how many seconds without a word a client is cut off; 0: never.
    fn idle_timeout_s(&self) -> u64;
    /// How many clients there may be.
    fn most_clients(&self) -> usize;
    /// What clients' sockets stand on.
    fn sockets(&self) -> &'static str;
    /// What was ever counted of each command, by its [number](super::acl::ids::Named::id).
    fn commands(&self) -> Vec<CommandCounts>;
    /// The figures that `INFO` tells of the host.
    fn figures(&self) -> Figures;
    /// Resident memory of the process.
    fn resident_bytes(&self) -> u64;
    /// The keys with most conflicts, the hottest first.
    fn hot_keys(&self) -> Vec<HotKey>;
    /// Forgets them.
    fn reset_hot_keys(&self);
}

/// A host's knowledge of itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Figures {
    /// Keys that this node's sweep has removed because they had expired, since the process began.
    pub expired_keys: u64,
    /// The most bytes that the store has used since the process began, looked at with each summary.
    pub used_peak: u64,
    /// When a checkpoint was last published, in Unix time in s; before the first one, when the process began.
    pub saved_unix_s: u64,
    /// The last checkpoint failed.
    pub save_failed: bool,
    /// How many keys there are; `None`: nobody has counted yet.
    pub keys: Option<KeyCount>,
}

/// How many keys there are, a moment ago.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KeyCount {
    /// All, with those that have expired and are not removed yet, as `DBSIZE` counts them.
    pub keys: u64,
    /// Those that have a deadline.
    pub expires: u64,
}

/// A command that was answered at the door.
pub struct Took<'a> {
    /// When its answer began: a reading of [`began`](Operations::began).
    pub began: u64,
    pub worker: usize,
    /// Who asked it,
    pub card: &'a Card,
    /// and what it is called.
    pub name: &'a [u8],
    pub command: Opcode,
    /// Its words behind the name.
    pub args: Args<'a>,
}

impl Took<'_> {
    /// Its client's address.
    pub fn client(&self) -> String {
        self.card.words().address.clone()
    }

    /// Its words, without secrets, cut.
    pub fn words(&self) -> Vec<Vec<u8>> {
        describe::local_words(self.command, self.args)
    }
}

/// A host that keeps nothing.
pub struct Nothing;

impl Operations for Nothing {
    fn slow(&self, _: usize) -> Vec<Slow> {
        Vec::new()
    }

    fn slow_len(&self) -> usize {
        0
    }

    fn reset_slow(&self) {}

    fn slower_than_us(&self) -> Option<u64> {
        None
    }

    fn set_slower_than_us(&self, _: Option<u64>) {}

    fn most_slow(&self) -> usize {
        0
    }

    fn set_most_slow(&self, _: usize) {}

    fn latencies(&self) -> Latencies {
        Latencies::new()
    }

    fn reset_latencies(&self, _: &dyn Fn(&str) -> bool) -> usize {
        0
    }

    fn watched_from_ms(&self) -> u64 {
        0
    }

    fn set_watched_from_ms(&self, _: u64) {}

    fn began(&self) -> u64 {
        0
    }

    fn took(&self, _: Took<'_>) -> u64 {
        0
    }

    fn idle_timeout_s(&self) -> u64 {
        0
    }

    fn most_clients(&self) -> usize {
        0
    }

    fn sockets(&self) -> &'static str {
        "epoll"
    }

    fn commands(&self) -> Vec<CommandCounts> {
        Vec::new()
    }

    fn figures(&self) -> Figures {
        Figures::default()
    }

    fn resident_bytes(&self) -> u64 {
        0
    }

    fn hot_keys(&self) -> Vec<HotKey> {
        Vec::new()
    }

    fn reset_hot_keys(&self) {}
}
