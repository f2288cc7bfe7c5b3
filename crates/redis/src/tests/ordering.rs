//! Replies leave in the order of the commands, whatever the engine does; and how a conversation ends.

use highwater_core::{NodeId, Outcome};
use highwater_seam::Refusal;
use proptest::prelude::*;

use super::double::{Node, multibulk, wire};
use crate::connection::{Allowance, COMMAND_WORK, MAX_BACKLOG_BYTES, MAX_HELD_BYTES, MAX_IN_FLIGHT};

#[test]
fn a_local_reply_waits_for_those_in_front_of_it() {
    let mut client = Node::new().client();
    client.start(&["PING first", "SET a 1", "PING second", "GET a", "PING third"]);
    assert_eq!(client.output(), "$5\r\nfirst\r\n");
    client.release(1);
    assert_eq!(client.output(), "");
    client.release(0);
    assert_eq!(client.output(), "+OK\r\n$6\r\nsecond\r\n$1\r\n1\r\n$5\r\nthird\r\n");
    assert_eq!(client.ask("PING"), "+PONG\r\n");
}

#[test]
fn a_whole_transaction_is_one_request() {
    let mut client = Node::new().client();
    client.start(&["MULTI", "SET a 1", "INCR a", "EXEC", "GET a"]);
    assert_eq!(client.held.len(), 2);
    assert_eq!(client.output(), "+OK\r\n+QUEUED\r\n+QUEUED\r\n");
    client.release_all();
    assert_eq!(client.output(), "*2\r\n+OK\r\n:2\r\n$1\r\n2\r\n");
}

#[test]
fn a_busy_engine_gets_the_same_request_again() {
    let mut client = Node::new().client();
    client.connection.receive(&wire("SET a 1"));
    let first =
        client.connection.next(&mut { Allowance::WHOLE }).map(|request| (request.seq, request.args.to_vec()));
    client.connection.refused(first.as_ref().unwrap().0, Refusal::Busy);
    assert_eq!(
        client.connection.next(&mut { Allowance::WHOLE }).map(|request| (request.seq, request.args.to_vec())),
        first
    );
    assert_eq!(client.send(b""), "+OK\r\n");
}

#[test]
fn a_replica_that_does_not_lead_names_the_leader_and_still_talks() {
    let mut client = Node::that_serves(false).client();
    let elsewhere = Refusal::NotServing { ask: Some(NodeId(1)) };
    let error = "-NOTLEADER leader is node 1 at 10.0.0.2:6380\r\n";
    assert_eq!(client.ask_refused("GET a", elsewhere), error);
    assert_eq!(client.ask_refused("PING", elsewhere), "+PONG\r\n");
    assert!(client.ask_refused("HELLO", elsewhere).contains("role\r\n$7\r\nreplica\r\n"));
    let info = client.ask_refused("INFO", elsewhere);
    assert!(info.contains("role:slave\r\nhighwater_role:follower\r\nhighwater_service:standby\r\nepoch:3\r\nleader_node:1\r\n"), "{info}");
    assert!(info.contains("master_host:10.0.0.2\r\nmaster_port:6380\r\n"), "{info}");
    let own = client.ask_refused("INFO server nosuch", elsewhere);
    assert!(own.contains("# Server\r\n") && own.contains("node:0\r\n"), "{own}");
    assert!(own.contains("tcp_port:6379\r\nuptime_in_seconds:60\r\n") && !own.contains("# Repl"), "{own}");
    client.ask_refused("MULTI", elsewhere);
    client.ask_refused("SET a 1", elsewhere);
    assert_eq!(client.ask_refused("EXEC", elsewhere), error);
    let unknown = client.ask_refused("GET a", Refusal::NotServing { ask: None });
    assert_eq!(unknown, "-NOTLEADER no leader is known at the moment; nothing was done, retry later\r\n");
    let stranger = client.ask_refused("GET a", Refusal::NotServing { ask: Some(NodeId(9)) });
    assert_eq!(stranger, "-NOTLEADER leader is node 9 at an unknown address\r\n");
    let alone = client.ask_refused("GET a", Refusal::NoQuorum);
    assert_eq!(
        alone,
        "-NOQUORUM this node hears no majority or stands still; nothing was done, retry later\r\n"
    );
}

