//! Scripts of users who may not do everything: in their own right, as it is in the transaction.
//! What they are told in which case is compared with a real Redis (`tests/locks.sh`).

use super::double::{Client, Node};
use crate::resp::acl::{USERS, row};

const COMMAND: &str = "The user executing the script can't run this command or subcommand";
const KEY: &str =
    "The user executing the script can't access at least one of the keys mentioned in the command arguments";

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
