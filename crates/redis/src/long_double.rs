//! The x86 `long double`, 64 bits of mantissa, in which Redis adds for `INCRBYFLOAT` and `HINCRBYFLOAT`: read, added and written
//! with the same rounding (to the nearest, ties to even), on any machine.

use std::cmp::Ordering;

/// Longest text that is a number, in bytes: Redis's buffer, less its end.
const MAX_TEXT_BYTES: usize = 5 * 1024 - 1;
/// The largest power of 2 that a mantissa stands behind.
const MAX_EXPONENT: i32 = 16384;
/// Below 2 to this, nothing is left.
const MIN_EXPONENT: i32 = -16445;

/// `mantissa * 2^exponent`. The mantissa's highest bit is set, but for zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LongDouble {
    negative: bool,
    mantissa: u64,
    exponent: i32,
    infinite: bool,
}

impl LongDouble {
    pub const ZERO: LongDouble = LongDouble { negative: false, mantissa: 0, exponent: 0, infinite: false };

    /// Reads what Redis reads: decimal or hexadecimal, or `inf`; no spaces. `None` also of what is no number, too large or too small.
    pub fn parse(text: &[u8]) -> Option<LongDouble> {
        if text.is_empty() || text.len() > MAX_TEXT_BYTES {
            return None;
        }
        let (negative, rest) = match text {
            [b'-', rest @ ..] => (true, rest),
            [b'+', rest @ ..] => (false, rest),
            _ => (false, text),
        };
        if rest.eq_ignore_ascii_case(b"inf") || rest.eq_ignore_ascii_case(b"infinity") {
            return Some(LongDouble { negative, infinite: true, ..LongDouble::ZERO });
        }
        let (radix, rest) = match rest {
            [b'0', b'x' | b'X', rest @ ..] => (16, rest),
            _ => (10, rest),
        };
        let (digits, scale) = digits(rest, radix)?;
        let value = match radix {
            16 => rounded(digits, scale, false),
            _ => decimal(digits, scale),
        };
        (!value.infinite && !value.vanished).then_some(LongDouble { negative, ..value.value })
    }

    /// Whether it is `inf` or `-inf`.
    pub fn is_infinite(self) -> bool {
        self.infinite
    }

    /// The sum, rounded once. `None`: no finite number.
    pub fn plus(self, other: LongDouble) -> Option<LongDouble> {
        if self.infinite || other.infinite {
            return None;
        }
        if self.mantissa == 0 || other.mantissa == 0 {
            return Some(if self.mantissa == 0 { other } else { self });
        }
        let larger = (self.exponent, self.mantissa).cmp(&(other.exponent, other.mantissa));
        let (large, small) = if larger == Ordering::Less { (other, self) } else { (self, other) };
        let apart = (large.exponent - small.exponent) as u32;
        let high = u128::from(large.mantissa) << 62;
        let low = u128::from(small.mantissa) << 62;
        let shifted = if apart < 128 { low >> apart } else { 0 };
        let lost = apart >= 128 || shifted << apart != low;
        let sum =
            if large.negative == small.negative { high + shifted } else { high - shifted - u128::from(lost) };
        if sum == 0 {
            return Some(LongDouble::ZERO);
        }
        let words = vec![sum as u32, (sum >> 32) as u32, (sum >> 64) as u32, (sum >> 96) as u32];
        let value = rounded(words, large.exponent - 62, lost);
        (!value.infinite).then_some(LongDouble { negative: large.negative, ..value.value })
    }

    /// As `%.17Lf` writes it, without the zeros at the end: for people to read.
    pub fn format(self) -> String {
        let (whole, fraction) = self.parts();
        let fraction = format!("{fraction:017}");
        let fraction = fraction.trim_end_matches('0');
        let sign = if self.negative && (whole != "0" || !fraction.is_empty()) { "-" } else { "" };
        let point = if fraction.is_empty() { "" } else { "." };
        format!("{sign}{whole}{point}{fraction}")
    }

