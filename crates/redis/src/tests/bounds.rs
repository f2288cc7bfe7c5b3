//! Commands that a hostile client makes long: by patterns, by names, by naming the same thing again and again.

use super::clock::cpu_ms;
use super::double::{Client, Node, multibulk};

/// The answer, within some seconds of this thread's CPU time.
#[track_caller]
fn quick(client: &mut Client, words: &[&[u8]]) -> String {
    let began = cpu_ms();
    let reply = client.send_bytes(&multibulk(words.iter().copied()));
    let took = cpu_ms() - began;
    assert!(took < 4_000, "{}: {took} ms", String::from_utf8_lossy(words[0]));
    String::from_utf8_lossy(&reply[..reply.len().min(300)]).into_owned()
}

/// Stars that fit nothing in the end, classes, and what goes back again and again.
#[test]
fn no_pattern_keeps_a_worker() {
    let mut client = Node::new().client();
    (0..300).for_each(|at| drop(client.ask(&format!("SET key:{at} 1"))));
    (0..100).for_each(|at| drop(client.ask(&format!("HSET h field:{at} 1"))));
    let library: &[u8] = b"#!lua name=one\nredis.register_function('f', function() end)";
    assert!(quick(&mut client, &[b"FUNCTION", b"LOAD", library]).contains("one"));
    let million = 2_000_000;
    for pattern in [[&b"*".repeat(million)[..], b"zz"].concat(), [&b"*["[..], &b"A".repeat(million)].concat()]
    {
        for words in [
            &[b"KEYS", &pattern[..]][..],
            &[b"SCAN", b"0", b"COUNT", b"1000", b"MATCH", &pattern],
            &[b"HSCAN", b"h", b"0", b"MATCH", &pattern],
            &[b"COMMAND", b"LIST", b"FILTERBY", b"PATTERN", &pattern],
            &[b"CONFIG", b"GET", &pattern, &pattern],
            &[b"FUNCTION", b"LIST", b"LIBRARYNAME", &pattern],
            &[b"HW.PROCEDURES", &pattern],
        ] {
            quick(&mut client, words);
        }
    }
    let stars = [&b"*".repeat(million)[..], b"zz"].concat();
    assert!(quick(&mut client, &[b"KEYS", &stars]).starts_with("-ERR the pattern is too complex"));
    for words in [
        &[&b"COMMAND"[..], b"LIST", b"FILTERBY", b"PATTERN", &stars][..],
        &[b"CONFIG", b"GET", &stars],
        &[b"FUNCTION", b"LIST", b"LIBRARYNAME", &stars],
        &[b"HW.PROCEDURES", &stars],
    ] {
        assert_eq!(quick(&mut client, words), "-ERR a pattern of such names has 1024 bytes at most\r\n");
    }
    let classes = [&b"*["[..], &b"A".repeat(1_000)].concat();
    for words in [
        &[&b"COMMAND"[..], b"LIST", b"FILTERBY", b"PATTERN", &classes][..],
        &[b"CONFIG", b"GET", &classes, &classes, &classes, &classes],
    ] {
        assert!(quick(&mut client, words).starts_with("-ERR the pattern is too complex"));
    }
    assert!(quick(&mut client, &[b"CONFIG", b"GET", b"MAXMEMORY", b"time*"]).contains("maxmemory"));
    assert!(
        quick(&mut client, &[b"COMMAND", b"LIST", b"FILTERBY", b"PATTERN", b"GET*"]).contains("getrange")
    );
    assert!(quick(&mut client, &[b"FUNCTION", b"LIST", b"LIBRARYNAME", b"O*"]).contains("one"));
}

/// Once: `COMMAND DOCS` of 300,000 names: 12 s of a worker, and a reply of 440 MB.
#[test]
fn commands_are_described_a_few_at_a_time() {
    let mut client = Node::new().client();
    for what in [&b"DOCS"[..], b"INFO"] {
        let many = |count| [&[&b"COMMAND"[..], what], &vec![&b"set"[..]; count][..]].concat();
        assert!(quick(&mut client, &many(300_000)).starts_with("-ERR one call may have 2048 names"));
        assert!(quick(&mut client, &many(2_048)).contains("set"));
    }
    assert!(client.ask("COMMAND DOCS").len() > 100_000, "all of them");
}

