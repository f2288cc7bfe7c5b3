//! One operation over and over, on many connections, against anything that speaks RESP: how many a second, and how long each took.
//!
//! ```text
//! operations HOST:PORT CONNECTIONS PIPELINE SECONDS RANGE [--last "WAIT 1 1000"] COMMAND [COMMAND ..]
//! ```
//!
//! An operation is one command or several, each an argument with its words between spaces. `{r}` in a word is a number below RANGE, drawn anew each time; `{s}`
//! is the one before it. Each connection sends PIPELINE operations at once, then waits for all their replies; `--last` goes behind them, once. Two threads serve all
//! connections. `tests/redis_figures.py` compares systems with it.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use highwater_node::poll::{Interest, Poller};

const THREADS: usize = 2;

/// A piece of a word.
enum Piece {
    Text(Vec<u8>),
    Drawn,
    SameAgain,
}

/// The words of a command.
struct Command(Vec<Vec<Piece>>);

impl Command {
    fn parse(text: &str) -> Command {
        let word = |word: &str| {
            let mut pieces = Vec::new();
            let mut rest = word;
            while let Some(at) = rest.find("{r}").into_iter().chain(rest.find("{s}")).min() {
                pieces.push(Piece::Text(rest.as_bytes()[..at].to_vec()));
                pieces.push(if rest[at..].starts_with("{r}") { Piece::Drawn } else { Piece::SameAgain });
                rest = &rest[at + 3..];
            }
            pieces.push(Piece::Text(rest.as_bytes().to_vec()));
            pieces
        };
        Command(text.split(' ').filter(|text| !text.is_empty()).map(word).collect())
    }

    fn write(&self, draw: &mut Draw, packet: &mut Vec<u8>) {
        let put = |packet: &mut Vec<u8>, sign: u8, number: usize| {
            packet.push(sign);
            packet.extend_from_slice(number.to_string().as_bytes());
            packet.extend_from_slice(b"\r\n");
        };
        put(packet, b'*', self.0.len());
        let mut word = Vec::new();
        for pieces in &self.0 {
            word.clear();
            for piece in pieces {
                match piece {
                    Piece::Text(text) => word.extend_from_slice(text),
                    Piece::Drawn => word.extend_from_slice(format!("{:012}", draw.next()).as_bytes()),
                    Piece::SameAgain => word.extend_from_slice(format!("{:012}", draw.last).as_bytes()),
                }
            }
            put(packet, b'$', word.len());
            packet.extend_from_slice(&word);
            packet.extend_from_slice(b"\r\n");
        }
    }
}

/// Numbers by chance.
struct Draw {
    state: u64,
    range: u64,
    last: u64,
}

impl Draw {
    fn next(&mut self) -> u64 {
        self.state ^= self.state << 13;
        self.state ^= self.state >> 7;
        self.state ^= self.state << 17;
        self.last = self.state % self.range;
        self.last
    }
}

/// Where the reply that begins at `at` ends; `None`: not all of it is there.
fn end_of_reply(bytes: &[u8], at: usize) -> Option<usize> {
    let line = bytes[at..].windows(2).position(|pair| pair == b"\r\n")? + at;
    let number = || std::str::from_utf8(&bytes[at + 1..line]).ok()?.parse::<i64>().ok();
    let mut end = line + 2;
    match bytes[at] {
        b'$' => {
            if let length @ 0.. = number()? {
                end += length as usize + 2;
            }
        }
        b'*' | b'~' | b'%' => {
            let each = if bytes[at] == b'%' { 2 } else { 1 };
            for _ in 0..number()?.max(0) * each {
                end = end_of_reply(bytes, end).filter(|_| end < bytes.len())?;
            }
        }
        _ => {}
    }
    (end <= bytes.len()).then_some(end)
}

struct Connection {
    stream: TcpStream,
    received: Vec<u8>,
    awaited: usize,
    began: Instant,
}

/// What all connections do.
struct Work {
    commands: Vec<Command>,
    last: Option<Command>,
    pipeline: usize,
}

impl Work {
    fn ask(&self, connection: &mut Connection, draw: &mut Draw) -> io::Result<()> {
        let mut packet = Vec::new();
        for _ in 0..self.pipeline {
            self.commands.iter().for_each(|command| command.write(draw, &mut packet));
        }
        self.last.iter().for_each(|command| command.write(draw, &mut packet));
        connection.awaited = self.pipeline * self.commands.len() + usize::from(self.last.is_some());
        connection.began = Instant::now();
        connection.stream.write_all(&packet)
    }
}

