//! Scripts of users who may not do everything: in their own right, as it is in the transaction.
//! What they are told in which case is compared with a real Redis (`tests/locks.sh`).

use highwater_seam::Refusal;

use super::double::{Client, Node};
use crate::acl::{USERS, row};

const COMMAND: &str = "The user executing the script can't run this command or subcommand";
const KEY: &str =
    "The user executing the script can't access at least one of the keys mentioned in the command arguments";

const TABLE: &str = "NOPERM this user has no permissions to access the table: ACL SETUSER names it hw.table:NAME among the keys";

/// A node with a user who has these rules, a client of that user's, and one of somebody who may do everything.
fn with(rules: &str) -> (Node, Client, Client) {
    let node = Node::new();
    let (mut client, mut root) = (node.client(), node.client_of(8));
    assert_eq!(root.ask(&format!("ACL SETUSER u on >p {rules}")), "+OK\r\n");
    assert_eq!(client.ask("AUTH u p"), "+OK\r\n");
    (node, client, root)
}

#[track_caller]
fn denied(reply: &str, why: &str) {
    assert!(reply.contains(why), "{reply}");
}

#[test]
fn what_a_script_calls_is_looked_at() {
    let (_, mut client, mut root) = with("~a* %R~r* +@all -set");
    root.ask("MSET a 1 b 2 r 3");
    assert_eq!(client.ask("EVAL \"return redis.call('get','a')\" 0"), "$1\r\n1\r\n");
    assert_eq!(client.ask("EVAL \"return redis.call('get','r')\" 0"), "$1\r\n3\r\n");
    denied(&client.ask("EVAL \"return redis.call('get','b')\" 0"), KEY);
    denied(&client.ask("EVAL \"return redis.call('append','r','x')\" 0"), KEY);
    denied(&client.ask("EVAL \"return redis.call('set','a','2')\" 0"), COMMAND);
    denied(&client.ask("EVAL_RO \"return redis.call('get','b')\" 0"), KEY);
    let told = "return {redis.acl_check_cmd('get','a') and 1, redis.acl_check_cmd('get','b') and 1 or 2, redis.acl_check_cmd('set','a','1') and 1 or 3}";
    assert_eq!(client.ask(&format!("EVAL \"{told}\" 0")), "*3\r\n:1\r\n:2\r\n:3\r\n");
    // What was written before it was denied stands, as in Redis; a script that says otherwise leaves nothing.
    denied(&client.ask("EVAL \"redis.call('incr','a') return redis.call('get','b')\" 0"), KEY);
    assert_eq!(root.ask("GET a"), "$1\r\n2\r\n");
    // By its digest, too, and in a library: whoever has loaded them.
    let loaded = root.ask("SCRIPT LOAD \"return redis.call('get',ARGV[1])\"");
    let sha = loaded.lines().nth(1).unwrap();
    assert_eq!(client.ask(&format!("EVALSHA {sha} 0 a")), "$1\r\n2\r\n");
    denied(&client.ask(&format!("EVALSHA {sha} 0 b")), KEY);
    root.ask("FUNCTION LOAD \"#!lua name=l\\nredis.register_function('f', function(k, a) return redis.call('get', a[1]) end)\"");
    assert_eq!(client.ask("FCALL f 0 a"), "$1\r\n2\r\n");
    denied(&client.ask("FCALL f 0 b"), KEY);
    // Whoever may do everything may do it in scripts.
    assert_eq!(root.ask("FCALL f 0 b"), "$1\r\n2\r\n");
}

#[test]
fn who_may_not_run_scripts_runs_none() {
    let (_, mut client, _) = with("~* +get");
    for command in ["EVAL \"return 1\" 0", "EVALSHA x 0", "FCALL f 0", "EVAL_RO \"return 1\" 0"] {
        denied(&client.ask(command), "NOPERM this user has no permissions to run the");
    }
}

