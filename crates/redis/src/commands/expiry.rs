//! Deadlines: EXPIRE and its like, TTL and its like, PERSIST.

use highwater_core::Transaction;

use super::words::{integer, is};
use crate::errors::CommandError;
use crate::keyspace::{Done, Keyspace};
use crate::reply::Reply;
use crate::request::Args;

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
