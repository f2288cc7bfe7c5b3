//! The searches.

use std::fmt::{Debug, Formatter, Result};
use std::time::Instant;

use stateright::{Checker, HasDiscoveries, Model, Property};

use super::*;

const X: Set = 1;
const Y: Set = 2;

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
        self.step(state, step).map(|state| state.like(self.nodes, &self.intents))
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![Property::always("safe", |bounds: &Bounds, state: &State| bounds.judge(state).is_ok())]
    }
}

impl Debug for Bounds {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        let Bounds { nodes, intents, views, epochs, rounds, wipes, trims, strict, mistake, .. } = self;
        write!(f, "{nodes} nodes, {intents:?}, {views} views, {epochs} epochs, {rounds} rounds, {wipes} wipes")?;
        write!(f, ", trims: {trims}, strict: {strict}, mistake: {mistake:?}")
    }
}

fn intent(node: usize, reads: Set, writes: Set) -> Intent {
    Intent { node, reads, writes }
}

fn bounds(nodes: usize, intents: &[Intent]) -> Bounds {
    Bounds {
        nodes,
        intents: intents.to_vec(),
        views: 1,
        epochs: 1,
        rounds: 1,
        wipes: 0,
        trims: false,
        strict: false,
        mistake: None,
        rules: Arc::new(Rules::new(nodes, false, None)),
    }
}

impl Bounds {
    fn with(self, views: usize, epochs: u8, rounds: u8, wipes: u8) -> Bounds {
        Bounds { views, epochs, rounds, wipes, ..self }
    }

    fn trimmed(self) -> Bounds {
        Bounds { trims: true, ..self }
    }

    fn strict(self) -> Bounds {
        Bounds { strict: true, rules: Arc::new(Rules::new(self.nodes, true, self.mistake)), ..self }
    }

    fn wrong(self, mistake: Mistake) -> Bounds {
        let rules = Arc::new(Rules::new(self.nodes, self.strict, Some(mistake)));
        Bounds { mistake: Some(mistake), rules, ..self }
    }
}

/// Transactions in the order of their timestamps.
fn read_of_the_old() -> [Intent; 2] {
    [intent(0, 0, X), intent(1, X, 0)]
}

fn lost_update() -> [Intent; 2] {
    [intent(0, X, X), intent(1, X, X)]
}

fn write_skew() -> [Intent; 2] {
    [intent(0, X, Y), intent(1, Y, X)]
}

fn search(what: &str, bounds: Bounds) {
    let started = Instant::now();
    let checker = bounds.clone().checker().threads(2).spawn_dfs().join();
    let (states, steps, depth) = (checker.unique_state_count(), checker.state_count(), checker.max_depth());
    let seconds = started.elapsed().as_secs_f64();
    println!("{what}: {states} states, {steps} steps, up to {depth} deep, {seconds:.1} s");
    if let Some(path) = checker.discovery("safe") {
        panic!("{what}: {:?}: {:#?}", bounds.judge(path.last_state()), path.into_actions());
    }
}

/// A space to look at: `MODEL=NODES,PATTERN,VIEWS,EPOCHS,ROUNDS,WIPES,TRIMS,STRICT`.
#[test]
#[ignore = "as long as it takes"]
fn every_schedule_of_a_chosen_space() {
    let [nodes, pattern, views, epochs, rounds, wipes, trims, strict] =
        crate::chosen("3,0,1,1,1,0,0,0")[..]
    else {
        panic!("MODEL: eight numbers")
    };
    let intents: Vec<Intent> = match pattern {
        0 => read_of_the_old().to_vec(),
        1 => lost_update().to_vec(),
        2 => write_skew().to_vec(),
        _ => vec![intent(0, 0, X), intent(1, X, Y), intent(2, Y, X)],
    };
    let bounds = bounds(nodes, &intents).with(views, epochs as u8, rounds as u8, wipes as u8);
    let bounds = if trims > 0 { bounds.trimmed() } else { bounds };
    let bounds = if strict > 0 { bounds.strict() } else { bounds };
    search(&format!("{bounds:?}"), bounds);
}
