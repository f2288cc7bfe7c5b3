//! The table `bit`: operations on 32 bits, as LuaBitOp has them. Results are signed.

use std::rc::Rc;

use mlua::{Lua, MultiValue, Table};

use crate::raise::bad_argument;
use crate::run::Run;

pub fn table(lua: &Lua, run: &Rc<Run>) -> mlua::Result<Table> {
    let bit = lua.create_table()?;
    let one = |name: &'static str, apply: fn(i32) -> i32| {
        bit.raw_set(
            name,
            lua.create_function(move |lua, args: MultiValue| Ok(apply(argument(lua, &args, 0, name)?)))?,
        )
    };
    one("tobit", |bits| bits)?;
    one("bnot", |bits| !bits)?;
    one("bswap", i32::swap_bytes)?;
    let many = |name: &'static str, apply: fn(i32, i32) -> i32| {
        let of = run.clone();
        bit.raw_set(
            name,
            lua.create_function(move |lua, args: MultiValue| {
                of.budget.charge_numbers(&args)?;
                let first = argument(lua, &args, 0, name)?;
                (1..args.len()).try_fold(first, |bits, at| Ok(apply(bits, argument(lua, &args, at, name)?)))
            })?,
        )
    };
    many("band", |left, right| left & right)?;
    many("bor", |left, right| left | right)?;
    many("bxor", |left, right| left ^ right)?;
    let shift = |name: &'static str, apply: fn(i32, u32) -> i32| {
        bit.raw_set(
            name,
            lua.create_function(move |lua, args: MultiValue| {
                let (bits, by) = (argument(lua, &args, 0, name)?, argument(lua, &args, 1, name)?);
                Ok(apply(bits, by as u32 & 31))
            })?,
        )
    };
    shift("lshift", |bits, by| bits << by)?;
    shift("rshift", |bits, by| (bits as u32 >> by) as i32)?;
    shift("arshift", |bits, by| bits >> by)?;
    shift("rol", i32::rotate_left)?;
    shift("ror", i32::rotate_right)?;
    bit.raw_set(
        "tohex",
        lua.create_function(|lua, args: MultiValue| {
            let bits = argument(lua, &args, 0, "tohex")?;
            let digits = if args.len() > 1 { argument(lua, &args, 1, "tohex")? } else { 8 };
            let hex = format!("{bits:08x}");
            let hex = if digits < 0 { hex.to_ascii_uppercase() } else { hex };
            Ok(hex[8 - digits.unsigned_abs().min(8) as usize..].to_string())
        })?,
    )?;
    Ok(bit)
}

/// A number, rounded and cut to 32 bits.
fn argument(lua: &Lua, args: &MultiValue, at: usize, function: &str) -> mlua::Result<i32> {
    let value = args.get(at).cloned().map(|value| lua.coerce_number(value)).transpose()?.flatten();
    let Some(number) = value else { return Err(bad_argument(lua, at + 1, function, "number", args.get(at))) };
    // To the nearest integer by the addition that leaves no room for a fraction; the low bits then are the number's.
    let bits = (number + 6_755_399_441_055_744.0).to_bits();
    Ok(bits as u32 as i32)
}
