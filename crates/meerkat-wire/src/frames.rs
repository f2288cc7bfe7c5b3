//! Connections of clients that coordinate: a greeting, then frames.
//!
//! ```text
//! hello    "HWTC" | version u16 | number u16 | cluster u64 | tables u16 | hash of the tables u64 | zeros | crc u32      64 bytes
//! welcome  "HWTD" | refused u8 | node u8 | workers u16 | incarnation u64 | reason (236, zero-filled) | crc u32         256 bytes
//! frame    length u32 | crc u32 | a message                                                           all little endian
//! ```
//!
//! A hello is as long as that of another node: both come to the same port. `number` modulo the cluster's workers is the worker that the
//! client speaks to; at every node it is the same one.

use std::fmt;

use bytes::{Bytes, BytesMut};
use highwater_core::Fingerprint;
use highwater_core::codec::{Malformed, Reader};
use highwater_core::limits::MAX_FRAME_BODY_BYTES;
use highwater_core::{Incarnation, NodeId};

/// Version of the greeting and of everything that follows it.
pub const VERSION: u16 = 2;
/// Length of a [`Hello`].
pub const HELLO_BYTES: usize = 64;
/// Length of a [`Welcome`].
pub const WELCOME_BYTES: usize = 256;
/// With what a hello begins.
pub const HELLO_MAGIC: &[u8; 4] = b"HWTC";

const WELCOME_MAGIC: &[u8; 4] = b"HWTD";
const REASON_BYTES: usize = 236;
/// In front of a message.
const PREFIX_BYTES: usize = 8;
/// Longest message.
pub const MAX_MESSAGE_BYTES: usize = MAX_FRAME_BODY_BYTES;
/// Read at one time.
const READ_BYTES: usize = 64 << 10;

/// What a client says first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hello {
    /// [`VERSION`] of the client.
    pub version: u16,
    /// Which worker it wants to speak to.
    pub number: u16,
    /// Hash of the cluster's name: [`Fingerprint::of_name`].
    pub cluster: u64,
    /// The tables that it knows.
    pub tables: Fingerprint,
}

/// What a node answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Welcome {
    /// Which node it is.
    pub node: NodeId,
    /// How many workers each node has.
    pub workers: u16,
    /// The node's life.
    pub incarnation: Incarnation,
    /// Why not, if not, in words.
    pub refusal: Option<String>,
}

fn seal<const N: usize>(mut out: Vec<u8>) -> [u8; N] {
    out.resize(N - 4, 0);
    out.extend_from_slice(&crc32fast::hash(&out).to_le_bytes());
    out.try_into().expect("a greeting has its fixed length")
}

fn open<'a>(bytes: &'a [u8], magic: &[u8; 4]) -> Result<Reader<'a>, Malformed> {
    let (message, crc) = bytes.split_at(bytes.len() - 4);
    let mut reader = Reader::new(message);
    if reader.take(4)? != magic || crc32fast::hash(message).to_le_bytes() != crc {
        return Err(Malformed("greeting"));
    }
    Ok(reader)
}

impl Hello {
    /// As it travels.
    pub fn encode(&self) -> [u8; HELLO_BYTES] {
        let mut out = HELLO_MAGIC.to_vec();
        out.extend_from_slice(&self.version.to_le_bytes());
        out.extend_from_slice(&self.number.to_le_bytes());
        out.extend_from_slice(&self.cluster.to_le_bytes());
        out.extend_from_slice(&self.tables.count.to_le_bytes());
        out.extend_from_slice(&self.tables.hash.to_le_bytes());
        seal(out)
    }

    /// Takes it apart.
    ///
    /// # Errors
    /// If whoever said it is no such client.
    pub fn decode(bytes: &[u8; HELLO_BYTES]) -> Result<Hello, Malformed> {
        let mut reader = open(bytes, HELLO_MAGIC)?;
        let (version, number, cluster) = (reader.u16()?, reader.u16()?, reader.u64()?);
        let tables = Fingerprint { count: reader.u16()?, hash: reader.u64()? };
        Ok(Hello { version, number, cluster, tables })
    }
}

impl Welcome {
    /// As it travels.
    pub fn encode(&self) -> [u8; WELCOME_BYTES] {
        let mut out = WELCOME_MAGIC.to_vec();
        out.extend_from_slice(&[self.refusal.is_some().into(), self.node.0]);
        out.extend_from_slice(&self.workers.to_le_bytes());
        out.extend_from_slice(&self.incarnation.0.to_le_bytes());
        let reason = self.refusal.as_deref().unwrap_or_default().as_bytes();
        out.extend_from_slice(&reason[..reason.len().min(REASON_BYTES)]);
        seal(out)
    }

    /// Takes it apart.
    ///
    /// # Errors
    /// If whoever answered is no Highwater node.
    pub fn decode(bytes: &[u8; WELCOME_BYTES]) -> Result<Welcome, Malformed> {
        let mut reader = open(bytes, WELCOME_MAGIC)?;
        let (refused, node) = (reader.u8()? != 0, NodeId(reader.u8()?));
        let (workers, incarnation) = (reader.u16()?, Incarnation(reader.u64()?));
        let reason = reader.take(REASON_BYTES)?;
        let len = reason.iter().position(|byte| *byte == 0).unwrap_or(REASON_BYTES);
        let reason = String::from_utf8_lossy(&reason[..len]).into_owned();
        Ok(Welcome { node, workers, incarnation, refusal: refused.then_some(reason) })
    }
}

