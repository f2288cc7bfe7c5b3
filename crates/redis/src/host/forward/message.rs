//! What nodes say to each other about forwarded requests.
//!
//! ```text
//! hello     0 | format u64                                    first, from both sides
//! ask       1 | number varint | client varint | procedure u16 | effect u8 | user bytes | session? | content: the arguments
//! answer    2 | number varint | outcome u8 | at u64 | content: the reply
//! refused   3 | number varint | refusal u8 | node u8 | slot u16
//! line      4 | client varint | content: keys: count varint, bytes*
//! leave     5 | client varint
//! wake      6 | client varint
//! session?  0, or 1 | id u64 | sequence u64
//! content   0 | bytes to the end of the head, or 1 | crc u32 of the frame's body
//! ```
//!
//! A message is a [`Frame`]. Its head is checked by the transport; a long content stands in the body, where it is copied once less,
//! and is checked here. Integers are little endian.

use bytes::Bytes;
use highwater_core::codec::{Malformed, Reader, put_bytes, put_varint};
use highwater_core::{NodeId, Outcome, ProcedureId, Timestamp};
use highwater_seam::{Frame, Refusal, Session};

use crate::acl::user::owner_of;
use crate::command::Opcode;
use crate::meter::OUTCOMES;
use crate::request::{Args, Effect};

/// The version of what is said here, and of what requests say; another number for every change. 3: a request may be done only if its reply is short.
const VERSION: u64 = 3;
/// Longer contents stand in the body.
const SHORT_BYTES: usize = 16 << 10;

const HELLO: u8 = 0;
const ASK: u8 = 1;
const ANSWER: u8 = 2;
const REFUSED: u8 = 3;
const LINE: u8 = 4;
const LEAVE: u8 = 5;
const WAKE: u8 = 6;

/// A request that is forwarded, without its arguments.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ask {
    /// Names it on its connection: one more than the one before.
    pub number: u64,
    /// The client, as its node numbers it.
    pub client: u64,
    /// The code to run.
    pub procedure: ProcedureId,
    /// What it may do.
    pub effect: Effect,
    /// Who asks.
    pub user: Vec<u8>,
    /// Whose request it is, if it is to run once.
    pub session: Option<Session>,
}

/// One message, without its content.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Message {
    /// What its sender's build makes of requests: see [`format`](fn@format).
    Hello {
        /// Only who says the same number is asked anything.
        format: u64,
    },
    /// To the leader; content: the arguments.
    Ask(Ask),
    /// To who asked; content: the reply.
    Answer {
        /// Which request.
        number: u64,
        /// How it ended.
        outcome: Outcome,
        /// When, in the one order of transactions.
        at: Timestamp,
    },
    /// To who asked: nothing was done.
    Refused {
        /// Which request.
        number: u64,
        /// Why.
        refusal: Refusal,
        /// The slot of the request's first key, for a referral.
        slot: u16,
    },
    /// To the leader: this client waits for data. Content: for which keys.
    Line {
        /// The client, as its node numbers it.
        client: u64,
    },
    /// To the leader: it waits no more.
    Leave {
        /// The client, as its node numbers it.
        client: u64,
    },
    /// To who said that it waits: there may be something.
    Wake {
        /// The client, as its node numbers it.
        client: u64,
    },
}

