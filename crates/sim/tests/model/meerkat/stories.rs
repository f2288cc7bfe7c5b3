//! Schedules that tell why a rule is as it is: with the rule all is well, without it a promise breaks at the last step. Most are of five
//! replicas, where a change of epoch that hears three may have to commit what two of them found valid.

use super::tests::{bounds, intent};
use super::*;
use Step::{
    Accept, Back, Begin, Collect, Conclude, Enter, Learn, Merge, Pause, Promise, Propose, Ripen, Settle,
    Tick, Trim, Validate,
};

const X: Set = 1;
const Y: Set = 2;

/// Runs steps that must all be possible; the first promise that is broken, which must be at the last one.
fn run(bounds: &Bounds, steps: &[Step]) -> Option<&'static str> {
    let mut state = bounds.start();
    for (at, step) in steps.iter().enumerate() {
        state = bounds.step(&state, *step).unwrap_or_else(|| panic!("step {at}, {step:?}, is possible"));
        if let Err(broken) = bounds.judge(&state) {
            assert_eq!(at + 1, steps.len(), "{broken} after {step:?}");
            return Some(broken);
        }
    }
    None
}

/// The change of epoch by the word of three, until the first of them has begun the next one.
fn change(of: [usize; 3]) -> Vec<Step> {
    let set = of.iter().fold(0, |all, node| all | bit(*node));
    let mut steps: Vec<Step> = of.iter().map(|node| Pause(*node, 1)).collect();
    steps.push(Merge(1, 1, set));
    steps.push(Enter(of[0], 1));
    steps
}

fn five(intents: &[Intent]) -> Bounds {
    bounds(5, intents).with(1, 2, 1, 0)
}

/// Section 5.3.1, rule 4: "re-validated using OCC checks similar to those in Alg. 1". Four of five find a write valid, and its client is
/// told so. A later transaction reads what it wrote. The change of epoch hears two of the four and knows that the read commits: algorithm
/// 1 refuses a write below a committed read, though it is what was read.
#[test]
fn rule_4_with_algorithm_1_takes_back_what_was_acknowledged() {
    let right = five(&[intent(0, 0, X), intent(1, X, 0)]);
    let mut steps = vec![Begin(0), Validate(1, 0), Validate(2, 0), Validate(3, 0), Settle(0, true)];
    steps.extend([Conclude(1, 0), Begin(1), Validate(2, 1), Validate(3, 1), Validate(4, 1)]);
    steps.extend(change([2, 3, 4]));
    assert_eq!(run(&right, &steps), None);
    assert_eq!(run(&right.wrong(Mistake::Coarse), &steps), Some("a transaction has two outcomes"));
}

/// A key is inserted and deleted, both on the fast path of four. A node that has heard of neither reads that there is none, which is as true as it was:
/// two others agree, if they may, and its client is told. The change of epoch hears two of these three, and knows the insert.
#[test]
fn rule_4_takes_back_what_was_valid_because_nothing_is_nothing() {
    let right = bounds(4, &[intent(3, 0, X), intent(3, X, X).deleting(X), intent(0, X, Y)]).with(1, 2, 1, 0);
    let wrong = right.clone().wrong(Mistake::AbsentIsAbsent);
    let mut steps = Vec::new();
    for tx in 0..2 {
        steps.extend([Begin(tx), Validate(1, tx), Validate(2, tx), Settle(tx, true)]);
        steps.extend([Conclude(1, tx), Conclude(2, tx)]);
    }
    steps.extend([Begin(2), Validate(1, 2), Validate(2, 2), Settle(2, true)]);
    let state = steps[..steps.len() - 1]
        .iter()
        .fold(right.start(), |state, step| right.step(&state, *step).expect("it is possible"));
    assert_eq!(right.step(&state, Settle(2, true)), None, "two refuse it");
    steps.extend(change([1, 2, 3]));
    assert_eq!(run(&wrong, &steps), Some("a transaction has two outcomes"));
}

/// The same where the key was over everywhere before: who has collected the tombstone, and who has not, find the same.
#[test]
fn no_trace_is_as_of_what_was_over_everywhere() {
    let right = bounds(4, &[intent(3, 0, X), intent(3, X, X).deleting(X), intent(0, X, Y)]);
    let right = right.with(1, 2, 1, 0).trimmed();
    let mut steps = Vec::new();
    for tx in 0..2 {
        steps.extend([Begin(tx), Validate(1, tx), Validate(2, tx), Settle(tx, true)]);
        steps.extend((0..3).map(|node| Conclude(node, tx)));
    }
    steps.extend([Collect(0), Collect(1), Begin(2), Validate(1, 2), Validate(2, 2), Settle(2, true)]);
    steps.extend(change([1, 2, 3]));
    assert_eq!(run(&right, &steps), None);
}

