//! An exhaustive search through a small model of streams, election, watermark and the end of an epoch.
//!
//! The simulator draws schedules of the whole product; here *every* schedule of a small protocol is taken: three
//! replicas, two streams, transactions that all depend on one another, any loss and delay of messages (a partition is
//! loss for a while), crashes, takeovers that interrupt one another. The marks are computed by the product's own
//! [`Progress`](highwater_engines::rolis::watermark::Progress).
//!
//! Not in the model: changes of membership, copies, and values (timestamps stand for them).
//!
//! `cargo test --release -p highwater-sim --test model -- --ignored --nocapture` searches the large space.

mod judge;
mod protocol;

use judge::{judge, released, replay};
use protocol::{Action, Bounds, Entry, Mistake, State};
use stateright::{Checker, Model, Property};

impl Model for Bounds {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        vec![self.start()]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        Bounds::actions(self, state, actions);
    }

    fn next_state(&self, state: &State, action: Action) -> Option<State> {
        self.step(state, action)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always("safe", |bounds: &Bounds, state| judge(bounds, state).is_ok()),
            Property::sometimes("a decided transaction is skipped", |bounds, state| {
                first_epoch(bounds, state).iter().any(|(ts, _, last)| ts > last)
            }),
            Property::sometimes("an entry straddles the final mark", |bounds, state| {
                let all = first_epoch(bounds, state);
                let above = |entry| all.iter().any(|(ts, of, last)| *of == entry && ts > last);
                all.iter().any(|(ts, entry, last)| ts <= last && above(*entry))
            }),
            Property::sometimes("a later leader releases", |bounds, state: &State| {
                (2..=state.leads.len() as u8).any(|ballot| {
                    let first = state.lead(ballot).transactions().next();
                    first.is_some_and(|(ts, _)| released(bounds, state, ballot) >= Some(ts))
                })
            }),
        ]
    }
}

/// Once epoch 1 has ended: its decided transactions with their entries (stream, position), and the final mark.
fn first_epoch(bounds: &Bounds, state: &State) -> Vec<(u8, (usize, usize), u8)> {
    let (Ok(first), Ok(second)) = (state.decided(0), state.decided(1)) else { return Vec::new() };
    let Some(last) = replay(bounds, [first, second]).final_mark(1) else { return Vec::new() };
    let entry = |ts: u8, stream: usize| {
        let holds = |entry: &Entry| matches!(*entry, Entry::Batch { epoch: 1, closed, .. } if closed >= ts);
        [first, second][stream].iter().position(holds)
    };
    let decided = |(ts, stream)| Some((ts, (stream, entry(ts, stream)?), last));
    state.lead(1).transactions().filter_map(decided).collect()
}

/// Searches everything.
fn search(bounds: Bounds) {
    let (started, what) = (std::time::Instant::now(), format!("{bounds:?}"));
    let checker = bounds.checker().threads(2).spawn_bfs().join();
    let (states, depth, length) = (checker.unique_state_count(), checker.max_depth(), started.elapsed());
    println!("{what}: {states} states, up to {depth} steps deep, {:.0} s", length.as_secs_f64());
    assert!(checker.discovery("safe").is_none(), "{:?}", checker.discovery("safe"));
    if states > 5_000_000 {
        // Small spaces do not reach all of what should be reachable.
        checker.assert_properties();
    }
}

/// Whether the search finds the mistake, and what breaks.
fn caught(mistake: Mistake, bounds: Bounds) {
    let bounds = Bounds { mistake: Some(mistake), ..bounds };
    let judge_by = bounds.clone();
    let checker = bounds.checker().threads(2).finish_when(stateright::HasDiscoveries::AnyFailures);
    let checker = checker.spawn_bfs().join();
    let path = checker.discovery("safe").unwrap_or_else(|| panic!("{mistake:?} was not found"));
    let what = judge(&judge_by, path.last_state()).expect_err("the last state breaks a promise");
    println!("{mistake:?}: {what}, after {} states: {:?}", checker.unique_state_count(), path.into_actions());
}

/// Runs steps that must all be possible.
fn run(bounds: &Bounds, steps: &[Action]) -> State {
    let mut state = bounds.start();
    for (at, action) in steps.iter().enumerate() {
        state = bounds.step(&state, *action).unwrap_or_else(|| panic!("step {at}, {action:?}, is possible"));
        assert_eq!(judge(bounds, &state), Ok(()), "after step {at}, {action:?}");
    }
    state
}

const SMALL: Bounds = Bounds { ballots: 2, transactions: (1, 1), crashes: 0, mistake: None };

#[test]
fn every_schedule_of_one_takeover_is_safe() {
    search(Bounds { ballots: 2, transactions: (1, 0), crashes: 0, mistake: None });
}

