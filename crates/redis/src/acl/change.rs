//! `redis.users`: reads and changes the table of users.
//!
//! ```text
//! args   00 | known u64                                        what is there, unless there were so many changes
//!        01 | name bytes | words: count varint, bytes*         ACL SETUSER
//!        02 | names: count varint, bytes*                      ACL DELUSER
//!        03 | known u64 | count varint, (name bytes, row bytes)*   the users of a configuration, then as 00
//! reply  changes u64 | whole u8 | users: count varint, (name bytes, there u8, row bytes)* |
//!        marks: count varint, bytes* | what the client is told: the rest
//! ```
//!
//! Rows and marks: [`row`]. `whole` is 1 if these are all users. The reply says how the table stands after this
//! change, whose number `changes` is; if nothing was changed, `users` is empty.

use std::ops::{Bound, ControlFlow};

use highwater_core::codec::{Malformed, Reader, put_bytes, put_varint};
use highwater_core::{Abort, Direction, Procedure, Transaction};

use super::row::{self, Count, MARK, USER};
use super::selector::Reading;
use super::user::{SetUserError, User, check_name};
use super::{DEFAULT, MAX_USER_BYTES, MAX_USERS, MAX_USERS_BYTES, USERS};
use crate::endings::stopped;
use crate::errors::{CommandError, RequestError};
use crate::reply::{Protocol, Reply};
use crate::request::Args;

const READ: u8 = 0;
const SET: u8 = 1;
const DELETE: u8 = 2;
const PROVIDE: u8 = 3;

/// Users of a configuration: names and rows.
pub type Provided = Vec<(Vec<u8>, Vec<u8>)>;

/// Asks for the users, unless there were just so many changes.
pub fn read(known: u64, out: &mut Vec<u8>) {
    out.clear();
    out.push(READ);
    out.extend_from_slice(&known.to_le_bytes());
}

/// The same; those that the configuration names and that were never given to this cluster are added before.
pub fn provide(known: u64, users: &Provided, out: &mut Vec<u8>) {
    out.clear();
    out.push(PROVIDE);
    out.extend_from_slice(&known.to_le_bytes());
    put_varint(out, users.len() as u64);
    for (name, row) in users {
        put_bytes(out, name);
        put_bytes(out, row);
    }
}

/// `ACL SETUSER name word ..`
pub fn set(mut words: Args<'_>, out: &mut Vec<u8>) -> Result<(), CommandError> {
    let name = words.promised()?;
    out.clear();
    out.push(SET);
    put_bytes(out, name);
    Args::encode(words, out);
    Ok(())
}

/// `CONFIG SET requirepass password`: the default user has this password and no other one; an empty one: it needs none.
pub fn set_password(password: &[u8], out: &mut Vec<u8>) -> Result<(), CommandError> {
    let secret = [b">", password].concat();
    let words: &[&[u8]] =
        if password.is_empty() { &[b"default", b"nopass"] } else { &[b"default", b"resetpass", &secret] };
    let mut encoded = Vec::new();
    Args::encode(words.iter().copied(), &mut encoded);
    set(Args::decode(&mut Reader::new(&encoded)).expect("it was just encoded"), out)
}

/// `ACL DELUSER name ..`
pub fn delete(names: Args<'_>, out: &mut Vec<u8>) {
    out.clear();
    out.push(DELETE);
    Args::encode(names, out);
}

/// The subcommand of `ACL` that a client's request is; none of what a node asks itself.
pub fn asked(request: &[u8]) -> Option<&'static [u8]> {
    match *request.first()? {
        SET => Some(b"setuser"),
        DELETE => Some(b"deluser"),
        _ => None,
    }
}

/// What the procedure answers.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct News<'a> {
    /// How often the table was changed up to then.
    pub changes: u64,
    /// Whether `users` are all that there are.
    pub whole: bool,
    /// Names, and rows of those that are there.
    pub users: Vec<(&'a [u8], Option<&'a [u8]>)>,
    /// Users that a configuration has given, whatever became of them.
    pub marks: Vec<&'a [u8]>,
    /// For the client.
    pub told: &'a [u8],
}

