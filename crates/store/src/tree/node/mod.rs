//! Nodes of the ordered index: 1 KiB, leaves and inner nodes alike.
//!
//! ```text
//!  0  version     bit 0: locked   bit 1: obsolete   upper bits: count the changes
//!  8  info        bits 0-15 number of keys   16-23 level (0: leaf)   32-63 bytes that all its keys share
//! 16  tree        which tree it is in
//! 24  hint        leaves: position of the last insertion
//! 32  low, high   fences: the node holds the keys in low..high (see `Kept`)
//! 64  leaf:       60 heads u64 | 60 records
//!     inner:      39 heads u64 | 39 separators | 40 children
//! ```
//!
//! Child *i* of an inner node holds the keys below separator *i* and not below separator *i - 1*. A head is the eight
//! bytes of a key behind those that all keys of the node share, which its fences tell.
//!
//! Everything is read without locks, and validated by the version afterwards. A racing reader may see any mixture, but
//! every pointer that it can see is null or points to something that was valid after it pinned its guard.
//!
//! **Type stability**: memory of a node is never used for anything else, and its version keeps counting when the node
//! is reused. So even a pointer to a node that was reclaimed long ago may be looked at: the version says that it is
//! obsolete, or `tree` and the fences say what it has become. Fingers rely on that.

mod inner;
mod leaf;

use std::hint::select_unpredictable;
use std::mem::ManuallyDrop;
use std::ptr::NonNull;

use crate::heap::{Heap, NODE, NODE_BYTES};
use crate::keys::{Kept, Keys};
use crate::seen::NodeSeen;
use crate::sync::{AtomicPtr, AtomicU64, Backoff, Ordering, fence, prefetch};

pub const LEAF_KEYS: usize = 60;
pub const INNER_KEYS: usize = 39;
/// Shuttle's nodes are small, so that few keys make interesting trees.
pub const LEAF_FULL: usize = if cfg!(shuttle) { 3 } else { LEAF_KEYS };
/// At least 3: a split of a node of 2 would leave a half with a single child, to be merged back at once.
pub const INNER_FULL: usize = if cfg!(shuttle) { 3 } else { INNER_KEYS };

pub const LOCKED: u64 = 1;
pub const OBSOLETE: u64 = 2;
const STEP: u64 = 4;

/// Somebody changed the node meanwhile: start again.
#[derive(Debug)]
pub struct Restart;

#[repr(C)]
struct Fence {
    word: AtomicU64,
    blob: AtomicPtr<u8>,
}

#[repr(C)]
struct LeafBody {
    heads: [AtomicU64; LEAF_KEYS],
    records: [AtomicPtr<u8>; LEAF_KEYS],
}

#[repr(C)]
struct InnerBody {
    heads: [AtomicU64; INNER_KEYS],
    blobs: [AtomicPtr<u8>; INNER_KEYS],
    children: [AtomicPtr<Node>; INNER_KEYS + 1],
}

union Body {
    leaf: ManuallyDrop<LeafBody>,
    inner: ManuallyDrop<InnerBody>,
}

#[repr(C, align(64))]
pub(crate) struct Node {
    pub version: AtomicU64,
    info: AtomicU64,
    tree: AtomicU64,
    hint: AtomicU64,
    low: Fence,
    high: Fence,
    body: Body,
}

const LINE: usize = 64;
/// Where a node's keys begin.
const FRONT: usize = std::mem::offset_of!(Node, body);

const _: () = assert!(size_of::<Node>() == NODE_BYTES);

/// What a node's `info` says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Info {
    pub count: usize,
    pub level: u8,
    pub skip: usize,
}

impl Fence {
    fn load(&self) -> Kept {
        // Acquire; pairs with the Release in `store`: the blob's bytes are there.
        Kept { word: self.word.load(Ordering::Relaxed), blob: self.blob.load(Ordering::Acquire) }
    }

    fn store(&self, kept: Kept) {
        self.word.store(kept.word, Ordering::Relaxed);
        // Release; pairs with the Acquire in `load`.
        self.blob.store(kept.blob, Ordering::Release);
    }
}

