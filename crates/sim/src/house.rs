//! Clients that the simulator does not know: guests, and the house that has them.
//!
//! The simulator depends on no door of the product. Whoever has one (the crate `highwater-redis-sim`: the node's RESP layer) brings its own
//! tables, procedures and clients into whole runs: the faults, the stages and everything else that is judged are the same.

use std::collections::BTreeMap;

use highwater_core::Library;
use highwater_seam::Nanos;

use crate::faults::Hand;
use crate::library::SimLibrary;
use crate::plan::Plan;
use crate::run::FailureKind;
use crate::world::World;

/// Tokens from here on are guests': whoever hosts them takes replies to these out of [`World::replies`].
pub const TOKENS: u64 = 1 << 48;

/// Who lives in the replicas beside the simulator's own clients.
pub trait House: Clone + Send + 'static {
    /// Tables and procedures: the simulator's own, in their places, and others behind them.
    type Library: Library;

    /// Them.
    fn library(&self) -> Self::Library;

    /// The guests that a plan wants, who begin now.
    fn guests(&self, plan: &Plan, now: Nanos) -> Option<Box<dyn Guests<Self::Library>>>;
}

/// Clients of another kind, and their hosts on the replicas' machines.
pub trait Guests<L: Library> {
    /// They do what they do up to now, and take what is answered to them.
    ///
    /// # Errors
    /// Something was answered that must not be.
    fn act(&mut self, world: &mut World<L>, hand: &Hand) -> Result<(), String>;

    /// When they want to do something next.
    fn next(&self) -> Option<Nanos>;

    /// Nothing new; what is under way may end.
    fn stop(&mut self);

    /// Everything is well again: they look once more at all that there is.
    fn look_at_all(&mut self);

    /// From now on nothing is asked that nobody asked for.
    fn rest(&mut self);

    /// Whether nothing of theirs is under way.
    fn quiet(&self) -> bool;

    /// What is wrong with all that they saw; the run is over.
    ///
    /// # Errors
    /// How the run fails, and why.
    fn judge(&self, world: &World<L>) -> Result<(), (FailureKind, String)>;

    /// How often things happened.
    fn marks(&self) -> BTreeMap<&'static str, u64>;

    /// Equal for equal runs.
    fn trace(&self) -> u64;

    /// What they do at the moment, for reports.
    fn describe(&self) -> String;
}

/// A house without guests.
#[derive(Clone, Copy, Debug)]
pub struct Empty;

impl House for Empty {
    type Library = SimLibrary;

    fn library(&self) -> SimLibrary {
        SimLibrary
    }

    fn guests(&self, plan: &Plan, _: Nanos) -> Option<Box<dyn Guests<SimLibrary>>> {
        assert!(plan.redis.is_none(), "this house has no door for the guests of this plan");
        None
    }
}
