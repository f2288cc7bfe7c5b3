//! Guests that change what a user may, in pipelines with writes, and guests that write as that user: see [`rules`](crate::rules).

use highwater_core::Random;

use super::Typed;
use crate::rules::{ALLOWED, NAME};

/// So many writes are typed at once, at most.
const MOST_WRITES: u64 = 4;

fn typed(words: &[&str]) -> Typed {
    Typed { words: words.iter().map(ToString::to_string).collect(), op: None, waits: 0 }
}

/// Whoever rules a user.
pub struct Ruler {
    user: u8,
}

impl Ruler {
    /// The ruler of the user with this number.
    pub fn new(user: u8) -> Ruler {
        Ruler { user }
    }

    /// Writes of its own, a change, and writes again; or two changes.
    pub(super) fn next(&self, random: &mut Random) -> Vec<Typed> {
        let mut all = self.writes(random);
        all.push(self.change(random));
        all.extend(self.writes(random));
        if random.one_in(4) {
            all.push(self.change(random));
        }
        all
    }

    fn writes(&self, random: &mut Random) -> Vec<Typed> {
        let key = format!("ruler:{}", self.user);
        (0..random.below(3)).map(|_| typed(&["SET", &key, "v"])).collect()
    }

    fn change(&self, random: &mut Random) -> Typed {
        let name = format!("{NAME}{}", self.user);
        match random.below(6) {
            0 => typed(&["ACL", "DELUSER", &name]),
            1 => typed(&["ACL", "SETUSER", &name, "-set"]),
            2 => typed(&["ACL", "SETUSER", &name, "resetkeys"]),
            _ => typed(&["ACL", "SETUSER", &name, "on", "nopass", "~*", ALLOWED]),
        }
    }
}

/// A client that says who it is, and writes.
pub struct Ruled {
    user: u8,
    let_in: bool,
    values: u64,
}

impl Ruled {
    /// The user with this number.
    pub fn new(user: u8) -> Ruled {
        Ruled { user, let_in: false, values: 0 }
    }

    /// Nothing before it is let in: whoever is not is another user, who may.
    pub(super) fn next(&mut self, random: &mut Random) -> Vec<Typed> {
        let name = format!("{NAME}{}", self.user);
        if !self.let_in {
            return vec![typed(&["AUTH", &name, "any"])];
        }
        let mut write = || {
            self.values += 1;
            let key = format!("acl:{name}:{}", self.values % 8);
            typed(&["SET", &key, &self.values.to_string()])
        };
        (0..random.between(1, MOST_WRITES)).map(|_| write()).collect()
    }

    /// The last reply came, or none will.
    pub(super) fn heard(&mut self, answered: bool) {
        self.let_in |= answered;
    }

    /// Its connection is another one from here on.
    pub(super) fn leave(&mut self) {
        self.let_in = false;
    }
}