#[test]
fn blocks_and_open_transactions_keep_to_the_rules() {
    let (_, mut client, mut root) = with("~a* +@all");
    root.ask("MSET a 1 b 2");
    client.ask("MULTI");
    // A command that the connection answers itself stands beside it.
    client.ask("PING");
    assert_eq!(client.ask("EVAL \"return redis.call('get','b')\" 0"), "+QUEUED\r\n");
    assert_eq!(client.ask("EVAL \"return redis.call('get','a')\" 0"), "+QUEUED\r\n");
    let reply = client.ask("EXEC");
    denied(&reply, KEY);
    assert!(reply.ends_with("$1\r\n1\r\n"), "{reply}");
    assert_eq!(client.ask("HW.BEGIN"), "+OK\r\n");
    denied(&client.ask("EVAL \"return redis.call('get','b')\" 0"), KEY);
    assert_eq!(client.ask("EVAL \"return redis.call('get','a')\" 0"), "$1\r\n1\r\n");
    assert_eq!(client.ask("HW.COMMIT"), "+OK\r\n");
}

/// A block was queued when its user might do everything, and runs when it may not: the rules of then count.
#[test]
fn rules_that_change_before_exec_count() {
    let (_, mut client, mut root) = with("~* +@all");
    root.ask("SET b 2");
    client.ask("MULTI");
    client.ask("EVAL \"return redis.call('get','b')\" 0");
    root.ask("ACL SETUSER u resetkeys ~a*");
    denied(&client.ask("EXEC"), KEY);
}

/// A client waits with rights that it has no more when something comes: it got what it might not see, and took it away.
#[test]
fn who_waits_is_asked_again_whether_it_may() {
    let (_, mut client, mut root) = with("~* +@all");
    assert_eq!(client.ask("BLPOP a 0"), "");
    root.ask("ACL SETUSER u resetkeys ~own*");
    root.ask("RPUSH a secret");
    client.connection.look_again();
    assert!(client.go_on().starts_with("-NOPERM"));
    assert_eq!(root.ask("LLEN a"), ":1\r\n");
    assert_eq!(client.ask("BLPOP own 0"), "");
    root.ask("RPUSH own mine");
    client.connection.look_again();
    assert!(client.go_on().contains("mine"));
    assert_eq!(client.ask("BLPOP own 0"), "");
    root.ask("ACL DELUSER u");
    root.ask("RPUSH own mine");
    client.connection.look_again();
    assert!(!client.go_on().contains("mine") && client.connection.is_evicted());
    assert_eq!(root.ask("LLEN own"), ":1\r\n");
}

/// A command waits on offer, while the engine is busy or another node leads; meanwhile its user loses the right, and whoever took it was answered.
#[test]
fn what_waits_on_offer_is_looked_at_again_when_users_change() {
    // Also if the connection has looked at its users since, as its worker has it do at every change.
    [false, true].into_iter().for_each(offered_before_users_changed);
}

fn offered_before_users_changed(looks: bool) {
    for commands in [
        &["SET a 1"][..],
        &["GET a"],
        &["BLPOP a 0"],
        &["KEYS *"],
        &["FLUSHALL ASYNC"],
        &["EVAL \"return redis.call('set','a','1')\" 1 a"],
        &["WATCH a"],
        &["HW.ONCE 1 1 SET a 1"],
        &["MULTI", "SET a 1", "EXEC"],
        &["HW.BEGIN", "SET a 1"],
        &["ACL SETUSER v on"],
    ] {
        let (node, mut client, mut root) = with("~* +@all");
        let (last, before) = commands.split_last().unwrap();
        before.iter().for_each(|command| drop(client.ask(command)));
        client
            .connection
            .receive(format!("{}\r\n", last.replace("redis.call('set','a','1')", "1")).as_bytes());
        let whole = &mut { crate::Allowance::WHOLE };
        let seq = client.connection.next(whole).unwrap_or_else(|| panic!("{last}")).seq;
        client.connection.refused(seq, Refusal::Busy);
        root.ask("ACL SETUSER u -@all +ping");
        if looks {
            client.connection.look_at_users();
        }
        assert!(client.connection.next(whole).is_none(), "{last}");
        let reply = client.output();
        assert!(reply.starts_with("-NOPERM"), "{last}: {reply}");
        if before == ["HW.BEGIN"] {
            assert!(client.ask("PING").starts_with("-TXOVER"));
            root.ask("ACL SETUSER u +hw.rollback");
            assert_eq!(client.ask("HW.ROLLBACK"), "+OK\r\n");
        }
        assert_eq!(client.ask("PING"), "+PONG\r\n", "{last}");
        assert_eq!(root.ask("EXISTS a"), ":0\r\n");
        drop(node);
    }
    // Others' changes change nothing.
    let (_, mut client, mut root) = with("~* +@all");
    client.connection.receive(b"SET a 1\r\n");
    let whole = &mut { crate::Allowance::WHOLE };
    let seq = client.connection.next(whole).unwrap().seq;
    client.connection.refused(seq, Refusal::Busy);
    root.ask("ACL SETUSER v on");
    assert_eq!(client.connection.next(whole).map(|request| request.seq), Some(seq));
}

