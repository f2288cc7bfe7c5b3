//! Transactions that a client decides step by step: `HW.BEGIN` .. `HW.COMMIT`.
//!
//! Nothing is held in the engine between two steps, and nothing is locked. The connection keeps the commands so far and, of each, the
//! reply that it gave (or a digest of it). A step is one engine request, `redis.interact`: it runs all earlier commands again, compares
//! their replies with those given, runs the new command, and rolls back. The commit is one more such request, that does not roll back.
//! So whatever the client decided from the replies holds at the point at which the transaction commits.
//!
//! ```text
//! redis.interact   moment | flags u8 | steps: count varint, (command, evidence)* | the new command, if there is one
//!                  flags: bit 0: RESP3, bit 1: commit; a commit has no new command
//! command          as in redis.exec
//! evidence            0 | reply bytes                     a short reply, as it was given
//!                  1 | digest (16)                     of a longer one
//! its reply        to a step: 0 | the new command's reply, or +OK if there is none; 1: a reply is another one now.
//!                  to a commit: RESP
//! ```
//!
//! # Invariants
//!
//! - Every reply that a client was given in an open transaction has evidence in it. (`Open::steps`; asserted before a commit is offered.)
//! - A commit takes effect only if every command answers, in the commit's own transaction, what its evidence says.
//! - Steps change nothing: only a commit ends without [`Abort::Rollback`].
//! - Once an open transaction cannot commit any more, no command is run outside of it until the client has ended it.
//!
//! Time stands still: every run of every command is at the [`Moment`] of `HW.BEGIN`, or replies about time to live would never be the
//! same twice. n commands cost n (n + 1) / 2 runs, hence [`MAX_STEPS`].

use std::hash::Hasher;

use highwater_core::codec::{Malformed, Reader, put_bytes, put_varint};
use highwater_core::limits::{MAX_BLOCK_PARTS, MAX_COMMAND_BYTES, MAX_REPLY_BYTES};
use highwater_core::{Abort, Procedure, Transaction, planted};

use super::command::Opcode;
use super::commands;
use super::endings::{malformed, panicked, stopped};
use super::errors::{CommandError, RequestError};
use super::keyspace::{Keyspace, Stop};
use super::moment::Moment;
use super::reply::{Protocol, Reply};
use super::request::{Args, Step};

/// Commands of one transaction, at most.
pub const MAX_STEPS: u64 = 128;
/// How long a transaction may last unless its `HW.BEGIN` says so, in ms.
pub const DEFAULT_TIMEOUT_MS: u64 = 5_000;
/// How long one may last at most, in ms.
pub const MAX_TIMEOUT_MS: u64 = 60_000;

const RESP3: u8 = 1;
const COMMIT: u8 = 2;
/// A step's tag: its reply follows.
const ANSWERED: u8 = 0;
/// A step's tag: an earlier reply is another one now.
const CHANGED: u8 = 1;
/// Longest reply that is kept as it is.
const SHORT_BYTES: usize = 16;
const AS_IT_IS: u8 = 0;
const DIGEST: u8 = 1;

/// What a connection keeps of an open transaction.
#[derive(Debug)]
pub struct Open {
    moment: Moment,
    /// Which version of RESP its replies are in: the one at its beginning.
    protocol: Protocol,
    /// Which users there were when it began: if there are others, what it may do has to be asked anew.
    users: u64,
    /// The last ms at which it may go on.
    until_ms: u64,
    /// Commands that were answered.
    count: u64,
    /// Arguments of them all.
    parts: usize,
    /// Those commands, each with its evidence.
    steps: Vec<u8>,
    /// The command that is being run, without evidence yet.
    trying: Vec<u8>,
    /// Its arguments.
    trying_parts: usize,
    /// It cannot commit any more.
    over: bool,
}

/// What a step came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stepped<'a> {
    /// The new command answered this.
    Answered(&'a [u8]),
    /// What an earlier command answered is not so any more.
    Changed,
}

impl Open {
    /// A transaction that begins at this moment.
    pub fn new(moment: Moment, protocol: Protocol, users: u64, timeout_ms: u64) -> Open {
        Open {
            moment,
            protocol,
            users,
            until_ms: moment.unix_ms.saturating_add(timeout_ms),
            count: 0,
            parts: 0,
            steps: Vec::new(),
            trying: Vec::new(),
            trying_parts: 0,
            over: false,
        }
    }

