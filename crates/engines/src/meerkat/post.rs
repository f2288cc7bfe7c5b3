//! What a worker's turn sends: one frame to each replica, as a rule, however many transactions it is about.

use bytes::Bytes;
use highwater_core::NodeId;

use super::message::{Head, Message};
use crate::seam::{Endpoint, Frame, Outbox};

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
    pub fn new(nodes: u8) -> Post {
        Post { all: Bodies::default(), letters: (0..nodes).map(|_| Letter::default()).collect() }
    }

    /// To every replica.
    pub fn to_all(&mut self, message: &Message) {
        self.all.put(message);
    }

    /// To one replica.
    pub fn to(&mut self, node: NodeId, message: &Message) {
        let letter = &mut self.letters[node.0 as usize];
        match message.payload() {
            Some(_) => letter.heavy.put(message),
            None => message.encode(&mut letter.light),
        }
    }

    /// Whether there is anything for a node, beside what is for all.
    pub fn has(&self, node: NodeId) -> bool {
        let letter = &self.letters[node.0 as usize];
        !letter.light.is_empty() || !letter.heavy.open.is_empty() || !letter.heavy.closed.is_empty()
    }

    /// Whether there is anything for all.
    pub fn has_for_all(&self) -> bool {
        !self.all.open.is_empty() || !self.all.closed.is_empty()
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
            let mut bytes = Vec::with_capacity(32 + light.len());
            head.encode(crc, &mut bytes);
            bytes.append(&mut light);
            out.frames.push((Endpoint { node, worker }, Frame { head: bytes.into(), body }));
            next = bodies.next();
        }
    }

    /// What is for all has gone to everybody who is there.
    pub fn sent_to_all(&mut self) {
        self.all.closed.clear();
    }

    /// Throws everything away.
    pub fn clear(&mut self) {
        self.all = Bodies::default();
        self.letters.iter_mut().for_each(|letter| *letter = Letter::default());
    }
}
