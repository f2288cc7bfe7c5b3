//! From a script's `redis.call`, and from the functions that a module imports, to the transaction that they run in.
//!
//! Those functions live as long as their machine, a transaction for one run. So a run leaves a pointer to its transaction here, and nobody
//! but the functions that it runs can get at it.

use std::cell::Cell;
use std::ptr::NonNull;

use crate::acl::Denied;
use crate::command::Opcode;
use crate::keyspace::Stop;
use crate::modules::data::Data;
use crate::reply::Protocol;
use crate::request::Args;

/// What a run's functions ask of the world.
pub trait Host: Data {
    /// Runs a command that was checked; its reply goes to the end of `out`.
    fn call(
        &mut self,
        opcode: Opcode,
        args: Args<'_>,
        protocol: Protocol,
        out: &mut Vec<u8>,
    ) -> Result<(), Stop>;

    /// Whether the user for whom the script runs may run a command.
    fn may<'a>(&self, opcode: Opcode, args: Args<'a>) -> Result<(), Denied<'a>>;

    /// Unix time in ms.
    fn unix_ms(&self) -> u64;

    /// Says that the run goes on, to whoever watches its worker.
    ///
    /// # Errors
    /// That it has gone on for too long.
    fn goes_on(&mut self) -> Result<(), Stop>;
}

thread_local! {
    static HOST: Cell<Option<NonNull<dyn Host>>> = const { Cell::new(None) };
}

/// Puts back what was there, however its scope is left.
struct Restore(Option<NonNull<dyn Host>>);

impl Drop for Restore {
    fn drop(&mut self) {
        HOST.set(self.0);
    }
}

/// Runs `body`, inside which [`with`] finds this host.
pub fn lend<R>(host: &mut dyn Host, body: impl FnOnce() -> R) -> R {
    let host: NonNull<dyn Host + '_> = NonNull::from(host);
    // SAFETY: only the lifetime changes. `Restore` takes the pointer out of `HOST` before `host`, which is borrowed for all of this
    // call, can be used by anybody else, and `with` gives nobody a reference that outlives its closure.
    let host: NonNull<dyn Host + 'static> = unsafe { std::mem::transmute(host) };
    let _restore = Restore(HOST.replace(Some(host)));
    body()
}

/// Asks the host of this thread's run. `None` outside of one, and inside of `ask`.
pub fn with<R>(ask: impl FnOnce(&mut dyn Host) -> R) -> Option<R> {
    let mut host = HOST.take()?;
    let _restore = Restore(Some(host));
    // SAFETY: `lend` put it there and is still running, on this thread, so the host is alive and borrowed by it alone; while `ask` runs `HOST` is
    // empty, so this is the only reference.
    Some(ask(unsafe { host.as_mut() }))
}
