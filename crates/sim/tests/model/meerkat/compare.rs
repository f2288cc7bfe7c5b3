//! What the model states anew is what the product does.

use highwater_core::{IndexKind, KeyKind, Schema, TableSpec, Timestamp};
use highwater_kit::validation::marks::Marks;
use highwater_kit::validation::validate::{unmark, validate};
use highwater_store::{Applier, Latest, Store};

use super::tests::{bounds, intent};
use super::*;

const X: Set = 1;
const Y: Set = 2;
const Z: Set = 4;

/// The product's marks and store, as one replica has them.
struct Real {
    marks: Marks,
    latest: Latest,
    applier: Applier,
    marked: Set,
}

impl Real {
    fn new() -> Real {
        let spec = TableSpec { name: "t", keys: KeyKind::Bytes, index: IndexKind::Ordered };
        let schema = Schema::new(vec![spec]);
        let (marks, store) = (Marks::new(&schema, 0), Store::new(schema));
        Real { marks, latest: Latest::new(store.clone()), applier: Applier::new(store), marked: 0 }
    }

    fn validate(&mut self, bounds: &Bounds, state: &State, tx: usize) -> bool {
        let payload = product::payload(bounds, tx, state.txs[tx].versions, state.txs[tx].as_of);
        let ts = Timestamp(ts(tx).into());
        let valid = validate(&self.marks, &mut self.latest, &payload, ts).is_ok();
        self.marked |= if valid { bit(tx) } else { 0 };
        valid
    }

    /// As `conclude` in `worker/replicate.rs`.
    fn conclude(&mut self, bounds: &Bounds, state: &State, tx: usize, commit: bool) {
        let payload = product::payload(bounds, tx, state.txs[tx].versions, state.txs[tx].as_of);
        if commit && !payload.transaction().is_empty() {
            let applied = self.applier.apply(payload.transaction(), Timestamp::ZERO, Timestamp::MAX);
            applied.expect("it is of this table");
        }
        if commit || self.marked & bit(tx) != 0 {
            unmark(&self.marks, &payload, Timestamp(ts(tx).into()), commit);
        }
    }
}

/// A transaction is validated, or is over.
type Event = (usize, Option<bool>);

/// Makes the same of the model and of the product; what both find valid must be the same.
fn play(bounds: &Bounds, state: &State, events: &[Event]) {
    let (mut state, mut real) = (*state, Real::new());
    for (tx, end) in events {
        match end {
            None => {
                let valid = bounds.is_valid(&state, 0, *tx);
                assert_eq!(valid, real.validate(bounds, &state, *tx), "{bounds:?}: {events:?}");
                let record = &mut state.replicas[0].records[*tx];
                (record.known, record.vote) = (true, if valid { Vote::Yes } else { Vote::No });
            }
            Some(commit) => {
                real.conclude(bounds, &state, *tx, *commit);
                bounds.conclude(&mut state, 0, *tx, *commit);
            }
        }
    }
}

/// All orders of at most one validation and one end each.
fn orders(bounds: &Bounds, state: &State, events: &mut Vec<Event>, count: &mut usize) {
    play(bounds, state, events);
    *count += 1;
    for tx in 0..bounds.intents.len() {
        let over = events.iter().any(|(of, end)| *of == tx && end.is_some());
        let validated = events.contains(&(tx, None));
        for next in [None, Some(true), Some(false)] {
            if !(over || next.is_none() && validated) {
                events.push((tx, next));
                orders(bounds, state, events, count);
                events.pop();
            }
        }
    }
}

/// Whatever was read, even what could not have been.
#[test]
fn validation_is_the_product_s() {
    let mut count = 0;
    for intents in [
        [intent(0, 0, X), intent(0, X, 0), intent(0, X, X)],
        [intent(0, X, Y), intent(0, Y, X), intent(0, X | Y, X)],
        [intent(0, 0, X), intent(0, X, X).deleting(X), intent(0, X, Y)],
    ] {
        let bounds = bounds(3, &intents);
        for (version, as_of) in [(0, 0), (1, 0), (2, 0), (0, 1), (0, 2)] {
            let mut state = bounds.start();
            for tx in 0..3 {
                let (versions, as_of) = ([version.min(ts(tx) - 1); KEYS], as_of.min(ts(tx) - 1));
                state.txs[tx] = Tx { epoch: 1, versions, as_of, ..Tx::default() };
            }
            orders(&bounds, &state, &mut Vec::new(), &mut count);
        }
    }
    println!("{count} orders");
}

