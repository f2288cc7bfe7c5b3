//! The two procedures behind the door. Both are deterministic and run on any engine.

use highwater_core::codec::{Malformed, Reader};
use highwater_core::limits::MAX_REPLY_BYTES;
use highwater_core::{Abort, Procedure, Timestamp, Transaction, planted};

use super::commands;
use super::errors::RequestError;
use super::keyspace::head::Row;
use super::keyspace::{KEYSPACE, Keyspace, Stop};
use super::modules::COMPILING;
use super::moment::Moment;
use super::reply::{Protocol, Reply};
use super::request::{Args, Framing, Step, Watch};

/// `redis.exec`: checks what was watched, then runs commands; the reply is finished RESP.
///
/// A command that fails writes its error among the replies and changes nothing; the others stand, as in Redis.
pub struct Exec;

impl Procedure for Exec {
    const NAME: &'static str = "redis.exec";
    /// 2: a moment stands in front.
    const VERSION: u32 = 2;

    /// A request that is sent again comes at another moment.
    fn identity(args: &[u8]) -> &[u8] {
        args.get(Moment::BYTES..).unwrap_or_default()
    }

    fn run<T: Transaction>(tx: &mut T, args: &[u8], reply: &mut Vec<u8>) -> Result<(), Abort> {
        let mut reader = Reader::new(args);
        let Ok(moment) = Moment::decode(&mut reader) else { return malformed(reply) };
        let Ok(framing) = Framing::decode(&mut reader) else { return malformed(reply) };
        match execute(tx, &mut reader, moment, framing, reply) {
            Ok(()) => Ok(()),
            Err(Stop::Abort(abort)) => Err(stopped(abort, reply)),
            Err(Stop::Malformed) => malformed(reply),
        }
    }

    fn explain_panic(message: &str, _: &[u8], reply: &mut Vec<u8>) {
        panicked(message, reply);
    }
}

/// Says what is not ready, if that is why a request stopped.
pub(super) fn stopped(why: Abort, reply: &mut Vec<u8>) -> Abort {
    if why == Abort::NotReady {
        reply.clear();
        reply.extend_from_slice(COMPILING);
    }
    why
}

/// As an error of the door: whatever bytes a reply has go to the client's socket.
#[cold]
pub(super) fn panicked(message: &str, reply: &mut Vec<u8>) {
    Reply::new(reply, Protocol::Resp2).error(RequestError::Panicked { message });
}

fn execute<T: Transaction>(
    tx: &mut T,
    reader: &mut Reader<'_>,
    moment: Moment,
    framing: Framing,
    out: &mut Vec<u8>,
) -> Result<(), Stop> {
    let mut reply = Reply::new(out, framing.protocol);
    if !watches_hold(tx, reader, moment)? && !planted!(resp::WatchIgnored) {
        reply.null_array();
        return Err(Stop::Abort(Abort::Rollback));
    }
    let count = reader.varint()?;
    if framing.block {
        reply.array(count as usize);
    }
    let mut keyspace = Keyspace::new(tx, moment);
    keyspace.goes_on = framing.again;
    for _ in 0..count {
        keyspace.transaction().goes_on()?;
        match Step::decode(reader)? {
            Step::Literal(known) => reply.out.extend_from_slice(known),
            Step::Command { opcode, args, user } => {
                let start = reply.out.len();
                keyspace.set_user(user);
                let ended = commands::run(opcode.spec(), args, &mut keyspace, &mut reply);
                if ended == Err(Stop::Abort(Abort::Rollback)) {
                    // Of all replies only this one is true.
                    reply.out.drain(..start);
                }
                ended?;
            }
        }
        if reply.out.len() > MAX_REPLY_BYTES {
            return Err(Stop::Abort(Abort::TooLarge));
        }
    }
    Ok(())
}

/// Set in the version of a key that had expired when it was watched: its row may go without a change that counts.
const WAS_EXPIRED: u64 = 1 << 63;

/// Whether every watched key is as it was. Reads them all: each is part of what the commit validates.
fn watches_hold<T: Transaction>(tx: &mut T, reader: &mut Reader<'_>, moment: Moment) -> Result<bool, Stop> {
    let mut hold = true;
    for _ in 0..reader.varint()? {
        let watch = Watch::decode(reader)?;
        let row = tx.get(KEYSPACE, watch.key)?.map(|row| Row::decode(row).head);
        let lives = row.is_some_and(|head| !head.is_expired(moment.unix_ms));
        hold &= match watch.version.0 & WAS_EXPIRED {
            0 => row.is_some() == lives && tx.version(KEYSPACE, watch.key)? == watch.version,
            _ => !lives,
        };
    }
    Ok(hold)
}

/// `redis.watch`: the versions of keys, 8 bytes each, in the order of the arguments.
pub struct ReadVersions;

impl Procedure for ReadVersions {
    const NAME: &'static str = "redis.watch";
    /// 2: a moment stands in front.
    const VERSION: u32 = 2;

    fn run<T: Transaction>(tx: &mut T, args: &[u8], reply: &mut Vec<u8>) -> Result<(), Abort> {
        let mut reader = Reader::new(args);
        let Ok(moment) = Moment::decode(&mut reader) else { return malformed(reply) };
        let Ok(keys) = Args::decode(&mut reader) else { return malformed(reply) };
        for key in keys {
            let expired =
                tx.get(KEYSPACE, key)?.is_some_and(|row| Row::decode(row).head.is_expired(moment.unix_ms));
            let Timestamp(version) = tx.version(KEYSPACE, key)?;
            let version = if expired { WAS_EXPIRED } else { version };
            reply.extend_from_slice(&version.to_le_bytes());
        }
        Ok(())
    }

    fn explain_panic(message: &str, _: &[u8], reply: &mut Vec<u8>) {
        panicked(message, reply);
    }
}

#[cold]
pub(super) fn malformed(reply: &mut Vec<u8>) -> Result<(), Abort> {
    reply.clear();
    Reply::new(reply, Protocol::Resp2).error(RequestError::Malformed);
    Err(Abort::BadRequest)
}

impl From<Malformed> for Stop {
    fn from(_: Malformed) -> Stop {
        Stop::Malformed
    }
}
