//! Patterns of `KEYS` and `MATCH`: `*`, `?`, `[a-z]`, `[^..]`, and `\` in front of what is meant as it stands.

use std::cell::Cell;

use super::errors::CommandError;

/// Steps of the patterns of one command on data: some tenths of a second. One match may take as many as the pattern is long, times the text.
const MOST_STEPS: u64 = 100_000_000;
/// The same where names are looked through that the node itself has, of commands, settings and libraries: there are some hundreds, and they are short.
const MOST_STEPS_OF_NAMES: u64 = 2_000_000;
/// The longest pattern of such names, in bytes.
const MOST_BYTES_OF_NAMES: usize = 1 << 10;
const TOO_COMPLEX: CommandError =
    CommandError::Text("ERR the pattern is too complex for names that are so long");

/// Checks a pattern of names that the node itself has.
///
/// # Errors
/// It is longer than it can be of use.
pub fn check_pattern_of_names(pattern: &[u8]) -> Result<(), CommandError> {
    const TOO_LONG: CommandError = CommandError::Text("ERR a pattern of such names has 1024 bytes at most");
    if pattern.len() > MOST_BYTES_OF_NAMES { Err(TOO_LONG) } else { Ok(()) }
}

/// Steps that patterns may take together: for one command, or one event.
pub struct Steps(Cell<u64>);

#[cfg(any(test, feature = "testing"))]
thread_local! {
    /// Steps that this thread has taken, for tests.
    pub static TAKEN: Cell<u64> = const { Cell::new(0) };
}

impl Default for Steps {
    fn default() -> Steps {
        Steps::of(MOST_STEPS)
    }
}

impl Steps {
    /// So many.
    pub fn of(most: u64) -> Steps {
        Steps(Cell::new(most))
    }

    /// For patterns of names that the node itself has.
    pub fn of_names() -> Steps {
        Steps::of(MOST_STEPS_OF_NAMES)
    }

    /// How many are left.
    pub fn left(&self) -> u64 {
        self.0.get()
    }

    /// Whether all of `text` fits the pattern, byte for byte; nothing does once the steps are used up: ask whether they are. As in Redis, a
    /// pattern that is torn off in a class ends there.
    pub fn fit(&self, pattern: &[u8], text: &[u8]) -> bool {
        let mut left = self.0.get();
        let fits = matches_within(pattern, text, &mut left);
        #[cfg(any(test, feature = "testing"))]
        TAKEN.set(TAKEN.get() + self.0.get() - left);
        self.0.set(left);
        fits
    }

    /// To be asked behind the last text.
    ///
    /// # Errors
    /// That too many steps were needed.
    pub fn check(&self) -> Result<(), CommandError> {
        if self.0.get() == 0 { Err(TOO_COMPLEX) } else { Ok(()) }
    }
}

/// A pattern that many texts are held against, for as long as it has steps left.
pub struct Pattern<'a> {
    pattern: &'a [u8],
    steps: Steps,
}

