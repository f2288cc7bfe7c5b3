//! The arguments of `redis.exec` and `redis.watch`.
//!
//! ```text
//! redis.exec   moment | flags u8 | watches: count varint, watch* | commands: count varint, command*
//!              flags: bit 0: RESP3, bit 1: the body of a MULTI .. EXEC (the replies stand in one array), bit 2: a command
//!              that waits for data looks again, or one that works in steps goes on, bit 3: it is done only if its reply is
//!              short, else nothing of it is, and the reply is empty
//! watch        key bytes | version u64
//! command      opcode u8 | arguments: count varint, bytes*      a command, its name left out
//!              0xff      | bytes                                a reply that was known before: copied
//!              0xfe      | bytes | command                      a command that asks who runs it: the user of this name
//! redis.watch  moment | keys: count varint, bytes*                       its reply: version u64 * count
//! ```
//!
//! What a [`moment`](super::moment) is stands there. `bytes` is a length in varint and so many bytes; integers are little endian.

use highwater_core::codec::{Malformed, Reader, put_bytes, put_varint};
use highwater_core::{ProcedureId, Timestamp};
use highwater_seam::{Freshness, Session};

use super::command::Opcode;
use super::errors::CommandError;
use super::reply::Protocol;

const RESP3: u8 = 1;
const BLOCK: u8 = 2;
const AGAIN: u8 = 4;
const SHORT: u8 = 8;
const LITERAL: u8 = 0xff;
const USER: u8 = 0xfe;

/// A transaction that a connection wants to run.
#[derive(Clone, Copy, Debug)]
pub struct EngineRequest<'a> {
    /// Names the request on its connection; comes back in `submitted`, `refused` and `released`.
    pub seq: u64,
    /// Whether it only reads, and may do so on a snapshot of this replica.
    pub snapshot: bool,
    /// What it asks of that snapshot.
    pub freshness: Option<Freshness>,
    /// Whose request it is, if it is to run once.
    pub session: Option<Session>,
    /// The code to run.
    pub procedure: ProcedureId,
    /// Its arguments; valid until the next call.
    pub args: &'a [u8],
    /// What it may do.
    pub effect: Effect,
    /// The name of the user who asks.
    pub user: &'a [u8],
}

/// What a request may do, for those whom that concerns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// It changes nothing.
    Reads,
    /// It may change data: whoever waits for what it names is to look.
    Writes,
    /// It may change data that nobody waits for.
    Calls,
    /// It may change any data: whoever waits is to look.
    Commits,
    /// It looks for data that its client waits for, and takes it.
    Tries,
    /// It changes users.
    Users,
}

/// How the replies of a request stand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Framing {
    /// Which version of RESP.
    pub protocol: Protocol,
    /// Whether it is the body of a `MULTI` .. `EXEC`: one array holds all replies.
    pub block: bool,
    /// Whether a command that waits for data looks again, or one that works in steps ([`flush`](super::commands::flush)) goes on.
    pub again: bool,
}

impl Framing {
    /// Appends the flags.
    pub fn encode(self, out: &mut Vec<u8>) {
        let resp3 = if self.protocol == Protocol::Resp3 { RESP3 } else { 0 };
        let again = if self.again { AGAIN } else { 0 };
        out.push(resp3 | again | if self.block { BLOCK } else { 0 });
    }

    /// Whether these flags are a block's.
    #[inline]
    pub fn is_block(flags: u8) -> bool {
        flags & BLOCK != 0
    }

    /// Says in these flags that a command looks again, or goes on.
    pub fn look_again(flags: &mut u8) {
        *flags |= AGAIN;
    }

    /// Says in these flags whether the request is done only if its reply is short.
    #[inline]
    pub fn keep_short(flags: &mut u8, short: bool) {
        *flags = *flags & !SHORT | if short { SHORT } else { 0 };
    }

    /// Whether these flags are of a request that is done only if its reply is short.
    #[inline]
    pub fn is_short(flags: u8) -> bool {
        flags & SHORT != 0
    }

    /// Says in these flags that a command begins.
    pub fn begin(flags: &mut u8) {
        *flags &= !AGAIN;
    }

    /// Reads the flags.
    pub fn decode(reader: &mut Reader<'_>) -> Result<Framing, Malformed> {
        let flags = reader.u8()?;
        if flags & !(RESP3 | BLOCK | AGAIN | SHORT) != 0 {
            return Err(Malformed("flags"));
        }
        let protocol = if flags & RESP3 != 0 { Protocol::Resp3 } else { Protocol::Resp2 };
        Ok(Framing { protocol, block: flags & BLOCK != 0, again: flags & AGAIN != 0 })
    }
}

