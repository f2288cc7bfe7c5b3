//! How faults are drawn.

use highwater_seam::Nanos;

use super::{Fault, KINDS, LASTING, Scheduled, Victim};
use crate::units::MS;
use highwater_core::Random;

/// Kinds that may last: a majority may have to live with them.
const LASTING_KINDS: &[&str] = &[
    "kill",
    "isolate",
    "mute",
    "deafen",
    "one_way",
    "strand",
    "part",
    "web",
    "split",
    "bridge",
    "slow",
    "starve",
    "starve_control",
    "stick",
    "stick_control",
];

/// Faults that pass: which kinds are in, how often each happens, and when.
pub(crate) fn passing(
    random: &mut Random,
    replicas: u8,
    workers: u16,
    length: Nanos,
    timeout: Nanos,
) -> Vec<Scheduled> {
    let mut faults = Vec::new();
    for kind in KINDS {
        if !random.one_in(4) {
            continue;
        }
        for _ in 0..random.between(1, 9) {
            let at_ns = random.below(length);
            // Shorter than an election takes, or longer.
            let for_ns = match random.below(3) {
                0 => random.between(MS, timeout),
                1 => random.between(timeout, 3 * timeout),
                _ => random.between(timeout, 10 * timeout),
            };
            faults.push(Scheduled { at_ns, for_ns, fault: Fault::draw(kind, random, replicas, workers) });
        }
    }
    faults.sort_by_key(|fault| fault.at_ns);
    faults
}

/// A few faults that last, from moments in the run's length on.
pub(crate) fn lasting(random: &mut Random, replicas: u8, workers: u16, length: Nanos) -> Vec<Scheduled> {
    let draw = |random: &mut Random| {
        let fault = Fault::draw(random.pick(LASTING_KINDS), random, replicas, workers);
        Scheduled { at_ns: random.below(length), for_ns: LASTING, fault }
    };
    (0..random.pick(&[1, 1, 2, 3])).map(|_| draw(random)).collect()
}

impl Fault {
    fn draw(kind: &str, random: &mut Random, replicas: u8, workers: u16) -> Fault {
        let node = random.below(replicas.into()) as u8;
        let other = (node + 1 + random.below(u64::from(replicas) - 1) as u8) % replicas;
        // Leaders have the more interesting accidents.
        let victim = if random.one_in(2) { Victim::Leader } else { Victim::Node(node) };
        let some = random.between(1, (1 << replicas) - 1) as u8;
        match kind {
            "kill" => Fault::Kill(victim),
            "kill_candidate" => Fault::Kill(Victim::Candidate),
            "kill_learner" => Fault::Kill(Victim::Learner),
            "kill_opener" => Fault::Kill(Victim::Opener),
            "pause" => Fault::Pause(victim),
            "break" => Fault::Break(node, other),
            "isolate" => Fault::Isolate(victim),
            "mute" => Fault::Mute(victim),
            "deafen" => Fault::Deafen(victim),
            "one_way" => Fault::OneWay(node, other),
            "strand" => Fault::Strand(victim, random.between(1, u64::from(replicas) / 2 + 1) as u8),
            "part" => Fault::Part(node, other),
            // Dense or sparse.
            "web" => Fault::Web((random.bits() & (random.bits() | (some as u64 - 1))) as u32),
            "split" => Fault::Split(some),
            "bridge" => Fault::Bridge(some, node),
            "flap" => Fault::Flap(node, other),
            "vanish" => Fault::Vanish(victim, random.between(MS, 200 * MS)),
            "lag" => Fault::Lag(random.pick(&[3, 10, 50])),
            "clog" => Fault::Clog(node, other),
            "slow" => Fault::Slow(victim, random.pick(&[3, 20, 200])),
            "starve" => {
                Fault::Starve(victim, random.below(workers.into()) as u16, random.pick(&[20, 200, 2000]))
            }
            "starve_control" => Fault::StarveControl(victim, random.pick(&[20, 200, 2000])),
            "stick" => Fault::Stick(victim, random.below(workers.into()) as u16),
            "stick_control" => Fault::StickControl(victim),
            "leap" => Fault::Leap(node, random.between(MS, 10_000 * MS)),
            "rate" => Fault::Rate(node, random.between(700_000, 1_400_000)),
            "leap_commits" => Fault::LeapCommits(node, 1 << random.between(10, 40)),
            "set_back" => Fault::SetBack(node, 1 << random.between(10, 40)),
            "stall_commits" => Fault::StallCommits(node),
            "hold" => Fault::Hold(random.below(workers.into()) as u16),
            "shun" => Fault::Shun(victim),
            _ => unreachable!("{kind} is not listed in KINDS"),
        }
    }
}
