//! Clients over real sockets, around an engine that does as it is told, turn by turn and in virtual time.

pub(super) mod bench;
mod busy;
mod crowded;

use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::time::{Duration, Instant};

use highwater_core::NodeId;
use highwater_redis::connection::MAX_UNREAD_BYTES;
use highwater_redis::moment::Moment;
use highwater_seam::Refusal;

use bench::{Bench, RULES, SECOND, gets, lines};

use super::clients::Rules;
use super::crowd::Limits;
use crate::config::Io;

/// Every test runs over epoll and over a ring.
macro_rules! over_both {
    ($($name:ident),* $(,)?) => {
        mod over_epoll {
            $(#[test] fn $name() { super::$name(super::Io::Epoll) })*
        }
        mod over_uring {
            $(#[test] fn $name() {
                if crate::uring::tests::are_run() {
                    super::$name(super::Io::Uring)
                }
            })*
        }
    };
}

over_both! {
    a_client_goes_on_when_it_has_read,
    who_closes_its_half_is_served_to_the_end,
    a_request_that_the_engine_had_no_room_for_is_served_though_its_client_left_half,
    a_client_that_reads_nothing_holds_a_mebibyte_and_a_reply,
    all_clients_together_hold_the_limit_and_a_reply_and_the_others_are_served,
    clients_that_read_get_all_their_replies_though_the_limit_is_reached,
    a_small_request_does_not_wait_behind_every_long_one,
    a_small_request_does_not_wait_behind_every_long_reply,
    commands_that_need_no_engine_are_answered_by_turns_too,
    silence_and_standstill_are_borne_for_as_long_as_it_is_configured,
    without_timeouts_nobody_is_closed_and_nothing_is_looked_after_for_ever,
    incomplete_commands_together_are_bounded_and_one_at_a_time_goes_on,
    who_asks_of_a_node_that_ends_is_told_to_ask_elsewhere,
    a_node_that_ends_answers_what_was_asked_before,
    replies_come_in_order_though_their_reader_stalls,
    who_is_not_read_from_holds_little_and_goes_on,
    many_incomplete_requests_at_once_are_all_completed,
    the_longest_value_comes_and_goes,
    whoever_comes_gets_only_its_own_replies,
    who_breaks_off_is_noticed_whatever_it_was_doing,
    who_quits_is_told_everything_first,
    nothing_is_spun_for_clients_that_wait,
    who_asks_nothing_of_an_engine_without_room_is_answered,
    beside_an_engine_without_room_a_turn_has_its_bound,
    who_asks_for_little_waits_for_nobody_who_asks_for_much,
    who_asks_for_much_gets_it_in_order_once_there_is_room,
    short_replies_beyond_the_limit_are_bounded,
    what_is_answered_here_and_may_be_long_waits_for_room,
    patterns_of_many_clients_leave_a_turn_its_bound,
    whoever_lost_a_right_between_two_turns_is_refused,
    what_a_pause_holds_of_another_nodes_keeps_its_client_alone,
}

use busy::{
    beside_an_engine_without_room_a_turn_has_its_bound, patterns_of_many_clients_leave_a_turn_its_bound,
    what_a_pause_holds_of_another_nodes_keeps_its_client_alone,
    who_asks_nothing_of_an_engine_without_room_is_answered,
    whoever_lost_a_right_between_two_turns_is_refused,
};
use crowded::{
    short_replies_beyond_the_limit_are_bounded, what_is_answered_here_and_may_be_long_waits_for_room,
    who_asks_for_little_waits_for_nobody_who_asks_for_much,
    who_asks_for_much_gets_it_in_order_once_there_is_room,
};

/// The client wrote everything before it read anything; the replies fill its socket, and then nothing more arrives here:
/// what was received went on being served only when something was received.
fn a_client_goes_on_when_it_has_read(io: Io) {
    for count in [1, 64, 1024, 5000] {
        let mut bench = Bench::new(io, RULES);
        let client = bench.connect();
        assert!(bench.send(&client, &gets(10_000, count)));
        bench.settle();
        assert_eq!(bench.receive(&client, count * 10_000), count * 10_000);
        assert!(bench.most_held < (1 << 20) + 10_000, "{}", bench.most_held);
        assert!(bench.engine.submitted.len() == count && !bench.clients.has_more());
    }
}

