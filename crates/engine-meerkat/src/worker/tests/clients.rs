//! Clients that coordinate say what no replica must believe.

use highwater_meerkat_wire::{Ask, Wish};

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
