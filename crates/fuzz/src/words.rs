//! What operators send and write: admin lines, configuration.

use highwater_core::Incarnation;
use highwater_node::Config;
use highwater_node::admin::protocol::{AdminRequest, AdminResponse};
use highwater_node::config::ConfigError;
use serde::Serialize;
use serde::de::DeserializeOwned;

/// A line at the admin port, or one that it answers.
pub fn admin(bytes: &[u8]) -> bool {
    round_trip::<AdminRequest>(bytes) | round_trip::<AdminResponse>(bytes)
}

fn round_trip<T: DeserializeOwned + Serialize>(bytes: &[u8]) -> bool {
    let Ok(read) = serde_json::from_slice::<T>(bytes) else { return false };
    let once = serde_json::to_string(&read).expect("what was read can be written");
    assert!(!once.contains('\n'), "a line is a line: {once}");
    let again: T = serde_json::from_str(&once).expect("what was written can be read");
    let twice = serde_json::to_string(&again).expect("as before");
    // A rate may move by its last digit.
    assert!(twice == once || once.contains(['.', 'e']), "{twice} after {once}");
    true
}

/// Settings as from flags and the environment, a line each: refused in one line, or a configuration that can be written
/// and read again, and that an engine takes.
pub fn config(bytes: &[u8]) -> bool {
    let Ok(text) = std::str::from_utf8(bytes) else { return false };
    let settings =
        || text.lines().filter_map(|line| line.split_once('=')).map(|(k, v)| (k.to_string(), v.to_string()));
    let variables = || {
        settings().map(|(key, value)| {
            (format!("HIGHWATER_{}", key.replace('.', "_").to_uppercase()).into(), value.into())
        })
    };
    let flags = check(Config::load(None, [], &settings().collect::<Vec<_>>()));
    let environment = check(Config::load(None, variables(), &[]));
    let file = check(Config::from_toml(text));
    flags || environment || file
}

fn check(loaded: Result<Config, ConfigError>) -> bool {
    match &loaded {
        Err(error) => assert!(!error.to_string().contains('\n'), "an error is one line: {error}"),
        Ok(config) => {
            let options = config.options(Incarnation(7));
            options.validate().expect("a valid configuration makes valid options");
            let own = config.engine().expect("it is valid").settings();
            options.own.check(own).expect("and the engine's own");
            let again = Config::from_toml(&config.to_toml());
            assert_eq!(again.as_ref(), Ok(config), "a configuration survives its own file");
        }
    }
    loaded.is_ok()
}
