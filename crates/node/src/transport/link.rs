//! An established connection: frames in, frames out.

use std::collections::VecDeque;
use std::fmt;
use std::io::{self, IoSlice, Write};
use std::sync::Arc;
use std::time::Duration;

use highwater_core::{Incarnation, NodeId};
use highwater_seam::Frame;
use socket2::SockRef;

use super::accounts::LOOKS;
use super::frame::{Decoder, FrameError, PREFIX_BYTES, prefix, wire_bytes};
use super::gauge::Gauge;
use super::{Arrival, Channel, Established};
use crate::poll::{Interest, Poller};
use crate::tls::Wire;

/// Why a connection ended.
#[derive(Debug)]
pub enum Closed {
    /// The other side closed it.
    Ended,
    /// The operating system says so.
    Broken(io::Error),
    /// The other side sent nonsense.
    Nonsense(FrameError),
    /// The other side sent a frame to somebody who is not here.
    NoSuchReceiver {
        /// Whom it named.
        to: Channel,
    },
    /// The other side says that it has given it up, whatever our end looks like.
    GivenUp,
    /// What the other side sent does not come.
    Missing {
        /// How much of it.
        bytes: u64,
    },
    /// Nothing comes, not even that nothing happened.
    Silent,
    /// It takes less than we have to say.
    Overflow {
        /// Bytes that waited.
        queued: usize,
    },
}

impl fmt::Display for Closed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Closed::Ended => f.write_str("the peer closed it"),
            Closed::Broken(error) => write!(f, "{error}"),
            Closed::Nonsense(error) => write!(f, "{error}"),
            Closed::NoSuchReceiver { to } => write!(f, "a frame came for {to}, which it cannot reach here"),
            Closed::GivenUp => f.write_str("the peer has given it up"),
            Closed::Missing { bytes } => write!(f, "{bytes} bytes that the peer sent do not come"),
            Closed::Silent => f.write_str("the peer says nothing"),
            Closed::Overflow { queued } => write!(f, "the peer does not keep up: {queued} bytes wait"),
        }
    }
}

/// One connection to a peer, owned by one thread.
pub struct Link {
    /// The other side.
    pub peer: NodeId,
    /// The other side's life.
    pub incarnation: Incarnation,
    /// What it is for.
    pub channel: Channel,
    /// See [`Established::generation`].
    pub generation: u64,
    stream: Wire,
    decoder: Decoder,
    queue: SendQueue,
    key: u64,
    /// How many workers frames may name.
    workers: u16,
    waits_to_write: bool,
    /// A frame for which its receiver had no room: nothing is read until it has.
    stuck: Option<Arrival>,
    /// Since the last call of [`Link::rest`].
    received: bool,
    gauge: Arc<Gauge>,
    /// Bytes that have come, encrypted or not, when some were missed first, and looks since then that found no more.
    missed: Option<(u64, u32)>,
}

/// What a connection may hold, and whom it may reach.
#[derive(Clone, Copy, Debug)]
pub struct LinkLimits {
    /// Bytes that wait to be sent; beyond, the connection is cut. See `limits.send_queue_bytes`.
    pub queued: usize,
    /// Bytes of receive buffers that are kept for reuse.
    pub kept: usize,
    /// How many workers this node has: frames name one of them.
    pub workers: u16,
}

impl Link {
    /// Takes over a connection and watches it under `key`.
    pub fn new(connection: Established, poller: &Poller, key: u64, limits: LinkLimits) -> io::Result<Link> {
        let Established { peer, incarnation, channel, generation, mut stream, gauge, .. } = connection;
        stream.widen();
        // What TLS holds already, in either direction, no event tells of: being writable is one.
        let stirs = stream.has_unread() || stream.has_unsent();
        poller.add(&stream, key, Interest::of(true, stirs))?;
        let queue = SendQueue { max_bytes: limits.queued, ..SendQueue::default() };
        Ok(Link {
            peer,
            incarnation,
            channel,
            generation,
            stream,
            decoder: Decoder::keeping(limits.kept),
            queue,
            key,
            workers: limits.workers,
            waits_to_write: stirs,
            stuck: None,
            received: false,
            gauge,
            missed: None,
        })
    }

