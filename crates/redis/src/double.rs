//! Doubles as Redis reads and writes them: `strtod`, and `printf` with `%.17g`.

/// Reads a double as Redis reads scores: decimal or hexadecimal, `inf`, no spaces. `None` also of what is no number, too large or
/// too small.
pub fn parse_double(text: &[u8]) -> Option<f64> {
    let text = std::str::from_utf8(text).ok()?;
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    if let Some(digits) = unsigned.strip_prefix("0x").or(unsigned.strip_prefix("0X")) {
        let value = hexadecimal(digits)?;
        return Some(if text.starts_with('-') { -value } else { value });
    }
    let value: f64 = text.parse().ok()?;
    let infinite = unsigned.starts_with(['i', 'I']);
    let mantissa = unsigned.split(['e', 'E']).next().unwrap_or_default();
    let vanished = value == 0.0 && !infinite && mantissa.bytes().any(|byte| (b'1'..=b'9').contains(&byte));
    (!value.is_nan() && (value.is_finite() || infinite) && !vanished).then_some(value)
}

/// Reads an end of a range of scores, of which Redis asks less: there may be spaces in front, nothing is 0, and what is too large is
/// infinite.
pub fn parse_bound(text: &[u8]) -> Option<f64> {
    let text = text.trim_ascii_start();
    if text.is_empty() {
        return Some(0.0);
    }
    parse_double(text).or_else(|| {
        let value: f64 = std::str::from_utf8(text).ok()?.parse().ok()?;
        (!value.is_nan()).then_some(value)
    })
}

/// Digits behind `0x`, with a binary exponent or without. Exact for up to 53 bits; what is longer is cut.
fn hexadecimal(digits: &str) -> Option<f64> {
    let (digits, exponent) = match digits.split_once(['p', 'P']) {
        Some((digits, exponent)) => (digits, exponent.parse::<i32>().ok()?.clamp(-5000, 5000)),
        None => (digits, 0),
    };
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    if whole.is_empty() && fraction.is_empty() {
        return None;
    }
    let (mut value, mut scale) = (0f64, exponent);
    for digit in whole.chars() {
        value = value * 16.0 + f64::from(digit.to_digit(16)?);
    }
    for digit in fraction.chars() {
        value = value * 16.0 + f64::from(digit.to_digit(16)?);
        scale -= 4;
    }
    let result = value * 2f64.powi(scale / 2) * 2f64.powi(scale - scale / 2);
    (result.is_finite() && (result != 0.0 || value == 0.0)).then_some(result)
}

/// Whole numbers below it have fewer than 17 digits, and are written in full.
const WHOLE: f64 = 1e15;

/// `%.17g`; `inf`, `-inf` and `nan` in small letters.
pub fn format_double(value: f64) -> String {
    if value.is_nan() {
        return if value.is_sign_negative() { "-nan" } else { "nan" }.into();
    }
    if value.is_infinite() {
        return if value > 0.0 { "inf" } else { "-inf" }.into();
    }
    // What most numbers are. (-0 has a sign.)
    if value.abs() < WHOLE && value.fract() == 0.0 && (value != 0.0 || value.is_sign_positive()) {
        return (value as i64).to_string();
    }
    let scientific = format!("{:.16e}", value.abs());
    let (mantissa, exponent) = scientific.split_once('e').expect("the format has an exponent");
    let exponent: i32 = exponent.parse().expect("the format has a number there");
    let digits = mantissa.replace('.', "");
    let digits = digits.trim_end_matches('0');
    let digits = if digits.is_empty() { "0" } else { digits };
    let sign = if value.is_sign_negative() { "-" } else { "" };
    if (-4..17).contains(&exponent) {
        format!("{sign}{}", plain(digits, exponent))
    } else {
        let (first, rest) = digits.split_at(1);
        let point = if rest.is_empty() { "" } else { "." };
        let side = if exponent < 0 { '-' } else { '+' };
        format!("{sign}{first}{point}{rest}e{side}{:02}", exponent.abs())
    }
}

/// Digits, the first of which counts 10 to the `exponent`.
fn plain(digits: &str, exponent: i32) -> String {
    if exponent < 0 {
        return format!("0.{}{digits}", "0".repeat((-exponent - 1) as usize));
    }
    let whole = exponent as usize + 1;
    if digits.len() <= whole {
        return format!("{digits}{}", "0".repeat(whole - digits.len()));
    }
    format!("{}.{}", &digits[..whole], &digits[whole..])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn doubles_are_written_as_c_writes_them() {
        for (value, text) in [
            (0.0, "0"),
            (-0.0, "-0"),
            (1.0, "1"),
            (-1.5, "-1.5"),
            (0.1, "0.10000000000000001"),
            (3.3, "3.2999999999999998"),
            (1e16, "10000000000000000"),
            (1e17, "1e+17"),
            (1e-4, "0.0001"),
            (1e-5, "1.0000000000000001e-05"),
            (1.7976931348623157e308, "1.7976931348623157e+308"),
            (5e-324, "4.9406564584124654e-324"),
            (123456789.0, "123456789"),
            (f64::INFINITY, "inf"),
            (f64::NEG_INFINITY, "-inf"),
        ] {
            assert_eq!(format_double(value), text);
        }
    }

    #[test]
    fn doubles_are_read_as_c_reads_them() {
        for (text, value) in [
            ("1", 1.0),
            ("+1", 1.0),
            (".5", 0.5),
            ("5.", 5.0),
            ("1e3", 1000.0),
            ("-inf", f64::NEG_INFINITY),
            ("+Infinity", f64::INFINITY),
            ("0x10", 16.0),
            ("-0x1.8p1", -3.0),
            ("0e-999", 0.0),
        ] {
            assert_eq!(parse_double(text.as_bytes()), Some(value), "{text}");
        }
        for text in ["", " 1", "1 ", "nan", "1e400", "1e-400", "abc", "0x", "1_0", "--1", "in"] {
            assert_eq!(parse_double(text.as_bytes()), None, "{text}");
        }
    }
}
