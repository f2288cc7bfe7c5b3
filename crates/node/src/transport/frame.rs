//! Frames on a byte stream.
//!
//! ```text
//! head_len u32 | body_len u32 | channel u16 | crc u32 | head | body          all little endian
//! ```
//!
//! The channel is the receiver: a worker's number, or 65535 for the controller. The CRC covers all before it and the head;
//! the body carries its own. Any doubt about a frame ends the connection:
//! there is no way to find the next frame's start.

use std::collections::VecDeque;
use std::fmt;
use std::mem::MaybeUninit;

use bytes::BytesMut;
use highwater_core::limits::{MAX_FRAME_BODY_BYTES, MAX_FRAME_HEAD_BYTES};
use highwater_seam::Frame;

use super::Channel;

/// Bytes in front of a head.
pub const PREFIX_BYTES: usize = 14;
/// How many of them the checksum covers: all in front of it.
const COVERED_BYTES: usize = PREFIX_BYTES - 4;

/// Why a byte stream is no stream of frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FrameError {
    /// A length is over its limit.
    TooLong {
        /// Announced length of the head.
        head: usize,
        /// Announced length of the body.
        body: usize,
    },
    /// Prefix and head do not match their checksum.
    Checksum,
}

impl fmt::Display for FrameError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FrameError::TooLong { head, body } => {
                write!(f, "a frame announces {head} bytes of head and {body} of body")
            }
            FrameError::Checksum => f.write_str("a frame's checksum is wrong"),
        }
    }
}

/// How many bytes a frame takes on the wire.
pub fn wire_bytes(frame: &Frame) -> usize {
    PREFIX_BYTES + frame.head.len() + frame.body.len()
}

/// What stands in front of the head of a frame to `channel`.
///
/// # Panics
/// If the frame is over its limits: an engine's bug.
pub fn prefix(channel: Channel, frame: &Frame) -> [u8; PREFIX_BYTES] {
    assert!(frame.head.len() <= MAX_FRAME_HEAD_BYTES, "a head of {} bytes", frame.head.len());
    assert!(frame.body.len() <= MAX_FRAME_BODY_BYTES, "a body of {} bytes", frame.body.len());
    let mut prefix = [0; PREFIX_BYTES];
    prefix[..4].copy_from_slice(&(frame.head.len() as u32).to_le_bytes());
    prefix[4..8].copy_from_slice(&(frame.body.len() as u32).to_le_bytes());
    prefix[8..COVERED_BYTES].copy_from_slice(&channel.code().to_le_bytes());
    let crc = checksum(&prefix[..COVERED_BYTES], &frame.head);
    prefix[COVERED_BYTES..].copy_from_slice(&crc.to_le_bytes());
    prefix
}

fn checksum(covered: &[u8], head: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(covered);
    hasher.update(head);
    hasher.finalize()
}

/// Bytes received at one time, and the unit of memory: a body that is kept keeps its chunk.
const CHUNK_BYTES: usize = 1 << 20;
/// Do not read into less room than this.
const MIN_READ_BYTES: usize = 64 << 10;
/// Bytes taken from the socket at one time: other connections have their turn, too.
const MAX_READ_BYTES: usize = 1 << 20;
/// Bytes of chunks kept for reuse: as much as a log window of 64 MiB holds, and some.
pub const MAX_RETIRED_BYTES: usize = 96 << 20;
/// A longer chunk was made for one long frame, and is not kept for reuse.
const LONGEST_RETIRED_BYTES: usize = 2 * CHUNK_BYTES;

/// Cuts frames out of what a socket gives, without copying the bodies.
///
/// Bodies point into the receive buffer. A full chunk is retired, and taken up again once all its bodies are gone:
/// a follower's log window then cycles through the same memory, without page faults.
#[derive(Debug)]
pub struct Decoder {
    buffer: BytesMut,
    /// Length of the buffer's chunk: what was cut out of it counts.
    chunk_bytes: usize,
    /// Empty handles on full chunks and their lengths, oldest first: bodies are let go in about that order.
    retired: VecDeque<(BytesMut, usize)>,
    /// Sum of their lengths, and how much it may be.
    retired_bytes: usize,
    kept: usize,
}

impl Default for Decoder {
    fn default() -> Decoder {
        Decoder::keeping(MAX_RETIRED_BYTES)
    }
}

