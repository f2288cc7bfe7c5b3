//! A million elements, on a real store.

use std::sync::Arc;

use highwater_core::{Clock, Library, ProcedureId, Registry, Schema};
use highwater_store::{Occ, Store};

use crate::Product;
use crate::command::Opcode;
use crate::moment::Moment;
use crate::request::Step;
use crate::{Procedures, register};

const MILLION: usize = 1_000_000;

struct Real {
    occ: Occ,
    registry: Registry<Occ>,
    exec: ProcedureId,
    sweep: ProcedureId,
    seed: u64,
}

impl Real {
    fn new() -> Real {
        let mut registry = Registry::new();
        register(&mut registry);
        let names = registry.names();
        let sweep = names.iter().position(|name| *name == "redis.sweep").unwrap();
        let store = Store::new(Schema::new(Product.tables()));
        Real {
            occ: Occ::new(store, Arc::new(Clock::counter())),
            exec: Procedures::find(&names).unwrap().exec,
            sweep: ProcedureId(sweep as u16),
            registry,
            seed: 0,
        }
    }

    fn run(&mut self, procedure: ProcedureId, args: &[u8]) -> Vec<u8> {
        self.seed += 1;
        let moment = Moment { unix_ms: 1, seed: self.seed };
        let args = [&moment.bytes()[..], args].concat();
        let mut reply = Vec::new();
        self.occ.begin();
        self.registry.run(procedure, &mut self.occ, &args, &mut reply).unwrap();
        self.occ.commit().unwrap();
        reply
    }

    fn ask(&mut self, name: &str, words: &[&str]) -> String {
        let mut args = vec![0, 0, 1];
        let opcode = Opcode::find(name.as_bytes()).unwrap();
        Step::encode_command(opcode, words.iter().map(|word| word.as_bytes()), &mut args);
        String::from_utf8(self.run(self.exec, &args)).unwrap()
    }

    fn fill(&mut self, name: &str, words: impl Fn(usize) -> Vec<String>) {
        for from in (0..MILLION).step_by(10_000) {
            let words: Vec<String> = (from..from + 10_000).flat_map(&words).collect();
            let words: Vec<&str> = [name].into_iter().chain(words.iter().map(String::as_str)).collect();
            self.ask(&name[1..], &words);
        }
    }
}

#[test]
fn a_million_elements_come_and_go() {
    let mut real = Real::new();
    real.fill(":sadd", |at| vec![format!("m{at}")]);
    real.fill(":rpush", |at| vec![at.to_string()]);
    assert_eq!(real.ask("scard", &[":sadd"]), ":1000000\r\n");
    assert_eq!(real.ask("sismember", &[":sadd", "m999999"]), ":1\r\n");
    assert_eq!(real.ask("lindex", &[":rpush", "-1"]), "$6\r\n999999\r\n");
    assert_eq!(real.ask("lpop", &[":rpush"]), "$1\r\n0\r\n");
    assert!(real.ask("spop", &[":sadd"]).contains('m'));
    let (mut met, mut cursor) = (0, "0".to_string());
    loop {
        let reply = real.ask("sscan", &[":sadd", &cursor, "COUNT", "100000"]);
        let mut lines = reply.split("\r\n").skip(2);
        cursor = lines.next().unwrap().to_string();
        met += lines.filter(|line| line.starts_with('m')).count();
        if cursor == "0" {
            break;
        }
    }
    assert_eq!(met, MILLION - 1);
    // They go at once, and their rows later.
    assert_eq!(real.ask("del", &[":sadd"]), ":1\r\n");
    assert_eq!(real.ask("rename", &[":rpush", "other"]), "+OK\r\n");
    assert_eq!(real.ask("set", &["other", "x"]), "+OK\r\n");
    assert_eq!(real.ask("keys", &["*"]), "*1\r\n$5\r\nother\r\n");
    let mut sweeps = 0;
    while !real.run(real.sweep, &[]).starts_with(&u64::MAX.to_le_bytes()) {
        sweeps += 1;
        assert!(sweeps < MILLION, "it comes to an end");
    }
    assert!(sweeps > 2 * MILLION / 1000, "{sweeps} sweeps: each does a little");
}
