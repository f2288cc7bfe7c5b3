use std::sync::Arc;

use super::super::guests::{GuestLimits, Guests};
use super::super::runs::Judged;
use super::*;
use crate::command::Opcode;
use crate::host::watch::Watch;
use crate::moment::Moment;
use crate::request::Effect;
use crate::{Door, Procedures, single};
use highwater_core::clock::Stopwatch;
use highwater_core::codec::Reader;
use highwater_core::{Incarnation, Levels, ProcedureId};
use highwater_seam::{Endpoint, Next, Outbox, Worker};

const ELSEWHERE: Result<(), Refusal> = Err(Refusal::NotServing { ask: Some(NodeId(1)) });
const OTHER: Result<(), Refusal> = Err(Refusal::NotServing { ask: Some(NodeId(2)) });

fn request(args: &[u8], snapshot: bool) -> EngineRequest<'_> {
    let (procedure, effect) = (ProcedureId(0), Effect::Writes);
    EngineRequest {
        seq: 0,
        snapshot,
        freshness: None,
        session: None,
        procedure,
        args,
        effect,
        user: b"default",
    }
}

fn asking() -> Upstream {
    let mut upstream = Upstream::new(true, 100);
    upstream.ready(NodeId(1));
    upstream.ready(NodeId(2));
    assert_eq!(upstream.look(0, ELSEWHERE), None);
    upstream
}

#[test]
fn answers_come_in_any_order_and_count_once() {
    let mut upstream = asking();
    for seq in 0..3 {
        assert_eq!(upstream.ask(0, &request(b"x", false), 9, (4, seq)), Forwarded::Sent);
    }
    assert_eq!(upstream.answered(NodeId(1), 1), Some((4, 1)));
    assert_eq!(upstream.answered(NodeId(1), 1), None, "it was answered");
    assert_eq!(upstream.answered(NodeId(2), 0), None, "it was not asked");
    assert_eq!(upstream.answered(NodeId(1), 0), Some((4, 0)));
    assert_eq!(upstream.answered(NodeId(1), 2), Some((4, 2)));
    assert_eq!(upstream.answered(NodeId(1), 3), None, "there is none");
    assert_eq!(upstream.drain().count(), 3);
}

#[test]
fn what_waits_for_an_earlier_leader_is_unknown_and_its_late_answer_nobodys() {
    let mut upstream = asking();
    upstream.ask(0, &request(b"x", false), 9, (4, 7));
    assert_eq!(upstream.look(1, Err(Refusal::NotServing { ask: None })), None, "it may still answer");
    assert_eq!(upstream.look(2, OTHER), None, "its answer may be on its way");
    assert_eq!(upstream.deadline(), Some(2 + GRACE));
    assert_eq!(upstream.ask(2, &request(b"x", false), 9, (5, 0)), Forwarded::Later, "nobody overtakes it");
    let left = upstream.look(2 + GRACE, OTHER);
    assert_eq!(left, Some(NodeId(1)), "what it was not sent yet is not to be sent");
    assert_eq!(upstream.drain().count(), 0);
    assert_eq!(upstream.take_unknown(), [(4, 7)]);
    assert_eq!(upstream.answered(NodeId(1), 0), None);
    assert_eq!(upstream.ask(2, &request(b"x", false), 9, (4, 8)), Forwarded::Sent);
    upstream.lost(NodeId(2));
    assert_eq!(upstream.take_unknown(), [(4, 8)]);
    // This node leads now: nobody is asked.
    assert_eq!(upstream.look(3, Ok(())), None);
    assert!(!upstream.is_leaving());
    assert_eq!(upstream.serial(), None);
    assert!(upstream.may_ask(3), "what waited is for this node now");
}

/// With the lead handed over, all that was under way was called unknown: what was answered, and what was not begun.
#[test]
fn what_the_old_leader_answers_counts_and_what_it_refuses_is_asked_of_the_new_one() {
    let mut upstream = asking();
    for seq in 0..3 {
        upstream.ask(0, &request(b"x", false), 9, (seq as usize, seq));
    }
    upstream.drain();
    upstream.look(1, OTHER);
    assert_eq!(upstream.answered(NodeId(1), 0), Some((0, 0)));
    let elsewhere = Refusal::NotServing { ask: Some(NodeId(2)) };
    assert_eq!(upstream.refused(NodeId(1), 1, elsewhere), None, "it is asked again");
    assert_eq!(upstream.refused(NodeId(1), 2, elsewhere), None);
    assert_eq!(upstream.look(2, OTHER), None, "nothing is left there");
    upstream.look(3, OTHER);
    let asked: Vec<_> =
        upstream.drain().map(|(node, frame)| (node, Message::of(&frame).unwrap().1 == b"x")).collect();
    assert_eq!(asked, [(NodeId(2), true), (NodeId(2), true)]);
    assert_eq!(upstream.answered(NodeId(2), 0), Some((1, 1)), "in order");
    assert_eq!(upstream.answered(NodeId(2), 1), Some((2, 2)));
    assert!(upstream.take_unknown().is_empty() && upstream.take_refused().is_empty());
    assert!(!upstream.is_leaving());
}

