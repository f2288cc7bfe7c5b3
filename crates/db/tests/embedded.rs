//! Replicas inside a program: closures and procedures, typed tables, disks, the end of a leader.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use highwater_db::{
    Abort, Cluster, Config, Database, Durability, Error, Hashed, Procedure, Procedures, ReadTx, Registry,
    Table, Transaction, Tx, Value,
};
use highwater_node::config::NodeConfig;

const COUNTERS: Table<u64, u64, Hashed> = Table::hashed(0, "counters");
const ORDERS: Table<(u64, String), i64> = Table::ordered(1, "orders");
const PATIENCE: Duration = Duration::from_secs(60);

fn alone() -> Database {
    let builder = Database::builder().table(ORDERS).table(COUNTERS).table(TEXTS);
    builder.patience(PATIENCE).memory_mb(256).open().unwrap()
}

fn add(tx: &mut Tx<'_>, counter: u64) -> Result<u64, Abort> {
    let next = tx.get(COUNTERS, &counter)?.unwrap_or(0) + 1;
    tx.put(COUNTERS, &counter, &next)?;
    Ok(next)
}

#[test]
fn typed_tables_read_what_they_wrote_in_order() {
    let db = alone();
    let row = |customer: u64, item: &str| (customer, item.to_string());
    let rows = [row(1, "pear"), row(1, "apple"), row(2, "fig"), row(1, "")];
    let inserted = db.transaction(move |tx| {
        for (at, key) in rows.iter().enumerate() {
            tx.put(ORDERS, key, &(at as i64 - 1))?;
        }
        // It sees its own.
        tx.insert(ORDERS, &rows[0], &7)
    });
    assert_eq!(inserted, Ok(false));
    let of_one = db.transaction(move |tx| tx.scan(ORDERS, row(1, "")..row(2, ""), 10)).unwrap();
    assert_eq!(of_one, [(row(1, ""), 2), (row(1, "apple"), 0), (row(1, "pear"), -1)]);
    let last = db.transaction(|tx| tx.scan_back(ORDERS, .., 1)).unwrap();
    assert_eq!(last, [(row(2, "fig"), 1)]);
    // Nothing is in a range that ends before it begins, or that nothing was asked of.
    let backwards = db.transaction(move |tx| tx.scan(ORDERS, row(2, "")..row(1, ""), 10));
    assert_eq!(backwards, Ok(vec![]));
    assert_eq!(db.transaction(|tx| tx.scan(ORDERS, .., 0)), Ok(vec![]));
    assert_eq!(db.transaction(move |tx| tx.delete(ORDERS, &row(2, "fig"))), Ok(true));
    assert_eq!(db.transaction(move |tx| tx.get(ORDERS, &row(2, "fig"))), Ok(None));
    assert_eq!(db.read(move |tx| tx.get(ORDERS, &row(1, "apple"))), Ok(Some(0)));
    db.close().unwrap();
}

#[test]
fn what_does_not_commit_leaves_nothing() {
    let db = alone();
    assert_eq!(db.transaction(|tx| add(tx, 1)), Ok(1));
    let rolled_back: Result<u64, Error> = db.transaction(|tx| {
        add(tx, 1)?;
        Err(Abort::Rollback)
    });
    assert_eq!(rolled_back, Err(Error::RolledBack(vec![])));
    let panicked: Result<u64, Error> = db.transaction(|tx| {
        add(tx, 1)?;
        panic!("a closure's own business");
    });
    let Err(Error::Failed(why)) = panicked else { panic!("{panicked:?}") };
    assert!(why.contains("a closure's own business"), "{why}");
    let too_large = db.transaction(|tx| tx.put(TEXTS, &1, &"x".repeat((16 << 20) + 1)));
    assert!(matches!(too_large, Err(Error::Failed(_) | Error::TooLarge(_))), "{too_large:?}");
    // One that swallows why it cannot go on does not go on.
    let swallowed = db.transaction(|tx| {
        let _ = tx.put(TEXTS, &1, &"x".repeat((16 << 20) + 1));
        Ok(())
    });
    assert_eq!(swallowed, too_large);
    assert_eq!(db.transaction(|tx| tx.get(COUNTERS, &1)), Ok(Some(1)));
    assert!(matches!(db.call("no.such", &[]), Err(Error::Failed(why)) if why.contains("no.such")));
}

const TEXTS: Table<u64, String, Hashed> = Table::hashed(2, "texts");

