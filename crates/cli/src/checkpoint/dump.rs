//! `highwater checkpoint dump`.

use std::io::{self, BufWriter, Write};

use highwater_core::{KeyKind, TableId};
use highwater_disk::checkpoint::{Error, FORMAT_VERSION, Manifest, PartReader};
use highwater_node::storage::DataDirectory;
use highwater_store::{ExportedRecord, ExportedRecords};
use serde_json::{Value, json};

use super::args::{DumpArgs, verdict};
use crate::failure::Result;
use crate::numbers;
use crate::output::unwritten;

/// Runs the command. What can be read is shown, also of a checkpoint that is damaged further on.
pub(super) fn run(args: &DumpArgs) -> Result<()> {
    let (folder, numbers) = args.chosen.find()?;
    let mut out = BufWriter::new(io::stdout().lock());
    let mut damaged = 0;
    for &number in &numbers {
        match dump(&folder, number, args, &mut out) {
            Ok(()) => {}
            Err(Stop::Damage(error)) => {
                damaged += 1;
                let line = match args.json {
                    true => json!({"number": number, "error": error.to_string()}).to_string(),
                    false => format!("checkpoint {number} cannot be read: {error}\n"),
                };
                writeln!(out, "{line}").map_err(unwritten)?;
            }
            Err(Stop::Output(error)) => return Err(unwritten(error)),
        }
    }
    out.flush().map_err(unwritten)?;
    drop(out);
    verdict(damaged, numbers.len())
}

/// Why a dump does not go on.
enum Stop {
    Damage(Error),
    Output(io::Error),
}

impl From<Error> for Stop {
    fn from(error: Error) -> Stop {
        Stop::Damage(error)
    }
}

impl From<io::Error> for Stop {
    fn from(error: io::Error) -> Stop {
        Stop::Output(error)
    }
}

fn dump(
    folder: &DataDirectory,
    number: u64,
    args: &DumpArgs,
    out: &mut impl Write,
) -> std::result::Result<(), Stop> {
    let manifest = Manifest::read(folder, number)?;
    match args.json {
        true => writeln!(out, "{}", report(&manifest))?,
        false => out.write_all(page(&manifest).as_bytes())?,
    }
    if args.records {
        for part in 0..manifest.parts.len() {
            dump_records(folder, &manifest, part, args.json, out)?;
        }
    }
    if !args.json {
        writeln!(out)?;
    }
    Ok(())
}

fn dump_records(
    folder: &DataDirectory,
    manifest: &Manifest,
    part: usize,
    json: bool,
    out: &mut impl Write,
) -> std::result::Result<(), Stop> {
    let mut reader = PartReader::open(folder, manifest, part)?;
    loop {
        let mut nonsense = None;
        let Some(chunk) = reader.next_chunk()? else { return Ok(()) };
        for record in ExportedRecords::new(chunk) {
            match record {
                Ok(record) => show(manifest, part, &record, json, out)?,
                Err(malformed) => nonsense = Some(malformed),
            }
        }
        if let Some(malformed) = nonsense {
            return Err(reader.nonsense(malformed).into());
        }
    }
}

fn show(
    manifest: &Manifest,
    part: usize,
    record: &ExportedRecord<'_>,
    json: bool,
    out: &mut impl Write,
) -> io::Result<()> {
    let key = Key::of(manifest, record.table, record.key);
    let value = record.value.map(|value| value.escape_ascii().to_string());
    let table = manifest.tables.get(usize::from(record.table.0)).map_or("?", |table| &table.name);
    if json {
        let key = match key {
            Key::Integer(key) => json!(key),
            Key::Bytes(key) => json!(key),
        };
        let line = json!({
            "number": manifest.number, "part": part, "table": table, "key": key, "ts": record.ts.0, "value": value,
        });
        return writeln!(out, "{line}");
    }
    let key = match key {
        Key::Integer(key) => key.to_string(),
        Key::Bytes(key) => format!("\"{key}\""),
    };
    match value {
        Some(value) => writeln!(out, "  {}  {table} {key} = \"{value}\"", record.ts),
        None => writeln!(out, "  {}  {table} {key} deleted", record.ts),
    }
}

/// A key, for people: bytes that are no text escaped as in source code.
enum Key {
    Integer(u64),
    Bytes(String),
}

impl Key {
    fn of(manifest: &Manifest, table: TableId, key: &[u8]) -> Key {
        let kind = manifest.tables.get(usize::from(table.0)).map(|table| table.keys);
        match (kind, key.try_into()) {
            (Some(KeyKind::U64), Ok(bytes)) => Key::Integer(u64::from_be_bytes(bytes)),
            _ => Key::Bytes(key.escape_ascii().to_string()),
        }
    }
}

fn page(manifest: &Manifest) -> String {
    let Manifest { number, floor, complete_at, tables, parts, engine } = manifest;
    let bytes = numbers::bytes(manifest.len_bytes());
    let mut text = format!(
        "checkpoint {number}\n\
         log          from {floor} to {complete_at} makes a state of it\n\
         tables       {}\n",
        tables.len()
    );
    for (id, table) in tables.iter().enumerate() {
        text.push_str(&format!("  {id:>3}        {table}\n"));
    }
    text.push_str(&format!("parts        {}, {bytes}, {} records\n", parts.len(), manifest.records()));
    for (at, part) in parts.iter().enumerate() {
        text.push_str(&format!(
            "  {}  {} bytes, {} records up to {}, checksum {:08x}\n",
            manifest.part_file(at),
            part.len,
            part.records,
            part.newest,
            part.crc
        ));
    }
    text.push_str(&format!("engine       {} bytes: {}\n", engine.len(), engine.escape_ascii()));
    text
}

fn report(manifest: &Manifest) -> Value {
    let keys = |keys| match keys {
        KeyKind::U64 => "integer",
        KeyKind::Bytes => "bytes",
    };
    let tables: Vec<Value> =
        manifest.tables.iter().map(|table| json!({"name": table.name, "keys": keys(table.keys)})).collect();
    let parts: Vec<Value> = manifest
        .parts
        .iter()
        .enumerate()
        .map(|(at, part)| {
            json!({
                "file": manifest.part_file(at), "bytes": part.len, "records": part.records, "newest": part.newest.0,
                "crc": part.crc,
            })
        })
        .collect();
    json!({
        "number": manifest.number, "format": FORMAT_VERSION, "floor": manifest.floor.0,
        "complete_at": manifest.complete_at.0, "tables": tables, "parts": parts, "bytes": manifest.len_bytes(),
        "records": manifest.records(), "engine": manifest.engine.escape_ascii().to_string(),
    })
}
