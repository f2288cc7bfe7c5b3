//! Keys of tables: columns, one behind the other, as bytes that compare as they do.

use alloc::vec::Vec;

/// A key that is put together, column by column, in the order of the table's types.
#[derive(Clone, Default)]
pub struct Key(Vec<u8>);

impl Key {
    /// Without columns: in front of every key.
    pub fn new() -> Key {
        Key::default()
    }

    /// A column of type `u64`.
    pub fn u64(mut self, value: u64) -> Key {
        self.0.extend_from_slice(&value.to_be_bytes());
        self
    }

    /// A column of type `i64`.
    pub fn i64(self, value: i64) -> Key {
        self.u64(value as u64 ^ 1 << 63)
    }

    /// A column of type `string`.
    pub fn text(self, value: &str) -> Key {
        self.bytes(value.as_bytes())
    }

    /// A column of type `bytes`.
    pub fn bytes(mut self, value: &[u8]) -> Key {
        for byte in value {
            self.0.push(*byte);
            if *byte == 0 {
                self.0.push(0xff);
            }
        }
        self.0.extend_from_slice(&[0, 0]);
        self
    }

    /// As the table has it.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// The cut behind every key that begins with these columns; `None`: the end of the table.
    pub fn behind(&self) -> Option<Key> {
        let mut bytes = self.0.clone();
        while bytes.last() == Some(&0xff) {
            bytes.pop();
        }
        *bytes.last_mut()? += 1;
        Some(Key(bytes))
    }
}

/// Reads a key's columns, in their order. What the table does not have there reads as nothing.
pub struct Columns<'a>(&'a [u8]);

impl<'a> Columns<'a> {
    /// Of a key.
    pub fn of(key: &'a [u8]) -> Columns<'a> {
        Columns(key)
    }

    /// A column of type `u64`.
    pub fn u64(&mut self) -> Option<u64> {
        let (value, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(u64::from_be_bytes(*value))
    }

    /// A column of type `i64`.
    pub fn i64(&mut self) -> Option<i64> {
        Some((self.u64()? ^ 1 << 63) as i64)
    }

    /// A column of type `bytes` or `string`.
    pub fn bytes(&mut self) -> Option<Vec<u8>> {
        let mut value = Vec::new();
        loop {
            match self.0 {
                [0, 0, rest @ ..] => {
                    self.0 = rest;
                    return Some(value);
                }
                [0, 0xff, rest @ ..] => {
                    value.push(0);
                    self.0 = rest;
                }
                [byte, rest @ ..] if *byte != 0 => {
                    value.push(*byte);
                    self.0 = rest;
                }
                _ => return None,
            }
        }
    }
}
