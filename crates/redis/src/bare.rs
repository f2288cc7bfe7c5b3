//! A door with nothing behind it.

use std::sync::Arc;

use highwater_core::{Epoch, NodeId};
use highwater_kit::sessions::Most;
use highwater_seam::Service;

use super::acl::Access;
use super::operations::Nothing;
use super::{Callables, Clients, Description, Door, Procedures, Redirect, Waiting};

impl Door {
    /// A door of a node that leads, knows of no other nodes and of no users, and keeps nothing. Simulated nodes and tests begin with it.
    pub fn bare(procedures: Procedures) -> Door {
        Door {
            procedures,
            callables: Callables::default(),
            node: NodeId(0),
            leaderless: false,
            sessions: Most { of_all: 0, of_each: 0 },
            salt: 1,
            run_id: 1,
            addresses: Box::new(|_| None),
            clients: Arc::new(Clients::new(Box::new(|_| ()))),
            redirect: Redirect::Text,
            topology: Box::new(Default::default),
            backed_by: 1,
            waiting: Waiting::new(Box::new(|_| ())),
            bookmarks: Default::default(),
            access: Access::new(Vec::new(), Box::new(|| ())),
            entropy: Box::new(|_| false),
            describe: Box::new(Description::of_a_leader),
            settings: Default::default(),
            operations: Box::new(Nothing),
        }
    }
}

impl Description {
    /// A node that leads, has just begun and holds nothing.
    pub fn of_a_leader() -> Description {
        Description {
            service: Service::Serving,
            role: "leader".into(),
            epoch: Epoch(1),
            ask: None,
            uptime_s: 0,
            connected_clients: 0,
            memory: (0, u64::MAX),
        }
    }
}
