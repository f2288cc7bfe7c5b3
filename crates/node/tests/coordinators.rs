//! Clients that coordinate their transactions themselves, against real nodes.

#![allow(clippy::unwrap_used, reason = "a test may panic")]
#![allow(dead_code, reason = "a part of the helpers is used")]

mod common;

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::ops::Bound::Unbounded;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use common::{command, config, resp_client, start_alone};
use highwater_core::{Abort, Direction, Fingerprint, Incarnation, Library, TableId, TableSpec, Transaction};
use highwater_meerkat_client::{Client, Counts, Error, Options};
use highwater_meerkat_wire::Ask;
use highwater_meerkat_wire::frames::{Hello, VERSION, WELCOME_BYTES, Welcome, prefix};
use highwater_node::config::Benchmarks;
use highwater_node::library::{WITH_WORKLOADS, hosted};
use highwater_node::{Config, Node, Signals};
use highwater_redis::KEYSPACE;
use highwater_workloads::tables::AUDIT;

const PATIENCE: Duration = Duration::from_secs(60);

fn start(config: &Config, id: u8, life: u64) -> Node {
    let config = Config { node: id, ..config.clone() };
    let clock = std::sync::Arc::new(highwater_core::Clock::chosen(config.clock()).unwrap().0);
    let incarnation = Incarnation(life);
    let engine = config.engine().unwrap();
    let replica =
        highwater_engines::build(engine, config.options(incarnation), hosted(Benchmarks::On), clock);
    Node::start(&config, incarnation, replica, Signals::Leave).unwrap()
}

fn cluster(nodes: u8, engine: &str) -> (Config, Vec<Option<Node>>) {
    let mut config = config(nodes, 2);
    config.cluster.engine = engine.into();
    let all = (0..nodes).map(|id| Some(start(&config, id, 100 + u64::from(id)))).collect();
    (config, all)
}

fn options(config: &Config) -> Options {
    let nodes = config.cluster.nodes.iter().map(|node| node.peer.clone());
    Options { patience: PATIENCE, ..Options::new(&config.cluster.id, nodes) }
}

fn number<T: Transaction>(tx: &mut T, key: &[u8]) -> Result<i64, Abort> {
    let value = tx.get(KEYSPACE, key)?;
    Ok(value.map_or(0, |value| std::str::from_utf8(value).unwrap().parse().unwrap()))
}

fn set<T: Transaction>(tx: &mut T, key: &[u8], number: i64) -> Result<(), Abort> {
    tx.put(KEYSPACE, key, number.to_string().as_bytes())
}

fn account(at: u64) -> Vec<u8> {
    format!("account:{at}").into_bytes()
}

