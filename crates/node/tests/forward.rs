//! `server.forward` on three whole nodes: a plain client on a follower is served as if it had come to the leader.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod trio;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use trio::{Client, PATIENCE, Reply, Trio, until};

fn int(n: i64) -> Reply {
    Reply::Int(n)
}

fn bulk(text: &str) -> Reply {
    Reply::Bulk(text.as_bytes().to_vec())
}

fn ok() -> Reply {
    Reply::Line("OK".into())
}

#[test]
fn a_plain_client_on_a_follower_is_served() {
    let trio = Trio::forwarding(|_| ());
    let (leader, [one, other]) = trio.roles();
    let (mut at_leader, mut client, mut second) = (trio.client(leader), trio.client(one), trio.client(other));

    let at_first = trio.forwarded(leader);
    // In order, however many are under way, with local replies between.
    let mut bytes = Vec::new();
    for n in 0..5000 {
        bytes.extend_from_slice(b"INCR n\r\n");
        if n % 7 == 0 {
            bytes.extend_from_slice(b"PING\r\n");
        }
    }
    client.send(&bytes);
    for n in 0..5000 {
        assert_eq!(client.read(), int(n + 1));
        if n % 7 == 0 {
            assert_eq!(client.read(), Reply::Line("PONG".into()));
        }
    }
    assert_eq!(at_leader.ask(&["GET", "n"]), bulk("5000"));

    // Transactions keep what their own connection has watched and queued.
    assert_eq!(client.ask(&["WATCH", "n"]), ok());
    assert_eq!(client.ask(&["MULTI"]), ok());
    assert_eq!(second.ask(&["MULTI"]), ok());
    assert_eq!(client.ask(&["SET", "n", "x"]), Reply::Line("QUEUED".into()));
    assert_eq!(second.ask(&["SET", "n", "y"]), Reply::Line("QUEUED".into()));
    assert_eq!(second.ask(&["EXEC"]), Reply::Array(vec![ok()]));
    assert_eq!(client.ask(&["EXEC"]), Reply::Null, "another one wrote it");
    assert_eq!(client.ask(&["GET", "n"]), bulk("y"));

    // Sessions: once, wherever it is repeated.
    let Reply::Int(session) = client.ask(&["HW.SESSION", "NEW"]) else { panic!("no session") };
    let session = session.to_string();
    for client in [&mut client, &mut second, &mut at_leader] {
        assert_eq!(client.ask(&["HW.ONCE", &session, "1", "INCR", "once"]), int(1));
    }

    // Interactive transactions bring their evidence with each step.
    assert_eq!(client.ask(&["HW.BEGIN"]), ok());
    assert_eq!(client.ask(&["INCR", "once"]), int(2));
    assert_eq!(second.ask(&["GET", "once"]), bulk("1"));
    assert_eq!(client.ask(&["HW.COMMIT"]), ok());
    assert_eq!(second.ask(&["GET", "once"]), bulk("2"));

    // Scripts, RESP3, errors.
    assert_eq!(client.ask(&["EVAL", "return redis.call('INCR', KEYS[1])", "1", "once"]), int(3));
    assert!(
        matches!(client.ask(&["LPUSH", "once", "a"]), Reply::Error(text) if text.starts_with("WRONGTYPE"))
    );
    assert_eq!(client.ask(&["SADD", "set", "a", "b"]), int(2));
    assert!(matches!(second.ask(&["HELLO", "3"]), Reply::Map(_)));
    assert!(matches!(second.ask(&["SMEMBERS", "set"]), Reply::Set(members) if members.len() == 2));

    // The longest value there is.
    let long = "v".repeat(16 << 20);
    assert_eq!(client.ask(&["SET", "long", &long]), ok());
    assert_eq!(second.ask(&["GET", "long"]), bulk(&long));
    assert_eq!(client.ask(&["DEL", "long"]), int(1));

    // Who reads here is not forwarded: a snapshot of this node, which is a little behind.
    let before = trio.forwarded(one);
    assert_eq!(client.ask(&["READONLY"]), ok());
    until("a snapshot", || client.ask(&["GET", "once"]) == bulk("3"));
    assert_eq!(trio.forwarded(one), before);
    assert_eq!(client.ask(&["INCR", "once"]), int(4), "a write is forwarded all the same");
    assert_eq!(trio.forwarded(one), before + 1);
    assert_eq!(trio.forwarded(leader), at_first, "nothing is forwarded twice");

    // Cluster clients are told whom to ask, and may.
    assert!(matches!(client.ask(&["CLUSTER", "SLOTS"]), Reply::Array(_)));
}

