//! Requests of clients that a node hands to the one that serves: `server.forward`.
//!
//! A client's connection stays where it is: its input is parsed there, its transaction is queued there, it is who it is there. What goes
//! to the leader is what the engine would have been given here: one *request*, which is whole in itself. `MULTI` .. `EXEC` is one with
//! the versions that its `WATCH`es saw, a step of `HW.BEGIN` is one that brings its evidence, `HW.ONCE` is one with a session and a
//! number. So nothing of a connection's state is anywhere but on its node; requests of many clients share a connection to the leader and
//! cannot be mixed up; and a new leader is asked with what the old one told, or answers that it is so no more.
//!
//! Worker *i* of one node talks to worker *i* of the other over a connection of its own (`Channel::Forward`), beside that of the engine:
//! long values and slow readers must not hold up entries. Both sides' sockets belong to the worker: nothing changes threads.
//!
//! # What holds
//!
//! - **Order.** Requests of one client go over one connection, are submitted in the order in which they came, to one worker. One that
//!   waits has those behind it wait.
//! - **At most once.** A request is sent again only if it was refused, which means that it was not begun: of one who leads no more it is
//!   asked of the next leader, for a second; any other refusal its client is told in the words of `server.redirect`, or that it was denied.
//!   One without an answer (the connection broke, or who leads no more says nothing for a quarter of a second) is `UNKNOWN`; it is never
//!   sent again. Before anybody else is asked its connection is cut, so that it is not begun later.
//! - **No circles.** What came from a node goes to the engine, or is refused; it is not forwarded.
//! - **Who asks.** A request names its user, and is let through by the users of the node that serves ([`requests`](crate::acl::requests)). That the name is right
//!   is the other node's word: nodes are known to each other by their handshake. No client can say such a thing.
//! - **What it means.** Commands and procedures travel by number: nodes whose numbers differ ([`message::format`]) ask each other nothing.
//! - **Bounds.** Requests under way to a leader, requests of a node that wait there, replies that a node does not take: each has its
//!   limit, at which whoever is behind stops reading (`Clients` does for clients). All bytes are in the node's memory budget.
//!
//! [`upstream`] is the side that forwards, [`guests`] the one that serves, [`message`] what they say.

pub mod guests;
pub mod message;
mod runs;
pub mod upstream;

pub use guests::GuestLimits;
pub use runs::{Judge, Judged, Runs};
pub use upstream::{Forwarded, Upstream};
