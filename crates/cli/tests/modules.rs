//! WebAssembly modules on three real replicas: the example in Rust, loaded once, runs wherever the lead is. In a build without WebAssembly: what is
//! said instead.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod processes;

use processes::{Cluster, PATIENCE};

/// Asks whoever leads, until somebody does: the first line of the reply, and the content if it is a bulk.
fn ask(cluster: &Cluster, words: &[&[u8]]) -> String {
    let started = std::time::Instant::now();
    loop {
        let (_, mut client) = cluster.leader();
        match client.call(words) {
            Some((line, _)) if processes::refused(&line) || line.starts_with("-UNKNOWN") => {}
            Some((line, content)) if line.starts_with('$') => {
                return String::from_utf8_lossy(&content).into();
            }
            Some((line, _)) => return line,
            None => {}
        }
        assert!(started.elapsed() < PATIENCE, "nobody answers");
    }
}

#[cfg(not(feature = "wasm"))]
#[test]
fn a_build_without_webassembly_says_how_to_make_one_with_it() {
    let cluster = Cluster::start("no-modules", "durability = \"memory\"", None);
    let told =
        "-NOWASM this build has no WebAssembly; cargo build --release --features wasm makes one that has";
    for words in [&[&b"HW.MODULE"[..], b"LIST"][..], &[b"HW.MODULE", b"LOAD", b"m", b"(module)"]] {
        assert_eq!(ask(&cluster, words), told);
    }
    let unknown = ask(&cluster, &[b"HW.CALL", b"m.run"]);
    assert!(unknown.starts_with("-NOPROCEDURE "), "{unknown}");
}

#[cfg(feature = "wasm")]
mod with_webassembly {
    use super::*;
    use processes::Client;
    use std::path::{Path, PathBuf};
    use std::process::Command;

    /// For which modules are compiled.
    const TARGET: &str = "wasm32-unknown-unknown";

