//! Every target for a while, on stable and without instrumentation: the corpus as it is, then mutations of it.
//!
//! `FUZZ_SECONDS=60 cargo test -p highwater-fuzz --test targets config` for longer, and for one target;
//! `FUZZ_SEED` for other mutations. What fails is written to `target/fuzz-failures/`. `/fuzz` is the real thing.
#![allow(clippy::unwrap_used)]

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::Path;
use std::time::{Duration, Instant};

use highwater_fuzz::Target;
use highwater_fuzz::memory::Watched;

#[global_allocator]
static ALLOCATOR: Watched = Watched;

fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|number| number.parse().ok()).unwrap_or(default)
}

/// Numbers enough for mutations.
struct Random(u64);

impl Random {
    fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as usize % end.max(1)
    }

    fn byte(&mut self) -> u8 {
        const EDGES: [u8; 12] = [0, 1, 2, 0x7f, 0x80, 0xff, b'*', b'$', b'\r', b'\n', b'"', b'9'];
        if self.below(2) == 0 { EDGES[self.below(EDGES.len())] } else { self.below(256) as u8 }
    }

    /// One change somewhere, or a piece of another input.
    fn mutate(&mut self, bytes: &mut Vec<u8>, other: &[u8]) {
        let at = self.below(bytes.len() + 1);
        match self.below(7) {
            0 | 1 if at < bytes.len() => bytes[at] = self.byte(),
            2 if at < bytes.len() => bytes[at] ^= 1u8 << self.below(8),
            3 => bytes.insert(at, self.byte()),
            4 => drop(bytes.drain(at..(at + self.below(9)).min(bytes.len()))),
            5 => {
                let from = self.below(other.len() + 1);
                let to = (from + self.below(40)).min(other.len());
                drop(bytes.splice(at..at, other[from..to].iter().copied()));
            }
            _ => {
                let number = (self.byte() as u64) << self.below(64);
                let width = [1, 2, 4, 8][self.below(4)].min(bytes.len() - at);
                bytes[at..at + width].copy_from_slice(&number.to_le_bytes()[..width]);
            }
        }
    }
}

/// Seconds of a batch in a process of its own.
const BATCH_SECONDS: u64 = 20;

/// Runs a target in other processes, one after another: an end that no panic explains is a finding, and the next batch goes on.
fn fuzz_alone(name: &str) {
    let failures = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/fuzz-failures");
    std::fs::create_dir_all(&failures).unwrap();
    let running = failures.join(format!("{name}-running-{}", std::process::id()));
    let (seconds, seed) = (number("FUZZ_SECONDS", 0).max(1), number("FUZZ_SEED", 1));
    let mut findings = Vec::new();
    for batch in 0..seconds.div_ceil(BATCH_SECONDS) {
        let child = std::process::Command::new(std::env::current_exe().unwrap())
            .args([name, "--exact", "--nocapture"])
            .env("FUZZ_RUNNING", &running)
            .env("FUZZ_SECONDS", (seconds - batch * BATCH_SECONDS).min(BATCH_SECONDS).to_string())
            .env("FUZZ_SEED", (seed + batch).to_string())
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&child.stdout).into_owned();
        print!("{}", said.lines().filter(|line| line.contains("mutations")).collect::<String>());
        if child.status.success() && said.contains("mutations of") {
            eprint!("{}", String::from_utf8_lossy(&child.stderr));
            continue;
        }
        let input = failures.join(format!("{name}-batch-{}", seed + batch));
        drop(std::fs::copy(&running, &input));
        let tail: Vec<_> =
            String::from_utf8_lossy(&child.stderr).lines().map(str::to_string).take(40).collect();
        findings.push(format!("{}: the input is in {}\n{}", child.status, input.display(), tail.join("\n")));
    }
    drop(std::fs::remove_file(&running));
    assert!(findings.is_empty(), "{name}: {} findings\n{}", findings.len(), findings.join("\n"));
}

fn fuzz(name: &str) {
    let target = Target::named(name).unwrap();
    let running = std::env::var_os("FUZZ_RUNNING");
    if target.alone && running.is_none() {
        return fuzz_alone(name);
    }
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut files: Vec<_> =
        std::fs::read_dir(root.join("corpus").join(name)).unwrap().map(|file| file.unwrap().path()).collect();
    files.sort();
    assert!(!files.is_empty(), "{name} has a corpus");
    let corpus: Vec<Vec<u8>> = files.iter().map(|file| std::fs::read(file).unwrap()).collect();
    let run = |bytes: &[u8]| {
        if let Some(running) = &running {
            std::fs::write(running, bytes).unwrap();
        }
        let outcome = catch_unwind(AssertUnwindSafe(|| target.check(bytes)));
        let panic = match outcome {
            Ok(understood) => return understood,
            Err(panic) => panic,
        };
        let failures = root.join("../../target/fuzz-failures");
        std::fs::create_dir_all(&failures).unwrap();
        let file = failures.join(format!("{name}-{:08x}", crc32fast::hash(bytes)));
        std::fs::write(&file, bytes).unwrap();
        eprintln!("the input is in {}", file.display());
        resume_unwind(panic)
    };
    let understood = corpus.iter().filter(|input| run(input)).count();
    assert!(
        understood > 0,
        "{name}: nothing in its corpus means anything; cargo run -p highwater-fuzz --example corpus"
    );
    let mut random = Random(number("FUZZ_SEED", 1) | 1 << 40);
    let until = Instant::now() + Duration::from_millis(number("FUZZ_SECONDS", 0).max(1) * 1000);
    let (mut runs, mut pool) = (0u64, corpus.clone());
    while Instant::now() < until {
        let mut input = pool[random.below(pool.len())].clone();
        for _ in 0..1 + random.below(6) {
            let other = random.below(corpus.len());
            random.mutate(&mut input, &corpus[other]);
        }
        input.truncate(4096);
        run(&input);
        runs += 1;
        // Some stay, so that changes add up.
        let place = random.below(corpus.len() + 64);
        if runs.is_multiple_of(4) && place >= corpus.len() {
            if pool.len() <= place { pool.push(input) } else { pool[place] = input }
        }
    }
    println!("{name}: {runs} mutations of {} inputs", corpus.len());
}

macro_rules! targets {
    ($($name:ident)*) => {
        $(#[test]
        fn $name() {
            fuzz(stringify!($name));
        })*

        #[test]
        fn every_target_is_run() {
            let named = [$(stringify!($name)),*];
            assert!(highwater_fuzz::TARGETS.iter().map(|target| target.name).eq(named));
        }
    };
}

targets!(resp exec frames peers handshake entry transactions chunk admin config lua scripts);
