//! What the indexes know of keys: native integers, or byte strings.

use std::cmp::Ordering;
use std::ops::Bound;
use std::ptr::NonNull;

use highwater_core::log;
use highwater_core::transaction::KeyRange;

use crate::heap::Heap;
use crate::record::Record;

/// A kind of key.
pub(crate) trait Keys: 'static {
    type Key<'a>: Copy;

    /// Whether [`Keys::head`] alone decides every comparison.
    const EXACT: bool;

    /// The key that a caller's bytes mean; `None` if they mean none.
    fn parse(bytes: &[u8]) -> Option<Self::Key<'_>>;

    /// As the log carries it.
    fn logged<'a>(key: Self::Key<'a>) -> log::Key<'a>;

    /// From the log; `None` if it is of the other kind.
    fn logged_key(key: log::Key<'_>) -> Option<Self::Key<'_>>;

    fn compare(a: Self::Key<'_>, b: Self::Key<'_>) -> Ordering;

    fn same(a: Self::Key<'_>, b: Self::Key<'_>) -> bool;

    /// Runs `visit` with the bytes that a caller knows.
    fn shown<R>(key: Self::Key<'_>, visit: impl FnOnce(&[u8]) -> R) -> R;

    /// 64 well-mixed bits.
    fn hash(key: Self::Key<'_>) -> u64;

    /// The key in a record.
    fn stored(record: &Record) -> Self::Key<'_>;

    /// Eight bytes behind the first `skip` that compare as the keys do, as far as they go.
    fn head(key: Self::Key<'_>, skip: usize) -> u64;

    /// How many bytes all keys in `low..high` have in common.
    fn skip(low: Option<Self::Key<'_>>, high: Option<Self::Key<'_>>) -> usize;

    /// A short key `s` with `left < s <= right`.
    fn separator<'a>(left: Self::Key<'_>, right: Self::Key<'a>) -> Self::Key<'a>;

    /// A copy for an index node to keep.
    fn keep(key: Self::Key<'_>, heap: &mut Heap) -> Kept;

    /// Gives a kept key's memory back, through the guards.
    fn drop_kept(kept: Kept, heap: &mut Heap);

    /// The kept key; `None` for [`Kept::NONE`].
    fn kept(kept: &Kept) -> Option<Self::Key<'_>>;

    /// The key that separates two children: there is one, as unbounded is only what has nothing beside it.
    fn separating(kept: &Kept) -> Self::Key<'_> {
        Self::kept(kept).expect("separators are keys")
    }
}

/// A key that belongs to an index node; or none, for "unbounded". Integers are in `word` (never 0: a separator is
/// larger than some key), byte strings in `blob`: length as 8 bytes, then the bytes.
///
/// Valid as long as the guard is pinned under which it was read from its node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Kept {
    pub word: u64,
    pub blob: *mut u8,
}

impl Kept {
    pub const NONE: Kept = Kept { word: 0, blob: std::ptr::null_mut() };
}

/// A range of keys.
pub(crate) type Bounds<'k, K> = (Bound<<K as Keys>::Key<'k>>, Bound<<K as Keys>::Key<'k>>);

/// The range that a caller's bytes mean; `None` if a bound is no key of the table.
pub(crate) fn bounds<'k, K: Keys>(range: KeyRange<'k>) -> Option<Bounds<'k, K>> {
    let parse = |bound: Bound<&'k [u8]>| {
        Some(match bound {
            Bound::Included(key) => Bound::Included(K::parse(key)?),
            Bound::Excluded(key) => Bound::Excluded(K::parse(key)?),
            Bound::Unbounded => Bound::Unbounded,
        })
    };
    Some((parse(range.0)?, parse(range.1)?))
}

const K0: u64 = 0x9e37_79b9_7f4a_7c15;
const K1: u64 = 0xd6e8_feb8_6659_fd93;

/// One multiplication to 128 bits, folded.
#[inline(always)]
fn fold(a: u64, b: u64) -> u64 {
    let product = u128::from(a) * u128::from(b);
    product as u64 ^ (product >> 64) as u64
}

/// Keys of 8 bytes, big endian, held as one integer.
pub(crate) struct IntegerKeys;

impl Keys for IntegerKeys {
    type Key<'a> = u64;
    const EXACT: bool = true;

