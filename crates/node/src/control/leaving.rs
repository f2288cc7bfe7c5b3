//! A node hands its lead over: because an operator asked for it, or because the process was asked to end.
//!
//! Who ends goes through two times. First another replica is found that serves in its place, if this one did
//! ([`Controller::retire`]); requests wait meanwhile. Then the workers close their doors, and tell every client that asks for
//! something who serves now, so that nobody's request meets a connection that breaks (`worker/farewell.rs`).

use highwater_seam::{Controller, Handover, Nanos};

use crate::admin::protocol::AdminResponse;
use crate::shared::Shared;

/// What is under way.
#[derive(Default)]
pub struct Leaving {
    /// Admin connections that asked for the lead to be handed over.
    asked: Vec<u64>,
    stage: Stage,
}

#[derive(Default)]
enum Stage {
    /// The process goes on.
    #[default]
    Stays,
    /// Another replica shall serve.
    Retires,
    /// Another one does, or none will: the workers write what is owed.
    Ends,
}

impl Leaving {
    /// An operator waits for the end of a hand-over that has begun.
    pub fn wait(&mut self, connection: u64) {
        self.asked.push(connection);
    }

    /// Whether it waits for nothing.
    fn is_idle(&self) -> bool {
        self.asked.is_empty() && matches!(self.stage, Stage::Stays | Stage::Ends)
    }

    /// After a turn of the controller: moves on; says when it wants to be called again.
    pub fn turn(&mut self, now: Nanos, controller: &mut dyn Controller, shared: &Shared) -> Option<Nanos> {
        if shared.leaving() && matches!(self.stage, Stage::Stays) {
            controller.retire(now);
            self.stage = Stage::Retires;
            // The controller has not had its turn since.
            return Some(now);
        }
        if self.is_idle() {
            return None;
        }
        let handover = controller.handover(now);
        if handover == Handover::UnderWay {
            return None;
        }
        for connection in self.asked.drain(..) {
            shared.answer(connection, answer(&handover));
        }
        if matches!(self.stage, Stage::Retires) {
            if let Handover::Failed(why) = &handover
                && controller.status(now).leads()
            {
                tracing::warn!("ending without a successor: {why}");
            }
            self.stage = Stage::Ends;
            shared.end();
            return Some(now);
        }
        None
    }
}

fn answer(handover: &Handover) -> AdminResponse {
    match handover {
        Handover::Done { to, pause } => {
            AdminResponse::HandedOver { to: to.0, paused_ms: *pause as f64 / 1e6 }
        }
        Handover::Failed(why) => AdminResponse::Error { message: why.clone() },
        Handover::None | Handover::UnderWay => {
            AdminResponse::Error { message: "another node took the lead meanwhile".into() }
        }
    }
}
