//! `highwater-remote`, blocking and on tokio, on three real processes behind locked doors: TLS, certificates of clients, users with
//! passwords. Leaders are killed in the middle of what it does; each connection to the next one has to show all of that anew.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use highwater_remote::tls::Tls;
use highwater_remote::{Client, Effect, Error, Freshness, Options, asynchronous, cmd};

mod processes;

use processes::{Cluster, PATIENCE};

/// Until a client gives up that is let in by nobody.
const SHORT: Duration = Duration::from_millis(400);

/// Authorities and what they signed, in folders of their own.
struct Certificates(tempfile::TempDir);

impl Certificates {
    fn new() -> Certificates {
        let certificates = Certificates(tempfile::tempdir().unwrap());
        for (folder, words) in [
            ("ours", &["ca"][..]),
            ("ours", &["node", "--id", "0"]),
            ("ours", &["client", "--name", "app"]),
            ("theirs", &["ca"]),
            ("theirs", &["client", "--name", "app"]),
        ] {
            let folder = certificates.0.path().join(folder);
            let mut command = Command::new(env!("CARGO_BIN_EXE_highwater"));
            command.arg("cert").args(words).arg("--dir").arg(folder);
            assert!(command.output().unwrap().status.success(), "{words:?}");
        }
        let users = "user default off\nuser app on >secret ~* +@all\nuser guest on >secret ~guest:* +@all\n";
        std::fs::write(certificates.path("users.acl"), users).unwrap();
        certificates
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// `own`: the folder of the client's certificate.
    fn tls(&self, authority: &str, own: Option<&str>) -> Tls {
        let own = own
            .map(|folder| (self.path(&format!("{folder}/app.crt")), self.path(&format!("{folder}/app.key"))));
        let own = own.as_ref().map(|(certificate, key)| (certificate.as_path(), key.as_path()));
        Tls::from_files(self.path(&format!("{authority}/ca.crt")), own).unwrap()
    }

    fn cluster(&self) -> Cluster {
        let path = |name| self.path(name).display().to_string();
        Cluster::start_with_env(
            "locked",
            "durability = \"sync\"",
            &[
                ("HIGHWATER_AUTH_USERS_FILE", &path("users.acl")),
                ("HIGHWATER_TLS_RESP", "true"),
                ("HIGHWATER_TLS_CLIENT_AUTH", "required"),
                ("HIGHWATER_TLS_CA", &path("ours/ca.crt")),
                ("HIGHWATER_TLS_CERTIFICATE", &path("ours/node-0.crt")),
                ("HIGHWATER_TLS_KEY", &path("ours/node-0.key")),
            ],
        )
    }
}

fn options(cluster: &Cluster, nodes: &[usize], tls: Option<&Tls>, login: Option<(&str, &str)>) -> Options {
    let nodes = nodes.iter().map(|node| format!("127.0.0.1:{}", cluster.port(*node)));
    let mut options = Options { patience: PATIENCE, ..Options::new(nodes) };
    options.login = login.map(|(user, password)| (user.into(), password.into()));
    if let Some(tls) = tls {
        options.connect = Some(Arc::new(tls.clone()));
        options.connect_async = Some(Arc::new(tls.clone()));
    }
    options
}

/// Whoever leads, by what operators are told.
fn leader(cluster: &Cluster) -> usize {
    let started = Instant::now();
    loop {
        let leads = |id: &usize| {
            let admin = format!("127.0.0.1:{}", cluster.admin_port(*id));
            let status = Command::new(env!("CARGO_BIN_EXE_highwater"))
                .args(["status", "--json", "--admin", &admin])
                .output();
            let status: Option<serde_json::Value> = serde_json::from_slice(&status.unwrap().stdout).ok();
            status.is_some_and(|status| status["role"] == "leader" && status["serving"] != false)
        };
        if let Some(leader) = (0..3).filter(|id| cluster.replicas[*id].is_some()).find(leads) {
            return leader;
        }
        assert!(started.elapsed() < PATIENCE, "nobody leads");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn counters_are_exact_behind_locked_doors() {
    let certificates = Certificates::new();
    let mut cluster = certificates.cluster();
    let tls = certificates.tls("ours", Some("ours"));
    let login = Some(("app", "secret"));
    let options = options(&cluster, &[0, 1, 2], Some(&tls), login);
    let client = Client::connect(Options { tokens: true, ..options.clone() }).unwrap();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let awaited = runtime.block_on(asynchronous::Client::connect(options.clone())).unwrap();
    let over = AtomicBool::new(false);
    let [once, moved, sure, perhaps, awaited_once, awaited_moved] = [const { AtomicU64::new(0) }; 6];
    let again = || !over.load(Ordering::Relaxed);
    let count = |counter: &AtomicU64| {
        counter.fetch_add(1, Ordering::Relaxed);
    };
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while again() {
                let n: i64 = client.once(cmd("INCR").arg("once")).unwrap();
                count(&once);
                let seen: i64 = client.reader(Freshness::Own).read(cmd("GET").arg("once")).unwrap();
                assert_eq!(seen, n, "followers let it in, too");
            }
        });
        scope.spawn(|| {
            while again() {
                let added = client.transaction(&["moved"], |tx| {
                    let n: Option<u64> = tx.read(cmd("GET").arg("moved"))?;
                    tx.queue(cmd("SET").arg("moved").arg(n.unwrap_or(0) + 1));
                    Ok(())
                });
                added.unwrap();
                count(&moved);
            }
        });
        scope.spawn(|| {
            while again() {
                match client.run::<i64>(cmd("INCR").arg("blind")) {
                    Ok(_) => count(&sure),
                    Err(error) if error.effect() == Effect::Unknown => count(&perhaps),
                    Err(error) => panic!("{error}"),
                }
            }
        });
        scope.spawn(|| {
            runtime.block_on(async {
                while again() {
                    awaited.once::<i64>(cmd("INCR").arg("awaited once")).await.unwrap();
                    count(&awaited_once);
                    let added = awaited.transaction(&["awaited moved"], async |tx| {
                        let n: Option<u64> = tx.read(cmd("GET").arg("awaited moved")).await?;
                        tx.queue(cmd("SET").arg("awaited moved").arg(n.unwrap_or(0) + 1));
                        Ok(())
                    });
                    added.await.unwrap();
                    count(&awaited_moved);
                }
            });
        });
        for _ in 0..3 {
            let victim = leader(&cluster);
            cluster.kill(victim);
            leader(&cluster);
            cluster.run(victim);
            // It is back when it knows who leads: the next one may be killed.
            let back = Client::connect(self::options(&cluster, &[victim], Some(&tls), login)).unwrap();
            back.once::<i64>(cmd("INCR").arg("rounds")).unwrap();
        }
        over.store(true, Ordering::Relaxed);
    });
    let get = |key| client.read::<u64>(cmd("GET").arg(key)).unwrap();
    assert_eq!(get("rounds"), 3);
    for (key, counted) in
        [("once", once), ("moved", moved), ("awaited once", awaited_once), ("awaited moved", awaited_moved)]
    {
        let counted = counted.into_inner();
        assert!(get(key) == counted && counted > 0, "{key}: {} and {counted}", get(key));
    }
    let (sure, perhaps) = (sure.into_inner(), perhaps.into_inner());
    assert!((sure..=sure + perhaps).contains(&get("blind")), "{sure} and {perhaps}: {}", get("blind"));
    cluster.none_died();
}

