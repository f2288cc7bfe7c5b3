//! The things that a worker keeps up beside its clients' requests. All keepers have one shape: [a slot](highwater_redis::host::token::keeper) among the
//! tokens of the node itself, a turn in which they may submit a request, and the release of it.

use highwater_core::Outcome;
use highwater_redis::Door;
use highwater_redis::host::token::keeper;
use highwater_redis::host::{Expiry, Modules, Sessions, Users};
use highwater_redis::meter::{self, Meter};
use highwater_redis::moment::Moment;
use highwater_seam::{Nanos, Worker};

use crate::clock::unix_ms;

/// The things that keepers are handed.
pub struct Desk<'a> {
    pub now: Nanos,
    pub door: &'a Door,
    /// This worker's counters.
    pub meter: &'a Meter,
}

/// A worker's keepers. One worker of a node has each; [`Locals`](super::locals::Locals), which every worker has, stand beside them.
#[derive(Default)]
pub struct Keepers {
    /// Has sessions end.
    pub sessions: Option<Sessions>,
    /// Has expired keys removed.
    pub expiry: Option<Expiry>,
    /// Has the node's users follow the table.
    pub users: Option<Users>,
    /// Has the modules compiled that others loaded.
    pub modules: Option<Modules>,
}

// No trait objects: a client's single request is a turn, and most turns find no keeper here.
impl Keepers {
    /// Gives each a turn, in front of a load's requests: with one that fills the engine, the last one to ask would never find room.
    pub fn turn(&mut self, desk: &Desk<'_>, engine: &mut dyn Worker) {
        let now = desk.now;
        if let Some(sessions) = &mut self.sessions {
            sessions.turn(now, engine);
        }
        if let Some(expiry) = &mut self.expiry {
            let moment = || Moment { unix_ms: unix_ms(), seed: getrandom::u64().unwrap_or_default() };
            expiry.turn(now, desk.door.settings.expires_actively(), moment, engine);
        }
        if let Some(users) = &mut self.users {
            users.turn(now, engine);
        }
        if let Some(modules) = &mut self.modules {
            modules.turn(now, unix_ms, engine);
        }
    }

    /// Tells whoever has this slot that its request is released; false: no keeper is here that has it.
    pub fn released(&mut self, desk: &Desk<'_>, slot: usize, outcome: Outcome, reply: &[u8]) -> bool {
        let now = desk.now;
        match (slot, self) {
            (keeper::SESSIONS, Keepers { sessions: Some(sessions), .. }) => {
                sessions.released(now, outcome, reply);
            }
            (keeper::EXPIRY, Keepers { expiry: Some(expiry), .. }) => {
                let expired = expiry.released(now, unix_ms(), outcome, reply);
                meter::add(&desk.meter.expired, expired);
            }
            (keeper::USERS, Keepers { users: Some(users), .. }) => users.released(now, outcome, reply),
            (keeper::MODULES, Keepers { modules: Some(modules), .. }) => {
                modules.released(now, outcome, reply);
            }
            _ => return false,
        }
        true
    }

    /// When the next of them wants a turn.
    pub fn next(&self) -> Option<Nanos> {
        let Keepers { sessions, expiry, users, modules } = self;
        let next = [
            sessions.as_ref().and_then(Sessions::next),
            expiry.as_ref().and_then(Expiry::next),
            users.as_ref().and_then(Users::next),
            modules.as_ref().and_then(Modules::next),
        ];
        next.into_iter().flatten().min()
    }
}