    /// Whether it may go on at this time, with these users.
    ///
    /// # Errors
    /// If not: why.
    pub fn goes_on(&mut self, unix_ms: u64, users: u64) -> Result<(), CommandError> {
        if users != self.users {
            self.end();
        }
        if self.over {
            return Err(CommandError::TransactionOver);
        }
        if unix_ms > self.until_ms {
            self.end();
            return Err(CommandError::TransactionTimeout);
        }
        Ok(())
    }

    /// It cannot commit any more: what it kept is let go.
    pub fn end(&mut self) {
        self.over = true;
        self.steps = Vec::new();
        self.trying = Vec::new();
    }

    /// Writes the request that runs a command as the next step: `step` as requests carry it, with so many arguments. Empty: none, which
    /// only says whether steps can be run here.
    pub fn next(&mut self, step: &[u8], parts: usize, args: &mut Vec<u8>) -> Result<(), CommandError> {
        if self.count >= MAX_STEPS {
            return Err(CommandError::TooManySteps);
        }
        if self.parts + parts > MAX_BLOCK_PARTS {
            return Err(CommandError::TooManyQueued);
        }
        // What its evidence will need is counted with it.
        if self.steps.len() + step.len() + SHORT_BYTES + 2 > MAX_COMMAND_BYTES {
            return Err(CommandError::TooMuchQueued);
        }
        self.trying.clear();
        self.trying.extend_from_slice(step);
        self.trying_parts = parts;
        self.write(0, args);
        args.extend_from_slice(&self.trying);
        Ok(())
    }

    /// Writes the request that commits.
    pub fn commit(&self, args: &mut Vec<u8>) {
        assert!(!self.over && self.trying.is_empty(), "every reply that was given has evidence");
        self.write(COMMIT, args);
    }

    fn write(&self, flags: u8, args: &mut Vec<u8>) {
        args.clear();
        args.extend_from_slice(&self.moment.bytes());
        args.push(flags | if self.protocol == Protocol::Resp3 { RESP3 } else { 0 });
        put_varint(args, self.count);
        args.extend_from_slice(&self.steps);
    }

    /// A step was rolled back with this reply. What is answered is what the client is told, and is kept.
    pub fn stepped<'a>(&mut self, reply: &'a [u8]) -> Stepped<'a> {
        let Some((&ANSWERED, answer)) = reply.split_first() else { return Stepped::Changed };
        if !self.trying.is_empty() {
            self.steps.append(&mut self.trying);
            Evidence::of(answer, self.moment.seed).encode(&mut self.steps);
            self.count += 1;
            self.parts += self.trying_parts;
        }
        Stepped::Answered(answer)
    }

    /// Bytes that are kept.
    pub fn pending_bytes(&self) -> usize {
        self.steps.len() + self.trying.len()
    }

    /// Memory of what is kept, in bytes.
    pub fn memory_bytes(&self) -> usize {
        self.steps.capacity() + self.trying.capacity()
    }
}

/// What a command answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Evidence<'a> {
    AsItIs(&'a [u8]),
    Digest([u8; 16]),
}

