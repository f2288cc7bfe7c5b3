//! A client of a cluster whose leaders end, one after the other.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use highwater_db::Cluster;
use highwater_remote::{Client, Effect, Error, Freshness, Options, Outcome, Reply, Ticket, cmd};

const PATIENCE: Duration = Duration::from_secs(60);

/// One cluster at a time: leaders that get no core lose the lead.
static ALONE: Mutex<()> = Mutex::new(());

/// With disks: who comes back votes at once.
fn cluster(folder: &tempfile::TempDir) -> (Cluster, MutexGuard<'static, ()>) {
    let alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let builder = highwater_db::Database::builder().workers(1).patience(PATIENCE).folder(folder.path());
    (builder.cluster(3).unwrap(), alone)
}

fn client(cluster: &Cluster, nodes: std::ops::Range<usize>) -> Client {
    let nodes = nodes.map(|node| cluster.resp_address(node).unwrap().to_string());
    Client::connect(Options { patience: PATIENCE, ..Options::new(nodes) }).unwrap()
}

/// Ends whoever leads and starts it again, so often, while the work goes on.
fn with_failures(cluster: &Cluster, rounds: usize, work: impl Fn(&AtomicBool) + Sync) {
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let worker = scope.spawn(|| work(&over));
        for _ in 0..rounds {
            // Whoever answers this leads.
            cluster.transaction(|_| Ok(())).unwrap();
            let leader = cluster.leader();
            cluster.kill(leader);
            cluster.transaction(|_| Ok(())).unwrap();
            cluster.restart(leader).unwrap();
        }
        over.store(true, Ordering::Relaxed);
        worker.join().unwrap();
    });
}

#[test]
fn counters_are_exact_though_leaders_end() {
    let folder = tempfile::tempdir().unwrap();
    let (cluster, _alone) = cluster(&folder);
    // One node is enough to find the others.
    let client = client(&cluster, 2..3);
    let (singles, blocks, transfers, blind) =
        (AtomicU64::new(0), AtomicU64::new(0), AtomicU64::new(0), [AtomicU64::new(0), AtomicU64::new(0)]);
    client.once::<()>(cmd("SET").arg("alice").arg(1_000_000)).unwrap();
    with_failures(&cluster, 3, |over| {
        let again = || !over.load(Ordering::Relaxed);
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    while again() {
                        client.once::<i64>(cmd("INCR").arg("singles")).unwrap();
                        singles.fetch_add(1, Ordering::Relaxed);
                    }
                });
                scope.spawn(|| {
                    while again() {
                        let replies =
                            client.block(&[cmd("INCR").arg("blocks"), cmd("INCR").arg("blocks")]).unwrap();
                        let [Reply::Integer(first), Reply::Integer(second)] = replies[..] else {
                            panic!("{replies:?}")
                        };
                        assert_eq!((first % 2, second), (1, first + 1));
                        blocks.fetch_add(2, Ordering::Relaxed);
                    }
                });
                scope.spawn(|| {
                    while again() {
                        let moved = client.transaction(&["alice", "bob"], |tx| {
                            let alice: i64 = tx.read(cmd("GET").arg("alice"))?;
                            let bob: Option<i64> = tx.read(cmd("GET").arg("bob"))?;
                            tx.queue(cmd("SET").arg("alice").arg(alice - 1));
                            tx.queue(cmd("SET").arg("bob").arg(bob.unwrap_or(0) + 1));
                            Ok(alice + bob.unwrap_or(0))
                        });
                        // What two reads show need not go together, unless it commits.
                        let moved = moved.unwrap();
                        assert_eq!((moved.value, moved.replies.len()), (1_000_000, 2));
                        transfers.fetch_add(1, Ordering::Relaxed);
                    }
                });
            }
            scope.spawn(|| {
                while again() {
                    match client.run::<i64>(cmd("INCR").arg("blind")) {
                        Ok(_) => {
                            blind[0].fetch_add(1, Ordering::Relaxed);
                        }
                        Err(error) => {
                            assert_eq!(error.effect(), Effect::Unknown, "{error}");
                            blind[1].fetch_add(1, Ordering::Relaxed);
                        }
                    }
                }
            });
        });
    });
    let get = |key| client.read::<u64>(cmd("GET").arg(key)).unwrap();
    assert_eq!(get("singles"), singles.into_inner());
    assert_eq!(get("blocks"), blocks.into_inner());
    assert_eq!(get("bob"), transfers.into_inner());
    let [sure, perhaps] = blind.map(AtomicU64::into_inner);
    assert!((sure..=sure + perhaps).contains(&get("blind")), "{sure} and {perhaps}");
    cluster.close().unwrap();
}

