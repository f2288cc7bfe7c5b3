//! Deadlines: EXPIRE and its like, TTL and its like, PERSIST.

use highwater_core::Transaction;

use super::words::{integer, is};
use crate::command::entry::commands;
use crate::errors::CommandError;
use crate::keyspace::{Done, Keyspace};
use crate::reply::Reply;
use crate::request::Args;

commands! {
    data(args, keyspace, reply);

    EXPIRE = 35 {
        run: expire(args, ("expire", Unit::Seconds), keyspace, reply),
        name: "expire", arity: -3, flags: WRITE | FAST, keys: ONE_KEY, group: "generic", since: "1.0.0",
        summary: "Set a key's time to live in seconds",
        specs: "RW,update index 1 range 0 1 0",
        docs: "
            complexity O(1)
            history 7.0.0 Added options: `NX`, `XX`, `GT` and `LT`.
            - key: key #0
            - seconds: integer
            - condition: oneof @7.0.0 optional
            -- nx: pure-token 'NX'
            -- xx: pure-token 'XX'
            -- gt: pure-token 'GT'
            -- lt: pure-token 'LT'
        ",
    }

    PEXPIRE = 36 {
        run: expire(args, ("pexpire", Unit::Milliseconds), keyspace, reply),
        name: "pexpire", arity: -3, flags: WRITE | FAST, keys: ONE_KEY, group: "generic", since: "2.6.0",
        summary: "Set a key's time to live in milliseconds",
        specs: "RW,update index 1 range 0 1 0",
        docs: "
            complexity O(1)
            history 7.0.0 Added options: `NX`, `XX`, `GT` and `LT`.
            - key: key #0
            - milliseconds: integer
            - condition: oneof @7.0.0 optional
            -- nx: pure-token 'NX'
            -- xx: pure-token 'XX'
            -- gt: pure-token 'GT'
            -- lt: pure-token 'LT'
        ",
    }

    EXPIREAT = 37 {
        run: expire(args, ("expireat", Unit::UnixSeconds), keyspace, reply),
        name: "expireat", arity: -3, flags: WRITE | FAST, keys: ONE_KEY, group: "generic", since: "1.2.0",
        summary: "Set the expiration for a key as a UNIX timestamp",
        specs: "RW,update index 1 range 0 1 0",
        docs: "
            complexity O(1)
            history 7.0.0 Added options: `NX`, `XX`, `GT` and `LT`.
            - key: key #0
            - unix-time-seconds: unix-time
            - condition: oneof @7.0.0 optional
            -- nx: pure-token 'NX'
            -- xx: pure-token 'XX'
            -- gt: pure-token 'GT'
            -- lt: pure-token 'LT'
        ",
    }

    PEXPIREAT = 38 {
        run: expire(args, ("pexpireat", Unit::UnixMilliseconds), keyspace, reply),
        name: "pexpireat", arity: -3, flags: WRITE | FAST, keys: ONE_KEY, group: "generic", since: "2.6.0",
        summary: "Set the expiration for a key as a UNIX timestamp specified in milliseconds",
        specs: "RW,update index 1 range 0 1 0",
        docs: "
            complexity O(1)
            history 7.0.0 Added options: `NX`, `XX`, `GT` and `LT`.
            - key: key #0
            - unix-time-milliseconds: unix-time
            - condition: oneof @7.0.0 optional
            -- nx: pure-token 'NX'
            -- xx: pure-token 'XX'
            -- gt: pure-token 'GT'
            -- lt: pure-token 'LT'
        ",
    }

    TTL = 39 {
        run: ttl(args, Unit::Seconds, keyspace, reply),
        name: "ttl", arity: 2, flags: READONLY | FAST, keys: ONE_KEY, group: "generic", since: "1.0.0",
        summary: "Get the time to live for a key in seconds",
        specs: "RO,access index 1 range 0 1 0",
        tips: "nondeterministic_output",
        docs: "
            complexity O(1)
            history 2.8.0 Added the -2 reply.
            - key: key #0
        ",
    }

    PTTL = 40 {
        run: ttl(args, Unit::Milliseconds, keyspace, reply),
        name: "pttl", arity: 2, flags: READONLY | FAST, keys: ONE_KEY, group: "generic", since: "2.6.0",
        summary: "Get the time to live for a key in milliseconds",
        specs: "RO,access index 1 range 0 1 0",
        tips: "nondeterministic_output",
        docs: "
            complexity O(1)
            history 2.8.0 Added the -2 reply.
            - key: key #0
        ",
    }

    EXPIRETIME = 41 {
        run: ttl(args, Unit::UnixSeconds, keyspace, reply),
        name: "expiretime", arity: 2, flags: READONLY | FAST, keys: ONE_KEY, group: "generic", since: "7.0.0",
        summary: "Get the expiration Unix timestamp for a key",
        specs: "RO,access index 1 range 0 1 0",
        docs: "
            complexity O(1)
            - key: key #0
        ",
    }

    PEXPIRETIME = 42 {
        run: ttl(args, Unit::UnixMilliseconds, keyspace, reply),
        name: "pexpiretime", arity: 2, flags: READONLY | FAST, keys: ONE_KEY, group: "generic",
        since: "7.0.0",
        summary: "Get the expiration Unix timestamp for a key in milliseconds",
        specs: "RO,access index 1 range 0 1 0",
        docs: "
            complexity O(1)
            - key: key #0
        ",
    }

    PERSIST = 43 {
        run: persist(args, keyspace, reply),
        name: "persist", arity: 2, flags: WRITE | FAST, keys: ONE_KEY, group: "generic", since: "2.2.0",
        summary: "Remove the expiration from a key",
        specs: "RW,update index 1 range 0 1 0",
        docs: "
            complexity O(1)
            - key: key #0
        ",
    }
}

