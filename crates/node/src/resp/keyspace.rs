//! The Redis keyspace as one transaction sees it, and how a command ends early.

use highwater_core::limits::MAX_VALUE_BYTES;
use highwater_core::{Abort, TableId, Transaction};

use super::errors::CommandError;

/// The table that holds the Redis keyspace: any bytes as keys, a hash index.
pub const KEYSPACE: TableId = TableId(0);

/// The table that holds clients' sessions.
pub const SESSIONS: TableId = TableId(SESSIONS_AT);
/// Its number.
pub const SESSIONS_AT: u8 = 2;

/// Why the whole request ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    /// The transaction cannot go on.
    Abort(Abort),
    /// The arguments make no sense.
    Malformed,
}

/// Why one command ends early.
#[derive(Debug)]
pub enum Failure {
    /// With an error of its own: it has written nothing, and the next command goes on.
    Command(CommandError),
    /// With all others.
    Stop(Stop),
}

impl From<Abort> for Stop {
    fn from(abort: Abort) -> Stop {
        Stop::Abort(abort)
    }
}

impl From<Abort> for Failure {
    fn from(abort: Abort) -> Failure {
        Failure::Stop(Stop::Abort(abort))
    }
}

impl From<CommandError> for Failure {
    fn from(error: CommandError) -> Failure {
        Failure::Command(error)
    }
}

/// A transaction on the one table behind the door.
pub struct Keyspace<'a, T> {
    tx: &'a mut T,
}

impl<'a, T: Transaction> Keyspace<'a, T> {
    /// What the transaction sees.
    pub fn new(tx: &'a mut T) -> Keyspace<'a, T> {
        Keyspace { tx }
    }

    /// The transaction, for what is no key of the keyspace.
    pub fn transaction(&mut self) -> &mut T {
        self.tx
    }

    /// The value of a key.
    pub fn get(&mut self, key: &[u8]) -> Result<Option<&[u8]>, Failure> {
        Ok(self.tx.get(KEYSPACE, key)?)
    }

    /// Whether the key exists.
    pub fn exists(&mut self, key: &[u8]) -> Result<bool, Failure> {
        Ok(self.get(key)?.is_some())
    }

    /// Sets a value.
    pub fn put(&mut self, key: &[u8], value: &[u8]) -> Result<(), Failure> {
        Ok(self.tx.put(KEYSPACE, key, value)?)
    }

    /// Sets a value unless the key exists; whether it did.
    pub fn insert(&mut self, key: &[u8], value: &[u8]) -> Result<bool, Failure> {
        Ok(self.tx.insert(KEYSPACE, key, value)?)
    }

    /// Removes a key; whether there was one.
    pub fn delete(&mut self, key: &[u8]) -> Result<bool, Failure> {
        Ok(self.tx.delete(KEYSPACE, key)?)
    }
}

/// A value may not outgrow the limit.
pub fn check_value(len: usize) -> Result<(), CommandError> {
    if len > MAX_VALUE_BYTES { Err(CommandError::ValueTooLong) } else { Ok(()) }
}
