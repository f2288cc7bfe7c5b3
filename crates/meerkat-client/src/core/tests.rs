//! The client's end of the protocol, message by message.

use bytes::Bytes;
use highwater_core::{Epoch, NodeId, TableId, Timestamp};
use highwater_kit::validation::message::{About, Message};
use highwater_kit::validation::payload::Payload;
use highwater_meerkat_wire::{Ahead, Ask, Standing, Tell};

use super::*;

const HOME: NodeId = NodeId(0);
const PATIENCE: Nanos = 10_000_000_000;

/// A client of three replicas that serve in an epoch, and only the first of which reads for it.
struct Bench {
    core: Core,
    now: Nanos,
}

impl Bench {
    fn new() -> Bench {
        let mut core = Core::new(Settings { nodes: 3, seed: 1, patience: PATIENCE });
        (0..3).for_each(|node| core.up(NodeId(node)));
        let mut bench = Bench { core, now: 1 };
        bench.stand(HOME, 1, true);
        bench
    }

    fn stand(&mut self, node: NodeId, epoch: u64, serves: bool) {
        let standing = Standing {
            epoch: Epoch(epoch),
            serves,
            strict: false,
            voters: 0b111,
            nodes: 3,
            workers: 1,
            beat: 5_000_000,
            timeout: 100_000_000,
            room: u64::MAX,
            disk_full: false,
        };
        self.hear(node, Tell::Standing(standing));
    }

    fn hear(&mut self, from: NodeId, tell: Tell) {
        self.now += 1000;
        self.core.hear(self.now, from, &tell.encode()).unwrap();
    }

    fn about(&mut self, from: u8, epoch: u64, ts: u64, about: About) {
        let message = Message { ts: Timestamp(ts), about };
        self.hear(NodeId(from), Tell::About { epoch: Epoch(epoch), message });
    }

    fn vote(&mut self, from: u8, epoch: u64, ts: u64, valid: bool) {
        self.about(from, epoch, ts, About::Vote { valid, late: false, hint: Timestamp(77) });
    }

    /// What was sent, and to whom.
    fn sent(&mut self) -> Vec<(u8, Ask)> {
        let out = self.core.take_outgoing();
        out.into_iter().map(|(node, bytes)| (node.0, Ask::decode(&bytes).unwrap())).collect()
    }

    fn grant(&mut self, id: u64, ts: u64) {
        let (epoch, ts, lead) = (Epoch(1), Timestamp(ts), Ahead::default());
        self.hear(HOME, Tell::Granted { id, epoch, ts, lead, room: u64::MAX, disk_full: false });
    }

    /// Reads a key, gets a stamp with it, and proposes.
    fn propose(&mut self, ts: u64) {
        self.core.begin(Timestamp::ZERO, None);
        self.core.read(self.now, TableId(0), Bytes::from_static(b"key"), true);
        let id = match &self.sent()[..] {
            [(0, Ask::Read { id, stamp: Some(_), .. })] => *id,
            other => panic!("{other:?}"),
        };
        self.hear(
            HOME,
            Tell::Value { id, as_of: Timestamp(3), version: Timestamp(5), live: true, value: Bytes::new() },
        );
        self.grant(id, ts);
        self.core.wish(self.now, Timestamp(5));
        assert!(matches!(self.core.answer(), Some(Ok(Answer::Stamped))));
        assert_eq!(self.core.stamp(), Some(Timestamp(ts)));
        self.core.propose(self.now, Payload::build(Timestamp::ZERO, (&[], 0), (&[], 0), &[]));
        let sent = self.sent();
        assert!(
            sent.len() == 3 && sent.iter().all(|(_, ask)| matches!(ask, Ask::Validate { .. })),
            "{sent:?}"
        );
    }
}

/// Section 5.2.2, step 3: and all are told behind, the home until it has heard.
#[test]
fn one_round_trip_without_conflicts() {
    let mut bench = Bench::new();
    bench.propose(40);
    (0..2).for_each(|node| bench.vote(node, 1, 40, true));
    assert_eq!(bench.core.ended(), None);
    bench.vote(2, 1, 40, true);
    assert_eq!(bench.core.ended(), Some(Ended::Committed { fast: true }));
    let told = bench.sent();
    let decided = |ask: &Ask| matches!(ask, Ask::Decided { commit: true, voted: 0b111, payload: None, .. });
    assert!(told.len() == 3 && told.iter().all(|(_, ask)| decided(ask)), "{told:?}");
    assert!(!bench.core.is_quiet());
    bench.now += PATIENCE / 2;
    bench.core.tick(bench.now);
    assert!(matches!(&bench.sent()[..], [(0, Ask::Decided { payload: Some(_), .. })]), "the home, again");
    bench.about(0, 1, 40, About::Over { commit: true });
    assert!(bench.core.is_quiet());
}

/// Section 5.2.2, steps 4 to 6: two of three are a majority, and who has no record of it gets one.
#[test]
fn two_round_trips_where_one_is_silent() {
    let mut bench = Bench::new();
    bench.propose(40);
    (0..2).for_each(|node| bench.vote(node, 1, 40, true));
    bench.now += 50_000_000;
    bench.core.tick(bench.now);
    let accepts = bench.sent();
    assert!(accepts.iter().any(|(_, ask)| matches!(ask, Ask::Accept { commit: true, .. })), "{accepts:?}");
    (0..2).for_each(|node| bench.about(node, 1, 40, About::Accepted { view: 0 }));
    assert_eq!(bench.core.ended(), Some(Ended::Committed { fast: false }));
    let lacks = |(node, ask): &(u8, Ask)| *node == 2 && matches!(ask, Ask::Decided { payload: Some(_), .. });
    assert!(bench.sent().iter().any(lacks));
}

