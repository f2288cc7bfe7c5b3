//! Turns a drawn plan to the circumstances under which a planted bug can show.

use highwater_core::planted::Circumstance;
use highwater_seam::Nanos;

use crate::Plan;
use crate::faults::{Fault, LASTING, Lack, Part, Scheduled, Step, Victim};
use crate::plan::{Busy, Interleaved, Load, Mix, Redis};
use crate::units::{MS, US};
use highwater_core::Random;

/// Turns a plan there.
pub(super) fn turn(plan: &mut Plan, to: Circumstance) {
    if to != Circumstance::Any {
        // Who belongs is the circumstance's own business.
        plan.newcomers = 0;
        let replicas = plan.replicas;
        plan.faults.retain(|fault| !fault.fault.is_order() && fault.fault.fits(replicas));
    }
    match to {
        Circumstance::Any => {}
        Circumstance::Contended => contended(plan),
        Circumstance::Torn => torn(plan),
        Circumstance::Halved => halved(plan),
        Circumstance::Shown => shown(plan),
        Circumstance::Misled => misled(plan),
        Circumstance::Observed => observed(plan),
        Circumstance::Pinned => pinned(plan),
        Circumstance::Mortal => mortal(plan),
        Circumstance::Newborn => newborn(plan),
        Circumstance::Defied => defied(plan),
        Circumstance::Stranded => stranded(plan),
        Circumstance::Jammed => jammed(plan),
        Circumstance::Hung => hung(plan),
        Circumstance::HandedOver => handed_over(plan),
        Circumstance::Full => full(plan),
        Circumstance::Unpowered => unpowered(plan),
        Circumstance::Darkened => darkened(plan),
        Circumstance::Restored => restored(plan),
        Circumstance::Unheard => unheard(plan),
        Circumstance::Nameless => nameless(plan),
        Circumstance::Forgetful => forgetful(plan),
        Circumstance::Founded => founded(plan),
        Circumstance::Outrun => outrun(plan),
        Circumstance::Failing => failing(plan),
        Circumstance::Starved => starved(plan),
        Circumstance::Rotten => rotten(plan),
        Circumstance::Interrupted => interrupted(plan),
        Circumstance::Burdened => burdened(plan),
        Circumstance::Retried => retried(plan),
        Circumstance::Moving => moving(plan),
        Circumstance::Mixed => mixed(plan),
        Circumstance::Hurried => hurried(plan),
        Circumstance::Expiring => expiring(plan),
        Circumstance::Waiting => waiting(plan),
        Circumstance::Interacting => interacting(plan),
        Circumstance::Pipelining => pipelining(plan),
        Circumstance::Forwarding => forwarding(plan),
        Circumstance::Ruled => ruled(plan),
        Circumstance::Toggled => toggled(plan),
        Circumstance::Halting => halting(plan),
        Circumstance::Belated => belated(plan),
    }
}

/// Nobody but guests, of one kind.
const GUESTS: Redis = Redis {
    expiring: 0,
    queues: 0,
    interactive: 0,
    pipelined: 0,
    users: 0,
    forward: false,
    keys: 1,
    commands: 120,
    skew_ms: 0,
    jumps: false,
};

fn only_guests(plan: &mut Plan, redis: Redis) {
    plan.load = Load { clients: 1, transactions: 50, counters: 0, ..plan.load };
    plan.load.sizes.memory = 0;
    *plan = plan.clone().with_guests(redis);
}

/// Keys expire, on few names, while leaders change whose clocks differ and jump.
fn expiring(plan: &mut Plan) {
    mortal(plan);
    only_guests(plan, Redis { expiring: 8, keys: 2, skew_ms: 60_000, jumps: true, ..GUESTS });
}

/// Clients wait for what others push.
fn waiting(plan: &mut Plan) {
    only_guests(plan, Redis { queues: 10, ..GUESTS });
}

/// Clients decide transactions step by step, on few keys.
fn interacting(plan: &mut Plan) {
    only_guests(plan, Redis { interactive: 6, ..GUESTS });
}

/// Clients send many commands at once, on few keys, and requests are put off.
fn pipelining(plan: &mut Plan) {
    only_guests(plan, Redis { pipelined: 6, keys: 2, ..GUESTS });
    plan.interleaving = None;
    choose(plan, "PutOff", 3);
}

