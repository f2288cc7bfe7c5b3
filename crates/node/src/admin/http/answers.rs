//! What is on each page.

use serde::Serialize;
use serde_json::json;

use super::dashboard;
use super::guard::Guard;
use super::page::Page;
use super::response::{Answer, Status};
use crate::admin::metrics;
use crate::admin::protocol::{AdminRequest, AdminResponse, StatusReport};
use crate::config::NodeConfig;
use crate::shared::Shared;

/// What the control thread has to be asked for a page; `None`: it is shown without.
pub fn request(page: Page, shared: &Shared) -> Option<AdminRequest> {
    match page {
        // A leader need not find out how fresh it is.
        Page::Ready { .. } if shared.engine.abilities().freshness && !shared.summary().leads() => {
            Some(AdminRequest::Freshness)
        }
        Page::Health | Page::Ready { .. } | Page::Metrics | Page::Status => Some(AdminRequest::Status),
        Page::Dashboard | Page::Cluster | Page::Events | Page::Slow | Page::HotKeys | Page::Admin => None,
    }
}

/// A page for which nobody has to be asked.
pub fn at_once(page: Page, shared: &Shared, guard: &Guard) -> Answer {
    match page {
        Page::Dashboard => dashboard::answer(&guard.admins()),
        Page::Cluster => Answer::json(Status::Ok, &Cluster::of(shared)),
        Page::Events => Answer::json(Status::Ok, &shared.events.all()),
        Page::Slow => Answer::json(Status::Ok, &shared.slow.latest(usize::MAX)),
        Page::HotKeys => Answer::json(Status::Ok, &shared.hot_keys()),
        Page::Health | Page::Ready { .. } | Page::Metrics | Page::Status | Page::Admin => {
            unavailable("only the control thread knows")
        }
    }
}

/// A request of the line protocol that needs no control thread.
pub fn known(request: &AdminRequest, shared: &Shared) -> Option<AdminResponse> {
    match request {
        AdminRequest::Slow => Some(AdminResponse::Slow { slow: shared.slow.latest(usize::MAX) }),
        AdminRequest::Events => Some(AdminResponse::Events { events: shared.events.all() }),
        AdminRequest::HotKeys { reset } => {
            let keys = shared.hot_keys();
            if *reset {
                shared.reset_hot_keys();
            }
            Some(AdminResponse::HotKeys { keys })
        }
        _ => None,
    }
}

/// A page, now that the control thread has answered.
pub fn of_page(page: Page, response: &AdminResponse, shared: &Shared) -> Answer {
    let AdminResponse::Status(report) = response else { return of_request(response) };
    match page {
        Page::Ready { max_lag_ms, leader } => ready(report, max_lag_ms, leader),
        Page::Metrics => metrics::answer(report, shared),
        _ => Answer::json(Status::Ok, report),
    }
}

/// A response of the line protocol.
pub fn of_request(response: &AdminResponse) -> Answer {
    let status = match response {
        AdminResponse::Error { .. } => Status::BadRequest,
        AdminResponse::Starting { .. } => Status::Unavailable,
        _ => Status::Ok,
    };
    Answer::json(status, response)
}

/// The control thread turns; a worker may not.
pub fn health(stuck: Option<usize>) -> Answer {
    match stuck {
        None => Answer::json(Status::Ok, &json!({ "healthy": true })),
        Some(worker) => {
            let why = format!("worker {worker} does not turn");
            Answer::json(Status::Unavailable, &json!({ "healthy": false, "reason": why }))
        }
    }
}

/// The node cannot show that.
pub fn unavailable(why: &str) -> Answer {
    Answer::error(Status::Unavailable, why)
}

/// A page of a node that starts: it lives, and is ready for nothing.
pub fn while_starting(page: Page, doing: &str) -> Answer {
    match page {
        Page::Health => Answer::json(Status::Ok, &json!({ "healthy": true, "starting": doing })),
        Page::Ready { .. } => not_ready("starting", format!("it is starting: {doing}")),
        Page::Dashboard => dashboard::answer(&[]),
        _ => starting(doing),
    }
}

/// Whatever else it is asked.
pub fn starting(doing: &str) -> Answer {
    of_request(&AdminResponse::Starting { doing: doing.into() })
}

fn ready(report: &StatusReport, max_lag_ms: u64, leader: bool) -> Answer {
    match readiness(report, max_lag_ms, leader) {
        Ok(()) => {
            Answer::json(Status::Ok, &json!({ "ready": true, "role": report.role, "lag_ms": lag_ms(report) }))
        }
        Err(why) => not_ready(&report.role, why),
    }
}

fn not_ready(role: &str, why: String) -> Answer {
    Answer::json(Status::Unavailable, &json!({ "ready": false, "role": role, "reason": why }))
}

/// By how much what a follower shows is behind whoever serves: as far as it could prove, or since when it heard of it.
fn lag_ms(report: &StatusReport) -> Option<u64> {
    if report.serves() { Some(0) } else { report.freshness_ms.or(report.leader_silent_ms) }
}

/// Whether a node does what its role asks; why not.
fn readiness(report: &StatusReport, max_lag_ms: u64, leader: bool) -> Result<(), String> {
    if let Some(trouble) = &report.trouble {
        return Err(trouble.clone());
    }
    if report.serves() {
        return Ok(());
    }
    if leader {
        return Err(match report.leader {
            Some(node) => format!("node {node} leads"),
            None => "nobody is known to lead".into(),
        });
    }
    if report.service != "standby" {
        return Err(format!("it is {}", report.service));
    }
    match lag_ms(report) {
        None => Err("it has not heard of whoever leads".into()),
        Some(lag) if lag > max_lag_ms => {
            Err(format!("what it shows is {lag} ms behind; max_lag_ms is {max_lag_ms}"))
        }
        Some(_) => Ok(()),
    }
}

#[derive(Serialize)]
struct Cluster {
    /// Whom was asked.
    node: u8,
    engine: &'static str,
    nodes: Vec<NodeConfig>,
    removed: Vec<u8>,
}

impl Cluster {
    fn of(shared: &Shared) -> Cluster {
        Cluster {
            node: shared.node.0,
            engine: shared.engine.name(),
            nodes: shared.roster.nodes(),
            removed: shared.roster.removed().into_iter().map(|node| node.0).collect(),
        }
    }
}
