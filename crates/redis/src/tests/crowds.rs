//! Crowds: names and members whose hashes somebody has made to collide. They are told in portions like any others, and nobody else notices.

use std::collections::{BTreeMap, BTreeSet};

use highwater_core::{Outcome, Procedure, ProcedureId, Timestamp};
use highwater_seam::Refusal;

use super::double::{Client, Node, wire};
use super::scans::{ALIKE, KINDS, Kind, bulk, named, named_behind, number};
use crate::Allowance;
use crate::keyspace::rows::hash;
use crate::keyspace::sweep::Sweep;
use crate::moment::Moment;
use crate::slots::slot;

/// The most that a call tells, and the end of a place.
const MOST_TOLD: usize = 2048 + 128;
/// The same in bytes: a long name more.
const MOST_BYTES: usize = (1 << 20) + (128 << 10);
/// The hash of a crowd.
const MADE: u64 = 0x7777_7777_7777_7000;

/// So many of one hash, and of this length.
fn crowd(many: usize, len: usize) -> Vec<Vec<u8>> {
    let front = vec![b'n'; len - 16];
    (0..many).map(|at| named_behind(&[&front[..], format!("{at:08}").as_bytes()].concat(), MADE)).collect()
}

fn ordinary(many: usize) -> Vec<Vec<u8>> {
    (0..many).map(|at| format!("ordinary{at}").into_bytes()).collect()
}

/// The longest whose length is a multiple of eight.
fn longest(kind: Kind) -> usize {
    if kind.scan == "SCAN" { (64 << 10) - 16 } else { (64 << 10) - 24 }
}

/// A whole scan, each call by the next one of these: how often each was met, and in how many calls.
fn scan(kind: Kind, clients: &mut [Client], options: &[&[u8]]) -> (BTreeMap<Vec<u8>, u32>, usize) {
    let (mut met, mut cursor, mut calls) = (BTreeMap::new(), 0, 0);
    loop {
        let at = calls % clients.len();
        let (next, found) = kind.step(&mut clients[at], cursor, options);
        assert!(found.len() <= MOST_TOLD, "{}: {} at once", kind.scan, found.len());
        assert!(found.iter().map(Vec::len).sum::<usize>() <= MOST_BYTES);
        found.into_iter().for_each(|name| *met.entry(name).or_default() += 1);
        (cursor, calls) = (next, calls + 1);
        assert!(calls < 5000, "{}: it ends", kind.scan);
        if next == 0 {
            return (met, calls);
        }
    }
}

/// The reply to a typed command, whatever bytes it has.
fn ask(client: &mut Client, command: &str) -> Vec<u8> {
    client.send_bytes(&wire(command))
}

fn array(reply: &[u8]) -> Vec<Vec<u8>> {
    let mut rest = reply;
    (0..number(&mut rest, b'*')).map(|_| bulk(&mut rest)).collect()
}

fn met_once(met: &BTreeMap<Vec<u8>, u32>) -> Vec<Vec<u8>> {
    assert!(met.values().all(|times| *times == 1), "one was told twice");
    met.keys().cloned().collect()
}

fn sorted(names: &[Vec<u8>]) -> Vec<Vec<u8>> {
    let mut names = names.to_vec();
    names.sort();
    names
}

fn add(kind: Kind, client: &mut Client, names: &[Vec<u8>]) {
    let some = (16 << 20) / (names[0].len() + 16);
    names.chunks(some.min(50_000)).for_each(|some| kind.add(client, some));
}

/// They were one reply, which was refused as too large: to everybody who looked at names.
/// Once: a step of `KEYS` or `DBSIZE`, and a `SCAN` with a `MATCH` that finds nothing, read 16,384 (2,048) names of up to
/// 64 KB: 1 GiB in one transaction.
#[test]
fn long_names_of_one_hash_are_scanned_and_counted_like_others() {
    for kind in KINDS {
        let mut client = Node::new().client();
        let all = [crowd(1150, longest(kind)), ordinary(700)].concat();
        add(kind, &mut client, &all[1150..]);
        add(kind, &mut client, &all[..1150]);
        for count in ["10", "1000000000"] {
            let (met, calls) = scan(kind, std::slice::from_mut(&mut client), &[b"COUNT", count.as_bytes()]);
            assert!(met_once(&met) == sorted(&all), "{} COUNT {count}", kind.scan);
            assert!(calls < 160, "{}: {calls} calls", kind.scan);
        }
        let others: &[&[u8]] = &[b"MATCH", b"ordinary*", b"COUNT", b"100000"];
        let (met, calls) = scan(kind, std::slice::from_mut(&mut client), others);
        assert!(met_once(&met) == sorted(&all[1150..]), "{}", kind.scan);
        assert!(calls < 12, "{}: {calls} calls", kind.scan);
    }
}