/// Bytes that it does not take back.
struct Picky;

impl Value for Picky {
    fn encode(&self, out: &mut Vec<u8>) {
        out.push(7);
    }

    fn decode(_: &[u8]) -> Option<Picky> {
        None
    }
}

#[test]
fn a_value_that_cannot_be_decoded_is_told() {
    const PICKY: Table<u64, Picky> = Table::ordered(0, "picky");
    let db = Database::builder().table(PICKY).patience(PATIENCE).memory_mb(256).open().unwrap();
    db.transaction(|tx| tx.put(PICKY, &1, &Picky)).unwrap();
    for reason in [
        why(db.transaction(|tx| tx.get(PICKY, &1).map(drop))),
        why(db.transaction(|tx| tx.scan(PICKY, .., 9).map(drop))),
        why(db.read(|tx| tx.get(PICKY, &1).map(drop))),
    ] {
        assert!(reason.contains("picky"), "{reason}");
    }
}

#[test]
fn tables_are_numbered_without_gaps() {
    let error = |builder: highwater_db::Builder<highwater_db::NoProcedures>| {
        builder.open().err().expect("it is refused").to_string()
    };
    assert!(error(Database::builder().table(ORDERS)).contains("no table has number 0"));
    assert!(error(Database::builder().table(COUNTERS).table(COUNTERS)).contains("two tables have number 0"));
    let none = Database::builder().cluster(0).err().expect("nobody").to_string();
    assert!(none.contains("1 to 7"), "{none}");
}

#[test]
fn many_threads_count_exactly() {
    let db = Arc::new(alone());
    let runs = Arc::new(AtomicU32::new(0));
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..200 {
                    let runs = runs.clone();
                    let added = db.transaction(move |tx| {
                        runs.fetch_add(1, Ordering::Relaxed);
                        add(tx, 7)
                    });
                    added.unwrap();
                }
            });
        }
    });
    assert_eq!(db.transaction(|tx| tx.get(COUNTERS, &7)), Ok(Some(800)));
    assert!(runs.load(Ordering::Relaxed) >= 800);
}

#[test]
fn a_folder_keeps_what_it_was_given() {
    let folder = tempfile::tempdir().unwrap();
    let open = || {
        let builder = Database::builder().table(COUNTERS).memory_mb(512).patience(PATIENCE);
        builder.folder(folder.path()).open().unwrap()
    };
    for life in 1..=3 {
        let db = open();
        assert_eq!(db.transaction(|tx| add(tx, 1)), Ok(life));
        // Dropped or closed, it is there again.
        if life == 2 {
            db.close().unwrap();
        }
    }
}

#[derive(Clone)]
struct Counting;

/// `counter u64`, little endian. The reply is the new count.
struct Count;

impl Procedure for Count {
    const NAME: &'static str = "counting.count";

    fn run<T: Transaction>(tx: &mut T, args: &[u8], reply: &mut Vec<u8>) -> Result<(), Abort> {
        let counter = args.try_into().map(u64::from_le_bytes).map_err(|_| Abort::BadRequest)?;
        let next = add(&mut Tx::over(tx), counter)?;
        reply.extend_from_slice(&next.to_le_bytes());
        Ok(())
    }
}

impl Procedures for Counting {
    fn register<T: Transaction>(&self, registry: &mut Registry<T>) {
        registry.register::<Count>();
        registry.register::<Forgets>();
    }
}

/// Uses a table that no builder was told of.
struct Forgets;

impl Procedure for Forgets {
    const NAME: &'static str = "counting.forgets";

    fn run<T: Transaction>(tx: &mut T, _: &[u8], _: &mut Vec<u8>) -> Result<(), Abort> {
        Tx::over(tx).put(FORGOTTEN, &1, &1)
    }
}

#[test]
fn procedures_and_closures_share_tables() {
    let builder = Database::builder().table(COUNTERS).procedures(Counting).memory_mb(256).patience(PATIENCE);
    let db = builder.open().unwrap();
    assert_eq!(db.call("counting.count", &5u64.to_le_bytes()), Ok(1u64.to_le_bytes().to_vec()));
    assert_eq!(db.transaction(|tx| add(tx, 5)), Ok(2));
    assert!(matches!(db.call("counting.count", &[1]), Err(Error::Failed(_))));
    // Nobody waits under this name.
    assert!(matches!(db.call("local.closure", &[0; 16]), Err(Error::Failed(_))));
    assert!(matches!(db.call("local.closure", &[]), Err(Error::Failed(_))));
}