/// How a deadline is given or told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Seconds from now.
    Seconds,
    /// Milliseconds from now.
    Milliseconds,
    /// Unix time in seconds.
    UnixSeconds,
    /// Unix time in milliseconds.
    UnixMilliseconds,
}

impl Unit {
    /// All of them.
    pub const ALL: [Unit; 4] = [Unit::Seconds, Unit::Milliseconds, Unit::UnixSeconds, Unit::UnixMilliseconds];

    /// The option of `SET` and `GETEX`.
    pub fn option(self) -> &'static str {
        match self {
            Unit::Seconds => "ex",
            Unit::Milliseconds => "px",
            Unit::UnixSeconds => "exat",
            Unit::UnixMilliseconds => "pxat",
        }
    }

    fn counts_seconds(self) -> bool {
        matches!(self, Unit::Seconds | Unit::UnixSeconds)
    }

    fn is_relative(self) -> bool {
        matches!(self, Unit::Seconds | Unit::Milliseconds)
    }

    /// Unix time in ms; `None` if that leaves 64 bits.
    fn unix_ms(self, number: i64, now: u64) -> Option<i64> {
        let ms = if self.counts_seconds() { number.checked_mul(1000)? } else { number };
        if self.is_relative() { ms.checked_add(now as i64) } else { Some(ms) }
    }
}

/// A deadline that must be one, of an option.
pub fn deadline(command: &'static str, unit: Unit, number: &[u8], now: u64) -> Result<u64, CommandError> {
    let number = integer(number)?;
    let at = (number > 0).then(|| unit.unix_ms(number, now)).flatten();
    Ok(at.ok_or(CommandError::InvalidExpiry(command))? as u64)
}

/// When an `EXPIRE` counts.
#[derive(Clone, Copy, Debug, Default)]
struct Conditions {
    missing: bool,
    present: bool,
    later: bool,
    earlier: bool,
}

impl Conditions {
    fn parse(options: Args<'_>) -> Result<Conditions, CommandError> {
        let mut given = Conditions::default();
        for option in options {
            match option {
                _ if is(option, "nx") => given.missing = true,
                _ if is(option, "xx") => given.present = true,
                _ if is(option, "gt") => given.later = true,
                _ if is(option, "lt") => given.earlier = true,
                _ => {
                    let option = String::from_utf8_lossy(option).into_owned();
                    return Err(CommandError::UnsupportedOption(option));
                }
            }
        }
        if given.missing && (given.present || given.later || given.earlier) {
            return Err(CommandError::Text(
                "ERR NX and XX, GT or LT options at the same time are not compatible",
            ));
        }
        if given.later && given.earlier {
            return Err(CommandError::Text("ERR GT and LT options at the same time are not compatible"));
        }
        Ok(given)
    }

    /// Whether a deadline may take the place of the one that is there; 0 is none, and later than all.
    fn hold(self, old: u64, new: i64) -> bool {
        let old = (old != 0).then_some(old as i64);
        !(self.missing && old.is_some()
            || self.present && old.is_none()
            || self.later && old.is_none_or(|old| new <= old)
            || self.earlier && old.is_some_and(|old| new >= old))
    }
}

/// `EXPIRE key seconds [NX | XX | GT | LT]`, `PEXPIRE`, `EXPIREAT`, `PEXPIREAT`: 1 if it counts.
pub fn expire<T: Transaction>(
    mut args: Args<'_>,
    (name, unit): (&'static str, Unit),
    keyspace: &mut Keyspace<'_, T>,
    reply: &mut Reply<'_>,
) -> Done {
    let (key, number) = (args.promised()?, args.promised()?);
    let conditions = Conditions::parse(args)?;
    let number = integer(number)?;
    let at = unit.unix_ms(number, keyspace.now()).ok_or(CommandError::InvalidExpiry(name))?;
    let counts = match keyspace.head(key)? {
        None => false,
        Some(head) => conditions.hold(head.deadline, at),
    };
    if counts {
        // Not 0, which is none: that is long ago as well.
        keyspace.set_deadline(key, at.max(1) as u64)?;
    }
    reply.integer(counts.into());
    Ok(())
}

/// `TTL key`, `PTTL`, `EXPIRETIME`, `PEXPIRETIME`: -1 if it does not expire, -2 if it does not exist.
pub fn ttl<T: Transaction>(
    mut args: Args<'_>,
    unit: Unit,
    keyspace: &mut Keyspace<'_, T>,
    reply: &mut Reply<'_>,
) -> Done {
    let now = keyspace.now();
    let told = match keyspace.head(args.promised()?)? {
        None => -2,
        Some(head) if head.deadline == 0 => -1,
        Some(head) => {
            let ms = if unit.is_relative() { head.deadline - now } else { head.deadline } as i64;
            if unit.counts_seconds() { ((ms as u64 + 500) / 1000) as i64 } else { ms }
        }
    };
    reply.integer(told);
    Ok(())
}

/// `PERSIST key`: 1 if it had a deadline.
pub fn persist<T: Transaction>(
    mut args: Args<'_>,
    keyspace: &mut Keyspace<'_, T>,
    reply: &mut Reply<'_>,
) -> Done {
    let key = args.promised()?;
    let had = keyspace.head(key)?.is_some_and(|head| head.deadline != 0);
    if had {
        keyspace.set_deadline(key, 0)?;
    }
    reply.integer(had.into());
    Ok(())
}