    #[inline]
    fn parse(bytes: &[u8]) -> Option<u64> {
        Some(u64::from_be_bytes(bytes.try_into().ok()?))
    }
    #[inline]
    fn logged<'a>(key: Self::Key<'a>) -> log::Key<'a> {
        log::Key::U64(key)
    }
    #[inline]
    fn logged_key(key: log::Key<'_>) -> Option<u64> {
        match key {
            log::Key::U64(key) => Some(key),
            log::Key::Bytes(_) => None,
        }
    }
    #[inline]
    fn compare(a: u64, b: u64) -> Ordering {
        a.cmp(&b)
    }
    #[inline]
    fn same(a: u64, b: u64) -> bool {
        a == b
    }
    #[inline]
    fn shown<R>(key: u64, visit: impl FnOnce(&[u8]) -> R) -> R {
        visit(&key.to_be_bytes())
    }
    #[inline]
    fn hash(key: u64) -> u64 {
        // A second round: one fold alone leaves patterns in runs of keys that differ in their high bytes only.
        let mixed = (key ^ K0).wrapping_mul(K1);
        fold(mixed ^ (mixed >> 32), K0)
    }
    #[inline]
    fn stored(record: &Record) -> u64 {
        record.key_u64()
    }
    #[inline]
    fn head(key: u64, _: usize) -> u64 {
        key
    }
    fn skip(_: Option<u64>, _: Option<u64>) -> usize {
        0
    }
    fn separator<'a>(_: u64, right: Self::Key<'a>) -> Self::Key<'a> {
        right
    }
    fn keep(key: u64, _: &mut Heap) -> Kept {
        assert!(key > 0, "a separator is larger than some key");
        Kept { word: key, blob: std::ptr::null_mut() }
    }
    fn drop_kept(_: Kept, _: &mut Heap) {}
    #[inline]
    fn kept(kept: &Kept) -> Option<u64> {
        (kept.word != 0).then_some(kept.word)
    }
}

/// Keys of any bytes.
pub(crate) struct ByteKeys;

impl Keys for ByteKeys {
    type Key<'a> = &'a [u8];
    const EXACT: bool = false;

    #[inline]
    fn parse(bytes: &[u8]) -> Option<&[u8]> {
        (bytes.len() <= highwater_core::limits::MAX_KEY_BYTES).then_some(bytes)
    }
    #[inline]
    fn logged<'a>(key: Self::Key<'a>) -> log::Key<'a> {
        log::Key::Bytes(key)
    }
    #[inline]
    fn logged_key(key: log::Key<'_>) -> Option<&[u8]> {
        match key {
            log::Key::Bytes(key) if key.len() <= highwater_core::limits::MAX_KEY_BYTES => Some(key),
            _ => None,
        }
    }
    #[inline]
    fn compare(a: &[u8], b: &[u8]) -> Ordering {
        a.cmp(b)
    }
    #[inline]
    fn same(a: &[u8], b: &[u8]) -> bool {
        a == b
    }
    #[inline]
    fn shown<R>(key: &[u8], visit: impl FnOnce(&[u8]) -> R) -> R {
        visit(key)
    }
    #[inline]
    fn hash(key: &[u8]) -> u64 {
        let mut state = K0 ^ (key.len() as u64).wrapping_mul(K1);
        let (words, rest) = key.as_chunks::<8>();
        for word in words {
            state = fold(state ^ u64::from_le_bytes(*word), K1);
        }
        let mut tail = [0; 8];
        tail[..rest.len()].copy_from_slice(rest);
        fold(fold(state ^ u64::from_le_bytes(tail), K1) ^ K1, K0)
    }
    #[inline]
    fn stored(record: &Record) -> &[u8] {
        record.key_bytes()
    }
    #[inline]
    fn head(key: &[u8], skip: usize) -> u64 {
        let rest = key.get(skip..).unwrap_or_default();
        match rest.first_chunk::<8>() {
            Some(head) => u64::from_be_bytes(*head),
            None => {
                let mut head = [0; 8];
                head[..rest.len()].copy_from_slice(rest);
                u64::from_be_bytes(head)
            }
        }
    }
    fn skip(low: Option<&[u8]>, high: Option<&[u8]>) -> usize {
        match (low, high) {
            (Some(low), Some(high)) => common(low, high),
            _ => 0,
        }
    }
    fn separator<'a>(left: &[u8], right: Self::Key<'a>) -> Self::Key<'a> {
        debug_assert!(left < right);
        &right[..common(left, right) + 1]
    }
    fn keep(key: &[u8], heap: &mut Heap) -> Kept {
        let at = heap.alloc_part(8 + key.len());
        // SAFETY: the piece holds 8 + key.len() bytes, is aligned to 8, and nobody else has it.
        unsafe {
            at.cast::<u64>().write(key.len() as u64);
            std::ptr::copy_nonoverlapping(key.as_ptr(), at.add(8).as_ptr(), key.len());
        }
        Kept { word: 0, blob: at.as_ptr() }
    }
    fn drop_kept(kept: Kept, heap: &mut Heap) {
        if let Some(key) = Self::kept(&kept) {
            let bytes = 8 + key.len();
            heap.retire_part(NonNull::new(kept.blob).expect("a kept key has a blob"), bytes);
        }
    }
    #[inline]
    fn kept(kept: &Kept) -> Option<&[u8]> {
        let at = NonNull::new(kept.blob)?;
        // SAFETY: made by `keep`, immutable since, and valid by the invariant of `Kept`.
        unsafe {
            let len = at.cast::<u64>().read() as usize;
            Some(std::slice::from_raw_parts(at.add(8).as_ptr(), len))
        }
    }
}

fn common(a: &[u8], b: &[u8]) -> usize {
    a.iter().zip(b).take_while(|(a, b)| a == b).count()
}
