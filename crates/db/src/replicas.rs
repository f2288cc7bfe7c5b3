//! The replicas that a program has opened, and how it asks them.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use highwater_core::{Abort, Procedure, ProcedureId};
use highwater_engines::EngineKind;
use highwater_node::worker::LocalRequest;
use highwater_node::{NodeError, Opened};
use highwater_seam::Refusal;

use crate::catalogue::{ALL, Agree, Catalogue, Compare};
use crate::closure::{Closure, Place};
use crate::error::Error;
use crate::tx::Tx;

/// Between two questions to replicas that do not serve: an election takes longer, a busy turn less.
const PAUSE: Duration = Duration::from_millis(1);

/// One of them.
pub struct Replica {
    opened: Opened,
    /// Workers take requests in turns.
    turns: AtomicUsize,
}

impl Replica {
    pub fn new(opened: Opened) -> Replica {
        Replica { opened, turns: AtomicUsize::new(0) }
    }

    pub fn opened(&self) -> &Opened {
        &self.opened
    }

    /// How it ended; or why it was not even tried.
    fn once(
        &self,
        procedure: ProcedureId,
        args: Vec<u8>,
        snapshot: bool,
    ) -> Result<Result<Vec<u8>, Error>, Refusal> {
        let node = &self.opened.node;
        let worker = self.turns.fetch_add(1, Ordering::Relaxed) % node.workers();
        let (sender, receiver) = mpsc::sync_channel(1);
        // Nobody but us receives, and we wait for it.
        let answer = Box::new(move |ended| drop(sender.send(ended)));
        node.submit(worker, LocalRequest { procedure, args, session: None, snapshot, answer });
        match receiver.recv() {
            Ok(Ok((outcome, reply))) => Ok(Error::of(outcome, reply)),
            Ok(Err(refusal)) => Err(refusal),
            // The replica has ended meanwhile.
            Err(_) => Ok(Err(Error::Unknown)),
        }
    }
}

/// By id.
pub struct Replicas {
    all: Vec<RwLock<Option<Arc<Replica>>>>,
    /// Who took the last transaction.
    likely: AtomicUsize,
    patience: Duration,
    engine: EngineKind,
    procedures: Vec<String>,
    tables: Arc<Catalogue>,
    /// Rows that were written are known to be of these tables.
    agreed: AtomicBool,
}

impl Replicas {
    /// All of a cluster, or the one that this program has. `procedures`: names, by id.
    pub fn new(opened: Vec<Opened>, patience: Duration, engine: EngineKind, tables: Catalogue) -> Replicas {
        let procedures = opened[0].node.procedures().iter().map(ToString::to_string).collect();
        let all = opened.into_iter().map(|opened| RwLock::new(Some(Arc::new(Replica::new(opened)))));
        Replicas {
            all: all.collect(),
            likely: AtomicUsize::new(0),
            patience,
            engine,
            procedures,
            tables: Arc::new(tables),
            agreed: AtomicBool::new(false),
        }
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.all.len()
    }

