//! A client for Highwater clusters with a leader (engine `rolis`), over RESP: it finds who leads, stays with the cluster when that changes, and
//! says of every request whether it was done.
//!
#![doc = include_str!("../README.md")]
//!
//! # Where to look
//!
//! | module | what |
//! |---|---|
//! | [`Client`], [`Tx`], [`Reader`] | what an application has |
//! | `errand` | the rules: what is sent again, and when. Without sockets and clocks |
//! | `topology` | whom to ask |
//! | `session` | requests that run once |
//! | `reply`, [`FromReply`] | bytes to replies, replies to types |
//! | `net`, `tls` | connections and their pool |
//! | `asynchronous` | the same client on tokio, with the feature `async` |

#![warn(missing_docs)]

#[cfg(feature = "async")]
pub mod asynchronous;
mod client;
mod command;
mod errand;
mod error;
mod net;
mod options;
mod reply;
mod session;
#[cfg(feature = "tls")]
pub mod tls;
mod topology;
mod typed;

pub use client::{Client, Committed, Freshness, Reader, Tx};
pub use command::{Command, Word, cmd};
pub use error::{Effect, Error, ServerError, Ticket};
pub use net::{Connect, Stream};
pub use options::Options;
pub use reply::Reply;
pub use session::Outcome;
pub use typed::FromReply;
