//! Why a whole request, a call or a procedure of a module came to nothing, or to what nobody knows.

use std::fmt;

use highwater_core::NodeId;
use highwater_seam::Refusal;

/// Why a whole request gave no answer though it was fine: nothing of it was done, or nobody knows.
#[derive(Clone)]
pub enum RequestError<'a> {
    /// The engine did not take it: nothing was done. With the address of whom to ask instead, if both are known.
    Refused(Refusal, Option<String>),
    /// The same of a replica of an engine without a leader, which does not serve at the moment: one that does, and where.
    Elsewhere(Option<NodeId>, Option<String>),
    /// Another node serves, in Redis Cluster's words: nothing was done.
    Moved {
        /// Of the first key.
        slot: u16,
        /// Where to ask.
        address: String,
    },
    /// Nobody is known to serve, or this node cannot, in Redis Cluster's words: nothing was done.
    Down(Refusal),
    /// The same as both in the words of a replica under Sentinel, with whom to ask if that is known.
    ReadOnly(Option<String>),
    /// Too many conflicts in a row: nothing was done.
    Conflict,
    /// What an open transaction told its client is not so any more: nothing was done.
    Changed,
    /// It may or may not survive.
    Unknown,
    /// It is over a limit of transactions: nothing was done.
    TooLarge {
        /// The limits, in the engine's words.
        limits: &'a str,
    },
    /// There are more keys than one transaction may remove: nothing was done.
    ManyKeys {
        /// The limits, in the engine's words.
        limits: &'a str,
    },
    /// Some steps of a command are done, and the next one is not, or nobody knows: why.
    Partly(&'static str),
    /// Its session does not let it run: nothing was done.
    Denied {
        /// Why, in the engine's words, with the error's name in front.
        why: &'a str,
    },
    /// No memory is left for what it adds: nothing was done. In Redis's words, which clients know.
    OutOfMemory,
    /// Too many disks are full for what it writes: nothing was done.
    DiskFull,
    /// The command's code panicked, on data that is there: a bug of ours. Nothing was done.
    Panicked {
        /// What it said.
        message: &'a str,
    },
    /// The arguments are none of ours; only a caller without RESP can see this.
    Malformed,
    /// It asks the store for a row with a key, or a value, beyond the limits.
    TooLong,
}

impl fmt::Display for RequestError<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RequestError::Refused(Refusal::NotServing { ask: Some(leader) }, address) => {
                let address = address.as_deref().unwrap_or("an unknown address");
                write!(f, "NOTLEADER leader is node {} at {address}", leader.0)
            }
            RequestError::Refused(Refusal::NotServing { ask: None }, _) => {
                f.write_str("NOTLEADER no leader is known at the moment; nothing was done, retry later")
            }
            RequestError::Elsewhere(Some(other), address) => {
                let address = address.as_deref().unwrap_or("an unknown address");
                write!(f, "NOTLEADER this node does not serve at the moment; ask node {} at {address}", other.0)
            }
            RequestError::Elsewhere(None, _) => f.write_str(
                "NOTLEADER this node does not serve at the moment; nothing was done, retry later or elsewhere",
            ),
            RequestError::Refused(Refusal::NoQuorum, _) => f.write_str(
                "NOQUORUM this node hears no majority or stands still; nothing was done, retry later",
            ),
            RequestError::Refused(Refusal::Busy, _) => f.write_str("BUSY nothing was done, retry later"),
            RequestError::Refused(Refusal::Unsupported, _) => f.write_str(
                "ERR the engine keeps no sessions, or no bound on the age of what is read; nothing was done",
            ),
            RequestError::Moved { slot, address } => write!(f, "MOVED {slot} {address}"),
            RequestError::Down(Refusal::NoQuorum) => f.write_str(
                "CLUSTERDOWN The cluster is down: this node hears no majority or stands still; nothing was done, retry later",
            ),
            RequestError::Down(_) => f.write_str(
                "CLUSTERDOWN The cluster is down: no leader is known at the moment; nothing was done, retry later",
            ),
            RequestError::ReadOnly(Some(address)) => {
                write!(f, "READONLY You can't write against a read only replica: the master is at {address}; nothing was done")
            }
            RequestError::ReadOnly(None) => f.write_str(
                "READONLY You can't write against a read only replica: no master is known at the moment; nothing was done",
            ),
            RequestError::Conflict => {
                f.write_str("CONFLICT too many conflicting transactions; nothing was done, retry")
            }
            RequestError::Changed => f.write_str(
                "CONFLICT another client changed what this transaction read; nothing was done: begin it again",
            ),
            RequestError::Unknown => f.write_str(
                "UNKNOWN outcome unknown: this node lost the lead, or its vote, before the result was safe; \
                 it may or may not have been applied",
            ),
            RequestError::TooLarge { limits } => {
                write!(f, "ERR too large: {limits}; nothing was done")
            }
            RequestError::ManyKeys { limits } => write!(
                f,
                "TOOLARGE there is more than one transaction may remove ({limits}); nothing was done. FLUSHALL ASYNC removes any number, in steps"
            ),
            RequestError::Partly(why) => write!(
                f,
                "PARTLY some of the keys are removed, and others are not: {why}. FLUSHALL ASYNC again goes on"
            ),
            RequestError::DiskFull => f.write_str(
                "DISKFULL the disks of too many nodes are full; nothing was done, reads go on, retry when there is room",
            ),
            RequestError::Denied { why } => f.write_str(why),
            RequestError::OutOfMemory => {
                f.write_str("OOM command not allowed when used memory > 'maxmemory'.")
            }
            RequestError::Panicked { message } => {
                write!(f, "ERR the command failed: {message}; nothing was done")
            }
            RequestError::Malformed => f.write_str("ERR malformed arguments"),
            RequestError::TooLong => f.write_str("ERR a key, a name or a value exceeds its maximum allowed size; nothing was done"),
        }
    }
}