/// Somebody who knew the prints chose two names of one, and everybody's scan went in a circle, or left out what stands between them.
/// Once: `SCAN` never ended for anybody, or left out other users' keys without a word: the print in a cursor in the
/// middle of a crowd had no secret, and of a million names that somebody makes in seconds two have the same (0051)
/// Once: (Before it landed.) The cursors' secret could be told from `run_id` and `CLIENT ID`: it was drawn of the chance
/// of the request that needed it first, which begins at the node's incarnation. The first sweep draws it of the system's
/// random numbers now.
#[test]
fn prints_have_a_secret_in_them() {
    for kind in KINDS {
        let cursor = |chance: u64| {
            let node = Node::new();
            let mut client = node.client();
            add(kind, &mut client, &[crowd(4000, 24), ordinary(10)].concat());
            let sweep = node.procedures().iter().position(|name| *name == Sweep::NAME).unwrap();
            // The first one draws it, and no other one does.
            for seed in [chance, 77] {
                node.run(ProcedureId(sweep as u16), &Moment { unix_ms: 0, seed }.bytes());
            }
            let (cursor, again) = (kind.step(&mut client, 0, &[]).0, kind.step(&mut client, 0, &[]).0);
            assert_eq!(cursor, again, "{}", kind.scan);
            cursor
        };
        let (one, other) = (cursor(1), cursor(2));
        assert!(one % 2 == 1 && other % 2 == 1, "{}: in the middle of a crowd", kind.scan);
        assert_ne!(one, other, "{}", kind.scan);
        assert_ne!(one, cursor(0), "{}: without chance there is none", kind.scan);
    }
}

#[test]
fn all_names_are_looked_at_though_a_crowd_of_long_ones_is_among_them() {
    let mut client = Node::new().client();
    let all = [crowd(1150, (64 << 10) - 16), ordinary(300)].concat();
    add(KINDS[0], &mut client, &all[1150..]);
    add(KINDS[0], &mut client, &all[..1150]);
    assert_eq!(client.ask("DBSIZE"), ":1450\r\n");
    let told = client.ask("KEYS ordinary*");
    assert!(told.starts_with("*300\r\n") && told.matches("ordinary").count() == 300);
    let here = all.iter().filter(|name| slot(name) == slot(&all[7])).count();
    assert_eq!(client.ask(&format!("CLUSTER COUNTKEYSINSLOT {}", slot(&all[7]))), format!(":{here}\r\n"));
    let some = ask(&mut client, &format!("CLUSTER GETKEYSINSLOT {} 1", slot(b"ordinary7")));
    assert_eq!(array(&some).len(), 1);
    // All of them are longer than a reply may be, whatever their hashes are.
    assert!(client.ask("KEYS *").contains("64 MiB"));
}

#[test]
fn a_hundred_thousand_of_one_place_are_told_in_portions() {
    for kind in KINDS {
        let mut client = Node::new().client();
        let mut all: Vec<_> = (0..50_000u64).map(|at| named_behind(&at.to_le_bytes(), MADE)).collect();
        all.extend((0..50_000).map(|at: u64| named_behind(&at.to_be_bytes(), MADE + at % ALIKE)));
        all.extend(ordinary(700));
        all.sort();
        all.dedup();
        add(kind, &mut client, &all);
        for (count, most) in [("10", 900), ("1000000000", 200)] {
            let (met, calls) = scan(kind, std::slice::from_mut(&mut client), &[b"COUNT", count.as_bytes()]);
            assert!(met_once(&met) == all, "{} COUNT {count}", kind.scan);
            assert!(calls < most, "{}: {calls} calls", kind.scan);
        }
        if kind.scan == "SCAN" {
            assert_eq!(client.ask("DBSIZE"), format!(":{}\r\n", all.len()));
        }
    }
}

