//! Two-account transfers over the network, for comparisons with other systems: so many connections, each with one transfer under way.
//!
//! ```text
//! transfers resp 127.0.0.1:7200 [connections [seconds [accounts]]]     MULTI, DECRBY, INCRBY, EXEC in one packet
//! transfers etcd 127.0.0.1:2379 ..                                     one transaction of two puts, over etcd's JSON gateway
//! ```
//!
//! `resp` is spoken by Highwater and by Redis. Two threads serve all connections, as pgbench's do. At the end all accounts must add up to
//! nothing, with `resp`. `tests/rivals.py` has the rest.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use highwater_node::poll::{Interest, Poller};

const THREADS: u64 = 2;

/// A line without its end.
fn line(reader: &mut impl BufRead) -> io::Result<String> {
    let mut line = String::new();
    if reader.read_line(&mut line)? == 0 {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Ok(line.trim_end().to_string())
}

/// A connection, and how it does a transfer.
struct Connection {
    reader: BufReader<TcpStream>,
    etcd: bool,
}

impl Connection {
    fn new(address: &str, etcd: bool) -> io::Result<Connection> {
        let stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        Ok(Connection { reader: BufReader::new(stream), etcd })
    }

    fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.reader.get_mut().write_all(bytes)
    }

    /// Asks for one.
    fn ask(&mut self, from: u64, to: u64, amount: u64) -> io::Result<()> {
        if self.etcd {
            return self.ask_for_puts(from, to, amount);
        }
        let account = |account| format!("account:{account}");
        let (from, to, amount) = (account(from), account(to), amount.to_string());
        let mut packet = String::from("*1\r\n$5\r\nMULTI\r\n");
        for (command, account) in [("DECRBY", &from), ("INCRBY", &to)] {
            for part in ["*3", &format!("${}", command.len()), command] {
                packet += part;
                packet += "\r\n";
            }
            packet += &format!("${}\r\n{account}\r\n${}\r\n{amount}\r\n", account.len(), amount.len());
        }
        packet += "*1\r\n$4\r\nEXEC\r\n";
        self.send(packet.as_bytes())
    }

    /// Whether it was done. The answer has begun to arrive.
    fn answer(&mut self) -> io::Result<bool> {
        if self.etcd {
            return self.answer_to_puts();
        }
        for _ in 0..3 {
            line(&mut self.reader)?;
        }
        let answer = line(&mut self.reader)?;
        if answer != "*2" {
            return Ok(false);
        }
        Ok(line(&mut self.reader)?.starts_with(':') && line(&mut self.reader)?.starts_with(':'))
    }

    /// What a transfer writes, without what it reads: keys and values in base 64, as the gateway wants them.
    fn ask_for_puts(&mut self, from: u64, to: u64, amount: u64) -> io::Result<()> {
        let base64 = |text: String| {
            const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
            let padded = format!("{text:<width$}", width = text.len().div_ceil(3) * 3);
            let of = |three: &[u8]| {
                let word = u32::from(three[0]) << 16 | u32::from(three[1]) << 8 | u32::from(three[2]);
                [18, 12, 6, 0].map(|shift| char::from(DIGITS[(word >> shift & 63) as usize]))
            };
            padded.as_bytes().chunks(3).flat_map(of).collect::<String>()
        };
        let put = |account: u64| {
            let (key, value) = (base64(format!("account:{account}")), base64(amount.to_string()));
            format!("{{\"request_put\":{{\"key\":\"{key}\",\"value\":\"{value}\"}}}}")
        };
        let body = format!("{{\"success\":[{},{}]}}", put(from), put(to));
        let head =
            format!("POST /v3/kv/txn HTTP/1.1\r\nHost: etcd\r\nContent-Length: {}\r\n\r\n", body.len());
        self.send((head + &body).as_bytes())
    }

    fn answer_to_puts(&mut self) -> io::Result<bool> {
        let done = line(&mut self.reader)?.contains(" 200 ");
        let mut length = 0;
        loop {
            let header = line(&mut self.reader)?.to_ascii_lowercase();
            if let Some(value) = header.strip_prefix("content-length:") {
                length = value.trim().parse().unwrap_or(0);
            }
            if header.is_empty() {
                break;
            }
        }
        let mut body = vec![0; length];
        self.reader.read_exact(&mut body)?;
        Ok(done)
    }

    /// Of all accounts.
    fn total(&mut self, accounts: u64) -> io::Result<i64> {
        let mut total = 0;
        for first in (0..accounts).step_by(1000) {
            let asked = first..accounts.min(first + 1000);
            let gets = asked.clone().map(|account| {
                let key = format!("account:{account}");
                format!("*2\r\n$3\r\nGET\r\n${}\r\n{key}\r\n", key.len())
            });
            self.send(gets.collect::<String>().as_bytes())?;
            for _ in asked {
                if line(&mut self.reader)?.starts_with("$-1") {
                    continue;
                }
                total += line(&mut self.reader)?.parse::<i64>().map_err(io::Error::other)?;
            }
        }
        Ok(total)
    }
}

