//! Size classes: what sizes pieces of memory have.

const SIZED: usize = 40;
/// Class of tree nodes; never mixed with anything else.
pub(crate) const NODE: u8 = SIZED as u8;
/// Class of hash segments.
pub(crate) const SEGMENT: u8 = SIZED as u8 + 1;
pub(super) const CLASSES: usize = SIZED + 2;
/// Not a class: a piece of its own, from the system's allocator.
pub(super) const LARGE: u8 = u8::MAX;

/// Bytes of a tree node.
pub(crate) const NODE_BYTES: usize = 1024;
/// Bytes of a hash segment.
pub(crate) const SEGMENT_BYTES: usize = 64 * 65;
/// Pieces larger than this come from the system's allocator.
pub(crate) const MAX_SIZED: usize = 4096;

/// Bytes of the pieces of each class: steps of 1/8 or less, 32 at least.
pub(super) const SIZES: [usize; CLASSES] = {
    let mut sizes = [0; CLASSES];
    let (mut class, mut size) = (0, 0);
    while class < SIZED {
        size += match size {
            0..512 => 32,
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
    sizes
};

/// The smallest class that holds `bytes`.
pub(super) fn class_of(bytes: usize) -> u8 {
    let class = match bytes {
        0..=32 => 0,
        33..=512 => bytes.div_ceil(32) - 1,
        513..=1024 => 16 + (bytes - 512).div_ceil(64) - 1,
        1025..=2048 => 24 + (bytes - 1024).div_ceil(128) - 1,
        2049..=MAX_SIZED => 32 + (bytes - 2048).div_ceil(256) - 1,
        _ => return LARGE,
    };
    debug_assert!(SIZES[class] >= bytes && (class == 0 || SIZES[class - 1] < bytes));
    class as u8
}

/// What a piece will hold if `bytes` are asked for.
#[inline]
pub(crate) fn rounded(bytes: usize) -> usize {
    match class_of(bytes) {
        LARGE => bytes.next_multiple_of(64),
        class => SIZES[class as usize],
    }
}
