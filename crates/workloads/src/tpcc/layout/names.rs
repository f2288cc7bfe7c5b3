//! Keys of the index by last name: strings of fixed width, filled up with zero bytes, so that they sort like their characters.

use highwater_core::codec::{Malformed, Reader};

use crate::bytes::{Sink, StackBytes};
use crate::tpcc::text::LAST_NAME_BYTES;

/// A key of the index.
pub type NameKey = StackBytes<40>;

/// An entry of the index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Name<'a> {
    /// C_W_ID.
    pub warehouse: u16,
    /// C_D_ID.
    pub district: u8,
    /// C_LAST.
    pub last: &'a [u8],
    /// C_FIRST.
    pub first: &'a [u8],
    /// C_ID.
    pub customer: u16,
}

/// Appends 16 bytes.
#[inline]
pub(super) fn put_name(key: &mut NameKey, name: &[u8]) {
    let mut padded = [0; LAST_NAME_BYTES];
    let len = name.len().min(LAST_NAME_BYTES);
    padded[..len].copy_from_slice(&name[..len]);
    key.put(&padded);
}

/// Takes 16 bytes.
pub(super) fn take_name<'a>(reader: &mut Reader<'a>) -> Result<&'a [u8], Malformed> {
    let padded = reader.take(LAST_NAME_BYTES)?;
    let len = padded.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
    Ok(&padded[..len])
}
