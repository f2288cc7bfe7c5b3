//! `highwater log`: looks into a node's journal on disk.

use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use highwater_disk::journal::{Record, Summary, read, segment_name};
use highwater_disk::{Disk, DiskFile, JournalError};
use highwater_node::storage::DataDirectory;
use serde_json::{Value, json};

use crate::failure::{EXIT_CODES, Failure, Result};
use crate::numbers;
use crate::output::{print, unwritten};
use crate::start;

/// A running node goes on while its journal is read, and what was half written then may look damaged: so often it is read.
const READS_OF_A_RUNNING_NODE: u32 = 3;
/// A folder with this file is a chain of an archive.
const CHAIN: &str = "chain.json";
/// So much of a record's content is shown, unless all of it is asked for.
const SHOWN_BYTES: usize = 16;

/// `highwater log`.
#[derive(Debug, Subcommand)]
pub enum LogAction {
    /// Show every record: where it is, whose it is, how its content begins. Records before damage are shown.
    #[command(after_help = EXIT_CODES)]
    Dump(DumpArgs),
    /// Read every byte and say whether all that was synced is there; exit code 1 if it is not.
    #[command(after_help = EXIT_CODES)]
    Verify(VerifyArgs),
}

/// `highwater log dump`.
#[derive(Clone, Debug, Args)]
pub struct DumpArgs {
    /// The node's directory. The node may be running: then what is shown may be behind.
    #[arg(value_name = "DIR")]
    pub dir: PathBuf,
    /// Only this writer's records: the worker of that number.
    #[arg(long, value_name = "N")]
    pub writer: Option<u16>,
    /// Show all of each record's content.
    #[arg(long)]
    pub content: bool,
    /// Print a line of JSON for each record, and one for the whole.
    #[arg(long)]
    pub json: bool,
}

/// `highwater log verify`.
#[derive(Clone, Debug, Args)]
pub struct VerifyArgs {
    /// The node's directory. The node may be running: then what is read may be behind.
    #[arg(value_name = "DIR")]
    pub dir: PathBuf,
    /// Print one line of JSON.
    #[arg(long)]
    pub json: bool,
}

/// Runs the command.
pub fn run(action: &LogAction) -> Result<()> {
    match action {
        LogAction::Dump(args) => dump(args),
        LogAction::Verify(args) => verify(args),
    }
}

fn dump(args: &DumpArgs) -> Result<()> {
    let (directory, running) = open(&args.dir)?;
    let mut out = BufWriter::new(io::stdout().lock());
    let mut written = match args.json {
        true => Ok(()),
        false => writeln!(
            out,
            "{:>16} {:>12} {:>10} {:>6} {:>16} {:>10}  content",
            "segment", "offset", "group", "writer", "position", "bytes"
        ),
    };
    let result = read(&directory, &mut |record| {
        if written.is_ok() && args.writer.is_none_or(|writer| writer == record.writer) {
            written = writeln!(out, "{}", line_of(&record, args));
        }
    });
    written.map_err(unwritten)?;
    let end = match &result {
        Ok(summary) if args.json => report(summary, running).to_string() + "\n",
        Ok(summary) => format!("\n{}", page(summary, running)),
        Err(_) => String::new(),
    };
    out.write_all(end.as_bytes()).and_then(|()| out.flush()).map_err(unwritten)?;
    found_some(&args.dir, &result.map_err(|error| failure(&args.dir, &error, running))?)
}

fn verify(args: &VerifyArgs) -> Result<()> {
    let (directory, running) = open(&args.dir)?;
    let look = || read(&directory, &mut |_| {}).and_then(|summary| is_not_cut(&directory, summary));
    let mut result = look();
    for _ in 1..READS_OF_A_RUNNING_NODE {
        if running && result.is_err() {
            result = look();
        }
    }
    let start = start::words(&args.dir);
    let text = match (&result, args.json) {
        (Ok(summary), true) => with_start(report(summary, running), start),
        (Ok(summary), false) => {
            let start = start.map_or(String::new(), |words| format!("start      {words}\n"));
            page(summary, running).replace(VERDICT, &(start + VERDICT))
        }
        (Err(error), true) => with_start(damage(error, running), start),
        (Err(_), false) => String::new(),
    };
    print(&text)?;
    found_some(&args.dir, &result.map_err(|error| failure(&args.dir, &error, running))?)
}

/// A journal that is whole.
const VERDICT: &str = "verdict    whole\n";

fn with_start(mut report: Value, start: Option<String>) -> String {
    report["start"] = start.into();
    report.to_string() + "\n"
}

