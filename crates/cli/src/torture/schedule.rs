//! The schedule of faults: everything in it is drawn from the seed, before anything is known of the run.
//!
//! A run is a row of *episodes*. Each begins with a whole cluster, strikes once or a few times, and ends when
//! all is healed. What a strike hits is meant by role ("the leader"), and becomes a node when it strikes.

use std::time::Duration;

use clap::ValueEnum;
use highwater_seam::Abilities;
use highwater_workloads::random::Rng;
use serde::Serialize;

/// A kind of fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum FaultKind {
    /// SIGKILL, and a new start without memory; now and then a second one while it comes back.
    Kill,
    /// The same, of the leader.
    KillLeader,
    /// SIGKILL of all replicas at once, and a new start of all. Needs disks: `--set cluster.durability=sync` or `async`.
    KillAll,
    /// SIGTERM, which hands the lead over, and a new start; the leader half of the time.
    Rolling,
    /// SIGSTOP and SIGCONT; the leader half of the time.
    Pause,
    /// Replicas cut off from each other: one, two halves, one pair, all but a bridge; or a cable pulled.
    Partition,
    /// Cuts in one direction: a replica that nobody hears, or that hears nobody, or one pair.
    Asymmetric,
    /// A cut that comes and goes.
    Flapping,
    /// Links with delay, or with little room.
    Slow,
    /// Connections between replicas broken, again and again.
    Reset,
    /// The disk of one replica, or of a majority, full to the last byte for a while. Needs disks, and to be
    /// allowed to mount.
    DiskFull,
    /// The next sync of a replica's journal fails; it ends, and starts again. Needs disks: `--set cluster.durability=sync` or `async`.
    #[cfg(feature = "failing-syncs")]
    FsyncFails,
    /// One end of connections between replicas lost, and the other one held as if nothing were wrong.
    HalfOpen,
    /// A replica whose replies to clients are lost; half of the time the leader. Needs namespaces.
    Clients,
    /// Keys and values from one byte to the limit, transactions of thousands of operations; a restart while they are there.
    Sizes,
    /// The replicas' memory is filled until they refuse more, emptied and filled again; a restart while it is full.
    Memory,
    /// Pipelines of up to 100,000 commands, read meanwhile or not.
    Floods,
    /// Clients that send, close their sending side, and want all replies.
    HalfClose,
    /// Clients that ask for megabytes and do not read them for a while.
    Stalled,
    /// Clients that idle, stop within a command, or break off.
    Vanish,
    /// Connections by the hundred, to replicas with few descriptors.
    Storms,
    /// Processes that burn CPU beside the replicas.
    Hogs,
    /// Processes that fault in and walk over gigabytes.
    MemoryHogs,
}

