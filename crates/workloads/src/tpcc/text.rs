//! The strings of clause 4.3.2: random letters, last names, addresses, and what "ORIGINAL" marks.

use super::rows::Address;
use crate::bytes::{Sink, StackBytes};
use crate::random::Rng;

/// Marks the brand-generic items and stocks.
pub const ORIGINAL: &[u8; 8] = b"ORIGINAL";

/// The customers' credit standing.
pub const GOOD_CREDIT: [u8; 2] = *b"GC";
/// The customers' credit standing, bad.
pub const BAD_CREDIT: [u8; 2] = *b"BC";

const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789.-";
const SYLLABLES: [&[u8]; 10] =
    [b"BAR", b"OUGHT", b"ABLE", b"PRI", b"PRES", b"ESE", b"ANTI", b"CALLY", b"ATION", b"EING"];

/// Appends a random a-string of `low..=high` characters.
pub fn put_letters(out: &mut impl Sink, rng: &mut Rng, low: u64, high: u64) {
    let mut left = rng.within(low, high);
    while left > 0 {
        // 10 characters of 6 bits from one draw.
        let mut bits = rng.u64();
        for _ in 0..left.min(10) {
            out.put_u8(LETTERS[(bits & 63) as usize]);
            bits >>= 6;
        }
        left -= left.min(10);
    }
}

/// A random a-string of `low..=high` characters, at most 64.
pub fn letters(rng: &mut Rng, low: u64, high: u64) -> StackBytes<64> {
    let mut text = StackBytes::new();
    put_letters(&mut text, rng, low, high);
    text
}

/// Appends a random n-string of `len` digits.
pub fn put_digits(out: &mut impl Sink, rng: &mut Rng, len: u64) {
    (0..len).for_each(|_| out.put_u8(b'0' + rng.below(10) as u8));
}

/// I_DATA or S_DATA: 26 to 50 characters, with "ORIGINAL" somewhere in every tenth.
pub fn data(rng: &mut Rng) -> StackBytes<64> {
    let mut text = letters(rng, 26, 50);
    if rng.percent(10) {
        let at = rng.below((text.as_slice().len() - ORIGINAL.len() + 1) as u64) as usize;
        text.as_mut_slice()[at..at + ORIGINAL.len()].copy_from_slice(ORIGINAL);
    }
    text
}

/// A random address.
#[derive(Clone, Copy)]
pub struct NewAddress {
    lines: [StackBytes<64>; 3],
    state: [u8; 2],
    zip: [u8; 9],
}

impl NewAddress {
    pub fn columns(&self) -> Address<'_> {
        let [street_1, street_2, city] = self.lines.each_ref().map(StackBytes::as_slice);
        Address { street_1, street_2, city, state: self.state, zip: self.zip }
    }
}

/// A random address: the zip code is 4 digits and five ones.
pub fn address(rng: &mut Rng) -> NewAddress {
    let lines = [(); 3].map(|()| letters(rng, 10, 20));
    let state = [(); 2].map(|()| b'A' + rng.below(26) as u8);
    let mut zip = *b"000011111";
    zip[..4].iter_mut().for_each(|digit| *digit += rng.below(10) as u8);
    NewAddress { lines, state, zip }
}

/// The longest last name.
pub const LAST_NAME_BYTES: usize = 16;

/// The last name of a number below 1000: a syllable for each digit (clause 4.3.2.3).
pub fn last_name(number: u16) -> StackBytes<LAST_NAME_BYTES> {
    let mut name = StackBytes::new();
    for digit in [number / 100 % 10, number / 10 % 10, number % 10] {
        name.put(SYLLABLES[usize::from(digit)]);
    }
    name
}

/// Whether the text has "ORIGINAL" in it. NewOrder asks this of every item, so it skips (Boyer, Moore, Horspool): most
/// letters under the end of the window are none of the word's, and move it by its whole length.
#[inline]
pub fn is_original(text: &[u8]) -> bool {
    let mut at = 0;
    while let Some(window) = text.get(at..at + ORIGINAL.len()) {
        if window == ORIGINAL {
            return true;
        }
        at += SKIPS[usize::from(window[ORIGINAL.len() - 1])] as usize;
    }
    false
}

/// By the letter under the window's end: how far to the next place where that letter fits.
static SKIPS: [u8; 256] = {
    let mut skips = [ORIGINAL.len() as u8; 256];
    let mut at = 0;
    while at + 1 < ORIGINAL.len() {
        skips[ORIGINAL[at] as usize] = (ORIGINAL.len() - 1 - at) as u8;
        at += 1;
    }
    skips
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn last_names_follow_the_specification() {
        assert_eq!(last_name(371).as_slice(), b"PRICALLYOUGHT");
        assert_eq!(last_name(40).as_slice(), b"BARPRESBAR");
        assert!((0..1000).all(|number| last_name(number).as_slice().len() <= 16));
    }

    #[test]
    fn a_tenth_of_the_data_is_original() {
        let mut rng = Rng::new(3);
        let originals = (0..10_000).filter(|_| is_original(data(&mut rng).as_slice())).count();
        assert!((900..1100).contains(&originals), "{originals}");
        assert!(is_original(b"ORIGINAL") && is_original(b"xxORIGINAL") && !is_original(b"ORIGINA"));
    }

    #[test]
    fn skipping_finds_the_same_as_looking_everywhere() {
        let mut rng = Rng::new(6);
        for _ in 0..20_000 {
            let mut text = letters(&mut rng, 0, 20);
            // Letters of the word itself, so that windows nearly match.
            text.as_mut_slice().iter_mut().for_each(|byte| *byte = ORIGINAL[usize::from(*byte) % 8]);
            let len = text.as_slice().len();
            if len >= 8 && rng.percent(50) {
                let at = rng.below(len as u64 - 7) as usize;
                text.as_mut_slice()[at..at + 8].copy_from_slice(ORIGINAL);
            }
            let everywhere = text.as_slice().windows(8).any(|window| window == ORIGINAL);
            assert_eq!(is_original(text.as_slice()), everywhere, "{:?}", text.as_slice());
        }
    }

    #[test]
    fn letters_keep_their_bounds() {
        let mut rng = Rng::new(4);
        for _ in 0..1000 {
            let len = letters(&mut rng, 14, 24).as_slice().len();
            assert!((14..=24).contains(&len));
        }
    }
}
