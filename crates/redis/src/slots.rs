//! Hash slots, by which Redis Cluster's clients choose whom to ask. Here one node at a time has all of them; a slot is only a word
//! that such clients understand.

/// How many there are.
pub const SLOTS: u16 = 16384;

/// The slot of a key: CRC16 of it, or of what stands between its first `{` and the next `}`, if anything does.
pub fn slot(key: &[u8]) -> u16 {
    crc16(hash_tag(key).unwrap_or(key)) % SLOTS
}

fn hash_tag(key: &[u8]) -> Option<&[u8]> {
    let open = key.iter().position(|byte| *byte == b'{')? + 1;
    let len = key[open..].iter().position(|byte| *byte == b'}')?;
    (len > 0).then(|| &key[open..open + len])
}

/// CRC-16/XMODEM: polynomial 0x1021, nothing reflected, from 0.
fn crc16(bytes: &[u8]) -> u16 {
    bytes.iter().fold(0, |crc: u16, byte| (crc << 8) ^ TABLE[usize::from((crc >> 8) as u8 ^ byte)])
}

static TABLE: [u16; 256] = table();

const fn table() -> [u16; 256] {
    let (mut table, mut at) = ([0; 256], 0);
    while at < 256 {
        let (mut crc, mut bit) = ((at as u16) << 8, 0);
        while bit < 8 {
            crc = if crc & 0x8000 != 0 { (crc << 1) ^ 0x1021 } else { crc << 1 };
            bit += 1;
        }
        table[at] = crc;
        at += 1;
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_check_value_and_tags_are_as_specified() {
        assert_eq!(crc16(b"123456789"), 0x31c3);
        assert_eq!(slot(b"foo"), 12182);
        assert_eq!(slot(b"{user1000}.following"), slot(b"user1000"));
        assert_eq!(slot(b"foo{}{bar}"), crc16(b"foo{}{bar}") % SLOTS, "an empty tag is none");
        assert_eq!(slot(b"foo{{bar}}zap"), slot(b"{bar"));
        assert_eq!(slot(b"foo{bar}{zap}"), slot(b"bar"));
        assert_eq!(slot(b"{bar"), crc16(b"{bar") % SLOTS);
        assert_eq!(slot(b""), 0);
    }
}
