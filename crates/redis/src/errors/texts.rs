//! What is said of each [`CommandError`].

use std::fmt;

use highwater_core::limits::{
    MAX_BLOCK_PARTS, MAX_KEY_BYTES, MAX_REDIS_KEY_BYTES, MAX_REQUEST_BYTES, MAX_VALUE_BYTES,
};

use super::CommandError;
use crate::callables::is_benchmark;
use crate::interactive::{MAX_STEPS, MAX_TIMEOUT_MS};
use crate::keyspace::items::MAX_ITEM_BYTES;
use crate::keyspace::rows::MAX_MEMBER_BYTES;
use crate::modules::MAX_NAME_BYTES as MAX_MODULE_NAME_BYTES;
use crate::tables::{MAX_COLUMNS, MAX_NAME_BYTES};

impl fmt::Display for CommandError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CommandError::Unknown { name, args } => {
                write!(f, "ERR unknown command '{name}', with args beginning with: {args}")
            }
            CommandError::UnknownSubcommand { command, given } => {
                let command = command.to_ascii_uppercase();
                write!(f, "ERR unknown subcommand '{given}'. Try {command} HELP.")
            }
            CommandError::WrongArity(name) => {
                write!(f, "ERR wrong number of arguments for '{name}' command")
            }
            CommandError::Syntax => f.write_str("ERR syntax error"),
            CommandError::NotAnInteger => f.write_str("ERR value is not an integer or out of range"),
            CommandError::Overflow => f.write_str("ERR increment or decrement would overflow"),
            CommandError::DecrementOverflow => f.write_str("ERR decrement would overflow"),
            CommandError::KeyTooLong => {
                write!(f, "ERR key exceeds maximum allowed size ({MAX_REDIS_KEY_BYTES} bytes)")
            }
            CommandError::TableKeyTooLong => {
                write!(f, "ERR key exceeds maximum allowed size ({MAX_KEY_BYTES} bytes)")
            }
            CommandError::ValueTooLong => {
                write!(f, "ERR string exceeds maximum allowed size ({MAX_VALUE_BYTES} bytes)")
            }
            CommandError::ItemTooLong => {
                write!(f, "ERR item exceeds maximum allowed size ({MAX_ITEM_BYTES} bytes)")
            }
            CommandError::NoSuchKey => f.write_str("ERR no such key"),
            CommandError::UnknownSetting(name) => {
                write!(f, "ERR Unknown option or number of arguments for CONFIG SET - '{name}'")
            }
            CommandError::SettingFailed { name, why } => {
                write!(f, "ERR CONFIG SET failed (possibly related to argument '{name}') - {why}")
            }
            CommandError::UnknownClientType(kind) => write!(f, "ERR Unknown client type '{kind}'"),
            CommandError::Unblocked => f.write_str("UNBLOCKED client unblocked via CLIENT UNBLOCK"),
            CommandError::UnknownNode(name) => write!(f, "ERR Unknown node {name}"),
            CommandError::NoInputKeys(command) => {
                write!(f, "ERR at least 1 input key is needed for '{command}' command")
            }
            CommandError::UnsupportedOption(option) => write!(f, "ERR Unsupported option {option}"),
            CommandError::WrongType => {
                f.write_str("WRONGTYPE Operation against a key holding the wrong kind of value")
            }
            CommandError::MemberTooLong => {
                write!(f, "ERR element exceeds maximum allowed size ({MAX_MEMBER_BYTES} bytes)")
            }
            CommandError::Text(text) => f.write_str(text),
            CommandError::Script(text) => f.write_str(text),
            CommandError::InvalidExpiry(command) => {
                write!(f, "ERR invalid expire time in '{command}' command")
            }
            CommandError::NotAFloat => f.write_str("ERR value is not a valid float"),
            CommandError::NoSuchDatabase => f.write_str("ERR DB index is out of range"),
            CommandError::NoSuchProtocol => f.write_str("NOPROTO unsupported protocol version"),
            CommandError::ProtocolNotAnInteger => {
                f.write_str("ERR Protocol version is not an integer or out of range")
            }
            CommandError::HelloOption(option) => {
                write!(f, "ERR Syntax error in HELLO option '{option}'")
            }
            CommandError::ClientAttribute(name) => write!(f, "ERR Unrecognized option '{name}'"),
            CommandError::ClientName(what) => {
                write!(f, "ERR {what} cannot contain spaces, newlines or special characters.")
            }
            CommandError::NoPasswords => f.write_str(
                "ERR AUTH <password> called without any password configured for the default user. \
                 Are you sure your configuration is correct?",
            ),
            CommandError::NoAuthentication => f.write_str("NOAUTH Authentication required."),
            CommandError::HelloUnauthenticated => f.write_str(
                "NOAUTH HELLO must be called with the client already authenticated, otherwise the HELLO AUTH \
                 <user> <pass> option can be used to authenticate the client and select the RESP protocol version \
                 at the same time",
            ),
            CommandError::WrongPassword => {
                f.write_str("WRONGPASS invalid username-password pair or user is disabled.")
            }
            CommandError::DeniedCommand(name) => {
                write!(f, "NOPERM this user has no permissions to run the '{name}' command")
            }
            CommandError::DeniedKey => f.write_str(
                "NOPERM this user has no permissions to access one of the keys used as arguments",
            ),
            CommandError::DeniedTable => f.write_str(
                "NOPERM this user has no permissions to access the table: ACL SETUSER names it hw.table:NAME among the keys",
            ),
            CommandError::DeniedSince(why) => write!(
                f,
                "NOPERM ACLs rules changed between the moment the transaction was accumulated and the EXEC call. \
                 This command is no longer allowed for the following reason: {why}"
            ),
            CommandError::AclArity(name) => write!(
                f,
                "ERR unknown subcommand or wrong number of arguments for '{name}'. Try ACL HELP."
            ),
            CommandError::UnknownCategory(name) => write!(f, "ERR Unknown category '{name}'"),
            CommandError::NoSuchUser(name) => write!(f, "ERR User '{name}' not found"),
            CommandError::NoSuchCommand(name) => write!(f, "ERR Command '{name}' not found"),
            CommandError::NestedMulti => f.write_str("ERR MULTI calls can not be nested"),
            CommandError::WatchInsideMulti => f.write_str("ERR WATCH inside MULTI is not allowed"),
            CommandError::ExecWithoutMulti => f.write_str("ERR EXEC without MULTI"),
            CommandError::DiscardWithoutMulti => f.write_str("ERR DISCARD without MULTI"),
            CommandError::ListensOnly(name) => write!(
                f,
                "ERR Can't execute '{name}': only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / QUIT / RESET are allowed in this context"
            ),
            CommandError::NotInsideMulti => f.write_str("ERR Command not allowed inside a transaction"),
            CommandError::NotOnce => {
                f.write_str("ERR HW.ONCE runs commands on data, and inside MULTI stands alone")
            }
            CommandError::OnceTwice => f.write_str("ERR a block runs under one number"),
            CommandError::CallInsideMulti => {
                f.write_str("ERR HW.CALL is a transaction of its own, and cannot be part of a MULTI")
            }
            CommandError::NoTable(name) => {
                write!(f, "NOTABLE there is no table '{name}'; HW.TABLE CREATE makes one")
            }
            CommandError::TableExists => f.write_str("TABLEEXISTS there is a table of this name"),
            CommandError::TableName => {
                write!(f, "ERR a table's name has 1 to {MAX_NAME_BYTES} bytes")
            }
            CommandError::TableTypes => {
                write!(f, "ERR a table's key has 1 to {MAX_COLUMNS} columns of types u64, i64, string, bytes")
            }
            CommandError::KeyColumns(columns) => {
                write!(f, "BADKEY a key of this table has {columns} column(s), a word each")
            }
            CommandError::KeyColumn(of) => write!(f, "BADKEY a word is no {of}, as the table's key has there"),
            CommandError::KeyBound => f.write_str(
                "BADKEY a bound's words are [value or (value or - or +; behind ( - and + come only - and +",
            ),
            CommandError::KeyBytes => f.write_str("BADKEY a procedure put together what is no key of its table"),
            CommandError::NoWasm => f.write_str(
                "NOWASM this build has no WebAssembly; cargo build --release --features wasm makes one that has",
            ),
            CommandError::CompilerBusy => f.write_str(
                "BUSY too many modules wait to be compiled on this node; nothing was done, retry later",
            ),
            CommandError::BadModule(why) => write!(f, "BADMODULE {why}"),
            CommandError::ModuleName => {
                write!(f, "BADMODULE a module's name is 1 to {MAX_MODULE_NAME_BYTES} letters, digits, _ and -")
            }
            CommandError::ModuleExists => {
                f.write_str("MODULEEXISTS there is a module of this name; REPLACE takes its place")
            }
            CommandError::NoModule(name) => write!(f, "NOMODULE there is no module '{name}'"),
            CommandError::NestedBegin => f.write_str("ERR HW.BEGIN calls can not be nested"),
            CommandError::NoBegin => f.write_str(
                "ERR no transaction is open: HW.BEGIN opens one, and HW.OUTCOME tells what became of one under a session",
            ),
            CommandError::NotInsideBegin => {
                f.write_str("ERR Command not allowed between HW.BEGIN and HW.COMMIT")
            }
            CommandError::TransactionOver => {
                f.write_str("TXOVER this transaction failed, as an error before has said, and nothing of it was done: send HW.ROLLBACK, then HW.BEGIN")
            }
            CommandError::TransactionTimeout => f.write_str(
                "TXTIMEOUT this transaction lasted too long, and nothing of it was done; HW.ROLLBACK ends it, HW.BEGIN TIMEOUT gives more time",
            ),
            CommandError::TooManySteps => {
                write!(f, "ERR transaction too long (at most {MAX_STEPS} commands); HW.COMMIT and HW.ROLLBACK end it")
            }
            CommandError::BadTimeout => {
                write!(f, "ERR timeout is not an integer or out of range (1 to {MAX_TIMEOUT_MS} ms)")
            }
            CommandError::NoProcedure(name) => {
                write!(
                    f,
                    "NOPROCEDURE no procedure '{name}' may be called; HW.PROCEDURES lists those that may"
                )?;
                if is_benchmark(&name.to_ascii_lowercase()) {
                    f.write_str(" (of benchmarks none, unless server.benchmarks is \"on\")")?;
                }
                Ok(())
            }
            CommandError::Arguments { procedure, takes, misfit } => {
                write!(f, "BADREQUEST {procedure} takes [{takes}]; ")?;
                match misfit {
                    Some(field) => write!(f, "'{field}' cannot be what was given"),
                    None => f.write_str("the number of words is another"),
                }
            }
            CommandError::TooManySessions(most) => {
                write!(f, "ERR too many sessions: limits.sessions is {most}; those that are not used expire")
            }
            CommandError::TooManyOwnSessions(most) => write!(
                f,
                "ERR too many sessions of this user: limits.sessions_per_user is {most}; those that are not used expire"
            ),
            CommandError::Session(why) => f.write_str(why),
            CommandError::ExecAborted => {
                f.write_str("EXECABORT Transaction discarded because of previous errors.")
            }
            CommandError::ExecAbortedBecause(name) => write!(
                f,
                "EXECABORT Transaction discarded because of: wrong number of arguments for '{name}' command"
            ),
            CommandError::TooManyQueued => {
                write!(f, "ERR transaction too large (at most {MAX_BLOCK_PARTS} arguments)")
            }
            CommandError::TooMuchQueued => {
                write!(f, "ERR transaction too large (at most {MAX_REQUEST_BYTES} bytes)")
            }
        }
    }
}
