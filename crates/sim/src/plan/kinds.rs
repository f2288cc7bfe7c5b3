//! Kinds of plans that are not the average with something more: runs of hours, runs whose faults begin at
//! birth, and runs in which memory ends.

use highwater_engines::EngineKind;
use highwater_seam::Nanos;

use super::{MOST_NODES, Machines, Plan, Sizes};
use crate::faults::{Fault, LASTING, Lack, Part, Scheduled, Step, Victim};
use crate::units::MS;
use highwater_core::Random;

/// Connections are made and nodes meet within about this time.
const MEETING: Nanos = 5 * MS;

const HOUR: Nanos = 3_600_000 * MS;

/// Times count from the start, before anybody has met; many faults happen while they meet.
pub(super) fn at_birth(plan: &mut Plan, random: &mut Random) {
    plan.from_birth = true;
    let timeout = plan.settings.election_timeout;
    for fault in &mut plan.faults {
        match random.below(4) {
            0 => fault.at_ns = random.below(MEETING),
            1 => fault.at_ns = random.below(3 * timeout),
            _ => {}
        }
    }
    plan.faults.sort_by_key(|fault| fault.at_ns);
}

/// One to three hours of virtual time with hundreds of elections and little work: links as between continents, timeouts of seconds. In
/// one of two, one stream stands still for most of the time, so that one takeover after the other remains unfinished.
pub(super) fn lengthen(plan: &mut Plan, random: &mut Random) {
    plan.replicas = random.pick(&[3, 3, 4]);
    let stands_still = random.one_in(2);
    // A takeover remains unfinished in one stream only if there is another.
    plan.workers = if stands_still { 2 } else { plan.workers.min(2) };
    plan.clocks.truncate(plan.replicas.into());
    plan.absent = plan.absent.min(1);
    plan.settings.heartbeat = random.pick(&[200 * MS, 500 * MS]);
    plan.settings.election_timeout = plan.settings.heartbeat * 4;
    let timeout = plan.settings.election_timeout;
    plan.delay_ns = timeout / 40;
    plan.delay_spread_ns = timeout / 400;
    plan.interleaving = None;
    plan.choices.clear();
    plan.transport.late_ns = None;
    // What stands still does not pile up.
    plan.transport.patience_ns = Some(4 * timeout);
    plan.load.clients = plan.load.clients.min(4);
    plan.load.transactions = plan.load.transactions.min(600);
    plan.load.patience_ns = 10 * timeout;
    // An unfinished takeover is given up after ten timeouts.
    plan.length_ns = random.between(HOUR, 3 * HOUR);
    plan.faults.clear();
    let mut at_ns = 20 * timeout;
    let behind = plan.length_ns - 20 * timeout;
    if stands_still {
        let worker = random.below(plan.workers.into()) as u16;
        plan.faults.push(Scheduled { at_ns, for_ns: behind - at_ns, fault: Fault::Hold(worker) });
    }
    while at_ns < behind {
        let for_ns = random.between(2 * timeout, 6 * timeout);
        let node = random.below(plan.replicas.into()) as u8;
        let fault = match random.below(8) {
            0 => Fault::Kill(Victim::Leader),
            1 => Fault::Kill(Victim::Node(node)),
            2 => Fault::Pause(Victim::Leader),
            3 => Fault::Part(node, (node + 1) % plan.replicas),
            4 => Fault::Mute(Victim::Leader),
            _ => Fault::Isolate(Victim::Leader),
        };
        // With a stream that stands still elections need no help.
        if !stands_still || random.one_in(8) {
            plan.faults.push(Scheduled { at_ns, for_ns, fault });
        }
        at_ns += for_ns + random.below(4 * timeout);
    }
    plan.faults.sort_by_key(|fault| fault.at_ns);
}

/// One to three orders of operators: nodes come, go, and take the places of others, at any time, two at once perhaps. No node is named
/// twice, and two are left whatever is done. Soon after an order a leader or a newcomer may have an accident.
pub(super) fn move_members(plan: &mut Plan, random: &mut Random) {
    let mut founders: Vec<u8> = (0..plan.replicas).collect();
    for _ in 0..random.pick(&[1, 1, 2, 3]) {
        let (at_ns, comes) = (random.below(plan.length_ns), plan.nodes());
        let at = random.below(founders.len() as u64) as usize;
        let (may_come, may_go) = (comes < MOST_NODES, founders.len() > 2);
        let fault = match random.below(3) {
            0 if may_come => Fault::Add(comes),
            1 if may_come && may_go => Fault::Replace(founders.remove(at), comes),
            _ if may_go => Fault::Remove(founders.remove(at)),
            _ => continue,
        };
        plan.newcomers += u8::from(!matches!(fault, Fault::Remove(_)));
        plan.faults.push(Scheduled { at_ns, for_ns: 0, fault });
        let timeout = plan.settings.election_timeout;
        for victim in [Victim::Leader, Victim::Node(comes)] {
            if matches!(victim, Victim::Node(node) if node >= plan.nodes()) || random.one_in(2) {
                continue;
            }
            let accident = random.pick(&[Fault::Kill, Fault::Isolate, Fault::Pause, Fault::Mute])(victim);
            let (at_ns, for_ns) = (at_ns + random.below(4 * timeout), random.between(MS, 4 * timeout));
            plan.faults.push(Scheduled { at_ns, for_ns, fault: accident });
        }
    }
    plan.faults.sort_by_key(|fault| fault.at_ns);
}

