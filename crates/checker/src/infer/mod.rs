//! From values to dependencies: who wrote what was read, and what came next.
//!
//! What is taken for granted: a value goes to a key once, so a read names its writer; a list only grows, so a committed
//! read of it shows the order of all its appends so far; what a transaction of unknown outcome wrote happened if, and only
//! if, a committed read shows some of it.

mod access;
mod lists;
mod order;
mod registers;
mod tables;
mod within;

pub(crate) use access::{NO_TXN, UNPLACED};
pub(crate) use lists::Lists;
pub(crate) use order::{Order, broken};
pub(crate) use registers::Registers;
pub(crate) use tables::Tables;
