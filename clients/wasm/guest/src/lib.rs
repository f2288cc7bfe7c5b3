//! What a procedure in WebAssembly uses of Highwater: its arguments, tables, keys, and its reply.
//!
//! ```ignore
//! #![no_std]
//! extern crate alloc;
//! use highwater_guest::{Arguments, Stop, procedure, reply, strings};
//!
//! procedure!(greet, |args: Arguments| {
//!     let name = args.text(0)?;
//!     let times = strings::number(b"greetings")?.unwrap_or(0) + 1;
//!     strings::set_number(b"greetings", times);
//!     reply::map(2);
//!     reply::text("hello");
//!     reply::bytes(name.as_bytes());
//!     reply::text("times");
//!     reply::integer(times);
//!     Ok(())
//! });
//! ```
//!
//! A procedure runs inside one transaction, which may run again: it sees the data of one moment, and nothing that it keeps in its own memory is there in the next
//! call. [`Stop`] takes back all that it wrote. So does a panic, whose message the client gets.
//!
//! docs/internals/wasm.md has the functions below this, for other languages.

#![no_std]

extern crate alloc;

mod abi;
mod arguments;
mod memory;
pub mod command;
pub mod key;
pub mod reply;
pub mod strings;
mod table;

pub use arguments::Arguments;
pub use key::Key;
pub use table::{Row, Rows, Scan, Table};

use alloc::string::{String, ToString};
use core::fmt::{self, Write};

/// Why a procedure ends with nothing done: the text that its client gets behind `ROLLEDBACK`.
pub struct Stop(pub String);

impl<T: fmt::Display> From<T> for Stop {
    fn from(why: T) -> Stop {
        Stop(why.to_string())
    }
}

/// Unix time in ms, of the request: the same from its beginning to its end.
pub fn now_ms() -> u64 {
    // SAFETY: it takes no pointers.
    unsafe { abi::now() as u64 }
}

/// A number by chance: of the request's, so that the request can be run again.
pub fn random() -> u64 {
    // SAFETY: it takes no pointers.
    unsafe { abi::random() as u64 }
}

/// Ends the procedure, with nothing done.
pub fn stop(why: &str) -> ! {
    // SAFETY: the text lives longer than the call.
    unsafe { abi::fail(why.as_ptr(), why.len()) }
}

/// Makes a procedure of a function of its arguments, under a name that `HW.CALL module.name` calls.
#[macro_export]
macro_rules! procedure {
    ($name:ident, $body:expr) => {
        const _: () = {
            #[unsafe(export_name = concat!("procedure:", stringify!($name)))]
            extern "C" fn procedure() {
                let body: fn($crate::Arguments) -> Result<(), $crate::Stop> = $body;
                if let Err($crate::Stop(why)) = body($crate::Arguments::of_this_call()) {
                    $crate::stop(&why);
                }
            }
        };
    };
}

/// Text with an end: what has no room is left out.
struct Line {
    bytes: [u8; 512],
    len: usize,
}

impl Write for Line {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let room = self.bytes.len() - self.len;
        let len = text.len().min(room);
        self.bytes[self.len..self.len + len].copy_from_slice(&text.as_bytes()[..len]);
        self.len += len;
        Ok(())
    }
}

#[cfg(target_arch = "wasm32")]
#[panic_handler]
fn panicked(info: &core::panic::PanicInfo<'_>) -> ! {
    let mut line = Line { bytes: [0; 512], len: 0 };
    let _ = write!(line, "the procedure panicked: {}", info.message());
    // SAFETY: the text lives longer than the call.
    unsafe { abi::fail(line.bytes.as_ptr(), line.len) }
}