/// The same of scans, of what they can have seen: what is there and was not passed was not there.
#[test]
fn validation_of_scans_is_the_product_s() {
    let mut count = 0;
    for intents in [
        [intent(0, 0, X), intent(0, X, X).deleting(X), intent(0, X | Y, Z).scanning()],
        [intent(0, 0, Y), intent(0, X | Y | Z, X).scanning(), intent(0, 0, Z)],
        [intent(0, Y | Z, X).scanning(), intent(0, X | Y, Z).scanning(), intent(0, 0, Y)],
    ] {
        let bounds = bounds(3, &intents);
        for version in 0..=2 {
            let mut state = bounds.start();
            for tx in 0..3 {
                // Of those who write the key, as a scan would see it.
                let version = |key: usize| {
                    let wrote = |of: &usize| bounds.intents[*of].writes & bit(key) != 0 && ts(*of) <= version;
                    (0..tx).filter(wrote).map(ts).max().unwrap_or(0)
                };
                state.txs[tx] = Tx { epoch: 1, versions: std::array::from_fn(version), ..Tx::default() };
            }
            orders(&bounds, &state, &mut Vec::new(), &mut count);
        }
    }
    println!("{count} orders");
}

/// What a replica may tell of a transaction.
fn records() -> Vec<Record> {
    let known = Record { known: true, vote: Vote::No, ..Record::default() };
    let yes = Record { vote: Vote::Yes, ..known };
    vec![
        Record::default(),
        known,
        yes,
        Record { accepted: Some((0, true)), ..yes },
        Record { accepted: Some((1, false)), ..yes },
        Record { accepted: Some((2, true)), ..known },
        Record { outcome: Some(true), ..known },
        Record { outcome: Some(false), ..known },
    ]
}

/// Rules 1 to 5, by all that a majority may tell of two transactions. What the product's assertions exclude is left out: two outcomes, and
/// a decision to commit of which nobody has what it writes.
fn compare_merges(bounds: &Bounds, versions: [Ts; KEYS]) -> usize {
    let records = records();
    let pairs: Vec<[Record; TXS]> =
        records.iter().flat_map(|a| records.iter().map(move |b| [*a, *b, Record::default()])).collect();
    let mut state = bounds.start();
    state.txs[1].versions = versions;
    let (mut compared, most) = (0, bounds.majority() as usize);
    // In order: who told it makes no difference.
    let mut at = vec![0; most];
    loop {
        let replies: Vec<[Record; TXS]> = at.iter().map(|at| pairs[*at]).collect();
        let ours = bounds.merged(&state, &replies);
        let sound = |tx: usize| {
            let told = || replies.iter().map(|reply| reply[tx]);
            let both =
                told().any(|of| of.outcome == Some(true)) && told().any(|of| of.outcome == Some(false));
            let payload = |of: Record| of.vote == Vote::Yes || of.outcome == Some(true);
            !both && (ours[tx] != Some(true) || told().any(payload))
        };
        if sound(0) && sound(1) {
            assert_eq!(ours, product::merged(bounds, &state, &replies), "{bounds:?}: {replies:#?}");
            compared += 1;
        }
        let Some(next) = (0..most).rev().find(|index| at[*index] + 1 < pairs.len()) else { return compared };
        let value = at[next] + 1;
        at[next..].fill(value);
    }
}

#[test]
fn a_change_of_epoch_decides_as_the_product_does() {
    for (nodes, strict) in [(3, false), (5, false), (5, true)] {
        for (intents, version) in [
            ([intent(0, 0, X), intent(1, X, 0)], 0),
            ([intent(0, 0, X), intent(1, X, 0)], 1),
            ([intent(0, X, 0), intent(1, 0, X)], 0),
            ([intent(0, 0, X), intent(1, X | Y, Z).scanning()], 0),
            ([intent(0, 0, X), intent(1, X | Y, Z).scanning()], 1),
        ] {
            let bounds = bounds(nodes, &intents);
            let bounds = if strict { bounds.strict() } else { bounds };
            println!("{nodes} nodes: {} replies", compare_merges(&bounds, [version, 0, 0]));
        }
    }
}
