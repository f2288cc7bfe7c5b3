//! A controller of three, whose workers, peers and disk are played by hand.

use highwater_core::Durability;
use highwater_core::evidence::{Start, Starts};
use highwater_kit::witness::DiskWord;
use highwater_seam::options::Options;

use super::*;
use crate::journal::{End, Kept};

const MS: Nanos = 1_000_000;
const TIMEOUT: Nanos = 30 * MS;
const A: NodeId = NodeId(0);
const B: NodeId = NodeId(1);
const C: NodeId = NodeId(2);

fn who(node: NodeId) -> (NodeId, Incarnation) {
    (node, Incarnation(u64::from(node.0) + 10))
}

fn change(epoch: u64, members: Members) -> Arc<Change> {
    Arc::new(Change { epoch: Epoch(epoch), base: Timestamp(5), members, ended: vec![Vec::new()], cut: None })
}

fn fresh(durability: Durability) -> MeerkatController {
    let mut options = Options::new(A, 3, 1, who(A).1);
    (options.heartbeat, options.election_timeout, options.durability) = (5 * MS, TIMEOUT, durability);
    let schema = Schema::new(Vec::new());
    let marks = marks_of(&schema, &options);
    let shared = Arc::new(Shared::new(options, Arc::new(highwater_core::Clock::counter()), false));
    MeerkatController::new(shared, schema.clone(), Store::new(schema), marks)
}

/// Node A's controller, which hears the others and has begun epoch 1 with these members.
fn controller(durability: Durability, members: Members) -> MeerkatController {
    let mut controller = fresh(durability);
    for (node, life) in [B, C].map(who) {
        controller.peer_up(0, node, life, Levels::default());
    }
    begins(&mut controller, 0, change(1, members));
    controller
}

/// A change is decided, and its worker begins it.
fn begins(controller: &mut MeerkatController, now: Nanos, change: Arc<Change>) {
    controller.on_decided(now, &change);
    controller.on_kept(u64::MAX);
    controller.on_begun(change.epoch);
    assert_eq!(controller.shared.open_epoch(), Some(change.epoch));
}

fn beats(controller: &mut MeerkatController, now: Nanos, node: NodeId, (epoch, standing): (u64, Standing)) {
    controller.take(now, node, Control::Beat(Beat { epoch: Epoch(epoch), standing, ..Beat::default() }));
    controller.peers[usize::from(node.0)].as_mut().expect("it is up").heard = now;
}

fn proposes(controller: &mut MeerkatController) -> bool {
    let sent = std::mem::take(&mut controller.outbox);
    sent.iter().any(|(_, bytes)| matches!(Control::read(bytes), Ok(Control::Accept { .. })))
}

/// A crash before that is written would have its next life lead the same round again, with another proposal: those who accepted the first one
/// would be counted for the second.
#[test]
fn who_leads_an_attempt_proposes_when_its_own_promise_is_on_its_disk() {
    let voters = vec![who(A), who(B), who(C)];
    let mut leader = controller(Durability::Sync, Members { voters, ..Members::default() });
    leader.begin_attempt(MS, "it is asked to");
    leader.take_own(MS);
    leader.on_paused(MS, 0, Epoch(2), Vec::new(), Timestamp(7));
    let round = leader.promised;
    for node in [B, C] {
        let told = (Timestamp(7), Arc::new(vec![Vec::new()]), Memory::Whole, Standing::Voting);
        leader.on_promise(2 * MS, node, (Epoch(2), round), None, told);
    }
    leader.drive(MS + 2 * TIMEOUT);
    assert!(!proposes(&mut leader), "its own promise is on no disk");
    leader.on_kept(u64::MAX);
    leader.take_own(MS + 2 * TIMEOUT);
    assert!(proposes(&mut leader));
}

