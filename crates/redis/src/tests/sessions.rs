//! HW.SESSION HW.ONCE HW.OUTCOME, on an engine that keeps sessions.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use highwater_core::random::Random;
use highwater_core::{Clock, Incarnation, NodeId};
use highwater_engines::{EngineKind, build};
use highwater_kit::sessions::Most;
use highwater_seam::{Options, Outbox, Replica, Request, Token};

use super::WITH_WORKLOADS;
use super::double::wire;
use crate::acl::change::News;
use crate::{Allowance, Callables, Compiled, Connection, Door, Procedures};

/// One node, and any number of connections to it.
pub(super) struct Alone {
    replica: Replica,
    door: Arc<Door>,
}

impl Alone {
    pub(super) fn new() -> Alone {
        let options = Options::new(NodeId(0), 1, 1, Incarnation(1));
        let replica = build(EngineKind::Silo, options, &Compiled(WITH_WORKLOADS), Arc::new(Clock::counter()));
        let door = Door {
            callables: Callables::of(&replica.procedures, &replica.versions, &replica.signatures),
            sessions: Most { of_all: 3, of_each: 2 },
            salt: 5,
            run_id: 5,
            entropy: {
                let drawn = AtomicU64::new(0);
                Box::new(move |bytes| {
                    let chance = Random::new(drawn.fetch_add(1, Ordering::Relaxed)).bits().to_le_bytes();
                    bytes.iter_mut().zip(chance.iter().cycle()).for_each(|(byte, by)| *byte = *by);
                    true
                })
            },
            ..Door::bare(Procedures::find(&replica.procedures).unwrap())
        };
        Alone { replica, door: Arc::new(door) }
    }

    pub(super) fn connect(&self) -> Connection {
        Connection::new(1, self.door.clone(), super::double::START_MS)
    }

    /// The replies to commands, one after the other; line ends are spaces.
    pub(super) fn ask(&mut self, connection: &mut Connection, commands: &[&str]) -> String {
        for command in commands {
            connection.receive(&wire(command));
            while let Some(request) = connection.next(&mut { Allowance::WHOLE }) {
                let (seq, session) = (request.seq, request.session);
                let request =
                    Request { session, ..Request::new(Token(seq), request.procedure, request.args) };
                let taken = self.replica.workers[0].submit(1, request).unwrap();
                connection.submitted(seq, 0, taken);
                let mut out = Outbox::default();
                self.replica.workers[0].turn(1, &mut out);
                let reply = &out.replies[0];
                connection.released(seq, reply.outcome, reply.at, out.content(reply));
            }
        }
        let bytes = connection.output().to_vec();
        connection.wrote(bytes.len());
        String::from_utf8(bytes).unwrap().replace("\r\n", " ").trim_end().to_string()
    }

    pub(super) fn open(&mut self) -> u64 {
        let mut connection = self.connect();
        self.ask(&mut connection, &["HW.SESSION NEW"]).strip_prefix(':').unwrap().parse().unwrap()
    }
}

#[test]
fn a_command_runs_once_whoever_repeats_it() {
    let mut alone = Alone::new();
    let (mut one, mut other) = (alone.connect(), alone.connect());
    let id = alone.open();
    let increment = format!("HW.ONCE {id} 1 INCR a");
    assert_eq!(alone.ask(&mut one, &[&increment, "INCR a", &increment]), ":1 :2 :1");
    assert_eq!(alone.ask(&mut other, &[&increment]), ":1");
    assert_eq!(alone.ask(&mut other, &[&format!("hw.once {id} 2 get a"), "INCR a"]), "$1 2 :3");
    assert_eq!(
        alone.ask(&mut one, &["READONLY", &format!("HW.ONCE {id} 2 GET a")]),
        "+OK $1 2",
        "what it said then"
    );
    let stale = alone.ask(&mut one, &[&increment]);
    assert!(stale.starts_with("-STALE session "), "{stale}");
    let reused = alone.ask(&mut one, &[&format!("HW.ONCE {id} 2 INCR a")]);
    assert!(reused.starts_with("-REUSED "), "{reused}");
}

#[test]
fn a_block_runs_once() {
    let mut alone = Alone::new();
    let (mut one, id) = (alone.connect(), alone.open());
    let once = format!("HW.ONCE {id} 7");
    let block = ["MULTI", &once, "INCR a", "SET b x", "PING", "EXEC"];
    let wanted = "+OK +QUEUED +QUEUED +QUEUED +QUEUED *4 +OK :1 +OK +PONG";
    assert_eq!(alone.ask(&mut one, &block), wanted);
    assert_eq!(alone.ask(&mut one, &block), wanted);
    assert_eq!(alone.ask(&mut one, &["GET a"]), "$1 1");
    // Without data, too.
    let once = format!("HW.ONCE {id} 8");
    assert_eq!(alone.ask(&mut one, &["MULTI", &once, "PING", "EXEC"]), "+OK +QUEUED +QUEUED *2 +OK +PONG");
    let outcome = alone.ask(&mut one, &[&format!("HW.OUTCOME {id} 8")]);
    assert_eq!(outcome, "*2 $9 committed *2 +OK +PONG");
}

