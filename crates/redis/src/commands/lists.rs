//! Lists. Both ends cost the key's row, and another one now and then; in the middle, whatever is on the shorter side moves.

use std::ops::ControlFlow;

use highwater_core::{Direction, Transaction};

use super::words::{MUST_BE_POSITIVE, integer, is, range, unsigned};
use crate::command::entry::commands;
use crate::errors::CommandError;
use crate::keyspace::items::End;
use crate::keyspace::list::List;
use crate::keyspace::{Done, Failure, Keyspace};
use crate::reply::Reply;
use crate::request::Args;

commands! {
    data(args, keyspace, reply);

    LPUSH = 91 {
        run: push(args, (End::Left, false), keyspace, reply),
        name: "lpush", arity: -3, flags: WRITE | DENYOOM | FAST, keys: ONE_KEY, group: "list", since: "1.0.0",
        summary: "Prepend one or multiple elements to a list",
        specs: "RW,insert index 1 range 0 1 0",
        docs: "
            complexity O(1) for each element added, so O(N) to add N elements when the command is called with multiple arguments.
            history 2.4.0 Accepts multiple `element` arguments.
            - key: key #0
            - element: string multiple
        ",
    }

    RPUSH = 92 {
        run: push(args, (End::Right, false), keyspace, reply),
        name: "rpush", arity: -3, flags: WRITE | DENYOOM | FAST, keys: ONE_KEY, group: "list", since: "1.0.0",
        summary: "Append one or multiple elements to a list",
        specs: "RW,insert index 1 range 0 1 0",
        docs: "
            complexity O(1) for each element added, so O(N) to add N elements when the command is called with multiple arguments.
            history 2.4.0 Accepts multiple `element` arguments.
            - key: key #0
            - element: string multiple
        ",
    }

    LPUSHX = 93 {
        run: push(args, (End::Left, true), keyspace, reply),
        name: "lpushx", arity: -3, flags: WRITE | DENYOOM | FAST, keys: ONE_KEY, group: "list",
        since: "2.2.0",
        summary: "Prepend an element to a list, only if the list exists",
        specs: "RW,insert index 1 range 0 1 0",
        docs: "
            complexity O(1) for each element added, so O(N) to add N elements when the command is called with multiple arguments.
            history 4.0.0 Accepts multiple `element` arguments.
            - key: key #0
            - element: string multiple
        ",
    }

    RPUSHX = 94 {
        run: push(args, (End::Right, true), keyspace, reply),
        name: "rpushx", arity: -3, flags: WRITE | DENYOOM | FAST, keys: ONE_KEY, group: "list",
        since: "2.2.0",
        summary: "Append an element to a list, only if the list exists",
        specs: "RW,insert index 1 range 0 1 0",
        docs: "
            complexity O(1) for each element added, so O(N) to add N elements when the command is called with multiple arguments.
            history 4.0.0 Accepts multiple `element` arguments.
            - key: key #0
            - element: string multiple
        ",
    }

    LPOP = 95 {
        run: pop(args, End::Left, keyspace, reply),
        name: "lpop", arity: -2, flags: WRITE | FAST, keys: ONE_KEY, group: "list", since: "1.0.0",
        summary: "Remove and get the first elements in a list",
        specs: "RW,access,delete index 1 range 0 1 0",
        docs: "
            complexity O(N) where N is the number of elements returned
            history 6.2.0 Added the `count` argument.
            - key: key #0
            - count: integer @6.2.0 optional
        ",
    }

    RPOP = 96 {
        run: pop(args, End::Right, keyspace, reply),
        name: "rpop", arity: -2, flags: WRITE | FAST, keys: ONE_KEY, group: "list", since: "1.0.0",
        summary: "Remove and get the last elements in a list",
        specs: "RW,access,delete index 1 range 0 1 0",
        docs: "
            complexity O(N) where N is the number of elements returned
            history 6.2.0 Added the `count` argument.
            - key: key #0
            - count: integer @6.2.0 optional
        ",
    }

    LLEN = 97 {
        run: llen(args, keyspace, reply),
        name: "llen", arity: 2, flags: READONLY | FAST, keys: ONE_KEY, group: "list", since: "1.0.0",
        summary: "Get the length of a list",
        specs: "RO index 1 range 0 1 0",
        docs: "
            complexity O(1)
            - key: key #0
        ",
    }

    LRANGE = 98 {
        run: lrange(args, keyspace, reply),
        name: "lrange", arity: 4, flags: READONLY, keys: ONE_KEY, group: "list", since: "1.0.0",
        summary: "Get a range of elements from a list",
        specs: "RO,access index 1 range 0 1 0",
        docs: "
            complexity O(S+N) where S is the distance of start offset from HEAD for small lists, from nearest end (HEAD or TAIL) for large lists; and N is the number of elements in the specified range.
            - key: key #0
            - start: integer
            - stop: integer
        ",
    }

    LINDEX = 99 {
        run: lindex(args, keyspace, reply),
        name: "lindex", arity: 3, flags: READONLY, keys: ONE_KEY, group: "list", since: "1.0.0",
        summary: "Get an element from a list by its index",
        specs: "RO,access index 1 range 0 1 0",
        docs: "
            complexity O(N) where N is the number of elements to traverse to get to the element at index. This makes asking for the first or the last element of the list O(1).
            - key: key #0
            - index: integer
        ",
    }

    LSET = 100 {
        run: lset(args, keyspace, reply),
        name: "lset", arity: 4, flags: WRITE | DENYOOM, keys: ONE_KEY, group: "list", since: "1.0.0",
        summary: "Set the value of an element in a list by its index",
        specs: "RW,update index 1 range 0 1 0",
        docs: "
            complexity O(N) where N is the length of the list. Setting either the first or the last element of the list is O(1).
            - key: key #0
            - index: integer
            - element: string
        ",
    }

    LINSERT = 101 {
        run: linsert(args, keyspace, reply),
        name: "linsert", arity: 5, flags: WRITE | DENYOOM, keys: ONE_KEY, group: "list", since: "2.2.0",
        summary: "Insert an element before or after another element in a list",
        specs: "RW,insert index 1 range 0 1 0",
        docs: "
            complexity O(N) where N is the number of elements to traverse before seeing the value pivot. This means that inserting somewhere on the left end on the list (head) can be considered O(1) and inserting somewhere on the right end (tail) is O(N).
            - key: key #0
            - where: oneof
            -- before: pure-token 'BEFORE'
            -- after: pure-token 'AFTER'
            - pivot: string
            - element: string
        ",
    }

    LREM = 102 {
        run: lrem(args, keyspace, reply),
        name: "lrem", arity: 4, flags: WRITE, keys: ONE_KEY, group: "list", since: "1.0.0",
        summary: "Remove elements from a list",
        specs: "RW,delete index 1 range 0 1 0",
        docs: "
            complexity O(N+M) where N is the length of the list and M is the number of elements removed.
            - key: key #0
            - count: integer
            - element: string
        ",
    }

    LTRIM = 103 {
        run: ltrim(args, keyspace, reply),
        name: "ltrim", arity: 4, flags: WRITE, keys: ONE_KEY, group: "list", since: "1.0.0",
        summary: "Trim a list to the specified range",
        specs: "RW,delete index 1 range 0 1 0",
        docs: "
            complexity O(N) where N is the number of elements to be removed by the operation.
            - key: key #0
            - start: integer
            - stop: integer
        ",
    }

    LPOS = 104 {
        run: lpos(args, keyspace, reply),
        name: "lpos", arity: -3, flags: READONLY, keys: ONE_KEY, group: "list", since: "6.0.6",
        summary: "Return the index of matching elements on a list",
        specs: "RO,access index 1 range 0 1 0",
        docs: "
            complexity O(N) where N is the number of elements in the list, for the average case. When searching for elements near the head or the tail of the list, or when the MAXLEN option is provided, the command may run in constant time.
            - key: key #0
            - element: string
            - rank: integer 'RANK' optional
            - num-matches: integer 'COUNT' optional
            - len: integer 'MAXLEN' optional
        ",
    }

    LMOVE = 105 {
        run: lmove(args, keyspace, reply),
        name: "lmove", arity: 5, flags: WRITE | DENYOOM, keys: TWO_KEYS, group: "list", since: "6.2.0",
        summary: "Pop an element from a list, push it to another list and return it",
        specs: "RW,access,delete index 1 range 0 1 0;RW,insert index 2 range 0 1 0",
        docs: "
            complexity O(1)
            - source: key #0
            - destination: key #1
            - wherefrom: oneof
            -- left: pure-token 'LEFT'
            -- right: pure-token 'RIGHT'
            - whereto: oneof
            -- left: pure-token 'LEFT'
            -- right: pure-token 'RIGHT'
        ",
    }

    RPOPLPUSH = 106 {
        run: rpoplpush(args, keyspace, reply),
        name: "rpoplpush", arity: 3, flags: WRITE | DENYOOM, keys: TWO_KEYS, group: "list", since: "1.2.0",
        summary: "Remove the last element in a list, prepend it to another list and return it",
        specs: "RW,access,delete index 1 range 0 1 0;RW,insert index 2 range 0 1 0",
        docs: "
            complexity O(1)
            doc_flags deprecated
            deprecated_since 6.2.0
            replaced_by `LMOVE` with the `RIGHT` and `LEFT` arguments
            - source: key #0
            - destination: key #1
        ",
    }

    LMPOP = 107 {
        run: lmpop(args, keyspace, reply),
        name: "lmpop", arity: -4, flags: WRITE | MOVABLEKEYS, keys: COUNTED, group: "list", since: "7.0.0",
        summary: "Pop elements from a list",
        specs: "RW,access,delete index 1 keynum 0 1 1",
        docs: "
            complexity O(N+M) where N is the number of provided keys and M is the number of elements returned.
            - numkeys: integer
            - key: key #0 multiple
            - where: oneof
            -- left: pure-token 'LEFT'
            -- right: pure-token 'RIGHT'
            - count: integer 'COUNT' optional
        ",
    }
}

