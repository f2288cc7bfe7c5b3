//! Tests of the configuration.

use super::*;

fn load(file: &str, variables: &[(&str, &str)], overrides: &[(&str, &str)]) -> Result<Config, String> {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("highwater.toml");
    std::fs::write(&path, file).unwrap();
    let owned = |pairs: &[(&str, &str)]| -> Vec<(String, String)> {
        pairs.iter().map(|(key, value)| (key.to_string(), value.to_string())).collect()
    };
    let variables = owned(variables).into_iter().map(|(name, value)| (name.into(), value.into()));
    Config::load(Some(&path), variables, &owned(overrides)).map_err(|error| error.to_string())
}

/// One that was no text, of whatever name, ended every command with a panic.
#[test]
fn variables_that_are_no_text_are_nobodys_and_a_value_of_ours_is_refused_in_words() {
    use std::ffi::OsString;
    use std::os::unix::ffi::OsStringExt;
    let odd = || OsString::from_vec(b"caf\xe9".to_vec());
    let load =
        |pairs: Vec<(OsString, OsString)>| Config::load(None, pairs, &[]).map_err(|error| error.to_string());
    load(vec![(odd(), odd()), ("PS1".into(), odd()), ("HIGHWATER_PORT".into(), odd())]).unwrap();
    let mut ours = b"HIGHWATER_CLUSTER_ID".to_vec();
    ours.push(0xe9);
    load(vec![(OsString::from_vec(ours), odd())]).unwrap();
    let why = load(vec![("HIGHWATER_CLUSTER_ID".into(), odd())]).unwrap_err();
    assert!(why.contains("HIGHWATER_CLUSTER_ID") && why.contains("UTF-8"), "{why}");
}

/// Once: `serve --config /dev/zero` read for ever.
#[test]
fn what_is_too_long_is_no_configuration() {
    let load = |path: &str| Config::load(Some(Path::new(path)), [], &[]).unwrap_err().to_string();
    assert_eq!(load("/dev/zero"), "cannot read /dev/zero: it is longer than 4 MiB, and no configuration");
    let longest = format!("#{}", "x".repeat(MAX_FILE_BYTES as usize - 1));
    self::load(&longest, &[], &[]).unwrap();
    assert!(self::load(&(longest + "x"), &[], &[]).unwrap_err().contains("longer than 4 MiB"));
}

#[test]
fn the_documented_defaults_are_valid_and_complete() {
    let config = Config::default();
    config.validate().unwrap();
    let documented: toml::Table = Config::default_toml().parse().unwrap();
    let complete: toml::Table = config.to_toml().parse().unwrap();
    assert_eq!(merge::key_paths(&documented), merge::key_paths(&complete), "every key is mentioned");
    for line in
        Config::default_toml().lines().filter(|line| line.contains(" = ") && !line.starts_with(['#', ' ']))
    {
        let (before, _) = Config::default_toml().split_once(line).unwrap();
        let comment = before.trim_end().lines().last().unwrap();
        assert!(comment.starts_with('#'), "{line} has no comment above it");
    }
}

#[test]
fn the_defaults_are_those_of_the_engines() {
    let config = Config::default();
    let options = config.options(Incarnation(7));
    // How much memory there is depends on the machine.
    let memory_bytes = config.memory_bytes();
    let mut expected = Options {
        memory_bytes,
        durability: highwater_core::Durability::Sync,
        ..Options::new(NodeId(0), 1, 2, Incarnation(7))
    };
    expected.founders = options.founders.clone();
    expected.fit_memory();
    assert_eq!(options, expected);
    assert_eq!(options.founders.iter().map(|(node, _)| *node).collect::<Vec<_>>(), [NodeId(0)]);
}