/// A number that two builds share if a request means the same to both: its procedures' and commands' numbers, and what is said here.
pub fn format(procedures: &[&str]) -> u64 {
    let commands = Opcode::all().map(|opcode| opcode.spec().name);
    let words = procedures.iter().copied().chain(["/"]).chain(commands);
    words.flat_map(|word| word.bytes().chain([0])).fold(0xcbf2_9ce4_8422_2325 ^ VERSION, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

impl Message {
    /// As it travels.
    pub fn encode(&self, content: &[u8]) -> Frame {
        let mut head = Vec::with_capacity(48 + if content.len() > SHORT_BYTES { 0 } else { content.len() });
        match self {
            Message::Hello { format } => {
                head.push(HELLO);
                head.extend_from_slice(&format.to_le_bytes());
            }
            Message::Ask(ask) => {
                head.push(ASK);
                put_varint(&mut head, ask.number);
                put_varint(&mut head, ask.client);
                head.extend_from_slice(&ask.procedure.0.to_le_bytes());
                head.push(ask.effect as u8);
                put_bytes(&mut head, &ask.user);
                head.push(ask.session.is_some().into());
                // Whose it is, the user's name says.
                if let Some(Session { id, sequence, owner: _ }) = ask.session {
                    head.extend_from_slice(&id.to_le_bytes());
                    head.extend_from_slice(&sequence.to_le_bytes());
                }
            }
            Message::Answer { number, outcome, at } => {
                head.push(ANSWER);
                put_varint(&mut head, *number);
                head.push(crate::meter::place(*outcome) as u8);
                head.extend_from_slice(&at.0.to_le_bytes());
            }
            Message::Refused { number, refusal, slot } => {
                head.push(REFUSED);
                put_varint(&mut head, *number);
                head.extend_from_slice(&encode_refusal(*refusal));
                head.extend_from_slice(&slot.to_le_bytes());
            }
            Message::Line { client } => named(&mut head, LINE, *client),
            Message::Leave { client } => named(&mut head, LEAVE, *client),
            Message::Wake { client } => named(&mut head, WAKE, *client),
        }
        if content.len() > SHORT_BYTES {
            head.push(1);
            head.extend_from_slice(&crc32fast::hash(content).to_le_bytes());
            return Frame { head: head.into(), body: Bytes::copy_from_slice(content) };
        }
        head.push(0);
        head.extend_from_slice(content);
        Frame { head: head.into(), body: Bytes::new() }
    }

    /// Reads one, and finds its content.
    ///
    /// # Errors
    /// It makes no sense, or what came is not what was sent.
    pub fn decode(frame: &Frame) -> Result<(Message, &[u8]), Malformed> {
        let mut reader = Reader::new(&frame.head);
        let message = match reader.u8()? {
            HELLO => Message::Hello { format: reader.u64()? },
            ASK => Message::Ask(decode_ask(&mut reader)?),
            ANSWER => Message::Answer {
                number: reader.varint()?,
                outcome: OUTCOMES.get(usize::from(reader.u8()?)).ok_or(Malformed("outcome"))?.0,
                at: Timestamp(reader.u64()?),
            },
            REFUSED => Message::Refused {
                number: reader.varint()?,
                refusal: decode_refusal(reader.array()?)?,
                slot: reader.u16()?,
            },
            LINE => Message::Line { client: reader.varint()? },
            LEAVE => Message::Leave { client: reader.varint()? },
            WAKE => Message::Wake { client: reader.varint()? },
            _ => return Err(Malformed("message")),
        };
        let content = match reader.u8()? {
            0 => reader.rest(),
            _ if reader.u32()? == crc32fast::hash(&frame.body) => &frame.body[..],
            _ => return Err(Malformed("checksum")),
        };
        Ok((message, content))
    }
}

fn decode_ask(reader: &mut Reader<'_>) -> Result<Ask, Malformed> {
    let (number, client) = (reader.varint()?, reader.varint()?);
    let (procedure, effect) = (ProcedureId(reader.u16()?), decode_effect(reader.u8()?)?);
    let user = reader.bytes()?.to_vec();
    let session = match reader.u8()? {
        0 => None,
        _ => Some(Session { id: reader.u64()?, sequence: reader.u64()?, owner: owner_of(&user) }),
    };
    Ok(Ask { number, client, procedure, effect, user, session })
}

/// The content of a [`Message::Line`].
pub fn encode_keys(keys: &[Vec<u8>]) -> Vec<u8> {
    let mut out = Vec::new();
    Args::encode(keys.iter().map(Vec::as_slice), &mut out);
    out
}

/// Reads it.
///
/// # Errors
/// It is none.
pub fn decode_keys(content: &[u8]) -> Result<Vec<Vec<u8>>, Malformed> {
    Ok(Args::decode(&mut Reader::new(content))?.map(<[u8]>::to_vec).collect())
}

fn named(head: &mut Vec<u8>, tag: u8, client: u64) {
    head.push(tag);
    put_varint(head, client);
}

fn decode_effect(byte: u8) -> Result<Effect, Malformed> {
    let effects =
        [Effect::Reads, Effect::Writes, Effect::Calls, Effect::Commits, Effect::Tries, Effect::Users];
    effects.into_iter().find(|effect| *effect as u8 == byte).ok_or(Malformed("effect"))
}

/// No node has this id.
const NOBODY: u8 = u8::MAX;

fn encode_refusal(refusal: Refusal) -> [u8; 2] {
    match refusal {
        Refusal::NotServing { ask } => [0, ask.map_or(NOBODY, |node| node.0)],
        Refusal::NoQuorum => [1, NOBODY],
        Refusal::Busy => [2, NOBODY],
        Refusal::Unsupported => [3, NOBODY],
    }
}

fn decode_refusal([kind, node]: [u8; 2]) -> Result<Refusal, Malformed> {
    Ok(match kind {
        0 => Refusal::NotServing { ask: (node != NOBODY).then_some(NodeId(node)) },
        1 => Refusal::NoQuorum,
        2 => Refusal::Busy,
        3 => Refusal::Unsupported,
        _ => return Err(Malformed("refusal")),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn messages() -> Vec<Message> {
        let ask = |effect, session| {
            Message::Ask(Ask {
                number: 1 << 40,
                client: 0x300,
                procedure: ProcedureId(7),
                effect,
                user: b"bob".to_vec(),
                session,
            })
        };
        let refused = |refusal| Message::Refused { number: 5, refusal, slot: 16_383 };
        let mut all = vec![
            Message::Hello { format: u64::MAX },
            ask(Effect::Reads, None),
            ask(Effect::Users, Some(Session { id: 3, sequence: u64::MAX, owner: owner_of(b"bob") })),
            refused(Refusal::NotServing { ask: None }),
            refused(Refusal::NotServing { ask: Some(NodeId(254)) }),
            refused(Refusal::NoQuorum),
            refused(Refusal::Unsupported),
            Message::Line { client: 1 },
            Message::Leave { client: 2 },
            Message::Wake { client: 3 },
        ];
        all.extend(OUTCOMES.map(|(outcome, _)| Message::Answer { number: 9, outcome, at: Timestamp(77) }));
        all
    }

    #[test]
    fn messages_round_trip_with_contents_of_any_length() {
        for message in messages() {
            for len in [0, 1, SHORT_BYTES, SHORT_BYTES + 1, 1 << 20] {
                let content = vec![len as u8; len];
                let frame = message.encode(&content);
                assert_eq!(Message::decode(&frame).unwrap(), (message.clone(), &content[..]));
            }
        }
        let keys = vec![b"a".to_vec(), Vec::new(), vec![0; 300]];
        assert_eq!(decode_keys(&encode_keys(&keys)).unwrap(), keys);
    }

    #[test]
    fn what_is_cut_or_damaged_is_no_message_and_no_panic() {
        for message in messages() {
            let whole = message.encode(b"");
            for len in 0..whole.head.len() {
                let frame = Frame { head: whole.head.slice(..len), body: Bytes::new() };
                assert!(Message::decode(&frame).is_err(), "{message:?} cut to {len}");
            }
        }
        let frame = Message::Leave { client: 1 }.encode(&vec![1; SHORT_BYTES + 1]);
        let damaged = Frame { body: vec![2; SHORT_BYTES + 1].into(), ..frame };
        assert_eq!(Message::decode(&damaged), Err(Malformed("checksum")));
    }

    #[test]
    fn other_procedures_are_another_format() {
        assert_ne!(format(&["a", "b"]), format(&["b", "a"]));
        assert_ne!(format(&["ab"]), format(&["a", "b"]));
    }
}