/// The same through followers, which forward what they are asked, while leaders hand their lead over.
fn forwarding(plan: &mut Plan) {
    handed_over(plan);
    only_guests(plan, Redis { pipelined: 8, forward: true, keys: 2, ..GUESTS });
    plan.interleaving = None;
    choose(plan, "PutOff", 3);
}

/// Users' rights come and go while leaders hand their lead over, and requests are put off.
fn ruled(plan: &mut Plan) {
    handed_over(plan);
    only_guests(plan, Redis { users: 3, ..GUESTS });
    plan.interleaving = None;
    choose(plan, "PutOff", 3);
}

/// Clients send many requests at once, on few keys, and requests are put off.
fn hurried(plan: &mut Plan) {
    let mix = Mix { lists: 4, ..Mix::default() };
    plan.load = Load { pipelines: 6, keys: 2, mix, read_percent: 30, ..plan.load };
    plan.interleaving = None;
    choose(plan, "PutOff", 3);
}

/// Workers meet in the middle of their transactions, on few keys.
fn contended(plan: &mut Plan) {
    plan.workers = plan.workers.max(3);
    plan.interleaving =
        Some(Interleaved { one_in: 3, long_one_in: 20, longest_ns: 200 * US, controllers: false });
    plan.settings.max_in_flight_requests = plan.settings.max_in_flight_requests.max(64);
    plan.settings.max_attempts = 100;
    let mix = Mix { lists: 4, rows: 4, registers: 0, toggles: 1, bank: 2, audit: 0, ..Mix::default() };
    let (operations, keys) = (plan.load.operations.max(3), 2 + (plan.seed % 3) as u32);
    plan.load =
        Load { clients: 32, transactions: 2400, keys, operations, read_percent: 50, mix, ..plan.load };
    plan.load.workers = Busy::Any;
}

/// Much work on all streams; now one stream stands still, now the leader is cut off in the middle of it.
fn torn(plan: &mut Plan) {
    plan.workers = plan.workers.max(3);
    plan.settings.batch_delay = 1000 * US;
    plan.settings.max_in_flight_requests = plan.settings.max_in_flight_requests.max(64);
    plan.load = Load { clients: 32, transactions: 2400, workers: Busy::Any, ..plan.load };
    let (timeout, workers) = (plan.settings.election_timeout, u64::from(plan.workers));
    every(plan, 7 * timeout, |round| {
        let stream = ((round + 1) % workers) as u16;
        vec![(0, timeout, Fault::Hold(stream)), (timeout / 2, 3 * timeout, Fault::Isolate(Victim::Leader))]
    });
}

/// Torn, and many clients ask again and again for the same under sessions.
fn retried(plan: &mut Plan) {
    torn(plan);
    plan.load.counters = 16;
    plan.load.patience_ns = plan.settings.election_timeout / 4;
}

/// Contended, with so long interruptions that others seal meanwhile; and replicas show their snapshots all the time.
fn observed(plan: &mut Plan) {
    contended(plan);
    shown(plan);
    plan.interleaving =
        Some(Interleaved { one_in: 3, long_one_in: 4, longest_ns: 1000 * US, controllers: false });
    plan.settings.batch_delay = 0;
    plan.settings.max_entry_bytes = 1 << 10;
    plan.settings.pipeline_entries = 16;
    choose(plan, "SealEarly", 3);
    plan.load.mix = Mix { lists: 4, ..Mix::default() };
}

/// Shown, on followers that are interrupted while they take them.
fn pinned(plan: &mut Plan) {
    contended(plan);
    shown(plan);
    plan.interleaving =
        Some(Interleaved { one_in: 3, long_one_in: 2, longest_ns: 1000 * US, controllers: false });
}

/// Replicas show their snapshots all the time.
fn shown(plan: &mut Plan) {
    plan.load.snapshot_percent = 40;
    plan.settings.snapshot_age = 0;
}

