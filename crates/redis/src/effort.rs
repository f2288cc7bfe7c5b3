//! The cost of what a node answers by itself: of its commands, settings, clients and users.
//!
//! No engine bounds that, and nothing else happens on its worker meanwhile: no vote, no sign that it leads. So it is counted in *steps*, of a
//! few nanoseconds each, in three ways.
//!
//! - Steps are work of the connection's turn, like bytes ([`Allowance`](super::Allowance)): whoever asks for much has its next share later.
//! - All commands of a `MULTI` that are answered here have [`MOST_STEPS`] together. A block that takes more is refused.
//! - What a client can make long by its words alone is bounded for each command: names ([`MOST_NAMES`]), and patterns, their
//!   length and their steps ([`Steps::of_names`]).
//!
//! A reply that is long because there is much to tell (`CLIENT LIST` of many clients, `ACL LIST` of many users) is told all the same.

use std::cell::Cell;

use super::errors::CommandError;
use super::glob::{Steps, check_pattern_of_names};
use super::request::Args;

/// Steps of the commands of one `MULTI` that are answered here, exceeded by one command: some 40 ms.
pub const MOST_STEPS: u64 = 16 << 20;
/// Names or patterns of one command: several times as many as there are commands.
pub const MOST_NAMES: usize = 2048;

/// Steps of any command,
const COMMAND: u64 = 128;
/// of each of its words,
const WORD: u64 = 8;
/// of so many of its bytes one,
const BYTES_IN_A_STEP: usize = 8;
/// and of each byte that it tells beyond them: numbers are written, and texts put together.
const BYTE_TOLD: u64 = 2;

/// A look at a file of the system's.
pub const FILE: u64 = 20_000;
/// A sum over what all workers have counted of all commands.
pub const COUNTS: u64 = 40_000;
/// A lock that others may have, and a copy of what it guards; a word to another thread.
pub const LOOK: u64 = 1_000;

/// The steps that were spent since they were taken last.
#[derive(Default)]
pub struct Effort {
    spent: Cell<u64>,
    /// Steps of patterns that the present command has left.
    patterns: Steps,
}

/// Too many names, where each costs something.
///
/// # Errors
/// There are more than [`MOST_NAMES`].
pub fn few(names: Args<'_>) -> Result<(), CommandError> {
    const TOO_MANY: CommandError = CommandError::Text("ERR one call may have 2048 names");
    if names.len() > MOST_NAMES { Err(TOO_MANY) } else { Ok(()) }
}

impl Effort {
    /// So many more steps.
    pub fn spend(&self, steps: u64) {
        self.spent.set(self.spent.get().saturating_add(steps));
    }

    /// Gives the steps that were spent, and begins anew.
    pub fn take(&self) -> u64 {
        self.spent.take()
    }

    /// A command begins. How long its words are, in bytes.
    pub fn begin(&mut self, args: Args<'_>) -> usize {
        let bytes = args.map(<[u8]>::len).sum::<usize>();
        self.spend(COMMAND + WORD * args.len() as u64 + (bytes / BYTES_IN_A_STEP) as u64);
        self.patterns = Steps::of_names();
        bytes
    }

    /// It has told so many bytes, with words that are so long.
    pub fn told(&self, bytes: usize, words: usize) {
        self.spend(BYTE_TOLD * bytes.saturating_sub(words) as u64);
    }

    /// The commands of one request have had their steps.
    ///
    /// # Errors
    /// The words to its client.
    pub fn check(&self) -> Result<(), CommandError> {
        const TOO_MUCH: CommandError = CommandError::Text(
            "EXECABORT Transaction discarded because it takes too long what its node answers by itself",
        );
        if self.spent.get() > MOST_STEPS { Err(TOO_MUCH) } else { Ok(()) }
    }

    /// A pattern of names, in small letters.
    ///
    /// # Errors
    /// It is longer than any name.
    pub fn pattern(&self, pattern: &[u8]) -> Result<Vec<u8>, CommandError> {
        check_pattern_of_names(pattern)?;
        Ok(pattern.to_ascii_lowercase())
    }

    /// Whether a name fits a pattern; none does once the command has used its steps up.
    pub fn fits(&self, pattern: &[u8], name: &[u8]) -> bool {
        let before = self.patterns.left();
        let fits = self.patterns.fit(pattern, name);
        self.spend(before - self.patterns.left());
        fits
    }

    /// To be asked behind the last name.
    ///
    /// # Errors
    /// That too many steps were needed.
    pub fn check_patterns(&self) -> Result<(), CommandError> {
        self.patterns.check()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_has_so_many_steps_for_patterns_and_a_request_for_all() {
        let mut effort = Effort::default();
        effort.begin(Args::none());
        assert!(effort.pattern(&[b'*'; 1024]).is_ok() && effort.pattern(&[b'*'; 1025]).is_err());
        let stars = [&[b'*'; 1000][..], b"z"].concat();
        let mut names = 0;
        while effort.check_patterns().is_ok() {
            assert!(!effort.fits(&stars, b"name"));
            names += 1;
        }
        assert!((1_000..3_000).contains(&names), "{names}");
        assert!(!effort.fits(b"*", b"name") && effort.check().is_ok());
        // The next command has as many again, and all of them together are too much in the end.
        let mut commands = 1;
        while effort.check().is_ok() {
            effort.begin(Args::none());
            assert!(effort.fits(b"*", b"name"));
            assert!((0..names).all(|_| !effort.fits(&stars, b"name")));
            commands += 1;
        }
        assert!((5..20).contains(&commands), "{commands}");
        assert!(effort.take() > MOST_STEPS && effort.check().is_ok());
    }
}
