//! Replies as types.

use std::collections::HashMap;
use std::hash::Hash;

use crate::reply::Reply;

/// What a reply may be read as.
pub trait FromReply: Sized {
    /// `None`: it is no such thing.
    fn from_reply(reply: Reply) -> Option<Self>;
}

impl FromReply for Reply {
    fn from_reply(reply: Reply) -> Option<Reply> {
        Some(reply)
    }
}

/// Whatever it is.
impl FromReply for () {
    fn from_reply(reply: Reply) -> Option<()> {
        (!matches!(reply, Reply::Error(_))).then_some(())
    }
}

impl FromReply for Vec<u8> {
    fn from_reply(reply: Reply) -> Option<Vec<u8>> {
        match reply {
            Reply::Bytes(bytes) => Some(bytes),
            Reply::Status(text) => Some(text.into_bytes()),
            Reply::Integer(number) => Some(number.to_string().into_bytes()),
            _ => None,
        }
    }
}

impl FromReply for String {
    fn from_reply(reply: Reply) -> Option<String> {
        String::from_utf8(Vec::from_reply(reply)?).ok()
    }
}

impl FromReply for bool {
    fn from_reply(reply: Reply) -> Option<bool> {
        match reply {
            Reply::Boolean(yes) => Some(yes),
            Reply::Integer(number @ (0 | 1)) => Some(number == 1),
            Reply::Status(text) => (text == "OK").then_some(true),
            // `SET .. NX` says so.
            Reply::Nil => Some(false),
            _ => None,
        }
    }
}

impl FromReply for f64 {
    fn from_reply(reply: Reply) -> Option<f64> {
        match reply {
            Reply::Double(number) => Some(number),
            other => String::from_reply(other)?.parse().ok(),
        }
    }
}

macro_rules! integers {
    ($($number:ty),+) => {
        $(impl FromReply for $number {
            fn from_reply(reply: Reply) -> Option<$number> {
                match reply {
                    Reply::Integer(number) => number.try_into().ok(),
                    other => String::from_reply(other)?.parse().ok(),
                }
            }
        })+
    };
}

integers!(i32, i64, u32, u64, usize);

impl<T: FromReply> FromReply for Option<T> {
    fn from_reply(reply: Reply) -> Option<Option<T>> {
        match reply {
            Reply::Nil => Some(None),
            some => T::from_reply(some).map(Some),
        }
    }
}

/// Several; of a map its pairs, one after the other. Not for bytes: a value is a `Vec<u8>` as a whole.
macro_rules! lists {
    ($($item:ty),+) => {
        $(impl FromReply for Vec<$item> {
            fn from_reply(reply: Reply) -> Option<Vec<$item>> {
                parts(reply)?.into_iter().map(FromReply::from_reply).collect()
            }
        })+
    };
}

lists!(
    Reply,
    String,
    Vec<u8>,
    i64,
    u64,
    f64,
    bool,
    Option<String>,
    Option<Vec<u8>>,
    Option<i64>,
    Option<u64>
);

impl<A: FromReply, B: FromReply> FromReply for Vec<(A, B)> {
    fn from_reply(reply: Reply) -> Option<Vec<(A, B)>> {
        pairs(reply)?.into_iter().map(|(a, b)| Some((A::from_reply(a)?, B::from_reply(b)?))).collect()
    }
}

impl<K: FromReply + Hash + Eq, V: FromReply> FromReply for HashMap<K, V> {
    fn from_reply(reply: Reply) -> Option<HashMap<K, V>> {
        pairs(reply)?.into_iter().map(|(k, v)| Some((K::from_reply(k)?, V::from_reply(v)?))).collect()
    }
}

macro_rules! tuples {
    ($($name:ident),+) => {
        impl<$($name: FromReply),+> FromReply for ($($name,)+) {
            fn from_reply(reply: Reply) -> Option<Self> {
                let mut parts = parts(reply)?.into_iter();
                let tuple = ($($name::from_reply(parts.next()?)?,)+);
                parts.next().is_none().then_some(tuple)
            }
        }
    };
}

tuples!(A);
tuples!(A, B);
tuples!(A, B, C);
tuples!(A, B, C, D);

fn parts(reply: Reply) -> Option<Vec<Reply>> {
    match reply {
        Reply::Array(parts) => Some(parts),
        Reply::Map(pairs) => Some(pairs.into_iter().flat_map(|(key, value)| [key, value]).collect()),
        _ => None,
    }
}

/// Of a map, of an array of pairs, or of an array in which they follow each other.
fn pairs(reply: Reply) -> Option<Vec<(Reply, Reply)>> {
    let parts = match reply {
        Reply::Map(pairs) => return Some(pairs),
        Reply::Array(parts) => parts,
        _ => return None,
    };
    if parts.iter().all(|part| matches!(part, Reply::Array(pair) if pair.len() == 2)) {
        return parts.into_iter().map(<(Reply, Reply)>::from_reply).collect();
    }
    let (mut pairs, mut parts) = (Vec::new(), parts.into_iter());
    while let Some(key) = parts.next() {
        pairs.push((key, parts.next()?));
    }
    Some(pairs)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replies_are_what_one_asks_for_or_nothing() {
        let bytes = |text: &str| Reply::Bytes(text.as_bytes().to_vec());
        assert_eq!(i64::from_reply(bytes("-7")), Some(-7));
        assert_eq!(u64::from_reply(Reply::Integer(-7)), None);
        assert_eq!(Option::<i64>::from_reply(Reply::Nil), Some(None));
        assert_eq!(i64::from_reply(Reply::Nil), None);
        let list = Reply::Array(vec![bytes("a"), bytes("1")]);
        assert_eq!(<(String, u64)>::from_reply(list.clone()), Some(("a".into(), 1)));
        assert_eq!(<(String,)>::from_reply(list.clone()), None);
        assert_eq!(Vec::<(String, u64)>::from_reply(list.clone()), Some(vec![("a".into(), 1)]));
        assert_eq!(HashMap::<String, String>::from_reply(list), Some([("a".into(), "1".into())].into()));
        assert_eq!(bool::from_reply(Reply::Integer(2)), None);
        assert_eq!(<()>::from_reply(bytes("x")), Some(()));
    }
}