/// Pools of connections ask each call on another one, and on another node if there is something between them that shares out.
#[test]
fn a_scan_goes_on_in_a_crowd_on_any_connection_of_any_node() {
    for kind in KINDS {
        let node = Node::new();
        let others = [node.beside(), node.beside()];
        let mut clients = [&node, &node, &others[0], &others[1], &others[1]].map(|node| node.client());
        let all = [crowd(2500, 24), ordinary(700)].concat();
        add(kind, &mut clients[0], &all);
        for count in ["1", "10", "1000"] {
            let (met, _) = scan(kind, &mut clients, &[b"COUNT", count.as_bytes()]);
            assert!(met_once(&met) == sorted(&all), "{} COUNT {count}", kind.scan);
        }
        // Two scans at once, in turns on both connections.
        let (mut cursors, mut told) = ([0, 0], [BTreeMap::new(), BTreeMap::new()]);
        for call in 0.. {
            for scan in [0, 1] {
                if call > 0 && cursors[scan] == 0 {
                    continue;
                }
                let count: &[u8] = if scan == 0 { b"100" } else { b"77" };
                let (next, found) =
                    kind.step(&mut clients[(call + scan) % 5], cursors[scan], &[b"COUNT", count]);
                found.into_iter().for_each(|name| *told[scan].entry(name).or_insert(0) += 1);
                cursors[scan] = next;
            }
            if cursors == [0, 0] {
                break;
            }
            assert!(call < 500);
        }
        told.iter().for_each(|met| assert!(met_once(met) == sorted(&all)));
    }
}

/// The first cursor in the middle of a crowd.
fn enter(kind: Kind, client: &mut Client, met: &mut BTreeSet<Vec<u8>>, count: &[u8]) -> u64 {
    let mut cursor = 0;
    loop {
        let (next, found) = kind.step(client, cursor, &[b"COUNT", count]);
        met.extend(found);
        if next % 2 == 1 {
            return next;
        }
        assert_ne!(next, 0, "there is a crowd");
        cursor = next;
    }
}

/// Nothing is missed, though the one to go on at is gone and nobody knows where it was. (The cursor that leads into a crowd is of a plain
/// command, and nobody remembers it; the next ones are remembered.)
#[test]
fn what_is_neither_remembered_nor_found_is_told_again() {
    for kind in KINDS {
        let node = Node::new();
        let mut client = node.client();
        let all = [crowd(1000, 24), ordinary(700)].concat();
        add(kind, &mut client, &all);
        for remembered in [true, false] {
            let mut met = BTreeSet::new();
            let mut cursor = enter(kind, &mut client, &mut met, b"10");
            let (next, found) = kind.step(&mut client, cursor, &[]);
            met.extend(found);
            cursor = next;
            let mut left: Vec<_> =
                all.iter().filter(|name| hash(name) == MADE && !met.contains(*name)).collect();
            left.sort();
            kind.call(&mut client, kind.remove, &[left[0]]);
            if !remembered {
                client = node.beside().client();
            }
            let mut twice = 0;
            while cursor != 0 {
                let (next, found) = kind.step(&mut client, cursor, &[]);
                twice += found.iter().filter(|name| met.contains(*name)).count();
                met.extend(found);
                cursor = next;
            }
            for name in all.iter().filter(|name| *name != left[0]) {
                assert!(met.contains(name), "{}: {}", kind.scan, String::from_utf8_lossy(name));
            }
            assert_eq!(twice > 0, !remembered, "{}: {twice} were told twice", kind.scan);
            kind.add(&mut client, std::slice::from_ref(left[0]));
        }
    }
}

/// A node looks for a spot that it has forgotten: some thousands in a transaction, and others have their turns between two of them.
#[test]
fn a_spot_that_nobody_remembers_is_looked_for_step_by_step() {
    let node = Node::new();
    let mut client = node.client();
    add(KINDS[0], &mut client, &crowd(20_000, 24));
    let (mut cursor, mut told) = (0, 0);
    while told < 15_000 {
        let (next, found) = KINDS[0].step(&mut client, cursor, &[b"COUNT", b"1000"]);
        (cursor, told) = (next, told + found.len());
    }
    let (mut other, mut writer) = (node.beside().client(), node.client_of(8));
    let mut steps = || {
        other.start(&[&format!("SCAN {cursor} COUNT 1"), "PING"]);
        let mut steps = 0;
        while !other.held.is_empty() {
            assert_eq!(other.held.len(), 1, "what comes behind it waits");
            let rows = {
                let map = node.map.borrow();
                map.work.most() - map.work.left()
            };
            assert!(rows < 5000, "{rows} rows in a step");
            other.release(0);
            writer.ask(&format!("SET comes{steps} 1"));
            other.submit();
            steps += 1;
        }
        let reply = other.connection.output().to_vec();
        other.connection.wrote(reply.len());
        assert!(reply.ends_with(b"+PONG\r\n") && reply.starts_with(b"*2\r\n"));
        steps
    };
    assert_eq!(steps(), 4);
    assert_eq!(steps(), 4, "its own cursor it does not know yet");
    let (next, _) = KINDS[0].step(&mut client, cursor, &[b"COUNT", b"1"]);
    cursor = next;
    client.start(&[&format!("SCAN {cursor} COUNT 1")]);
    client.release(0);
    assert_eq!(client.submit(), 0, "it is remembered");
    // A cursor that is long forgotten is looked for as well.
    for other in 0..64 {
        node.door().bookmarks.keep(b"default", b"else", 2 * other + 1, b"spot");
    }
    client.start(&[&format!("SCAN {cursor} COUNT 1")]);
    client.release(0);
    assert_eq!(client.submit(), 1);
    client.release_all();
}