/// A node's last file has room behind its last group: if it has none, somebody cut it. A chain of an archive ends with its last group, and
/// `backup verify` knows what it should hold.
fn is_not_cut(directory: &DataDirectory, summary: Summary) -> std::result::Result<Summary, JournalError> {
    let names = directory.names().map_err(|error| JournalError::Unreadable {
        file: "the directory".into(),
        error: error.to_string(),
    })?;
    if names.iter().any(|name| name == CHAIN) {
        return Ok(summary);
    }
    // A file without a head is one that was being made, unless the one before was closed for it.
    let next = segment_name(summary.segments.last().map_or(1, |last| last.number + 1));
    let headless = names.contains(&next);
    let cut = |file: String, offset, what: String| Err(JournalError::Damaged { file, offset, what });
    match (summary.truncated, summary.segments.last()) {
        (Some(_), Some(last)) if headless => {
            let what =
                format!("its head is gone, and {} was closed for it: it was cut (truncated)", last.file);
            cut(next, 0, what)
        }
        (Some(offset), Some(last)) => {
            let what = "the file ends here: it was cut (truncated). Its last whole group ends";
            cut(
                last.file.clone(),
                offset,
                format!("{what} at {}, and what stood behind that is gone", last.end),
            )
        }
        (_, None)
            if headless && directory.open(&next).and_then(|file| file.is_empty()).unwrap_or_default() =>
        {
            let what = "the file is empty: it was cut (truncated), or its node ended while it was made";
            cut(next, 0, what.into())
        }
        _ => Ok(summary),
    }
}

/// The directory, and whether a node has it at the moment.
fn open(dir: &Path) -> Result<(DataDirectory, bool)> {
    let directory = DataDirectory::read_only(dir).map_err(Failure::unreadable)?;
    let running = directory
        .is_locked()
        .map_err(|error| Failure::unreadable(format!("cannot read {}: {error}", dir.display())))?;
    Ok((directory, running))
}

fn found_some(dir: &Path, summary: &Summary) -> Result<()> {
    if summary.segments.is_empty() {
        return Err(Failure::unreadable(format!("{}: there is no journal in it", dir.display())));
    }
    Ok(())
}

fn failure(dir: &Path, error: &JournalError, running: bool) -> Failure {
    let said = format!("{}: {error}", dir.display());
    let failure = match error {
        JournalError::Damaged { .. } => Failure::negative(said),
        _ => Failure::unreadable(said),
    };
    if running {
        failure.hint("a node is writing to it; it may be well once that has stopped")
    } else {
        failure
    }
}

fn line_of(record: &Record<'_>, args: &DumpArgs) -> String {
    let Record { writer, position, bytes, group, segment, offset } = *record;
    let shown = if args.content { bytes } else { &bytes[..bytes.len().min(SHOWN_BYTES)] };
    let mut content: String = shown.iter().map(|byte| format!("{byte:02x}")).collect();
    if args.json {
        let mut line = json!({
            "segment": segment, "offset": offset, "group": group, "writer": writer, "position": position,
            "bytes": bytes.len(),
        });
        if args.content {
            line["content"] = content.into();
        }
        return line.to_string();
    }
    if shown.len() < bytes.len() {
        content.push_str("..");
    }
    format!(
        "{segment:>16} {offset:>12} {group:>10} {writer:>6} {position:>16} {:>10}  {content}",
        bytes.len()
    )
}

fn page(summary: &Summary, running: bool) -> String {
    let Summary { segments, groups, records, positions, unproved, cut, .. } = summary;
    let (Some(first), Some(last)) = (segments.first(), segments.last()) else { return String::new() };
    let written: u64 = positions.iter().zip(&first.positions).map(|(now, before)| now - before).sum();
    let mut text = format!(
        "segments   {} ({} to {})\nrecords    {records} in {groups} groups, {} of content\nends at    {} offset {}\n",
        segments.len(),
        first.file,
        last.file,
        numbers::bytes(written),
        last.file,
        last.end,
    );
    for (writer, position) in positions.iter().enumerate() {
        text.push_str(&format!("writer {writer:<3} at position {position}\n"));
    }
    if let Some(cut) = cut {
        text.push_str(&format!(
            "torn end   {} bytes at offset {} of {}: never synced, the next start leaves them out\n",
            cut.bytes, cut.offset, cut.file
        ));
    }
    if *unproved {
        text.push_str("unproved   nothing says that the last group had been synced; it is whole\n");
    }
    if running {
        text.push_str(
            "running    a node is writing to it: this may be behind, and a group under way looks torn\n",
        );
    }
    text.push_str(VERDICT);
    text
}

fn report(summary: &Summary, running: bool) -> Value {
    let Summary { segments, groups, records, positions, unproved, cut, .. } = summary;
    let segments: Vec<Value> = segments
        .iter()
        .map(|segment| {
            json!({
                "file": segment.file, "number": segment.number, "first_group": segment.first_group,
                "end": segment.end, "positions": segment.positions,
            })
        })
        .collect();
    let cut = cut.as_ref().map(|cut| json!({"file": cut.file, "offset": cut.offset, "bytes": cut.bytes}));
    json!({
        "whole": true, "running": running, "segments": segments, "groups": groups, "records": records,
        "positions": positions, "unproved": unproved, "torn": cut,
    })
}

fn damage(error: &JournalError, running: bool) -> Value {
    let mut value = json!({"whole": false, "running": running, "error": error.to_string()});
    if let JournalError::Damaged { file, offset, what } = error {
        value["damage"] = json!({"file": file, "offset": offset, "what": what});
    }
    value
}
