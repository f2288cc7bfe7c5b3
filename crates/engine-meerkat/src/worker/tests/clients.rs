//! Clients that coordinate say what no replica must believe.

use highwater_meerkat_wire::{Ahead, Ask, Late, Wish};

use super::ahead::Timed;
use super::*;

/// A client's word that a transaction commits of which this replica knows nothing: it made a record that nobody ended, and the replica panicked
/// once all was over everywhere.
#[test]
fn a_clients_commit_without_what_it_writes_makes_no_record() {
    let mut trio = Trio::new(Durability::Memory);
    let ts = Timestamp(5000);
    trio.at(B).hear_decided(MS, ClientId(7), (A, ts), true, (None, 0));
    assert!(trio.record(B, A, ts).is_none());
    // That it does not is known without.
    trio.at(B).hear_decided(MS, ClientId(7), (A, ts), false, (None, 0));
    assert_eq!(trio.record(B, A, ts).and_then(|record| record.outcome), Some(false));
}

/// One wish would have every later stamp of the worker be one that no client may name, in later epochs as well.
#[test]
fn no_client_has_a_stamp_far_above_all_clocks() {
    let mut trio = Trio::new(Durability::Memory);
    let client = ClientId(7);
    let wish = |id, above| Ask::Stamp { id, wish: Wish { above: Timestamp(above), late: None } }.encode();
    for above in [(1 << 60) - 1, 1 << 59, 1 << 51] {
        trio.at(A).client_up(MS, client).expect("it may connect");
        assert!(trio.at(A).deliver_client(MS, client, wish(1, above)).is_err(), "above {above}");
        trio.at(A).client_down(MS, client);
    }
    trio.at(A).client_up(MS, client).expect("it may connect");
    assert_eq!(trio.at(A).deliver_client(MS, client, wish(2, 1 << 40)), Ok(()));
    assert_eq!(trio.at(A).delegates.granted(), 1);
}

/// Simulated seed 90004224: a machine stood still while an attempt of a client was under way. The next one was granted a stamp as far ahead as all that time, and
/// whatever else the worker proposed was above it.
#[test]
fn what_a_client_lacked_while_a_machine_slept_puts_nobody_off() {
    let (mut timed, client) = (Timed::new(true, 1, [0, 0, 0]), ClientId(7));
    let began = timed.now;
    let stamp = |id, late| Ask::Stamp { id, wish: Wish { above: Timestamp::ZERO, late } }.encode();
    timed.trio.at(A).client_up(began, client).expect("it may connect");
    timed.trio.at(A).deliver_client(began, client, stamp(1, None)).expect("it is granted");
    let ts = timed.trio.at(A).stamps.last();
    timed.stand_still(A, 10_000 * MS);
    let now = timed.now;
    let worker = timed.trio.at(A);
    let lead = Ahead { ahead: 0, advanced: worker.no_time(), since: began };
    let late = Late { ts, shown: worker.context.shared.clock.now(), lead, bytes: 0 };
    worker.deliver_client(now, client, stamp(2, Some(late))).expect("it is granted");
    let clock = worker.context.shared.clock.now();
    let granted = worker.delegates.latest_granted().expect("it was granted");
    let far = Timestamp(clock.0 + 2 * worker.context.options().election_timeout);
    assert!(clock < granted && granted < far, "{granted} at {clock}");
    assert!(worker.stamps.next(Timestamp::ZERO, 0) < granted, "others need not be as far ahead");
}

/// If votes wait for a transaction's time, nobody is asked to propose no more below one that is far ahead: everything else would wait as long.
#[test]
fn nobody_closes_what_is_ahead_of_its_time() {
    let mut timed = Timed::new(true, 1, [0, 0, 0]);
    let far = Timestamp(timed.trio.at(A).context.shared.clock.now().0 + 1000 * MS);
    timed.trio.at(A).context.cell().graves.store(far.0, Ordering::Relaxed);
    timed.run(20 * MS);
    for node in [A, B, C] {
        assert!(timed.trio.at(node).stamps.last() < far, "{node:?}");
    }
}
