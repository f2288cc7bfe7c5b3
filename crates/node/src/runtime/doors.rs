//! What a node's clients, operators and peers meet: what is told them, and how much they may hold.

use std::sync::Arc;

use highwater_core::{Incarnation, NodeId};
use highwater_kit::sessions::Most;
use highwater_redis::acl::Access;
use highwater_redis::acl::change::Provided;
use highwater_redis::host::Watch;
use highwater_redis::settings::Settings;
use highwater_redis::topology::apart;
use highwater_redis::waiting::Wake;
use highwater_redis::{Callables, Clients, Description, Door, Member, Procedures, Topology, Waiting};

use crate::admin::http::guard::Guard;
use crate::clock::{monotonic, unix_ms};
use crate::config::{Config, ConfigError, Io};
use crate::desk::Desk;
use crate::shared::Shared;
use crate::transport::frame::MAX_RETIRED_BYTES;
use crate::transport::link::LinkLimits;
use crate::uring::{self, Ring};
use crate::worker;

/// What clients may do. Of the memory for buffers requests and replies get three eighths each, if they are not set to
/// less.
pub(super) fn rules(config: &Config, buffers: u64, clients: usize) -> worker::Rules {
    let limits = &config.limits;
    let share = share_of(buffers, 3, 8, config.cluster.workers.into());
    worker::Rules {
        max: clients,
        limits: worker::Limits {
            requests: limits.request_bytes_per_worker.min(share),
            replies: limits.reply_bytes_per_worker.min(share),
        },
        idle_timeout: limits.idle_timeout_s * 1_000_000_000,
        stuck_timeout: limits.stuck_timeout_s * 1_000_000_000,
    }
}

/// What one connection to another node may hold. What is kept for reuse gets an eighth of the memory for buffers, over all
/// of them.
pub(super) fn link_limits(config: &Config, options: &highwater_seam::Options, buffers: u64) -> LinkLimits {
    let connections =
        config.cluster.nodes.len().saturating_sub(1).max(1) * usize::from(config.cluster.workers);
    LinkLimits {
        // Less would cut connections for what the engine may rightly have under way.
        queued: config.limits.send_queue_bytes.max(options.most_queued_bytes()),
        kept: share_of(buffers, 1, 8, connections).min(MAX_RETIRED_BYTES),
        workers: config.cluster.workers,
    }
}

/// An even part of so many eighths, say, of the memory for buffers; all there is if that has no limit.
pub(super) fn share_of(buffers: u64, of: u64, parts: u64, among: usize) -> usize {
    if buffers == 0 { usize::MAX } else { (buffers * of / parts) as usize / among }
}

/// A ring for the clients of each worker; none at all if their sockets are to be with epoll.
///
/// # Errors
/// A ring was demanded, and the kernel refuses it.
pub(super) fn rings(config: &Config, workers: usize) -> Result<Vec<Ring>, ConfigError> {
    if config.tls.resp {
        tracing::info!("clients' sockets: epoll, because they speak TLS");
        return Ok(Vec::new());
    }
    if config.server.io == Io::Epoll {
        tracing::info!("clients' sockets: epoll, as server.io says");
        return Ok(Vec::new());
    }
    match uring::rings(workers) {
        Ok(rings) => {
            tracing::info!("clients' sockets: io_uring");
            Ok(rings)
        }
        Err(why) if config.server.io == Io::Auto => {
            tracing::info!("clients' sockets: epoll, because {why}");
            Ok(Vec::new())
        }
        Err(why) => Err(ConfigError(format!(
            "server.io is \"uring\", but {why}. Say \"auto\" or \"epoll\", or allow the process io_uring (docs/configuration.md)"
        ))),
    }
}