#[test]
fn a_leader_says_so() {
    let mut client = Node::new().client();
    let said = client.ask("INFO replication");
    let text = "# Replication\r\nrole:master\r\nhighwater_role:leader\r\nhighwater_service:serving\r\nepoch:3\r\nleader_node:1\r\n\
                leader_address:10.0.0.2:6380\r\nconnected_slaves:1\r\n";
    assert!(said.starts_with('$') && said.contains(text), "{said}");
    client.ask("HELLO 3");
    let verbatim = client.ask("info REPLICATION");
    assert!(verbatim.starts_with('=') && verbatim.contains(&format!("\r\ntxt:{text}")), "{verbatim}");
}

#[test]
fn what_became_of_a_lost_request_is_said_as_far_as_it_is_known() {
    let mut client = Node::new().client();
    client.start(&["SET a 1", "GET a"]);
    client.lose(1, Outcome::Conflict);
    client.lose(0, Outcome::Unknown);
    assert_eq!(
        client.output(),
        "-UNKNOWN outcome unknown: this node lost the lead, or its vote, before the result was safe; \
         it may or may not have been applied\r\n\
         -CONFLICT too many conflicting transactions; nothing was done, retry\r\n"
    );
}

#[test]
fn quit_answers_what_is_in_flight_and_nothing_behind_it() {
    let mut client = Node::new().client();
    client.start(&["SET a 1", "QUIT", "SET a 2"]);
    assert!(!client.connection.closing() && !client.connection.accepts_input());
    client.release_all();
    assert!(client.connection.closing());
    assert_eq!(client.output(), "+OK\r\n+OK\r\n");
    assert_eq!(client.send(b"PING\r\n"), "");
}

#[test]
fn broken_protocol_is_answered_in_its_place_and_ends_the_connection() {
    let mut client = Node::new().client();
    client.start(&["SET a 1"]);
    client.connection.receive(b"*1\r\nfoo\r\nPING\r\n");
    client.submit();
    client.release_all();
    assert_eq!(client.output(), "+OK\r\n-ERR Protocol error: expected '$', got 'f'\r\n");
    assert!(client.connection.closing());
}

#[test]
fn too_much_in_flight_waits() {
    let mut client = Node::new().client();
    for _ in 0..MAX_IN_FLIGHT + 5 {
        client.connection.receive(&wire("INCR n"));
    }
    assert_eq!(client.submit(), MAX_IN_FLIGHT);
    client.release(0);
    assert_eq!(client.submit(), 1);
    while !client.held.is_empty() {
        client.release_all();
        client.submit();
    }
    let wanted: String = (1..=MAX_IN_FLIGHT + 5).map(|n| format!(":{n}\r\n")).collect();
    assert_eq!(client.output(), wanted);
}

/// What is under way together may take effect in any order: a pipeline would read what it overwrote.
#[test]
fn where_requests_take_effect_in_any_order_a_connection_has_one_under_way() {
    let mut client = Node::leaderless().client();
    for command in ["SET n 1", "INCR n", "PING", "GET n"] {
        client.connection.receive(&wire(command));
    }
    for _ in 0..3 {
        assert_eq!(client.submit(), 1);
        client.release_all();
    }
    assert_eq!(client.submit(), 0);
    assert_eq!(client.output(), "+OK\r\n:2\r\n+PONG\r\n$1\r\n2\r\n");
}

/// A request that is put off may take effect behind what comes later: the block would overwrite what its client set behind it.
#[test]
fn while_a_request_is_put_off_no_later_one_is_taken() {
    for put_off in ["SET n 1", "GET n", "EVAL return(1) 0", "MULTI\r\nSET n 1\r\nEXEC"] {
        let mut client = Node::new().client();
        client.node.puts_off.set(true);
        let before = put_off.matches("\r\n").count();
        client.connection.receive(format!("{put_off}\r\nSET n 2\r\nPING\r\nGET n\r\n").as_bytes());
        assert_eq!((client.submit(), client.connection.has_more()), (1, false), "{put_off}");
        assert_eq!(client.submit(), 0, "whatever gives it a turn");
        client.node.puts_off.set(false);
        client.release_all();
        assert!(client.connection.has_more(), "{put_off}: it goes on");
        assert_eq!(client.submit(), 2, "{put_off}: those that are not put off go on together");
        client.release_all();
        let output = client.output();
        assert!(output.ends_with("+OK\r\n+PONG\r\n$1\r\n2\r\n"), "{before}: {output}");
    }
}

