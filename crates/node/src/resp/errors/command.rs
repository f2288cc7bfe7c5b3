//! Every error text of the door, in one place. Where Redis has the error, the text is Redis's: clients compare it.

use std::fmt;

use highwater_core::NodeId;
use highwater_core::limits::{MAX_BLOCK_PARTS, MAX_KEY_BYTES, MAX_REQUEST_BYTES, MAX_VALUE_BYTES};
use highwater_engines::seam::Refusal;

use super::interactive::{MAX_STEPS, MAX_TIMEOUT_MS};
use super::keyspace::rows::MAX_MEMBER_BYTES;
use super::modules::MAX_NAME_BYTES as MAX_MODULE_NAME_BYTES;
use super::tables::{MAX_COLUMNS, MAX_NAME_BYTES};

/// Why a command gave no answer. A deterministic result of what the client sent (and of the data, for the
/// arithmetic ones): the same again fails the same way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CommandError {
    /// No such command; name and arguments as far as the error quotes them.
    Unknown {
        /// The name, cut.
        name: String,
        /// Quoted and cut.
        args: String,
    },
    /// No such second word.
    UnknownSubcommand {
        /// The command, in small letters.
        command: &'static str,
        /// What was given.
        given: String,
    },
    /// Too few or too many words for this command.
    WrongArity(&'static str),
    /// Options that contradict each other or do not exist.
    Syntax,
    /// An argument or a value is no integer.
    NotAnInteger,
    /// The sum leaves 64 bits.
    Overflow,
    /// The negated argument leaves 64 bits.
    DecrementOverflow,
    /// A key is over the limit.
    KeyTooLong,
    /// There is nothing to rename.
    NoSuchKey,
    /// No such setting.
    UnknownSetting(String),
    /// A setting that cannot be set so.
    SettingFailed {
        /// Which.
        name: String,
        /// Why not.
        why: String,
    },
    /// Neither `normal` nor another type.
    UnknownClientType(String),
    /// It waited for data, and another client had it wait no more.
    Unblocked,
    /// A name that no node of the cluster has.
    UnknownNode(String),
    /// There is nothing to join.
    NoInputKeys(&'static str),
    /// An option of `EXPIRE` that there is not.
    UnsupportedOption(String),
    /// The key holds another type.
    WrongType,
    /// A member or field is over the limit.
    MemberTooLong,
    /// As it stands here: an error of one family alone, and Redis's words for it.
    Text(&'static str),
    /// The same of one that quotes something.
    Script(String),
    /// A value is or would become longer than the limit.
    ValueTooLong,
    /// A time to live that is none, or leaves 64 bits.
    InvalidExpiry(&'static str),
    /// No number in floating point.
    NotAFloat,
    /// There is one database, number 0.
    NoSuchDatabase,
    /// Neither 2 nor 3.
    NoSuchProtocol,
    /// Not even a number.
    ProtocolNotAnInteger,
    /// An unknown option of `HELLO`, or one without its arguments.
    HelloOption(String),
    /// An unknown attribute of `CLIENT SETINFO`.
    ClientAttribute(String),
    /// A name with bytes that would garble a listing.
    ClientName(&'static str),
    /// `AUTH` with one word, where the default user needs no password.
    NoPasswords,
    /// It has not said who it is.
    NoAuthentication,
    /// The same of `HELLO`.
    HelloUnauthenticated,
    /// No such user with that password.
    WrongPassword,
    /// The user may not run this.
    DeniedCommand(&'static str),
    /// The user may not use one of the keys.
    DeniedKey,
    /// The same at `EXEC`, though it might when it was queued: why.
    DeniedSince(&'static str),
    /// `ACL` with too many words.
    AclArity(&'static str),
    /// `ACL CAT` of what is none.
    UnknownCategory(String),
    /// No such user.
    NoSuchUser(String),
    /// `ACL DRYRUN` of what is no command.
    NoSuchCommand(String),
    /// `MULTI` in a `MULTI`.
    NestedMulti,
    /// `WATCH` in a `MULTI`.
    WatchInsideMulti,
    /// `EXEC` without `MULTI`.
    ExecWithoutMulti,
    /// `DISCARD` without `MULTI`.
    DiscardWithoutMulti,
    /// Never queued.
    NotInsideMulti,
    /// Some queued command was refused.
    ExecAborted,
    /// `EXEC` itself was refused.
    ExecAbortedBecause(&'static str),
    /// `HW.ONCE` of something that touches no data, or is about sessions.
    NotOnce,
    /// A second `HW.ONCE` in a block.
    OnceTwice,
    /// As many sessions are open as may be.
    TooManySessions(u64),
    /// The session has expired, or has got beyond the number: in the words of the engine.
    Session(String),
    /// `HW.CALL` in a `MULTI`.
    CallInsideMulti,
    /// There is no table of this name.
    NoTable(String),
    /// There is a table of this name.
    TableExists,
    /// No name for a table.
    TableName,
    /// No types for a table's keys.
    TableTypes,
    /// A key has so many columns, and another number of words was given.
    KeyColumns(usize),
    /// A word is no value of its column, which is of this type.
    KeyColumn(&'static str),
    /// No bound of a range.
    KeyBound,
    /// Bytes that a procedure gave are no key of its table.
    KeyBytes,
    /// This build has no WebAssembly.
    NoWasm,
    /// A module cannot be loaded: why.
    BadModule(String),
    /// No name for a module.
    ModuleName,
    /// There is a module of this name.
    ModuleExists,
    /// There is no module of this name.
    NoModule(String),
    /// `HW.BEGIN` in an open transaction.
    NestedBegin,
    /// `HW.COMMIT` or `HW.ROLLBACK` without `HW.BEGIN`.
    NoBegin,
    /// Not among the commands of an open transaction.
    NotInsideBegin,
    /// An open transaction cannot commit any more, as was said before.
    TransactionOver,
    /// An open transaction lasted too long.
    TransactionTimeout,
    /// An open transaction has as many commands as it may.
    TooManySteps,
    /// No time that a transaction may last.
    BadTimeout,
    /// No procedure of this name may be called.
    NoProcedure(String),
    /// The words of an `HW.CALL` are not what the procedure takes.
    Arguments {
        /// Which procedure.
        procedure: &'static str,
        /// What it takes, as a usage line.
        takes: String,
        /// Which field a word does not fit; `None`: there are too few or too many words.
        misfit: Option<&'static str>,
    },
    /// More was queued or watched than a request may carry.
    TooMuchQueued,
    /// A block has more arguments than one transaction may.
    TooManyQueued,
}

impl CommandError {
    /// What Redis says: up to 128 bytes of the name, and arguments until 128 bytes are full.
    #[cold]
    pub fn unknown<'a>(name: &[u8], args: impl Iterator<Item = &'a [u8]>) -> CommandError {
        let mut quoted = Vec::new();
        for arg in args {
            if quoted.len() >= 128 {
                break;
            }
            let cut = &arg[..arg.len().min(128 - quoted.len())];
            quoted.extend_from_slice(b"'");
            quoted.extend_from_slice(cut);
            quoted.extend_from_slice(b"' ");
        }
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        CommandError::Unknown { name: text(&name[..name.len().min(128)]), args: text(&quoted) }
    }

    /// The name, cut to 128 bytes.
    #[cold]
    pub fn unknown_procedure(name: &[u8]) -> CommandError {
        CommandError::NoProcedure(String::from_utf8_lossy(&name[..name.len().min(128)]).into_owned())
    }

    /// The name, cut to 128 bytes.
    #[cold]
    pub fn no_table(name: &[u8]) -> CommandError {
        CommandError::NoTable(String::from_utf8_lossy(&name[..name.len().min(128)]).into_owned())
    }

    /// The name, cut to 128 bytes.
    #[cold]
    pub fn no_module(name: &[u8]) -> CommandError {
        CommandError::NoModule(String::from_utf8_lossy(&name[..name.len().min(128)]).into_owned())
    }

    /// The second word of a `DEBUG`, cut.
    #[cold]
    pub fn unknown_debug(given: &[u8]) -> CommandError {
        let given = String::from_utf8_lossy(&given[..given.len().min(128)]).into_owned();
        CommandError::Script(format!(
            "ERR unknown subcommand or wrong number of arguments for '{given}'. Try DEBUG HELP."
        ))
    }

    /// The second word, cut to 128 bytes.
    #[cold]
    pub fn unknown_subcommand(command: &'static str, given: &[u8]) -> CommandError {
        let given = String::from_utf8_lossy(&given[..given.len().min(128)]).into_owned();
        CommandError::UnknownSubcommand { command, given }
    }
}

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
                write!(f, "ERR key exceeds maximum allowed size ({MAX_KEY_BYTES} bytes)")
            }
            CommandError::ValueTooLong => {
                write!(f, "ERR string exceeds maximum allowed size ({MAX_VALUE_BYTES} bytes)")
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
                f.write_str("TXOVER this transaction cannot commit any more, and nothing of it was done; HW.ROLLBACK ends it")
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
                )
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

/// What became of an `HW.CALL` that did not commit, or whose reply cannot be told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallError<'a> {
    /// The procedure rolled back; what it read is released state.
    RolledBack {
        /// Its reply.
        why: &'a [u8],
    },
    /// The procedure refused its arguments, or panicked: nothing was done.
    BadRequest {
        /// Its reply.
        why: &'a [u8],
    },
    /// It committed, and the reply is none of its signature: a bug of ours.
    Signature,
}

impl fmt::Display for CallError<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = |why: &[u8]| String::from_utf8_lossy(&why[..why.len().min(1024)]).into_owned();
        match self {
            CallError::RolledBack { why: [] } => f.write_str("ROLLEDBACK nothing was done"),
            CallError::RolledBack { why } => write!(f, "ROLLEDBACK {}; nothing was done", text(why)),
            CallError::BadRequest { why } => write!(f, "BADREQUEST {}; nothing was done", text(why)),
            CallError::Signature => f.write_str(
                "BADREPLY the call committed, but its reply is not what its signature says; RAW gives its bytes",
            ),
        }
    }
}

/// Why a procedure of a module was ended: whatever it wrote is taken back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProcedureError {
    /// It ended itself, for this reason.
    RolledBack(String),
    /// It did what no procedure may, or its code met an instruction that ends it.
    Trap(String),
    /// It has used as much fuel as it may.
    Fuel(u64),
    /// It has taken longer than anything should.
    Time,
    /// It wants more memory than so many MiB.
    Memory(usize),
    /// It writes, and was called to read.
    Writes,
}

impl fmt::Display for ProcedureError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ProcedureError::RolledBack(why) => write!(f, "ROLLEDBACK {why}; nothing was done"),
            ProcedureError::Trap(why) => write!(f, "TRAP {why}; nothing was done"),
            ProcedureError::Fuel(most) => write!(
                f,
                "NOFUEL the procedure was ended after limits.procedure_fuel, which is {most}; nothing was done"
            ),
            ProcedureError::Time => {
                f.write_str("NOFUEL the procedure was ended after 5 seconds of CPU time; nothing was done")
            }
            ProcedureError::Memory(mib) => write!(
                f,
                "NOMEMORY the procedure needs more memory than limits.procedure_memory_mb, which is {mib}; nothing was done"
            ),
            ProcedureError::Writes => f.write_str("ERR the procedure writes, and HW.CALL_RO does not"),
        }
    }
}

