//! A command as it was typed becomes a request of its own: nothing watched, one command.
//!
//! The same bytes serve whatever the command turns out to be: a data command is sent as it stands, a queued one gives
//! its [`step`], a local one its [`args`], and a `WATCH` is cut down to its arguments.

use highwater_core::codec::{Reader, put_varint};
use highwater_kit::sessions::Most;
use highwater_seam::{Owner, Session};

use super::Entropy;
use super::command::{Command, Control, Opcode};
use super::commands::op;
use super::commands::words::is;
use super::errors::CommandError;
use super::frame::Frame;
use super::moment::Moment;
use super::number::{Digits, parse_integer};
use super::reply::Protocol;
use super::request::{Args, Framing, Step};

/// Where the arguments stand: behind the moment, and flags, two counts and the opcode, a byte each.
pub const ARGS_AT: usize = STEP_AT + 1;
const STEP_AT: usize = Moment::BYTES + 3;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Typed {
    /// Which command.
    pub opcode: Opcode,
    /// `HW.ONCE` stood in front of it, and these words.
    pub session: Option<Session>,
}

/// Checks a command and writes its request. `None`: an empty line, which gets no reply. `owner`: whose sessions it may run under.
pub fn encode(
    frame: Frame<'_>,
    (protocol, owner): (Protocol, Owner),
    request: &mut Vec<u8>,
) -> Result<Option<Typed>, CommandError> {
    let mut words = frame.parts();
    let Some(name) = words.next() else { return Ok(None) };
    let mut opcode = find(name, &words)?;
    let mut session = None;
    if opcode.spec().command == Command::Control(Control::Once) && words.len() > 2 {
        session = Some(numbers(&mut words, owner)?);
        let name = words.next().expect("there are more than two");
        opcode = find(name, &words)?;
        if !opcode.spec().may_run_once() {
            return Err(CommandError::NotOnce);
        }
    }
    opcode = elsewhere(about_slots(opcode, &mut words), &mut words);
    request.clear();
    request.extend_from_slice(&Moment::default().bytes());
    Framing { protocol, block: false, again: false }.encode(request);
    put_varint(request, 0);
    put_varint(request, 1);
    debug_assert_eq!(request.len(), STEP_AT);
    Step::encode_command(opcode, words, request);
    Ok(Some(Typed { opcode, session }))
}

/// Writes the request of a command that nobody typed.
pub fn command<'a>(opcode: Opcode, words: impl ExactSizeIterator<Item = &'a [u8]>) -> Vec<u8> {
    let mut request = Moment::default().bytes().to_vec();
    Framing { protocol: Protocol::Resp2, block: false, again: false }.encode(&mut request);
    put_varint(&mut request, 0);
    put_varint(&mut request, 1);
    Step::encode_command(opcode, words, &mut request);
    request
}

fn find<'a>(
    name: &[u8],
    words: &(impl ExactSizeIterator<Item = &'a [u8]> + Clone),
) -> Result<Opcode, CommandError> {
    let Some(opcode) = Opcode::find(name) else { return Err(CommandError::unknown(name, words.clone())) };
    opcode.spec().check(words.clone())?;
    Ok(opcode)
}

/// `CLUSTER COUNTKEYSINSLOT` and `GETKEYSINSLOT` look at the data, as no other `CLUSTER ..` does: they become a command of their own.
fn about_slots<'a>(opcode: Opcode, words: &mut (impl ExactSizeIterator<Item = &'a [u8]> + Clone)) -> Opcode {
    if opcode != op::CLUSTER {
        return opcode;
    }
    let second = words.clone().next().unwrap_or_default();
    if !is(second, "countkeysinslot") && !is(second, "getkeysinslot") {
        return opcode;
    }
    words.next();
    op::HW_KEYSINSLOT
}