/// Outcomes are kept for learners as for voters. One whose worker hangs hears none, and its controller beats.
#[test]
fn a_learner_that_lags_is_let_go_and_waits_before_it_is_taken_again() {
    let (voters, learners) = (vec![who(A), who(B)], vec![who(C)]);
    let mut one = controller(Durability::Memory, Members { voters, learners, ..Members::default() });
    let (mut now, mut epoch, mut waited) = (MS, 1, Vec::new());
    for _ in 0..4 {
        beats(&mut one, now, B, (epoch, Standing::Voting));
        beats(&mut one, now, C, (epoch, Standing::Learning));
        assert_eq!(one.members_to_be(now, &[A]), *one.members.as_ref().expect("it knows"), "all is well");
        one.shared.cells[0].laggard.store(u32::from(C.0) + 1, Ordering::Relaxed);
        let without = one.members_to_be(now, &[A]);
        assert_eq!(
            (without.voters.len(), &without.learners[..], &without.silent[..]),
            (2, &[][..], &[who(C)][..])
        );
        epoch += 1;
        begins(&mut one, now, change(epoch, without));
        one.shared.cells[0].laggard.store(0, Ordering::Relaxed);
        let since = now;
        let with = loop {
            beats(&mut one, now, B, (epoch, Standing::Voting));
            beats(&mut one, now, C, (epoch, Standing::Outside));
            let to_be = one.members_to_be(now, &[A]);
            if to_be.learners == [who(C)] {
                break to_be;
            }
            now += TIMEOUT / 2;
        };
        waited.push((now - since) / TIMEOUT);
        epoch += 1;
        begins(&mut one, now, change(epoch, with));
    }
    assert_eq!(waited, [8, 64, 512, 1024]);
    let voters = vec![who(A), who(B), who(C)];
    begins(&mut one, now, change(epoch + 1, Members { voters, ..Members::default() }));
    assert!(one.barred.iter().all(|barred| barred.times() == 0), "it is forgiven");
}

/// The last word of C may be old: a connection that stood still for long goes on after others.
#[test]
fn a_voter_that_was_heard_last_before_it_copied_the_state_stays_one() {
    let voters = vec![who(A), who(B)];
    let mut one = controller(Durability::Memory, Members { voters: voters.clone(), ..Members::default() });
    beats(&mut one, MS, B, (1, Standing::Voting));
    beats(&mut one, MS, C, (1, Standing::Outside));
    let learners = vec![who(C)];
    begins(&mut one, MS, change(2, Members { voters, learners, ..Members::default() }));
    begins(&mut one, MS, change(3, of_all()));
    beats(&mut one, MS + 2 * TIMEOUT, B, (3, Standing::Voting));
    assert_eq!(one.members_to_be(MS + 2 * TIMEOUT, &[A]), of_all(), "it is silent, and voted after that");
    beats(&mut one, MS + 2 * TIMEOUT, C, (3, Standing::Outside));
    assert_eq!(one.members_to_be(MS + 2 * TIMEOUT, &[A]).voters, [who(A), who(B)]);
}

/// Simulated seed 91019404: B's connection to C stood still while C began another life, copied the state and voted. The next change that B led left C out, as
/// one whose life is over; another voter lost its memory, and no majority was left, though three of five had all of theirs.
#[test]
fn a_later_life_that_others_took_in_is_not_over() {
    let later = (C, Incarnation(99));
    let voters = vec![who(A), who(B)];
    let mut one = controller(Durability::Memory, of_all());
    let now = 10 * TIMEOUT;
    let learners = vec![later];
    begins(&mut one, now, change(2, Members { voters, learners, ..Members::default() }));
    let all = Members { voters: vec![who(A), who(B), later], ..Members::default() };
    begins(&mut one, now, change(3, all.clone()));
    beats(&mut one, now, B, (3, Standing::Voting));
    assert_eq!(one.members_to_be(now, &[A]), all, "it is silent, and no more");
    // Whoever is connected anew is what it is.
    one.peer_up(now, C, Incarnation(100), Levels::default());
    beats(&mut one, now, C, (0, Standing::Unborn));
    assert_eq!(one.members_to_be(now, &[A]).voters, [who(A), who(B)]);
}

/// It came to know of the cluster when C did already vote, and hears nothing of it.
#[test]
fn who_joins_late_believes_what_is_decided_of_a_silent_voter() {
    let mut one = fresh(Durability::Memory);
    for (node, life) in [B, C].map(who) {
        one.peer_up(0, node, life, Levels::default());
    }
    beats(&mut one, MS, C, (0, Standing::Outside));
    let others = Members { voters: vec![who(B), who(C)], ..Members::default() };
    one.on_decided(MS, &change(8, others));
    assert_eq!(one.beat_of(C).standing, Standing::Ready);
    assert_eq!(one.beat_of(B).room, u64::MAX, "B has said nothing of its memory yet");
}

fn of_all() -> Members {
    Members { voters: vec![who(A), who(B), who(C)], ..Members::default() }
}

/// Messages that were sent so far, and to whom.
fn sent(controller: &mut MeerkatController) -> Vec<(NodeId, Control)> {
    let sent = std::mem::take(&mut controller.outbox);
    sent.into_iter().map(|(to, bytes)| (to, Control::read(&bytes).expect("its own word"))).collect()
}

