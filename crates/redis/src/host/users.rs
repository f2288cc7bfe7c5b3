//! Has this node's users follow the table: the first worker reads it, and each worker waits with what is on data for what has to
//! be known first. [`crate::acl`] says the whole of it.

use std::sync::Arc;

use highwater_core::{Outcome, ProcedureId, planted};
use highwater_seam::{Nanos, Refusal, Request, Worker};

use super::token::{Owner, keeper, pack};
use crate::acl::access::Confirmation;
use crate::acl::change::{self, News};
use crate::{Door, acl};

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
    /// There is no room for the users that the configuration adds to the table. Whoever waits is let in by what is there, and by the
    /// configuration; they are written when there is room.
    owes: bool,
    args: Vec<u8>,
}

#[derive(Clone, Copy)]
enum Reading {
    /// On a snapshot of a node that does not serve.
    Snapshot,
    /// In a transaction of a node that serves, which adds the configuration's users, or only reads.
    Confirming(Confirmation, Adds),
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Adds {
    Users,
    Nothing,
}

impl Users {
    /// Nothing was read yet.
    pub fn new(door: Arc<Door>) -> Users {
        Users { door, tried: 0, next: Some(0), reading: None, owes: false, args: Vec::new() }
    }

    /// Reads if it is time, or if somebody waits for it.
    pub fn turn(&mut self, now: Nanos, engine: &mut dyn Worker) {
        let access = &self.door.access;
        if self.reading.is_some() {
            return;
        }
        let serves = serves(engine);
        let waited_for = !access.is_known() || serves && access.lacks_confirmation();
        let pause = match (serves, waited_for) {
            (true, true) => Some(SOON),
            (false, true) => Some(LATER),
            // Of an engine with a leader nobody else changes anything while this node serves.
            (true, false) if !self.door.leaderless && !self.owes => None,
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
        let token = pack(Owner::Keeper, keeper::USERS, 0);
        let taken = if serves {
            let adds = if self.owes && waited_for { Adds::Nothing } else { Adds::Users };
            match adds {
                Adds::Users => change::provide(known, access.provided(), &mut self.args),
                Adds::Nothing => change::read(known, &mut self.args),
            }
            let confirmation = access.begin_confirmation();
            self.reading = Some(Reading::Confirming(confirmation, adds));
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
        if let Reading::Confirming(_, Adds::Users) = reading {
            self.note_room(outcome);
        }
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
        if let Reading::Confirming(confirmation, _) = reading {
            access.confirm(confirmation);
        }
    }

    /// The users of the configuration were to be written. A disk or a memory that is full keeps nobody from reading.
    fn note_room(&mut self, outcome: Outcome) {
        let owes = matches!(outcome, Outcome::DiskFull | Outcome::OutOfMemory | Outcome::TooLarge);
        if owes && !self.owes {
            tracing::warn!(
                "users of the configuration that are new to this cluster cannot be written: {outcome:?}; they count on nodes that have them in \
                 their configuration, and are written when there is room"
            );
        }
        self.owes = owes || self.owes && outcome != Outcome::Committed;
    }

    /// When it wants a turn.
    pub fn next(&self) -> Option<Nanos> {
        self.next.filter(|_| self.reading.is_none())
    }
}

/// An engine's answer to whoever asks who serves. While its replica waits for another one to serve, that is nobody who is known.
///
/// Invariant: between two leads of a replica each worker's engine has a turn in which it does not lead, and its host looks before each
/// turn. So it sees [`NotServing`](Refusal::NotServing) at least once, and takes nothing that was known in one lead for known in the next.
pub fn standing(engine: &dyn Worker) -> Result<(), Refusal> {
    match engine.ready() {
        Err(Refusal::Busy) if engine.waits_for_leader() => Err(Refusal::NotServing { ask: None }),
        ready => ready,
    }
}

/// Whether a replica takes transactions, if not at this moment.
pub fn serves(engine: &dyn Worker) -> bool {
    matches!(standing(engine), Ok(()) | Err(Refusal::Busy))
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
    /// The order for now, in front of this engine. Who waits until it is known who serves is not refused, though nobody knows its users here.
    pub fn watch(&mut self, access: &acl::Access, engine: &dyn Worker) -> Gate {
        match self.look(access, standing(engine)) {
            Gate::Refuses(_) if engine.waits_for_leader() => Gate::Waits,
            gate => gate,
        }
    }

    fn look(&mut self, access: &acl::Access, ready: Result<(), Refusal>) -> Gate {
        match ready {
            Ok(()) | Err(Refusal::Busy) => {
                if !std::mem::replace(&mut self.serves, true) {
                    self.waits_for = access.want_confirmation();
                }
                let confirmed = access.has_confirmation(self.waits_for) || planted!(UsersUnread);
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
    use highwater_core::{Incarnation, Levels, NodeId};
    use highwater_seam::{Endpoint, Frame, Next, Outbox, Taken};

    use super::*;
    use crate::Procedures;
    use crate::acl::Access;

    const PROCEDURES: Procedures = Procedures {
        exec: ProcedureId(0),
        watch: ProcedureId(1),
        users: ProcedureId(2),
        interact: ProcedureId(3),
    };
    const ELSEWHERE: Refusal = Refusal::NotServing { ask: None };

    fn read(access: &Access) {
        access.install(&News { whole: true, ..News::default() });
    }

    /// Serves, and notes what it is asked.
    #[derive(Default)]
    struct Serves(Vec<u8>);

    /// Waits until it is known who serves.
    struct Waiting;

    impl Worker for Waiting {
        fn ready(&self) -> Result<(), Refusal> {
            Err(Refusal::Busy)
        }

        fn waits_for_leader(&self) -> bool {
            true
        }

        fn submit(&mut self, _: Nanos, _: Request<'_>) -> Result<Taken, Refusal> {
            Err(Refusal::Busy)
        }

        fn peer_up(&mut self, _: Nanos, _: NodeId, _: Incarnation, _: Levels) {}
        fn peer_down(&mut self, _: Nanos, _: NodeId) {}
        fn deliver(&mut self, _: Nanos, _: Endpoint, _: Frame) {}
        fn turn(&mut self, _: Nanos, _: &mut Outbox) -> Next {
            Next::Idle
        }
        fn describe(&self) -> String {
            String::new()
        }
    }

    impl Worker for Serves {
        fn ready(&self) -> Result<(), Refusal> {
            Ok(())
        }

        fn submit(&mut self, _: Nanos, request: Request<'_>) -> Result<Taken, Refusal> {
            self.0 = request.args.to_vec();
            Ok(Taken::Placed)
        }

        fn peer_up(&mut self, _: Nanos, _: NodeId, _: Incarnation, _: Levels) {}
        fn peer_down(&mut self, _: Nanos, _: NodeId) {}
        fn deliver(&mut self, _: Nanos, _: Endpoint, _: Frame) {}
        fn turn(&mut self, _: Nanos, _: &mut Outbox) -> Next {
            Next::Idle
        }
        fn describe(&self) -> String {
            String::new()
        }
    }

    /// A line more in `auth.users_file`, and a full disk: the leader tried to write the user for ever, and answered nobody, not even those
    /// that read.
    #[test]
    fn a_user_for_whom_there_is_no_room_keeps_nobody_waiting() {
        for outcome in [Outcome::DiskFull, Outcome::OutOfMemory, Outcome::TooLarge] {
            let door = Arc::new(Door::bare(PROCEDURES));
            let (mut users, mut engine) = (Users::new(door.clone()), Serves::default());
            let (mut adds, mut reads, mut now) = (Vec::new(), Vec::new(), EVERY);
            change::provide(door.access.changes(), door.access.provided(), &mut adds);
            change::read(door.access.changes(), &mut reads);
            let wanted = door.access.want_confirmation();
            users.turn(now, &mut engine);
            assert_eq!(engine.0, adds, "the configuration's users are added");
            users.released(now, outcome, &[]);
            assert!(!door.access.has_confirmation(wanted));
            now += SOON;
            users.turn(now, &mut engine);
            assert_eq!(engine.0, reads, "{outcome:?}: this needs no room");
            let mut news = Vec::new();
            News { whole: true, ..News::default() }.encode(&mut news);
            users.released(now, Outcome::Committed, &news);
            assert!(door.access.has_confirmation(wanted), "{outcome:?}: who waited goes on");
            // They are not forgotten, and nothing is tried once a millisecond.
            engine.0.clear();
            users.turn(now + SOON, &mut engine);
            assert_eq!((&engine.0[..], users.next()), (&[][..], Some(now + EVERY)));
            (now, engine.0) = (now + EVERY, Vec::new());
            users.turn(now, &mut engine);
            assert_eq!(engine.0[0], adds[0], "{outcome:?}: they are added when there is room");
            users.released(now, Outcome::Committed, &news);
            users.turn(now + EVERY, &mut engine);
            assert_eq!(users.next(), None, "{outcome:?}: and that is all");
        }
    }

    /// While the lead is handed over requests wait, which looked as if the node served: what was confirmed before it gave the lead away
    /// counted when it got the lead back, and a user was let in who had been removed meanwhile.
    #[test]
    fn a_lead_that_went_and_came_back_is_another_one() {
        let access = Access::new(Vec::new(), Box::new(|| ()));
        let (mut gatekeeper, mut engine) = (Gatekeeper::default(), Serves::default());
        assert_eq!(gatekeeper.watch(&access, &Waiting), Gate::Waits, "nothing is known of its users");
        read(&access);
        assert_eq!(gatekeeper.watch(&access, &engine), Gate::Waits);
        let confirmation = access.begin_confirmation();
        access.confirm(confirmation);
        assert_eq!(gatekeeper.watch(&access, &engine), Gate::Open);
        // Handed over, and back: the engine never said that it does not serve.
        assert_eq!(Waiting.ready(), Err(Refusal::Busy));
        gatekeeper.watch(&access, &Waiting);
        assert_eq!(gatekeeper.watch(&access, &engine), Gate::Waits, "the users may be others by now");
        // Nor is anything confirmed by a node that waits.
        let door = Arc::new(Door::bare(PROCEDURES));
        let mut users = Users::new(door.clone());
        door.access.want_confirmation();
        users.turn(EVERY, &mut Waiting);
        users.turn(2 * EVERY, &mut engine);
        assert!(!engine.0.is_empty(), "it tries again when it serves");
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
