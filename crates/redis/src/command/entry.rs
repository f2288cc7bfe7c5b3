//! How an entry is written: everything that is known of a command, once.
//!
//! ```text
//! commands! {
//!     data(args, keyspace, reply);
//!     GET = 0 {
//!         run: get(args, keyspace, reply),
//!         name: "get", arity: 2, flags: READONLY | FAST, keys: ONE_KEY, group: "string", since: "1.0.0",
//!         summary: "Get the value of a key",
//!         specs: "RO,access index 1 range 0 1 0",
//!         docs: "
//!             complexity O(1)
//!             - key: key #0
//!         ",
//!     }
//! }
//! ```
//!
//! The number is the command's byte in requests, which nodes forward: it stays. A new command has the next one. `run` says what is called, with the
//! words in front of the family as parameters. In a family of `control` it is a verb of the connection. Behind the summary stand those fields of
//! [`Spec`](super::Spec) that are not as in `Spec::BARE`.

/// The words that entries are written with.
pub(crate) mod words {
    pub(crate) use super::super::flags::*;
    pub(crate) use super::super::{Keyless, Keys};
    pub(crate) use super::super::{category, flags::Flags};
    pub(crate) use super::subcommands;

    /// Which words are keys; or why none has a fixed place.
    pub(crate) type Reach = (Keys, Option<Keyless>);

    pub(crate) const ONE_KEY: Reach = keys(1, 1, 1);
    pub(crate) const ALL_KEYS: Reach = keys(1, -1, 1);
    pub(crate) const PAIRS: Reach = keys(1, -1, 2);
    pub(crate) const TWO_KEYS: Reach = keys(1, 2, 1);
    pub(crate) const COUNTED: Reach = keyless(Keyless::Counted);
    pub(crate) const OF_SUBCOMMANDS: Reach = keyless(Keyless::OfSubcommands);
    pub(crate) const BEHIND: Reach = keyless(Keyless::Behind);
    pub(crate) const TABLE: Reach = keyless(Keyless::Table);
    pub(crate) const WHOLE: Reach = keyless(Keyless::Whole);
    pub(crate) const SESSION: Reach = keyless(Keyless::Session);
    pub(crate) const PROCEDURE: Reach = keyless(Keyless::Procedure);
    pub(crate) const CODE: Reach = keyless(Keyless::Code);
    pub(crate) const NO_DATA: Reach = keyless(Keyless::NoData);

    pub(crate) const fn keys(first: i8, last: i8, step: i8) -> Reach {
        (Keys { first, last, step }, None)
    }

    pub(crate) const fn keyless(why: Keyless) -> Reach {
        (Keys::NONE, Some(why))
    }
}

/// The entries of a family. See the module.
macro_rules! commands {
    (
        data($args:ident, $keyspace:ident, $reply:ident);
        $($op:ident = $number:literal { run: $run:expr, $($fact:tt)* })*
    ) => {
        $crate::command::entry::entries! {
            $($op = $number, $crate::command::Command::Data, { $($fact)* })*
        }

        /// Runs a command of this family.
        #[allow(unused_mut, reason = "not every family has need of it")]
        pub(super) fn run<T: highwater_core::Transaction>(
            opcode: $crate::command::Opcode,
            $args: $crate::request::Args<'_>,
            $keyspace: &mut $crate::keyspace::Keyspace<'_, T>,
            $reply: &mut $crate::reply::Reply<'_>,
        ) -> $crate::keyspace::Done {
            match opcode.byte() {
                $($number => $run,)*
                number => unreachable!("number {number} is of another family"),
            }
        }
    };
    (
        local($args:ident, $client:ident, $door:ident, $effort:ident, $reply:ident);
        $($op:ident = $number:literal { run: $run:expr, $($fact:tt)* })*
    ) => {
        $crate::command::entry::entries! {
            $($op = $number, $crate::command::Command::Local, { $($fact)* })*
        }

        /// Answers a command of this family.
        #[allow(unused_variables, reason = "not every family has need of all")]
        pub(super) fn run(
            opcode: $crate::command::Opcode,
            $args: $crate::request::Args<'_>,
            $client: &mut $crate::client_state::ClientState,
            $door: &$crate::Door,
            $effort: &$crate::effort::Effort,
            $reply: &mut $crate::reply::Reply<'_>,
        ) -> Result<(), $crate::errors::CommandError> {
            match opcode.byte() {
                $($number => $run,)*
                number => unreachable!("number {number} is of another family"),
            }
        }
    };
    (
        control;
        $($op:ident = $number:literal { run: $verb:ident, $($fact:tt)* })*
    ) => {
        $crate::command::entry::entries! {
            $($op = $number, $crate::command::Command::Control($crate::command::Control::$verb), { $($fact)* })*
        }
    };
}

/// The fields that all kinds of entries have.
macro_rules! entries {
    ($($op:ident = $number:literal, $command:expr, {
        name: $name:literal, arity: $arity:literal, flags: $flags:expr, keys: $keys:expr, group: $group:literal,
        since: $since:literal, summary: $summary:literal, $($field:ident: $value:expr,)*
    })*) => {
        /// These commands.
        pub mod op {
            $(pub const $op: $crate::command::Opcode = $crate::command::Opcode::numbered($number);)*
        }

        /// Their entries.
        #[allow(clippy::needless_update, reason = "few subcommands say all")]
        pub(super) const ENTRIES: &[$crate::command::Spec] = {
            #[allow(unused_imports, reason = "not every family has need of all")]
            use $crate::command::entry::words::*;
            &[$($crate::command::Spec {
                opcode: $crate::command::Opcode::numbered($number),
                command: $command,
                name: $name,
                arity: $arity,
                flags: Flags($flags),
                keys: $keys.0,
                keyless: $keys.1,
                group: $group,
                since: $since,
                summary: $summary,
                $($field: $value,)*
                ..$crate::command::Spec::BARE
            },)*]
        };
    };
}

/// Second words that change what a command does. `help "5.0.0" {}` is Redis's, since that version, and `our_help` ours.
macro_rules! subcommands {
    ($command:literal: $($name:tt $arity:literal $facts:tt)*) => {
        &[$($crate::command::entry::subcommand!($command $name $arity $facts),)*]
    };
}

/// One of them.
macro_rules! subcommand {
    ($command:literal help $since:literal { $($fact:tt)* }) => {
        $crate::command::entry::subcommand!($command "help" 2 {
            flags: LOADING | STALE,
            docs: concat!(
                "summary Show helpful text about the different subcommands\nsince ", $since, "\ncomplexity O(1)"
            ),
            $($fact)*
        })
    };
    ($command:literal our_help $since:literal { $($fact:tt)* }) => {
        $crate::command::entry::subcommand!($command "help" 2 {
            docs: concat!("summary Show helpful text about the different subcommands\nsince ", $since),
            $($fact)*
        })
    };
    ($command:literal $name:literal $arity:literal { $($field:ident: $value:expr),* $(,)? }) => {
        $crate::command::Subcommand {
            name: $name,
            full_name: concat!($command, "|", $name),
            arity: $arity,
            $($field: $crate::command::entry::fact!($field $value),)*
            ..$crate::command::Subcommand::BARE
        }
    };
}

/// A field of a subcommand, which may be left out for its command's.
macro_rules! fact {
    (flags $value:expr) => {
        Some(Flags($value))
    };
    (categories $value:expr) => {
        Some($value)
    };
    ($field:ident $value:expr) => {
        $value
    };
}

pub(crate) use {commands, entries, fact, subcommand, subcommands};
