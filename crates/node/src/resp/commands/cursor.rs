//! Cursors of `SCAN`, `HSCAN`, `SSCAN` and `ZSCAN`: where a scan goes on, as an integer below 2^53.
//!
//! ```text
//! even    hash: 52 bits | 0                   at a place: the first hash that begins so
//! odd     block: 14 bits | print: 38 bits | 1     in the middle of a crowd: at the name or member with this print
//! ```
//!
//! A *place* is what all have in common whose hashes agree in 52 bits. Few do by chance. Somebody may choose names so that as many do as they
//! like, a *crowd*, and no call tells a crowd at once. Then the scan goes on at one of them, whose [spot](crate::resp::keyspace::rows::spot) is far longer than a
//! cursor. The cursor has a print of it, by which anybody finds it again: in the *block* that the cursor names, or in the next one. A node
//! that has handed such a cursor out [remembers](crate::resp::bookmarks) the spot and need not look for it.
//!
//! # Invariant
//!
//! No cursor leads behind what it stands for: something may be told twice, and nothing is missed. So whatever is not found again leads to the
//! start of the cursor's block. Builds before this one read every cursor as a place of 53 bits, and handed such places out. The block is
//! the one in front of the crowd's for their sake: as a place, too, the cursor lies in front of the crowd. (Not so in the very first block, in front of
//! which there is none.) And an odd cursor of theirs leads to the start of the block that it lies in.

use sha2::{Digest, Sha256};

use crate::resp::errors::CommandError;

/// Bits of a cursor. Clients may keep it in a signed integer or in a double, which is all that JavaScript has.
const BITS: u32 = 53;
const BLOCK_BITS: u32 = 14;
const PRINT_BITS: u32 = 38;
const LAST_BLOCK: u64 = (1 << BLOCK_BITS) - 1;

const _: () = assert!(BLOCK_BITS + PRINT_BITS + 1 == BITS);

/// The point at which a scan goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cursor {
    /// At the first hash of a place.
    At(Place),
    /// In the middle of a crowd.
    In(Crowd),
}

impl Cursor {
    /// Everything begins here. As a cursor in a reply: the scan is over.
    pub const START: Cursor = Cursor::At(Place(0));

    /// Reads a cursor as clients send it; as `strtoul` does, with a sign or as no digits at all. Any number is one.
    pub fn parse(word: &[u8]) -> Result<Cursor, CommandError> {
        let (negative, digits) = match word {
            [] => return Ok(Cursor::START),
            [b'-', digits @ ..] => (true, digits),
            [b'+', digits @ ..] => (false, digits),
            _ => (false, word),
        };
        let text =
            std::str::from_utf8(digits).ok().filter(|text| text.bytes().all(|byte| byte.is_ascii_digit()));
        let number: Option<u64> = text.and_then(|text| text.parse().ok());
        let number = number.ok_or(CommandError::Text("ERR invalid cursor"))?;
        Ok(Cursor::of(if negative { number.wrapping_neg() } else { number }))
    }

    /// Reads a number. The first builds handed out whole hashes: of their cursors, one in 2048 is small enough to be taken for
    /// another one, the others lead to where that scan stood.
    fn of(number: u64) -> Cursor {
        match (number >> BITS, number & 1) {
            (0, 0) => Cursor::At(Place(number >> 1)),
            (0, _) => Cursor::In(Crowd {
                block: number >> (PRINT_BITS + 1),
                print: number >> 1 & ((1 << PRINT_BITS) - 1),
            }),
            _ => Cursor::At(Place::of(number)),
        }
    }

    /// As clients get it.
    pub fn number(self) -> u64 {
        match self {
            Cursor::At(place) => place.0 << 1,
            Cursor::In(crowd) => crowd.block << (PRINT_BITS + 1) | crowd.print << 1 | 1,
        }
    }
}

/// The upper 52 bits of a hash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place(u64);

impl Place {
    const BITS: u32 = BITS - 1;

    /// The place of a hash.
    pub fn of(hash: u64) -> Place {
        Place(hash >> (u64::BITS - Place::BITS))
    }

    /// The first hash there.
    pub fn first_hash(self) -> u64 {
        self.0 << (u64::BITS - Place::BITS)
    }
}

/// One of a crowd: in which block of hashes, or in the next one, and its print.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Crowd {
    block: u64,
    print: u64,
}

impl Crowd {
    /// The one at this hash, of which this is the name.
    pub fn of(hash: u64, name: &[u8]) -> Crowd {
        let block = hash >> (u64::BITS - BLOCK_BITS);
        Crowd { block: block.saturating_sub(1), print: print(hash, name) }
    }

    /// The first hash at which it may be.
    pub fn first_hash(self) -> u64 {
        self.block << (u64::BITS - BLOCK_BITS)
    }

    /// The last one.
    pub fn last_hash(self) -> u64 {
        let next = (self.block + 1).min(LAST_BLOCK);
        next << (u64::BITS - BLOCK_BITS) | (u64::MAX >> BLOCK_BITS)
    }

    /// Whether this is the one.
    pub fn is(self, hash: u64, name: &[u8]) -> bool {
        print(hash, name) == self.print
    }

    /// Whether builds before this one, which take it for a place, might go on behind it.
    pub fn misleads_builds_before(self) -> bool {
        self.block == 0
    }
}

/// 38 bits of a digest: to find another name with the same takes 2^38 digests.
fn print(hash: u64, name: &[u8]) -> u64 {
    let digest = Sha256::new().chain_update(hash.to_be_bytes()).chain_update(name).finalize();
    let front = digest.first_chunk().expect("a digest has 32 bytes");
    u64::from_be_bytes(*front) >> (u64::BITS - PRINT_BITS)
}

#[cfg(test)]
mod tests {
    use highwater_core::random::Random;

    use super::*;

    /// The hash at which builds before this one go on.
    fn before(number: u64) -> u64 {
        number << (u64::BITS - BITS)
    }

    #[test]
    fn no_cursor_leads_behind_what_it_stands_for_in_any_build() {
        let mut random = Random::new(1);
        let hashes =
            (0..1000).map(|_| random.bits()).chain([0, 1, 1 << 50, (1 << 50) - 1, 1 << 51, u64::MAX]);
        for hash in hashes.collect::<Vec<_>>() {
            let place = Cursor::At(Place::of(hash));
            assert_eq!(Cursor::of(place.number()), place);
            assert_eq!(before(place.number()), Place::of(hash).first_hash());
            let crowd = Crowd::of(hash, b"name");
            assert_eq!(Cursor::of(Cursor::In(crowd).number()), Cursor::In(crowd));
            assert!(Cursor::In(crowd).number() < 1 << BITS);
            assert!((crowd.first_hash()..=crowd.last_hash()).contains(&hash), "{hash:x} in {crowd:?}");
            assert!(crowd.is(hash, b"name") && !crowd.is(hash, b"other"));
            let misleads = before(Cursor::In(crowd).number()) > hash;
            assert!(!misleads || crowd.misleads_builds_before(), "{hash:x}");
            // One of a build before, which may be odd.
            let old = hash >> (u64::BITS - BITS);
            let leads_to = match Cursor::of(old) {
                Cursor::At(place) => place.first_hash(),
                Cursor::In(crowd) => crowd.first_hash(),
            };
            assert!(leads_to <= before(old));
        }
    }
}
