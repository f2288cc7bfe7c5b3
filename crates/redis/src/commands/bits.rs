//! Strings as bits, the highest of a byte first: SETBIT GETBIT BITCOUNT BITPOS BITOP.

use highwater_core::Transaction;
use highwater_core::limits::MAX_VALUE_BYTES;

use super::strings::is_short;
use super::words::{integer, is};
use crate::command::entry::commands;
use crate::errors::CommandError;
use crate::keyspace::{Done, Failure, Keyspace, check_value};
use crate::number::parse_integer;
use crate::reply::Reply;
use crate::request::Args;

commands! {
    data(args, keyspace, reply);

    SETBIT = 28 {
        run: setbit(args, keyspace, reply),
        name: "setbit", arity: 4, flags: WRITE | DENYOOM, keys: ONE_KEY, group: "bitmap", since: "2.2.0",
        summary: "Sets or clears the bit at offset in the string value stored at key",
        specs: "RW,access,update index 1 range 0 1 0",
        docs: "
            complexity O(N) where N is the length of the string afterwards
            - key: key #0
            - offset: integer
            - value: integer
        ",
    }

    GETBIT = 29 {
        run: getbit(args, keyspace, reply),
        name: "getbit", arity: 3, flags: READONLY | FAST, keys: ONE_KEY, group: "bitmap", since: "2.2.0",
        summary: "Returns the bit value at offset in the string value stored at key",
        specs: "RO,access index 1 range 0 1 0",
        docs: "
            complexity O(1)
            - key: key #0
            - offset: integer
        ",
    }

    BITCOUNT = 30 {
        run: bitcount(args, keyspace, reply),
        name: "bitcount", arity: -2, flags: READONLY, keys: ONE_KEY, group: "bitmap", since: "2.6.0",
        summary: "Count set bits in a string",
        specs: "RO,access index 1 range 0 1 0",
        docs: "
            complexity O(N)
            history 7.0.0 Added the `BYTE|BIT` option.
            - key: key #0
            - index: block optional
            -- start: integer
            -- end: integer
            -- index_unit: oneof @7.0.0 optional
            --- byte: pure-token 'BYTE'
            --- bit: pure-token 'BIT'
        ",
    }

    BITPOS = 31 {
        run: bitpos(args, keyspace, reply),
        name: "bitpos", arity: -3, flags: READONLY, keys: ONE_KEY, group: "bitmap", since: "2.8.7",
        summary: "Find first bit set or clear in a string",
        specs: "RO,access index 1 range 0 1 0",
        docs: "
            complexity O(N)
            history 7.0.0 Added the `BYTE|BIT` option.
            - key: key #0
            - bit: integer
            - index: block optional
            -- start: integer
            -- end_index: block optional
            --- end: integer
            --- index_unit: oneof @7.0.0 optional
            ---- byte: pure-token 'BYTE'
            ---- bit: pure-token 'BIT'
        ",
    }

    BITOP = 32 {
        run: bitop(args, keyspace, reply),
        name: "bitop", arity: -4, flags: WRITE | DENYOOM, keys: keys(2, -1, 1), group: "bitmap",
        since: "2.6.0",
        summary: "Perform bitwise operations between strings",
        specs: "OW,update index 2 range 0 1 0;RO,access index 3 range -1 1 0",
        docs: "
            complexity O(N)
            - operation: string
            - destkey: key #0
            - key: key #1 multiple
        ",
    }
}

/// Longest string of Redis, in bits: offsets beyond are none.
const MOST_BITS: i64 = 512 << 23;
const BAD_OFFSET: CommandError = CommandError::Text("ERR bit offset is not an integer or out of range");

/// An offset in bits: of fields of `width` bits if `#` stands in front.
pub fn offset(word: &[u8], width: Option<i64>) -> Result<usize, CommandError> {
    let (number, by) = match (word, width) {
        ([b'#', number @ ..], Some(width)) => (number, width),
        _ => (word, 1),
    };
    let offset = parse_integer(number).and_then(|number| number.checked_mul(by));
    match offset {
        Some(offset) if (0..MOST_BITS).contains(&offset) => Ok(offset as usize),
        _ => Err(BAD_OFFSET),
    }
}

