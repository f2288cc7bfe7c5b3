//! JSON lines into histories. Keys are interned while a line is parsed; a line leaves nothing behind but its transaction.

use std::borrow::Cow;
use std::fmt;
use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::path::Path;

use serde::Deserialize;
use serde::de::{self, Deserializer, SeqAccess, Visitor};

use super::{History, Key, Op, Place, Status, Txn};

const BUFFER_BYTES: usize = 1 << 18;

/// Why a history cannot be read; says where.
#[derive(Debug)]
pub struct ReadError {
    /// The file, as it was named.
    pub file: String,
    /// The line, from 1; 0 if the file could not be opened.
    pub line: usize,
    /// What is wrong, and what would be right.
    pub reason: String,
}

impl fmt::Display for ReadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            0 => write!(f, "{}: {}", self.file, self.reason),
            line => write!(f, "{}:{line}: {}", self.file, self.reason),
        }
    }
}

impl std::error::Error for ReadError {}

impl History {
    /// Reads files of JSON lines into one history, in the order given.
    ///
    /// # Errors
    /// At the first file that cannot be opened and the first line that is no transaction.
    pub fn read<P: AsRef<Path>>(paths: impl IntoIterator<Item = P>) -> Result<History, ReadError> {
        let mut reader = Reader::default();
        for path in paths {
            let name = path.as_ref().display().to_string();
            let file = File::open(path.as_ref()).map_err(|error| ReadError {
                file: name.clone(),
                line: 0,
                reason: error.to_string(),
            })?;
            reader.file(&name, BufReader::with_capacity(BUFFER_BYTES, file))?;
        }
        reader.finish()
    }

    /// Reads JSON lines from anywhere; `name` stands for the file in errors.
    ///
    /// # Errors
    /// At the first line that is no transaction.
    pub fn parse(name: &str, lines: impl BufRead) -> Result<History, ReadError> {
        let mut reader = Reader::default();
        reader.file(name, lines)?;
        reader.finish()
    }
}

/// What a key was seen to be, and where it was first read as null by a committed transaction: legal for registers only,
/// and a key may show what it is later.
#[derive(Clone, Default)]
struct KeySeen {
    list: bool,
    register: bool,
    null_read: Option<(String, usize)>,
}

#[derive(Default)]
struct Reader {
    history: History,
    seen: Vec<KeySeen>,
}

impl Reader {
    fn file(&mut self, name: &str, mut lines: impl BufRead) -> Result<(), ReadError> {
        let mut text = Vec::new();
        for line in 1.. {
            text.clear();
            let fail = |reason: String| ReadError { file: name.to_string(), line, reason };
            match lines.read_until(b'\n', &mut text) {
                Ok(0) => break,
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(fail(error.to_string())),
            }
            if text.iter().all(u8::is_ascii_whitespace) {
                continue;
            }
            let parsed: Line<'_> = serde_json::from_slice(&text).map_err(|error| fail(explain(&error)))?;
            self.line(parsed, name, line).map_err(fail)?;
        }
        Ok(())
    }

    fn line(&mut self, line: Line<'_>, name: &str, number: usize) -> Result<(), String> {
        let status = match &*line.st {
            "ok" => Status::Ok,
            "fail" => Status::Fail,
            "info" => Status::Info,
            other => return Err(format!("\"st\" is {other:?}; it must be \"ok\", \"fail\" or \"info\"")),
        };
        match line.t1 {
            None if status == Status::Ok => return Err("an \"ok\" transaction needs \"t1\"".into()),
            Some(_) if status == Status::Info => return Err("an \"info\" transaction has no \"t1\"".into()),
            Some(t1) if t1 < line.t0 => return Err(format!("\"t1\" ({t1}) is before \"t0\" ({})", line.t0)),
            _ => {}
        }
        let mut ops = Vec::with_capacity(line.ops.len());
        for raw in line.ops {
            ops.push(self.op(raw, status, name, number)?);
        }
        if line.since.is_some() && !line.snap {
            return Err("\"since\" is for lines with \"snap\": others are of the latest state".into());
        }
        if line.c.is_some() && line.snap {
            return Err(
                "\"c\" is for lines without \"snap\": snapshot reads of a connection may be of any moment"
                    .into(),
            );
        }
        let place = line.c.map(|(connection, number)| Place { connection, number });
        let Line { p: process, t0, t1, snap, since, .. } = line;
        self.history.push(Txn { process, t0, t1, status, ops, snap, since, place });
        Ok(())
    }