    /// Reads from the socket, or only what is here already. Level-triggered: if more waits, the poller says so again.
    fn receive(&mut self, socket: bool) -> Result<(), Closed> {
        let stream = &mut self.stream;
        let read =
            self.decoder.fill(|room| if socket { stream.fill(room) } else { stream.fill_unread(room) });
        match read {
            Ok(0) => Err(Closed::Ended),
            Ok(count) => {
                self.gauge.receives(count);
                self.received = true;
                Ok(())
            }
            Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => {
                Ok(())
            }
            Err(error) => Err(Closed::Broken(error)),
        }
    }

    /// Whether something is here that the poller does not tell of.
    pub fn has_unread(&self) -> bool {
        self.stream.has_unread()
    }

    /// The socket has something: reads, and hands complete frames to `deliver`. If that gives one back, because its receiver
    /// has no room, the connection [is stuck](Link::is_stuck).
    pub fn readable(
        &mut self,
        poller: &Poller,
        deliver: &mut impl FnMut(Arrival) -> Result<(), Arrival>,
    ) -> Result<(), Closed> {
        let mut received = self.receive(true);
        // What came before the end still counts.
        self.hand_over(poller, deliver)?;
        while received.is_ok() && self.has_unread() && !self.is_stuck() {
            received = self.receive(false);
            self.hand_over(poller, deliver)?;
        }
        received
    }

    /// Whether a frame waits here for room at its receiver's. Nothing is read meanwhile: the peer's frames pile up at the
    /// peer, which ends the connection if they become too many.
    pub fn is_stuck(&self) -> bool {
        self.stuck.is_some()
    }

    /// Tries a connection that is stuck again: there may be room now.
    pub fn retry(
        &mut self,
        poller: &Poller,
        deliver: &mut impl FnMut(Arrival) -> Result<(), Arrival>,
    ) -> Result<(), Closed> {
        let Some(arrival) = self.stuck.take() else { return Ok(()) };
        self.stuck = deliver(arrival).err();
        if self.stuck.is_some() {
            return Ok(());
        }
        self.hand_over(poller, deliver)?;
        if self.stuck.is_some() {
            return Ok(());
        }
        self.watch(poller)?;
        if self.has_unread() { self.readable(poller, deliver) } else { Ok(()) }
    }

    fn hand_over(
        &mut self,
        poller: &Poller,
        deliver: &mut impl FnMut(Arrival) -> Result<(), Arrival>,
    ) -> Result<(), Closed> {
        while let Some((to, frame)) = self.decoder.next_frame().map_err(Closed::Nonsense)? {
            if !self.reaches(to) {
                return Err(Closed::NoSuchReceiver { to });
            }
            let arrival = Arrival { from: self.peer, incarnation: self.incarnation, to, frame };
            if let Err(arrival) = deliver(arrival) {
                self.stuck = Some(arrival);
                return self.watch(poller);
            }
        }
        Ok(())
    }

    /// Whether frames for `to` may come this way. Controllers and workers do not talk to each other.
    fn reaches(&self, to: Channel) -> bool {
        match (self.channel, to) {
            (Channel::Control, Channel::Control | Channel::Accounts) => true,
            (Channel::Worker(_), Channel::Worker(index)) => index < self.workers,
            (Channel::Forward(of), Channel::Forward(index)) => index == of,
            _ => false,
        }
    }

    /// Queues a frame for the next [`flush`](Link::flush).
    pub fn send(&mut self, to: Channel, frame: Frame) -> Result<(), Closed> {
        self.queue.push(to, frame)
    }

    /// Whether something waits that a flush could write.
    pub fn wants_flush(&self) -> bool {
        !self.queue.frames.is_empty() && !self.waits_to_write
    }