impl<'a> Pattern<'a> {
    /// One with all its steps.
    pub fn new(pattern: &'a [u8]) -> Pattern<'a> {
        Pattern { pattern, steps: Steps::default() }
    }

    /// One of names that the node itself has.
    ///
    /// # Errors
    /// It is longer than it can be of use.
    pub fn of_names(pattern: &'a [u8]) -> Result<Pattern<'a>, CommandError> {
        check_pattern_of_names(pattern)?;
        Ok(Pattern { pattern, steps: Steps::of_names() })
    }

    /// Whether a text fits; none does once the steps are used up.
    pub fn matches(&self, text: &[u8]) -> bool {
        self.steps.fit(self.pattern, text)
    }

    /// To be asked behind the last text.
    ///
    /// # Errors
    /// That it took too many steps.
    pub fn check(&self) -> Result<(), CommandError> {
        self.steps.check()
    }
}

/// Whether all of `text` fits one pattern; what takes too many steps does not.
pub fn matches(pattern: &[u8], text: &[u8]) -> bool {
    Steps::default().fit(pattern, text)
}

/// The same in so many steps; without any left nothing fits.
fn matches_within(pattern: &[u8], text: &[u8], left: &mut u64) -> bool {
    // Where to go on if what follows the last star does not fit: one byte further on.
    let (mut at, mut read) = (0, 0);
    let mut star: Option<(usize, usize)> = None;
    loop {
        if read == text.len() && at >= pattern.len() {
            return true;
        }
        // Each turn is counted, whatever it does.
        *left = left.saturating_sub(1);
        if *left == 0 {
            return false;
        }
        if at < pattern.len() && pattern[at] == b'*' {
            at += 1;
            star = Some((at, read));
            continue;
        }
        if read < text.len()
            && at < pattern.len()
            && let Some(next) = one(pattern, at, text[read], left)
        {
            at = next;
            read += 1;
            continue;
        }
        match star {
            Some((after, from)) if from < text.len() => {
                star = Some((after, from + 1));
                (at, read) = (after, from + 1);
            }
            _ => return false,
        }
    }
}

/// The place where the pattern goes on if its next part fits this byte.
fn one(pattern: &[u8], at: usize, byte: u8, left: &mut u64) -> Option<usize> {
    match pattern[at] {
        b'?' => Some(at + 1),
        b'[' => class(pattern, at + 1, byte, left),
        b'\\' if at + 1 < pattern.len() => (pattern[at + 1] == byte).then_some(at + 2),
        literal => (literal == byte).then_some(at + 1),
    }
}

/// The same of a class, whose every byte is a step: it counts what it reads itself, so that nothing is read and not counted.
fn class(pattern: &[u8], mut at: usize, byte: u8, left: &mut u64) -> Option<usize> {
    let start = at;
    let not = pattern.get(at) == Some(&b'^');
    at += usize::from(not);
    let mut fits = false;
    loop {
        match pattern.get(at..).unwrap_or_default() {
            [] => break,
            [b'\\', escaped, ..] => {
                fits |= *escaped == byte;
                at += 2;
            }
            [b']', ..] => {
                at += 1;
                break;
            }
            [from, b'-', to, ..] => {
                let (low, high) = (*from.min(to), *from.max(to));
                fits |= (low..=high).contains(&byte);
                at += 3;
            }
            [literal, ..] => {
                fits |= *literal == byte;
                at += 1;
            }
        }
    }
    *left = left.saturating_sub((at - start) as u64);
    (fits != not).then_some(at)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Once: `KEYS` and `SCAN .. MATCH` of a long pattern over long names held a worker for minutes.
    #[test]
    fn a_pattern_has_so_many_steps() {
        let pattern = [b"*", &b"a".repeat(30_000)[..], b"b"].concat();
        let pattern = Pattern::new(&pattern);
        assert!(pattern.check().is_ok() && pattern.matches(&[&b"a".repeat(30_000)[..], b"b"].concat()));
        let mut texts = 0;
        while pattern.check().is_ok() {
            assert!(!pattern.matches(&b"a".repeat(60_000)));
            texts += 1;
        }
        assert_eq!(texts, 1);
        assert!(!pattern.matches(&[&b"a".repeat(30_000)[..], b"b"].concat()));
        // Also one of stars, which fit anything.
        let stars = [&b"*".repeat(1 << 20)[..], b"z"].concat();
        let stars = Pattern::new(&stars);
        assert!((0..200).all(|_| !stars.matches(b"a")) && stars.check().is_err());
        // Also one whose brackets are escaped, which end nothing.
        for inside in [&b"x"[..], b"\\]"] {
            let classes = [&b"*["[..], &inside.repeat(10_000), b"]b"].concat();
            let classes = Pattern::new(&classes);
            assert!(!classes.matches(&b"a".repeat(20_000)) && classes.check().is_err());
        }
    }

    #[test]
    fn patterns() {
        for (pattern, text, fits) in [
            ("*", "", true),
            ("", "", true),
            ("", "a", false),
            ("h?llo", "hello", true),
            ("h*llo", "heeeello", true),
            ("h[ae]llo", "hillo", false),
            ("h[^e]llo", "hallo", true),
            ("h[a-c]llo", "hbllo", true),
            ("h[c-a]llo", "hbllo", true),
            ("a\\*b", "a*b", true),
            ("a\\*b", "axb", false),
            ("*a*b*c", "xxaxxbxxc", true),
            ("*a*b*c", "xxaxxbxx", false),
            ("[a", "a", true),
            ("[]", "]", false),
            ("a*", "b", false),
            ("?", "", false),
            ("[\\]]", "]", true),
        ] {
            assert_eq!(matches(pattern.as_bytes(), text.as_bytes()), fits, "{pattern} {text}");
        }
    }

    #[test]
    fn many_stars_end_soon() {
        let pattern = b"a*".repeat(50_000);
        assert!(!matches(&[&pattern[..], b"b"].concat(), &b"a".repeat(50_000)[..]));
    }
}
