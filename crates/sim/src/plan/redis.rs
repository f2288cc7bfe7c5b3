//! Guests that speak Redis's protocol: how many of each kind, and how the clocks on the walls differ.
//!
//! The plan only says so. A house with a door for them is in the crate `highwater-redis-sim`.

use highwater_core::Random;
use highwater_engines::EngineKind;
use serde::{Deserialize, Serialize};

use super::Plan;
use crate::faults::Fault;

/// What guests do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Redis {
    /// Clients that set keys with deadlines, move these, and look.
    pub expiring: u8,
    /// Clients that push, and clients that wait for it.
    pub queues: u8,
    /// Clients that decide transactions step by step.
    pub interactive: u8,
    /// Clients that send many commands at once.
    #[serde(default)]
    pub pipelined: u8,
    /// Users whose rights come and go: a client takes and gives them, and two write.
    #[serde(default)]
    pub users: u8,
    /// Nodes that do not serve forward what they are asked (`server.forward`). Nobody waits for data then.
    #[serde(default)]
    pub forward: bool,
    /// How many keys of a kind are in use at a time.
    pub keys: u8,
    /// Commands, or transactions, that each of them starts at most.
    pub commands: u16,
    /// The clocks on the walls of the machines differ by up to so much, in ms.
    pub skew_ms: u32,
    /// And jump, forth and back.
    pub jumps: bool,
}

impl Redis {
    /// Ways to have less of it, for whoever shrinks a plan.
    pub(crate) const LESS: [fn(&mut Redis); 13] = [
        |redis| redis.forward = false,
        |redis| redis.expiring = 0,
        |redis| redis.queues = 0,
        |redis| redis.interactive = 0,
        |redis| redis.pipelined = 0,
        |redis| redis.users = 0,
        |redis| redis.jumps = false,
        |redis| redis.skew_ms = 0,
        |redis| redis.commands = redis.commands.div_ceil(2),
        |redis| redis.expiring = redis.expiring.div_ceil(2),
        |redis| redis.queues = redis.queues.div_ceil(2),
        |redis| redis.interactive = redis.interactive.div_ceil(2),
        |redis| redis.pipelined = redis.pipelined.div_ceil(2),
    ];

    pub(crate) fn draw(random: &mut Random) -> Redis {
        let drawn = Redis {
            expiring: random.pick(&[0, 2, 4, 8]),
            queues: random.pick(&[0, 4, 6, 10]),
            interactive: random.pick(&[0, 2, 4, 6]),
            keys: random.pick(&[1, 2, 4]),
            commands: random.pick(&[30, 60, 120]),
            skew_ms: random.pick(&[0, 20, 500, 60_000]),
            jumps: random.one_in(2),
            pipelined: random.pick(&[0, 2, 4]),
            forward: random.one_in(3),
            users: 0,
        };
        // Who waits for data through a follower stands in line at the leader, which these hosts do not play.
        if drawn.forward { Redis { queues: 0, ..drawn } } else { drawn }
    }

    pub(super) fn check(&self, engine: EngineKind) -> Result<(), String> {
        if !hosts(engine) {
            return Err(format!(
                "{engine} tells no moments by which guests could be judged: redis must be absent"
            ));
        }
        if self.forward && self.queues > 0 {
            return Err("guests that wait for data are not forwarded: queues must be 0".into());
        }
        if self.keys == 0 || self.commands == 0 {
            return Err("keys and commands of guests must be above 0".into());
        }
        Ok(())
    }
}

/// Whether an engine says when in the one order each transaction was.
fn hosts(engine: EngineKind) -> bool {
    engine.abilities().freshness && engine.abilities().real_time && engine.abilities().fails_over
}

impl Plan {
    /// The same with guests that speak Redis's protocol, for half of the seeds.
    pub fn with_redis(self) -> Plan {
        let random = &mut Random::new(Random::new(self.seed ^ 0x4ed1_5000).bits());
        // Of chance of their own: so the guests of plans without them are who they were.
        let users = Random::new(Random::new(self.seed ^ 0x0a11_05e2).bits()).pick(&[0, 0, 1, 3]);
        let redis = Redis { users, ..Redis::draw(random) };
        // Runs of hours would be hours of replies; where acknowledged transactions may be lost there is no one order of them; where
        // memory ends guests would be told so, and nothing else.
        let fits = !self.is_long() && !self.may_lose() && self.load.sizes.memory == 0;
        let wanted = random.one_in(2) && fits && self.engine().is_ok_and(hosts);
        if wanted { self.with_guests(redis) } else { self }
    }

    /// The same with these guests. Moments order what they see, so no counter of commits goes back; and disks that are full, or cannot open their next
    /// file, would keep expired keys where they are.
    pub fn with_guests(mut self, redis: Redis) -> Plan {
        let keys_expire = redis.expiring + redis.pipelined > 0;
        self.faults.retain(|at| match at.fault {
            Fault::SetBack(..) | Fault::FillDisk(..) => false,
            Fault::FailOpen(..) => !keys_expire,
            _ => true,
        });
        self.redis = Some(redis);
        self
    }
}