/// Byte strings, one after another: a command's arguments, its name left out.
#[derive(Clone, Copy, Debug)]
pub struct Args<'a> {
    left: usize,
    reader: Reader<'a>,
}

impl<'a> Args<'a> {
    /// Reads a count and so many byte strings; checks that they are all there.
    pub fn decode(reader: &mut Reader<'a>) -> Result<Args<'a>, Malformed> {
        let count = reader.varint()?;
        let start = *reader;
        for _ in 0..count {
            reader.bytes()?;
        }
        Ok(Args { left: count as usize, reader: start })
    }

    /// No arguments.
    pub fn none() -> Args<'static> {
        Args { left: 0, reader: Reader::new(&[]) }
    }

    /// The next argument of a command whose row promises one.
    pub fn promised(&mut self) -> Result<&'a [u8], CommandError> {
        self.next().ok_or(CommandError::Syntax)
    }

    /// All but the last, and the last.
    pub fn split_last(self) -> (Args<'a>, Option<&'a [u8]>) {
        let front = Args { left: self.left.saturating_sub(1), ..self };
        (front, self.last())
    }

    /// Appends them, as [`decode`](Self::decode) reads them.
    pub fn encode<'b>(parts: impl ExactSizeIterator<Item = &'b [u8]>, out: &mut Vec<u8>) {
        put_varint(out, parts.len() as u64);
        for part in parts {
            put_bytes(out, part);
        }
    }
}

impl<'a> Iterator for Args<'a> {
    type Item = &'a [u8];

    #[inline]
    fn next(&mut self) -> Option<&'a [u8]> {
        self.left = self.left.checked_sub(1)?;
        Some(self.reader.bytes().expect("decode checked every argument"))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left, Some(self.left))
    }
}

impl ExactSizeIterator for Args<'_> {}

/// One command of a request.
#[derive(Clone, Copy, Debug)]
pub enum Step<'a> {
    /// To be run.
    Command {
        /// Which command.
        opcode: Opcode,
        /// Its arguments.
        args: Args<'a>,
        /// The user who runs it, if it asks for that; `None`: one who may do everything, and has no session.
        user: Option<&'a [u8]>,
    },
    /// A reply that was known before.
    Literal(&'a [u8]),
}

impl<'a> Step<'a> {
    pub fn decode(reader: &mut Reader<'a>) -> Result<Step<'a>, Malformed> {
        match reader.u8()? {
            LITERAL => Ok(Step::Literal(reader.bytes()?)),
            USER => {
                let user = Some(reader.bytes()?);
                Step::decode_command(reader.u8()?, user, reader)
            }
            byte => Step::decode_command(byte, None, reader),
        }
    }

    fn decode_command(
        byte: u8,
        user: Option<&'a [u8]>,
        reader: &mut Reader<'a>,
    ) -> Result<Step<'a>, Malformed> {
        let opcode = Opcode::decode(byte).ok_or(Malformed("opcode"))?;
        Ok(Step::Command { opcode, args: Args::decode(reader)?, user })
    }

    /// The word in front of a command that asks who runs it.
    pub fn encode_user(user: &[u8], out: &mut Vec<u8>) {
        out.push(USER);
        put_bytes(out, user);
    }

    /// Appends a command.
    pub fn encode_command<'b>(
        opcode: Opcode,
        args: impl ExactSizeIterator<Item = &'b [u8]>,
        out: &mut Vec<u8>,
    ) {
        out.push(opcode.byte());
        Args::encode(args, out);
    }

    /// Appends a reply that is known.
    pub fn encode_literal(reply: &[u8], out: &mut Vec<u8>) {
        out.push(LITERAL);
        put_bytes(out, reply);
    }
}

/// A key and the version that a `WATCH` saw.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Watch<'a> {
    pub key: &'a [u8],
    /// Its version then.
    pub version: Timestamp,
}

impl<'a> Watch<'a> {
    pub fn decode(reader: &mut Reader<'a>) -> Result<Watch<'a>, Malformed> {
        Ok(Watch { key: reader.bytes()?, version: Timestamp(reader.u64()?) })
    }

    /// Appends one.
    pub fn encode(self, out: &mut Vec<u8>) {
        put_bytes(out, self.key);
        out.extend_from_slice(&self.version.0.to_le_bytes());
    }
}
