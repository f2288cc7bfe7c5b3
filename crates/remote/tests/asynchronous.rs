//! The client on tokio, and the end of a leader.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use highwater_db::{Cluster, Database};
use highwater_remote::asynchronous::Client;
use highwater_remote::{Effect, Error, Options, Outcome, Reply, Ticket, cmd};

const PATIENCE: Duration = Duration::from_secs(60);

fn options(cluster: &Cluster) -> Options {
    let nodes = (0..3).map(|node| cluster.resp_address(node).unwrap().to_string());
    Options { patience: PATIENCE, tokens: true, ..Options::new(nodes) }
}

#[test]
fn counters_are_exact_though_a_leader_ends() {
    let cluster = Database::builder().workers(1).patience(PATIENCE).cluster(3).unwrap();
    cluster.transaction(|_| Ok(())).unwrap();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let client = Arc::new(runtime.block_on(Client::connect(options(&cluster))).unwrap());
    let (over, counts) = (Arc::new(AtomicBool::new(false)), Arc::new([const { AtomicU64::new(0) }; 3]));
    let jobs = (0..6).map(|job| {
        let (client, over, counts) = (client.clone(), over.clone(), counts.clone());
        runtime.spawn(async move {
            while !over.load(Ordering::Relaxed) {
                match job % 3 {
                    0 => client.once::<()>(cmd("INCR").arg("singles")).await.unwrap(),
                    1 => {
                        let two = [cmd("INCR").arg("blocks"), cmd("DECR").arg("other")];
                        assert_eq!(client.block(&two).await.unwrap().len(), 2);
                    }
                    _ => {
                        let added = client.transaction(&["n"], async |tx| {
                            let n: Option<u64> = tx.read(cmd("GET").arg("n")).await?;
                            tx.queue(cmd("SET").arg("n").arg(n.unwrap_or(0) + 1));
                            Ok(())
                        });
                        assert_eq!(added.await.unwrap().replies, [Reply::Status("OK".into())]);
                    }
                }
                counts[job % 3].fetch_add(1, Ordering::Relaxed);
            }
        })
    });
    let jobs: Vec<_> = jobs.collect();
    let busy = || counts.iter().all(|count| count.load(Ordering::Relaxed) > 20);
    while !busy() {
        assert!(jobs.iter().all(|job| !job.is_finished()), "a job failed");
        std::thread::yield_now();
    }
    cluster.transaction(|_| Ok(())).unwrap();
    cluster.kill(cluster.leader());
    cluster.transaction(|_| Ok(())).unwrap();
    over.store(true, Ordering::Relaxed);
    runtime.block_on(async {
        for job in jobs {
            job.await.unwrap();
        }
        for (at, key) in ["singles", "blocks", "n"].into_iter().enumerate() {
            let counted = counts[at].load(Ordering::Relaxed);
            assert_eq!(client.read::<u64>(cmd("GET").arg(key)).await.unwrap(), counted, "{key}");
        }
        assert!(client.token() > 0);
    });
}

#[test]
fn what_is_dropped_in_the_middle_harms_nobody() {
    let db = Database::builder().patience(PATIENCE).memory_mb(256).open().unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let options =
            Options { patience: PATIENCE, connections: 2, ..Options::new([db.resp_address().to_string()]) };
        let client = Client::connect(options).await.unwrap();
        for n in 0..50 {
            let set = client.once::<()>(cmd("SET").arg("dropped").arg(n));
            // Polled once or a few times, and given up.
            let _ = tokio::time::timeout(Duration::from_micros(20 * n), set).await;
        }
        // Places and connections are there, and answers are those of one's own questions.
        client.once::<()>(cmd("SET").arg("mine").arg("yes")).await.unwrap();
        let asked = (0..4).map(|_| client.read::<String>(cmd("GET").arg("mine")));
        for asked in asked {
            assert_eq!(asked.await.unwrap(), "yes");
        }
        let many = client.pipeline((0..2500).map(|n| cmd("ECHO").arg(n)).collect()).await;
        assert_eq!(many.len(), 2500);
        assert_eq!(many[2499], Ok(Reply::Bytes(b"2499".to_vec())));
        let session: i64 = client.read(cmd("HW.SESSION").arg("NEW")).await.unwrap();
        assert_eq!(client.outcome(Ticket { session, number: 1 }).await, Ok(Outcome::Never));
        let wrong = client.run::<i64>(cmd("LPUSH").arg("mine").arg("x")).await.unwrap_err();
        assert!(matches!(&wrong, Error::Server(error) if error.code == "WRONGTYPE"));
        assert_eq!(wrong.effect(), Effect::None);
    });
}