impl Decoder {
    /// One that keeps so many bytes of memory for reuse.
    pub fn keeping(kept: usize) -> Decoder {
        Decoder { buffer: BytesMut::new(), chunk_bytes: 0, retired: VecDeque::new(), retired_bytes: 0, kept }
    }

    /// Lets `read` fill the buffer's free end; it returns how many bytes it wrote at the start of what it got.
    pub fn fill<E>(
        &mut self,
        read: impl FnOnce(&mut [MaybeUninit<u8>]) -> Result<usize, E>,
    ) -> Result<usize, E> {
        self.make_room();
        let room = self.buffer.spare_capacity_mut();
        let len = room.len().min(MAX_READ_BYTES);
        let room = &mut room[..len];
        let room_len = room.len();
        let n = read(room)?;
        assert!(n <= room_len, "a read of {n} bytes into {room_len}");
        // SAFETY: `read` reports how many bytes it initialised from the start of the spare capacity, and there is
        // room for as many.
        unsafe { self.buffer.set_len(self.buffer.len() + n) };
        Ok(n)
    }

    /// The next complete frame, and whom it is for.
    pub fn next_frame(&mut self) -> Result<Option<(Channel, Frame)>, FrameError> {
        let Some((head_len, body_len)) = self.lengths()? else { return Ok(None) };
        if self.buffer.len() < PREFIX_BYTES + head_len {
            return Ok(None);
        }
        let (covered, crc) = self.buffer[..PREFIX_BYTES].split_at(COVERED_BYTES);
        if crc != checksum(covered, &self.buffer[PREFIX_BYTES..][..head_len]).to_le_bytes() {
            return Err(FrameError::Checksum);
        }
        if self.buffer.len() < PREFIX_BYTES + head_len + body_len {
            return Ok(None);
        }
        let channel = Channel::of(u16::from_le_bytes(self.buffer[8..10].try_into().expect("2 bytes")));
        let mut head = self.buffer.split_to(PREFIX_BYTES + head_len).freeze();
        let body = self.buffer.split_to(body_len).freeze();
        bytes::Buf::advance(&mut head, PREFIX_BYTES);
        Ok(Some((channel, Frame { head, body })))
    }

    /// The announced lengths of the frame at the buffer's start, within their limits.
    fn lengths(&self) -> Result<Option<(usize, usize)>, FrameError> {
        if self.buffer.len() < PREFIX_BYTES {
            return Ok(None);
        }
        let word =
            |at: usize| u32::from_le_bytes(self.buffer[at..at + 4].try_into().expect("4 bytes")) as usize;
        let (head, body) = (word(0), word(4));
        if head > MAX_FRAME_HEAD_BYTES || body > MAX_FRAME_BODY_BYTES {
            return Err(FrameError::TooLong { head, body });
        }
        Ok(Some((head, body)))
    }

    /// Makes the buffer hold more of the frame at its start, in one piece: the rest of it, unless it is long, and at least
    /// a decent read.
    fn make_room(&mut self) {
        let frame = match self.lengths() {
            Ok(Some((head, body))) => PREFIX_BYTES + head + body,
            _ => 0,
        };
        // What a prefix announces is believed as the bytes come: a frame longer than a chunk gets room for as much again as
        // it has sent.
        let believed = self.buffer.len().max(CHUNK_BYTES);
        let wanted = frame.saturating_sub(self.buffer.len()).min(believed).max(MIN_READ_BYTES);
        if self.buffer.capacity() - self.buffer.len() >= wanted {
            return;
        }
        if self.buffer.len() >= CHUNK_BYTES && self.buffer.capacity() == self.chunk_bytes {
            // One long frame has all of the chunk: the allocator makes it longer, as a rule without a copy.
            self.buffer.reserve(wanted);
            self.chunk_bytes = self.buffer.capacity();
            return;
        }
        let (mut next, len) = self.fresh_chunk(self.buffer.len() + wanted);
        next.extend_from_slice(&self.buffer);
        let mut full = std::mem::replace(&mut self.buffer, next);
        let full_len = std::mem::replace(&mut self.chunk_bytes, len);
        full.clear();
        if (1..=LONGEST_RETIRED_BYTES).contains(&full_len) {
            self.retired.push_back((full, full_len));
            self.retired_bytes += full_len;
        }
        while self.retired_bytes > self.kept {
            self.forget_oldest();
        }
    }