#[test]
fn redis_clients_are_let_in_beside() {
    let db = alone();
    db.transaction(|tx| tx.put(COUNTERS, &1, &1)).unwrap();
    let mut stream = BufReader::new(TcpStream::connect(db.resp_address()).unwrap());
    stream.get_mut().write_all(b"SET a 1\r\nDBSIZE\r\n").unwrap();
    let mut lines = String::new();
    stream.read_line(&mut lines).unwrap();
    stream.read_line(&mut lines).unwrap();
    assert_eq!(lines, "+OK\r\n:1\r\n");
}

fn cluster(engine: &str) -> Cluster {
    let builder = Database::builder().table(COUNTERS).engine(engine).workers(1).patience(PATIENCE);
    builder.cluster(3).unwrap()
}

#[test]
fn the_end_of_a_leader_loses_nothing_that_was_answered() {
    // With disks a replica that comes back votes at once: the next one may be killed.
    let folder = tempfile::tempdir().unwrap();
    let builder = Database::builder().table(COUNTERS).workers(1).patience(PATIENCE).folder(folder.path());
    let cluster = builder.cluster(3).unwrap();
    let mut possible = 0..=0;
    for round in 0..3 {
        for _ in 0..20 {
            match cluster.transaction(|tx| add(tx, 1)) {
                Ok(count) => {
                    assert!(possible.contains(&(count - 1)), "{count} after {possible:?}");
                    possible = count..=count;
                }
                Err(Error::Unknown) => possible = *possible.start()..=possible.end() + 1,
                Err(error) => panic!("{error}"),
            }
        }
        let leader = cluster.leader();
        // Between two transactions, and in the middle of one.
        std::thread::scope(|scope| {
            let under_way = (round > 0).then(|| scope.spawn(|| cluster.transaction(|tx| add(tx, 1))));
            assert!(cluster.kill(leader));
            match under_way.map(|thread| thread.join().unwrap()) {
                Some(Ok(count)) => possible = count..=count,
                Some(Err(Error::Unknown)) => possible = *possible.start()..=possible.end() + 1,
                Some(Err(error)) => panic!("{error}"),
                None => {}
            }
        });
        assert!(!cluster.kill(leader), "it does not run any more");
        let count = cluster.transaction(|tx| tx.get(COUNTERS, &1)).unwrap().unwrap_or(0);
        assert!(possible.contains(&count), "{count} is not of {possible:?}");
        possible = count..=count;
        cluster.restart(leader).unwrap();
    }
    cluster.close().unwrap();
}

#[test]
fn closures_run_on_every_engine_that_is_said_to() {
    for kind in highwater_db::engines() {
        let engine = kind.name();
        if !kind.abilities().replicates {
            let builder =
                Database::builder().table(COUNTERS).engine(engine).memory_mb(256).patience(PATIENCE);
            let db = builder.open().unwrap();
            assert_eq!(db.transaction(|tx| add(tx, 1)), Ok(1), "{engine}");
            continue;
        }
        let cluster = cluster(engine);
        for count in 1..=20 {
            assert_eq!(cluster.transaction(|tx| add(tx, 1)), Ok(count), "{engine}");
        }
    }
    let cluster = cluster("kuafu");
    let refused = cluster.transaction(|tx| add(tx, 1));
    assert_eq!(refused, Err(Error::Unsupported("kuafu")));
}

#[test]
fn a_follower_shows_its_snapshot() {
    let cluster = cluster("rolis");
    cluster.transaction(|tx| tx.put(COUNTERS, &1, &9)).unwrap();
    let follower = (cluster.leader() + 1) % 3;
    let started = std::time::Instant::now();
    while cluster.read(follower, |tx| tx.get(COUNTERS, &1)) != Ok(Some(9)) {
        assert!(started.elapsed() < PATIENCE, "it never gets there");
    }
    // The same code reads on a snapshot and in a transaction that writes.
    assert_eq!(cluster.read(follower, |tx| count_of(tx, 1)), Ok(9));
    assert_eq!(cluster.transaction(|tx| count_of(tx, 1)), Ok(9));
}

fn count_of(tx: &mut ReadTx<'_>, counter: u64) -> Result<u64, Abort> {
    Ok(tx.get(COUNTERS, &counter)?.unwrap_or_default())
}