fn main() -> io::Result<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [kind, address, ..] = &args[..] else {
        eprintln!("usage: transfers resp|etcd HOST:PORT [connections [seconds [accounts]]]");
        std::process::exit(2);
    };
    let number = |at: usize, default: u64| args.get(at).and_then(|arg| arg.parse().ok()).unwrap_or(default);
    let (connections, seconds, accounts) = (number(2, 32), number(3, 10), number(4, 100_000));
    let etcd = kind == "etcd";
    let until = Instant::now() + Duration::from_secs(seconds);
    let start = Instant::now();
    // Of each that was done: how long it took, and when.
    let work = |seed: u64| -> io::Result<(Vec<(Duration, Duration)>, u64)> {
        let mut poller = Poller::new()?;
        let (mut random, mut took, mut refused) = (seed * 2 + 1, Vec::new(), 0);
        let mut below = |bound: u64| {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            random % bound
        };
        let mut ask = |connection: &mut Connection| {
            connection.ask(below(accounts), below(accounts), 1 + below(100)).map(|()| Instant::now())
        };
        let mut under_way = Vec::new();
        for key in 0..(connections + THREADS - seed) / THREADS {
            let mut connection = Connection::new(address, etcd)?;
            poller.add(connection.reader.get_ref(), key, Interest::of(true, false))?;
            let began = ask(&mut connection)?;
            under_way.push((connection, began));
        }
        let mut left = under_way.len();
        while left > 0 {
            for at in 0..poller.wait(None)? {
                let (connection, began) = &mut under_way[poller.event(at).key as usize];
                match connection.answer()? {
                    true => took.push((began.elapsed(), start.elapsed())),
                    false => refused += 1,
                }
                if Instant::now() < until {
                    *began = ask(connection)?;
                } else {
                    left -= 1;
                }
            }
        }
        Ok((took, refused))
    };
    let ended: Vec<_> = std::thread::scope(|scope| {
        let threads: Vec<_> = (1..=THREADS).map(|seed| scope.spawn(move || work(seed))).collect();
        threads.into_iter().map(|thread| thread.join().expect("no panic")).collect::<io::Result<_>>()
    })?;
    let refused: u64 = ended.iter().map(|(_, refused)| refused).sum();
    let (mut took, mut done): (Vec<_>, Vec<_>) = ended.into_iter().flat_map(|(took, _)| took).unzip();
    took.sort_unstable();
    done.sort_unstable();
    let gap = done.windows(2).map(|pair| pair[1] - pair[0]).max().unwrap_or_default();
    let at = |part: f64| took.get((took.len() as f64 * part) as usize).copied().unwrap_or_default();
    println!(
        "{kind} {address}: {} transfers/s over {connections} connections, p50 {:.2} ms, p99 {:.2} ms, {refused} refused, longest gap {:.0} ms",
        took.len() as u64 / seconds,
        at(0.5).as_secs_f64() * 1e3,
        at(0.99).as_secs_f64() * 1e3,
        gap.as_secs_f64() * 1e3
    );
    if !etcd {
        let total = Connection::new(address, false)?.total(accounts)?;
        println!("all accounts together: {total}");
        if total != 0 {
            std::process::exit(1);
        }
    }
    Ok(())
}