impl FaultKind {
    /// As on the command line.
    pub fn name(self) -> &'static str {
        match self {
            FaultKind::Kill => "kill",
            FaultKind::KillLeader => "kill-leader",
            FaultKind::KillAll => "kill-all",
            FaultKind::Rolling => "rolling",
            FaultKind::Pause => "pause",
            FaultKind::Partition => "partition",
            FaultKind::Asymmetric => "asymmetric",
            FaultKind::Flapping => "flapping",
            FaultKind::Slow => "slow",
            FaultKind::Reset => "reset",
            FaultKind::HalfOpen => "half-open",
            FaultKind::DiskFull => "disk-full",
            #[cfg(feature = "failing-syncs")]
            FaultKind::FsyncFails => "fsync-fails",
            FaultKind::Clients => "clients",
            FaultKind::Sizes => "sizes",
            FaultKind::Memory => "memory",
            FaultKind::Floods => "floods",
            FaultKind::HalfClose => "half-close",
            FaultKind::Stalled => "stalled",
            FaultKind::Vanish => "vanish",
            FaultKind::Storms => "storms",
            FaultKind::Hogs => "hogs",
            FaultKind::MemoryHogs => "memory-hogs",
        }
    }

    /// Whether it is use, not damage: done by processes of their own, the guests.
    pub fn by_guests(self) -> bool {
        match self {
            #[cfg(feature = "failing-syncs")]
            FaultKind::FsyncFails => false,
            FaultKind::Kill
            | FaultKind::KillLeader
            | FaultKind::KillAll
            | FaultKind::Rolling
            | FaultKind::Pause
            | FaultKind::Partition
            | FaultKind::Asymmetric
            | FaultKind::Flapping
            | FaultKind::Slow
            | FaultKind::Reset
            | FaultKind::HalfOpen
            | FaultKind::DiskFull
            | FaultKind::Clients => false,
            FaultKind::Sizes
            | FaultKind::Memory
            | FaultKind::Floods
            | FaultKind::HalfClose
            | FaultKind::Stalled
            | FaultKind::Vanish
            | FaultKind::Storms
            | FaultKind::Hogs
            | FaultKind::MemoryHogs => true,
        }
    }

    /// Whether it costs a replica its memory.
    pub fn takes_memory(self) -> bool {
        #[cfg(feature = "failing-syncs")]
        if self == FaultKind::FsyncFails {
            return true;
        }
        matches!(
            self,
            FaultKind::Kill
                | FaultKind::KillLeader
                | FaultKind::Rolling
                | FaultKind::Sizes
                | FaultKind::Memory
        )
    }

    /// Whether there must be disks: without them the data would be gone, or nothing could be full or fail.
    pub fn needs_disks(self) -> bool {
        #[cfg(feature = "failing-syncs")]
        if self == FaultKind::FsyncFails {
            return true;
        }
        self.strikes_alone()
    }

    /// Why it cannot be done to replicas of an engine with these abilities, on disks or without; nothing if it can.
    pub fn obstacle(self, abilities: Abilities, disks: bool) -> Option<Obstacle> {
        if self.needs_disks() && !abilities.durable {
            return Some(Obstacle::NothingDurable);
        }
        if self.needs_disks() && !disks {
            return Some(Obstacle::NoDisks);
        }
        (self == FaultKind::KillLeader && abilities.leaderless).then_some(Obstacle::NobodyLeads)
    }

    /// Whether nothing else may happen meanwhile: all replicas are down, or one that is killed could not start on a full disk.
    pub fn strikes_alone(self) -> bool {
        matches!(self, FaultKind::KillAll | FaultKind::DiskFull)
    }

    /// Whether links must go through the proxy.
    pub fn needs_proxy(self) -> bool {
        matches!(self, FaultKind::Slow | FaultKind::Reset | FaultKind::HalfOpen)
    }
}

/// What is in a fault's way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Obstacle {
    /// The replicas of this run write to no disks.
    NoDisks,
    /// The engine never does.
    NothingDurable,
    /// The engine has no leader.
    NobodyLeads,
}

/// Whom a strike is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Who {
    /// Whoever leads then; if nobody does, or the engine has no leader, the node.
    Leader(usize),
    /// This node.
    Node(usize),
}

impl Who {
    fn draw(rng: &mut Rng, replicas: usize, leader_percent: u64) -> Who {
        let node = rng.below(replicas as u64) as usize;
        if rng.percent(leader_percent) { Who::Leader(node) } else { Who::Node(node) }
    }

    /// The node, given who leads.
    pub fn resolve(self, leader: Option<usize>) -> usize {
        match self {
            Who::Leader(otherwise) => leader.unwrap_or(otherwise),
            Who::Node(node) => node,
        }
    }
}

/// One fault to come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Strike {
    /// What.
    pub kind: FaultKind,
    /// Whom.
    pub who: Who,
    /// When, after its episode's begin.
    pub after: Duration,
    /// How long.
    pub lasts: Duration,
    /// Seed of its details.
    pub draw: u64,
}

/// Strikes between two times of health.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Episode {
    /// Health before it.
    pub rest: Duration,
    /// In the order of their times.
    pub strikes: Vec<Strike>,
}

/// Draws episodes without end.
#[derive(Debug)]
pub struct Schedule {
    rng: Rng,
    faults: Vec<FaultKind>,
    replicas: usize,
    /// Kinds still to come before any comes again, so that short runs see all of them.
    deck: Vec<FaultKind>,
}