impl Node {
    /// A node that nobody else knows, locked, without keys. `low` and `high` become its own.
    pub fn create<'a, K: Keys>(tree: u64, level: u8, low: Kept, high: Kept, heap: &mut Heap) -> &'a Node {
        let at = heap.alloc_index(NODE).cast::<Node>();
        // SAFETY: the piece is of a node's size and alignment, zeroed or left by an earlier node: atomics both ways.
        // It lives as long as the store; callers do not keep it longer.
        let node = unsafe { at.as_ref() };
        // The version goes on from where the earlier node left it; see the module's text.
        let version = (node.version.load(Ordering::Relaxed) & !(LOCKED | OBSOLETE)) + STEP;
        node.version.store(version | LOCKED, Ordering::Relaxed);
        // Pairs with the acquire fence in `check`: whoever sees the new content sees that the version moved.
        fence(Ordering::Release);
        node.tree.store(tree, Ordering::Relaxed);
        node.hint.store(0, Ordering::Relaxed);
        node.low.store(low);
        node.high.store(high);
        let skip = K::skip(K::kept(&low), K::kept(&high));
        node.set_info(Info { count: 0, level, skip });
        node
    }

    #[inline]
    pub fn as_ptr(&self) -> *mut Node {
        std::ptr::from_ref(self).cast_mut()
    }

    // Versions.

    /// The version, once nobody holds the lock.
    #[inline]
    pub fn stable(&self) -> Result<u64, Restart> {
        let mut backoff = Backoff::default();
        loop {
            // Acquire; pairs with the Releases in `unlock` and `make_obsolete`.
            let version = self.version.load(Ordering::Acquire);
            if version & OBSOLETE != 0 {
                return Err(Restart);
            }
            if version & LOCKED == 0 {
                return Ok(version);
            }
            backoff.wait();
        }
    }

    /// What was read since [`Node::stable`] returned `version` belongs together.
    #[inline]
    pub fn check(&self, version: u64) -> Result<(), Restart> {
        // Pairs with the release fence in `lock_at`: if we read something newer, we see the newer version.
        fence(Ordering::Acquire);
        if self.version.load(Ordering::Relaxed) == version { Ok(()) } else { Err(Restart) }
    }

    /// Takes the lock if nothing changed since `version`.
    #[inline]
    pub fn lock_at(&self, version: u64) -> Result<(), Restart> {
        // Acquire; pairs with the Release in `unlock`.
        match self.version.compare_exchange(version, version | LOCKED, Ordering::Acquire, Ordering::Relaxed) {
            Ok(_) => {
                // Pairs with the acquire fence in `check`.
                fence(Ordering::Release);
                Ok(())
            }
            Err(_) => Err(Restart),
        }
    }

    /// Releases the lock; `changed` says whether readers must notice. Returns the version that is now visible.
    #[inline]
    pub fn unlock(&self, changed: bool) -> u64 {
        let version = self.version.load(Ordering::Relaxed);
        debug_assert!(version & LOCKED != 0);
        let version = (version & !LOCKED) + if changed { STEP } else { 0 };
        // Release; pairs with the Acquires in `stable` and `lock_at`.
        self.version.store(version, Ordering::Release);
        version
    }

    /// Releases the lock for ever and gives the node and its keys back.
    pub fn make_obsolete<K: Keys>(&self, heap: &mut Heap) {
        let version = self.version.load(Ordering::Relaxed);
        debug_assert!(version & LOCKED != 0);
        K::drop_kept(self.low.load(), heap);
        K::drop_kept(self.high.load(), heap);
        // Release; pairs with the Acquire in `stable`.
        self.version.store((version & !LOCKED) | OBSOLETE, Ordering::Release);
        heap.retire_index(NonNull::from(self).cast(), NODE);
    }

    /// The node at a version.
    pub fn seen(&self, version: u64) -> NodeSeen {
        NodeSeen { version: &self.version, seen: version & !LOCKED }
    }

    // Head.

    #[inline]
    pub fn info(&self) -> Info {
        // Acquire; pairs with the Release in `set_info`: the slots below the count are there.
        let info = self.info.load(Ordering::Acquire);
        Info { count: (info & 0xffff) as usize, level: (info >> 16) as u8, skip: (info >> 32) as usize }
    }

    pub fn set_info(&self, info: Info) {
        let word = info.count as u64 | u64::from(info.level) << 16 | (info.skip as u64) << 32;
        // Release; pairs with the Acquire in `info`.
        self.info.store(word, Ordering::Release);
    }

    pub fn set_count(&self, count: usize) {
        self.set_info(Info { count, ..self.info() });
    }