/// `LEFT` or `RIGHT`.
pub fn end(word: &[u8]) -> Result<End, CommandError> {
    match word {
        _ if is(word, "left") => Ok(End::Left),
        _ if is(word, "right") => Ok(End::Right),
        _ => Err(CommandError::Syntax),
    }
}

/// `LPUSH key item ..` and its like: the new length. `only`: if there is such a list.
pub fn push<T: Transaction>(
    mut args: Args<'_>,
    (end, only): (End, bool),
    keyspace: &mut Keyspace<'_, T>,
    reply: &mut Reply<'_>,
) -> Done {
    let key = args.promised()?;
    let mut list = keyspace.open_list(key)?;
    if only && list.count() == 0 {
        reply.integer(0);
        return Ok(());
    }
    for item in args {
        keyspace.push_item(&mut list, end, item)?;
    }
    keyspace.save_list(key, &list)?;
    reply.integer(list.count() as i64);
    Ok(())
}

/// `LPOP key [count]` and `RPOP`.
pub fn pop<T: Transaction>(
    mut args: Args<'_>,
    end: End,
    keyspace: &mut Keyspace<'_, T>,
    reply: &mut Reply<'_>,
) -> Done {
    let (key, count, more) = (args.promised()?, args.next(), args.next());
    if more.is_some() {
        let name = if end == End::Left { "lpop" } else { "rpop" };
        return Err(CommandError::WrongArity(name).into());
    }
    let count = count.map(|word| unsigned(word, MUST_BE_POSITIVE)).transpose()?;
    let Some(mut list) = keyspace.list(key)? else {
        match count {
            Some(_) => reply.null_array(),
            None => reply.null(),
        }
        return Ok(());
    };
    match count {
        None => reply.bulk(&keyspace.pop_item(&mut list, end)?),
        Some(count) => pop_some(&mut list, end, count, keyspace, reply)?,
    }
    keyspace.save_list(key, &list)
}

