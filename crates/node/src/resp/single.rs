//! A command as it was typed becomes a request of its own: nothing watched, one command.
//!
//! The same bytes serve whatever the command turns out to be: a data command is sent as it stands, a queued one gives
//! its [`step`], a local one its [`args`], and a `WATCH` is cut down to its arguments.

use highwater_core::codec::{Reader, put_varint};

use super::command::Opcode;
use super::errors::CommandError;
use super::frame::Frame;
use super::reply::Protocol;
use super::request::{Args, Framing, Step};

/// Where the arguments stand: behind flags, two counts and the opcode, a byte each.
pub const ARGS_AT: usize = STEP_AT + 1;
const STEP_AT: usize = 3;

/// Checks a command and writes its request. `None`: an empty line, which gets no reply.
pub fn encode(
    frame: Frame<'_>,
    protocol: Protocol,
    request: &mut Vec<u8>,
) -> Result<Option<Opcode>, CommandError> {
    let mut words = frame.parts();
    let Some(name) = words.next() else { return Ok(None) };
    let Some(opcode) = Opcode::find(name) else { return Err(CommandError::unknown(name, words)) };
    opcode.spec().check(words.clone())?;
    request.clear();
    Framing { protocol, block: false }.encode(request);
    put_varint(request, 0);
    put_varint(request, 1);
    debug_assert_eq!(request.len(), STEP_AT);
    Step::encode_command(opcode, words, request);
    Ok(Some(opcode))
}

/// The command, as it stands among others in a block.
pub fn step(request: &[u8]) -> &[u8] {
    &request[STEP_AT..]
}

/// Its arguments.
pub fn args(request: &[u8]) -> Args<'_> {
    Args::decode(&mut Reader::new(&request[ARGS_AT..])).expect("encode wrote the arguments")
}
