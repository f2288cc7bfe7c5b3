//! What a transaction needs of an index, whichever it is.

use crate::heap::Heap;
use crate::keys::Keys;
use crate::record::Record;
use crate::seen::NodeSeen;
use crate::tree::Fingers;
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

    /// First step of a lookup in lockstep with others: asks for the first line that is likely to miss. Returns the hash,
    /// if this index uses it.
    fn prefetch_node(&self, key: KeyOf<'_, Self>, fingers: &Fingers) -> u64;

    /// Second step: the record that is probably the key's, from what the first step brought.
    fn peek(&self, hash: u64) -> Option<Record>;
}
