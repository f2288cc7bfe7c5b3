//! What is known of a call while it runs.

use wasmtime::{Error, Memory, ResourceLimiter, Result, Trap};

use super::limits;
use super::machine::TABLE_ENTRIES;
use crate::errors::ProcedureError;
use crate::keyspace::{Failure, Stop};
use crate::reply::{Protocol, Reply};
use crate::scripts::Failed;
use crate::scripts::budget::{PATIENCE_MS, QUICK_MS};
use crate::tables::Table;

/// Tables that one call opens.
const MOST_TABLES: usize = 1024;

/// What a call's functions know of it.
pub struct State {
    /// The instance's memory, once there is an instance.
    pub memory: Option<Memory>,
    /// Bytes that it may grow to.
    pub memory_bytes: usize,
    /// What writes is refused.
    pub read_only: bool,
    /// The words of the call.
    pub args: Vec<Vec<u8>>,
    /// The finished reply, as far as it was put together.
    pub reply: Vec<u8>,
    /// How it is written.
    pub protocol: Protocol,
    /// Values that are still to be put into the reply.
    pub wanted: u64,
    /// Why the procedure was ended, if one of its functions ended it.
    pub ended: Option<Ended>,
    /// The tables that it has opened; handles are places here.
    pub tables: Vec<Table>,
    /// What the last function gave that gives bytes.
    pub rest: Vec<u8>,
    /// When the call began, by the wall's clock.
    began_ms: u64,
    /// The CPU time when it was no quick one any more.
    long_since_ms: Option<u64>,
}

/// Why a procedure was ended.
#[derive(Debug, PartialEq, Eq)]
pub enum Ended {
    /// The transaction cannot go on.
    Stop(Stop),
    /// With an error.
    Failed(Failed),
}

impl State {
    /// Of a call that begins.
    pub fn new(args: Vec<Vec<u8>>, read_only: bool, protocol: Protocol, memory_bytes: usize) -> State {
        State {
            memory: None,
            memory_bytes,
            read_only,
            args,
            reply: Vec::new(),
            protocol,
            wanted: 1,
            ended: None,
            tables: Vec::new(),
            rest: Vec::new(),
            began_ms: limits().clock.map_or(0, |clock| (clock.wall)()),
            long_since_ms: None,
        }
    }

    fn end(&mut self, ended: Ended) -> Error {
        self.ended = Some(ended);
        Trap::Interrupt.into()
    }

    /// Ends a procedure that does what its kind must not.
    pub fn misuse(&mut self, what: &str) -> Error {
        self.fail(ProcedureError::Trap(what.into()))
    }

    /// Ends it with an error.
    pub fn fail(&mut self, error: ProcedureError) -> Error {
        self.end(Ended::Failed(error.into()))
    }

    /// What the data refuse ends it.
    pub fn settle<R>(&mut self, done: Result<R, Failure>) -> Result<R> {
        done.map_err(|failure| match failure {
            Failure::Command(error) => self.end(Ended::Failed(error.into())),
            Failure::Stop(stop) => self.end(Ended::Stop(stop)),
        })
    }

    /// Ends a procedure that writes though it was called to read.
    pub fn may_write(&mut self) -> Result<()> {
        if self.read_only { Err(self.fail(ProcedureError::Writes)) } else { Ok(()) }
    }

    /// The handle of a table: of one that it has opened before, the same, or a procedure that opens one again and again would fill the memory.
    pub fn open_table(&mut self, table: Table) -> Result<i32> {
        let at = match self.tables.iter().position(|known| known.id == table.id) {
            Some(at) => at,
            None if self.tables.len() >= MOST_TABLES => return Err(self.misuse("it opens too many tables")),
            None => {
                self.tables.push(table);
                self.tables.len() - 1
            }
        };
        Ok(at as i32)
    }

    /// A table that it has opened.
    pub fn table(&mut self, handle: i32) -> Result<Table> {
        let table = usize::try_from(handle).ok().and_then(|at| self.tables.get(at)).cloned();
        table.ok_or_else(|| self.misuse("it uses a table that it has not opened"))
    }

    /// Room for one more value in the reply.
    pub fn value(&mut self, values: u64) -> Result<Reply<'_>> {
        if self.wanted == 0 {
            return Err(self.misuse("it answers more than one value"));
        }
        self.wanted = self.wanted - 1 + values;
        if let Err(abort) = Reply::new(&mut self.reply, self.protocol).check_length() {
            return Err(self.end(Ended::Stop(Stop::Abort(abort))));
        }
        Ok(Reply::new(&mut self.reply, self.protocol))
    }

    /// Ends what takes longer than anything should, whatever was counted.
    pub fn check_patience(&mut self) -> Result<()> {
        let Some(clock) = limits().clock else { return Ok(()) };
        match self.long_since_ms {
            Some(since) if (clock.cpu)().saturating_sub(since) > PATIENCE_MS => {
                return Err(self.fail(ProcedureError::Time));
            }
            None if (clock.wall)().saturating_sub(self.began_ms) > QUICK_MS => {
                self.long_since_ms = Some((clock.cpu)());
            }
            _ => {}
        }
        Ok(())
    }
}

impl From<ProcedureError> for Failed {
    fn from(error: ProcedureError) -> Failed {
        Failed(error.to_string().into_bytes())
    }
}

impl ResourceLimiter for State {
    fn memory_growing(&mut self, _: usize, desired: usize, _: Option<usize>) -> Result<bool> {
        if desired <= self.memory_bytes {
            return Ok(true);
        }
        Err(self.fail(ProcedureError::Memory(self.memory_bytes >> 20)))
    }

    fn table_growing(&mut self, _: usize, desired: usize, _: Option<usize>) -> Result<bool> {
        // Where instances take their memory as they come, no place bounds it.
        Ok(desired <= TABLE_ENTRIES)
    }
}