/// Readers ask for freshness, and pairs are cut off: a deposed leader and one who still follows it, now and then.
fn misled(plan: &mut Plan) {
    shown(plan);
    plan.load = Load { clients: 32, transactions: 2400, fresh_percent: 100, ..plan.load };
    plan.replicas = 5;
    plan.faults.retain(|fault| fault.fault.fits(5));
    plan.clocks.resize(5, (1_000_000, None));
    plan.absent = 0;
    let timeout = plan.settings.election_timeout;
    every(plan, 8 * timeout, |round| {
        let (one, other) = (round % 5, (round + 1 + round / 5 % 2) % 5);
        vec![(0, 5 * timeout, Fault::Split(1 << one | 1 << other))]
    });
}

/// Leaders die as soon as their epochs open, over slow links, in small clusters whose members change with each death.
fn newborn(plan: &mut Plan) {
    plan.replicas = 3;
    plan.faults.retain(|fault| fault.fault.fits(3));
    plan.clocks.truncate(3);
    plan.absent = 0;
    let timeout = plan.settings.election_timeout;
    plan.delay_ns = timeout / 40;
    plan.delay_spread_ns = timeout / 80;
    every(plan, 7 * timeout, |round| {
        let follower = Victim::Node((round % 3) as u8);
        vec![(0, timeout / 4, Fault::Kill(follower)), (timeout / 2, timeout / 2, Fault::Kill(Victim::Opener))]
    });
}

/// Torn, and whoever would take over is cut off in the middle of it; frames of streams are lost.
fn halved(plan: &mut Plan) {
    torn(plan);
    plan.transport.lost = 50;
    plan.settings.pipeline_entries = 16;
    plan.settings.max_entry_bytes = 1 << 10;
    plan.settings.max_in_flight_bytes = 32 << 10;
    plan.settings.log_retain_bytes = plan.settings.log_retain_bytes.max(32 << 10);
    let timeout = plan.settings.election_timeout;
    every(plan, 7 * timeout, |_| {
        [1, 2].map(|half| (half * timeout / 2, timeout, Fault::Isolate(Victim::Candidate))).to_vec()
    });
}

/// Leaders die and come back, one after the other: changes of members, copies, takeovers that are cut short.
fn mortal(plan: &mut Plan) {
    let timeout = plan.settings.election_timeout;
    every(plan, 5 * timeout, |round| {
        let victim = if round % 3 == 2 { Victim::Candidate } else { Victim::Leader };
        vec![(0, timeout / 2, Fault::Kill(victim))]
    });
}

/// Candidates stand though a leader is at work, who does not hear them, while another follower hears both.
fn defied(plan: &mut Plan) {
    plan.load = Load { clients: 32, transactions: 2400, workers: Busy::Any, ..plan.load };
    for choice in ["SkipPreVote", "AskEarly"] {
        choose(plan, choice, 30);
    }
    let (timeout, replicas) = (plan.settings.election_timeout, u64::from(plan.replicas));
    every(plan, 2 * timeout, |round| {
        let from = round % replicas;
        let to = (from + 1 + round / replicas % (replicas - 1)) % replicas;
        vec![(0, 2 * timeout, Fault::OneWay(from as u8, to as u8))]
    });
}

/// The leader is left with one that hears it, for good; the others hear each other.
fn stranded(plan: &mut Plan) {
    plan.replicas = 4;
    plan.faults.retain(|fault| fault.fault.fits(4));
    plan.clocks.resize(4, (1_000_000, None));
    plan.absent = plan.absent.min(1);
    lasts(plan, Fault::Strand(Victim::Leader, 1));
}

/// One of the leader's workers gets stuck, for good.
fn jammed(plan: &mut Plan) {
    lasts(plan, Fault::Stick(Victim::Leader, 0));
}

/// Replicas have disks, and the leader's hangs, for good. Clients ask for so much that what may wait for it does soon.
fn hung(plan: &mut Plan) {
    plan.disks = true;
    plan.load = Load { clients: 32, transactions: 2400, workers: Busy::Any, ..plan.load };
    plan.load.sizes.memory = 0;
    plan.settings.max_in_flight_bytes = plan.settings.max_in_flight_bytes.min(16 << 10);
    plan.settings.max_entry_bytes = plan.settings.max_entry_bytes.min(4 << 10);
    lasts(plan, Fault::HungDisk(Victim::Leader));
}

