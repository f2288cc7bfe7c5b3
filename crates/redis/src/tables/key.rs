//! Typed keys as words, and as bytes that compare like them.
//!
//! ```text
//! u64      8 bytes, big endian
//! i64      the same, its sign turned around
//! string   UTF-8; a zero byte is followed by 0xff, the end is 0 0
//! bytes    the same, of any bytes
//! ```
//!
//! A bound of a range is a tuple in which each word is `[value`, `(value`, `-` or `+`, as in `ZRANGEBYLEX`; in front of integers the
//! bracket may be left out. `-` and `+` are in front of and behind whatever begins with the columns before them. Every bound is a *cut*
//! between keys: a byte string that has the keys of one side below it, and those of the other not.

use highwater_core::codec::{Malformed, Reader, ordered};
use highwater_core::limits::MAX_KEY_BYTES;

use crate::errors::CommandError;
use crate::number::parse_integer;
use crate::reply::Reply;

/// What a column of a key holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Type {
    /// An unsigned integer.
    U64,
    /// A signed integer.
    I64,
    /// Text in UTF-8.
    String,
    /// Any bytes.
    Bytes,
}

impl Type {
    /// All of them; the position is the byte.
    pub const ALL: [(Type, &'static str); 4] =
        [(Type::U64, "u64"), (Type::I64, "i64"), (Type::String, "string"), (Type::Bytes, "bytes")];

    /// The type of this name, in letters of any size.
    pub fn find(name: &[u8]) -> Option<Type> {
        let found = Type::ALL.iter().find(|(_, known)| known.as_bytes().eq_ignore_ascii_case(name));
        found.map(|(of, _)| *of)
    }

    pub fn name(self) -> &'static str {
        Type::ALL[usize::from(self.byte())].1
    }

    /// As the catalogue has it.
    pub fn byte(self) -> u8 {
        self as u8
    }

    /// The type of this byte.
    pub fn of(byte: u8) -> Option<Type> {
        Type::ALL.get(usize::from(byte)).map(|(of, _)| *of)
    }

    /// Appends a word's value.
    pub fn encode(self, word: &[u8], key: &mut Vec<u8>) -> Result<(), CommandError> {
        let misfit = || CommandError::KeyColumn(self.name());
        match self {
            Type::U64 => {
                let text = std::str::from_utf8(word).map_err(|_| misfit())?;
                // `parse` takes a plus sign, which no integer of RESP has.
                let number = text.parse().ok().filter(|_| !text.starts_with('+')).ok_or_else(misfit)?;
                ordered::put_u64(key, number);
            }
            Type::I64 => ordered::put_i64(key, parse_integer(word).ok_or_else(misfit)?),
            Type::String => {
                std::str::from_utf8(word).map_err(|_| misfit())?;
                ordered::put_str(key, word);
            }
            Type::Bytes => ordered::put_str(key, word),
        }
        Ok(())
    }

    /// Writes the value that stands there.
    pub fn reply(self, reader: &mut Reader<'_>, reply: &mut Reply<'_>) -> Result<(), Malformed> {
        match self {
            Type::U64 => {
                let number = u64::from_be_bytes(reader.array()?);
                match i64::try_from(number) {
                    Ok(number) => reply.integer(number),
                    Err(_) => reply.bulk(number.to_string().as_bytes()),
                }
            }
            Type::I64 => reply.integer((u64::from_be_bytes(reader.array()?) ^ 1 << 63) as i64),
            Type::String | Type::Bytes => reply.bulk(&string(reader)?),
        }
        Ok(())
    }
}

/// What [`ordered::put_str`] wrote.
fn string(reader: &mut Reader<'_>) -> Result<Vec<u8>, Malformed> {
    let mut value = Vec::new();
    loop {
        match reader.u8()? {
            0 => match reader.u8()? {
                0 => return Ok(value),
                0xff => value.push(0),
                _ => return Err(Malformed("string in a key")),
            },
            byte => value.push(byte),
        }
    }
}

/// Whether these bytes are a whole key of such columns, as [`Type::encode`] writes it.
pub fn is_key(types: &[Type], bytes: &[u8]) -> bool {
    let mut reader = Reader::new(bytes);
    let column = |of: &Type| match of {
        Type::U64 | Type::I64 => reader.take(8).is_ok(),
        Type::String => string(&mut reader).is_ok_and(|text| std::str::from_utf8(&text).is_ok()),
        Type::Bytes => string(&mut reader).is_ok(),
    };
    types.iter().all(column) && reader.is_empty()
}

/// A key of a row may not outgrow the limit.
pub fn check(key: Vec<u8>) -> Result<Vec<u8>, CommandError> {
    if key.len() > MAX_KEY_BYTES { Err(CommandError::TableKeyTooLong) } else { Ok(key) }
}

/// The cut behind everything that begins so: the first byte string that is greater and does not.
pub fn behind(mut front: Vec<u8>) -> Vec<u8> {
    while front.last() == Some(&0xff) {
        front.pop();
    }
    *front.last_mut().expect("a row's key begins with a byte below 0xff") += 1;
    front
}

/// Which end of a range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The smaller one.
    From,
    /// The greater one.
    To,
}

