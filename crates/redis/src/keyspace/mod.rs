//! The Redis keyspace as one transaction sees it, and how a command ends early.
//!
//! Five tables. docs/internals/redis.md has the rows, what each operation costs, and why.
//!
//! - [`KEYSPACE`]: a row for each key, hashed. It says what the key is and when it expires ([`head`]); of a string it is all there is,
//!   so that `GET` and `SET` touch one row.
//!   A small collection ([`small`]) and a short list ([`list`]) are all there in that row, too.
//! - [`ELEMENTS`]: what larger collections hold, an element a row ([`rows`]). Every collection that gets rows gets an id of its own, which its
//!   rows start with: whoever removes it need not remove them at once.
//! - [`ITEMS`]: what stands in longer lists between the ends, some items a row ([`items`]).
//! - [`NAMES`]: the keys once more, ordered by a hash, to be listed. Written when a key comes or goes, not when it changes.
//! - [`DUE`]: keys that expire, by their deadlines, and collections whose rows are to be removed. [`sweep`] does both, some at a time.
//!
//! # Invariants
//!
//! - A key has a row in [`NAMES`] if and only if it has one in [`KEYSPACE`].
//! - A key with a deadline has a row in [`DUE`] under that deadline; rows there may outlive their deadlines, and then mean nothing.
//! - A collection's `count` is the number of its elements, and is not 0: the last element takes the key with it.
//! - Whatever changes a collection writes its head's row, too: `WATCH` looks at nothing else.
//!
//! A key whose deadline is past is absent for every command, and goes with the first that names it (`expired`). Time is the request's ([`Moment`]).

mod expired;
pub mod head;
pub mod items;
pub mod list;
pub mod members;
pub mod packed;
mod removal;
mod room;
pub mod rows;
pub mod scores;
pub mod secret;
pub mod small;
pub mod sweep;

use std::ops::{Bound, ControlFlow};

use highwater_core::limits::{MAX_REDIS_KEY_BYTES, MAX_VALUE_BYTES};
use highwater_core::random::Random;
use highwater_core::{Abort, Direction, TableId, Transaction};
use highwater_seam::Owner;

use super::acl::user::owner_of;
use super::acl::{DEFAULT, USERS, User, row};
use super::errors::CommandError;
use super::moment::Moment;
use super::number::parse_integer;
use expired::Sighted;
use head::{Head, Kind, MARKED_BYTES, Row};
use packed::Packed;
use removal::PAID_AT_ONCE;
pub use room::Room;

pub use super::schema::{DUE, ELEMENTS, FUNCTIONS, ITEMS, KEYSPACE, NAMES, SCRIPTS, SESSIONS, SESSIONS_AT};

/// A collection of so few members may be packed into one row.
pub const FEW: u64 = 1024;

/// Why the whole request ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    /// The transaction cannot go on.
    Abort(Abort),
    /// The arguments make no sense.
    Malformed,
}

/// Why one command ends early.
#[derive(Debug)]
pub enum Failure {
    /// With an error of its own: it has written nothing, and the next command goes on.
    Command(CommandError),
    /// With all others.
    Stop(Stop),
}

/// What a command comes to; its reply is written.
pub type Done = Result<(), Failure>;

impl From<Abort> for Stop {
    fn from(abort: Abort) -> Stop {
        Stop::Abort(abort)
    }
}

impl From<Abort> for Failure {
    fn from(abort: Abort) -> Failure {
        Failure::Stop(Stop::Abort(abort))
    }
}

impl From<CommandError> for Failure {
    fn from(error: CommandError) -> Failure {
        Failure::Command(error)
    }
}

