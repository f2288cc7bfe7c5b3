//! What the flags of several commands share: the values that they take, and the end of every `--help`.

use highwater_engines::EngineKind;

use crate::failure::EXIT_CODES;

/// Examples, then the exit codes.
pub fn concat_help(examples: &str) -> String {
    format!("Examples:\n  {examples}\n\n{EXIT_CODES}")
}

/// `key=value`; blanks of the value are its own.
pub fn key_value(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((key, value)) if !key.trim().is_empty() => Ok((key.trim().to_string(), value.to_string())),
        _ => Err(format!("{text:?} is not KEY=VALUE")),
    }
}

/// An engine that goes on when a replica is lost.
pub fn survivor(name: &str) -> Result<EngineKind, String> {
    let engine: EngineKind = name.parse()?;
    if !engine.abilities().fails_over {
        return Err(format!("{engine} does not go on when a replica is lost"));
    }
    Ok(engine)
}

/// A share of something: above 0, at most 1.
pub fn share(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(share) if share > 0.0 && share <= 1.0 => Ok(share),
        _ => Err("must be above 0 and at most 1".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn overrides_need_a_key_and_an_equals_sign() {
        assert_eq!(key_value("a.b = c=d "), Ok(("a.b".into(), " c=d ".into())));
        assert!(key_value("=1").is_err() && key_value("workers").is_err());
    }
}
