//! One file per family of commands.
//!
//! A data command is a function of its arguments and the [`Keyspace`]; it writes exactly one reply, or fails and has
//! written nothing. To add one: an [entry](super::command::entry) and its function in the file of its family. Nothing else names it.

pub mod acl;
pub mod admin;
pub mod algebra;
pub mod auth;
pub mod bitfield;
pub mod bits;
pub mod blocking;
pub mod client;
pub mod cluster;
pub mod connection;
pub mod control;
pub mod counters;
pub mod cursor;
pub mod debug;
pub mod documents;
pub mod elsewhere;
pub mod expiry;
pub mod flush;
pub mod functions;
pub mod hashes;
pub mod help;
pub mod info;
pub mod keys;
pub mod keyspecs;
pub mod lists;
pub mod memory;
pub mod modules;
pub mod object;
pub mod portion;
pub mod scan;
pub mod scripts;
pub mod sentinel;
pub mod server;
pub mod sessions;
pub mod sets;
pub mod slow;
pub mod strings;
mod table;
pub mod tables;
pub mod transactions;
pub mod words;
pub mod zalgebra;
pub mod zranges;
pub mod zsets;

use highwater_core::Transaction;
use highwater_core::limits::{MAX_REDIS_KEY_BYTES, MAX_VALUE_BYTES};

use super::command::{Command, Spec, flags};
use super::errors::CommandError;
use super::keyspace::{Failure, Keyspace, Stop};
use super::reply::Reply;
use super::request::Args;
pub use table::{answer, op};

/// Runs one command inside a transaction.
pub fn run<T: Transaction>(
    spec: &Spec,
    args: Args<'_>,
    keyspace: &mut Keyspace<'_, T>,
    reply: &mut Reply<'_>,
) -> Result<(), Stop> {
    if spec.command != Command::Data {
        return Err(Stop::Malformed);
    }
    let start = reply.out.len();
    let result = check(spec, args, keyspace.goes_on).and_then(|()| table::run(spec, args, keyspace, reply));
    match result {
        Ok(()) => {}
        Err(Failure::Stop(stop)) => return Err(stop),
        Err(Failure::Command(error)) => {
            reply.out.truncate(start);
            reply.error(error);
        }
    }
    keyspace.bury_expired()
}

/// What the row says must hold. The door has checked the number of words, an embedded caller may not have.
fn check(spec: &Spec, args: Args<'_>, goes_on: bool) -> Result<(), Failure> {
    // A step of a walk through the names has a word more than anybody may type.
    if !(goes_on && spec.has(flags::WALKS)) {
        spec.check(args)?;
    }
    for (at, arg) in args.enumerate() {
        // A script's keys are strings like its other arguments, until it uses them.
        if arg.len() > MAX_REDIS_KEY_BYTES && spec.may_be_key(at + 1) && !spec.runs_scripts() {
            return Err(CommandError::KeyTooLong.into());
        }
        if arg.len() > MAX_VALUE_BYTES {
            return Err(CommandError::ValueTooLong.into());
        }
    }
    Ok(())
}
