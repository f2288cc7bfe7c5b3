//! What became of every transaction of an epoch, by the records of a majority: the paper's section 5.3.1, read as an adversary.
//!
//! Of each transaction that some reply names, by the first rule that applies:
//!
//! | rule | if | then |
//! |---|---|---|
//! | 1 | somebody knows the outcome | that |
//! | 2 | somebody accepted a proposal | the one of the latest view |
//! | 3 | a majority of all replicas found it valid | it commits |
//! | 4 | so many found it valid that it may have committed on the fast path | it commits, unless it is in conflict with one that does |
//! | 5 | | it aborts |
//!
//! Why rule 4 is safe. *If it committed on the fast path*, nothing in conflict with it did: that would have been found valid by a
//! majority, one of which found this one valid, too. So the check must not refuse what was valid: it is exact
//! ([`Payload::conflicts`]). A replica that found this one valid has found nothing valid that the check calls a conflict, and nothing of that was over there
//! ([`validate`](mod@highwater_kit::validation::validate)): validation may refuse more, and never less. So it is not enough that a key is as absent as it was read to be, if it was written and deleted
//! since: the insert alone may be named here. And a later read of what this one wrote is no conflict.
//! *If it did not*, then by the check nothing that committed is in conflict with it: whatever committed is known. By rules 1 to 3 and by
//! being a candidate of rule 4 itself; of two candidates in conflict no replica found both valid, and [`Quorums`] sees to it that
//! they would need one. And records are kept while an older transaction is under way at their replica (see
//! [`Records`](highwater_kit::validation::record::Records)), so what committed in conflict with a candidate after it was found valid there is still
//! named; what was over there before would have kept it from being found valid.

use std::collections::BTreeMap;
use std::fmt;

use highwater_core::Timestamp;
use highwater_kit::validation::payload::Payload;
use highwater_kit::validation::quorum::Quorums;
use highwater_kit::validation::record::Told;

use super::change::Ended;
use super::hooks;

/// Why replies do not tell what became of a transaction. What a peer says is no reason to end a replica: more promises may tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unclear {
    /// It commits, and nobody who replied has what it writes.
    Unknown(Timestamp),
    /// Two who replied know two outcomes of it.
    Contradicted(Timestamp),
}

impl fmt::Display for Unclear {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Unclear::Unknown(ts) => {
                write!(f, "transaction {ts} commits, and none of those who promised has what it writes")
            }
            Unclear::Contradicted(ts) => {
                write!(f, "transaction {ts} committed by the word of one replica, and did not by another's")
            }
        }
    }
}

/// What replies say of one transaction.
#[derive(Default)]
struct Known<'a> {
    valid: u32,
    /// The same, of those who know all.
    shown: u32,
    accepted: Option<(u32, bool)>,
    outcome: Option<bool>,
    contradicted: bool,
    payload: Option<&'a Payload>,
}

impl<'a> Known<'a> {
    fn add(&mut self, told: &'a Told, whole: bool) {
        self.valid += u32::from(told.valid == Some(true));
        self.shown += u32::from(whole && told.valid == Some(true));
        if let Some(outcome) = told.outcome {
            let before = self.outcome.replace(outcome);
            self.contradicted |= before.is_some_and(|before| before != outcome);
        }
        let accepted = told.accepted.filter(|_| hooks::looks_at_accepted());
        let later = |(view, _): &(u32, bool)| self.accepted.is_none_or(|(latest, _)| latest < *view);
        if let Some(later) = accepted.filter(later) {
            self.accepted = Some(later);
        }
        self.payload = self.payload.or(told.payload.as_ref());
    }

    /// What rules 1 to 3 say.
    fn decided(&self, quorums: Quorums) -> Option<bool> {
        let proposed = self.accepted.map(|(_, commit)| commit);
        self.outcome.or(proposed).or((self.valid >= quorums.majority).then_some(true))
    }
}