/// However it ends.
#[test]
fn a_request_that_was_put_off_and_came_to_nothing_holds_up_nobody() {
    for outcome in [Outcome::Conflict, Outcome::Unknown, Outcome::DiskFull, Outcome::RolledBack] {
        let mut client = Node::new().client();
        client.node.puts_off.set(true);
        client.start(&["SET n 1", "SET n 2"]);
        assert_eq!(client.held.len(), 1);
        client.lose(0, outcome);
        assert_eq!(client.submit(), 1, "{outcome:?}");
    }
}

#[test]
fn where_nobody_leads_nobody_is_said_to() {
    let mut client = Node::leaderless().client();
    let elsewhere = client.ask_refused("GET a", Refusal::NotServing { ask: Some(NodeId(1)) });
    assert_eq!(
        elsewhere,
        "-NOTLEADER this node does not serve at the moment; ask node 1 at 10.0.0.2:6380\r\n"
    );
    let nobody = client.ask_refused("GET a", Refusal::NotServing { ask: None });
    assert!(nobody.starts_with("-NOTLEADER this node does not serve at the moment; nothing was done"));
}

#[test]
fn a_client_that_does_not_read_is_not_served_further() {
    let mut client = Node::new().client();
    let command = wire(&format!("ECHO {}", "x".repeat(30_000)));
    let mut sent = 0;
    // It is read from for a while: it may write all it has before it reads.
    while client.connection.accepts_input() {
        client.connection.receive(&command);
        client.submit();
        sent += 1;
    }
    assert!(sent * command.len() > MAX_BACKLOG_BYTES && sent * command.len() < MAX_BACKLOG_BYTES + (2 << 20));
    let held = client.connection.output().len();
    assert!((MAX_HELD_BYTES..MAX_HELD_BYTES + 40_000).contains(&held), "{held}");
    let mut all = 0;
    while !client.connection.output().is_empty() {
        assert!(client.connection.output().len() < MAX_HELD_BYTES + 40_000);
        all += client.output().len();
        client.submit();
    }
    assert_eq!(all, sent * 30_010);
    assert!(client.connection.accepts_input() && !client.connection.has_more());
}

/// Replies count from the moment when they are executed: 1024 gets of a large value were executed before the first of
/// their replies was counted.
#[test]
fn replies_that_the_engine_holds_count() {
    let mut client = Node::new().client();
    client.send(&multibulk([&b"SET"[..], b"a", &[b'x'; 300_000]].into_iter()));
    client.start(&["GET a"; 100]);
    assert_eq!(client.held.len(), 4, "the fourth one reaches a MiB");
    // Out of order: they wait here.
    client.release(1);
    client.release(1);
    assert_eq!((client.submit(), client.connection.output().len()), (0, 0));
    client.release(0);
    assert_eq!(client.submit(), 0, "released and not written: they count all the same");
    let mut all = client.output().len();
    while client.submit() > 0 {
        client.release_all();
        all += client.output().len();
    }
    client.release_all();
    all += client.output().len();
    assert_eq!(all, 100 * 300_011);
    assert_eq!(client.connection.held_bytes(), 0);
}

#[test]
fn an_allowance_ends_a_turn_and_what_is_left_is_known() {
    let mut client = Node::new().client();
    for _ in 0..100 {
        client.connection.receive(&wire("PING"));
    }
    let mut allowance = Allowance { work: 10 * COMMAND_WORK, max_held: MAX_HELD_BYTES, short: false };
    assert!(client.connection.next(&mut allowance).is_none());
    let answered = client.output().len() / 7;
    assert!((9..=10).contains(&answered), "{answered}");
    assert!(allowance.work <= 0 && client.connection.has_more());
    // Who holds something gets nothing more while its worker is full.
    client.start(&["GET a"]);
    assert!(!client.connection.output().is_empty());
    client.connection.receive(&wire("GET b"));
    let mut little = Allowance { work: i64::MAX, max_held: 1, short: false };
    assert!(client.connection.next(&mut little).is_none() && client.connection.has_more());
}

