//! What the kernel does with a ring, and what the ring makes of it.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::LazyLock;
use std::time::{Duration, Instant};

use super::check::pair;
use super::*;
use crate::clock::thread_cpu_ms;
use crate::poll::{Interest, Poller};
use crate::waker::Waker;

/// A ring, epoll, and two ends of a connection: ours and the client's.
struct Table {
    ring: Ring,
    poller: Poller,
    ours: TcpStream,
    theirs: TcpStream,
}

/// Whether tests of rings can be run here. Containers often refuse io_uring: then each of these says that it was not run. CI asks for them
/// (`HIGHWATER_IO_URING=required`), and fails.
pub fn are_run() -> bool {
    static CHECKED: LazyLock<Result<(), String>> = LazyLock::new(check);
    let Err(why) = &*CHECKED else { return true };
    assert!(std::env::var_os("HIGHWATER_IO_URING").is_none(), "{why}");
    eprintln!("NOT RUN over io_uring: {why}");
    false
}

/// What happens panics with these words, where there are rings.
fn panics(words: &str, what: impl FnOnce(Table)) {
    let Some(table) = Table::new() else { return };
    let panic = catch_unwind(AssertUnwindSafe(|| what(table))).expect_err("it panics");
    let said = panic.downcast_ref::<String>().map(String::as_str).or(panic.downcast_ref::<&str>().copied());
    assert!(said.is_some_and(|said| said.contains(words)), "{said:?} instead of {words:?}");
}

impl Table {
    /// `None` where there are no rings.
    fn new() -> Option<Table> {
        are_run().then(|| {
            let (ours, theirs) = pair().unwrap();
            Table { ring: Ring::new().unwrap(), poller: Poller::new().unwrap(), ours, theirs }
        })
    }

    /// The next news, copied; how long they were.
    fn news(&mut self) -> (usize, Result<Vec<u8>, News>) {
        let since = Instant::now();
        loop {
            match self.ring.next_news() {
                Some((at, News::Received(id, len))) => {
                    let bytes = self.ring.received(id, len).to_vec();
                    self.ring.give_back(id);
                    return (at, Ok(bytes));
                }
                Some((at, other)) => return (at, Err(other)),
                None => {}
            }
            assert!(since.elapsed() < Duration::from_secs(20), "nothing happens");
            self.ring.wait(&self.poller, Some(100_000_000)).unwrap();
        }
    }

    /// Everything until a receive has ended.
    fn until_off(&mut self, at: usize) -> Vec<u8> {
        let mut got = Vec::new();
        while !self.ring.is_off(at) {
            if let (_, Ok(bytes)) = self.news() {
                got.extend(bytes);
            }
        }
        got
    }
}

#[test]
fn one_receive_brings_everything_to_the_end() {
    let Some(mut table) = Table::new() else { return };
    table.ring.receive(7, &table.ours);
    for word in [&b"one"[..], b"two", b"three"] {
        table.theirs.write_all(word).unwrap();
        let (at, bytes) = table.news();
        assert_eq!((at, bytes.unwrap()), (7, word.to_vec()));
        assert!(table.ring.receives(7));
    }
    table.theirs.shutdown(std::net::Shutdown::Write).unwrap();
    assert!(matches!(table.news(), (7, Err(News::Ended))));
    assert!(table.ring.is_off(7));
}

#[test]
fn a_reset_is_told() {
    let Some(mut table) = Table::new() else { return };
    table.ring.receive(0, &table.ours);
    table.ring.enter().unwrap();
    socket2::SockRef::from(&table.theirs).set_linger(Some(Duration::ZERO)).unwrap();
    table.theirs = pair().unwrap().1;
    assert!(matches!(table.news(), (0, Err(News::Broken))));
    assert!(table.ring.is_off(0));
}

/// A slot whose receive was cancelled is another's only when the last completion came; what comes until then is told under it.
#[test]
fn a_slot_is_off_when_its_last_completion_came() {
    let Some(mut table) = Table::new() else { return };
    for round in 0..200 {
        table.ring.receive(3, &table.ours);
        if round % 2 == 0 {
            table.ring.enter().unwrap();
        }
        table.theirs.write_all(b"late").unwrap();
        if round % 3 == 0 {
            table.ring.enter().unwrap();
        }
        table.ring.stop(3);
        table.ring.stop(3);
        assert!(!table.ring.is_off(3) && !table.ring.receives(3));
        let mut got = table.until_off(3);
        // What the receive did not take is in the socket still.
        table.ours.set_nonblocking(true).unwrap();
        let mut rest = [0; 16];
        if let Ok(len) = table.ours.read(&mut rest) {
            got.extend(&rest[..len]);
        }
        assert_eq!(got, b"late", "round {round}");
    }
}

/// The generation in a completion is checked: it never reaches a client that came later.
#[test]
fn a_completion_of_an_earlier_receive_is_noticed() {
    panics("a late completion has met another client", |mut table| {
        table.ring.receive(0, &table.ours);
        table.theirs.write_all(b"x").unwrap();
        table.ring.enter().unwrap();
        table.ring.forge_generation(0);
        drop(table.news());
    });
}

#[test]
fn a_buffer_is_given_back_once() {
    panics("given back twice", |mut table| {
        table.ring.receive(0, &table.ours);
        table.theirs.write_all(b"x").unwrap();
        table.ring.enter().unwrap();
        let Some((_, News::Received(id, 1))) = table.ring.next_news() else { panic!("it came") };
        table.ring.give_back(id);
        table.ring.give_back(id);
    });
}

