//! One replica: what it says of itself, in lines, the important ones first.

use std::fmt::Write;

use highwater_node::admin::protocol::{FigureReport, LevelsReport, MemberReport, StatusReport};

use super::place::{Look, ask};
use crate::admin::failure_at;
use crate::answers;
use crate::failure::{Failure, Result};
use crate::numbers::bytes;

/// Streams shown before the rest is summed up.
const PARTS_SHOWN: usize = 16;

/// Asks one replica.
pub fn look(admin: &str, json: bool) -> Result<Look> {
    let status = ask(admin).map_err(|error| failure_at(admin, error))?;
    let text = if json {
        serde_json::to_string(&status).map_err(Failure::negative)? + "\n"
    } else {
        render(&status)
    };
    let cannot_serve =
        |trouble| Failure::unavailable(format!("node {} cannot serve: {trouble}", status.node));
    Ok((text, status.trouble.as_ref().map_or(Ok(()), |trouble| Err(cannot_serve(trouble)))))
}

/// A few lines, the important ones first.
fn render(status: &StatusReport) -> String {
    let mut text = String::new();
    // Writing to a string does not fail.
    let _ = write_head(&mut text, status);
    let _ = write_figures(&mut text, &status.figures);
    let _ = write_members(&mut text, &status.members);
    text
}

fn write_head(text: &mut String, status: &StatusReport) -> std::fmt::Result {
    let stalled = if status.stalls() { ", stalled: clients are refused" } else { "" };
    let StatusReport { node, engine, role, epoch, .. } = status;
    writeln!(text, "node {node}  {engine}  {role}{stalled}  epoch {epoch}")?;
    if let Some(trouble) = &status.trouble {
        writeln!(text, "  trouble      {trouble}")?;
    }
    status.refusals.iter().try_for_each(|refusal| writeln!(text, "  refused      {refusal}"))?;
    writeln!(text, "  {}", whom_to_ask(status))?;
    if let Some((fast, all)) = answers::rounds(status).filter(|(_, all)| *all > 0) {
        let share = 100.0 * fast as f64 / all as f64;
        writeln!(text, "  coordinated  {all}, {share:.0} % of them decided in one round")?;
    }
    for figure in status.figures.iter().filter(|figure| !figure.of_parts) {
        let values: Vec<_> = figure.values.iter().map(|value| amount(&figure.name, *value)).collect();
        writeln!(text, "  {:<12} {}", figure.name, values.join(" "))?;
    }
    if let Some(lag) = answers::lag(status, status) {
        writeln!(text, "  lag          {lag} decided entries not applied here")?;
    }
    if let Some(ms) = status.freshness_ms {
        writeln!(text, "  freshness    {ms} ms: bounded reads see all that was acknowledged before")?;
    }
    if let Some(copying) = status.copying_bytes {
        writeln!(text, "  copying      {} so far", bytes(copying))?;
    }
    let StatusReport { executed, applied, snapshot_reads, .. } = status;
    writeln!(
        text,
        "  transactions executed {executed}, applied {applied}, read on snapshots {snapshot_reads}"
    )?;
    writeln!(
        text,
        "  memory       resident {}, store {}",
        bytes(status.resident_bytes),
        bytes(status.store_bytes)
    )?;
    let memory = &status.memory;
    if memory.budget > 0 {
        writeln!(
            text,
            "  budget       {}: data {} of at most {}, logs {} of {}, work {}, buffers {} of {}",
            bytes(memory.budget),
            bytes(memory.records + memory.index + memory.retired),
            bytes(memory.most),
            bytes(memory.logs),
            bytes(memory.log_budget),
            bytes(memory.work_budget),
            bytes(memory.requests + memory.replies + memory.receiving),
            bytes(memory.buffer_budget)
        )?;
    }
    if let Some(disk) = &status.disk {
        let state = match (disk.full, disk.low) {
            (true, _) if disk.trouble.is_some() => "what was accepted waits",
            (true, _) => "full: what was accepted waits",
            (false, true) => "about to be full",
            (false, false) => "has room",
        };
        let (ballast, wanted) = (bytes(disk.ballast), bytes(disk.ballast_wanted));
        writeln!(text, "  disk         {state}; ballast {ballast} of {wanted}")?;
        if let Some(trouble) = &disk.trouble {
            writeln!(text, "  files        {trouble}")?;
        }
    }
    let cpu = status.cpu_ns as f64 / 1e9;
    writeln!(text, "  process      up {:.0} s, CPU {cpu:.1} s", status.uptime_seconds)?;
    let sockets = if status.sockets.is_empty() { String::new() } else { format!(", by {}", status.sockets) };
    writeln!(text, "  clients      {}{sockets}", status.clients)?;
    if let Some(levels) = status.levels {
        writeln!(text, "  level        {}, speaks {}", or_dash(status.level), self::levels(levels))?;
    }
    writeln!(text, "  incarnation  {}", status.incarnation)
}