/// Nothing else goes wrong from the middle on.
fn lasts(plan: &mut Plan, fault: Fault) {
    let at_ns = plan.length_ns / 2;
    plan.faults.retain(|fault| fault.for_ns < LASTING && fault.at_ns + fault.for_ns < at_ns);
    plan.faults.push(Scheduled { at_ns, for_ns: LASTING, fault });
}

/// Much work, and leaders hand their lead over again and again.
fn handed_over(plan: &mut Plan) {
    plan.settings.max_in_flight_requests = plan.settings.max_in_flight_requests.max(64);
    plan.load = Load { clients: 32, transactions: 2400, workers: Busy::Any, ..plan.load };
    choose(plan, "HandOver", 20);
}

/// Memory ends.
fn full(plan: &mut Plan) {
    crate::plan::fill_up(plan, &mut Random::new(plan.seed));
}

/// Adds faults to a plan, in rounds: what happens after the start of each, for how long.
fn every(plan: &mut Plan, period: Nanos, faults: impl Fn(u64) -> Vec<(Nanos, Nanos, Fault)>) {
    for round in 1..=plan.length_ns / period {
        for (after, for_ns, fault) in faults(round) {
            plan.faults.push(Scheduled { at_ns: round * period + after, for_ns, fault });
        }
    }
    plan.faults.sort_by_key(|fault| fault.at_ns);
}

/// Has a rare choice made so often, if the engine has it.
fn choose(plan: &mut Plan, name: &str, one_in: u64) {
    if plan.site(name).is_some() {
        plan.choices.insert(name.to_string(), one_in);
    }
}

/// The last of four replicas is removed; then one after the other is cut off from all but that one, under much work.
fn moving(plan: &mut Plan) {
    torn(plan);
    plan.replicas = 4;
    plan.absent = 0;
    plan.clocks.resize(4, (1_000_000, None));
    let timeout = plan.settings.election_timeout;
    plan.faults.clear();
    every(plan, 7 * timeout, |round| {
        let alone = 1 << (round % 3) | 1 << 3;
        match round {
            1 => vec![(0, 0, Fault::Remove(3))],
            _ => vec![(0, 3 * timeout, Fault::Split(alone))],
        }
    });
}

/// Replicas have disks; the power fails everywhere again and again, or for one alone, and leaders are cut off in between.
fn unpowered(plan: &mut Plan) {
    torn(plan);
    plan.disks = true;
    let timeout = plan.settings.election_timeout;
    every(plan, 5 * timeout, |round| match round % 3 {
        0 => vec![(0, timeout / 8, Fault::PowerCut)],
        1 => {
            vec![(0, timeout / 8, Fault::Kill(Victim::Leader)), (timeout / 16, timeout / 8, Fault::PowerCut)]
        }
        _ => vec![
            (0, 2 * timeout, Fault::Isolate(Victim::Leader)),
            (2 * timeout, timeout / 8, Fault::PowerCut),
        ],
    });
}

/// Unpowered, and what is accepted does not wait for disks: what was acknowledged last may be lost, and no client counts on it.
fn darkened(plan: &mut Plan) {
    unpowered(plan);
    plan.behind = true;
    (plan.load.counters, plan.load.fresh_percent) = (0, 0);
}

/// Replicas have disks. A leader is left with one that hears it; that one's disk becomes an older copy, and the leader is cut off.
fn restored(plan: &mut Plan) {
    harmed(plan, Fault::RestoreDisk);
}

/// The same, and the copy is started often before anybody hears of it, and writes a little each time.
fn unheard(plan: &mut Plan) {
    harmed(plan, |node| Fault::RestoreUnheard(node, 40));
}

/// A leader is left with one that hears it; something befalls that one's disk, and the leader is cut off.
fn harmed(plan: &mut Plan, harm: impl Fn(u8) -> Fault) {
    torn(plan);
    plan.disks = true;
    (plan.replicas, plan.absent) = (3, plan.absent.min(1));
    plan.clocks.truncate(3);
    plan.faults.clear();
    plan.length_ns = plan.length_ns.max(2500 * MS);
    let timeout = plan.settings.election_timeout;
    let met = 2 * timeout + 120 * MS;
    every(plan, 2 * met + 8 * timeout, |round| {
        let node = (round % 3) as u8;
        vec![
            (0, timeout / 8, Fault::Kill(Victim::Node(node))),
            (met + timeout, 2 * timeout, Fault::Strand(Victim::Leader, 1)),
            (met + 2 * timeout, timeout / 8, harm(node)),
            (met + 2 * timeout + timeout / 16, 4 * timeout, Fault::Isolate(Victim::Leader)),
        ]
    });
}

