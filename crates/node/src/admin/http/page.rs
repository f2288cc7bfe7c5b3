//! What can be asked for by HTTP.

/// A page, with what its query says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Page {
    /// `/`: the dashboard.
    Dashboard,
    /// `/healthz`: the threads turn.
    Health,
    /// `/readyz`: the node does what its role asks.
    Ready {
        /// How far a follower may be behind.
        max_lag_ms: u64,
        /// Only who leads is ready.
        leader: bool,
    },
    /// `/metrics`
    Metrics,
    /// `/status`
    Status,
    /// `/v1/cluster`: which nodes there are, and where.
    Cluster,
    /// `/v1/events`: changes of role and epoch.
    Events,
    /// `/v1/slow`: slow transactions.
    Slow,
    /// `/v1/hot-keys`: keys with conflicts.
    HotKeys,
    /// `/v1/admin`: a request of the line protocol.
    Admin,
}

/// How far a follower may be behind unless the query says.
pub const MAX_LAG_MS: u64 = 1000;

impl Page {
    /// The page at a path; `Err(None)`: there is none, or why its query makes no sense.
    pub fn find(path: &str, query: &str) -> Result<Page, Option<String>> {
        Ok(match path {
            "/" => Page::Dashboard,
            "/healthz" => Page::Health,
            "/readyz" => Page::ready(query).map_err(Some)?,
            "/metrics" => Page::Metrics,
            "/status" => Page::Status,
            "/v1/cluster" => Page::Cluster,
            "/v1/events" => Page::Events,
            "/v1/slow" => Page::Slow,
            "/v1/hot-keys" => Page::HotKeys,
            "/v1/admin" => Page::Admin,
            _ => return Err(None),
        })
    }

    fn ready(query: &str) -> Result<Page, String> {
        let (mut max_lag_ms, mut leader) = (MAX_LAG_MS, false);
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            match pair.split_once('=') {
                Some(("max_lag_ms", ms)) => {
                    max_lag_ms =
                        ms.parse().map_err(|_| "max_lag_ms is a number of milliseconds".to_string())?;
                }
                Some(("role", "leader")) => leader = true,
                Some(("role", "any")) => leader = false,
                _ => {
                    return Err(
                        "the query of /readyz is max_lag_ms=NUMBER and role=leader or role=any".into()
                    );
                }
            }
        }
        Ok(Page::Ready { max_lag_ms, leader })
    }

    /// Whether only who knows the token may see it. The dashboard holds nothing, and asks for the token itself.
    pub fn needs_token(self) -> bool {
        !matches!(self, Page::Dashboard | Page::Health | Page::Ready { .. })
    }
}