/// A transaction on the tables behind the door.
pub struct Keyspace<'a, T> {
    tx: &'a mut T,
    moment: Moment,
    random: Random,
    scratch: Vec<u8>,
    /// The key of the row that is asked for.
    key: Vec<u8>,
    /// What a list's row is put together in.
    elements: Vec<u8>,
    /// Small collections that the command has looked at, by their [slots](head::Slot).
    smalls: Vec<Packed>,
    /// The user who runs a command that asks for that; `None`: one who may do everything, and has no session.
    user: Option<Vec<u8>>,
    /// Rows and bytes that the transaction may yet remove of larger collections.
    paying: Room,
    /// The command has begun before: it waits for data of which it found none, or removes more keys.
    pub goes_on: bool,
    sighted: Sighted,
}

impl<'a, T: Transaction> Keyspace<'a, T> {
    /// What the transaction sees at that moment.
    pub fn new(tx: &'a mut T, moment: Moment) -> Keyspace<'a, T> {
        Keyspace {
            tx,
            moment,
            random: Random::new(moment.seed),
            scratch: Vec::new(),
            key: Vec::new(),
            elements: Vec::new(),
            smalls: Vec::new(),
            user: None,
            paying: Room::of(PAID_AT_ONCE),
            goes_on: false,
            sighted: Sighted::default(),
        }
    }

    /// The transaction, for what is no key of the keyspace.
    pub fn transaction(&mut self) -> &mut T {
        self.tx
    }

    /// The commands that come next are run for this user; `None`: for somebody who may do everything, or it does not matter.
    pub fn set_user(&mut self, user: Option<&[u8]>) {
        self.user = user.map(<[u8]>::to_vec);
    }

    /// The rules that a script has to keep to, as the table of users has them in this transaction; `None`: there are none.
    pub fn rules(&mut self) -> Result<Option<User>, Failure> {
        let Some(name) = &self.user else { return Ok(None) };
        let row = self.tx.get(USERS, &row::key(row::USER, name))?;
        Ok(Some(match row.map(|row| row::decode(name, row)) {
            Some(Ok(user)) => user,
            None if name == DEFAULT => User::anybody(),
            // Deleted meanwhile, or a later build's: who cannot read a rule must not guess it.
            None | Some(Err(_)) => User::new(name),
        }))
    }

    /// Whose sessions are asked for.
    pub fn owner(&self) -> Owner {
        self.user.as_deref().map_or(Owner::NOBODY, owner_of)
    }

    /// The request's time: Unix time in ms.
    pub fn now(&self) -> u64 {
        self.moment.unix_ms
    }

    /// The request's chance.
    pub fn random(&mut self) -> &mut Random {
        &mut self.random
    }

    /// The row of a key that exists.
    #[inline]
    pub fn row(&mut self, key: &[u8]) -> Result<Option<Row<'_>>, Failure> {
        let now = self.moment.unix_ms;
        let row = self.tx.get(KEYSPACE, key)?.map(Row::decode);
        if row.is_some_and(|row| row.head.is_expired(now)) {
            self.sighted.add(key);
            return Ok(None);
        }
        Ok(row)
    }

    /// The head of a key that exists.
    pub fn head(&mut self, key: &[u8]) -> Result<Option<Head>, Failure> {
        Ok(self.row(key)?.map(|row| row.head))
    }

    /// Whether the key exists.
    pub fn exists(&mut self, key: &[u8]) -> Result<bool, Failure> {
        Ok(self.row(key)?.is_some())
    }

    /// The value of a string.
    #[inline]
    pub fn get(&mut self, key: &[u8]) -> Result<Option<&[u8]>, Failure> {
        match self.row(key)? {
            Some(row) if row.head.kind != Kind::String => Err(CommandError::WrongType.into()),
            row => Ok(row.map(|row| row.value)),
        }
    }

    /// The head of a collection, to be read. (Of a list: [`list`](Self::list).)
    pub fn collection(&mut self, key: &[u8], kind: Kind) -> Result<Option<Head>, Failure> {
        debug_assert_ne!(kind, Kind::List);
        self.collection_of(key, |other| other == kind)
    }

