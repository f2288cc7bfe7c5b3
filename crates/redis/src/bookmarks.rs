//! The spots where scans of this node's clients go on in the middle of crowds.
//!
//! A [cursor](super::commands::cursor) in the middle of a crowd says which one it means by a print, and is looked for step by step where nobody
//! remembers its spot. Here is remembered what this node has handed out lately: what is forgotten costs time, and nothing else. So it is
//! bounded without mercy: of each user the oldest go first, and of all users' those of the one who has the most bytes here.
//!
//! Users have shelves of their own. A cursor of another user's finds nothing here, and what somebody has many of takes no room from others.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Bookmarks of one user.
const MOST_OF_ONE: usize = 64;
/// Bytes of one user's.
const MOST_BYTES_OF_ONE: usize = 4 << 20;
/// Bytes of all users'.
const MOST_BYTES: usize = 16 << 20;
/// Memory of one beside its bytes, about.
const OWN_BYTES: usize = 128;

/// The bookmarks of all users of a node.
#[derive(Debug, Default)]
pub struct Bookmarks(Mutex<Shelves>);

#[derive(Debug, Default)]
struct Shelves {
    users: BTreeMap<Vec<u8>, Shelf>,
    bytes: usize,
}

/// One user's, the one that was used last at the end.
#[derive(Debug, Default)]
struct Shelf {
    bookmarks: VecDeque<Bookmark>,
    bytes: usize,
}

#[derive(Debug)]
struct Bookmark {
    /// The command that scans, and its key.
    what: Vec<u8>,
    cursor: u64,
    spot: Vec<u8>,
}

impl Bookmark {
    fn bytes(&self) -> usize {
        OWN_BYTES + self.what.len() + self.spot.len()
    }
}

impl Bookmarks {
    /// The spot where that cursor of that user goes on in what is scanned, if it is remembered.
    pub fn find(&self, user: &[u8], what: &[u8], cursor: u64) -> Option<Vec<u8>> {
        let mut shelves = self.lock();
        let shelf = &mut shelves.users.get_mut(user)?.bookmarks;
        let found = shelf.remove(place(shelf, what, cursor)?)?;
        let spot = found.spot.clone();
        shelf.push_back(found);
        Some(spot)
    }

    /// Remembers it. Of two spots with one cursor neither: who looks for it meets the one in front, and so nothing is missed.
    pub fn keep(&self, user: &[u8], what: &[u8], cursor: u64, spot: &[u8]) {
        let bookmark = Bookmark { what: what.to_vec(), cursor, spot: spot.to_vec() };
        let mut shelves = self.lock();
        let old = shelves.take(user, |shelf| place(shelf, what, cursor));
        if old.is_some_and(|old| old.spot != spot) {
            return;
        }
        shelves.add(user, bookmark);
        while shelves.users.get(user).is_some_and(Shelf::overflows) {
            shelves.take(user, |_| Some(0));
        }
        while shelves.bytes > MOST_BYTES {
            let heaviest = shelves.users.iter().max_by_key(|(_, shelf)| shelf.bytes);
            let heaviest = heaviest.expect("bytes are somebody's").0.clone();
            shelves.take(&heaviest, |_| Some(0));
        }
    }

    fn lock(&self) -> MutexGuard<'_, Shelves> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Shelf {
    fn overflows(&self) -> bool {
        self.bookmarks.len() > MOST_OF_ONE || self.bytes > MOST_BYTES_OF_ONE
    }
}

impl Shelves {
    fn add(&mut self, user: &[u8], bookmark: Bookmark) {
        let bytes = bookmark.bytes();
        let shelf = self.users.entry(user.to_vec()).or_default();
        shelf.bookmarks.push_back(bookmark);
        shelf.bytes += bytes;
        self.bytes += bytes;
    }

    /// Takes one of a user's away.
    fn take(
        &mut self,
        user: &[u8],
        which: impl FnOnce(&VecDeque<Bookmark>) -> Option<usize>,
    ) -> Option<Bookmark> {
        let shelf = self.users.get_mut(user)?;
        let taken = shelf.bookmarks.remove(which(&shelf.bookmarks)?)?;
        shelf.bytes -= taken.bytes();
        self.bytes -= taken.bytes();
        if shelf.bookmarks.is_empty() {
            self.users.remove(user);
        }
        Some(taken)
    }
}

fn place(shelf: &VecDeque<Bookmark>, what: &[u8], cursor: u64) -> Option<usize> {
    shelf.iter().position(|bookmark| bookmark.cursor == cursor && bookmark.what == what)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bookmark_is_of_its_user_and_of_what_is_scanned() {
        let bookmarks = Bookmarks::default();
        bookmarks.keep(b"alice", b"hscan k", 7, b"spot");
        assert_eq!(bookmarks.find(b"alice", b"hscan k", 7).as_deref(), Some(&b"spot"[..]));
        for (user, what, cursor) in
            [(&b"bob"[..], &b"hscan k"[..], 7), (b"alice", b"hscan l", 7), (b"alice", b"hscan k", 9)]
        {
            assert_eq!(bookmarks.find(user, what, cursor), None);
        }
        bookmarks.keep(b"alice", b"hscan k", 7, b"spot");
        assert!(bookmarks.find(b"alice", b"hscan k", 7).is_some());
        // Whoever looks for it meets the one in front, of which a plain call may have told.
        bookmarks.keep(b"alice", b"hscan k", 7, b"another spot");
        assert_eq!(bookmarks.find(b"alice", b"hscan k", 7), None);
    }

    #[test]
    fn the_oldest_of_a_user_go_first_and_nobody_takes_the_room_of_others() {
        let bookmarks = Bookmarks::default();
        bookmarks.keep(b"alice", b"scan", 1, b"spot");
        bookmarks.keep(b"alice", b"scan", 3, b"spot");
        for cursor in 0..1000 {
            bookmarks.keep(b"mallory", b"scan", 2 * cursor + 1, &vec![7; 64 << 10]);
        }
        for user in 0..100 {
            let name = format!("mallory's {user}");
            for cursor in 0..10 {
                bookmarks.keep(name.as_bytes(), b"scan", 2 * cursor + 1, &vec![7; 64 << 10]);
            }
        }
        assert!(bookmarks.lock().bytes <= MOST_BYTES);
        let held: usize = bookmarks.lock().users.values().map(|shelf| shelf.bytes).sum();
        assert_eq!(bookmarks.lock().bytes, held);
        assert!(bookmarks.find(b"mallory", b"scan", 1).is_none());
        assert!(
            bookmarks.find(b"alice", b"scan", 1).is_some() && bookmarks.find(b"alice", b"scan", 3).is_some()
        );
        assert!(bookmarks.find(b"alice", b"scan", 1).is_some(), "it was used last");
        for cursor in 2..MOST_OF_ONE as u64 + 1 {
            bookmarks.keep(b"alice", b"scan", 2 * cursor + 1, b"spot");
        }
        assert!(
            bookmarks.find(b"alice", b"scan", 1).is_some() && bookmarks.find(b"alice", b"scan", 3).is_none()
        );
    }
}
