//! What may be the value of a row.

/// A type of values. For one of your own: its bytes, with a version in front if it may change.
pub trait Value: Sized + 'static {
    /// Name of the encoding, on one line. The database keeps it, and refuses a program that has another one for the same table. For a type
    /// of your own: a word and a version, `account 2`. Types that keep this default are taken for one another.
    fn codec() -> String {
        "of the program's own".into()
    }

    /// Appends the value's bytes.
    fn encode(&self, out: &mut Vec<u8>);

    /// The value behind such bytes; `None` if they are none of this type.
    fn decode(bytes: &[u8]) -> Option<Self>;
}

macro_rules! numbers {
    ($($number:ty),+) => {
        $(impl Value for $number {
            fn codec() -> String {
                stringify!($number).into()
            }

            fn encode(&self, out: &mut Vec<u8>) {
                out.extend_from_slice(&self.to_le_bytes());
            }

            fn decode(bytes: &[u8]) -> Option<Self> {
                bytes.try_into().ok().map(Self::from_le_bytes)
            }
        })+
    };
}

numbers!(u8, u16, u32, u64, u128, i8, i16, i32, i64, i128, f32, f64);

/// Nothing: for tables that are sets of keys.
impl Value for () {
    fn codec() -> String {
        "nothing".into()
    }

    fn encode(&self, _: &mut Vec<u8>) {}

    fn decode(bytes: &[u8]) -> Option<()> {
        bytes.is_empty().then_some(())
    }
}

impl Value for bool {
    fn codec() -> String {
        "bool".into()
    }

    fn encode(&self, out: &mut Vec<u8>) {
        out.push(u8::from(*self));
    }

    fn decode(bytes: &[u8]) -> Option<bool> {
        match bytes {
            [0] => Some(false),
            [1] => Some(true),
            _ => None,
        }
    }
}

impl Value for String {
    fn codec() -> String {
        "string".into()
    }

    fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(self.as_bytes());
    }

    fn decode(bytes: &[u8]) -> Option<String> {
        std::str::from_utf8(bytes).ok().map(String::from)
    }
}

impl Value for Vec<u8> {
    fn codec() -> String {
        "bytes".into()
    }

    fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(self);
    }

    fn decode(bytes: &[u8]) -> Option<Vec<u8>> {
        Some(bytes.to_vec())
    }
}
