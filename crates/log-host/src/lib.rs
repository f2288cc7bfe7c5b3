//! The host of replicated logs: the life cycle of a replica that keeps one or several Paxos logs, and of who serves them, whatever the entries mean.
//!
//! A node meets the others and is born with them, is elected, takes all its streams over at once, opens an epoch, hands its lead over or loses it,
//! lets newcomers in, copies a state or gives one, writes checkpoints and goes on from them, and watches its workers and its disk. None of that asks
//! what is in an entry. It asks what *positions* mean ([`progress::Progress`]): up to where everything is decided, what is in the store, where an epoch
//! begins, where a copy may begin; and it has an engine's *policy* in each worker ([`worker::policy::Policy`]) make entries of requests, bring decided ones into the store, and release replies.
//!
//! | where | what |
//! |---|---|
//! | `progress` | what an engine says of its positions |
//! | `controller` | joins its parts: what one's news means for the others, that of the first four in files of their names |
//! | `members` | the parts: `birth`, `takeover`, `admission`, `handover`; `raising`, `health`, `ledger`, `stores` |
//! | `disk` | `gate`, `recall`: what waits for the disk, and catching up with what did not; `checkpoint`, `points`; `founded`, `moment`: what is written beside the logs |
//! | `probes` | how a follower proves that its leader led |
//! | `worker` | a worker and its stream; `policy`: what an engine writes of it |
//! | `shared`, `messages`, `pulse` | what workers and controller share, and say to each other |
//! | `context`, `desk` | what all parts of a worker, or of a controller, may use |
//! | `wire`, `control` | what goes over the network |
//! | `hooks`, `planted`, `facts` | where a simulator steps in, what planted bugs change, and what an observer of all nodes is told |
//! | `status`, `readable` | figures and roles, and what they mean when replicas are compared; what of a log a build can read |
//!
//! It knows no engine.

#![cfg(not(loom))]

pub mod context;
pub mod control;
pub mod controller;
pub(crate) mod desk;
pub mod disk;
pub mod facts;
pub mod hooks;
pub mod members;
pub mod messages;
#[cfg(feature = "planted")]
pub mod planted;
pub mod probes;
pub mod progress;
pub mod pulse;
pub mod readable;
pub mod shared;
pub mod status;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;
pub mod wire;
pub mod worker;
