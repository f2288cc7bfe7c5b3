//! The alert rules of docs/operations/highwater.rules.yml against what real nodes export: every metric and label that a rule names
//! exists, and the rules that wake people fire when nobody serves, and only then.
//!
//! If `promtool` is installed, Prometheus's own evaluation of all rules is compared, too.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

#[path = "alerts/promql.rs"]
mod promql;

mod http_client;
mod processes;

use std::collections::BTreeSet;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use http_client::get;
use processes::{Cluster, PATIENCE};
use promql::{Sample, Samples};

struct Rule {
    alert: String,
    expr: String,
    pages: bool,
}

fn operations(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/operations").join(name)
}

/// The rules, of which each field stands on a line.
fn rules() -> Vec<Rule> {
    let text = std::fs::read_to_string(operations("highwater.rules.yml")).unwrap();
    let rules = text.split("- alert: ").skip(1).map(|rule| {
        let field = |name: &str| rule.lines().find_map(|line| line.trim().strip_prefix(name)).unwrap();
        Rule {
            alert: rule.lines().next().unwrap().to_string(),
            expr: field("expr: ").to_string(),
            pages: field("labels: ") == "{ severity: page }",
        }
    });
    let rules: Vec<Rule> = rules.collect();
    assert!(rules.len() > 5, "{text}");
    rules
}

/// The exports of a node, read as Prometheus reads them, with the labels of its scrape; nothing of one that is down.
fn scrape(cluster: &Cluster, node: usize) -> Samples {
    let page = get(cluster.admin_port(node), "/metrics", &[]).filter(|answer| answer.status == 200);
    let scraped = [("job", "highwater"), ("instance", &format!("node-{node}"))];
    let mut samples = Samples::parse(page.as_ref().map_or("", |page| &page.content), &scraped);
    samples.push(Sample::new("up", &scraped, f64::from(u8::from(page.is_some()))));
    samples
}

fn scrape_all(cluster: &Cluster) -> Samples {
    (0..3).map(|node| scrape(cluster, node)).fold(Samples::default(), Samples::and)
}

/// Scrapes until it is so.
fn await_all(cluster: &Cluster, what: &str, is: impl Fn(&Samples) -> bool) -> Samples {
    let started = Instant::now();
    loop {
        let samples = scrape_all(cluster);
        if is(&samples) {
            return samples;
        }
        assert!(started.elapsed() < PATIENCE, "{what}: {}", cluster.log(0));
        std::thread::yield_now();
    }
}

/// The rules that fire at once, of those that are no more than comparisons; all that wake people are.
fn firing(samples: &Samples) -> BTreeSet<String> {
    let fires = |rule: &Rule| match promql::eval(&rule.expr, samples) {
        Ok(found) => !found.is_empty(),
        Err(why) => {
            assert!(!rule.pages, "{}: {why}", rule.alert);
            false
        }
    };
    rules().iter().filter(|rule| fires(rule)).map(|rule| rule.alert.clone()).collect()
}

fn set(names: &[&str]) -> BTreeSet<String> {
    names.iter().map(ToString::to_string).collect()
}

const HEALTHY: &[&str] = &[];
const STALLED: &[&str] = &["HighwaterNobodyServes", "HighwaterNodeCannotServe", "HighwaterNodeDown"];
const DOWN: &[&str] = &["HighwaterNobodyServes", "HighwaterNodeDown"];

