//! What an engine says of itself, and of what its replicas say.

use bytes::Bytes;
use highwater_core::NodeId;
use highwater_core::hooks::Site;
#[cfg(feature = "planted")]
use highwater_core::planted::Bug;

use crate::observer::{NoRules, Rules};
use crate::settings::Setting;
use crate::{Refusal, Request, Service, Status};

/// An engine behind the seam, under one name: what it can do, and what its replicas' words mean.
///
/// Statuses are asked about together, by position (`None`: that replica does not answer). The answers are the same for the
/// simulator, which has them at hand, and for whoever has them from admin ports.
pub trait Engine {
    /// What it can do.
    const ABILITIES: Abilities;

    /// Its own settings; those that engines share are in [`Options`](crate::Options).
    const SETTINGS: &'static [Setting] = &[];

    /// The rare choices that its replicas may get to: its own, and those of the parts that it uses. A simulator's plans draw them in
    /// this order.
    const SITES: &'static [Site] = highwater_store::hooks::SITES;
    /// The mistakes that may be planted in its replicas, in lists: its own, and those of the parts that it uses.
    #[cfg(feature = "planted")]
    const BUGS: &'static [&'static [&'static Bug]] = &[crate::planted::ALL, highwater_store::planted::ALL];

    /// The node that a client should ask: of those that lead by their own account the one of the latest epoch; where none leads, of those that serve.
    fn serving(statuses: &[Option<Status>]) -> Option<NodeId> {
        let counts = if Self::ABILITIES.leaderless { Status::serves } else { Status::leads };
        let serving = statuses.iter().flatten().filter(|status| counts(status));
        serving.max_by_key(|status| status.epoch).map(|status| status.node)
    }

    /// Whom all that answer refer clients to, if they are more than half: a change of leader is not under way.
    fn agreed(statuses: &[Option<Status>]) -> Option<NodeId> {
        let serving = Self::serving(statuses)?;
        let answers = || statuses.iter().flatten();
        let epoch = answers().find(|status| status.node == serving)?.epoch;
        let agree = answers().all(|status| status.ask == Some(serving) && status.epoch == epoch);
        (agree && answers().count() > statuses.len() / 2).then_some(serving)
    }

    /// Who serves a cluster in which every replica has its say and a complete state, and nobody complains; else what is missing.
    fn healthy(statuses: &[Option<Status>]) -> Result<NodeId, String> {
        let (all, serving) = whole(statuses, Self::serving(statuses))?;
        for status in all {
            let (node, role) = (status.node.0, what_it_is(status));
            if let Some(trouble) = &status.trouble {
                return Err(format!("replica {node} ({}): {trouble}", status.role));
            }
            if status.ask != Some(serving.node) || status.service < Service::Standby {
                return Err(format!(
                    "replica {node} is {role}, and does not follow replica {}",
                    serving.node.0
                ));
            }
        }
        Ok(serving.node)
    }

    /// Whether every replica has its say and holds all that was ever decided, and nothing is under way. If so, a number that
    /// says how much that is: if it is the same a moment later, there will be no more. Else what is missing, in words.
    fn converged(statuses: &[Option<Status>]) -> Result<u64, String>;

    /// How much of what `serving` has decided `own` has not installed, in the engine's measure; `None` if that makes no sense.
    fn lag(own: &Status, serving: &Status) -> Option<u64> {
        let _ = (own, serving);
        None
    }

    /// What its replicas must keep together, for an observer of all of them. By default nothing, and none tells a fact of its own.
    fn rules() -> Box<dyn Rules> {
        Box::new(NoRules)
    }

    /// What a message says, for people: by the head of a frame, or, if it is one `to_controller`, all of it.
    fn words(to_controller: bool, head: &[u8]) -> String {
        let _ = to_controller;
        format!("a message of {} bytes", head.len())
    }

    /// Whether a worker of it may have written this record to its disk. Engines of one family say yes to each other's.
    fn wrote(record: &Bytes) -> bool {
        let _ = record;
        false
    }
}

/// What an engine can do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Abilities {
    /// Its replicas hold the same data: more than one makes sense.
    pub replicates: bool,
    /// It takes [changes of membership](crate::MemberChange).
    pub members: bool,
    /// It goes on when any minority of its replicas is lost, and takes them back.
    pub fails_over: bool,
    /// A replica that does not serve shows snapshots to readers.
    pub snapshots: bool,
    /// Its workers may stand still anywhere between two steps while others go on: a simulator may interrupt them.
    pub interruptible: bool,
    /// It runs a request once that a client repeats under its [session](crate::Session)'s number.
    pub sessions: bool,
    /// It can go on from what its replicas wrote to their disks: durability `sync`.
    pub durable: bool,
    /// The same, where what it answers is not on the disks yet: durability `async`.
    pub disks_behind: bool,
    /// It notices that a replica comes back with an older copy of its disk.
    pub knows_old_disks: bool,
    /// Its one order of transactions agrees with real time, whatever clocks say: strict serializability. Else it is serializability.
    pub real_time: bool,
    /// It keeps a bound on the [age](crate::Freshness) of what a transaction reads.
    pub freshness: bool,
    /// Every replica that has its say takes transactions by its own account: none leads, and a client may keep to any.
    pub leaderless: bool,
    /// A worker's requests take effect in the order in which they were submitted, but for those that it [puts
    /// off](crate::Taken::PutOff), which are few. Else it puts all of them off.
    pub in_order: bool,
    /// Clients may coordinate their transactions themselves: [`Worker::deliver_client`](crate::Worker::deliver_client).
    pub client_coordinators: bool,
    /// A request is executed in the process that was asked, and other replicas get what it wrote: its code may be known to that process alone.
    pub closures: bool,
}

