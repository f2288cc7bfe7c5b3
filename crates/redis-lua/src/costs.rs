//! Stands in front of those functions of Lua's own libraries whose work grows with what they are given: says what they cost, and refuses
//! what overflows in C or has no end. They are called in place, so that their errors name them as ever.
//!
//! docs/internals/scripts.md has the table of every function of C that a script can reach, and what bounds it.

use std::ffi::CStr;

use mlua::ffi::{self, lua_CFunction, lua_State};
use mlua::{Function, Lua};

use crate::tables;
use crate::watch::{self, owe};

/// Most that C takes on Lua's stack for one function.
const MOST_RESULTS: i64 = 8_000;
/// Bytes of an element of a table. Its length is said to be as much as there is a number at, and may be a lie.
const ELEMENT_BYTES: usize = 16;
/// How far outside of a table something may be inserted.
const MOST_OUTSIDE: i64 = 1_000;
/// A call that costs more looks at the run's bounds before it begins, and not behind it.
const MUCH: u64 = 100_000;
/// A call that costs more is refused, whatever may be left of the run: it would take seconds, and nothing ends a function of C.
const TOO_MUCH: u64 = 400_000_000;

/// The upvalue in which the closures that are made here have the function that looks at the run's bounds.
const LOOK: i32 = ffi::lua_upvalueindex(3);

/// The cost of a function that is about to run with what is on the stack; or why it must not.
///
/// # Safety
/// This and all that it calls here is called by [`guarded_call`] alone, which Lua calls with the state that executes: its stack has the arguments,
/// and room for twenty values more.
type Cost = unsafe fn(*mut lua_State) -> Result<u64, &'static CStr>;

/// A function of Lua's, and what is in front of it.
struct Guarded {
    library: &'static CStr,
    name: &'static CStr,
    cost: Cost,
    /// The function that runs in its place.
    instead: Option<lua_CFunction>,
}

const fn guarded(library: &'static CStr, name: &'static CStr, cost: Cost) -> Guarded {
    Guarded { library, name, cost, instead: None }
}

const fn replaced(library: &'static CStr, name: &'static CStr, cost: Cost, by: lua_CFunction) -> Guarded {
    Guarded { library, name, cost, instead: Some(by) }
}

static GUARDED: [Guarded; 18] = [
    guarded(c"_G", c"unpack", unpack),
    guarded(c"_G", c"tonumber", bytes_each),
    guarded(c"string", c"upper", bytes_each),
    guarded(c"string", c"lower", bytes_each),
    guarded(c"string", c"reverse", bytes_each),
    guarded(c"string", c"sub", results),
    guarded(c"string", c"byte", results),
    guarded(c"string", c"char", texts),
    guarded(c"string", c"format", texts),
    guarded(c"math", c"max", texts),
    guarded(c"math", c"min", texts),
    guarded(c"string", c"dump", dump),
    replaced(c"table", c"concat", nothing, tables::concat),
    replaced(c"table", c"insert", insert, tables::insert),
    replaced(c"table", c"remove", length, tables::remove),
    guarded(c"table", c"sort", sort),
    replaced(c"table", c"maxn", nothing, tables::maxn),
    guarded(c"_G", c"select", arguments),
];

/// Puts ours in front of Lua's. `look`: looks at the run's bounds, and raises an error if it is over.
pub fn guard(lua: &Lua, look: Function) -> mlua::Result<()> {
    lua.globals().raw_set("look", look)?;
    // SAFETY: the stack has room for what is pushed (`exec_raw` asks for three places, and four stay below what C always has); every function
    // that is taken is one of C's, and is given its own upvalues: none of these has any.
    unsafe {
        lua.exec_raw::<()>((), |state| {
            for guarded in &GUARDED {
                ffi::lua_getglobal(state, guarded.library.as_ptr());
                ffi::lua_getfield(state, -1, guarded.name.as_ptr());
                let original = ffi::lua_tocfunction(state, -1).expect("Lua's libraries are in C");
                let original = guarded.instead.unwrap_or(original);
                ffi::lua_settop(state, -2);
                ffi::lua_pushlightuserdata(state, std::ptr::from_ref(guarded).cast_mut().cast());
                ffi::lua_pushlightuserdata(state, original as *mut _);
                ffi::lua_getglobal(state, c"look".as_ptr());
                ffi::lua_pushcclosure(state, guarded_call, 3);
                ffi::lua_setfield(state, -2, guarded.name.as_ptr());
                ffi::lua_settop(state, -2);
            }
        })
    }?;
    lua.globals().raw_set("look", mlua::Value::Nil)
}

