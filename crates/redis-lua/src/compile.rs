//! Compiles a text so that it can be ended.
//!
//! Lua's compiler is not linear. It walks a list of jumps for each `and`, `or`, `elseif` and `break`; it looks for each name among the variables of
//! every function around it; and its tables of strings and constants hash without a secret, so that names can be made to meet in one chain.
//! A text of 1 MiB can keep it busy for minutes, and no hook comes meanwhile. But it asks for its text piece by piece: before each piece the
//! clock is looked at, and once it has taken too long the text is over. What one piece of so few words can cost is some tens of ms: the compiler's
//! tables are looked at as they grow, as those of scripts are (`crowds`).

use std::ffi::{CString, c_char, c_void};

use mlua::ffi::{self, lua_State};
use mlua::{Function, Lua, Table, Value};

use crate::crowds::Crowds;
use crate::{budget, life, raise, watch};

/// So much CPU time a text may take: several times what a MiB of ordinary code does.
const MOST_MS: u64 = 500;
/// Bytes that are given at once.
const PIECE: usize = 128;

/// A text that is being read.
struct Reading<'a> {
    text: &'a [u8],
    at: usize,
    /// The thread's CPU time, and when that is over; `None`: nothing is bounded by time.
    clock: Option<(fn() -> u64, u64)>,
    over: bool,
}

impl Reading<'_> {
    fn is_over(&mut self) -> bool {
        self.over = self.over
            || watch::expired()
            || self.clock.is_some_and(|(clock, until)| clock() > until)
            || !life::goes_on();
        self.over
    }

    fn line(&self) -> usize {
        1 + self.text[..self.at].iter().filter(|byte| **byte == b'\n').count()
    }
}

/// A function of a text, in this environment. The form that a compiler leaves is refused: nothing checks it.
///
/// # Errors
/// Those of [`compile`].
pub fn load(lua: &Lua, environment: &Table, code: &[u8], source: &str) -> mlua::Result<Function> {
    if code.first() == Some(&0x1b) {
        return Err(raise::text(lua, "precompiled chunks are refused"));
    }
    let function = compile(lua, code, source)?;
    function.set_environment(environment.clone())?;
    Ok(function)
}

/// Compiles a text; `name` is how errors call it, with the mark that Lua wants in front.
///
/// # Errors
/// A `SyntaxError`, also of a text that takes too long; a `MemoryError`.
pub fn compile(lua: &Lua, text: &[u8], name: &str) -> mlua::Result<Function> {
    let named = CString::new(name.split('\0').next().unwrap_or_default()).expect("it has no zero");
    let clock = budget::limits().clock.map(|clocks| (clocks.cpu, (clocks.cpu)() + MOST_MS));
    let mut reading = Reading { text, at: 0, clock, over: false };
    let data = (&raw mut reading).cast::<c_void>();
    let crowds = Crowds::default();
    // SAFETY: `read` is given `reading`, which nobody else uses until this returns. `lua_load` catches what the compiler raises, and leaves
    // one value; there is room for that and one more. `crowds` leaves before it goes.
    let (compiled, failed): (Value, i64) = unsafe {
        lua.exec_raw((), |state| {
            crowds.watch(state);
            let failed = ffi::lua_load(state, read, data, named.as_ptr());
            crowds.leave(state);
            ffi::lua_pushinteger(state, failed as ffi::lua_Integer);
        })
    }?;
    let words = |message: String| mlua::Error::SyntaxError { message, incomplete_input: false };
    match compiled {
        // What was not read to its end may be whole all the same, and is another text.
        _ if reading.over => {
            let name = name.trim_start_matches(['@', '=']).chars().take(60).collect::<String>();
            Err(words(format!("{name}:{}: the text is too complex", reading.line())))
        }
        Value::Function(function) if failed == 0 => Ok(function),
        _ if failed == i64::from(ffi::LUA_ERRMEM) => {
            Err(mlua::Error::MemoryError("not enough memory".into()))
        }
        Value::Error(error) => Err(*error),
        other => Err(words(other.to_string()?)),
    }
}