/// `DEBUG OBJECT` looks at the data, as no other `DEBUG ..` does, and `MEMORY` at none but for `USAGE`: they become commands of their own.
fn elsewhere<'a>(opcode: Opcode, words: &mut (impl ExactSizeIterator<Item = &'a [u8]> + Clone)) -> Opcode {
    let second = words.clone().next().unwrap_or_default();
    match opcode {
        op::DEBUG if is(second, "object") && words.len() >= 2 => {
            words.next();
            op::HW_DEBUGOBJECT
        }
        op::MEMORY if !is(second, "usage") && !is(second, "help") => op::HW_MEMORY,
        _ => opcode,
    }
}

/// A session and a number, of the next two words. Both are above 0.
pub fn numbers<'a>(
    words: &mut impl Iterator<Item = &'a [u8]>,
    owner: Owner,
) -> Result<Session, CommandError> {
    let mut number = || -> Result<u64, CommandError> {
        let number = parse_integer(words.next().ok_or(CommandError::Syntax)?);
        let number = number.and_then(|number| u64::try_from(number).ok()).filter(|number| *number > 0);
        number.ok_or(CommandError::NotAnInteger)
    };
    Ok(Session { id: number()?, sequence: number()?, owner })
}

/// Writes `HW.SESSION NEW` anew, with what its transaction has to know: how many sessions may be open, and what its id is made of, which nobody
/// must be able to guess. Another one stays as it is.
pub fn complete_session(
    request: &mut Vec<u8>,
    opcode: Opcode,
    most: Most,
    entropy: &Entropy,
) -> Result<(), CommandError> {
    let mut words = args(request);
    if !words.promised()?.eq_ignore_ascii_case(b"new") {
        return Ok(());
    }
    if words.next().is_some() {
        return Err(CommandError::WrongArity("hw.session|new"));
    }
    let mut nonce = [0; 8];
    if !entropy(&mut nonce) {
        return Err(CommandError::Text("ERR the system has no random numbers at the moment"));
    }
    let [all, each, nonce] = [most.of_all, most.of_each, u64::from_le_bytes(nonce)]
        .map(|number| Digits::new((number & i64::MAX as u64) as i64));
    let words = [&b"new"[..], all.as_bytes(), each.as_bytes(), nonce.as_bytes()];
    request.truncate(STEP_AT);
    Step::encode_command(opcode, words.into_iter(), request);
    Ok(())
}

/// Writes a command's arguments anew: as a step of it.
pub fn go_on(request: &mut Vec<u8>, args: impl FnOnce(&mut Vec<u8>)) {
    Framing::look_again(&mut request[Moment::BYTES]);
    request.truncate(ARGS_AT);
    args(request);
}

/// The same of one that begins.
pub fn begin(request: &mut Vec<u8>, args: impl FnOnce(&mut Vec<u8>)) {
    Framing::begin(&mut request[Moment::BYTES]);
    request.truncate(ARGS_AT);
    args(request);
}

/// Writes in front of a command that asks for it which user runs it. Its arguments have another place from here on.
pub fn sign(request: &mut Vec<u8>, user: &[u8]) {
    let mut signature = Vec::with_capacity(user.len() + 4);
    Step::encode_user(user, &mut signature);
    request.splice(STEP_AT..STEP_AT, signature);
}

/// Makes another command of it, with the same arguments.
pub fn rename(request: &mut [u8], opcode: Opcode) {
    request[STEP_AT] = opcode.byte();
}

/// Which command it is.
pub fn opcode(request: &[u8]) -> Opcode {
    Opcode::decode(request[STEP_AT]).expect("encode wrote the opcode")
}

/// The command, as it stands among others in a block.
pub fn step(request: &[u8]) -> &[u8] {
    &request[STEP_AT..]
}

/// Its arguments.
pub fn args(request: &[u8]) -> Args<'_> {
    Args::decode(&mut Reader::new(&request[ARGS_AT..])).expect("encode wrote the arguments")
}
