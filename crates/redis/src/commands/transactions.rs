//! MULTI EXEC DISCARD WATCH UNWATCH, and HW.ONCE in a block: what a connection collects until it becomes one request.
//!
//! Nothing here touches data. `WATCH` leaves versions behind, `MULTI` opens a block that collects commands, and
//! `EXEC` turns both into the arguments of one `redis.exec`, which checks the versions inside the transaction.

use highwater_core::Timestamp;
use highwater_core::codec::{Malformed, Reader, put_varint};
use highwater_core::limits::{MAX_BLOCK_PARTS, MAX_COMMAND_BYTES, MAX_REDIS_KEY_BYTES, MAX_REQUEST_BYTES};
use highwater_seam::Session;

use super::op;
use crate::command::{Command, Control, Opcode, flags};
use crate::errors::CommandError;
use crate::moment::Moment;
use crate::order::KEEP_BYTES;
use crate::reply::{Protocol, Reply};
use crate::request::{Args, Framing, Step, Watch};

/// What a [`Watch`] adds to its key, at most.
const WATCH_OVERHEAD_BYTES: usize = 13;

/// An open `MULTI`.
#[derive(Clone, Copy, Debug, Default)]
struct Block {
    /// Commands queued.
    count: u64,
    /// Arguments of them all.
    args: usize,
    /// Whether one of them touches data.
    data: bool,
    /// Whether one of them changes data.
    writes: bool,
    /// Whether one of them is answered at the door.
    local: bool,
    /// A command was refused: `EXEC` will be, too.
    refused: bool,
    /// It runs once, under this number.
    session: Option<Session>,
    /// Which version of the users its commands were admitted by.
    users: u64,
}

/// What an `EXEC` comes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exec {
    /// A request to the engine.
    Submit {
        /// Whether it changes data.
        writes: bool,
        /// Under which number it runs once.
        session: Option<Session>,
    },
    /// No data and nothing watched: every reply is known.
    Known,
    /// A `WATCH` was not answered with OK: nobody can say that nothing changed.
    Changed,
}

/// The open block and the watched keys of one connection.
#[derive(Debug, Default)]
pub struct Transactions {
    block: Option<Block>,
    /// The block's commands, encoded.
    body: Vec<u8>,
    /// [`Watch`]es, encoded. A key watched twice stands twice: both versions must hold.
    watched: Vec<u8>,
    watches: u64,
    watch_failed: bool,
}

impl Transactions {
    /// Whether commands are queued.
    pub fn in_block(&self) -> bool {
        self.block.is_some()
    }

    /// How many; -1 outside of a block.
    pub fn queued(&self) -> i64 {
        self.block.as_ref().map_or(-1, |block| block.count as i64)
    }

    /// `MULTI`
    pub fn multi(&mut self, users: u64) -> Result<(), CommandError> {
        if self.block.is_some() {
            return Err(CommandError::NestedMulti);
        }
        self.block = Some(Block { users, ..Block::default() });
        self.body.clear();
        self.body.shrink_to(KEEP_BYTES);
        Ok(())
    }

    /// Which version of the users the commands of the open block were admitted by, at least.
    pub fn began_with(&self) -> Option<u64> {
        self.block.map(|block| block.users)
    }

    /// Queues a command of an open block: `step` as the request will carry it, with so many arguments.
    pub fn queue(&mut self, opcode: Opcode, step: &[u8], args: usize) -> Result<(), CommandError> {
        let block = self.block.as_mut().expect("commands are queued in a block");
        if self.body.len() + self.watched.len() + step.len() > MAX_COMMAND_BYTES {
            return Err(CommandError::TooMuchQueued);
        }
        block.args += args;
        if block.args > MAX_BLOCK_PARTS {
            return Err(CommandError::TooManyQueued);
        }
        match opcode.spec().command {
            // It would change how the replies around it are written, or who runs the commands around it.
            Command::Local if opcode.spec().has(flags::STANDS_ALONE | flags::NO_MULTI) => {
                return Err(CommandError::NotInsideMulti);
            }
            Command::Local if opcode == op::CLIENT && is_client_reply(step) => {
                return Err(CommandError::NotInsideMulti);
            }
            Command::Data if !opcode.spec().is_ordinary() => return Err(CommandError::NotInsideMulti),
            Command::Data => {
                block.data = true;
                block.writes |= !opcode.spec().reads();
            }
            Command::Local | Command::Control(_) => block.local = true,
        }
        self.body.extend_from_slice(step);
        block.count += 1;
        Ok(())
    }

