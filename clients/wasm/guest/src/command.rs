//! Commands on data, as a client sends them: for hashes, lists, sets and whatever else has no function of its own.

use alloc::vec::Vec;

use crate::abi;

/// Runs a command; its reply as RESP2 bytes, an error (`-`) among them.
pub fn run(words: &[&[u8]]) -> Vec<u8> {
    let mut encoded = Vec::with_capacity(64);
    encoded.extend_from_slice(&(words.len() as u32).to_le_bytes());
    for word in words {
        encoded.extend_from_slice(&(word.len() as u32).to_le_bytes());
        encoded.extend_from_slice(word);
    }
    // SAFETY: the words live longer than the call, and `received` gives the place and the room there.
    let reply = abi::received(|to, room| unsafe { abi::command(encoded.as_ptr(), encoded.len(), to, room) });
    reply.unwrap_or_default()
}

/// The integer that a command answered; `None`: it answered something else.
pub fn integer(words: &[&[u8]]) -> Option<i64> {
    let reply = run(words);
    let text = reply.strip_prefix(b":")?.strip_suffix(b"\r\n")?;
    core::str::from_utf8(text).ok()?.parse().ok()
}
