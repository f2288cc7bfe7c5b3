//! How each kind of fault is done to the cluster, kept up, and taken back.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use highwater_node::admin::protocol::StatusReport;
use highwater_seam::Service;
use highwater_workloads::random::Rng;
use rustix::process::Signal;

use super::ballast::{Ballast, Weighed};
use super::events::Event;
use super::guests::{Guest, Guestbook, House};
use super::network::{Network, OUTSIDE, Weather};
use super::schedule::{self, FaultKind, Strike, millis};
use super::watch::{FRESH, Watch};
use crate::answers;
use crate::disks;
use crate::failure::{Failure, Result};
use crate::fleet::Fleet;
use crate::machine::monotonic_ns;

/// How long a healed cluster may take until everybody votes again.
pub const WHOLE_AGAIN: Duration = Duration::from_secs(60);
/// How long after its time a sync that is to fail may come.
#[cfg(feature = "failing-syncs")]
const SYNCS_SOON: Duration = Duration::from_secs(20);
/// How long a guest waits for a replica that other faults keep from coming back.
const COME_BACK: Duration = Duration::from_secs(30);

/// A minority.
fn replicas_lost_at_most(replicas: usize) -> usize {
    (replicas - 1) / 2
}

/// The faults of a run: those that last, and those that were.
pub struct Faults<'a> {
    fleet: &'a mut Fleet,
    network: &'a mut Network,
    watch: &'a Watch,
    house: House,
    /// What guests did.
    pub guestbook: Guestbook,
    /// Everything that was done.
    pub events: Vec<Event>,
    active: Vec<Active>,
    /// Replicas that do not run.
    down: BTreeSet<usize>,
    started: Instant,
}

struct Active {
    event: usize,
    ends: Instant,
    hold: Hold,
}

/// What has to be taken back.
enum Hold {
    Down {
        node: usize,
        again: Option<Duration>,
    },
    AllDown,
    Returning {
        node: usize,
    },
    Stopped {
        node: usize,
    },
    Cut(Vec<(usize, usize)>),
    Unplugged {
        node: usize,
    },
    Flapping {
        links: Vec<(usize, usize)>,
        cut: bool,
        turn: Instant,
        rng: Rng,
    },
    Weather(Vec<(usize, usize)>),
    Resets {
        pairs: Vec<(usize, usize)>,
        turn: Instant,
        rng: Rng,
    },
    Full {
        nodes: Vec<usize>,
        ballast: Ballast,
    },
    #[cfg(feature = "failing-syncs")]
    FailingSync {
        node: usize,
        ended: bool,
    },
    Guests {
        guests: Vec<Guest>,
        victim: usize,
        restart: Restart,
    },
}

/// The restart that a guest asks for once the cluster holds what it wrote.
#[derive(Clone, Copy)]
enum Restart {
    NotYet,
    /// `calm`: since when nothing else keeps it from coming back.
    Returning {
        since: Instant,
        calm: Instant,
    },
    Done,
}

impl Active {
    /// Whether it has lasted long enough: guests leave when they are done.
    fn is_due(&mut self, now: Instant) -> Result<bool> {
        match &mut self.hold {
            Hold::Guests { guests, .. } => {
                guests.iter_mut().try_fold(true, |all, guest| Ok(guest.ended()? && all))
            }
            #[cfg(feature = "failing-syncs")]
            Hold::FailingSync { ended, .. } => Ok(*ended && self.ends <= now),
            _ => Ok(self.ends <= now),
        }
    }
}

