//! The part of a scan that one call looks at, or one step of a walk: from where on, and how far.
//!
//! A client's call is a plain command, or a step that its connection asks for a cursor in the middle of a crowd (`connection/scanning.rs`).
//! A step has one word more, its last, in a request whose framing says that a command goes on; no client can type that:
//!
//! ```text
//! ?       look for the one that the cursor means, then tell from there on
//! ? spot  the same, and in front of this spot it is not
//! @ spot  tell from this spot on
//! ```
//!
//! It answers with three: such a word, a cursor, and what it tells. With a word `?` it has told nothing and is to be asked again; a word `@` says
//! where its cursor goes on, to be remembered; an empty one says that there is nothing to remember.

use std::ops::ControlFlow;

use highwater_core::Transaction;

use super::cursor::{Crowd, Cursor, Place, PrintKey};
use crate::errors::CommandError;
use crate::keyspace::head::Head;
use crate::keyspace::rows::spot;
use crate::keyspace::{Done, Failure, Keyspace};
use crate::reply::Reply;
use crate::request::Args;

/// Names or members that one call looks at, at most; and of one place [`MORE_OF_A_PLACE`] more.
const MOST_LOOKED: usize = 2048;
/// Names that one step of a walk through all of them looks at, at most: it reads no more than the names of those that it does not tell.
const MOST_WALKED: usize = 16_384;
/// Keys that one call finds, at most: it reads the row of each, which says whether the key has expired.
const MOST_KEYS: usize = 512;
/// Bytes that one call finds before it ends.
const MOST_BYTES: usize = 1 << 20;
/// Bytes of names or members that one call looks at before it ends.
const MOST_READ: usize = 16 << 20;
/// So many more are told of a place before it is left in the middle: that few share one by chance, or by a bad sequence of names.
const MORE_OF_A_PLACE: usize = 128;
/// The same in bytes.
const MORE_BYTES_OF_A_PLACE: usize = 64 << 10;

/// Names or members that a step looks for one among, at most.
const MOST_SOUGHT: usize = 4096;
/// The same in bytes.
const MOST_BYTES_SOUGHT: usize = 4 << 20;
/// The same of a plain command, in a transaction with others.
const MOST_SOUGHT_AT_ONCE: usize = 131_072;
const MOST_BYTES_SOUGHT_AT_ONCE: usize = 64 << 20;

const CROWDED: CommandError = CommandError::Text(
    "ERR too many share the place of this cursor to go on there in one transaction; go on outside of it",
);

const SEEK: u8 = b'?';
const TELL: u8 = b'@';

/// The rows that a scan looks at.
#[derive(Clone, Copy)]
pub enum Among<'a> {
    /// Names of keys.
    Names,
    /// Members of a collection.
    Members(&'a Head),
}

impl Among<'_> {
    /// Visits them from a spot on: the hash, the name or member, and a member's value.
    pub fn each<T: Transaction>(
        self,
        keyspace: &mut Keyspace<'_, T>,
        from: &[u8],
        mut visit: impl FnMut(u64, &[u8], &[u8]) -> ControlFlow<()>,
    ) -> Done {
        match self {
            Among::Names => keyspace.each_name(from, |hash, name| visit(hash, name, &[])),
            Among::Members(head) => keyspace.each_member(head, from, visit),
        }
    }

    fn print_key<T: Transaction>(self, keyspace: &mut Keyspace<'_, T>) -> Result<PrintKey, Failure> {
        let collection = match self {
            Among::Names => 0,
            Among::Members(head) => head.id,
        };
        Ok(PrintKey::new(keyspace.secret()?, collection))
    }
}

/// The word of a step.
#[derive(Clone, Copy)]
enum Word<'a> {
    /// Look for the one that the cursor means, from this spot on.
    Seek(&'a [u8]),
    /// Tell from this spot on.
    Tell(&'a [u8]),
}

/// The question of a call.
#[derive(Clone, Copy)]
pub struct Asked<'a> {
    cursor: Cursor,
    /// `None`: it is a plain command.
    step: Option<Word<'a>>,
}