    /// Bytes that wait for the socket, and bytes of the receive buffer.
    pub fn held_bytes(&self) -> (usize, usize) {
        (self.queue.bytes, self.decoder.held_bytes())
    }

    /// To call now and then: gives back what the receive buffer does not need, if nothing came since the last call.
    /// Whether something did.
    pub fn rest(&mut self) -> bool {
        let received = std::mem::take(&mut self.received);
        if !received {
            self.decoder.rest();
        }
        received
    }

    /// Writes what the socket takes; asks the poller to tell when it takes more.
    pub fn flush(&mut self, poller: &Poller) -> Result<(), Closed> {
        let before = self.queue.bytes;
        self.stream.send().map_err(Closed::Broken)?;
        let drained = self.queue.write_to(&mut self.stream).map_err(Closed::Broken)?;
        let drained = drained && !self.stream.has_unsent();
        self.gauge.sends(before - self.queue.bytes);
        if drained == self.waits_to_write {
            self.waits_to_write = !drained;
            self.watch(poller)?;
        }
        Ok(())
    }

    /// The other side says that it has sent so many bytes. Looks whether they are here; if they are not, and looks do not find a
    /// single one more, they never come.
    pub fn look(&mut self, expected: u64) -> Result<(), Closed> {
        self.gauge.looks();
        let received = self.gauge.received();
        // Who does not read, or has not read yet, knows nothing of what is missing.
        let unread = || rustix::io::ioctl_fionread(&self.stream).unwrap_or(0) > 0;
        if received >= expected || self.is_stuck() || self.has_unread() || unread() {
            self.missed = None;
            return Ok(());
        }
        // Of a record that is not complete yet nothing counts as received, and its bytes are progress all the same.
        let come = received + self.stream.received();
        let looks = match self.missed {
            Some((before, looks)) if before == come => looks + 1,
            _ => 0,
        };
        self.missed = Some((come, looks));
        if looks >= LOOKS { Err(Closed::Missing { bytes: expected - received }) } else { Ok(()) }
    }

    /// Ends the connection, and with it what the other side has not got: nobody sends it any more. (After an ordinary end the system goes on
    /// sending what it was handed, as long as it takes the other side for alive: what was given up would arrive behind what was asked elsewhere.)
    pub fn cut(self) {
        // A socket that refuses this is closed all the same.
        let _ = SockRef::from(&self.stream).set_linger(Some(Duration::ZERO));
    }

    /// Says what to be told of.
    fn watch(&self, poller: &Poller) -> Result<(), Closed> {
        let interest = Interest::of(!self.is_stuck(), self.waits_to_write);
        poller.modify(&self.stream, self.key, interest).map_err(Closed::Broken)
    }
}

/// Frames on their way into a socket.
#[derive(Debug, Default)]
struct SendQueue {
    frames: VecDeque<([u8; PREFIX_BYTES], Frame)>,
    /// Bytes of the first frame that are already written.
    written: usize,
    /// Bytes that wait, without the first frame's written ones.
    bytes: usize,
    max_bytes: usize,
}

/// Frames per vectored write: three slices each.
const FRAMES_PER_WRITE: usize = 32;
/// Bytes written to one peer in one turn, about: a peer that reads as fast as we write must not hold the thread.
const WRITE_BUDGET: usize = 4 << 20;

impl SendQueue {
    fn push(&mut self, to: Channel, frame: Frame) -> Result<(), Closed> {
        let len = wire_bytes(&frame);
        // One frame is always taken, however long: the limit is there for what piles up.
        if self.bytes > 0 && self.bytes + len > self.max_bytes {
            return Err(Closed::Overflow { queued: self.bytes });
        }
        self.bytes += len;
        self.frames.push_back((prefix(to, &frame), frame));
        Ok(())
    }