/// The function that scripts call.
unsafe extern "C-unwind" fn guarded_call(state: *mut lua_State) -> i32 {
    // SAFETY: `guard` made this closure's upvalues: a reference that lives for ever, and a function of C. Nothing here has to be dropped, so
    // an error may pass through. The function finds the stack as its caller left it.
    unsafe {
        let guarded = &*ffi::lua_touserdata(state, ffi::lua_upvalueindex(1)).cast_const().cast::<Guarded>();
        match (guarded.cost)(state) {
            Ok(TOO_MUCH..) => return ffi::luaL_error(state, c"it would take too long".as_ptr()),
            Ok(cost) => owe(cost),
            Err(why) => return ffi::luaL_error(state, c"%s".as_ptr(), why.as_ptr()),
        }
        if watch::owed() > MUCH {
            look(state);
        }
        let original = ffi::lua_touserdata(state, ffi::lua_upvalueindex(2));
        let original = std::mem::transmute::<*mut std::ffi::c_void, lua_CFunction>(original);
        let results = original(state);
        if results > 8 {
            owe(results as u64 / 4);
        } else if results > 0 && ffi::lua_type(state, -1) == ffi::LUA_TSTRING {
            owe(ffi::lua_objlen(state, -1) as u64 / 32);
        }
        results
    }
}

/// Looks at the run's bounds: a run that is over ends here, by an error.
///
/// # Safety
/// As of `Cost`, or of `less`.
pub unsafe fn look(state: *mut lua_State) {
    // SAFETY: `guard` and `sort` made the closure that runs, so this is its upvalue. C's functions have twenty places more than arguments.
    unsafe {
        ffi::lua_pushvalue(state, LOOK);
        ffi::lua_call(state, 0, 0);
    }
}

/// The length of a string or table at a place; 0 of anything else.
unsafe fn len(state: *mut lua_State, at: i32) -> u64 {
    // SAFETY: both only look at a value, at a place that may be empty.
    unsafe {
        match ffi::lua_type(state, at) {
            ffi::LUA_TSTRING | ffi::LUA_TTABLE => ffi::lua_objlen(state, at) as u64,
            _ => 0,
        }
    }
}

/// An argument as C's functions take it: an integer of 32 bits, whatever it was.
unsafe fn integer(state: *mut lua_State, at: i32, otherwise: i64) -> i64 {
    // SAFETY: as above.
    unsafe {
        if ffi::lua_type(state, at) <= ffi::LUA_TNIL {
            otherwise
        } else {
            i64::from(ffi::lua_tointeger_(state, at) as i32)
        }
    }
}

unsafe fn nothing(_: *mut lua_State) -> Result<u64, &'static CStr> {
    Ok(10)
}

unsafe fn bytes_each(state: *mut lua_State) -> Result<u64, &'static CStr> {
    // SAFETY: it only looks.
    Ok(unsafe { len(state, 1) } / 4)
}

/// Nothing: its cost is its results, which are looked at in any case.
unsafe fn results(_: *mut lua_State) -> Result<u64, &'static CStr> {
    Ok(0)
}

unsafe fn arguments(state: *mut lua_State) -> Result<u64, &'static CStr> {
    // SAFETY: it only looks.
    Ok(unsafe { ffi::lua_gettop(state) } as u64 / 4)
}

/// Each of any number of arguments may be a long text, which is copied, or read as a number.
unsafe fn texts(state: *mut lua_State) -> Result<u64, &'static CStr> {
    // SAFETY: it only looks.
    let texts: u64 =
        (1..=unsafe { ffi::lua_gettop(state) }).map(|at| 20 + unsafe { len(state, at) } / 4).sum();
    Ok(texts)
}

unsafe fn dump(_: *mut lua_State) -> Result<u64, &'static CStr> {
    Ok(1_000)
}

/// Elements that a table can have: as many as a run's memory has room for.
fn most_elements() -> u64 {
    (crate::budget::limits().memory_bytes / ELEMENT_BYTES) as u64
}

unsafe fn elements(state: *mut lua_State) -> Result<u64, &'static CStr> {
    // SAFETY: it only looks.
    let elements = unsafe { len(state, 1) };
    if elements > most_elements() { Err(c"the table has too many elements") } else { Ok(elements * 2) }
}

