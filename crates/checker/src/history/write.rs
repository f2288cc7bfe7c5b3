//! Histories into JSON lines, one transaction at a time.

use std::io::{self, Write};

use super::{History, Keys, Op, Place, Status, Txn};

/// Writes transactions as JSON lines, as they end. Give it something buffered, and flush that at the end.
#[derive(Debug)]
pub struct Writer<W: Write> {
    out: W,
    line: Vec<u8>,
}

impl<W: Write> Writer<W> {
    /// Writes to `out`.
    pub fn new(out: W) -> Writer<W> {
        Writer { out, line: Vec::new() }
    }

    /// Writes one line, in one call of the underlying writer.
    ///
    /// # Errors
    /// Those of the underlying writer; the line may be there in part.
    pub fn write(&mut self, keys: &Keys, txn: &Txn) -> io::Result<()> {
        self.line.clear();
        encode(&mut self.line, keys, txn)?;
        self.out.write_all(&self.line)
    }

    /// Flushes and gives the writer back.
    ///
    /// # Errors
    /// Those of the underlying writer.
    pub fn finish(mut self) -> io::Result<W> {
        self.out.flush()?;
        Ok(self.out)
    }
}

impl History {
    /// Writes every transaction as a JSON line.
    ///
    /// # Errors
    /// Those of `out`.
    pub fn write(&self, out: impl Write) -> io::Result<()> {
        let mut writer = Writer::new(out);
        for txn in &self.txns {
            writer.write(&self.keys, txn)?;
        }
        writer.finish().map(drop)
    }
}

fn encode(line: &mut Vec<u8>, keys: &Keys, txn: &Txn) -> io::Result<()> {
    write!(line, r#"{{"p":{},"t0":{}"#, txn.process, txn.t0)?;
    if let Some(t1) = txn.t1.filter(|_| txn.status != Status::Info) {
        write!(line, r#","t1":{t1}"#)?;
    }
    line.extend_from_slice(match txn.status {
        Status::Ok => br#","st":"ok""#.as_slice(),
        Status::Fail => br#","st":"fail""#,
        Status::Info => br#","st":"info""#,
    });
    if txn.snap {
        line.extend_from_slice(br#","snap":true"#);
    }
    if let Some(since) = txn.since {
        write!(line, r#","since":{since}"#)?;
    }
    if let Some(Place { connection, number }) = txn.place {
        write!(line, r#","c":[{connection},{number}]"#)?;
    }
    line.extend_from_slice(br#","ops":["#);
    for (at, op) in txn.ops.iter().enumerate() {
        let (tag, comma) = (tag(op), if at == 0 { "" } else { "," });
        write!(line, r#"{comma}["{tag}","#)?;
        serde_json::to_writer(&mut *line, keys.name(op.key()))?;
        line.push(b',');
        value(line, op, txn.status == Status::Ok)?;
        line.push(b']');
    }
    line.extend_from_slice(b"]}\n");
    Ok(())
}

fn tag(op: &Op) -> char {
    match op {
        Op::Append { .. } => 'a',
        Op::Write { .. } => 'w',
        Op::ReadList { .. } | Op::ReadReg { .. } => 'r',
    }
}

/// Reads of transactions that did not commit are null, whatever the client may have seen.
fn value(line: &mut Vec<u8>, op: &Op, told: bool) -> io::Result<()> {
    match op {
        Op::Append { value, .. } | Op::Write { value, .. } => write!(line, "{value}"),
        Op::ReadReg { value: Some(Some(value)), .. } if told => write!(line, "{value}"),
        Op::ReadList { value: Some(list), .. } if told => {
            line.push(b'[');
            for (at, value) in list.iter().enumerate() {
                write!(line, "{}{value}", if at == 0 { "" } else { "," })?;
            }
            line.push(b']');
            Ok(())
        }
        Op::ReadReg { .. } | Op::ReadList { .. } => line.write_all(b"null"),
    }
}
