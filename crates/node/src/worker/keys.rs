//! What a worker's poller watches: the kind is in a key's high half, the index in its low one.

/// The worker's alarm clock.
pub const KEY_WAKER: u64 = 0;
/// A connection to another node, by the node's id.
pub const KEY_PEER: u64 = 1 << 32;
/// Where clients connect.
pub const KEY_LISTENER: u64 = 2 << 32;
/// A client, by its slot.
pub const KEY_CLIENT: u64 = 3 << 32;
/// A client that coordinates, by the low half of its number.
pub const KEY_COORDINATOR: u64 = 4 << 32;
/// A connection for requests that are forwarded, by the node's id.
pub const KEY_FORWARD: u64 = 5 << 32;
/// The part of a key that is its kind.
pub const KIND_MASK: u64 = 0xffff_ffff << 32;