/// Replicas have disks. What is acknowledged while one of three hears nothing is on the disks of the other two: of one of them the journal is
/// lost, and the other one hears nothing. All in the first epoch, before the one that heard nothing is missed.
fn nameless(plan: &mut Plan) {
    one_forgets(plan, |at_ns, for_ns, loses| vec![(at_ns, for_ns, Fault::LoseNames(loses))]);
}

/// The same; but the middle of that one's journal is damaged while it is down.
fn rotten(plan: &mut Plan) {
    one_forgets(plan, |at_ns, for_ns, loses| {
        let kill = (at_ns, for_ns, Fault::Kill(Victim::Node(loses)));
        vec![(at_ns - 1, 0, Fault::Rot(loses, Part::Journal)), kill]
    });
}

/// As nameless, and that one's next start ends when it has set aside what is left.
fn interrupted(plan: &mut Plan) {
    one_forgets(plan, |at_ns, for_ns, loses| {
        let ends = (at_ns - 1, 0, Fault::EndStarts(loses, vec![Step::Settles]));
        vec![ends, (at_ns, for_ns, Fault::LoseNames(loses))]
    });
}

/// Replicas have disks. The leader's is about to be full, for long, again and again, under much work.
fn burdened(plan: &mut Plan) {
    plan.disks = true;
    plan.load = Load { clients: 32, transactions: 2400, workers: Busy::Any, ..plan.load };
    plan.load.sizes.memory = 0;
    let timeout = plan.settings.election_timeout;
    plan.length_ns = plan.length_ns.max(40 * timeout);
    plan.faults.clear();
    every(plan, 20 * timeout, |_| vec![(0, 16 * timeout, Fault::FillDisk(Victim::Leader, 64 << 10))]);
}

/// Replicas have disks. What is acknowledged while one of three hears nothing is on the disks of the other two: something befalls one of
/// these (when, for how long, whom), and the other one hears nothing.
fn one_forgets(plan: &mut Plan, harm: impl Fn(Nanos, Nanos, u8) -> Vec<(Nanos, Nanos, Fault)>) {
    torn(plan);
    plan.disks = true;
    (plan.replicas, plan.absent) = (3, 0);
    plan.clocks.truncate(3);
    plan.faults.clear();
    plan.length_ns = plan.length_ns.max(1000 * MS);
    let timeout = plan.settings.election_timeout;
    let node = |more: u64| ((plan.seed + more) % 3) as u8;
    let (away, loses, knows) = (node(0), node(1), node(2));
    let lost_at = 2 * timeout - timeout / 16;
    let mut faults = vec![
        (timeout, timeout, Fault::Isolate(Victim::Node(away))),
        (lost_at, 8 * timeout, Fault::Isolate(Victim::Node(knows))),
    ];
    faults.extend(harm(lost_at, timeout / 8, loses));
    let scheduled = |(at_ns, for_ns, fault)| Scheduled { at_ns, for_ns, fault };
    plan.faults.extend(faults.into_iter().map(scheduled));
    plan.faults.sort_by_key(|fault| fault.at_ns);
}

/// Replicas have disks, which are behind. A leader is left with one that hears it; one of the three crashes, comes back at once, and the
/// leader is cut off.
fn forgetful(plan: &mut Plan) {
    torn(plan);
    (plan.disks, plan.behind) = (true, true);
    (plan.replicas, plan.absent) = (3, plan.absent.min(1));
    plan.clocks.truncate(3);
    plan.faults.clear();
    plan.length_ns = plan.length_ns.max(2500 * MS);
    let timeout = plan.settings.election_timeout;
    every(plan, 8 * timeout, |round| {
        let node = (round % 3) as u8;
        vec![
            (0, 3 * timeout, Fault::SlowDisk(Victim::Node(node), 8 * MS)),
            (timeout / 2, 2 * timeout, Fault::Strand(Victim::Leader, 1)),
            (timeout, timeout / 16, Fault::Kill(Victim::Node(node))),
            (timeout + timeout / 16, 4 * timeout, Fault::Isolate(Victim::Leader)),
        ]
    });
}

