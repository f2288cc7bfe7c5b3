//! After the load: wait until all replicas hold the same, then prove it.

use std::thread;
use std::time::{Duration, Instant};

use highwater_node::admin::protocol::{CheckReport, WorkloadSpec};
use serde::Serialize;

use crate::admin::StoreDigest;
use crate::answers;
use crate::audit::Acknowledged;
use crate::failure::{Failure, Result};
use crate::fleet::Fleet;

/// How long replicas may take to apply what the leader decided.
const CONVERGENCE: Duration = Duration::from_secs(60);

/// What the checks of a quiescent cluster found.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Findings {
    /// Conditions that hold on every replica.
    pub passed: Vec<String>,
    /// Conditions that do not hold somewhere.
    pub failed: Vec<FailedCheck>,
    /// One digest per replica; all the same, or something is wrong.
    pub digests: Vec<String>,
    /// Live rows of the first replica.
    pub rows: u64,
    /// Live bytes of the first replica.
    pub bytes: u64,
    /// Audit rows that a live process reported as released.
    pub acknowledged: u64,
    /// How many of them are missing somewhere.
    pub missing: u64,
}

/// A condition that does not hold.
#[derive(Clone, Debug, Serialize)]
pub struct FailedCheck {
    /// Where.
    pub replica: usize,
    /// Which one.
    pub name: String,
    /// Why.
    pub failure: String,
}

impl Findings {
    /// Why the verdict is negative, if it is.
    pub fn trouble(&self) -> Option<String> {
        if let Some(failed) = self.failed.first() {
            let FailedCheck { replica, name, failure } = failed;
            return Some(format!("condition {name} does not hold on replica {replica}: {failure}"));
        }
        if !self.digests_equal() {
            return Some(format!("the replicas' digests differ: {}", self.digests.join(", ")));
        }
        let (missing, acknowledged) = (self.missing, self.acknowledged);
        (missing > 0).then(|| format!("{missing} of {acknowledged} acknowledged transactions are missing"))
    }

    /// Whether all replicas hold the same.
    pub fn digests_equal(&self) -> bool {
        self.digests.windows(2).all(|pair| pair[0] == pair[1])
    }
}

/// Waits until every replica has applied everything that the leader decided.
pub fn converge(fleet: &Fleet) -> Result<Duration> {
    let started = Instant::now();
    let mut before = None;
    loop {
        let behind = match answers::converged(&fleet.statuses()) {
            Err(behind) => behind,
            // What stands still between two looks is all there will be.
            Ok(all) if before == Some(all) => return Ok(started.elapsed()),
            Ok(all) => {
                before = Some(all);
                thread::sleep(Duration::from_millis(60));
                continue;
            }
        };
        before = None;
        if started.elapsed() > CONVERGENCE {
            let seconds = CONVERGENCE.as_secs();
            return Err(Failure::negative(format!("no convergence within {seconds} s: {behind}")));
        }
        thread::sleep(Duration::from_millis(20));
    }
}

/// Every replica's digest, once all have applied everything.
pub fn digests(fleet: &Fleet) -> Result<Vec<String>> {
    converge(fleet)?;
    (0..fleet.len())
        .map(|node| {
            let mut admin = fleet.admin(node)?;
            admin.digest().map(|digest| digest.digest).map_err(|error| admin.failure(error))
        })
        .collect()
}

/// Runs the consistency conditions on every replica, compares digests and counts missing audit rows. The cluster must
/// be quiescent and converged.
pub fn examine(fleet: &Fleet, workload: &WorkloadSpec, acknowledged: &Acknowledged) -> Result<Findings> {
    let replicas: Vec<Result<Exam>> = thread::scope(|scope| {
        let exams: Vec<_> = (0..fleet.len())
            .map(|node| scope.spawn(move || Exam::take(fleet, node, workload, acknowledged)))
            .collect();
        exams.into_iter().map(|exam| exam.join().expect("an exam does not panic")).collect()
    });
    let mut findings = Findings { acknowledged: acknowledged.rows(), ..Findings::default() };
    for (replica, exam) in replicas.into_iter().enumerate() {
        let exam = exam?;
        for CheckReport { name, failure } in exam.checks {
            match failure {
                Some(failure) => findings.failed.push(FailedCheck { replica, name, failure }),
                None if !findings.passed.contains(&name) => findings.passed.push(name),
                None => {}
            }
        }
        if replica == 0 {
            (findings.rows, findings.bytes) = (exam.digest.rows, exam.digest.bytes);
        }
        findings.digests.push(exam.digest.digest);
        findings.missing = findings.missing.max(exam.missing);
    }
    let Findings { passed, failed, .. } = &mut findings;
    passed.retain(|name| failed.iter().all(|check| check.name != *name));
    if findings.trouble().is_some() {
        fleet.keep_files();
    }
    Ok(findings)
}

/// What one replica said.
struct Exam {
    checks: Vec<CheckReport>,
    digest: StoreDigest,
    missing: u64,
}

impl Exam {
    fn take(
        fleet: &Fleet,
        node: usize,
        workload: &WorkloadSpec,
        acknowledged: &Acknowledged,
    ) -> Result<Exam> {
        let mut admin = fleet.admin(node)?;
        let mut take = || {
            let checks = admin.check(workload)?;
            let digest = admin.digest()?;
            let mut missing = 0;
            for (generator, ranges) in acknowledged.iter() {
                missing += admin.audit_missing(generator, ranges.to_vec())?;
            }
            Ok(Exam { checks, digest, missing })
        };
        take().map_err(|error| admin.failure(error))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_failed_condition_or_digest_or_row_spoils_the_verdict() {
        let good = Findings { digests: vec!["a".into(), "a".into()], acknowledged: 5, ..Findings::default() };
        assert_eq!(good.trouble(), None);
        let differs = Findings { digests: vec!["a".into(), "b".into()], ..good.clone() };
        assert!(differs.trouble().is_some_and(|why| why.contains("digests differ")));
        let lost = Findings { missing: 1, ..good.clone() };
        assert_eq!(lost.trouble().as_deref(), Some("1 of 5 acknowledged transactions are missing"));
        let failed = FailedCheck { replica: 1, name: "tpcc-1".into(), failure: "w 1".into() };
        let broken = Findings { failed: vec![failed], ..good };
        assert!(broken.trouble().is_some_and(|why| why.contains("tpcc-1")));
    }
}
