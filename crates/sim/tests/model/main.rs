//! An exhaustive search through a small model of streams, election, watermark and the end of an epoch.
//!
//! The simulator draws schedules of the whole product; here *every* schedule of a small protocol is taken: three
//! replicas, two streams, transactions that all depend on one another, any loss and delay of messages (a partition is
//! loss for a while), crashes, takeovers that interrupt one another. The marks are computed by the product's own
//! [`Watermark`](highwater_engine_rolis::watermark::Watermark).
//!
//! Changes of membership have a model of their own ([`members`]), where marks have no part; and engine Meerkat has one ([`meerkat`]).
//!
//! Not in the models: lives of one node, and values (timestamps stand for them).
//!
//! docs/testing.md tells the two searches, their spaces and the commands.

mod judge;
mod meerkat;
mod members;
mod normal;
mod protocol;
mod state;

use foldhash::quality::FixedState;
use judge::{judge, released, replay};
use normal::{Normal, end, mirrored};
use protocol::{Action, Bounds, Mistake};
use state::{Entry, State};
use stateright::{Checker, HasDiscoveries, Model, Property};
use std::collections::HashSet;
use std::fmt::Debug;
use std::hash::{BuildHasher, Hash};

/// A search, and which of its states are judged.
trait Judged: Model {
    fn judged<'a>(&'a self, state: &'a Self::State) -> Option<(&'a Bounds, &'a State)>;

    fn verdict(&self, state: &Self::State) -> Result<(), &'static str> {
        self.judged(state).map_or(Ok(()), |(bounds, state)| judge(bounds, state))
    }
}

/// What must hold in all states that are judged, and what must happen in some.
fn properties<M: Judged>() -> Vec<Property<M>> {
    vec![
        Property::always("safe", |model: &M, state| model.verdict(state).is_ok()),
        Property::sometimes("a decided transaction is skipped", |model: &M, state| {
            model.judged(state).is_some_and(|(bounds, state)| skips(bounds, state))
        }),
        Property::sometimes("an entry straddles the final mark", |model: &M, state| {
            model.judged(state).is_some_and(|(bounds, state)| straddles(bounds, state))
        }),
        Property::sometimes("a later leader releases", |model: &M, state| {
            model.judged(state).is_some_and(|(bounds, state)| releases_later(bounds, state))
        }),
    ]
}

/// Every step in every order.
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
        properties()
    }
}

impl Judged for Bounds {
    fn judged<'a>(&'a self, state: &'a State) -> Option<(&'a Bounds, &'a State)> {
        Some((self, state))
    }
}

fn skips(bounds: &Bounds, state: &State) -> bool {
    first_epoch(bounds, state).iter().any(|(ts, _, last)| ts > last)
}

fn straddles(bounds: &Bounds, state: &State) -> bool {
    let all = first_epoch(bounds, state);
    let above = |entry| all.iter().any(|(ts, of, last)| *of == entry && ts > last);
    all.iter().any(|(ts, entry, last)| ts <= last && above(*entry))
}

