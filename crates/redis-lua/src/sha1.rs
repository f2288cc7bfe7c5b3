//! SHA-1, by which scripts are named. For names only: it protects nothing.

/// The digest of some bytes.
pub fn sha1(bytes: &[u8]) -> [u8; 20] {
    let mut state = [0x6745_2301u32, 0xefcd_ab89, 0x98ba_dcfe, 0x1032_5476, 0xc3d2_e1f0];
    let (blocks, rest) = bytes.as_chunks::<64>();
    blocks.iter().for_each(|block| absorb(&mut state, block));
    let mut last = [0u8; 128];
    last[..rest.len()].copy_from_slice(rest);
    last[rest.len()] = 0x80;
    let len = if rest.len() < 56 { 64 } else { 128 };
    last[len - 8..len].copy_from_slice(&(bytes.len() as u64 * 8).to_be_bytes());
    last[..len].as_chunks::<64>().0.iter().for_each(|block| absorb(&mut state, block));
    let mut digest = [0; 20];
    for (bytes, word) in digest.as_chunks_mut::<4>().0.iter_mut().zip(state) {
        *bytes = word.to_be_bytes();
    }
    digest
}

/// The same in hexadecimal.
pub fn sha1_hex(bytes: &[u8]) -> String {
    hex(&sha1(bytes))
}

/// A digest in small hexadecimal letters.
pub fn hex(digest: &[u8; 20]) -> String {
    letters(digest).iter().map(|letter| char::from(*letter)).collect()
}

/// The letters alone.
pub fn letters(digest: &[u8; 20]) -> [u8; 40] {
    let mut letters = [0; 40];
    for (pair, byte) in letters.as_chunks_mut::<2>().0.iter_mut().zip(digest) {
        *pair = [byte >> 4, byte & 15].map(|digit| b"0123456789abcdef"[usize::from(digit)]);
    }
    letters
}

/// A digest from 40 hexadecimal letters of any size.
pub fn parse(text: &[u8]) -> Option<[u8; 20]> {
    let mut digest = [0; 20];
    let (pairs, []) = text.as_chunks::<2>() else { return None };
    if pairs.len() != digest.len() {
        return None;
    }
    for (byte, [high, low]) in digest.iter_mut().zip(pairs) {
        let digit = |letter: u8| char::from(letter).to_digit(16);
        *byte = (digit(*high)? * 16 + digit(*low)?) as u8;
    }
    Some(digest)
}

fn absorb(state: &mut [u32; 5], block: &[u8; 64]) {
    let mut words = [0u32; 80];
    for (word, bytes) in words.iter_mut().zip(block.as_chunks::<4>().0) {
        *word = u32::from_be_bytes(*bytes);
    }
    for at in 16..80 {
        words[at] = (words[at - 3] ^ words[at - 8] ^ words[at - 14] ^ words[at - 16]).rotate_left(1);
    }
    let [mut a, mut b, mut c, mut d, mut e] = *state;
    for (at, word) in words.iter().enumerate() {
        let (mix, constant) = match at {
            0..20 => (b & c | !b & d, 0x5a82_7999),
            20..40 => (b ^ c ^ d, 0x6ed9_eba1),
            40..60 => (b & c | b & d | c & d, 0x8f1b_bcdc),
            _ => (b ^ c ^ d, 0xca62_c1d6u32),
        };
        let next =
            a.rotate_left(5).wrapping_add(mix).wrapping_add(e).wrapping_add(constant).wrapping_add(*word);
        (e, d, c, b, a) = (d, c, b.rotate_left(30), a, next);
    }
    for (word, change) in state.iter_mut().zip([a, b, c, d, e]) {
        *word = word.wrapping_add(change);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digests_are_those_of_the_standard() {
        assert_eq!(sha1_hex(b""), "da39a3ee5e6b4b0d3255bfef95601890afd80709");
        assert_eq!(sha1_hex(b"abc"), "a9993e364706816aba3e25717850c26c9cd0d89d");
        assert_eq!(sha1_hex(&[b'a'; 1_000_000]), "34aa973cd4c4daa4f61eeb2bdbad27316534016f");
        for len in [55, 56, 63, 64, 65] {
            assert_eq!(
                parse(sha1_hex(&vec![b'x'; len]).to_uppercase().as_bytes()),
                Some(sha1(&vec![b'x'; len]))
            );
        }
        assert_eq!(parse(b"abc"), None);
        assert_eq!(parse(&[b'g'; 40]), None);
    }
}