/// Two of five find a read valid; three find the write valid that it misses, and that commits with a second round.
fn a_read_that_misses_a_write() -> (Bounds, Vec<Step>) {
    let mut steps = vec![Begin(0), Validate(2, 0), Validate(3, 0), Begin(1), Validate(4, 1)];
    steps.extend([Propose(0, true), Accept(2, 0, 0), Accept(3, 0, 0), Learn(0, 0)]);
    (five(&[intent(0, 0, X), intent(1, X, 0)]), steps)
}

const MISSED: Option<&str> = Some("a committed read did not see the newest write before it");

#[test]
fn rule_4_without_its_check_commits_what_missed_a_write() {
    let (right, mut steps) = a_read_that_misses_a_write();
    steps.extend(change([1, 4, 2]));
    assert_eq!(run(&right, &steps), None);
    assert_eq!(run(&right.wrong(Mistake::NotRevalidated), &steps), MISSED);
}

/// The write is over everywhere. Those who found the read valid before they heard of it keep its record while the read is under way;
/// others need not.
#[test]
fn a_record_that_goes_while_an_older_transaction_is_under_way_is_missed_by_rule_4() {
    let (right, mut steps) = a_read_that_misses_a_write();
    let right = right.trimmed();
    steps.extend((1..5).map(|node| Conclude(node, 0)));
    steps.push(Trim(2, 0));
    let kept = [steps.clone(), change([1, 4, 2])].concat();
    assert_eq!(run(&right, &kept), None);
    steps.extend([Trim(1, 0), Trim(4, 0)]);
    steps.extend(change([1, 4, 2]));
    assert_eq!(run(&right.wrong(Mistake::TrimmedEarly), &steps), MISSED);
}

/// Three of five say yes to a write when their clocks have come to its time, and its client is told. A read that begins then, at a node
/// whose clock is behind, finds one other such: two of five, as many as a fast path of four would show to a change of epoch.
#[test]
fn rule_4_of_a_fast_path_with_less_than_all_breaks_real_time() {
    let right = five(&[intent(0, X, 0), intent(1, 0, X)]).strict();
    let mut steps = vec![Begin(1), Validate(2, 1), Validate(3, 1)];
    for node in 1..4 {
        steps.extend([Tick(node), Tick(node), Ripen(node, 1)]);
    }
    steps.extend([Propose(1, true), Accept(2, 1, 0), Accept(3, 1, 0), Learn(1, 0)]);
    steps.extend([Begin(0), Tick(0), Ripen(0, 0), Validate(4, 0), Tick(4), Ripen(4, 0)]);
    steps.extend(change([0, 4, 2]));
    assert_eq!(run(&right, &steps), None);
    let broken = Some("a transaction is before one that was answered before it began");
    assert_eq!(run(&right.wrong(Mistake::LessThanAll), &steps), broken);
}

/// A backup coordinator commits a write by votes that are withheld, and its client is told before a clock has come so far. A read that
/// begins then may be before it. With the rule who promises takes the vote back, and the backup may not commit.
#[test]
fn votes_that_are_withheld_commit_nothing() {
    let right = bounds(3, &[intent(0, X, 0), intent(1, 0, X)]).with(2, 1, 1, 0).strict();
    let begun = vec![Begin(1), Validate(2, 1), Promise(1, 1, 1), Promise(2, 1, 1)];
    let state =
        begun.iter().fold(right.start(), |state, step| right.step(&state, *step).expect("it is possible"));
    assert_eq!(right.step(&state, Back(1, 1, true)), None);
    assert!(right.step(&state, Back(1, 1, false)).is_some());
    let mut steps = begun;
    steps.extend([Back(1, 1, true), Accept(1, 1, 1), Accept(2, 1, 1), Learn(1, 1), Conclude(1, 1)]);
    steps.extend([Begin(0), Validate(2, 0), Tick(0), Tick(2), Ripen(0, 0), Ripen(2, 0)]);
    steps.extend([Propose(0, true), Accept(2, 0, 0), Learn(0, 0)]);
    let broken = Some("a transaction is before one that was answered before it began");
    assert_eq!(run(&right.wrong(Mistake::WithheldTold), &steps), broken);
}
