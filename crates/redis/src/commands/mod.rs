//! One file per family of commands.
//!
//! A data command is a function of its arguments and the [`Keyspace`]; it writes exactly one reply, or fails and has
//! written nothing. To add one: a variant and a row in [`command`](super::command), a function here.

pub mod acl;
pub mod admin;
pub mod algebra;
pub mod auth;
pub mod bitfield;
pub mod bits;
pub mod blocking;
pub mod client;
pub mod cluster;
pub mod connection;
pub mod counters;
pub mod cursor;
pub mod debug;
pub mod documents;
pub mod elsewhere;
pub mod expiry;
pub mod flush;
pub mod functions;
pub mod hashes;
pub mod help;
pub mod info;
pub mod keys;
pub mod keyspecs;
pub mod lists;
pub mod memory;
pub mod modules;
pub mod object;
pub mod portion;
pub mod scan;
pub mod scripts;
pub mod sentinel;
pub mod server;
pub mod sessions;
pub mod sets;
pub mod slow;
pub mod strings;
pub mod tables;
pub mod transactions;
pub mod words;
pub mod zalgebra;
pub mod zranges;
pub mod zsets;

use highwater_core::limits::{MAX_REDIS_KEY_BYTES, MAX_VALUE_BYTES};
use highwater_core::{Direction, Transaction};

use super::command::{Command, Data, Spec};
use super::errors::CommandError;
use super::keyspace::items::End;
use super::keyspace::{Failure, Keyspace, Stop};
use super::reply::Reply;
use super::request::Args;
use algebra::Join;
use expiry::Unit;
use zranges::By;

/// Runs one command inside a transaction.
pub fn run<T: Transaction>(
    spec: &Spec,
    args: Args<'_>,
    keyspace: &mut Keyspace<'_, T>,
    reply: &mut Reply<'_>,
) -> Result<(), Stop> {
    let Command::Data(command) = spec.command else { return Err(Stop::Malformed) };
    let start = reply.out.len();
    let result = check(spec, args, keyspace.goes_on).and_then(|()| dispatch(command, args, keyspace, reply));
    match result {
        Ok(()) => {}
        Err(Failure::Stop(stop)) => return Err(stop),
        Err(Failure::Command(error)) => {
            reply.out.truncate(start);
            reply.error(error);
        }
    }
    keyspace.bury_expired()
}

/// What the row says must hold. The door has checked the number of words, an embedded caller may not have.
fn check(spec: &Spec, args: Args<'_>, goes_on: bool) -> Result<(), Failure> {
    // A step of a walk through the names has a word more than anybody may type.
    let walks = matches!(spec.command, Command::Data(Data::Keys | Data::Dbsize | Data::Keysinslot));
    if !(goes_on && walks) {
        spec.check(args)?;
    }
    for (at, arg) in args.enumerate() {
        // A script's keys are strings like its other arguments, until it uses them.
        if arg.len() > MAX_REDIS_KEY_BYTES && spec.may_be_key(at + 1) && !spec.runs_scripts() {
            return Err(CommandError::KeyTooLong.into());
        }
        if arg.len() > MAX_VALUE_BYTES {
            return Err(CommandError::ValueTooLong.into());
        }
    }
    Ok(())
}