/// Nobody's process ends, and everybody is needed: the engine takes no node back. Nor does it count on less than connections keep.
pub(super) fn spare_all(plan: &mut Plan) {
    plan.absent = 0;
    (plan.transport.lost, plan.transport.repeated, plan.transport.reordered) = (0, 0, false);
    plan.faults.retain(|fault| !matches!(fault.fault, Fault::Kill(_) | Fault::Vanish(..)));
}

/// So many blobs that the stores may not hold them all: what adds to them is refused, whatever else befalls the replicas.
pub(crate) fn fill_up(plan: &mut Plan, random: &mut Random) {
    let memory = random.between(16 << 20, 20 << 20);
    plan.load.sizes = Sizes { largest: random.pick(&[256 << 10, 1 << 20]), total: 4 * memory, memory };
    plan.load.mix.blobs = 24;
    plan.load.counters = 0;
    plan.load.operations = plan.load.operations.clamp(2, 4);
    plan.load.appends_per_key = random.pick(&[1, 4]);
    plan.load.read_percent = plan.load.read_percent.min(50);
    (plan.load.clients, plan.load.transactions) = (plan.load.clients.max(8), 2400);
    // Links and turns without a price for bytes: with one, few of them would come so far.
    plan.machines = Machines::default();
    plan.length_ns = plan.length_ns.max(1000 * MS);
}

/// In the middle a new cluster is founded from the disks by a majority of the nodes, and the others come back. Who belongs changes in no
/// other way, and nobody has more than disks.
#[cfg(feature = "planted")]
pub(crate) fn found_anew(plan: &mut Plan) {
    let replicas = plan.replicas;
    plan.newcomers = 0;
    plan.faults.retain(|fault| !fault.fault.is_order() && fault.fault.fits(replicas));
    plan.disks = true;
    plan.load.sizes.memory = 0;
    let (at_ns, for_ns) = (plan.length_ns / 2, plan.settings.election_timeout / 4);
    plan.faults.push(Scheduled { at_ns, for_ns, fault: Fault::FoundAnew(replicas / 2 + 1) });
    plan.faults.sort_by_key(|fault| fault.at_ns);
}

/// Nodes run builds of two releases, and are upgraded one by one while the cluster works; now and then one is taken back before.
pub(super) fn mix_builds(plan: &mut Plan, random: &mut Random) {
    let nodes = u64::from(plan.replicas);
    plan.levels = (0..nodes).map(|_| 1 + random.below(2) as u8).collect();
    let mut at_ns = random.below(plan.length_ns / 2);
    let first = random.below(nodes);
    let timeout = plan.settings.election_timeout;
    let restart = |at_ns, node: u64, newest| Scheduled {
        at_ns,
        for_ns: timeout / 2,
        fault: Fault::Build((node % nodes) as u8, newest),
    };
    if random.one_in(2) {
        plan.faults.push(restart(random.below(at_ns + 1), random.below(nodes), 1));
    }
    // In some all come to speak it; in others one stays behind until it is seen to.
    let upgraded = if random.one_in(3) { nodes - 1 } else { nodes };
    for node in first..first + upgraded {
        plan.faults.push(restart(at_ns, node, 2));
        at_ns += random.between(timeout, 4 * timeout);
    }
    plan.faults.sort_by_key(|fault| fault.at_ns);
}

/// Whether what a node kept is gone with it, or a part of that.
fn loses_a_disk(fault: &Fault) -> bool {
    use Fault::{LoseNames, RestoreDisk, RestoreUnheard, Rot, Wipe};
    matches!(fault, Wipe(_) | RestoreDisk(_) | RestoreUnheard(..) | LoseNames(_) | Rot(..))
}

/// Whether it ends processes by what happens to a disk, whoever needs them.
fn ends_a_process(fault: &Fault) -> bool {
    use Fault::{EndStarts, FailOpen, FailSync, PowerCut};
    matches!(fault, PowerCut | FailSync(_) | EndStarts(..) | FailOpen(..))
}

