//! What happened: a hash of all of it, and the last events of each node for reports.

use std::collections::VecDeque;

use bytes::Bytes;
use highwater_core::NodeId;
use highwater_engines::EngineKind;
use highwater_seam::{Nanos, Token};

use crate::network::{Channel, Payload};
use crate::stage::Why;

/// A hash of bytes: the same on every machine, and quick.
pub(crate) fn hash(bytes: &[u8]) -> u64 {
    let mut hash = 0x9e37_79b9_7f4a_7c15 ^ bytes.len() as u64;
    let (words, rest) = bytes.as_chunks::<8>();
    for word in words {
        hash = mix(hash, u64::from_le_bytes(*word));
    }
    rest.iter().fold(hash, |hash, byte| mix(hash, u64::from(*byte)))
}

/// Adds a number to a hash.
pub(crate) fn mix(hash: u64, value: u64) -> u64 {
    let mixed = (hash ^ value).wrapping_mul(0xff51_afd7_ed55_8ccd);
    mixed ^ mixed >> 32
}

/// What happened to a node.
#[derive(Clone, Debug)]
pub(crate) enum What {
    Started,
    Killed,
    Paused,
    Resumed,
    Up(Channel, NodeId),
    Down(Channel, NodeId),
    /// The head of what arrived, and the length of its body.
    Arrived(Channel, NodeId, Bytes, usize),
    Asked(u16, Token),
    Suspended(Channel, Why),
    /// Frames and replies handed out.
    Turned(Channel, usize, usize),
    Said(String),
}

impl What {
    pub fn arrived(channel: Channel, from: NodeId, payload: &Payload) -> What {
        match payload {
            Payload::Control(message) => What::Arrived(channel, from, message.clone(), 0),
            Payload::Frame { frame, .. } => {
                What::Arrived(channel, from, frame.head.clone(), frame.body.len())
            }
        }
    }

    fn words(&self, engine: EngineKind) -> String {
        match self {
            What::Started => "starts".into(),
            What::Killed => "is killed".into(),
            What::Paused => "stands still".into(),
            What::Resumed => "goes on".into(),
            What::Up(channel, peer) => format!("{}: up to {peer}", name(*channel)),
            What::Down(channel, peer) => format!("{}: lost {peer}", name(*channel)),
            What::Arrived(channel, from, head, body) => {
                let message = engine.words(*channel == Channel::Control, head);
                format!("{}: {message} ({body} bytes) from {from}", name(*channel))
            }
            What::Asked(worker, token) => format!("worker {worker}: request {}", token.0),
            What::Suspended(who, why) => format!("{}: suspended, {why:?}", name(*who)),
            What::Turned(channel, frames, replies) => {
                format!("{}: hands out {frames} messages, {replies} replies", name(*channel))
            }
            What::Said(what) => what.clone(),
        }
    }
}

fn name(channel: Channel) -> String {
    match channel {
        Channel::Control => "control".into(),
        Channel::Worker(at) => format!("worker {at}"),
    }
}

/// Sees the line of every event.
pub(crate) type Listener = Box<dyn FnMut(&str)>;

/// Events kept for each node.
const KEPT: usize = 256;

/// What happened so far.
pub(crate) struct Trace {
    /// Equal for equal runs.
    pub hash: u64,
    /// Whose messages they are.
    engine: EngineKind,
    last: Vec<VecDeque<(Nanos, What)>>,
    /// Sees every event as it happens.
    pub listener: Option<Listener>,
}

impl Trace {
    pub fn new(engine: EngineKind, nodes: u8) -> Trace {
        Trace { hash: 0, engine, last: vec![VecDeque::with_capacity(KEPT); nodes as usize], listener: None }
    }

    /// There is one node more.
    pub fn meet(&mut self) {
        self.last.push(VecDeque::with_capacity(KEPT));
    }

    pub fn mix(&mut self, value: u64) {
        self.hash = mix(self.hash, value);
    }

    pub fn note(&mut self, at: Nanos, node: NodeId, what: What) {
        if let Some(listener) = &mut self.listener {
            listener(&line(self.engine, at, node, &what));
        }
        let last = &mut self.last[node.0 as usize];
        if last.len() == KEPT {
            last.pop_front();
        }
        last.push_back((at, what));
    }

    /// The last events of a node, oldest first.
    pub fn last(&self, node: NodeId) -> Vec<String> {
        self.last[node.0 as usize].iter().map(|(at, what)| line(self.engine, *at, node, what)).collect()
    }
}

fn line(engine: EngineKind, at: Nanos, node: NodeId, what: &What) -> String {
    format!("{:>12.6} ms  {node}  {}", at as f64 / 1e6, what.words(engine))
}
