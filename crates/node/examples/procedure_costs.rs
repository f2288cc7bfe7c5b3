//! What a transfer costs by itself, without sockets and replicas: as a procedure of the build, of a WebAssembly module, as a Lua script and as commands.
//!
//! ```text
//! procedure_costs MODULE.wasm [KIND TIMES]
//! ```
//!
//! The module is `clients/wasm/transfer`. With a kind it runs that alone, so many times: `valgrind --tool=callgrind` counts its instructions, and two runs of
//! different lengths tell what one transfer takes. Without one, all kinds take turns, and the median of each is told in ns of CPU time.

use std::sync::Arc;

use highwater_core::{Clock, Library, Procedure, ProcedureId, Registry, Schema};
use highwater_redis::Product;
use highwater_redis::Protocol;
use highwater_redis::command::Opcode;
use highwater_redis::exec::Exec;
use highwater_redis::moment::Moment;
use highwater_redis::request::{Framing, Step};
use highwater_store::{Occ, Store};

const ACCOUNTS: u64 = 10_000;
const KINDS: [&str; 6] = ["built-in", "module", "module-keys", "lua", "multi", "get"];
const TRANSFER: &str =
    "local n = tonumber(ARGV[1]) redis.call('DECRBY', KEYS[1], n) return redis.call('INCRBY', KEYS[2], n)";

/// One store, and who runs transactions on it.
struct Machine {
    registry: Registry<Occ>,
    occ: Occ,
    exec: ProcedureId,
    transfer: ProcedureId,
    args: Vec<u8>,
    reply: Vec<u8>,
    chance: u64,
}

impl Machine {
    fn new() -> Machine {
        let mut registry = Registry::new();
        Product.register(&mut registry);
        let store = Store::new(Schema::new(Product.tables()));
        let occ = Occ::new(store, Arc::new(Clock::counter()));
        let exec = registry.find(Exec::NAME).expect("it is registered");
        let transfer = registry.find("bank.transfer").expect("it is registered");
        Machine { registry, occ, exec, transfer, args: Vec::new(), reply: Vec::new(), chance: 1 }
    }

    fn run(&mut self, procedure: ProcedureId) {
        self.reply.clear();
        self.occ.begin();
        let ran = self.registry.run(procedure, &mut self.occ, &self.args, &mut self.reply);
        assert!(ran.is_ok() && self.reply.first() != Some(&b'-'), "{}", String::from_utf8_lossy(&self.reply));
        self.occ.commit().expect("nobody else is here");
    }

    /// Runs commands as one transaction.
    fn commands(&mut self, commands: &[&[&[u8]]]) {
        self.args.clear();
        self.args.extend_from_slice(&Moment { unix_ms: 1 << 40, seed: self.chance }.bytes());
        let block = commands.len() > 1;
        Framing { protocol: Protocol::Resp2, block, again: false }.encode(&mut self.args);
        self.args.extend_from_slice(&[0, commands.len() as u8]);
        for words in commands {
            let opcode = Opcode::find(words[0]).expect("it is a command");
            Step::encode_command(opcode, words[1..].iter().copied(), &mut self.args);
        }
        self.run(self.exec);
    }

    fn draw(&mut self) -> u64 {
        self.chance ^= self.chance << 13;
        self.chance ^= self.chance >> 7;
        self.chance ^= self.chance << 17;
        self.chance % ACCOUNTS
    }

    fn load(&mut self, module: &[u8]) {
        self.commands(&[&[b"hw.module", b"load", b"vault", module]]);
        self.commands(&[&[b"hw.table", b"create", b"accounts", b"u64"]]);
        self.commands(&[&[b"script", b"load", TRANSFER.as_bytes()]]);
        for account in 0..ACCOUNTS {
            let name = account.to_string();
            self.commands(&[&[b"hw.invoke", b"vault.open", name.as_bytes(), b"1000000000000"]]);
            self.commands(&[&[b"set", format!("account:{name}").as_bytes(), b"1000000000000"]]);
        }
        let load = self.registry.find("bank.load").expect("it is registered");
        let signature = self.registry.signatures()[usize::from(load.0)].expect("it may be called");
        for first in (0..ACCOUNTS).step_by(1000) {
            let words = [first.to_string(), "1000".into(), "1000000000000".into()];
            self.args.clear();
            signature.encode(words.iter().map(String::as_bytes), &mut self.args).expect("as it takes them");
            self.run(load);
        }
    }

    fn transfer(&mut self, kind: &str, digest: &[u8]) {
        let from = self.draw();
        let to = (from + 1 + self.draw() % (ACCOUNTS - 1)) % ACCOUNTS;
        let (one, other) = (from.to_string(), to.to_string());
        let (a, b) = (format!("account:{one}"), format!("account:{other}"));
        let (a, b, one, other) = (a.as_bytes(), b.as_bytes(), one.as_bytes(), other.as_bytes());
        match kind {
            "built-in" => {
                self.args.clear();
                self.args.extend_from_slice(&from.to_le_bytes());
                self.args.extend_from_slice(&to.to_le_bytes());
                self.args.extend_from_slice(&7u32.to_le_bytes());
                self.run(self.transfer);
            }
            "module" => self.commands(&[&[b"hw.invoke", b"vault.transfer", one, other, b"7"]]),
            "module-keys" => self.commands(&[&[b"hw.invoke", b"vault.keys", a, b, b"7"]]),
            "lua" => self.commands(&[&[b"evalsha", digest, b"2", a, b, b"7"]]),
            "multi" => self.commands(&[&[b"decrby", a, b"7"], &[b"incrby", b, b"7"]]),
            "get" => self.commands(&[&[b"get", a]]),
            _ => panic!("kinds are {KINDS:?}"),
        }
    }
}

fn cpu_ns() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let Some(module) = args.first().and_then(|path| std::fs::read(path).ok()) else {
        eprintln!("usage: procedure_costs MODULE.wasm [KIND TIMES]");
        std::process::exit(2);
    };
    let mut machine = Machine::new();
    machine.load(&module);
    let digest = highwater_redis::scripts::sha1::sha1_hex(TRANSFER.as_bytes());
    if let (Some(kind), Some(times)) = (args.get(1), args.get(2).and_then(|times| times.parse::<u64>().ok()))
    {
        (0..times).for_each(|_| machine.transfer(kind, digest.as_bytes()));
        return;
    }
    const TIMES: u64 = 20_000;
    let mut measured: Vec<Vec<u64>> = vec![Vec::new(); KINDS.len()];
    for _ in 0..9 {
        for (kind, measured) in KINDS.iter().zip(&mut measured) {
            let began = cpu_ns();
            (0..TIMES).for_each(|_| machine.transfer(kind, digest.as_bytes()));
            measured.push((cpu_ns() - began) / TIMES);
        }
    }
    for (kind, mut measured) in KINDS.iter().zip(measured) {
        measured.sort_unstable();
        let (least, median, most) = (measured[0], measured[measured.len() / 2], measured[measured.len() - 1]);
        println!("{kind:12} {median:6} ns ({least} to {most})");
    }
}