#[test]
fn what_is_answered_is_what_was_asked() {
    let folder = tempfile::tempdir().unwrap();
    let (cluster, _alone) = cluster(&folder);
    let client = client(&cluster, 0..3);
    // Types, and their absence.
    client.once::<()>(cmd("SET").arg("text").arg("a\r\nb")).unwrap();
    assert_eq!(client.read::<String>(cmd("GET").arg("text")).unwrap(), "a\r\nb");
    assert_eq!(client.read::<Option<i64>>(cmd("GET").arg("none")).unwrap(), None);
    let unexpected = client.read::<i64>(cmd("GET").arg("text")).unwrap_err();
    assert_eq!((unexpected.effect(), unexpected.is_safe_to_retry()), (Effect::Done, false));
    let wrong = client.once::<i64>(cmd("LPUSH").arg("text").arg("x")).unwrap_err();
    assert!(matches!(&wrong, Error::Server(error) if error.code == "WRONGTYPE"), "{wrong}");
    client.once::<()>(cmd("HSET").arg("hash").args(["a", "1", "b", "2"])).unwrap();
    let hash: std::collections::HashMap<String, u64> = client.read(cmd("HGETALL").arg("hash")).unwrap();
    assert_eq!(hash, [("a".to_string(), 1), ("b".into(), 2)].into());
    // A pipeline longer than what is written before replies are read, with an error in it.
    let mut commands: Vec<_> =
        (0..2500).map(|at| cmd("SET").arg(format!("key:{at}")).arg(vec![b'x'; 600])).collect();
    commands.push(cmd("INCR").arg("text"));
    let mut ended = client.pipeline(commands.clone());
    // A lead that was lost in the middle leaves some of them unknown; these do no harm.
    while ended.iter().any(|ended| matches!(ended, Err(error) if error.effect() == Effect::Unknown)) {
        ended = client.pipeline(commands.clone());
    }
    assert_eq!(ended.len(), 2501);
    assert!(ended[..2500].iter().all(|ended| *ended == Ok(Reply::Status("OK".into()))));
    assert!(matches!(ended[2500], Err(Error::Server(_))));
    assert_eq!(client.pipeline(vec![]), []);
    // A command of a block that fails does not undo the others; one that is none undoes all.
    let replies = client.block(&[cmd("INCR").arg("text"), cmd("INCR").arg("n")]).unwrap();
    assert!(matches!(&replies[..], [Reply::Error(_), Reply::Integer(1)]), "{replies:?}");
    let none = client.block(&[cmd("INCR").arg("n"), cmd("NOSUCH")]).unwrap_err();
    assert!(matches!(&none, Error::Server(error) if error.text.contains("NOSUCH")), "{none}");
    assert_eq!(client.block(&[]).unwrap(), []);
    assert_eq!(client.read::<i64>(cmd("GET").arg("n")).unwrap(), 1);
    // Its own error ends a transaction, and nothing is done.
    let ended = client.transaction(&["n"], |tx| {
        tx.queue(cmd("INCR").arg("n"));
        tx.read::<i64>(cmd("GET").arg("text"))
    });
    assert!(matches!(ended, Err(Error::Unexpected(_))));
    let quiet = client.transaction(&["n"], |tx| {
        tx.queue(cmd("INCR").arg("n"));
        tx.forget();
        tx.read::<i64>(cmd("GET").arg("n"))
    });
    assert_eq!(quiet.map(|quiet| (quiet.value, quiet.replies)), Ok((1, vec![])));
    // A number that never came.
    let session: i64 = client.read(cmd("HW.SESSION").arg("NEW")).unwrap();
    assert_eq!(client.outcome(Ticket { session, number: 1 }), Ok(Outcome::Never));
    let expired = client.outcome(Ticket { session: session + (1 << 40), number: 1 }).unwrap_err();
    assert!(matches!(&expired, Error::Server(error) if error.code == "EXPIRED"), "{expired}");
}

