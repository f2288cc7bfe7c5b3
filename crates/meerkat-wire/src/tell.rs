//! What a replica's worker says to a client.
//!
//! ```text
//! 1 standing  epoch u64 | flags u8 (1 serves, 2 strict, 4 disk full) | voters u32 | nodes u8 | workers u16 | beat u64 | timeout u64 | room u64
//! 2 value     id u64 | version u64 | live u8 | value (rest)
//! 3 page      id u64 | flags u8 (1 more) | count varint, each: version u64 | live u8 | key | value
//! 4 refused   id u64 | why u8
//! 5 granted   id u64 | epoch u64 | ts u64 | ahead u64 | advanced u64 | since u64 | room u64 | full u8
//! 6 about     epoch u64 | a message
//! 7 gone      epoch u64 | ts u64
//! ```

use bytes::Bytes;
use highwater_core::codec::{Malformed, Reader, put_bytes, put_varint};
use highwater_core::{Epoch, Nanos, Timestamp};
use highwater_kit::validation::message::Message;

use super::ask::Ahead;

/// How a replica stands: told when a client connects, and when it changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Standing {
    /// The epoch in which it takes part; 0: none.
    pub epoch: Epoch,
    /// It reads for clients, validates, and grants stamps.
    pub serves: bool,
    /// Timestamps agree with real time.
    pub strict: bool,
    /// Of the epoch: a bit each.
    pub voters: u32,
    /// How many nodes are configured.
    pub nodes: u8,
    /// And workers of each.
    pub workers: u16,
    /// Between two heartbeats.
    pub beat: Nanos,
    /// After so long others are given up.
    pub timeout: Nanos,
    /// By so many bytes one transaction may make stores grow.
    pub room: u64,
    /// What writes is refused: disks are full.
    pub disk_full: bool,
}

/// Why there is no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// It has no vote, or pauses.
    NotServing,
    /// It does not hear a majority.
    NoQuorum,
    /// Too much is under way.
    Busy,
}

/// A record that a scan passed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Item {
    pub key: Bytes,
    /// Which commit wrote it, or deleted it.
    pub version: Timestamp,
    /// What it holds; `None`: it was deleted.
    pub value: Option<Bytes>,
}

/// A part of a range.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Page {
    /// What stands there, in the order of the scan, tombstones included.
    pub items: Vec<Item>,
    /// There may be more behind the last one.
    pub more: bool,
}

/// A message to a client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Tell {
    /// How the replica stands.
    Standing(Standing),
    /// What stands under a key.
    Value {
        /// Of the question.
        id: u64,
        /// Everything that committed at or below was there when it was read.
        as_of: Timestamp,
        /// Which commit wrote it, or deleted it; zero: there is no trace of it.
        version: Timestamp,
        /// The key exists.
        live: bool,
        /// What it holds, if that was asked for.
        value: Bytes,
    },
    /// A part of a range.
    Page {
        /// Of the question.
        id: u64,
        /// As in [`Value`](Tell::Value).
        as_of: Timestamp,
        /// What is there.
        page: Page,
    },
    /// No answer.
    Refused {
        /// To which question.
        id: u64,
        why: Why,
    },
    /// A stamp.
    Granted {
        /// Of the question.
        id: u64,
        /// In which it counts.
        epoch: Epoch,
        /// The stamp.
        ts: Timestamp,
        /// How far ahead of the home's clock it is: to be told again if it came too late.
        lead: Ahead,
        /// As in [`Standing`].
        room: u64,
        /// As in [`Standing`].
        disk_full: bool,
    },
    /// What this replica says to a transaction: a vote, that a proposal was accepted or overtaken, or that it is over.
    About {
        /// Of the stamp.
        epoch: Epoch,
        /// As workers say it.
        message: Message,
    },
    /// It is over everywhere, and what became of it is not known here any more.
    Gone {
        /// Of the stamp.
        epoch: Epoch,
        ts: Timestamp,
    },
}

