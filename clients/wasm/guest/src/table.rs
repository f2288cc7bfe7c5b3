//! Users' tables: what `HW.TABLE` makes.

use alloc::format;
use alloc::vec::Vec;

use crate::{Key, Stop, abi};

/// A table that is open.
#[derive(Clone, Copy)]
pub struct Table(i32);

impl Table {
    /// The table of this name. Every call opens it anew.
    pub fn open(name: &str) -> Result<Table, Stop> {
        // SAFETY: the name lives longer than the call.
        match unsafe { abi::table(name.as_ptr(), name.len()) } {
            -1 => Err(Stop(format!("there is no table {name}"))),
            handle => Ok(Table(handle)),
        }
    }

    /// The value of a row.
    pub fn get(self, key: &Key) -> Option<Vec<u8>> {
        let key = key.as_bytes();
        // SAFETY: the key lives longer than the call, and `received` gives the place and the room there.
        abi::received(|to, room| unsafe { abi::get(self.0, key.as_ptr(), key.len(), to, room) })
    }

    /// The value of a row that is a number: 8 bytes, little endian.
    pub fn number(self, key: &Key) -> Option<i64> {
        let (key, mut value) = (key.as_bytes(), [0; 8]);
        // SAFETY: the key lives longer than the call, and there is room for 8 bytes.
        let len = unsafe { abi::get(self.0, key.as_ptr(), key.len(), value.as_mut_ptr(), 8) };
        (len == 8).then(|| i64::from_le_bytes(value))
    }

    /// Sets a row.
    pub fn put(self, key: &Key, value: &[u8]) {
        let key = key.as_bytes();
        // SAFETY: both live longer than the call.
        unsafe { abi::put(self.0, key.as_ptr(), key.len(), value.as_ptr(), value.len()) }
    }

    /// Sets a row that is a number.
    pub fn put_number(self, key: &Key, value: i64) {
        self.put(key, &value.to_le_bytes());
    }

    /// Deletes a row; whether there was one.
    pub fn delete(self, key: &Key) -> bool {
        let key = key.as_bytes();
        // SAFETY: the key lives longer than the call.
        unsafe { abi::delete(self.0, key.as_ptr(), key.len()) != 0 }
    }

    /// Rows from a key on, up to another that is not among them; without an end, up to the last.
    pub fn scan(self, from: &Key, to: Option<&Key>) -> Scan {
        Scan {
            table: self,
            from: from.as_bytes().to_vec(),
            to: to.map(|to| to.as_bytes().to_vec()),
            backward: false,
            left: u32::MAX,
        }
    }
}

/// A range of rows.
pub struct Scan {
    table: Table,
    from: Vec<u8>,
    to: Option<Vec<u8>>,
    backward: bool,
    left: u32,
}

impl Scan {
    /// The last row first.
    pub fn backward(mut self) -> Scan {
        self.backward = true;
        self
    }

    /// So many rows at most.
    pub fn limit(mut self, rows: u32) -> Scan {
        self.left = rows;
        self
    }

    /// Reads them, as many at a time as a buffer of this size holds.
    pub fn rows(self, room: usize) -> Rows {
        Rows { scan: self, buffer: Vec::with_capacity(room), at: 0, more: true }
    }
}

/// A row that a scan found.
pub struct Row {
    /// Its key; [`Columns`](crate::key::Columns) reads it.
    pub key: Vec<u8>,
    /// Its value.
    pub value: Vec<u8>,
}

/// The rows of a range, one by one.
pub struct Rows {
    scan: Scan,
    buffer: Vec<u8>,
    at: usize,
    more: bool,
}

impl Rows {
    fn fill(&mut self) {
        let Scan { table, from, to, backward, left } = &self.scan;
        let (end, end_len) = to.as_ref().map_or((core::ptr::null(), -1), |to| (to.as_ptr(), to.len() as i32));
        loop {
            self.buffer.clear();
            let room = self.buffer.capacity();
            // SAFETY: both ends live longer than the call, and there is so much room.
            let told = unsafe {
                abi::scan(
                    table.0,
                    from.as_ptr(),
                    from.len(),
                    end,
                    end_len,
                    (*backward).into(),
                    *left,
                    self.buffer.as_mut_ptr(),
                    room,
                )
            };
            let len = told as u32 as usize;
            if told >> 32 == 2 {
                self.buffer.reserve_exact(len);
                continue;
            }
            // SAFETY: the server wrote so many bytes.
            unsafe { self.buffer.set_len(len) };
            self.more = told >> 32 == 1;
            self.at = 0;
            return;
        }
    }

    fn take(&mut self, len: usize) -> &[u8] {
        self.at += len;
        &self.buffer[self.at - len..self.at]
    }

    fn length(&mut self) -> usize {
        let bytes = self.take(4);
        u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]) as usize
    }
}

impl Iterator for Rows {
    type Item = Row;

    fn next(&mut self) -> Option<Row> {
        if self.at == self.buffer.len() {
            if !self.more || self.scan.left == 0 {
                return None;
            }
            self.fill();
            if self.buffer.is_empty() {
                return None;
            }
        }
        let (key, value) = (self.length(), self.length());
        let key = self.take(key).to_vec();
        let value = self.take(value).to_vec();
        self.scan.left -= 1;
        if self.scan.backward {
            self.scan.to = Some(key.clone());
        } else {
            // The least that is greater.
            self.scan.from = [&key[..], &[0]].concat();
        }
        Some(Row { key, value })
    }
}
