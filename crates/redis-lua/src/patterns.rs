//! Lua's patterns: the matcher of Lua 5.1 in all that can be seen of it, but with a bound on its depth and a count of its steps.
//!
//! Lua's own recurses for every optional item, so that a long pattern overflows the stack of the process, and one that backtracks
//! runs for years inside one instruction.

/// Captures that a pattern may have.
pub const MAX_CAPTURES: usize = 32;
/// Nested calls of the matcher.
const MAX_DEPTH: u32 = 200;

/// Why matching ended early.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// The pattern makes no sense, or asks too much: Lua's words.
    Bad(&'static str),
    /// All steps are taken.
    Spent,
}

/// What a capture holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Capture {
    /// Bytes from here, so many.
    Bytes(usize, usize),
    /// `()`: a position.
    Position(usize),
    /// The pattern has no end for it: it may stand there, and not be used.
    Open(usize),
}

/// A search of one pattern in one text.
pub struct Matcher<'a> {
    text: &'a [u8],
    pattern: &'a [u8],
    captures: Vec<Capture>,
    depth: u32,
    /// Steps that are left.
    steps: u64,
}

type Found = Result<Option<usize>, Ended>;

impl<'a> Matcher<'a> {
    /// The pattern without its anchor.
    pub fn new(text: &'a [u8], pattern: &'a [u8], steps: u64) -> Matcher<'a> {
        Matcher { text, pattern, captures: Vec::new(), depth: 0, steps }
    }

    /// Steps that are left.
    pub fn steps(&self) -> u64 {
        self.steps
    }

    /// Where a match that begins exactly here ends, if there is one.
    pub fn match_at(&mut self, at: usize) -> Found {
        self.captures.clear();
        self.depth = 0;
        self.step(at, 0)
    }

    /// The first match from here on: its beginning and its end.
    pub fn search(&mut self, from: usize) -> Result<Option<(usize, usize)>, Ended> {
        for at in from..=self.text.len() {
            if let Some(end) = self.match_at(at)? {
                return Ok(Some((at, end)));
            }
        }
        Ok(None)
    }

    /// What the last match captured; the whole match if the pattern captures nothing.
    pub fn captured(&self, first: usize, last: usize) -> Vec<Capture> {
        if self.captures.is_empty() {
            vec![Capture::Bytes(first, last - first)]
        } else {
            self.captures.clone()
        }
    }

    /// Whether the pattern captures something by itself.
    pub fn captures(&self) -> usize {
        self.captures.len()
    }

    fn pay(&mut self) -> Result<(), Ended> {
        self.pay_for(1)
    }

    fn pay_for(&mut self, steps: usize) -> Result<(), Ended> {
        self.steps = self.steps.checked_sub(steps as u64).ok_or(Ended::Spent)?;
        Ok(())
    }

    fn step(&mut self, at: usize, item: usize) -> Found {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err(Ended::Bad("pattern too complex"));
        }
        let found = self.items(at, item);
        self.depth -= 1;
        found
    }

    /// Matches the items from `item` on at `at`.
    fn items(&mut self, mut at: usize, mut item: usize) -> Found {
        loop {
            self.pay()?;
            let Some(kind) = self.pattern.get(item) else { return Ok(Some(at)) };
            match kind {
                b'(' if self.pattern.get(item + 1) == Some(&b')') => {
                    return self.open(at, item + 2, Capture::Position(at));
                }
                b'(' => return self.open(at, item + 1, Capture::Open(at)),
                b')' => return self.close(at, item + 1),
                b'$' if item + 1 == self.pattern.len() => {
                    return Ok((at == self.text.len()).then_some(at));
                }
                b'%' => match self.pattern.get(item + 1) {
                    Some(b'b') => match self.balanced(at, item + 2)? {
                        Some(end) => (at, item) = (end, item + 4),
                        None => return Ok(None),
                    },
                    Some(b'f') => {
                        let set = item + 2;
                        if self.pattern.get(set) != Some(&b'[') {
                            return Err(Ended::Bad("missing '[' after '%f' in pattern"));
                        }
                        let end = self.class_end(set)?;
                        let before = if at == 0 { 0 } else { self.text[at - 1] };
                        let here = self.text.get(at).copied().unwrap_or(0);
                        if self.in_set(before, set, end - 1) || !self.in_set(here, set, end - 1) {
                            return Ok(None);
                        }
                        item = end;
                    }
                    Some(digit) if digit.is_ascii_digit() => {
                        let (start, len) = self.back_reference(*digit)?;
                        if self.text.len() - at < len {
                            return Ok(None);
                        }
                        self.pay_for(len / 64)?;
                        if self.text[start..start + len] != self.text[at..at + len] {
                            return Ok(None);
                        }
                        (at, item) = (at + len, item + 2);
                    }
                    _ => match self.single(at, item)? {
                        Next::Go(next_at, next_item) => (at, item) = (next_at, next_item),
                        Next::Done(found) => return Ok(found),
                    },
                },
                _ => match self.single(at, item)? {
                    Next::Go(next_at, next_item) => (at, item) = (next_at, next_item),
                    Next::Done(found) => return Ok(found),
                },
            }
        }
    }

    /// One character class, and how often it may stand.
    fn single(&mut self, at: usize, item: usize) -> Result<Next, Ended> {
        let end = self.class_end(item)?;
        // A set is read as far as its member for every byte that is asked.
        let each = (end - item) / 4;
        let fits =
            |matcher: &Self, at: usize| at < matcher.text.len() && matcher.fits(matcher.text[at], item, end);
        match self.pattern.get(end) {
            Some(b'?') => {
                if fits(self, at)
                    && let Some(found) = self.step(at + 1, end + 1)?
                {
                    return Ok(Next::Done(Some(found)));
                }
                Ok(Next::Go(at, end + 1))
            }
            Some(quantity @ (b'*' | b'+')) => {
                let least = usize::from(*quantity == b'+');
                let mut count = 0;
                while fits(self, at + count) {
                    self.pay_for(1 + each)?;
                    count += 1;
                }
                loop {
                    if count < least {
                        return Ok(Next::Done(None));
                    }
                    if let Some(found) = self.step(at + count, end + 1)? {
                        return Ok(Next::Done(Some(found)));
                    }
                    if count == 0 {
                        return Ok(Next::Done(None));
                    }
                    count -= 1;
                }
            }
            Some(b'-') => {
                let mut at = at;
                loop {
                    if let Some(found) = self.step(at, end + 1)? {
                        return Ok(Next::Done(Some(found)));
                    }
                    self.pay_for(each)?;
                    if !fits(self, at) {
                        return Ok(Next::Done(None));
                    }
                    at += 1;
                }
            }
            _ if fits(self, at) => Ok(Next::Go(at + 1, end)),
            _ => Ok(Next::Done(None)),
        }
    }

    fn open(&mut self, at: usize, item: usize, capture: Capture) -> Found {
        if self.captures.len() >= MAX_CAPTURES {
            return Err(Ended::Bad("too many captures"));
        }
        self.captures.push(capture);
        let level = self.captures.len();
        let found = self.step(at, item)?;
        if found.is_none() {
            self.captures.truncate(level - 1);
        }
        Ok(found)
    }

    fn close(&mut self, at: usize, item: usize) -> Found {
        let open = self.captures.iter().rposition(|capture| matches!(capture, Capture::Open(_)));
        let level = open.ok_or(Ended::Bad("invalid pattern capture"))?;
        let Capture::Open(start) = self.captures[level] else { unreachable!("it was found open") };
        self.captures[level] = Capture::Bytes(start, at - start);
        let found = self.step(at, item)?;
        if found.is_none() {
            self.captures[level] = Capture::Open(start);
        }
        Ok(found)
    }

    fn back_reference(&self, digit: u8) -> Result<(usize, usize), Ended> {
        let level = usize::from(digit.wrapping_sub(b'1'));
        match self.captures.get(level) {
            Some(Capture::Bytes(start, len)) => Ok((*start, *len)),
            // As Lua has it, whose length of a position is that of an endless string: it never fits.
            Some(Capture::Position(at)) => Ok((*at, self.text.len() + 1)),
            _ => Err(Ended::Bad("invalid capture index")),
        }
    }

    fn balanced(&mut self, at: usize, item: usize) -> Found {
        let (Some(open), Some(close)) = (self.pattern.get(item), self.pattern.get(item + 1)) else {
            return Err(Ended::Bad("unbalanced pattern"));
        };
        if self.text.get(at) != Some(open) {
            return Ok(None);
        }
        let mut depth = 1;
        for next in at + 1..self.text.len() {
            self.pay()?;
            let byte = self.text[next];
            if byte == *close {
                depth -= 1;
                if depth == 0 {
                    return Ok(Some(next + 1));
                }
            } else if byte == *open {
                depth += 1;
            }
        }
        Ok(None)
    }

    /// Behind the class that begins here.
    fn class_end(&mut self, item: usize) -> Result<usize, Ended> {
        match self.pattern[item] {
            b'%' if item + 1 >= self.pattern.len() => Err(Ended::Bad("malformed pattern (ends with '%')")),
            b'%' => Ok(item + 2),
            b'[' => {
                let mut at = item + 1;
                if self.pattern.get(at) == Some(&b'^') {
                    at += 1;
                }
                // The first one stands for itself.
                loop {
                    self.pay()?;
                    match self.pattern.get(at) {
                        None => return Err(Ended::Bad("malformed pattern (missing ']')")),
                        Some(b'%') if at + 1 >= self.pattern.len() => {
                            return Err(Ended::Bad("malformed pattern (missing ']')"));
                        }
                        Some(b'%') => at += 2,
                        Some(_) => at += 1,
                    }
                    if self.pattern.get(at) == Some(&b']') {
                        return Ok(at + 1);
                    }
                }
            }
            _ => Ok(item + 1),
        }
    }

    fn fits(&self, byte: u8, item: usize, end: usize) -> bool {
        match self.pattern[item] {
            b'.' => true,
            b'%' => is_of_class(byte, self.pattern[item + 1]),
            b'[' => self.in_set(byte, item, end - 1),
            own => own == byte,
        }
    }

    /// Whether a byte is in the set from `[` to `]`.
    fn in_set(&self, byte: u8, open: usize, close: usize) -> bool {
        let mut at = open + 1;
        let mut inside = true;
        if self.pattern[at] == b'^' {
            inside = false;
            at += 1;
        }
        while at < close {
            if self.pattern[at] == b'%' {
                if is_of_class(byte, self.pattern[at + 1]) {
                    return inside;
                }
                at += 2;
            } else if self.pattern[at + 1] == b'-' && at + 2 < close {
                if (self.pattern[at]..=self.pattern[at + 2]).contains(&byte) {
                    return inside;
                }
                at += 3;
            } else {
                if self.pattern[at] == byte {
                    return inside;
                }
                at += 1;
            }
        }
        !inside
    }
}

