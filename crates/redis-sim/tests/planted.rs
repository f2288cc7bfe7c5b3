//! Every bug that is planted in the door is caught, and no plan fails without it. `ONLY=redis-sighted-kept` looks at some.

use highwater_redis_sim::WithDoor;
use highwater_redis_sim::planted::by_name;
use highwater_sim::planted::survey;

#[test]
fn every_bug_of_the_door_is_caught() {
    let wanted = std::env::var("ONLY").ok();
    let all = || highwater_redis::planted::ALL.iter().map(|bug| bug.name).collect::<Vec<_>>().join(",");
    let names = wanted.unwrap_or_else(all);
    for name in names.split(',').filter(|name| name.starts_with("redis-")) {
        let bug = by_name(name).expect(name);
        let row = survey(&WithDoor, bug, 1, bug.within, 1);
        println!("{name:32} {:?} plans: {}", row.seeds, row.anomaly(200));
        assert!(row.caught(), "{name} is not caught");
        assert!(row.tainted.is_empty(), "these fail without {name}: {:#?}", row.tainted);
    }
}