/// One large command left up to 17 MiB behind, for the connection's life.
#[test]
fn a_connection_at_rest_keeps_no_memory() {
    let mut client = Node::new().client();
    let value = vec![b'x'; 1 << 20];
    let set = multibulk([&b"SET"[..], b"a", &value].into_iter());
    let many = |name: &'static str| {
        let words: Vec<&[u8]> =
            std::iter::once(name.as_bytes()).chain(std::iter::repeat_n(&b"k"[..], 100_000)).collect();
        multibulk(words.into_iter())
    };
    client.send(&set);
    client.send(&many("MSET"));
    client.ask("GET a");
    client.send(&many("WATCH"));
    client.ask("MULTI");
    client.send(&set);
    for command in ["GET a", "EXEC"] {
        client.ask(command);
    }
    let connection = &mut client.connection;
    assert!(connection.request_memory() + connection.reply_memory() < 2 << 20, "in use");
    connection.rest();
    assert_eq!((connection.request_memory(), connection.reply_memory()), (0, 0));
    // What it holds of a command, a block and a reply survives.
    client.ask("MULTI");
    client.ask("SET b 1");
    client.connection.receive(b"*1\r\n$4\r\nEX");
    client.submit();
    client.connection.rest();
    assert!(client.connection.request_memory() < 1000);
    assert_eq!(client.send(b"EC\r\n"), "*1\r\n+OK\r\n");
    client.start(&["GET b", "PING", "GET a"]);
    client.connection.rest();
    client.release(1);
    client.connection.rest();
    client.release(0);
    assert_eq!(client.output().len(), 7 + 7 + 10 + value.len() + 2);
}

#[test]
fn a_request_of_http_ends_the_connection_before_its_body() {
    let body = "SET stolen 1\r\n";
    for head in [
        "POST / HTTP/1.1\r\nHost: a\r\n\r\n",
        "GET / HTTP/1.1\r\n",
        "OPTIONS * HTTP/1.1\r\n",
        "x: y\r\nHost: a\r\n",
    ] {
        let mut client = Node::new().client();
        let answer = client.send(format!("GET a\r\n{head}{body}").as_bytes());
        assert!(answer.starts_with("$-1\r\n") && !answer.contains("OK"), "{answer}");
        assert!(client.connection.spoke_http() && client.connection.closing());
        assert!(client.node.client().ask("GET stolen").starts_with("$-1"));
    }
}

#[test]
fn one_long_command_may_arrive_in_pieces() {
    let mut client = Node::new().client();
    let command = wire(&format!("SET a {}", "x".repeat(60_000)));
    let command = [command.as_slice(), &wire(&format!("APPEND a {}", "y".repeat(60_000)))].concat();
    for piece in command.chunks(1000) {
        assert!(client.connection.accepts_input());
        client.connection.receive(piece);
        client.submit();
    }
    client.release_all();
    assert_eq!(client.output(), "+OK\r\n:120000\r\n");
}

proptest! {
    /// Engine requests and local commands in any mixture, released in any order.
    #[test]
    fn any_order_of_release_gives_the_same_conversation(
        commands in prop::collection::vec(0..5usize, 0..40),
        turns in prop::collection::vec(any::<(bool, prop::sample::Index)>(), 0..80),
    ) {
        const COMMANDS: [&str; 5] = ["INCR n", "PING", "GET n", "ECHO x", "NOSUCH"];
        let commands: Vec<&str> = commands.into_iter().map(|at| COMMANDS[at]).collect();
        let mut plain = Node::new().client();
        let wanted: String = commands.iter().map(|command| plain.ask(command)).collect();

        let mut client = Node::new().client();
        let (mut unsent, mut got) = (commands.iter(), String::new());
        for (send, at) in turns {
            if send {
                unsent.next().into_iter().for_each(|command| client.start(&[command]));
            } else if !client.held.is_empty() {
                client.release(at.index(client.held.len()));
            }
            got += &client.output();
        }
        unsent.for_each(|command| client.start(&[command]));
        client.release_all();
        got += &client.output();
        prop_assert_eq!(got, wanted);
    }
}