/// Takes up to so many items away, and answers them as an array.
pub fn pop_some<T: Transaction>(
    list: &mut List,
    end: End,
    count: u64,
    keyspace: &mut Keyspace<'_, T>,
    reply: &mut Reply<'_>,
) -> Done {
    let count = count.min(list.count());
    reply.array(count as usize);
    for _ in 0..count {
        reply.bulk(&keyspace.pop_item(list, end)?);
        reply.check_length()?;
    }
    Ok(())
}

/// `LLEN key`
pub fn llen<T: Transaction>(
    mut args: Args<'_>,
    keyspace: &mut Keyspace<'_, T>,
    reply: &mut Reply<'_>,
) -> Done {
    let list = keyspace.list(args.promised()?)?;
    reply.integer(list.map_or(0, |list| list.count() as i64));
    Ok(())
}

/// `LRANGE key start stop`
pub fn lrange<T: Transaction>(
    mut args: Args<'_>,
    keyspace: &mut Keyspace<'_, T>,
    reply: &mut Reply<'_>,
) -> Done {
    let (key, start, stop) = (args.promised()?, integer(args.promised()?)?, integer(args.promised()?)?);
    let list = keyspace.list(key)?;
    let found = list.as_ref().and_then(|list| Some((list, range(start, stop, list.count())?)));
    let Some((list, (from, to))) = found else {
        reply.array(0);
        return Ok(());
    };
    let mut left = to - from + 1;
    reply.array(left as usize);
    keyspace.each_item(list, from, Direction::Forward, |item| {
        reply.bulk(item);
        left -= 1;
        if left > 0 && reply.check_length().is_ok() {
            ControlFlow::Continue(())
        } else {
            ControlFlow::Break(())
        }
    })?;
    reply.check_length()?;
    Ok(())
}