/// `SETBIT key offset value`: the old bit.
pub fn setbit<T: Transaction>(
    mut args: Args<'_>,
    keyspace: &mut Keyspace<'_, T>,
    reply: &mut Reply<'_>,
) -> Done {
    let (key, at, bit) = (args.promised()?, args.promised()?, args.promised()?);
    let at = offset(at, None)?;
    let bit = parse_integer(bit).filter(|bit| *bit & !1 == 0);
    let bit = bit.ok_or(CommandError::Text("ERR bit is not an integer or out of range"))? as u8;
    let mut value = keyspace.get(key)?.unwrap_or_default().to_vec();
    check_value(at / 8 + 1)?;
    value.resize(value.len().max(at / 8 + 1), 0);
    let (byte, shift) = (&mut value[at / 8], 7 - at % 8);
    let old = *byte >> shift & 1;
    *byte = *byte & !(1 << shift) | bit << shift;
    keyspace.change(key, &value, is_short(value.len()))?;
    reply.integer(old.into());
    Ok(())
}

/// `GETBIT key offset`: 0 behind the end.
pub fn getbit<T: Transaction>(
    mut args: Args<'_>,
    keyspace: &mut Keyspace<'_, T>,
    reply: &mut Reply<'_>,
) -> Done {
    let (key, at) = (args.promised()?, offset(args.promised()?, None)?);
    let value = keyspace.get(key)?.unwrap_or_default();
    reply.integer(value.get(at / 8).map_or(0, |byte| i64::from(byte >> (7 - at % 8) & 1)));
    Ok(())
}

/// A part of a string, in bits: from one to the other, both included.
fn part(start: i64, end: i64, bits: bool, len: usize) -> Option<(usize, usize)> {
    let unit = if bits { 1 } else { 8 };
    let total = len as i64 * 8 / unit;
    let from_end = |at: i64| if at < 0 { total.saturating_add(at).max(0) } else { at };
    let (start, end) = (from_end(start), from_end(end).min(total - 1));
    (start <= end).then(|| ((start * unit) as usize, (end * unit + unit - 1) as usize))
}

/// `BYTE` or `BIT`.
fn counts_bits(word: Option<&[u8]>) -> Result<bool, CommandError> {
    match word {
        None => Ok(false),
        Some(word) if is(word, "byte") => Ok(false),
        Some(word) if is(word, "bit") => Ok(true),
        Some(_) => Err(CommandError::Syntax),
    }
}

/// The bits of a part that are set.
fn count(value: &[u8], (first, last): (usize, usize)) -> u64 {
    let bytes = &value[first / 8..=last / 8];
    let all: u64 = bytes.iter().map(|byte| u64::from(byte.count_ones())).sum();
    let before = value[first / 8] & !(0xff >> (first % 8));
    let behind = value[last / 8] & (0x7f >> (last % 8));
    all - u64::from(before.count_ones()) - u64::from(behind.count_ones())
}

/// `BITCOUNT key [start end [BYTE | BIT]]`
pub fn bitcount<T: Transaction>(
    mut args: Args<'_>,
    keyspace: &mut Keyspace<'_, T>,
    reply: &mut Reply<'_>,
) -> Done {
    let key = args.promised()?;
    let Some(value) = keyspace.get(key)? else {
        reply.integer(0);
        return Ok(());
    };
    let (start, end, bits) = match args.len() {
        0 => (0, -1, false),
        2 | 3 => {
            let (start, end) = (integer(args.promised()?)?, integer(args.promised()?)?);
            (start, end, counts_bits(args.next())?)
        }
        _ => return Err(CommandError::Syntax.into()),
    };
    let crossed = start < 0 && end < 0 && start > end;
    let part = part(start, end, bits, value.len()).filter(|_| !crossed);
    let counted = part.map_or(0, |part| count(value, part));
    reply.integer(counted as i64);
    Ok(())
}

