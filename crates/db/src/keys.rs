//! What may be the key of a row: encoded so that keys stand in the order of their values.

use highwater_core::KeyKind;
use highwater_core::codec::ordered;

/// A type of keys.
pub trait Key: Sized + 'static {
    /// What one asks with: `str` for keys of type `String`, say.
    type Ask: ?Sized;
    /// How the table stores them.
    const KIND: KeyKind = KeyKind::Bytes;

    /// Name of the encoding, on one line. The database keeps it, and refuses a program that has another one for the same table. For a type
    /// of your own: a word and a version, `account 2`. Types that keep this default are taken for one another.
    fn codec() -> String {
        "of the program's own".into()
    }

    /// Appends the key's bytes.
    fn encode(ask: &Self::Ask, out: &mut Vec<u8>);

    /// The key behind such bytes; `None` if there is none: the table was another one's.
    fn decode(bytes: &[u8]) -> Option<Self> {
        let mut rest = bytes;
        Self::take(&mut rest).filter(|_| rest.is_empty())
    }

    /// Takes the key off the front of a longer one's bytes.
    fn take(rest: &mut &[u8]) -> Option<Self>;
}

fn split<const N: usize>(rest: &mut &[u8]) -> Option<[u8; N]> {
    let (first, behind) = rest.split_first_chunk()?;
    *rest = behind;
    Some(*first)
}

impl Key for u64 {
    type Ask = u64;
    const KIND: KeyKind = KeyKind::U64;

    fn codec() -> String {
        "u64".into()
    }

    fn encode(ask: &u64, out: &mut Vec<u8>) {
        ordered::put_u64(out, *ask);
    }

    fn take(rest: &mut &[u8]) -> Option<u64> {
        split(rest).map(u64::from_be_bytes)
    }
}

impl Key for u32 {
    type Ask = u32;

    fn codec() -> String {
        "u32".into()
    }

    fn encode(ask: &u32, out: &mut Vec<u8>) {
        out.extend_from_slice(&ask.to_be_bytes());
    }

    fn take(rest: &mut &[u8]) -> Option<u32> {
        split(rest).map(u32::from_be_bytes)
    }
}

impl Key for i64 {
    type Ask = i64;
    const KIND: KeyKind = KeyKind::U64;

    fn codec() -> String {
        "i64".into()
    }

    fn encode(ask: &i64, out: &mut Vec<u8>) {
        ordered::put_i64(out, *ask);
    }

    fn take(rest: &mut &[u8]) -> Option<i64> {
        split(rest).map(|bytes| (u64::from_be_bytes(bytes) ^ 1 << 63) as i64)
    }
}

/// 0x00 becomes 0x00 0xff, and 0x00 0x00 is the end: a text stands before those that it begins.
fn take_text(rest: &mut &[u8]) -> Option<Vec<u8>> {
    let mut text = Vec::new();
    loop {
        let at = rest.iter().position(|byte| *byte == 0)?;
        text.extend_from_slice(&rest[..at]);
        let mark = *rest.get(at + 1)?;
        *rest = &rest[at + 2..];
        match mark {
            0 => return Some(text),
            0xff => text.push(0),
            _ => return None,
        }
    }
}

impl Key for String {
    type Ask = str;

    fn codec() -> String {
        "string".into()
    }

    fn encode(ask: &str, out: &mut Vec<u8>) {
        ordered::put_str(out, ask.as_bytes());
    }

    fn take(rest: &mut &[u8]) -> Option<String> {
        String::from_utf8(take_text(rest)?).ok()
    }
}

impl Key for Vec<u8> {
    type Ask = [u8];

    fn codec() -> String {
        "bytes".into()
    }

    fn encode(ask: &[u8], out: &mut Vec<u8>) {
        ordered::put_str(out, ask);
    }

    fn take(rest: &mut &[u8]) -> Option<Vec<u8>> {
        take_text(rest)
    }
}

macro_rules! tuples {
    ($($name:ident $at:tt),+) => {
        impl<$($name: Key),+> Key for ($($name,)+)
        where
            $($name: std::borrow::Borrow<$name::Ask>),+
        {
            type Ask = Self;

            fn codec() -> String {
                format!("({})", [$($name::codec()),+].join(", "))
            }

            fn encode(ask: &Self, out: &mut Vec<u8>) {
                $($name::encode(ask.$at.borrow(), out);)+
            }

            fn take(rest: &mut &[u8]) -> Option<Self> {
                Some(($($name::take(rest)?,)+))
            }
        }
    };
}

tuples!(A 0, B 1);
tuples!(A 0, B 1, C 2);

#[cfg(test)]
mod tests {
    use std::fmt::Debug;

    use super::*;

    fn in_order<K: Key + Debug + PartialEq>(keys: &[K], ask: impl Fn(&K) -> &K::Ask) {
        let mut before: Option<Vec<u8>> = None;
        for key in keys {
            let mut bytes = Vec::new();
            K::encode(ask(key), &mut bytes);
            assert_eq!(K::decode(&bytes).as_ref(), Some(key));
            assert!(before.is_none_or(|before| before < bytes), "{key:?}");
            bytes.push(7);
            assert_eq!(K::decode(&bytes), None, "{key:?}: something is left");
            bytes.truncate(bytes.len() - 2);
            assert_eq!(K::decode(&bytes), None, "{key:?}: something is missing");
            bytes.push(0);
            before = None;
            K::encode(ask(key), before.insert(Vec::new()));
        }
    }

    #[test]
    fn keys_stand_in_the_order_of_their_values_and_come_back() {
        in_order(&[0u64, 1, 255, 256, u64::MAX], |key| key);
        in_order(&[i64::MIN, -256, -1, 0, 1, i64::MAX], |key| key);
        in_order(&[0u32, 1, u32::MAX], |key| key);
        in_order(
            &["".to_string(), "\0".into(), "\0\0".into(), "a".into(), "a\0".into(), "ab".into()],
            |key| key.as_str(),
        );
        in_order(&[vec![], vec![0], vec![0, 255], vec![1], vec![255]], |key: &Vec<u8>| key.as_slice());
        let pairs = [("a", 2u64), ("a", 300), ("ab", 1), ("b", 0)].map(|(a, b)| (a.to_string(), b));
        in_order(&pairs, |key| key);
        in_order(&[(1u64, -1i64, 7u32), (1, 0, 0), (2, -5, 0)], |key| key);
    }
}