/// Once: the documented alert "nobody serves" could not fire: with all nodes down it summed nothing, and a leader without
/// a majority went on to export `highwater_service{service="serving"} 1` while it refused everybody.
#[test]
fn alerts_fire_when_nobody_serves_and_not_before() {
    let mut cluster = Cluster::start("alerts", "workers = 1", None);
    let serving = [("service", "serving")];
    let troubles = |samples: &Samples| samples.sum("highwater_trouble", &[]);
    let healthy = await_all(&cluster, "three nodes are well", |samples| {
        samples.sum("highwater_service", &serving) == 1.0
            && troubles(samples) == 0.0
            && samples.sum("up", &[]) == 3.0
    });
    assert_eq!(firing(&healthy), set(HEALTHY));
    every_rule_is_about_what_nodes_export(&healthy);

    let (leader, mut client) = cluster.leader();
    (0..3).filter(|node| *node != leader).for_each(|node| cluster.kill(node));
    let stalled = await_all(&cluster, "the leader notices", |samples| {
        samples.sum("highwater_service", &[("service", "stalled")]) == 1.0
    });
    assert_eq!(stalled.sum("highwater_service", &serving), 0.0, "the leader has no majority");
    assert_eq!(firing(&stalled), set(STALLED));
    // The node says the same wherever it is asked.
    let admin = cluster.admin_port(leader);
    assert_eq!(get(admin, "/healthz", &[]).unwrap().status, 200);
    let ready = get(admin, "/readyz", &[]).unwrap();
    assert!(ready.status == 503 && ready.content.contains("no quorum"), "{ready:?}");
    let status: serde_json::Value =
        serde_json::from_str(&get(admin, "/status", &[]).unwrap().content).unwrap();
    assert_eq!((&status["role"], &status["service"]), (&"leader".into(), &"stalled".into()), "{status}");
    let events = get(admin, "/v1/events", &[]).unwrap().content;
    assert!(events.contains("stalled: refuses requests"), "{events}");
    let info = String::from_utf8(client.call(&[b"INFO", b"replication"]).unwrap().1).unwrap();
    assert!(info.contains("role:master\r\nhighwater_role:leader\r\nhighwater_service:stalled\r\n"), "{info}");
    let state = String::from_utf8(client.call(&[b"CLUSTER", b"INFO"]).unwrap().1).unwrap();
    assert!(state.contains("cluster_state:fail"), "{state}");
    assert!(client.call(&[b"GET", b"key"]).unwrap().0.starts_with("-CLUSTERDOWN"));
    let address = format!("127.0.0.1:{admin}");
    let highwater = |arguments: &[&str]| {
        let output = Command::new(env!("CARGO_BIN_EXE_highwater")).args(arguments).output().unwrap();
        (output.status.code(), String::from_utf8(output.stdout).unwrap())
    };
    let (code, text) = highwater(&["status", "--admin", &address]);
    assert!(code == Some(4) && text.contains("leader, stalled: clients are refused"), "{code:?} {text}");
    let (_, text) = highwater(&["top", "--once", "--admin", &address]);
    assert!(text.contains("stalled") && text.contains("no quorum"), "{text}");

    cluster.kill_all();
    let down = scrape_all(&cluster);
    assert_eq!(firing(&down), set(DOWN));
    prometheus_agrees(&[(&healthy, HEALTHY), (&stalled, STALLED), (&down, DOWN)]);
}

/// Names of metrics exist, and label values where a rule compares with them.
fn every_rule_is_about_what_nodes_export(samples: &Samples) {
    for rule in rules() {
        let selectors = promql::selectors(&rule.expr);
        assert!(!selectors.is_empty(), "{}", rule.alert);
        for selector in selectors {
            // An outcome that never came is not exported: any of that metric has to be, and the label.
            let metric = selector.metric.as_str();
            let exported = match metric {
                "highwater_client_requests_total" => samples.has_label(metric, "outcome"),
                _ => !selector.select(samples).is_empty(),
            };
            assert!(exported, "{}: no node exports {selector:?}", rule.alert);
        }
    }
}

/// The page on metrics tells of every rule, with its severity.
#[test]
fn the_page_tells_of_every_alert() {
    let page = std::fs::read_to_string(operations("metrics.md")).unwrap();
    let rows = page.lines().filter_map(|line| line.strip_prefix("| `Highwater"));
    let rows: Vec<String> = rows.map(|row| row.split(" | ").take(2).collect::<Vec<_>>().join(" ")).collect();
    let severity = |rule: &Rule| if rule.pages { "page" } else { "ticket" };
    let rules: Vec<String> = rules()
        .iter()
        .map(|rule| format!("{}` {}", rule.alert.strip_prefix("Highwater").unwrap(), severity(rule)))
        .collect();
    assert_eq!(rows, rules);
}

/// Each scene lasts ten minutes; then Prometheus says what fires.
fn prometheus_agrees(scenes: &[(&Samples, &[&str])]) {
    if Command::new("promtool").arg("--version").output().is_err() {
        eprintln!("promtool is not installed: only this test's own evaluation was compared");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let rules = operations("highwater.rules.yml").canonicalize().unwrap();
    let mut text =
        format!("rule_files: [{:?}]\nevaluation_interval: 10s\ntests:\n", rules.display().to_string());
    for (samples, alerts) in scenes {
        text += "  - interval: 10s\n    input_series:\n";
        for sample in samples.iter() {
            let _ = writeln!(text, "      - {{ series: '{sample}', values: '{}x60' }}", sample.value);
        }
        text += "    promql_expr_test:\n";
        for alert in self::rules().iter().map(|rule| &rule.alert) {
            let samples = if alerts.contains(&&**alert) { "[{ labels: '{}', value: 1 }]" } else { "[]" };
            let _ = writeln!(
                text,
                "      - {{ expr: 'group(ALERTS{{alertname=\"{alert}\",alertstate=\"firing\"}})', eval_time: 9m, exp_samples: {samples} }}"
            );
        }
    }
    let file = folder.path().join("alerts.test.yml");
    std::fs::write(&file, text).unwrap();
    for arguments in [["check", "rules"], ["test", "rules"]] {
        let path = if arguments[0] == "check" { &rules } else { &file };
        let output = Command::new("promtool").args(arguments).arg(path).output().unwrap();
        let said =
            String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{said}");
    }
}