impl<'a> Asked<'a> {
    /// Reads the cursor, which is the next of a call's words, and of a step its last one, too; the words between them.
    pub fn parse(mut args: Args<'a>, is_step: bool) -> Result<(Asked<'a>, Args<'a>), CommandError> {
        let cursor = Cursor::parse(args.promised()?)?;
        if !is_step {
            return Ok((Asked { cursor, step: None }, args));
        }
        let (args, word) = args.split_last();
        let step = match word.and_then(<[u8]>::split_first) {
            Some((&SEEK, from)) => Word::Seek(from),
            Some((&TELL, from)) => Word::Tell(from),
            _ => return Err(CommandError::Syntax),
        };
        Ok((Asked { cursor, step: Some(step) }, args))
    }

    /// The spot from which on this call tells. `None`: it is a step that has not found it yet, and the reply says so.
    pub fn begin<T: Transaction>(
        &self,
        among: Among<'_>,
        keyspace: &mut Keyspace<'_, T>,
        reply: &mut Reply<'_>,
    ) -> Result<Option<Vec<u8>>, Failure> {
        let crowd = match (self.cursor, self.step) {
            (_, Some(Word::Tell(spot))) => return Ok(Some(spot.to_vec())),
            (Cursor::At(place), _) => return Ok(Some(place.first_hash().to_be_bytes().to_vec())),
            (Cursor::In(crowd), _) => crowd,
        };
        let start = crowd.first_hash().to_be_bytes();
        let from = match self.step {
            Some(Word::Seek(from)) if !from.is_empty() => from,
            _ => &start[..],
        };
        let most = match self.step {
            Some(_) => (MOST_SOUGHT, MOST_BYTES_SOUGHT),
            None => (MOST_SOUGHT_AT_ONCE, MOST_BYTES_SOUGHT_AT_ONCE),
        };
        match (seek(crowd, from, most, among, keyspace)?, self.step) {
            (Sought::At(spot), _) => Ok(Some(spot)),
            // What was told of the block is told again, and nothing is missed.
            (Sought::Nowhere, _) => Ok(Some(start.to_vec())),
            (Sought::Behind(_), None) => Err(CROWDED.into()),
            (Sought::Behind(spot), Some(_)) => {
                reply_with(Some(word(SEEK, &spot)), Cursor::START, 0, reply);
                Ok(None)
            }
        }
    }

    /// Writes the head of the reply: an array of so many follows.
    pub fn reply<T: Transaction>(
        &self,
        among: Among<'_>,
        (next, len): (&Next, usize),
        keyspace: &mut Keyspace<'_, T>,
        reply: &mut Reply<'_>,
    ) -> Done {
        let (cursor, spot) = match next {
            Next::Over => (Cursor::START, None),
            Next::At(place) => (Cursor::At(*place), None),
            Next::In(spot) => (Cursor::In(Crowd::of(&among.print_key(keyspace)?, spot)), Some(spot)),
        };
        let remember = self.step.map(|_| spot.map_or(Vec::new(), |spot| word(TELL, spot)));
        reply_with(remember, cursor, len, reply);
        Ok(())
    }

    /// The reply where there is nothing to look at.
    pub fn reply_with_nothing(&self, reply: &mut Reply<'_>) {
        reply_with(self.step.map(|_| Vec::new()), Cursor::START, 0, reply);
    }
}

fn word(mark: u8, spot: &[u8]) -> Vec<u8> {
    [&[mark], spot].concat()
}

fn reply_with(word: Option<Vec<u8>>, cursor: Cursor, len: usize, reply: &mut Reply<'_>) {
    reply.array(if word.is_some() { 3 } else { 2 });
    if let Some(word) = word {
        reply.bulk(&word);
    }
    reply.bulk(cursor.number().to_string().as_bytes());
    reply.array(len);
}

/// The result of looking for one of a crowd.
enum Sought {
    /// It is there.
    At(Vec<u8>),
    /// It is gone.
    Nowhere,
    /// It is not in front of this spot.
    Behind(Vec<u8>),
}

/// Looks for one of a crowd, from a spot on, among so many at most, and so many bytes.
fn seek<T: Transaction>(
    crowd: Crowd,
    from: &[u8],
    (most, most_bytes): (usize, usize),
    among: Among<'_>,
    keyspace: &mut Keyspace<'_, T>,
) -> Result<Sought, Failure> {
    let (mut looked, mut bytes, mut sought) = (0, 0, Sought::Nowhere);
    let key = among.print_key(keyspace)?;
    among.each(keyspace, from, |hash, name, _| {
        if hash > crowd.last_hash() {
            return ControlFlow::Break(());
        }
        if looked == most || bytes >= most_bytes {
            sought = Sought::Behind(spot(hash, name));
            return ControlFlow::Break(());
        }
        let here = spot(hash, name);
        if crowd.is(&key, &here) {
            sought = Sought::At(here);
            return ControlFlow::Break(());
        }
        looked += 1;
        bytes += name.len();
        ControlFlow::Continue(())
    })?;
    keyspace.transaction().goes_on()?;
    Ok(sought)
}

