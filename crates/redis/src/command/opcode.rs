//! A command's number: its byte in a request.

/// A command, by its number. Its entry's: see [`commands`](crate::commands).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Opcode(u8);

impl Opcode {
    /// The one of this number. There has to be such an entry.
    pub(crate) const fn numbered(number: u8) -> Opcode {
        Opcode(number)
    }

    /// Its number.
    #[inline]
    pub const fn byte(self) -> u8 {
        self.0
    }
}