    /// `HW.ONCE` in a block.
    pub fn once(&mut self, session: Session) -> Result<(), CommandError> {
        let block = self.block.as_mut().expect("numbers are given to blocks");
        match block.session.replace(session) {
            None => Ok(()),
            Some(_) => Err(CommandError::OnceTwice),
        }
    }

    /// A command was refused; in a block, that refuses the block.
    pub fn refuse(&mut self) {
        if let Some(block) = &mut self.block {
            block.refused = true;
        }
    }

    /// `DISCARD`
    pub fn discard(&mut self) -> Result<(), CommandError> {
        self.block.take().ok_or(CommandError::DiscardWithoutMulti)?;
        self.body.clear();
        self.unwatch();
        Ok(())
    }

    /// `EXEC`: closes the block, forgets what was watched, and writes the request's arguments. `answer` answers a command that
    /// touches no data; with `asks`, any other as well that is refused. Its error is the block's. `user`: whose rules its scripts have to keep to.
    pub fn exec(
        &mut self,
        protocol: Protocol,
        (asks, user): (bool, Option<&[u8]>),
        answer: impl FnMut(Opcode, Args<'_>, &mut Vec<u8>) -> Result<(), CommandError>,
        args: &mut Vec<u8>,
    ) -> Result<Exec, CommandError> {
        let block = self.block.take().ok_or(CommandError::ExecWithoutMulti)?;
        let decision = match block {
            Block { refused: true, .. } => Err(CommandError::ExecAborted),
            _ if self.watch_failed => Ok(Exec::Changed),
            Block { data, writes, session, .. } => {
                let written = self.encode(block, protocol, (asks, user), answer, args);
                let submits = data || self.watches > 0 || session.is_some();
                written.map(|()| if submits { Exec::Submit { writes, session } } else { Exec::Known })
            }
        };
        self.unwatch();
        self.body.clear();
        self.body.shrink_to(KEEP_BYTES);
        decision
    }

    /// Bytes that are queued and watched.
    pub fn pending_bytes(&self) -> usize {
        self.body.len() + self.watched.len()
    }

    /// Memory of what is queued and watched, in bytes.
    pub fn memory_bytes(&self) -> usize {
        self.body.capacity() + self.watched.capacity()
    }

    /// Gives back memory that holds nothing.
    pub fn rest(&mut self) {
        self.body.shrink_to_fit();
        self.watched.shrink_to_fit();
    }

    fn encode(
        &self,
        block: Block,
        protocol: Protocol,
        (asks, user): (bool, Option<&[u8]>),
        answer: impl FnMut(Opcode, Args<'_>, &mut Vec<u8>) -> Result<(), CommandError>,
        args: &mut Vec<u8>,
    ) -> Result<(), CommandError> {
        args.clear();
        args.extend_from_slice(&Moment::default().bytes());
        Framing { protocol, block: true, again: false }.encode(args);
        put_varint(args, self.watches);
        args.extend_from_slice(&self.watched);
        put_varint(args, block.count);
        if !block.local && !asks {
            args.extend_from_slice(&self.body);
            return Ok(());
        }
        self.answer_some(user, answer, args).expect("queue wrote the body")
    }

    /// Copies the body; commands that are answered become their replies.
    fn answer_some(
        &self,
        user: Option<&[u8]>,
        mut answer: impl FnMut(Opcode, Args<'_>, &mut Vec<u8>) -> Result<(), CommandError>,
        args: &mut Vec<u8>,
    ) -> Result<Result<(), CommandError>, Malformed> {
        let mut reader = Reader::new(&self.body);
        let mut reply = Vec::new();
        while !reader.is_empty() {
            let Step::Command { opcode, args: words, .. } = Step::decode(&mut reader)? else {
                return Err(Malformed("queued command"));
            };
            reply.clear();
            if let Err(error) = answer(opcode, words, &mut reply) {
                return Ok(Err(error));
            }
            match opcode.spec().command {
                _ if !reply.is_empty() => {}
                Command::Data | Command::Local => {
                    if let Some(user) = user.filter(|_| opcode.spec().asks_rules()) {
                        Step::encode_user(user, args);
                    }
                    Step::encode_command(opcode, words, args);
                }
                // UNWATCH: EXEC has ended all watches by itself. HW.ONCE: the number is the block's already.
                Command::Control(_) => Reply::new(&mut reply, Protocol::Resp2).ok(),
            }
            if !reply.is_empty() {
                Step::encode_literal(&reply, args);
            }
            if args.len() > MAX_REQUEST_BYTES {
                return Ok(Err(CommandError::TooMuchQueued));
            }
        }
        Ok(Ok(()))
    }

    /// `UNWATCH`
    pub fn unwatch(&mut self) {
        self.watched.clear();
        self.watched.shrink_to(KEEP_BYTES);
        self.watches = 0;
        self.watch_failed = false;
    }

    /// Whether these keys may be watched, too.
    pub fn check_watch<'a>(&self, mut keys: impl Iterator<Item = &'a [u8]>) -> Result<(), CommandError> {
        let mut len = self.watched.len();
        if keys.any(|key| {
            len += key.len() + WATCH_OVERHEAD_BYTES;
            key.len() > MAX_REDIS_KEY_BYTES
        }) {
            return Err(CommandError::KeyTooLong);
        }
        if len > MAX_COMMAND_BYTES { Err(CommandError::TooMuchQueued) } else { Ok(()) }
    }

    /// A `WATCH` was released: adds its keys (the arguments of `redis.watch`) with their versions (its reply).
    pub fn watched(&mut self, keys: &[u8], versions: &[u8]) {
        let keys = Args::decode(&mut Reader::new(&keys[Moment::BYTES..]))
            .expect("the connection wrote the arguments");
        let mut versions = Reader::new(versions);
        for key in keys {
            let version = versions.u64().expect("redis.watch answers a version for every key");
            Watch { key, version: Timestamp(version) }.encode(&mut self.watched);
            self.watches += 1;
        }
    }

    /// A `WATCH` ended with an error: until it is forgotten, no `EXEC` may go through.
    pub fn watch_failed(&mut self) {
        self.watch_failed = true;
    }
}

/// Writes the array of an `EXEC` whose replies are all known, from the request that would have asked for it.
pub fn write_known(args: &[u8], out: &mut Vec<u8>) -> Result<(), Malformed> {
    let mut reader = Reader::new(args);
    let _moment = Moment::decode(&mut reader)?;
    let framing = Framing::decode(&mut reader)?;
    let _no_watches = reader.varint()?;
    let count = reader.varint()?;
    Reply::new(out, framing.protocol).array(count as usize);
    for _ in 0..count {
        match Step::decode(&mut reader)? {
            Step::Literal(reply) => out.extend_from_slice(reply),
            Step::Command { .. } => return Err(Malformed("known reply")),
        }
    }
    Ok(())
}

/// `CLIENT REPLY`: it would change whether the replies around it are written.
fn is_client_reply(step: &[u8]) -> bool {
    match Step::decode(&mut Reader::new(step)) {
        Ok(Step::Command { args: mut words, .. }) => {
            words.next().is_some_and(|word| word.eq_ignore_ascii_case(b"reply"))
        }
        _ => false,
    }
}

/// Whether an open block queues this command instead of running it.
pub fn queues(command: Command) -> bool {
    match command {
        Command::Data | Command::Local => true,
        Command::Control(control) => matches!(control, Control::Unwatch | Control::Once),
    }
}