/// Its last beat was of before it crashed, and the next one comes behind its promise: it was named as a voter, stayed outside, and the next change of
/// epoch was due at once.
#[test]
fn who_says_with_its_promise_that_it_forgot_is_no_voter_whatever_its_last_beat_said() {
    let mut leader = controller(Durability::Async, of_all());
    for node in [B, C] {
        beats(&mut leader, MS, node, (1, Standing::Voting));
    }
    leader.peer_down(2 * MS, C, false);
    leader.peer_up(3 * MS, C, who(C).1, Levels::default());
    leader.begin_attempt(4 * MS, "it is asked to");
    leader.take_own(4 * MS);
    leader.on_paused(4 * MS, 0, Epoch(2), Vec::new(), Timestamp(7));
    leader.on_kept(u64::MAX);
    leader.take_own(4 * MS);
    let (epoch, round) = (Epoch(2), leader.promised);
    let promise = |memory, standing| Control::Promise {
        epoch,
        round,
        accepted: None,
        latest: Timestamp(7),
        records: Arc::new(vec![Vec::new()]),
        memory,
        standing,
    };
    leader.take(5 * MS, B, promise(Memory::Whole, Standing::Voting));
    leader.take(5 * MS, C, promise(Memory::Forgot(None), Standing::Outside));
    let proposed = sent(&mut leader).into_iter().find_map(|(_, message)| match message {
        Control::Accept { change, .. } => Some(change),
        _ => None,
    });
    let members = proposed.expect("all have promised").members.clone();
    assert_eq!((&members.voters[..], &members.learners[..]), (&[who(A), who(B)][..], &[who(C)][..]));
}

/// One that lost what it had copied was named as a voter by a beat of before.
#[test]
fn who_was_ready_before_its_connection_ended_says_so_again() {
    let (voters, learners) = (vec![who(A), who(B)], vec![who(C)]);
    let mut one = controller(Durability::Sync, Members { voters, learners, ..Members::default() });
    beats(&mut one, MS, B, (1, Standing::Voting));
    beats(&mut one, MS, C, (1, Standing::Ready));
    assert_eq!(one.members_to_be(MS, &[A]).voters.len(), 3);
    one.peer_down(2 * MS, C, false);
    one.peer_up(3 * MS, C, who(C).1, Levels::default());
    assert_eq!(one.members_to_be(3 * MS, &[A]), *one.members.as_ref().expect("it knows"));
    beats(&mut one, 4 * MS, C, (1, Standing::Ready));
    assert_eq!(one.members_to_be(4 * MS, &[A]).voters.len(), 3);
}

/// So many starts, the last of them with a number of its own, before anything is written in it.
fn disk(starts: u64, number: u64) -> DiskState {
    let start = |at| Start { number: if at == starts { number } else { at }, had: 100 * at };
    let synced = 100 * starts;
    let starts = Arc::new(Starts::new(starts, (1..=starts).map(start).collect()));
    DiskState { low: false, starts, synced }
}

/// Node A's controller, of a process that came back with what a voter of epoch 1 wrote, and hears the others.
fn back(number: u64) -> MeerkatController {
    let mut controller = fresh(Durability::Sync);
    let shared = controller.shared.clone();
    let mut remembered = shared.remembered.lock().unwrap();
    remembered.add(Kept::Decided(change(1, of_all())));
    remembered.ends.insert(0, End { began: Epoch(1), ..End::default() });
    drop(remembered);
    controller.set_disk(disk(2, number));
    controller.recovered(0);
    for (node, life) in [B, C].map(who) {
        controller.peer_up(0, node, life, Levels::default());
    }
    controller.on_paused(0, 0, Epoch(2), Vec::new(), Timestamp(7));
    controller.on_kept(u64::MAX);
    controller
}

fn judged(start: u64, stale: bool) -> Control {
    Control::Judged { start, stale, epoch: Epoch(1), voters: of_all().voters }
}

/// Whether it promises when it is asked to.
fn promises(controller: &mut MeerkatController, now: Nanos) -> bool {
    sent(controller);
    let round = Round { number: 1 + now, node: B };
    controller.take(now, B, Control::Prepare { epoch: Epoch(2), round });
    controller.on_kept(u64::MAX);
    sent(controller).iter().any(|(to, message)| *to == B && matches!(message, Control::Promise { .. }))
}

/// An older copy of a whole folder agrees with itself: only others can tell. It voted without what it had promised, accepted and installed.
#[test]
fn who_comes_back_takes_part_when_a_majority_knows_nothing_against_its_disk() {
    let mut one = back(22);
    let told = sent(&mut one);
    let tells =
        |node: NodeId| told.iter().any(|(to, message)| *to == node && matches!(message, Control::Disk(_)));
    assert!(tells(B) && tells(C), "{told:?}");
    assert!(!promises(&mut one, MS), "nobody has said anything of its disk");
    one.watch(100 * TIMEOUT);
    assert!(one.attempt.is_none(), "nor does it lead one");
    one.take(2 * MS, A, Control::Decided { change: change(2, of_all()) });
    assert_eq!(one.epoch, Epoch(1), "nor begin one");
    one.take(3 * MS, B, judged(21, false));
    assert!(!promises(&mut one, 4 * MS), "of another start");
    one.take(5 * MS, B, judged(22, false));
    assert!(promises(&mut one, 6 * MS));
}