    #[inline]
    pub fn tree(&self) -> u64 {
        self.tree.load(Ordering::Relaxed)
    }

    #[inline]
    pub fn hint(&self) -> usize {
        self.hint.load(Ordering::Relaxed) as usize
    }

    #[inline]
    pub fn set_hint(&self, position: usize) {
        self.hint.store(position as u64, Ordering::Relaxed);
    }

    #[inline]
    pub fn low(&self) -> Kept {
        self.low.load()
    }

    #[inline]
    pub fn high(&self) -> Kept {
        self.high.load()
    }

    /// Whether the key is between the fences.
    #[inline]
    pub fn covers<K: Keys>(&self, key: K::Key<'_>) -> bool {
        let (low, high) = (self.low(), self.high());
        K::kept(&low).is_none_or(|low| K::compare(low, key).is_le())
            && K::kept(&high).is_none_or(|high| K::compare(key, high).is_lt())
    }

    /// Gives the node another fence, which becomes its own; returns the old one, which is the caller's now.
    #[must_use]
    pub fn set_low<K: Keys>(&self, low: Kept) -> Kept {
        let old = self.low.load();
        self.low.store(low);
        self.renew_heads::<K>();
        old
    }

    /// As [`Node::set_low`].
    #[must_use]
    pub fn set_high<K: Keys>(&self, high: Kept) -> Kept {
        let old = self.high.load();
        self.high.store(high);
        self.renew_heads::<K>();
        old
    }

    /// Makes all heads again, for the fences as they are.
    fn renew_heads<K: Keys>(&self) {
        let info = self.info();
        let skip = K::skip(K::kept(&self.low()), K::kept(&self.high()));
        if skip == info.skip {
            return;
        }
        for at in 0..info.count {
            if info.level == 0 {
                let record = self.locked_record(at);
                self.leaf().heads[at].store(K::head(K::stored(&record), skip), Ordering::Relaxed);
            } else {
                let kept = self.separator::<K>(at);
                let key = K::separating(&kept);
                self.inner().heads[at].store(K::head(key, skip), Ordering::Relaxed);
            }
        }
        self.set_info(Info { skip, ..info });
    }

    /// Asks for what a search of this node reads, all lines at once: the front and the heads, of an inner node its children, too. (A search
    /// that waits for one line before it knows the next waits several times.) The level comes from whoever led here; the node itself is not looked at.
    #[inline]
    pub fn prefetch_for_search(this: *const Node, level: u8) {
        const LEAF: usize = FRONT + LEAF_KEYS * 8;
        const HEADS: usize = FRONT + INNER_KEYS * 8;
        const CHILDREN: usize = FRONT + std::mem::offset_of!(InnerBody, children);
        let line = |at: usize| prefetch(this.cast::<u8>().wrapping_add(at));
        if level == 0 {
            (0..LEAF).step_by(LINE).for_each(line);
        } else {
            (0..HEADS).step_by(LINE).for_each(line);
            (CHILDREN / LINE * LINE..size_of::<Node>()).step_by(LINE).for_each(line);
        }
    }

    /// Asks for what a scan of a whole leaf reads: its front and its records.
    #[inline]
    pub fn prefetch_for_scan(this: *const Node) {
        const RECORDS: usize = FRONT + LEAF_KEYS * 8;
        let line = |at: usize| prefetch(this.cast::<u8>().wrapping_add(at));
        line(0);
        (RECORDS / LINE * LINE..size_of::<Node>()).step_by(LINE).for_each(line);
    }

    #[inline]
    fn leaf(&self) -> &LeafBody {
        // SAFETY: both bodies are atomics, for which all bits are valid.
        unsafe { &self.body.leaf }
    }

    #[inline]
    fn inner(&self) -> &InnerBody {
        // SAFETY: both bodies are atomics, for which all bits are valid.
        unsafe { &self.body.inner }
    }

    /// How many of the first `count` heads are below `head`. A hint until the version is checked.
    #[inline(always)]
    fn heads_below(heads: &[AtomicU64], count: usize, head: u64) -> usize {
        let (mut base, mut len) = (0, count.min(heads.len()));
        while len > 1 {
            let half = len / 2;
            let below = heads[base + half - 1].load(Ordering::Relaxed) < head;
            base = select_unpredictable(below, base + half, base);
            len -= half;
        }
        base + usize::from(len == 1 && heads[base].load(Ordering::Relaxed) < head)
    }
}
