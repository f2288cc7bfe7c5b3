//! The meaning of positions of a replica's logs. The controller asks, and the host's part of a worker; nobody asks for a transaction.

use highwater_consensus::Members;
use highwater_core::{EntryIndex, Epoch, Timestamp};
use highwater_seam::{Figure, Nanos};

/// An engine's account of how far a replica is. One for each replica, shared by its workers and its controller.
pub trait Progress: Send + Sync {
    /// The epoch that every stream has entered.
    fn epoch(&self) -> Epoch;

    /// The members of that epoch, if it was entered through a change.
    fn members(&self) -> Option<Members>;

    /// Decided and complete up to here: replies may leave, and writes be installed. Never falls while a store lasts.
    fn mark(&self) -> Timestamp;

    /// The same, as long as `epoch` lasts; `None` if it has ended.
    fn mark_in(&self, epoch: Epoch) -> Option<Timestamp>;

    /// Everything at or below is in the store, of every stream.
    fn applied(&self) -> Timestamp;

    /// Epoch and floor of a copy or a checkpoint that begins now, `leading` in that epoch or in none; `None` in the middle of a change.
    ///
    /// Everything at or below the floor is in the store.
    fn copy_point(&self, leading: Option<Epoch>) -> Option<(Epoch, Timestamp)>;

    /// A scan of the store that ends now may hold what is at or below this, and nothing above; `leads`: this node executes transactions.
    fn position(&self, leads: bool) -> Timestamp;

    /// The place where an epoch that this node won begins: above `high`, which is above everything in any log of the promises, and above all that this
    /// node ever showed.
    fn base(&self, high: Timestamp) -> Timestamp;

    /// Begins anew from a copied state or a checkpoint, in `epoch` of `members`: everything at or below `floor` is, or will be, in the store, and
    /// streams go on at `starts`. That store [is not complete](Progress::store_is_complete) yet. No worker is at work.
    fn restart(&self, epoch: Epoch, members: Members, floor: Timestamp, starts: &[EntryIndex]);

    /// The store holds a state that existed: followers may show it.
    fn store_is_complete(&self);

    /// Figures of the engine's own, behind those of the logs.
    fn figures(&self) -> Vec<Figure> {
        Vec::new()
    }

    /// The time, by this node's clock, before which everything that was acknowledged is shown by this follower; `None`: it shows nothing, or cannot
    /// prove that. `settled`: the store holds what its log says, and nothing whose fate is open.
    fn fresh_since(&self, _settled: bool) -> Option<Nanos> {
        None
    }

    /// Somebody wants to know how fresh this follower is.
    fn want_freshness(&self, _now: Nanos, _settled: bool) {}

    /// Whether that is being found out.
    fn finds_freshness(&self, _now: Nanos) -> bool {
        false
    }

    /// A leader has vouched: everything that was acknowledged before `asked`, by this node's clock, is at or below `upto`.
    fn vouched(&self, _asked: Nanos, _upto: Timestamp) {}
}