const FORGOTTEN: Table<u64, u64> = Table::ordered(7, "forgotten");

/// The reason that a transaction failed for.
fn why<T: std::fmt::Debug>(ended: Result<T, Error>) -> String {
    match ended {
        Err(Error::Failed(why)) => why,
        other => panic!("it should have failed, and not: {other:?}"),
    }
}

/// Once: library: a table that was not registered failed with no reason; one of another type read garbage; `read` wrote
/// on the leader.
#[test]
fn a_table_that_nobody_told_the_builder_of_is_named() {
    let unknown = "table 7, \"forgotten\" (ordered, keys u64 in 8 bytes, values u64), is not known: give it to Builder::table";
    let builder = Database::builder().table(COUNTERS).table(ORDERS).procedures(Counting).memory_mb(256);
    let db = builder.patience(PATIENCE).open().unwrap();
    assert_eq!(why(db.transaction(|tx| tx.put(FORGOTTEN, &1, &1))), unknown);
    assert_eq!(why(db.transaction(|tx| tx.get(FORGOTTEN, &1))), unknown);
    assert_eq!(why(db.transaction(|tx| tx.delete(FORGOTTEN, &1))), unknown);
    assert_eq!(why(db.transaction(|tx| tx.scan(FORGOTTEN, .., 0))), unknown);
    assert_eq!(why(db.read(|tx| tx.get(FORGOTTEN, &1))), unknown);
    let of_procedure = why(db.call("counting.forgets", &[]));
    assert_eq!(of_procedure, format!("counting.forgets panicked: {unknown}"));
    // Code that gives no reason is told as such, and no sentence has a hole.
    let silent: Result<(), Error> = db.transaction(|_| Err(Abort::BadRequest));
    assert!(silent.unwrap_err().to_string().contains("its code gave no reason"));
    assert!(why(db.call("counting.count", &[1])).contains("its code gave no reason"));
}

#[test]
fn a_table_is_asked_for_as_the_builder_was_told() {
    const TEXTS: Table<u64, String, Hashed> = Table::hashed(0, "counters");
    const SCANNED: Table<u64, u64> = Table::ordered(0, "counters");
    const RENAMED: Table<u64, u64, Hashed> = Table::hashed(0, "clicks");
    let db = alone();
    db.transaction(|tx| tx.put(COUNTERS, &1, &71)).unwrap();
    let is = "table 0 is \"counters\" (hashed, keys u64 in 8 bytes, values u64), and was asked for as ";
    for ended in [
        db.transaction(|tx| tx.get(TEXTS, &1)).map(drop),
        db.read(|tx| tx.get(TEXTS, &1)).map(drop),
        db.transaction(|tx| tx.put(TEXTS, &1, &"x".into())),
        db.transaction(|tx| tx.get(SCANNED, &1)).map(drop),
        db.transaction(|tx| tx.get(RENAMED, &1)).map(drop),
    ] {
        let why = why(ended);
        assert!(why.starts_with(is) && why.ends_with("and one constant"), "{why}");
    }
    assert_eq!(db.transaction(|tx| tx.get(COUNTERS, &1)), Ok(Some(71)));
}

/// Two programs in turns over the same data: by its journal only, and by a checkpoint.
#[test]
fn a_folder_is_opened_by_the_program_whose_tables_it_has() {
    const TEXTS: Table<u64, String, Hashed> = Table::hashed(0, "counters");
    let folder = tempfile::tempdir().unwrap();
    let builder = || Database::builder().memory_mb(512).patience(PATIENCE).folder(folder.path());
    let db = builder().table(COUNTERS).open().unwrap();
    assert_eq!(db.transaction(|tx| add(tx, 1)), Ok(1));
    db.close().unwrap();
    let expected = "table 0 was written as \"counters\" (hashed, keys u64 in 8 bytes, values u64), and this program has \"counters\" (hashed, \
                    keys u64 in 8 bytes, values string) under that number";
    for _ in 0..2 {
        let db = builder().table(TEXTS).open().unwrap();
        let reason = why(db.transaction(|tx| tx.get(TEXTS, &1)));
        assert!(reason.starts_with(expected), "{reason}");
        let reason = why(db.read(|tx| tx.get(TEXTS, &1)));
        assert!(reason.starts_with(expected), "{reason}");
        db.close().unwrap();
    }
    // With another table behind it the program's own data are all there.
    for life in 2..=3 {
        let db = builder().table(COUNTERS).table(ORDERS).open().unwrap();
        assert_eq!(db.transaction(|tx| add(tx, 1)), Ok(life));
        db.close().unwrap();
    }
    let db = builder().table(COUNTERS).table(ORDERS_BY_TEXT).open().unwrap();
    let reason = why(db.transaction(|tx| add(tx, 1)));
    assert!(
        reason.starts_with("table 1 was written as \"orders\" (ordered, keys (u64, string), values i64)"),
        "{reason}"
    );
}

