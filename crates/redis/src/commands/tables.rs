//! HW.TABLE HW.GET HW.PUT HW.DEL HW.RANGE. How tables stand in rows: [`tables`](crate::tables).

use std::ops::{Bound, ControlFlow};

use highwater_core::codec::Reader;
use highwater_core::{Direction, Transaction};

use super::words::{is, unsigned};
use super::{Failure, help};
use crate::command::entry::commands;
use crate::errors::CommandError;
use crate::keyspace::rows::table_garbage_row;
use crate::keyspace::{DUE, Keyspace, Stop, check_value};
use crate::reply::Reply;
use crate::request::Args;
use crate::tables::key::{End, Type, cut};
use crate::tables::{MAX_COLUMNS, MAX_NAME_BYTES, TABLES, Table};

commands! {
    data(args, keyspace, reply);

    HW_TABLE = 193 {
        run: table(args, keyspace, reply),
        name: "hw.table", arity: -2, flags: WRITE | DENYOOM, keys: TABLE, group: "tables", since: "0.1.0",
        summary: "Create, drop, list and describe tables of typed keys",
        categories: Some(0),
        subcommands: subcommands! { "hw.table":
            "create" -4 {
                categories: category::WRITE | category::TABLE,
                docs: "
                    summary Create a table whose keys have columns of these types
                    since 0.1.0
                    complexity O(1)
                    - name: string
                    - type: oneof multiple
                    -- u64: pure-token 'U64'
                    -- i64: pure-token 'I64'
                    -- string: pure-token 'STRING'
                    -- bytes: pure-token 'BYTES'
                ",
            }
            "drop" 3 {
                categories: category::WRITE | category::DANGEROUS | category::TABLE,
                docs: "
                    summary Drop a table; its rows go in the background
                    since 0.1.0
                    complexity O(1)
                    - name: string
                ",
            }
            "list" 2 {
                categories: category::READ | category::TABLE,
                docs: "
                    summary List the tables
                    since 0.1.0
                    complexity O(N) where N is the number of tables
                ",
            }
            "describe" 3 {
                categories: category::READ | category::TABLE,
                docs: "
                    summary Tell a table's number and the types of its keys' columns
                    since 0.1.0
                    complexity O(1)
                    - name: string
                ",
            }
            our_help "0.1.0" { categories: category::TABLE }
        },
    }

    HW_GET = 194 {
        run: get(args, keyspace, reply),
        name: "hw.get", arity: -3, flags: READONLY | FAST, keys: TABLE, group: "tables", since: "0.1.0",
        summary: "Get the value of a table's row",
        docs: "
            complexity O(log(N)) where N is the number of rows
            - table: string
            - column: string multiple
        ",
    }

    HW_PUT = 195 {
        run: put(args, keyspace, reply),
        name: "hw.put", arity: -4, flags: WRITE | DENYOOM | FAST, keys: TABLE, group: "tables",
        since: "0.1.0",
        summary: "Set a table's row",
        docs: "
            complexity O(log(N)) where N is the number of rows
            - table: string
            - column: string multiple
            - value: string
        ",
    }

    HW_DEL = 196 {
        run: del(args, keyspace, reply),
        name: "hw.del", arity: -3, flags: WRITE | FAST, keys: TABLE, group: "tables", since: "0.1.0",
        summary: "Delete a table's row",
        docs: "
            complexity O(log(N)) where N is the number of rows
            - table: string
            - column: string multiple
        ",
    }

    HW_RANGE = 197 {
        run: range(args, keyspace, reply),
        name: "hw.range", arity: -4, flags: READONLY, keys: TABLE, group: "tables", since: "0.1.0",
        summary: "Get a table's rows between two keys, in their order",
        docs: "
            complexity O(log(N)+M) where N is the number of rows and M the number of rows returned
            - table: string
            - from: string multiple
            - to: string multiple
            - count: integer 'LIMIT' optional
            - rev: pure-token 'REV' optional
        ",
    }
}

/// `HW.TABLE CREATE name type.. | DROP name | LIST | DESCRIBE name`
pub fn table<T: Transaction>(
    mut args: Args<'_>,
    keyspace: &mut Keyspace<'_, T>,
    reply: &mut Reply<'_>,
) -> Result<(), Failure> {
    let subcommand = args.promised()?;
    match () {
        () if is(subcommand, "create") => create(args, keyspace, reply),
        () if is(subcommand, "drop") => {
            let name = args.promised()?;
            let Some(table) = Table::find(keyspace.transaction(), name)? else {
                reply.integer(0);
                return Ok(());
            };
            table.forget(keyspace.transaction(), name)?;
            keyspace.transaction().put(DUE, &table_garbage_row(table.id), &[])?;
            reply.integer(1);
            Ok(())
        }
        () if is(subcommand, "list") => {
            let (rules, mut names) = (keyspace.rules()?, Vec::new());
            Table::all(keyspace.transaction(), |name, _| {
                if rules.as_ref().is_none_or(|user| user.may_read_table(name)) {
                    names.push(name.to_vec());
                }
            })?;
            reply.array(names.len());
            names.iter().for_each(|name| reply.bulk(name));
            Ok(())
        }
        () if is(subcommand, "describe") => {
            let (table, _) = find(&mut args, keyspace)?;
            reply.map(2);
            reply.bulk(b"id");
            reply.integer(table.id as i64);
            reply.bulk(b"key");
            reply.array(table.types.len());
            table.types.iter().for_each(|of| reply.bulk(of.name().as_bytes()));
            Ok(())
        }
        () => {
            let usages = ["CREATE <name> <type> [<type> ...]", "DROP <name>", "LIST", "DESCRIBE <name>"];
            help::help("HW.TABLE", &usages, reply);
            Ok(())
        }
    }
}