impl<'a> Faults<'a> {
    /// None yet, of a cluster that runs.
    pub fn new(fleet: &'a mut Fleet, network: &'a mut Network, watch: &'a Watch, house: House) -> Faults<'a> {
        Faults {
            fleet,
            network,
            watch,
            house,
            guestbook: Guestbook::default(),
            events: Vec::new(),
            active: Vec::new(),
            down: BTreeSet::new(),
            started: Instant::now(),
        }
    }

    /// Since the begin.
    pub fn elapsed(&self) -> Duration {
        self.started.elapsed()
    }

    /// Whether any lasts.
    pub fn any_lasts(&self) -> bool {
        !self.active.is_empty()
    }

    /// A moment passes: what comes and goes does so. A failure if a replica died that nobody struck.
    pub fn turn(&mut self) -> Result<()> {
        #[cfg(feature = "failing-syncs")]
        self.await_failing_syncs()?;
        self.fleet.none_died()?;
        self.fickle()?;
        self.restart_for_guests()
    }

    /// Prints a line with its time.
    pub fn say(&self, what: &str) {
        println!("{:7.1} s  {what}", self.elapsed().as_secs_f64());
    }

    /// Strikes; what is down already is not killed again, nor what the others could not do without.
    pub fn strike(&mut self, strike: &Strike) -> Result<()> {
        let replicas = self.fleet.len();
        let node = strike.who.resolve(self.watch.leader());
        if strike.kind.takes_memory() && !strike.kind.by_guests() && !self.can_spare(node) {
            return Ok(());
        }
        let mut rng = Rng::new(strike.draw);
        let (what, hold) = match strike.kind {
            FaultKind::Kill | FaultKind::KillLeader => {
                if !self.down.insert(node) {
                    return Ok(());
                }
                self.fleet.kill(node)?;
                let again = rng.percent(25).then(|| millis(&mut rng, 30, 500));
                (format!("kill -9 of replica {node}"), Hold::Down { node, again })
            }
            FaultKind::KillAll => {
                let up: Vec<usize> = (0..replicas).filter(|node| self.down.insert(*node)).collect();
                // First all of them die, then each is waited for.
                up.iter().try_for_each(|node| self.fleet.signal(*node, Signal::KILL))?;
                up.iter().try_for_each(|node| self.fleet.kill(*node))?;
                ("kill -9 of all replicas".into(), Hold::AllDown)
            }
            // Who is stopped hears no signal, and is waited for.
            FaultKind::Rolling if self.is_stopped(node) => return Ok(()),
            FaultKind::Rolling => {
                if !self.down.insert(node) {
                    return Ok(());
                }
                self.fleet.end(node)?;
                (format!("SIGTERM to replica {node}"), Hold::Down { node, again: None })
            }
            FaultKind::Pause => {
                self.fleet.signal(node, Signal::STOP)?;
                (format!("replica {node} stopped"), Hold::Stopped { node })
            }
            FaultKind::Partition if self.network.has_cables() && rng.percent(25) => {
                self.network.unplug(node)?;
                (format!("the cable of replica {node} pulled"), Hold::Unplugged { node })
            }
            FaultKind::Partition => {
                let (what, links) = schedule::partition(&mut rng, node, replicas);
                (what, self.cut(links)?)
            }
            FaultKind::Asymmetric => {
                let (what, links) = schedule::one_way(&mut rng, node, replicas);
                (what, self.cut(links)?)
            }
            FaultKind::Clients => {
                (format!("clients hear nothing of replica {node}"), self.cut(vec![(node, OUTSIDE)])?)
            }
            FaultKind::Flapping => {
                let draw = if rng.percent(50) { schedule::partition } else { schedule::one_way };
                let (what, links) = draw(&mut rng, node, replicas);
                (
                    format!("now and then {what}"),
                    Hold::Flapping { links, cut: false, turn: Instant::now(), rng },
                )
            }
            FaultKind::Slow => {
                let pairs = self.pairs_of(node, &mut rng);
                let weather = Weather::draw(&mut rng);
                for pair in &pairs {
                    self.network.weather(*pair, weather)?;
                }
                (format!("{} between {pairs:?}", weather), Hold::Weather(pairs))
            }
            FaultKind::DiskFull => {
                let count = if rng.percent(50) { 1 } else { replicas / 2 + 1 };
                let nodes: Vec<usize> = (0..count).map(|more| (node + more) % replicas).collect();
                nodes.iter().try_for_each(|node| disks::fill(&self.fleet.disk(*node)))?;
                let ballast = Ballast::start(self.house.doors.clone(), monotonic_ns());
                (format!("the disks of {nodes:?} are full"), Hold::Full { nodes, ballast })
            }
            #[cfg(feature = "failing-syncs")]
            FaultKind::FsyncFails => {
                if self.is_stopped(node) || !self.down.insert(node) {
                    return Ok(());
                }
                let order = self.fleet.folder(node).join("next-sync-fails");
                std::fs::write(&order, b"").map_err(Failure::negative)?;
                (format!("the next sync of replica {node} fails"), Hold::FailingSync { node, ended: false })
            }
            FaultKind::HalfOpen => {
                let (pairs, near) = (self.pairs_of(node, &mut rng), rng.percent(50));
                for pair in &pairs {
                    self.network.forget(*pair, near)?;
                }
                let end = if near { "who dials" } else { "who is dialed" };
                // Nothing is ever taken back: the ends that are held stay so.
                (format!("connections of {pairs:?} lost to {end} alone"), Hold::Cut(Vec::new()))
            }
            kind if kind.by_guests() => {
                let (what, guests) = self.guestbook.invite(&self.house, kind, strike.draw, strike.lasts)?;
                (what, Hold::Guests { guests, victim: node, restart: Restart::NotYet })
            }
            _ => {
                let pairs = self.pairs_of(node, &mut rng);
                (
                    format!("connections break between {pairs:?}"),
                    Hold::Resets { pairs, turn: Instant::now(), rng },
                )
            }
        };
        self.say(&format!("{:<11} {what}, for {} ms", strike.kind.name(), strike.lasts.as_millis()));
        self.events.push(Event {
            kind: strike.kind,
            what,
            from_ns: monotonic_ns(),
            to_ns: 0,
            leader_changes: self.watch.failovers(),
        });
        self.active.push(Active { event: self.events.len() - 1, ends: Instant::now() + strike.lasts, hold });
        Ok(())
    }

    /// Writes down what became of writes and reads while disks were full.
    fn weigh(&mut self, majority: bool, weighed: Weighed) {
        let Weighed { written, refused, read, trouble } = weighed;
        self.guestbook.trouble.extend(trouble);
        if refused > 0 && read == 0 {
            self.guestbook
                .trouble
                .push("no read was answered while writes were refused for full disks".into());
        }
        let whose = if majority { "of a majority" } else { "of one replica" };
        let counts = self.guestbook.counts.entry(FaultKind::DiskFull).or_default();
        for (what, n) in [
            (format!("full disks {whose}"), 1),
            ("writes of a MiB acknowledged".into(), written),
            (format!("refused with disks {whose} full"), refused),
            ("reads answered meanwhile".into(), read),
        ] {
            *counts.entry(what).or_default() += n;
        }
    }

    /// Whether the others could go on without what a replica has in memory. Where nobody leads, who hangs or is cut off is left out of
    /// the epoch, and needs a copy of the state: its memory does not count either.
    fn can_spare(&self, replica: usize) -> bool {
        if !self.fleet.engine().abilities().leaderless {
            return true;
        }
        let lately = Instant::now().checked_sub(FRESH).unwrap_or_else(Instant::now);
        let statuses = self.watch.statuses_since(lately);
        let has_its_say = |status: &&StatusReport| {
            let service = status.status().service;
            service >= Service::Standby && status.copying_bytes.is_none()
        };
        let voters = statuses.iter().flatten().filter(has_its_say);
        let others = voters.filter(|status| usize::from(status.node) != replica).count();
        others > replicas_lost_at_most(self.fleet.len())
    }

    fn is_stopped(&self, replica: usize) -> bool {
        self.active.iter().any(|active| matches!(active.hold, Hold::Stopped { node } if node == replica))
    }

    fn cut(&mut self, links: Vec<(usize, usize)>) -> Result<Hold> {
        for (from, to) in &links {
            self.network.cut(*from, *to)?;
        }
        Ok(Hold::Cut(links))
    }

    /// Pairs that can be slowed down: those of a replica, or one.
    fn pairs_of(&self, node: usize, rng: &mut Rng) -> Vec<(usize, usize)> {
        let all = self.network.slow_pairs();
        let mut own: Vec<_> = all.iter().copied().filter(|(a, b)| *a == node || *b == node).collect();
        if own.is_empty() {
            own = all;
        }
        if rng.percent(50) {
            own = vec![own[rng.below(own.len() as u64) as usize]];
        }
        own
    }

    /// What comes and goes while a fault lasts.
    fn fickle(&mut self) -> Result<()> {
        for active in &mut self.active {
            match &mut active.hold {
                Hold::Flapping { links, cut, turn, rng } if *turn <= Instant::now() => {
                    for (from, to) in links.iter() {
                        if *cut { self.network.mend(*from, *to)? } else { self.network.cut(*from, *to)? }
                    }
                    *cut = !*cut;
                    *turn = Instant::now() + millis(rng, 20, 300);
                }
                Hold::Resets { pairs, turn, rng } if *turn <= Instant::now() => {
                    for pair in pairs.iter() {
                        self.network.reset(*pair)?;
                    }
                    *turn = Instant::now() + millis(rng, 10, 400);
                }
                // Checkpoints and trimming make room, which is taken, too.
                Hold::Full { nodes, .. } => {
                    nodes.iter().try_for_each(|node| disks::fill(&self.fleet.disk(*node)))?;
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// A replica whose sync fails ends, with the words and the code of one that could not go on.
    #[cfg(feature = "failing-syncs")]
    fn await_failing_syncs(&mut self) -> Result<()> {
        for Active { hold, ends, .. } in &mut self.active {
            let Hold::FailingSync { node, ended: ended @ false } = hold else { continue };
            let Some((status, words)) = self.fleet.fell(*node) else {
                if *ends + SYNCS_SOON < Instant::now() {
                    return Err(Failure::negative(format!(
                        "replica {node} lives {} s after a sync was to fail",
                        SYNCS_SOON.as_secs()
                    )));
                }
                continue;
            };
            *ended = true;
            if status.code() != Some(1) || !words.contains("the replica stopped, its journal thread") {
                return Err(Failure::negative(format!(
                    "replica {node} ended with {status} when a sync failed, and said: {words}"
                )));
            }
            *self
                .guestbook
                .counts
                .entry(FaultKind::FsyncFails)
                .or_default()
                .entry("replicas ended".into())
                .or_default() += 1;
        }
        Ok(())
    }

    /// Kills and restarts a replica for a guest that waits for it, and tells the guest when the replica is back.
    fn restart_for_guests(&mut self) -> Result<()> {
        let mut active = std::mem::take(&mut self.active);
        let alone = active.len() == 1;
        let outcome = active.iter_mut().try_for_each(|Active { event, hold, .. }| match hold {
            Hold::Guests { guests, victim, restart } => {
                self.restart_for(*event, guests, *victim, restart, alone)
            }
            _ => Ok(()),
        });
        self.active = active;
        outcome
    }

    fn restart_for(
        &mut self,
        event: usize,
        guests: &mut [Guest],
        victim: usize,
        restart: &mut Restart,
        alone: bool,
    ) -> Result<()> {
        let Some(guest) = guests.iter_mut().find(|guest| guest.waits()) else { return Ok(()) };
        match *restart {
            // Others may have been left out meanwhile, and copy the state.
            Restart::NotYet if !self.down.contains(&victim) && !self.can_spare(victim) => {}
            Restart::NotYet => {
                if !self.down.contains(&victim) {
                    self.say(&format!("            kill -9 of replica {victim}, and a new start"));
                    self.events[event].what += &format!(", replica {victim} killed and started again");
                    self.fleet.kill(victim)?;
                    self.fleet.start_again(victim)?;
                }
                *restart = Restart::Returning { since: Instant::now(), calm: Instant::now() };
            }
            Restart::Returning { since, calm } => {
                let calm = if alone { calm } else { Instant::now() };
                match answers::healthy(&self.watch.statuses_since(since)) {
                    Err(missing) if calm.elapsed() > WHOLE_AGAIN => {
                        let seconds = WHOLE_AGAIN.as_secs();
                        return Err(Failure::negative(format!(
                            "{seconds} s after the restart of replica {victim}, with nothing else wrong: {missing}"
                        )));
                    }
                    // The guest does not wait for what other faults prevent.
                    Err(_) if alone || since.elapsed() <= COME_BACK => {
                        *restart = Restart::Returning { since, calm };
                    }
                    _ => {
                        guest.go_on()?;
                        *restart = Restart::Done;
                    }
                }
            }
            Restart::Done => {}
        }
        Ok(())
    }

    /// Takes back what has lasted long enough.
    pub fn heal_what_is_due(&mut self) -> Result<()> {
        let now = Instant::now();
        for mut active in std::mem::take(&mut self.active) {
            if active.is_due(now)? {
                self.heal(active)?;
            } else {
                self.active.push(active);
            }
        }
        Ok(())
    }

    fn heal(&mut self, Active { event, hold, .. }: Active) -> Result<()> {
        match hold {
            Hold::Down { node, again } => {
                self.fleet.start_again(node)?;
                match again {
                    None => drop(self.down.remove(&node)),
                    Some(after) => {
                        let hold = Hold::Returning { node };
                        self.active.push(Active { event, ends: Instant::now() + after, hold });
                        return Ok(());
                    }
                }
            }
            Hold::AllDown => {
                for node in 0..self.fleet.len() {
                    self.fleet.start_again(node)?;
                }
                self.down.clear();
            }
            Hold::Returning { node } => {
                self.say(&format!("            kill -9 of replica {node} again, while it comes back"));
                self.fleet.kill(node)?;
                self.fleet.start_again(node)?;
                self.down.remove(&node);
            }
            Hold::Full { nodes, ballast } => {
                nodes.iter().try_for_each(|node| disks::make_room(&self.fleet.disk(*node)))?;
                let majority = 2 * nodes.len() > self.fleet.len();
                self.weigh(majority, ballast.stop()?);
            }
            #[cfg(feature = "failing-syncs")]
            Hold::FailingSync { node, .. } => {
                self.fleet.start_again(node)?;
                self.down.remove(&node);
            }
            Hold::Stopped { node } => self.fleet.signal(node, Signal::CONT)?,
            Hold::Cut(links) | Hold::Flapping { links, cut: true, .. } => {
                for (from, to) in links {
                    self.network.mend(from, to)?;
                }
            }
            Hold::Flapping { .. } | Hold::Resets { .. } => {}
            Hold::Guests { guests, .. } => {
                guests.into_iter().try_for_each(|guest| self.guestbook.farewell(guest))?;
            }
            Hold::Unplugged { node } => self.network.plug(node)?,
            Hold::Weather(pairs) => {
                for pair in pairs {
                    self.network.weather(pair, Weather::default())?;
                }
            }
        }
        let Event { to_ns, leader_changes, .. } = &mut self.events[event];
        *to_ns = monotonic_ns();
        *leader_changes = self.watch.failovers() - *leader_changes;
        Ok(())
    }
}
