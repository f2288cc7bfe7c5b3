//! `highwater bench redis`: the remote load generator on anything that speaks RESP.
//!
//! A Redis server, or a node of Highwater: the same generator, in the same loop, with the same clock. So what is compared are the servers.
//! A load is one command over and over, by which both sides are known: `SET`, `GET`, half of each, or a transfer between two accounts by a
//! Lua script, which both run as one step. The server's CPU time is what it says itself (`INFO cpu`), the generator's that of its threads.

use std::fmt;
use std::io::Write;
use std::net::{SocketAddr, ToSocketAddrs};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use clap::{Args, ValueEnum};
use highwater_node::load::WorkerStats;
use highwater_node::load::stats::histogram;
use highwater_workloads::random::Rng;
use serde::Serialize;

use super::args::seconds;
use super::remote::{Remote, RemoteSpec, Source};
use crate::failure::{Failure, Result};
use crate::numbers::{micros, short};
use crate::progress::Progress;
use crate::report_file::{check_writable, write_json};
use crate::wire::{Refusal, Reply, Wire};

/// How long a reply to what prepares a load may take.
const PATIENCE: Duration = Duration::from_secs(20);
/// How long somebody is looked for who serves.
const FOUND_WITHIN: Duration = Duration::from_secs(20);
/// What each account holds at first.
const BALANCE: i64 = 1000;
/// Keys that are set at a time.
const BATCH: u64 = 1000;

/// Takes 1 from one account, if it is there, and gives it to another.
const TRANSFER: &str = "if tonumber(redis.call('GET', KEYS[1]) or '0') < 1 then return 0 end \
                        redis.call('DECR', KEYS[1]) redis.call('INCR', KEYS[2]) return 1";

/// What is asked over and over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Load {
    /// SET key value.
    Set,
    /// GET key.
    Get,
    /// Half of each.
    Mixed,
    /// EVALSHA of a script that moves 1 from an account to another; their sum is checked at the end.
    Transfer,
}

/// `highwater bench redis`.
#[derive(Clone, Debug, Args)]
pub struct RedisArgs {
    /// Where it listens: a Redis server, or nodes of a cluster of Highwater, of which one has to be the leader or forward; repeatable.
    #[arg(long = "target", value_name = "HOST:PORT", required = true)]
    pub targets: Vec<String>,
    /// What to ask.
    #[arg(long, value_enum, default_value_t = Load::Set)]
    pub load: Load,
    /// Keys, or accounts.
    #[arg(long, default_value_t = 100_000, value_name = "N", value_parser = clap::value_parser!(u64).range(2..=100_000_000))]
    pub keys: u64,
    /// Bytes of a value.
    #[arg(long, default_value_t = 64, value_name = "B", value_parser = clap::value_parser!(u32).range(0..=1 << 20))]
    pub value_bytes: u32,
    /// Seconds to measure, after the warm-up.
    #[arg(long, default_value_t = 10.0, value_name = "S", value_parser = seconds)]
    pub seconds: f64,
    /// Seconds to run before counting.
    #[arg(long, default_value_t = 2.0, value_name = "S", value_parser = seconds)]
    pub warmup: f64,
    /// Commands per second over all connections; as fast as possible if absent. Latency counts from when a command was due.
    #[arg(long, value_name = "OPS", value_parser = seconds)]
    pub rate: Option<f64>,
    /// Connections.
    #[arg(long, default_value_t = 16, value_name = "C", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub connections: u32,
    /// Unanswered commands of each, at most.
    #[arg(long, default_value_t = 16, value_name = "D", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub in_flight: u32,
    /// Threads that generate and send; no more than connections.
    #[arg(long, default_value_t = 1, value_name = "T", value_parser = clap::value_parser!(u32).range(1..=64))]
    pub client_threads: u32,
    /// Seed of the request streams.
    #[arg(long, default_value_t = 1, value_name = "N")]
    pub seed: u64,
    /// Write the report as JSON too.
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
}

/// Commands of a load, for one thread.
pub struct Commands {
    load: Load,
    keys: u64,
    value: Vec<u8>,
    script: String,
    rng: Rng,
}

/// What all threads' commands are drawn from.
#[derive(Clone, Debug)]
pub struct Plan {
    /// What to ask.
    pub load: Load,
    /// Of how many keys.
    pub keys: u64,
    /// How long values are.
    pub value_bytes: u32,
    /// The script's digest, for a transfer.
    pub script: String,
}

impl Plan {
    /// Names of the kinds of commands.
    pub fn kinds(&self) -> Vec<&'static str> {
        match self.load {
            Load::Set => vec!["set"],
            Load::Get => vec!["get"],
            Load::Mixed => vec!["set", "get"],
            Load::Transfer => vec!["transfer"],
        }
    }

    /// A stream of them.
    pub fn commands(&self, thread: u32, seed: u64) -> Commands {
        let Plan { load, keys, ref script, value_bytes } = *self;
        let (value, script) = (vec![b'v'; value_bytes as usize], script.clone());
        Commands { load, keys, value, script, rng: Rng::new(seed ^ (u64::from(thread) + 1) << 32) }
    }
}