#[test]
fn an_outcome_can_be_asked_for() {
    let mut alone = Alone::new();
    let (mut one, mut other, id) = (alone.connect(), alone.connect(), alone.open());
    let outcome = |number: u64| format!("HW.OUTCOME {id} {number}");
    assert_eq!(alone.ask(&mut one, &[&outcome(1)]), "*2 $5 never $-1");
    let abandoned = alone.ask(&mut other, &[&format!("HW.ONCE {id} 1 INCR a"), "GET a"]);
    assert!(abandoned.starts_with("-ABANDONED ") && abandoned.ends_with(" $-1"), "{abandoned}");
    alone.ask(&mut one, &[&format!("HW.ONCE {id} 2 INCR a")]);
    assert_eq!(alone.ask(&mut other, &[&outcome(2), &outcome(2)]), "*2 $9 committed :1 *2 $9 committed :1");
    let stale = alone.ask(&mut one, &[&outcome(1)]);
    assert!(stale.starts_with("-STALE session "), "{stale}");
    // A block whose WATCH does not hold.
    alone.ask(&mut one, &["WATCH a"]);
    alone.ask(&mut other, &["INCR a"]);
    let exec = alone.ask(&mut one, &["MULTI", &format!("HW.ONCE {id} 3"), "INCR a", "EXEC"]);
    assert_eq!(exec, "+OK +QUEUED +QUEUED *-1");
    assert_eq!(alone.ask(&mut other, &[&outcome(3)]), "*2 $10 rolledback *-1");
    // More of an answer than is kept.
    let (long, longer) =
        (format!("SET long {}", "x".repeat(60_000)), format!("APPEND long {}", "x".repeat(5_600)));
    alone.ask(&mut one, &[&long, &longer]);
    let large = alone.ask(&mut one, &[&format!("HW.ONCE {id} 4 GET long")]);
    assert!(large.starts_with("-ERR too large") && large.contains("under a session 65536 bytes"), "{large}");
    assert_eq!(alone.ask(&mut one, &[&outcome(4)]), format!("*2 $6 failed {large}"));
}

#[test]
fn sessions_end_and_are_not_too_many() {
    let mut alone = Alone::new();
    let (mut one, ids) = (alone.connect(), [alone.open(), alone.open()]);
    assert_ne!(ids[0], ids[1]);
    let refused = alone.ask(&mut one, &["HW.SESSION NEW"]);
    assert!(refused.starts_with("-ERR too many sessions of this user"), "{refused}");
    let end = format!("HW.SESSION END {}", ids[0]);
    assert_eq!(alone.ask(&mut one, &[&end, &end]), ":1 :0");
    for late in [format!("HW.ONCE {} 1 INCR a", ids[0]), format!("HW.OUTCOME {} 1", ids[0])] {
        let late = alone.ask(&mut one, &[&late]);
        assert!(late.starts_with("-EXPIRED session "), "{late}");
    }
    assert!(!ids.contains(&alone.open()));
    assert_eq!(alone.ask(&mut one, &["GET a"]), "$-1");
}

