//! What a procedure takes and gives, so that people and clients of any language can call it.
//!
//! Arguments and replies of procedures are bytes. A [`Signature`] names their fields, in order. [`Signature::encode`] makes arguments of
//! words, [`Signature::decode`] makes named values of a reply. Integers are little endian and as wide as their kind says.
//!
//! A signature describes; it does not check what the procedure checks itself (ranges, counts, whether a row is there). Words that fit
//! give arguments that the procedure can read, and nothing more.

use std::fmt;

use crate::codec::{Malformed, Reader};

/// What a procedure takes and gives.
#[derive(Debug)]
pub struct Signature {
    /// It changes no data, whatever its arguments.
    pub reads: bool,
    /// Its arguments.
    pub args: &'static [Field],
    /// Its reply when it commits. It may end early, between two fields.
    pub reply: &'static [Field],
}

/// A named part of arguments or of a reply.
#[derive(Debug)]
pub struct Field {
    /// In small letters.
    pub name: &'static str,
    /// How it stands in the bytes.
    pub kind: Kind,
}

/// How a field stands in the bytes.
#[derive(Debug)]
pub enum Kind {
    /// An unsigned integer of so many bytes, 1 to 8.
    Unsigned(u8),
    /// A signed integer of 8 bytes.
    Signed,
    /// A byte: which of these words.
    Word(&'static [&'static str]),
    /// A byte: which of these fields, and then that one. Two words: its name and its value.
    OneOf(&'static [Field]),
    /// At most 255 bytes, their number in a byte in front.
    Text,
    /// Exactly so many bytes.
    Bytes(usize),
    /// All bytes that are left. The last field, if there is one.
    Rest,
    /// These fields, again and again until nothing is left. The last field, if there is one.
    Groups(&'static [Field]),
}

/// A field of this name and kind.
pub const fn field(name: &'static str, kind: Kind) -> Field {
    Field { name, kind }
}

/// A byte.
pub const U8: Kind = Kind::Unsigned(1);
/// 2 bytes.
pub const U16: Kind = Kind::Unsigned(2);
/// 3 bytes.
pub const U24: Kind = Kind::Unsigned(3);
/// 4 bytes.
pub const U32: Kind = Kind::Unsigned(4);
/// 6 bytes.
pub const U48: Kind = Kind::Unsigned(6);
/// 8 bytes.
pub const U64: Kind = Kind::Unsigned(8);
/// 8 bytes, two's complement.
pub const I64: Kind = Kind::Signed;

/// A decoded value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value<'a> {
    /// An unsigned integer.
    Unsigned(u64),
    /// A signed integer.
    Signed(i64),
    /// Bytes, or a word.
    Bytes(&'a [u8]),
    /// Of each group its values.
    Groups(Vec<Vec<(&'static str, Value<'a>)>>),
}

/// Why words are no arguments.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Misfit {
    /// Too few or too many words.
    Count,
    /// The word for this field does not fit it.
    Field(&'static str),
}

impl Signature {
    /// Appends the arguments that the words say.
    ///
    /// # Errors
    /// If the words do not fit; what was appended by then stays.
    pub fn encode<'a>(
        &self,
        words: impl IntoIterator<Item = &'a [u8]>,
        out: &mut Vec<u8>,
    ) -> Result<(), Misfit> {
        let mut words = words.into_iter().peekable();
        for Field { name, kind } in self.args {
            match kind {
                Kind::Groups(fields) => {
                    while words.peek().is_some() {
                        for Field { name, kind } in *fields {
                            kind.encode(words.next().ok_or(Misfit::Count)?, out)
                                .ok_or(Misfit::Field(name))?;
                        }
                    }
                }
                Kind::OneOf(fields) => {
                    let chosen = words.next().ok_or(Misfit::Count)?;
                    let is_it = |field: &Field| field.name.as_bytes().eq_ignore_ascii_case(chosen);
                    let at = fields.iter().position(is_it).ok_or(Misfit::Field(name))?;
                    out.push(u8::try_from(at).map_err(|_| Misfit::Field(name))?);
                    let word = words.next().ok_or(Misfit::Count)?;
                    fields[at].kind.encode(word, out).ok_or(Misfit::Field(name))?;
                }
                kind => kind.encode(words.next().ok_or(Misfit::Count)?, out).ok_or(Misfit::Field(name))?,
            }
        }
        if words.next().is_some() { Err(Misfit::Count) } else { Ok(()) }
    }

    /// The values of a reply.
    ///
    /// # Errors
    /// If it is none of this signature: one of the two is wrong.
    pub fn decode<'a>(&self, reply: &'a [u8]) -> Result<Vec<(&'static str, Value<'a>)>, Malformed> {
        let mut reader = Reader::new(reply);
        let mut values = Vec::with_capacity(self.reply.len());
        for field in self.reply {
            let may_be_empty = matches!(field.kind, Kind::Rest | Kind::Groups(_));
            if reader.is_empty() && !may_be_empty {
                continue;
            }
            values.push((field.name, field.kind.decode(&mut reader)?));
        }
        if reader.is_empty() { Ok(values) } else { Err(Malformed("reply (longer than its signature)")) }
    }
}