    /// What stands in front of the point, and 17 digits behind it.
    fn parts(self) -> (String, u64) {
        const UNIT: u128 = 100_000_000_000_000_000;
        if self.exponent >= 0 {
            let mut words = vec![self.mantissa as u32, (self.mantissa >> 32) as u32];
            shift_left(&mut words, self.exponent as usize);
            return (spelled(words), 0);
        }
        let behind = self.exponent.unsigned_abs();
        let mantissa = u128::from(self.mantissa);
        if behind >= 127 {
            return ("0".into(), 0);
        }
        let whole = mantissa >> behind;
        let scaled = (mantissa & ((1 << behind) - 1)) * UNIT;
        let (mut fraction, rest) = (scaled >> behind, scaled & ((1 << behind) - 1));
        let half = 1 << (behind - 1);
        fraction += u128::from(rest > half || rest == half && fraction & 1 == 1);
        let carry = fraction / UNIT;
        ((whole + carry).to_string(), (fraction % UNIT) as u64)
    }
}

/// What came out of rounding.
struct Rounded {
    value: LongDouble,
    infinite: bool,
    /// It was not zero, and is.
    vanished: bool,
}

/// Little-endian words, and the power of the radix (of 2, if that is 16) that they are to be multiplied by.
fn digits(text: &[u8], radix: u32) -> Option<(Vec<u32>, i32)> {
    let (mut words, mut scale, mut seen, mut point) = (Vec::new(), 0i32, false, false);
    let mut rest = text;
    let step = if radix == 16 { 4 } else { 1 };
    while let [byte, tail @ ..] = rest {
        match char::from(*byte).to_digit(radix) {
            Some(digit) => {
                multiply(&mut words, radix, digit);
                seen = true;
                scale -= if point { step } else { 0 };
            }
            None if *byte == b'.' && !point => point = true,
            None => break,
        }
        rest = tail;
    }
    if !seen {
        return None;
    }
    let exponent = match (rest, radix) {
        ([], _) => 0,
        ([b'e' | b'E', exponent @ ..], 10) | ([b'p' | b'P', exponent @ ..], 16) => small(exponent)?,
        _ => return None,
    };
    Some((words, scale + exponent))
}

/// An exponent; one that is far too large or small is as good as any such.
fn small(text: &[u8]) -> Option<i32> {
    let (negative, digits) = match text {
        [b'-', digits @ ..] => (true, digits),
        [b'+', digits @ ..] => (false, digits),
        _ => (false, text),
    };
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let value = digits.iter().fold(0i32, |sum, digit| (sum * 10 + i32::from(digit - b'0')).min(1_000_000));
    Some(if negative { -value } else { value })
}

fn decimal(mut words: Vec<u32>, scale: i32) -> Rounded {
    if words.is_empty() {
        return Rounded { value: LongDouble::ZERO, infinite: false, vanished: false };
    }
    // Beyond these no digits that fit into a text bring it back.
    let scale = scale.clamp(-12_000, 12_000);
    if scale >= 0 {
        for _ in 0..scale {
            multiply(&mut words, 5, 0);
        }
        return rounded(words, scale, false);
    }
    // Divided by 5^-scale, with 66 bits of the quotient: rounding down again and again is rounding down once.
    let shift = scale.unsigned_abs() as usize * 7 / 3 + 66;
    shift_left(&mut words, shift);
    let mut lost = false;
    for _ in 0..scale.unsigned_abs() {
        lost |= divide(&mut words, 5) != 0;
    }
    rounded(words, scale - shift as i32, lost)
}

/// `words * 2^exponent`, and a little more if some was `lost`.
fn rounded(words: Vec<u32>, exponent: i32, lost: bool) -> Rounded {
    let bits = length(&words);
    if bits == 0 {
        return Rounded { value: LongDouble::ZERO, infinite: false, vanished: lost };
    }
    // Numbers that are small have fewer bits.
    let kept = (bits as i32).min(64).min(bits as i32 + exponent - MIN_EXPONENT);
    if kept < 0 {
        return Rounded { value: LongDouble::ZERO, infinite: false, vanished: true };
    }
    let dropped = bits - kept as usize;
    let mut mantissa =
        (0..kept as usize).fold(0u128, |sum, at| sum | u128::from(bit(&words, dropped + at)) << at);
    let half = dropped > 0 && bit(&words, dropped - 1);
    let more = lost || (0..dropped.saturating_sub(1)).any(|at| bit(&words, at));
    mantissa += u128::from(half && (more || mantissa & 1 == 1));
    let mut exponent = exponent + dropped as i32;
    if mantissa == 0 {
        return Rounded { value: LongDouble::ZERO, infinite: false, vanished: true };
    }
    if mantissa >> 64 != 0 {
        mantissa >>= 1;
        exponent += 1;
    }
    let room = (mantissa as u64).leading_zeros();
    let value = LongDouble {
        negative: false,
        mantissa: (mantissa as u64) << room,
        exponent: exponent - room as i32,
        infinite: false,
    };
    Rounded { value, infinite: value.exponent + 64 > MAX_EXPONENT, vanished: false }
}