#[test]
fn who_waits_for_data_is_served_in_turn_and_holds_up_nobody() {
    let trio = Trio::forwarding(|_| ());
    let (leader, [one, other]) = trio.roles();
    let mut waits: Vec<Client> = [one, other, leader, one].map(|id| trio.client(id)).into();
    for (at, client) in waits.iter_mut().enumerate() {
        let id = client.id();
        client.write(&["BLPOP", "queue", "0"]);
        // Each stands in line before the next one comes: its second look at the data is over.
        let home = [one, other, leader, one][at];
        until("a client in line", || trio.client(home).waits(id));
        until("the leader knows", || {
            trio.taken_for_others(leader) >= trio.forwarded(one) + trio.forwarded(other)
        });
    }
    let mut client = trio.client(other);
    for n in 0..4 {
        let n = n.to_string();
        assert_eq!(client.ask(&["PING"]), Reply::Line("PONG".into()));
        assert!(matches!(client.ask(&["RPUSH", "queue", &n]), Reply::Int(_)));
    }
    let mut got: Vec<Reply> = waits.iter_mut().map(Client::read).collect();
    got.sort_by_key(|reply| format!("{reply:?}"));
    for (n, reply) in got.iter().enumerate() {
        assert_eq!(*reply, Reply::Array(vec![bulk("queue"), bulk(&n.to_string())]));
    }
    // A time limit is the client's own node's.
    let began = Instant::now();
    assert_eq!(client.ask(&["BLPOP", "queue", "0.2"]), Reply::Null);
    assert!(began.elapsed() >= Duration::from_millis(200));
    // One that goes while it waits takes nothing with it.
    let mut gone = trio.client(one);
    let id = gone.id();
    gone.write(&["BLPOP", "queue", "0"]);
    until("a client in line", || trio.client(one).waits(id));
    drop(gone);
    until("it is gone", || !trio.client(one).waits(id));
    assert_eq!(client.ask(&["RPUSH", "queue", "left"]), int(1));
    assert_eq!(client.ask(&["LPOP", "queue"]), bulk("left"));
}

#[test]
fn the_leader_knows_whose_request_it_is_and_its_users_count() {
    let trio = Trio::forwarding(|_| ());
    let (leader, [one, other]) = trio.roles();
    let (mut at_leader, mut root, mut bob) = (trio.client(leader), trio.client(one), trio.client(other));
    // A change of users through a follower is known there and on the leader when it is answered.
    let rule = ["ACL", "SETUSER", "bob", "on", ">secret", "~bob:*", "+@all"];
    assert_eq!(root.ask(&rule), ok());
    assert_eq!(at_leader.ask(&["AUTH", "bob", "secret"]), ok());
    until("the user is known", || bob.ask(&["AUTH", "bob", "secret"]) == ok());
    assert_eq!(bob.ask(&["SET", "bob:a", "1"]), ok());
    let denied = |reply: Reply| matches!(reply, Reply::Error(text) if text.starts_with("NOPERM"));
    assert!(denied(bob.ask(&["SET", "alice:a", "1"])));
    // From the moment of the answer on the leader lets none of his pass, whatever his own node knows by then.
    for _ in 0..5 {
        assert_eq!(root.ask(&["ACL", "SETUSER", "bob", "-set"]), ok());
        assert!(denied(bob.ask(&["SET", "bob:a", "2"])));
        assert!(denied(bob.ask_block(&[&["SET", "bob:a", "2"]])));
        assert_eq!(bob.ask(&["GET", "bob:a"]), bulk("1"));
        assert_eq!(root.ask(&["ACL", "SETUSER", "bob", "+set"]), ok());
        until("he may again", || bob.ask(&["SET", "bob:a", "1"]) == ok());
    }
    // A script keeps to its caller's rules, whether it names its keys or not.
    assert_eq!(bob.ask(&["EVAL", "return redis.call('SET', KEYS[1], '1')", "1", "bob:a"]), ok());
    assert!(denied(bob.ask(&["EVAL", "return redis.call('SET', KEYS[1], '1')", "1", "alice:a"])));
    let told = bob.ask(&["EVAL", "return redis.call('SET', 'alice:a', '1')", "0"]);
    let refused = |text: &str| text.contains("The user executing the script");
    assert!(matches!(&told, Reply::Error(text) if refused(text)), "{told:?}");
    assert_eq!(root.ask(&["ACL", "DELUSER", "bob"]), int(1));
    let told = bob.try_ask(&["SET", "bob:a", "3"]);
    assert!(told.is_none_or(denied), "he is gone");
    assert_eq!(root.ask(&["GET", "bob:a"]), bulk("1"));
}

