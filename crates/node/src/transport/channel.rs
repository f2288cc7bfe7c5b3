//! Which of a node's threads talk to each other.

use std::fmt;

use highwater_core::limits::MAX_WORKERS;

/// Which conversation a connection carries, and which thread of the receiving node a frame is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Channel {
    /// Controller to controller.
    Control,
    /// Control thread to control thread, over the controllers' connection: the [`accounts`](super::accounts) of all others.
    Accounts,
    /// Between workers of this number.
    Worker(u16),
    /// Between the same workers: requests of one node's clients that the other serves ([`forward`](highwater_redis::host::forward)).
    Forward(u16),
}

/// The controllers' number on the wire: no worker has it.
const CONTROL: u16 = u16::MAX;
/// And that of the accounts.
const ACCOUNTS: u16 = u16::MAX - 1;
/// What forwarded requests have beside the worker's number.
const FORWARD: u16 = 1 << 14;
const _: () = assert!(MAX_WORKERS < FORWARD);

impl Channel {
    /// As it travels.
    pub fn code(self) -> u16 {
        match self {
            Channel::Control => CONTROL,
            Channel::Accounts => ACCOUNTS,
            Channel::Worker(index) => index,
            Channel::Forward(index) => FORWARD | index,
        }
    }

    /// What a [code](Channel::code) stands for.
    pub fn of(code: u16) -> Channel {
        match code {
            CONTROL => Channel::Control,
            ACCOUNTS => Channel::Accounts,
            index if (FORWARD..2 * FORWARD).contains(&index) => Channel::Forward(index - FORWARD),
            index => Channel::Worker(index),
        }
    }
}

impl fmt::Display for Channel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Channel::Control => f.write_str("control"),
            Channel::Accounts => f.write_str("accounts"),
            Channel::Worker(index) => write!(f, "worker {index}"),
            Channel::Forward(index) => write!(f, "worker {index}, forwarded requests"),
        }
    }
}