    /// The same, of some kinds.
    pub fn collection_of(
        &mut self,
        key: &[u8],
        fits: impl Fn(Kind) -> bool,
    ) -> Result<Option<Head>, Failure> {
        let (mut head, elements) = match self.row(key)? {
            None => return Ok(None),
            Some(row) if !fits(row.head.kind) => return Err(CommandError::WrongType.into()),
            Some(Row { head, .. }) if !head.packed => return Ok(Some(head)),
            Some(Row { head, value, .. }) => (head, Packed::counted(value, 2 * head.count as usize)),
        };
        head.slot = self.keep_small(elements);
        Ok(Some(head))
    }

    /// The head of a collection that a command may wait for. Of who waits already, what has become another type meanwhile is nothing.
    pub fn waited(&mut self, key: &[u8], kind: Kind) -> Result<Option<Head>, Failure> {
        match self.collection(key, kind) {
            Err(Failure::Command(CommandError::WrongType)) if self.goes_on => Ok(None),
            found => found,
        }
    }

    /// The head of a collection, to be written: a new one if there is none. Whoever adds something [saves](Self::save) it.
    pub fn open(&mut self, key: &[u8], kind: Kind) -> Result<Head, Failure> {
        match self.collection(key, kind)? {
            Some(head) => Ok(head),
            None => Ok(self.begin(kind)),
        }
    }

    /// A collection that has no elements and no key yet.
    pub fn begin(&mut self, kind: Kind) -> Head {
        Head { slot: self.keep_small(Packed::default()), ..Head::collection(kind) }
    }

    /// So many members will be passed, and a collection of so many put together, at least: what cannot fit is refused before it is done.
    pub fn expects_members(&mut self, kind: Kind, passed: u64, count: u64) -> Done {
        let rows_each = match kind {
            // Few may be packed into one row, and so are a list's items.
            _ if count <= FEW => 0,
            Kind::String | Kind::List => 0,
            Kind::Set | Kind::Hash => 1,
            // The second is in the order of scores.
            Kind::SortedSet => 2,
        };
        Ok(self.tx.expects(rows_each.min(1) * passed, rows_each * count)?)
    }

    /// Puts a new collection in the place of whatever is there; without elements, nothing.
    pub fn replace(&mut self, key: &[u8], head: &Head) -> Done {
        self.remove(key)?;
        if head.count > 0 { self.save(key, head) } else { Ok(()) }
    }

    /// An id that no collection has, nor rows that are still to be removed.
    fn fresh_id(&mut self, table: TableId) -> Result<u64, Failure> {
        loop {
            let (id, mut taken) = (self.random.bits(), false);
            let (start, end) = (rows::collection_start(id), rows::collection_end(id));
            self.scan(table, &start, &end, Direction::Forward, |_, _| {
                taken = true;
                ControlFlow::Break(())
            })?;
            if !taken && id != 0 {
                return Ok(id);
            }
        }
    }

    /// Writes a collection's row. Without elements, it is gone.
    pub fn save(&mut self, key: &[u8], head: &Head) -> Done {
        if !head.packed {
            return self.save_row(key, head, &[]);
        }
        let elements = std::mem::take(self.small_mut(head));
        let saved = self.save_row(key, head, elements.bytes());
        *self.small_mut(head) = elements;
        saved
    }

    /// Writes the row of a collection or a list that was looked at in this command.
    fn save_row(&mut self, key: &[u8], head: &Head, elements: &[u8]) -> Done {
        if head.count == 0 {
            self.remove(key)?;
            return Ok(());
        }
        if !head.stored {
            return self.write(key, head, elements);
        }
        // It is that key's already, and so is its deadline: its name and what is due of it stand.
        self.scratch.clear();
        head.encode(elements, &mut self.scratch);
        Ok(self.tx.put(KEYSPACE, key, &self.scratch)?)
    }