impl Kind {
    fn encode(&self, word: &[u8], out: &mut Vec<u8>) -> Option<()> {
        let text = || std::str::from_utf8(word).ok();
        match self {
            Kind::Unsigned(width) => {
                let value: u64 = text()?.parse().ok()?;
                let bytes = value.to_le_bytes();
                let (kept, cut) = bytes.split_at(usize::from(*width));
                cut.iter().all(|byte| *byte == 0).then(|| out.extend_from_slice(kept))
            }
            Kind::Signed => {
                out.extend_from_slice(&text()?.parse::<i64>().ok()?.to_le_bytes());
                Some(())
            }
            Kind::Word(known) => {
                let at = known.iter().position(|known| known.as_bytes().eq_ignore_ascii_case(word))?;
                out.push(u8::try_from(at).ok()?);
                Some(())
            }
            Kind::Text => {
                out.push(u8::try_from(word.len()).ok()?);
                out.extend_from_slice(word);
                Some(())
            }
            Kind::Bytes(len) => (word.len() == *len).then(|| out.extend_from_slice(word)),
            Kind::Rest => {
                out.extend_from_slice(word);
                Some(())
            }
            // What is more than a word, in what is one.
            Kind::Groups(_) | Kind::OneOf(_) => None,
        }
    }

    fn decode<'a>(&self, reader: &mut Reader<'a>) -> Result<Value<'a>, Malformed> {
        Ok(match self {
            Kind::Unsigned(width) => {
                let mut bytes = [0; 8];
                let width = usize::from(*width);
                bytes[..width].copy_from_slice(reader.take(width)?);
                Value::Unsigned(u64::from_le_bytes(bytes))
            }
            Kind::Signed => Value::Signed(reader.u64()? as i64),
            Kind::Word(known) => {
                let word = known.get(usize::from(reader.u8()?)).ok_or(Malformed("word"))?;
                Value::Bytes(word.as_bytes())
            }
            Kind::OneOf(fields) => {
                let field = fields.get(usize::from(reader.u8()?)).ok_or(Malformed("choice"))?;
                field.kind.decode(reader)?
            }
            Kind::Text => {
                let len = reader.u8()?;
                Value::Bytes(reader.take(len.into())?)
            }
            Kind::Bytes(len) => Value::Bytes(reader.take(*len)?),
            Kind::Rest => Value::Bytes(reader.take(reader.rest().len())?),
            Kind::Groups(fields) => {
                let mut groups = Vec::new();
                while !reader.is_empty() {
                    let values = fields.iter().map(|field| Ok((field.name, field.kind.decode(reader)?)));
                    groups.push(values.collect::<Result<_, Malformed>>()?);
                }
                Value::Groups(groups)
            }
        })
    }
}