/// Why a whole request gave no answer though it was fine: nothing of it was done, or nobody knows.
#[derive(Clone)]
pub enum RequestError<'a> {
    /// The engine did not take it: nothing was done. With the address of whom to ask instead, if both are known.
    Refused(Refusal, Option<String>),
    /// The same of a replica of an engine without a leader, which does not serve at the moment: one that does, and where.
    Elsewhere(Option<NodeId>, Option<String>),
    /// Another node serves, in Redis Cluster's words: nothing was done.
    Moved {
        /// Of the first key.
        slot: u16,
        /// Where to ask.
        address: String,
    },
    /// Nobody is known to serve, or this node cannot, in Redis Cluster's words: nothing was done.
    Down(Refusal),
    /// The same as both in the words of a replica under Sentinel, with whom to ask if that is known.
    ReadOnly(Option<String>),
    /// Too many conflicts in a row: nothing was done.
    Conflict,
    /// What an open transaction told its client is not so any more: nothing was done.
    Changed,
    /// It may or may not survive.
    Unknown,
    /// It is over a limit of transactions: nothing was done.
    TooLarge {
        /// The limits, in the engine's words.
        limits: &'a str,
    },
    /// Its session does not let it run: nothing was done.
    Denied {
        /// Why, in the engine's words, with the error's name in front.
        why: &'a str,
    },
    /// No memory is left for what it adds: nothing was done. In Redis's words, which clients know.
    OutOfMemory,
    /// Too many disks are full for what it writes: nothing was done.
    DiskFull,
    /// The command's code panicked, on data that is there: a bug of ours. Nothing was done.
    Panicked {
        /// What it said.
        message: &'a str,
    },
    /// The arguments are none of ours; only a caller without RESP can see this.
    Malformed,
}