/// Who takes clients' requests.
fn whom_to_ask(status: &StatusReport) -> String {
    let node = status.leader.map_or("nobody".into(), |node| format!("node {node}"));
    match answers::leaderless(status) {
        false => format!("leader       {node}"),
        true if status.serves() => "requests     taken here, as by every node that votes".into(),
        true => format!("requests     not taken here; ask {node}"),
    }
}

/// A line for each part (worker, stream, partition), a column for each figure.
fn write_figures(text: &mut String, figures: &[FigureReport]) -> std::fmt::Result {
    let columns: Vec<&FigureReport> = figures.iter().filter(|figure| figure.of_parts).collect();
    let parts = columns.iter().map(|column| column.values.len()).max().unwrap_or(0);
    if parts == 0 {
        return Ok(());
    }
    write!(text, "{:>6}", "part")?;
    columns.iter().try_for_each(|column| write!(text, "  {:>18}", column.name))?;
    writeln!(text)?;
    for part in 0..parts.min(PARTS_SHOWN) {
        write!(text, "{part:>6}")?;
        for column in &columns {
            let value = column.values.get(part).map_or("-".into(), |value| amount(&column.name, *value));
            write!(text, "  {value:>18}")?;
        }
        writeln!(text)?;
    }
    match parts.checked_sub(PARTS_SHOWN).filter(|rest| *rest > 0) {
        Some(rest) => writeln!(text, "  ... and {rest} more (--json shows all)"),
        None => Ok(()),
    }
}

/// Whether a member votes; `down`: it should, and its leader does not hear it, or hears another life of it.
pub fn votes(member: &MemberReport) -> &'static str {
    match (member.voter, member.connected) {
        (true, Some(false)) => "down",
        (true, _) => "yes",
        (false, _) => "no",
    }
}

/// What a build speaks.
pub fn levels(levels: LevelsReport) -> String {
    let LevelsReport { oldest, newest } = levels;
    if oldest == newest { newest.to_string() } else { format!("{oldest}-{newest}") }
}

fn or_dash(number: Option<u8>) -> String {
    number.map_or("-".into(), |number| number.to_string())
}

/// Figures say by their names what is bytes.
fn amount(name: &str, value: u64) -> String {
    if name.ends_with("bytes") { bytes(value) } else { value.to_string() }
}