impl Commands {
    /// Writes the next one; of which kind it is.
    pub fn next(&mut self, out: &mut Vec<u8>) -> usize {
        let sets = match self.load {
            Load::Set => true,
            Load::Get => false,
            Load::Mixed => self.rng.percent(50),
            Load::Transfer => {
                let from = self.rng.below(self.keys);
                let to = (from + 1 + self.rng.below(self.keys - 1)) % self.keys;
                let (from, to) = (account(from), account(to));
                words(&[b"EVALSHA", self.script.as_bytes(), b"2", from.as_bytes(), to.as_bytes()], out);
                return 0;
            }
        };
        let key = key(self.rng.below(self.keys));
        match sets {
            true => words(&[b"SET", key.as_bytes(), &self.value], out),
            false => words(&[b"GET", key.as_bytes()], out),
        }
        usize::from(!sets && self.load == Load::Mixed)
    }
}

fn key(number: u64) -> String {
    format!("key:{number:012}")
}

fn account(number: u64) -> String {
    format!("account:{number:012}")
}

fn words(words: &[&[u8]], out: &mut Vec<u8>) {
    let wrote = write!(out, "*{}\r\n", words.len());
    words
        .iter()
        .fold(wrote, |wrote, word| {
            wrote?;
            write!(out, "${}\r\n", word.len())?;
            out.write_all(word)?;
            out.write_all(b"\r\n")
        })
        .expect("writing to memory does not fail");
}

/// What came of it.
#[derive(Clone, Debug, Serialize)]
pub struct RedisReport {
    /// What was asked.
    pub load: Load,
    /// Whom: as each says in `INFO server`.
    pub servers: Vec<String>,
    /// How long was measured.
    pub seconds: f64,
    /// Commands that were due per second, in an open loop.
    pub rate: Option<f64>,
    /// Connections, and unanswered commands of each at most.
    pub connections: u32,
    /// See `connections`.
    pub in_flight: u32,
    /// Commands that were answered, and those of them a second.
    pub answered: u64,
    /// See `answered`.
    pub per_second: f64,
    /// Commands of which nobody knows what became of them.
    pub unknown: u64,
    /// From when a command was due, or sent: the median,
    pub p50_us: f64,
    /// and what 1 in 100
    pub p99_us: f64,
    /// and 1 in 1000 took at least,
    pub p999_us: f64,
    /// and the longest.
    pub max_us: f64,
    /// CPU time of each target's process per command, in microseconds; as it says.
    pub server_cpu_us: Vec<f64>,
    /// That of the generator's threads.
    pub generator_cpu_us: f64,
    /// The accounts' sum, if there are any, and what it must be.
    pub sum: Option<(i64, i64)>,
}

impl fmt::Display for RedisReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let loop_ = self.rate.map_or("closed loop".into(), |rate| format!("{}/s due", short(rate)));
        writeln!(
            f,
            "{:?}  {}  {loop_}, {} connections x {}",
            self.load,
            self.servers.join(", "),
            self.connections,
            self.in_flight
        )?;
        writeln!(
            f,
            "  answered      {}/s ({} in {:.1} s, {} unknown)",
            short(self.per_second),
            self.answered,
            self.seconds,
            self.unknown
        )?;
        let [p50, p99, p999, max] = [self.p50_us, self.p99_us, self.p999_us, self.max_us].map(micros);
        writeln!(f, "  latency       p50 {p50}  p99 {p99}  p99.9 {p999}  max {max}")?;
        let servers: Vec<String> = self.server_cpu_us.iter().map(|us| format!("{us:.2}")).collect();
        write!(f, "  CPU, us each  servers {}  generator {:.2}", servers.join(" + "), self.generator_cpu_us)?;
        match self.sum {
            Some((sum, wanted)) => write!(f, "\n  sum           {sum}, and should be {wanted}"),
            None => Ok(()),
        }
    }
}

