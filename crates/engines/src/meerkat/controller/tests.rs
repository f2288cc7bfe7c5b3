//! A controller of three, whose workers, peers and disk are played by hand.

use highwater_core::Durability;

use super::*;
use crate::options::Options;

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

/// Node A's controller, which hears the others and has begun epoch 1 with these members.
fn controller(durability: Durability, members: Members) -> MeerkatController {
    let mut options = Options::new(A, 3, 1, who(A).1);
    (options.heartbeat, options.election_timeout, options.durability) = (5 * MS, TIMEOUT, durability);
    let schema = Schema::new(Vec::new());
    let marks = marks_of(&schema, &options);
    let shared = Arc::new(Shared::new(options, Arc::new(highwater_core::Clock::counter()), false));
    let mut controller = MeerkatController::new(shared, schema.clone(), Store::new(schema), marks);
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
    sent.iter().any(|(_, bytes)| matches!(Control::decode(bytes), Ok(Control::Accept { .. })))
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
        let told = (Timestamp(7), Arc::new(vec![Vec::new()]), Memory::Whole);
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