#[test]
fn refusals_end_an_attempt_and_say_what_was_in_the_way() {
    let mut bench = Bench::new();
    bench.propose(40);
    (1..3).for_each(|node| bench.vote(node, 1, 40, false));
    assert_eq!(bench.core.ended(), Some(Ended::Aborted { hint: Timestamp(77), late: None }));
}

/// Invariant 3.
#[test]
fn what_is_said_in_another_epoch_counts_for_nothing() {
    let mut bench = Bench::new();
    bench.propose(40);
    (0..3).for_each(|node| bench.vote(node, 2, 40, true));
    (0..3).for_each(|node| bench.vote(node, 1, 41, true));
    (0..3).for_each(|_| bench.vote(1, 1, 40, true));
    assert_eq!(bench.core.ended(), None);
}

/// Invariant 4: whoever knows is believed; if nobody does, nothing is guessed.
#[test]
fn a_change_of_epoch_leaves_what_somebody_knows_or_nothing() {
    let mut bench = Bench::new();
    bench.propose(40);
    bench.about(1, 1, 40, About::Over { commit: true });
    assert_eq!(bench.core.ended(), Some(Ended::Committed { fast: false }));
    let mut bench = Bench::new();
    bench.propose(40);
    bench.stand(HOME, 2, true);
    bench.now += 300_000_000;
    bench.core.tick(bench.now);
    assert_eq!(bench.core.ended(), None, "somebody may yet say it");
    bench.now += 200_000_000;
    bench.core.tick(bench.now);
    assert_eq!(bench.core.ended(), Some(Ended::Unknown));
}

/// Invariant 2: and nobody proposes twice.
#[test]
fn who_was_overtaken_waits_for_what_others_decide() {
    let mut bench = Bench::new();
    bench.propose(40);
    bench.about(1, 1, 40, About::Overtaken { view: 3 });
    (0..3).for_each(|node| bench.vote(node, 1, 40, true));
    assert_eq!(bench.core.ended(), None);
    bench.about(2, 1, 40, About::Over { commit: false });
    assert!(matches!(bench.core.ended(), Some(Ended::Aborted { .. })));
}

#[test]
fn a_stamp_that_will_not_do_goes_back_and_one_that_came_twice_does_not() {
    let mut bench = Bench::new();
    bench.core.begin(Timestamp::ZERO, None);
    bench.core.read(bench.now, TableId(0), Bytes::from_static(b"key"), true);
    let id = match &bench.sent()[..] {
        [(0, Ask::Read { id, .. })] => *id,
        other => panic!("{other:?}"),
    };
    bench.hear(
        HOME,
        Tell::Value { id, as_of: Timestamp(3), version: Timestamp(50), live: true, value: Bytes::new() },
    );
    bench.grant(id, 40);
    assert!(bench.core.stamp().is_some() && bench.sent().is_empty());
    bench.grant(id, 40);
    assert!(bench.core.stamp().is_some() && bench.sent().is_empty(), "the network repeats itself");
    bench.core.wish(bench.now, Timestamp(50));
    let wish = match &bench.sent()[..] {
        [(0, Ask::Return { ts: Timestamp(40), .. }), (0, Ask::Stamp { id, wish })]
            if wish.above == Timestamp(50) =>
        {
            *id
        }
        other => panic!("{other:?}"),
    };
    bench.grant(wish, 60);
    assert_eq!(bench.core.stamp(), Some(Timestamp(60)));
    bench.core.give_up();
    assert!(matches!(bench.sent()[..], [(0, Ask::Return { ts: Timestamp(60), .. })]));
}

/// An attempt read what it has read as of the earliest of all its answers; another attempt begins anew.
#[test]
fn an_attempt_is_as_of_its_earliest_read() {
    let mut bench = Bench::new();
    bench.core.begin(Timestamp::ZERO, None);
    assert_eq!(bench.core.as_of(), Timestamp::ZERO);
    for (as_of, least) in [(30, 30), (20, 20), (25, 20)] {
        bench.core.read(bench.now, TableId(0), Bytes::from_static(b"key"), true);
        let id = match &bench.sent()[..] {
            [(0, Ask::Read { id, .. })] => *id,
            other => panic!("{other:?}"),
        };
        let (version, value) = (Timestamp::ZERO, Bytes::new());
        bench.hear(HOME, Tell::Value { id, as_of: Timestamp(as_of), version, live: false, value });
        assert_eq!(bench.core.as_of(), Timestamp(least));
    }
    bench.core.begin(Timestamp::ZERO, None);
    assert_eq!(bench.core.as_of(), Timestamp::ZERO);
}

#[test]
fn a_home_that_is_lost_is_replaced_and_a_read_asked_again() {
    let mut bench = Bench::new();
    bench.core.begin(Timestamp::ZERO, None);
    bench.core.read(bench.now, TableId(0), Bytes::from_static(b"key"), true);
    bench.sent();
    bench.stand(NodeId(2), 1, true);
    bench.core.down(bench.now, HOME);
    assert!(matches!(bench.sent()[..], [(2, Ask::Read { .. })]));
    bench.now += PATIENCE + 1;
    bench.core.tick(bench.now);
    assert_eq!(bench.core.answer(), Some(Err(Trouble::NotServing)));
}