/// Runs `highwater bench redis`.
pub fn run(args: &RedisArgs) -> Result<()> {
    args.json.as_deref().map_or(Ok(()), check_writable)?;
    let doors = args.targets.iter().map(|target| resolve(target)).collect::<Result<Vec<_>>>()?;
    let mut progress = Progress::new();
    progress.step("preparing");
    let mut wires = doors.iter().map(|door| connect(*door)).collect::<Result<Vec<_>>>()?;
    let servers = wires.iter_mut().map(name).collect::<Result<Vec<_>>>()?;
    let script = prepare(args, &doors)?;
    let plan = Plan { load: args.load, keys: args.keys, value_bytes: args.value_bytes, script };
    let remote = Remote::start(&RemoteSpec {
        doors: doors.clone(),
        source: Source::Commands(plan),
        connections: args.connections,
        in_flight: args.in_flight,
        threads: args.client_threads.min(args.connections),
        rate: args.rate,
        seed: args.seed,
        audit_every: 0,
        audit_base: 0,
    })?;
    wait(&remote, "warming up", args.warmup, &mut progress)?;
    let before = wires.iter_mut().map(cpu).collect::<Result<Vec<_>>>()?;
    remote.reset();
    let began = Instant::now();
    wait(&remote, "measuring", args.seconds, &mut progress)?;
    let stats = remote.stats()?;
    let elapsed = began.elapsed().as_secs_f64();
    let after = wires.iter_mut().map(cpu).collect::<Result<Vec<_>>>()?;
    let unknown = remote.stop()?.iter().map(|stats| stats.unknown).sum();
    progress.clear();
    let sum = (args.load == Load::Transfer).then(|| sum(args, &doors)).transpose()?;
    let spent: Vec<f64> = before.iter().zip(&after).map(|(before, after)| after - before).collect();
    let report = report(args, servers, &stats, elapsed, &spent, unknown, sum);
    println!("{report}");
    if let Some(path) = &args.json {
        write_json(path, &report)?;
    }
    match report.sum {
        Some((sum, wanted)) if sum != wanted => {
            Err(Failure::negative(format!("the accounts hold {sum}, and should hold {wanted}")))
        }
        _ if report.answered == 0 => Err(Failure::negative("nothing was answered")),
        _ => Ok(()),
    }
}

fn report(
    args: &RedisArgs,
    servers: Vec<String>,
    stats: &[WorkerStats],
    seconds: f64,
    spent: &[f64],
    unknown: u64,
    sum: Option<(i64, i64)>,
) -> RedisReport {
    let mut latency = histogram();
    let kinds = || stats.iter().flat_map(|stats| &stats.kinds);
    kinds().for_each(|kind| latency.add(&kind.latency).expect("all have the same bounds"));
    let answered: u64 = kinds().map(|kind| kind.committed).sum();
    let generator: u64 = stats.iter().map(|stats| stats.generator_ns).sum();
    let each = |us: f64| us / (answered.max(1) as f64);
    let at = |quantile: f64| latency.value_at_quantile(quantile) as f64 / 1e3;
    RedisReport {
        load: args.load,
        servers,
        seconds,
        rate: args.rate,
        connections: args.connections,
        in_flight: args.in_flight,
        answered,
        per_second: answered as f64 / seconds,
        unknown,
        p50_us: at(0.5),
        p99_us: at(0.99),
        p999_us: at(0.999),
        max_us: latency.max() as f64 / 1e3,
        server_cpu_us: spent.iter().map(|seconds| each(seconds * 1e6)).collect(),
        generator_cpu_us: each(generator as f64 / 1e3),
        sum,
    }
}

fn wait(remote: &Remote, what: &str, seconds: f64, progress: &mut Progress) -> Result<()> {
    let (began, every) = (Instant::now(), Duration::from_millis(500));
    let how_long = Duration::from_secs_f64(seconds);
    while let Some(left) = how_long.checked_sub(began.elapsed()).filter(|left| !left.is_zero()) {
        std::thread::sleep(left.min(every));
        remote.stats()?;
        progress.show(&format!("{what} {:5.1} s", began.elapsed().as_secs_f64()));
    }
    Ok(())
}

fn resolve(target: &str) -> Result<SocketAddr> {
    let found = target.to_socket_addrs().ok().and_then(|mut found| found.next());
    found.ok_or_else(|| Failure::usage(format!("--target {target}: no address like 127.0.0.1:6379")))
}

fn connect(door: SocketAddr) -> Result<Wire> {
    Wire::connect(door, PATIENCE).map_err(|error| Failure::unavailable(format!("{door}: {error}")))
}

fn ask(wire: &mut Wire, words: &[&[u8]]) -> Result<Reply> {
    wire.words(words);
    let reply = wire.send().and_then(|()| wire.reply());
    reply.map_err(|error| Failure::unavailable(format!("no answer: {error}")))
}

/// A section of `INFO`.
fn info(wire: &mut Wire, section: &str) -> Result<String> {
    match ask(wire, &[b"INFO", section.as_bytes()])? {
        Reply::Bulk(Some(text)) => Ok(String::from_utf8_lossy(&text).into_owned()),
        other => Err(Failure::unavailable(format!("INFO {section} answered {other:?}"))),
    }
}

fn field<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')).map(str::trim)
}