/// Who is let in at the admin port, before there is a node and when there is.
pub(super) fn guard(config: &Config, shared: Option<&Arc<Shared>>) -> Result<Arc<Guard>, ConfigError> {
    let token = config.admin_token()?;
    let founders: Vec<String> = config.cluster.nodes.iter().map(|node| node.admin.clone()).collect();
    let shared = shared.map(Arc::downgrade);
    let admins = move || match shared.as_ref().and_then(std::sync::Weak::upgrade) {
        Some(shared) => shared.roster.nodes().into_iter().map(|node| node.admin).collect(),
        None => founders.clone(),
    };
    let token = token.as_ref().map(|token| token.0.as_str());
    Ok(Arc::new(Guard::new(token, &config.admin.hosts, admins)))
}

/// What the requests of a worker's clients are measured by.
pub(super) fn watch(shared: &Shared, door: &Door, worker: usize) -> Watch {
    Watch {
        worker: worker as u16,
        meter: shared.meters[worker].clone(),
        slow: shared.slow.clone(),
        stopwatch: shared.stopwatch,
        unix_ms,
        procedures: door.procedures,
        names: shared.procedures.clone(),
    }
}

pub(super) fn door(
    config: &Config,
    incarnation: Incarnation,
    shared: &Arc<Shared>,
    callables: Callables,
    provided: Provided,
    salt: u64,
) -> Door {
    let describe = {
        let shared = Arc::downgrade(shared);
        move || {
            let shared = shared.upgrade().expect("clients are served while the node runs");
            let summary = shared.summary();
            Description {
                service: summary.service,
                role: summary.role,
                epoch: summary.epoch,
                ask: summary.ask,
                uptime_s: (monotonic() - shared.started) / 1_000_000_000,
                connected_clients: shared.clients(),
                memory: summary.memory,
            }
        }
    };
    Door {
        procedures: Procedures::find(&shared.procedures)
            .expect("the library registers the door's procedures"),
        callables,
        node: shared.node,
        leaderless: config.engine().is_ok_and(|engine| engine.abilities().leaderless),
        sessions: Most { of_all: config.limits.sessions, of_each: config.limits.sessions_per_user },
        salt,
        run_id: incarnation.0,
        addresses: {
            let shared = Arc::downgrade(shared);
            Box::new(move |node| shared.upgrade()?.roster.node(node).map(|node| node.told()))
        },
        redirect: config.server.redirect,
        topology: {
            let (shared, cluster) = (Arc::downgrade(shared), config.cluster.id.clone());
            Box::new(move || {
                shared.upgrade().map_or_else(Topology::default, |shared| topology(&cluster, &shared))
            })
        },
        describe: Box::new(describe),
        access: {
            let shared = Arc::downgrade(shared);
            let wake = move || shared.upgrade().iter().for_each(|shared| shared.wake_workers());
            Access::new(provided, Box::new(wake))
        },
        entropy: Box::new(|bytes| getrandom::fill(bytes).is_ok()),
        bookmarks: Default::default(),
        settings: Settings::default(),
        operations: Box::new(Desk::new(config, shared)),
        backed_by: config.cluster.nodes.len() as u64 / 2,
        waiting: Waiting::new(wake(shared)),
        clients: Arc::new(Clients::new(wake(shared))),
    }
}

/// Wakes a worker.
pub(super) fn wake(shared: &Arc<Shared>) -> Wake {
    let shared = Arc::downgrade(shared);
    Box::new(move |worker| {
        if let Some(letter_box) = shared.upgrade().as_ref().and_then(|shared| shared.workers.get(worker)) {
            letter_box.waker.wake();
        }
    })
}

/// The roster, and whom of it this node has a connection to.
pub(super) fn topology(cluster: &str, shared: &Shared) -> Topology {
    let up = shared.summary().up;
    let members = shared.roster.nodes().into_iter().map(|node| {
        let (host, port) = apart(&node.told());
        let id = NodeId(node.id);
        let up = id == shared.node || up.contains(&id);
        Member { node: id, host, port, peer_port: apart(&node.peer).1, up }
    });
    Topology { cluster: cluster.to_string(), members: members.collect() }
}