/// Another user learns nothing of a session, does nothing to it, and cannot take all that may be open.
#[test]
fn sessions_belong_to_users() {
    let mut alone = Alone::new();
    // Nobody reads the table of users here: it is known to be empty.
    alone.door.access.install(&News { whole: true, ..News::default() });
    let (mut root, mut anna, mut bert) = (alone.connect(), alone.connect(), alone.connect());
    for name in ["anna", "bert"] {
        let user = format!("ACL SETUSER {name} on >pw ~* +@all");
        assert_eq!(alone.ask(&mut root, &[&user]), "+OK");
    }
    assert_eq!(alone.ask(&mut anna, &["AUTH anna pw"]), "+OK");
    assert_eq!(alone.ask(&mut bert, &["AUTH bert pw"]), "+OK");
    let id: u64 = alone.ask(&mut anna, &["HW.SESSION NEW"])[1..].parse().unwrap();
    assert_eq!(alone.ask(&mut anna, &[&format!("HW.ONCE {id} 1 SET a secret")]), "+OK");
    assert_eq!(alone.ask(&mut anna, &[&format!("HW.ONCE {id} 2 GET a")]), "$6 secret");
    let tries = |id: u64| {
        [
            format!("HW.OUTCOME {id} 2"),
            format!("HW.OUTCOME {id} 2 RAW"),
            format!("HW.OUTCOME {id} 9"),
            format!("HW.ONCE {id} 2 GET a"),
            format!("HW.ONCE {id} 1 GET a"),
            format!("HW.ONCE {id} 9 SET a x"),
            format!("HW.ONCE {id} 3 HW.CALL audit.noop"),
            format!("HW.SESSION END {id}"),
        ]
    };
    for stranger in [&mut bert, &mut root] {
        for (command, unknown) in tries(id).iter().zip(tries(id ^ 1)) {
            let told = alone.ask(stranger, &[command]).replace(&id.to_string(), "N");
            assert_eq!(told, alone.ask(stranger, &[&unknown]).replace(&(id ^ 1).to_string(), "N"));
            assert!(told.starts_with("-EXPIRED ") || told == ":0", "{command}: {told}");
        }
        let block = ["MULTI", &format!("HW.ONCE {id} 9"), "SET a x", "EXEC"];
        assert!(alone.ask(stranger, &block).contains("-EXPIRED "));
        let open = ["HW.BEGIN", "SET a x", &format!("HW.ONCE {id} 9 HW.COMMIT")];
        assert!(alone.ask(stranger, &open).contains("-EXPIRED "));
    }
    // It goes on, also over another connection of its user's.
    let mut other = alone.connect();
    alone.ask(&mut other, &["AUTH anna pw"]);
    assert_eq!(alone.ask(&mut other, &[&format!("HW.OUTCOME {id} 2")]), "*2 $9 committed $6 secret");
    assert_eq!(alone.ask(&mut other, &[&format!("HW.ONCE {id} 3 GET a")]), "$6 secret");
    // Two are a user's share of three.
    assert!(alone.ask(&mut anna, &["HW.SESSION NEW"]).starts_with(':'));
    let refused = alone.ask(&mut anna, &["HW.SESSION NEW"]);
    assert!(
        refused.starts_with("-ERR too many sessions of this user: limits.sessions_per_user is 2"),
        "{refused}"
    );
    assert!(alone.ask(&mut bert, &["HW.SESSION NEW"]).starts_with(':'));
    let refused = alone.ask(&mut bert, &["HW.SESSION NEW"]);
    assert!(refused.starts_with("-ERR too many sessions: limits.sessions is 3"), "{refused}");
    assert_eq!(alone.ask(&mut other, &[&format!("HW.SESSION END {id}"), "HW.SESSION NEW"])[..4], ":1 :"[..]);
}

#[test]
fn what_makes_no_sense_is_an_error_and_does_nothing() {
    let mut alone = Alone::new();
    let (mut one, id) = (alone.connect(), alone.open());
    for (command, wanted) in [
        (format!("HW.ONCE {id}"), "wrong number of arguments for 'hw.once'"),
        (format!("HW.ONCE {id} 1"), "wrong number of arguments for 'hw.once'"),
        (format!("HW.ONCE {id} 0 INCR a"), "not an integer"),
        (format!("HW.ONCE {id} -1 INCR a"), "not an integer"),
        (format!("HW.ONCE {id} 1 INCR"), "wrong number of arguments for 'incr'"),
        (format!("HW.ONCE {id} 1 NONSENSE a"), "unknown command 'NONSENSE'"),
        (format!("HW.ONCE {id} 1 PING"), "HW.ONCE runs commands on data"),
        (format!("HW.ONCE {id} 1 EXEC"), "HW.ONCE runs commands on data"),
        (format!("HW.ONCE {id} 1 HW.SESSION NEW"), "HW.ONCE runs commands on data"),
        (format!("HW.ONCE {id} 1 HW.ONCE {id} 1 INCR a"), "HW.ONCE runs commands on data"),
        ("HW.SESSION NEW 5 6".into(), "wrong number of arguments for 'hw.session|new'"),
        ("HW.SESSION OLD".into(), "unknown subcommand 'OLD'"),
    ] {
        let error = alone.ask(&mut one, &[&command]);
        assert!(error.starts_with("-ERR") && error.contains(wanted), "{command}: {error}");
    }
    // In a block, each refuses the block.
    for command in [
        format!("HW.ONCE {id} 1 INCR a"),
        "HW.SESSION NEW".into(),
        format!("HW.OUTCOME {id} 1"),
        format!("HW.ONCE {id} x"),
    ] {
        let error = alone.ask(&mut one, &["MULTI", &command, "EXEC"]);
        assert!(error.contains("-ERR") && error.contains("-EXECABORT"), "{command}: {error}");
    }
    let once = format!("HW.ONCE {id} 1");
    let twice = alone.ask(&mut one, &["MULTI", &once, &once, "EXEC", "GET a"]);
    assert!(
        twice.contains("-ERR a block runs under one number -EXECABORT") && twice.ends_with("$-1"),
        "{twice}"
    );
}
