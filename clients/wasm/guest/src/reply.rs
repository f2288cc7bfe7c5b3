//! The reply, value by value. A procedure that writes none answers `OK`; one that begins an array writes as many values behind it.

use crate::abi;

/// No value.
pub fn null() {
    // SAFETY: it takes no pointers.
    unsafe { abi::reply_null() }
}

/// An integer.
pub fn integer(value: i64) {
    // SAFETY: it takes no pointers.
    unsafe { abi::reply_integer(value) }
}

/// A number in floating point.
pub fn double(value: f64) {
    // SAFETY: it takes no pointers.
    unsafe { abi::reply_double(value) }
}

/// A string of any bytes.
pub fn bytes(value: &[u8]) {
    // SAFETY: they live longer than the call.
    unsafe { abi::reply_bytes(value.as_ptr(), value.len()) }
}

/// A short text: a status, or the name of a field.
pub fn text(value: &str) {
    // SAFETY: it lives longer than the call.
    unsafe { abi::reply_text(value.as_ptr(), value.len()) }
}

/// An array; so many values follow.
pub fn array(len: usize) {
    // SAFETY: it takes no pointers.
    unsafe { abi::reply_array(len as u32) }
}

/// A map; so many pairs of values follow.
pub fn map(len: usize) {
    // SAFETY: it takes no pointers.
    unsafe { abi::reply_map(len as u32) }
}