/// Fields as people read them: `from:u64 to:u64 lines:(item:u24 quantity:u8)*`.
pub struct Fields(pub &'static [Field]);

impl fmt::Display for Fields {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, Field { name, kind }) in self.0.iter().enumerate() {
            if at > 0 {
                f.write_str(" ")?;
            }
            match kind {
                Kind::Unsigned(width) => write!(f, "{name}:u{}", 8 * width)?,
                Kind::Signed => write!(f, "{name}:i64")?,
                Kind::Word(known) => write!(f, "{name}:{}", known.join("|"))?,
                Kind::Text => write!(f, "{name}:text")?,
                Kind::Bytes(len) => write!(f, "{name}:bytes[{len}]")?,
                Kind::Rest => write!(f, "{name}:bytes")?,
                Kind::OneOf(fields) => {
                    write!(f, "{name}:")?;
                    for (at, field) in fields.iter().enumerate() {
                        let or = if at > 0 { " or " } else { "" };
                        write!(f, "{or}{}", Fields(std::slice::from_ref(field)))?;
                    }
                }
                Kind::Groups(fields) => write!(f, "{name}:({})*", Fields(fields))?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    static ORDER: Signature = Signature {
        reads: false,
        args: &[
            field("district", U8),
            field("by", Kind::Word(&["id", "name"])),
            field("note", Kind::Text),
            field("who", Kind::OneOf(&[field("id", U16), field("name", Kind::Text)])),
            field("lines", Kind::Groups(&[field("item", U24), field("change", I64)])),
        ],
        reply: &[
            field("order", U32),
            field("credit", Kind::Bytes(2)),
            field("rows", Kind::Groups(&[field("row", U16)])),
        ],
    };

    fn encode(line: &str) -> Result<Vec<u8>, Misfit> {
        let mut out = Vec::new();
        ORDER.encode(line.split_whitespace().map(str::as_bytes), &mut out).map(|()| out)
    }

    #[test]
    fn words_become_arguments() {
        let mut expected = vec![7, 1, 2, b'h', b'i', 1, 1, b'x', 0xff, 0xff, 0xff];
        expected.extend_from_slice(&(-2i64).to_le_bytes());
        assert_eq!(encode("7 NAME hi Name x 16777215 -2"), Ok(expected));
        assert_eq!(encode("0 id hi id 258"), Ok(vec![0, 0, 2, b'h', b'i', 0, 2, 1]));
    }

    #[test]
    fn words_that_do_not_fit_say_where() {
        for (line, misfit) in [
            ("", Misfit::Count),
            ("7 id", Misfit::Count),
            ("256 id x", Misfit::Field("district")),
            ("-1 id x", Misfit::Field("district")),
            ("1 key x", Misfit::Field("by")),
            ("1 id x", Misfit::Count),
            ("1 id x id", Misfit::Count),
            ("1 id x number 1", Misfit::Field("who")),
            ("1 id x id 65536", Misfit::Field("who")),
            ("1 id x id 7 16777216 1", Misfit::Field("item")),
            ("1 id x id 7 1 9223372036854775808", Misfit::Field("change")),
            ("1 id x id 7 1", Misfit::Count),
        ] {
            assert_eq!(encode(line), Err(misfit), "{line}");
        }
        let long = vec![b'x'; 256];
        let words = [&b"1"[..], b"id", &long];
        assert_eq!(ORDER.encode(words, &mut Vec::new()), Err(Misfit::Field("note")));
    }

    #[test]
    fn a_reply_has_names() {
        let reply = [5, 0, 0, 0, b'G', b'C', 1, 0, 2, 1];
        let rows = [1, 258].map(|row| vec![("row", Value::Unsigned(row))]).to_vec();
        let values = vec![
            ("order", Value::Unsigned(5)),
            ("credit", Value::Bytes(b"GC")),
            ("rows", Value::Groups(rows)),
        ];
        assert_eq!(ORDER.decode(&reply), Ok(values));
        assert_eq!(
            ORDER.decode(&reply[..4]).map(|values| values.len()),
            Ok(2),
            "an early end: groups may be none"
        );
        assert!(ORDER.decode(&reply[..5]).is_err(), "half a field");
        assert!(ORDER.decode(&reply[..9]).is_err(), "half a group");
    }

    #[test]
    fn it_reads_like_a_usage_line() {
        assert_eq!(
            Fields(ORDER.args).to_string(),
            "district:u8 by:id|name note:text who:id:u16 or name:text lines:(item:u24 change:i64)*"
        );
        assert_eq!(Fields(ORDER.reply).to_string(), "order:u32 credit:bytes[2] rows:(row:u16)*");
    }
}
