//! The demo without a terminal: one line per event, one line a second.

use std::thread;
use std::time::{Duration, Instant};

use highwater_node::admin::protocol::StatusReport;

use super::scene::{Phase, Scene, SharedScene};
use crate::answers;
use crate::numbers::{micros, short, sparkline};

/// Samples in the sparkline of a line.
const SPARKS: usize = 20;

/// Prints what happens until the play is over.
pub fn show(scene: &SharedScene) {
    let mut shown = 0;
    let mut line_at = Instant::now();
    loop {
        let over = scene.lock().over;
        shown = print_events(scene, shown);
        if over {
            return;
        }
        if line_at.elapsed() >= Duration::from_secs(1) {
            line_at = Instant::now();
            println!("{}", line(&scene.lock()));
        }
        thread::sleep(Duration::from_millis(50));
    }
}

/// Prints the events from number `from` on, and says how many there are.
pub fn print_events(scene: &SharedScene, from: usize) -> usize {
    let scene = scene.lock();
    for (at, text) in &scene.events[from..] {
        println!("{:6.2} s  * {text}", at.as_secs_f64());
    }
    scene.events.len()
}

fn line(scene: &Scene) -> String {
    let at = scene.started.elapsed().as_secs_f64();
    let head = format!("{at:6.2} s    {:<9}", scene.phase.word());
    if let Some(progress) = &scene.progress {
        return format!("{head} {progress}");
    }
    let leader = match scene.leader() {
        Some(one) if answers::leaderless(one) => {
            let (serving, epoch) = answers::taking(&scene.replicas);
            format!("epoch {epoch}, {serving} of {} take requests", scene.replicas.len())
        }
        Some(leader) => {
            let mark = answers::mark(leader).map_or(String::new(), |mark| format!(", mark {mark}"));
            format!("replica {} leads epoch {}{mark}", leader.node, leader.epoch)
        }
        None => "nobody leads".to_string(),
    };
    if scene.phase < Phase::Running {
        return format!("{head} {leader}");
    }
    let follows = scene.leader().is_none_or(|leader| !answers::leaderless(leader));
    let lags: Vec<String> = scene.replicas.iter().map(|replica| lag(scene, replica.as_ref())).collect();
    let samples = scene.released.iter().skip(scene.released.len().saturating_sub(SPARKS));
    let sparks = sparkline(&samples.copied().collect::<Vec<_>>());
    let (p50, p99) = (micros(scene.latency.p50), micros(scene.latency.p99));
    let tps = short(scene.tps() as f64);
    let lags = if follows { format!(", lag {}", lags.join("/")) } else { String::new() };
    format!("{head} {tps:>6}/s p50 {p50} p99 {p99}  {leader}{lags}  {sparks}")
}

fn lag(scene: &Scene, replica: Option<&StatusReport>) -> String {
    match replica {
        None => "dead".into(),
        Some(status) if status.leads() => "-".into(),
        Some(status) => scene.lag(status).map_or("?".into(), |lag| lag.to_string()),
    }
}
