//! The procedures that clients may call by name: `HW.CALL`, `HW.PROCEDURES`.
//!
//! A procedure may be called if it has a [signature](highwater_core::signature); those that the node runs for itself have none. A call is
//! an engine request of its own, not one of `redis.exec`: its arguments are the procedure's own bytes, and so is its reply until it
//! leaves the door here.

use highwater_core::signature::{Fields, Misfit, Signature, Value};
use highwater_core::{Outcome, ProcedureId};

use super::effort::Effort;
use super::errors::{CallError, CommandError};
use super::glob::check_pattern_of_names;
use super::reply::{Protocol, Reply};

/// The words that the names of benchmarks' procedures begin with, and no others should.
const BENCHMARKS: [&str; 6] = ["audit.", "tpcc.", "ycsb.", "bank.", "ycsb-t.", "retwis."];

/// Whether a procedure of this name is one of a benchmark: a node hosts them if it is asked to.
pub fn is_benchmark(name: &str) -> bool {
    BENCHMARKS.iter().any(|family| name.starts_with(family))
}

/// A procedure that clients may call.
#[derive(Clone, Copy, Debug)]
pub struct Callable {
    pub name: &'static str,
    /// See [`Procedure::VERSION`](highwater_core::Procedure::VERSION).
    pub version: u32,
    /// Where it stands in the registry.
    pub id: ProcedureId,
    /// What it takes and gives.
    pub signature: &'static Signature,
}

/// All of them, in the order of their names.
#[derive(Clone, Debug, Default)]
pub struct Callables(Vec<Callable>);

impl Callables {
    /// Those of a replica's procedures that have a signature. The position is the id.
    pub fn of(
        names: &[&'static str],
        versions: &[u32],
        signatures: &[Option<&'static Signature>],
    ) -> Callables {
        let all = names.iter().zip(versions).zip(signatures).enumerate();
        let mut callables: Vec<_> = all
            .filter_map(|(at, ((name, version), signature))| {
                Some(Callable {
                    name,
                    version: *version,
                    id: ProcedureId(at as u16),
                    signature: (*signature)?,
                })
            })
            .collect();
        callables.sort_unstable_by_key(|callable| callable.name);
        Callables(callables)
    }

    /// Takes those away whose names are such.
    pub fn remove(&mut self, is_such: impl Fn(&str) -> bool) {
        self.0.retain(|callable| !is_such(callable.name));
    }

    /// The one of this name, in letters of any size.
    pub fn find(&self, name: &[u8]) -> Option<Callable> {
        let lower = || name.iter().map(u8::to_ascii_lowercase);
        let at = self.0.binary_search_by(|known| known.name.bytes().cmp(lower())).ok()?;
        Some(self.0[at])
    }

    /// The name of the one that stands there in the registry; empty: none of these.
    pub fn name_of(&self, id: ProcedureId) -> &'static str {
        self.0.iter().find(|known| known.id == id).map_or("", |known| known.name)
    }

    /// `HW.PROCEDURES [pattern]`: of each its name, its version, whether it only reads, and its signature.
    ///
    /// # Errors
    /// A pattern that is too long, or takes too many steps.
    pub fn list(
        &self,
        pattern: Option<&[u8]>,
        effort: &Effort,
        reply: &mut Reply<'_>,
    ) -> Result<(), CommandError> {
        pattern.map_or(Ok(()), check_pattern_of_names)?;
        let wanted = |callable: &&Callable| {
            pattern.is_none_or(|pattern| effort.fits(pattern, callable.name.as_bytes()))
        };
        let listed: Vec<_> = self.0.iter().filter(wanted).collect();
        effort.check_patterns()?;
        reply.array(listed.len());
        for Callable { name, version, signature, .. } in listed {
            reply.map(5);
            reply.bulk(b"name");
            reply.bulk(name.as_bytes());
            reply.bulk(b"version");
            reply.integer((*version).into());
            reply.bulk(b"reads");
            reply.integer(signature.reads.into());
            reply.bulk(b"arguments");
            reply.bulk(Fields(signature.args).to_string().as_bytes());
            reply.bulk(b"reply");
            reply.bulk(Fields(signature.reply).to_string().as_bytes());
        }
        Ok(())
    }
}

impl Callable {
    /// Appends the arguments that the words say.
    pub fn encode<'a>(
        &self,
        words: impl Iterator<Item = &'a [u8]>,
        out: &mut Vec<u8>,
    ) -> Result<(), CommandError> {
        self.signature.encode(words, out).map_err(|misfit| {
            let takes = Fields(self.signature.args).to_string();
            let misfit = match misfit {
                Misfit::Count => None,
                Misfit::Field(field) => Some(field),
            };
            CommandError::Arguments { procedure: self.name, takes, misfit }
        })
    }
}

/// A call under way.
#[derive(Clone, Copy, Debug)]
pub struct Call {
    /// Names the request on its connection.
    pub seq: u64,
    /// How its reply is to be read; `None`: as bytes.
    pub signature: Option<&'static Signature>,
    /// How it is to be written.
    pub protocol: Protocol,
}

impl Call {
    /// Writes what became of it: it ended so, with these bytes.
    pub fn answer(&self, outcome: Outcome, bytes: &[u8], out: &mut Vec<u8>) {
        let mut reply = Reply::new(out, self.protocol);
        match (outcome, self.signature) {
            (Outcome::Committed, None) => reply.bulk(bytes),
            (Outcome::Committed, Some(signature)) => match signature.decode(bytes) {
                Ok(values) if values.is_empty() && signature.reply.is_empty() => reply.ok(),
                Ok(values) => map(&values, &mut reply),
                Err(_) => reply.error(CallError::Signature),
            },
            (Outcome::RolledBack, _) => reply.error(CallError::RolledBack { why: bytes }),
            _ => reply.error(CallError::BadRequest { why: bytes }),
        }
    }
}

fn map(values: &[(&'static str, Value<'_>)], reply: &mut Reply<'_>) {
    reply.map(values.len());
    for (name, value) in values {
        reply.bulk(name.as_bytes());
        write(value, reply);
    }
}

fn write(value: &Value<'_>, reply: &mut Reply<'_>) {
    match value {
        Value::Unsigned(number) => match i64::try_from(*number) {
            Ok(number) => reply.integer(number),
            // No client's integer is wider than a signed one.
            Err(_) => reply.bulk(number.to_string().as_bytes()),
        },
        Value::Signed(number) => reply.integer(*number),
        Value::Bytes(bytes) => reply.bulk(bytes),
        Value::Groups(groups) => {
            reply.array(groups.len());
            for group in groups {
                match &group[..] {
                    // A list of one field needs no names.
                    [(_, only)] => write(only, reply),
                    values => map(values, reply),
                }
            }
        }
    }
}