#[test]
fn what_others_change_is_read_again() {
    let folder = tempfile::tempdir().unwrap();
    let (cluster, _alone) = cluster(&folder);
    let client = client(&cluster, 0..3);
    let mut attempts = 0;
    let committed = client.transaction(&["n"], |tx| {
        attempts += 1;
        let n: Option<i64> = tx.read(cmd("GET").arg("n"))?;
        if attempts < 4 {
            client.once::<i64>(cmd("INCR").arg("n"))?;
        }
        tx.queue(cmd("SET").arg("n").arg(10 * n.unwrap_or(0)));
        Ok(n)
    });
    assert_eq!((committed.unwrap().value, attempts), (Some(3), 4));
    assert_eq!(client.read::<i64>(cmd("GET").arg("n")).unwrap(), 30);
}

#[test]
fn followers_show_what_one_wrote() {
    let folder = tempfile::tempdir().unwrap();
    let (cluster, _alone) = cluster(&folder);
    let nodes = (0..3).map(|node| cluster.resp_address(node).unwrap().to_string());
    let options = Options { patience: PATIENCE, tokens: true, ..Options::new(nodes) };
    let client = Client::connect(options).unwrap();
    for n in 1..50 {
        client.once::<()>(cmd("SET").arg("n").arg(n)).unwrap();
        assert!(client.token() > 0);
        assert_eq!(client.reader(Freshness::Own).read::<i64>(cmd("GET").arg("n")).unwrap(), n);
        let within = client.reader(Freshness::Within(Duration::ZERO));
        assert_eq!(within.read::<i64>(cmd("GET").arg("n")).unwrap(), n);
    }
    assert!(client.reader(Freshness::Any).read::<Option<i64>>(cmd("GET").arg("n")).is_ok());
    let write = client.reader(Freshness::Any).read::<i64>(cmd("INCR").arg("other"));
    // Followers refer to the leader, on which a reader's command is like any other.
    assert_eq!(write, Ok(1));
}

#[test]
fn who_cannot_be_asked_is_told() {
    let bad =
        |nodes: &[&str]| Client::connect(Options::new(nodes.iter().copied())).err().expect("it is refused");
    assert!(matches!(bad(&[]), Error::Invalid(_)));
    assert!(matches!(bad(&["localhost"]), Error::Invalid(_)));
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let options = Options { patience: Duration::from_millis(50), ..Options::new([port.to_string()]) };
    let nobody = Client::connect(options).err().expect("nobody listens");
    assert!(matches!(nobody, Error::NotDone(_)), "{nobody}");
    assert!(nobody.is_safe_to_retry());
}

/// Takes connections and says nothing, or hangs up.
#[test]
fn a_node_that_says_nothing_is_given_up() {
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let options = Options {
        patience: Duration::from_millis(300),
        timeout: Duration::from_millis(50),
        ..Options::new([silent.local_addr().unwrap().to_string()])
    };
    let error = Client::connect(options).err().expect("it says nothing");
    assert!(matches!(error, Error::NotDone(_)), "nothing but HELLO was sent: {error}");
}