#[test]
fn a_client_that_does_not_read_costs_little_and_holds_up_nobody() {
    let trio = Trio::forwarding(|config| config.limits.reply_bytes_per_worker = 24 << 20);
    let (_, [one, _]) = trio.roles();
    let mut client = trio.client(one);
    assert_eq!(client.ask(&["SET", "long", &"v".repeat(1 << 20)]), ok());
    let mut greedy = trio.client(one);
    greedy.send(&b"GET long\r\n".repeat(1000));
    // A gibibyte is asked for. Meanwhile others are served, and what is held stays far below.
    let (began, mut most) = (Instant::now(), 0);
    let mut served = 0;
    while began.elapsed() < Duration::from_secs(3) {
        assert_eq!(client.ask(&["INCR", "n"]), int(served + 1));
        served += 1;
        most = most.max(trio.held().iter().map(|held| held.requests + held.replies).max().unwrap());
    }
    assert!(most < 64 << 20, "{most} bytes are held");
    assert!(served > 10, "{served} were served");
    // It reads after all, and gets all of it.
    let bulk_of_it = bulk(&"v".repeat(1 << 20));
    (0..1000).for_each(|_| assert_eq!(greedy.read(), bulk_of_it));
    // One that goes in the middle leaves nothing behind.
    greedy.send(&b"GET long\r\n".repeat(1000));
    drop(greedy);
    until("nothing is held", || trio.held().iter().all(|held| held.replies < 4 << 20));
    assert_eq!(client.ask(&["INCR", "n"]), int(served + 1));
}

/// Leaders end while clients of all nodes count: each counter is exact, by sessions; and what a plain `INCR` was not told lies between what
/// was acknowledged and that with what is unknown.
#[test]
fn leaders_may_change_and_every_count_is_exact() {
    let mut trio = Trio::forwarding(|_| ());
    let (first, followers) = trio.roles();
    let over = Arc::new(AtomicBool::new(false));
    let counters: Vec<_> = followers
        .into_iter()
        .cycle()
        .take(6)
        .enumerate()
        .map(|(number, home)| {
            let (over, address) = (over.clone(), trio.address(home));
            thread::spawn(move || match number % 2 {
                0 => count_once(number, address, &over),
                _ => count_plainly(number, address, &over),
            })
        })
        .collect();
    let mut watcher = trio.client(followers[0]);
    until("they count", || matches!(watcher.ask(&["GET", "counter:1"]), Reply::Bulk(_)));
    trio.kill(first);
    // Those that stay elect one of themselves; the other one forwards to it, and clients of both go on where they are.
    let sum = |watcher: &mut Client, number: usize| match watcher.ask(&["GET", &format!("counter:{number}")])
    {
        Reply::Bulk(text) => String::from_utf8(text).unwrap().parse::<u64>().ok(),
        _ => None,
    };
    for number in 0..counters.len() {
        let mut mark = None;
        until("they count again", || {
            let now = sum(&mut watcher, number);
            mark = mark.or(now);
            now.zip(mark).is_some_and(|(now, mark)| now > mark + 20)
        });
    }
    over.store(true, Ordering::Relaxed);
    let counted: Vec<Counted> = counters.into_iter().map(|counter| counter.join().unwrap()).collect();
    for Counted { key, least, most, .. } in &counted {
        let sum = match watcher.ask(&["GET", key]) {
            Reply::Bulk(text) => String::from_utf8(text).unwrap().parse::<u64>().unwrap(),
            other => panic!("{other:?}"),
        };
        assert!((*least..=*most).contains(&sum), "{key} is {sum}, and {least} to {most} were counted");
    }
    assert!(counted.iter().all(|counted| counted.least > 20));
}