impl Schedule {
    /// From a seed, over these kinds.
    pub fn new(seed: u64, faults: &[FaultKind], replicas: usize) -> Schedule {
        let mut faults = faults.to_vec();
        faults.sort_unstable();
        faults.dedup();
        Schedule { rng: Rng::new(seed), faults, replicas, deck: Vec::new() }
    }

    /// The next episode: one strike two times of three, else two or three that overlap.
    pub fn next_episode(&mut self) -> Episode {
        let rest = millis(&mut self.rng, 100, 1200);
        let count = if self.rng.percent(66) { 1 } else { self.rng.within(2, 3) };
        // Never more than a minority's memory at a time.
        let mut memories = (self.replicas - 1) / 2;
        let mut strikes = Vec::new();
        for _ in 0..count {
            let strike = self.strike(if strikes.is_empty() { 0 } else { 1500 });
            if strike.kind.strikes_alone() {
                match strikes.is_empty() {
                    true => strikes.push(strike),
                    false => self.deck.push(strike.kind),
                }
                break;
            }
            if strike.kind.takes_memory() {
                if memories == 0 {
                    continue;
                }
                memories -= 1;
            }
            strikes.push(strike);
        }
        strikes.sort_by_key(|strike| strike.after);
        Episode { rest, strikes }
    }

    fn strike(&mut self, latest: u64) -> Strike {
        let kind = self.deal();
        let rng = &mut self.rng;
        let leader_percent = match kind {
            FaultKind::KillLeader => 100,
            FaultKind::Kill => 0,
            // Who is restarted while there is much to copy.
            FaultKind::Sizes | FaultKind::Memory => 25,
            _ => 50,
        };
        let who = Who::draw(rng, self.replicas, leader_percent);
        let after = millis(rng, 0, latest);
        // Most are a little shorter or longer than the time in which silence counts as death; a few last.
        let lasts = match rng.below(4) {
            _ if kind.by_guests() => millis(rng, 1000, 5000),
            // Until what is left of a segment is used up, and some more.
            _ if kind == FaultKind::DiskFull => millis(rng, 3000, 7000),
            0 => millis(rng, 20, 300),
            3 => millis(rng, 1500, 5000),
            _ => millis(rng, 200, 1500),
        };
        Strike { kind, who, after, lasts, draw: rng.u64() }
    }

    fn deal(&mut self) -> FaultKind {
        if self.deck.is_empty() {
            self.deck = self.faults.clone();
        }
        let at = self.rng.below(self.deck.len() as u64) as usize;
        self.deck.swap_remove(at)
    }
}

/// Directed links to cut, for a partition around a node.
pub fn partition(rng: &mut Rng, node: usize, replicas: usize) -> (String, Vec<(usize, usize)>) {
    let others: Vec<usize> = (0..replicas).filter(|other| *other != node).collect();
    let both = |a: usize, b: usize| [(a, b), (b, a)];
    let cross = |left: &[usize], right: &[usize]| -> Vec<_> {
        left.iter().flat_map(|a| right.iter().flat_map(move |b| both(*a, *b))).collect()
    };
    match rng.below(4) {
        0 => (format!("replica {node} cut off from all"), cross(&[node], &others)),
        1 => {
            let other = others[rng.below(others.len() as u64) as usize];
            (format!("replicas {node} and {other} cut off from each other"), cross(&[node], &[other]))
        }
        2 => {
            let (left, right) = split(rng, &others);
            (format!("only replica {node} between {left:?} and {right:?}"), cross(&left, &right))
        }
        _ => {
            let (mut left, right) = split(rng, &others);
            left.push(node);
            (format!("halves {left:?} and {right:?}"), cross(&left, &right))
        }
    }
}

/// Directed links to cut, in one direction only.
pub fn one_way(rng: &mut Rng, node: usize, replicas: usize) -> (String, Vec<(usize, usize)>) {
    let others: Vec<usize> = (0..replicas).filter(|other| *other != node).collect();
    let other = others[rng.below(others.len() as u64) as usize];
    match rng.below(4) {
        0 => (format!("nobody hears replica {node}"), others.iter().map(|to| (node, *to)).collect()),
        1 => (format!("replica {node} hears nobody"), others.iter().map(|from| (*from, node)).collect()),
        2 => (format!("replica {other} does not hear replica {node}"), vec![(node, other)]),
        _ => (format!("replica {node} does not hear replica {other}"), vec![(other, node)]),
    }
}

