//! Keys of the ordered tables behind the keyspace.
//!
//! ```text
//! names      hash u64 | name                   nothing
//! due        0 u64    | 0 u8 | id u64          a row         rows of a collection that is gone, from that one on
//!            0 u64    | 2 u8 | id u64          a row         rows of a user's table that is gone, from that one on
//!            0 u64    | 3 u8 | id u64          a row         items of a packed list that is gone, from that one on
//!            deadline u64 | 1 u8 | name        nothing       a key that expires
//! elements   id u64 | 0 u8 | hash u64 | member               of a hash, a set, a sorted set
//!            id u64 | 1 u8 | score u64 | member              of a sorted set, again
//!            id u64 | 2 u8 | position i64 ^ 2^63             of a list that is not packed
//! items      id u64 | position i64 ^ 2^63                    of a list that is packed
//! ```
//!
//! Names are whole in their rows' keys, however long: two of them never share a row. Integers are big endian, so that rows stand in their order. Members and names stand in the order of their hashes: a `SCAN` goes on
//! from a hash, which is a number as cursors are, and a random hash finds a random member.

use highwater_core::limits::{MAX_KEY_BYTES, MAX_REDIS_KEY_BYTES};

/// The longest member of a set, field of a hash, member of a sorted set.
pub const MAX_MEMBER_BYTES: usize = MAX_KEY_BYTES - MEMBER_AT;

/// Where the member stands in an element's row.
pub const MEMBER_AT: usize = 17;
const TAG_AT: usize = 8;
const DEADLINE_BYTES: usize = 8 + 1;
const _: () = assert!(DEADLINE_BYTES + MAX_REDIS_KEY_BYTES <= MAX_KEY_BYTES);
const MEMBERS: u8 = 0;
const SCORES: u8 = 1;
const ITEMS: u8 = 2;

/// A hash of 64 bits. Rows are ordered by it: it never changes.
pub fn hash(bytes: &[u8]) -> u64 {
    const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;
    let mut state = (bytes.len() as u64).wrapping_mul(FACTOR);
    for chunk in bytes.chunks(8) {
        let mut word = [0; 8];
        word[..chunk.len()].copy_from_slice(chunk);
        state = (state ^ u64::from_le_bytes(word)).wrapping_mul(FACTOR);
        state ^= state >> 29;
    }
    state = (state ^ state >> 33).wrapping_mul(0xff51_afd7_ed55_8ccd);
    state = (state ^ state >> 33).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    state ^ state >> 33
}

/// The row of a name.
pub fn name_row(name: &[u8]) -> Vec<u8> {
    spot(hash(name), name)
}

/// The hash and the name in a name's row.
pub fn name_in(row: &[u8]) -> (u64, &[u8]) {
    let (hash, name) = row.split_first_chunk().expect("a name's row has a hash");
    (u64::from_be_bytes(*hash), name)
}

/// The row that has a key expire.
pub fn deadline_row(deadline: u64, name: &[u8]) -> Vec<u8> {
    [&deadline.to_be_bytes()[..], &[1], name].concat()
}

/// Whether a row of what is due has a key expire.
pub fn is_deadline(row: &[u8]) -> bool {
    row.get(8) == Some(&1)
}

/// The row that has a collection's elements removed.
pub fn garbage_row(id: u64) -> [u8; 17] {
    let mut key = [0; 17];
    key[9..].copy_from_slice(&id.to_be_bytes());
    key
}

/// The row that has the rows of a user's table removed.
pub fn table_garbage_row(id: u64) -> [u8; 17] {
    let mut key = garbage_row(id);
    key[8] = 2;
    key
}

/// The row that has the items of a packed list removed.
pub fn items_garbage_row(id: u64) -> [u8; 17] {
    let mut key = garbage_row(id);
    key[8] = 3;
    key
}

/// A row of the table of what is due.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Due {
    /// Elements of a collection that is gone.
    Garbage {
        id: u64,
        /// Those in front of this row are removed.
        from: Vec<u8>,
    },
    /// Items of a packed list that is gone.
    Items {
        id: u64,
        /// Those in front of this row are removed.
        from: Vec<u8>,
    },
    /// Rows of a user's table that is gone.
    Table {
        id: u64,
        /// Those in front of this row are removed.
        from: Vec<u8>,
    },
    /// A key that expires.
    Deadline {
        /// When.
        deadline: u64,
        name: Vec<u8>,
    },
}

