//! Whether this kernel gives this process a ring that does what workers rely on: tried out on a pair of sockets.

use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};

use super::ring::{MOST_SENT, News, Ring};
use crate::poll::Poller;

/// Long enough for what takes no time; a signal may come between, some times.
const PATIENCE: u64 = 500_000_000;
const TRIES: usize = 10;

/// Tries a ring out, and throws it away.
///
/// # Errors
/// Why it will not do.
pub fn check() -> Result<(), String> {
    let mut ring = Ring::new().map_err(in_words)?;
    let tried = try_out(&mut ring).map_err(in_words)?;
    tried.map_err(|what| format!("the kernel's io_uring is too old, or another one: {what}"))
}

/// A ring for each of so many workers, if rings do what they rely on.
///
/// # Errors
/// Why they will not do.
pub fn rings(workers: usize) -> Result<Vec<Ring>, String> {
    // On a thread of its own: what the kernel tidies up behind a ring interrupts calls of the thread that used it, which may be a program's own.
    let thread = std::thread::Builder::new().name("ring-check".into()).spawn(check);
    let thread = thread.map_err(|error| format!("cannot start a thread to try it out: {error}"))?;
    thread.join().expect("what is tried out does not panic")?;
    (0..workers).map(|_| Ring::new().map_err(in_words)).collect()
}

fn in_words(error: io::Error) -> String {
    match error.raw_os_error() {
        Some(libc::ENOSYS) => "the kernel has no io_uring, or a container's seccomp filter hides it".into(),
        Some(libc::EPERM | libc::EACCES) => {
            "io_uring is not allowed here: by a container's seccomp filter, or by the sysctl kernel.io_uring_disabled".into()
        }
        Some(libc::EINVAL) => "the kernel's io_uring is too old: Linux 6.1 or later is needed".into(),
        _ => format!("io_uring: {error}"),
    }
}

/// The inner error: what is otherwise than it has to be.
fn try_out(ring: &mut Ring) -> io::Result<Result<(), &'static str>> {
    let (poller, (ours, mut theirs)) = (Poller::new()?, pair()?);
    ring.receive(0, &ours);
    theirs.write_all(b"x")?;
    let Some((0, News::Received(id, 1))) = news(ring, &poller)? else { return Ok(Err("multishot receives")) };
    ring.give_back(id);
    if !ring.receives(0) {
        return Ok(Err("receives that go on"));
    }
    ring.stop(0);
    if !matches!(news(ring, &poller)?, Some((0, News::Stopped))) || !ring.is_off(0) {
        return Ok(Err("cancelling receives"));
    }
    // A send is over when the call is, and silent if the socket took all of it.
    let word = [7; MOST_SENT];
    ring.send((0, 1), &ours, &word);
    ring.enter()?;
    if ring.next_news().is_some() {
        return Ok(Err("silent sends"));
    }
    theirs.read_exact(&mut [0; MOST_SENT])?;
    for _ in 0..10_000 {
        ring.send((0, 1), &ours, &word);
        ring.enter()?;
        match ring.next_news() {
            None => {}
            Some((0, News::NotSent(1, rest, false))) if !rest.is_empty() => return Ok(Ok(())),
            Some(_) => break,
        }
    }
    Ok(Err("sends that do not wait"))
}

fn news(ring: &mut Ring, poller: &Poller) -> io::Result<Option<(usize, News)>> {
    for _ in 0..TRIES {
        if let Some(news) = ring.next_news() {
            return Ok(Some(news));
        }
        ring.wait(poller, Some(PATIENCE))?;
    }
    Ok(ring.next_news())
}

pub(super) fn pair() -> io::Result<(TcpStream, TcpStream)> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let theirs = TcpStream::connect(listener.local_addr()?)?;
    loop {
        let (ours, from) = listener.accept()?;
        // Whoever else calls here is not meant.
        if from == theirs.local_addr()? {
            ours.set_nonblocking(true)?;
            return Ok((ours, theirs));
        }
    }
}