/// The connection was closed when its output was written, with requests left in its buffer.
fn who_closes_its_half_is_served_to_the_end(io: Io) {
    for count in [1, 64, 2200, 20_000] {
        let mut bench = Bench::new(io, RULES);
        let client = bench.connect();
        assert!(bench.send(&client, &gets(2000, count)));
        client.shutdown(Shutdown::Write).unwrap();
        bench.settle();
        assert_eq!(bench.receive(&client, usize::MAX), count * 2000);
        assert_eq!(bench.clients.count(), 0);
    }
}

fn a_request_that_the_engine_had_no_room_for_is_served_though_its_client_left_half(io: Io) {
    let mut bench = Bench::new(io, RULES);
    let client = bench.connect();
    bench.engine.busy = true;
    assert!(bench.send(&client, &gets(10, 500)));
    client.shutdown(Shutdown::Write).unwrap();
    bench.settle();
    assert_eq!((bench.clients.count(), bench.engine.submitted.len()), (1, 0));
    bench.engine.busy = false;
    assert_eq!(bench.receive(&client, usize::MAX), 5000);
}

fn a_client_that_reads_nothing_holds_a_mebibyte_and_a_reply(io: Io) {
    let mut bench = Bench::new(io, RULES);
    let client = bench.connect();
    // 11.5 kB of requests for 11 GB.
    assert!(bench.send(&client, &gets(16_000_000, 700)));
    bench.settle();
    assert!(bench.most_held <= (1 << 20) + 16_000_000, "{}", bench.most_held);
    assert!(bench.engine.most_unreleased <= (1 << 20) + 16_000_000);
    assert!(bench.receive(&client, 64_000_000) >= 64_000_000);
    assert!(bench.most_held <= (1 << 20) + 16_000_000, "{}", bench.most_held);
}

fn all_clients_together_hold_the_limit_and_a_reply_and_the_others_are_served(io: Io) {
    let limits = Limits { replies: 32 << 20, ..RULES.limits };
    let mut bench = Bench::new(io, Rules { limits, ..RULES });
    let rude: Vec<_> = (0..60).map(|_| bench.connect()).collect();
    for client in &rude {
        assert!(bench.send(client, &gets(1_000_000, 20)));
    }
    bench.settle();
    assert!(bench.most_held <= (32 << 20) + 1_000_000, "{}", bench.most_held);
    // It fills up to the limit with sixty clients that do not read. Who holds nothing is served before that, and after
    // the first of them are found out.
    let polite = bench.connect();
    assert!(bench.send(&polite, &gets(100, 50)));
    bench.wait(3);
    assert_eq!(bench.receive(&polite, 5000), 5000);
    assert!(bench.most_held <= (32 << 20) + 1_000_000, "{}", bench.most_held);
}

fn clients_that_read_get_all_their_replies_though_the_limit_is_reached(io: Io) {
    let limits = Limits { replies: 4 << 20, ..RULES.limits };
    let mut bench = Bench::new(io, Rules { limits, ..RULES });
    let clients: Vec<_> = (0..20).map(|_| bench.connect()).collect();
    for client in &clients {
        assert!(bench.send(client, &gets(500_000, 40)));
    }
    bench.settle();
    // They read by turns: who reads nothing for a while is not one of them.
    let mut got = vec![0; clients.len()];
    for _ in 0..5000 {
        for (client, got) in clients.iter().zip(&mut got) {
            *got += bench.receive_now(client);
        }
        if got.iter().all(|got| *got == 20_000_000) {
            break;
        }
    }
    assert_eq!(got, vec![20_000_000; clients.len()]);
    assert!(bench.most_held <= (4 << 20) + 500_000, "{}", bench.most_held);
}

