//! Rows that take effect are named to a host that has clients who wait for it.

use super::*;

/// A asks for it, B's host wants to hear of it, C's does not.
#[test]
fn what_takes_effect_is_named_while_the_host_wants_to_hear_of_it() {
    let mut trio = Trio::new(Durability::Memory);
    trio.at(B).tell_writes(true);
    let commit = |trio: &mut Trio, at: Nanos, key: &[u8]| {
        trio.ask(A, at, key);
        [B, C].into_iter().for_each(|replica| trio.deliver(A, replica, at));
        assert!(trio.named.iter().all(|(_, named)| **named != *key), "it is no more than asked for");
        [B, C].into_iter().for_each(|replica| trio.deliver(replica, A, at));
        [B, C].into_iter().for_each(|replica| trio.deliver(A, replica, at));
    };
    commit(&mut trio, MS, b"k");
    assert_eq!(trio.named, [(B, b"k"[..].into())]);
    assert!(
        trio.at(B).executor.tx().latest().get(TABLE, b"k").is_ok_and(|version| version.value.is_some()),
        "it is there"
    );
    trio.at(B).tell_writes(false);
    commit(&mut trio, 2 * MS, b"l");
    assert_eq!(trio.named.len(), 1);
}
