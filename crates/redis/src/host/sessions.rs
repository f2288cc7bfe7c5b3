//! Has sessions end that nobody uses: the first worker's part, while its replica serves.

use highwater_core::{Outcome, Procedure, ProcedureId};
use highwater_kit::sessions::{Keeper, Sweep};
use highwater_seam::{Nanos, Request, Worker};

use super::token::{Owner, keeper, pack};
use super::users::serves;
use crate::keyspace::SESSIONS_AT;

/// How often to look whether the replica serves: often enough that no lead is lost and won again in between.
const LOOK_EVERY: Nanos = 1_000_000;

/// See the module.
pub struct Sessions {
    keeper: Keeper,
    sweep: ProcedureId,
    looked: Nanos,
}

impl Sessions {
    /// Sessions last for `idle` ns at least. `procedures`: the registered names, by id.
    pub fn new(idle: Nanos, procedures: &[&'static str]) -> Sessions {
        let name = Sweep::<SESSIONS_AT>::NAME;
        let sweep = procedures.iter().position(|known| *known == name).expect("the door registers it");
        Sessions { keeper: Keeper::new(idle), sweep: ProcedureId(sweep as u16), looked: 0 }
    }

    /// Asks for what is due.
    pub fn turn(&mut self, now: Nanos, engine: &mut dyn Worker) {
        if now < self.looked + LOOK_EVERY {
            return;
        }
        self.looked = now;
        let serves = serves(engine);
        let Some(args) = self.keeper.due(now, serves) else { return };
        if engine
            .submit(now, Request::new(pack(Owner::Keeper, keeper::SESSIONS, 0), self.sweep, &args))
            .is_ok()
        {
            self.keeper.asked();
        }
    }

    /// What it asked for is done.
    pub fn released(&mut self, now: Nanos, outcome: Outcome, reply: &[u8]) {
        self.keeper.ended(now, outcome, reply);
    }

    /// When it wants a turn.
    pub fn next(&self) -> Option<Nanos> {
        self.keeper.next().map(|at| at.max(self.looked + LOOK_EVERY))
    }
}
