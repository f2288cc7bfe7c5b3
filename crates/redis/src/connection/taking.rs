//! From a command in the input to its answer, or to the request that the engine is offered.

use super::standing::admit_queued;
use super::*;
use crate::acl::ids::Named;
use crate::command::Opcode;
use crate::effort::LOOK;
use crate::operations::Took;
use crate::subscriptions::Kind;
use crate::waiting::worker_of;

/// Steps of a command that is denied: that is noted in `ACL LOG`.
const DENIED: u64 = 2 * LOOK;

impl Connection {
    /// Takes one command from the input; false if there is no complete one.
    pub(super) fn take_command(&mut self, allowance: &mut Allowance) -> bool {
        self.look_at_users();
        if matches!(self.stage, Stage::Finished) {
            return false;
        }
        // No command begins so: a handshake's record, of any version.
        if self.input[self.taken..].starts_with(&[0x16, 0x03]) {
            self.spoke_tls = true;
            self.finish();
            return true;
        }
        let held = self.held_bytes();
        self.parser.set_stranger(self.client.caller.needs_authentication());
        let frame = match self.parser.parse(&self.input[self.taken..]) {
            Ok(Some(frame)) => frame,
            Ok(None) => {
                self.starved = true;
                return false;
            }
            Err(error) => {
                self.reply(|reply| reply.error(format_args!("ERR {error}")));
                self.finish();
                return true;
            }
        };
        if is_http(frame.parts()) {
            self.spoke_http = true;
            self.finish();
            return true;
        }
        let len = frame.len;
        let by = (self.client.protocol, self.client.caller.user().owner());
        let command = single::encode(frame, by, &mut self.args);
        if allowance.short
            && let Ok(Some(typed)) = &command
            && Connection::may_answer_long(typed.opcode, &self.args)
            && !self.transactions.in_block()
        {
            // It is read again once there is room.
            self.long_answer = true;
            return false;
        }
        let refused = match &command {
            Err(_) => named_in(frame.parts()),
            Ok(_) => None,
        };
        self.taken += len;
        forget_front(&mut self.input, &mut self.taken);
        if len > KEEP_BYTES {
            self.parser.rest(KEEP_PARTS);
        }
        match command {
            Ok(Some(typed)) => {
                let typed = self.resolve(typed);
                match self.admit(typed) {
                    Ok(()) => {
                        self.admitted_by = self.client.caller.seen();
                        self.take(typed, len);
                    }
                    Err(error) => {
                        self.effort.spend(DENIED);
                        self.count_refused(Named::of(typed.opcode, single::args(&self.args).next()));
                        self.refuse(error);
                    }
                }
            }
            Ok(None) => {}
            Err(error) => {
                if let Some(named) = refused {
                    self.count_refused(named);
                }
                self.refuse(error);
            }
        }
        let replied = self.held_bytes().saturating_sub(held);
        allowance.work -= COMMAND_WORK + (len + replied) as i64 + self.effort.take() as i64;
        true
    }

    #[cold]
    fn count_refused(&self, named: Named) {
        if let Some(meter) = &self.meter {
            meter.commands.refuse(&named);
        }
    }

    /// Counts a command, runs it, and gives its reply, or none if the client wants none.
    fn take(&mut self, typed: Typed, len: usize) {
        let card = self.client.card();
        card.last.store(typed.opcode.byte(), Relaxed);
        card.unread.store(len as u64, Relaxed);
        let first = match typed.opcode.spec().subcommands.is_empty() {
            true => None,
            false => single::args(&self.args).next(),
        };
        let named = Named::of(typed.opcode, first);
        card.last_id.store(named.id as u64, Relaxed);
        card.active_ms.store(self.client.unix_ms, Relaxed);
        if self.client.replies == Replies::On {
            return self.act(typed, &named);
        }
        let skips = self.client.replies == Replies::Skip;
        self.order.mute(!self.turns_replies_on(typed));
        self.act(typed, &named);
        self.order.mute(false);
        if skips {
            self.client.replies = Replies::On;
        }
    }