/// An index from either end, if there is such an item.
fn place(list: &List, index: i64) -> Option<u64> {
    let count = list.count() as i64;
    let at = if index < 0 { count.checked_add(index)? } else { index };
    (0..count).contains(&at).then_some(at as u64)
}

/// `LINDEX key index`
pub fn lindex<T: Transaction>(
    mut args: Args<'_>,
    keyspace: &mut Keyspace<'_, T>,
    reply: &mut Reply<'_>,
) -> Done {
    let (key, index) = (args.promised()?, args.promised()?);
    let Some(list) = keyspace.list(key)? else {
        reply.null();
        return Ok(());
    };
    match place(&list, integer(index)?) {
        Some(at) => reply.bulk(&keyspace.item(&list, at)?),
        None => reply.null(),
    }
    Ok(())
}

/// `LSET key index item`
pub fn lset<T: Transaction>(
    mut args: Args<'_>,
    keyspace: &mut Keyspace<'_, T>,
    reply: &mut Reply<'_>,
) -> Done {
    let (key, index, item) = (args.promised()?, args.promised()?, args.promised()?);
    let mut list = keyspace.list(key)?.ok_or(CommandError::NoSuchKey)?;
    let at = place(&list, integer(index)?).ok_or(CommandError::Text("ERR index out of range"))?;
    keyspace.set_item(&mut list, at, item)?;
    keyspace.save_list(key, &list)?;
    reply.ok();
    Ok(())
}

/// `LINSERT key BEFORE | AFTER pivot item`: the new length, -1 if there is no such pivot.
pub fn linsert<T: Transaction>(
    mut args: Args<'_>,
    keyspace: &mut Keyspace<'_, T>,
    reply: &mut Reply<'_>,
) -> Done {
    let (key, side, pivot, item) = (args.promised()?, args.promised()?, args.promised()?, args.promised()?);
    let after = match side {
        _ if is(side, "before") => 0,
        _ if is(side, "after") => 1,
        _ => return Err(CommandError::Syntax.into()),
    };
    let Some(mut list) = keyspace.list(key)? else {
        reply.integer(0);
        return Ok(());
    };
    let found = find(&list, pivot, 1, Direction::Forward, u64::MAX, keyspace)?;
    match found.first() {
        Some(at) => {
            keyspace.insert_item(&mut list, at + after, item)?;
            keyspace.save_list(key, &list)?;
            reply.integer(list.count() as i64);
        }
        None => reply.integer(-1),
    }
    Ok(())
}

/// Indexes of up to `most` such items, in the order of the search, which looks at up to `looks` of them.
fn find<T: Transaction>(
    list: &List,
    wanted: &[u8],
    most: u64,
    direction: Direction,
    looks: u64,
    keyspace: &mut Keyspace<'_, T>,
) -> Result<Vec<u64>, Failure> {
    let forward = direction == Direction::Forward;
    let (mut found, mut looked) = (Vec::new(), 0);
    let from = if forward { 0 } else { list.count() - 1 };
    keyspace.each_item(list, from, direction, |item| {
        if looked == looks || found.len() as u64 == most {
            return ControlFlow::Break(());
        }
        if item == wanted {
            found.push(if forward { looked } else { list.count() - 1 - looked });
        }
        looked += 1;
        ControlFlow::Continue(())
    })?;
    Ok(found)
}