/// However many clients send long requests, a short one waits for one of them at most.
fn a_small_request_does_not_wait_behind_every_long_one(io: Io) {
    let mut bench = Bench::new(io, RULES);
    let len = 1_500_000;
    let head = format!("*3\r\n$3\r\nSET\r\n$1\r\nk\r\n${len}\r\n");
    let long = [head.as_bytes(), &vec![b'v'; len], b"\r\n"].concat();
    let hogs: Vec<_> = (0..6).map(|_| bench.connect()).collect();
    let small = bench.connect();
    for hog in &hogs {
        assert!(bench.send(hog, &long[..long.len() - 2]));
    }
    bench.settle();
    assert!(bench.engine.submitted.is_empty());
    // All become complete between two turns; the small one comes last.
    for mut hog in &hogs {
        hog.write_all(b"\r\n").unwrap();
    }
    (&small).write_all(&gets(10, 1)).unwrap();
    bench.settle();
    let at = bench.engine.submitted.iter().position(|len| *len < 100).unwrap();
    assert!(at <= 1, "{at} long requests ran first");
    assert_eq!(bench.engine.submitted.len(), 7);
}

/// The same for long replies, whose length nobody knows before.
fn a_small_request_does_not_wait_behind_every_long_reply(io: Io) {
    let mut bench = Bench::new(io, RULES);
    let hogs: Vec<_> = (0..6).map(|_| bench.connect()).collect();
    let small = bench.connect();
    for hog in &hogs {
        assert!(bench.send(hog, &gets(2_000_000, 4)));
    }
    bench.settle();
    for mut hog in &hogs {
        // Their sockets have room again, and all may go on.
        assert!(bench.receive(hog, 2_000_000) >= 2_000_000);
        hog.write_all(&gets(2_000_001, 1)).unwrap();
    }
    let before = bench.engine.submitted.len();
    (&small).write_all(&gets(10, 1)).unwrap();
    for _ in 0..20 {
        bench.turn();
    }
    let new = &bench.engine.submitted[before..];
    let at = new.iter().position(|len| *len < 9 + Moment::BYTES).expect("the small one ran");
    assert!(at <= 1, "{at} long ones ran first");
    assert_eq!(bench.receive(&small, 10), 10);
}

fn commands_that_need_no_engine_are_answered_by_turns_too(io: Io) {
    let mut bench = Bench::new(io, RULES);
    let client = bench.connect();
    (&client).write_all(&b"PING\r\n".repeat(10_000)).unwrap();
    let (mut turns, mut got) = (0, 0);
    while got < 10_000 * "+PONG\r\n".len() {
        got += bench.receive_now(&client);
        turns += 1;
    }
    assert!(turns > 30, "ten thousand commands took {turns} turns");
}

/// Once: vanished clients and clients that read nothing held their places for ever.
fn silence_and_standstill_are_borne_for_as_long_as_it_is_configured(io: Io) {
    let mut bench = Bench::new(io, Rules { idle_timeout: 10 * SECOND, stuck_timeout: 20 * SECOND, ..RULES });
    let (idle, stuck, busy) = (bench.connect(), bench.connect(), bench.connect());
    assert!(bench.send(&stuck, &gets(10_000_000, 3)));
    for _ in 0..3 {
        bench.wait(3);
        assert!(bench.send(&busy, &gets(10, 1)));
        assert_eq!(bench.receive(&busy, 10), 10);
    }
    assert_eq!(bench.clients.count(), 3);
    bench.wait(3);
    assert_eq!(bench.clients.count(), 2, "the idle one is gone");
    assert_eq!(bench.receive(&idle, 1), 0);
    assert!(bench.send(&busy, &gets(10, 1)));
    bench.wait(10);
    assert!(bench.receive(&stuck, usize::MAX) < 30_000_000);
    assert_eq!(bench.clients.count(), 0, "all are gone");
    bench.wait(2);
    assert_eq!(bench.clients.deadline(), None, "nobody is there: nothing to look after");
}

fn without_timeouts_nobody_is_closed_and_nothing_is_looked_after_for_ever(io: Io) {
    let mut bench = Bench::new(io, RULES);
    let _idle = bench.connect();
    let loud = bench.connect();
    assert!(bench.send(&loud, &gets(3_000_000, 2)));
    assert_eq!(bench.receive(&loud, 6_000_000), 6_000_000);
    bench.wait(3);
    assert_eq!(bench.clients.count(), 2);
    assert_eq!((bench.clients.held().requests, bench.clients.held().replies), (0, 0));
    assert_eq!(bench.clients.deadline(), None);
}

