//! Frames between workers of different numbers, inside the receiving node.
//!
//! Such a frame comes over the sender's own connection, to the worker of the sender's number. That one passes it on to the
//! worker that it is for: each worker has a [`Relay`], a bounded queue in front of it into which the others put frames and
//! which it empties at each of its turns.
//!
//! A relay that is full takes nothing. Whoever wanted to put a frame in keeps it and stops reading from that connection
//! until it is woken, so frames stay in order, and what piles up does so at the sender. Nobody blocks meanwhile: a worker
//! empties its own relay whether or not it could put its frames into another one's, so no two workers wait for each other.

use std::collections::VecDeque;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;

use crate::transport::Arrival;
use crate::transport::frame::wire_bytes;

/// A relay takes frames until it holds so many bytes.
const MAX_RELAYED_BYTES: usize = 1 << 20;
/// Shorter frames are copied: a part of a receive buffer would keep all of it, which is no less than 1 MiB.
const COPIED_BELOW_BYTES: usize = 64 << 10;

/// A frame on its way from the worker that received it to the one that it is for.
#[derive(Debug)]
pub struct Relayed {
    /// Over whose connection it came: its sender has the same number.
    pub over: u16,
    /// The frame, and who sent it.
    pub arrival: Arrival,
}

/// The queue in front of one worker.
#[derive(Debug, Default)]
pub struct Relay {
    queue: Mutex<Queue>,
    /// The queue's bytes, so that its owner finds out with one load that nothing came. Written under the lock.
    bytes: AtomicUsize,
}

#[derive(Debug, Default)]
struct Queue {
    frames: VecDeque<Relayed>,
    /// Workers that found no room.
    waiting: Vec<u16>,
}

impl Relay {
    /// Puts a frame in, behind all that came over the same connection before; gives it back if there is no room. Then
    /// [`take`](Relay::take) names the worker `over` when there is.
    pub fn put(&self, over: u16, arrival: Arrival) -> Result<(), Arrival> {
        let mut queue = self.queue.lock().expect("nobody panics while holding a relay");
        let bytes = self.bytes.load(Ordering::Relaxed);
        if bytes >= MAX_RELAYED_BYTES {
            if !queue.waiting.contains(&over) {
                queue.waiting.push(over);
            }
            return Err(arrival);
        }
        let len = wire_bytes(&arrival.frame);
        queue.frames.push_back(Relayed { over, arrival: own(arrival, len) });
        // Release; pairs with the Acquire in `take`. Under the lock, so that it can't overtake a `take`.
        self.bytes.store(bytes + len, Ordering::Release);
        Ok(())
    }

    /// All frames, in order, and the workers that found no room and have to be woken: there is room now.
    pub fn take(&self) -> (VecDeque<Relayed>, Vec<u16>) {
        if self.bytes.load(Ordering::Acquire) == 0 {
            return Default::default();
        }
        let mut queue = self.queue.lock().expect("nobody panics while holding a relay");
        self.bytes.store(0, Ordering::Relaxed);
        let Queue { frames, waiting } = std::mem::take(&mut *queue);
        (frames, waiting)
    }

    /// Bytes of the frames that wait.
    pub fn held_bytes(&self) -> usize {
        self.bytes.load(Ordering::Relaxed)
    }
}

/// The arrival of a frame of `len` bytes that does not keep much more memory than that.
fn own(mut arrival: Arrival, len: usize) -> Arrival {
    if len < COPIED_BELOW_BYTES {
        let frame = &mut arrival.frame;
        frame.head = Bytes::copy_from_slice(&frame.head);
        frame.body = Bytes::copy_from_slice(&frame.body);
    }
    arrival
}

#[cfg(test)]
mod tests {
    use highwater_core::{Incarnation, NodeId};
    use highwater_seam::Frame;

    use super::*;
    use crate::transport::Channel;

    fn arrival(number: u64, body: usize) -> Arrival {
        let head = Bytes::copy_from_slice(&number.to_le_bytes());
        let frame = Frame { head, body: vec![0; body].into() };
        Arrival { from: NodeId(1), incarnation: Incarnation(7), to: Channel::Worker(1), frame }
    }

    fn number(arrival: &Arrival) -> u64 {
        u64::from_le_bytes(arrival.frame.head[..].try_into().unwrap())
    }

    #[test]
    fn a_full_relay_gives_frames_back_and_names_once_who_waits() {
        let relay = Relay::default();
        // One more is always taken, however long.
        relay.put(2, arrival(0, MAX_RELAYED_BYTES - 100)).unwrap();
        relay.put(2, arrival(1, 16 << 20)).unwrap();
        for over in [2, 3, 2] {
            assert_eq!(number(&relay.put(over, arrival(2, 1)).unwrap_err()), 2);
        }
        assert!(relay.held_bytes() > 16 << 20);
        let (frames, waiting) = relay.take();
        assert_eq!(frames.iter().map(|relayed| number(&relayed.arrival)).collect::<Vec<_>>(), [0, 1]);
        assert_eq!((waiting, relay.held_bytes()), (vec![2, 3], 0));
        relay.put(2, arrival(2, 1)).unwrap();
        assert!(relay.take().1.is_empty(), "nobody waits any more");
    }

    #[test]
    fn a_short_frame_keeps_no_receive_buffer() {
        let relay = Relay::default();
        let buffer = Bytes::from(vec![5; 1 << 20]);
        for len in [1, COPIED_BELOW_BYTES] {
            let frame = Frame { head: Bytes::new(), body: buffer.slice(10..10 + len) };
            relay.put(0, Arrival { frame, ..arrival(0, 0) }).unwrap();
        }
        let kept: Vec<_> = relay.take().0.iter().map(|relayed| relayed.arrival.frame.body.as_ptr()).collect();
        let inside = |at: &*const u8| buffer.as_ptr_range().contains(at);
        assert_eq!(kept.iter().map(inside).collect::<Vec<_>>(), [false, true]);
    }

    /// Threads that put as fast as they can, and try again whatever is given back: all arrives, in the order of each.
    #[test]
    fn frames_of_each_connection_keep_their_order() {
        const EACH: u64 = 3000;
        let relay = Relay::default();
        let mut taken = [0; 3];
        std::thread::scope(|scope| {
            let relay = &relay;
            for over in 0..3 {
                scope.spawn(move || {
                    for n in 0..EACH {
                        let mut next = arrival(n, if n % 10 == 0 { 90_000 } else { 1 });
                        while let Err(back) = relay.put(over, next) {
                            next = back;
                            std::thread::yield_now();
                        }
                    }
                });
            }
            while taken.iter().sum::<u64>() < 3 * EACH {
                for relayed in relay.take().0 {
                    let expected = &mut taken[relayed.over as usize];
                    assert_eq!(number(&relayed.arrival), *expected);
                    *expected += 1;
                }
            }
        });
    }
}
