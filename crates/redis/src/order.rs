//! Replies leave in the order of their commands, whatever the order in which the engine releases them.
//!
//! A reply that is known at once goes straight to the output if nothing is in front of it, else it waits behind
//! the last request. In the steady state nothing here allocates.

use std::collections::VecDeque;

/// A request whose reply has not left, and the local replies right behind it.
#[derive(Debug, Default)]
struct Slot {
    /// The reply, if it was released before those in front of it.
    reply: Option<Vec<u8>>,
    /// Length of the reply that the engine holds, as far as it is known.
    expected: usize,
    /// How many bytes of `locals` follow it.
    locals: usize,
    /// Nobody wants it.
    mute: bool,
}

/// The replies of one connection.
#[derive(Debug, Default)]
pub struct Order {
    output: Vec<u8>,
    /// How much of `output` was written.
    written: usize,
    /// Requests in flight, oldest first. Invariant: the first one has no reply, or it would have left.
    slots: VecDeque<Slot>,
    /// The sequence number of the first slot.
    first: u64,
    /// Local replies behind the slots, in order; the first `locals_gone` bytes have moved to the output.
    locals: Vec<u8>,
    locals_gone: usize,
    /// Bytes of the replies in the slots, which wait for those in front of them.
    parked: usize,
    /// Bytes of replies that the engine holds, as far as they are known.
    expected: usize,
    /// The replies to what comes now are not wanted.
    mute: bool,
}

/// What an empty buffer keeps of its memory while its connection is in use.
pub const KEEP_BYTES: usize = 256 << 10;

impl Order {
    /// Whether the replies to what comes from now on are dropped.
    pub fn mute(&mut self, mute: bool) {
        self.mute = mute;
    }

    /// Writes a reply that is known at once.
    pub fn local<R>(&mut self, write: impl FnOnce(&mut Vec<u8>) -> R) -> R {
        if self.mute {
            return write(&mut Vec::new());
        }
        let Some(last) = self.slots.back_mut() else { return write(&mut self.output) };
        let before = self.locals.len();
        let result = write(&mut self.locals);
        last.locals += self.locals.len() - before;
        result
    }

    /// Keeps a place for a reply of the engine, and names it.
    pub fn open(&mut self) -> u64 {
        self.slots.push_back(Slot { mute: self.mute, ..Slot::default() });
        self.first + self.slots.len() as u64 - 1
    }

    /// The engine holds so many bytes of this reply: executed, and not released.
    ///
    /// # Panics
    /// If the place was never opened or has its reply.
    pub fn expect(&mut self, seq: u64, bytes: usize) {
        assert!(self.awaits(seq), "request {seq} awaits no reply");
        let slot = &mut self.slots[(seq - self.first) as usize];
        self.expected += bytes;
        self.expected -= std::mem::replace(&mut slot.expected, bytes);
    }

    /// Puts a reply into its place.
    ///
    /// # Panics
    /// If the place was never opened or has its reply: the host mixed up its requests, and a client would get
    /// another one's answer.
    pub fn answer(&mut self, seq: u64, write: impl FnOnce(&mut Vec<u8>)) {
        assert!(self.awaits(seq), "a reply for request {seq}, which awaits none");
        let slot = &mut self.slots[(seq - self.first) as usize];
        self.expected -= std::mem::take(&mut slot.expected);
        let mute = slot.mute;
        if seq != self.first {
            let mut reply = Vec::new();
            write(&mut reply);
            if mute {
                reply.clear();
            }
            self.parked += reply.len();
            slot.reply = Some(reply);
            return;
        }
        let before = self.output.len();
        write(&mut self.output);
        if mute {
            self.output.truncate(before);
        }
        self.leave();
        while let Some(reply) = self.slots.front_mut().and_then(|slot| slot.reply.take()) {
            self.parked -= reply.len();
            self.output.extend_from_slice(&reply);
            self.leave();
        }
    }

    /// The first slot's reply is in the output: the local replies behind it follow.
    fn leave(&mut self) {
        let slot = self.slots.pop_front().expect("a reply leaves from its slot");
        self.first += 1;
        let end = self.locals_gone + slot.locals;
        self.output.extend_from_slice(&self.locals[self.locals_gone..end]);
        self.locals_gone = end;
        forget_front(&mut self.locals, &mut self.locals_gone);
    }

    fn awaits(&self, seq: u64) -> bool {
        let at = seq.checked_sub(self.first).and_then(|at| usize::try_from(at).ok());
        at.and_then(|at| self.slots.get(at)).is_some_and(|slot| slot.reply.is_none())
    }

    /// How many requests are in flight.
    pub fn in_flight(&self) -> usize {
        self.slots.len()
    }

    /// Bytes held for the client: ready ones, those that wait for their turn, and those that the engine holds.
    pub fn held_bytes(&self) -> usize {
        let ready = self.output.len() - self.written;
        ready + self.locals.len() - self.locals_gone + self.parked + self.expected
    }

    /// Memory of its buffers in bytes.
    pub fn memory_bytes(&self) -> usize {
        let slots = self.slots.capacity() * size_of::<Slot>();
        self.output.capacity() + self.locals.capacity() + slots + self.parked
    }

    /// Gives back memory that holds nothing.
    pub fn rest(&mut self) {
        self.output.shrink_to_fit();
        self.locals.shrink_to_fit();
        self.slots.shrink_to_fit();
    }

    /// Bytes that may leave now.
    pub fn output(&self) -> &[u8] {
        &self.output[self.written..]
    }

    /// The first `n` bytes of the output have left.
    pub fn wrote(&mut self, n: usize) {
        assert!(n <= self.output().len(), "more written than there was");
        self.written += n;
        forget_front(&mut self.output, &mut self.written);
    }
}

/// Drops the first `gone` bytes of a queue once they outweigh the rest, so that each byte moves once at most.
pub fn forget_front(queue: &mut Vec<u8>, gone: &mut usize) {
    if *gone * 2 >= queue.len() {
        queue.drain(..*gone);
        *gone = 0;
    }
    if queue.is_empty() {
        // One huge command or reply must not keep its memory for the connection's life.
        queue.shrink_to(KEEP_BYTES);
    }
}
