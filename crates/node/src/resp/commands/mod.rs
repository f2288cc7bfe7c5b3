//! One file per family of commands.
//!
//! A data command is a function of its arguments and the [`Keyspace`]; it writes exactly one reply, or fails and has
//! written nothing. To add one: a variant and a row in [`command`](super::command), a function here.

pub mod connection;
pub mod counters;
pub mod help;
pub mod keys;
pub mod server;
pub mod sessions;
pub mod strings;
pub mod transactions;

use highwater_core::Transaction;
use highwater_core::limits::{MAX_KEY_BYTES, MAX_VALUE_BYTES};

use super::command::{Command, Data, Spec};
use super::errors::CommandError;
use super::keyspace::{Failure, Keyspace, Stop};
use super::reply::Reply;
use super::request::Args;

/// Runs one command inside a transaction.
pub fn run<T: Transaction>(
    spec: &Spec,
    args: Args<'_>,
    keyspace: &mut Keyspace<'_, T>,
    reply: &mut Reply<'_>,
) -> Result<(), Stop> {
    let Command::Data(command) = spec.command else { return Err(Stop::Malformed) };
    let start = reply.out.len();
    let result = check(spec, args).and_then(|()| dispatch(command, args, keyspace, reply));
    match result {
        Ok(()) => Ok(()),
        Err(Failure::Stop(stop)) => Err(stop),
        Err(Failure::Command(error)) => {
            reply.out.truncate(start);
            reply.error(error);
            Ok(())
        }
    }
}

/// What the row says must hold. The door has checked the number of words, an embedded caller may not have.
fn check(spec: &Spec, args: Args<'_>) -> Result<(), Failure> {
    spec.check(args)?;
    for (at, arg) in args.enumerate() {
        if spec.keys.contains(at + 1) && arg.len() > MAX_KEY_BYTES {
            return Err(CommandError::KeyTooLong.into());
        }
        if arg.len() > MAX_VALUE_BYTES {
            return Err(CommandError::ValueTooLong.into());
        }
    }
    Ok(())
}

fn dispatch<T: Transaction>(
    command: Data,
    args: Args<'_>,
    keyspace: &mut Keyspace<'_, T>,
    reply: &mut Reply<'_>,
) -> Result<(), Failure> {
    match command {
        Data::Get => strings::get(args, keyspace, reply),
        Data::Set => strings::set(args, keyspace, reply),
        Data::Mget => strings::mget(args, keyspace, reply),
        Data::Mset => strings::mset(args, keyspace, reply),
        Data::Append => strings::append(args, keyspace, reply),
        Data::Strlen => strings::strlen(args, keyspace, reply),
        Data::Incr => counters::step(args, 1, keyspace, reply),
        Data::Decr => counters::step(args, -1, keyspace, reply),
        Data::Incrby => counters::incrby(args, keyspace, reply),
        Data::Decrby => counters::decrby(args, keyspace, reply),
        Data::Del => keys::del(args, keyspace, reply),
        Data::Exists => keys::exists(args, keyspace, reply),
        Data::Session => sessions::session(args, keyspace, reply),
        Data::Outcome => sessions::outcome(args, keyspace, reply),
    }
}