#[test]
fn an_engine_has_a_section_of_its_own() {
    let own = |file: &str, overrides: &[(&str, &str)]| {
        load(file, &[], overrides).map(|config| config.options(Incarnation(1)).own)
    };
    let mut set = highwater_seam::settings::Own::default();
    assert_eq!(own("", &[]), Ok(set.clone()));
    set.set("snapshot_age_us", 77);
    assert_eq!(own("[engines.rolis]\nsnapshot_age_us = 77", &[]), Ok(set.clone()));
    assert_eq!(own("", &[("engines.rolis.snapshot_age_us", "77")]), Ok(set));
    // What is another engine's is checked, and says nothing.
    let meerkat = [("cluster.engine", "meerkat"), ("engines.rolis.snapshot_age_us", "77")];
    assert_eq!(own("", &meerkat), Ok(Default::default()));
    let wrong = [
        (
            "[engines.rolis]\nsnapshot_age_us = 60000001",
            "snapshot_age_us must be 0 to 60000000, and is 60000001",
        ),
        (
            "[engines.rolis]\nsnapshot_age = 1",
            "engines.rolis.snapshot_age: unknown; rolis has snapshot_age_us",
        ),
        ("[engines.meerkat]\nlead = 1", "engines.meerkat.lead: meerkat has no settings of its own"),
        ("[engines.paxos]\n", "engines.paxos: there is no engine of that name"),
    ];
    for (file, why) in wrong {
        let said = own(file, &[]).unwrap_err();
        assert!(said.contains(why), "{said}");
    }
}

/// `default.toml` says of engines what they declare.
#[test]
fn the_documented_defaults_are_those_that_engines_declare() {
    for (name, own) in Config::default().engines {
        let kind: EngineKind = name.parse().expect("there is such an engine");
        let declared = kind.settings().iter().map(|setting| (setting.name.to_string(), setting.default));
        assert_eq!(declared.collect::<std::collections::BTreeMap<_, _>>(), own, "{name}");
    }
    for kind in EngineKind::ALL.iter().filter(|kind| **kind != EngineKind::Strawman) {
        let documented = Config::default().engines.contains_key(kind.name());
        assert_eq!(documented, !kind.settings().is_empty(), "{}", kind.name());
    }
}

#[test]
fn flags_beat_variables_beat_the_file_beat_the_defaults() {
    let file = "[timeouts]\nheartbeat_ms = 11\nelection_timeout_ms = 111\n[batching]\npipeline_entries = 9\n";
    let config = load(
        file,
        &[
            ("HIGHWATER_TIMEOUTS_HEARTBEAT_MS", "12"),
            ("HIGHWATER_TIMEOUTS_ELECTION_TIMEOUT_MS", "112"),
            ("HOME", "/"),
        ],
        &[("timeouts.heartbeat_ms", "13")],
    );
    let config = config.unwrap();
    assert_eq!((config.timeouts.heartbeat_ms, config.timeouts.election_timeout_ms), (13, 112));
    assert_eq!((config.batching.pipeline_entries, config.limits.max_attempts), (9, 100));
}

#[test]
fn values_need_no_quotes_and_pins_take_all_their_forms() {
    let config = load("", &[("HIGHWATER_CLUSTER_ID", "42")], &[("threads.pin", "[1, 0]")]).unwrap();
    assert_eq!((config.cluster.id.as_str(), config.threads.pin), ("42", Pin::Cores(vec![1, 0])));
    let config = load("", &[("HIGHWATER_LOG_FORMAT", "json")], &[("threads.pin", "auto")]).unwrap();
    assert_eq!((config.log.format, config.threads.pin), (LogFormat::Json, Pin::Policy(PinPolicy::Auto)));
}

/// Strings that people choose, and TOML would read as something else: 35 passwords.
const TEXTS: [&str; 35] = [
    "plain",
    "",
    " ",
    " leading",
    "trailing ",
    "\ttab",
    "\"quoted\"",
    "'quoted'",
    "\"\"",
    "''",
    "\"half",
    "half'",
    "\"\"\"long\"\"\"",
    "'''long'''",
    "a\"b",
    "[1]",
    "[]",
    "[\"x\"]",
    "{}",
    "{ a = 1 }",
    "42",
    "-1",
    "1_000",
    "0x1f",
    "1e3",
    "inf",
    "nan",
    "true",
    "2026-11-27",
    "07:32:00",
    "2026-11-27T07:32:00Z",
    "before # after",
    "two\nlines",
    "Grüße, 鍵",
    "back\\slash \\n \\u0041 = $HOME",
];

