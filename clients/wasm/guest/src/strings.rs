//! Strings of the Redis keyspace. A key that holds another type ends the procedure with `WRONGTYPE`.

use alloc::string::{String, ToString};
use alloc::vec::Vec;

use crate::{Stop, abi};

/// The value of a key.
pub fn get(key: &[u8]) -> Option<Vec<u8>> {
    // SAFETY: the key lives longer than the call, and `received` gives the place and the room there.
    abi::received(|to, room| unsafe { abi::key_get(key.as_ptr(), key.len(), to, room) })
}

/// Sets a key, as `SET` does.
pub fn set(key: &[u8], value: &[u8]) {
    // SAFETY: both live longer than the call.
    unsafe { abi::key_set(key.as_ptr(), key.len(), value.as_ptr(), value.len()) }
}

/// Deletes a key, whatever it holds; whether there was one.
pub fn delete(key: &[u8]) -> bool {
    // SAFETY: the key lives longer than the call.
    unsafe { abi::key_delete(key.as_ptr(), key.len()) != 0 }
}

/// The value of a key that is a number, in digits, as `INCR` has it.
pub fn number(key: &[u8]) -> Result<Option<i64>, Stop> {
    let Some(value) = get(key) else { return Ok(None) };
    let text = String::from_utf8(value).map_err(|_| Stop("a value is no number".into()))?;
    text.parse().map(Some).map_err(|_| Stop("a value is no number".into()))
}

/// Sets a key to a number, in digits.
pub fn set_number(key: &[u8], value: i64) {
    set(key, value.to_string().as_bytes());
}
