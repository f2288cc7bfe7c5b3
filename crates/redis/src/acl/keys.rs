//! The keys of a command, or its table, and what it does with each.

use crate::command::{Command, Keyless, Opcode, Spec, flags};
pub use crate::command::{READ, WRITE};
use crate::commands::words::is;
use crate::number::parse_integer;
use crate::request::Args;

/// Patterns that begin so are about tables: what follows is matched with a table's name, and with no key. Of the other patterns, only `*`
/// is about tables, too.
pub const TABLE_PREFIX: &[u8] = b"hw.table:";

/// The table that a command names, and what it does with it. `None`: it names none.
pub fn table<'a>(opcode: Opcode, mut args: Args<'a>) -> Option<(&'a [u8], u8)> {
    let spec = opcode.spec();
    if spec.keyless != Some(Keyless::Table) {
        return None;
    }
    if spec.subcommands.is_empty() {
        // Whatever does not only read writes rows: `HW.PUT` and `HW.DEL` tell no more than whether there was one.
        return Some((args.next()?, if spec.reads() { READ } else { WRITE }));
    }
    let subcommand = args.next()?;
    match args.next() {
        Some(name) if is(subcommand, "describe") => Some((name, READ)),
        // `LIST` shows what may be read, and `HELP` names nothing; neither takes a name.
        Some(name) => Some((name, READ | WRITE)),
        None => None,
    }
}

/// Visits the keys among a command's arguments, with what is done to them, until `visit` says false. Words that make no sense
/// have none: such a command ends in an error.
pub fn visit<'a>(opcode: Opcode, args: Args<'a>, mut visit: impl FnMut(&'a [u8], u8) -> bool) {
    let spec = opcode.spec();
    if spec.keyless == Some(Keyless::OfSubcommands) {
        // Whoever asks for their help names no key.
        if let Some(key) = args.into_iter().nth(1) {
            visit(key, 0);
        }
        return;
    }
    let mut nth = 0;
    if spec.keys.first != 0 {
        let words = args.len() as i64 + 1;
        let last = if spec.keys.last < 0 { words + i64::from(spec.keys.last) } else { spec.keys.last.into() };
        let first = spec.keys.first as usize;
        let keys = args.enumerate().skip(first - 1).step_by(spec.keys.step as usize);
        for (at, key) in keys.take_while(|(at, _)| (*at as i64) < last) {
            debug_assert!(at + 1 >= first);
            if !visit(key, spec.uses(nth, args)) {
                return;
            }
            nth += 1;
        }
    }
    for key in counted(spec, args) {
        if !visit(key, spec.uses(nth, args)) {
            return;
        }
        nth += 1;
    }
}

/// The keys of which a word in front of them says how many there are; none if it is wrong.
pub fn counted<'a>(spec: &Spec, args: Args<'a>) -> impl Iterator<Item = &'a [u8]> {
    let mut rest = args;
    let mut count = 0;
    if spec.has(flags::MOVABLEKEYS) && spec.command == Command::Data {
        let number = rest.nth(count_at(spec)).and_then(parse_integer);
        count = number
            .and_then(|count| usize::try_from(count).ok())
            .filter(|count| *count <= rest.len())
            .unwrap_or(0);
    }
    rest.take(count)
}

/// Which argument is the count: behind a destination, a timeout, or a script.
fn count_at(spec: &Spec) -> usize {
    usize::from(spec.keys.first != 0 || spec.has(flags::BLOCKING) || spec.group == "scripting")
}