/// `BITPOS key bit [start [end [BYTE | BIT]]]`: where the first such bit is, -1 if nowhere. A 0 is right behind the end, unless an end
/// was given.
pub fn bitpos<T: Transaction>(
    mut args: Args<'_>,
    keyspace: &mut Keyspace<'_, T>,
    reply: &mut Reply<'_>,
) -> Done {
    let (key, bit) = (args.promised()?, integer(args.promised()?)?);
    if bit & !1 != 0 {
        return Err(CommandError::Text("ERR The bit argument must be 1 or 0.").into());
    }
    let bit = bit == 1;
    let Some(value) = keyspace.get(key)? else {
        reply.integer(if bit { -1 } else { 0 });
        return Ok(());
    };
    if args.len() > 3 {
        return Err(CommandError::Syntax.into());
    }
    let bounded = args.len() >= 2;
    let start = args.next().map_or(Ok(0), integer)?;
    let (end, unit) = (args.next(), args.next());
    let bits = counts_bits(unit)?;
    let end = end.map_or(Ok(-1), integer)?;
    let found = part(start, end, bits, value.len()).map(|part| find(value, bit, part));
    reply.integer(match found {
        None => -1,
        Some(Some(at)) => at as i64,
        Some(None) if bit || bounded => -1,
        Some(None) => value.len() as i64 * 8,
    });
    Ok(())
}

fn find(value: &[u8], bit: bool, (first, last): (usize, usize)) -> Option<usize> {
    let none = if bit { 0x00 } else { 0xff };
    let mut at = first;
    while at <= last {
        if at % 8 == 0 && value[at / 8] == none {
            at += 8;
        } else if (value[at / 8] >> (7 - at % 8) & 1 == 1) == bit {
            return Some(at);
        } else {
            at += 1;
        }
    }
    None
}

/// `BITOP AND | OR | XOR | NOT destination key ..`: the length of the result, which is as long as the longest.
pub fn bitop<T: Transaction>(
    mut args: Args<'_>,
    keyspace: &mut Keyspace<'_, T>,
    reply: &mut Reply<'_>,
) -> Done {
    let (operation, to) = (args.promised()?, args.promised()?);
    let join: fn(u8, u8) -> u8 = match operation {
        _ if is(operation, "and") => |one, other| one & other,
        _ if is(operation, "or") => |one, other| one | other,
        _ if is(operation, "xor") => |one, other| one ^ other,
        _ if is(operation, "not") && args.len() != 1 => {
            return Err(CommandError::Text("ERR BITOP NOT must be called with a single source key.").into());
        }
        _ if is(operation, "not") => |one, _| !one,
        _ => return Err(CommandError::Syntax.into()),
    };
    let mut result = join_all(args, join, keyspace)?;
    if is(operation, "not") {
        result.iter_mut().for_each(|byte| *byte = join(*byte, 0));
    }
    if result.is_empty() {
        keyspace.remove(to)?;
    } else {
        keyspace.set_grown(to, &result, is_short(result.len()))?;
    }
    reply.integer(result.len() as i64);
    Ok(())
}

/// Joins the values; a shorter one goes on with zeros.
fn join_all<T: Transaction>(
    mut keys: Args<'_>,
    join: fn(u8, u8) -> u8,
    keyspace: &mut Keyspace<'_, T>,
) -> Result<Vec<u8>, Failure> {
    let mut result = keyspace.get(keys.promised()?)?.unwrap_or_default().to_vec();
    for key in keys {
        let other = keyspace.get(key)?.unwrap_or_default();
        result.resize(result.len().max(other.len()), 0);
        for (at, byte) in result.iter_mut().enumerate() {
            *byte = join(*byte, other.get(at).copied().unwrap_or(0));
        }
    }
    debug_assert!(result.len() <= MAX_VALUE_BYTES);
    Ok(result)
}
