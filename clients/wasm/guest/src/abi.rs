//! The functions that the server gives: docs/internals/wasm.md says what each does.

#[link(wasm_import_module = "highwater1")]
unsafe extern "C" {
    pub fn arguments() -> u32;
    pub fn argument(at: u32, to: *mut u8, room: usize) -> i32;
    pub fn rest(to: *mut u8, room: usize) -> i32;
    pub fn table(name: *const u8, len: usize) -> i32;
    pub fn get(table: i32, key: *const u8, len: usize, to: *mut u8, room: usize) -> i32;
    pub fn put(table: i32, key: *const u8, len: usize, value: *const u8, value_len: usize);
    pub fn delete(table: i32, key: *const u8, len: usize) -> i32;
    #[allow(clippy::too_many_arguments)]
    pub fn scan(
        table: i32,
        from: *const u8,
        from_len: usize,
        to: *const u8,
        to_len: i32,
        backward: i32,
        limit: u32,
        rows: *mut u8,
        room: usize,
    ) -> i64;
    pub fn key_get(key: *const u8, len: usize, to: *mut u8, room: usize) -> i32;
    pub fn key_set(key: *const u8, len: usize, value: *const u8, value_len: usize);
    pub fn key_delete(key: *const u8, len: usize) -> i32;
    pub fn command(words: *const u8, len: usize, to: *mut u8, room: usize) -> i32;
    pub fn now() -> i64;
    pub fn random() -> i64;
    pub fn fail(text: *const u8, len: usize) -> !;
    pub fn reply_null();
    pub fn reply_integer(value: i64);
    pub fn reply_double(value: f64);
    pub fn reply_bytes(at: *const u8, len: usize);
    pub fn reply_text(at: *const u8, len: usize);
    pub fn reply_array(len: u32);
    pub fn reply_map(len: u32);
}

use alloc::vec::Vec;

/// Bytes for which there is room at the first try.
const ROOM: usize = 64;

/// What a function gives that is told where to put it: how much there is, or -1.
pub fn received(give: impl FnOnce(*mut u8, usize) -> i32) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(ROOM);
    let len = usize::try_from(give(bytes.as_mut_ptr(), ROOM)).ok()?;
    if len > ROOM {
        bytes.reserve_exact(len);
        // SAFETY: there is room for all of it.
        unsafe { rest(bytes.as_mut_ptr(), len) };
    }
    // SAFETY: the server wrote so many bytes.
    unsafe { bytes.set_len(len) };
    Some(bytes)
}
