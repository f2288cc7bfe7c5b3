//! The things that a worker keeps up beside its clients' requests. All keepers have one shape: a slot among the tokens of
//! [`Owner::Keeper`](highwater_redis::host::token::Owner), a turn in which they may submit a request, and the release of it.

use highwater_core::Outcome;
use highwater_redis::Door;
use highwater_redis::host::{Expiry, Modules, Sessions, Users, expiry, modules, users};
use highwater_redis::meter::{self, Meter};
use highwater_redis::moment::Moment;
use highwater_seam::{Nanos, Worker};

use super::locals::{self, Locals};
use crate::clock::unix_ms;

/// A request of a keeper that is released.
pub struct Released<'a> {
    /// Its number among the keeper's own.
    pub number: u64,
    pub outcome: Outcome,
    pub reply: &'a [u8],
}

/// The things that keepers are handed.
pub struct Desk<'a> {
    pub now: Nanos,
    pub door: &'a Door,
    /// This worker's counters.
    pub meter: &'a Meter,
}

/// One of them.
trait Keeper {
    /// Its slot.
    const SLOT: usize;

    /// Does what is due.
    fn turn(&mut self, desk: &Desk<'_>, engine: &mut dyn Worker);

    /// A request of it is released.
    fn released(&mut self, desk: &Desk<'_>, released: &Released<'_>);

    /// When it wants a turn.
    fn next(&self) -> Option<Nanos>;
}

macro_rules! keepers {
    ($($(#[doc = $doc:literal])* $name:ident: $keeper:ty,)*) => {
        /// A worker's keepers. Most have few: one worker of a node has each.
        #[derive(Default)]
        pub struct Keepers {
            $($(#[doc = $doc])* pub $name: Option<$keeper>,)*
        }

        // No trait objects: a client's single request is a turn, and most turns find no keeper here.
        impl Keepers {
            /// Gives each a turn. A node that ends gives them none.
            pub fn turn(&mut self, desk: &Desk<'_>, engine: &mut dyn Worker) {
                $(if let Some(keeper) = &mut self.$name {
                    Keeper::turn(keeper, desk, engine);
                })*
            }

            /// Tells whoever has this slot; false: no keeper has it.
            pub fn released(&mut self, desk: &Desk<'_>, slot: usize, released: &Released<'_>) -> bool {
                $(if slot == <$keeper as Keeper>::SLOT {
                    if let Some(keeper) = &mut self.$name {
                        Keeper::released(keeper, desk, released);
                    }
                    return true;
                })*
                false
            }

            /// When the next of them wants a turn.
            pub fn next(&self) -> Option<Nanos> {
                [$(self.$name.as_ref().and_then(Keeper::next),)*].into_iter().flatten().min()
            }
        }
    };
}

keepers! {
    /// Requests of the program that the node is part of.
    locals: Locals,
    /// Has sessions end.
    sessions: Sessions,
    /// Has expired keys removed.
    expiry: Expiry,
    /// Has the node's users follow the table.
    users: Users,
    /// Has the modules compiled that others loaded.
    modules: Modules,
}

impl Keeper for Locals {
    const SLOT: usize = locals::SLOT;

    fn turn(&mut self, desk: &Desk<'_>, engine: &mut dyn Worker) {
        self.submit(desk.now, engine);
    }

    fn released(&mut self, _: &Desk<'_>, released: &Released<'_>) {
        self.released(released.number, released.outcome, released.reply);
    }

    fn next(&self) -> Option<Nanos> {
        self.next()
    }
}

impl Keeper for Sessions {
    const SLOT: usize = 0;

    fn turn(&mut self, desk: &Desk<'_>, engine: &mut dyn Worker) {
        self.turn(desk.now, engine);
    }

    fn released(&mut self, desk: &Desk<'_>, released: &Released<'_>) {
        self.released(desk.now, released.outcome, released.reply);
    }

    fn next(&self) -> Option<Nanos> {
        self.next()
    }
}

impl Keeper for Expiry {
    const SLOT: usize = expiry::SLOT;

    fn turn(&mut self, desk: &Desk<'_>, engine: &mut dyn Worker) {
        let moment = || Moment { unix_ms: unix_ms(), seed: getrandom::u64().unwrap_or_default() };
        self.turn(desk.now, desk.door.settings.expires_actively(), moment, engine);
    }

    fn released(&mut self, desk: &Desk<'_>, released: &Released<'_>) {
        let expired = self.released(desk.now, unix_ms(), released.outcome, released.reply);
        meter::add(&desk.meter.expired, expired);
    }

    fn next(&self) -> Option<Nanos> {
        self.next()
    }
}

impl Keeper for Users {
    const SLOT: usize = users::SLOT;

    fn turn(&mut self, desk: &Desk<'_>, engine: &mut dyn Worker) {
        self.turn(desk.now, engine);
    }

    fn released(&mut self, desk: &Desk<'_>, released: &Released<'_>) {
        self.released(desk.now, released.outcome, released.reply);
    }

    fn next(&self) -> Option<Nanos> {
        self.next()
    }
}

impl Keeper for Modules {
    const SLOT: usize = modules::SLOT;

    fn turn(&mut self, desk: &Desk<'_>, engine: &mut dyn Worker) {
        self.turn(desk.now, unix_ms, engine);
    }

    fn released(&mut self, desk: &Desk<'_>, released: &Released<'_>) {
        self.released(desk.now, released.outcome, released.reply);
    }

    fn next(&self) -> Option<Nanos> {
        self.next()
    }
}