/// Answers so, in turn.
struct Engine(VecDeque<Result<Taken, Refusal>>, Vec<highwater_seam::Token>, Vec<Vec<u8>>);

impl Worker for Engine {
    fn ready(&self) -> Result<(), Refusal> {
        Ok(())
    }

    fn submit(&mut self, _: Nanos, request: Request<'_>) -> Result<Taken, Refusal> {
        let answer = self.0.pop_front().unwrap();
        self.1.extend(answer.is_ok().then_some(request.token));
        self.2.extend(answer.is_ok().then(|| request.args.to_vec()));
        answer
    }

    fn peer_up(&mut self, _: Nanos, _: NodeId, _: Incarnation, _: Levels) {}
    fn peer_down(&mut self, _: Nanos, _: NodeId) {}
    fn deliver(&mut self, _: Nanos, _: Endpoint, _: Frame) {}
    fn turn(&mut self, _: Nanos, _: &mut Outbox) -> Next {
        Next::Idle
    }
    fn describe(&self) -> String {
        String::new()
    }
}

/// This node is the heir: what the old leader had not begun is run here, before what clients ask now.
#[test]
fn what_was_refused_elsewhere_is_run_here_in_order() {
    let mut upstream = asking();
    for seq in 0..3 {
        upstream.ask(0, &request(b"x", false), 9, (4, seq));
    }
    upstream.look(1, Ok(()));
    assert!(upstream.has_own_first(), "its answers may be on their way");
    for number in 0..3 {
        assert_eq!(upstream.refused(NodeId(1), number, Refusal::NotServing { ask: None }), None);
    }
    upstream.look(2, Ok(()));
    assert_eq!(upstream.serial(), None, "nothing is left there");
    let answers = [Ok(Taken::Placed), Err(Refusal::Busy), Ok(Taken::PutOff), Err(Refusal::NoQuorum)];
    let mut engine = Engine(answers.into(), Vec::new(), Vec::new());
    let may = |_: &Ask, _: &mut [u8]| Judged::May;
    upstream.run_again(2, &mut engine, &may);
    assert!(upstream.has_own_first());
    upstream.run_again(3, &mut engine, &may);
    assert_eq!(engine.1, [0, 1].map(|seq| pack(Owner::Client, 4, seq)));
    assert!(
        upstream.take_refused().is_empty(),
        "what the client asked behind what was put off waits for its end"
    );
    upstream.run_again(4, &mut engine, &may);
    assert_eq!(engine.1.len(), 2);
    upstream.ended((4, 1));
    assert!(upstream.has_own_first());
    upstream.run_again(5, &mut engine, &may);
    assert_eq!(upstream.take_refused(), [(4, 2)]);
    assert!(!upstream.has_own_first());
}

/// Refused elsewhere, and now to be run here: by whoever may, once nothing is paused; and in the order of each client.
#[test]
fn what_is_run_here_is_looked_at_as_what_other_nodes_ask_is() {
    let mut upstream = asking();
    for (at, seq) in [(4, 0), (4, 1), (5, 0), (6, 0)] {
        upstream.ask(0, &request(b"x", false), at as u64, (at, seq));
    }
    upstream.look(1, Ok(()));
    (0..4).for_each(|number| {
        assert_eq!(upstream.refused(NodeId(1), number, Refusal::NotServing { ask: None }), None);
    });
    upstream.look(2, Ok(()));
    let mut engine =
        Engine([Ok(Taken::Placed), Ok(Taken::Placed), Ok(Taken::Placed)].into(), Vec::new(), Vec::new());
    upstream.run_again(2, &mut engine, &|ask: &Ask, _: &mut [u8]| match ask.client {
        4 => Judged::Waits,
        5 => Judged::Denied("NOPERM".into()),
        _ => Judged::May,
    });
    assert_eq!(engine.1, [pack(Owner::Client, 6, 0)]);
    assert_eq!(upstream.take_denied(), [((5, 0), "NOPERM".to_string())]);
    upstream.run_again(3, &mut engine, &|_: &Ask, _: &mut [u8]| Judged::May);
    assert_eq!(engine.1[1..], [0, 1].map(|seq| pack(Owner::Client, 4, seq)));
}