fn releases_later(bounds: &Bounds, state: &State) -> bool {
    (2..=state.leads.len() as u8).any(|ballot| {
        let first = state.lead(ballot).transactions().next();
        first.is_some_and(|(ts, _)| released(bounds, state, ballot) >= Some(ts))
    })
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

/// Searches everything. `reaches`: the space is large enough for all that should be reachable.
fn search<M: Model<State: Hash + Send + Sync> + Debug + Send + Sync + 'static>(model: M, reaches: bool)
where
    M::State: Clone + Debug + PartialEq,
    M::Action: Clone + Debug + PartialEq,
{
    let (started, what) = (std::time::Instant::now(), format!("{model:?}"));
    let checker = model.checker().threads(2).spawn_dfs().join();
    let (states, steps, depth) = (checker.unique_state_count(), checker.state_count(), checker.max_depth());
    let seconds = started.elapsed().as_secs_f64();
    println!("{what}: {states} states, {steps} steps, up to {depth} deep, {seconds:.1} s");
    assert!(checker.discovery("safe").is_none(), "{:?}", checker.discovery("safe"));
    if reaches {
        checker.assert_properties();
    }
}

/// Whether the search finds the mistake, and what breaks.
fn caught<M>(model: M)
where
    M: Judged<State: Clone + Debug + Hash + PartialEq + Send + Sync> + Clone + Debug + Send + Sync + 'static,
    M::Action: Clone + Debug + PartialEq,
{
    let checker =
        model.clone().checker().threads(2).finish_when(HasDiscoveries::AnyFailures).spawn_bfs().join();
    let path = checker.discovery("safe").unwrap_or_else(|| panic!("{model:?}: the mistake was not found"));
    let what = model.verdict(path.last_state()).expect_err("the last state breaks a promise");
    println!("{model:?}: {what}, after {} states: {:?}", checker.unique_state_count(), path.into_actions());
}

/// Ballots, transactions per stream of the first leader and of later ones, crashes.
fn bounds(ballots: usize, first: usize, later: usize, crashes: u8) -> Bounds {
    Bounds { ballots, transactions: (first, later), crashes, mistake: None }
}

fn with(mistake: Mistake, bounds: Bounds) -> Bounds {
    Bounds { mistake: Some(mistake), ..bounds }
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

#[test]
fn every_schedule_of_one_takeover_is_safe() {
    search(bounds(2, 1, 0, 0), false);
}

#[test]
fn every_schedule_in_normal_form_is_safe() {
    search(Normal(bounds(2, 2, 0, 0)), false);
}

/// `MODEL=BALLOTS,FIRST,LATER` searches all runs in normal form, `MODEL=BALLOTS,FIRST,LATER,CRASHES` all runs.
#[test]
#[ignore = "minutes, and gigabytes: run it in release"]
fn every_schedule_of_a_chosen_space_is_safe() {
    match chosen("2,2,1")[..] {
        [ballots, first, later] => search(Normal(bounds(ballots, first, later, 0)), first > 1 && later > 0),
        [ballots, first, later, crashes] => search(bounds(ballots, first, later, crashes as u8), false),
        ref other => panic!("MODEL={other:?}: three numbers or four"),
    }
}

fn chosen(default: &str) -> Vec<usize> {
    let chosen = std::env::var("MODEL").unwrap_or(default.into());
    chosen.split(',').map(|number| number.parse().expect("MODEL is numbers")).collect()
}

/// All that can be judged.
fn views<M: Model<State: Hash>, V: Hash + Eq>(
    model: &M,
    view: impl Fn(&M::State) -> Option<V>,
) -> HashSet<V, FixedState> {
    // States are told apart by 64 bits: a hash of good quality. Most of the time goes into it.
    let hash = |state: &M::State| FixedState::default().hash_one(state);
    let (mut views, mut seen) = (HashSet::default(), HashSet::<u64, FixedState>::default());
    let mut actions = Vec::new();
    let mut open = model.init_states();
    while let Some(state) = open.pop() {
        views.extend(view(&state));
        model.actions(&state, &mut actions);
        for next in actions.drain(..).filter_map(|action| model.next_state(&state, action)) {
            if seen.insert(hash(&next)) {
                open.push(next);
            }
        }
    }
    views
}

/// What every step in every order shows, runs in normal form show, and the reverse.
fn compare(bounds: Bounds) {
    let decided = |state: &State| state.leads.iter().map(|lead| lead.decided).collect::<Vec<_>>();
    let all = views(&bounds, |state| Some(numbered(end(state, &decided(state)))));
    let normal = Normal(bounds);
    let mut few = views(&normal, |course| normal.judged(course).map(|(_, state)| numbered(state.clone())));
    few.extend(few.iter().map(mirrored).collect::<Vec<_>>());
    let lost: Vec<_> = all.difference(&few).take(1).collect();
    let more: Vec<_> = few.difference(&all).take(1).collect();
    println!("{normal:?}: {} views, {} in normal form; lost {lost:#?}, more {more:#?}", all.len(), few.len());
    assert!(lost.is_empty() && more.is_empty());
}

#[test]
fn normal_runs_lose_nothing() {
    compare(bounds(2, 1, 0, 0));
    compare(bounds(3, 0, 0, 0));
}

/// The same for `MODEL=BALLOTS,FIRST,LATER`.
#[test]
#[ignore = "minutes: run it in release"]
fn normal_runs_lose_nothing_of_a_chosen_space() {
    let [ballots, first, later] = chosen("2,1,1")[..] else { panic!("MODEL: three numbers") };
    compare(bounds(ballots, first, later, 0));
}

#[test]
fn mistakes_are_found() {
    caught(with(Mistake::NoFence, bounds(2, 1, 0, 0)));
    caught(with(Mistake::SilentStream, bounds(1, 1, 0, 0)));
    caught(with(Mistake::RashClaim, bounds(1, 1, 0, 0)));
    caught(with(Mistake::EarlyClaim, bounds(1, 2, 0, 0)));
}

#[test]
fn mistakes_are_found_in_normal_form() {
    caught(Normal(with(Mistake::NoFence, bounds(2, 1, 0, 0))));
    caught(Normal(with(Mistake::SilentStream, bounds(1, 1, 0, 0))));
    caught(Normal(with(Mistake::RashClaim, bounds(1, 1, 0, 0))));
    caught(Normal(with(Mistake::EarlyClaim, bounds(1, 2, 0, 0))));
    caught(Normal(with(Mistake::Amnesia, bounds(2, 1, 0, 1))));
    caught(Normal(with(Mistake::Granularity, bounds(2, 2, 0, 0))));
    caught(Normal(with(Mistake::LongestLog, bounds(3, 1, 0, 0))));
}

/// The same with ballots of which something is decided numbered without gaps.
fn numbered(mut view: State) -> State {
    let epoch = |entry: &Entry| match *entry {
        Entry::Change { epoch, .. } | Entry::Batch { epoch, .. } => epoch,
    };
    let mut used: Vec<u8> = view.leads.iter().flat_map(|lead| lead.log.iter().flatten()).map(epoch).collect();
    used.extend((1..=view.leads.len() as u8).filter(|ballot| view.lead(*ballot).leading));
    used.sort_unstable();
    used.dedup();
    let number = |epoch: u8| used.iter().position(|used| *used == epoch).expect("listed") as u8 + 1;
    view.leads = used.iter().filter_map(|ballot| view.leads.get(*ballot as usize - 1).cloned()).collect();
    for entry in view.leads.iter_mut().flat_map(|lead| &mut lead.log).flatten() {
        match entry {
            Entry::Change { epoch, .. } | Entry::Batch { epoch, .. } => *epoch = number(*epoch),
        }
    }
    view
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
    let story = bounds(2, 1, 1, 1);
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
    let bounds = bounds(2, 2, 1, 1);
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
