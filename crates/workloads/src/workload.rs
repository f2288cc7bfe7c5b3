//! The seam between workloads and whoever runs them: load, generate, check.

use highwater_core::View;

/// Requests for populating the database: procedure name and arguments.
pub type Requests = Box<dyn Iterator<Item = (&'static str, Vec<u8>)> + Send>;

/// A benchmark: data, a stream of requests over it, and conditions that must hold whatever ran.
pub trait Workload: Send + Sync {
    /// As the command line names it.
    fn name(&self) -> &'static str;

    /// The requests that populate the database, for loader `part` of `parts`.
    ///
    /// Each writes at most about 1000 rows and 256 KiB. The parts are disjoint, together complete, and need no order
    /// among or within them; a repeated request changes nothing.
    ///
    /// # Panics
    /// If `part >= parts`.
    fn load(&self, part: usize, parts: usize) -> Requests;

    /// Prepares for a database that has run before: what generators keep outside of it continues where `view` stands.
    /// Called before the first generator is made; most workloads keep nothing.
    fn resume(&self, _view: &dyn View) {}

    /// An endless stream of requests for worker `worker` of `workers`; a function of its arguments alone, except where
    /// a workload says otherwise.
    fn generator(&self, worker: usize, workers: usize, seed: u64) -> Box<dyn Generator>;

    /// The names of the procedures in the mix; [`Generator::next`] returns indexes into it.
    fn kinds(&self) -> &'static [&'static str];

    /// The consistency conditions on a quiescent replica, each by name.
    fn check(&self, view: &dyn View) -> Vec<Check>;

    /// The configuration as key and value, for reports.
    fn describe(&self) -> Vec<(&'static str, String)>;
}

/// One worker's stream of requests.
pub trait Generator: Send {
    /// Replaces `args` with the next request's arguments and returns its procedure as an index into
    /// [`Workload::kinds`].
    fn next(&mut self, args: &mut Vec<u8>) -> usize;
}

/// What became of one consistency condition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Check {
    /// `workload-condition`.
    pub name: &'static str,
    /// Nothing, or what is wrong and with which keys.
    pub result: Result<(), String>,
}

impl Check {
    /// Whether the condition holds.
    pub fn passed(&self) -> bool {
        self.result.is_ok()
    }
}

/// Collects the violations of one condition: all are counted, the first few are explained.
#[derive(Debug)]
pub struct Findings {
    name: &'static str,
    count: usize,
    explained: Vec<String>,
}

impl Findings {
    /// How many violations are explained in full.
    const EXPLAINED: usize = 3;

    /// No violation yet of the condition of this name.
    pub fn new(name: &'static str) -> Findings {
        Findings { name, count: 0, explained: Vec::new() }
    }

    /// Counts a violation unless `holds`.
    pub fn expect(&mut self, holds: bool, explain: impl FnOnce() -> String) {
        if holds {
            return;
        }
        self.count += 1;
        if self.explained.len() < Findings::EXPLAINED {
            self.explained.push(explain());
        }
    }

    /// The verdict.
    pub fn finish(self) -> Check {
        let result = match self.count {
            0 => Ok(()),
            count => Err(format!("{count} violation(s): {}", self.explained.join("; "))),
        };
        Check { name: self.name, result }
    }
}