enum Next {
    Go(usize, usize),
    Done(Option<usize>),
}

fn is_of_class(byte: u8, class: u8) -> bool {
    let is = match class.to_ascii_lowercase() {
        b'a' => byte.is_ascii_alphabetic(),
        b'c' => byte.is_ascii_control(),
        b'd' => byte.is_ascii_digit(),
        b'l' => byte.is_ascii_lowercase(),
        b'p' => byte.is_ascii_punctuation(),
        b's' => matches!(byte, b' ' | 9..=13),
        b'u' => byte.is_ascii_uppercase(),
        b'w' => byte.is_ascii_alphanumeric(),
        b'x' => byte.is_ascii_hexdigit(),
        b'z' => byte == 0,
        _ => return class == byte,
    };
    is != class.is_ascii_uppercase()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn find(text: &str, pattern: &str) -> Option<(usize, usize)> {
        Matcher::new(text.as_bytes(), pattern.as_bytes(), 1 << 20).search(0).unwrap()
    }

    #[test]
    fn items_match_what_they_say() {
        assert_eq!(find("hello world", "o w"), Some((4, 7)));
        assert_eq!(find("hello", "l+"), Some((2, 4)));
        assert_eq!(find("hello", "x*"), Some((0, 0)));
        assert_eq!(find("f(a(b)c)d", "%b()"), Some((1, 8)));
        assert_eq!(find("THE (quick) fox", "%f[%a]%a+%f[%A]"), Some((0, 3)));
        assert_eq!(find("abab", "(ab)%1"), Some((0, 4)));
        assert_eq!(find("a]b", "[]]"), Some((1, 2)));
        assert_eq!(find("abc", "[^a-b]"), Some((2, 3)));
        assert_eq!(find("key = value", "^(%w+)%s*=%s*(%w+)$"), None, "anchors are the caller's");
        assert_eq!(find("abc", "c$"), Some((2, 3)));
    }

    #[test]
    fn nonsense_is_told() {
        let bad = |pattern: &str| Matcher::new(b"aaa", pattern.as_bytes(), 1 << 20).search(0);
        assert_eq!(bad("%"), Err(Ended::Bad("malformed pattern (ends with '%')")));
        assert_eq!(bad("[a"), Err(Ended::Bad("malformed pattern (missing ']')")));
        assert_eq!(bad("a)"), Err(Ended::Bad("invalid pattern capture")));
        assert_eq!(bad("%b"), Err(Ended::Bad("unbalanced pattern")));
        assert_eq!(bad(&"(".repeat(40)), Err(Ended::Bad("too many captures")));
        assert_eq!(bad(&"a?".repeat(1000)), Ok(Some((0, 3))));
        assert_eq!(
            Matcher::new(&[b'a'; 500], "a?".repeat(1000).as_bytes(), 1 << 20).search(0),
            Err(Ended::Bad("pattern too complex"))
        );
    }

    #[test]
    fn steps_are_counted() {
        let text = [b'a'; 5000];
        assert_eq!(Matcher::new(&text, b".-.-.-.-.-b", 1 << 16).search(0), Err(Ended::Spent));
    }
}
