//! `HW.CALL template.visit page`: counts a visit, and answers how many there were.

#![no_std]

extern crate alloc;

use highwater_guest::{Arguments, procedure, reply, strings};

procedure!(visit, |args: Arguments| {
    let key = [b"visits:", &args.bytes(0)?[..]].concat();
    let visits = strings::number(&key)?.unwrap_or(0) + 1;
    strings::set_number(&key, visits);
    reply::integer(visits);
    Ok(())
});