const ORDERS_BY_TEXT: Table<(String, u64), i64> = Table::ordered(1, "orders");

#[test]
fn replicas_of_a_cluster_agree_on_the_tables() {
    let cluster = cluster("rolis");
    assert_eq!(cluster.transaction(|tx| add(tx, 1)), Ok(1));
    let leader = cluster.leader();
    assert!(cluster.kill(leader));
    assert_eq!(cluster.transaction(|tx| add(tx, 1)), Ok(2));
    // A snapshot may be of before the catalogue's rows came.
    assert!(cluster.read((leader + 1) % 3, |tx| count_of(tx, 1)).unwrap() <= 2);
}

fn copy_folder(from: &std::path::Path, to: &std::path::Path) {
    let _ = std::fs::remove_dir_all(to);
    std::fs::create_dir(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap().map(Result::unwrap) {
        std::fs::copy(entry.path(), to.join(entry.file_name())).unwrap();
    }
}

/// A replica within a program whose folder was put back from an older copy is told so, ends, and comes back as a new voter when the
/// program opens it again, as a node of its own process does by itself.
#[test]
fn a_replica_whose_folder_is_an_older_copy_begins_another_life_when_it_is_opened_again() {
    let folder = tempfile::tempdir().unwrap();
    let ports = highwater_node::free_loopback_ports(9).unwrap();
    let nodes: Vec<NodeConfig> = (0..3)
        .map(|id| {
            let at = |what: usize| format!("127.0.0.1:{}", ports[3 * usize::from(id) + what]);
            NodeConfig { id, peer: at(0), resp: at(1), admin: at(2), announce: None }
        })
        .collect();
    let open = |node: u8| {
        let mut config = Config { node, ..Config::default() };
        (config.cluster.nodes, config.cluster.workers) = (nodes.clone(), 1);
        config.limits.memory_mb = 256;
        let builder = Database::builder().table(COUNTERS).config(config).folder(folder.path());
        builder.durability(Durability::Sync).patience(Duration::from_secs(2)).open().unwrap()
    };
    // Asked of whichever leads; the others refuse.
    let count = |all: &[Database]| {
        let started = std::time::Instant::now();
        loop {
            let ended = all.iter().map(|db| db.transaction(|tx| add(tx, 1)));
            match ended.filter_map(Result::ok).next() {
                Some(count) => return count,
                None => assert!(started.elapsed() < PATIENCE, "nobody leads"),
            }
        }
    };
    let sees = |db: &Database, wanted: u64| db.read(|tx| count_of(tx, 1)) == Ok(wanted);
    let wait_until = |what: &str, holds: &dyn Fn() -> bool| {
        let started = std::time::Instant::now();
        while !holds() {
            assert!(started.elapsed() < PATIENCE, "{what}");
            std::thread::sleep(Duration::from_millis(20));
        }
    };
    let mut all: Vec<Database> = (0..3).map(open).collect();
    assert_eq!(count(&all), 1);
    all.pop().unwrap().close().unwrap();
    let (own, copy) = (folder.path().join("node-2"), folder.path().join("copy"));
    copy_folder(&own, &copy);
    all.push(open(2));
    wait_until("the third one is back", &|| sees(&all[2], 1));
    assert_eq!(count(&all[..2]), 2);
    all.pop().unwrap().close().unwrap();
    copy_folder(&copy, &own);
    let stale = open(2);
    let ended = || stale.read(|tx| count_of(tx, 1)) == Err(Error::Unknown);
    wait_until("it is told and ends", &ended);
    let why = stale.close().unwrap_err().to_string();
    assert!(why.contains("begins another life"), "{why}");
    let again = open(2);
    wait_until("it copies the state of the others", &|| sees(&again, 2));
    assert!(own.join("stale-journal-0000000000000001").exists(), "what it held is kept");
    again.close().unwrap();
}