/// It kept the time at which its client had asked another node, up to a second before: a key that had expired for everybody else was seen alive.
#[test]
fn what_is_run_here_is_run_at_the_time_of_this_node() {
    let get = Opcode::find(b"get").unwrap();
    let door = Door::bare(Procedures {
        exec: ProcedureId(0),
        watch: ProcedureId(1),
        users: ProcedureId(2),
        interact: ProcedureId(3),
    });
    door.access.confirm(u64::MAX);
    let watch = Watch::new(0, Stopwatch::calibrate(), || 0, door.procedures);
    let mut guests = Guests::new(Arc::new(door), watch, GuestLimits { queued: 1, owed: 1 });
    let mut upstream = Upstream::new(true, 100);
    upstream.ready(NodeId(1));
    upstream.look(0, ELSEWHERE);
    let mut asked = single::command(get, [&b"k"[..]].into_iter());
    Moment::set_time(&mut asked, 77);
    upstream.ask(0, &request(&asked, false), 9, (4, 0));
    upstream.look(1, Ok(()));
    assert_eq!(upstream.refused(NodeId(1), 0, Refusal::NotServing { ask: None }), None);
    upstream.look(2, Ok(()));
    let mut engine = Engine([Ok(Taken::Placed)].into(), Vec::new(), Vec::new());
    guests.tell_time(99);
    upstream.run_again(2, &mut engine, &guests);
    let run = Moment::decode(&mut Reader::new(&engine.2[0])).unwrap();
    assert_eq!(run.unix_ms, 99);
    assert_eq!(engine.2[0][8..], asked[8..], "nothing else is another");
}

/// Two nodes that send a request to and fro, none of which leads: its client is told after a second, not never.
#[test]
fn what_is_refused_again_and_again_is_refused_in_the_end() {
    let elsewhere = Refusal::NotServing { ask: None };
    let mut upstream = asking();
    upstream.ask(0, &request(b"x", false), 9, (4, 0));
    let (mut now, mut number) = (1, 0);
    while upstream.take_refused().is_empty() {
        let asked = upstream.drain().count();
        if asked > 0 || number == 0 {
            assert_eq!(upstream.refused(NodeId(1), number, elsewhere), None);
            number += 1;
        }
        upstream.look(now, Err(elsewhere));
        now += AGAIN_AFTER;
        assert!(now < 2 * PATIENCE, "it is sent to and fro for ever");
    }
    assert!(now > PATIENCE && number > 100);
    assert!(!upstream.is_leaving());
}

/// An answer says nothing of what its client asked later.
#[test]
fn what_was_asked_later_than_what_was_answered_is_asked_again() {
    let mut upstream = asking();
    (0..2).for_each(|seq| assert_eq!(upstream.ask(0, &request(b"x", false), 9, (4, seq)), Forwarded::Sent));
    assert_eq!(upstream.refused(NodeId(1), 1, Refusal::NotServing { ask: None }), None);
    assert_eq!(upstream.answered(NodeId(1), 0), Some((4, 0)));
    assert!(upstream.take_refused().is_empty());
    upstream.look(10, Err(Refusal::NotServing { ask: None }));
    assert!(!upstream.is_leaving(), "it was asked again");
}

#[test]
fn what_nobody_takes_is_refused_in_the_end_and_so_is_what_would_come_too_late() {
    let elsewhere = Refusal::NotServing { ask: None };
    let mut upstream = asking();
    (0..2).for_each(|seq| assert_eq!(upstream.ask(0, &request(b"x", false), 9, (4, seq)), Forwarded::Sent));
    assert_eq!(upstream.refused(NodeId(1), 0, elsewhere), None);
    // It leads again, and has answered what the client asked later.
    assert_eq!(upstream.answered(NodeId(1), 1), Some((4, 1)));
    assert_eq!(upstream.take_refused(), [(4, 0)]);

    upstream.ask(0, &request(b"x", false), 9, (4, 2));
    assert_eq!(upstream.refused(NodeId(1), 2, elsewhere), None);
    upstream.look(10, Err(elsewhere));
    assert_eq!(upstream.ask(10, &request(b"x", false), 9, (5, 0)), Forwarded::Sent, "it was asked again");
    assert_eq!(upstream.refused(NodeId(1), 3, elsewhere), None);
    upstream.look(11, Err(elsewhere));
    upstream.look(11 + PATIENCE, Err(elsewhere));
    assert_eq!(upstream.take_refused(), [(4, 2)]);
    // Other refusals are told at once.
    assert_eq!(upstream.refused(NodeId(1), 4, Refusal::NoQuorum), Some((5, 0)));
}