/// What became of an `HW.CALL` that did not commit, or whose reply cannot be told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallError<'a> {
    /// The procedure rolled back; what it read is released state.
    RolledBack {
        /// Its reply.
        why: &'a [u8],
    },
    /// The procedure refused its arguments, or panicked: nothing was done.
    BadRequest {
        /// Its reply.
        why: &'a [u8],
    },
    /// It committed, and the reply is none of its signature: a bug of ours.
    Signature,
}

impl fmt::Display for CallError<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = |why: &[u8]| String::from_utf8_lossy(&why[..why.len().min(1024)]).into_owned();
        match self {
            CallError::RolledBack { why: [] } => f.write_str("ROLLEDBACK nothing was done"),
            CallError::RolledBack { why } => write!(f, "ROLLEDBACK {}; nothing was done", text(why)),
            CallError::BadRequest { why } => write!(f, "BADREQUEST {}; nothing was done", text(why)),
            CallError::Signature => f.write_str(
                "BADREPLY the call committed, but its reply is not what its signature says; RAW gives its bytes",
            ),
        }
    }
}

/// Why a procedure of a module was ended: whatever it wrote is taken back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProcedureError {
    /// It ended itself, for this reason.
    RolledBack(String),
    /// It did what no procedure may, or its code met an instruction that ends it.
    Trap(String),
    /// It has used as much fuel as it may.
    Fuel(u64),
    /// It has taken longer than anything should.
    Time,
    /// It wants more memory than so many MiB.
    Memory(usize),
    /// It writes, and was called to read.
    Writes,
}

impl fmt::Display for ProcedureError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ProcedureError::RolledBack(why) => write!(f, "ROLLEDBACK {why}; nothing was done"),
            ProcedureError::Trap(why) => write!(f, "TRAP {why}; nothing was done"),
            ProcedureError::Fuel(most) => write!(
                f,
                "NOFUEL the procedure was ended after limits.procedure_fuel, which is {most}; nothing was done"
            ),
            ProcedureError::Time => {
                f.write_str("NOFUEL the procedure was ended after 5 seconds of CPU time; nothing was done")
            }
            ProcedureError::Memory(mib) => write!(
                f,
                "NOMEMORY the procedure needs more memory than limits.procedure_memory_mb, which is {mib}; nothing was done"
            ),
            ProcedureError::Writes => f.write_str("ERR the procedure writes, and HW.CALL_RO does not"),
        }
    }
}
