//! Strings as integers of any width: BITFIELD and BITFIELD_RO.

use highwater_core::Transaction;

use super::bits::offset;
use super::strings::is_short;
use super::words::{integer, is};
use crate::command::entry::commands;
use crate::command::{READ, WRITE};
use crate::errors::CommandError;
use crate::keyspace::{Done, Keyspace, check_value};
use crate::number::parse_integer;
use crate::reply::Reply;
use crate::request::Args;

commands! {
    data(args, keyspace, reply);

    BITFIELD = 33 {
        run: bitfield(args, false, keyspace, reply),
        name: "bitfield", arity: -2, flags: WRITE | DENYOOM, keys: ONE_KEY, group: "bitmap", since: "3.2.0",
        summary: "Perform arbitrary bitfield integer operations on strings",
        specs: "RW,access,update,variable_flags index 1 range 0 1 0",
        narrows: Some(uses_of_bitfield),
        docs: "
            complexity O(N) where N is the length of the string afterwards, for each subcommand that writes; O(1) for each that reads
            - key: key #0
            - operation: oneof optional multiple
            -- encoding_offset: block 'GET'
            --- encoding: string
            --- offset: integer
            -- write: block
            --- wrap_sat_fail: oneof 'OVERFLOW' optional
            ---- wrap: pure-token 'WRAP'
            ---- sat: pure-token 'SAT'
            ---- fail: pure-token 'FAIL'
            --- write_operation: oneof
            ---- encoding_offset_value: block 'SET'
            ----- encoding: string
            ----- offset: integer
            ----- value: integer
            ---- encoding_offset_increment: block 'INCRBY'
            ----- encoding: string
            ----- offset: integer
            ----- increment: integer
        ",
    }

    BITFIELD_RO = 34 {
        run: bitfield(args, true, keyspace, reply),
        name: "bitfield_ro", arity: -2, flags: READONLY | FAST, keys: ONE_KEY, group: "bitmap",
        since: "6.0.0",
        summary: "Perform arbitrary bitfield integer operations on strings. Read-only variant of BITFIELD",
        specs: "RO,access index 1 range 0 1 0",
        docs: "
            complexity O(1) for each subcommand specified
            - key: key #0
            - encoding_offset: block 'GET' optional multiple multiple_token
            -- encoding: string
            -- offset: integer
        ",
    }
}

/// The type of a field: `i` or `u` and its width in bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Field {
    signed: bool,
    width: u32,
}

impl Field {
    fn parse(word: &[u8]) -> Result<Field, CommandError> {
        let (signed, width) = match word {
            [b'i', width @ ..] => (true, width),
            [b'u', width @ ..] => (false, width),
            _ => (false, &[][..]),
        };
        let most = if signed { 64 } else { 63 };
        match parse_integer(width) {
            Some(width) if (1..=most).contains(&width) => Ok(Field { signed, width: width as u32 }),
            _ => Err(CommandError::Text(
                "ERR Invalid bitfield type. Use something like i16 u8. Note that u64 is not supported but i64 is.",
            )),
        }
    }

    fn bounds(self) -> (i128, i128) {
        match self.signed {
            true => (-(1 << (self.width - 1)), (1 << (self.width - 1)) - 1),
            false => (0, (1 << self.width) - 1),
        }
    }

    /// Its lowest bits alone.
    fn wrapped(self, value: i128) -> i128 {
        let low = value & ((1 << self.width) - 1);
        let negative = self.signed && low >> (self.width - 1) == 1;
        if negative { low - (1 << self.width) } else { low }
    }

    fn read(self, value: &[u8], at: usize) -> i128 {
        let bit = |at: usize| value.get(at / 8).map_or(0, |byte| i128::from(byte >> (7 - at % 8) & 1));
        self.wrapped((at..at + self.width as usize).fold(0, |sum, at| sum << 1 | bit(at)))
    }

    fn write(self, value: &mut [u8], at: usize, number: i128) {
        for step in 0..self.width as usize {
            let bit = (number >> (self.width as usize - 1 - step) & 1) as u8;
            let (byte, shift) = (&mut value[(at + step) / 8], 7 - (at + step) % 8);
            *byte = *byte & !(1 << shift) | bit << shift;
        }
    }
}

/// What is done to a number that does not fit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Overflow {
    Wrap,
    Saturate,
    Fail,
}

