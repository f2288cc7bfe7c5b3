//! `highwater check`: a recorded history in, a verdict of one page out.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Instant;

use clap::{Args, ValueEnum};
use highwater_checker::history::{write_edn, write_json_events};
use highwater_checker::{Counts, History, Level, Options, Sessions, Verdict, check_with};
use serde_json::{Map, Value, json};

use crate::failure::{Failure, Result};
use crate::output::print;
use crate::progress::Progress;

/// `highwater check`.
#[derive(Clone, Debug, Args)]
pub struct CheckArgs {
    /// Files of JSON lines, one transaction a line; together they are one history.
    #[arg(required = true, value_name = "FILE")]
    pub files: Vec<PathBuf>,
    /// The isolation level. Snapshot reads are held against `serializable` at most, except at `session`.
    #[arg(long, value_enum, default_value_t = CheckLevel::Strict)]
    pub level: CheckLevel,
    /// What clients may ask of their snapshot reads besides; repeatable.
    #[arg(long, value_enum, value_delimiter = ',', value_name = "GUARANTEE")]
    pub session: Vec<CheckSession>,
    /// Also write the history as the EDN events that Elle reads.
    #[arg(long, value_name = "OUT")]
    pub edn: Option<PathBuf>,
    /// Also write the history as events in JSON.
    #[arg(long, value_name = "OUT")]
    pub events: Option<PathBuf>,
    /// Print the verdict as one line of JSON.
    #[arg(long)]
    pub json: bool,
    /// Explain at most so many anomalies of one kind.
    #[arg(long, default_value_t = 2, value_name = "N")]
    pub explain: usize,
}

/// What to hold a history against.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum CheckLevel {
    /// Some serial order that agrees with real time; snapshot reads need only be serializable.
    Strict,
    /// Some serial order that agrees with each client's own, snapshot reads included.
    Session,
    /// Some serial order.
    Serializable,
}

/// What clients may ask of snapshot reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum CheckSession {
    /// A client's reads never go back in time, be they served by a follower or not.
    MonotonicReads,
    /// A snapshot read shows what its client wrote before.
    ReadYourWrites,
}

/// Runs the command. An anomaly is a negative verdict; a file that cannot be read is a failure of its own.
pub fn run(args: &CheckArgs) -> Result<()> {
    let began = Instant::now();
    let mut progress = Progress::new();
    progress.step("reading");
    let history = History::read(&args.files).map_err(|error| match error.line {
        0 => Failure::unreadable(error),
        _ => Failure::unreadable(error).hint("a transaction a line, as docs/history-format.md says"),
    })?;
    export(args.edn.as_deref(), &history, &mut progress, write_edn)?;
    export(args.events.as_deref(), &history, &mut progress, |history, file| {
        write_json_events(history, file)
    })?;
    let verdict = check_with(&history, &options(args), &mut |step| progress.step(step));
    progress.clear();
    drop(progress);
    if verdict.counts.ok == 0 {
        return Err(Failure::unreadable("no transaction committed: there is nothing to judge"));
    }
    let seconds = began.elapsed().as_secs_f64();
    let text =
        if args.json { format!("{}\n", report(&verdict, seconds)) } else { page(&verdict, args, seconds) };
    print(&text)?;
    match verdict.found.values().sum::<usize>() {
        0 => Ok(()),
        1 => Err(Failure::negative("1 anomaly")),
        many => Err(Failure::negative(format!("{many} anomalies"))),
    }
}

fn options(args: &CheckArgs) -> Options {
    let level = match args.level {
        CheckLevel::Strict => Level::Strict,
        CheckLevel::Session => Level::Session,
        CheckLevel::Serializable => Level::Serializable,
    };
    let asked = |guarantee| args.session.contains(&guarantee);
    let sessions = Sessions {
        monotonic_reads: asked(CheckSession::MonotonicReads),
        read_your_writes: asked(CheckSession::ReadYourWrites),
    };
    Options { level, sessions, explain: args.explain }
}

fn export(
    path: Option<&Path>,
    history: &History,
    progress: &mut Progress,
    write: impl Fn(&History, File) -> io::Result<()>,
) -> Result<()> {
    let Some(path) = path else { return Ok(()) };
    progress.step("writing events");
    let cannot = |error: io::Error| Failure::cannot_start(format!("{}: {error}", path.display()));
    write(history, File::create(path).map_err(cannot)?).map_err(cannot)
}

fn page(verdict: &Verdict, args: &CheckArgs, seconds: f64) -> String {
    let Counts { txns, ok, fail, info, info_seen, snap, ops, keys, ww, wr, rw, .. } = verdict.counts;
    let mut text = format!(
        "history       {txns} transactions: {ok} committed ({snap} of them snapshot reads), {fail} aborted, {info} unknown \
         ({info_seen} of them seen)\n\
         operations    {ops} on {keys} keys\n\
         dependencies  {ww} overwrites, {wr} reads of a version, {rw} versions overwritten after a read\n\
         level         {}\n",
        level(args)
    );
    if verdict.passed() {
        text.push_str(&format!("verdict       passed: no anomaly  ({seconds:.1} s)\n"));
        return text;
    }
    text.push_str(&format!("verdict       FAILED  ({seconds:.1} s)\n\n"));
    for (kind, count) in &verdict.found {
        text.push_str(&format!("  {kind:<20} {count:>6}  {}\n", kind.meaning()));
    }
    for anomaly in &verdict.anomalies {
        text.push_str(&format!("\n{}\n", anomaly.kind));
        anomaly.text.lines().for_each(|line| text.push_str(&format!("  {line}\n")));
    }
    text.push_str("\nT0 is the first transaction of the first file. --explain N tells more of a kind.\n");
    text
}

fn level(args: &CheckArgs) -> String {
    let mut text = match args.level {
        CheckLevel::Strict => "strict serializability; snapshot reads: serializability",
        CheckLevel::Session => "serializability in each client's order",
        CheckLevel::Serializable => "serializability",
    }
    .to_string();
    for guarantee in &args.session {
        text.push_str(match guarantee {
            CheckSession::MonotonicReads => ", monotonic reads",
            CheckSession::ReadYourWrites => ", read your writes",
        });
    }
    text
}

fn report(verdict: &Verdict, seconds: f64) -> Value {
    let Counts { txns, ok, fail, info, info_seen, snap, ops, keys, ww, wr, rw, process, realtime, knots } =
        verdict.counts;
    let found: Map<String, Value> =
        verdict.found.iter().map(|(kind, count)| (kind.to_string(), json!(count))).collect();
    let anomalies: Vec<Value> = verdict
        .anomalies
        .iter()
        .map(|anomaly| {
            json!({"kind": anomaly.kind.to_string(), "text": anomaly.text, "transactions": anomaly.txns})
        })
        .collect();
    json!({
        "passed": verdict.passed(),
        "level": verdict.level.name(),
        "seconds": seconds,
        "counts": {
            "transactions": txns, "ok": ok, "fail": fail, "info": info, "info_seen": info_seen, "snapshot_reads": snap,
            "operations": ops, "keys": keys, "ww": ww, "wr": wr, "rw": rw, "process": process, "realtime": realtime,
            "knots": knots,
        },
        "found": found,
        "anomalies": anomalies,
    })
}