/// A transaction has no connection that remembers: it looks from the start of the crowd each time, and says so if that is too far.
#[test]
fn in_a_transaction_a_scan_goes_on_in_a_crowd_or_says_that_it_cannot() {
    let mut client = Node::new().client();
    let all = [crowd(2500, 24), ordinary(700)].concat();
    let script = "local n, words = 0, {unpack(KEYS)} repeat local r = redis.call(ARGV[1], unpack(words)) \
                  n = n + #r[2] words[#words] = r[1] until r[1] == '0' return n";
    for kind in KINDS {
        add(kind, &mut client, &all);
        let key = if kind.scan == "SCAN" { "1 0" } else { "2 k 0" };
        let each = if kind.pairs && kind.scan != "SCAN" { 2 } else { 1 };
        let reply = client.ask(&format!("EVAL \"{script}\" {key} {}", kind.scan));
        assert_eq!(reply, format!(":{}\r\n", all.len() * each), "{}", kind.scan);
        let mut met = BTreeSet::new();
        let cursor = enter(kind, &mut client, &mut met, b"10");
        let alone = kind.call(&mut client, kind.scan, &[cursor.to_string().as_bytes()]);
        client.ask("MULTI");
        kind.call(&mut client, kind.scan, &[cursor.to_string().as_bytes()]);
        let block = client.send_bytes(b"*1\r\n$4\r\nEXEC\r\n");
        assert_eq!(block, [&b"*1\r\n"[..], &alone].concat(), "{}", kind.scan);
        client.ask("FLUSHALL");
    }
    let huge: Vec<_> = (0..140_000u64).map(|at| named_behind(&at.to_be_bytes(), MADE)).collect();
    let kind = KINDS[2];
    add(kind, &mut client, &huge);
    let (mut cursor, mut told) = (0, 0);
    while told < 135_000 {
        let (next, found) = kind.step(&mut client, cursor, &[b"COUNT", b"100000"]);
        (cursor, told) = (next, told + found.len());
    }
    let reply = client.ask(&format!("EVAL \"return redis.call('SSCAN', KEYS[1], ARGV[1])\" 1 k {cursor}"));
    assert!(reply.starts_with("-ERR too many share the place of this cursor"), "{reply}");
    assert_eq!(kind.step(&mut client, cursor, &[]).1.len(), 138);
}

/// A leader of a build before this one knows no words of steps: it is asked without. Wrong words of the client's own are told as such.
#[test]
fn a_leader_of_a_build_before_is_asked_plainly() {
    for hash in [MADE, ALIKE * 7] {
        let mut client = Node::new().client();
        let crowd: Vec<_> = (0..1000u64).map(|at| named_behind(&at.to_be_bytes(), hash)).collect();
        add(KINDS[0], &mut client, &crowd);
        let cursor = enter(KINDS[0], &mut client, &mut BTreeSet::new(), b"10");
        client.start(&[&format!("SCAN {cursor} COUNT 5"), "PING"]);
        for answer in [&b"-ERR syntax error\r\n"[..], b"*2\r\n$1\r\n0\r\n*0\r\n"] {
            let held = client.held.remove(0).unwrap();
            client.connection.released(held.seq, Outcome::Committed, Timestamp::ZERO, answer);
            client.submit();
        }
        assert_eq!(client.output(), "*2\r\n$1\r\n0\r\n*0\r\n+PONG\r\n");
        // As if it led again.
        assert_eq!(client.ask(&format!("SCAN {cursor} COUNT")), "-ERR syntax error\r\n");
        assert_eq!(client.ask("EXISTS none"), ":0\r\n");
    }
}

