//! Redis's integers: 64 bits, decimal, one spelling each.

/// Reads an integer the way Redis does: no plus sign, no leading zeros, no spaces, no `-0`.
#[inline]
pub fn parse_integer(text: &[u8]) -> Option<i64> {
    match text {
        // What stands in front of nearly every word of a command.
        [digit @ b'0'..=b'9'] => Some(i64::from(digit - b'0')),
        _ => parse_longer(text),
    }
}

fn parse_longer(text: &[u8]) -> Option<i64> {
    let (negative, digits) = match text {
        [b'-', rest @ ..] => (true, rest),
        _ => (false, text),
    };
    match digits {
        [b'0'] if !negative => return Some(0),
        // 19 digits always fit into a u64, so the loop cannot overflow.
        [b'1'..=b'9', ..] if digits.len() <= 19 && digits.iter().all(u8::is_ascii_digit) => {}
        _ => return None,
    }
    let magnitude = digits.iter().fold(0u64, |sum, digit| sum * 10 + u64::from(digit - b'0'));
    if negative { 0i64.checked_sub_unsigned(magnitude) } else { i64::try_from(magnitude).ok() }
}

/// Most bytes of an integer.
const LONGEST: usize = "-9223372036854775808".len();
/// Most bytes of a [`Line`].
const LONGEST_LINE: usize = 1 + LONGEST + 2;

/// Two digits each: 00, 01, .. 99.
const PAIRS: [[u8; 2]; 100] = {
    let (mut pairs, mut at) = ([[0; 2]; 100], 0);
    while at < 100 {
        pairs[at] = [b'0' + (at / 10) as u8, b'0' + (at % 10) as u8];
        at += 1;
    }
    pairs
};

/// Spells `value` out in front of this place; where it begins.
#[inline]
fn spell<const N: usize>(value: i64, text: &mut [u8; N], end: usize) -> usize {
    let (mut start, mut rest) = (end, value.unsigned_abs());
    while rest >= 10 {
        start -= 2;
        text[start..start + 2].copy_from_slice(&PAIRS[(rest % 100) as usize]);
        rest /= 100;
    }
    // Of an even number of digits the last pair was the first two.
    if rest > 0 || start == end {
        start -= 1;
        text[start] = b'0' + rest as u8;
    }
    if value < 0 {
        start -= 1;
        text[start] = b'-';
    }
    start
}

/// An integer spelled out, without an allocation.
pub struct Digits {
    text: [u8; LONGEST],
    start: usize,
}

impl Digits {
    /// Spells `value` out.
    pub fn new(value: i64) -> Digits {
        let mut text = [0; LONGEST];
        let start = spell(value, &mut text, LONGEST);
        Digits { text, start }
    }

    /// The text.
    pub fn as_bytes(&self) -> &[u8] {
        &self.text[self.start..]
    }
}

/// A line of a reply: a letter, an integer, and the line's end.
pub struct Line {
    text: [u8; LONGEST_LINE],
    start: usize,
}

impl Line {
    /// Spells it out.
    #[inline]
    pub fn new(kind: u8, value: i64) -> Line {
        let mut text = [0; LONGEST_LINE];
        text[LONGEST_LINE - 2..].copy_from_slice(b"\r\n");
        let start = spell(value, &mut text, LONGEST_LINE - 2) - 1;
        text[start] = kind;
        Line { text, start }
    }

    /// The text.
    #[inline]
    pub fn as_bytes(&self) -> &[u8] {
        &self.text[self.start..]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_survive_spelling_and_reading() {
        let few = (0..10_000).chain([1234567890, i64::MAX, i64::MAX - 1]);
        let powers = (4..19).flat_map(|digits| [10i64.pow(digits) - 1, 10i64.pow(digits)]);
        for value in few.chain(powers).flat_map(|value| [value, -value]).chain([i64::MIN, i64::MIN + 1]) {
            let digits = Digits::new(value);
            assert_eq!(Line::new(b':', value).as_bytes(), format!(":{value}\r\n").as_bytes());
            assert_eq!(digits.as_bytes(), value.to_string().as_bytes());
            assert_eq!(parse_integer(digits.as_bytes()), Some(value));
        }
    }

    #[test]
    fn other_spellings_are_no_integers() {
        for text in ["", "-", "+1", "01", "-0", "-01", " 1", "1 ", "1.0", "0x1", "9223372036854775808"] {
            assert_eq!(parse_integer(text.as_bytes()), None, "{text:?}");
        }
        assert_eq!(parse_integer(b"-9223372036854775809"), None);
        assert_eq!(parse_integer(b"99999999999999999999"), None);
    }
}