fn dispatch<T: Transaction>(
    command: Data,
    args: Args<'_>,
    keyspace: &mut Keyspace<'_, T>,
    reply: &mut Reply<'_>,
) -> Result<(), Failure> {
    match command {
        Data::Get => strings::get(args, keyspace, reply),
        Data::Set => strings::set(args, keyspace, reply),
        Data::Incr => counters::step(args, 1, keyspace, reply),
        Data::Del => keys::del(args, keyspace, reply),
        Data::Mget => strings::mget(args, keyspace, reply),
        Data::Mset => strings::mset(args, keyspace, reply),
        Data::Incrby => counters::incrby(args, keyspace, reply),
        Data::Decr => counters::step(args, -1, keyspace, reply),
        Data::Decrby => counters::decrby(args, keyspace, reply),
        Data::Append => strings::append(args, keyspace, reply),
        Data::Strlen => strings::strlen(args, keyspace, reply),
        Data::Exists => keys::exists(args, keyspace, reply),
        Data::Setnx => strings::setnx(args, keyspace, reply),
        Data::Setex => strings::setex(args, Unit::Seconds, keyspace, reply),
        Data::Psetex => strings::setex(args, Unit::Milliseconds, keyspace, reply),
        Data::Msetnx => strings::msetnx(args, keyspace, reply),
        Data::Getset => strings::getset(args, keyspace, reply),
        Data::Getdel => strings::getdel(args, keyspace, reply),
        Data::Getex => strings::getex(args, keyspace, reply),
        Data::Getrange => strings::getrange(args, keyspace, reply),
        Data::Substr => strings::getrange(args, keyspace, reply),
        Data::Setrange => strings::setrange(args, keyspace, reply),
        Data::Incrbyfloat => counters::incrbyfloat(args, keyspace, reply),
        Data::Setbit => bits::setbit(args, keyspace, reply),
        Data::Getbit => bits::getbit(args, keyspace, reply),
        Data::Bitcount => bits::bitcount(args, keyspace, reply),
        Data::Bitpos => bits::bitpos(args, keyspace, reply),
        Data::Bitop => bits::bitop(args, keyspace, reply),
        Data::Bitfield => bitfield::bitfield(args, false, keyspace, reply),
        Data::BitfieldRo => bitfield::bitfield(args, true, keyspace, reply),
        Data::Expire => expiry::expire(args, ("expire", Unit::Seconds), keyspace, reply),
        Data::Pexpire => expiry::expire(args, ("pexpire", Unit::Milliseconds), keyspace, reply),
        Data::Expireat => expiry::expire(args, ("expireat", Unit::UnixSeconds), keyspace, reply),
        Data::Pexpireat => expiry::expire(args, ("pexpireat", Unit::UnixMilliseconds), keyspace, reply),
        Data::Ttl => expiry::ttl(args, Unit::Seconds, keyspace, reply),
        Data::Pttl => expiry::ttl(args, Unit::Milliseconds, keyspace, reply),
        Data::Expiretime => expiry::ttl(args, Unit::UnixSeconds, keyspace, reply),
        Data::Pexpiretime => expiry::ttl(args, Unit::UnixMilliseconds, keyspace, reply),
        Data::Persist => expiry::persist(args, keyspace, reply),
        Data::Type => keys::kind(args, keyspace, reply),
        Data::Unlink => keys::del(args, keyspace, reply),
        Data::Touch => keys::exists(args, keyspace, reply),
        Data::Rename => keys::rename(args, keyspace, reply),
        Data::Renamenx => keys::renamenx(args, keyspace, reply),
        Data::Copy => keys::copy(args, keyspace, reply),
        Data::Scan => scan::scan(args, keyspace, reply),
        Data::Keys => scan::keys(args, keyspace, reply),
        Data::Randomkey => scan::randomkey(args, keyspace, reply),
        Data::Dbsize => scan::dbsize(args, keyspace, reply),
        Data::Keysinslot => scan::keys_in_slot(args, keyspace, reply),
        Data::Flushdb => flush::flush(args, keyspace, reply),
        Data::Flushall => flush::flush(args, keyspace, reply),
        Data::Object => object::object(args, keyspace, reply),
        Data::Memory => object::memory(args, keyspace, reply),
        Data::DebugObject => object::debug_object(args, keyspace, reply),
        Data::Hset => hashes::hset(args, "hset", keyspace, reply),
        Data::Hmset => hashes::hset(args, "hmset", keyspace, reply),
        Data::Hsetnx => hashes::hsetnx(args, keyspace, reply),
        Data::Hget => hashes::hget(args, keyspace, reply),
        Data::Hmget => hashes::hmget(args, keyspace, reply),
        Data::Hgetall => hashes::hgetall(args, keyspace, reply),
        Data::Hdel => hashes::hdel(args, keyspace, reply),
        Data::Hlen => hashes::hlen(args, keyspace, reply),
        Data::Hkeys => hashes::hkeys(args, keyspace, reply),
        Data::Hvals => hashes::hvals(args, keyspace, reply),
        Data::Hexists => hashes::hexists(args, keyspace, reply),
        Data::Hincrby => hashes::hincrby(args, keyspace, reply),
        Data::Hincrbyfloat => hashes::hincrbyfloat(args, keyspace, reply),
        Data::Hstrlen => hashes::hstrlen(args, keyspace, reply),
        Data::Hrandfield => hashes::hrandfield(args, keyspace, reply),
        Data::Hscan => hashes::hscan(args, keyspace, reply),
        Data::Sadd => sets::sadd(args, keyspace, reply),
        Data::Srem => sets::srem(args, keyspace, reply),
        Data::Smembers => sets::smembers(args, keyspace, reply),
        Data::Sismember => sets::sismember(args, keyspace, reply),
        Data::Smismember => sets::smismember(args, keyspace, reply),
        Data::Scard => sets::scard(args, keyspace, reply),
        Data::Spop => sets::spop(args, keyspace, reply),
        Data::Srandmember => sets::srandmember(args, keyspace, reply),
        Data::Smove => sets::smove(args, keyspace, reply),
        Data::Sscan => sets::sscan(args, keyspace, reply),
        Data::Sinter => algebra::sets(args, Join::Intersection, keyspace, reply),
        Data::Sunion => algebra::sets(args, Join::Union, keyspace, reply),
        Data::Sdiff => algebra::sets(args, Join::Difference, keyspace, reply),
        Data::Sinterstore => algebra::store(args, Join::Intersection, keyspace, reply),
        Data::Sunionstore => algebra::store(args, Join::Union, keyspace, reply),
        Data::Sdiffstore => algebra::store(args, Join::Difference, keyspace, reply),
        Data::Sintercard => algebra::sintercard(args, keyspace, reply),
        Data::Lpush => lists::push(args, (End::Left, false), keyspace, reply),
        Data::Rpush => lists::push(args, (End::Right, false), keyspace, reply),
        Data::Lpushx => lists::push(args, (End::Left, true), keyspace, reply),
        Data::Rpushx => lists::push(args, (End::Right, true), keyspace, reply),
        Data::Lpop => lists::pop(args, End::Left, keyspace, reply),
        Data::Rpop => lists::pop(args, End::Right, keyspace, reply),
        Data::Llen => lists::llen(args, keyspace, reply),
        Data::Lrange => lists::lrange(args, keyspace, reply),
        Data::Lindex => lists::lindex(args, keyspace, reply),
        Data::Lset => lists::lset(args, keyspace, reply),
        Data::Linsert => lists::linsert(args, keyspace, reply),
        Data::Lrem => lists::lrem(args, keyspace, reply),
        Data::Ltrim => lists::ltrim(args, keyspace, reply),
        Data::Lpos => lists::lpos(args, keyspace, reply),
        Data::Lmove => lists::lmove(args, keyspace, reply),
        Data::Rpoplpush => lists::rpoplpush(args, keyspace, reply),
        Data::Lmpop => lists::lmpop(args, keyspace, reply),
        Data::Zadd => zsets::zadd(args, keyspace, reply),
        Data::Zrem => zsets::zrem(args, keyspace, reply),
        Data::Zscore => zsets::zscore(args, keyspace, reply),
        Data::Zmscore => zsets::zmscore(args, keyspace, reply),
        Data::Zincrby => zsets::zincrby(args, keyspace, reply),
        Data::Zcard => zsets::zcard(args, keyspace, reply),
        Data::Zrandmember => zsets::zrandmember(args, keyspace, reply),
        Data::Zscan => zsets::zscan(args, keyspace, reply),
        Data::Zmpop => zsets::zmpop(args, keyspace, reply),
        Data::Zpopmin => zsets::zpop(args, Direction::Forward, keyspace, reply),
        Data::Zpopmax => zsets::zpop(args, Direction::Backward, keyspace, reply),
        Data::Zrank => zranges::zrank(args, Direction::Forward, keyspace, reply),
        Data::Zrevrank => zranges::zrank(args, Direction::Backward, keyspace, reply),
        Data::Zcount => zranges::zcount(args, By::Score, keyspace, reply),
        Data::Zlexcount => zranges::zcount(args, By::Lex, keyspace, reply),
        Data::Zrange => zranges::zrange(args, None, keyspace, reply),
        Data::Zrangestore => zranges::zrangestore(args, keyspace, reply),
        Data::Zrangebyscore => zranges::zrange(args, Some((By::Score, Direction::Forward)), keyspace, reply),
        Data::Zrevrangebyscore => {
            zranges::zrange(args, Some((By::Score, Direction::Backward)), keyspace, reply)
        }
        Data::Zrangebylex => zranges::zrange(args, Some((By::Lex, Direction::Forward)), keyspace, reply),
        Data::Zrevrangebylex => zranges::zrange(args, Some((By::Lex, Direction::Backward)), keyspace, reply),
        Data::Zrevrange => zranges::zrange(args, Some((By::Rank, Direction::Backward)), keyspace, reply),
        Data::Zremrangebyscore => zranges::zremrange(args, By::Score, keyspace, reply),
        Data::Zremrangebylex => zranges::zremrange(args, By::Lex, keyspace, reply),
        Data::Zremrangebyrank => zranges::zremrange(args, By::Rank, keyspace, reply),
        Data::Zunion => zalgebra::join(args, Join::Union, keyspace, reply),
        Data::Zunionstore => zalgebra::store(args, Join::Union, keyspace, reply),
        Data::Zinter => zalgebra::join(args, Join::Intersection, keyspace, reply),
        Data::Zinterstore => zalgebra::store(args, Join::Intersection, keyspace, reply),
        Data::Zdiff => zalgebra::join(args, Join::Difference, keyspace, reply),
        Data::Zdiffstore => zalgebra::store(args, Join::Difference, keyspace, reply),
        Data::Zintercard => zalgebra::zintercard(args, keyspace, reply),
        Data::Blpop => blocking::pop(args, End::Left, keyspace, reply),
        Data::Brpop => blocking::pop(args, End::Right, keyspace, reply),
        Data::Bzpopmin => blocking::zpop(args, Direction::Forward, keyspace, reply),
        Data::Bzpopmax => blocking::zpop(args, Direction::Backward, keyspace, reply),
        Data::Blmove => blocking::blmove(args, keyspace, reply),
        Data::Brpoplpush => blocking::brpoplpush(args, keyspace, reply),
        Data::Blmpop => blocking::blmpop(args, keyspace, reply),
        Data::Bzmpop => blocking::bzmpop(args, keyspace, reply),
        Data::Table => tables::table(args, keyspace, reply),
        Data::HwGet => tables::get(args, keyspace, reply),
        Data::HwPut => tables::put(args, keyspace, reply),
        Data::HwDel => tables::del(args, keyspace, reply),
        Data::HwRange => tables::range(args, keyspace, reply),
        Data::Eval => scripts::eval(args, (false, false), keyspace, reply),
        Data::EvalRo => scripts::eval(args, (false, true), keyspace, reply),
        Data::Evalsha => scripts::eval(args, (true, false), keyspace, reply),
        Data::EvalshaRo => scripts::eval(args, (true, true), keyspace, reply),
        Data::Script => scripts::script(args, keyspace, reply),
        Data::Fcall => functions::fcall(args, false, keyspace, reply),
        Data::FcallRo => functions::fcall(args, true, keyspace, reply),
        Data::Function => functions::function(args, keyspace, reply),
        Data::Module => modules::module(args, keyspace, reply),
        Data::Invoke => modules::invoke(args, false, keyspace, reply),
        Data::InvokeRo => modules::invoke(args, true, keyspace, reply),
        Data::Session => sessions::session(args, keyspace, reply),
        Data::Outcome => sessions::outcome(args, keyspace, reply),
    }
}
