//! Why a command gave no answer. Its words: [`texts`](super::texts).

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
    /// A key of a table is.
    TableKeyTooLong,
    /// There is nothing to rename.
    NoSuchKey,
    /// No such setting.
    UnknownSetting(String),
    /// A setting that cannot be set so.
    SettingFailed {
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
    /// An item of a list is longer than what a row has room for.
    ItemTooLong,
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
    /// A table that the user's patterns do not name.
    DeniedTable,
    /// The same at `EXEC`, though it might when it was queued: why.
    DeniedSince(&'static str),
    /// `ACL` with too many words.
    AclArity(&'static str),
    /// `ACL CAT` of what is none.
    UnknownCategory(String),
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
    /// A command that a connection of RESP2 may not ask that has subscribed to something.
    ListensOnly(&'static str),
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
    /// The same of one user's.
    TooManyOwnSessions(u64),
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
    /// Too many modules wait to be compiled.
    CompilerBusy,
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
