//! How replicas stand, by what they say of each other: who votes with a complete store, who may lose its memory.

use highwater_core::{Epoch, Library, NodeId};
use highwater_seam::{Member, Service, Status};

use crate::world::World;
use crate::world::order::{Order, Voters};

/// Who leads, and the epoch: the newest that somebody leads.
pub(super) fn lead<L: Library>(world: &World<L>) -> Option<(NodeId, Epoch)> {
    // Statuses are long to make, and this is asked at every step of a run in which a fault waits for its victim.
    let statuses = world.statuses();
    let leader = world.engine().serving(&statuses)?;
    let status = statuses.into_iter().flatten().find(|status| status.node == leader)?;
    Some((leader, status.epoch))
}

/// The newest epoch that somebody leads.
pub(super) fn newest_open<L: Library>(world: &World<L>) -> Option<Epoch> {
    lead(world).map(|(_, epoch)| epoch)
}

/// Whether a node's process may end: if it may lose its memory, or if it has a disk, and on it all that it is relied on for.
pub fn may_end<L: Library>(world: &World<L>, victim: NodeId) -> bool {
    world.durable() && may_forget(world) && keeps(world, victim) || spare(world, victim)
}

/// Whether all may end at once: what most of them hold is on their disks.
pub fn may_all_end<L: Library>(world: &World<L>) -> bool {
    let kept = world.ids().filter(|id| keeps(world, *id)).fold(0, |kept, id| kept | 1 << id.0);
    world.durable() && may_forget(world) && outvotes(kept, &memberships(world))
}

/// Whether a majority may forget what it accepted last. Then nobody leads before *all* voters are back, each with its disk: so nobody has
/// lost it, or has nothing on it yet.
fn may_forget<L: Library>(world: &World<L>) -> bool {
    let comes_back = |id: &NodeId| world.has_its_disk(*id) && votes(world, *id);
    let back = world.ids().filter(comes_back).fold(0, |back, id| back | 1 << id.0);
    let all = |members: &u32| back & members == *members;
    !world.is_behind() || world.may_lose && memberships(world).iter().all(all)
}

/// Whether this life of a node votes, by every account.
fn votes<L: Library>(world: &World<L>, id: NodeId) -> bool {
    let life = world.incarnation(id);
    let is = |member: &Member| member.node == id && member.voter && member.incarnation == life;
    accounts(world).iter().all(|account| account.members.iter().any(is))
}

/// Whether a voter's disk leads to the state that it has: not while it copies one, or has copied one that is not on its disk.
fn keeps<L: Library>(world: &World<L>, id: NodeId) -> bool {
    world.status(id).is_some_and(|status| status.copying_bytes.is_none())
        && votes(world, id)
        && (world.disk_leads(id) || !world.durable())
}

/// Whether a node may lose its memory, or its disk if it has one: the voters with complete stores that are left are a majority; or nobody has heard of
/// a cluster yet, and only a minority has lost its memory so far: a birth that is under way may name lives that are over.
pub fn spare<L: Library>(world: &World<L>, victim: NodeId) -> bool {
    let unborn =
        world.ids().filter_map(|id| world.status(id)).all(|status| status.service == Service::Starting);
    let lost = world.ids().filter(|id| *id == victim || world.was_killed(*id)).count();
    let left = sound(world).filter(|id| *id != victim).fold(0, |left, id| left | 1 << id.0);
    (unborn && lost < world.founders().count_ones().div_ceil(2) as usize)
        || outvotes(left, &memberships(world))
}

/// Whether an operator may give an order now: of every membership that it may lead to, a majority has its state, in memory or on disk.
///
/// The leader asks for that, too, but learns only later that somebody is gone. If one of two that stay has just lost its memory, the
/// order is never done, and nobody leads: no guarantee covers the loss of a majority of the members to come. An operator waits until
/// who is to stay is back.
pub fn may_order<L: Library>(world: &World<L>, order: &Order) -> bool {
    let sound: Vec<NodeId> = sound(world).collect();
    let stays =
        |id: &NodeId| sound.contains(id) || order.comes == Some(*id) || world.is_down_with_its_disk(*id);
    let stay = world.ids().filter(stays).fold(0, |stay, id| stay | 1 << id.0);
    let after: Vec<u32> = memberships(world).into_iter().map(|members| order.apply(members)).collect();
    order.goes.is_none() || outvotes(stay, &after)
}

/// Every membership that may be in force, or be so before anybody has told: those of all accounts that count, with any of the
/// orders done that operators have given lately.
pub fn memberships<L: Library>(world: &World<L>) -> Vec<u32> {
    let accounts: Vec<u32> =
        accounts(world).iter().map(Status::voters).filter(|voters| *voters != 0).collect();
    let accounts = if accounts.is_empty() { vec![world.founders()] } else { accounts };
    let mut all: Vec<u32> = accounts.into_iter().flat_map(|voters| world.after_orders(voters)).collect();
    all.sort_unstable();
    all.dedup();
    all
}

/// Whether a set of nodes (a bit each) has more than half of each membership.
pub fn outvotes(set: u32, memberships: &[u32]) -> bool {
    memberships.iter().all(|members| (set & members).count_ones() > members.count_ones() / 2)
}

/// What those say who have their say, but for accounts of epochs that are over.
fn accounts<L: Library>(world: &World<L>) -> Vec<Status> {
    let open = newest_open(world).unwrap_or_default();
    let counts = |status: &Status| status.service >= Service::Standby && status.epoch >= open;
    world.ids().filter_map(|id| world.status(id)).filter(counts).collect()
}

/// Voters with complete stores, that forget nothing.
///
/// Who votes depends on whom one asks while a membership changes; only those count who vote by every account, but for
/// accounts of epochs that are over: the membership with which an epoch opened is in force from then on. While nobody
/// leads this is stricter than the guarantee asks for, never laxer.
pub fn sound<L: Library>(world: &World<L>) -> impl Iterator<Item = NodeId> + use<L> {
    let statuses: Vec<_> = world.ids().filter_map(|id| world.status(id)).collect();
    let accounts = accounts(world);
    let sound = statuses.iter().filter(|status| {
        let votes = accounts.iter().all(|account| status.votes_by(account));
        votes && !accounts.is_empty() && status.copying_bytes.is_none() && !status.forgets
    });
    sound.map(|status| status.node).collect::<Vec<_>>().into_iter()
}
