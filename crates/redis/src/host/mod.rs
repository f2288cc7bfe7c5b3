//! A host's half of the door: what each worker of a node does for its clients besides reading from their sockets and writing to them. It knows no
//! sockets and no threads: its host tells it the time, and hands on what it asks for.
//!
//! - [`waiters`]: clients that wait for data, and when each is to look again. [`watch`]: what requests are measured by.
//! - Keepers, of which one worker has one each: [`expiry`] removes keys whose deadline is past, [`sessions`] ends sessions that nobody uses, [`users`]
//!   follows the table of users, [`modules`] has modules compiled before they are called.
//! - [`forward`]: requests that a node hands to the one that serves.
//! - [`token`]: whose the reply of the engine is.

pub mod expiry;
pub mod forward;
pub mod modules;
pub mod sessions;
pub mod token;
pub mod users;
pub mod waiters;
pub mod watch;

pub use expiry::Expiry;
pub use modules::Modules;
pub use sessions::Sessions;
pub use users::{Gate, Gatekeeper, Users};
pub use watch::Watch;
