//! How modules stand in rows.
//!
//! ```text
//! modules   0 | name    version u64 | digest (32) | bytes u64 | loaded, unix ms u64 | procedures: count varint, name bytes*
//!           1 | name    the module
//!           2           last version u64 | bytes of all modules u64
//! ```
//!
//! A call reads the first row, and the second one only if its node has not compiled that module. Integers are little endian.
//!
//! # Invariants
//!
//! - A version is given once: it grows with every module that is loaded, whichever.
//! - Both rows of a name are written, and removed, in one transaction; the digest is of the bytes.
//! - The last row's bytes are the sum of those that the first rows tell.

use std::ops::{Bound, ControlFlow};

use highwater_core::codec::{Malformed, Reader, put_bytes, put_varint};
use highwater_core::{Abort, Direction, Transaction};

use super::{Checked, MAX_KEPT_BYTES, MAX_NAME_BYTES, MODULES};

const HEAD: u8 = 0;
const BYTES: u8 = 1;
const COUNTS: &[u8] = &[2];

/// What is known of a module without its bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Head {
    /// Which version it is.
    pub version: u64,
    /// The SHA-256 of its bytes.
    pub digest: [u8; 32],
    /// How many bytes it has.
    pub bytes: u64,
    /// When it was loaded: Unix time in ms.
    pub loaded_ms: u64,
    /// The names of its procedures, in their order.
    pub procedures: Vec<String>,
}

impl Head {
    /// The module of this name.
    pub fn find<T: Transaction>(tx: &mut T, name: &[u8]) -> Result<Option<Head>, Abort> {
        Ok(tx.get(MODULES, &row(HEAD, name))?.map(Head::decode))
    }

    /// Every module, by name.
    pub fn all<T: Transaction>(tx: &mut T, mut visit: impl FnMut(&[u8], Head)) -> Result<(), Abort> {
        let range = (Bound::Included(&[HEAD][..]), Bound::Excluded(&[BYTES][..]));
        tx.scan(MODULES, range, Direction::Forward, |key, value| {
            visit(&key[1..], Head::decode(value));
            ControlFlow::Continue(())
        })
    }

    fn decode(row: &[u8]) -> Head {
        let read = || -> Result<Head, Malformed> {
            let mut reader = Reader::new(row);
            let (version, digest) = (reader.u64()?, reader.array()?);
            let (bytes, loaded_ms) = (reader.u64()?, reader.u64()?);
            let mut procedures = Vec::new();
            for _ in 0..reader.varint()? {
                procedures.push(String::from_utf8_lossy(reader.bytes()?).into_owned());
            }
            Ok(Head { version, digest, bytes, loaded_ms, procedures })
        };
        read().expect("a module's row is as encode wrote it")
    }

    fn encode(&self) -> Vec<u8> {
        let mut out = self.version.to_le_bytes().to_vec();
        out.extend_from_slice(&self.digest);
        out.extend_from_slice(&self.bytes.to_le_bytes());
        out.extend_from_slice(&self.loaded_ms.to_le_bytes());
        put_varint(&mut out, self.procedures.len() as u64);
        self.procedures.iter().for_each(|name| put_bytes(&mut out, name.as_bytes()));
        out
    }
}

/// The digest of the module of this name, if it has that procedure. What every call reads, so it takes no memory.
pub fn digest_of<T: Transaction>(
    tx: &mut T,
    name: &[u8],
    procedure: &[u8],
) -> Result<Option<[u8; 32]>, Abort> {
    let mut key = [HEAD; 1 + MAX_NAME_BYTES];
    let Some(place) = key.get_mut(1..1 + name.len()) else { return Ok(None) };
    place.copy_from_slice(name);
    let Some(row) = tx.get(MODULES, &key[..1 + name.len()])? else { return Ok(None) };
    let read = || -> Result<Option<[u8; 32]>, Malformed> {
        let mut reader = Reader::new(row);
        reader.u64()?;
        let digest = reader.array()?;
        reader.take(16)?;
        for _ in 0..reader.varint()? {
            if reader.bytes()? == procedure {
                return Ok(Some(digest));
            }
        }
        Ok(None)
    };
    Ok(read().expect("a module's row is as encode wrote it"))
}

/// The bytes of the module of this name.
pub fn bytes_of<T: Transaction>(tx: &mut T, name: &[u8]) -> Result<Option<Vec<u8>>, Abort> {
    Ok(tx.get(MODULES, &row(BYTES, name))?.map(<[u8]>::to_vec))
}

/// Loads a module in the place of `old`; its version. `None`: there is no room for it.
pub fn load<T: Transaction>(
    tx: &mut T,
    name: &[u8],
    module: &Checked,
    old: Option<&Head>,
    loaded_ms: u64,
) -> Result<Option<u64>, Abort> {
    let (last, kept) = counts(tx)?;
    let bytes = module.bytes.len() as u64;
    let kept = kept - old.map_or(0, |old| old.bytes) + bytes;
    if kept > MAX_KEPT_BYTES {
        return Ok(None);
    }
    let (version, procedures) = (last + 1, module.procedures.clone());
    let head = Head { version, digest: module.digest, bytes, loaded_ms, procedures };
    tx.put(MODULES, &row(HEAD, name), &head.encode())?;
    tx.put(MODULES, &row(BYTES, name), &module.bytes)?;
    set_counts(tx, version, kept)?;
    Ok(Some(version))
}

/// Takes a module away.
pub fn unload<T: Transaction>(tx: &mut T, name: &[u8], old: &Head) -> Result<(), Abort> {
    let (last, kept) = counts(tx)?;
    tx.delete(MODULES, &row(HEAD, name))?;
    tx.delete(MODULES, &row(BYTES, name))?;
    set_counts(tx, last, kept - old.bytes)
}

/// The last version that was given, and the bytes of all modules.
fn counts<T: Transaction>(tx: &mut T) -> Result<(u64, u64), Abort> {
    let Some(row) = tx.get(MODULES, COUNTS)? else { return Ok((0, 0)) };
    let mut reader = Reader::new(row);
    let mut number = || reader.u64().expect("the row holds two numbers");
    Ok((number(), number()))
}

fn set_counts<T: Transaction>(tx: &mut T, last: u64, kept: u64) -> Result<(), Abort> {
    tx.put(MODULES, COUNTS, &[last.to_le_bytes(), kept.to_le_bytes()].concat())
}

fn row(kind: u8, name: &[u8]) -> Vec<u8> {
    [&[kind], name].concat()
}