/// `LREM key count item`: how many went; a negative count begins at the end.
pub fn lrem<T: Transaction>(
    mut args: Args<'_>,
    keyspace: &mut Keyspace<'_, T>,
    reply: &mut Reply<'_>,
) -> Done {
    let (key, count, item) = (args.promised()?, integer(args.promised()?)?, args.promised()?);
    let Some(mut list) = keyspace.list(key)? else {
        reply.integer(0);
        return Ok(());
    };
    let direction = if count < 0 { Direction::Backward } else { Direction::Forward };
    let most = if count == 0 { u64::MAX } else { count.unsigned_abs() };
    let mut found = find(&list, item, most, direction, u64::MAX, keyspace)?;
    found.sort_unstable();
    if !found.is_empty() {
        keyspace.delete_items(&mut list, &found)?;
        keyspace.save_list(key, &list)?;
    }
    reply.integer(found.len() as i64);
    Ok(())
}

/// `LTRIM key start stop`: nothing else stays.
pub fn ltrim<T: Transaction>(
    mut args: Args<'_>,
    keyspace: &mut Keyspace<'_, T>,
    reply: &mut Reply<'_>,
) -> Done {
    let (key, start, stop) = (args.promised()?, integer(args.promised()?)?, integer(args.promised()?)?);
    if let Some(mut list) = keyspace.list(key)? {
        match range(start, stop, list.count()) {
            None => drop(keyspace.remove(key)?),
            Some((from, to)) => {
                let behind = list.count() - 1 - to;
                keyspace.drop_items(&mut list, End::Right, behind)?;
                keyspace.drop_items(&mut list, End::Left, from)?;
                keyspace.save_list(key, &list)?;
            }
        }
    }
    reply.ok();
    Ok(())
}

/// The options of an `LPOS`.
struct Search {
    rank: i64,
    count: Option<u64>,
    looks: u64,
}

impl Search {
    fn parse(mut args: Args<'_>) -> Result<Search, CommandError> {
        let mut search = Search { rank: 1, count: None, looks: u64::MAX };
        while let Some(option) = args.next() {
            let Some(word) = args.next() else { return Err(CommandError::Syntax) };
            match option {
                _ if is(option, "rank") => {
                    search.rank = integer(word)?;
                    if search.rank == 0 {
                        return Err(CommandError::Text(
                            "ERR RANK can't be zero: use 1 to start from the first match, 2 from the second ... \
                             or use negative to start from the end of the list",
                        ));
                    }
                }
                _ if is(option, "count") => {
                    search.count = Some(unsigned(word, "ERR COUNT can't be negative")?);
                }
                _ if is(option, "maxlen") => {
                    let looks = unsigned(word, "ERR MAXLEN can't be negative")?;
                    search.looks = if looks == 0 { u64::MAX } else { looks };
                }
                _ => return Err(CommandError::Syntax),
            }
        }
        Ok(search)
    }
}

/// `LPOS key item [RANK rank] [COUNT count] [MAXLEN len]`
pub fn lpos<T: Transaction>(
    mut args: Args<'_>,
    keyspace: &mut Keyspace<'_, T>,
    reply: &mut Reply<'_>,
) -> Done {
    let (key, item) = (args.promised()?, args.promised()?);
    let Search { rank, count, looks } = Search::parse(args)?;
    // As in Redis: the number that has no positive counterpart skips none.
    let skipped = rank.checked_abs().map_or(0, |rank| rank as u64 - 1);
    let direction = if rank < 0 { Direction::Backward } else { Direction::Forward };
    let most = match count {
        None => skipped.saturating_add(1),
        Some(0) => u64::MAX,
        Some(count) => skipped.saturating_add(count),
    };
    let found = match keyspace.list(key)? {
        Some(list) => find(&list, item, most, direction, looks, keyspace)?,
        None => Vec::new(),
    };
    let told = found.get(usize::try_from(skipped).unwrap_or(usize::MAX)..).unwrap_or_default();
    match (count, told.first()) {
        (None, Some(at)) => reply.integer(*at as i64),
        (None, None) => reply.null(),
        (Some(_), _) => {
            reply.array(told.len());
            told.iter().for_each(|at| reply.integer(*at as i64));
        }
    }
    Ok(())
}