fn flag(is: bool, bit: u8) -> u8 {
    if is { bit } else { 0 }
}

fn put_why(why: Why) -> u8 {
    match why {
        Why::NotServing => 0,
        Why::NoQuorum => 1,
        Why::Busy => 2,
    }
}

impl Tell {
    /// As it travels.
    pub fn encode(&self) -> Bytes {
        let mut out = Vec::new();
        let put = |out: &mut Vec<u8>, word: u64| out.extend_from_slice(&word.to_le_bytes());
        match self {
            Tell::Standing(standing) => {
                let Standing {
                    epoch,
                    serves,
                    strict,
                    voters,
                    nodes,
                    workers,
                    beat,
                    timeout,
                    room,
                    disk_full,
                } = *standing;
                out.push(1);
                put(&mut out, epoch.0);
                out.push(flag(serves, 1) | flag(strict, 2) | flag(disk_full, 4));
                out.extend_from_slice(&voters.to_le_bytes());
                out.push(nodes);
                out.extend_from_slice(&workers.to_le_bytes());
                [beat, timeout, room].into_iter().for_each(|word| put(&mut out, word));
            }
            Tell::Value { id, as_of, version, live, value } => {
                out.push(2);
                put(&mut out, *id);
                put(&mut out, as_of.0);
                put(&mut out, version.0);
                out.push((*live).into());
                out.extend_from_slice(value);
            }
            Tell::Page { id, as_of, page } => {
                out.push(3);
                put(&mut out, *id);
                put(&mut out, as_of.0);
                out.push(flag(page.more, 1));
                put_varint(&mut out, page.items.len() as u64);
                for Item { key, version, value } in &page.items {
                    put(&mut out, version.0);
                    out.push(value.is_some().into());
                    put_bytes(&mut out, key);
                    value.iter().for_each(|value| put_bytes(&mut out, value));
                }
            }
            Tell::Refused { id, why } => {
                out.push(4);
                put(&mut out, *id);
                out.push(put_why(*why));
            }
            Tell::Granted { id, epoch, ts, lead: Ahead { ahead, advanced, since }, room, disk_full } => {
                out.push(5);
                let words = [*id, epoch.0, ts.0, *ahead, *advanced, *since, *room];
                words.into_iter().for_each(|word| put(&mut out, word));
                out.push((*disk_full).into());
            }
            Tell::About { epoch, message } => {
                out.push(6);
                put(&mut out, epoch.0);
                message.encode(&mut out);
            }
            Tell::Gone { epoch, ts } => {
                out.push(7);
                put(&mut out, epoch.0);
                put(&mut out, ts.0);
            }
        }
        out.into()
    }

