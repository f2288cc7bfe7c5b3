//! `table.concat`, `insert`, `maxn` and `remove`: as Lua 5.1 has them, but that they look at the run's bounds between two steps.
//!
//! One step of theirs is quick or slow, as the script wants it: a place that is moved may be new in a table that is full, so that all of it is put
//! elsewhere; a number that becomes a text, or a step to the next key, may walk along a chain of thousands. Lua's own functions make millions of such steps
//! with no instruction in between, at which a run could be ended.
//!
//! # Safety
//! Each of them is called by [`costs`](crate::costs) in the place of Lua's function of that name, with the state that executes, on which the
//! arguments are, and with the function that looks at the bounds among its upvalues. An error passes through them: nothing here has to be dropped.

use std::mem::MaybeUninit;

use mlua::ffi::{self, lua_State};

use crate::costs::look;
use crate::watch::{self, owe};

/// Texts of up to so many bytes are put together on the stack.
const SHORT: usize = 1024;

/// One step was made.
unsafe fn step(state: *mut lua_State) {
    owe(1);
    if watch::is_due() {
        // SAFETY: as of this module.
        unsafe { look(state) };
    }
}

/// The table that is the first argument, and its length as Lua has it.
unsafe fn length(state: *mut lua_State) -> i32 {
    // SAFETY: as of this module.
    unsafe {
        ffi::luaL_checktype(state, 1, ffi::LUA_TTABLE);
        ffi::lua_objlen(state, 1) as i32
    }
}

unsafe fn integer_or(state: *mut lua_State, at: i32, otherwise: i32) -> i32 {
    // SAFETY: as of this module.
    unsafe { ffi::luaL_optinteger(state, at, otherwise.into()) as i32 }
}

/// Moves the item at `from` to `to`.
unsafe fn shift(state: *mut lua_State, from: i32, to: i32) {
    // SAFETY: as of this module; one place on the stack is taken and given back.
    unsafe {
        ffi::lua_rawgeti_(state, 1, from);
        ffi::lua_rawseti_(state, 1, to);
        step(state);
    }
}

/// `insert(t, [place,] value)`
pub unsafe extern "C-unwind" fn insert(state: *mut lua_State) -> i32 {
    // SAFETY: as of this module.
    unsafe {
        let end = length(state).wrapping_add(1);
        let place = match ffi::lua_gettop(state) {
            2 => end,
            3 => {
                let place = ffi::luaL_checkinteger(state, 2) as i32;
                let mut at = end.max(place);
                while at > place {
                    shift(state, at - 1, at);
                    at -= 1;
                }
                place
            }
            _ => return ffi::luaL_error(state, c"wrong number of arguments to 'insert'".as_ptr()),
        };
        ffi::lua_rawseti_(state, 1, place);
        0
    }
}

/// `remove(t, [place])`
pub unsafe extern "C-unwind" fn remove(state: *mut lua_State) -> i32 {
    // SAFETY: as of this module.
    unsafe {
        let end = length(state);
        let mut place = integer_or(state, 2, end);
        if place < 1 || place > end {
            return 0;
        }
        ffi::lua_rawgeti_(state, 1, place);
        while place < end {
            shift(state, place + 1, place);
            place += 1;
        }
        ffi::lua_pushnil(state);
        ffi::lua_rawseti_(state, 1, end);
        1
    }
}

/// `maxn(t)`
pub unsafe extern "C-unwind" fn maxn(state: *mut lua_State) -> i32 {
    // SAFETY: as of this module.
    unsafe {
        ffi::luaL_checktype(state, 1, ffi::LUA_TTABLE);
        let mut most = 0.0f64;
        ffi::lua_pushnil(state);
        while ffi::lua_next(state, 1) != 0 {
            ffi::lua_settop(state, -2);
            if ffi::lua_type(state, -1) == ffi::LUA_TNUMBER {
                most = most.max(ffi::lua_tonumber(state, -1));
            }
            step(state);
        }
        ffi::lua_pushnumber(state, most);
        1
    }
}

/// `concat(t, [separator, [first, [last]]])`
pub unsafe extern "C-unwind" fn concat(state: *mut lua_State) -> i32 {
    // SAFETY: as of this module. A text is alive while it is on the stack, or in the table, which nothing changes meanwhile; `Joined` says what is
    // written where.
    unsafe {
        let mut separator_bytes = 0;
        let separator = ffi::luaL_optlstring(state, 2, c"".as_ptr(), &raw mut separator_bytes);
        let separator = std::slice::from_raw_parts(separator.cast::<u8>(), separator_bytes);
        let end = length(state);
        let (first, last) = (i64::from(integer_or(state, 3, 1)), i64::from(integer_or(state, 4, end)));
        let mut bytes = 0usize;
        for at in first..=last {
            ffi::lua_rawgeti_(state, 1, at as i32);
            if ffi::lua_isstring(state, -1) == 0 {
                let name = ffi::lua_typename(state, ffi::lua_type(state, -1));
                let why = c"invalid value (%s) at index %d in table for 'concat'";
                return ffi::luaL_error(state, why.as_ptr(), name, at as i32);
            }
            bytes = bytes.saturating_add(item(state).len() + if at < last { separator.len() } else { 0 });
            ffi::lua_settop(state, -2);
            step(state);
        }
        let mut short = [MaybeUninit::<u8>::uninit(); SHORT];
        let start =
            if bytes <= SHORT { short.as_mut_ptr().cast() } else { ffi::lua_newuserdata(state, bytes) };
        let mut joined = Joined { start: start.cast(), bytes, written: 0 };
        for at in first..=last {
            ffi::lua_rawgeti_(state, 1, at as i32);
            joined.push(item(state));
            ffi::lua_settop(state, -2);
            if at < last {
                joined.push(separator);
            }
            step(state);
        }
        ffi::lua_pushlstring(state, joined.start.cast(), joined.written);
        1
    }
}

/// The text on top of the stack; a number there becomes one.
unsafe fn item<'a>(state: *mut lua_State) -> &'a [u8] {
    let mut len = 0;
    // SAFETY: `concat` knows that it is a text or a number.
    unsafe {
        let start = ffi::lua_tolstring(state, -1, &raw mut len);
        std::slice::from_raw_parts(start.cast(), len)
    }
}

/// Bytes that are put together.
struct Joined {
    /// There is room for so many from here.
    start: *mut u8,
    bytes: usize,
    written: usize,
}

impl Joined {
    unsafe fn push(&mut self, text: &[u8]) {
        assert!(text.len() <= self.bytes - self.written, "the items are as they were");
        // SAFETY: there is room, and Lua's strings are elsewhere.
        unsafe { self.start.add(self.written).copy_from_nonoverlapping(text.as_ptr(), text.len()) };
        self.written += text.len();
    }
}