#[test]
fn a_request_waits_for_a_leader_but_not_for_ever_and_a_snapshot_not_at_all() {
    let mut upstream = Upstream::new(true, 100);
    upstream.look(5, ELSEWHERE);
    assert_eq!(upstream.ask(5, &request(b"x", false), 9, (0, 0)), Forwarded::Later);
    assert!(!upstream.may_ask(5 + PATIENCE - 1));
    assert_eq!(upstream.deadline(), Some(5 + PATIENCE));
    assert_eq!(upstream.ask(5 + PATIENCE, &request(b"x", false), 9, (0, 0)), Forwarded::No);
    assert_eq!(asking().ask(0, &request(b"x", true), 9, (0, 0)), Forwarded::No);
    assert_eq!(Upstream::new(false, 100).ask(0, &request(b"x", false), 9, (0, 0)), Forwarded::No);
}

#[test]
fn the_window_closes_and_opens_and_one_request_always_fits() {
    let mut upstream = asking();
    assert_eq!(upstream.ask(0, &request(&[0; 5000], false), 9, (0, 0)), Forwarded::Sent);
    assert_eq!(upstream.ask(0, &request(b"x", false), 9, (0, 1)), Forwarded::Later);
    assert!(!upstream.may_ask(0));
    upstream.answered(NodeId(1), 0);
    assert!(upstream.may_ask(0));
    for seq in 0..MAX_ASKED as u64 {
        assert_eq!(upstream.ask(0, &request(b"", false), 9, (0, seq)), Forwarded::Sent);
    }
    assert_eq!(upstream.ask(0, &request(b"", false), 9, (0, 0)), Forwarded::Later);
}

const ELSE: Refusal = Refusal::NotServing { ask: None };

/// The node that refused one request may lead again before it comes to the next of that client: asked again at once, the first one took effect last.
#[test]
fn what_was_refused_is_not_asked_again_while_a_later_request_of_its_client_is_there() {
    let ask = |upstream: &mut Upstream, at: usize, seq| {
        assert_eq!(upstream.ask(0, &request(b"x", false), at as u64, (at, seq)), Forwarded::Sent);
    };
    for (answers, told) in
        [([true, true], vec![(4, 0)]), ([false, true], vec![(4, 0), (4, 1)]), ([false, false], vec![])]
    {
        let mut upstream = asking();
        (0..3).for_each(|seq| ask(&mut upstream, 4, seq));
        ask(&mut upstream, 5, 0);
        upstream.drain();
        // The requests are numbered as they were asked.
        assert_eq!(upstream.refused(NodeId(1), 0, ELSE), None);
        assert_eq!(upstream.refused(NodeId(1), 3, ELSE), None);
        upstream.look(1, ELSEWHERE);
        assert_eq!(upstream.drain().count(), 1, "the other client's");
        for (number, answered) in [1, 2].into_iter().zip(answers) {
            let _told = match answered {
                true => upstream.answered(NodeId(1), number),
                false => upstream.refused(NodeId(1), number, ELSE),
            };
            upstream.look(2 + number, ELSEWHERE);
        }
        let mut refused = upstream.take_refused();
        refused.sort_unstable();
        assert_eq!(refused, told);
        upstream.look(10 + 2 * AGAIN_AFTER, ELSEWHERE);
        let again = upstream.asking.as_ref().unwrap().asked.iter().flatten().map(|asked| asked.place);
        let again: Vec<_> = again.filter(|place| place.0 == 4).collect();
        assert_eq!(again, if told.is_empty() { vec![(4, 0), (4, 1), (4, 2)] } else { vec![] }, "in order");
    }
}

/// The fate of the later one is unknown, and it may be done: the earlier one is not done behind it.
#[test]
fn what_was_asked_before_what_nobody_will_answer_is_refused() {
    let mut upstream = asking();
    (0..2).for_each(|seq| assert_eq!(upstream.ask(0, &request(b"x", false), 9, (4, seq)), Forwarded::Sent));
    assert_eq!(upstream.refused(NodeId(1), 0, ELSE), None);
    // This node leads, and the other one may still answer.
    upstream.look(1, Ok(()));
    let mut engine = Engine(VecDeque::new(), Vec::new(), Vec::new());
    upstream.run_again(1, &mut engine, &|_: &Ask, _: &mut [u8]| Judged::May);
    upstream.look(1 + GRACE, Ok(()));
    upstream.run_again(1 + GRACE, &mut engine, &|_: &Ask, _: &mut [u8]| Judged::May);
    assert_eq!((upstream.take_unknown(), upstream.take_refused()), (vec![(4, 1)], vec![(4, 0)]));
    assert!(engine.1.is_empty() && !upstream.has_own_first());
}