impl Abilities {
    /// None: an engine lists what it can do before this.
    pub const NONE: Abilities = Abilities {
        replicates: false,
        members: false,
        fails_over: false,
        snapshots: false,
        interruptible: false,
        sessions: false,
        durable: false,
        disks_behind: false,
        knows_old_disks: false,
        real_time: false,
        freshness: false,
        leaderless: false,
        in_order: false,
        client_coordinators: false,
        closures: false,
    };

    /// Refuses a request that asks for what the engine cannot do, so that none seems to be done. Every submission begins
    /// with it.
    #[inline]
    pub fn admit(self, request: &Request<'_>) -> Result<(), Refusal> {
        let asks_too_much =
            request.session.is_some() && !self.sessions || request.freshness.is_some() && !self.freshness;
        if asks_too_much { Err(Refusal::Unsupported) } else { Ok(()) }
    }
}

/// Who has not joined, does not answer or copies the state, in words; else everybody's status, and whose the serving one is.
pub fn whole(
    statuses: &[Option<Status>],
    serving: Option<NodeId>,
) -> Result<(Vec<&Status>, &Status), String> {
    if let Some(silent) = statuses.iter().position(Option::is_none) {
        return Err(format!("replica {silent} does not answer"));
    }
    let belongs = |status: &&Status| status.service != Service::Removed;
    let all: Vec<&Status> = statuses.iter().flatten().filter(belongs).collect();
    let serving = serving.and_then(|node| all.iter().find(|status| status.node == node));
    let serving = *serving.ok_or("nobody leads")?;
    for status in &all {
        let (node, role) = (status.node.0, what_it_is(status));
        if status.epoch != serving.epoch {
            return Err(format!("replica {node} is {role} in epoch {}", status.epoch.0));
        }
        if status.copying_bytes.is_some() {
            return Err(format!("replica {node} copies the state"));
        }
        if status.forgets {
            return Err(format!("replica {node} catches up with what it may have forgotten in a crash"));
        }
        if !status.votes_by(serving) {
            return Err(format!("replica {node} is {role}, and no voter yet"));
        }
    }
    Ok((all, serving))
}

/// Its role behind "is": most are nouns.
fn what_it_is(status: &Status) -> String {
    match &*status.role {
        adjective @ ("starting" | "removed" | "unborn") => adjective.into(),
        noun if noun.starts_with(['a', 'e', 'i', 'o', 'u']) => format!("an {noun}"),
        noun => format!("a {noun}"),
    }
}