    /// An empty chunk with room for `len` bytes at least, and its length.
    fn fresh_chunk(&mut self, len: usize) -> (BytesMut, usize) {
        let len = len.max(CHUNK_BYTES);
        if let Some((oldest, _)) = self.retired.front_mut()
            && oldest.try_reclaim(len)
        {
            return self.forget_oldest().expect("it is there");
        }
        let fresh = BytesMut::with_capacity(len);
        let len = fresh.capacity();
        (fresh, len)
    }

    fn forget_oldest(&mut self) -> Option<(BytesMut, usize)> {
        let oldest = self.retired.pop_front()?;
        self.retired_bytes -= oldest.1;
        Some(oldest)
    }

    /// Nothing came for a while: gives back what holds no bytes of an incomplete frame. Bodies that were handed out
    /// keep their chunks.
    pub fn rest(&mut self) {
        self.retired.clear();
        self.retired_bytes = 0;
        if self.buffer.is_empty() {
            (self.buffer, self.chunk_bytes) = (BytesMut::new(), 0);
        }
    }

    /// Bytes of the chunks that it has a hold of.
    pub fn held_bytes(&self) -> usize {
        self.chunk_bytes + self.retired_bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;
    use proptest::prelude::*;

    /// Whom a frame is for, in these tests: each to another one.
    fn channel(frame: &Frame) -> Channel {
        Channel::of((frame.head.len() * 331 + frame.body.len()) as u16)
    }

    fn wire(frames: &[Frame]) -> Vec<u8> {
        let bytes = |frame: &Frame| [&prefix(channel(frame), frame)[..], &frame.head, &frame.body].concat();
        frames.iter().flat_map(bytes).collect()
    }

    /// Feeds `bytes` in pieces of the given sizes (cycled) and collects what comes out.
    fn decode(bytes: &[u8], pieces: &[usize]) -> Result<Vec<Frame>, FrameError> {
        let (mut decoder, mut frames, mut rest) = (Decoder::default(), Vec::new(), bytes);
        for &piece in pieces.iter().cycle() {
            if rest.is_empty() {
                break;
            }
            let n = decoder.fill(|room| {
                let n = piece.min(rest.len()).min(room.len());
                for (to, from) in room.iter_mut().zip(&rest[..n]) {
                    to.write(*from);
                }
                Ok::<_, ()>(n)
            });
            rest = &rest[n.unwrap()..];
            while let Some((to, frame)) = decoder.next_frame()? {
                assert_eq!(to, channel(&frame));
                frames.push(frame);
            }
        }
        Ok(frames)
    }

    fn frames() -> impl Strategy<Value = Vec<Frame>> {
        let frame = (
            prop::collection::vec(any::<u8>(), 0..200),
            prop_oneof![4 => 0..300usize, 1 => 100_000..1_500_000usize],
            any::<u8>(),
        );
        let frame =
            frame.prop_map(|(head, len, fill)| Frame { head: head.into(), body: vec![fill; len].into() });
        prop::collection::vec(frame, 1..12)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(48))]

        #[test]
        fn any_split_of_the_bytes_gives_the_same_frames(
            frames in frames(),
            pieces in prop::collection::vec(prop_oneof![1..40usize, 1000..70_000usize], 1..8),
        ) {
            let pieces = [pieces, vec![1 << 20]].concat();
            let decoded = decode(&wire(&frames), &pieces).unwrap();
            prop_assert_eq!(decoded.len(), frames.len());
            for (decoded, frame) in decoded.iter().zip(&frames) {
                prop_assert!(decoded.head == frame.head && decoded.body == frame.body);
            }
        }

