//! Carries commands to the workers' load drivers, and their answers, added up, to who asked.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use highwater_seam::Nanos;

use crate::admin::protocol::AdminResponse;
use crate::load::report::{Baseline, report};
use crate::load::{RunSpec, WorkerStats};
use crate::shared::{LoadAnswer, LoadCommand, Shared, WorkerLetter};

/// How often a loading says how far it is.
const PROGRESS_EVERY: Nanos = 250_000_000;

/// Commands that are not answered yet, and what reports count from.
#[derive(Default)]
pub struct Loads {
    unanswered: BTreeMap<u64, Unanswered>,
    tickets: u64,
    /// Start of the running load or last reset.
    from: Option<Baseline>,
    /// End of the load, once it is stopped.
    to: Option<Baseline>,
}

/// Which command it is, and what goes with it.
pub enum Errand {
    /// Populate the database.
    Populate {
        /// Requests released.
        done: Arc<AtomicU64>,
        /// When progress was said last.
        said: Nanos,
    },
    /// Start.
    Run,
    /// Count.
    Report,
    /// End the warm-up.
    Reset,
    Stop,
}

struct Unanswered {
    connection: u64,
    errand: Errand,
    /// Workers that have not answered.
    missing: usize,
    stats: Vec<WorkerStats>,
    failure: Option<String>,
}

impl Loads {
    /// Sends a command to all workers on behalf of an admin connection.
    pub fn send(&mut self, connection: u64, errand: Errand, shared: &Shared, command: LoadCommand) {
        self.tickets += 1;
        let ticket = self.tickets;
        let missing = shared.workers.len();
        self.unanswered
            .insert(ticket, Unanswered { connection, errand, missing, stats: Vec::new(), failure: None });
        shared.tell_workers(|| WorkerLetter::Load(ticket, command.clone()));
    }

    /// Starts a load.
    pub fn start(&mut self, connection: u64, spec: Arc<RunSpec>, shared: &Shared) {
        self.from = Some(Baseline::read(shared));
        self.to = None;
        self.send(connection, Errand::Run, shared, LoadCommand::Run(spec));
    }

    /// A worker's answer. The last one completes the command.
    pub fn answer(&mut self, ticket: u64, answer: LoadAnswer, shared: &Shared) {
        let Some(command) = self.unanswered.get_mut(&ticket) else { return };
        command.missing -= 1;
        match answer {
            LoadAnswer::Done => {}
            LoadAnswer::Failed(why) => {
                command.failure.get_or_insert(why);
            }
            LoadAnswer::Stats(stats) => command.stats.push(*stats),
        }
        if command.missing == 0 {
            let command = self.unanswered.remove(&ticket).expect("it is there");
            let connection = command.connection;
            let response = self.complete(command, shared);
            shared.answer(connection, response);
        }
    }

    /// Says how far loadings are, now and then.
    pub fn turn(&mut self, now: Nanos, shared: &Shared) {
        for command in self.unanswered.values_mut() {
            if let Errand::Populate { done, said } = &mut command.errand
                && now - *said >= PROGRESS_EVERY
            {
                *said = now;
                let done = done.load(Ordering::Relaxed);
                shared.answer(command.connection, AdminResponse::Progress { done, total: None });
            }
        }
    }

    /// When to give the next turn at the latest.
    pub fn deadline(&self) -> Option<Nanos> {
        let deadline = |command: &Unanswered| match &command.errand {
            Errand::Populate { said, .. } => Some(said + PROGRESS_EVERY),
            _ => None,
        };
        self.unanswered.values().filter_map(deadline).min()
    }

    fn complete(&mut self, command: Unanswered, shared: &Shared) -> AdminResponse {
        if let Some(message) = command.failure {
            return AdminResponse::Error { message };
        }
        match command.errand {
            Errand::Populate { .. } | Errand::Run => AdminResponse::Done,
            Errand::Reset => {
                self.from = Some(Baseline::read(shared));
                AdminResponse::Done
            }
            Errand::Stop => {
                self.to.get_or_insert_with(|| Baseline::read(shared));
                self.report(&command.stats, shared)
            }
            Errand::Report => self.report(&command.stats, shared),
        }
    }

    fn report(&self, stats: &[WorkerStats], shared: &Shared) -> AdminResponse {
        let to = self.to.unwrap_or_else(|| Baseline::read(shared));
        AdminResponse::Load(Box::new(report(stats, self.from.unwrap_or(to), to)))
    }
}