    /// Sets a string; whatever was there is gone, its deadline, too.
    pub fn set(&mut self, key: &[u8], value: &[u8]) -> Done {
        self.write(key, &Head::string(), value)
    }

    /// The same of a value that was put together, and looks so if it is `grown`.
    pub fn set_grown(&mut self, key: &[u8], value: &[u8], grown: bool) -> Done {
        self.write(key, &Head { grown, ..Head::string() }, value)
    }

    /// Gives a string that is nothing but a value ([`Row::plain`]), and stays so, another one. It is that key's already, so nothing follows from it.
    #[inline]
    pub fn overwrite_plain(&mut self, key: &[u8], value: &[u8]) -> Done {
        debug_assert!(Head::string().is_plain(value));
        check_value(value.len())?;
        Ok(self.tx.put(KEYSPACE, key, value)?)
    }

    /// Sets a string that was there before, or was not: its deadline stays.
    pub fn change(&mut self, key: &[u8], value: &[u8], grown: bool) -> Done {
        let deadline = self.head(key)?.map_or(0, |head| head.deadline);
        self.write(key, &Head { deadline, grown, ..Head::string() }, value)
    }

    /// Sets a sum of floats, which is no integer though it may read as one: its deadline stays.
    pub fn set_sum(&mut self, key: &[u8], sum: &[u8]) -> Done {
        let deadline = self.head(key)?.map_or(0, |head| head.deadline);
        let spelled = parse_integer(sum).is_some();
        self.write(key, &Head { deadline, spelled, ..Head::string() }, sum)
    }

    /// Sets a string with a deadline; 0 is none. One that is past removes the key.
    pub fn set_until(&mut self, key: &[u8], value: &[u8], deadline: u64) -> Done {
        let head = Head { deadline, ..Head::string() };
        if head.is_expired(self.now()) {
            self.remove(key)?;
            return Ok(());
        }
        self.write(key, &head, value)
    }

    /// Gives a key that exists another deadline; 0 is none. One that is past removes the key.
    pub fn set_deadline(&mut self, key: &[u8], deadline: u64) -> Done {
        let now = self.moment.unix_ms;
        let Some(row) = self.row(key)? else { return Ok(()) };
        let head = Head { deadline, ..row.head };
        if head.is_expired(now) {
            self.remove(key)?;
            return Ok(());
        }
        let value = row.value.to_vec();
        self.write(key, &head, &value)
    }

    /// Writes the row of a key, and whatever follows from that.
    fn write(&mut self, key: &[u8], head: &Head, value: &[u8]) -> Done {
        let old = self.tx.get(KEYSPACE, key)?.map(|row| Row::decode(row).head);
        let other = |old: Head| (old.kind, old.id) != (head.kind, head.id);
        if old.is_none_or(|old| old.deadline | head.deadline != 0 || other(old)) {
            self.follow(key, old, head)?;
        }
        if head.kind == Kind::String && head.is_plain(value) {
            check_value(value.len())?;
            return Ok(self.tx.put(KEYSPACE, key, value)?);
        }
        check_value(value.len() + MARKED_BYTES)?;
        self.scratch.clear();
        head.encode(value, &mut self.scratch);
        Ok(self.tx.put(KEYSPACE, key, &self.scratch)?)
    }

    /// A key comes, or changes its deadline, or another takes its place.
    fn follow(&mut self, key: &[u8], old: Option<Head>, new: &Head) -> Done {
        match old {
            None => self.tx.put(NAMES, &rows::name_row(key), &[])?,
            Some(old) if (old.kind, old.id) != (new.kind, new.id) => self.drop_elements(&old)?,
            Some(_) => {}
        }
        let deadline = old.map_or(0, |old| old.deadline);
        if deadline != new.deadline {
            self.forget_deadline(key, deadline)?;
            if new.deadline != 0 {
                self.tx.put(DUE, &rows::deadline_row(new.deadline, key), &[])?;
            }
        }
        Ok(())
    }