#[test]
fn who_is_not_let_in_is_told_why() {
    let certificates = Certificates::new();
    let cluster = certificates.cluster();
    leader(&cluster);
    let login = Some(("app", "secret"));
    let good = certificates.tls("ours", Some("ours"));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    // Both clients say the same.
    let refused = |tls: Option<&Tls>, login, patience: Duration| {
        let options = Options { patience, ..options(&cluster, &[0, 1, 2], tls, login) };
        let blocking = Client::connect(options.clone()).err().expect("it is not let in");
        let awaited =
            runtime.block_on(asynchronous::Client::connect(options)).err().expect("it is not let in");
        for error in [&blocking, &awaited] {
            assert!(error.is_safe_to_retry(), "nothing was done: {error}");
        }
        [blocking, awaited]
    };
    // Nodes may differ in their certificates: all are tried, until time is up. The last try says why.
    for (tls, words) in [
        (certificates.tls("theirs", Some("ours")), "invalid peer certificate"),
        (certificates.tls("ours", None), "CertificateRequired"),
        (certificates.tls("ours", Some("theirs")), "received fatal alert"),
    ] {
        let says = |errors: &[Error; 2]| {
            errors.iter().all(|error| matches!(error, Error::NotDone(why) if why.contains(words)))
        };
        // On a busy machine no try may come to its end in a short time.
        let mut told = refused(Some(&tls), login, SHORT);
        for patience in [10 * SHORT, PATIENCE] {
            if !says(&told) {
                told = refused(Some(&tls), login, patience);
            }
        }
        assert!(says(&told), "{words}: {told:?}");
    }
    for error in refused(None, login, SHORT) {
        assert!(matches!(&error, Error::NotDone(_)), "{error}");
    }
    // A password is the cluster's: who has a wrong one is told at once.
    for (login, code) in
        [(Some(("app", "guessed")), "WRONGPASS"), (Some(("nobody", "secret")), "WRONGPASS"), (None, "NOAUTH")]
    {
        for error in refused(Some(&good), login, PATIENCE) {
            assert!(matches!(&error, Error::Server(error) if error.code == code), "{code}: {error}");
        }
    }
    // Who is let in does what the rules allow, under a session, too.
    let guest =
        Client::connect(options(&cluster, &[0, 1, 2], Some(&good), Some(("guest", "secret")))).unwrap();
    assert_eq!(guest.once::<i64>(cmd("INCR").arg("guest:n")).unwrap(), 1);
    for forbidden in [guest.once::<i64>(cmd("INCR").arg("n")), guest.run(cmd("INCR").arg("n"))] {
        let error = forbidden.unwrap_err();
        assert!(matches!(&error, Error::Server(error) if error.code == "NOPERM"), "{error}");
    }
    assert_eq!(guest.once::<i64>(cmd("INCR").arg("guest:n")).unwrap(), 2);
    // Files that are none.
    let missing = certificates.path("nowhere.crt");
    let key = certificates.path("ours/app.key");
    for (authority, own, name) in [
        (missing.clone(), None, "nowhere.crt"),
        (certificates.path("users.acl"), None, "users.acl"),
        (certificates.path("ours/ca.crt"), Some((missing.as_path(), key.as_path())), "nowhere.crt"),
    ] {
        let error = Tls::from_files(authority, own).err().unwrap();
        assert!(matches!(&error, Error::Invalid(why) if why.contains(name)), "{error}");
    }
}