/// All but one node are of the newer build from the start, and that one stays behind.
fn mixed(plan: &mut Plan) {
    plan.faults.retain(|fault| !matches!(fault.fault, Fault::Build(..)));
    plan.levels = vec![2; usize::from(plan.replicas) - 1];
    plan.levels.push(1);
}

/// Replicas have disks; in the middle a new cluster is founded from them by a majority of the nodes, and the others come back.
fn founded(plan: &mut Plan) {
    crate::plan::found_anew(plan);
}

/// Replicas have disks; one after the other is cut off under much work, and the leader keeps little of its log.
fn outrun(plan: &mut Plan) {
    torn(plan);
    plan.disks = true;
    plan.settings.log_retain_bytes = plan.settings.max_in_flight_bytes;
    plan.faults.clear();
    let (timeout, replicas) = (plan.settings.election_timeout, u64::from(plan.replicas));
    every(plan, 8 * timeout, |round| {
        vec![(0, 5 * timeout, Fault::Isolate(Victim::Node((round % replicas) as u8)))]
    });
}

/// Unpowered, and a sync of a disk fails in between.
fn failing(plan: &mut Plan) {
    unpowered(plan);
    let timeout = plan.settings.election_timeout;
    let replicas = u64::from(plan.replicas);
    every(plan, 5 * timeout, |round| {
        let victims = [Victim::Leader, Victim::Node((round % replicas) as u8)];
        victims.map(|victim| (4 * timeout, timeout / 8, Fault::FailSync(victim))).to_vec()
    });
}

/// Unpowered, and no file can be opened for a while in between.
fn starved(plan: &mut Plan) {
    unpowered(plan);
    let timeout = plan.settings.election_timeout;
    let replicas = u64::from(plan.replicas);
    every(plan, 5 * timeout, |round| {
        let victims = [Victim::Leader, Victim::Node((round % replicas) as u8)];
        victims.map(|victim| (4 * timeout, timeout, Fault::FailOpen(victim, Lack::Descriptors))).to_vec()
    });
}

/// So many replicas, without a leader, over quick links; nothing else goes wrong than what is added. Whoever waits for a replica that does not answer
/// waits for a heartbeat at most, and so takes a round trip for as long: transactions are taken over after two timeouts, which are longer than sixteen of those.
fn alone(plan: &mut Plan, replicas: u8) {
    plan.replicas = replicas;
    plan.absent = 0;
    plan.from_birth = false;
    plan.faults.clear();
    plan.clocks = vec![(1_000_000, None); replicas.into()];
    (plan.delay_ns, plan.delay_spread_ns) = (20 * US, 20 * US);
    (plan.transport.lost, plan.transport.repeated, plan.transport.reordered) = (0, 0, false);
    (plan.settings.heartbeat, plan.settings.election_timeout) = (2 * MS, 20 * MS);
    // Much work: whoever goes on says at once how far it is.
    plan.length_ns = 600 * MS;
    plan.load = Load { clients: 32, transactions: 6000, counters: 0, delegates: 0, ..plan.load };
    let settings = &mut plan.settings;
    settings.max_in_flight_requests = settings.max_in_flight_requests.max(64);
    settings.max_in_flight_bytes = settings.max_in_flight_bytes.max(256 << 10);
    settings.log_retain_bytes = settings.log_retain_bytes.max(1 << 20);
    (plan.load.sizes.memory, plan.load.mix.blobs) = (0, 0);
}