fn bit(words: &[u32], at: usize) -> bool {
    words.get(at / 32).is_some_and(|word| word >> (at % 32) & 1 == 1)
}

/// How many bits there are, without zeros in front.
fn length(words: &[u32]) -> usize {
    let last = words.iter().rposition(|word| *word != 0);
    last.map_or(0, |at| at * 32 + 32 - words[at].leading_zeros() as usize)
}

fn multiply(words: &mut Vec<u32>, by: u32, plus: u32) {
    let mut carry = u64::from(plus);
    for word in words.iter_mut() {
        let product = u64::from(*word) * u64::from(by) + carry;
        *word = product as u32;
        carry = product >> 32;
    }
    if carry != 0 {
        words.push(carry as u32);
    }
}

/// The remainder.
fn divide(words: &mut Vec<u32>, by: u32) -> u32 {
    let mut rest = 0u64;
    for word in words.iter_mut().rev() {
        let value = rest << 32 | u64::from(*word);
        *word = (value / u64::from(by)) as u32;
        rest = value % u64::from(by);
    }
    while words.last() == Some(&0) {
        words.pop();
    }
    rest as u32
}

fn shift_left(words: &mut Vec<u32>, by: usize) {
    let part = by % 32;
    if part > 0 {
        let mut carry = 0;
        for word in words.iter_mut() {
            let value = u64::from(*word) << part | carry;
            *word = value as u32;
            carry = value >> 32;
        }
        words.push(carry as u32);
    }
    words.splice(0..0, std::iter::repeat_n(0, by / 32));
}

/// In decimal.
fn spelled(mut words: Vec<u32>) -> String {
    let mut groups = Vec::new();
    while length(&words) > 0 {
        groups.push(divide(&mut words, 1_000_000_000));
    }
    let Some(first) = groups.pop() else { return "0".into() };
    groups.iter().rev().fold(first.to_string(), |text, group| format!("{text}{group:09}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sum(one: &str, other: &str) -> Option<String> {
        let sum = LongDouble::parse(one.as_bytes())?.plus(LongDouble::parse(other.as_bytes())?)?;
        Some(sum.format())
    }

    #[test]
    fn sums_are_those_of_redis() {
        for (one, other, wanted) in [
            ("10.50", "0.1", "10.6"),
            ("5.0e3", "2.0e2", "5200"),
            ("0.1", "0.2", "0.3"),
            ("3", "-3", "0"),
            ("-0", "0", "0"),
            ("1", "1e-18", "1"),
            ("1e-17", "0", "0.00000000000000001"),
            ("17179869184", "1.5", "17179869185.5"),
            ("0x10", "0x.8", "16.5"),
            ("1.1", "2.2", "3.3"),
            ("9007199254740993", "0", "9007199254740993"),
            ("-1.5", "0.25", "-1.25"),
            ("1e18", "1", "1000000000000000001"),
            ("1e20", "1e-3", "100000000000000000000"),
        ] {
            assert_eq!(sum(one, other).as_deref(), Some(wanted), "{one} + {other}");
        }
    }

    #[test]
    fn no_numbers() {
        for text in
            ["", " 1", "1 ", "abc", "1.2.3", "1e", "nan", "1e5000", "1e-5000", "0x", ".", "1e99999999999"]
        {
            assert_eq!(LongDouble::parse(text.as_bytes()), None, "{text}");
        }
        assert_eq!(sum("inf", "1"), None);
        assert_eq!(sum("1.18e4932", "1.18e4932"), None);
        assert_eq!(LongDouble::parse(b"0e-5000"), Some(LongDouble::ZERO));
    }

    #[test]
    fn the_largest_is_spelled_out() {
        let text = LongDouble::parse(b"1.18e4932").map(LongDouble::format).expect("it is in range");
        assert_eq!(text.len(), 4933);
        assert!(text.starts_with("118"));
    }
}