impl Due {
    /// When: 0 is at once.
    pub fn deadline(&self) -> u64 {
        match self {
            Due::Garbage { .. } | Due::Items { .. } | Due::Table { .. } => 0,
            Due::Deadline { deadline, .. } => *deadline,
        }
    }

    /// Reads one.
    pub fn decode(key: &[u8], value: &[u8]) -> Option<Due> {
        let (head, rest) = key.split_at_checked(DEADLINE_BYTES)?;
        match head[8] {
            0 => Some(Due::Garbage { id: integer(rest)?, from: value.to_vec() }),
            2 => Some(Due::Table { id: integer(rest)?, from: value.to_vec() }),
            3 => Some(Due::Items { id: integer(rest)?, from: value.to_vec() }),
            _ => Some(Due::Deadline { deadline: integer(head)?, name: rest.to_vec() }),
        }
    }
}

fn integer(bytes: &[u8]) -> Option<u64> {
    bytes.first_chunk().map(|bytes| u64::from_be_bytes(*bytes))
}

/// The row of a member.
pub fn member_row(id: u64, member: &[u8]) -> Vec<u8> {
    element(id, MEMBERS, hash(member), member)
}

/// The same, in place of what is in `key`.
#[inline]
pub fn set_member_row(key: &mut Vec<u8>, id: u64, member: &[u8]) {
    set_element(key, id, MEMBERS, hash(member), member);
}

/// The same of the row of a score.
#[inline]
pub fn set_score_row(key: &mut Vec<u8>, id: u64, score: f64, member: &[u8]) {
    set_element(key, id, SCORES, order_of(score), member);
}

/// The row at or behind which the members from this spot on stand: behind id and tag of a row is a spot.
pub fn members_from(id: u64, spot: &[u8]) -> Vec<u8> {
    [&front(id, MEMBERS)[..], spot].concat()
}

/// The spot of a name or a member, at which it stands among the others: its hash, and itself. It is the key of a name's row, and the end of the key
/// of a member's. Any byte string is one, at or behind which others stand.
pub fn spot(hash: u64, name: &[u8]) -> Vec<u8> {
    [&hash.to_be_bytes()[..], name].concat()
}

/// Behind the last member.
pub fn members_end(id: u64) -> Vec<u8> {
    front(id, SCORES)
}

/// The hash in a member's row.
pub fn hash_in(key: &[u8]) -> u64 {
    integer(&key[TAG_AT + 1..]).expect("a member's row has a hash")
}

/// The member in the row of a member or of a score.
pub fn member_in(key: &[u8]) -> &[u8] {
    &key[MEMBER_AT..]
}

/// The row of a score.
pub fn score_row(id: u64, score: f64, member: &[u8]) -> Vec<u8> {
    element(id, SCORES, order_of(score), member)
}

/// Behind the last score.
pub fn scores_end(id: u64) -> Vec<u8> {
    front(id, ITEMS)
}

/// In front of the first score.
pub fn scores_start(id: u64) -> Vec<u8> {
    front(id, SCORES)
}

/// The score in a score's row; zero has no sign here.
pub fn score_in(key: &[u8]) -> f64 {
    let order = integer(&key[TAG_AT + 1..]).expect("a score's row has a score");
    f64::from_bits(if order >> 63 == 1 { order ^ 1 << 63 } else { !order })
}

/// Unsigned numbers in the order of the scores; both zeros are the same.
pub fn order_of(score: f64) -> u64 {
    let bits = (score + 0.0).to_bits();
    if bits >> 63 == 1 { !bits } else { bits ^ 1 << 63 }
}

/// The row of a list's item, or of some of a packed one's, the first of which has that position.
pub fn item_row(id: u64, packed: bool, position: i64) -> Vec<u8> {
    let order = position as u64 ^ 1 << 63;
    if packed {
        return [id.to_be_bytes(), order.to_be_bytes()].concat();
    }
    element(id, ITEMS, order, &[])
}

