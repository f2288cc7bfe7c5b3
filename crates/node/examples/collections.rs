//! What Redis's commands cost by themselves, without sockets: on the replica that runs them, and on one that applies what they write.
//!
//! ```text
//! collections [OPERATION,.. [TIMES]]
//! ```
//!
//! The operations are those of `tests/redis_figures.py`. Each is told in ns of CPU time (medians of nine rounds), with the rows and the bytes that it writes to the
//! log. With a number of TIMES an operation runs just so often: `valgrind --tool=callgrind` counts instructions, and two runs of different lengths tell what
//! one takes.

use std::sync::Arc;

use highwater_core::log::TxWriter;
use highwater_core::{Clock, Library, Procedure, ProcedureId, Registry, Schema, Timestamp};
use highwater_redis::Product;
use highwater_redis::Protocol;
use highwater_redis::command::Opcode;
use highwater_redis::exec::Exec;
use highwater_redis::moment::Moment;
use highwater_redis::request::{Framing, Step};
use highwater_redis::scripts::sha1::sha1_hex;
use highwater_store::{Applier, Occ, Store};

/// Different keys and members.
const KEYS: u64 = 100_000;
/// Operations of a round.
const TIMES: u64 = 50_000;
const ROUNDS: usize = 9;
/// Transactions between two looks at what may be collected, and in an entry of the log.
const TURN: u64 = 16;
/// Memory that each store takes ahead, so that the kernel's clearing of pages is not measured.
const RESERVE: u64 = 256 << 20;
const OPERATIONS: &[&str] =
    &["set", "get", "incr", "lpush", "rpop", "queue", "small", "sadd", "hset", "zadd", "evalsha"];
const TRANSFER: &str =
    "local n = tonumber(ARGV[1]) redis.call('DECRBY', KEYS[1], n) return redis.call('INCRBY', KEYS[2], n)";

/// One store, and who runs transactions on it.
struct Leader {
    registry: Registry<Occ>,
    store: Arc<Store>,
    occ: Occ,
    exec: ProcedureId,
    digest: String,
    args: Vec<u8>,
    reply: Vec<u8>,
    chance: u64,
    done: u64,
}

impl Leader {
    fn new() -> Leader {
        let mut registry = Registry::new();
        Product.register(&mut registry);
        let store = Store::new(Schema::new(Product.tables()));
        store.reserve(RESERVE);
        let mut occ = Occ::new(store.clone(), Arc::new(Clock::system()));
        *occ.log() = TxWriter::new(Vec::with_capacity(1 << 20));
        let exec = registry.find(Exec::NAME).expect("it is registered");
        let digest = sha1_hex(TRANSFER.as_bytes());
        let (args, reply) = (Vec::new(), Vec::new());
        let mut leader = Leader { registry, store, occ, exec, digest, args, reply, chance: 1, done: 0 };
        leader.command(&[b"script", b"load", TRANSFER.as_bytes()]);
        leader
    }

    /// Runs a command as a transaction.
    fn command(&mut self, words: &[&[u8]]) {
        self.args.clear();
        self.args.extend_from_slice(&Moment { unix_ms: 1 << 40, seed: self.chance }.bytes());
        Framing { protocol: Protocol::Resp2, block: false, again: false }.encode(&mut self.args);
        self.args.extend_from_slice(&[0, 1]);
        let opcode = Opcode::find(words[0]).expect("it is a command");
        Step::encode_command(opcode, words[1..].iter().copied(), &mut self.args);
        self.reply.clear();
        self.occ.begin();
        let ran = self.registry.run(self.exec, &mut self.occ, &self.args, &mut self.reply);
        assert!(ran.is_ok() && self.reply.first() != Some(&b'-'), "{}", String::from_utf8_lossy(&self.reply));
        let ts = self.occ.commit().expect("nobody else is here");
        self.done += 1;
        if self.done.is_multiple_of(TURN) {
            self.occ.collect(Timestamp(ts.0 - 1));
        }
    }

    fn draw(&mut self) -> u64 {
        self.chance ^= self.chance << 13;
        self.chance ^= self.chance >> 7;
        self.chance ^= self.chance << 17;
        self.chance % KEYS
    }