/// A pause held every client of the worker, readers as well, and what it held was refused after a second by a node that led.
/// Once: (Before it landed.) A node that ended answered a share of each client's pipeline and left the rest in doubt; a
/// request held by `CLIENT PAUSE` was copied in each turn; what a pause had held was gone on with whenever something else
/// asked for a turn.
#[test]
fn what_a_pause_holds_holds_its_client_alone_and_is_not_late() {
    let mut upstream = asking();
    for (at, seq) in [(4, 0), (4, 1), (5, 0)] {
        upstream.ask(0, &request(b"x", false), at as u64, (at, seq));
    }
    upstream.look(1, Ok(()));
    (0..3).for_each(|number| assert_eq!(upstream.refused(NodeId(1), number, ELSE), None));
    upstream.look(2, Ok(()));
    let mut engine = Engine((0..3).map(|_| Ok(Taken::Placed)).collect(), Vec::new(), Vec::new());
    let pause = |ask: &Ask, _: &mut [u8]| if ask.client == 4 { Judged::Waits } else { Judged::May };
    upstream.run_again(2, &mut engine, &pause);
    assert_eq!(engine.1, [pack(Owner::Client, 5, 0)]);
    assert!(!upstream.has_own_first() && !upstream.is_leaving(), "nobody else waits");
    assert!(upstream.holds(4) && !upstream.holds(5));
    assert!(upstream.held_bytes() > 0);
    upstream.look(3 + 10 * PATIENCE, Ok(()));
    upstream.run_again(3 + 10 * PATIENCE, &mut engine, &pause);
    assert!(upstream.take_refused().is_empty() && upstream.holds(4));
    assert!(upstream.deadline().is_none() && !upstream.has_more());
    upstream.run_again(4 + 10 * PATIENCE, &mut engine, &|_: &Ask, _: &mut [u8]| Judged::May);
    assert_eq!(engine.1[1..], [0, 1].map(|seq| pack(Owner::Client, 4, seq)));
    // What its client asked meanwhile goes on in the next turn, though nothing else asks for one.
    assert!(!upstream.holds(4) && upstream.has_more());
    upstream.look(5 + 10 * PATIENCE, Ok(()));
    assert!(!upstream.has_more());
}

#[test]
fn what_a_pause_holds_goes_to_the_next_leader_or_is_refused_by_a_node_that_ends() {
    let held = || {
        let mut upstream = asking();
        for seq in 0..2 {
            assert_eq!(upstream.ask(0, &request(b"x", false), 4, (4, seq)), Forwarded::Sent);
        }
        upstream.look(1, Ok(()));
        (0..2).for_each(|number| assert_eq!(upstream.refused(NodeId(1), number, ELSE), None));
        upstream.look(2, Ok(()));
        upstream.drain();
        upstream.run_again(
            2,
            &mut Engine(VecDeque::new(), Vec::new(), Vec::new()),
            &|_: &Ask, _: &mut [u8]| Judged::Waits,
        );
        assert!(upstream.holds(4) && upstream.again.requests.is_empty());
        upstream
    };
    let mut upstream = held();
    upstream.look(3 + 5 * PATIENCE, OTHER);
    upstream.look(4 + 5 * PATIENCE, OTHER);
    assert_eq!(upstream.drain().filter(|(node, _)| *node == NodeId(2)).count(), 2);
    assert_eq!(upstream.answered(NodeId(2), 0), Some((4, 0)), "in order");
    assert!(!upstream.holds(4) && upstream.take_refused().is_empty());

    let mut upstream = held();
    upstream.refuse_paused();
    assert_eq!(upstream.take_refused(), [(4, 0), (4, 1)]);
    assert!(!upstream.holds(4));
}

/// Over this connection it stands in line, and waits for a word of it.
#[test]
fn who_leaves_the_line_of_an_earlier_connection_stays_in_that_of_this_one() {
    let mut upstream = asking();
    let before = upstream.serial().expect("it asks");
    upstream.line(9, &[]);
    upstream.lost(NodeId(1));
    upstream.ready(NodeId(1));
    upstream.look(1, ELSEWHERE);
    let serial = upstream.serial().expect("it asks again");
    assert_ne!(before, serial);
    upstream.line(9, &[]);
    upstream.drain();
    upstream.leave(9, before);
    assert_eq!(upstream.drain().count(), 0, "it was about the connection before");
    upstream.leave(9, serial);
    assert_eq!(upstream.drain().count(), 1);
}
