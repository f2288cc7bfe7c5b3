//! The words of a call.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::str::FromStr;

use crate::{Stop, abi};

/// The words behind the procedure's name.
#[derive(Clone, Copy)]
pub struct Arguments(u32);

impl Arguments {
    #[doc(hidden)]
    pub fn of_this_call() -> Arguments {
        // SAFETY: it takes no pointers.
        Arguments(unsafe { abi::arguments() })
    }

    /// How many there are.
    pub fn len(self) -> usize {
        self.0 as usize
    }

    /// Whether there are none.
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// One of them.
    pub fn bytes(self, at: usize) -> Result<Vec<u8>, Stop> {
        // SAFETY: `received` gives the place and the room there.
        let found = abi::received(|to, room| unsafe { abi::argument(at as u32, to, room) });
        found.ok_or_else(|| Stop(format!("argument {at} is missing")))
    }

    /// One of them, which has to be text.
    pub fn text(self, at: usize) -> Result<String, Stop> {
        String::from_utf8(self.bytes(at)?).map_err(|_| Stop(format!("argument {at} is no text")))
    }

    /// One of them, which has to be a number.
    pub fn number<T: FromStr>(self, at: usize) -> Result<T, Stop> {
        self.text(at)?.parse().map_err(|_| Stop(format!("argument {at} is no such number")))
    }
}
