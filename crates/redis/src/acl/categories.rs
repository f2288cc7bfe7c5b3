//! Categories of commands, as Redis 7.0 derives them from flags and groups; an entry says where it is otherwise.

use super::ids::Named;
pub use crate::command::category::NAMES;
use crate::command::{Spec, category, flags};

/// A set of categories.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Categories(u32);

impl Categories {
    /// One, by its name in letters of any size.
    pub fn find(name: &[u8]) -> Option<Categories> {
        let at = NAMES.iter().position(|known| known.as_bytes().eq_ignore_ascii_case(name))?;
        Some(Categories(1 << at))
    }

    /// Those of a command or subcommand.
    pub fn of(named: &Named) -> Categories {
        let of_command = || named.spec.categories.unwrap_or_else(|| by_group(named.spec));
        let mut found = named.sub.and_then(|sub| sub.categories).unwrap_or_else(of_command);
        if found & category::FAST == 0 {
            found |= category::SLOW;
        }
        if found & category::ADMIN != 0 {
            found |= category::DANGEROUS;
        }
        Categories(found)
    }

    /// Whether it has some of those.
    pub fn meets(self, others: Categories) -> bool {
        self.0 & others.0 != 0
    }

    /// The names of those in it.
    pub fn names(self) -> impl Iterator<Item = &'static str> + Clone {
        NAMES.iter().enumerate().filter(move |(at, _)| self.0 >> at & 1 == 1).map(|(_, name)| *name)
    }
}

/// The categories that follow from its group and its flags.
fn by_group(spec: &Spec) -> u32 {
    let group = match spec.group {
        "generic" => category::KEYSPACE,
        "sorted-set" => category::SORTEDSET,
        "transactions" => category::TRANSACTION,
        "cluster" => category::CONNECTION,
        "tables" => category::TABLE,
        group => Categories::find(group.as_bytes()).map_or(0, |found| found.0),
    };
    // A script is neither read nor write: what it calls is.
    let of_data = if spec.group == "scripting" { 0 } else { !0 };
    [
        (flags::WRITE, category::WRITE & of_data),
        (flags::READONLY, category::READ & of_data),
        (flags::ADMIN, category::ADMIN),
        (flags::FAST, category::FAST),
        (flags::BLOCKING, category::BLOCKING),
    ]
    .into_iter()
    .filter(|(flag, _)| spec.has(*flag))
    .fold(group, |all, (_, one)| all | one)
}
