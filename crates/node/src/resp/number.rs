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

/// An integer spelled out, without an allocation.
pub struct Digits {
    text: [u8; 20],
    start: usize,
}

impl Digits {
    /// Spells `value` out.
    pub fn new(value: i64) -> Digits {
        let (mut text, mut start, mut rest) = ([0; 20], 20, value.unsigned_abs());
        loop {
            start -= 1;
            text[start] = b'0' + (rest % 10) as u8;
            rest /= 10;
            if rest == 0 {
                break;
            }
        }
        if value < 0 {
            start -= 1;
            text[start] = b'-';
        }
        Digits { text, start }
    }

    /// The text.
    pub fn as_bytes(&self) -> &[u8] {
        &self.text[self.start..]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_survive_spelling_and_reading() {
        for value in [0, 1, -1, 9, 10, -10, 1234567890, i64::MAX, i64::MAX - 1, i64::MIN, i64::MIN + 1] {
            let digits = Digits::new(value);
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