/// `LMOVE source destination LEFT | RIGHT LEFT | RIGHT`: the item that moved.
pub fn lmove<T: Transaction>(
    mut args: Args<'_>,
    keyspace: &mut Keyspace<'_, T>,
    reply: &mut Reply<'_>,
) -> Done {
    let (from, to) = (args.promised()?, args.promised()?);
    let (out, into) = (end(args.promised()?)?, end(args.promised()?)?);
    match moved((from, out), (to, into), keyspace)? {
        Some(item) => reply.bulk(&item),
        None => reply.null(),
    }
    Ok(())
}

/// `RPOPLPUSH source destination`
pub fn rpoplpush<T: Transaction>(
    mut args: Args<'_>,
    keyspace: &mut Keyspace<'_, T>,
    reply: &mut Reply<'_>,
) -> Done {
    let (from, to) = (args.promised()?, args.promised()?);
    match moved((from, End::Right), (to, End::Left), keyspace)? {
        Some(item) => reply.bulk(&item),
        None => reply.null(),
    }
    Ok(())
}

/// Takes an item from one list to another, if there is one.
pub fn moved<T: Transaction>(
    (from, out): (&[u8], End),
    (to, into): (&[u8], End),
    keyspace: &mut Keyspace<'_, T>,
) -> Result<Option<Vec<u8>>, Failure> {
    let Some(mut source) = keyspace.waited_list(from)? else { return Ok(None) };
    if from == to {
        let item = keyspace.pop_item(&mut source, out)?;
        keyspace.push_item(&mut source, into, &item)?;
        keyspace.save_list(from, &source)?;
        return Ok(Some(item));
    }
    let mut destination = keyspace.open_list(to)?;
    let item = keyspace.pop_item(&mut source, out)?;
    keyspace.push_item(&mut destination, into, &item)?;
    keyspace.save_list(to, &destination)?;
    keyspace.save_list(from, &source)?;
    Ok(Some(item))
}

/// `LMPOP numkeys key .. LEFT | RIGHT [COUNT count]`: of the first list that there is.
pub fn lmpop<T: Transaction>(
    mut args: Args<'_>,
    keyspace: &mut Keyspace<'_, T>,
    reply: &mut Reply<'_>,
) -> Done {
    let (keys, end, count) = popped_from(&mut args, end)?;
    for key in keys {
        if let Some(mut list) = keyspace.waited_list(key)? {
            reply.array(2);
            reply.bulk(key);
            pop_some(&mut list, end, count, keyspace, reply)?;
            return keyspace.save_list(key, &list);
        }
    }
    reply.null_array();
    Ok(())
}

/// What `LMPOP` and `ZMPOP` are told: `numkeys key .. where [COUNT count]`.
pub fn popped_from<'a, W>(
    args: &mut Args<'a>,
    place: fn(&[u8]) -> Result<W, CommandError>,
) -> Result<(Vec<&'a [u8]>, W, u64), CommandError> {
    let count = unsigned(args.promised()?, "ERR numkeys should be greater than 0")?;
    if count == 0 {
        return Err(CommandError::Text("ERR numkeys should be greater than 0"));
    }
    if count >= args.len() as u64 {
        return Err(CommandError::Syntax);
    }
    let keys = args.by_ref().take(count as usize).collect();
    let place = place(args.promised()?)?;
    let mut most = None;
    while let Some(option) = args.next() {
        if most.is_some() || !is(option, "count") || args.len() == 0 {
            return Err(CommandError::Syntax);
        }
        let count = unsigned(args.promised()?, "ERR count should be greater than 0")?;
        if count == 0 {
            return Err(CommandError::Text("ERR count should be greater than 0"));
        }
        most = Some(count);
    }
    Ok((keys, place, most.unwrap_or(1)))
}
