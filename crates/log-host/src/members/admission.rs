//! A change of membership under way: the leader lets everything it executed be released, then wins a new epoch that names the new
//! members. And what operators have ordered that waits for a newcomer.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use highwater_consensus::{MembersChange, Voter};
use highwater_core::{NodeId, StreamId};
use highwater_seam::Nanos;

/// An order lapses when nobody has asked for it for so long.
const ORDER_LASTS: Nanos = 10_000_000_000;

/// What is being changed, if anything is, and for whom there is room.
#[derive(Default)]
pub struct Admission {
    change: Option<Change>,
    orders: BTreeMap<NodeId, Order>,
}

struct Change {
    what: MembersChange,
    quiesced: BTreeSet<StreamId>,
    campaigning: bool,
    deadline: Nanos,
    /// Requests wait until then: nobody serves before the epoch has changed.
    holds_until: Nanos,
}

/// An operator wants a node to vote.
struct Order {
    contact: Bytes,
    replaces: Option<NodeId>,
    asked_at: Nanos,
}

impl Admission {
    /// Changes the membership, once the workers are quiet.
    pub fn begin(&mut self, what: MembersChange, deadline: Nanos) {
        let (quiesced, campaigning, holds_until) = (BTreeSet::new(), false, 0);
        self.change = Some(Change { what, quiesced, campaigning, deadline, holds_until });
    }

    /// Whether a change is under way.
    pub fn is_under_way(&self) -> bool {
        self.change.is_some()
    }

    /// A stream is quiet; whether all are now, for the first time: the epoch may change, and requests wait for that until then.
    pub fn quiesced(&mut self, stream: StreamId, streams: usize, holds_until: Nanos) -> bool {
        let Some(change) = &mut self.change else { return false };
        change.quiesced.insert(stream);
        let now = change.quiesced.len() == streams && !change.campaigning;
        if now {
            (change.campaigning, change.holds_until) = (true, holds_until);
        }
        now
    }

    /// Until when requests wait for the next epoch, which is being won on purpose; `None` if none is, or time is up.
    pub fn holds_until(&self, now: Nanos) -> Option<Nanos> {
        self.change.as_ref().map(|change| change.holds_until).filter(|until| now < *until)
    }

    /// What the epoch that is being won is for.
    pub fn wanted(&self) -> Option<&MembersChange> {
        self.change.as_ref().filter(|change| change.campaigning).map(|change| &change.what)
    }

    /// The streams do not get quiet in time.
    pub fn is_late(&self, now: Nanos) -> bool {
        self.change.as_ref().is_some_and(|change| !change.campaigning && now >= change.deadline)
    }

    /// It is over, or given up.
    pub fn end(&mut self) {
        self.change = None;
    }

    /// An operator wants `node` to vote, perhaps in the place of another; whether that is new.
    pub fn order(&mut self, now: Nanos, node: NodeId, contact: Bytes, replaces: Option<NodeId>) -> bool {
        let order = Order { contact, replaces, asked_at: now };
        let before = self.orders.insert(node, order);
        let order = &self.orders[&node];
        before.is_none_or(|before| before.contact != order.contact || before.replaces != order.replaces)
    }

    /// Nobody wants `node` to vote any more. A change that is under way goes on.
    pub fn withdraw(&mut self, node: NodeId) {
        self.orders.remove(&node);
    }

    /// What this newcomer's readiness leads to, if it was ordered.
    pub fn ordered(&self, now: Nanos, newcomer: Voter) -> Option<MembersChange> {
        let lasts = |order: &&Order| now.saturating_sub(order.asked_at) < ORDER_LASTS;
        self.orders.get(&newcomer.node).filter(lasts).map(|order| MembersChange {
            admits: Some(newcomer),
            contact: Some((newcomer.node, order.contact.clone())),
            removes: order.replaces,
        })
    }

    /// Where those are found whom operators want to vote.
    pub fn contacts(&self) -> impl Iterator<Item = (NodeId, Bytes)> {
        self.orders.iter().map(|(node, order)| (*node, order.contact.clone()))
    }

    /// Forgets what is done or has lapsed, or all of it if this node leads no more; whether there was any of it.
    pub fn forget(&mut self, now: Nanos, leads: bool, votes: impl Fn(NodeId) -> bool) -> bool {
        let before = self.orders.len();
        self.orders
            .retain(|node, order| leads && now.saturating_sub(order.asked_at) < ORDER_LASTS && !votes(*node));
        before != self.orders.len()
    }
}