/// What RESP clients of a node see, who have their requests coordinated by it.
fn get(node: &Node, key: &[u8]) -> i64 {
    let mut client = BufReader::new(resp_client(node.resp_address()));
    let began = Instant::now();
    loop {
        client.get_mut().write_all(&command(&[b"GET", key])).unwrap();
        let mut line = String::new();
        client.read_line(&mut line).unwrap();
        if line.starts_with('$') {
            line.clear();
            client.read_line(&mut line).unwrap();
            return line.trim_end().parse().unwrap();
        }
        assert!(began.elapsed() < PATIENCE, "{line}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Clients move money; a replica is killed in the middle of it. Nothing is lost, nothing is done twice, and others see the same.
#[test]
fn transfers_go_on_and_sums_stay_exact_while_a_replica_is_killed() {
    const CLIENTS: u64 = 3;
    const ACCOUNTS: u64 = 8;
    const OPENING: i64 = 100;
    for engine in ["meerkat", "meerkat-strict"] {
        let (config, mut nodes) = cluster(3, engine);
        let mut first = Client::connect(&WITH_WORKLOADS, options(&config)).unwrap();
        let open = |tx: &mut highwater_meerkat_client::Tx<'_>| {
            (0..ACCOUNTS).try_for_each(|at| set(tx, &account(at), OPENING))
        };
        first.transaction(open).unwrap();
        let stop = AtomicBool::new(false);
        let work = |client: u64| -> (i64, i64, Counts, Counts) {
            let mut own = Client::connect(&WITH_WORKLOADS, options(&config)).unwrap();
            let (mut done, mut unknown, mut at, mut before) = (0, 0, client, None);
            while !stop.load(Ordering::Relaxed) {
                at = at.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                let (from, to) = ((at >> 33) % ACCOUNTS, (at >> 40) % ACCOUNTS);
                let moved = own.transaction(|tx| {
                    let counter = format!("counter:{client}").into_bytes();
                    let count = number(tx, &counter)?;
                    set(tx, &counter, count + 1)?;
                    if from != to {
                        let (source, target) = (number(tx, &account(from))?, number(tx, &account(to))?);
                        set(tx, &account(from), source - 1)?;
                        set(tx, &account(to), target + 1)?;
                    }
                    Ok(())
                });
                match moved {
                    Ok(()) => done += 1,
                    Err(Error::Unknown) => unknown += 1,
                    Err(Error::Conflict | Error::NoQuorum | Error::NotServing) => {}
                    Err(other) => panic!("{other}"),
                }
                if done == 100 {
                    before = Some(own.counts());
                }
            }
            (done, unknown, before.unwrap_or_default(), own.counts())
        };
        let results: Vec<_> = std::thread::scope(|scope| {
            let clients: Vec<_> = (0..CLIENTS).map(|client| scope.spawn(move || work(client))).collect();
            std::thread::sleep(Duration::from_millis(1500));
            drop(nodes[2].take());
            std::thread::sleep(Duration::from_millis(2500));
            stop.store(true, Ordering::Relaxed);
            clients.into_iter().map(|client| client.join().unwrap()).collect()
        });
        let total = (0..ACCOUNTS).map(|at| get(nodes[0].as_ref().unwrap(), &account(at))).sum::<i64>();
        assert_eq!(total, ACCOUNTS as i64 * OPENING, "{engine}");
        for (client, (done, unknown, _, counts)) in results.iter().enumerate() {
            let shows = get(nodes[1].as_ref().unwrap(), format!("counter:{client}").as_bytes());
            println!("{engine}: client {client}: {done} done, {unknown} unknown, shows {shows}; {counts:?}");
            assert!(
                (*done..=done + unknown).contains(&shows),
                "{engine}: {done} to {} and not {shows}",
                done + unknown
            );
            assert!(*done > 0 && counts.fast > 0, "{engine}: {counts:?}");
        }
        // Two of three are a majority: it takes two rounds.
        assert!(results.iter().any(|(.., counts)| counts.slow > 0), "{engine}: {results:?}");
        let sum =
            first.transaction(|tx| (0..ACCOUNTS).try_fold(0, |sum, at| Ok(sum + number(tx, &account(at))?)));
        assert_eq!(sum, Ok(ACCOUNTS as i64 * OPENING), "{engine}");
    }
}

/// A transaction of two processes: one client reads, another one commits in between, and the first one runs again.
#[test]
fn clients_see_their_own_writes_and_run_again_when_others_were_in_the_way() {
    let (config, _nodes) = cluster(3, "meerkat");
    let mut one = Client::connect(&WITH_WORKLOADS, options(&config)).unwrap();
    let mut other = Client::connect(&WITH_WORKLOADS, options(&config)).unwrap();
    let mut runs = 0;
    let seen = one.transaction(|tx| {
        runs += 1;
        let before = number(tx, b"shared")?;
        if runs == 1 {
            other.transaction(|tx| set(tx, b"shared", 41)).unwrap();
        }
        set(tx, b"shared", before + 1)?;
        assert_eq!(number(tx, b"shared"), Ok(before + 1));
        assert_eq!(tx.insert(KEYSPACE, b"fresh", b"value"), Ok(true));
        assert_eq!(tx.delete(KEYSPACE, b"fresh"), Ok(true));
        Ok(before)
    });
    assert!(seen == Ok(41) && runs > 1, "{seen:?}, {runs} runs");
    assert_eq!(other.transaction(|tx| number(tx, b"shared")), Ok(42));
    let rolled_back = other.transaction(|tx| {
        set(tx, b"shared", 7)?;
        Err::<(), _>(Abort::Rollback)
    });
    assert_eq!(rolled_back, Err(Error::RolledBack));
    assert_eq!(one.transaction(|tx| number(tx, b"shared")), Ok(42));
    assert_eq!(
        one.transaction(|tx| tx.get(TableId(250), b"x").map(drop)),
        Err(Error::Refused("the transaction makes no sense".into()))
    );
}

/// Scans are asked for part by part, and a key that appears in one is a conflict. A procedure of the library runs at the client.
#[test]
fn scans_of_many_parts_and_procedures() {
    const ROWS: u64 = 3000;
    let (config, nodes) = cluster(1, "meerkat");
    let mut client = Client::connect(&WITH_WORKLOADS, options(&config)).unwrap();
    let table = ordered();
    for part in 0..3 {
        let rows = |tx: &mut highwater_meerkat_client::Tx<'_>| {
            (0..ROWS)
                .filter(|row| row % 3 == part)
                .try_for_each(|row| tx.put(table, &row.to_be_bytes(), &[7; 100]))
        };
        client.transaction(rows).unwrap();
    }
    for direction in [Direction::Forward, Direction::Backward] {
        let seen = client.transaction(|tx| {
            let mut seen = Vec::new();
            tx.put(table, &ROWS.to_be_bytes(), b"own")?;
            tx.scan(table, (Unbounded, Unbounded), direction, |key, _| {
                seen.push(u64::from_be_bytes(key.try_into().unwrap()));
                ControlFlow::Continue(())
            })?;
            tx.delete(table, &ROWS.to_be_bytes())?;
            Ok(seen)
        });
        let mut seen = seen.unwrap();
        if direction == Direction::Backward {
            seen.reverse();
        }
        assert_eq!(seen, (0..=ROWS).collect::<Vec<_>>());
    }
    let mut other = Client::connect(&WITH_WORKLOADS, options(&config)).unwrap();
    // Who has counted before a row came, and then sees what came with that row, counts again. (Who does not see it yet, as on a busy machine, may
    // have a place in the order before it: `meerkat` promises no order in real time.)
    let (mut runs, mut saw) = (0, false);
    let counted = client.transaction(|tx| {
        runs += 1;
        let mut count = 0;
        tx.scan(table, (Unbounded, Unbounded), Direction::Forward, |_, _| {
            count += 1;
            ControlFlow::Continue(())
        })?;
        if runs == 1 {
            let phantom = other.transaction(|tx| {
                tx.put(table, &(ROWS + 9).to_be_bytes(), b"phantom")?;
                tx.put(KEYSPACE, b"marker", b"1")
            });
            phantom.unwrap();
            saw = tx.get(KEYSPACE, b"marker")?.is_some();
        }
        tx.put(KEYSPACE, b"count", b"1")?;
        Ok(count)
    });
    let before = !saw && (&counted, runs) == (&Ok(ROWS), 1);
    assert!(
        before || (&counted, runs) == (&Ok(ROWS + 1), 2),
        "{counted:?} after {runs}, saw the marker: {saw}"
    );
    assert!(matches!(client.run("no.such", b""), Err(Error::Refused(_))));
    drop(nodes);
}

fn ordered() -> TableId {
    let spec = |(at, spec): (usize, TableSpec)| {
        let fits =
            spec.index == highwater_core::IndexKind::Ordered && spec.keys == highwater_core::KeyKind::U64;
        fits.then_some(TableId(at as u8))
    };
    WITH_WORKLOADS
        .tables()
        .into_iter()
        .enumerate()
        .filter(|(at, _)| *at > AUDIT.0 as usize)
        .find_map(spec)
        .unwrap()
}

/// A client that dies between its proposal and its decision holds nobody up for long.
#[test]
fn what_a_dead_client_has_left_is_ended() {
    let (config, _nodes) = cluster(3, "meerkat");
    let mut client = Client::connect(&WITH_WORKLOADS, options(&config)).unwrap();
    client.transaction(|tx| set(tx, b"left", 1)).unwrap();
    for round in 2..6 {
        let mut mortal = Client::connect(&WITH_WORKLOADS, options(&config)).unwrap();
        // It panics in the middle of a transaction: its connections are closed without a word.
        let died = std::thread::spawn(move || {
            let _ = mortal.transaction(|tx| {
                set(tx, b"left", 99)?;
                let _ = number(tx, b"other")?;
                if round % 2 == 0 {
                    return Err(Abort::Rollback);
                }
                panic!("as the test wants it");
                #[allow(unreachable_code, reason = "its type")]
                Ok(())
            });
        });
        let _ = died.join();
        client.transaction(|tx| set(tx, b"left", round)).unwrap();
        assert_eq!(client.transaction(|tx| number(tx, b"left")), Ok(round));
    }
}

#[test]
fn who_does_not_fit_is_refused_in_words() {
    let mut alone = config(1, 1);
    let _rolis = start_alone(&alone);
    let refusal = |options: Options| match Client::connect(&WITH_WORKLOADS, options) {
        Err(Error::Refused(why)) => why,
        other => panic!("{:?}", other.map(|_| ())),
    };
    assert!(refusal(options(&alone)).contains("clients of rolis do not coordinate"));
    alone = config(1, 1);
    alone.cluster.engine = "meerkat".into();
    alone.server.benchmarks = Benchmarks::On;
    let _meerkat = start_alone(&alone);
    let other = Options { cluster: "other".into(), ..options(&alone) };
    assert!(refusal(other).contains("belongs to"));
    struct Nothing;
    impl Library for Nothing {
        fn tables(&self) -> Vec<TableSpec> {
            Vec::new()
        }
        fn register<T: Transaction>(&self, _: &mut highwater_core::Registry<T>) {}
    }
    let Err(Error::Refused(why)) = Client::connect(&Nothing, options(&alone)) else { panic!("other tables") };
    assert!(why.starts_with("tables: the client has 0"), "{why}");
}

/// Connects as a client would; what it says then is the test's.
fn raw(config: &Config) -> TcpStream {
    let mut stream = TcpStream::connect(&config.cluster.nodes[0].peer).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let schema = WITH_WORKLOADS.schema();
    let tables = Fingerprint::of_tables(&schema, highwater_core::level::NEWEST);
    let cluster = Fingerprint::of_name(&config.cluster.id);
    let hello = Hello { version: VERSION, number: 0, cluster, tables };
    stream.write_all(&hello.encode()).unwrap();
    let mut welcome = [0; WELCOME_BYTES];
    stream.read_exact(&mut welcome).unwrap();
    assert_eq!(Welcome::decode(&welcome).unwrap().refusal, None);
    stream
}

/// Nonsense, damage, announcements of more than there may be, stamps that nobody granted: the connection is closed, and the node lives.
#[test]
fn who_makes_no_sense_is_disconnected() {
    let mut alone = config(1, 1);
    alone.cluster.engine = "meerkat".into();
    alone.server.benchmarks = Benchmarks::On;
    let node = start_alone(&alone);
    let nonsense = [99; 30];
    let mut damaged = [&prefix(&nonsense)[..], &nonsense].concat();
    damaged[10] ^= 1;
    let table = Ask::Read { id: 1, stamp: None, table: TableId(200), key: Default::default(), value: true };
    let stamp = Ask::Accept {
        epoch: highwater_core::Epoch(1),
        ts: highwater_core::Timestamp(u64::MAX >> 1),
        commit: true,
    };
    let framed = |ask: Ask| {
        let bytes = ask.encode();
        [&prefix(&bytes)[..], &bytes].concat()
    };
    let all =
        [[&prefix(&nonsense)[..], &nonsense].concat(), damaged, vec![255; 64], framed(table), framed(stamp)];
    for bytes in all {
        let mut stream = raw(&alone);
        stream.write_all(&bytes).unwrap();
        let mut rest = Vec::new();
        // It is told how the replica stands first. A reset is as good as an end.
        let _ = stream.read_to_end(&mut rest);
    }
    assert_eq!(get(&node, b"ready"), 1);
}

/// A client that asks and does not read costs no more than a little, and is disconnected.
#[test]
fn who_does_not_read_is_disconnected() {
    let mut alone = config(1, 1);
    alone.cluster.engine = "meerkat".into();
    alone.server.benchmarks = Benchmarks::On;
    alone.limits.stuck_timeout_s = 1;
    let node = start_alone(&alone);
    let mut client = Client::connect(&WITH_WORKLOADS, options(&alone)).unwrap();
    client.transaction(|tx| tx.put(KEYSPACE, b"large", &vec![7; 1 << 20])).unwrap();
    let mut stream = raw(&alone);
    stream.set_write_timeout(Some(Duration::from_millis(500))).unwrap();
    let key = bytes::Bytes::from_static(b"large");
    let ask = Ask::Read { id: 1, stamp: None, table: KEYSPACE, key, value: true }.encode();
    let many = [&prefix(&ask)[..], &ask].concat().repeat(4096);
    let (began, mut asked) = (Instant::now(), 0u64);
    let gone = loop {
        match stream.write(&many) {
            // Whatever it cuts: nobody reads on behind what fills all buffers.
            Ok(_) => asked += 1,
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {}
            Err(error) => break error,
        }
        assert!(node.held().replies < 32 << 20, "{:?} after {asked}", node.held());
        assert!(began.elapsed() < PATIENCE, "it is still there after {asked}");
    };
    println!("{gone} after {asked} times many questions and {:?}", began.elapsed());
    assert_eq!(get(&node, b"ready"), 1);
}

fn answer(client: &mut BufReader<TcpStream>, words: &[&[u8]], lines: usize) -> String {
    client.get_mut().write_all(&command(words)).unwrap();
    let mut text = String::new();
    (0..lines).for_each(|_| _ = client.read_line(&mut text).unwrap());
    text
}

/// Whoever waits at one replica for what another one was asked to write hears of it when it takes effect. It looked for it fifty times a second, each
/// time in a transaction that all replicas validated.
#[test]
fn who_waits_for_data_is_woken_by_what_another_replica_was_asked_for() {
    /// It looks by itself after 5 s.
    const WOKEN: Duration = Duration::from_millis(2500);
    let (_config, nodes) = cluster(3, "meerkat");
    let at = |id: usize| BufReader::new(resp_client(nodes[id].as_ref().unwrap().resp_address()));
    let began = Instant::now();
    for id in 0..3 {
        while !answer(&mut at(id), &[b"SET", b"ready", b"1"], 1).starts_with("+OK") {
            assert!(began.elapsed() < PATIENCE, "replica {id} does not serve");
            std::thread::sleep(Duration::from_millis(20));
        }
    }
    let mut waits: Vec<_> = (0..4).map(|_| at(0)).collect();
    for (number, client) in waits.iter_mut().enumerate() {
        let key = format!("queue:{number}");
        client.get_mut().write_all(&command(&[b"BLPOP", key.as_bytes(), b"0"])).unwrap();
    }
    let mut info = at(0);
    loop {
        info.get_mut().write_all(&command(&[b"INFO", b"clients"])).unwrap();
        let mut head = String::new();
        info.read_line(&mut head).unwrap();
        let mut body = vec![0; head.trim()[1..].parse::<usize>().unwrap() + 2];
        info.read_exact(&mut body).unwrap();
        if String::from_utf8(body).unwrap().contains("blocked_clients:4") {
            break;
        }
        assert!(began.elapsed() < PATIENCE, "four wait");
        std::thread::sleep(Duration::from_millis(5));
    }
    for (number, client) in waits.iter_mut().enumerate() {
        let key = format!("queue:{number}");
        let pushed = Instant::now();
        assert_eq!(answer(&mut at(1 + number % 2), &[b"RPUSH", key.as_bytes(), b"x"], 1), ":1\r\n");
        let mut text = String::new();
        (0..5).for_each(|_| _ = client.read_line(&mut text).unwrap());
        assert_eq!(text, format!("*2\r\n${}\r\n{key}\r\n$1\r\nx\r\n", key.len()));
        assert!(pushed.elapsed() < WOKEN, "{number}: after {:?}", pushed.elapsed());
    }
}