/// What stands in front of a message.
///
/// # Panics
/// If it is too long.
pub fn prefix(message: &[u8]) -> [u8; PREFIX_BYTES] {
    assert!(message.len() <= MAX_MESSAGE_BYTES, "a message of {} bytes", message.len());
    let mut prefix = [0; PREFIX_BYTES];
    prefix[..4].copy_from_slice(&(message.len() as u32).to_le_bytes());
    prefix[4..].copy_from_slice(&crc32fast::hash(message).to_le_bytes());
    prefix
}

/// Why bytes are no messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Damaged {
    /// A length is over the limit.
    TooLong(usize),
    /// A checksum is wrong.
    Checksum,
}

impl fmt::Display for Damaged {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Damaged::TooLong(len) => write!(f, "a message announces {len} bytes"),
            Damaged::Checksum => f.write_str("a message's checksum is wrong"),
        }
    }
}

/// Cuts messages out of what a socket gives.
#[derive(Debug, Default)]
pub struct Decoder {
    buffer: BytesMut,
}

impl Decoder {
    /// Lets `read` fill some room; it returns how many bytes it wrote at the start of what it got.
    ///
    /// # Errors
    /// That of `read`.
    pub fn fill<E>(&mut self, read: impl FnOnce(&mut [u8]) -> Result<usize, E>) -> Result<usize, E> {
        let before = self.buffer.len();
        // What a prefix announces is not believed before it comes.
        self.buffer.resize(before + READ_BYTES, 0);
        let filled = read(&mut self.buffer[before..]);
        self.buffer.truncate(before + filled.as_ref().map_or(0, |filled| *filled));
        filled
    }

    /// The next complete message.
    ///
    /// # Errors
    /// If the bytes are none: there is no way to find the next one.
    pub fn take_message(&mut self) -> Result<Option<Bytes>, Damaged> {
        if self.buffer.len() < PREFIX_BYTES {
            return Ok(None);
        }
        let word = |at: usize| u32::from_le_bytes(self.buffer[at..at + 4].try_into().expect("4 bytes"));
        let (len, crc) = (word(0) as usize, word(4));
        if len > MAX_MESSAGE_BYTES {
            return Err(Damaged::TooLong(len));
        }
        if self.buffer.len() < PREFIX_BYTES + len {
            return Ok(None);
        }
        let _ = self.buffer.split_to(PREFIX_BYTES);
        let message = self.buffer.split_to(len).freeze();
        if crc32fast::hash(&message) != crc {
            return Err(Damaged::Checksum);
        }
        // A short message does not keep the memory of what came with it.
        Ok(Some(if len < READ_BYTES { Bytes::copy_from_slice(&message) } else { message }))
    }

    /// Bytes that it holds.
    pub fn held_bytes(&self) -> usize {
        self.buffer.capacity()
    }

    /// Gives memory back, if nothing incomplete is in it.
    pub fn rest(&mut self) {
        if self.buffer.is_empty() {
            self.buffer = BytesMut::new();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn greetings_round_trip_and_strangers_are_noticed() {
        let hello =
            Hello { version: VERSION, number: 7, cluster: 9, tables: Fingerprint { count: 3, hash: 4 } };
        assert_eq!(Hello::decode(&hello.encode()), Ok(hello));
        for refusal in [None, Some("because".to_string()), Some("w".repeat(300))] {
            let welcome = Welcome {
                node: NodeId(2),
                workers: 4,
                incarnation: Incarnation(8),
                refusal: refusal.clone(),
            };
            let back = Welcome::decode(&welcome.encode()).unwrap();
            let cut = refusal.map(|mut reason| {
                reason.truncate(REASON_BYTES);
                reason
            });
            assert_eq!(back, Welcome { refusal: cut, ..welcome });
        }
        for at in 0..HELLO_BYTES {
            let mut bad = hello.encode();
            bad[at] ^= 0x20;
            assert!(Hello::decode(&bad).is_err(), "byte {at}");
        }
    }

    #[test]
    fn any_split_of_the_bytes_gives_the_same_messages() {
        let messages: Vec<Vec<u8>> = [0, 1, 7, 100, 70_000, 300_000].map(|len| vec![len as u8; len]).to_vec();
        let wire: Vec<u8> =
            messages.iter().flat_map(|message| [&prefix(message)[..], message].concat()).collect();
        for piece in [1, 3, 1000, 65_536] {
            let (mut decoder, mut rest, mut got) = (Decoder::default(), &wire[..], Vec::new());
            while !rest.is_empty() {
                let n = decoder.fill(|room| {
                    let n = piece.min(rest.len()).min(room.len());
                    room[..n].copy_from_slice(&rest[..n]);
                    Ok::<_, ()>(n)
                });
                rest = &rest[n.unwrap()..];
                while let Some(message) = decoder.take_message().unwrap() {
                    got.push(message.to_vec());
                }
            }
            assert!(got == messages);
            decoder.rest();
            assert_eq!(decoder.held_bytes(), 0);
        }
    }

    #[test]
    fn damage_is_noticed_and_long_announcements_reserve_nothing() {
        let feed = |bytes: &[u8]| {
            let mut decoder = Decoder::default();
            decoder
                .fill(|room| {
                    room[..bytes.len()].copy_from_slice(bytes);
                    Ok::<_, ()>(bytes.len())
                })
                .unwrap();
            decoder.take_message()
        };
        assert_eq!(feed(&[255; 8]), Err(Damaged::TooLong(u32::MAX as usize)));
        let mut wire = [&prefix(b"message")[..], b"message"].concat();
        wire[9] ^= 1;
        assert_eq!(feed(&wire), Err(Damaged::Checksum));
    }
}