#[test]
fn whatever_is_no_step_ends_a_scan_in_a_crowd() {
    let node = Node::new();
    let mut client = node.client();
    add(KINDS[0], &mut client, &crowd(1000, 24));
    let cursor = enter(KINDS[0], &mut client, &mut BTreeSet::new(), b"10");
    for outcome in [Outcome::Conflict, Outcome::Unknown, Outcome::OutOfMemory] {
        client.start(&[&format!("SCAN {cursor}"), "PING"]);
        client.lose(0, outcome);
        client.submit();
        let told = client.output();
        assert!(told.starts_with('-') && told.ends_with("+PONG\r\n"), "{told}");
    }
    assert!(
        client
            .ask_refused(&format!("SCAN {cursor}"), Refusal::NotServing { ask: None })
            .starts_with("-NOTLEADER")
    );
    // Nobody wants this reply, and the next one comes.
    client.ask("CLIENT REPLY SKIP");
    assert_eq!(client.ask(&format!("SCAN {cursor}")), "");
    assert_eq!(client.ask("PING"), "+PONG\r\n");
    // A snapshot is read in steps of snapshots.
    client.ask("READONLY");
    let request = format!("SCAN {cursor}");
    client.connection.receive(&wire(&request));
    assert!(client.connection.next(&mut { Allowance::WHOLE }).unwrap().snapshot);
    assert!(client.send_bytes(b"").starts_with(b"*2\r\n"));
    // What it scanned is something else meanwhile.
    let kind = KINDS[2];
    add(kind, &mut client, &crowd(3000, 24));
    let cursor = enter(kind, &mut client, &mut BTreeSet::new(), b"10");
    client.ask("SET k v");
    assert!(client.ask(&format!("SSCAN k {cursor}")).starts_with("-WRONGTYPE"));
    client.ask("DEL k");
    assert_eq!(client.ask(&format!("SSCAN k {cursor}")), "*2\r\n$1\r\n0\r\n*0\r\n");
    client.ask("SADD k a");
    assert_eq!(client.ask(&format!("SSCAN k {cursor}")), "*2\r\n$1\r\n0\r\n*1\r\n$1\r\na\r\n");
}

/// Chance met the same 32 neighbours for ever, and a command that wanted more of them never ended.
#[test]
fn random_ones_are_chosen_from_a_crowd() {
    let mut client = Node::new().client();
    for kind in &KINDS[1..] {
        add(*kind, &mut client, &crowd(40_000, 24));
        let random = match kind.scan {
            "HSCAN" => "HRANDFIELD",
            "SSCAN" => "SRANDMEMBER",
            _ => "ZRANDMEMBER",
        };
        for (count, wanted) in [("1000", 1000), ("-1000", 1000)] {
            let told = array(&ask(&mut client, &format!("{random} k {count}")));
            assert_eq!(told.len(), wanted, "{random}");
            let different = told.into_iter().collect::<BTreeSet<_>>().len();
            assert!(count.starts_with('-') || different == wanted, "{random}: {different} different ones");
        }
        assert_eq!(ask(&mut client, &format!("{random} k"))[0], b'$');
        client.ask("DEL k");
    }
    add(KINDS[2], &mut client, &crowd(40_000, 24));
    assert_eq!(array(&ask(&mut client, "SPOP k 1200")).len(), 1200);
    assert_eq!(client.ask("SCARD k"), ":38800\r\n");
    assert_eq!(ask(&mut client, "SPOP k")[0], b'$');
    add(KINDS[0], &mut client, &crowd(2000, 24));
    assert_eq!(ask(&mut client, "RANDOMKEY")[0], b'$');
    assert_eq!(client.ask("FLUSHALL ASYNC"), "+OK\r\n");
    assert_eq!(client.ask("DBSIZE"), ":0\r\n");
}

/// Builds before this one handed out places of 53 bits, half of which are odd: nothing that is behind one is missed.
#[test]
fn cursors_of_a_build_before_lead_to_where_they_stood_or_in_front() {
    for kind in KINDS {
        let mut client = Node::new().client();
        let all: Vec<Vec<u8>> =
            (0..700).map(|at| format!("m{at}").into_bytes()).chain([named(0), named(u64::MAX)]).collect();
        kind.add(&mut client, &all);
        for old in all.iter().map(|name| hash(name) >> 11).filter(|old| *old > 0) {
            let (mut cursor, mut met) = (old, BTreeSet::new());
            while cursor != 0 {
                let (next, found) = kind.step(&mut client, cursor, &[b"COUNT", b"300"]);
                met.extend(found);
                cursor = next;
            }
            for name in all.iter().filter(|name| hash(name) >> 11 >= old) {
                assert!(met.contains(name), "{}: what is behind {old} is met", kind.scan);
            }
        }
    }
}
