//! Whether a user may ask what stands in a request, by the rules as they are now: one that another node forwards, and one that has waited since it
//! was admitted.

use highwater_core::ProcedureId;
use highwater_core::codec::{Malformed, Reader};

use super::{User, may};
use crate::command::Opcode;
use crate::errors::CommandError;
use crate::moment::Moment;
use crate::request::{Args, Framing, Step, Watch};
use crate::{Procedures, interactive};

/// A request but for its arguments.
pub struct Asked<'a> {
    /// The name of the user who asks.
    pub user: &'a [u8],
    /// The procedure, and what clients call it.
    pub procedure: ProcedureId,
    /// See `procedure`.
    pub name: &'a str,
    /// Under a session.
    pub once: bool,
}

/// Looks at every command of a request.
///
/// # Errors
/// What its client is told.
pub fn check(
    user: &User,
    asked: &Asked<'_>,
    args: &[u8],
    procedures: Procedures,
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
    if asked.once {
        visit(named(b"hw.once"), Args::none());
    }
    let read = match asked.procedure {
        exec if exec == procedures.exec => executed(args, asked.user, &mut visit),
        watch if watch == procedures.watch => watched(args, &mut visit),
        interact if interact == procedures.interact => {
            visit(named(interactive::name_of(args)), Args::none());
            interactive::commands(args, &mut visit)
        }
        users if users == procedures.users => changed(args, &mut visit),
        _ => with_words(&[asked.name.as_bytes()], |words| visit(named(b"hw.call"), words)),
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
    let words = crate::acl::change::asked(args).ok_or(Malformed("change of users"))?;
    with_words(&[words], |words| visit(named(b"acl"), words))
}
