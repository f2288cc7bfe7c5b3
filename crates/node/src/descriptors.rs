//! File descriptors: each connection is one, each open file too, and a node that has none left can neither open its journal's next file nor
//! reconnect to its peers. So its own files, threads and peers come first; strangers, of whom nothing is known yet, get little, at the peer
//! port and at the admin port each; and clients get what is left.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::config::{Config, Forward};

/// For the log, pipes of signals, standard streams, the journal's files, its ballast, and files that are read now and then.
const OWN: u64 = 40;
/// Strangers at the peer port, and at the admin port, get this part of what is left each.
const STRANGERS_PART: u64 = 8;
/// Callers at the peer port who have not said who they are, at most.
pub const MAX_CALLERS: u64 = 1024;
/// Connections at the admin port, at most.
pub const MAX_OPERATORS: u64 = 256;
/// At least so many of either.
const FEWEST: u64 = 2;

/// The shares: who may have how many.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shares {
    /// Clients of each worker; at the peer port as many again, where the engine has clients that coordinate.
    pub clients: usize,
    /// Callers at the peer port who have not said who they are.
    pub callers: usize,
    /// Connections at the admin port.
    pub operators: usize,
    /// The limit that this is of; `None`: there is none.
    limit: Option<u64>,
    /// Descriptors that the node needs before anybody is let in.
    needed: u64,
}

/// Raises the soft limit, usually 1024, to the hard one: that anyone may.
pub fn raise_limit() {
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    // If not, clients get fewer.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum });
}

impl Shares {
    /// The process's limit.
    pub fn of(config: &Config) -> Shares {
        Shares::under(getrlimit(Resource::Nofile).current, config)
    }

    fn under(limit: Option<u64>, config: &Config) -> Shares {
        let (workers, nodes) = (u64::from(config.cluster.workers), config.cluster.nodes.len() as u64);
        // Each thread has a poller, a waker and a listener, and a worker a ring; each channel may have an old and a new connection; a
        // checkpoint has a file for each worker.
        let threads = 3 * (workers + 2) + workers;
        let forwards = if config.server.forward == Forward::On { workers } else { 0 };
        let of_a_peer = workers + 1 + forwards;
        let channels = 2 * (nodes - 1) * of_a_peer;
        let needed = OWN + workers + threads + channels;
        let left = limit.unwrap_or(u64::MAX).saturating_sub(needed);
        // All peers may call at once.
        let peers = ((nodes - 1) * of_a_peer + FEWEST).min(left / 4);
        let callers = (left / STRANGERS_PART).max(peers).clamp(FEWEST, MAX_CALLERS);
        let operators = (left / STRANGERS_PART).clamp(FEWEST, MAX_OPERATORS);
        let doors = match config.engine().is_ok_and(|engine| engine.abilities().client_coordinators) {
            true => 2 * workers,
            false => workers,
        };
        let possible = left.saturating_sub(callers + operators) / doors;
        let possible = usize::try_from(possible).unwrap_or(usize::MAX).max(1);
        Shares {
            clients: config.limits.clients_per_worker.min(possible),
            callers: callers as usize,
            operators: operators as usize,
            limit,
            needed,
        }
    }

    /// Says whether that is less than was wished for.
    pub fn announce(&self, config: &Config) {
        let Some(limit) = self.limit else { return };
        let (wanted, possible) = (config.limits.clients_per_worker, self.clients);
        if limit <= self.needed {
            tracing::warn!(
                "{limit} file descriptors are too few: this node needs {} for its files and the other nodes alone; raise the limit \
                 (ulimit -n, LimitNOFILE=)",
                self.needed
            );
        } else if possible < wanted {
            tracing::warn!(
                "{limit} file descriptors are few: {possible} clients per worker, not limits.clients_per_worker = \
                 {wanted}; raise the limit (ulimit -n, LimitNOFILE=)"
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 32 were set aside for strangers, who could be 1280: at limits up to some 1300 they took the journal's.
    #[test]
    fn strangers_and_clients_together_leave_what_the_node_needs() {
        let default = Config::default();
        for engine in ["rolis", "meerkat"] {
            for nodes in [1, 3, 5, 31] {
                for workers in [1, 2, 64] {
                    for limit in [150, 256, 1024, 1300, 4096, 65_536, 1 << 20, 1 << 30] {
                        let mut config = default.clone();
                        (config.cluster.engine, config.cluster.workers) = (engine.into(), workers);
                        config.cluster.nodes = vec![default.cluster.nodes[0].clone(); nodes];
                        let shares = Shares::under(Some(limit), &config);
                        let coordinate = engine == "meerkat" && cfg!(feature = "delegates");
                        let of_clients =
                            shares.clients as u64 * u64::from(workers) * if coordinate { 2 } else { 1 };
                        let all = shares.needed + of_clients + (shares.callers + shares.operators) as u64;
                        let strangers = (shares.callers + shares.operators) as u64;
                        let left = limit.saturating_sub(shares.needed);
                        // Where there is hardly any left everybody has the least there is.
                        let has_least = shares.clients == 1 && strangers <= (left / 2).max(2 * FEWEST);
                        assert!(all <= limit || has_least, "{engine} {nodes} {workers} {limit}: {shares:?}");
                        assert!(shares.callers <= 1024 && shares.operators <= 256 && shares.clients > 0);
                    }
                }
            }
        }
        let shares = Shares::under(None, &default);
        assert_eq!((shares.callers, shares.operators), (1024, 256));
        assert_eq!(shares.clients, default.limits.clients_per_worker);
    }
}
