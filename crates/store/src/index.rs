//! What a transaction needs of an index, whichever it is.

use std::ptr::NonNull;

use crate::hash::Bucket;
use crate::heap::Heap;
use crate::keys::Keys;
use crate::record::Record;
use crate::seen::NodeSeen;
use crate::tree::{Descent, Fingers};
use crate::word::Busy;

pub(crate) type KeyOf<'a, I> = <<I as Index>::Keys as Keys>::Key<'a>;

/// The outcome of a lookup.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Found {
    Record(Record),
    /// The key would be in this node.
    Absent(NodeSeen),
}

/// The nodes that a transaction relies on. Its own changes to the index tell it what became of them.
pub(crate) trait NodeSet {
    /// This thread changed `old` (the node as it was right before) into `new`.
    fn replaced(&mut self, old: NodeSeen, new: &[NodeSeen]);
}

/// For those who rely on no nodes.
impl NodeSet for () {
    fn replaced(&mut self, _: NodeSeen, _: &[NodeSeen]) {}
}

/// An index from keys to records. All calls need a pinned guard (`heap`'s, where a heap is passed).
pub(crate) trait Index {
    type Keys: Keys;

    /// Finds a key. `hash` is the key's [`Keys::hash`].
    fn find(&self, key: KeyOf<'_, Self>, hash: u64, fingers: &mut Fingers) -> Found;

    /// Finds a key, or adds a record for it, with room for `value_len` bytes. `word` is the word of a new record: that of
    /// a tombstone that was never written, or of one that is locked for the caller. Says whether it added one.
    #[expect(clippy::too_many_arguments, reason = "a struct for one call would be built on the hot path")]
    fn find_or_add(
        &self,
        key: KeyOf<'_, Self>,
        hash: u64,
        value_len: usize,
        word: u64,
        fingers: &mut Fingers,
        heap: &mut Heap,
        nodes: &mut impl NodeSet,
    ) -> (Record, bool);

    /// Takes the key's record out of the index and retires it, if its word is `expected`; returns which it was. Busy if
    /// somebody holds the record's lock and may yet leave the word as it was.
    fn unlink(
        &self,
        key: KeyOf<'_, Self>,
        hash: u64,
        expected: u64,
        fingers: &mut Fingers,
        heap: &mut Heap,
    ) -> Result<Option<Record>, Busy>;

    // A lookup that is taken through its steps in turn with others, so that their cache misses overlap: each step looks at what the one
    // before asked for, and asks for the next. All are hints, and whoever is in the way ends it.

    /// The first step. With fingers, if the key may well be where somebody was lately: looking for the right one costs, too.
    fn enter(&self, key: KeyOf<'_, Self>, fingers: Option<&mut Fingers>) -> Way;

    /// The next step, if it is [on the way](Way::is_under_way).
    fn go_on(&self, way: Way, key: KeyOf<'_, Self>) -> Way;

    /// The last step: the record that is probably the key's.
    fn peek(&self, way: Way, key: KeyOf<'_, Self>, fingers: &mut Fingers) -> Option<Record>;
}

/// How far a lookup has come that is taken through its steps with others.
#[derive(Clone, Copy)]
pub(crate) enum Way {
    /// The bucket of this hash was asked for. The caller stays pinned from the first step to the last, so it still is a bucket, if not the one
    /// of its keys any more.
    Bucket(u64, NonNull<Bucket>),
    /// The next node was asked for.
    Down(Descent),
    /// The leaf is at hand already, under this finger.
    Finger(usize),
    /// It has ended: the leaf will be at hand, or somebody was in the way.
    Nowhere,
}

impl Way {
    /// Whether there are steps in front of the last one.
    #[inline]
    pub fn is_under_way(&self) -> bool {
        matches!(self, Way::Down(descent) if !descent.at_leaf())
    }

    /// The key's hash, if this index uses it.
    #[inline]
    pub fn hash(&self) -> u64 {
        match self {
            Way::Bucket(hash, _) => *hash,
            _ => 0,
        }
    }
}