impl Overflow {
    fn parse(word: &[u8]) -> Result<Overflow, CommandError> {
        match word {
            _ if is(word, "wrap") => Ok(Overflow::Wrap),
            _ if is(word, "sat") => Ok(Overflow::Saturate),
            _ if is(word, "fail") => Ok(Overflow::Fail),
            _ => Err(CommandError::Text("ERR Invalid OVERFLOW type specified")),
        }
    }

    fn fit(self, field: Field, number: i128) -> Option<i128> {
        let (low, high) = field.bounds();
        match self {
            _ if (low..=high).contains(&number) => Some(number),
            Overflow::Wrap => Some(field.wrapped(number)),
            Overflow::Saturate => Some(number.clamp(low, high)),
            Overflow::Fail => None,
        }
    }
}

enum Action {
    Get,
    Set(i64),
    Add(i64),
}

struct Operation {
    field: Field,
    at: usize,
    action: Action,
    overflow: Overflow,
}

fn parse(mut args: Args<'_>) -> Result<Vec<Operation>, CommandError> {
    let (mut operations, mut overflow) = (Vec::new(), Overflow::Wrap);
    while let Some(word) = args.next() {
        let words = match word {
            _ if is(word, "get") => 2,
            _ if is(word, "set") || is(word, "incrby") => 3,
            _ if is(word, "overflow") => 1,
            _ => return Err(CommandError::Syntax),
        };
        if args.len() < words {
            return Err(CommandError::Syntax);
        }
        if words == 1 {
            overflow = Overflow::parse(args.promised()?)?;
            continue;
        }
        let field = Field::parse(args.promised()?)?;
        let at = offset(args.promised()?, Some(field.width.into()))?;
        let action = match word {
            _ if words == 2 => Action::Get,
            _ if is(word, "set") => Action::Set(integer(args.promised()?)?),
            _ => Action::Add(integer(args.promised()?)?),
        };
        operations.push(Operation { field, at, action, overflow });
    }
    Ok(operations)
}

/// `BITFIELD key [GET type offset | [OVERFLOW WRAP | SAT | FAIL] SET type offset value | INCRBY type offset increment ..]`; `only_reads`:
/// `BITFIELD_RO`.
pub fn bitfield<T: Transaction>(
    mut args: Args<'_>,
    only_reads: bool,
    keyspace: &mut Keyspace<'_, T>,
    reply: &mut Reply<'_>,
) -> Done {
    let key = args.promised()?;
    let operations = parse(args)?;
    let writes = operations.iter().filter(|operation| !matches!(operation.action, Action::Get));
    let needed = writes.map(|operation| (operation.at + operation.field.width as usize).div_ceil(8)).max();
    if only_reads && needed.is_some() {
        return Err(CommandError::Text("ERR BITFIELD_RO only supports the GET subcommand").into());
    }
    let mut value = keyspace.get(key)?.unwrap_or_default().to_vec();
    if let Some(needed) = needed {
        check_value(needed)?;
        value.resize(value.len().max(needed), 0);
    }
    reply.array(operations.len());
    let mut changed = false;
    for Operation { field, at, action, overflow } in operations {
        let old = field.read(&value, at);
        let (new, told) = match action {
            Action::Get => (None, Some(old)),
            Action::Set(number) => {
                // As a field of its own kind sees the bits of 64.
                let number = if field.signed { number.into() } else { (number as u64).into() };
                let new = overflow.fit(field, number);
                (new, new.map(|_| old))
            }
            Action::Add(number) => {
                let new = overflow.fit(field, old + i128::from(number));
                (new, new)
            }
        };
        if let Some(new) = new {
            field.write(&mut value, at, new);
            changed = true;
        }
        match told {
            Some(told) => reply.integer(told as i64),
            None => reply.null(),
        }
    }
    if changed || needed.is_some() {
        keyspace.change(key, &value, is_short(value.len()))?;
    }
    Ok(())
}

/// It only reads, if all of it does.
fn uses_of_bitfield(args: Args<'_>) -> u8 {
    if only_gets(args) { READ } else { READ | WRITE }
}

/// Whether a `BITFIELD` reads only.
fn only_gets(mut args: Args<'_>) -> bool {
    args.next();
    while let Some(word) = args.next() {
        if !word.eq_ignore_ascii_case(b"get") || args.len() < 2 {
            // `OVERFLOW` alone changes nothing.
            if word.eq_ignore_ascii_case(b"overflow") && args.next().is_some() {
                continue;
            }
            return false;
        }
        args.nth(1);
    }
    true
}
