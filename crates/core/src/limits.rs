//! How large things may be: every limit that two parts of the program have to agree on, and how each follows from the
//! other. docs/limits.md says what happens at each.
//!
//! ```text
//! key, value -> write -> transaction -> entry -> frame's body
//!                command -> request ----^          ^
//!                                   record -> chunk'
//! ```
//!
//! An arrow means "fits into", and is asserted below at compile time: who changes one number finds out here what else has
//! to change, and not in a follower's receive buffer.

use crate::log::{CLAIM_BYTES, ENTRY_HEADER_BYTES, TX_HEADER_BYTES};
use crate::work::ADDED;

/// Longest key, in bytes.
pub const MAX_KEY_BYTES: usize = 64 << 10;
/// Longest key of the RESP door: ordered tables hold it whole, behind up to nine bytes that put it in its place.
pub const MAX_REDIS_KEY_BYTES: usize = MAX_KEY_BYTES - 9;
/// Longest value, in bytes.
pub const MAX_VALUE_BYTES: usize = 16 << 20;
/// Most bytes that stand in front of a write's key and value in the log: tag, table, and two lengths below 2^28.
pub const WRITE_HEAD_BYTES: usize = 2 + 4 + 4;
/// Most bytes of one write in the log.
pub const MAX_WRITE_BYTES: usize = WRITE_HEAD_BYTES + MAX_KEY_BYTES + MAX_VALUE_BYTES;

/// Most bytes of one transaction in the log: its header and all that it ever wrote, what it overwrote itself included. Also
/// the most bytes of values that one transaction may replace or delete: a leader keeps them until it is safe.
pub const MAX_TRANSACTION_BYTES: usize = 64 << 20;
/// Most records that one transaction may touch, and index nodes that it may rely on: what it read is remembered.
pub const MAX_OPERATIONS: usize = 1 << 24;
/// Most rows that one transaction may look up, scan and add, unless it is set otherwise: one added ([`ADDED`]) for every argument of
/// the longest block, so that no request is refused for it that names each of its rows. It bounds how long one request can take.
pub const DEFAULT_TRANSACTION_ROWS: u64 = (ADDED * MAX_BLOCK_PARTS) as u64;
/// Longest reply of a transaction.
pub const MAX_REPLY_BYTES: usize = 64 << 20;
/// Longest reply of a request that runs under a session: it is kept with the session, for who asks again.
pub const MAX_SESSION_REPLY_BYTES: usize = 64 << 10;

/// Longest RESP command on the wire.
pub const MAX_COMMAND_BYTES: usize = 64 << 20;
/// Most parts of one RESP command, its name included.
pub const MAX_COMMAND_PARTS: usize = 1 << 20;
/// Arguments of all commands that a `MULTI` queues: everybody waits for the mark while it runs, about a second at most.
pub const MAX_BLOCK_PARTS: usize = 2 * MAX_COMMAND_PARTS;
/// Longest line of RESP: an inline command, or one that announces a length.
pub const MAX_LINE_BYTES: usize = 64 << 10;
/// Longest arguments of a request that came as RESP: a command, or all that a `MULTI` queued, and what frames it.
pub const MAX_REQUEST_BYTES: usize = MAX_COMMAND_BYTES + (1 << 20);

/// Most streams of a replica.
pub const MAX_WORKERS: u16 = 256;
/// Most nodes of a cluster.
pub const MAX_NODES: u8 = 31;
/// Highest id of a node. Ids are never used again, so this bounds how many nodes may ever belong to one cluster.
pub const MAX_NODE_ID: u8 = 254;

/// Most that `batching.max_entry_bytes` may be: where an entry is sealed at the latest.
pub const MAX_SEAL_BYTES: usize = 16 << 20;
/// Longest entry of a stream: one transaction more than where it is sealed, and a claim about every other stream.
pub const MAX_ENTRY_BYTES: usize =
    ENTRY_HEADER_BYTES + MAX_SEAL_BYTES + MAX_TRANSACTION_BYTES + MAX_WORKERS as usize * CLAIM_BYTES;

/// A chunk of copied state ends with the record that reaches this size.
pub const CHUNK_BYTES: usize = 256 << 10;
/// Most bytes of one record in a chunk: word, table, two lengths, key and value.
pub const MAX_RECORD_BYTES: usize = 8 + 1 + 4 + 4 + MAX_KEY_BYTES + MAX_VALUE_BYTES;
/// Longest chunk of copied state, its checksum included.
pub const MAX_CHUNK_BYTES: usize = 4 + CHUNK_BYTES + MAX_RECORD_BYTES;
/// A chunk is read while no more of a copy than this is read and not acknowledged: what it holds at the donor is bounded by
/// this and one chunk.
pub const COPY_WINDOW_BYTES: usize = 16 * CHUNK_BYTES;

/// Longest head of a frame between nodes. Control messages travel as heads, so it is not small.
pub const MAX_FRAME_HEAD_BYTES: usize = 16 << 20;
/// Longest body of a frame between nodes: the longest entry, and some.
pub const MAX_FRAME_BODY_BYTES: usize = 128 << 20;

// A transaction can carry any one write.
const _: () = assert!(TX_HEADER_BYTES + MAX_WRITE_BYTES <= MAX_TRANSACTION_BYTES);
// The lengths of a write's head: 7 bits a byte.
const _: () = assert!(MAX_KEY_BYTES < 1 << 28 && MAX_VALUE_BYTES < 1 << 28);
// The longest command sets no more than a transaction carries: on the wire each part has more in front than in the log.
const _: () = assert!(MAX_COMMAND_BYTES <= MAX_TRANSACTION_BYTES);
const _: () = assert!(MAX_VALUE_BYTES + MAX_KEY_BYTES + MAX_LINE_BYTES < MAX_COMMAND_BYTES);
// Any one value can be read back, and by MGET as many as a command sets.
const _: () = assert!(MAX_REPLY_BYTES >= MAX_COMMAND_BYTES && MAX_REPLY_BYTES > 2 * MAX_VALUE_BYTES);
// A kept reply is a value, and what stands in front of it.
const _: () = assert!(MAX_SESSION_REPLY_BYTES + 64 <= MAX_VALUE_BYTES);
// Whatever is sealed can be sent; and copied.
const _: () = assert!(MAX_ENTRY_BYTES <= MAX_FRAME_BODY_BYTES);
const _: () = assert!(MAX_CHUNK_BYTES <= MAX_FRAME_BODY_BYTES);
// Lengths of frames, offsets in the open entry (`WriteAt`), positions of operations: 32 bits each.
const _: () = assert!(MAX_FRAME_BODY_BYTES <= u32::MAX as usize);
const _: () = assert!(MAX_FRAME_HEAD_BYTES <= u32::MAX as usize);
const _: () = assert!(MAX_ENTRY_BYTES + MAX_WRITE_BYTES <= u32::MAX as usize);
const _: () = assert!(MAX_REPLY_BYTES <= u32::MAX as usize);
const _: () = assert!(MAX_OPERATIONS < u32::MAX as usize);
const _: () = assert!(DEFAULT_TRANSACTION_ROWS <= MAX_OPERATIONS as u64);
// The number of claims in an entry's header: 16 bits.
const _: () = assert!(MAX_WORKERS < u16::MAX);