    /// Writes until all is gone (true), or the socket is full or has had its share (false).
    fn write_to(&mut self, to: &mut impl Write) -> io::Result<bool> {
        let start = self.bytes;
        while !self.frames.is_empty() {
            if start - self.bytes >= WRITE_BUDGET {
                return Ok(false);
            }
            let mut slices = [IoSlice::new(&[]); 3 * FRAMES_PER_WRITE];
            let count = self.slices(&mut slices);
            match to.write_vectored(&slices[..count]) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(n) => self.advance(n),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(true)
    }

    /// What to write next, without empty slices; how many.
    fn slices<'a>(&'a self, slices: &mut [IoSlice<'a>; 3 * FRAMES_PER_WRITE]) -> usize {
        let (mut count, mut skip) = (0, self.written);
        for (prefix, frame) in self.frames.iter().take(FRAMES_PER_WRITE) {
            for part in [&prefix[..], &frame.head, &frame.body] {
                let skipped = skip.min(part.len());
                skip -= skipped;
                if skipped < part.len() {
                    slices[count] = IoSlice::new(&part[skipped..]);
                    count += 1;
                }
            }
        }
        count
    }

    fn advance(&mut self, n: usize) {
        self.bytes -= n;
        self.written += n;
        while let Some((_, frame)) = self.frames.front() {
            let len = wire_bytes(frame);
            if self.written < len {
                return;
            }
            self.written -= len;
            self.frames.pop_front();
        }
        debug_assert_eq!(self.written, 0, "nothing is left to be partly written");
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::net::TcpStream;

    use super::*;
    use bytes::Bytes;

    /// Takes a few bytes at a time and is full now and then.
    struct Trickle {
        taken: Vec<u8>,
        step: usize,
    }

    impl Write for Trickle {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.step += 1;
            if self.step.is_multiple_of(5) {
                return Err(io::ErrorKind::WouldBlock.into());
            }
            let n = bytes.len().min(self.step % 7 + 1);
            self.taken.extend_from_slice(&bytes[..n]);
            Ok(n)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn frame(n: usize) -> Frame {
        Frame { head: vec![n as u8; n % 11].into(), body: Bytes::from(vec![!n as u8; n * 3 % 40]) }
    }

    #[test]
    fn partial_writes_resume_where_they_stopped() {
        let mut queue = SendQueue { max_bytes: 1 << 20, ..SendQueue::default() };
        let mut socket = Trickle { taken: Vec::new(), step: 0 };
        let mut expected = Vec::new();
        for n in 0..100 {
            let frame = frame(n);
            let to = Channel::Worker(n as u16 % 3);
            expected.extend([&prefix(to, &frame)[..], &frame.head, &frame.body].concat());
            queue.push(to, frame).unwrap();
        }
        while !queue.write_to(&mut socket).unwrap() {}
        assert!(socket.taken == expected);
        assert_eq!((queue.bytes, queue.written), (0, 0));
    }

    /// Both ends of a connection: a link, and who speaks to it.
    fn linked(poller: &Poller) -> (Link, TcpStream) {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let far = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (stream, _) = listener.accept().unwrap();
        stream.set_nonblocking(true).unwrap();
        let (peer, incarnation, channel) = (NodeId(1), Incarnation(7), Channel::Worker(0));
        let gauge = Arc::default();
        let connection = Established {
            peer,
            incarnation,
            levels: highwater_core::Levels::default(),
            channel,
            generation: 1,
            number: 1,
            gauge,
            stream: Wire::Plain(stream),
        };
        let limits = LinkLimits { queued: 1 << 20, kept: 1 << 20, workers: 1 };
        (Link::new(connection, poller, 0, limits).unwrap(), far)
    }

    #[test]
    fn bytes_that_never_come_end_a_connection_and_late_ones_do_not() {
        let mut poller = Poller::new().unwrap();
        let (mut link, mut far) = linked(&poller);
        let frame = frame(5);
        let wire = [&prefix(Channel::Worker(0), &frame)[..], &frame.head, &frame.body].concat();
        let mut come = 0;
        for byte in &wire {
            // As slow as can be: a byte just before it would be too late, then it is read.
            for _ in 0..LOOKS {
                link.look(wire.len() as u64).unwrap();
            }
            far.write_all(&[*byte]).unwrap();
            poller.wait(Some(10_000_000_000)).unwrap();
            for _ in 0..3 * LOOKS {
                link.look(wire.len() as u64).expect("a byte waits in the socket, its worker was busy");
            }
            link.readable(&poller, &mut |_| {
                come += 1;
                Ok(())
            })
            .unwrap();
        }
        assert_eq!(come, 1);
        for _ in 0..10 * LOOKS {
            link.look(wire.len() as u64).unwrap();
        }
        let missed = (0..=LOOKS).map(|_| link.look(wire.len() as u64 + 3)).find_map(Result::err);
        assert!(matches!(missed, Some(Closed::Missing { bytes: 3 })), "{missed:?}");
    }

    /// A client is told that nobody knows what became of its request, and asks another node. The first request had not arrived when the connection to
    /// the node before was ended, and was delivered afterwards.
    #[test]
    fn what_had_not_arrived_when_a_link_was_cut_never_does() {
        let poller = Poller::new().unwrap();
        let arrives = |cut: fn(Link)| {
            let (mut link, mut far) = linked(&poller);
            SockRef::from(&far).set_recv_buffer_size(16 << 10).unwrap();
            for _ in 0..8 {
                let frame = Frame { head: Bytes::new(), body: vec![7; 100_000].into() };
                link.queue.push(Channel::Worker(0), frame).unwrap();
            }
            let all = link.queue.bytes;
            link.flush(&poller).unwrap();
            let handed = all - link.queue.bytes;
            cut(link);
            far.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
            let (mut got, mut buffer) = (0, vec![0; 64 << 10]);
            while let Ok(more @ 1..) = far.read(&mut buffer) {
                got += more;
            }
            (handed, got)
        };
        let (handed, got) = arrives(drop);
        assert_eq!(handed, got, "the system delivers what it was handed");
        let (handed, got) = arrives(Link::cut);
        assert!(got < handed, "of {handed} bytes {got} arrived");
    }

    #[test]
    fn who_has_no_room_misses_nothing() {
        let mut poller = Poller::new().unwrap();
        let (mut link, mut far) = linked(&poller);
        let frame = frame(0);
        far.write_all(&prefix(Channel::Worker(0), &frame)).unwrap();
        poller.wait(Some(10_000_000_000)).unwrap();
        link.readable(&poller, &mut Err).unwrap();
        assert!(link.is_stuck());
        for _ in 0..10 * LOOKS {
            link.look(1 << 20).unwrap();
        }
    }

    #[test]
    fn a_full_queue_refuses_but_one_frame_always_fits() {
        let mut queue = SendQueue { max_bytes: 50, ..SendQueue::default() };
        let big = Frame { head: Bytes::new(), body: vec![0; 100].into() };
        queue.push(Channel::Control, big.clone()).unwrap();
        let refused = queue.push(Channel::Control, big);
        assert!(matches!(refused, Err(Closed::Overflow { queued }) if queued == PREFIX_BYTES + 100));
    }

    #[test]
    fn a_peer_that_takes_everything_has_its_share_and_then_waits() {
        let mut queue = SendQueue { max_bytes: 1 << 30, ..SendQueue::default() };
        for _ in 0..64 {
            let frame = Frame { head: Bytes::new(), body: vec![0; 1 << 20].into() };
            queue.push(Channel::Worker(0), frame).unwrap();
        }
        let before = queue.bytes;
        assert!(!queue.write_to(&mut io::sink()).unwrap(), "more waits");
        // A vectored write is taken whole by this socket; a real one takes what its buffer holds.
        let written = before - queue.bytes;
        assert!((WRITE_BUDGET..=WRITE_BUDGET + (FRAMES_PER_WRITE << 21)).contains(&written), "{written}");
    }
}
