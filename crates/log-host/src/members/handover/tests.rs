use super::*;

const TIMEOUT: Nanos = 100;
const LED: Epoch = Epoch(4);

fn says(word: Word) -> HandOverMessage {
    HandOverMessage { epoch: LED, word }
}

fn asked(nodes: &[u8]) -> HandOver {
    let mut handing = HandOver::default();
    handing.ask(0, LED, &nodes.iter().map(|node| NodeId(*node)).collect::<Vec<_>>(), TIMEOUT);
    handing
}

fn quiet(handing: &mut HandOver, now: Nanos) {
    assert_eq!(handing.step(now, 2, TIMEOUT), Some(Step::Quiet));
    handing.quiesced(StreamId(0));
    assert!(matches!(handing.step(now, 2, TIMEOUT), Some(Step::Wait(_))), "stream 1 is not quiet");
    handing.quiesced(StreamId(1));
}

#[test]
fn whoever_holds_most_is_told_to_stand_and_the_others_after_it() {
    let mut handing = asked(&[1, 2, 3]);
    handing.answered(1, NodeId(1), says(Word::ICould { held: 9 }));
    handing.answered(1, NodeId(2), says(Word::ICould { held: 10 }));
    assert!(matches!(handing.step(1, 2, TIMEOUT), Some(Step::Wait(_))), "node 3 has not answered");
    handing.answered(2, NodeId(3), says(Word::ICannot(Reason::Copies)));
    quiet(&mut handing, 2);
    assert_eq!(handing.step(3, 2, TIMEOUT), Some(Step::Stand(NodeId(2))));
    assert!(handing.holds_requests(3));
    handing.answered(4, NodeId(2), says(Word::ICannot(Reason::Stuck)));
    assert_eq!(handing.step(4, 2, TIMEOUT), Some(Step::Stand(NodeId(1))));
    handing.deposed(5, true, TIMEOUT);
    handing.answered(12, NodeId(1), says(Word::IServe));
    assert_eq!(handing.status(12, false), Handover::Done { to: NodeId(1), pause: 10 });
    assert!(!handing.holds_requests(12) && !handing.is_under_way());
}

/// A node that has handed the lead to node 1.
fn moved() -> HandOver {
    let mut handing = asked(&[1]);
    handing.answered(1, NodeId(1), says(Word::ICould { held: 9 }));
    quiet(&mut handing, 1);
    assert_eq!(handing.step(2, 2, TIMEOUT), Some(Step::Stand(NodeId(1))));
    handing.deposed(3, true, TIMEOUT);
    handing
}

#[test]
fn requests_wait_for_a_new_leader_for_a_while_and_who_asked_for_it_longer() {
    let mut handing = moved();
    let released = 3 + STAGE * TIMEOUT;
    assert_eq!(handing.step(3, 2, TIMEOUT), Some(Step::Wait(released)));
    assert!(handing.holds_requests(released - 1) && !handing.holds_requests(released));
    assert_eq!(handing.step(released, 2, TIMEOUT), Some(Step::Wait(3 + MOVE * TIMEOUT)));
    handing.answered(released + 1, NodeId(1), says(Word::IServe));
    assert!(matches!(handing.status(released + 1, false), Handover::Done { to: NodeId(1), .. }));
    let mut silent = moved();
    assert_eq!(silent.step(3 + MOVE * TIMEOUT, 2, TIMEOUT), Some(Step::Refer));
    assert!(matches!(silent.status(3 + MOVE * TIMEOUT, false), Handover::Failed(_)));
}

/// Three nodes that were asked to end at once: the one that led waited for twenty timeouts for the word of one that was gone.
#[test]
fn nobody_waits_long_for_a_successor_that_is_gone() {
    let released = 3 + STAGE * TIMEOUT;
    let mut handing = moved();
    handing.ended(4, NodeId(2));
    handing.ended(5, NodeId(1));
    assert_eq!(handing.step(5, 2, TIMEOUT), Some(Step::Wait(released)), "it may be here again");
    assert_eq!(handing.step(released, 2, TIMEOUT), Some(Step::Refer));
    assert!(matches!(handing.status(released, false), Handover::Failed(_)));
}

#[test]
fn whoever_was_told_to_stand_and_is_gone_has_the_next_one_stand() {
    let mut handing = asked(&[1, 2]);
    handing.answered(1, NodeId(1), says(Word::ICould { held: 9 }));
    handing.answered(1, NodeId(2), says(Word::ICould { held: 10 }));
    quiet(&mut handing, 1);
    assert_eq!(handing.step(2, 2, TIMEOUT), Some(Step::Stand(NodeId(2))));
    handing.ended(3, NodeId(2));
    assert_eq!(handing.step(3, 2, TIMEOUT), Some(Step::Stand(NodeId(1))));
}

/// It won, says so, and its connection or process is lost before this node hears of the ballot: nobody else is told to stand, and nothing is resumed.
#[test]
fn whoever_serves_already_is_not_passed_over() {
    let mut handing = asked(&[1, 2]);
    handing.answered(1, NodeId(1), says(Word::ICould { held: 9 }));
    handing.answered(1, NodeId(2), says(Word::ICould { held: 10 }));
    quiet(&mut handing, 1);
    assert_eq!(handing.step(2, 2, TIMEOUT), Some(Step::Stand(NodeId(2))));
    handing.answered(3, NodeId(2), says(Word::IServe));
    handing.ended(4, NodeId(2));
    assert!(matches!(handing.step(4, 2, TIMEOUT), Some(Step::Wait(_))));
    handing.answered(5, NodeId(2), says(Word::ICannot(Reason::Ends)));
    let late = 2 + TIMEOUT;
    assert!(matches!(handing.step(late, 2, TIMEOUT), Some(Step::Wait(_))), "its time is over, and it serves");
    assert_eq!(
        handing.step(late + STAGE * TIMEOUT, 2, TIMEOUT),
        Some(Step::Stand(NodeId(1))),
        "not for ever"
    );
}

