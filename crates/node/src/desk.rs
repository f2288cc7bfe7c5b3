//! What operators ask over RESP, out of what the node's threads keep.

use std::sync::{Arc, Weak};

use highwater_redis::Operations;
use highwater_redis::acl::ids;
use highwater_redis::meter::commands::CommandCounts;
use highwater_redis::meter::hot::HotKey;
use highwater_redis::meter::latency::Latencies;
use highwater_redis::meter::slow::{NEVER, Slow};
use highwater_redis::operations::{Figures, Took};

use crate::census::Census;
use crate::clock::{Ticks, monotonic, unix_ms};
use crate::config::Config;
use crate::control::inspect::resident_bytes;
use crate::descriptors::Shares;
use crate::shared::Shared;

/// A node's.
pub struct Desk {
    shared: Weak<Shared>,
    idle_timeout_s: u64,
    most_clients: usize,
    census: Arc<Census>,
}

impl Desk {
    /// Of a node with this configuration.
    pub fn new(config: &Config, shared: &Arc<Shared>) -> Desk {
        let desk = Desk {
            shared: Arc::downgrade(shared),
            idle_timeout_s: config.limits.idle_timeout_s,
            most_clients: Shares::of(config).clients.saturating_mul(usize::from(config.cluster.workers)),
            census: Arc::default(),
        };
        let slower_than = u64::try_from(config.slowlog.slower_than_us).unwrap_or(NEVER);
        desk.set_thresholds(slower_than, slower_than);
        desk
    }

    fn shared(&self) -> Arc<Shared> {
        self.shared.upgrade().expect("clients are served while the node runs")
    }

    fn set_thresholds(&self, slow_us: u64, watched_us: u64) {
        let shared = self.shared();
        let ticks = |us: u64| shared.stopwatch.ticks(us.saturating_mul(1000));
        shared.slow.set_thresholds(slow_us, watched_us, ticks);
    }
}

impl Operations for Desk {
    fn slow(&self, most: usize) -> Vec<Slow> {
        self.shared().slow.latest(most)
    }

    fn slow_len(&self) -> usize {
        self.shared().slow.len()
    }

    fn reset_slow(&self) {
        self.shared().slow.reset();
    }

    fn slower_than_us(&self) -> Option<u64> {
        Some(self.shared().slow.thresholds().0).filter(|us| *us != NEVER)
    }

    fn set_slower_than_us(&self, us: Option<u64>) {
        let (_, watched_us) = self.shared().slow.thresholds();
        self.set_thresholds(us.unwrap_or(NEVER), watched_us);
    }

    fn most_slow(&self) -> usize {
        self.shared().slow.most()
    }

    fn set_most_slow(&self, most: usize) {
        self.shared().slow.set_most(most);
    }

    fn latencies(&self) -> Latencies {
        self.shared().slow.latencies()
    }

    fn reset_latencies(&self, of: &dyn Fn(&str) -> bool) -> usize {
        self.shared().slow.reset_latencies(of)
    }

    fn watched_from_ms(&self) -> u64 {
        match self.shared().slow.thresholds().1 {
            NEVER => 0,
            us => us.div_ceil(1000),
        }
    }

    fn set_watched_from_ms(&self, ms: u64) {
        let (slow_us, _) = self.shared().slow.thresholds();
        self.set_thresholds(slow_us, if ms == 0 { NEVER } else { ms.saturating_mul(1000) });
    }

    fn began(&self) -> u64 {
        self.shared().stopwatch.now().0
    }

    fn took(&self, took: Took<'_>) -> u64 {
        let shared = self.shared();
        let ended = shared.stopwatch.now();
        let nanos = shared.stopwatch.nanos(Ticks(took.began), ended);
        if !shared.slow.is_notable(ended.0.saturating_sub(took.began)) {
            return nanos;
        }
        let (unix_ms, took_us) = (unix_ms(), nanos / 1000);
        shared.slow.watch(took.command.spec().latency_event(), unix_ms, took_us);
        shared.slow.keep(Slow {
            number: 0,
            unix_ms,
            took_us,
            released_us: Some(took_us),
            worker: took.worker as u16,
            client: took.client(),
            name: highwater_redis::meter::slow::shown(&took.name[..took.name.len().min(128)]),
            words: took.words(),
        });
        nanos
    }

    fn idle_timeout_s(&self) -> u64 {
        self.idle_timeout_s
    }

    fn most_clients(&self) -> usize {
        self.most_clients
    }

    fn sockets(&self) -> &'static str {
        self.shared().sockets()
    }

    fn commands(&self) -> Vec<CommandCounts> {
        let mut sums = vec![CommandCounts::default(); ids::MOST];
        self.shared().meters.iter().for_each(|meter| meter.commands.add_to(&mut sums));
        sums
    }

    fn figures(&self) -> Figures {
        let shared = self.shared();
        let (saved_unix_s, save_failed) = shared.last_checkpoint();
        Figures {
            expired_keys: shared.expired(),
            used_peak: shared.used_peak(),
            saved_unix_s,
            save_failed,
            keys: self.census.ask(monotonic(), || shared.store()),
        }
    }

    fn resident_bytes(&self) -> u64 {
        resident_bytes()
    }

    fn hot_keys(&self) -> Vec<HotKey> {
        self.shared().hot_keys()
    }

    fn reset_hot_keys(&self) {
        self.shared().reset_hot_keys();
    }
}
