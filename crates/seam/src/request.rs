//! What a host hands in for a client, and how it is refused.

use highwater_core::{Nanos, NodeId, ProcedureId, Timestamp};

/// Names a request between its submission and its reply; chosen by the host, returned untouched.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Token(pub u64);

/// A connection of a client that coordinates its transactions itself, by the host's name: never given twice in the life of a worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClientId(pub u64);

/// A transaction to run.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// Comes back with the reply.
    pub token: Token,
    /// The code to run.
    pub procedure: ProcedureId,
    /// Its arguments; copied if they must outlive the call.
    pub args: &'a [u8],
    /// The owner of this request, for engines that run a repeated one once: see `sessions`. One that may not run ends
    /// with [`Outcome::Denied`](highwater_core::Outcome::Denied). An engine without
    /// [`sessions`](crate::Abilities::sessions) refuses it.
    pub session: Option<Session>,
    /// How fresh what it reads has to be, beyond what the engine gives anyway. A replica that cannot prove in time that it is so fresh
    /// ends it with [`Outcome::Denied`](highwater_core::Outcome::Denied): it waits two election timeouts at most. An engine without
    /// [`freshness`](crate::Abilities::freshness) refuses it.
    pub freshness: Option<Freshness>,
    /// Nobody waits for the reply after this. A hint: an engine may end a request that has not begun by then with
    /// [`Outcome::Conflict`](highwater_core::Outcome::Conflict), because nothing was done, and may as well run it.
    pub deadline: Option<Nanos>,
}

impl<'a> Request<'a> {
    /// A request that asks for nothing beyond its reply.
    #[inline]
    pub fn new(token: Token, procedure: ProcedureId, args: &'a [u8]) -> Request<'a> {
        Request { token, procedure, args, session: None, freshness: None, deadline: None }
    }
}

/// A client's request among all that the client makes: the same client says the same again when it repeats one, because
/// the reply was lost or the outcome unknown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Session {
    /// Which client, over all its connections: what `sessions::open` gave it.
    pub id: u64,
    /// Which of its requests, from 1 on: each has a larger number than those before.
    pub sequence: u64,
    /// Whose request it is: another one's session is none.
    pub owner: Owner,
}

/// The user whom a session belongs to, as the host tells its users apart: a number that is a user's as long as the user is there, and that two of them
/// hardly share.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Owner(pub u32);

impl Owner {
    /// The owner of sessions that belong to nobody: whoever knows such a one's id uses it.
    pub const NOBODY: Owner = Owner(0);
}

/// How old the state may be that a transaction reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Freshness {
    /// Everything that was acknowledged at least so many nanoseconds before the request came is in it, by the clock of the replica that
    /// reads. No clocks are compared.
    Within(Nanos),
    /// Everything committed up to this timestamp is in it, which a reply of this cluster carried ([`Released::at`](crate::Released::at)): a
    /// client's own last write, so that it reads what it wrote.
    Since(Timestamp),
}

/// The fate of a request that a worker took.
///
/// A host that wants one client's requests to take effect in the order in which they came submits no later one of that client while one
/// is put off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Taken {
    /// It has its place in the order of transactions: whatever is submitted to this worker from now on takes effect behind it.
    Placed,
    /// It gets its place later, so that what is submitted from now on may take effect before it. Its reply tells that it has one.
    PutOff,
}

/// Why a request was not even tried. Nothing was done; no reply will come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// This replica takes no transactions at the moment.
    NotServing {
        /// Whom to ask instead; `None`: nobody is known to.
        ask: Option<NodeId>,
    },
    /// This replica would, but has not heard from a majority for a while, or its workers stand still.
    NoQuorum,
    /// Too much is in flight; ask again after the next turn. The host should stop reading from clients meanwhile.
    Busy,
    /// The engine cannot keep the request's session or freshness, on any replica: see
    /// [`Abilities::admit`](crate::Abilities::admit).
    Unsupported,
}