    /// `CLIENT REPLY ON` is answered.
    fn turns_replies_on(&self, typed: Typed) -> bool {
        let mut words = single::args(&self.args);
        let is =
            |word: Option<&[u8]>, wanted: &[u8]| word.is_some_and(|word| word.eq_ignore_ascii_case(wanted));
        typed.opcode == op::CLIENT && is(words.next(), b"reply") && is(words.next(), b"on")
    }

    fn act(&mut self, Typed { opcode, session }: Typed, named: &Named) {
        let spec = opcode.spec();
        let command = spec.command;
        if let Some(meter) = &self.meter {
            meter.commands.count(named);
        }
        if self.client.listens_only() && !spec.has(flags::WHILE_LISTENING) {
            return self.refuse(CommandError::ListensOnly(spec.name));
        }
        if self.open.is_some() {
            if let Err(error) = self.interact(opcode, session) {
                self.reply(|reply| reply.error(error));
            }
            return;
        }
        if self.transactions.in_block() && session.is_some() {
            return self.refuse(CommandError::NotOnce);
        }
        if self.transactions.in_block() && queues(command) {
            let parts = single::args(&self.args).count();
            return match self.number_block(command).and_then(|()| {
                self.sign(opcode);
                self.transactions.queue(opcode, single::step(&self.args), parts)
            }) {
                Ok(()) => self.reply(|reply| reply.simple("QUEUED")),
                Err(error) => self.refuse(error),
            };
        }
        match command {
            Command::Data if opcode == op::HW_SESSION => {
                let Door { sessions, entropy, .. } = &*self.door;
                match single::complete_session(&mut self.args, opcode, *sessions, entropy) {
                    Ok(()) => {
                        self.sign(opcode);
                        self.offer(self.door.procedures.exec, Offer::Writes, None);
                    }
                    Err(error) => self.refuse(error),
                }
            }
            Command::Data if spec.has(flags::EMPTIES) => self.empty(session),
            Command::Data if spec.has(flags::WALKS) && session.is_none() && !self.client.snapshots => {
                self.walk(opcode);
            }
            Command::Data => {
                let plain = session.is_none();
                if plain
                    && spec.has(flags::SCANS)
                    && let Some(cursor) = self.cursor_in_a_crowd(opcode)
                {
                    return self.scan_on(opcode, cursor);
                }
                if plain
                    && let Some(wait_of) = spec.wait
                    && let Some(wait) = self.wait_of(spec, wait_of)
                {
                    return self.wait(wait);
                }
                let kind = if spec.reads() { Offer::Reads } else { Offer::Writes };
                self.sign(opcode);
                self.offer(self.door.procedures.exec, kind, session);
            }
            Command::Local if spec.has(flags::CHANGES_USERS) => match self.changes_users() {
                Ok(true) => self.offer_change(),
                Ok(false) => self.answer(opcode),
                Err(error) => self.refuse(error),
            },
            Command::Local => self.answer(opcode),
            Command::Control(control) => {
                let done = match control {
                    Control::Call => self.call(session),
                    _ => self.control(control),
                };
                match done {
                    Ok(()) => {}
                    Err(error) if control == Control::Call => self.refuse(error),
                    Err(error) => {
                        if let Some(meter) = &self.meter {
                            meter.commands.ended(Named::of(opcode, None).id, 0, true);
                        }
                        self.reply(|reply| reply.error(error));
                    }
                }
            }
        }
    }

    /// `HW.ONCE` gives the open block its number; any other command does nothing of the kind.
    pub(super) fn number_block(&mut self, command: Command) -> Result<(), CommandError> {
        if command != Command::Control(Control::Once) {
            return Ok(());
        }
        let owner = self.client.caller.user().owner();
        self.transactions.once(single::numbers(&mut single::args(&self.args), owner)?)
    }

    /// Makes [`args`](Self::args) the next request. What a session keeps of it is in the latest state.
    pub(super) fn offer(&mut self, procedure: ProcedureId, kind: Offer, session: Option<Session>) {
        let moment = Moment { unix_ms: self.client.unix_ms, seed: self.random.bits() };
        self.args[..Moment::BYTES].copy_from_slice(&moment.bytes());
        let seq = self.order.open();
        let reads = matches!(kind, Offer::Reads | Offer::Watches);
        let snapshot = reads && self.client.snapshots && session.is_none();
        self.stage = Stage::Offering { seq, procedure, kind, snapshot, session };
    }

