//! Guests that set keys with deadlines, move and forget these, and look, on few keys.

use std::collections::BTreeSet;

use highwater_core::Random;

use crate::model::{End, Op};

/// A key is left for a fresh one after so many commands.
const COMMANDS: u32 = 30;

/// Draws what they type.
pub struct Expiring {
    /// Of each slot: which key is in use, and how many commands it has had.
    slots: Vec<(u32, u32)>,
    values: u32,
    used: BTreeSet<(usize, u32)>,
}

impl Expiring {
    /// So many keys at a time.
    pub fn new(keys: u8) -> Expiring {
        Expiring { slots: vec![(0, 0); keys.into()], values: 0, used: BTreeSet::new() }
    }

    /// A command.
    pub fn draw(&mut self, random: &mut Random) -> Op {
        let slot = random.below(self.slots.len() as u64) as usize;
        let (key, count) = &mut self.slots[slot];
        *count += 1;
        if *count > COMMANDS {
            (*key, *count) = (*key + 1, 1);
        }
        let key = *key;
        self.used.insert((slot, key));
        self.values += 1;
        let value = format!("v{}", self.values);
        // Some much shorter than a failover, some longer.
        let ms = random.pick(&[1, 3, 10, 30, 100, 1000]);
        // A group has a string and a list.
        if random.one_in(3) {
            let key = name(slot, key, "list");
            return match random.below(6) {
                0 | 1 => Op::Push(key, random.pick(&[End::Left, End::Right]), value),
                2 => Op::Expire(key, ms),
                3 => Op::Pttl(key),
                4 => Op::Persist(key),
                _ => Op::Range(key),
            };
        }
        let key = name(slot, key, "text");
        match random.below(12) {
            0..=2 => Op::Set(key, value, Some(ms)),
            3 => Op::Set(key, value, None),
            4 => Op::Append(key, "+".into()),
            5 | 6 => Op::Expire(key, ms),
            7 => Op::Persist(key),
            8 => Op::Pttl(key),
            _ => Op::Get(key),
        }
    }

    /// Looks at every key that was ever used.
    pub fn looks(&self) -> impl Iterator<Item = Op> + '_ {
        let looks = |(slot, key): &(usize, u32)| {
            [Op::Get(name(*slot, *key, "text")), Op::Range(name(*slot, *key, "list"))]
        };
        self.used.iter().flat_map(looks)
    }
}

fn name(slot: usize, key: u32, what: &str) -> String {
    format!("e{slot}.{key}:{what}")
}
