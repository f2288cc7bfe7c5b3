//! Questions that tests ask of declared messages: of drawn values, of bytes that were recorded, of documents.

use std::collections::BTreeSet;
use std::fmt::Debug;

use super::{Kind, Wire};
use crate::Random;
use crate::codec::Reader;

/// Each of so many values is read as it was written, and nothing is left; whatever is cut off is refused.
///
/// # Panics
/// If it is not so.
pub fn check<T: Wire + PartialEq + Debug>(values: usize) {
    let mut random = Random::new(1);
    for _ in 0..values {
        let value = T::draw(&mut random);
        let mut bytes = Vec::new();
        value.put(&mut bytes);
        let mut reader = Reader::new(&bytes);
        assert_eq!(T::take(&mut reader).as_ref(), Ok(&value));
        assert!(reader.is_empty(), "{value:?}");
        for len in 0..bytes.len() {
            let short = T::take(&mut Reader::new(&bytes[..len]));
            assert!(short.is_err(), "{len} of {} bytes are {short:?}", bytes.len());
        }
    }
}

/// The bytes of these messages, with names that begin with their kinds', are as they were recorded in a file (a line for each: `name hex`), and every kind is
/// among them. With `GOLDEN=write` in the environment samples that are new are written into the file; what was recorded stays, or the test fails.
///
/// # Panics
/// If they differ, a kind is missing, or the file cannot be read or written.
pub fn golden(file: &str, kinds: &[Kind], messages: impl IntoIterator<Item = (String, Vec<u8>)>) {
    let messages: Vec<_> = messages.into_iter().collect();
    let known: BTreeSet<&str> = kinds.iter().map(|kind| kind.name).collect();
    let sampled: BTreeSet<&str> = messages.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(sampled, known, "a sample of each kind");
    let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    let now: String = messages.iter().map(|(name, bytes)| format!("{name} {}\n", hex(bytes))).collect();
    if writes() {
        let before = std::fs::read_to_string(file).unwrap_or_default();
        let gone = before.lines().find(|recorded| !now.lines().any(|line| line == *recorded));
        assert_eq!(gone, None, "a line that was recorded; take it out by hand if it is to be another one");
        std::fs::write(file, &now).expect("the recorded bytes can be written");
    }
    let recorded = std::fs::read_to_string(file).expect("there are recorded bytes");
    for (now, recorded) in now.lines().zip(recorded.lines()) {
        assert_eq!(now, recorded);
    }
    assert_eq!(now.lines().count(), recorded.lines().count(), "as many as were recorded");
}

/// A document describes these kinds as they are, in the block that follows the line `<!-- name -->`. With `GOLDEN=write` the block is written instead.
///
/// # Panics
/// If it does not, if there is no such line, or if the file cannot be read or written.
pub fn described(file: &str, name: &str, kinds: &[Kind]) {
    let text = std::fs::read_to_string(file).expect("the document can be read");
    let marker = format!("<!-- {name} -->\n```text\n");
    let (before, block) = text.split_once(&marker).expect("the document has a place for it");
    let (block, after) = block.split_once("```").expect("the block ends");
    let now: String = kinds.iter().map(|kind| format!("{}\n", kind.to_string().trim_end())).collect();
    if writes() {
        std::fs::write(file, format!("{before}{marker}{now}```{after}"))
            .expect("the document can be written");
    } else {
        assert_eq!(block, now, "{file} describes {name}; GOLDEN=write puts it right");
    }
}

fn writes() -> bool {
    std::env::var_os("GOLDEN").is_some_and(|word| word == "write")
}
