//! How a command ends when it does not end well: one line for people, one exit code for scripts.

use std::fmt;

/// The result of every step of a command.
pub type Result<T> = std::result::Result<T, Failure>;

/// What kind of failure, and so which exit code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The command ran and the answer is no: a check failed, a transaction was lost, something broke.
    Negative,
    /// The command line makes no sense.
    Usage,
    /// Nothing was started: a bad config, a port in use, a binary that does not run.
    CannotStart,
    /// The cluster cannot be reached or has no majority.
    Unavailable,
    /// What was to be judged cannot be read, or holds nothing.
    Unreadable,
}

impl Kind {
    /// The process's exit code.
    pub fn code(self) -> u8 {
        match self {
            Kind::Negative => 1,
            Kind::Usage => 2,
            Kind::CannotStart => 3,
            Kind::Unavailable => 4,
            Kind::Unreadable => 5,
        }
    }
}

/// For the end of every `--help`.
pub const EXIT_CODES: &str = "\
Exit codes:
  0  all went well, and every check held
  1  something failed, or the verdict is negative
  2  the command line makes no sense
  3  cannot start: bad config, port in use
  4  the cluster is unavailable, or its majority is lost
  5  the input cannot be read
  130  interrupted";

/// A failed command.
#[derive(Debug)]
pub struct Failure {
    /// Decides the exit code.
    pub kind: Kind,
    /// One line.
    pub message: String,
}

impl Failure {
    /// The answer is no, or something broke on the way to it.
    pub fn negative(message: impl fmt::Display) -> Failure {
        Failure { kind: Kind::Negative, message: message.to_string() }
    }

    /// The arguments contradict each other.
    pub fn usage(message: impl fmt::Display) -> Failure {
        Failure { kind: Kind::Usage, message: message.to_string() }
    }

    /// Nothing was started.
    pub fn cannot_start(message: impl fmt::Display) -> Failure {
        Failure { kind: Kind::CannotStart, message: message.to_string() }
    }

    /// Nobody answers, or no majority does.
    pub fn unavailable(message: impl fmt::Display) -> Failure {
        Failure { kind: Kind::Unavailable, message: message.to_string() }
    }

    /// There is nothing to judge.
    pub fn unreadable(message: impl fmt::Display) -> Failure {
        Failure { kind: Kind::Unreadable, message: message.to_string() }
    }

    /// Says where to look further.
    pub fn hint(mut self, hint: impl fmt::Display) -> Failure {
        self.message = format!("{} ({hint})", self.message);
        self
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // One line, whatever an operating system or a parser said.
        let mut words = self.message.split_whitespace();
        f.write_str(words.next().unwrap_or("failed"))?;
        words.try_for_each(|word| write!(f, " {word}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_is_one_line() {
        let failure = Failure::cannot_start("bad config:\n  line 3\n").hint("see --help");
        assert_eq!(failure.to_string(), "bad config: line 3 (see --help)");
    }

    #[test]
    fn every_code_is_documented() {
        let kinds = [Kind::Negative, Kind::Usage, Kind::CannotStart, Kind::Unavailable, Kind::Unreadable];
        for kind in kinds {
            assert!(EXIT_CODES.contains(&format!("\n  {}  ", kind.code())), "{kind:?}");
        }
    }
}
