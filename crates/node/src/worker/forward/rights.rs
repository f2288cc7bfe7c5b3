//! Whether the user in whose name a node forwards a request may ask it, by the users of the node that serves.

use highwater_core::codec::{Malformed, Reader};

use super::message::Ask;
use crate::resp::acl::{User, may};
use crate::resp::command::Opcode;
use crate::resp::errors::CommandError;
use crate::resp::moment::Moment;
use crate::resp::request::{Args, Framing, Step, Watch};
use crate::resp::{Procedures, interactive};

/// Looks at every command of a request. `names`: those of procedures, by id.
///
/// # Errors
/// What its client is told.
pub fn check(
    user: &User,
    ask: &Ask,
    args: &[u8],
    procedures: Procedures,
    names: &[&str],
) -> Result<(), CommandError> {
    if user.may_everything() {
        return Ok(());
    }
    let mut denied = Ok(());
    let mut visit = |opcode: Opcode, args: Args<'_>| {
        if denied.is_ok() {
            denied = may(user, opcode, args).map_err(|denied| denied.error());
        }
    };
    if ask.session.is_some() {
        visit(named(b"hw.once"), Args::none());
    }
    let read = match ask.procedure {
        exec if exec == procedures.exec => executed(args, &ask.user, &mut visit),
        watch if watch == procedures.watch => watched(args, &mut visit),
        interact if interact == procedures.interact => {
            visit(named(interactive::name_of(args)), Args::none());
            interactive::commands(args, &mut visit)
        }
        users if users == procedures.users => changed(args, &mut visit),
        other => {
            let name = names.get(usize::from(other.0)).copied().unwrap_or_default();
            with_words(&[name.as_bytes()], |words| visit(named(b"hw.call"), words))
        }
    };
    // What cannot be read is not run: the procedure would say so, too, but not who asked.
    read.map_err(|_| CommandError::Syntax)?;
    denied
}

fn named(name: &[u8]) -> Opcode {
    Opcode::find(name).expect("there is such a row")
}

fn with_words(words: &[&[u8]], look: impl FnOnce(Args<'_>)) -> Result<(), Malformed> {
    let mut encoded = Vec::new();
    Args::encode(words.iter().copied(), &mut encoded);
    look(Args::decode(&mut Reader::new(&encoded))?);
    Ok(())
}

fn executed(args: &[u8], name: &[u8], visit: &mut impl FnMut(Opcode, Args<'_>)) -> Result<(), Malformed> {
    let mut reader = Reader::new(args);
    Moment::decode(&mut reader)?;
    Framing::decode(&mut reader)?;
    for _ in 0..reader.varint()? {
        Watch::decode(&mut reader)?;
    }
    for _ in 0..reader.varint()? {
        if let Step::Command { opcode, args, user } = Step::decode(&mut reader)? {
            // It looks at the rules of whom its step names. The node that wrote it may not have heard yet that its user has any.
            let spec = opcode.spec();
            if (spec.asks_rules() || spec.asks_caller()) && user != Some(name) {
                return Err(Malformed("user of a command"));
            }
            visit(opcode, args);
        }
    }
    Ok(())
}

fn watched(args: &[u8], visit: &mut impl FnMut(Opcode, Args<'_>)) -> Result<(), Malformed> {
    let mut reader = Reader::new(args);
    Moment::decode(&mut reader)?;
    visit(named(b"watch"), Args::decode(&mut reader)?);
    Ok(())
}

/// A change of users says which one it is; no client asks for another one.
fn changed(args: &[u8], visit: &mut impl FnMut(Opcode, Args<'_>)) -> Result<(), Malformed> {
    let words = crate::resp::acl::change::asked(args).ok_or(Malformed("change of users"))?;
    with_words(&[words], |words| visit(named(b"acl"), words))
}