    fn run(&mut self, operation: &str) {
        let number = format!("{:06}", self.draw());
        let named = |front: &str| format!("{front}:{number}");
        match operation {
            "set" => self.command(&[b"set", named("key").as_bytes(), b"xxx"]),
            "get" => self.command(&[b"get", named("key").as_bytes()]),
            "incr" => self.command(&[b"incr", named("counter").as_bytes()]),
            "lpush" => self.command(&[b"lpush", b"mylist", b"xxx"]),
            "rpop" => self.command(&[b"rpop", b"mylist"]),
            "queue" if self.done.is_multiple_of(2) => self.command(&[b"lpush", b"queue", b"xxx"]),
            "queue" => self.command(&[b"rpop", b"queue"]),
            "small" => {
                let (key, field) = number.split_at(5);
                let (key, field) = (format!("small:{key}"), format!("field:{field}"));
                self.command(&[b"hset", key.as_bytes(), field.as_bytes(), b"xxx"]);
            }
            "sadd" => self.command(&[b"sadd", b"myset", named("element").as_bytes()]),
            "hset" => self.command(&[b"hset", b"myhash", named("element").as_bytes(), b"xxx"]),
            "zadd" => {
                let score = self.draw().to_string();
                self.command(&[b"zadd", b"myzset", score.as_bytes(), named("element").as_bytes()]);
            }
            "evalsha" => {
                let other = format!("account:{}", self.draw());
                let digest = self.digest.clone();
                let words = [b"evalsha", digest.as_bytes(), b"2", b"account:0", other.as_bytes(), b"7"];
                self.command(&words);
            }
            _ => panic!("operations are {OPERATIONS:?}"),
        }
    }

    /// What was written to the log since the last time.
    fn take_log(&mut self) -> Vec<u8> {
        self.occ.log().take(Vec::with_capacity(1 << 20))
    }
}

/// What an operation took, of one round.
#[derive(Clone, Copy, Default, PartialEq, PartialOrd)]
struct Cost {
    running_ns: u64,
    applying_ns: u64,
    rows: f64,
    bytes: u64,
}

/// A leader and a follower.
struct Pair {
    leader: Leader,
    follower: Applier,
    /// CPU time in ns. Where instructions are counted, none: valgrind hides the page that rustix asks.
    clock: fn() -> u64,
}

impl Pair {
    fn new(clock: fn() -> u64) -> Pair {
        let store = Store::new(Schema::new(Product.tables()));
        store.reserve(RESERVE);
        let mut pair = Pair { leader: Leader::new(), follower: Applier::new(store), clock };
        pair.follow(1);
        pair
    }

    fn round(&mut self, operation: &str, times: u64) -> Cost {
        let began = (self.clock)();
        (0..times).for_each(|_| self.leader.run(operation));
        let running_ns = ((self.clock)() - began) / times;
        Cost { running_ns, ..self.follow(times) }
    }

    /// The follower applies what the leader wrote.
    fn follow(&mut self, times: u64) -> Cost {
        let log = self.leader.take_log();
        let began = (self.clock)();
        let applied = self.follower.apply(&log, Timestamp::ZERO, Timestamp::MAX).expect("it is our own log");
        while self.follower.collect(Timestamp(applied.last_ts.0.saturating_sub(1))) {}
        let applying_ns = ((self.clock)() - began) / times;
        let (rows, bytes) = (applied.writes as f64 / times as f64, log.len() as u64 / times);
        Cost { running_ns: 0, applying_ns, rows, bytes }
    }

    /// What the operation finds: of a list as much as it may take, of the others what each key or member will be.
    fn fill(&mut self, operation: &str, times: u64) {
        match operation {
            "rpop" => (0..times).for_each(|_| self.leader.run("lpush")),
            "queue" => (0..1000).for_each(|_| self.leader.command(&[b"lpush", b"queue", b"xxx"])),
            "lpush" => {}
            _ => (0..2 * KEYS).for_each(|_| self.leader.run(operation)),
        }
        self.follow(1);
    }
}

fn cpu_ns() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

fn measure(operation: &str) {
    let mut pair = Pair::new(cpu_ns);
    pair.fill(operation, (ROUNDS as u64 + 1) * TIMES);
    pair.round(operation, TIMES);
    let rounds: Vec<Cost> = (0..ROUNDS).map(|_| pair.round(operation, TIMES)).collect();
    let median = |of: fn(&Cost) -> u64| {
        let mut values: Vec<u64> = rounds.iter().map(of).collect();
        values.sort_unstable();
        values[values.len() / 2]
    };
    println!(
        "{operation:8} {:6} ns, applying {:6} ns, {:4.2} rows, {:4} bytes of log",
        median(|cost| cost.running_ns),
        median(|cost| cost.applying_ns),
        rounds[0].rows,
        median(|cost| cost.bytes)
    );
    assert_eq!(pair.leader.store.digest(), pair.follower.store().digest(), "both have the same");
}

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let wanted = args.first().map_or(OPERATIONS.to_vec(), |names| names.split(',').collect());
    let times: Option<u64> = args.get(1).map(|times| times.parse().expect("TIMES is a number"));
    for operation in wanted {
        match times {
            None => measure(operation),
            Some(times) => {
                let mut pair = Pair::new(|| 0);
                pair.fill(operation, times);
                pair.round(operation, times);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_follower_has_what_each_operation_wrote() {
        for operation in OPERATIONS {
            let mut pair = Pair::new(cpu_ns);
            (0..500).for_each(|_| pair.leader.run("lpush"));
            pair.round(operation, 500);
            assert_eq!(pair.leader.store.digest(), pair.follower.store().digest(), "{operation}");
        }
    }
}
