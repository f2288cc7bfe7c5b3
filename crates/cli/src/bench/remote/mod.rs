//! Load from outside: what `--clients remote` puts on a cluster, over RESP.
//!
//! The generators of a workload run in threads of this process, and each transaction is an `HW.CALL name RAW bytes` on one of some
//! connections. So a figure holds the whole way of a client's request: sockets, protocol, replies. The generators' CPU time is that of
//! their threads, apart from the replicas', which are processes of their own.
//!
//! *Closed loop*: as many transactions are under way as connections times their depth; latency runs from when a request is handed to its
//! connection. *Open loop* (`--rate`): requests are due at a fixed rate whether or not earlier ones are answered, and latency runs from
//! when a request was due. A stall is not forgiven to the requests that it held up.
//!
//! *Failover*: who is told `MOVED` goes where it is sent, and asks the same again; its time goes on. What was under way on a connection
//! that broke counts as unknown.

mod generator;
mod link;
#[cfg(test)]
mod tests;

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};

use highwater_node::load::WorkerStats;
use highwater_workloads::Workload;

use super::redis::Plan;
use crate::failure::{Failure, Result};

/// What load.
#[derive(Clone)]
pub struct RemoteSpec {
    /// Every replica's RESP port; the first one probably leads.
    pub doors: Vec<SocketAddr>,
    /// What to ask for.
    pub source: Source,
    /// How many connections.
    pub connections: u32,
    /// Unanswered requests of each, at most.
    pub in_flight: u32,
    /// How many threads generate and send.
    pub threads: u32,
    /// Transactions per second over all of them; as fast as possible if absent.
    pub rate: Option<f64>,
    /// Seed of the request streams.
    pub seed: u64,
    /// Every n-th request is an audit row. 0: none.
    pub audit_every: u32,
    /// Thread i's audit rows carry `audit_base + i`.
    pub audit_base: u32,
}

/// What requests are drawn from.
#[derive(Clone)]
pub enum Source {
    /// A workload's transactions, each an `HW.CALL`.
    Calls(Arc<dyn Workload>),
    /// Commands that any Redis server knows.
    Commands(Plan),
}

/// A load that runs. Ends when it is dropped, too.
pub struct Remote {
    threads: Vec<JoinHandle<()>>,
    shared: Vec<Arc<Shared>>,
}

/// What one thread shows and is told.
struct Shared {
    state: Mutex<State>,
    stop: AtomicBool,
    reset: AtomicBool,
}

struct State {
    stats: WorkerStats,
    /// Why it cannot go on.
    failure: Option<String>,
}

impl Remote {
    /// Starts the threads.
    pub fn start(spec: &RemoteSpec) -> Result<Remote> {
        let mut remote = Remote { threads: Vec::new(), shared: Vec::new() };
        for thread in 0..spec.threads {
            let generator = generator::Generator::new(spec, thread).map_err(Failure::cannot_start)?;
            let shared = Arc::new(Shared {
                state: Mutex::new(State { stats: generator.fresh_stats(), failure: None }),
                stop: AtomicBool::new(false),
                reset: AtomicBool::new(false),
            });
            remote.shared.push(shared.clone());
            let named = thread::Builder::new().name(format!("client-{thread}"));
            let running = named.spawn(move || generator.run(&shared)).map_err(Failure::cannot_start)?;
            remote.threads.push(running);
        }
        Ok(remote)
    }

    /// Sets every count to 0: ends the warm-up.
    pub fn reset(&self) {
        for shared in &self.shared {
            shared.lock().stats.reset();
            shared.reset.store(true, Ordering::Release);
        }
    }

    /// The counts so far, of each thread.
    ///
    /// # Errors
    /// If a thread met what no load should.
    pub fn stats(&self) -> Result<Vec<WorkerStats>> {
        let of = |shared: &Arc<Shared>| {
            let state = shared.lock();
            match &state.failure {
                Some(why) => Err(Failure::negative(why)),
                None => Ok(state.stats.clone()),
            }
        };
        self.shared.iter().map(of).collect()
    }

    /// Sends no more, waits for the answers, and gives all counts.
    ///
    /// # Errors
    /// If a thread met what no load should.
    pub fn stop(mut self) -> Result<Vec<WorkerStats>> {
        self.end();
        self.stats()
    }

    fn end(&mut self) {
        self.shared.iter().for_each(|shared| shared.stop.store(true, Ordering::Release));
        for thread in self.threads.drain(..) {
            // A panic has been reported by its hook.
            let _ = thread.join();
        }
    }
}

impl Drop for Remote {
    fn drop(&mut self) {
        self.end();
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