/// A command in steps was admitted when it came: what is revoked between two steps is not used for the next one.
#[test]
fn a_step_is_looked_at_again_when_users_changed_since_the_command_came() {
    for (command, denied) in [("KEYS *", true), ("DBSIZE", true), ("KEYS *", false)] {
        let (_, mut client, mut root) = with("~* +@all");
        (0..20_000).for_each(|at| drop(root.ask(&format!("SET k{at} 1"))));
        client.start(&[command]);
        root.ask(if denied { "ACL SETUSER u -@all +ping" } else { "ACL SETUSER v on" });
        client.connection.look_at_users();
        client.release(0);
        assert_eq!(client.submit(), usize::from(!denied), "{command} has a second step");
        assert_eq!(client.output().starts_with("-NOPERM"), denied, "{command}");
    }
}

/// The row counts, as the transaction reads it, and not what this node has heard of it.
#[test]
fn the_rules_are_those_of_the_transaction() {
    let (node, mut client, mut root) = with("~a* ~b* +@all");
    root.ask("SET b 2");
    let script = "EVAL \"return redis.call('get','b')\" 0";
    assert_eq!(client.ask(script), "$1\r\n2\r\n");
    // Another node has changed it, or removed it, and nobody here knows yet.
    node.put(USERS, &row::key(row::USER, b"u"), b"on\n~a*\n+@all");
    denied(&client.ask(script), KEY);
    node.put(USERS, &row::key(row::USER, b"u"), b"on\nwhat is this\n~*\n+@all");
    denied(&client.ask(script), COMMAND);
    node.map.borrow_mut().remove(USERS, &row::key(row::USER, b"u"));
    denied(&client.ask(script), COMMAND);
}

/// As the user's patterns have it: the words of each command, and whether it is denied.
const TABLES: [(&str, bool); 12] = [
    ("HW.GET mine 1", false),
    ("HW.PUT mine 1 x", false),
    ("HW.DEL mine 1", false),
    ("HW.RANGE mine - +", false),
    ("HW.TABLE DESCRIBE mine", false),
    ("HW.GET seen 1", false),
    ("HW.RANGE seen - +", false),
    ("HW.PUT seen 1 x", true),
    ("HW.DEL seen 1", true),
    ("HW.TABLE DROP seen", true),
    ("HW.GET hidden 1", true),
    ("HW.TABLE DESCRIBE hidden", true),
];