/// The outcomes of an epoch by worker. `replies`: of each replica that replied, of each of its workers, the records. `parts`: the same of those who
/// may have forgotten some. What they say is true, and what they do not say means nothing: for rule 4 they have not replied. What they alone name is over everywhere, or was never
/// decided.
///
/// # Errors
/// If the replies do not suffice.
pub fn merge(
    quorums: Quorums,
    workers: usize,
    replies: &[&[Vec<Told>]],
    parts: &[&[Vec<Told>]],
) -> Result<Vec<Vec<Ended>>, Unclear> {
    let mut known: Vec<BTreeMap<Timestamp, Known<'_>>> = (0..workers).map(|_| BTreeMap::new()).collect();
    for (worker, records) in replies.iter().flat_map(|reply| reply.iter().enumerate()) {
        for told in records {
            known[worker].entry(told.ts).or_default().add(told, true);
        }
    }
    for (worker, records) in parts.iter().flat_map(|part| part.iter().enumerate()) {
        for told in records {
            if let Some(known) = known[worker].get_mut(&told.ts) {
                known.add(told, false);
            }
        }
    }
    let shown = quorums.shown_of_fast(replies.len() as u32);
    let all = || known.iter().flatten();
    let committed: Vec<(Timestamp, &Payload)> = all()
        .filter(|(_, known)| known.decided(quorums) == Some(true))
        .filter_map(|(ts, known)| Some((*ts, known.payload?)))
        .collect();
    let decide = |ts: Timestamp, known: &Known<'_>| -> bool {
        known.decided(quorums).unwrap_or_else(|| {
            let candidate = known.payload.filter(|_| known.shown >= shown.max(1));
            candidate.is_some_and(|payload| {
                let conflicts = |(at, other): &(Timestamp, &Payload)| payload.conflicts(ts, other, *at);
                !hooks::revalidates() || !committed.iter().any(conflicts)
            })
        })
    };
    let end = |(ts, known): (&Timestamp, &Known<'_>)| {
        let commit = decide(*ts, known);
        let payload = known.payload.filter(|_| commit).cloned();
        match payload {
            _ if known.contradicted => Err(Unclear::Contradicted(*ts)),
            None if commit => Err(Unclear::Unknown(*ts)),
            payload => Ok(Ended { ts: *ts, commit, payload }),
        }
    };
    known.iter().map(|of| of.iter().map(end).collect()).collect()
}

#[cfg(test)]
mod tests {
    use highwater_core::TableId;
    use highwater_core::log::{Key, TxWriter};

    use super::*;
    use highwater_kit::validation::payload::{Read, put_read};

    /// Reads `a` as of `version` and writes `b`, say.
    fn payload(ts: u64, reads: Option<(&[u8], u64)>, writes: Option<&[u8]>) -> Payload {
        let mut section = Vec::new();
        if let Some((key, version)) = reads {
            put_read(
                &mut section,
                Read { table: TableId(0), key, version: Timestamp(version), deleted: false },
            );
        }
        let mut writer = TxWriter::new(Vec::new());
        writer.begin();
        if let Some(key) = writes {
            writer.put(TableId(0), Key::Bytes(key), b"v");
        }
        writer.commit(Timestamp(ts));
        Payload::build(Timestamp::ZERO, (&section, u64::from(reads.is_some())), (&[], 0), writer.bytes())
    }

    fn told(ts: u64, valid: Option<bool>, payload: &Payload) -> Told {
        Told { valid, payload: Some(payload.clone()), ..Told::of(Timestamp(ts)) }
    }

    fn outcomes(n: u8, replies: &[Vec<Told>]) -> Vec<(u64, bool)> {
        let replies: Vec<Vec<Vec<Told>>> = replies.iter().map(|records| vec![records.clone()]).collect();
        let replies: Vec<&[Vec<Told>]> = replies.iter().map(Vec::as_slice).collect();
        let ended = merge(Quorums::of(n), 1, &replies, &[]).expect("it is clear");
        ended[0].iter().map(|ended| (ended.ts.0, ended.commit)).collect()
    }

    /// Section 5.3.1, the first two rules.
    #[test]
    fn what_is_known_or_accepted_decides_before_votes() {
        let p = payload(5, None, Some(b"x"));
        let known = Told { outcome: Some(false), ..told(5, Some(true), &p) };
        assert_eq!(outcomes(3, &[vec![known], vec![told(5, Some(true), &p)]]), [(5, false)]);
        let earlier = Told { accepted: Some((0, true)), ..told(5, Some(true), &p) };
        let later = Told { accepted: Some((2, false)), ..told(5, Some(true), &p) };
        assert_eq!(outcomes(3, &[vec![earlier.clone()], vec![later]]), [(5, false)]);
        assert_eq!(outcomes(3, &[vec![earlier], vec![]]), [(5, true)]);
    }

    /// Who forgot the outcome names what all others have forgotten because it is over everywhere; and adds what others need.
    #[test]
    fn what_is_named_by_those_alone_who_forgot_is_not_named() {
        let p = payload(5, None, Some(b"x"));
        let of = |told: Told| vec![vec![told]];
        let valid = || of(told(5, Some(true), &p));
        let accepted = of(Told { accepted: Some((1, true)), ..told(5, Some(true), &p) });
        let committed = |replies: &[&[Vec<Told>]], parts: &[&[Vec<Told>]]| {
            let ended = merge(Quorums::of(3), 1, replies, parts).expect("it is clear");
            ended[0].iter().map(|ended| ended.commit).collect::<Vec<_>>()
        };
        let nothing = || vec![Vec::new()];
        assert_eq!(committed(&[&nothing(), &nothing()], &[&accepted]), []);
        assert_eq!(committed(&[&valid(), &nothing()], &[&accepted]), [true]);
        assert_eq!(committed(&[&valid(), &nothing()], &[&valid()]), [true], "a majority found it valid");
        assert_eq!(
            committed(&[&of(told(5, Some(false), &p)), &nothing()], &[&valid()]),
            [false],
            "two say no"
        );
    }

