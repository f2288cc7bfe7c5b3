//! What a guest wrote, and what must therefore be found.

use std::collections::BTreeMap;

use super::caller::{Caller, Said};
use super::job::Job;
use crate::wire::Reply;

/// A value: named by a number, which decides its bytes, and its length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Content {
    number: u64,
    len: usize,
}

impl Content {
    /// Its bytes.
    pub fn bytes(self) -> Vec<u8> {
        let mut state = self.number.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        let mut bytes = Vec::with_capacity(self.len + 8);
        while bytes.len() < self.len {
            state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
            bytes.extend_from_slice(&state.to_le_bytes());
        }
        bytes.truncate(self.len);
        bytes
    }
}

/// Bytes of values that one `DEL` of ours deletes, but for a single value.
const DELETED_AT_ONCE: usize = 4 << 20;

/// Keys of one job, which nobody else writes.
///
/// Invariant: a key holds one of its possible contents (`None`: it is absent): one, unless a write's outcome is unknown.
#[derive(Default)]
pub struct Expected {
    possible: BTreeMap<Vec<u8>, Vec<Option<Content>>>,
    written: u64,
}

impl Expected {
    /// Keys that were written.
    pub fn keys(&self) -> Vec<Vec<u8>> {
        self.possible.keys().cloned().collect()
    }

    /// Keys that certainly hold something.
    pub fn present(&self) -> Vec<Vec<u8>> {
        let certain = |(_, possible): &(&Vec<u8>, &Vec<Option<Content>>)| !possible.contains(&None);
        self.possible.iter().filter(certain).map(|(key, _)| key.clone()).collect()
    }

    /// Writes values of these lengths in one pipeline; what came of each.
    pub fn set(&mut self, caller: &mut Caller, writes: &[(Vec<u8>, usize)]) -> Vec<Said> {
        let contents: Vec<Content> = writes
            .iter()
            .map(|(_, len)| {
                self.written += 1;
                Content { number: self.written, len: *len }
            })
            .collect();
        let values: Vec<Vec<u8>> = contents.iter().map(|content| content.bytes()).collect();
        let commands: Vec<[&[u8]; 3]> =
            writes.iter().zip(&values).map(|((key, _), value)| [b"SET", &key[..], &value[..]]).collect();
        let commands: Vec<&[&[u8]]> = commands.iter().map(|words| &words[..]).collect();
        let said = caller.ask_all(&commands);
        for (((key, _), content), said) in writes.iter().zip(contents).zip(&said) {
            let possible = self.possible.entry(key.clone()).or_insert_with(|| vec![None]);
            match said {
                Said::Done(_) => *possible = vec![Some(content)],
                Said::Unknown => possible.push(Some(content)),
                Said::Refused | Said::Full | Said::Wrong(_) => {}
            }
        }
        said
    }

    /// How many of these keys, the first at least, one `DEL` may name: a transaction deletes so many bytes only, and on small
    /// nodes fewer.
    fn at_once(&self, keys: &[Vec<u8>]) -> usize {
        let len = |key: &Vec<u8>| {
            let possible = self.possible.get(key).into_iter().flatten();
            possible.flatten().map(|content| content.len).max().unwrap_or_default()
        };
        let mut bytes = 0;
        let fits = |key: &&Vec<u8>| {
            bytes += len(key);
            bytes <= DELETED_AT_ONCE
        };
        keys.iter().take(128).take_while(fits).count().max(1)
    }

    /// Deletes these keys, as often as it takes. Whether it could be done.
    pub fn delete(&mut self, job: &mut Job, caller: &mut Caller, mut keys: &[Vec<u8>]) -> bool {
        while !keys.is_empty() {
            let (now, later) = keys.split_at(self.at_once(keys));
            if !self.delete_at_once(caller, now) {
                return false;
            }
            job.goes_on();
            keys = later;
        }
        true
    }

    fn delete_at_once(&mut self, caller: &mut Caller, keys: &[Vec<u8>]) -> bool {
        let words: Vec<&[u8]> = [&b"DEL"[..]].into_iter().chain(keys.iter().map(|key| &key[..])).collect();
        let done = caller.insist(&words).is_some();
        for key in keys {
            match self.possible.get_mut(key).filter(|_| !done) {
                Some(possible) => possible.push(None),
                None => drop(self.possible.remove(key)),
            }
        }
        done
    }

    /// Reads a key and holds it against what it may be; then that is known. What is wrong, if anything.
    pub fn verify(&mut self, caller: &mut Caller, key: &[u8]) -> Result<(), String> {
        let possible = self.possible.get_mut(key).expect("the key was written");
        let name = String::from_utf8_lossy(&key[..key.len().min(24)]).into_owned();
        let found = match caller.insist(&[b"GET", key]) {
            Some(Reply::Bulk(found)) => found,
            Some(other) => return Err(format!("GET {name} answered {other:?}")),
            None => return Err(format!("GET {name} is refused for ever")),
        };
        let same = |content: &Option<Content>| match (content, &found) {
            (Some(content), Some(found)) => content.len == found.len() && content.bytes() == *found,
            (None, None) => true,
            _ => false,
        };
        match possible.iter().position(same) {
            Some(at) => {
                *possible = vec![possible[at]];
                Ok(())
            }
            None => Err(format!(
                "{name} holds {} bytes, but was written {possible:?}",
                found.map_or(-1, |found| found.len() as i64)
            )),
        }
    }

    /// Verifies keys, and counts them.
    pub fn verify_all(&mut self, job: &mut Job, caller: &mut Caller, keys: &[Vec<u8>]) {
        for key in keys {
            match self.verify(caller, key) {
                Ok(()) => job.count("values read again", 1),
                Err(trouble) => return job.complain(trouble),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contents_are_told_apart() {
        let content = |number, len| Content { number, len }.bytes();
        assert_eq!(content(1, 0), b"");
        assert_eq!(content(3, 1000), content(3, 1000));
        assert_ne!(content(3, 1000), content(4, 1000));
        assert_eq!(content(7, 13).len(), 13);
    }
}