/// `unpack(t, i, j)`: its own check of the range overflows (CVE-2025-46817).
unsafe fn unpack(state: *mut lua_State) -> Result<u64, &'static CStr> {
    // SAFETY: it only looks.
    let (first, last) = unsafe { (integer(state, 2, 1), integer(state, 3, len(state, 1) as i64)) };
    if last - first >= MOST_RESULTS {
        Err(c"too many results to unpack")
    } else {
        Ok((last - first).max(0) as u64 / 4)
    }
}

/// `table.insert(t, i, v)` moves what is behind `i`, however far in front of the table that is.
unsafe fn insert(state: *mut lua_State) -> Result<u64, &'static CStr> {
    // SAFETY: it only looks.
    unsafe {
        let behind = elements(state)? as i64 / 2 + 1;
        if ffi::lua_gettop(state) >= 3 && integer(state, 2, behind) < -MOST_OUTSIDE {
            return Err(c"bad argument #2 to 'insert' (position out of bounds)");
        }
        Ok(0)
    }
}

/// A function that moves items counts its steps; its table is no longer than memory has room for.
unsafe fn length(state: *mut lua_State) -> Result<u64, &'static CStr> {
    // SAFETY: it only looks.
    unsafe { elements(state) }.map(|_| 0)
}

/// `table.sort` takes as long as its worst case for whoever knows it, and a comparison as long as its texts. A function of the script's is
/// counted; a comparison of C's is not, so ours is put in its place.
unsafe fn sort(state: *mut lua_State) -> Result<u64, &'static CStr> {
    // SAFETY: a closure with three upvalues takes the place of the second argument. C's functions have twenty places more than arguments.
    unsafe {
        let elements = elements(state)? / 2;
        let compares = ffi::lua_type(state, 2);
        let is_ours = compares == ffi::LUA_TFUNCTION && ffi::lua_iscfunction(state, 2) == 0;
        if !is_ours
            && (compares <= ffi::LUA_TNIL || compares == ffi::LUA_TFUNCTION)
            && ffi::lua_type(state, 1) == ffi::LUA_TTABLE
        {
            ffi::lua_settop(state, 2);
            ffi::lua_pushnil(state);
            ffi::lua_pushvalue(state, 2);
            ffi::lua_pushvalue(state, LOOK);
            ffi::lua_pushcclosure(state, less, 3);
            ffi::lua_replace(state, 2);
        }
        Ok(elements)
    }
}

/// Whether the first argument belongs in front of the second: by the function that `sort` was given, or as `<` has it. `sort` is one
/// function of C, in which no instruction lets a run end: so whatever the alarm or a debt asks for comes between two comparisons.
unsafe extern "C-unwind" fn less(state: *mut lua_State) -> i32 {
    const COMPARES: i32 = ffi::lua_upvalueindex(2);
    // SAFETY: `sort` made this closure's upvalues. Nothing here has to be dropped. Texts are alive while they are on the stack.
    unsafe {
        owe(2);
        if watch::is_due() {
            look(state);
        }
        if ffi::lua_type(state, COMPARES) != ffi::LUA_TNIL {
            ffi::lua_settop(state, 2);
            ffi::lua_pushvalue(state, COMPARES);
            ffi::lua_insert(state, 1);
            ffi::lua_call(state, 2, 1);
            return 1;
        }
        let texts = [1, 2].map(|at| ffi::lua_type(state, at) == ffi::LUA_TSTRING);
        let is_less = if texts == [true, true] {
            let [one, other] = [1, 2].map(|at| text(state, at));
            owe(one.len().min(other.len()) as u64 / 64);
            i32::from(one < other)
        } else {
            ffi::lua_lessthan(state, 1, 2)
        };
        ffi::lua_pushboolean(state, is_less);
        1
    }
}

/// The bytes of a string at a place. Lua compares strings as the C library has it in the locale `C`, part by part between zeros, which is
/// byte by byte; only that it takes sixty times as long where they are all zeros.
unsafe fn text<'a>(state: *mut lua_State, at: i32) -> &'a [u8] {
    let mut len = 0;
    // SAFETY: the caller knows that it is a string, which stays where it is for as long as it is on the stack.
    unsafe {
        let start = ffi::lua_tolstring(state, at, &raw mut len);
        std::slice::from_raw_parts(start.cast(), len)
    }
}