/// The large spaces: crashes, more transactions, a takeover that may be interrupted by another one.
/// `MODEL=BALLOTS,FIRST,LATER,CRASHES` chooses another one.
#[test]
#[ignore = "minutes, and gigabytes: run it in release"]
fn every_schedule_of_larger_spaces_is_safe() {
    let chosen = std::env::var("MODEL").ok();
    let chosen = chosen.as_deref().map(|chosen| {
        let numbers: Vec<u8> = chosen.split(',').map(|n| n.parse().expect("MODEL=2,1,1,1")).collect();
        [numbers[0], numbers[1], numbers[2], numbers[3]]
    });
    let spaces = [[2, 1, 0, 1], [2, 1, 1, 0], [2, 2, 0, 0], [3, 1, 0, 0]];
    for [ballots, first, later, crashes] in chosen.map_or(spaces.to_vec(), |chosen| vec![chosen]) {
        let transactions = (first.into(), later.into());
        search(Bounds { ballots: ballots.into(), transactions, crashes, mistake: None });
    }
}

#[test]
fn mistakes_are_found() {
    caught(Mistake::NoFence, Bounds { transactions: (1, 0), ..SMALL });
    caught(Mistake::SilentStream, Bounds { ballots: 1, transactions: (1, 0), ..SMALL });
    caught(Mistake::RashClaim, Bounds { ballots: 1, transactions: (1, 0), ..SMALL });
    caught(Mistake::EarlyClaim, Bounds { ballots: 1, transactions: (2, 0), ..SMALL });
}

#[test]
#[ignore = "minutes, and gigabytes: run it in release"]
fn deeper_mistakes_are_found() {
    caught(Mistake::Amnesia, Bounds { transactions: (1, 0), crashes: 1, ..SMALL });
    caught(Mistake::Granularity, Bounds { transactions: (2, 0), ..SMALL });
    caught(Mistake::LongestLog, Bounds { ballots: 3, transactions: (1, 0), ..SMALL });
}

use Action::{Accept, Campaign, Crash, Execute, Lead, Promise, Seal};

/// A takeover by `node` with the votes of `node` and `other`, until its epoch is decided in both streams.
fn takeover(ballot: u8, node: usize, other: usize) -> Vec<Action> {
    let mut steps = vec![Campaign(node)];
    for voter in [node, other] {
        steps.extend([Promise(ballot, 0, voter), Promise(ballot, 1, voter)]);
    }
    steps.push(Lead(ballot));
    for stream in 0..2 {
        steps.extend([Accept(ballot, stream, other), Accept(ballot, stream, other)]);
    }
    steps
}

/// Alice pays Bob in stream 0, Bob pays Charlie with that money in stream 1. Stream 1 is decided, stream 0 is lost with
/// the leader. Neither was released, and neither is applied.
#[test]
fn paper_figure_3() {
    let story = Bounds { crashes: 1, ..SMALL };
    let mut steps = vec![Execute(1, 0), Execute(1, 1), Seal(1, 1), Seal(1, 0), Accept(1, 1, 1), Crash(0)];
    let before = run(&story, &steps);
    assert_eq!(released(&story, &before, 1), Some(1), "nothing above the base");
    steps.extend(takeover(2, 1, 2));
    let after = run(&story, &steps);
    let replayed = replay(&story, [after.decided(0).unwrap(), after.decided(1).unwrap()]);
    assert_eq!((replayed.epoch, replayed.final_mark(1)), (2, Some(1)));
    let charlie = after.decided(1).unwrap().iter().any(|entry| matches!(entry, Entry::Batch { .. }));
    assert!(charlie, "Bob's payment is decided, and skipped");
}

/// One stream misses its tail: what the other holds above its last entry is skipped, though decided; what is below was
/// released and stays.
#[test]
fn paper_figure_8() {
    let bounds = Bounds { transactions: (2, 1), crashes: 1, ..SMALL };
    let mut steps = vec![Execute(1, 0), Seal(1, 0), Execute(1, 1), Seal(1, 1)];
    steps.extend([Accept(1, 0, 1), Accept(1, 1, 1)]);
    steps.extend([Execute(1, 1), Execute(1, 0), Seal(1, 0), Accept(1, 0, 1), Seal(1, 1)]);
    let before = run(&bounds, &steps);
    let mark = released(&bounds, &before, 1).unwrap();
    assert_eq!(mark, 3, "the first two; stream 1 holds the rest");
    steps.extend([Crash(0)]);
    steps.extend(takeover(2, 1, 2));
    let after = run(&bounds, &steps);
    let replayed = replay(&bounds, [after.decided(0).unwrap(), after.decided(1).unwrap()]);
    assert_eq!(replayed.final_mark(1), Some(3));
}
