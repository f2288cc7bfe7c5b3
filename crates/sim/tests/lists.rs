//! Rolis under faults, judged by growing lists: strict serializability, nothing acknowledged or seen is lost.
//!
//! `SEEDS=1000 FIRST=1 cargo test -p highwater-sim --test simulated lists::` runs more; a failure names its seed.

use crate::common::chaos::faults;
use crate::common::number;

#[test]
fn lists_with_many_seeds() {
    let (runs, first) = (number("SEEDS", 60), number("FIRST", 1));
    let mut committed = 0;
    let mut failed = Vec::new();
    for seed in first..first + runs {
        match std::panic::catch_unwind(|| faults(seed)) {
            Ok(lists) => committed += lists.all_acknowledged() as u64,
            Err(_) => failed.push(seed),
        }
        assert!(failed.len() < number("FAILURES", 1) as usize, "seeds {failed:?} failed");
    }
    assert!(failed.is_empty(), "seeds {failed:?} failed");
    assert!(committed > 100 * runs, "only {committed} acknowledged: the faults leave no room for work");
}
