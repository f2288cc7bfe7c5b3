//! Settings of an engine's own: numbers with names and bounds. An engine declares them ([`Engine::SETTINGS`](crate::Engine::SETTINGS)); its host reads them from the
//! engine's section of the configuration; what all engines share is in [`Options`](crate::Options).

use std::collections::BTreeMap;

/// A setting that an engine declares.
#[derive(Debug)]
pub struct Setting {
    /// As configurations name it, with its unit.
    pub name: &'static str,
    /// The value if nothing is said.
    pub default: u64,
    /// The least that makes sense.
    pub least: u64,
    /// The most.
    pub most: u64,
}

/// Values that were set, by name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Own(BTreeMap<String, u64>);

impl Own {
    /// The value of a setting. Not for what runs for each request: an engine reads it once.
    pub fn get(&self, setting: &Setting) -> u64 {
        self.0.get(setting.name).copied().unwrap_or(setting.default)
    }

    /// Sets one by its name. Names that an engine does not declare say nothing to it.
    pub fn set(&mut self, name: impl Into<String>, value: u64) {
        self.0.insert(name.into(), value);
    }

    /// Whether what is set of these settings is within their bounds.
    ///
    /// # Errors
    /// In words: which is not, and what may be.
    pub fn check(&self, settings: &[Setting]) -> Result<(), String> {
        for Setting { name, least, most, .. } in settings {
            match self.0.get(*name) {
                Some(value) if !(least..=most).contains(&value) => {
                    return Err(format!("{name} must be {least} to {most}, and is {value}"));
                }
                _ => {}
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_said_is_the_default_and_what_is_has_bounds() {
        const PATIENCE: Setting = Setting { name: "patience_ms", default: 7, least: 1, most: 9 };
        let mut own = Own::default();
        assert_eq!(own.get(&PATIENCE), 7);
        own.set("patience_ms", 9);
        own.set("another_engines", 0);
        assert_eq!((own.get(&PATIENCE), own.check(&[PATIENCE])), (9, Ok(())));
        own.set("patience_ms", 10);
        assert_eq!(own.check(&[PATIENCE]), Err("patience_ms must be 1 to 9, and is 10".into()));
    }
}
