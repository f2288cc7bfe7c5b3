//! What is searched, and what must be found.

use stateright::{Checker, HasDiscoveries, Model, Property};

use super::steps::Step;
use super::*;

impl Model for Bounds {
    type State = State;
    type Action = Step;

    fn init_states(&self) -> Vec<State> {
        vec![self.start()]
    }

    fn actions(&self, state: &State, steps: &mut Vec<Step>) {
        self.steps(state, steps);
    }

    fn next_state(&self, state: &State, step: Step) -> Option<State> {
        self.step(state, step)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always("safe", |_, state: &State| state.judge().is_ok()),
            Property::sometimes("a change is made", |model: &Bounds, state: &State| {
                state
                    .leads
                    .iter()
                    .any(|lead| lead.phase == Phase::Opened && lead.members.voters != model.voters)
            }),
        ]
    }
}

const ADD_3: Change = Change { admits: Some(3), removes: None };
const ADD_2: Change = Change { admits: Some(2), removes: None };
const REMOVE_1: Change = Change { admits: None, removes: Some(1) };
const REMOVE_2: Change = Change { admits: None, removes: Some(2) };
const REMOVE_3: Change = Change { admits: None, removes: Some(3) };
const REPLACE_2_BY_3: Change = Change { admits: Some(3), removes: Some(2) };

fn bounds(voters: Nodes, changes: &[Change], ballots: usize, batches: usize) -> Bounds {
    Bounds { voters, changes: changes.to_vec(), ballots, batches, normal: true, mistake: None }
}

fn search(what: &str, bounds: Bounds) {
    let started = std::time::Instant::now();
    let checker = bounds.checker().threads(2).spawn_dfs().join();
    let (states, steps, depth) = (checker.unique_state_count(), checker.state_count(), checker.max_depth());
    println!(
        "{what}: {states} states, {steps} steps, up to {depth} deep, {:.1} s",
        started.elapsed().as_secs_f64()
    );
    checker.assert_properties();
}

/// The mistake is found, breadth first.
fn caught(mistake: Mistake, bounds: Bounds) {
    let model = Bounds { mistake: Some(mistake), ..bounds };
    told(
        &model,
        model.clone().checker().threads(2).finish_when(HasDiscoveries::AnyFailures).spawn_bfs().join(),
    );
}

/// The same, depth first: where what breaks lies deep.
fn caught_deep(mistake: Mistake, bounds: Bounds) {
    let model = Bounds { mistake: Some(mistake), ..bounds };
    told(
        &model,
        model.clone().checker().threads(2).finish_when(HasDiscoveries::AnyFailures).spawn_dfs().join(),
    );
}

fn told(model: &Bounds, checker: impl Checker<Bounds>) {
    let mistake = model.mistake.expect("there is one");
    let path = checker.discovery("safe").unwrap_or_else(|| panic!("{mistake:?} was not found"));
    let what = path.last_state().judge().expect_err("the last state breaks a promise");
    println!("{mistake:?}: {what}, after {} states: {:?}", checker.unique_state_count(), path.into_actions());
}

/// A leader's node, its logs, what it decided, and its members.
type Won = (usize, [Vec<Entry>; STREAMS], [u8; STREAMS], Members);

/// What is judged: of each ballot that won its log, its members, and what it decided. Ballots are numbered without those that did not win.
fn view(bounds: &Bounds, state: &State) -> Vec<Won> {
    let won = |lead: &&Lead| lead.phase >= Phase::Leads;
    let number = |of: Ballot| state.leads[..of as usize].iter().filter(won).count() as Ballot;
    let numbered = |members: Members| Members { epoch: number(members.epoch), ..members };
    let entry = |entry: &Entry| match *entry {
        Entry::Change(members) => Entry::Change(numbered(members)),
        Entry::Batch(of) => Entry::Batch(number(of)),
    };
    let log = |log: &Vec<Entry>| log.iter().map(entry).collect::<Vec<_>>();
    let one = |(at, lead): (usize, &Lead)| {
        let mut logs = [log(&lead.log[0]), log(&lead.log[1])];
        // Of the last one nobody asks what it decides.
        if at + 1 == bounds.ballots {
            (0..STREAMS).for_each(|stream| logs[stream].truncate(lead.taken[stream] as usize + 1));
            return (lead.node, logs, [0; STREAMS], numbered(lead.members));
        }
        (lead.node, logs, lead.decided, numbered(lead.members))
    };
    state.leads.iter().enumerate().filter(|(_, lead)| won(lead)).map(one).collect()
}

