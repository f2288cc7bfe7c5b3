//! What a round trip to another process on this machine takes, without a database: the floor under the latency of a lone client.
//!
//! ```text
//! cargo run --profile dist -p highwater-node --example round_trip -- [ROUNDS]
//! ```
//!
//! A message of 250 bytes there, one of 80 bytes back, over TCP as nodes speak it, both sides asleep in epoll until something comes. Beside it
//! `highwater bench ycsb --workers 1 --in-flight 1` tells what a transaction takes from submission to release.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Command, Stdio};
use std::time::Instant;

use highwater_node::poll::{Interest, Poller};

const THERE: usize = 250;
const BACK: usize = 80;

fn main() -> std::io::Result<()> {
    let mut words = std::env::args().skip(1);
    match words.next().as_deref() {
        Some("answer") => answer(&words.next().expect("an address follows")),
        rounds => ask(rounds.map_or(20_000, |rounds| rounds.parse().expect("ROUNDS is a number"))),
    }
}

/// The other process.
fn answer(address: &str) -> std::io::Result<()> {
    let mut line = Line::over(TcpStream::connect(address)?)?;
    while line.take(THERE)? {
        line.stream.write_all(&[1; BACK])?;
    }
    Ok(())
}

fn ask(rounds: usize) -> std::io::Result<()> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let address = listener.local_addr()?.to_string();
    let mut other =
        Command::new(std::env::current_exe()?).args(["answer", &address]).stdin(Stdio::null()).spawn()?;
    let mut line = Line::over(listener.accept()?.0)?;
    let mut took = Vec::with_capacity(rounds);
    for _ in 0..rounds {
        let began = Instant::now();
        line.stream.write_all(&[2; THERE])?;
        assert!(line.take(BACK)?, "the other process answers as long as it is asked");
        took.push(began.elapsed().as_nanos() as f64 / 1e3);
    }
    drop(line);
    other.wait()?;
    took.sort_unstable_by(f64::total_cmp);
    let at = |share: f64| took[((rounds - 1) as f64 * share) as usize];
    println!("{rounds} round trips: p50 {:.1} us, p95 {:.1} us, p99 {:.1} us", at(0.5), at(0.95), at(0.99));
    Ok(())
}

/// A connection, and who sleeps until it has something.
struct Line {
    stream: TcpStream,
    poller: Poller,
}

impl Line {
    fn over(stream: TcpStream) -> std::io::Result<Line> {
        stream.set_nodelay(true)?;
        stream.set_nonblocking(true)?;
        let poller = Poller::new()?;
        poller.add(&stream, 0, Interest::READ)?;
        Ok(Line { stream, poller })
    }

    /// A whole message; false: the other side has gone.
    fn take(&mut self, bytes: usize) -> std::io::Result<bool> {
        let (mut buffer, mut come) = ([0; THERE], 0);
        while come < bytes {
            self.poller.wait(None)?;
            match self.stream.read(&mut buffer[come..bytes]) {
                Ok(0) => return Ok(false),
                Ok(count) => come += count,
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {}
                Err(error) => return Err(error),
            }
        }
        Ok(true)
    }
}