fn create<T: Transaction>(
    mut args: Args<'_>,
    keyspace: &mut Keyspace<'_, T>,
    reply: &mut Reply<'_>,
) -> Result<(), Failure> {
    let name = args.promised()?;
    if name.is_empty() || name.len() > MAX_NAME_BYTES {
        return Err(CommandError::TableName.into());
    }
    let types: Vec<_> = args.by_ref().take(MAX_COLUMNS + 1).map(Type::find).collect();
    let types: Option<Vec<_>> = types.into_iter().collect();
    let types = types.filter(|types| (1..=MAX_COLUMNS).contains(&types.len()));
    let types = types.ok_or(CommandError::TableTypes)?;
    match Table::create(keyspace.transaction(), name, types)? {
        Some(_) => reply.ok(),
        None => return Err(CommandError::TableExists.into()),
    }
    Ok(())
}

/// The table that the next word names, and that name.
fn find<'a, T: Transaction>(
    args: &mut Args<'a>,
    keyspace: &mut Keyspace<'_, T>,
) -> Result<(Table, &'a [u8]), Failure> {
    let name = args.promised()?;
    let table = Table::find(keyspace.transaction(), name)?;
    table.map(|table| (table, name)).ok_or_else(|| CommandError::no_table(name).into())
}

/// `HW.GET table key..`
pub fn get<T: Transaction>(
    mut args: Args<'_>,
    keyspace: &mut Keyspace<'_, T>,
    reply: &mut Reply<'_>,
) -> Result<(), Failure> {
    let (table, _) = find(&mut args, keyspace)?;
    match keyspace.transaction().get(TABLES, &table.row(args)?)? {
        Some(value) => reply.bulk(value),
        None => reply.null(),
    }
    Ok(())
}

/// `HW.PUT table key.. value`: 1 if there was no such row.
pub fn put<T: Transaction>(
    mut args: Args<'_>,
    keyspace: &mut Keyspace<'_, T>,
    reply: &mut Reply<'_>,
) -> Result<(), Failure> {
    let (table, _) = find(&mut args, keyspace)?;
    let columns = table.types.len();
    if args.len() != columns + 1 {
        return Err(CommandError::KeyColumns(columns).into());
    }
    let words: Vec<_> = args.by_ref().take(columns).collect();
    let row = table.row(words.into_iter())?;
    let value = args.promised()?;
    check_value(value.len())?;
    let tx = keyspace.transaction();
    let inserted = tx.insert(TABLES, &row, value)?;
    if !inserted {
        tx.put(TABLES, &row, value)?;
    }
    reply.integer(inserted.into());
    Ok(())
}

/// `HW.DEL table key..`: 1 if there was such a row.
pub fn del<T: Transaction>(
    mut args: Args<'_>,
    keyspace: &mut Keyspace<'_, T>,
    reply: &mut Reply<'_>,
) -> Result<(), Failure> {
    let (table, _) = find(&mut args, keyspace)?;
    let deleted = keyspace.transaction().delete(TABLES, &table.row(args)?)?;
    reply.integer(deleted.into());
    Ok(())
}

/// `HW.RANGE table from.. to.. [LIMIT n] [REV]`: rows in the order of their keys, each an array of its key's columns and its value.
pub fn range<T: Transaction>(
    mut args: Args<'_>,
    keyspace: &mut Keyspace<'_, T>,
    reply: &mut Reply<'_>,
) -> Result<(), Failure> {
    let (table, _) = find(&mut args, keyspace)?;
    let columns = table.types.len();
    if args.len() < 2 * columns {
        return Err(CommandError::KeyColumns(columns).into());
    }
    let from: Vec<_> = args.by_ref().take(columns).collect();
    let to: Vec<_> = args.by_ref().take(columns).collect();
    let from = cut(&table.types, table.front(), from, End::From)?;
    let to = cut(&table.types, table.front(), to, End::To)?;
    let (mut limit, mut direction) = (u64::MAX, Direction::Forward);
    while let Some(option) = args.next() {
        if is(option, "limit") {
            limit = unsigned(args.promised()?, "ERR LIMIT is not an integer or out of range")?;
        } else if is(option, "rev") {
            direction = Direction::Backward;
        } else {
            return Err(CommandError::Syntax.into());
        }
    }
    let mut rows = Vec::new();
    let mut count = 0;
    let mut stop = None;
    if from < to && limit > 0 {
        let skip = table.front().len();
        let mut out = Reply::new(&mut rows, reply.protocol);
        let range = (Bound::Included(&from[..]), Bound::Excluded(&to[..]));
        keyspace.transaction().scan(TABLES, range, direction, |key, value| {
            out.array(columns + 1);
            let mut reader = Reader::new(&key[skip..]);
            let written = table.types.iter().try_for_each(|of| of.reply(&mut reader, &mut out));
            written.expect("rows are written here alone");
            out.bulk(value);
            count += 1;
            stop = out.check_length().err();
            if stop.is_some() || count as u64 >= limit {
                ControlFlow::Break(())
            } else {
                ControlFlow::Continue(())
            }
        })?;
    }
    if let Some(abort) = stop {
        return Err(Failure::Stop(Stop::Abort(abort)));
    }
    reply.array(count);
    reply.out.extend_from_slice(&rows);
    Ok(())
}