    /// Makes [`args`](Self::args) the next request: a change of users, which knows no moment.
    pub(super) fn offer_change(&mut self) {
        let seq = self.order.open();
        let procedure = self.door.procedures.users;
        self.stage = Stage::Offering { seq, procedure, kind: Offer::Changes, snapshot: false, session: None };
    }

    pub(super) fn answer(&mut self, opcode: Opcode) {
        let (args, began) = (single::args(&self.args), self.door.operations.began());
        let mut failed = false;
        self.order.local(|out| {
            let start = out.len();
            commands::answer(opcode, args, &mut self.client, &self.door, &mut self.effort, out);
            if out.get(start) == Some(&b'-') {
                failed = true;
                self.door.clients.count_error(&out[start + 1..]);
            }
        });
        let took = self.door.operations.took(Took {
            began,
            worker: worker_of(self.client.id),
            card: self.client.card(),
            name: &self.client.name,
            command: single::opcode(&self.args),
            args,
        });
        if let Some(meter) = &self.meter {
            let named = Named::of(single::opcode(&self.args), args.into_iter().next());
            meter.commands.ended(named.id, took, failed);
        }
        if self.client.ends {
            self.finish();
        }
    }

    pub(super) fn control(&mut self, command: Control) -> Result<(), CommandError> {
        match command {
            Control::Multi => self.transactions.multi(self.client.caller.seen())?,
            Control::Exec => return self.exec(),
            Control::Discard => self.transactions.discard()?,
            Control::Watch => return self.watch(),
            Control::Unwatch => self.transactions.unwatch(),
            Control::Begin => return self.begin(),
            Control::Commit | Control::Rollback => return Err(CommandError::NoBegin),
            Control::Call => return self.call(None),
            // Only a block does without a command behind the number.
            Control::Once => return Err(CommandError::WrongArity("hw.once")),
            Control::Token => return self.token(),
            Control::Subscribe => return self.subscribe(Kind::Channels, true),
            Control::Psubscribe => return self.subscribe(Kind::Patterns, true),
            Control::Unsubscribe => return self.subscribe(Kind::Channels, false),
            Control::Punsubscribe => return self.subscribe(Kind::Patterns, false),
            Control::Quit => self.finish(),
            Control::Reset => {
                self.reset();
                self.reply(|reply| reply.simple("RESET"));
                return Ok(());
            }
        }
        self.reply(|reply| reply.ok());
        Ok(())
    }

    /// Subscribes to what sentinels tell, or does so no more.
    fn subscribe(&mut self, kind: Kind, adds: bool) -> Result<(), CommandError> {
        if self.transactions.in_block() {
            self.transactions.refuse();
            return Err(CommandError::NotInsideMulti);
        }
        let (names, client) = (single::args(&self.args), &mut self.client);
        let (protocol, mut written) = (client.protocol, Vec::new());
        let mut reply = Reply::new(&mut written, protocol);
        match adds {
            true => client.subscriptions.add(kind, names, &mut reply)?,
            false => client.subscriptions.remove(kind, names, &mut reply)?,
        }
        client.tell_subscriptions();
        self.order.local(|out| out.extend_from_slice(&written));
        Ok(())
    }

    /// Tells its client of an event, if it has subscribed to it.
    pub fn tell_event(&mut self, channel: &[u8], message: &[u8]) {
        let Connection { client, order, .. } = self;
        if client.subscriptions.is_any() && self.stage != Stage::Finished {
            order.local(|out| client.subscriptions.tell(channel, message, client.protocol, out));
        }
    }

    /// Whether it has subscribed to something, and waits for that.
    pub fn listens(&self) -> bool {
        self.client.subscriptions.is_any()
    }

    /// `RESET`: as if it had just connected.
    pub(super) fn reset(&mut self) {
        self.transactions = Transactions::default();
        self.open = None;
        self.client.card().queued.store(-1, Relaxed);
        self.client.reset(&self.door.access);
    }

    /// `HW.TOKEN`: of everything that was asked before it.
    pub(super) fn token(&mut self) -> Result<(), CommandError> {
        if self.transactions.in_block() {
            return Err(CommandError::NotInsideMulti);
        }
        self.stage = Stage::Recalling { seq: self.order.open() };
        self.recall();
        Ok(())
    }

