//! Cursors of `SCAN`, `HSCAN`, `SSCAN` and `ZSCAN`: where a scan goes on, as an integer below 2^53.
//!
//! ```text
//! even    hash: 52 bits | 0                   at a place: the first hash that begins so
//! odd     block: 14 bits | print: 38 bits | 1     in the middle of a crowd: at the name or member with this print
//! ```
//!
//! A *place* is what all have in common whose hashes agree in 52 bits. Few do by chance. Somebody may choose names so that as many do as they
//! like, a *crowd*, and no call tells a crowd at once. Then the scan goes on at one of them, whose [spot](crate::keyspace::rows::spot) is far longer than a
//! cursor. The cursor has a print of it, by which any node finds it again: in the *block* that the cursor names, or in the next one. A node
//! that has handed such a cursor out [remembers](crate::bookmarks) the spot and need not look for it.
//!
//! Two names of one print could lead a scan in a circle, and 2^19 names that somebody makes have two. So prints have a secret in them that the system drew
//! ([`Secret`]), and each collection has prints of its own.
//!
//! # Invariant
//!
//! No cursor leads behind what it stands for: something may be told twice, and nothing is missed. So whatever is not found again leads to the
//! start of the cursor's block. The block is the one in front of the crowd's: read as a place, too, the cursor lies in front of the crowd (not so in the
//! very first block, in front of which there is none).

use sha2::{Digest, Sha256};

use crate::errors::CommandError;
use crate::keyspace::secret::Secret;

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
    /// The one at this [spot](crate::keyspace::rows::spot).
    pub fn of(key: &PrintKey, spot: &[u8]) -> Crowd {
        let block = hash_at(spot) >> (u64::BITS - BLOCK_BITS);
        Crowd { block: block.saturating_sub(1), print: key.print(spot) }
    }

    /// The first hash at which it may be.
    pub fn first_hash(self) -> u64 {
        self.block << (u64::BITS - BLOCK_BITS)
    }

    pub fn last_hash(self) -> u64 {
        let next = (self.block + 1).min(LAST_BLOCK);
        next << (u64::BITS - BLOCK_BITS) | (u64::MAX >> BLOCK_BITS)
    }

    /// Whether the one at this spot may be it.
    pub fn is(self, key: &PrintKey, spot: &[u8]) -> bool {
        key.print(spot) == self.print
    }
}

/// The key of prints: the secret, and the collection (0: the names of keys).
#[derive(Clone, Copy, Debug)]
pub struct PrintKey {
    secret: Secret,
    collection: u64,
}

impl PrintKey {
    /// For what stands in a collection.
    pub fn new(secret: Secret, collection: u64) -> PrintKey {
        PrintKey { secret, collection }
    }

    /// 38 bits of a digest.
    fn print(&self, spot: &[u8]) -> u64 {
        let digest = Sha256::new().chain_update(self.secret.0).chain_update(self.collection.to_be_bytes());
        let digest = digest.chain_update(spot).finalize();
        let front = digest.first_chunk().expect("a digest has 32 bytes");
        u64::from_be_bytes(*front) >> (u64::BITS - PRINT_BITS)
    }
}

/// The hash with which a spot begins.
fn hash_at(spot: &[u8]) -> u64 {
    u64::from_be_bytes(*spot.first_chunk().expect("a spot begins with a hash"))
}

#[cfg(test)]
mod tests {
    use highwater_core::random::Random;

    use super::*;
    use crate::keyspace::rows::spot;

    /// The hash of a number that is read as a place.
    fn before(number: u64) -> u64 {
        number << (u64::BITS - BITS)
    }

    #[test]
    fn no_cursor_leads_behind_what_it_stands_for() {
        let mut random = Random::new(1);
        let hashes =
            (0..1000).map(|_| random.bits()).chain([0, 1, 1 << 50, (1 << 50) - 1, 1 << 51, u64::MAX]);
        for hash in hashes.collect::<Vec<_>>() {
            let place = Cursor::At(Place::of(hash));
            assert_eq!(Cursor::of(place.number()), place);
            assert_eq!(before(place.number()), Place::of(hash).first_hash());
            let key = PrintKey::new(Secret([3; 16]), 7);
            let (here, other) = (spot(hash, b"name"), spot(hash, b"other"));
            let crowd = Crowd::of(&key, &here);
            assert_eq!(Cursor::of(Cursor::In(crowd).number()), Cursor::In(crowd));
            assert!(Cursor::In(crowd).number() < 1 << BITS);
            assert!((crowd.first_hash()..=crowd.last_hash()).contains(&hash), "{hash:x} in {crowd:?}");
            assert!(crowd.is(&key, &here) && !crowd.is(&key, &other));
            assert!(before(Cursor::In(crowd).number()) <= hash || crowd.block == 0, "{hash:x}");
            // Elsewhere, and for whoever does not know the secret, it is another one.
            assert_ne!(Crowd::of(&PrintKey::new(Secret([3; 16]), 8), &here), crowd);
            assert_ne!(Crowd::of(&PrintKey::new(Secret([4; 16]), 7), &here), crowd);
        }
    }
}