impl fmt::Display for RequestError<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RequestError::Refused(Refusal::NotServing { ask: Some(leader) }, address) => {
                let address = address.as_deref().unwrap_or("an unknown address");
                write!(f, "NOTLEADER leader is node {} at {address}", leader.0)
            }
            RequestError::Refused(Refusal::NotServing { ask: None }, _) => {
                f.write_str("NOTLEADER no leader is known at the moment; nothing was done, retry later")
            }
            RequestError::Elsewhere(Some(other), address) => {
                let address = address.as_deref().unwrap_or("an unknown address");
                write!(f, "NOTLEADER this node does not serve at the moment; ask node {} at {address}", other.0)
            }
            RequestError::Elsewhere(None, _) => f.write_str(
                "NOTLEADER this node does not serve at the moment; nothing was done, retry later or elsewhere",
            ),
            RequestError::Refused(Refusal::NoQuorum, _) => f.write_str(
                "NOQUORUM this node hears no majority or stands still; nothing was done, retry later",
            ),
            RequestError::Refused(Refusal::Busy, _) => f.write_str("BUSY nothing was done, retry later"),
            RequestError::Refused(Refusal::Unsupported, _) => f.write_str(
                "ERR the engine keeps no sessions, or no bound on the age of what is read; nothing was done",
            ),
            RequestError::Moved { slot, address } => write!(f, "MOVED {slot} {address}"),
            RequestError::Down(Refusal::NoQuorum) => f.write_str(
                "CLUSTERDOWN The cluster is down: this node hears no majority or stands still; nothing was done, retry later",
            ),
            RequestError::Down(_) => f.write_str(
                "CLUSTERDOWN The cluster is down: no leader is known at the moment; nothing was done, retry later",
            ),
            RequestError::ReadOnly(Some(address)) => {
                write!(f, "READONLY You can't write against a read only replica: the master is at {address}; nothing was done")
            }
            RequestError::ReadOnly(None) => f.write_str(
                "READONLY You can't write against a read only replica: no master is known at the moment; nothing was done",
            ),
            RequestError::Conflict => {
                f.write_str("CONFLICT too many conflicting transactions; nothing was done, retry")
            }
            RequestError::Changed => f.write_str(
                "CONFLICT what this transaction answered is not so any more; nothing was done, begin it again",
            ),
            RequestError::Unknown => f.write_str(
                "UNKNOWN outcome unknown: this node lost the lead, or its vote, before the result was safe; \
                 it may or may not have been applied",
            ),
            RequestError::TooLarge { limits } => {
                write!(f, "ERR too large: {limits}; nothing was done")
            }
            RequestError::DiskFull => f.write_str(
                "DISKFULL the disks of too many nodes are full; nothing was done, reads go on, retry when there is room",
            ),
            RequestError::Denied { why } => f.write_str(why),
            RequestError::OutOfMemory => {
                f.write_str("OOM command not allowed when used memory > 'maxmemory'.")
            }
            RequestError::Panicked { message } => {
                write!(f, "ERR the command failed: {message}; nothing was done")
            }
            RequestError::Malformed => f.write_str("ERR malformed arguments"),
        }
    }
}
