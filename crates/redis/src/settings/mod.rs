//! Settings in Redis's names: what `CONFIG GET` tells and `CONFIG SET` changes, while the node runs and on this node alone.
//!
//! A node's configuration is its file's (docs/configuration.md). Of what Redis can be told, here
//!
//! - some settings work: the log of slow commands, latencies that are watched, the thresholds of `OBJECT ENCODING`;
//! - some change nothing that a client could notice, and are kept to be told again: how Redis packs, frees and schedules;
//! - all others are taken only if they are what they are anyway. A setting that Redis obeys and this node would not is refused, and the
//!   error says why.
//!
//! Several settings of one command are set together or not at all.

mod table;
mod value;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::Door;
use super::encodings::Most;
use super::errors::CommandError;
use super::request::Args;
pub use table::SETTINGS;
use value::Value;

/// Longest value of one: it is kept, and told.
const MOST_BYTES: usize = 1 << 10;

pub struct Setting {
    pub name: &'static str,
    /// Another one that it has in older or newer releases of Redis.
    alias: Option<&'static str>,
    /// What it may be.
    value: Value,
    /// What it is until it is set.
    now: Now,
    /// What setting it does.
    effect: Effect,
}

/// What a setting is until it is set.
enum Now {
    /// Always the same.
    Default(&'static str),
    /// What the node says.
    Told(fn(&Door) -> String),
}

/// What setting it does.
enum Effect {
    /// It is told again. Nothing that a client could notice depends on it here.
    Kept,
    /// A threshold of `OBJECT ENCODING`.
    Threshold(&'static Most),
    /// The node does it.
    Done(fn(&Door, i64)),
    /// Refused, in Redis's words, as Redis does.
    Immutable,
    /// Refused: why.
    Refused(&'static str),
}

/// What was set on this node.
#[derive(Debug, Default)]
pub struct Settings {
    set: Mutex<BTreeMap<&'static str, String>>,
    /// `DEBUG SET-ACTIVE-EXPIRE 0`: nobody sweeps.
    rests: AtomicBool,
}

impl Settings {
    fn set(&self) -> MutexGuard<'_, BTreeMap<&'static str, String>> {
        self.set.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether keys are removed whose deadline is past, though nobody looks at them.
    pub fn expires_actively(&self) -> bool {
        !self.rests.load(Ordering::Relaxed)
    }

    /// Has it so or not.
    pub fn set_active_expire(&self, yes: bool) {
        self.rests.store(!yes, Ordering::Relaxed);
    }

    /// Whether a `FLUSHALL` that does not say how is one with `ASYNC`.
    pub fn empties_in_steps(&self) -> bool {
        self.set().get("lazyfree-lazy-user-flush").is_some_and(|set| set == "yes")
    }

    /// The percentiles that `INFO latencystats` tells; empty if latencies are not tracked.
    pub fn percentiles(&self, door: &Door) -> Vec<f64> {
        let now =
            |name: &str| Setting::find(name.as_bytes()).map(|setting| setting.now(door)).unwrap_or_default();
        if now("latency-tracking") == "no" {
            return Vec::new();
        }
        value::percentiles(&now("latency-tracking-info-percentiles")).unwrap_or_default()
    }
}

impl Setting {
    pub fn now(&self, door: &Door) -> String {
        if let Effect::Threshold(most) = self.effect {
            return most.get().to_string();
        }
        if let Some(set) = door.settings.set().get(self.name) {
            return set.clone();
        }
        match self.now {
            Now::Default(text) => text.to_string(),
            Now::Told(tell) => tell(door),
        }
    }

    pub fn names(&self) -> impl Iterator<Item = &'static str> {
        [Some(self.name), self.alias].into_iter().flatten()
    }

    fn find(word: &[u8]) -> Option<&'static Setting> {
        SETTINGS.iter().find(|setting| setting.names().any(|name| word.eq_ignore_ascii_case(name.as_bytes())))
    }
}

/// Settings whose names fit one of the patterns, and what they are.
pub fn find<'a>(
    door: &'a Door,
    fits: impl Fn(&str) -> bool + 'a,
) -> impl Iterator<Item = (&'static str, String)> + 'a {
    let all = SETTINGS.iter().flat_map(|setting| setting.names().map(move |name| (name, setting)));
    all.filter(move |(name, _)| fits(name)).map(|(name, setting)| (name, setting.now(door)))
}

/// `CONFIG SET name value ..`: sets them all, or none.
pub fn set(mut args: Args<'_>, door: &Door) -> Result<(), CommandError> {
    if args.len() == 0 || !args.len().is_multiple_of(2) {
        return Err(CommandError::WrongArity("config|set"));
    }
    let shown = |name: &[u8]| String::from_utf8_lossy(&name[..name.len().min(128)]).into_owned();
    let failed = |name: &[u8], why: String| CommandError::SettingFailed { name: shown(name), why };
    let mut named: Vec<(&[u8], &'static Setting, &[u8])> = Vec::with_capacity(args.len() / 2);
    while let (Some(name), Some(value)) = (args.next(), args.next()) {
        let setting = Setting::find(name).ok_or_else(|| CommandError::UnknownSetting(shown(name)))?;
        if matches!(setting.effect, Effect::Immutable) {
            return Err(failed(name, "can't set immutable config".into()));
        }
        if named.iter().any(|(_, known, _)| known.name == setting.name) {
            return Err(failed(name, "duplicate parameter".into()));
        }
        if value.len() > MOST_BYTES {
            return Err(failed(name, format!("a setting has {MOST_BYTES} bytes at most")));
        }
        named.push((name, setting, value));
    }
    let mut wanted: Vec<(&'static Setting, String)> = Vec::with_capacity(named.len());
    for (name, setting, value) in named {
        let value = setting.value.parse(value).map_err(|why| failed(name, why))?;
        if let Effect::Refused(why) = setting.effect
            && !setting.now(door).eq_ignore_ascii_case(&value)
        {
            return Err(failed(name, why.into()));
        }
        wanted.push((setting, value));
    }
    for (setting, value) in wanted {
        match setting.effect {
            Effect::Threshold(most) => most.set(value.parse().expect("it was parsed as a number")),
            Effect::Done(does) => {
                does(door, value.parse().expect("it was parsed as a number"));
                door.settings.set().insert(setting.name, value);
            }
            Effect::Kept => drop(door.settings.set().insert(setting.name, value)),
            Effect::Immutable | Effect::Refused(_) => {}
        }
    }
    Ok(())
}