/// Once: incomplete commands of many clients together had no bound.
fn incomplete_commands_together_are_bounded_and_one_at_a_time_goes_on(io: Io) {
    let limits = Limits { requests: 8 << 20, ..RULES.limits };
    let mut bench = Bench::new(io, Rules { limits, ..RULES });
    let len = 3_000_000;
    let head = format!("*2\r\n$3\r\nGET\r\n${len}\r\n");
    let command = [head.as_bytes(), &vec![b'1'; len], b"\r\n"].concat();
    let clients: Vec<_> = (0..30).map(|_| bench.connect()).collect();
    // Each sends most of a command, as far as its socket takes it.
    let mut sent: Vec<usize> = Vec::new();
    for client in &clients {
        let mut at = 0;
        for _ in 0..200 {
            if let Ok(n) = (&*client).write(&command[at..len / 2]) {
                at += n;
            }
            bench.turn();
        }
        sent.push(at);
    }
    bench.settle();
    let held = bench.clients.held().requests;
    assert!(held < (8 << 20) + 8_000_000 + 30 * (64 << 10), "{held}");
    // A small one is served all the same.
    let small = bench.connect();
    assert!(bench.send(&small, &gets(10, 1)));
    assert_eq!(bench.receive(&small, 10), 10);
    // Nobody goes on: the ones that hold up the others are closed, until there is room for all that wait.
    bench.wait(200);
    let held = bench.clients.held().requests;
    assert!(held <= 8 << 20, "{held}");
    let alive = bench.clients.count();
    assert!((2..30).contains(&alive), "{alive}");
    // The survivors complete their commands. The kernel may deliver only now what one of them had sent; who then holds up the
    // others, and does not go on, is closed, too.
    bench.ages = true;
    let mut served = 0;
    for (client, at) in clients.iter().zip(sent) {
        served += usize::from(bench.send(client, &command[at..]) && bench.receive(client, 5) == 5);
    }
    assert!(served > 0 && served == bench.clients.count() - 1, "{served} of {alive}");
}

/// Closed at once, connections broke while requests were on their way: in doubt, though they were never run.
fn who_asks_of_a_node_that_ends_is_told_to_ask_elsewhere(io: Io) {
    let elsewhere = Refusal::NotServing { ask: Some(NodeId(2)) };
    let mut bench = Bench::new(io, RULES);
    let [silent, gone, late] = [(); 3].map(|()| bench.connect());
    bench.wait(3);
    let [busy, waiting] = [(); 2].map(|()| bench.connect());
    assert!(bench.send(&busy, &gets(5, 1)) && bench.receive(&busy, 5) == 5);
    bench.engine.busy = true;
    assert!(bench.send(&waiting, &gets(5, 3)));
    bench.settle();
    let mut at_the_door = TcpStream::connect(bench.address).unwrap();
    at_the_door.set_nonblocking(true).unwrap();
    at_the_door.write_all(&gets(5, 1)).unwrap();

    bench.ends = Some(elsewhere);
    bench.settle();
    assert!(TcpStream::connect(bench.address).is_err(), "nobody stands behind the door any more");
    for (client, count) in [(&waiting, 3), (&at_the_door, 1)] {
        let text = lines(&mut bench, client, count);
        assert_eq!(text.matches("-NOTLEADER leader is node 2").count(), count, "{text}");
    }
    assert!(bench.clients.owes(), "one that asked a moment ago has not been told");
    assert!(bench.send(&busy, &gets(5, 1)));
    assert!(lines(&mut bench, &busy, 1).starts_with("-NOTLEADER"));
    assert!(!bench.clients.owes(), "who was silent for long is not waited for");
    // It is told all the same, while the node is there, and if it asks at the last moment.
    assert!(bench.send(&silent, &gets(5, 1)));
    assert!(lines(&mut bench, &silent, 1).starts_with("-NOTLEADER"));
    drop(gone);
    (&late).write_all(&gets(5, 2)).unwrap();
    bench.clients.say_goodbye(bench.now, elsewhere, &bench.poller);
    drop(bench);
    let mut text = String::new();
    late.set_nonblocking(false).unwrap();
    (&late).read_to_string(&mut text).unwrap();
    assert_eq!(text.matches("-NOTLEADER").count(), 2, "{text}");
}

