//! Lists of a worker's clients. A client stands on each of them once at most, and knows on which: lists alone write that down, and whoever is given
//! by a list stands on it no more.
//!
//! A client that is gone keeps its place, which is passed over: the newcomer in its slot does not stand there, or, if it has been put on the list itself,
//! is given at the first of the two places.

use std::collections::VecDeque;

/// On which lists a client stands, as bits.
#[derive(Clone, Copy, Debug, Default)]
pub struct Standing(u8);

/// The clients that lists are of, by their slots.
pub trait Standings {
    /// On which lists the client in a slot stands; `None` if nobody is there.
    fn standing(&self, at: usize) -> Option<Standing>;

    /// The same, to be changed.
    fn standing_mut(&mut self, at: usize) -> Option<&mut Standing>;
}

fn stands<const BIT: u8>(clients: &impl Standings, at: usize) -> bool {
    clients.standing(at).is_some_and(List::<BIT>::has)
}

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

    /// Puts a client on it, as the first one, unless it is there.
    pub fn put_first(&mut self, client: &mut Standing, at: usize) {
        if !Self::has(*client) {
            client.0 |= 1 << BIT;
            self.0.push_front(at);
        }
    }

    /// Strikes the first client off, and gives it.
    #[inline]
    pub fn next(&mut self, clients: &mut impl Standings) -> Option<usize> {
        loop {
            let at = self.0.pop_front()?;
            if Self::strike(clients, at) {
                return Some(at);
            }
        }
    }

    /// Strikes the first client of this kind off, and gives it.
    pub fn next_where<S: Standings>(
        &mut self,
        clients: &mut S,
        mut wanted: impl FnMut(&S, usize) -> bool,
    ) -> Option<usize> {
        let place = self.0.iter().position(|at| stands::<BIT>(clients, *at) && wanted(clients, *at))?;
        let at = self.0.remove(place)?;
        Self::strike(clients, at).then_some(at)
    }

    /// Strikes the client with the least of something off, the first of several, and gives it.
    pub fn next_least<S: Standings>(
        &mut self,
        clients: &mut S,
        by: impl Fn(&S, usize) -> i64,
    ) -> Option<usize> {
        let standing = (0..self.0.len()).filter(|place| stands::<BIT>(clients, self.0[*place]));
        let least = standing.map(|place| (by(clients, self.0[place]), place)).min()?;
        let at = self.0.remove(least.1)?;
        Self::strike(clients, at).then_some(at)
    }

    fn strike(clients: &mut impl Standings, at: usize) -> bool {
        let Some(client) = clients.standing_mut(at) else { return false };
        let was = Self::has(*client);
        client.0 &= !(1 << BIT);
        was
    }

    /// The places, in their order.
    pub fn iter(&self) -> impl Iterator<Item = usize> {
        self.0.iter().copied()
    }

    /// How many places there are, of clients that are gone, too.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there is none.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use highwater_core::Random;

    use super::*;

    impl Standings for Vec<Option<Standing>> {
        fn standing(&self, at: usize) -> Option<Standing> {
            self[at]
        }

        fn standing_mut(&mut self, at: usize) -> Option<&mut Standing> {
            self[at].as_mut()
        }
    }

    /// Clients come, go, and are put on a list, in any order: whoever is there and on it is given once, and nobody else.
    #[test]
    fn whoever_is_put_on_a_list_is_given_once() {
        let mut random = Random::new(1);
        let (mut list, mut clients) = (Ready::default(), vec![None; 4]);
        let mut model = BTreeSet::new();
        for _ in 0..100_000 {
            let at = random.below(4) as usize;
            match (random.below(7), &mut clients[at]) {
                (0, client @ None) => *client = Some(Standing::default()),
                (0, client) => {
                    *client = None;
                    model.remove(&at);
                }
                (1, Some(client)) => {
                    list.put_first(client, at);
                    model.insert(at);
                }
                (2 | 3, Some(client)) => {
                    list.put(client, at);
                    model.insert(at);
                }
                (4, _) => match list.next_where(&mut clients, |_, one| one == at) {
                    Some(given) => assert!(given == at && model.remove(&at)),
                    None => assert!(!model.contains(&at)),
                },
                (5, _) => match list.next_least(&mut clients, |_, one| -(one as i64)) {
                    Some(given) => assert_eq!(Some(given), model.pop_last()),
                    None => assert!(model.is_empty()),
                },
                (6, _) => match list.next(&mut clients) {
                    Some(given) => assert!(model.remove(&given)),
                    None => assert!(model.is_empty()),
                },
                _ => {}
            }
            assert!(model.iter().all(|at| clients[*at].is_some_and(Ready::has)));
        }
    }

    #[test]
    fn the_order_is_that_in_which_they_were_put() {
        let (mut list, mut clients) = (Dirty::default(), vec![Some(Standing::default()); 3]);
        for at in [2, 0, 1, 0, 2] {
            list.put(clients[at].as_mut().unwrap(), at);
        }
        assert_eq!(list.next(&mut clients), Some(2));
        list.put_first(clients[2].as_mut().unwrap(), 2);
        assert_eq!([(); 4].map(|()| list.next(&mut clients)), [Some(2), Some(0), Some(1), None]);
    }
}
