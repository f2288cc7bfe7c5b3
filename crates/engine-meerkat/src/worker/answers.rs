//! The answers of a worker to its host: replies, what took effect, and that its controller has something to read.

use highwater_core::Outcome;
use highwater_kit::validation::payload::{Payload, with_key};
use highwater_seam::{Outbox, Token};

use super::context::Context;
use crate::shared::Report;

#[derive(Default)]
pub(super) struct Answers {
    /// Replies of this turn, and what took effect in it.
    done: Outbox,
    /// The host wants to hear what takes effect.
    tells_writes: bool,
}

impl Answers {
    pub fn reply(&mut self, token: Token, outcome: Outcome, reply: &[u8]) {
        self.done.reply(token, outcome, reply);
    }

    /// Bytes of replies that have not left.
    pub fn reply_bytes(&self) -> usize {
        self.done.reply_bytes.len()
    }

    pub fn tell_writes(&mut self, tells: bool) {
        self.tells_writes = tells;
    }

    /// The host wakes those who wait for what was installed. Behind its installation: whoever looks from here on finds it.
    pub fn written(&mut self, payload: &Payload) {
        if !self.tells_writes {
            return;
        }
        for write in payload.writes() {
            with_key(write.key, |key| self.done.written.push((write.table, key.into())));
        }
    }

    pub fn report(&mut self, context: &Context, report: Report) {
        context.shared.reports.put(report);
        self.done.wake_controller = true;
    }

    /// A turn ends.
    pub fn hand_out(&mut self, out: &mut Outbox) {
        out.replies.append(&mut self.done.replies);
        // Offsets of replies are those of an outbox that was empty.
        assert!(
            out.reply_bytes.is_empty() || self.done.reply_bytes.is_empty(),
            "an outbox is emptied between turns"
        );
        out.reply_bytes.append(&mut self.done.reply_bytes);
        out.written.append(&mut self.done.written);
        if self.done.wake_controller {
            out.wake_controller = true;
        }
        self.done.clear();
    }
}