impl Plan {
    /// As [`with_disks`](Plan::with_disks), and what is accepted does not wait for them.
    ///
    /// In half of the plans nobody who is needed crashes, and nothing may be lost. In the other half the power may fail everywhere, and
    /// what was acknowledged last may be lost; there no disk is, for it may be the only one that has something, and no client counts on
    /// what it was told.
    pub fn with_disks_behind(self) -> Plan {
        let mut plan = Plan { behind: true, ..self.with_disks() };
        let cuts = plan.faults.iter().any(|at| at.fault == Fault::PowerCut);
        if !cuts || plan.seed.is_multiple_of(2) {
            plan.faults.retain(|at| !ends_a_process(&at.fault));
        } else {
            plan.faults.retain(|at| !loses_a_disk(&at.fault));
            (plan.load.counters, plan.load.fresh_percent) = (0, 0);
        }
        plan
    }

    /// The same with disks: nobody loses what it wrote, and so the power may fail everywhere, now and then. Disks are lost, are full,
    /// slow, and fail.
    pub fn with_disks(mut self) -> Plan {
        let random = &mut Random::new(self.seed ^ 0x5c1d);
        let harms = &mut Random::new(self.seed ^ 0x1057);
        self.disks = true;
        // Logs are kept for good: a little memory would be full of them.
        self.load.sizes.memory = 0;
        for _ in 0..random.below(4) {
            let at_ns = random.below(self.length_ns);
            let for_ns = random.below(self.settings.election_timeout);
            self.faults.push(Scheduled { at_ns, for_ns, fault: Fault::PowerCut });
        }
        // Whoever could tell that a disk is old must not have lost its own.
        // And who has just come could not tell.
        let restores = random.one_in(2) && !self.faults.iter().any(|fault| fault.fault.is_order());
        let restores = restores && self.engine().is_ok_and(|engine| engine.abilities().knows_old_disks);
        for _ in 0..random.below(3) {
            let at_ns = random.below(self.length_ns);
            let node = random.below(u64::from(self.replicas)) as u8;
            let fault = match (restores, harms.below(3)) {
                (true, 0) => Fault::RestoreDisk(node),
                (true, _) => Fault::RestoreUnheard(node, harms.between(1, 40) as u16),
                (false, 0) => Fault::LoseNames(node),
                (false, _) => Fault::Wipe(node),
            };
            self.faults.push(Scheduled { at_ns, for_ns: self.settings.election_timeout, fault });
        }
        for _ in 0..random.below(5) {
            let timeout = self.settings.election_timeout;
            let node = random.below(u64::from(self.replicas)) as u8;
            let victim = random.pick(&[Victim::Leader, Victim::Node(node), Victim::Node(node)]);
            let at_ns = random.below(self.length_ns);
            let (for_ns, fault) = match random.below(3) {
                0 => (timeout * 8, Fault::FillDisk(victim, random.pick(&[0, 64 << 10, 16 << 20]))),
                1 => (timeout * 16, Fault::SlowDisk(victim, timeout * random.pick(&[1, 4, 16]) / 4)),
                _ => (timeout / 2, Fault::FailSync(victim)),
            };
            self.faults.push(Scheduled { at_ns, for_ns, fault });
        }
        self.hang_disks();
        self.stall_changes();
        self.trouble_disks();
        self.faults.sort_by_key(|fault| fault.at_ns);
        self
    }

    /// In one of three plans a disk hangs, for a hundred timeouts, for good, or again and again: of the default engine, whose leader is to
    /// make way. From chance of their own, so that plans keep what else they have.
    fn hang_disks(&mut self) {
        let random = &mut Random::new(self.seed ^ 0x4a16);
        if self.engine() != Ok(EngineKind::Rolis) || !random.one_in(3) {
            return;
        }
        let (timeout, node) = (self.settings.election_timeout, random.below(u64::from(self.replicas)) as u8);
        let victim = random.pick(&[Victim::Leader, Victim::Leader, Victim::Node(node)]);
        let at_ns = random.below(self.length_ns);
        let times = match random.below(3) {
            0 => vec![(at_ns, 100 * timeout)],
            1 => vec![(at_ns, LASTING)],
            _ => (0..6)
                .map(|time| (at_ns + time * 4 * timeout, random.between(timeout, 3 * timeout)))
                .collect(),
        };
        let hangs = |(at_ns, for_ns)| Scheduled { at_ns, for_ns, fault: Fault::HungDisk(victim) };
        self.faults.extend(times.into_iter().map(hangs));
    }