/// The cut that a bound is. `front`: what all keys of the table begin with.
pub fn cut<'a>(
    types: &[Type],
    front: Vec<u8>,
    words: impl IntoIterator<Item = &'a [u8]>,
    end: End,
) -> Result<Vec<u8>, CommandError> {
    let mut key = front;
    // Once it is open, nothing but openings may follow, and they say nothing new.
    let mut open: Option<bool> = None;
    for (of, word) in types.iter().zip(words) {
        let (value, at) = match (word, of) {
            (b"-", _) => (None, false),
            (b"+", _) => (None, true),
            ([b'[', value @ ..], _) => (Some(value), end == End::To),
            ([b'(', value @ ..], _) => (Some(value), end == End::From),
            (value, Type::U64 | Type::I64) => (Some(value), end == End::To),
            _ => return Err(CommandError::KeyBound),
        };
        let exclusive = word.first() == Some(&b'(');
        match (value, open) {
            (None, None) => open = Some(at),
            (None, Some(_)) => {}
            (Some(_), Some(_)) => return Err(CommandError::KeyBound),
            (Some(value), None) => {
                of.encode(value, &mut key)?;
                if exclusive {
                    open = Some(at);
                }
            }
        }
    }
    let is_behind = open.unwrap_or(end == End::To);
    check(if is_behind { behind(key) } else { key })
}

#[cfg(test)]
mod tests {
    use super::*;

    const TYPES: [Type; 3] = [Type::I64, Type::String, Type::U64];

    fn key(words: [&str; 3]) -> Vec<u8> {
        let mut key = vec![2];
        for (of, word) in TYPES.iter().zip(words) {
            of.encode(word.as_bytes(), &mut key).unwrap();
        }
        key
    }

    const SORTED: [[&str; 3]; 9] = [
        ["-9223372036854775808", "", "0"],
        ["-1", "z", "18446744073709551615"],
        ["0", "", "5"],
        ["0", "\0", "0"],
        ["0", "a", "1"],
        ["0", "a", "2"],
        ["0", "a\0", "0"],
        ["0", "ab", "0"],
        ["1", "", "0"],
    ];

    #[test]
    fn keys_compare_as_tuples_and_come_back() {
        let keys = SORTED.map(key);
        assert!(keys.is_sorted());
        for key in &keys {
            assert!(is_key(&TYPES, &key[1..]));
            assert!(!is_key(&TYPES, &key[1..key.len() - 1]) && !is_key(&TYPES, &[&key[1..], &[0]].concat()));
        }
        assert!(!is_key(&[Type::String], &[0xff, 0, 0]) && is_key(&[Type::Bytes], &[0xff, 0, 0]));
        assert!(!is_key(&[Type::Bytes], &[b'a', 0, 1]));
        assert!(keys.iter().all(|one| keys.iter().all(|other| one == other || !other.starts_with(one))));
        for (words, key) in SORTED.iter().zip(&keys) {
            let (mut reader, mut out) = (Reader::new(&key[1..]), Vec::new());
            let mut reply = Reply::new(&mut out, crate::Protocol::Resp2);
            TYPES.iter().for_each(|of| of.reply(&mut reader, &mut reply).unwrap());
            assert!(reader.is_empty());
            assert!(
                out.starts_with(
                    format!(":{}\r\n${}\r\n{}\r\n", words[0], words[1].len(), words[1]).as_bytes()
                )
            );
        }
    }

    #[test]
    fn words_of_another_type_are_refused() {
        for (of, words) in [
            (Type::U64, &["", "-1", "+1", "1.0", "18446744073709551616", "x"][..]),
            (Type::I64, &["", "+1", "9223372036854775808", "x"]),
        ] {
            for word in words {
                assert!(of.encode(word.as_bytes(), &mut Vec::new()).is_err(), "{word}");
            }
        }
        assert!(Type::String.encode(&[0xff], &mut Vec::new()).is_err());
        assert!(Type::Bytes.encode(&[0xff], &mut Vec::new()).is_ok());
    }

    /// Every pair of bounds, against tuples compared one by one.
    #[test]
    fn bounds_cut_where_they_say() {
        let cut = |words: [&str; 3], end| cut(&TYPES, vec![2], words.map(str::as_bytes), end);
        let below = |words, end| {
            let at = cut(words, end).unwrap();
            SORTED.iter().filter(|tuple| key(**tuple) < at).count()
        };
        for (words, from, to) in [
            (["-", "-", "-"], 0, 0),
            (["+", "+", "+"], 9, 9),
            (["0", "-", "-"], 2, 2),
            (["0", "+", "+"], 8, 8),
            (["(0", "-", "-"], 8, 2),
            (["(0", "+", "+"], 8, 2),
            (["[0", "[a", "-"], 4, 4),
            (["0", "[a", "+"], 6, 6),
            (["0", "(a", "+"], 6, 4),
            (["0", "[a", "1"], 4, 5),
            (["0", "[a", "(1"], 5, 4),
            (["-1", "[z", "18446744073709551615"], 1, 2),
        ] {
            assert_eq!(below(words, End::From), from, "from {words:?}");
            assert_eq!(below(words, End::To), to, "to {words:?}");
        }
        for wrong in [["-", "[a", "-"], ["(0", "[a", "-"], ["0", "a", "-"], ["0", "", "-"], ["x", "-", "-"]] {
            assert!(cut(wrong, End::From).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn behind_everything_that_begins_so() {
        assert_eq!(behind(vec![2, 0xff, 0xff]), [3]);
        assert_eq!(behind(vec![2, 0, 0]), [2, 0, 1]);
    }
}