/// Once: names of connections (`CLIENT SETNAME`, `SETINFO`) had no bound and were counted nowhere: 48 MB each.
#[test]
fn what_a_connection_is_called_is_short() {
    let mut client = Node::new().client();
    let (long, fits) = ([b'n'; 1025], [b'n'; 1024]);
    for words in [
        &[&b"CLIENT"[..], b"SETNAME", &long][..],
        &[b"CLIENT", b"SETINFO", b"LIB-NAME", &long],
        &[b"CLIENT", b"SETINFO", b"LIB-VER", &long],
        &[b"HELLO", b"2", b"SETNAME", &long],
    ] {
        assert!(quick(&mut client, words).contains("1024 bytes"));
    }
    assert_eq!(client.ask("CLIENT GETNAME"), "$-1\r\n");
    assert_eq!(quick(&mut client, &[b"CLIENT", b"SETNAME", &fits]), "+OK\r\n");
}

/// A set that is joined with itself is itself, however often it is named; of sorted sets each time counts.
#[test]
fn a_set_that_is_named_again_and_again_is_read_once() {
    let mut client = Node::new().client();
    let members: Vec<String> = (0..20_000).map(|at| format!("m{at}")).collect();
    let words = |first: &[&'static str]| -> Vec<Vec<u8>> {
        let first = first.iter().map(|word| word.as_bytes().to_vec());
        first.chain(members.iter().map(|member| member.clone().into_bytes())).collect()
    };
    let add = words(&["SADD", "s"]);
    client.send_bytes(&multibulk(add.iter().map(Vec::as_slice)));
    client.ask("SADD few m1 m2 other");
    let again = |first: &[&'static [u8]], count: usize| -> Vec<&'static [u8]> {
        [first, &vec![&b"s"[..]; count]].concat()
    };
    assert!(quick(&mut client, &again(&[b"SINTER"], 20_000)).starts_with("*20000\r\n"));
    assert!(quick(&mut client, &again(&[b"SUNION"], 20_000)).starts_with("*20000\r\n"));
    assert_eq!(quick(&mut client, &again(&[b"SINTERCARD", b"20000"], 20_000)), ":20000\r\n");
    assert_eq!(quick(&mut client, &again(&[b"SDIFF"], 20_000)), "*0\r\n");
    assert_eq!(quick(&mut client, &again(&[b"SDIFF", b"few"], 20_000)), "*1\r\n$5\r\nother\r\n");
    assert_eq!(quick(&mut client, &again(&[b"SINTERSTORE", b"to", b"few", b"few"], 20_000)), ":2\r\n");
    assert_eq!(client.ask("SDIFFSTORE to few few missing"), ":0\r\n");
    assert_eq!(client.ask("SINTER few few missing"), "*0\r\n");
    client.ask("SET text x");
    assert!(client.ask("SDIFF few few text").starts_with("-WRONGTYPE"));
    client.ask("ZADD z 1 m1 2 m2");
    assert_eq!(
        client.ask("ZINTER 3 z z s WITHSCORES"),
        "*4\r\n$2\r\nm1\r\n$1\r\n3\r\n$2\r\nm2\r\n$1\r\n5\r\n"
    );
}

/// Once: `ACL SETUSER` with 100,000 rules took 40 s.
#[test]
fn a_user_has_so_many_rules() {
    let mut client = Node::new().client();
    let rules: Vec<Vec<u8>> = (0..100_000).map(|at| format!("~k{at}").into_bytes()).collect();
    let of = |count: usize| {
        let words = [b"ACL".to_vec(), b"SETUSER".to_vec(), b"u".to_vec()].into_iter();
        words.chain(rules[..count].iter().cloned()).collect::<Vec<_>>()
    };
    for count in [100_000, 8_193] {
        let words = of(count);
        let words: Vec<&[u8]> = words.iter().map(Vec::as_slice).collect();
        assert!(quick(&mut client, &words).starts_with("-ERR"), "{count}");
    }
    let words = of(8_192);
    let words: Vec<&[u8]> = words.iter().map(Vec::as_slice).collect();
    assert_eq!(quick(&mut client, &words), "+OK\r\n");
}
