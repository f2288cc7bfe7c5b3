//! Numbers of commands and of their subcommands, for sets of them.

use crate::command::{Opcode, Spec, Subcommand};

/// There are fewer.
pub const MOST: usize = 512;

/// A command, or a subcommand of one.
#[derive(Clone, Copy, Debug)]
pub struct Named {
    /// Its number.
    pub id: usize,
    /// The command.
    pub spec: &'static Spec,
    /// Which of its subcommands.
    pub sub: Option<&'static Subcommand>,
}

impl Named {
    /// What is run by this command with that first argument.
    #[inline]
    pub fn of(opcode: Opcode, first: Option<&[u8]>) -> Named {
        let spec = opcode.spec();
        match first {
            Some(word) if !spec.subcommands.is_empty() => Named::of_family(opcode, word),
            _ => Named { id: usize::from(spec.id), spec, sub: None },
        }
    }

    fn of_family(opcode: Opcode, word: &[u8]) -> Named {
        let spec = opcode.spec();
        let sub = spec.subcommand(word);
        let behind = sub.map_or(0, |sub| {
            1 + spec.subcommands.iter().position(|known| std::ptr::eq(known, sub)).unwrap_or_default()
        });
        Named { id: usize::from(spec.id) + behind, spec, sub }
    }

    /// As errors and rules name it.
    pub fn full_name(&self) -> &'static str {
        self.sub.map_or(self.spec.name, |sub| sub.full_name)
    }

    /// A command and its subcommands.
    pub fn family(opcode: Opcode) -> std::ops::Range<usize> {
        let first = usize::from(opcode.spec().id);
        first..first + 1 + opcode.spec().subcommands.len()
    }
}

/// All commands, each before its subcommands.
pub fn all() -> impl Iterator<Item = Named> {
    Opcode::all().map(Opcode::spec).flat_map(|spec| {
        let first = usize::from(spec.id);
        let subs = spec.subcommands.iter().enumerate();
        let subs = subs.map(move |(place, sub)| Named { id: first + 1 + place, spec, sub: Some(sub) });
        std::iter::once(Named { id: first, spec, sub: None }).chain(subs)
    })
}

/// A set of commands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Commands([u64; MOST / 64]);

impl Commands {
    /// All, those of later builds among them.
    pub const ALL: Commands = Commands([u64::MAX; MOST / 64]);
    pub const NONE: Commands = Commands([0; MOST / 64]);

    /// Whether this one is in it.
    #[inline]
    pub fn has(&self, id: usize) -> bool {
        self.0[id / 64] >> (id % 64) & 1 == 1
    }

    /// Puts it in, or takes it out.
    pub fn set(&mut self, id: usize, yes: bool) {
        let bit = 1 << (id % 64);
        if yes {
            self.0[id / 64] |= bit;
        } else {
            self.0[id / 64] &= !bit;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_in_order_and_found_by_name() {
        assert!(all().count() < MOST);
        for (at, named) in all().enumerate() {
            assert_eq!(named.id, at, "{}", named.full_name());
            let opcode = Opcode::find(named.spec.name.as_bytes()).unwrap();
            let word = named.sub.map(|sub| sub.name.to_ascii_uppercase());
            assert_eq!(Named::of(opcode, word.as_ref().map(String::as_bytes)).id, at);
        }
    }

    #[test]
    fn a_set_holds_what_is_put_in() {
        let mut set = Commands::NONE;
        for id in [0, 63, 64, MOST - 1] {
            set.set(id, true);
            assert!(set.has(id));
            set.set(id, false);
        }
        assert_eq!(set, Commands::NONE);
    }
}
