//! Closures as transactions.
//!
//! An engine runs procedures by name, with bytes for arguments. A closure is no bytes: it waits in a table of the process, and the
//! arguments of the procedure [`Closure`] are the name under which it waits, 16 bytes that nobody can guess. So closures run where the engine
//! executes in the process that was asked, and sends others what was written. That is what [`engines`] do.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};

use highwater_core::{Abort, Procedure, Transaction};
use highwater_engines::EngineKind;

use crate::catalogue::Catalogue;
use crate::tx::Tx;

/// The engines of this build on which closures run.
pub fn engines() -> impl Iterator<Item = EngineKind> {
    EngineKind::ALL.iter().copied().filter(|engine| engine.abilities().closures)
}

type Code = dyn FnMut(&mut Tx<'_>) -> Result<(), Abort> + Send;
type Name = [u8; 16];
type Waiting = HashMap<Name, Arc<Job>>;

struct Job {
    /// Those of its database.
    tables: Arc<Catalogue>,
    code: Mutex<Box<Code>>,
}

static WAITING: LazyLock<Mutex<Waiting>> = LazyLock::new(Mutex::default);

/// A closure that panicked under an attempt is as good as before the next one: what it captured is its own business.
fn lock<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A closure that waits to be run: until this is dropped.
pub struct Place(Name);

impl Place {
    /// Has it wait.
    ///
    /// # Panics
    /// If the system has no random numbers.
    pub fn new(
        tables: Arc<Catalogue>,
        code: impl FnMut(&mut Tx<'_>) -> Result<(), Abort> + Send + 'static,
    ) -> Place {
        let mut name = Name::default();
        getrandom::fill(&mut name).expect("a node runs here, which needed the system's random numbers, too");
        lock(&WAITING).insert(name, Arc::new(Job { tables, code: Mutex::new(Box::new(code)) }));
        Place(name)
    }

    /// The arguments of [`Closure`].
    pub fn args(&self) -> Vec<u8> {
        self.0.to_vec()
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        lock(&WAITING).remove(&self.0);
    }
}

/// Runs the closure that waits under its arguments.
pub struct Closure;

impl Procedure for Closure {
    const NAME: &'static str = "local.closure";

    fn run<T: Transaction>(tx: &mut T, args: &[u8], reply: &mut Vec<u8>) -> Result<(), Abort> {
        let waiting = args.try_into().ok().and_then(|name: Name| lock(&WAITING).get(&name).cloned());
        let Some(waiting) = waiting else {
            reply.extend_from_slice(b"no closure waits under this name: nobody waits for its end any more");
            return Err(Abort::BadRequest);
        };
        let Job { tables, code } = &*waiting;
        let mut tx = Tx::of(tables.clone(), tx);
        let result = lock(code)(&mut tx);
        // A closure that went on all the same has seen nothing that counts.
        tx.ended().map_or(result, Err)
    }

    fn explain_panic(message: &str, _: &[u8], reply: &mut Vec<u8>) {
        reply.extend_from_slice(message.as_bytes());
    }
}
