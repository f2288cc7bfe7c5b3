//! Coordinators on client machines, as the paper has them: a client executes its transaction by itself, with reads from a replica,
//! asks all replicas to validate it, decides, and answers its application: one round trip without conflicts. The outcome is told behind.
//!
//! A client is the *delegate* of one worker of one replica, its *home*. It proposes timestamps of that coordinator, which the
//! home *grants* one by one: *stamps*. So for everybody else its transactions are the home's. Who trims records by what the home has `closed`, who
//! ends transactions of a coordinator that fell silent, and who changes the epoch, need not know that there are clients.
//!
//! ```text
//! application   client                     home                 other replicas
//!     |-- tx ---->|---- read, and a stamp --->|
//!     |           |<--- value, ts ------------|   ts is open: closed < ts
//!     |           |---- validate ts --------->|---- (client's own connections) -->|
//!     |           |<--- vote -----------------|<----------------------------------|
//!     |<-- done --|
//!     |           |---- decided ts ---------->|-- outcome, until all have heard ->|   ts is open no more
//! ```
//!
//! # Invariants
//!
//! 1. *The home closes no stamp that somebody may find valid.* From its grant on a stamp is one of the home's open transactions, until an outcome is
//!    pushed for it, its client gives it back without having used it, or the epoch ends. `closed` is below it (asserted where the home trims).
//! 2. *In view 0 a granted stamp has one proposer, its client.* The home ends a stamp whose client is gone or silent as any backup coordinator does: in a
//!    later view, by what a majority promises. So it may end what the client is deciding, and both find the same.
//! 3. *A stamp belongs to one epoch and one connection.* Whatever names it names its epoch, and is not heard in another one. It is granted
//!    by a voter that works in the epoch, never by a later life of it: that is no voter of the same epoch, or comes back from its disk as if it had promised
//!    the next one. What the home granted it need not remember longer than the epoch.
//! 4. *A client says what became of a transaction only if it is decided*: by its count of votes of the epoch's voters ([`Tally`](highwater_kit::validation::own::Tally), as a
//!    worker's), or by the word of a replica that knows. Else it is unknown. It counts late votes, too: what voters of an epoch have said decides, whoever
//!    counts when.
//!
//! A client is trusted as a replica is: one that says what is not so corrupts its transactions, and others'. What it sends is checked for what could
//! break a replica: sizes, tables, keys, timestamps.
//!
//! | file | what |
//! |---|---|
//! | `ask`, `tell` | what clients say to replicas, and replicas to clients |
//! | [`frames`] | both as a stream of bytes: greetings and frames |
//! | crate `highwater-meerkat-client` | the client's part |
//! | `worker/delegates` of crate `highwater-engine-meerkat` | the home's part, and a replica's; in `admit`, whether a payload makes sense to it |

mod ask;
pub mod frames;
mod tell;

pub use ask::{Ahead, Ask, Late, OwnedRange, Wish, borrowed};
pub use tell::{Item, Page, Standing, Tell, Why};
