//! Pieces packed one behind another: the items at a list's ends and in its rows, and the elements of a collection that is small.
//!
//! ```text
//! piece    length varint | bytes
//! ```
//!
//! All here is bounded to some hundred bytes by whoever packs, so to look a piece up is to go through those in front of it.

use highwater_core::codec::Reader;

use super::items::End;

/// Bytes that a piece of this length takes.
pub const fn packed_bytes(len: usize) -> usize {
    let bits = usize::BITS - (len | 1).leading_zeros();
    len + bits.div_ceil(7) as usize
}

/// Pieces, and how many there are.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Packed {
    bytes: Vec<u8>,
    count: usize,
}

/// Goes through packed pieces.
#[derive(Clone)]
pub struct Pieces<'a>(Reader<'a>);

impl<'a> Pieces<'a> {
    /// Of these bytes.
    pub fn new(bytes: &'a [u8]) -> Pieces<'a> {
        Pieces(Reader::new(bytes))
    }

    /// What is left.
    pub fn rest(&self) -> &'a [u8] {
        self.0.rest()
    }
}

impl<'a> Iterator for Pieces<'a> {
    type Item = &'a [u8];

    #[inline]
    fn next(&mut self) -> Option<&'a [u8]> {
        (!self.0.is_empty()).then(|| self.0.bytes().expect("rows hold what was packed there"))
    }
}

impl Packed {
    /// Pieces that were packed before.
    pub fn new(bytes: &[u8]) -> Packed {
        Packed { bytes: bytes.to_vec(), count: Pieces::new(bytes).count() }
    }

    /// The same, where it is known how many they are.
    pub fn counted(bytes: &[u8], count: usize) -> Packed {
        debug_assert_eq!(Pieces::new(bytes).count(), count);
        Packed { bytes: bytes.to_vec(), count }
    }

    pub fn one(piece: &[u8]) -> Packed {
        let mut packed = Packed::default();
        packed.push(End::Right, piece);
        packed
    }

    /// As they stand in a row.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.count
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// From the first to the last.
    pub fn iter(&self) -> Pieces<'_> {
        Pieces::new(&self.bytes)
    }

    /// Where a piece begins; at the count, where all end.
    fn offset(&self, index: usize) -> usize {
        let mut pieces = self.iter();
        for _ in 0..index {
            pieces.next().expect("an index is below the count");
        }
        self.bytes.len() - pieces.rest().len()
    }

    /// Adds one at an end.
    pub fn push(&mut self, end: End, piece: &[u8]) {
        let at = if end == End::Left { 0 } else { self.bytes.len() };
        self.splice(at..at, Some(piece));
        self.count += 1;
    }

    /// Takes one from an end.
    pub fn pop(&mut self, end: End) -> Option<Vec<u8>> {
        let index = if end == End::Left { 0 } else { self.count.checked_sub(1)? };
        let at = self.offset(index);
        let piece = Pieces::new(&self.bytes[at..]).next()?.to_vec();
        self.bytes.drain(at..at + packed_bytes(piece.len()));
        self.count -= 1;
        Some(piece)
    }

    /// Lets so many go at an end, of as many or more.
    pub fn drop_some(&mut self, end: End, count: usize) {
        match end {
            End::Left => drop(self.bytes.drain(..self.offset(count))),
            End::Right => self.bytes.truncate(self.offset(self.count - count)),
        }
        self.count -= count;
    }

    /// The piece at an index below the count.
    pub fn get(&self, index: usize) -> &[u8] {
        self.iter().nth(index).expect("an index is below the count")
    }

    /// Puts another one in its place.
    pub fn replace(&mut self, index: usize, piece: &[u8]) {
        let at = self.offset(index);
        let old = packed_bytes(self.get(index).len());
        self.splice(at..at + old, Some(piece));
    }

    /// Takes it out.
    pub fn remove(&mut self, index: usize) {
        let at = self.offset(index);
        let old = packed_bytes(self.get(index).len());
        self.splice(at..at + old, None);
        self.count -= 1;
    }

    /// Puts a piece where that range is, or nothing.
    fn splice(&mut self, range: std::ops::Range<usize>, piece: Option<&[u8]>) {
        let new = piece.map_or(0, |piece| packed_bytes(piece.len()));
        let (old_end, end) = (self.bytes.len(), self.bytes.len() - range.len() + new);
        self.bytes.resize(old_end.max(end), 0);
        self.bytes.copy_within(range.end..old_end, range.start + new);
        self.bytes.truncate(end);
        let Some(piece) = piece else { return };
        let mut at = range.start;
        let mut len = piece.len();
        while len >= 0x80 {
            self.bytes[at] = len as u8 | 0x80;
            (at, len) = (at + 1, len >> 7);
        }
        self.bytes[at] = len as u8;
        self.bytes[at + 1..at + 1 + piece.len()].copy_from_slice(piece);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whatever is done to packed pieces and to a vector of them, both hold the same.
    #[test]
    fn pieces_are_as_in_a_vector() {
        let mut random = highwater_core::random::Random::new(7);
        for _ in 0..200 {
            let (mut packed, mut plain) = (Packed::default(), Vec::new());
            for _ in 0..60 {
                let most = if random.below(9) == 0 { 300 } else { 4 };
                let piece = vec![b'x'; random.below(most) as usize];
                let end = if random.below(2) == 0 { End::Left } else { End::Right };
                match random.below(5) {
                    0 if !plain.is_empty() => {
                        let last = if end == End::Left { 0 } else { plain.len() - 1 };
                        assert_eq!(packed.pop(end), Some(plain.remove(last)));
                    }
                    1 if !plain.is_empty() => {
                        let index = random.below(plain.len() as u64) as usize;
                        packed.replace(index, &piece);
                        plain[index] = piece;
                        assert_eq!(packed.get(index), plain[index]);
                    }
                    2 if !plain.is_empty() => {
                        let index = random.below(plain.len() as u64) as usize;
                        packed.remove(index);
                        plain.remove(index);
                    }
                    3 if plain.len() > 20 => {
                        let count = random.below(10) as usize;
                        packed.drop_some(end, count);
                        match end {
                            End::Left => drop(plain.drain(..count)),
                            End::Right => plain.truncate(plain.len() - count),
                        }
                    }
                    _ => {
                        packed.push(end, &piece);
                        plain.insert(if end == End::Left { 0 } else { plain.len() }, piece);
                    }
                }
                assert!(packed.iter().eq(plain.iter().map(Vec::as_slice)));
                assert_eq!(packed, Packed::new(packed.bytes()));
                let bytes: usize = plain.iter().map(|piece| packed_bytes(piece.len())).sum();
                assert_eq!(packed.bytes().len(), bytes);
            }
        }
        assert_eq!(Packed::default().pop(End::Right), None);
        assert_eq!(Packed::default().pop(End::Left), None);
    }
}