/// Keys come and go under scans. Two of four replicas do not hear each other for a while: one of them scans, and dies; what it had committed the
/// two that it heard have found valid.
fn toggled(plan: &mut Plan) {
    alone(plan, 4);
    (plan.delay_ns, plan.delay_spread_ns) = (400 * US, 50 * US);
    plan.interleaving = None;
    let mix = Mix { toggles: 1, glances: 10, audit: 10, ..Mix::default() };
    plan.length_ns = 1200 * MS;
    plan.load =
        Load { transactions: 30_000, operations: 2, read_percent: 0, workers: Busy::Any, mix, ..plan.load };
    let timeout = plan.settings.election_timeout;
    every(plan, 4 * timeout, |round| {
        let [dies, other, third, fourth] = [0, 1, 2, 3].map(|at| ((round + at) % 4) as u8);
        let deaf = 4 * MS + round % 4 * MS;
        vec![
            (0, 2 * timeout, Fault::Clog(dies, other)),
            (0, 2 * timeout, Fault::Clog(other, dies)),
            // What the others do both of them hear.
            (0, deaf + MS, Fault::Shun(Victim::Node(third))),
            (0, deaf + MS, Fault::Shun(Victim::Node(fourth))),
            (deaf, timeout / 2, Fault::Kill(Victim::Node(dies))),
        ]
    });
}

/// Replicas have disks. One's stands still, and another does not hear it; the third ends its transactions. Then the power fails, and that
/// one's disk is gone with it.
fn halting(plan: &mut Plan) {
    alone(plan, 3);
    plan.disks = true;
    plan.length_ns = 1500 * MS;
    // A round trip waits for disks, too.
    plan.settings.election_timeout = 40 * MS;
    let (timeout, beat) = (plan.settings.election_timeout, plan.settings.heartbeat);
    every(plan, 8 * timeout, |round| {
        let [still, deaf, third] = [0, 1, 2].map(|at| ((round + at) % 3) as u8);
        let over = 2 * timeout + (2 + round % 7) * beat / 2;
        vec![
            (0, over, Fault::SlowDisk(Victim::Node(still), 10 * timeout)),
            (0, over, Fault::SlowDisk(Victim::Node(deaf), beat / 2)),
            (0, over, Fault::Clog(still, deaf)),
            (over - MS / 10, timeout, Fault::Wipe(third)),
            (over, timeout / 8, Fault::PowerCut),
        ]
    });
}

/// Clocks move by being looked at, and by what others tell. One leaps ahead; for a while a second replica hears nothing, that neither, and the
/// third one hears the first now and then: it has found valid what its coordinator has answered already, and does not know so.
fn belated(plan: &mut Plan) {
    alone(plan, 3);
    plan.workers = 1;
    plan.interleaving = None;
    plan.choices.clear();
    // Longer than the moment for which the third one hears the first: what is accepted in one is told in the next.
    (plan.delay_ns, plan.delay_spread_ns) = (100 * US, 5 * US);
    let mix = Mix { lists: 1, ..Mix::default() };
    plan.load = Load { transactions: 2400, keys: 2, operations: 1, read_percent: 60, mix, ..plan.load };
    every(plan, 30 * MS, |round| {
        let [deaf, from, to] = [0, 1, 2].map(|at| ((round + at) % 3) as u8);
        let mut faults = vec![
            (0, 16 * MS, Fault::Clog(from, deaf)),
            (0, 16 * MS, Fault::Clog(to, deaf)),
            (MS / 4, 0, Fault::LeapCommits(from, 1 << 20)),
        ];
        faults.extend((0..14).map(|at| (MS / 2 + at * 1060 * US, MS, Fault::Clog(from, to))));
        faults
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A choice that was renamed would be left out in silence.
    #[test]
    fn circumstances_make_choices_that_there_are() {
        for (circumstance, choices) in [
            (Circumstance::Observed, &["SealEarly"][..]),
            (Circumstance::Defied, &["SkipPreVote", "AskEarly"]),
            (Circumstance::HandedOver, &["HandOver"]),
            (Circumstance::Pipelining, &["PutOff"]),
            (Circumstance::Forwarding, &["PutOff"]),
            (Circumstance::Ruled, &["PutOff"]),
            (Circumstance::Hurried, &["PutOff"]),
        ] {
            let mut plan = Plan::draw(1);
            plan.choices.clear();
            turn(&mut plan, circumstance);
            assert!(choices.iter().all(|name| plan.choices.contains_key(*name)), "{circumstance:?}");
        }
    }
}