    /// In one of three plans of an engine without a leader disks stall where changes of epoch are led: one that is slow meanwhile, another node ends and comes
    /// back, which is a reason for a change, and whoever leads that ends in the middle of it, with its promise on no disk, and comes back. From chance
    /// of their own, as above.
    fn stall_changes(&mut self) {
        let random = &mut Random::new(self.seed ^ 0x57a1);
        if !self.engine().is_ok_and(|engine| engine.abilities().leaderless) || !random.one_in(3) {
            return;
        }
        let (timeout, beat) = (self.settings.election_timeout, self.settings.heartbeat);
        for _ in 0..random.between(1, 3) {
            let at_ns = random.below(self.length_ns);
            // The first of those that are heard leads, as a rule.
            let slow = random.below(u64::from(self.replicas.div_ceil(2))) as u8;
            let ends = (slow + 1 + random.below(u64::from(self.replicas) - 1) as u8) % self.replicas;
            let by = random.between(beat, 2 * timeout);
            let change_at = at_ns + timeout / 2;
            for (at_ns, for_ns, fault) in [
                (at_ns, 6 * timeout, Fault::SlowDisk(Victim::Node(slow), by)),
                (change_at, timeout / 4, Fault::Kill(Victim::Node(ends))),
                (change_at, timeout / 8, Fault::Kill(Victim::Candidate)),
            ] {
                self.faults.push(Scheduled { at_ns, for_ns, fault });
            }
        }
    }

    /// Disks are damaged, files cannot be opened, starts end early, and leaders' disks are full for so long that they make way: each in one
    /// plan of three. From chance of their own, as above.
    fn trouble_disks(&mut self) {
        let random = &mut Random::new(self.seed ^ 0xd15c_5bad);
        let [rots, opens, starts, fills] = [(); 4].map(|()| random.one_in(3));
        let timeout = self.settings.election_timeout;
        let mut more = Vec::new();
        let mut plan = |at_ns, for_ns, fault| more.push(Scheduled { at_ns, for_ns, fault });
        let whole = !self.faults.iter().any(|at| {
            let fault = &at.fault;
            matches!(fault, Fault::RestoreDisk(_) | Fault::RestoreUnheard(..) | Fault::FoundAnew(_))
        });
        // Whoever could tell that a disk is old must not have lost its own; and builds change in the end without regard to disks.
        if rots && whole && self.levels.is_empty() {
            for _ in 0..random.between(1, 3) {
                let (node, at_ns) = (self.any_node(random), random.below(self.length_ns));
                let part = random.pick(&[Part::Journal, Part::Checkpoints(1), Part::Checkpoints(4)]);
                plan(at_ns, 0, Fault::Rot(node, part));
                // Down while it happens, or some time after; or it is never found out.
                let victim = Victim::Node(node);
                match random.below(3) {
                    0 => plan(at_ns.saturating_sub(timeout / 4), timeout, Fault::Kill(victim)),
                    1 => plan(at_ns + random.below(4 * timeout), random.below(timeout), Fault::Kill(victim)),
                    _ => {}
                }
            }
        }
        if opens {
            for _ in 0..random.between(1, 3) {
                let node = Victim::Node(self.any_node(random));
                let victim = random.pick(&[Victim::Leader, node, node]);
                let lack = random.pick(&[Lack::Descriptors, Lack::Room, Lack::Broken]);
                let for_ns = random.between(timeout / 2, 16 * timeout);
                plan(random.below(self.length_ns), for_ns, Fault::FailOpen(victim, lack));
            }
        }
        if starts {
            for _ in 0..random.between(1, 3) {
                let (node, at_ns) = (self.any_node(random), random.below(self.length_ns));
                let steps = (0..random.between(1, 4)).map(|_| random.pick(&Step::ALL)).collect();
                plan(at_ns, 0, Fault::EndStarts(node, steps));
                plan(at_ns + 1, random.below(timeout), Fault::Kill(Victim::Node(node)));
            }
        }
        if fills && self.engine() == Ok(EngineKind::Rolis) && self.redis.is_none() {
            let room = random.pick(&[0, 64 << 10]);
            let for_ns = random.between(10 * timeout, 40 * timeout);
            plan(random.below(self.length_ns), for_ns, Fault::FillDisk(Victim::Leader, room));
        }
        self.faults.extend(more);
    }

    fn any_node(&self, random: &mut Random) -> u8 {
        random.below(u64::from(self.replicas)) as u8
    }

    /// In one plan of four an operator has leaders hand their leads over, up to six times.
    pub(super) fn hand_leads_over(&mut self) {
        let random = &mut Random::new(self.seed ^ 0x4a_4d0e);
        if self.engine() != Ok(EngineKind::Rolis) || self.is_long() || !random.one_in(4) {
            return;
        }
        for _ in 0..random.between(1, 6) {
            let at_ns = random.below(self.length_ns);
            self.faults.push(Scheduled { at_ns, for_ns: 0, fault: Fault::HandOver(Victim::Leader) });
        }
        self.faults.sort_by_key(|fault| fault.at_ns);
    }

    /// Whether it is one of those that last for minutes.
    pub fn is_long(&self) -> bool {
        self.length_ns > 200_000 * MS
    }
}