fn name(wire: &mut Wire) -> Result<String> {
    let text = info(wire, "server")?;
    let highwater = field(&text, "highwater_version").map(|version| format!("Highwater {version}"));
    let version = || format!("Redis {}", field(&text, "redis_version").unwrap_or("of no version"));
    Ok(highwater.unwrap_or_else(version))
}

/// CPU seconds of a server so far.
fn cpu(wire: &mut Wire) -> Result<f64> {
    let text = info(wire, "cpu")?;
    let number = |name| field(&text, name).and_then(|number| number.parse::<f64>().ok());
    let both = number("used_cpu_user").zip(number("used_cpu_sys"));
    both.map(|(user, system)| user + system).ok_or_else(|| Failure::unavailable("INFO cpu says no CPU time"))
}

/// Whoever of the targets takes this.
fn tell(doors: &[SocketAddr], words: &[&[u8]]) -> Result<Reply> {
    let began = Instant::now();
    loop {
        let mut told = String::new();
        for door in doors {
            match connect(*door).and_then(|mut wire| ask(&mut wire, words)) {
                Ok(Reply::Error(text)) => match Refusal::of(&text) {
                    Refusal::Strange(_) => return Err(Failure::negative(format!("{door} answered {text}"))),
                    _ => told = format!("{door} answered {text}"),
                },
                Ok(reply) => return Ok(reply),
                Err(failure) => told = failure.message,
            }
        }
        if began.elapsed() > FOUND_WITHIN {
            return Err(Failure::unavailable(told));
        }
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// Sets what the load reads; the script's digest, if there is one.
fn prepare(args: &RedisArgs, doors: &[SocketAddr]) -> Result<String> {
    let (value, balance) = (vec![b'v'; args.value_bytes as usize], BALANCE.to_string());
    if args.load != Load::Set {
        for from in (0..args.keys).step_by(BATCH as usize) {
            let numbers = from..(from + BATCH).min(args.keys);
            let named: Vec<String> = numbers
                .map(|number| if args.load == Load::Transfer { account(number) } else { key(number) })
                .collect();
            let content = if args.load == Load::Transfer { balance.as_bytes() } else { &value };
            let pairs = named.iter().flat_map(|name| [name.as_bytes(), content]);
            let words: Vec<&[u8]> = std::iter::once(&b"MSET"[..]).chain(pairs).collect();
            tell(doors, &words)?;
        }
    }
    if args.load != Load::Transfer {
        return Ok(String::new());
    }
    match tell(doors, &[b"SCRIPT", b"LOAD", TRANSFER.as_bytes()])? {
        Reply::Bulk(Some(digest)) => Ok(String::from_utf8_lossy(&digest).into_owned()),
        other => Err(Failure::negative(format!("SCRIPT LOAD answered {other:?}"))),
    }
}

/// What all accounts hold, and what they should.
fn sum(args: &RedisArgs, doors: &[SocketAddr]) -> Result<(i64, i64)> {
    let mut sum = 0;
    for from in (0..args.keys).step_by(BATCH as usize) {
        let named: Vec<String> = (from..(from + BATCH).min(args.keys)).map(account).collect();
        let words: Vec<&[u8]> =
            std::iter::once(&b"MGET"[..]).chain(named.iter().map(String::as_bytes)).collect();
        let Reply::Array(Some(held)) = tell(doors, &words)? else {
            return Err(Failure::negative("MGET answered no array"));
        };
        for balance in held {
            let Reply::Bulk(Some(text)) = &balance else {
                return Err(Failure::negative(format!("an account holds {balance:?}")));
            };
            sum += String::from_utf8_lossy(text).parse::<i64>().map_err(Failure::negative)?;
        }
    }
    Ok((sum, BALANCE * args.keys as i64))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_whole_and_of_the_kinds_that_were_asked_for() {
        let plan = |load| Plan { load, keys: 2, value_bytes: 3, script: "5a".into() };
        let next = |load| {
            let mut out = Vec::new();
            let kind = plan(load).commands(0, 1).next(&mut out);
            (kind, String::from_utf8(out).unwrap())
        };
        let (kind, text) = next(Load::Set);
        assert!(kind == 0 && text.starts_with("*3\r\n$3\r\nSET\r\n$16\r\nkey:"), "{text}");
        assert!(text.ends_with("$3\r\nvvv\r\n"), "{text}");
        let (kind, text) = next(Load::Transfer);
        assert!(kind == 0 && text.starts_with("*5\r\n$7\r\nEVALSHA\r\n$2\r\n5a\r\n$1\r\n2\r\n"), "{text}");
        assert!(text.contains("account:000000000000") && text.contains("account:000000000001"), "{text}");
        let mut commands = plan(Load::Mixed).commands(0, 1);
        let kinds: Vec<usize> = (0..100).map(|_| commands.next(&mut Vec::new())).collect();
        assert!(kinds.contains(&0) && kinds.contains(&1));
    }
}