    /// Reads what [`encode`](Tell::encode) wrote.
    ///
    /// # Errors
    /// If it is something else.
    pub fn decode(whole: &Bytes) -> Result<Tell, Malformed> {
        let reader = &mut Reader::new(whole);
        let tell = match reader.u8()? {
            1 => {
                let (epoch, flags, voters) = (Epoch(reader.u64()?), reader.u8()?, reader.u32()?);
                let (nodes, workers) = (reader.u8()?, reader.u16()?);
                let (beat, timeout, room) = (reader.u64()?, reader.u64()?, reader.u64()?);
                let (serves, strict, disk_full) = (flags & 1 != 0, flags & 2 != 0, flags & 4 != 0);
                Tell::Standing(Standing {
                    epoch,
                    serves,
                    strict,
                    voters,
                    nodes,
                    workers,
                    beat,
                    timeout,
                    room,
                    disk_full,
                })
            }
            2 => {
                let (id, as_of) = (reader.u64()?, Timestamp(reader.u64()?));
                let (version, live) = (Timestamp(reader.u64()?), reader.u8()? != 0);
                let value = whole.slice(whole.len() - reader.rest().len()..);
                return Ok(Tell::Value { id, as_of, version, live, value });
            }
            3 => {
                let (id, as_of) = (reader.u64()?, Timestamp(reader.u64()?));
                let (more, count) = (reader.u8()? != 0, reader.varint()?);
                let mut items = Vec::new();
                for _ in 0..count {
                    let (version, live) = (Timestamp(reader.u64()?), reader.u8()? != 0);
                    let key = whole.slice_ref(reader.bytes()?);
                    let value = if live { Some(whole.slice_ref(reader.bytes()?)) } else { None };
                    items.push(Item { key, version, value });
                }
                Tell::Page { id, as_of, page: Page { items, more } }
            }
            4 => {
                let id = reader.u64()?;
                let why = match reader.u8()? {
                    0 => Why::NotServing,
                    1 => Why::NoQuorum,
                    2 => Why::Busy,
                    _ => return Err(Malformed("why there is no answer")),
                };
                Tell::Refused { id, why }
            }
            5 => Tell::Granted {
                id: reader.u64()?,
                epoch: Epoch(reader.u64()?),
                ts: Timestamp(reader.u64()?),
                lead: Ahead { ahead: reader.u64()?, advanced: reader.u64()?, since: reader.u64()? },
                room: reader.u64()?,
                disk_full: reader.u8()? != 0,
            },
            6 => {
                let epoch = Epoch(reader.u64()?);
                let mut rest = whole.slice(whole.len() - reader.rest().len()..);
                let message = Message::decode(&mut rest)?;
                if !rest.is_empty() {
                    return Err(Malformed("length of a message to a client"));
                }
                return Ok(Tell::About { epoch, message });
            }
            7 => Tell::Gone { epoch: Epoch(reader.u64()?), ts: Timestamp(reader.u64()?) },
            _ => return Err(Malformed("tag of a message to a client")),
        };
        if reader.is_empty() { Ok(tell) } else { Err(Malformed("length of a message to a client")) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use highwater_kit::validation::message::About;

    fn every() -> Vec<Tell> {
        let standing = Standing {
            epoch: Epoch(3),
            serves: true,
            strict: false,
            voters: 0b111,
            nodes: 3,
            workers: 2,
            beat: 4,
            timeout: 5,
            room: 6,
            disk_full: true,
        };
        let item = |value: Option<&'static [u8]>| Item {
            key: Bytes::from_static(b"key"),
            version: Timestamp(9),
            value: value.map(Bytes::from_static),
        };
        let page = Page { items: vec![item(Some(b"value")), item(None), item(Some(b""))], more: true };
        let about = About::Vote { valid: true, late: false, hint: Timestamp(4) };
        vec![
            Tell::Standing(standing),
            Tell::Value {
                id: 1,
                as_of: Timestamp(1),
                version: Timestamp(2),
                live: true,
                value: Bytes::from_static(b"v"),
            },
            Tell::Page { id: 2, as_of: Timestamp(1), page },
            Tell::Page { id: 2, as_of: Timestamp(0), page: Page::default() },
            Tell::Refused { id: 3, why: Why::NoQuorum },
            Tell::Granted {
                id: 4,
                epoch: Epoch(3),
                ts: Timestamp(8),
                lead: Ahead { ahead: 1, advanced: 2, since: 3 },
                room: 7,
                disk_full: false,
            },
            Tell::About { epoch: Epoch(3), message: Message { ts: Timestamp(8), about } },
            Tell::Gone { epoch: Epoch(3), ts: Timestamp(8) },
        ]
    }

    #[test]
    fn messages_round_trip_and_nonsense_is_an_error() {
        for tell in every() {
            let bytes = tell.encode();
            assert_eq!(Tell::decode(&bytes), Ok(tell.clone()));
            for len in 0..bytes.len() {
                assert_ne!(Tell::decode(&bytes.slice(..len)), Ok(tell.clone()));
            }
        }
        assert!(Tell::decode(&Bytes::from_static(&[99; 40])).is_err());
    }
}
