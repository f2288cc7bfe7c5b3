//! Tokens: whose reply is it?
//!
//! ```text
//! bits 62-63  owner    0 a client, 1 the load, 2 the loader, 3 the node itself: by slot, see [`keeper`]
//! bits 42-61  slot     client connection, or request slot
//! bits 0-41   number   request of the connection, or life of the slot
//! ```

use highwater_seam::Token;

/// Clients or requests that a worker can tell apart.
pub const MAX_SLOTS: usize = 1 << 20;
const NUMBER_BITS: u32 = 42;
const NUMBER_MASK: u64 = (1 << NUMBER_BITS) - 1;

/// Who submitted a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Owner {
    /// A client connection.
    Client,
    /// The running load.
    Load,
    /// The population of the database.
    Loader,
    /// The node itself, by slot: see [`keeper`].
    Keeper,
}

/// The slots of keepers' tokens. All stand here: two keepers of one slot would take each other's replies.
pub mod keeper {
    /// Has sessions end.
    pub const SESSIONS: usize = 0;
    /// Has expired keys removed.
    pub const EXPIRY: usize = 1;
    /// Has the node's users follow the table.
    pub const USERS: usize = 2;
    /// Requests of the program that the node is part of.
    pub const LOCALS: usize = 3;
    /// Requests of other nodes' clients.
    pub const GUESTS: usize = 4;
    /// Has modules compiled that others loaded.
    pub const MODULES: usize = 5;
}

/// Packs a token. Numbers wrap at 2^42.
#[inline]
pub fn pack(owner: Owner, slot: usize, number: u64) -> Token {
    debug_assert!(slot < MAX_SLOTS, "slot {slot}");
    Token((owner as u64) << 62 | (slot as u64) << NUMBER_BITS | number & NUMBER_MASK)
}

/// Takes a token apart: owner, slot, number.
#[inline]
pub fn unpack(token: Token) -> (Owner, usize, u64) {
    let owner = match token.0 >> 62 {
        0 => Owner::Client,
        1 => Owner::Load,
        2 => Owner::Loader,
        _ => Owner::Keeper,
    };
    (owner, (token.0 >> NUMBER_BITS) as usize & (MAX_SLOTS - 1), token.0 & NUMBER_MASK)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_round_trip() {
        for owner in [Owner::Client, Owner::Load, Owner::Loader, Owner::Keeper] {
            for (slot, number) in [(0, 0), (MAX_SLOTS - 1, NUMBER_MASK), (77, 1 << 33)] {
                assert_eq!(unpack(pack(owner, slot, number)), (owner, slot, number));
            }
        }
    }
}
