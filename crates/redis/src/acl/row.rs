//! How users stand in the table.
//!
//! ```text
//! key 00           the count          changes u64 | users u64 | bytes u64        little endian
//! key 01 name      a user             the words that make it, a line each; a selector stands between lines `(` and `)`
//! key 02 name      a mark             empty: a configuration has given the cluster this user once
//! ```
//!
//! Words, so that a build reads what a later one wrote: a rule about a command that it does not know stays, and means nothing to it.

use highwater_core::codec::{Malformed, Reader};

use super::user::{SetUserError, User};

/// The key of the count.
pub const COUNT: &[u8] = &[0];
/// The first byte of a user's key.
pub const USER: u8 = 1;
/// The first byte of a mark's key.
pub const MARK: u8 = 2;

/// How often the table was changed, and what is in it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Count {
    /// Changes so far.
    pub changes: u64,
    pub users: u64,
    /// Bytes of their keys and rows.
    pub bytes: u64,
}

impl Count {
    /// As a row.
    pub fn encode(self) -> [u8; 24] {
        let mut row = [0; 24];
        for (at, number) in [self.changes, self.users, self.bytes].into_iter().enumerate() {
            row[at * 8..][..8].copy_from_slice(&number.to_le_bytes());
        }
        row
    }

    /// Reads the row; none: nothing was ever changed.
    pub fn decode(row: Option<&[u8]>) -> Result<Count, Malformed> {
        let Some(row) = row else { return Ok(Count::default()) };
        let mut reader = Reader::new(row);
        Ok(Count { changes: reader.u64()?, users: reader.u64()?, bytes: reader.u64()? })
    }
}

/// The key of a user's row, or of its mark.
pub fn key(kind: u8, name: &[u8]) -> Vec<u8> {
    [&[kind], name].concat()
}

/// A user's row.
pub fn encode(user: &User) -> Vec<u8> {
    let mut words: Vec<Vec<u8>> = user.flags().into_iter().map(|flag| flag.as_bytes().to_vec()).collect();
    words.extend(user.passwords().map(|digits| format!("#{digits}").into_bytes()));
    words.extend(user.root().words());
    for selector in user.selectors() {
        words.push(b"(".to_vec());
        words.extend(selector.words());
        words.push(b")".to_vec());
    }
    words.join(&b'\n')
}

/// Reads it.
pub fn decode(name: &[u8], row: &[u8]) -> Result<User, SetUserError> {
    User::of_row(name, row.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()))
}