    /// Whatever a peer says, this replica goes on: it waits for somebody who knows more.
    #[test]
    fn replies_that_do_not_suffice_are_no_reason_to_panic() {
        let p = payload(5, None, Some(b"x"));
        let nothing = Told::of(Timestamp(5));
        let accepted = Told { accepted: Some((1, true)), ..nothing.clone() };
        let unclear = |replies: &[Vec<Vec<Told>>]| {
            let replies: Vec<&[Vec<Told>]> = replies.iter().map(Vec::as_slice).collect();
            merge(Quorums::of(3), 1, &replies, &[]).err()
        };
        let without = [vec![vec![accepted.clone()]], vec![vec![nothing.clone()]]];
        assert_eq!(unclear(&without), Some(Unclear::Unknown(Timestamp(5))));
        let with = [without[0].clone(), without[1].clone(), vec![vec![told(5, Some(true), &p)]]];
        assert_eq!(unclear(&with), None, "the third one has it");
        let over = |commit| vec![vec![Told { outcome: Some(commit), ..told(5, Some(true), &p) }]];
        assert_eq!(unclear(&[over(true), over(false)]), Some(Unclear::Contradicted(Timestamp(5))));
    }

    /// The third rule, and the last.
    #[test]
    fn a_majority_that_found_it_valid_commits_it_and_less_does_not() {
        let p = payload(5, None, Some(b"x"));
        let yes = || vec![told(5, Some(true), &p)];
        let no = || vec![told(5, Some(false), &p)];
        assert_eq!(outcomes(3, &[yes(), yes()]), [(5, true)]);
        assert_eq!(outcomes(3, &[yes(), no()]), [(5, false)]);
        assert_eq!(outcomes(3, &[yes(), vec![]]), [(5, false)]);
        assert_eq!(outcomes(5, &[yes(), no(), vec![]]), [(5, false)]);
    }

    /// The fourth rule: two of three replies found it valid, and two others may have.
    #[test]
    fn what_may_have_committed_on_the_fast_path_commits() {
        let p = payload(5, None, Some(b"x"));
        let yes = || vec![told(5, Some(true), &p)];
        assert_eq!(outcomes(5, &[yes(), yes(), vec![]]), [(5, true)]);
        assert_eq!(outcomes(5, &[yes(), yes(), vec![told(5, Some(false), &p)]]), [(5, true)]);
    }

    /// It did not commit on the fast path if something in conflict with it committed: it read what that one had overwritten.
    #[test]
    fn unless_it_is_in_conflict_with_one_that_committed() {
        let reader = payload(50, Some((b"x", 10)), Some(b"y"));
        let writer = payload(40, None, Some(b"x"));
        let yes = || told(50, Some(true), &reader);
        let over = Told { outcome: Some(true), ..told(40, Some(false), &writer) };
        assert_eq!(outcomes(5, &[vec![yes(), over], vec![yes()], vec![]]), [(40, true), (50, false)]);
        let majority = || told(40, Some(true), &writer);
        let replies = [vec![yes(), majority()], vec![yes(), majority()], vec![majority()]];
        assert_eq!(outcomes(5, &replies), [(40, true), (50, false)], "by the third rule");
    }

    /// Validation as in algorithm 1 would refuse these, and take back what clients were told.
    #[test]
    fn what_read_its_writes_or_wrote_after_it_is_no_conflict() {
        let first = payload(50, Some((b"x", 10)), Some(b"x"));
        let reads_it = payload(60, Some((b"x", 50)), None);
        let overwrites = payload(70, None, Some(b"x"));
        let yes = || told(50, Some(true), &first);
        let over = |ts, payload| Told { outcome: Some(true), ..told(ts, Some(true), payload) };
        let replies = [vec![yes(), over(60, &reads_it)], vec![yes(), over(70, &overwrites)], vec![]];
        assert_eq!(outcomes(5, &replies), [(50, true), (60, true), (70, true)]);
    }

    #[test]
    fn workers_are_merged_together_and_told_apart() {
        let reader = payload(50, Some((b"x", 10)), None);
        let writer = payload(41, None, Some(b"x"));
        let over = Told { outcome: Some(true), ..told(41, Some(true), &writer) };
        let yes = || vec![told(50, Some(true), &reader)];
        let replies = [vec![yes(), vec![over]], vec![yes(), vec![]], vec![vec![], vec![]]];
        let replies: Vec<&[Vec<Told>]> = replies.iter().map(Vec::as_slice).collect();
        let ended = merge(Quorums::of(5), 2, &replies, &[]).expect("it is clear");
        assert!(!ended[0][0].commit, "a conflict with a transaction of another worker");
        assert!(ended[1][0].commit);
    }
}
