//! Short replies, which go on while there is no room for long ones.
//!
//! How long a reply is shows when it is there. So while its clients hold as much as they may, a host gives allowances for *short* replies
//! alone. A request is then submitted with the flag that has it done [only if its reply is short](Framing::is_short); if it is not, nothing was
//! done, and the request is on offer again, to wait for room. It is the only one of its connection meanwhile: what comes behind it
//! must not overtake it. Other requests have replies that are short whatever they find, or wait for room.

use super::super::command::Opcode;
use super::super::endings::{SHORT_REPLY_BYTES, is_not_short};
use super::super::request::Framing;
use super::*;

impl Connection {
    /// Whether what comes next has to wait until there is room for a long reply: it has one, or may have.
    pub fn needs_room(&self) -> bool {
        match self.stage {
            Stage::Offering { seq, procedure, kind, session, .. } => {
                let known = self.long == Some(seq);
                known
                    || !self.may_be_kept_short(procedure, kind, session)
                        && !self.is_short_anyway(kind, session)
            }
            Stage::Open => self.long_answer,
            _ => false,
        }
    }

    /// Whether this request waits for a reply that is only given if it is short, and has come to nothing because it is not.
    pub fn was_in_vain(&self, seq: u64, outcome: Outcome, reply: &[u8]) -> bool {
        matches!(self.stage, Stage::Short { seq: short, .. } if short == seq) && is_not_short(outcome, reply)
    }

    /// Whether what is on offer, or was the last, is done only if its reply is short.
    pub fn is_kept_short(&self) -> bool {
        let exec = self.door.procedures.exec;
        let is_exec = matches!(self.stage, Stage::Offering { procedure, .. } if procedure == exec);
        (is_exec || matches!(self.stage, Stage::Short { .. })) && Framing::is_short(self.args[Moment::BYTES])
    }

    /// A plain command or a block. What a session keeps of its request is the end of it: that is not to be this.
    fn may_be_kept_short(&self, procedure: ProcedureId, kind: Offer, session: Option<Session>) -> bool {
        let plain = matches!(kind, Offer::Reads | Offer::Writes);
        plain && procedure == self.door.procedures.exec && session.is_none()
    }

    /// Whether a reply is short whatever the request finds. (A session keeps no long ones.)
    fn is_short_anyway(&self, kind: Offer, session: Option<Session>) -> bool {
        match kind {
            // Each key takes more room than its version, but for short ones.
            Offer::Watches => self.args.len() <= SHORT_REPLY_BYTES / 4,
            Offer::Empties | Offer::Changes => true,
            _ => session.is_some(),
        }
    }

    /// Makes what is on offer ready to be submitted at this moment: it may have waited for long, for room, for the end of a pause or for a leader.
    pub(super) fn prepare(
        &mut self,
        procedure: ProcedureId,
        kind: Offer,
        session: Option<Session>,
        short: bool,
    ) {
        let short = short && self.may_be_kept_short(procedure, kind, session);
        self.door.procedures.set_time(procedure, &mut self.args, self.client.unix_ms);
        if procedure == self.door.procedures.exec {
            Framing::keep_short(&mut self.args[Moment::BYTES], short);
        }
    }

    /// Whether a released request has come to nothing because its reply is not short: it is on offer again.
    pub(super) fn comes_again(&mut self, seq: u64, outcome: Outcome, bytes: &[u8]) -> bool {
        let Stage::Short { seq: short, kind, snapshot } = self.stage else { return false };
        if short != seq {
            return false;
        }
        if !is_not_short(outcome, bytes) {
            self.stage = Stage::Open;
            self.args.clear();
            self.args.shrink_to(KEEP_BYTES);
            return false;
        }
        self.wake_others(seq, false);
        self.order.expect(seq, 0);
        self.long = Some(seq);
        let procedure = self.door.procedures.exec;
        self.stage = Stage::Offering { seq, procedure, kind, snapshot, session: None };
        true
    }

    /// Whether a command that is answered here may have a long reply.
    pub(super) fn may_answer_long(opcode: Opcode, args: &[u8]) -> bool {
        let spec = opcode.spec();
        spec.command != Command::Data
            && (args.len() > SHORT_REPLY_BYTES / 2
                || spec.has(flags::LONG) && !is_short_question(opcode, args))
    }
}

/// The questions that libraries ask when they connect.
fn is_short_question(opcode: Opcode, args: &[u8]) -> bool {
    let word = single::args(args).next().unwrap_or_default();
    let is = |words: &[&str]| words.iter().any(|known| word.eq_ignore_ascii_case(known.as_bytes()));
    match opcode {
        op::CLIENT => !is(&["list"]),
        op::ACL => is(&["whoami"]),
        op::SLOWLOG | op::LATENCY => is(&["len", "reset"]),
        _ => false,
    }
}
