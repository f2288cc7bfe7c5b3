//! What inner nodes do: children, and separators between them. Results of searches are hints until the version is
//! checked.

use super::{INNER_KEYS, Node, Restart};
use crate::keys::{Kept, Keys};
use crate::sync::Ordering;

impl Node {
    /// The separator in position `at`, belonging to this node.
    pub fn separator<K: Keys>(&self, at: usize) -> Kept {
        if K::EXACT {
            return Kept { word: self.inner().heads[at].load(Ordering::Relaxed), blob: std::ptr::null_mut() };
        }
        // Acquire; pairs with the Release in `set_separator`.
        Kept { word: 0, blob: self.inner().blobs[at].load(Ordering::Acquire) }
    }

    fn set_separator<K: Keys>(&self, at: usize, kept: Kept) {
        let key = K::separating(&kept);
        self.inner().heads[at].store(K::head(key, self.info().skip), Ordering::Relaxed);
        // Release; pairs with the Acquire in `separator`.
        self.inner().blobs[at].store(kept.blob, Ordering::Release);
    }

    #[inline]
    pub fn child(&self, at: usize) -> Option<&Node> {
        // SAFETY: children are nodes, which live as long as the store. Acquire; pairs with the Release in
        // `set_child`.
        unsafe { self.inner().children[at].load(Ordering::Acquire).as_ref() }
    }

    /// A child up to the count. The caller holds the lock, so it is there.
    #[inline]
    pub fn locked_child(&self, at: usize) -> &Node {
        self.child(at).expect("an inner node has one child more than it has separators")
    }

    pub fn set_child(&self, at: usize, child: &Node) {
        // Release; pairs with the Acquire in `child`.
        self.inner().children[at].store(child.as_ptr(), Ordering::Release);
    }

    /// Puts a separator in position `at` and the child to its right. The caller holds the lock; there is room.
    pub fn insert_child<K: Keys>(&self, at: usize, separator: Kept, child: &Node) {
        let count = self.info().count;
        for from in (at..count).rev() {
            self.set_separator::<K>(from + 1, self.separator::<K>(from));
            self.set_child(from + 2, self.locked_child(from + 1));
        }
        self.set_separator::<K>(at, separator);
        self.set_child(at + 1, child);
        self.set_count(count + 1);
    }

    /// Puts a child at the front and the separator to its right. The caller holds the lock; there is room.
    pub fn insert_first_child<K: Keys>(&self, child: &Node, separator: Kept) {
        let first = self.locked_child(0);
        self.insert_child::<K>(0, separator, first);
        self.set_child(0, child);
    }

    /// Moves the children from position `from` on to the inner node `right`, which is empty, and returns the
    /// separator in front of them. The caller holds both locks.
    pub fn move_children<K: Keys>(&self, from: usize, right: &Node) -> Kept {
        let count = self.info().count;
        right.set_child(0, self.locked_child(from));
        for at in from..count {
            right.insert_child::<K>(at - from, self.separator::<K>(at), self.locked_child(at + 1));
        }
        self.set_count(from - 1);
        self.separator::<K>(from - 1)
    }

    /// Takes out child `at` and a separator next to it: the left one, for the first child the right one. Returns the
    /// separator, which is the caller's to keep or give back. The caller holds the lock.
    pub fn remove_child<K: Keys>(&self, at: usize) -> Kept {
        let count = self.info().count;
        assert!(count > 0, "the last child stays");
        let gone = at.saturating_sub(1);
        let separator = self.separator::<K>(gone);
        for from in gone + 1..count {
            self.set_separator::<K>(from - 1, self.separator::<K>(from));
        }
        for from in at + 1..=count {
            self.set_child(from - 1, self.locked_child(from));
        }
        self.inner().children[count].store(std::ptr::null_mut(), Ordering::Relaxed);
        self.set_count(count - 1);
        separator
    }

    /// Asks for child `at`, which `key` leads to: for what a search there will read. The caller was led there by this node's separators.
    #[inline]
    pub fn prefetch_child<K: Keys>(&self, at: usize, child: *const Node, level: u8, key: K::Key<'_>) {
        if K::EXACT && level == 0 {
            let heads = &self.inner().heads;
            let low = if at > 0 { &heads[at - 1] } else { &self.low.word };
            let high = if at < self.info().count.min(INNER_KEYS) { &heads[at] } else { &self.high.word };
            let [low, high] = [low, high].map(|fence| fence.load(Ordering::Relaxed));
            Node::prefetch_for_key(child, low, high, K::head(key, 0));
        } else {
            Node::prefetch_for_search(child, level);
        }
    }

    /// The child for `key`; or, if `below`, the child for the largest keys below `key`.
    #[inline]
    pub fn find_child<K: Keys>(&self, key: K::Key<'_>, below: bool) -> Result<usize, Restart> {
        let info = self.info();
        let count = info.count.min(INNER_KEYS);
        let (heads, head) = (&self.inner().heads, K::head(key, info.skip));
        let mut at = Self::heads_below(heads, count, head);
        while at < count && heads[at].load(Ordering::Relaxed) == head {
            let order = if K::EXACT {
                std::cmp::Ordering::Equal
            } else {
                K::compare(K::kept(&self.separator::<K>(at)).ok_or(Restart)?, key)
            };
            match order {
                std::cmp::Ordering::Less => at += 1,
                std::cmp::Ordering::Equal if !below => at += 1,
                _ => break,
            }
        }
        Ok(at)
    }
}
