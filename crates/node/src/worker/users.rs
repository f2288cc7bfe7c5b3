//! Has this node's users follow the table: the first worker reads it, and each worker waits with what is on data for what has to
//! be known first. [`acl`](crate::resp::acl) tells the whole of it.

use std::sync::Arc;

use highwater_core::{Outcome, ProcedureId};
use highwater_engines::{Nanos, Refusal, Request, Worker};

use crate::resp::acl::access::Confirmation;
use crate::resp::acl::change::{self, News};
use crate::resp::{Door, acl};
use crate::token::{Owner, pack};

/// The slot of its tokens.
pub const SLOT: usize = 2;
/// How often to look whether the table was changed elsewhere.
const EVERY: Nanos = 1_000_000_000;
/// After a try that came to nothing, while clients wait for it.
const SOON: Nanos = 1_000_000;
/// The same of a node that does not serve.
const LATER: Nanos = 20_000_000;

/// The reader of the table.
pub struct Users {
    door: Arc<Door>,
    /// When it tried last.
    tried: Nanos,
    /// When to try next.
    next: Option<Nanos>,
    /// What is being read.
    reading: Option<Reading>,
    args: Vec<u8>,
}

#[derive(Clone, Copy)]
enum Reading {
    /// On a snapshot of a node that does not serve.
    Snapshot,
    /// In a transaction of a node that serves.
    Confirming(Confirmation),
}

impl Users {
    /// Nothing was read yet.
    pub fn new(door: Arc<Door>) -> Users {
        Users { door, tried: 0, next: Some(0), reading: None, args: Vec::new() }
    }

    /// Reads if it is time, or if somebody waits for it.
    pub fn turn(&mut self, now: Nanos, engine: &mut dyn Worker) {
        let access = &self.door.access;
        if self.reading.is_some() {
            return;
        }
        let serves = serves(engine.ready());
        let waited_for = !access.is_known() || serves && access.lacks_confirmation();
        let pause = match (serves, waited_for) {
            (true, true) => Some(SOON),
            (false, true) => Some(LATER),
            // Of an engine with a leader nobody else changes anything while this node serves.
            (true, false) if !self.door.leaderless => None,
            (_, false) => Some(EVERY),
        };
        self.next = pause.map(|pause| self.tried + pause);
        if self.next.is_none_or(|next| now < next) {
            return;
        }
        self.tried = now;
        self.next = pause.map(|pause| now + pause);
        let known = access.changes();
        let users: ProcedureId = self.door.procedures.users;
        let token = pack(Owner::Keeper, SLOT, 0);
        let taken = if serves {
            change::provide(known, access.provided(), &mut self.args);
            let confirmation = access.begin_confirmation();
            self.reading = Some(Reading::Confirming(confirmation));
            engine.submit(now, Request::new(token, users, &self.args))
        } else {
            change::read(known, &mut self.args);
            self.reading = Some(Reading::Snapshot);
            engine.submit_snapshot(now, Request::new(token, users, &self.args))
        };
        if taken.is_err() {
            self.reading = None;
        }
    }

    /// What was read is released.
    pub fn released(&mut self, now: Nanos, outcome: Outcome, reply: &[u8]) {
        let Some(reading) = self.reading.take() else { return };
        let access = &self.door.access;
        let news = News::decode(reply).ok().filter(|_| outcome == Outcome::Committed);
        let Some(news) = news else {
            self.next = Some(now + SOON);
            return;
        };
        if !news.told.is_empty() {
            tracing::error!("users of the configuration: {}", String::from_utf8_lossy(news.told).trim());
        }
        access.install(&news);
        if let Reading::Confirming(confirmation) = reading {
            access.confirm(confirmation);
        }
    }

    /// When it wants a turn.
    pub fn next(&self) -> Option<Nanos> {
        self.next.filter(|_| self.reading.is_none())
    }
}

/// Whether a replica that answers so takes transactions, if not at this moment.
fn serves(ready: Result<(), Refusal>) -> bool {
    matches!(ready, Ok(()) | Err(Refusal::Busy))
}

/// What a worker does with requests on data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gate {
    /// Hands them to the engine.
    Open,
    /// Leaves them where they are: who may ask them is not known yet.
    Waits,
    /// Refuses them: this node does not serve, and has not read yet who its users are.
    Refuses(Refusal),
}

/// A worker's part: until the table was read after its replica began to serve, it waits.
#[derive(Debug, Default)]
pub struct Gatekeeper {
    serves: bool,
    waits_for: Confirmation,
}

impl Gatekeeper {
    /// What to do now.
    pub fn look(&mut self, access: &acl::Access, ready: Result<(), Refusal>) -> Gate {
        match ready {
            Ok(()) | Err(Refusal::Busy) => {
                if !std::mem::replace(&mut self.serves, true) {
                    self.waits_for = access.want_confirmation();
                }
                let confirmed = access.has_confirmation(self.waits_for);
                if confirmed { Gate::Open } else { Gate::Waits }
            }
            Err(refusal) => {
                if matches!(refusal, Refusal::NotServing { .. }) {
                    self.serves = false;
                }
                // Of a node that does not serve nothing is lost by it: it refuses all but reads on a snapshot itself.
                if access.is_known() { Gate::Open } else { Gate::Refuses(refusal) }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::resp::acl::Access;

    const ELSEWHERE: Refusal = Refusal::NotServing { ask: None };

    fn read(access: &Access) {
        access.install(&News { whole: true, ..News::default() });
    }

    #[test]
    fn who_begins_to_serve_waits_until_the_users_were_read() {
        let access = Access::new(Vec::new(), Box::new(|| ()));
        let mut gatekeeper = Gatekeeper::default();
        assert_eq!(gatekeeper.look(&access, Err(ELSEWHERE)), Gate::Refuses(ELSEWHERE));
        read(&access);
        assert_eq!(gatekeeper.look(&access, Err(ELSEWHERE)), Gate::Open);
        assert!(!access.lacks_confirmation());
        for _lead in 0..2 {
            // What was read before is not enough, though it was while somebody served here.
            let earlier = access.begin_confirmation();
            assert_eq!(gatekeeper.look(&access, Ok(())), Gate::Waits);
            access.confirm(earlier);
            assert_eq!(gatekeeper.look(&access, Err(Refusal::Busy)), Gate::Waits);
            assert!(access.lacks_confirmation());
            let confirmation = access.begin_confirmation();
            access.confirm(confirmation);
            assert_eq!(gatekeeper.look(&access, Ok(())), Gate::Open);
            assert!(!access.lacks_confirmation());
            // Who hears no majority for a while has not lost anything.
            assert_eq!(gatekeeper.look(&access, Err(Refusal::NoQuorum)), Gate::Open);
            assert_eq!(gatekeeper.look(&access, Ok(())), Gate::Open);
            assert_eq!(gatekeeper.look(&access, Err(ELSEWHERE)), Gate::Open);
        }
    }
}