/// A table is named by patterns of its own, whichever way a command comes.
#[test]
fn tables_keep_to_their_users() {
    let (_, mut client, mut root) =
        with("~hidden ~* resetkeys ~hid* ~?idden ~hw.table:mine %R~hw.table:s* +@all");
    for table in ["mine", "seen", "hidden"] {
        assert_eq!(root.ask(&format!("HW.TABLE CREATE {table} u64")), "+OK\r\n");
        assert_eq!(root.ask(&format!("HW.PUT {table} 1 secret")), ":1\r\n");
    }
    for (command, is_denied) in TABLES {
        let quoted: Vec<String> = command.split(' ').map(|word| format!("'{word}'")).collect();
        let script = format!("EVAL \"return redis.call({})\" 0", quoted.join(","));
        let readonly = format!("EVAL_RO \"return redis.call({})\" 0", quoted.join(","));
        for (before, command, after) in [
            (&[][..], command, &[][..]),
            (&["MULTI"], command, &["EXEC"]),
            (&["HW.BEGIN"], command, &["HW.ROLLBACK"]),
            (&[], &script, &[]),
            (&["READONLY"], &readonly, &["READWRITE"]),
            (&["MULTI"], &script, &["EXEC"]),
        ] {
            before.iter().for_each(|word| drop(client.ask(word)));
            let mut told = client.ask(command);
            after.iter().for_each(|word| told += &client.ask(word));
            let says = told.contains("NOPERM") || told.contains(KEY) || told.contains("permissions");
            assert_eq!(says, is_denied, "{before:?} {command}: {told}");
            assert!(!is_denied || !told.contains("secret"), "{told}");
        }
    }
    assert_eq!(client.ask("HW.TABLE CREATE other u64"), format!("-{TABLE}\r\n"));
    assert_eq!(client.ask("HW.TABLE LIST"), "*2\r\n$4\r\nmine\r\n$4\r\nseen\r\n");
    assert_eq!(client.ask("EVAL \"return #redis.call('hw.table','list')\" 0"), ":2\r\n");
    client.ask("MULTI");
    client.ask("HW.TABLE LIST");
    assert_eq!(client.ask("EXEC"), "*1\r\n*2\r\n$4\r\nmine\r\n$4\r\nseen\r\n");
    assert_eq!(root.ask("HW.TABLE LIST").lines().next(), Some("*3"));
    // Nor is a table's pattern one of keys, and it is no key: it has no slot, and cluster clients do not route by it.
    denied(&client.ask("GET hw.table:mine"), "NOPERM");
    denied(&root.ask("COMMAND GETKEYS HW.GET mine 1"), "The command has no key arguments");
    denied(
        &root.ask("ACL DRYRUN u HW.GET hidden 1"),
        "This user has no permissions to access the 'hw.table:hidden' key",
    );
    // Whoever may use all keys may use all tables, also one way only.
    root.ask("ACL SETUSER u resetkeys %R~*");
    assert_eq!(client.ask("HW.GET hidden 1"), "$6\r\nsecret\r\n");
    assert_eq!(client.ask("HW.PUT hidden 1 x"), format!("-{TABLE}\r\n"));
    root.ask("ACL SETUSER u resetkeys ~app:* (~* +hw.put)");
    assert_eq!(client.ask("HW.PUT hidden 1 x"), ":0\r\n");
    assert_eq!(client.ask("HW.GET hidden 1"), format!("-{TABLE}\r\n"));
}

/// Rights are those of the moment: of `EXEC`, and of each step.
#[test]
fn a_table_that_was_taken_away_is_gone() {
    let (_, mut client, mut root) = with("~hw.table:* +@all");
    root.ask("HW.TABLE CREATE t u64");
    root.ask("HW.PUT t 1 secret");
    client.ask("MULTI");
    client.ask("HW.GET t 1");
    client.ask("HW.TABLE LIST");
    root.ask("ACL SETUSER u resetkeys ~app:*");
    let told = client.ask("EXEC");
    assert!(told.starts_with("*2\r\n-NOPERM ") && told.ends_with("\r\n*0\r\n"), "{told}");
    root.ask("ACL SETUSER u ~hw.table:t");
    client.ask("HW.BEGIN");
    assert_eq!(client.ask("HW.GET t 1"), "$6\r\nsecret\r\n");
    root.ask("ACL SETUSER u resetkeys");
    denied(&client.ask("HW.GET t 1"), "NOPERM");
    denied(&client.ask("HW.COMMIT"), "TXOVER");
}