    fn forget_deadline(&mut self, key: &[u8], deadline: u64) -> Done {
        if deadline != 0 {
            self.tx.delete(DUE, &rows::deadline_row(deadline, key))?;
        }
        Ok(())
    }

    /// Gives what a key is another name, which whatever is there loses.
    pub fn rename(&mut self, from: &[u8], to: &[u8]) -> Done {
        let Some(row) = self.row(from)? else { return Ok(()) };
        let (head, value) = (row.head, row.value.to_vec());
        if from == to {
            return Ok(());
        }
        self.remove(to)?;
        self.forget_deadline(from, head.deadline)?;
        self.tx.delete(KEYSPACE, from)?;
        self.tx.delete(NAMES, &rows::name_row(from))?;
        self.write(to, &head, &value)
    }

    /// Copies a key to a name that does not exist.
    pub fn copy(&mut self, from: &[u8], to: &[u8]) -> Done {
        let Some(row) = self.row(from)? else { return Ok(()) };
        let (mut head, value) = (row.head, row.value.to_vec());
        if head.id != 0 {
            let table = if head.has_items() { ITEMS } else { ELEMENTS };
            let (old, new) = (head.id, self.fresh_id(table)?);
            self.expects_members(head.kind, head.count, head.count)?;
            let mut copied = Vec::new();
            let (start, end) = (rows::collection_start(old), rows::collection_end(old));
            self.scan(table, &start, &end, Direction::Forward, |row, value| {
                copied.push(([&new.to_be_bytes()[..], &row[8..]].concat(), value.to_vec()));
                ControlFlow::Continue(())
            })?;
            for (row, value) in &copied {
                self.tx.put(table, row, value)?;
            }
            head.id = new;
        }
        self.write(to, &head, &value)
    }

    /// Names from a hash on, in the order of their hashes, until `visit` breaks. Those of keys that have expired are among them.
    pub fn names(&mut self, from: u64, mut visit: impl FnMut(u64, Vec<u8>) -> ControlFlow<()>) -> Done {
        self.each_name(&from.to_be_bytes(), |hash, name| visit(hash, name.to_vec()))
    }

    /// The same from a [spot](rows::spot) on.
    pub fn each_name(&mut self, from: &[u8], mut visit: impl FnMut(u64, &[u8]) -> ControlFlow<()>) -> Done {
        let range = (Bound::Included(from), Bound::Unbounded);
        self.tx.scan(NAMES, range, Direction::Forward, |row, _| {
            let (hash, name) = rows::name_in(row);
            visit(hash, name)
        })?;
        Ok(())
    }

    /// How many names there are: looks at each.
    pub fn count(&mut self) -> Result<u64, Failure> {
        let mut count = 0;
        self.tx.scan(NAMES, (Bound::Unbounded, Bound::Unbounded), Direction::Forward, |_, _| {
            count += 1;
            ControlFlow::Continue(())
        })?;
        Ok(count)
    }

    /// Visits rows from `start` up to `end`, which is not visited.
    fn scan(
        &mut self,
        table: TableId,
        start: &[u8],
        end: &[u8],
        direction: Direction,
        visit: impl FnMut(&[u8], &[u8]) -> ControlFlow<()>,
    ) -> Done {
        Ok(self.tx.scan(table, (Bound::Included(start), Bound::Excluded(end)), direction, visit)?)
    }
}

/// A value may not outgrow the limit.
pub fn check_value(len: usize) -> Result<(), CommandError> {
    if len > MAX_VALUE_BYTES { Err(CommandError::ValueTooLong) } else { Ok(()) }
}

/// A key may not outgrow the limit.
pub fn check_key(key: &[u8]) -> Result<(), CommandError> {
    if key.len() > MAX_REDIS_KEY_BYTES { Err(CommandError::KeyTooLong) } else { Ok(()) }
}