impl<'a> News<'a> {
    /// Reads it.
    pub fn decode(reply: &'a [u8]) -> Result<News<'a>, Malformed> {
        let mut reader = Reader::new(reply);
        let mut news = News { changes: reader.u64()?, whole: reader.u8()? != 0, ..News::default() };
        for _ in 0..reader.varint()? {
            let (name, there, row) = (reader.bytes()?, reader.u8()?, reader.bytes()?);
            news.users.push((name, (there != 0).then_some(row)));
        }
        for _ in 0..reader.varint()? {
            news.marks.push(reader.bytes()?);
        }
        news.told = reader.rest();
        Ok(news)
    }

    /// As [`decode`](News::decode) reads it.
    pub fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.changes.to_le_bytes());
        out.push(self.whole.into());
        put_varint(out, self.users.len() as u64);
        for (name, row) in &self.users {
            put_bytes(out, name);
            out.push(row.is_some().into());
            put_bytes(out, row.unwrap_or_default());
        }
        put_varint(out, self.marks.len() as u64);
        self.marks.iter().for_each(|mark| put_bytes(out, mark));
        out.extend_from_slice(self.told);
    }
}

/// See the module.
pub struct ChangeUsers;

impl Procedure for ChangeUsers {
    const NAME: &'static str = "redis.users";
    const VERSION: u32 = 1;

    fn run<T: Transaction>(tx: &mut T, args: &[u8], reply: &mut Vec<u8>) -> Result<(), Abort> {
        let mut reader = Reader::new(args);
        let result = match reader.u8() {
            Ok(READ) => reader.u64().map_err(Stop::from).and_then(|known| answer(tx, known, reply)),
            Ok(SET) => set_user(tx, &mut reader, reply),
            Ok(DELETE) => delete_users(tx, &mut reader, reply),
            Ok(PROVIDE) => provide_users(tx, &mut reader, reply),
            Ok(_) | Err(_) => Err(Stop::Malformed),
        };
        match result {
            Ok(()) => Ok(()),
            Err(Stop::Abort(abort)) => Err(stopped(abort, reply)),
            Err(Stop::Malformed) => {
                reply.clear();
                refuse(tx, RequestError::Malformed, reply)?;
                Err(Abort::BadRequest)
            }
        }
    }

    fn explain_panic(message: &str, _: &[u8], reply: &mut Vec<u8>) {
        tell(Count::default(), RequestError::Panicked { message }, reply);
    }
}

/// Why the procedure ends early.
enum Stop {
    Abort(Abort),
    Malformed,
}

impl From<Abort> for Stop {
    fn from(abort: Abort) -> Stop {
        Stop::Abort(abort)
    }
}

impl From<Malformed> for Stop {
    fn from(_: Malformed) -> Stop {
        Stop::Malformed
    }
}

impl From<CommandError> for Stop {
    fn from(_: CommandError) -> Stop {
        Stop::Malformed
    }
}

fn count<T: Transaction>(tx: &mut T) -> Result<Count, Stop> {
    Ok(Count::decode(tx.get(USERS, row::COUNT)?)?)
}

/// Nothing is changed: an error, and how often the table was.
fn refuse<T: Transaction>(
    tx: &mut T,
    error: impl std::fmt::Display,
    reply: &mut Vec<u8>,
) -> Result<(), Abort> {
    let count = Count::decode(tx.get(USERS, row::COUNT)?).unwrap_or_default();
    tell(count, error, reply);
    Ok(())
}

fn tell(count: Count, error: impl std::fmt::Display, reply: &mut Vec<u8>) {
    let mut told = Vec::new();
    Reply::new(&mut told, Protocol::Resp2).error(error);
    News { changes: count.changes, told: &told, ..News::default() }.encode(reply);
}

/// Rules in one `ACL SETUSER`.
const MOST_RULES: usize = 8192;

fn set_user<T: Transaction>(tx: &mut T, reader: &mut Reader<'_>, reply: &mut Vec<u8>) -> Result<(), Stop> {
    let name = reader.bytes()?;
    let words = Args::decode(reader)?;
    let key = row::key(USER, name);
    let old = tx.get(USERS, &key)?.map(<[u8]>::to_vec);
    let changed = check_name(name).and_then(|()| {
        // What is put together from them is no longer, but each is held against those in front of it.
        if words.len() > MOST_RULES || words.map(<[u8]>::len).sum::<usize>() > MAX_USER_BYTES {
            return Err(SetUserError::TooLong);
        }
        let user = match &old {
            Some(row) => row::decode(name, row)?,
            None if name == DEFAULT => User::anybody(),
            None => User::new(name),
        };
        let user = row::encode(&user.with(words, Reading::Typed)?);
        if user.len() > MAX_USER_BYTES { Err(SetUserError::TooLong) } else { Ok(user) }
    });
    let user = match changed {
        Ok(user) => user,
        Err(error) => return Ok(refuse(tx, error, reply)?),
    };
    let mut count = count(tx)?;
    count.changes += 1;
    count.bytes += (key.len() + user.len()) as u64;
    match &old {
        None => count.users += 1,
        Some(old) => count.bytes -= (key.len() + old.len()) as u64,
    }
    if old.is_none() && !has_room(count) {
        return Ok(refuse(tx, TOO_MANY, reply)?);
    }
    tx.put(USERS, &key, &user)?;
    tx.put(USERS, row::COUNT, &count.encode())?;
    let users = vec![(name, Some(&user[..]))];
    News { changes: count.changes, users, told: b"+OK\r\n", ..News::default() }.encode(reply);
    Ok(())
}