fn a_node_that_ends_answers_what_was_asked_before(io: Io) {
    let mut bench = Bench::new(io, RULES);
    let client = bench.connect();
    assert!(bench.send(&client, &gets(5, 1)));
    bench.ends = Some(Refusal::NotServing { ask: None });
    assert_eq!(bench.receive(&client, 5), 5);
    assert!(bench.send(&client, &gets(5, 1)));
    let text = lines(&mut bench, &client, 1);
    assert!(text.starts_with("-NOTLEADER no leader is known"), "{text}");
    assert!(!bench.clients.owes());
}

/// Echoes from one number to another, and what is answered to them.
fn echoes(from: usize, to: usize) -> (Vec<u8>, Vec<u8>) {
    let (mut asked, mut told) = (Vec::new(), Vec::new());
    for at in from..to {
        let word = format!("{at}{}", "-".repeat(at % 300));
        write!(asked, "ECHO {word}\r\n").unwrap();
        write!(told, "${}\r\n{word}\r\n", word.len()).unwrap();
    }
    (asked, told)
}

/// Short output and long, by turns, to a socket that is full now and then: each byte once, in its place.
fn replies_come_in_order_though_their_reader_stalls(io: Io) {
    let mut bench = Bench::new(io, RULES);
    let mut client = bench.connect();
    let (mut wanted, mut got, mut asked) = (Vec::new(), Vec::new(), 0);
    for round in 0..120 {
        // Few at first, so that each turn's output is short; then more than a socket takes.
        let count = if round % 3 == 0 { 3000 } else { 5 };
        for _ in 0..if round % 3 == 0 { 1 } else { 40 } {
            let (bytes, told) = echoes(asked, asked + count);
            asked += count;
            assert!(bench.send(&client, &bytes));
            wanted.extend(told);
        }
        if round % 10 == 9 {
            let (mut buffer, since) = (vec![0; 1 << 16], Instant::now());
            while got.len() < wanted.len() && bench.stands_still(since) {
                match client.read(&mut buffer) {
                    Ok(0) => break,
                    Ok(n) => got.extend_from_slice(&buffer[..n]),
                    Err(_) => {}
                }
                bench.turn();
            }
            assert!(got == wanted, "round {round}: {} of {} bytes, or others", got.len(), wanted.len());
            got.clear();
            wanted.clear();
        }
    }
    bench.settle();
    assert_eq!((bench.clients.held().held, bench.clients.held().output), (0, 0));
}

/// The engine has no room: nobody is read from, whatever clients send meanwhile. Then all goes on where it stopped.
fn who_is_not_read_from_holds_little_and_goes_on(io: Io) {
    let mut bench = Bench::new(io, RULES);
    let clients: Vec<_> = (0..20).map(|_| bench.connect()).collect();
    // Of so many requests a socket takes a part while nobody reads it.
    const COUNT: usize = 10_000;
    let asked = [&b"GET 5"[..], &[b' '; 90], b"\r\n"].concat().repeat(COUNT);
    let mut at = vec![0; clients.len()];
    for round in 0..10 {
        bench.engine.busy = round % 2 == 0;
        for (mut client, at) in clients.iter().zip(&mut at) {
            while let Ok(n @ 1..) = client.write(&asked[*at..]) {
                *at += n;
            }
            bench.turn();
        }
        if bench.engine.busy {
            bench.settle();
            let held = bench.clients.held().requests;
            // What one may hold, and what one call brought when it came to that; a vector grows to twice as much.
            let each = MAX_UNREAD_BYTES + crate::uring::MEMORY;
            assert!(held <= clients.len() * 2 * each, "{held}");
            let before = bench.engine.submitted.len();
            bench.settle();
            assert_eq!(bench.clients.held().requests, held, "nobody is read from");
            assert_eq!(bench.engine.submitted.len(), before);
        } else {
            clients.iter().for_each(|client| {
                bench.receive_now(client);
            });
        }
    }
    bench.engine.busy = false;
    let mut left: usize = at.iter().map(|at| asked.len() - at).sum();
    let since = Instant::now();
    while (left > 0 || bench.engine.submitted.len() < clients.len() * COUNT) && bench.stands_still(since) {
        for (mut client, at) in clients.iter().zip(&mut at) {
            while let Ok(n @ 1..) = client.write(&asked[*at..]) {
                (*at, left) = (*at + n, left - n);
            }
            bench.receive_now(client);
        }
    }
    assert_eq!(bench.engine.submitted.len(), clients.len() * COUNT);
}