fn write_members(text: &mut String, members: &[MemberReport]) -> std::fmt::Result {
    if members.is_empty() {
        return Ok(());
    }
    writeln!(text, "member  votes  lag        levels  incarnation")?;
    members.iter().try_for_each(|member| {
        let votes = votes(member);
        let lag = member.lag.map_or("-".into(), |lag| format!("{lag} entries"));
        let levels = member.levels.map_or("-".into(), levels);
        // No life of it votes.
        let life = if member.incarnation == "0" { "-" } else { &member.incarnation };
        writeln!(text, "{:>6}  {votes:<5}  {lag:<9}  {levels:<6}  {life}", member.node)
    })
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use highwater_node::admin::protocol::{DiskReport, ElectionReport, LevelsReport, MemoryReport};
    use highwater_node::admin::work::WorkReport;

    /// A replica with something of everything.
    pub fn report() -> StatusReport {
        StatusReport {
            node: 2,
            incarnation: "ab".into(),
            engine: "rolis".into(),
            service: "joining".into(),
            role: "learner".into(),
            epoch: 7,
            leader: Some(1),
            leader_silent_ms: Some(12),
            figures: [
                ("mark", false, 99),
                ("decided", true, 8),
                ("applied", true, 5),
                ("log_bytes", true, 2048),
            ]
            .map(|(name, of_parts, value)| FigureReport { name: name.into(), of_parts, values: vec![value] })
            .to_vec(),
            members: vec![MemberReport {
                node: 1,
                incarnation: "cd".into(),
                voter: true,
                levels: Some(LevelsReport { oldest: 1, newest: 2 }),
                connected: Some(true),
                lag: Some(3),
                silent_ms: Some(4),
            }],
            copying_bytes: Some(1 << 20),
            copying_from: Some(0),
            forgets: false,
            freshness_ms: Some(23),
            levels: Some(LevelsReport { oldest: 1, newest: 1 }),
            level: Some(1),
            held_back_by: Vec::new(),
            trouble: Some("no quorum".into()),
            cpu_ns: 0,
            resident_bytes: 0,
            store_bytes: 0,
            memory: MemoryReport { budget: 3 << 30, ..MemoryReport::default() },
            disk: Some(DiskReport {
                low: true,
                full: false,
                ballast: 64 << 20,
                ballast_wanted: 128 << 20,
                trouble: None,
            }),
            journal: None,
            work: WorkReport::default(),
            peers: Vec::new(),
            elections: ElectionReport::default(),
            uptime_seconds: 1.0,
            executed: 0,
            applied: 0,
            snapshot_reads: 0,
            log_bytes: 0,
            clients: 0,
            sockets: "uring".into(),
            admins: Vec::new(),
            nodes: Vec::new(),
            removed: Vec::new(),
            refusals: vec!["node 0: it refuses this node: cluster.durability".into()],
        }
    }

    /// A node of an engine without a leader.
    pub fn leaderless(node: u8, service: &str) -> StatusReport {
        let figure = |name: &str, values: &[u64]| FigureReport {
            name: name.into(),
            of_parts: values.len() > 1,
            values: values.to_vec(),
        };
        let member = |node| MemberReport {
            node,
            incarnation: "ab".into(),
            voter: true,
            levels: None,
            connected: Some(true),
            lag: None,
            silent_ms: None,
        };
        StatusReport {
            node,
            engine: "meerkat-strict".into(),
            service: service.into(),
            role: if service == "serving" { "replica" } else { "learner" }.into(),
            leader: Some(if service == "serving" { node } else { 0 }),
            figures: vec![
                figure("fast path", &[30, 45]),
                figure("slow path", &[5, 20]),
                figure("voters", &[3]),
                figure("changes", &[7]),
            ],
            members: (0..3).map(member).collect(),
            copying_bytes: None,
            freshness_ms: None,
            level: None,
            trouble: None,
            disk: None,
            ..report()
        }
    }

    #[test]
    fn without_a_leader_none_is_named() {
        let text = render(&leaderless(1, "serving"));
        for wanted in ["taken here", "coordinated  100, 75 % of them decided in one round", "changes      7"]
        {
            assert!(text.contains(wanted), "{wanted} is missing in\n{text}");
        }
        let learner = render(&leaderless(1, "joining"));
        assert!(learner.contains("not taken here; ask node 0"), "{learner}");
        assert!(!text.contains("lead") && !learner.contains("lead"), "{text}{learner}");
    }

    #[test]
    fn the_important_things_are_shown() {
        let status = report();
        let text = render(&status);
        for wanted in [
            "node 2",
            "learner",
            "epoch 7",
            "no quorum",
            "refused      node 0: it refuses this node: cluster.durability",
            "3 decided",
            "freshness    23 ms",
            "1.0 MiB",
            "3 entries",
            "3.0 GiB",
            "1-2",
            "about to be full",
            "of 128.0 MiB",
        ] {
            assert!(text.contains(wanted), "{wanted} is missing in\n{text}");
        }
    }
}
