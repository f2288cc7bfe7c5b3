//! Size classes: what sizes pieces of memory have.

use super::system::{large_bytes, large_room};

const SIZED: usize = 43;
/// Class of tree nodes; never mixed with anything else.
pub(crate) const NODE: u8 = SIZED as u8;
/// Class of hash segments.
pub(crate) const SEGMENT: u8 = SIZED as u8 + 1;
/// Class of hash segments' overflow buckets, which stay as long as the segments do.
pub(crate) const BUCKET: u8 = SIZED as u8 + 2;
/// The first class of small parts of an index: so many classes of the sizes that records have, too.
const PART: u8 = SIZED as u8 + 3;
const PARTS: u8 = 16;
pub(super) const CLASSES: usize = (PART + PARTS) as usize;
/// Not a class: a piece of its own, from the system.
pub(super) const LARGE: u8 = u8::MAX;

/// Bytes of a tree node.
pub(crate) const NODE_BYTES: usize = 1024;
/// Bytes of a hash segment.
pub(crate) const SEGMENT_BYTES: usize = 64 * 65;
/// Bytes of an overflow bucket.
pub(crate) const BUCKET_BYTES: usize = 64;
/// Pieces larger than this come from the system one by one.
pub(crate) const MAX_SIZED: usize = 4096;

/// What the addresses of all pieces are multiples of: the least step between sizes.
pub(crate) const ALIGN: usize = 16;

/// Bytes of the pieces of each class: steps of 16 where small records are, for most of a key's rows are small, then of 32 and up to an eighth.
pub(super) const SIZES: [usize; CLASSES] = {
    let mut sizes = [0; CLASSES];
    let (mut class, mut size) = (0, 0);
    while class < SIZED {
        size += match size {
            0 => 32,
            1..128 => ALIGN,
            128..512 => 32,
            512..1024 => 64,
            1024..2048 => 128,
            _ => 256,
        };
        sizes[class] = size;
        class += 1;
    }
    assert!(size == MAX_SIZED);
    sizes[NODE as usize] = NODE_BYTES;
    sizes[SEGMENT as usize] = SEGMENT_BYTES;
    sizes[BUCKET as usize] = BUCKET_BYTES;
    class = 0;
    while class < PARTS as usize {
        sizes[PART as usize + class] = sizes[class];
        class += 1;
    }
    sizes
};

/// The smallest class that holds `bytes`.
pub(super) fn class_of(bytes: usize) -> u8 {
    let class = match bytes {
        0..=32 => 0,
        33..=128 => bytes.div_ceil(ALIGN) - 2,
        129..=512 => 6 + (bytes - 128).div_ceil(32),
        513..=1024 => 18 + (bytes - 512).div_ceil(64),
        1025..=2048 => 26 + (bytes - 1024).div_ceil(128),
        2049..=MAX_SIZED => 34 + (bytes - 2048).div_ceil(256),
        _ => return LARGE,
    };
    debug_assert!(SIZES[class] >= bytes && (class == 0 || SIZES[class - 1] < bytes));
    class as u8
}

/// The class for a part of an index of `bytes`: apart from records, so that a few fences that stay do not keep what they
/// leave.
pub(super) fn part_of(bytes: usize) -> u8 {
    match class_of(bytes) {
        class @ 0..PARTS => PART + class,
        class => class,
    }
}

/// What a piece will hold if `bytes` are asked for.
#[inline]
pub(crate) fn rounded(bytes: usize) -> usize {
    match class_of(bytes) {
        LARGE => large_room(large_bytes(bytes)),
        class => SIZES[class as usize],
    }
}

/// What a piece that holds `bytes` takes of the system's memory.
#[inline]
pub(crate) fn taken(bytes: usize) -> usize {
    match class_of(bytes) {
        LARGE => large_bytes(bytes),
        class => SIZES[class as usize],
    }
}