impl<'a> Evidence<'a> {
    /// `seed`: of the transaction. Nobody else knows it, so nobody finds another reply of the same digest.
    fn of(reply: &'a [u8], seed: u64) -> Evidence<'a> {
        if reply.len() <= SHORT_BYTES {
            return Evidence::AsItIs(reply);
        }
        let half = |which: u64| {
            let mut hasher = std::hash::DefaultHasher::new();
            hasher.write_u64(seed);
            hasher.write_u64(which);
            hasher.write(reply);
            hasher.finish().to_le_bytes()
        };
        let mut digest = [0; 16];
        digest[..8].copy_from_slice(&half(0));
        digest[8..].copy_from_slice(&half(1));
        Evidence::Digest(digest)
    }

    fn encode(self, out: &mut Vec<u8>) {
        match self {
            Evidence::AsItIs(reply) => {
                out.push(AS_IT_IS);
                put_bytes(out, reply);
            }
            Evidence::Digest(digest) => {
                out.push(DIGEST);
                out.extend_from_slice(&digest);
            }
        }
    }

    fn decode(reader: &mut Reader<'a>) -> Result<Evidence<'a>, Malformed> {
        match reader.u8()? {
            AS_IT_IS => Ok(Evidence::AsItIs(reader.bytes()?)),
            DIGEST => Ok(Evidence::Digest(reader.array()?)),
            _ => Err(Malformed("evidence")),
        }
    }
}

/// Which command it is that a request runs: `HW.COMMIT`, or a step after `HW.BEGIN`.
pub fn name_of(args: &[u8]) -> &'static [u8] {
    match args.get(Moment::BYTES) {
        Some(flags) if flags & COMMIT != 0 => b"hw.commit",
        _ => b"hw.begin",
    }
}

/// Visits the commands of a request, the new one last.
pub fn commands<'a>(args: &'a [u8], mut visit: impl FnMut(Opcode, Args<'a>)) -> Result<(), Malformed> {
    let mut reader = Reader::new(args);
    Moment::decode(&mut reader)?;
    let _flags = reader.u8()?;
    let mut left = reader.varint()?;
    while !reader.is_empty() {
        let Step::Command { opcode, args, .. } = Step::decode(&mut reader)? else {
            return Err(Malformed("step"));
        };
        visit(opcode, args);
        if left > 0 {
            Evidence::decode(&mut reader)?;
            left -= 1;
        }
    }
    Ok(())
}

/// `redis.interact`: runs commands again, and one more, or commits them. See the module.
pub struct Interact;

impl Procedure for Interact {
    const NAME: &'static str = "redis.interact";

    /// As of `redis.exec`.
    fn identity(args: &[u8]) -> &[u8] {
        args.get(Moment::BYTES..).unwrap_or_default()
    }

    fn run<T: Transaction>(tx: &mut T, args: &[u8], reply: &mut Vec<u8>) -> Result<(), Abort> {
        match interact(tx, args, reply) {
            Ok(()) => Ok(()),
            Err(Stop::Abort(abort)) => Err(stopped(abort, reply)),
            Err(Stop::Malformed) => malformed(reply),
        }
    }

    fn explain_panic(message: &str, _: &[u8], reply: &mut Vec<u8>) {
        panicked(message, reply);
    }
}

fn interact<T: Transaction>(tx: &mut T, args: &[u8], out: &mut Vec<u8>) -> Result<(), Stop> {
    let mut reader = Reader::new(args);
    let moment = Moment::decode(&mut reader)?;
    let flags = reader.u8()?;
    if flags & !(RESP3 | COMMIT) != 0 {
        return Err(Stop::Malformed);
    }
    let protocol = if flags & RESP3 != 0 { Protocol::Resp3 } else { Protocol::Resp2 };
    let commits = flags & COMMIT != 0;
    let mut keyspace = Keyspace::new(tx, moment);
    let mut again = Vec::new();
    for _ in 0..reader.varint()? {
        again.clear();
        run(&mut reader, &mut keyspace, &mut Reply::new(&mut again, protocol))?;
        let differs = Evidence::decode(&mut reader)? != Evidence::of(&again, moment.seed);
        if differs && !planted!(EvidenceIgnored) {
            match commits {
                true => Reply::new(out, protocol).error(RequestError::Changed),
                false => out.push(CHANGED),
            }
            return Err(Stop::Abort(Abort::Rollback));
        }
    }
    if commits {
        if !reader.is_empty() {
            return Err(Stop::Malformed);
        }
        Reply::new(out, protocol).ok();
        return Ok(());
    }
    out.push(ANSWERED);
    let mut reply = Reply::new(out, protocol);
    if reader.is_empty() {
        reply.ok();
    } else {
        run(&mut reader, &mut keyspace, &mut reply)?;
    }
    Err(Stop::Abort(Abort::Rollback))
}

fn run<T: Transaction>(
    reader: &mut Reader<'_>,
    keyspace: &mut Keyspace<'_, T>,
    reply: &mut Reply<'_>,
) -> Result<(), Stop> {
    let Step::Command { opcode, args, user } = Step::decode(reader)? else { return Err(Stop::Malformed) };
    keyspace.transaction().goes_on()?;
    keyspace.set_user(user);
    commands::run(opcode.spec(), args, keyspace, reply)?;
    if reply.out.len() > MAX_REPLY_BYTES { Err(Stop::Abort(Abort::TooLarge)) } else { Ok(()) }
}
