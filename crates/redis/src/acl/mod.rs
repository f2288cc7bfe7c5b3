//! Who may do what: users, their passwords and their rules, as Redis 7 has them.
//!
//! A user is a row of table [`USERS`]; `ACL SETUSER` and `ACL DELUSER` are transactions on it ([`change`]), so users are ordered,
//! survive, and are on every node. No command reads that table to be let through. Each node keeps its users compiled
//! ([`Access`]), and a connection keeps the one that it is ([`Caller`]): a command costs one look at a version, and nothing more
//! for a user who may do everything.
//!
//! # How the compiled users follow the table
//!
//! - Every change has a number, drawn from a row of the table in the same transaction. A change is installed when it is
//!   *released*, by the connection that asked for it, before that connection does anything else.
//! - A node that does not serve reads the table every second on its snapshot. So does one of an engine without a leader, in a
//!   transaction, since others take changes as well. Only if the number of changes is another, all of it.
//! - A node that begins to serve reads it in a transaction first: until that is released, it runs nothing on data.
//!
//! Of each name the change with the larger number counts, so it does not matter in what order these arrive.
//!
//! # Where to look
//!
//! [`user`] a user and the words of `SETUSER`; [`selector`] what it may run, on which keys; [`ids`], [`categories`] and [`keys`]
//! what is to be known of commands for that, and [`absent`] which of Redis's are none here; [`access`] all users of a node; [`caller`] who a connection is; [`change`] the
//! procedure; [`row`] how a user stands in its row; [`file`](mod@file) users in a file; [`log`] what was denied.

pub mod absent;
pub mod access;
pub mod caller;
pub mod categories;
pub mod change;
pub mod file;
pub mod ids;
pub mod keys;
pub mod log;
pub mod requests;
pub mod row;
pub mod selector;
#[cfg(test)]
mod tests;
pub mod user;

use super::command::Opcode;
use super::commands::op;
use super::errors::CommandError;
use super::request::Args;

pub use access::Access;
pub use caller::Caller;
use ids::Named;
pub use user::User;

pub use super::schema::USERS;

/// The user whom everybody is that has not said another name.
pub const DEFAULT: &[u8] = b"default";

/// A user's name has at most so many bytes.
pub const MAX_NAME_BYTES: usize = 1 << 10;
/// A pattern has at most so many bytes: matching one costs up to its length times that of the key.
pub const MAX_PATTERN_BYTES: usize = 1 << 10;
/// What is known of one user has at most so many bytes.
pub const MAX_USER_BYTES: usize = 64 << 10;
/// There are at most so many users.
pub const MAX_USERS: u64 = 50_000;
/// All users together have at most so many bytes: they are read in one piece.
pub const MAX_USERS_BYTES: u64 = 16 << 20;

/// Why a user may not run a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Denied<'a> {
    /// Not this command.
    Command(&'static str),
    /// Not with this key.
    Key(&'a [u8]),
    /// Not with the table of this name.
    Table(&'a [u8]),
}

impl Denied<'_> {
    /// The thing that is denied, as rules name it.
    pub fn object(&self) -> Vec<u8> {
        match *self {
            Denied::Command(name) => name.as_bytes().to_vec(),
            Denied::Key(key) => key.to_vec(),
            Denied::Table(name) => [keys::TABLE_PREFIX, name].concat(),
        }
    }

    /// As the command that was denied is answered.
    pub fn error(&self) -> CommandError {
        match *self {
            Denied::Command(name) => CommandError::DeniedCommand(name),
            Denied::Key(_) => CommandError::DeniedKey,
            Denied::Table(_) => CommandError::DeniedTable,
        }
    }
}

/// Whether it brings or takes away procedures that others call.
fn changes_code(opcode: Opcode, first: &[u8]) -> bool {
    let changes = ["load", "unload"].iter().any(|word| first.eq_ignore_ascii_case(word.as_bytes()));
    opcode == op::HW_MODULE && changes
}

/// Rules speak of `HW.CALL`, whatever the door makes of one.
fn as_typed(opcode: Opcode) -> Opcode {
    if opcode == op::HW_INVOKE { op::HW_CALL } else { opcode }
}

/// Whether a user may run a command: what a connection asks before it runs one.
#[inline]
pub fn may<'a>(user: &User, opcode: Opcode, args: Args<'a>) -> Result<(), Denied<'a>> {
    if user.may_everything() {
        return Ok(());
    }
    // A module's procedure does what it does for whoever may call it: who loads the module has to be trusted, and only who may do everything is.
    let first = args.into_iter().next().unwrap_or_default();
    if changes_code(opcode, first) {
        return Err(Denied::Command(Named::of(opcode, Some(first)).full_name()));
    }
    user.may(as_typed(opcode), args)
}