    /// Answers an `HW.TOKEN`, once all before it are answered.
    pub(super) fn recall(&mut self) {
        let Stage::Recalling { seq } = self.stage else { return };
        if self.order.in_flight() == 1 {
            self.stage = Stage::Open;
            let (seen, protocol) = (self.client.seen, self.client.protocol);
            self.order.answer(seq, |out| Reply::new(out, protocol).integer(seen.0 as i64));
        }
    }

    pub(super) fn exec(&mut self) -> Result<(), CommandError> {
        let Connection { client, door, transactions, args, effort, .. } = self;
        let protocol = client.protocol;
        let users_changed = transactions.began_with() != Some(client.caller.seen());
        let user = Some(client.caller.user()).filter(|user| !user.may_everything());
        let user = user.map(|user| user.name().to_vec());
        // Reads that a pause holds are not taken at all.
        let (pause, held) = (door.clients.last_pause(), door.clients.pauses(true, client.unix_ms));
        let answer = |opcode: Opcode, words: Args<'_>, out: &mut Vec<u8>| {
            effort.check()?;
            if users_changed && let Err(error) = admit_queued(client, door, opcode, words) {
                effort.spend(DENIED);
                Reply::new(out, protocol).error(error);
                return Ok(());
            }
            if opcode.spec().command == Command::Local {
                let began = door.operations.began();
                commands::answer(opcode, words, client, door, effort, out);
                let (worker, card, name) = (worker_of(client.id), client.card(), &client.name);
                door.operations.took(Took { began, worker, card, name, command: opcode, args: words });
            }
            Ok(())
        };
        match transactions.exec(protocol, (users_changed, user.as_deref()), answer, args)? {
            Exec::Submit { writes, session } => {
                let kind = if writes { Offer::Writes } else { Offer::Reads };
                self.ahead_of_pause = !(writes && held) && door.clients.last_pause() != pause;
                self.offer(self.door.procedures.exec, kind, session);
            }
            Exec::Changed => self.reply(|reply| reply.null_array()),
            Exec::Known => {
                self.order.local(|out| write_known(&self.args, out).expect("exec wrote the arguments"))
            }
        }
        Ok(())
    }

    pub(super) fn watch(&mut self) -> Result<(), CommandError> {
        if self.transactions.in_block() {
            return Err(CommandError::WatchInsideMulti);
        }
        self.transactions.check_watch(single::args(&self.args))?;
        self.args.drain(Moment::BYTES..single::ARGS_AT);
        self.offer(self.door.procedures.watch, Offer::Watches, None);
        Ok(())
    }

    /// A command that cannot run: an error, and an open block is refused with it.
    pub(super) fn refuse(&mut self, error: CommandError) {
        self.transactions.refuse();
        if error == CommandError::WrongArity("exec") {
            // Redis ends the block, if there is one, and says so in any case.
            let _no_block = self.transactions.discard();
            return self.reply(|reply| reply.error(CommandError::ExecAbortedBecause("exec")));
        }
        self.reply(|reply| reply.error(error));
    }

    pub(super) fn reply(&mut self, write: impl FnOnce(&mut Reply<'_>)) {
        let (protocol, clients) = (self.client.protocol, &self.door.clients);
        self.order.local(|out| {
            let start = out.len();
            write(&mut Reply::new(out, protocol));
            if out.get(start) == Some(&b'-') {
                clients.count_error(&out[start + 1..]);
            }
        });
        let card = self.client.card();
        card.queued.store(self.transactions.queued(), Relaxed);
        card.queued_bytes.store(self.transactions.pending_bytes() as u64, Relaxed);
    }

    pub(super) fn finish(&mut self) {
        self.leave_change();
        self.stage = Stage::Finished;
        self.place = None;
        self.emptying = None;
        self.walking = None;
        self.scanning = None;
        self.transactions = Transactions::default();
        self.open = None;
        self.input = Vec::new();
        self.taken = 0;
    }
}

/// Which command these words name, if any.
#[cold]
fn named_in<'a>(mut words: impl Iterator<Item = &'a [u8]>) -> Option<Named> {
    let opcode = Opcode::find(words.next()?)?;
    Some(Named::of(opcode, words.next()))
}
