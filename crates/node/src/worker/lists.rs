//! Lists of a worker's clients. A client stands on each of them once at most, and knows on which: lists alone write that down.
//!
//! A client that is struck off keeps a place, which is passed over when it is its turn; so does a client that is gone. Whoever takes a place looks
//! whether the client there is still meant.

use std::collections::VecDeque;

/// On which lists a client stands, as bits.
#[derive(Clone, Copy, Debug, Default)]
pub struct Standing(u8);

/// A list, by the bit that says of a client that it is on it.
#[derive(Debug, Default)]
pub struct List<const BIT: u8>(VecDeque<usize>);

/// Clients that may have requests to submit, in the order in which they are served.
pub type Ready = List<0>;
/// Clients whose sockets need a look: something to write, or another interest.
pub type Dirty = List<1>;
/// Clients with requests that wait for the worker's replies to become fewer.
pub type HeldBack = List<2>;
/// Clients that are not read from because the worker is full with requests.
pub type Paused = List<3>;
/// Clients whose next request waits for a leader, or for room on the way to it.
pub type Later = List<4>;

/// The lists that several files put clients on.
#[derive(Debug, Default)]
pub struct Lists {
    pub ready: Ready,
    pub dirty: Dirty,
    pub later: Later,
}

impl<const BIT: u8> List<BIT> {
    /// Whether a client is on it.
    #[inline]
    pub fn has(client: Standing) -> bool {
        client.0 & 1 << BIT != 0
    }

    /// Puts a client on it, as the last one, unless it is there.
    #[inline]
    pub fn put(&mut self, client: &mut Standing, at: usize) {
        if !Self::has(*client) {
            client.0 |= 1 << BIT;
            self.0.push_back(at);
        }
    }

    /// Puts a client back that was first: it is the first again, or the last.
    pub fn put_back(&mut self, client: Option<&mut Standing>, at: usize, first: bool) {
        if let Some(client) = client {
            client.0 |= 1 << BIT;
        }
        if first {
            self.0.push_front(at);
        } else {
            self.0.push_back(at);
        }
    }

    /// Strikes a client off; whether it was on it.
    #[inline]
    pub fn strike(client: &mut Standing) -> bool {
        let was = Self::has(*client);
        client.0 &= !(1 << BIT);
        was
    }

    /// Takes the first place.
    #[inline]
    pub fn pop(&mut self) -> Option<usize> {
        self.0.pop_front()
    }

    /// Takes the first place of this kind.
    pub fn pop_where(&mut self, wanted: impl FnMut(&usize) -> bool) -> Option<usize> {
        let place = self.0.iter().position(wanted)?;
        self.0.remove(place)
    }

    /// Takes the place with the least of something; the first of several.
    pub fn pop_least(&mut self, by: impl Fn(usize) -> i64) -> Option<usize> {
        let place = (0..self.0.len()).min_by_key(|place| by(self.0[*place]))?;
        self.0.remove(place)
    }

    /// Takes all places.
    pub fn take(&mut self) -> VecDeque<usize> {
        std::mem::take(&mut self.0)
    }

    /// The places, in their order.
    pub fn iter(&self) -> impl Iterator<Item = usize> {
        self.0.iter().copied()
    }

    /// How many places there are, of clients that are struck off, too.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there is none.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}
