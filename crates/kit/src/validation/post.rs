//! What a worker's turn sends: one frame to each replica, as a rule, however many transactions it is about.

use bytes::Bytes;
use highwater_core::NodeId;
use highwater_seam::{Endpoint, Frame, Outbox};

use super::message::{Head, Message};

/// A body is closed when it has so many bytes.
const BODY_BYTES: usize = 256 << 10;

/// Bodies under construction.
#[derive(Default)]
struct Bodies {
    open: Vec<u8>,
    closed: Vec<(Bytes, u32)>,
}

impl Bodies {
    fn put(&mut self, message: &Message) {
        message.encode(&mut self.open);
        if self.open.len() >= BODY_BYTES {
            self.close();
        }
    }

    fn is_empty(&self) -> bool {
        self.open.is_empty() && self.closed.is_empty()
    }

    fn close(&mut self) {
        if !self.open.is_empty() {
            let room = self.open.len().min(BODY_BYTES);
            let body = std::mem::replace(&mut self.open, Vec::with_capacity(room));
            let crc = crc32fast::hash(&body);
            self.closed.push((body.into(), crc));
        }
    }
}

/// What goes to one replica only.
#[derive(Default)]
struct Letter {
    light: Vec<u8>,
    heavy: Bodies,
}

/// Messages of a turn, until they leave.
pub struct Post {
    /// To all replicas.
    all: Bodies,
    letters: Vec<Letter>,
}

impl Post {
    /// To so many nodes.
    #[inline]
    pub fn new(nodes: u8) -> Post {
        Post { all: Bodies::default(), letters: (0..nodes).map(|_| Letter::default()).collect() }
    }

    /// To every replica.
    #[inline]
    pub fn for_all(&mut self, message: &Message) {
        self.all.put(message);
    }

    /// To one replica. Its messages keep their order: behind a heavy one light ones travel in bodies, too.
    pub fn for_one(&mut self, node: NodeId, message: &Message) {
        let letter = &mut self.letters[node.0 as usize];
        if message.payload().is_some() || !letter.heavy.is_empty() {
            letter.heavy.put(message);
        } else {
            message.encode(&mut letter.light);
        }
    }

    /// Whether there is anything for a node, beside what is for all.
    pub fn has(&self, node: NodeId) -> bool {
        let letter = &self.letters[node.0 as usize];
        !letter.light.is_empty() || !letter.heavy.is_empty()
    }

    /// Whether there is anything for all.
    #[inline]
    pub fn has_for_all(&self) -> bool {
        !self.all.is_empty()
    }

    /// Sends what there is to `node`, at least a frame without messages; `for_all`: it is one of all.
    pub fn send(&mut self, node: NodeId, worker: u16, head: Head, for_all: bool, out: &mut Outbox) {
        self.all.close();
        let letter = &mut self.letters[node.0 as usize];
        letter.heavy.close();
        let shared = if for_all { &self.all.closed[..] } else { &[] };
        let mut bodies = shared.iter().cloned().chain(letter.heavy.closed.drain(..));
        let mut light = std::mem::take(&mut letter.light);
        let mut next = Some(bodies.next().unwrap_or_default());
        while let Some((body, crc)) = next {
            let mut bytes = Vec::with_capacity(40 + light.len());
            head.encode(crc, &mut bytes);
            bytes.append(&mut light);
            out.frames.push((Endpoint { node, worker }, Frame { head: bytes.into(), body }));
            next = bodies.next();
        }
    }

    /// What is for all has gone to everybody who is there.
    #[inline]
    pub fn sent_to_all(&mut self) {
        self.all.closed.clear();
    }

    /// Throws everything away.
    pub fn clear(&mut self) {
        self.all = Bodies::default();
        self.letters.iter_mut().for_each(|letter| *letter = Letter::default());
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use highwater_core::codec::Reader;
    use highwater_core::{Epoch, Timestamp};

    use super::*;
    use crate::validation::message::About;
    use crate::validation::payload::Payload;

    /// Outcomes are numbered, and taken in the order of their numbers.
    #[test]
    fn heavy_and_light_messages_to_one_replica_keep_their_order() {
        let mut post = Post::new(3);
        let payload = || Payload::build(Timestamp::ZERO, (&[], 0), (&[], 0), &[]);
        let outcome = |number, heavy: bool| {
            let about = About::Outcome { number, commit: heavy, payload: heavy.then(payload) };
            Message { ts: Timestamp(number), about }
        };
        let sent: Vec<Message> = (1..=6).map(|number| outcome(number, number % 3 == 2)).collect();
        sent.iter().for_each(|message| post.for_one(NodeId(1), message));
        let mut out = Outbox::default();
        let head = Head { epoch: Epoch(1), closed: Timestamp::ZERO, heard: 0, clock: Timestamp::ZERO };
        post.send(NodeId(1), 0, head, true, &mut out);
        let mut got = Vec::new();
        for (_, frame) in &out.frames {
            let mut reader = Reader::new(&frame.head[1..]);
            Head::decode(&mut reader).expect("a head is in front");
            let light = Bytes::copy_from_slice(reader.rest());
            for mut rest in [light, frame.body.clone()] {
                while !rest.is_empty() {
                    got.push(Message::decode(&mut rest).expect("sound"));
                }
            }
        }
        assert_eq!(got, sent);
        assert!(!post.has(NodeId(1)));
    }
}