/// The point at which the next call goes on.
#[derive(Debug, PartialEq, Eq)]
pub enum Next {
    /// There is none.
    Over,
    /// At the beginning of a place.
    At(Place),
    /// In the middle of one, at this spot.
    In(Vec<u8>),
}

/// The names or members that one call looked at, and the point at which the next one goes on.
pub struct Portion<X> {
    found: Vec<X>,
    /// Bytes that were found.
    bytes: usize,
    looked: usize,
    /// Bytes that were looked at.
    read: usize,
    most_looked: usize,
    most_found: usize,
    most_bytes: usize,
    most_read: usize,
    /// It has to be so much more than full before a place is left in the middle: so many, and so many bytes.
    more_of_a_place: (usize, usize),
    last: Option<Place>,
    next: Next,
}

impl<X> Portion<X> {
    /// Nothing yet; looks at so many members, about.
    pub fn of_members(count: usize) -> Portion<X> {
        Portion {
            found: Vec::new(),
            bytes: 0,
            looked: 0,
            read: 0,
            most_looked: count.min(MOST_LOOKED),
            most_found: usize::MAX,
            most_bytes: MOST_BYTES,
            most_read: MOST_READ,
            more_of_a_place: (MORE_OF_A_PLACE, MORE_BYTES_OF_A_PLACE),
            last: None,
            next: Next::Over,
        }
    }

    /// The same of names of keys.
    pub fn of_names(count: usize) -> Portion<X> {
        Portion { most_found: MOST_KEYS, ..Portion::of_members(count) }
    }

    /// A step of a walk through all names: it ends anywhere.
    pub fn of_a_walk() -> Portion<X> {
        Portion { most_looked: MOST_WALKED, more_of_a_place: (0, 0), ..Portion::of_names(0) }
    }

    /// All there are.
    pub fn of_all() -> Portion<X> {
        let most = usize::MAX;
        Portion {
            most_looked: most,
            most_found: most,
            most_bytes: most,
            most_read: most,
            ..Portion::of_names(0)
        }
    }

    fn is_full(&self) -> bool {
        self.looked >= self.most_looked
            || self.found.len() >= self.most_found
            || self.bytes >= self.most_bytes
            || self.read >= self.most_read
    }

    /// Whether it may not even go on to the end of a place.
    fn overflows(&self) -> bool {
        let (count, bytes) = self.more_of_a_place;
        self.looked >= self.most_looked.saturating_add(count)
            || self.found.len() >= self.most_found.saturating_add(count)
            || self.bytes >= self.most_bytes.saturating_add(bytes)
            || self.read >= self.most_read.saturating_add(bytes)
    }

    /// Looks at one of this hash and this name: `item` gives what is kept of it, and how many bytes that is.
    /// Breaks at the first that is left for the next call.
    pub fn look(
        &mut self,
        hash: u64,
        name: &[u8],
        item: impl FnOnce() -> Option<(X, usize)>,
    ) -> ControlFlow<()> {
        let place = Place::of(hash);
        if self.is_full() && self.last != Some(place) {
            self.next = Next::At(place);
            return ControlFlow::Break(());
        }
        if self.overflows() {
            self.next = Next::In(spot(hash, name));
            return ControlFlow::Break(());
        }
        self.looked += 1;
        self.read += name.len();
        self.last = Some(place);
        if let Some((found, bytes)) = item() {
            self.found.push(found);
            self.bytes += bytes;
        }
        ControlFlow::Continue(())
    }

    /// Everything found, and the point at which it goes on.
    pub fn into_parts(self) -> (Vec<X>, Next) {
        (self.found, self.next)
    }
}

/// Whether a collection is told in portions, by their places. A small one is told at once, as in Redis; also one that settings call small
/// is not if it is long.
pub fn in_portions(head: &Head) -> bool {
    head.grown || head.count > MOST_LOOKED as u64
}