    fn examples() -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../clients/wasm")
    }

    /// The example, compiled now where the compiler can, as it was compiled last elsewhere: nothing has to be installed for a test.
    /// `HIGHWATER_WASM=compile` asks for the compiler, as CI does.
    fn transfer() -> Vec<u8> {
        let asked = std::env::var("HIGHWATER_WASM").is_ok_and(|how| how == "compile");
        if asked || can_compile() { compiled() } else { std::fs::read(kept("transfer.wasm")).unwrap() }
    }

    /// What is kept of the example: the module, and the sum of what it was compiled from.
    fn kept(name: &str) -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/modules").join(name)
    }

    fn can_compile() -> bool {
        let rustc = std::env::var("RUSTC").unwrap_or_else(|_| "rustc".into());
        let folder = Command::new(rustc).args(["--print", "target-libdir", "--target", TARGET]).output();
        folder.is_ok_and(|found| Path::new(String::from_utf8_lossy(&found.stdout).trim()).is_dir())
    }

    fn compiled() -> Vec<u8> {
        let target = Path::new(env!("CARGO_TARGET_TMPDIR")).join("wasm");
        let built = Command::new(env!("CARGO"))
            .args(["build", "--release", "-p", "transfer", "--target-dir"])
            .arg(&target)
            .current_dir(examples())
            .env_remove("RUSTFLAGS")
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&built.stderr);
        assert!(
            built.status.success(),
            "the example does not compile; `rustup target add {TARGET}` adds what it needs:\n{said}"
        );
        std::fs::read(target.join(TARGET).join("release/transfer.wasm")).unwrap()
    }

    /// Of every file that the example is compiled from, with its name (FNV-1a).
    fn sum_of_sources() -> String {
        let mut files: Vec<String> =
            [".cargo/config.toml", "Cargo.toml", "Cargo.lock"].map(String::from).into();
        for part in ["guest", "transfer"] {
            files.push(format!("{part}/Cargo.toml"));
            let sources = std::fs::read_dir(examples().join(part).join("src")).unwrap();
            let name = |file: std::fs::DirEntry| file.file_name().into_string().unwrap();
            files.extend(sources.map(|file| format!("{part}/src/{}", name(file.unwrap()))));
        }
        files.sort();
        let mut sum = 0xcbf2_9ce4_8422_2325_u64;
        for file in files {
            let bytes = std::fs::read(examples().join(&file)).unwrap();
            for byte in file.into_bytes().into_iter().chain([0]).chain(bytes) {
                sum = (sum ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
            }
        }
        format!("{sum:016x}\n")
    }

    /// Compilers differ, so the bytes are not compared; what they were compiled from is.
    #[test]
    fn the_module_that_is_kept_is_the_example() {
        if std::env::var("HIGHWATER_RECORD").is_ok() {
            std::fs::write(kept("transfer.wasm"), compiled()).unwrap();
            std::fs::write(kept("transfer.sources"), sum_of_sources()).unwrap();
        }
        let of = std::fs::read_to_string(kept("transfer.sources")).unwrap();
        assert_eq!(
            of,
            sum_of_sources(),
            "clients/wasm has changed since tests/modules/transfer.wasm was compiled; once the target {TARGET} is there: \
             HIGHWATER_RECORD=1 cargo test -p highwater --features wasm --test modules kept"
        );
    }

    /// What stands in for the compiler does what it is for.
    #[test]
    fn the_module_that_is_kept_loads() {
        let cluster = Cluster::start("kept-module", "durability = \"memory\"", None);
        let module = std::fs::read(kept("transfer.wasm")).unwrap();
        assert_eq!(ask(&cluster, &[b"HW.MODULE", b"LOAD", b"vault", &module]), ":1");
        assert_eq!(line(&cluster, "HW.TABLE CREATE accounts u64"), "+OK");
        assert_eq!(line(&cluster, "HW.CALL vault.open 1 100"), "+OK");
    }

    fn line(cluster: &Cluster, line: &str) -> String {
        let words: Vec<_> = line.split(' ').map(str::as_bytes).collect();
        ask(cluster, &words)
    }

    #[test]
    fn a_module_is_where_the_lead_is() {
        let mut cluster = Cluster::start("modules", "durability = \"memory\"", None);
        let module = transfer();
        assert_eq!(ask(&cluster, &[b"HW.MODULE", b"LOAD", b"vault", &module]), ":1");
        assert_eq!(line(&cluster, "HW.TABLE CREATE accounts u64"), "+OK");
        assert_eq!(line(&cluster, "HW.TABLE CREATE history u64 u64"), "+OK");
        assert_eq!(line(&cluster, "HW.CALL vault.open 1 100"), "+OK");
        assert_eq!(line(&cluster, "HW.CALL vault.open 2 100"), "+OK");
        let again = line(&cluster, "HW.CALL vault.open 2 100");
        assert_eq!(again, "-ROLLEDBACK the account is open; nothing was done");
        assert_eq!(line(&cluster, "HW.CALL vault.transfer 1 2 30"), "*4");
        let panicked = line(&cluster, "HW.CALL vault.panics 7");
        let why = "the procedure panicked: index out of bounds: the len is 3 but the index is 7";
        assert_eq!(panicked, format!("-ROLLEDBACK {why}; nothing was done"));
        assert_eq!(line(&cluster, "HW.CALL vault.audited 1 2 5"), "+OK");
        // Another leads, and has the rows.
        let (leader, _) = cluster.leader();
        cluster.kill(leader);
        assert_eq!(
            line(&cluster, "HW.CALL vault.transfer 1 2 300"),
            "-ROLLEDBACK insufficient funds; nothing was done"
        );
        assert_eq!(line(&cluster, "HW.CALL vault.history 1 10"), "*1");
        for (words, balance) in [("HW.GET accounts 1", 65i64), ("HW.GET accounts 2", 135)] {
            let (_, mut client) = cluster.leader();
            let words: Vec<_> = words.split(' ').map(str::as_bytes).collect();
            assert_eq!(client.call(&words).unwrap().1, balance.to_le_bytes());
        }
        cluster.run(leader);
        cluster.none_died();
    }

    /// Loops around each other and around variables, so many that a compiler takes seconds.
    fn heavy() -> Vec<u8> {
        // The compiler itself is compiled without optimising for tests.
        const MANY: usize = if cfg!(debug_assertions) { 300 } else { 1_100 };
        let uses: String = (0..MANY).map(|at| format!("(local.set {at} (local.get {at}))")).collect();
        let (loops, ends, locals) = ("loop ".repeat(MANY), "end ".repeat(MANY), "i64 ".repeat(MANY));
        let heavy = format!("(func (local {locals}) {loops} {uses} {ends})");
        format!("(module (func (export \"procedure:run\")) {heavy})").into_bytes()
    }

    /// A module that takes long to compile holds nobody up, at no node: neither when it is loaded nor when another node leads.
    #[test]
    fn nobody_waits_for_the_compiler_but_who_needs_it() {
        let mut cluster = Cluster::start("heavy-module", "durability = \"memory\"", None);
        let module = heavy();
        let (leader, mut others) = cluster.leader();
        let mut loader = Client::connect(cluster.port(leader)).unwrap();
        let loading = std::thread::spawn(move || loader.call(&[b"HW.MODULE", b"LOAD", b"heavy", &module]));
        let mut slowest = std::time::Duration::ZERO;
        let mut counted = 0;
        while !loading.is_finished() {
            let asked = std::time::Instant::now();
            let (line, _) = others.call(&[b"INCR", b"beside"]).expect("it goes on");
            counted += 1;
            assert_eq!(line, format!(":{counted}"), "the lead is where it was");
            slowest = slowest.max(asked.elapsed());
        }
        assert_eq!(loading.join().unwrap().expect("it is answered").0, ":1");
        assert!(slowest < std::time::Duration::from_secs(2), "{slowest:?}");
        assert_eq!(line(&cluster, "HW.CALL heavy.run"), "+OK");
        cluster.kill(leader);
        assert_eq!(line(&cluster, "HW.CALL heavy.run"), "+OK");
        assert_eq!(line(&cluster, "GET beside"), counted.to_string());
        cluster.run(leader);
        cluster.none_died();
    }

    #[test]
    fn a_follower_reads_with_a_module() {
        let cluster = Cluster::start("module-reads", "durability = \"memory\"", None);
        let module = "(module (import \"highwater1\" \"key_get\" (func $get (param i32 i32 i32 i32) (result i32)))
            (import \"highwater1\" \"key_set\" (func $set (param i32 i32 i32 i32)))
            (import \"highwater1\" \"reply_bytes\" (func $bytes (param i32 i32)))
            (memory (export \"memory\") 1) (data (i32.const 0) \"k\")
            (func (export \"procedure:read\")
              (call $bytes (i32.const 16) (call $get (i32.const 0) (i32.const 1) (i32.const 16) (i32.const 99))))
            (func (export \"procedure:write\") (call $set (i32.const 0) (i32.const 1) (i32.const 0) (i32.const 1))))";
        assert_eq!(ask(&cluster, &[b"HW.MODULE", b"LOAD", b"m", module.as_bytes()]), ":1");
        let (leader, mut client) = cluster.leader();
        // A token is of what its own connection has seen.
        assert_eq!(client.call(&[b"SET", b"k", b"value"]).unwrap().0, "+OK");
        let token = client.call(&[b"HW.TOKEN"]).unwrap().0;
        let mut follower = Client::connect(cluster.port((leader + 1) % 3)).unwrap();
        assert_eq!(follower.call(&[b"READONLY"]).unwrap().0, "+OK");
        assert_eq!(follower.call(&[b"HW.FRESHNESS", b"SINCE", &token.as_bytes()[1..]]).unwrap().0, "+OK");
        let started = std::time::Instant::now();
        loop {
            let (answered, value) = follower.call(&[b"HW.CALL_RO", b"m.read"]).unwrap();
            if answered.starts_with('$') {
                assert_eq!(value, b"value");
                break;
            }
            // It has just come, and may still copy what the others have, or compile it.
            let not_yet = ["-NOTFRESH", "-MOVED", "-COMPILING"].iter().any(|word| answered.starts_with(word));
            assert!(not_yet && started.elapsed() < PATIENCE, "{answered}");
        }
        let refused = follower.call(&[b"HW.CALL_RO", b"m.write"]).unwrap().0;
        assert_eq!(refused, "-ERR the procedure writes, and HW.CALL_RO does not");
        let elsewhere = follower.call(&[b"HW.CALL", b"m.read"]).unwrap().0;
        assert!(elsewhere.starts_with("-MOVED "), "{elsewhere}");
    }

    /// Procedures that mean harm, one after another, beside a client that goes on.
    #[test]
    fn no_procedure_ends_a_node() {
        let mut cluster = Cluster::start("hostile-modules", "durability = \"memory\"", None);
        let bodies = [
            ("(loop $again (br $again))", "-NOFUEL "),
            ("(call $run)", "-TRAP call stack exhausted"),
            ("(drop (memory.grow (i32.const 65535)))", "-NOMEMORY "),
            ("(drop (i32.load (i32.const -1)))", "-TRAP out of bounds memory access"),
            (
                "(loop $again (memory.fill (i32.const 0) (i32.const 1) (i32.const 65536)) (br $again))",
                "-NOFUEL ",
            ),
            ("unreachable", "-TRAP wasm `unreachable` instruction executed"),
        ];
        for (at, (body, told)) in bodies.iter().enumerate() {
            let name = format!("m{at}");
            let module = format!(
                "(module (memory (export \"memory\") 1) (func $run (export \"procedure:run\") {body}))"
            );
            let loaded = ask(&cluster, &[b"HW.MODULE", b"LOAD", name.as_bytes(), module.as_bytes()]);
            assert_eq!(loaded, format!(":{}", at + 1));
            let reply = line(&cluster, &format!("HW.CALL {name}.run"));
            assert!(reply.starts_with(told), "{body}: {reply}");
            assert_eq!(line(&cluster, "INCR beside"), format!(":{}", at + 1));
        }
        cluster.none_died();
    }

    /// Nobody could call it: `HW.CALL` finds the node's own first.
    #[test]
    fn a_module_has_no_procedure_that_the_node_hosts_itself() {
        let mut cluster = Cluster::start("module-names", "durability = \"memory\"", None);
        let module = |name: &str| format!("(module (func (export \"procedure:{name}\")))");
        let load = |name: &[u8], procedure| {
            ask(&cluster, &[b"HW.MODULE", b"LOAD", name, module(procedure).as_bytes()])
        };
        assert_eq!(load(b"Redis", "Exec"), "-BADMODULE redis.exec is a procedure that this node hosts");
        assert_eq!(load(b"redis", "execute"), ":1");
        assert_eq!(line(&cluster, "HW.CALL redis.execute"), "+OK");
        cluster.none_died();
    }

    /// Where addresses are few, there are no places for instances, and they take their memory as they come.
    #[test]
    fn a_node_with_few_addresses_runs_modules() {
        let mut cluster = Cluster::start("module-addresses", "durability = \"memory\"", Some(3 << 20));
        let module = "(module (memory (export \"memory\") 1) (func (export \"procedure:run\") (i64.store (i32.const 8) (i64.const 1))))";
        assert_eq!(ask(&cluster, &[b"HW.MODULE", b"LOAD", b"m", module.as_bytes()]), ":1");
        for _ in 0..100 {
            assert_eq!(line(&cluster, "HW.CALL m.run"), "+OK");
        }
        cluster.none_died();
    }
}
