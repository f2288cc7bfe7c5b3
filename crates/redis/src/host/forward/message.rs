//! What nodes say to each other about forwarded requests.
//!
//! ```text
//! message   docs/internals/messages.md
//! content   0 | bytes to the end of the head, or 1 | crc u32 of the frame's body
//! ```
//!
//! A message is a [`Frame`]. Its head is checked by the transport; a long content stands in the body, where it is copied once less,
//! and is checked here. Integers are little endian.

use bytes::Bytes;
use highwater_core::codec::{Malformed, Reader, put_bytes, put_varint};
use highwater_core::wire::{Form, Varint, Wire};
use highwater_core::{NodeId, Outcome, ProcedureId, Random, Timestamp, wire};
use highwater_seam::{Frame, Refusal, Session};

use crate::acl::user::owner_of;
use crate::command::Opcode;
use crate::meter::OUTCOMES;
use crate::request::{Args, Effect};

/// The version of what is said here, and of what requests say; another number for every change. 3: a request may be done only if its reply is short.
const VERSION: u64 = 3;
/// Longer contents stand in the body.
const SHORT_BYTES: usize = 16 << 10;

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

wire! {
    /// One message, without its content.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub enum Message: "message about forwarded requests" {
        /// A number for what its sender's build makes of requests: see [`format`](fn@format). First, from both sides.
        Hello = 0 {
            /// Only who says the same number is asked anything.
            format: u64,
        },
        /// To the leader; content: the arguments.
        Ask = 1 (ask: Ask),
        /// To who asked; content: the reply.
        Answer = 2 {
            /// Which request.
            number: u64 as Varint,
            /// How it ended.
            outcome: Outcome as ByPlace,
            /// When, in the one order of transactions.
            at: Timestamp,
        },
        /// To who asked: nothing was done.
        Refused = 3 {
            /// Which request.
            number: u64 as Varint,
            /// Why.
            refusal: Refusal as WithNode,
            /// The slot of the request's first key, for a referral.
            slot: u16,
        },
        /// To the leader: this client waits for data. Content: for which keys.
        Line = 4 {
            /// The client, as its node numbers it.
            client: u64 as Varint,
        },
        /// To the leader: it waits no more.
        Leave = 5 {
            /// The client, as its node numbers it.
            client: u64 as Varint,
        },
        /// To who said that it waits: there may be something.
        Wake = 6 {
            /// The client, as its node numbers it.
            client: u64 as Varint,
        },
    }
}

impl Wire for Ask {
    const NAME: &'static str = "ask";

    fn put(&self, out: &mut Vec<u8>) {
        put_varint(out, self.number);
        put_varint(out, self.client);
        self.procedure.put(out);
        out.push(self.effect as u8);
        put_bytes(out, &self.user);
        // Whose it is, the user's name says.
        self.session.map(|session| (session.id, session.sequence)).put(out);
    }

    fn take(from: &mut Reader<'_>) -> Result<Ask, Malformed> {
        let (number, client) = (from.varint()?, from.varint()?);
        let (procedure, effect) = (Wire::take(from)?, from.u8()?);
        let effect = EFFECTS.into_iter().find(|known| *known as u8 == effect).ok_or(Malformed("effect"))?;
        let user = from.bytes()?.to_vec();
        let session: Option<(u64, u64)> = Wire::take(from)?;
        let session = session.map(|(id, sequence)| Session { id, sequence, owner: owner_of(&user) });
        Ok(Ask { number, client, procedure, effect, user, session })
    }

    fn form() -> String {
        "number varint | client varint | procedure u16 | effect u8 | user varint × u8 | session option (u64 | u64)".into()
    }

    fn draw(random: &mut Random) -> Ask {
        let (number, client, procedure) = (random.bits(), random.below(300), Wire::draw(random));
        let (effect, user) = (random.pick(&EFFECTS), random.pick(&[&b"default"[..], b"bob", b""]).to_vec());
        let session: Option<(u64, u64)> = Wire::draw(random);
        let session = session.map(|(id, sequence)| Session { id, sequence, owner: owner_of(&user) });
        Ask { number, client, procedure, effect, user, session }
    }
}

const EFFECTS: [Effect; 6] =
    [Effect::Reads, Effect::Writes, Effect::Calls, Effect::Commits, Effect::Tries, Effect::Users];

/// An outcome by its [place](crate::meter::place) among all.
#[derive(Debug)]
pub struct ByPlace;

impl Form<Outcome> for ByPlace {
    #[inline]
    fn put(outcome: &Outcome, out: &mut Vec<u8>) {
        out.push(crate::meter::place(*outcome) as u8);
    }

