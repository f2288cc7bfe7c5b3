//! The sections `engines.NAME`: settings of an engine's own, as it declares them.

use std::collections::BTreeMap;

use highwater_engines::EngineKind;
use highwater_seam::settings::Own;

use super::{Config, ConfigError};

/// Whether a section says what its engine declares, within the bounds. A section of an engine that this build does not have is not looked into.
///
/// # Errors
/// Which setting is wrong, and what may be.
pub(super) fn check(name: &str, own: &BTreeMap<String, u64>) -> Result<(), ConfigError> {
    let wrong = |why: String| Err(ConfigError(format!("engines.{name}{why}")));
    if !EngineKind::KNOWN.iter().any(|kind| kind.name() == name) {
        return wrong(": there is no engine of that name".into());
    }
    let Some(kind) = EngineKind::ALL.iter().find(|kind| kind.name() == name) else { return Ok(()) };
    let declared: Vec<&str> = kind.settings().iter().map(|setting| setting.name).collect();
    let mut set = Own::default();
    for (setting, value) in own {
        if declared.is_empty() {
            return wrong(format!(".{setting}: {name} has no settings of its own"));
        }
        if !declared.contains(&setting.as_str()) {
            return wrong(format!(".{setting}: unknown; {name} has {}", declared.join(", ")));
        }
        set.set(setting.clone(), *value);
    }
    set.check(kind.settings()).or_else(|why| wrong(format!(".{why}")))
}

impl Config {
    /// The settings of the engine's own that differ from what it declares.
    pub(super) fn own(&self) -> Own {
        let mut own = Own::default();
        let settings = self.engine().map_or(&[][..], EngineKind::settings);
        let set = self.engines.get(&self.cluster.engine).into_iter().flatten();
        for (name, value) in set {
            if settings.iter().any(|setting| setting.name == name && setting.default != *value) {
                own.set(name.clone(), *value);
            }
        }
        own
    }
}