/// Gives Lua's compiler the next piece; nothing once the text, or its time, is over.
unsafe extern "C-unwind" fn read(_: *mut lua_State, data: *mut c_void, size: *mut usize) -> *const c_char {
    // SAFETY: `compile` gave both to `lua_load`, which calls this before it returns. The text outlives that.
    unsafe {
        let reading = &mut *data.cast::<Reading<'_>>();
        let rest = &reading.text[reading.at..];
        if rest.is_empty() || reading.is_over() {
            *size = 0;
            return std::ptr::null();
        }
        *size = rest.len().min(PIECE);
        reading.at += *size;
        rest.as_ptr().cast()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::budget::{Clocks, Limits};

    const MIB: usize = 1 << 20;

    fn filled(before: &str, piece: &str, after: &str) -> String {
        format!("{before}{}{after}", piece.repeat((MIB - before.len() - after.len()) / piece.len()))
    }

    /// CPU time of this thread, in ms.
    fn cpu_ms() -> u64 {
        let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        // SAFETY: the kernel writes the time there.
        unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut now) };
        now.tv_sec as u64 * 1000 + now.tv_nsec as u64 / 1_000_000
    }

    /// Why a text is refused, if it is, and the CPU time that this took in ms.
    fn refused(text: &str) -> (Option<String>, u64) {
        crate::budget::limit(Limits {
            clock: Some(Clocks { wall: cpu_ms, cpu: cpu_ms }),
            ..Limits::default()
        });
        let (lua, began) = (Lua::new(), cpu_ms());
        (compile(&lua, text.as_bytes(), "@text").err().map(|error| error.to_string()), cpu_ms() - began)
    }

    /// Numbers that meet in the compiler's table of constants once it grows to 2^16 nodes, and not before: one of them took seconds.
    #[test]
    fn numbers_that_are_chosen_to_meet_are_refused() {
        let most = (1u64 << 16) - 1;
        let chains = (1 << 32) / most;
        let numbers = (0..40_000u64).map(|at| {
            let (chain, high) = (at % chains, at / chains);
            let low = (chain * most).wrapping_sub(0x4330_0000 + high) as u32;
            ((1u64 << 52) + (high << 32) + u64::from(low)).to_string()
        });
        let text = format!("return {{{}}}", numbers.collect::<Vec<_>>().join(","));
        let (why, took) = refused(&text);
        assert!(why.as_ref().is_some_and(|why| why.contains("not enough memory")), "{why:?}");
        assert!(took < 1500, "{took} ms");
    }

    /// Whatever a text does to Lua's compiler, and however it looks to whoever reads it otherwise: comments that end at a carriage return,
    /// strings that go on behind one, loops in the condition of a loop, blocks that Lua does not nest so deep.
    #[test]
    fn what_takes_lua_long_to_compile_is_refused() {
        let ands = |before: &str| filled(&format!("{before}local x return "), "x and ", "x");
        let nest = "local a,b,c,d,e,f,g,h,i,j,k,l,m,n,o,p,q,r,s,t,u,v,w,x,y = 1 function z() ".repeat(190);
        // Letters where Lua's hash does not look, so that all meet in one chain.
        let alike = (0..15_000u32).map(|n| {
            let mut text = [b'x'; 64];
            for bit in 0..15 {
                text[64 - 2 - 3 * bit] = if n >> bit & 1 == 1 { b'y' } else { b'x' };
            }
            format!("'{}',", String::from_utf8_lossy(&text))
        });
        for text in [
            ands(""),
            ands("--\r"),
            ands("local s = \"\\\r\n\" "),
            ands("local s = '\\\n\r' "),
            filled("local x return ", "x or ", "x"),
            filled("local x return x", " and {x = 1, f(x, x)}", ""),
            filled("local x return x", " and function() local x = x end", ""),
            filled("local x if x then ", "elseif x then ", "end"),
            filled("local x while x do ", "if x then break end ", "end"),
            filled("local a while (function() do end end)() do ", "if a then break end ", "end"),
            filled(&nest, "z=z ", &"end ".repeat(190)),
            format!("return {{{}}}", alike.collect::<String>()),
        ] {
            let start = &text[..text.len().min(60)];
            let (why, took) = refused(&text);
            // Either it is too much, or this machine is quick.
            let too_complex = why.as_ref().is_some_and(|why| why.contains("the text is too complex"));
            assert!(too_complex || took <= MOST_MS, "{start}: {why:?} after {took} ms");
            assert!(took <= 2 * MOST_MS, "{start}: {took} ms");
        }
        assert!(refused(&ands("")).0.is_some_and(|why| why.contains("text:1: the text is too complex")));
    }

    #[test]
    fn what_is_no_program_is_refused_quickly() {
        for text in [
            format!("{}{}", "do ".repeat(120_000), "a ".repeat(180_000)),
            format!("{}{}", "do ".repeat(180_000), "break ".repeat(60_000)),
            "(".repeat(MIB),
            "[".repeat(MIB),
            "{".repeat(MIB),
        ] {
            let (why, took) = refused(&text);
            assert!(why.is_some() && took <= MOST_MS, "{}: {why:?} after {took} ms", &text[..20]);
        }
    }

    #[test]
    fn long_texts_of_ordinary_code_are_compiled() {
        let names: String = (0..60_000).map(|n| format!("x = name_{n} ")).collect();
        let numbers: String = (0..60_000).map(|n| format!("{n}.25, ")).collect();
        for text in [
            filled("local x ", "x = x and x or x ", ""),
            filled("local x ", "if x and x or x then x = x end ", ""),
            filled("local x ", "x = {a = 1, 'b', [c] = d} f(x) -- and and\n", ""),
            filled("local x ", "while x do if x then break elseif x then x = 1 else x = 2 end end ", ""),
            filled("return {", "'some text', 1.5, ", "}"),
            filled("return [==[", "and and or elseif break ", "]==]"),
            filled(
                "local t = {} ",
                "function t.f(a, b, c) local d = a + b return function() return c, d end end ",
                "return t",
            ),
            names,
            format!("return {{{numbers}}}"),
        ] {
            let why = refused(&text).0;
            let too_complex = why.as_ref().is_some_and(|why| why.contains("too complex"));
            assert!(!too_complex, "{}: {why:?}", &text[..60]);
        }
    }

    #[test]
    fn a_function_an_error_and_a_piece_are_what_lua_says() {
        let lua = Lua::new();
        assert_eq!(compile(&lua, b"return 1 + 1", "@text").and_then(|sum| sum.call::<i64>(())).ok(), Some(2));
        // Words across the ends of pieces.
        let text = format!("{}return 'some{}words'", " ".repeat(PIECE - 3), "-".repeat(3 * PIECE));
        let words = compile(&lua, text.as_bytes(), "@text").and_then(|words| words.call::<String>(()));
        assert_eq!(words.map(|words| words.len()).ok(), Some(9 + 3 * PIECE));
        let why = |text: &[u8], name: &str| compile(&lua, text, name).unwrap_err().to_string();
        assert!(
            why(b"x =", "@te\0xt").contains("te:1: unexpected symbol near '<eof>'"),
            "{}",
            why(b"x =", "@te\0xt")
        );
        assert!(compile(&lua, b"", "").is_ok());
    }
}