/// Runs in normal form show what all runs show.
fn compare(bounds: Bounds) {
    let all = crate::views(&Bounds { normal: false, ..bounds.clone() }, |state| Some(view(&bounds, state)));
    let few = crate::views(&bounds, |state| Some(view(&bounds, state)));
    println!("{bounds:?}: {} views, {} in normal form", all.len(), few.len());
    assert_eq!(all.difference(&few).next(), None, "lost");
    assert_eq!(few.difference(&all).next(), None, "more");
}

#[test]
fn normal_runs_of_changes_lose_nothing() {
    compare(bounds(0b111, &[REMOVE_2], 2, 1));
    compare(bounds(0b11, &[ADD_2], 2, 1));
    compare(bounds(0b111, &[REPLACE_2_BY_3], 2, 0));
}

#[test]
fn every_change_of_members_is_safe() {
    search("2 -> 3, 3 ballots", bounds(0b11, &[ADD_2], 3, 0));
    search("3 -> 2, 3 ballots, one entry each", bounds(0b111, &[REMOVE_2], 3, 1));
}

/// The larger ones; `MODEL` says which, by number.
#[test]
#[ignore = "minutes, and gigabytes"]
fn every_change_of_members_in_larger_spaces_is_safe() {
    let spaces = [
        ("2 -> 3, 3 ballots, one entry each", bounds(0b11, &[ADD_2], 3, 1)),
        ("one of three replaced, 3 ballots", bounds(0b111, &[REPLACE_2_BY_3], 3, 0)),
        ("4 -> 3, 3 ballots", bounds(0b1111, &[REMOVE_3], 3, 0)),
        ("3 -> 2, 4 ballots", bounds(0b111, &[REMOVE_2], 4, 0)),
        ("2 -> 3, 4 ballots", bounds(0b11, &[ADD_2], 4, 0)),
        ("2 -> 3 -> 2, 4 ballots", bounds(0b11, &[ADD_2, REMOVE_1], 4, 0)),
        ("one of three replaced, 3 ballots, one entry each", bounds(0b111, &[REPLACE_2_BY_3], 3, 1)),
    ];
    for at in crate::chosen("0,1,2,3,4,5") {
        let (what, bounds) = &spaces[at];
        search(what, bounds.clone());
    }
}

/// A removed voter's acknowledgement decides with the leader's, and the two others know nothing of it.
#[test]
fn a_removed_voter_that_counts_is_found() {
    caught_deep(Mistake::RemovedCounts, bounds(0b1111, &[REMOVE_3], 3, 1));
}

#[test]
fn an_old_majority_that_is_not_asked_is_found() {
    caught(Mistake::OldNotAsked, bounds(0b111, &[REPLACE_2_BY_3], 4, 0));
}

#[test]
fn new_members_that_decide_their_own_coming_are_found() {
    caught(Mistake::UsedEarly, bounds(0b111, &[REPLACE_2_BY_3], 3, 0));
}

#[test]
fn a_newcomer_that_lacks_a_part_of_the_state_is_found() {
    caught(Mistake::Incomplete, bounds(0b11, &[ADD_2], 3, 0));
}

#[test]
fn two_changes_at_once_are_found() {
    caught(Mistake::TwoAtOnce, bounds(0b111, &[REMOVE_2, ADD_3], 2, 0));
}

/// Majorities and changes are the product's.
#[test]
fn members_are_counted_as_the_product_counts_them() {
    use highwater_consensus::{MembersChange, Quorums, Voter};
    use highwater_core::{Epoch, Incarnation, NodeId};
    let node = |node: usize| NodeId(node as u8);
    let voter = |at: usize| Voter { node: node(at), incarnation: Incarnation(1) };
    let all = |set: Nodes| (0..NODES).filter(move |node| set & bit(*node) != 0);
    for voters in 1..1 << NODES {
        let members = Members { epoch: 1, voters, removed: 0 };
        let product = highwater_consensus::Members::new(Epoch(1), all(voters).map(voter).collect());
        for agree in 0..1 << NODES {
            let counted =
                Quorums::of(product.clone()).reached(|voter| agree & bit(voter.node.0 as usize) != 0);
            assert_eq!(members.reached(agree, None), counted, "{agree:b} of {voters:b}");
        }
        for (comes, goes) in (0..=NODES).flat_map(|comes| (0..=NODES).map(move |goes| (comes, goes))) {
            let some = |at: usize| (at < NODES).then_some(at);
            let change = Change { admits: some(comes), removes: some(goes) };
            let wanted = MembersChange {
                admits: some(comes).map(voter),
                removes: some(goes).map(node),
                contact: None,
            };
            let (after, changed) = (members.changed(2, change), product.changed(Epoch(2), &wanted));
            let set = |of: &[Voter]| of.iter().fold(0, |set, voter| set | bit(voter.node.0 as usize));
            assert_eq!(
                (after.voters, after.removed),
                (set(changed.voters()), set(changed.removed())),
                "{change:?} of {voters:b}"
            );
        }
    }
}