/// The position in such a row.
pub fn position_in(key: &[u8]) -> i64 {
    let order: [u8; 8] = *key.last_chunk().expect("an item's row has a position");
    (u64::from_be_bytes(order) ^ 1 << 63) as i64
}

/// A byte string behind all rows of a collection.
pub fn collection_end(id: u64) -> Vec<u8> {
    [&id.to_be_bytes()[..], &[u8::MAX; MEMBER_AT - TAG_AT]].concat()
}

/// Any row of a collection begins so.
pub fn collection_start(id: u64) -> Vec<u8> {
    id.to_be_bytes().to_vec()
}

fn front(id: u64, tag: u8) -> Vec<u8> {
    let mut key = id.to_be_bytes().to_vec();
    key.push(tag);
    key
}

fn element(id: u64, tag: u8, number: u64, member: &[u8]) -> Vec<u8> {
    let mut key = Vec::with_capacity(MEMBER_AT + member.len());
    set_element(&mut key, id, tag, number, member);
    key
}

#[inline]
fn set_element(key: &mut Vec<u8>, id: u64, tag: u8, number: u64, member: &[u8]) {
    let mut front = [0; MEMBER_AT];
    front[..TAG_AT].copy_from_slice(&id.to_be_bytes());
    front[TAG_AT] = tag;
    front[TAG_AT + 1..].copy_from_slice(&number.to_be_bytes());
    key.clear();
    key.extend_from_slice(&front);
    key.extend_from_slice(member);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scores_stand_in_their_order() {
        let scores =
            [f64::NEG_INFINITY, -1e300, -1.5, -1.0, -5e-324, 0.0, 5e-324, 1.0, 1.5, 1e300, f64::INFINITY];
        for pair in scores.windows(2) {
            assert!(score_row(1, pair[0], b"z") < score_row(1, pair[1], b"a"), "{pair:?}");
        }
        for score in scores {
            assert_eq!(score_in(&score_row(1, score, b"m")), score);
        }
        assert_eq!(score_row(1, -0.0, b"m"), score_row(1, 0.0, b"m"));
    }

    #[test]
    fn items_stand_in_their_order() {
        for packed in [false, true] {
            for pair in [i64::MIN, -1, 0, 1, i64::MAX].windows(2) {
                assert!(item_row(1, packed, pair[0]) < item_row(1, packed, pair[1]));
                assert_eq!(position_in(&item_row(1, packed, pair[0])), pair[0]);
            }
        }
    }

    #[test]
    fn names_of_any_length_come_back() {
        for name in [&b""[..], b"a", &[7; MAX_REDIS_KEY_BYTES - 1], &[7; MAX_REDIS_KEY_BYTES]] {
            let key = name_row(name);
            assert!(key.len() <= MAX_KEY_BYTES);
            assert_eq!(name_in(&key), (hash(name), name));
            let key = deadline_row(77, name);
            assert!(key.len() <= MAX_KEY_BYTES);
            assert_eq!(Due::decode(&key, &[]), Some(Due::Deadline { deadline: 77, name: name.to_vec() }));
        }
        assert_eq!(Due::decode(&garbage_row(5), &[]), Some(Due::Garbage { id: 5, from: Vec::new() }));
        let dropped = Due::Table { id: 5, from: vec![2, 3] };
        assert_eq!(Due::decode(&table_garbage_row(5), &[2, 3]), Some(dropped));
        let items = Due::Items { id: 5, from: vec![2, 3] };
        assert_eq!(Due::decode(&items_garbage_row(5), &[2, 3]), Some(items));
        assert!(items_garbage_row(u64::MAX)[..] < deadline_row(1, b"")[..]);
        assert!(garbage_row(u64::MAX)[..] < deadline_row(0, b"")[..]);
    }

    #[test]
    fn the_hash_is_part_of_the_format() {
        assert_eq!(hash(b""), 0);
        let hashes = [&b"a"[..], b"b", b"key:1", b"key:2"].map(hash);
        assert_eq!(hashes, HASHES);
    }

    const HASHES: [u64; 4] =
        [13656869943007173965, 5334058282616224915, 4081470195229146423, 10163272906122206270];
}
