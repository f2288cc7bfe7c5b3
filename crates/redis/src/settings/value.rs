//! What a setting may be, and Redis's errors for what it may not.

use crate::number::parse_integer;

/// What a setting may be.
pub enum Value {
    /// An integer from one to another.
    Integer(i64, i64),
    /// Bytes, at least and at most, also with a unit.
    Memory(u64, u64),
    /// The same, or a part of all memory in percent.
    MemoryOrPercent,
    /// `yes` or `no`.
    Bool,
    /// One of these words.
    Choice(&'static [&'static str]),
    /// Percentiles, separated by blanks.
    Percentiles,
    /// Any text.
    Text,
}

impl Value {
    /// As it is kept and told; else why it is none.
    pub fn parse(&self, word: &[u8]) -> Result<String, String> {
        let text = String::from_utf8_lossy(word).into_owned();
        match self {
            Value::Integer(least, most) => {
                let number = parse_integer(word).ok_or("argument couldn't be parsed into an integer")?;
                if !(*least..=*most).contains(&number) {
                    return Err(format!("argument must be between {least} and {most} inclusive"));
                }
                Ok(number.to_string())
            }
            Value::Memory(least, most) => {
                let bytes = memory(&text).ok_or("argument must be a memory value")?;
                if !(*least..=*most).contains(&bytes) {
                    return Err(format!("argument must be between {least} and {most} inclusive"));
                }
                Ok(bytes.to_string())
            }
            Value::MemoryOrPercent => match text.strip_suffix('%').map(str::parse::<u64>) {
                Some(Ok(percent)) if percent > 100 => {
                    Err("percentage argument must be less or equal to 100".into())
                }
                Some(Ok(_)) => Ok(text),
                _ => memory(&text)
                    .map(|bytes| bytes.to_string())
                    .ok_or("argument must be a memory or percent value".into()),
            },
            Value::Bool => choose(&text, &["yes", "no"]).ok_or("argument must be 'yes' or 'no'".into()),
            Value::Choice(words) => choose(&text, words)
                .ok_or_else(|| format!("argument(s) must be one of the following: {}", words.join(", "))),
            Value::Percentiles => percentiles(&text)
                .map(|all| all.iter().map(f64::to_string).collect::<Vec<_>>().join(" "))
                .ok_or(
                    "latency-tracking-info-percentiles should contain numbers between 0.0 and 100.0".into(),
                ),
            Value::Text => Ok(text),
        }
    }
}

fn choose(text: &str, words: &[&str]) -> Option<String> {
    words.iter().find(|word| word.eq_ignore_ascii_case(text)).map(|word| word.to_string())
}

/// Numbers from 0 to 100, separated by blanks.
pub fn percentiles(text: &str) -> Option<Vec<f64>> {
    let number = |word: &str| word.parse().ok().filter(|number| (0.0..=100.0).contains(number));
    text.split_ascii_whitespace().map(number).collect()
}

/// Bytes with a unit: `k` is 1000, `kb` 1024, and so on.
fn memory(text: &str) -> Option<u64> {
    let digits = text.find(|byte: char| !byte.is_ascii_digit()).unwrap_or(text.len());
    let unit = match text[digits..].to_ascii_lowercase().as_str() {
        "" | "b" => 1,
        "k" => 1_000,
        "kb" => 1 << 10,
        "m" => 1_000_000,
        "mb" => 1 << 20,
        "g" => 1_000_000_000,
        "gb" => 1u64 << 30,
        _ => return None,
    };
    text[..digits].parse::<u64>().ok()?.checked_mul(unit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_are_redis_s() {
        for (text, bytes) in
            [("0", 0), ("10", 10), ("10b", 10), ("1k", 1000), ("1KB", 1024), ("2gb", 2 << 30)]
        {
            assert_eq!(memory(text), Some(bytes), "{text}");
        }
        for text in ["", "x", "-1", "1tb", "1 kb", "99999999999gb"] {
            assert_eq!(memory(text), None, "{text}");
        }
    }

    #[test]
    fn what_is_none_is_refused_in_redis_s_words() {
        let told = |value: Value, word: &str| value.parse(word.as_bytes()).unwrap_err();
        assert_eq!(told(Value::Bool, "maybe"), "argument must be 'yes' or 'no'");
        assert_eq!(told(Value::Integer(0, 5), "6"), "argument must be between 0 and 5 inclusive");
        assert_eq!(told(Value::Integer(0, 5), "x"), "argument couldn't be parsed into an integer");
        assert_eq!(told(Value::Memory(0, 5), "-1"), "argument must be a memory value");
        assert_eq!(told(Value::MemoryOrPercent, "200%"), "percentage argument must be less or equal to 100");
        assert_eq!(told(Value::Choice(&["a", "b"]), "c"), "argument(s) must be one of the following: a, b");
        assert!(Value::Percentiles.parse(b"50 99.9 101").is_err());
        assert_eq!(Value::Percentiles.parse(b"50 99.9 100"), Ok("50 99.9 100".into()));
        assert_eq!(Value::Percentiles.parse(b"0.0  50.0"), Ok("0 50".into()));
        assert_eq!(Value::Bool.parse(b"YES"), Ok("yes".into()));
    }
}
