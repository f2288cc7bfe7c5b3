//! `HW.BEGIN` .. `HW.COMMIT` on a connection. What is kept and why it is right: [`interactive`](crate::interactive).

use super::*;
use crate::command::Opcode;
use crate::commands::words;
use crate::interactive::{DEFAULT_TIMEOUT_MS, MAX_TIMEOUT_MS, Open, Stepped};

impl Connection {
    /// `HW.BEGIN [TIMEOUT ms]`: a step without a command, so that a node which does not serve says so.
    pub(super) fn begin(&mut self) -> Result<(), CommandError> {
        if self.transactions.in_block() {
            return Err(CommandError::NotInsideMulti);
        }
        if self.open.is_some() {
            return Err(CommandError::NestedBegin);
        }
        let mut args = single::args(&self.args);
        let timeout_ms = match (args.next(), args.next(), args.next()) {
            (None, ..) => DEFAULT_TIMEOUT_MS,
            (Some(option), Some(number), None) if words::is(option, "timeout") => {
                let number = u64::try_from(words::integer(number)?).ok();
                let legal = number.filter(|number| (1..=MAX_TIMEOUT_MS).contains(number));
                legal.ok_or(CommandError::BadTimeout)?
            }
            _ => return Err(CommandError::Syntax),
        };
        let moment = Moment { unix_ms: self.client.unix_ms, seed: self.random.bits() };
        let mut open = Open::new(moment, self.client.protocol, self.client.caller.seen(), timeout_ms);
        open.next(&[], 0, &mut self.args)?;
        self.open = Some(open);
        self.offer_step();
        Ok(())
    }

    /// Takes a command inside of an open transaction.
    pub(super) fn interact(&mut self, opcode: Opcode, session: Option<Session>) -> Result<(), CommandError> {
        match opcode.spec().command {
            Command::Control(Control::Rollback) => {
                self.open = None;
                self.reply(|reply| reply.ok());
                return Ok(());
            }
            Command::Control(Control::Commit) => return self.commit(session),
            Command::Control(Control::Quit | Control::Reset) => {
                self.open = None;
                let Command::Control(control) = opcode.spec().command else {
                    unreachable!("it is one of two")
                };
                return self.control(control);
            }
            _ => {}
        }
        let open = self.open.as_mut().expect("a transaction is open");
        open.goes_on(self.client.unix_ms, self.client.caller.seen())?;
        match opcode.spec().command {
            // They would change how replies are written that are compared, or who asks.
            Command::Local if opcode.spec().has(flags::STANDS_ALONE) => {
                return Err(CommandError::NotInsideBegin);
            }
            Command::Local => self.answer(opcode),
            Command::Data if opcode.spec().is_ordinary() && session.is_none() => {
                let parts = single::args(&self.args).count();
                self.sign(opcode);
                let step = single::step(&self.args).to_vec();
                let open = self.open.as_mut().expect("a transaction is open");
                open.next(&step, parts, &mut self.args)?;
                self.offer_step();
            }
            _ => return Err(CommandError::NotInsideBegin),
        }
        Ok(())
    }

    /// `HW.COMMIT`: whatever comes of it, the transaction is over.
    fn commit(&mut self, session: Option<Session>) -> Result<(), CommandError> {
        let mut open = self.open.take().expect("a transaction is open");
        open.goes_on(self.client.unix_ms, self.client.caller.seen())?;
        open.commit(&mut self.args);
        let seq = self.order.open();
        let procedure = self.door.procedures.interact;
        self.stage = Stage::Offering { seq, procedure, kind: Offer::Commits, snapshot: false, session };
        Ok(())
    }

    fn offer_step(&mut self) {
        let seq = self.order.open();
        let procedure = self.door.procedures.interact;
        self.stage = Stage::Offering { seq, procedure, kind: Offer::Steps, snapshot: false, session: None };
    }

    /// A step was released: whether it was answered. If not, its end is told as any request's is, and is the transaction's, too.
    pub(super) fn step_released(&mut self, seq: u64, outcome: Outcome, bytes: &[u8]) -> bool {
        if self.stage == (Stage::Stepping { seq }) {
            self.stage = Stage::Open;
        }
        self.args.clear();
        self.args.shrink_to(KEEP_BYTES);
        if outcome == Outcome::RolledBack {
            let Some(open) = &mut self.open else {
                // Its connection has come to its end meanwhile.
                self.fail(seq, |_| RequestError::Changed);
                return true;
            };
            match open.stepped(bytes) {
                Stepped::Answered(reply) => self.order.answer(seq, |out| out.extend_from_slice(reply)),
                Stepped::Changed => {
                    open.end();
                    self.fail(seq, |_| RequestError::Changed);
                }
            }
            return true;
        }
        self.step_refused();
        false
    }

    /// The engine took no step, or did not come to its end. A transaction that never began is none; another one is over.
    pub(super) fn step_refused(&mut self) {
        match &mut self.open {
            Some(open) if open.pending_bytes() > 0 => open.end(),
            open => *open = None,
        }
    }
}
