//! `highwater torture-proxy`: connections between replicas go through this process, which delays, stalls, throttles or
//! breaks them.
//!
//! A *link* is a listener and an upstream address. What is said to it comes on standard input, a line each:
//!
//! ```text
//! flow LINK there|back pass|stall     bytes go on in this direction, or wait here
//! weather LINK DELAY_US JITTER_US BYTES_PER_SECOND     0: none
//! reset LINK                          every connection of the link ends
//! forget LINK near|far                this end of every connection is gone; the other one is held and hears nothing of it
//! ```
//!
//! Each line is answered by `ok`. The first line out names the listeners' addresses. It ends with its standard input.

use std::io::{self, BufRead, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use clap::Args;
use highwater_workloads::random::Rng;
use socket2::{Domain, SockRef, Socket, TcpKeepalive, Type};

use crate::failure::{Failure, Result};

/// Bytes that travel as one piece.
const PIECE: usize = 16 << 10;
/// Parts in which what passes a narrow link in a second does so.
const MOMENTS: usize = 20;
/// Pieces on their way in one direction of one connection, at most.
const PIECES: usize = 64;
/// After so much silence a side is asked whether it is there, three times.
const KEEPALIVE: Duration = Duration::from_secs(2);
/// How long an upstream may take to accept.
const DIAL: Duration = Duration::from_secs(1);

/// `highwater torture-proxy`.
#[derive(Debug, Args)]
pub struct ProxyArgs {
    /// LISTEN=UPSTREAM, one per link; upstream connections come from LISTEN's host.
    #[arg(long = "link", value_parser = link)]
    pub links: Vec<(SocketAddr, SocketAddr)>,
}

fn link(text: &str) -> std::result::Result<(SocketAddr, SocketAddr), String> {
    let (listen, upstream) = text.split_once('=').ok_or("must be LISTEN=UPSTREAM")?;
    let address = |text: &str| text.parse().map_err(|error| format!("{text}: {error}"));
    Ok((address(listen)?, address(upstream)?))
}

/// What happens to bytes on a link.
#[derive(Debug, Default)]
struct LinkState {
    /// There and back.
    stalled: [bool; 2],
    delay: Duration,
    jitter: Duration,
    bytes_per_second: u64,
    open: Vec<Arc<Joined>>,
}

/// A connection through the proxy.
#[derive(Debug)]
struct Joined {
    /// To who dialed, and to who was dialed.
    ends: [TcpStream; 2],
    /// One end is gone. What the other one says goes nowhere, until it ends, too.
    forgotten: AtomicBool,
}

impl Joined {
    fn forgotten(&self) -> bool {
        self.forgotten.load(Ordering::SeqCst)
    }
}

#[derive(Debug)]
struct Link {
    upstream: SocketAddr,
    source: SocketAddr,
    state: Mutex<LinkState>,
    changed: Condvar,
}

impl Link {
    fn lock(&self) -> MutexGuard<'_, LinkState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until this direction flows; the rate at which it does.
    fn passes(&self, direction: usize) -> u64 {
        let state = self.lock();
        let stalled = |state: &mut LinkState| state.stalled[direction];
        let state = self.changed.wait_while(state, stalled).unwrap_or_else(PoisonError::into_inner);
        state.bytes_per_second
    }
}

/// Runs the proxy.
pub fn run(args: &ProxyArgs) -> Result<()> {
    let mut links = Vec::new();
    let mut addresses = Vec::new();
    for &(listen, upstream) in &args.links {
        let cannot = |error| Failure::cannot_start(format!("cannot listen at {listen}: {error}"));
        let listener = TcpListener::bind(listen).map_err(cannot)?;
        addresses.push(listener.local_addr().map_err(cannot)?.to_string());
        let source = SocketAddr::new(listen.ip(), 0);
        let (state, changed) = (Mutex::default(), Condvar::new());
        let link = Arc::new(Link { upstream, source, state, changed });
        links.push(link.clone());
        thread::spawn(move || accept(&listener, &link));
    }
    println!("{}", addresses.join(" "));
    for line in io::stdin().lock().lines() {
        let Ok(line) = line else { break };
        obey(&line, &links).ok_or_else(|| Failure::usage(format!("no such order: {line}")))?;
        println!("ok");
    }
    Ok(())
}

fn obey(line: &str, links: &[Arc<Link>]) -> Option<()> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let link = links.get(words.get(1)?.parse::<usize>().ok()?)?;
    let mut state = link.lock();
    match (words[0], &words[2..]) {
        ("flow", [direction, flow]) => {
            let at = ["there", "back"].iter().position(|name| name == direction)?;
            state.stalled[at] = *flow == "stall";
        }
        ("weather", [delay, jitter, rate]) => {
            state.delay = Duration::from_micros(delay.parse().ok()?);
            state.jitter = Duration::from_micros(jitter.parse().ok()?);
            state.bytes_per_second = rate.parse().ok()?;
        }
        ("reset", []) => {
            state.open.drain(..).for_each(|joined| joined.ends.iter().for_each(hang_up));
        }
        ("forget", [end]) => {
            let at = ["near", "far"].iter().position(|name| name == end)?;
            for joined in &state.open {
                joined.forgotten.store(true, Ordering::SeqCst);
                hang_up(&joined.ends[at]);
            }
        }
        _ => return None,
    }
    link.changed.notify_all();
    Some(())
}