/// The lead goes round under load. What was answered and on its way was called unknown, and so was what had not been begun; and nodes that
/// did not know for a moment who leads said so.
#[test]
fn a_lead_that_is_handed_over_leaves_no_doubt_and_refuses_nobody() {
    for forwards in [true, false] {
        let trio = if forwards { Trio::forwarding(|_| ()) } else { Trio::start(|_| ()) };
        let over = Arc::new(AtomicBool::new(false));
        let clients: Vec<_> = (0..9)
            .map(|number| {
                let (over, address) = (over.clone(), trio.address(number % 3));
                thread::spawn(move || count_and_note(number, address, &over, forwards))
            })
            .collect();
        let mut watcher = trio.client(trio.leader().unwrap());
        let mut counts =
            |number: usize| matches!(watcher.ask(&["GET", &format!("counter:{number}")]), Reply::Bulk(_));
        until("they count", || (0..3).any(&mut counts));
        for _ in 0..8 {
            let leader = trio.leader().unwrap();
            trio.hand_over(leader);
            let mut next = trio.client(trio.leader().unwrap());
            until("it serves", || next.serves());
        }
        over.store(true, Ordering::Relaxed);
        let told: Vec<String> = clients.into_iter().flat_map(|client| client.join().unwrap()).collect();
        assert!(told.is_empty(), "forwarding: {forwards}: {told:?}");
    }
}

/// Counts, and asks anew where it is told to; what it was told that nobody should have to be told. A node that forwards refers nobody.
fn count_and_note(
    number: usize,
    address: std::net::SocketAddr,
    over: &AtomicBool,
    forwards: bool,
) -> Vec<String> {
    let (key, mut client, mut told) = (format!("counter:{number}"), Client::connect(address), Vec::new());
    while !over.load(Ordering::Relaxed) {
        client.send(format!("INCR {key}\r\n").repeat(4).as_bytes());
        for _ in 0..4 {
            match client.read() {
                Reply::Int(_) => {}
                Reply::Error(text) if !forwards && text.starts_with("MOVED ") => {}
                Reply::Error(text) => told.push(text),
                other => panic!("{other:?}"),
            }
        }
        // Referred by turns: whom it is told it need not remember.
        if !forwards {
            client = Client::connect(address);
        }
    }
    told
}

struct Counted {
    key: String,
    least: u64,
    most: u64,
}

/// What may be asked again because nothing was done.
fn nothing_done(text: &str) -> bool {
    ["MOVED ", "CLUSTERDOWN ", "TRYAGAIN "].iter().any(|code| text.starts_with(code))
}

fn count_plainly(number: usize, address: std::net::SocketAddr, over: &AtomicBool) -> Counted {
    let key = format!("counter:{number}");
    let (mut client, mut least, mut unknown) = (Client::connect(address), 0, 0);
    while !over.load(Ordering::Relaxed) {
        // A pipeline: an answer that is lost does not shift the others.
        client.send(format!("INCR {key}\r\n").repeat(4).as_bytes());
        for _ in 0..4 {
            match client.read() {
                Reply::Int(sum) => {
                    least += 1;
                    assert!(
                        (least..=least + unknown).contains(&(sum as u64)),
                        "{sum} of {least} and {unknown}"
                    );
                }
                Reply::Error(text) if text.starts_with("UNKNOWN") => unknown += 1,
                Reply::Error(text) if nothing_done(&text) => {}
                other => panic!("{other:?}"),
            }
        }
    }
    Counted { key, least, most: least + unknown }
}

fn count_once(number: usize, address: std::net::SocketAddr, over: &AtomicBool) -> Counted {
    let key = format!("counter:{number}");
    let (mut client, mut sum) = (Client::connect(address), 0);
    let mut session = String::new();
    // One whose answer gets lost is never used.
    until("a session", || match client.ask(&["HW.SESSION", "NEW"]) {
        Reply::Int(id) => {
            session = id.to_string();
            true
        }
        _ => false,
    });
    let mut sequence = 0;
    while !over.load(Ordering::Relaxed) {
        sequence += 1;
        let text = sequence.to_string();
        let began = Instant::now();
        loop {
            match client.ask(&["HW.ONCE", &session, &text, "INCR", &key]) {
                Reply::Int(told) => {
                    sum += 1;
                    assert_eq!(told, sum as i64);
                    break;
                }
                Reply::Error(text) if text.starts_with("ABANDONED") => break,
                Reply::Error(text) if text.starts_with("UNKNOWN") => {}
                Reply::Error(text) if nothing_done(&text) => {}
                other => panic!("{other:?}"),
            }
            assert!(began.elapsed() < PATIENCE);
        }
    }
    Counted { key, least: sum, most: sum }
}

#[test]
fn without_it_a_follower_says_who_leads() {
    let trio = Trio::start(|_| ());
    let (leader, [one, _]) = trio.roles();
    let told = trio.client(one).ask(&["SET", "a", "1"]);
    let address = trio.address(leader);
    assert!(
        matches!(&told, Reply::Error(text) if text.starts_with("MOVED") && text.ends_with(&address.to_string())),
        "{told:?}"
    );
}
