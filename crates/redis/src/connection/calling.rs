//! `HW.CALL`: a registered procedure as a request of its own.

use super::*;
use crate::callables::Call;
use crate::commands::words;

impl Connection {
    /// `HW.CALL` of what is no procedure of this build: one of a module, which is a command on data like others.
    pub(super) fn resolve(&mut self, typed: Typed) -> Typed {
        if typed.opcode.spec().command != Command::Control(Control::Call) {
            return typed;
        }
        let name = single::args(&self.args).next().unwrap_or_default();
        if self.door.callables.find(name).is_some() {
            return typed;
        }
        let invoke = op::HW_INVOKE;
        single::rename(&mut self.args, invoke);
        Typed { opcode: invoke, ..typed }
    }

    /// `HW.CALL name word..`, or `HW.CALL name RAW bytes`.
    pub(super) fn call(&mut self, session: Option<Session>) -> Result<(), CommandError> {
        if self.transactions.in_block() {
            return Err(CommandError::CallInsideMulti);
        }
        let mut args = single::args(&self.args);
        let name = args.promised()?;
        let callable = self.door.callables.find(name).ok_or_else(|| CommandError::unknown_procedure(name))?;
        let raw = args.clone().next().is_some_and(|word| words::is(word, "raw"));
        if raw {
            let mut args = args.skip(1);
            let (Some(bytes), None) = (args.next(), args.next()) else {
                return Err(CommandError::WrongArity("hw.call|raw"));
            };
            // It is the last thing that stands there.
            self.args.drain(..self.args.len() - bytes.len());
        } else {
            let mut encoded = Vec::new();
            callable.encode(args, &mut encoded)?;
            self.args = encoded;
        }
        let seq = self.order.open();
        let reads = callable.signature.reads;
        let kind = if reads { Offer::Reads } else { Offer::Calls };
        let snapshot = reads && self.client.snapshots && session.is_none();
        let signature = (!raw).then_some(callable.signature);
        self.calls.push_back(Call { seq, signature, protocol: self.client.protocol });
        self.stage = Stage::Offering { seq, procedure: callable.id, kind, snapshot, session };
        Ok(())
    }

    /// The call that this request is, which is answered now.
    #[inline]
    pub(super) fn take_call(&mut self, seq: u64) -> Option<Call> {
        if self.calls.is_empty() {
            return None;
        }
        let at = self.calls.iter().position(|call| call.seq == seq)?;
        self.calls.remove(at)
    }
}
