//! Client sockets over io_uring: what they sent is there without a call for each, and what they are told leaves with one call
//! for all of them.
//!
//! A worker has one [`Ring`], and one system call a turn ([`Ring::enter`]): it hands over everything that is queued (replies, sockets to
//! receive from), takes what came, and is where the worker sleeps. Epoll stays for all else (peers, forwarded requests, TLS, sockets
//! that take no more): its descriptor is watched by the ring, so that one wait is for both.
//!
//! # Receiving
//!
//! Each socket has one *multishot* receive: it is asked for once, and completes with each arrival, in a buffer that the kernel takes from those
//! that the worker provided (`Buffers`). What a buffer holds is copied into its connection at once, and the buffer is given back.
//!
//! - **One line a slot.** `Line` says whether a receive is under way in a slot. A slot that has one is not given to another client,
//!   though its own is long gone: a completion that comes late finds the line that it was asked for by, and no other (asserted, by generation).
//! - **Who is not read from has no receive under way.** It is cancelled with the next call, and may have brought with the last one what was under
//!   way: at most what all buffers (`buffers::COUNT`) hold, which is what any call brings at most, for all clients together. That is counted as the
//!   requests it is. A worker that is full with requests has no receives at all: then sockets are read from a little at a time, by epoll.
//! - **No buffer left** ends a receive (`ENOBUFS`), and nothing is lost: the bytes stay in the socket. It is asked for again in the order in
//!   which the refusals came, and all buffers are back by then: who was refused first is served first, ahead of who was served.
//!
//! # Sending
//!
//! Short output is copied into the ring's arena and sent from there, with `MSG_DONTWAIT`: the kernel does it during `enter` or not at all.
//! So no send outlives the call, its bytes stay in place until it is over, whoever is gone meanwhile, and the arena is empty after it. With
//! `MSG_WAITALL` a send that was short counts as failed, and only those that failed complete visibly: silence is success. What a
//! socket did not take comes back ([`News::NotSent`]), and goes the way of epoll, as long output does from the start. A socket that is closed while
//! something is queued for it stays open until that was handed over ([`Ring::bury`]): its number must not be another's by then.
//!
//! All of this is tried out on a pair of sockets before a ring is used ([`check`]): what a kernel claims is not asked.

mod buffers;
mod check;
mod ring;
#[cfg(test)]
pub mod tests;

pub use buffers::MEMORY;
pub use check::{check, rings};
pub use ring::{MOST_SENT, News, Ring};