    #[inline]
    fn take(from: &mut Reader<'_>) -> Result<Outcome, Malformed> {
        OUTCOMES.get(usize::from(from.u8()?)).map(|(outcome, _)| *outcome).ok_or(Malformed("outcome"))
    }

    fn form() -> String {
        "u8".into()
    }

    fn draw(random: &mut Random) -> Outcome {
        random.pick(&OUTCOMES).0
    }
}

/// A refusal, and whom to ask instead.
#[derive(Debug)]
pub struct WithNode;

/// No node has this id.
const NOBODY: u8 = u8::MAX;

impl Form<Refusal> for WithNode {
    fn put(refusal: &Refusal, out: &mut Vec<u8>) {
        out.extend_from_slice(&match *refusal {
            Refusal::NotServing { ask } => [0, ask.map_or(NOBODY, |node| node.0)],
            Refusal::NoQuorum => [1, NOBODY],
            Refusal::Busy => [2, NOBODY],
            Refusal::Unsupported => [3, NOBODY],
        });
    }

    fn take(from: &mut Reader<'_>) -> Result<Refusal, Malformed> {
        let [kind, node] = from.array()?;
        Ok(match kind {
            0 => Refusal::NotServing { ask: (node != NOBODY).then_some(NodeId(node)) },
            1 => Refusal::NoQuorum,
            2 => Refusal::Busy,
            3 => Refusal::Unsupported,
            _ => return Err(Malformed("refusal")),
        })
    }

    fn form() -> String {
        "u8 (0 not serving, 1 no quorum, 2 busy, 3 unsupported) | whom to ask u8 (255: nobody)".into()
    }

    fn draw(random: &mut Random) -> Refusal {
        let ask = <Option<NodeId>>::draw(random).filter(|node| node.0 != NOBODY);
        random.pick(&[Refusal::NotServing { ask }, Refusal::NoQuorum, Refusal::Busy, Refusal::Unsupported])
    }
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
    /// As it travels, with its content.
    pub fn frame(&self, content: &[u8]) -> Frame {
        let mut head = Vec::with_capacity(48 + if content.len() > SHORT_BYTES { 0 } else { content.len() });
        self.encode(&mut head);
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
    pub fn of(frame: &Frame) -> Result<(Message, &[u8]), Malformed> {
        let mut reader = Reader::new(&frame.head);
        let message = Message::decode(&mut reader)?;
        let content = match reader.u8()? {
            0 => reader.rest(),
            _ if reader.u32()? == crc32fast::hash(&frame.body) => &frame.body[..],
            _ => return Err(Malformed("checksum")),
        };
        Ok((message, content))
    }
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

#[cfg(test)]
mod tests {
    use highwater_core::wire::testing::{check, described, golden};

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
    fn bytes_are_as_they_were_recorded() {
        let samples = messages().into_iter().map(|message| {
            let text = format!("{message:?}");
            let name = text.split([' ', '(', '{']).next().unwrap_or_default().to_string();
            (name, message.frame(b"content").head.to_vec())
        });
        golden(concat!(env!("CARGO_MANIFEST_DIR"), "/golden/forward.txt"), &Message::kinds(), samples);
        check::<Message>(2000);
        let document = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/internals/messages.md");
        described(document, "message about forwarded requests", &Message::kinds());
    }

    #[test]
    fn messages_round_trip_with_contents_of_any_length() {
        for message in messages() {
            for len in [0, 1, SHORT_BYTES, SHORT_BYTES + 1, 1 << 20] {
                let content = vec![len as u8; len];
                let frame = message.frame(&content);
                assert_eq!(Message::of(&frame).unwrap(), (message.clone(), &content[..]));
            }
        }
        let keys = vec![b"a".to_vec(), Vec::new(), vec![0; 300]];
        assert_eq!(decode_keys(&encode_keys(&keys)).unwrap(), keys);
    }

    #[test]
    fn what_is_cut_or_damaged_is_no_message_and_no_panic() {
        for message in messages() {
            let whole = message.frame(b"");
            for len in 0..whole.head.len() {
                let frame = Frame { head: whole.head.slice(..len), body: Bytes::new() };
                assert!(Message::of(&frame).is_err(), "{message:?} cut to {len}");
            }
        }
        let frame = Message::Leave { client: 1 }.frame(&vec![1; SHORT_BYTES + 1]);
        let damaged = Frame { body: vec![2; SHORT_BYTES + 1].into(), ..frame };
        assert_eq!(Message::of(&damaged), Err(Malformed("checksum")));
    }

    #[test]
    fn other_procedures_are_another_format() {
        assert_ne!(format(&["a", "b"]), format(&["b", "a"]));
        assert_ne!(format(&["ab"]), format(&["a", "b"]));
    }
}
