//! A worker's share of a benchmark's load: what its coordinator commands, and what is submitted with each turn.

use highwater_seam::Nanos;

use super::WorkerThread;
use crate::load::{Appetite, Driver, Loader, WorkerStats};
use crate::shared::{ControlLetter, LoadAnswer, LoadCommand};

impl WorkerThread {
    /// Carries out a command of the load coordinator; `None` if the answer comes later.
    pub(super) fn command(&mut self, now: Nanos, ticket: u64, command: LoadCommand) -> Option<LoadAnswer> {
        let shared = self.shared.clone();
        let (workers, procedures) = (shared.workers.len(), &shared.procedures);
        self.loads_started += 1;
        match command {
            LoadCommand::Populate { workload, done } => {
                let loader =
                    Loader::new(&workload, self.index, workers, procedures, self.loads_started, done);
                if let Some((ticket, _)) = self.loader.replace((ticket, loader)) {
                    self.answer(ticket, LoadAnswer::Failed("another loading began".into()));
                }
                None
            }
            LoadCommand::Run(spec) => {
                let driver =
                    Driver::new(&spec, self.index, workers, procedures, shared.stopwatch, self.loads_started);
                Some(match driver {
                    Ok(driver) => {
                        self.load = Some(driver);
                        LoadAnswer::Done
                    }
                    Err(why) => LoadAnswer::Failed(why),
                })
            }
            LoadCommand::Report => Some(self.stats()),
            LoadCommand::Reset => {
                self.load.iter_mut().for_each(Driver::reset);
                Some(LoadAnswer::Done)
            }
            LoadCommand::Stop => {
                let Some(load) = &mut self.load else { return Some(self.stats()) };
                load.stop(now);
                if let Some(earlier) = self.stop_ticket.replace(ticket) {
                    self.answer(earlier, LoadAnswer::Failed("another stop came".into()));
                }
                None
            }
        }
    }

    pub(super) fn submit_load(&mut self, now: Nanos) -> Appetite {
        if self.shared.ending() {
            return Appetite::None;
        }
        if let Some((ticket, loader)) = &mut self.loader {
            let (ticket, appetite) = (*ticket, loader.submit(now, &mut *self.engine));
            if let Some(verdict) = loader.finished() {
                self.loader = None;
                let answer = verdict.map_or_else(LoadAnswer::Failed, |()| LoadAnswer::Done);
                self.answer(ticket, answer);
            }
            return appetite;
        }
        let Some(load) = &mut self.load else { return Appetite::None };
        let appetite = load.submit(now, &mut *self.engine);
        if self.stop_ticket.is_some() && load.stopped(now) {
            let ticket = self.stop_ticket.take().expect("it is there");
            let stats = self.stats();
            self.answer(ticket, stats);
        }
        appetite
    }

    fn stats(&self) -> LoadAnswer {
        LoadAnswer::Stats(Box::new(match &self.load {
            Some(load) => load.stats(),
            None => WorkerStats::idle(),
        }))
    }

    pub(super) fn answer(&self, ticket: u64, answer: LoadAnswer) {
        self.shared.control.post(ControlLetter::Load { ticket, answer });
    }
}