        #[test]
        fn a_flipped_bit_in_prefix_or_head_is_noticed(
            head in prop::collection::vec(any::<u8>(), 0..50),
            bit in 0..8u32,
            at in any::<prop::sample::Index>(),
        ) {
            let frame = Frame { head: head.into(), body: Bytes::new() };
            // Frames follow, so that a longer announced length finds bytes to be wrong about.
            let mut bytes = wire(&[frame]);
            let at = at.index(bytes.len());
            bytes[at] ^= 1u8 << bit;
            let first = decode(&bytes, &[64]);
            prop_assert!(first.is_err() || first.unwrap().is_empty(), "never a wrong frame");
        }
    }

    #[test]
    fn a_length_over_its_limit_is_refused_before_memory_is_reserved() {
        let mut bytes = vec![0; PREFIX_BYTES];
        bytes[4..8].copy_from_slice(&u32::MAX.to_le_bytes());
        assert!(matches!(decode(&bytes, &[PREFIX_BYTES]), Err(FrameError::TooLong { .. })));
    }

    /// Once: twelve bytes of a peer, the prefix of a long frame, made the receiver reserve 128 MiB.
    #[test]
    fn an_announced_length_reserves_no_more_than_has_come() {
        let long = Frame { head: Bytes::from_static(b"h"), body: vec![0; MAX_FRAME_BODY_BYTES].into() };
        let (mut decoder, wire) = (Decoder::default(), prefix(Channel::Control, &long));
        for come in [PREFIX_BYTES, 100_000, 3_000_000] {
            while decoder.buffer.len() < come {
                let have = decoder.buffer.len();
                let give = |room: &mut [MaybeUninit<u8>]| {
                    let n = room.len().min(come - have);
                    for (at, to) in room[..n].iter_mut().enumerate() {
                        to.write(if have + at < PREFIX_BYTES { wire[have + at] } else { b'h' });
                    }
                    Ok::<_, ()>(n)
                };
                decoder.fill(give).unwrap();
            }
            assert!(decoder.next_frame().unwrap_or_default().is_none());
            assert!(decoder.buffer.capacity() <= 2 * come.max(CHUNK_BYTES), "{}", decoder.buffer.capacity());
        }
    }

    #[test]
    fn memory_is_used_again_once_the_bodies_are_gone() {
        let mut decoder = Decoder::default();
        let frame = Frame { head: Bytes::from_static(b"h"), body: vec![7; 100_000].into() };
        let bytes = wire(&[frame]);
        let mut addresses = std::collections::HashSet::new();
        for _ in 0..200 {
            decoder
                .fill(|room| {
                    for (to, from) in room.iter_mut().zip(&bytes) {
                        to.write(*from);
                    }
                    Ok::<_, ()>(bytes.len())
                })
                .unwrap();
            let (_, frame) = decoder.next_frame().unwrap().unwrap();
            addresses.insert(frame.body.as_ptr() as usize);
        }
        assert!(addresses.len() < 40, "20 MB went through {} places", addresses.len());
    }
    /// Chunks of long frames were kept for reuse: 96 of them, whatever their length.
    #[test]
    fn what_is_kept_for_reuse_is_bounded_in_bytes_and_given_back_at_rest() {
        let mut decoder = Decoder::default();
        let feed = |decoder: &mut Decoder, mut bytes: &[u8]| {
            let mut frames = Vec::new();
            while !bytes.is_empty() {
                let n = decoder.fill(|room| {
                    let n = bytes.len().min(room.len());
                    assert!(n <= MAX_READ_BYTES, "a read takes its turn");
                    for (to, from) in room.iter_mut().zip(&bytes[..n]) {
                        to.write(*from);
                    }
                    Ok::<_, ()>(n)
                });
                bytes = &bytes[n.unwrap()..];
                frames.extend(decoder.next_frame().unwrap().map(|(_, frame)| frame));
            }
            frames
        };
        let long = wire(&[Frame { head: Bytes::new(), body: vec![1; 16 << 20].into() }]);
        let short = wire(&[Frame { head: Bytes::new(), body: vec![2; 900_000].into() }]);
        for _ in 0..3 {
            assert_eq!(feed(&mut decoder, &long).len(), 1);
            assert_eq!(feed(&mut decoder, &short).len(), 1);
            assert!(decoder.retired_bytes <= 8 << 20, "{}", decoder.retired_bytes);
        }
        // A log that keeps everything: the chunks come back one by one, never more than so many.
        let kept: Vec<Frame> = (0..200).flat_map(|_| feed(&mut decoder, &short)).collect();
        assert!(decoder.held_bytes() <= MAX_RETIRED_BYTES + 2 * CHUNK_BYTES, "{}", decoder.held_bytes());
        decoder.rest();
        assert_eq!(decoder.held_bytes(), 0);
        assert!(kept.iter().all(|frame| frame.body == vec![2; 900_000]), "bodies keep their chunks");
        // An incomplete frame survives the rest.
        assert!(feed(&mut decoder, &short[..1000]).is_empty());
        decoder.rest();
        assert_eq!(feed(&mut decoder, &short[1000..]).len(), 1);
    }
}