/// What is said when there are too many.
const TOO_MANY: CommandError =
    CommandError::Text("ERR too many users, or too much is known of them; delete some");

fn has_room(count: Count) -> bool {
    count.users <= MAX_USERS && count.bytes <= MAX_USERS_BYTES
}

fn delete_users<T: Transaction>(
    tx: &mut T,
    reader: &mut Reader<'_>,
    reply: &mut Vec<u8>,
) -> Result<(), Stop> {
    let names = Args::decode(reader)?;
    if names.into_iter().any(|name| name == DEFAULT) {
        return Ok(refuse(tx, CommandError::Text("ERR The 'default' user cannot be removed"), reply)?);
    }
    let mut count = count(tx)?;
    let mut deleted = Vec::new();
    for name in names {
        let key = row::key(USER, name);
        let Some(len) = tx.get(USERS, &key)?.map(<[u8]>::len) else { continue };
        tx.delete(USERS, &key)?;
        count.users -= 1;
        count.bytes -= (key.len() + len) as u64;
        deleted.push((name, None));
    }
    if !deleted.is_empty() {
        count.changes += 1;
        tx.put(USERS, row::COUNT, &count.encode())?;
    }
    let mut told = Vec::new();
    Reply::new(&mut told, Protocol::Resp2).integer(deleted.len() as i64);
    News { changes: count.changes, users: deleted, told: &told, ..News::default() }.encode(reply);
    Ok(())
}

fn provide_users<T: Transaction>(
    tx: &mut T,
    reader: &mut Reader<'_>,
    reply: &mut Vec<u8>,
) -> Result<(), Stop> {
    let known = reader.u64()?;
    let mut count = count(tx)?;
    let (before, mut left_out) = (count, false);
    for _ in 0..reader.varint()? {
        let (name, user) = (reader.bytes()?, reader.bytes()?);
        let (mark, key) = (row::key(MARK, name), row::key(USER, name));
        if tx.get(USERS, &mark)?.is_some() {
            continue;
        }
        let mut with = count;
        with.bytes += mark.len() as u64;
        let is_new = tx.get(USERS, &key)?.is_none();
        if is_new {
            with.users += 1;
            with.bytes += (key.len() + user.len()) as u64;
        }
        if !has_room(with) {
            left_out = true;
            continue;
        }
        tx.put(USERS, &mark, &[])?;
        if is_new {
            tx.put(USERS, &key, user)?;
        }
        count = with;
    }
    if count != before {
        count.changes += 1;
        tx.put(USERS, row::COUNT, &count.encode())?;
    }
    answer(tx, known, reply)?;
    if left_out {
        Reply::new(reply, Protocol::Resp2).error(TOO_MANY);
    }
    Ok(())
}

/// All that is there, unless there were so many changes.
fn answer<T: Transaction>(tx: &mut T, known: u64, reply: &mut Vec<u8>) -> Result<(), Stop> {
    let count = count(tx)?;
    let (mut users, mut marks) = (Vec::new(), Vec::new());
    let whole = count.changes != known;
    if whole {
        let from = [USER];
        let range = (Bound::Included(&from[..]), Bound::Unbounded);
        tx.scan(USERS, range, Direction::Forward, |key, row| {
            match key.split_first() {
                Some((&USER, name)) => users.push((name.to_vec(), row.to_vec())),
                Some((&MARK, name)) => marks.push(name.to_vec()),
                _ => {}
            }
            ControlFlow::Continue(())
        })?;
    }
    News {
        changes: count.changes,
        whole,
        users: users.iter().map(|(name, row)| (&name[..], Some(&row[..]))).collect(),
        marks: marks.iter().map(Vec::as_slice).collect(),
        told: &[],
    }
    .encode(reply);
    Ok(())
}