/// Once: a password `"x"` given by a variable lost its quotation marks, `[1]` was refused, a flag's lost leading blanks.
#[test]
fn strings_of_variables_and_flags_are_taken_as_they_are() {
    let long = "x".repeat(600);
    for text in TEXTS.into_iter().chain([long.as_str()]) {
        for config in [
            load("[auth]\npassword = 'of the file'", &[("HIGHWATER_AUTH_PASSWORD", text)], &[]),
            load("[auth]\npassword = 'of the file'", &[], &[("auth.password", text)]),
        ] {
            assert_eq!(config.map(|config| config.auth.password), Ok(text.to_string()), "{text:?}");
        }
    }
    let token = "\"a-token-with-quotation-marks\"";
    let config = load("", &[("HIGHWATER_ADMIN_TOKEN", token)], &[]).unwrap();
    assert_eq!(config.admin.token.0, token);
    // A word that has to be known is not known in quotation marks; and what is no string is TOML.
    let quoted = load("", &[], &[("cluster.engine", "\"silo\"")]).unwrap_err();
    assert!(quoted.contains("unknown engine"), "{quoted}");
    let hosts = ("HIGHWATER_ADMIN_HOSTS", "[\"db1\", 'db2'] # both");
    let config = load("", &[hosts], &[("tls.resp", " false ")]).unwrap();
    assert_eq!(config.admin.hosts, ["db1", "db2"]);
}

#[test]
fn a_configuration_survives_being_written() {
    let silo = [("threads.pin", "[0, 1]"), ("cluster.engine", "silo"), ("cluster.durability", "memory")];
    let config = load("", &[], &silo).unwrap();
    assert_eq!(load(&config.to_toml(), &[], &[]), Ok(config));
}

/// Once: `cluster.workers = 256` with disks passed `config check`, and the journal panicked.
#[test]
fn errors_name_the_key_and_the_place() {
    let fails = |file: &str| load(file, &[], &[]).expect_err(file);
    let unknown = fails("[timeouts]\nheartbeat = 3\n");
    assert!(unknown.contains("highwater.toml") && unknown.contains("heartbeat"), "{unknown}");
    assert!(fails("node = 0\nnode = 1\n").contains("highwater.toml:2"), "{}", fails("node = 0\nnode = 1\n"));
    assert!(fails("node = \"x\"").contains("node"), "{}", fails("node = \"x\""));
    assert!(fails("node = 5").contains("has the ids 0"));
    assert!(fails("[cluster]\nengine = \"raft\"").contains("unknown engine \"raft\""));
    assert!(fails("[timeouts]\nelection_timeout_ms = 30").contains("3 heartbeats"));
    let many = |durability: &str, workers: u32| {
        let text = format!(
            "[cluster]\nworkers = {workers}\ndurability = \"{durability}\"\n[limits]\nmemory_mb = 1000000\n"
        );
        load(&text, &[], &[]).err().unwrap_or_default()
    };
    // The journal's thread panicked of it.
    assert!(
        many("sync", 256).contains("cluster.workers must be 1 to 255 with disks"),
        "{}",
        many("sync", 256)
    );
    assert!(
        !many("sync", 255).contains("cluster.workers") && !many("memory", 256).contains("cluster.workers")
    );
    assert!(fails("[threads]\npin = [0]").contains("threads.pin lists 1 cores for 2 workers"));
    assert!(
        fails("[cluster]\nnodes = [{ id = 1, peer = 'a:1', resp = 'a:2', admin = 'a:3' }]")
            .contains("nobody but node 1")
    );
    let two = |ids: [u8; 2]| {
        let node = |id| format!("{{ id = {id}, peer = 'a:{id}', resp = 'b:{id}', admin = 'c:{id}' }},");
        fails(&format!("[cluster]\nnodes = [{}]", ids.map(node).concat()))
    };
    assert!(two([2, 1]).contains("greater than the one before"), "{}", two([2, 1]));
    assert!(
        fails("[cluster]\nnodes = [{ id = 0, peer = 'a', resp = 'a:2', admin = 'a:3' }]")
            .contains("host:port")
    );
    let flag = load("", &[], &[("timeouts.heartbeat", "1")]).unwrap_err();
    assert!(flag.contains("unknown key \"timeouts.heartbeat\""), "{flag}");
    let variable = load("", &[("HIGHWATER_NODE", "zero")], &[]).unwrap_err();
    assert!(variable.contains("HIGHWATER_NODE") && variable.contains("integer"), "{variable}");
    let missing = Config::load(Some(Path::new("/no/such/file")), [], &[]).unwrap_err().to_string();
    assert!(missing.contains("/no/such/file") && !missing.contains('\n'), "{missing}");
}