/// Two parts, neither of them empty.
fn split(rng: &mut Rng, nodes: &[usize]) -> (Vec<usize>, Vec<usize>) {
    let at = 1 + rng.below(nodes.len() as u64 - 1) as usize;
    (nodes[..at].to_vec(), nodes[at..].to_vec())
}

/// A duration, uniformly.
pub fn millis(rng: &mut Rng, from: u64, to: u64) -> Duration {
    Duration::from_micros(rng.within(from * 1000, to * 1000))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn a_seed_is_a_schedule() {
        let draw = |seed| {
            let mut schedule = Schedule::new(seed, FaultKind::value_variants(), 5);
            (0..20).map(|_| schedule.next_episode()).collect::<Vec<_>>()
        };
        assert_eq!(draw(7), draw(7));
        assert_ne!(draw(7), draw(8));
    }

    #[test]
    fn no_episode_takes_more_than_a_minoritys_memory_and_every_kind_comes() {
        for replicas in [3, 5] {
            let mut schedule = Schedule::new(1, FaultKind::value_variants(), replicas);
            let mut seen = BTreeSet::new();
            for _ in 0..200 {
                let episode = schedule.next_episode();
                let memories = episode.strikes.iter().filter(|strike| strike.kind.takes_memory()).count();
                assert!(memories <= (replicas - 1) / 2);
                let all = episode.strikes.iter().any(|strike| strike.kind.strikes_alone());
                assert!(!all || episode.strikes.len() == 1, "it strikes alone");
                seen.extend(episode.strikes.iter().map(|strike| strike.kind));
            }
            assert_eq!(seen.len(), FaultKind::value_variants().len());
        }
    }

    #[test]
    fn an_engine_is_struck_by_what_its_abilities_allow() {
        use highwater_engines::EngineKind;
        let drawn = |engine: EngineKind, disks| -> BTreeSet<FaultKind> {
            let all = FaultKind::value_variants().iter().copied();
            all.filter(|kind| kind.obstacle(engine.abilities(), disks).is_none()).collect()
        };
        let all: BTreeSet<FaultKind> = FaultKind::value_variants().iter().copied().collect();
        assert_eq!(drawn(EngineKind::Rolis, true), all);
        let missing = |engine| -> Vec<_> {
            all.difference(&drawn(engine, false))
                .copied()
                .filter(|kind| kind.name() != "fsync-fails")
                .collect()
        };
        assert_eq!(missing(EngineKind::Rolis), [FaultKind::KillAll, FaultKind::DiskFull]);
        for engine in EngineKind::ALL.iter().copied().filter(|engine| engine.abilities().leaderless) {
            assert!(missing(engine).contains(&FaultKind::KillLeader), "{engine}");
            // Whatever else it cannot be struck by, processes die, hang, and do not hear each other.
            let always = [FaultKind::Kill, FaultKind::Rolling, FaultKind::Pause, FaultKind::Partition];
            assert!(always.iter().all(|kind| drawn(engine, false).contains(kind)), "{engine}");
        }
        let memory_only = Abilities { durable: false, ..EngineKind::Rolis.abilities() };
        assert_eq!(FaultKind::KillAll.obstacle(memory_only, true), Some(Obstacle::NothingDurable));
        assert_eq!(
            FaultKind::KillAll.obstacle(EngineKind::Rolis.abilities(), false),
            Some(Obstacle::NoDisks)
        );
    }

    #[test]
    fn cuts_are_between_different_replicas_and_partitions_are_mutual() {
        let mut rng = Rng::new(3);
        for round in 0..200 {
            let (replicas, node) = (3 + round % 3, round % 3);
            let (_, cut) = partition(&mut rng, node, replicas);
            assert!(!cut.is_empty() && cut.iter().all(|(a, b)| a != b && cut.contains(&(*b, *a))));
            let (_, cut) = one_way(&mut rng, node, replicas);
            assert!(!cut.is_empty() && cut.iter().all(|(a, b)| a != b && !cut.contains(&(*b, *a))));
        }
    }
}