/// More at once than there are buffers: who finds none is served later, and nobody never.
fn many_incomplete_requests_at_once_are_all_completed(io: Io) {
    let mut bench = Bench::new(io, RULES);
    let clients: Vec<_> = (0..200).map(|_| bench.connect()).collect();
    let len = 300_000;
    let head = format!("*3\r\n$3\r\nSET\r\n$1\r\nk\r\n${len}\r\n");
    let command = [head.as_bytes(), &vec![b'v'; len], b"\r\n"].concat();
    let half = command.len() / 2;
    // 30 MB arrive between two turns, then as much again.
    for (part, ends) in [(&command[..half], false), (&command[half..], true)] {
        clients.iter().for_each(|mut client| client.write_all(part).unwrap());
        if !ends {
            bench.settle();
            assert!(bench.engine.submitted.is_empty());
            assert!(bench.clients.held().requests >= clients.len() * half, "all of it is here");
        }
    }
    bench.settle();
    assert_eq!(bench.engine.submitted.len(), clients.len());
    for client in &clients {
        assert_eq!(bench.receive(client, 5), 5);
    }
    if let Some(ring) = bench.clients.on_ring.ring() {
        assert!(ring.exhausted > 0, "buffers sufficed: this tests nothing");
    }
    bench.wait(3);
    assert_eq!(bench.clients.held().requests, 0);
}

fn the_longest_value_comes_and_goes(io: Io) {
    let mut bench = Bench::new(io, RULES);
    let (client, other) = (bench.connect(), bench.connect());
    let len = 16 << 20;
    let head = format!("*3\r\n$3\r\nSET\r\n$1\r\nk\r\n${len}\r\n");
    assert!(bench.send(&client, &[head.as_bytes(), &vec![b'v'; len], b"\r\n"].concat()));
    assert!(bench.send(&other, &gets(7, 1)));
    assert_eq!((bench.receive(&client, 5), bench.receive(&other, 7)), (5, 7));
    assert!(bench.engine.submitted.iter().any(|args| *args > len));
    assert!(bench.send(&client, &gets(len, 2)));
    assert_eq!(bench.receive(&client, 2 * len), 2 * len);
}

/// Slots are used again at once by others, while their last clients are still sending: nothing of one reaches another.
fn whoever_comes_gets_only_its_own_replies(io: Io) {
    let mut bench = Bench::new(io, RULES);
    let mut stays = bench.connect();
    let mut asked = 0;
    for round in 0..400 {
        let leaves: Vec<_> = (0..3).map(|_| bench.connect()).collect();
        for (at, mut client) in leaves.iter().enumerate() {
            // It floods, and its last words arrive while it is closed from here or from there.
            let _ = client.write(&gets(3, 2000));
            if at == round % 3 {
                bench.turn();
            }
            let _ = client.write(&gets(3, 200));
        }
        for (at, client) in leaves.into_iter().enumerate() {
            match (round + at) % 3 {
                0 => drop(client),
                1 => {
                    socket2::SockRef::from(&client).set_linger(Some(Duration::ZERO)).unwrap();
                    drop(client);
                }
                _ => {
                    // As CLIENT KILL does it: to whoever came last.
                    let of = bench.clients.slots.iter().filter(|slot| slot.client.is_some());
                    let id = of.map(|slot| slot.id).max().unwrap();
                    if bench.clients.count() > 1 {
                        bench.clients.door().clients.order(id, highwater_redis::clients::Order::Kill);
                    }
                    bench.turn();
                }
            }
        }
        let (bytes, told) = echoes(asked, asked + 3);
        asked += 3;
        assert!(bench.send(&stays, &bytes));
        let mut got = vec![0; told.len()];
        let (mut filled, since) = (0, Instant::now());
        while filled < got.len() && bench.stands_still(since) {
            match stays.read(&mut got[filled..]) {
                Ok(0) => break,
                Ok(n) => filled += n,
                Err(_) => {}
            }
            bench.turn();
        }
        assert!(got == told, "round {round}");
    }
    bench.settle();
    assert_eq!(bench.clients.count(), 1);
    let slots = bench.clients.slots.len();
    assert!(slots <= 16, "{slots} slots for four clients at a time");
    assert_eq!(bench.clients.slots.free(), slots - 1, "each is free again, once");
}