    /// That one, if it runs.
    pub fn get(&self, at: usize) -> Option<Arc<Replica>> {
        self.all[at].read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Another one in its place.
    pub fn replace(&self, at: usize, replica: Option<Arc<Replica>>) -> Option<Arc<Replica>> {
        std::mem::replace(&mut *self.all[at].write().unwrap_or_else(PoisonError::into_inner), replica)
    }

    /// Who took the last transaction.
    pub fn likely(&self) -> usize {
        self.likely.load(Ordering::Relaxed)
    }

    /// A closure, on whoever serves; or, if it is named, on the snapshot of that replica.
    pub fn closure<R: Send + 'static>(
        &self,
        reader: Option<usize>,
        mut code: impl FnMut(&mut Tx<'_>) -> Result<R, Abort> + Send + 'static,
    ) -> Result<R, Error> {
        if !self.engine.abilities().closures {
            return Err(Error::Unsupported(self.engine.name()));
        }
        let result = Arc::new(Mutex::new(None));
        let kept = result.clone();
        let place = Place::new(self.tables.clone(), move |tx| {
            let value = code(tx)?;
            // Of several attempts the last one counts.
            *kept.lock().unwrap_or_else(PoisonError::into_inner) = Some(value);
            Ok(())
        });
        self.call(reader, <Closure as Procedure>::NAME, &place.args())?;
        let value = result.lock().unwrap_or_else(PoisonError::into_inner).take();
        Ok(value.expect("a closure that committed has returned"))
    }

    /// A registered procedure, in the same way.
    pub fn call(&self, reader: Option<usize>, name: &str, args: &[u8]) -> Result<Vec<u8>, Error> {
        self.agree(reader)?;
        self.ask(reader, name, args)
    }

    /// Compares the program's tables with what was written, until that is known to be the same. Readers write nothing that is missing.
    fn agree(&self, reader: Option<usize>) -> Result<(), Error> {
        if self.agreed.load(Ordering::Relaxed) {
            return Ok(());
        }
        let procedure = match reader {
            None => <Agree as Procedure>::NAME,
            Some(_) => <Compare as Procedure>::NAME,
        };
        let give_up = Instant::now() + self.patience;
        let reply = loop {
            match self.ask(reader, procedure, &self.tables.args()) {
                // What a leader did that has ended is no harm to do again.
                Err(Error::Unknown) if Instant::now() < give_up => thread::sleep(PAUSE),
                ended => break ended?,
            }
        };
        self.agreed.fetch_or(reader.is_none() || reply == ALL, Ordering::Relaxed);
        Ok(())
    }

    fn ask(&self, reader: Option<usize>, name: &str, args: &[u8]) -> Result<Vec<u8>, Error> {
        let Some(at) = self.procedures.iter().position(|known| known == name) else {
            return Err(Error::Failed(format!(
                "no procedure is called {name:?}; the builder takes `procedures`"
            )));
        };
        let procedure = ProcedureId(at as u16);
        let give_up = Instant::now() + self.patience;
        loop {
            let at = reader.unwrap_or_else(|| self.likely());
            let tried = match self.get(at) {
                Some(replica) => replica.once(procedure, args.to_vec(), reader.is_some()),
                None => Err(Refusal::NotServing { ask: None }),
            };
            let refusal = match tried {
                // A worker tries often enough for whoever is in the way to end; on a machine with more threads than cores that may not run yet.
                Ok(Err(Error::Conflict)) if Instant::now() < give_up => {
                    thread::sleep(PAUSE);
                    continue;
                }
                Ok(ended) => return ended,
                Err(refusal) => refusal,
            };
            let elsewhere = match refusal {
                Refusal::NotServing { ask: Some(node) } if usize::from(node.0) != at => {
                    Some(usize::from(node.0))
                }
                _ => None,
            };
            match (reader, elsewhere) {
                (None, Some(other)) if other < self.count() && self.count() > 1 => {
                    self.likely.store(other, Ordering::Relaxed);
                }
                (None, None) => self.likely.store((at + 1) % self.count(), Ordering::Relaxed),
                // Only one of the replicas is ours.
                (None, Some(_)) if self.count() == 1 => return Err(self.error_of(at, refusal)),
                _ => {}
            }
            if Instant::now() >= give_up {
                return Err(self.error_of(at, refusal));
            }
            thread::sleep(PAUSE);
        }
    }

    fn error_of(&self, at: usize, refusal: Refusal) -> Error {
        match refusal {
            Refusal::NotServing { ask } => {
                let address = |node| self.get(at)?.opened.node.address_of(node);
                Error::NotServing(ask.and_then(address))
            }
            Refusal::NoQuorum | Refusal::Busy => Error::NotReady,
            Refusal::Unsupported => Error::Failed(format!("engine {} cannot do that", self.engine.name())),
        }
    }

    /// Ends one at once, and waits until it has: whoever waits for its answers hears that they are unknown. `false`: it did not run.
    pub fn kill(&self, at: usize) -> bool {
        let Some(replica) = self.replace(at, None) else { return false };
        replica.opened.node.halt();
        drop(only(replica));
        true
    }

    /// Ends all of them in good order.
    pub fn close(&self) -> Result<(), NodeError> {
        let running: Vec<_> = (0..self.count()).filter_map(|at| self.replace(at, None)).collect();
        running.iter().for_each(|replica| replica.opened.node.stop());
        let ended = running.into_iter().map(|replica| only(replica).opened.close());
        ended.fold(Ok(()), Result::and)
    }
}

/// The last one to hold it: those that wait for an answer get it now, or see it go.
fn only(mut replica: Arc<Replica>) -> Replica {
    loop {
        match Arc::try_unwrap(replica) {
            Ok(replica) => return replica,
            Err(shared) => replica = shared,
        }
        thread::sleep(PAUSE);
    }
}