#[test]
fn a_successor_says_that_it_serves_however_late_it_comes_to_it() {
    let mut heir = HandOver::default();
    heir.inherit(0, NodeId(2), LED, TIMEOUT);
    assert_eq!(heir.inherits_until(1), Some(STAGE * TIMEOUT));
    assert_eq!(heir.inherits_until(STAGE * TIMEOUT), None, "requests wait no longer");
    assert_eq!(heir.inherited(), Some((NodeId(2), LED)));
    assert_eq!(heir.inherited(), None, "once");
}

/// Its word was lost, and whoever had asked for the hand-over heard that it had failed.
/// Once: `hand-over` said that the lead had gone to a node which did not say that it served: it had said so before its
/// predecessor knew that a majority without it had elected it, and that word was dropped. Requests waited for two
/// election timeouts then.
#[test]
fn a_successor_may_serve_before_its_predecessor_knows_that_it_was_elected() {
    let mut handing = asked(&[1]);
    handing.answered(1, NodeId(1), says(Word::ICould { held: 9 }));
    quiet(&mut handing, 1);
    assert_eq!(handing.step(2, 2, TIMEOUT), Some(Step::Stand(NodeId(1))));
    handing.answered(3, NodeId(1), says(Word::IServe));
    assert!(handing.is_under_way() && handing.holds_requests(3), "it still leads, as far as it knows");
    handing.deposed(7, true, TIMEOUT);
    assert_eq!(handing.status(7, false), Handover::Done { to: NodeId(1), pause: 6 });
}

#[test]
fn who_gets_the_lead_back_has_not_handed_it_over() {
    let mut handing = moved();
    assert_eq!(handing.inherited(), None);
    assert!(!handing.is_under_way() && !handing.holds_requests(4));
    assert!(matches!(handing.status(4, true), Handover::Failed(why) if why.contains("came back")));
}

#[test]
fn who_hears_nothing_leads_on() {
    let mut handing = asked(&[1]);
    assert!(
        matches!(handing.step(2 * TIMEOUT, 2, TIMEOUT), Some(Step::GiveUp(why)) if why.contains("does not answer"))
    );
    let mut handing = asked(&[1]);
    handing.answered(1, NodeId(1), says(Word::ICould { held: 9 }));
    quiet(&mut handing, 1);
    assert_eq!(handing.step(2, 2, TIMEOUT), Some(Step::Stand(NodeId(1))));
    assert!(matches!(handing.step(2 + TIMEOUT, 2, TIMEOUT), Some(Step::Resume(_))));
    assert!(matches!(handing.status(300, true), Handover::Failed(_)));
}

#[test]
fn words_of_another_epoch_do_not_count() {
    let mut handing = asked(&[1]);
    handing.answered(1, NodeId(1), HandOverMessage { epoch: Epoch(3), word: Word::ICould { held: 9 } });
    assert!(matches!(handing.step(1, 2, TIMEOUT), Some(Step::Wait(_))));
}

/// A word of an earlier hand-over, or of a node that is not asked any more, comes late at each stage.
#[test]
fn late_words_end_no_stage() {
    let before = |word| HandOverMessage { epoch: Epoch(3), word };
    let could = || Word::ICould { held: 9 };
    let mut handing = asked(&[1, 2]);
    handing.answered(1, NodeId(3), says(could()));
    handing.answered(1, NodeId(1), says(could()));
    handing.answered(1, NodeId(1), says(Word::ICannot(Reason::Copies)));
    handing.answered(1, NodeId(2), says(Word::ICannot(Reason::Copies)));
    quiet(&mut handing, 1);
    assert_eq!(
        handing.step(2, 2, TIMEOUT),
        Some(Step::Stand(NodeId(1))),
        "node 3 was not asked, node 1 once"
    );
    let waits = |handing: &mut HandOver| matches!(handing.step(3, 2, TIMEOUT), Some(Step::Wait(_)));
    handing.answered(3, NodeId(1), before(Word::ICannot(Reason::Copies)));
    assert!(waits(&mut handing), "it said so of an earlier lead");
    handing.answered(3, NodeId(2), says(Word::ICannot(Reason::Copies)));
    assert!(waits(&mut handing), "it is not the one that stands");
    handing.answered(3, NodeId(1), before(Word::IServe));
    handing.deposed(4, true, TIMEOUT);
    assert!(handing.is_under_way(), "it served another time");
    handing.answered(5, NodeId(1), before(Word::IServe));
    assert!(handing.is_under_way());
    handing.answered(6, NodeId(1), says(Word::IServe));
    assert!(matches!(handing.status(6, false), Handover::Done { to: NodeId(1), .. }));
}

#[test]
fn who_retires_tries_until_time_is_up_or_all_others_retire_too() {
    let mut handing = HandOver::default();
    handing.retire(0, TIMEOUT);
    assert_eq!(handing.status(0, true), Handover::UnderWay);
    assert_eq!(handing.status(0, false), Handover::None, "it has nothing to hand over");
    assert!(handing.tries(0, 5).0 && !handing.tries(1, 5).0 && handing.tries(5, 5).0);
    assert!(matches!(handing.status(RETIREMENT * TIMEOUT, true), Handover::None));
    handing.ask(6, LED, &[NodeId(1)], TIMEOUT);
    handing.answered(7, NodeId(1), says(Word::ICannot(Reason::Ends)));
    assert!(matches!(handing.step(7, 2, TIMEOUT), Some(Step::GiveUp(_))));
    assert!(matches!(handing.status(8, true), Handover::Failed(why) if why.contains("about to end")));
}
