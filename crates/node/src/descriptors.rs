//! File descriptors: each connection is one, and a node that has none left cannot even reconnect to its peers. So
//! clients get what is left when everything else has its share.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::config::{Config, Forward};

/// For files that are read now and then, the log, a signal's pipe, standard streams.
const OWN: u64 = 32;
/// For operators, and for peers' calls before they said who they are.
const CALLERS: u64 = 32;

/// Raises the soft limit, usually 1024, to the hard one: that anyone may.
pub fn raise_limit() {
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    // If not, clients get fewer.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum });
}

/// How many clients each worker may have: as configured, or fewer if descriptors would run out before.
pub fn clients_per_worker(config: &Config) -> usize {
    let wanted = config.limits.clients_per_worker;
    let Some(limit) = getrlimit(Resource::Nofile).current else { return wanted };
    let (workers, nodes) = (u64::from(config.cluster.workers), config.cluster.nodes.len() as u64);
    // Each thread has a poller, a waker and a listener, and a worker a ring; each channel may have an old and a new connection.
    let threads = 3 * (workers + 2) + workers;
    let forwards = if config.server.forward == Forward::On { workers } else { 0 };
    let channels = 2 * (nodes - 1) * (workers + 1 + forwards);
    let left = limit.saturating_sub(OWN + CALLERS + threads + channels) / workers;
    let possible = usize::try_from(left).unwrap_or(usize::MAX).max(1);
    if possible < wanted {
        tracing::warn!(
            "{limit} file descriptors are few: {possible} clients per worker, not limits.clients_per_worker = \
             {wanted}; raise the limit (ulimit -n, LimitNOFILE=)"
        );
    }
    wanted.min(possible)
}