#[test]
fn a_slot_has_one_receive() {
    panics("a slot has one receive", |mut table| {
        table.ring.receive(0, &table.ours);
        table.ring.receive(0, &table.theirs);
    });
}

/// What a socket does not take comes back whole, and what it took is there once: nothing is sent behind a call.
#[test]
fn what_a_socket_does_not_take_comes_back() {
    let Some(mut table) = Table::new() else { return };
    let mut sent = Vec::new();
    let rest = loop {
        let chunk: Vec<u8> = (0..MOST_SENT).map(|at| (sent.len() / MOST_SENT + at) as u8).collect();
        table.ring.send((0, 9), &table.ours, &chunk);
        // All that the kernel may want of it is over when the call is.
        table.ring.enter().unwrap();
        sent.extend(chunk);
        if let Some((0, News::NotSent(9, rest, false))) = table.ring.next_news() {
            break rest;
        }
    };
    assert!(!rest.is_empty() && rest.len() <= MOST_SENT && sent.ends_with(&rest));
    let taken = sent.len() - rest.len();
    let mut got = vec![0; taken];
    table.theirs.read_exact(&mut got).unwrap();
    assert!(got == sent[..taken]);
    table.ring.enter().unwrap();
    table.theirs.set_nonblocking(true).unwrap();
    assert!(table.theirs.read(&mut [0; 1]).is_err(), "and nothing more");
}

#[test]
fn a_socket_that_is_closed_gets_what_was_queued_for_it() {
    let Some(mut table) = Table::new() else { return };
    table.ring.receive(0, &table.ours);
    table.ring.enter().unwrap();
    table.ring.send((0, 1), &table.ours, b"bye");
    let ours = std::mem::replace(&mut table.ours, pair().unwrap().0);
    table.ring.stop(0);
    table.ring.bury(ours);
    table.until_off(0);
    let mut text = String::new();
    table.theirs.read_to_string(&mut text).unwrap();
    assert_eq!(text, "bye", "and then the end");
}

/// A socket was closed behind the call that sleeps, so that its client heard of it when something else happened.
#[test]
fn a_socket_is_closed_before_a_wait_and_not_behind_it() {
    let Some(mut table) = Table::new() else { return };
    let waker = Waker::new().unwrap();
    table.poller.add(&waker, 1, Interest::EDGE).unwrap();
    table.ring.receive(0, &table.ours);
    table.theirs.write_all(b"ping").unwrap();
    table.theirs.shutdown(std::net::Shutdown::Write).unwrap();
    assert_eq!(table.until_off(0), b"ping");
    table.ring.send((0, 1), &table.ours, b"pong");
    let Table { mut ring, poller, ours, mut theirs } = table;
    ring.bury(ours);
    let began = Instant::now();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut text = String::new();
            theirs.read_to_string(&mut text).unwrap();
            assert_eq!(text, "pong", "and then the end");
            assert!(waker.try_sleep());
            waker.wake();
        });
        assert!(ring.wait(&poller, Some(20_000_000_000)).unwrap(), "it is woken by who read to the end");
    });
    assert!(began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());
}

#[test]
fn a_send_on_a_broken_socket_comes_back_as_broken() {
    let Some(mut table) = Table::new() else { return };
    socket2::SockRef::from(&table.theirs).set_linger(Some(Duration::ZERO)).unwrap();
    table.theirs = pair().unwrap().1;
    table.ring.send((5, 2), &table.ours, b"anybody?");
    table.ring.enter().unwrap();
    assert!(matches!(table.ring.next_news(), Some((5, News::NotSent(2, _, true)))));
}

/// Nothing is spun: a wait takes its time if nothing happens, and ends at once if something does, in epoll or from another thread.
#[test]
fn a_wait_ends_with_its_time_or_with_news() {
    let Some(mut table) = Table::new() else { return };
    let waker = Waker::new().unwrap();
    table.poller.add(&waker, 1, Interest::EDGE).unwrap();
    table.ring.receive(0, &table.ours);
    let cpu = thread_cpu_ms();
    for _ in 0..5 {
        let began = Instant::now();
        assert!(!table.ring.wait(&table.poller, Some(50_000_000)).unwrap());
        assert!(began.elapsed() >= Duration::from_millis(50), "{:?}", began.elapsed());
    }
    assert!(
        thread_cpu_ms() - cpu < 50,
        "a quarter of a second of waiting took {} ms of CPU",
        thread_cpu_ms() - cpu
    );
    for _ in 0..200 {
        waker.take();
        assert!(waker.try_sleep());
        std::thread::scope(|scope| {
            scope.spawn(|| waker.wake());
            assert!(table.ring.wait(&table.poller, Some(20_000_000_000)).unwrap(), "slept through a wake-up");
        });
        waker.awake();
        assert_eq!(table.poller.wait(Some(0)).unwrap(), 1);
    }
    // What stays ready is told of again and again.
    let (epolled, mut other) = pair().unwrap();
    table.poller.add(&epolled, 2, Interest::READ).unwrap();
    other.write_all(b"x").unwrap();
    for _ in 0..3 {
        assert!(table.ring.wait(&table.poller, Some(20_000_000_000)).unwrap());
        assert_eq!(table.poller.wait(Some(0)).unwrap(), 1);
    }
    // And a look that waits for nothing sees both.
    table.theirs.write_all(b"y").unwrap();
    assert!(table.ring.wait(&table.poller, Some(0)).unwrap());
    assert!(matches!(table.news(), (0, Ok(bytes)) if bytes == b"y"));
}
