//! Guests that push, and guests that wait for it: on two lists and a sorted set of each group.

use std::collections::BTreeSet;

use highwater_core::Random;

use crate::model::{End, Op};

/// A group is left for a fresh one after so many commands.
const COMMANDS: u32 = 60;

/// Draws what they type.
pub struct Queues {
    /// Of each slot: which group is in use, and how many commands it has had.
    slots: Vec<(u32, u32)>,
    values: u32,
    used: BTreeSet<String>,
}

impl Queues {
    /// So many groups at a time.
    pub fn new(keys: u8) -> Queues {
        Queues { slots: vec![(0, 0); keys.into()], values: 0, used: BTreeSet::new() }
    }

    fn value(&mut self) -> String {
        self.values += 1;
        format!("i{}", self.values)
    }

    /// A command of one that pushes, or of one that waits.
    pub fn draw(&mut self, pushes: bool, random: &mut Random) -> Op {
        let slot = random.below(self.slots.len() as u64) as usize;
        let (group, count) = &mut self.slots[slot];
        *count += 1;
        if *count > COMMANDS {
            (*group, *count) = (*group + 1, 1);
        }
        let group = format!("q{slot}.{group}");
        self.used.insert(group.clone());
        let [a, b, scores] = ["a", "b", "scores"].map(|key| format!("{group}:{key}"));
        let (list, value) = (random.pick(&[0, 0, 1]), self.value());
        let list = [&a, &b][list].clone();
        let end = random.pick(&[End::Left, End::Right]);
        if pushes {
            return match random.below(8) {
                0 => Op::Range(list),
                1 | 2 => Op::ZAdd(scores, random.below(4) as u32, value),
                _ => Op::Push(list, end, value),
            };
        }
        // In ms; 0 is for ever.
        let timeout = random.pick(&[0, 10, 50, 300]);
        match random.below(8) {
            0 => Op::Move(
                list.clone(),
                if list == a { b } else { a },
                end,
                random.pick(&[End::Left, End::Right]),
                timeout,
            ),
            1 => Op::Pop(vec![b, a], end, timeout),
            2 | 3 => Op::ZPop(scores, timeout),
            _ => Op::Pop(vec![list], end, timeout),
        }
    }

    /// What to do that somebody gets something who waits so.
    pub fn give(&mut self, op: &Op) -> Vec<Op> {
        let (keys, _) = op.waits().expect("it waits");
        let gift = |key: String| match op {
            Op::ZPop(..) => Op::ZAdd(key, 1, self.value()),
            _ => Op::Push(key, End::Right, self.value()),
        };
        keys.into_iter().map(gift).collect()
    }

    /// Looks at every key that was ever used.
    pub fn looks(&self) -> impl Iterator<Item = Op> + '_ {
        self.used.iter().flat_map(|group| {
            [
                Op::Range(format!("{group}:a")),
                Op::Range(format!("{group}:b")),
                Op::ZRange(format!("{group}:scores")),
            ]
        })
    }
}
