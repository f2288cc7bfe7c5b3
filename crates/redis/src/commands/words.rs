//! Words of commands, read as options and numbers.

use crate::double::parse_double;
use crate::errors::CommandError;
use crate::number::parse_integer;
use crate::request::Args;

/// Whether a word is this option, in letters of any size.
#[inline]
pub fn is(word: &[u8], name: &str) -> bool {
    word.eq_ignore_ascii_case(name.as_bytes())
}

/// A word that must be an integer.
pub fn integer(word: &[u8]) -> Result<i64, CommandError> {
    parse_integer(word).ok_or(CommandError::NotAnInteger)
}

/// An integer of 32 bits, as Redis keeps the number of a database.
pub fn small_integer(word: &[u8]) -> Result<i32, CommandError> {
    i32::try_from(integer(word)?).map_err(|_| {
        CommandError::Text("ERR value is out of range, value must between -2147483648 and 2147483647")
    })
}

/// The next word, which must be an integer.
pub fn next_integer(args: &mut Args<'_>) -> Result<i64, CommandError> {
    integer(args.promised()?)
}

/// A word that must be a number in floating point.
pub fn float(word: &[u8]) -> Result<f64, CommandError> {
    parse_double(word).ok_or(CommandError::NotAFloat)
}

/// An integer that must not be negative.
pub fn unsigned(word: &[u8], otherwise: &'static str) -> Result<u64, CommandError> {
    let number = parse_integer(word).and_then(|number| u64::try_from(number).ok());
    number.ok_or(CommandError::Text(otherwise))
}

/// A count that chooses at random: negative, the same may be chosen again. `most`: how many there may be.
pub fn random_count(word: &[u8], most: i64) -> Result<i64, CommandError> {
    let count = integer(word)?;
    if count == i64::MIN {
        return Err(CommandError::Text(
            "ERR value is out of range, value must between -9223372036854775807 and 9223372036854775807",
        ));
    }
    if count.abs() > most {
        return Err(CommandError::Text("ERR value is out of range"));
    }
    Ok(count)
}

/// What Redis says of a negative count.
pub const MUST_BE_POSITIVE: &str = "ERR value is out of range, must be positive";

/// From one index to another, both included and counted from the end if negative, of so many: what is left of it.
pub fn range(start: i64, stop: i64, len: u64) -> Option<(u64, u64)> {
    let len = i64::try_from(len).unwrap_or(i64::MAX);
    let from_end = |index: i64| if index < 0 { len.saturating_add(index) } else { index };
    let (start, stop) = (from_end(start).max(0), from_end(stop).min(len - 1));
    (start <= stop && start < len).then_some((start as u64, stop as u64))
}

/// `numkeys key ..`: the keys. `otherwise`: what is said if the number is not above 0.
pub fn counted_keys<'a>(args: &mut Args<'a>, otherwise: &'static str) -> Result<Vec<&'a [u8]>, CommandError> {
    let count = integer(args.promised()?).map_err(|_| CommandError::Text(otherwise))?;
    if count <= 0 {
        return Err(CommandError::Text(otherwise));
    }
    if count > args.len() as i64 {
        return Err(CommandError::Syntax);
    }
    Ok(args.by_ref().take(count as usize).collect())
}