    fn op(&mut self, raw: RawOp<'_>, status: Status, name: &str, number: usize) -> Result<Op, String> {
        let key = self.history.keys.intern(&raw.key);
        if key.index() == self.seen.len() {
            self.seen.push(KeySeen::default());
        }
        let seen = &mut self.seen[key.index()];
        let op = match (raw.kind, raw.value) {
            (Kind::Append, Value::Int(value)) => Op::Append { key, value },
            (Kind::Write, Value::Int(value)) => Op::Write { key, value },
            (Kind::Read, Value::List(list)) => {
                let told = (status == Status::Ok).then(|| list.into_boxed_slice().into_vec());
                Op::ReadList { key, value: told }
            }
            (Kind::Read, Value::Int(value)) => {
                Op::ReadReg { key, value: (status == Status::Ok).then_some(Some(value)) }
            }
            (Kind::Read, Value::Null) => {
                if status != Status::Ok {
                    // List or register? `finish` decides, when all that is known of the key is known.
                    return Ok(Op::ReadReg { key, value: None });
                }
                seen.null_read.get_or_insert_with(|| (name.to_string(), number));
                Op::ReadReg { key, value: Some(None) }
            }
            (Kind::Append, _) => return Err(format!("an append to {:?} needs an integer", raw.key)),
            (Kind::Write, _) => return Err(format!("a write to {:?} needs an integer", raw.key)),
        };
        match op.is_list() {
            true => seen.list = true,
            false => seen.register = true,
        }
        if seen.list && seen.register && seen.null_read.is_none() {
            return Err(format!("key {:?} is used as a list and as a register", raw.key));
        }
        Ok(op)
    }

    fn finish(mut self) -> Result<History, ReadError> {
        for (number, seen) in self.seen.iter().enumerate().filter(|(_, seen)| seen.list) {
            if let Some((file, line)) = seen.null_read.clone() {
                let name = self.history.keys.name(Key(number as u32));
                let reason =
                    format!("null read from list {name:?} in an \"ok\" transaction; an absent list is []");
                return Err(ReadError { file, line, reason });
            }
        }
        for op in self.history.txns.iter_mut().flat_map(|txn| &mut txn.ops) {
            if let Op::ReadReg { key, value: None } = *op
                && !self.seen[key.index()].register
            {
                *op = Op::ReadList { key, value: None };
            }
        }
        self.history.txns.shrink_to_fit();
        Ok(self.history)
    }
}

/// What serde_json says, without its own line number: each of our lines is a document of its own.
fn explain(error: &serde_json::Error) -> String {
    let text = error.to_string();
    match text.rfind(" at line ") {
        Some(end) => format!("{} (column {})", &text[..end], error.column()),
        None => text,
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Line<'a> {
    p: u64,
    t0: u64,
    #[serde(default)]
    t1: Option<u64>,
    #[serde(borrow)]
    st: Cow<'a, str>,
    #[serde(borrow)]
    ops: Vec<RawOp<'a>>,
    #[serde(default)]
    snap: bool,
    #[serde(default)]
    since: Option<u64>,
    #[serde(default)]
    c: Option<(u64, u64)>,
}

#[derive(Clone, Copy)]
enum Kind {
    Append,
    Write,
    Read,
}

enum Value {
    Null,
    Int(i64),
    List(Vec<i64>),
}

struct RawOp<'a> {
    kind: Kind,
    key: Cow<'a, str>,
    value: Value,
}

impl<'de: 'a, 'a> Deserialize<'de> for RawOp<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_seq(OpVisitor)
    }
}

/// A string that borrows from the line unless it has escapes.
#[derive(Deserialize)]
struct Text<'a>(#[serde(borrow)] Cow<'a, str>);

struct OpVisitor;

impl<'de> Visitor<'de> for OpVisitor {
    type Value = RawOp<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an operation: [\"a\" or \"w\" or \"r\", key, value]")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<RawOp<'de>, A::Error> {
        let missing = |at| de::Error::invalid_length(at, &self);
        let Text(kind) = seq.next_element()?.ok_or_else(|| missing(0))?;
        let kind = match &*kind {
            "a" => Kind::Append,
            "w" => Kind::Write,
            "r" => Kind::Read,
            other => return Err(de::Error::unknown_variant(other, &["a", "w", "r"])),
        };
        let Text(key) = seq.next_element()?.ok_or_else(|| missing(1))?;
        let value = seq.next_element()?.ok_or_else(|| missing(2))?;
        match seq.next_element::<de::IgnoredAny>()? {
            None => Ok(RawOp { kind, key, value }),
            Some(_) => Err(missing(4)),
        }
    }
}

impl<'de> Deserialize<'de> for Value {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ValueVisitor)
    }
}

struct ValueVisitor;

impl<'de> Visitor<'de> for ValueVisitor {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an integer, a list of integers or null")
    }

    fn visit_unit<E: de::Error>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_i64<E: de::Error>(self, value: i64) -> Result<Value, E> {
        Ok(Value::Int(value))
    }

    fn visit_u64<E: de::Error>(self, value: u64) -> Result<Value, E> {
        i64::try_from(value).map(Value::Int).map_err(|_| E::custom("an integer beyond 64 signed bits"))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Value, A::Error> {
        let mut list = Vec::new();
        while let Some(value) = seq.next_element()? {
            list.push(value);
        }
        Ok(Value::List(list))
    }
}
