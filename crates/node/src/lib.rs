//! One replica as a process: threads, sockets and files around the sans-IO objects of `highwater-engines`.
//!
//! ```text
//! main        builds the replica, waits for its threads                                  runtime
//! control     Controller, control connections, peer port, signals                        control
//! admin       the admin port's connections                                               admin
//! worker i    Worker i: its connections to peers, its RESP clients, its load              worker, load
//! ```
//!
//! Each thread runs one event loop over [`poll`], and is the only one that touches what it owns. They share a few
//! padded atomics and send each other letters ([`letter_box`], [`shared`]) when connections change hands or an operator
//! asks for something; a transaction never changes threads. What clients ask is understood by
//! [`highwater_redis`], which knows no sockets. Frames between workers of different numbers are handed over
//! inside the receiving node ([`relay`]). [`transport`] is how nodes find, check and talk to each
//! other, [`roster`] who they are. [`storage`] is what a node keeps on disk. [`config`] documents every setting.
//!
//! Linux only: epoll with nanosecond deadlines, eventfd, `SO_REUSEPORT` that deals clients out; [`uring`] where the kernel gives one.

mod acceptor;
pub mod admin;
mod census;
pub mod clock;
pub mod config;
pub mod control;
mod descriptors;
mod desk;
pub mod error;
pub mod held;
pub mod letter_box;
pub mod library;
pub mod load;
pub mod logging;
pub mod memory;
mod own_address;
pub mod poll;
mod ports;
pub mod relay;
pub mod roster;
pub mod runtime;
pub mod shared;
mod slice;
pub mod storage;
pub mod tls;
pub mod transport;
pub mod uring;
pub mod waker;
pub mod worker;

pub use config::Config;
pub use error::NodeError;
pub use ports::free_loopback_ports;
pub use runtime::{Node, Opened, Signals, run};