#[test]
fn who_is_told_that_its_disk_is_older_begins_another_life() {
    let mut one = back(22);
    one.take(MS, B, judged(22, true));
    one.take(MS, C, judged(22, false));
    assert!(!promises(&mut one, 2 * MS));
    let mut out = ControlOutbox::default();
    one.turn(3 * MS, &mut out);
    assert!(out.disk_is_stale && out.events.iter().any(|event| event.contains("restored from a copy")));
}

/// The word of a voter, on the disk of another node; and of a learner, which may know too little.
#[test]
fn voters_say_what_they_know_of_others_disks() {
    let mut one = controller(Durability::Sync, of_all());
    let mut says = |disk: &DiskState| {
        sent(&mut one);
        one.take(MS, B, Control::Disk(DiskWord::of(disk).expect("it has starts")));
        sent(&mut one).into_iter().find_map(|(to, message)| match message {
            Control::Judged { start, stale, .. } if to == B => Some((start, stale)),
            _ => None,
        })
    };
    assert_eq!(says(&disk(2, 2)), Some((2, false)));
    assert_eq!(says(&disk(3, 3)), Some((3, false)));
    assert_eq!(says(&disk(3, 33)), Some((33, true)), "of before the start that was met");
    let (voters, learners) = (vec![who(B), who(C)], vec![who(A)]);
    let mut new = controller(Durability::Sync, Members { voters, learners, ..Members::default() });
    new.take(MS, B, Control::Disk(DiskWord::of(&disk(3, 33)).expect("it has starts")));
    assert!(!sent(&mut new).iter().any(|(_, message)| matches!(message, Control::Judged { .. })));
}

/// The records that it writes on its disk from here on: about others' disks, and about what others count on.
fn kept(controller: &MeerkatController) -> (usize, usize) {
    let kept = controller.shared.commands[0].take().into_iter().filter_map(|command| match command {
        Command::Keep(_, kept) => Some(kept),
        _ => None,
    });
    let (met, counts): (Vec<_>, Vec<_>) = kept.partition(|kept| matches!(kept, Kept::Met(_)));
    (met.len(), counts.len())
}

/// It noted down what it heard of others' disks before the birth. When it lost that file its identity spoke of a journal that was gone, so that it might
/// have forgotten anything: the cluster was never born.
#[test]
fn nothing_is_written_before_others_count_on_it() {
    let mut one = fresh(Durability::Sync);
    for (node, life) in [B, C].map(who) {
        one.peer_up(0, node, life, Levels::default());
    }
    one.take(MS, B, Control::Disk(DiskWord::of(&disk(1, 1)).expect("it has starts")));
    assert_eq!(kept(&one), (0, 0));
    one.take(2 * MS, B, Control::Prepare { epoch: Epoch(1), round: Round { number: 1, node: B } });
    assert_eq!(kept(&one), (1, 1), "a promise, and in front of it what was heard");
    one.take(3 * MS, C, Control::Disk(DiskWord::of(&disk(1, 2)).expect("it has starts")));
    assert_eq!(kept(&one), (1, 0));
}

/// A node that copied the state while a voter was away has never met that one's disk, and speaks for it later.
#[test]
fn a_learner_is_told_what_its_donor_heard() {
    let mut donor = controller(Durability::Sync, of_all());
    donor.take(MS, B, Control::Disk(DiskWord::of(&disk(3, 3)).expect("it has starts")));
    sent(&mut donor);
    donor.take(MS, C, Control::CopyRequest { copy: 7, epoch: Epoch(1) });
    let met = sent(&mut donor).into_iter().find_map(|(_, message)| match message {
        Control::CopyGrant { copy: 7, met } => Some(met),
        _ => None,
    });
    let met = met.expect("it is granted");
    assert_eq!(met.iter().map(|met| met.voter.node).collect::<Vec<_>>(), [B]);
    let mut new = controller(Durability::Sync, of_all());
    new.learn_met(met);
    new.take(2 * MS, B, Control::Disk(DiskWord::of(&disk(3, 33)).expect("it has starts")));
    let stale = |(_, message): &(NodeId, Control)| matches!(message, Control::Judged { stale: true, .. });
    assert!(sent(&mut new).iter().any(stale));
}