/// A reset is told of a client that is read from, of one that is not because the engine has no room, of one whose replies wait, and of one
/// that said that it sends no more.
fn who_breaks_off_is_noticed_whatever_it_was_doing(io: Io) {
    let mut bench = Bench::new(io, RULES);
    for round in 0..20 {
        let [silent, half, waiting, stalled, ended] = [(); 5].map(|()| bench.connect());
        assert!(bench.send(&half, b"*2\r\n$3\r\nGET\r\n$100\r\nabc"));
        assert!(bench.send(&stalled, &gets(3_000_000, 10)));
        bench.settle();
        bench.engine.busy = true;
        assert!(bench.send(&waiting, &gets(5, 5)));
        assert!(bench.send(&ended, &gets(5, 5)));
        ended.shutdown(Shutdown::Write).unwrap();
        bench.settle();
        assert_eq!(bench.clients.count(), 5, "round {round}");
        for client in [silent, half, waiting, stalled, ended] {
            socket2::SockRef::from(&client).set_linger(Some(Duration::ZERO)).unwrap();
            drop(client);
        }
        let since = Instant::now();
        while bench.clients.count() > 0 && bench.stands_still(since) {
            bench.turn();
        }
        assert_eq!(bench.clients.count(), 0, "round {round}");
        bench.engine.busy = false;
        bench.settle();
    }
    assert_eq!(bench.clients.held(), super::client::Counted::default());
    assert_eq!(bench.clients.slots.free(), bench.clients.slots.len());
}

fn who_quits_is_told_everything_first(io: Io) {
    let mut bench = Bench::new(io, RULES);
    for count in [1, 40, 20_000] {
        let client = bench.connect();
        let (mut asked, mut told) = echoes(0, count);
        asked.extend(b"QUIT\r\n");
        told.extend(b"+OK\r\n");
        assert!(bench.send(&client, &asked) || count > 40);
        assert_eq!(bench.receive(&client, usize::MAX), told.len());
        bench.settle();
        assert_eq!(bench.clients.count(), 0);
    }
}

/// A worker may sleep while its clients wait for each other, for data, or for nothing.
fn nothing_is_spun_for_clients_that_wait(io: Io) {
    let mut bench = Bench::new(io, RULES);
    let clients: Vec<_> = (0..50).map(|_| bench.connect()).collect();
    for client in &clients {
        assert!(bench.send(client, &gets(5, 1)));
        assert_eq!(bench.receive(client, 5), 5);
    }
    let stalled = bench.connect();
    assert!(bench.send(&stalled, &gets(3_000_000, 10)));
    bench.engine.busy = true;
    assert!(bench.send(&clients[0], &gets(5, 5)));
    bench.wait(3);
    for _ in 0..3 {
        let began = Instant::now();
        let count = bench.clients.wait(&mut bench.poller, Some(100_000_000)).unwrap();
        bench.clients.take_news(bench.now);
        assert!(count == 0 && began.elapsed() >= Duration::from_millis(100), "{count} events");
        assert!(!bench.turn(), "there is nothing to do");
    }
}
