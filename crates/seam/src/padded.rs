//! What different threads write does not share a cache line.

use std::ops::Deref;

/// In a pair of cache lines of its own: CPUs fetch them in pairs.
#[derive(Default)]
#[repr(align(128))]
pub struct Padded<T>(pub T);

impl<T> Deref for Padded<T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicU64;

    use super::*;

    #[test]
    fn it_fills_its_lines() {
        assert_eq!((align_of::<Padded<AtomicU64>>(), size_of::<Padded<AtomicU64>>()), (128, 128));
    }
}
