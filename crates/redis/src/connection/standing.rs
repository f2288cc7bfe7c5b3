//! What the connection's user may do, and what becomes of the connection when users change.

use super::*;
use crate::acl::caller::Standing;
use crate::acl::change::{self, News};
use crate::acl::log::Context;
use crate::acl::{Denied, may, requests};
use crate::command::Opcode;
use crate::commands::auth::note_denied;
use crate::commands::words::is;

const RULES_CHANGED: &str = "NOPERM the user's rules have changed since the command came";

impl Connection {
    /// Looks at its user, if some user is another. The connection ends if its own is gone.
    #[inline]
    pub fn look_at_users(&mut self) {
        if self.client.caller.is_behind(&self.door.access) && !self.evicted {
            self.evicted = self.client.caller.look(&self.door.access) == Standing::Deleted;
            self.client.tell_words();
            if self.evicted {
                self.finish();
            }
        }
    }

    /// Its user was deleted: nothing more is to be told to it.
    pub fn is_evicted(&self) -> bool {
        self.evicted
    }

    /// Whether it may run this command, whose arguments stand in `args`.
    pub(super) fn admit(&self, typed: Typed) -> Result<(), CommandError> {
        let (opcode, spec) = (typed.opcode, typed.opcode.spec());
        let caller = &self.client.caller;
        if caller.needs_authentication() && !spec.has(flags::NO_AUTH) {
            return Err(CommandError::NoAuthentication);
        }
        if caller.user().may_everything() {
            return Ok(());
        }
        if typed.session.is_some() {
            // The number stands in front of another command: both have to be allowed.
            self.ask(op::HW_ONCE, Args::none())?;
        }
        self.ask(opcode, single::args(&self.args))
    }

    /// Whether it may still run the command that stands in `args`.
    pub(super) fn still_may(&self) -> Result<(), CommandError> {
        if self.client.caller.user().may_everything() {
            return Ok(());
        }
        self.ask(single::opcode(&self.args), single::args(&self.args))
    }

    /// Looks again at the request on offer. It may have been admitted long ago, by users of before: while the engine was busy, another node led, or
    /// a step of it was under way.
    pub(super) fn look_at_what_is_offered(&mut self) {
        let Stage::Offering { seq, procedure, kind, session, .. } = self.stage else { return };
        // What is removed in steps goes on to its end.
        let as_it_came = planted!(RightsKept) || self.admitted_by == self.door.access.version();
        if as_it_came || self.has_begun_emptying() {
            return;
        }
        self.look_at_users();
        self.admitted_by = self.client.caller.seen();
        let user = self.client.caller.user();
        let asked = requests::Asked {
            user: user.name(),
            procedure,
            name: self.door.callables.name_of(procedure),
            once: session.is_some(),
        };
        let may = requests::check(user, &asked, &self.args, self.door.procedures);
        if let (Err(error), false) = (may, self.evicted) {
            let error = match error {
                // A script, say, that does not name its user: nobody was to look when it was written.
                CommandError::Syntax => CommandError::Text(RULES_CHANGED),
                error => error,
            };
            if kind == Offer::Waits {
                self.end_waiting(seq, error);
            } else if !self.take_back(seq, kind) {
                let protocol = self.client.protocol;
                self.order.answer(seq, |out| Reply::new(out, protocol).error(error));
            }
        }
    }

    /// Writes the user's name in front of a command that asks for it: sessions belong to users, and what a script calls for somebody who may not
    /// do everything is looked at when it calls it.
    pub(super) fn sign(&mut self, opcode: Opcode) {
        let (user, spec) = (self.client.caller.user(), opcode.spec());
        if spec.asks_caller() || spec.asks_rules() && !user.may_everything() {
            single::sign(&mut self.args, user.name());
        }
    }

    fn ask(&self, opcode: Opcode, args: Args<'_>) -> Result<(), CommandError> {
        may(self.client.caller.user(), opcode, args).map_err(|denied| {
            let context = if self.transactions.in_block() { Context::Multi } else { Context::Toplevel };
            note_denied(&self.door, &self.client, denied, context, opcode.spec().name);
            denied.error()
        })
    }

    /// `ACL SETUSER`, `ACL DELUSER`, `CONFIG SET requirepass`: the request of their transaction stands in `args` then. False: another one.
    pub(super) fn changes_users(&mut self) -> Result<bool, CommandError> {
        let (mut words, mut request) = (single::args(&self.args), Vec::new());
        let subcommand = words.promised()?;
        if single::opcode(&self.args) == op::CONFIG {
            let Some(password) = new_password(subcommand, words) else { return Ok(false) };
            change::set_password(password, &mut request)?;
        } else if is(subcommand, "setuser") {
            change::set(words, &mut request)?;
        } else if is(subcommand, "deluser") {
            change::delete(words, &mut request);
        } else {
            return Ok(false);
        }
        self.args = request;
        Ok(true)
    }

    /// Its change of users was released: they are others from here on. What the client is told.
    pub(super) fn users_changed<'a>(&mut self, reply: &'a [u8]) -> &'a [u8] {
        self.stage = Stage::Open;
        self.args.clear();
        // Whatever is no such reply tells of a request that changed nothing, or of which nobody knows.
        let Ok(news) = News::decode(reply) else {
            self.door.access.read_again();
            return reply;
        };
        self.door.access.install(&news);
        news.told
    }

    /// It will not hear what becomes of its change, if one is under way: others have to look.
    pub(super) fn leave_change(&mut self) {
        if matches!(self.stage, Stage::Changing { .. }) {
            self.door.access.read_again();
        }
    }
}

/// The password of the default user that `CONFIG SET requirepass password` gives, alone.
fn new_password<'a>(subcommand: &[u8], mut words: Args<'a>) -> Option<&'a [u8]> {
    let alone = is(subcommand, "set") && words.len() == 2 && is(words.next()?, "requirepass");
    words.next().filter(|_| alone)
}

/// Whether a command of a block may still be run; else what it is answered.
pub(super) fn admit_queued(
    client: &ClientState,
    door: &Door,
    opcode: Opcode,
    args: Args<'_>,
) -> Result<(), CommandError> {
    may(client.caller.user(), opcode, args).map_err(|denied| {
        note_denied(door, client, denied, Context::Multi, "exec");
        CommandError::DeniedSince(match denied {
            Denied::Command(_) => "no permission to execute the command or subcommand",
            Denied::Key(_) | Denied::Table(_) => "no permission to touch the specified keys",
        })
    })
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.leave_change();
    }
}
