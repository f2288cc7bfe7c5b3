//! Exactly once: a client's requests are numbered, and a repeated one gets the first one's answer.
//!
//! A client opens a *session* and gives each request the next number. What became of the last one is a record of the store,
//! under the session's id, and that record is written **by the request's own transaction**. So it is there if and only if the
//! request happened: it is replicated, replayed, copied and rolled back with the request's writes, by code that knows nothing
//! of sessions. What an engine does for it is to pass [`Request::session`](highwater_seam::Request::session) on to `attempt`.
//!
//! Here: `once` runs a request under a session, `record` is the row, `calls` and `procedures` open, end, ask and sweep, `keeper` has the leader sweep.
//!
//! # A request under a session
//!
//! Its transaction reads the session's record first, so that two tries of one request conflict, whoever runs them.
//!
//! | its number | what happens |
//! |---|---|
//! | larger than the recorded one | the procedure runs, and its end is recorded: committed with its writes; rolled back, refused as a bad request or as too large, without them. Reply and all |
//! | the recorded one | nothing runs; the recorded end is the answer |
//! | smaller | [`Denial::Stale`]: only the last end is kept |
//! | no such session, or another owner's | [`Denial::Expired`] |
//!
//! *An end without writes is recorded, too.* Else a client could hear "rolled back" from one try and go on, while another try of
//! the same request, delayed on another connection, runs later and commits. Reads are recorded for the same reason: who numbers
//! his requests wants them in that order.
//!
//! *What is no end*: conflicts, no memory, refusals. Nothing is recorded; the same number may be tried again, and another try of
//! it, still under way, may yet succeed. Whoever wants to be sure asks.
//!
//! # Asking
//!
//! [`ask`] tells how a request ended. If the session has not got to that number, the answer is [`Answer::Never`], and to make it
//! true for good it is recorded: the number is [abandoned](Kept::Abandoned), and a try that comes later is denied.
//!
//! # How long a session lasts
//!
//! Time is counted in the store: a clock record, advanced by [`sweep`], which the leader runs now and then ([`Keeper`]). A
//! request leaves the clock's reading in its session's record; a sweep deletes those that are more than [`IDLE_TICKS`] behind. So
//! expiry is a transaction like any other, the same on all replicas, and needs no clocks that agree: a change of leader makes
//! sessions last longer, never shorter. Ids are drawn from 2^52, so an old one is hardly used again, and what names an unknown one is
//! denied: after expiry a retry does not run twice.
//!
//! # Whose they are
//!
//! A session has an [`Owner`](highwater_seam::Owner), who is in its record, and every request says whose it is. To another owner a session does not
//! exist: neither what is told nor what is done differs from that of an id that nobody has.
//!
//! As many sessions are open as the opener allows ([`Most`]), of all owners and of each; more are refused ([`TooMany`]). None is ended early to make room: that would
//! break a promise to somebody to serve somebody else.

mod calls;
mod keeper;
pub mod once;
mod procedures;
mod record;

use std::fmt;

use highwater_core::{IndexKind, KeyKind, Registry, TableId, TableSpec, Transaction};

pub use calls::{Answer, IDLE_TICKS, Most, Swept, TooMany, ask, end, open, sweep};
use highwater_seam::Session;
pub use keeper::Keeper;
pub use procedures::{Ask, End, Open, Sweep};
pub use record::Kept;

/// The table that a library lists for sessions, wherever it likes.
pub const TABLE: TableSpec = TableSpec { name: "sessions", keys: KeyKind::U64, index: IndexKind::Ordered };

/// Registers the procedures [`Open`], [`End`], [`Ask`] and [`Sweep`], and says that sessions are kept in table `AT`, which is
/// described by [`TABLE`]. To be called by a library that wants sessions.
pub fn register<const AT: u8, T: Transaction>(registry: &mut Registry<T>) {
    registry.keep_sessions_in(TableId(AT));
    registry.register::<Open<AT>>();
    registry.register::<End<AT>>();
    registry.register::<Ask<AT>>();
    registry.register::<Sweep<AT>>();
}

/// Why a request under a session was not run: what the reply to [`Outcome::Denied`](highwater_core::Outcome::Denied) says, with
/// the name in capital letters in front.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Denial {
    /// The library keeps no sessions.
    Unkept,
    /// There is no such session: it was unused for too long, or ended, or never opened.
    Expired,
    /// The session has got beyond that number, to this one.
    Stale {
        /// Its last number.
        last: u64,
    },
    /// Under that number another request was made: other arguments, or another procedure.
    Reused,
    /// Its outcome was asked for before it came.
    Abandoned,
}

impl Denial {
    /// In words, for a client.
    pub fn of(self, session: Session) -> impl fmt::Display {
        Words(self, session)
    }
}

struct Words(Denial, Session);

impl fmt::Display for Words {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Words(denial, Session { id, sequence, .. }) = self;
        match denial {
            Denial::Unkept => f.write_str("ERR no sessions are kept here; nothing was done"),
            Denial::Expired => {
                write!(f, "EXPIRED session {id} has expired, was ended or never was; nothing was done")
            }
            Denial::Stale { last } => {
                write!(
                    f,
                    "STALE session {id} has got to number {last}, beyond {sequence}; nothing was done now"
                )
            }
            Denial::Reused => write!(
                f,
                "REUSED another request was made under number {sequence} of session {id}; nothing was done now"
            ),
            Denial::Abandoned => write!(
                f,
                "ABANDONED number {sequence} of session {id} was given up when its outcome was asked for; nothing was done"
            ),
        }
    }
}