fn hang_up(stream: &TcpStream) {
    // One that is closed already is as good.
    let _ = stream.shutdown(Shutdown::Both);
}

fn accept(listener: &TcpListener, link: &Arc<Link>) {
    for stream in listener.incoming().flatten() {
        let link = link.clone();
        // A connection that cannot be made looks to the caller like one that ends at once.
        thread::spawn(move || drop(join(stream, &link)));
    }
}

/// Connects upstream and carries bytes both ways until both ends have nothing more to say.
fn join(near: TcpStream, link: &Arc<Link>) -> io::Result<()> {
    link.passes(0);
    link.passes(1);
    let socket = Socket::new(Domain::for_address(link.upstream), Type::STREAM, None)?;
    socket.bind(&link.source.into())?;
    socket.connect_timeout(&link.upstream.into(), DIAL)?;
    let far = TcpStream::from(socket);
    for socket in [&near, &far] {
        socket.set_nodelay(true)?;
        // Else a side whose end was lost in a cut is never found out: the other side says nothing, and believes itself connected.
        let keepalive = TcpKeepalive::new().with_time(KEEPALIVE).with_interval(KEEPALIVE).with_retries(3);
        SockRef::from(socket).set_tcp_keepalive(&keepalive)?;
    }
    let joined = Arc::new(Joined { ends: [near, far], forgotten: AtomicBool::new(false) });
    link.lock().open.push(joined.clone());
    thread::scope(|scope| {
        for direction in [0, 1] {
            let (sender, receiver) = sync_channel(PIECES);
            let joined = &joined;
            scope.spawn(move || take(&joined.ends[direction], link, &sender, direction));
            scope.spawn(move || give(joined, link, direction, &receiver));
        }
    });
    link.lock().open.retain(|open| !Arc::ptr_eq(open, &joined));
    Ok(())
}

/// Reads pieces and says when each is due.
fn take(from: &TcpStream, link: &Link, to: &SyncSender<(Instant, Vec<u8>)>, direction: usize) {
    let mut rng = Rng::new(u64::from(link.upstream.port()) << 1 | direction as u64);
    let mut buffer = vec![0; PIECE];
    let (mut from, mut last) = (from, Instant::now());
    while let Ok(count @ 1..) = from.read(&mut buffer) {
        let (delay, jitter) = {
            let state = link.lock();
            (state.delay, state.jitter)
        };
        // Bytes of a connection stay in order.
        last = last.max(Instant::now() + delay + jitter.mul_f64(rng.unit()));
        if to.send((last, buffer[..count].to_vec())).is_err() {
            return;
        }
    }
}

/// Writes pieces when they are due and the direction flows.
fn give(joined: &Joined, link: &Link, direction: usize, pieces: &Receiver<(Instant, Vec<u8>)>) {
    let (from, mut to) = (&joined.ends[direction], &joined.ends[1 - direction]);
    for (due, piece) in pieces {
        thread::sleep(due.saturating_duration_since(Instant::now()));
        let mut rest = &piece[..];
        while !rest.is_empty() {
            let rate = link.passes(direction);
            // A narrow road lets little through at a time, and not all at once after long.
            let count = if rate > 0 { (rate as usize / MOMENTS).clamp(1, rest.len()) } else { rest.len() };
            let part;
            (part, rest) = rest.split_at(count);
            if rate > 0 {
                thread::sleep(Duration::from_secs_f64(part.len() as f64 / rate as f64));
            }
            if !joined.forgotten() && to.write_all(part).is_err() && !joined.forgotten() {
                // Nobody will read the rest; the reader of this direction must learn it, too.
                hang_up(from);
                return;
            }
        }
    }
    // An end travels like bytes do.
    link.passes(direction);
    if !joined.forgotten() {
        let _ = to.shutdown(Shutdown::Write);
    }
}
