//! How bytes arrive in pieces, drawn from the bytes themselves: an input is all there is to repeat a run.

/// Cuts `bytes` into pieces; the first byte says how.
pub fn cut(bytes: &[u8]) -> Vec<&[u8]> {
    let Some((&seed, mut rest)) = bytes.split_first() else { return Vec::new() };
    let mut state = u32::from(seed) | 0x100;
    let mut pieces = Vec::new();
    while !rest.is_empty() {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        let most = 1 << (state >> 28).min(8);
        let (piece, behind) = rest.split_at((1 + (state >> 8) as usize % most).min(rest.len()));
        pieces.push(piece);
        rest = behind;
    }
    pieces
}