/// What one thread saw: a time for each batch, errors, and the first of these.
#[derive(Default)]
struct Seen {
    took: Vec<Duration>,
    errors: u64,
    first: Option<String>,
}

fn serve(address: &str, count: usize, work: &Work, mut draw: Draw, until: Instant) -> io::Result<Seen> {
    let mut poller = Poller::new()?;
    let mut connections = Vec::new();
    for key in 0..count as u64 {
        let stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        poller.add(&stream, key, Interest::of(true, false))?;
        let mut connection = Connection { stream, received: Vec::new(), awaited: 0, began: Instant::now() };
        work.ask(&mut connection, &mut draw)?;
        connections.push(connection);
    }
    let (mut seen, mut left, mut chunk) = (Seen::default(), count, vec![0; 64 << 10]);
    while left > 0 {
        for at in 0..poller.wait(None)? {
            let connection = &mut connections[poller.event(at).key as usize];
            let read = connection.stream.read(&mut chunk)?;
            if read == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            connection.received.extend_from_slice(&chunk[..read]);
            let mut from = 0;
            while let Some(end) =
                (from < connection.received.len()).then(|| end_of_reply(&connection.received, from)).flatten()
            {
                if connection.received[from] == b'-' {
                    seen.errors += 1;
                    seen.first.get_or_insert_with(|| {
                        String::from_utf8_lossy(&connection.received[from..end]).trim_end().to_string()
                    });
                }
                connection.awaited -= 1;
                from = end;
            }
            connection.received.drain(..from);
            if connection.awaited == 0 {
                seen.took.push(connection.began.elapsed());
                if Instant::now() < until {
                    work.ask(connection, &mut draw)?;
                } else {
                    left -= 1;
                }
            }
        }
    }
    Ok(seen)
}

fn main() -> io::Result<()> {
    let mut args: Vec<String> = std::env::args().skip(1).collect();
    let last = args.iter().position(|arg| arg == "--last").and_then(|at| {
        let two: Vec<String> = args.drain(at..(at + 2).min(args.len())).collect();
        two.get(1).map(|text| Command::parse(text))
    });
    let number =
        |at: usize| args.get(at).and_then(|arg| arg.parse::<u64>().ok()).filter(|number| *number > 0);
    let (Some(connections), Some(pipeline), Some(seconds), Some(range), true) =
        (number(1), number(2), number(3), number(4), args.len() > 5)
    else {
        eprintln!(
            "usage: operations HOST:PORT CONNECTIONS PIPELINE SECONDS RANGE [--last COMMAND] COMMAND [COMMAND ..]"
        );
        std::process::exit(2);
    };
    let commands = args[5..].iter().map(|text| Command::parse(text)).collect();
    let work = Work { commands, last, pipeline: pipeline as usize };
    let (start, until) = (Instant::now(), Instant::now() + Duration::from_secs(seconds));
    let seen: Vec<Seen> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS)
            .map(|thread| {
                let count = (connections as usize + THREADS - 1 - thread) / THREADS;
                let draw = Draw { state: thread as u64 * 2 + 0x9e37_79b9, range, last: 0 };
                let (address, work) = (&args[0], &work);
                scope.spawn(move || serve(address, count, work, draw, until))
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().expect("no panic")).collect::<io::Result<_>>()
    })?;
    let elapsed = start.elapsed().as_secs_f64();
    let errors: u64 = seen.iter().map(|seen| seen.errors).sum();
    let first = seen.iter().find_map(|seen| seen.first.clone()).unwrap_or_default();
    let mut took: Vec<Duration> = seen.into_iter().flat_map(|seen| seen.took).collect();
    took.sort_unstable();
    let at = |part: f64| {
        took.get((took.len() as f64 * part) as usize).map_or(0.0, |took| took.as_secs_f64() * 1e3)
    };
    let done = took.len() as u64 * pipeline;
    println!(
        "{done} operations, {:.0}/s, p50 {:.3} ms, p99 {:.3} ms, {errors} errors {first}",
        done as f64 / elapsed,
        at(0.5),
        at(0.99)
    );
    Ok(())
}
