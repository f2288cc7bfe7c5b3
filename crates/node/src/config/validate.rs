//! What types cannot say about a configuration. Every message names the key and what to write instead.

use std::net::{IpAddr, Ipv4Addr};
use std::path::Path;

use tracing::level_filters::LevelFilter;
use tracing_subscriber::filter::Targets;

use super::own;
use super::{ClientAuth, Config, ConfigError, Durability, LogConfig, NodeConfig, PeerTls, Pin};
use crate::tls::Keys;
use highwater_core::Incarnation;
use highwater_disk::journal::MAX_WRITERS;

/// Longer than anybody waits; and nanoseconds of it fit 64 bits.
const MAX_TIMEOUT_MS: u64 = 3_600_000;

const RESP_LOCK: &str =
    "set auth.password or auth.users_file, or tls.resp with tls.client_auth = \"required\"";
const ADMIN_LOCK: &str =
    "set admin.token or admin.token_file, or tls.admin with tls.client_auth = \"required\"";
const PEER_LOCK: &str = "set tls.peer = \"required\"";

type Checked = Result<(), ConfigError>;

fn check(good: bool, what: impl FnOnce() -> String) -> Checked {
    if good { Ok(()) } else { Err(ConfigError(what())) }
}

/// What a configuration may ask of this machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Machine {
    /// Cores that are there; `None` if the kernel does not say.
    pub cores: Option<Vec<usize>>,
    /// Memory in MiB, the same.
    pub memory_mb: Option<u64>,
}

impl Machine {
    /// As the kernel describes it.
    pub fn look() -> Machine {
        let online = std::fs::read_to_string("/sys/devices/system/cpu/online").ok();
        let memory = std::fs::read_to_string("/proc/meminfo").ok();
        Machine {
            cores: online.and_then(|list| cores(&list)),
            memory_mb: memory.and_then(|text| {
                let line = text.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
                Some(line.split_whitespace().next()?.parse::<u64>().ok()? / 1024)
            }),
        }
    }
}

/// `0-2,5` as a list.
fn cores(list: &str) -> Option<Vec<usize>> {
    let mut cores = Vec::new();
    for range in list.trim().split(',') {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        cores.extend(first.parse::<usize>().ok()?..=last.parse::<usize>().ok()?);
    }
    Some(cores)
}

impl Config {
    /// Checks what types cannot say; names the key to change. Pins and reserved memory are held against this machine.
    pub fn validate(&self) -> Result<(), ConfigError> {
        self.validate_on(&Machine::look())
    }

    pub(super) fn validate_on(&self, machine: &Machine) -> Checked {
        check(!self.cluster.id.is_empty(), || "cluster.id must not be empty".into())?;
        nodes(&self.cluster.nodes)?;
        let engine = self.engine()?;
        check(self.cluster.durability == Durability::Memory || engine.abilities().durable, || {
            format!(
                "cluster.durability is \"{}\", but engine {engine} keeps nothing on disks; use \"memory\"",
                self.cluster.durability.level()
            )
        })?;
        let behind = self.cluster.durability == Durability::Async;
        check(!behind || engine.abilities().disks_behind, || {
            format!(
                "cluster.durability is \"async\", which engine {engine} does not have; use \"sync\" or \"memory\""
            )
        })?;
        self.engines.iter().try_for_each(|(name, own)| own::check(name, own))?;
        self.auth.users().map_err(ConfigError)?;
        self.tls()?;
        self.admin_token()?;
        let odd = self.admin.hosts.iter().find(|host| {
            host.is_empty()
                || !host.bytes().all(|byte| byte.is_ascii_alphanumeric() || b".-_".contains(&byte))
        });
        check(odd.is_none(), || {
            format!(
                "admin.hosts has names without a port, e.g. \"db1.example\", not {:?}",
                odd.map_or("", String::as_str)
            )
        })?;
        check(!self.storage.dir.as_os_str().is_empty(), || "storage.dir must not be empty".into())?;
        let storage = &self.storage;
        check((1..=1 << 20).contains(&storage.checkpoint_mb), || {
            format!("storage.checkpoint_mb must be 1 to 1048576, not {}", storage.checkpoint_mb)
        })?;
        check((1..=100).contains(&storage.checkpoints_kept), || {
            format!("storage.checkpoints_kept must be 1 to 100, not {}", storage.checkpoints_kept)
        })?;
        check((1..=256).contains(&storage.checkpoint_threads), || {
            format!("storage.checkpoint_threads must be 1 to 256, not {}", storage.checkpoint_threads)
        })?;
        // The controller is one of the journal's writers.
        let has_disk = self.cluster.durability != Durability::Memory;
        check(!has_disk || self.cluster.workers < MAX_WRITERS, || {
            format!(
                "cluster.workers must be 1 to {} with disks, not {}",
                MAX_WRITERS - 1,
                self.cluster.workers
            )
        })?;
        check((1..=10_000).contains(&storage.async_window_ms), || {
            format!("storage.async_window_ms must be 1 to 10000, not {}", storage.async_window_ms)
        })?;
        let ids: Vec<String> = self.cluster.nodes.iter().map(|node| node.id.to_string()).collect();
        check(self.cluster.nodes.iter().any(|node| node.id == self.node), || {
            format!("node is {}, but cluster.nodes has the ids {}", self.node, ids.join(", "))
        })?;
        let fixed = !engine.abilities().members;
        check(!fixed || self.cluster.nodes.iter().zip(0..).all(|(node, at)| node.id == at), || {
            format!(
                "the members of engine {engine} are fixed: the ids in cluster.nodes must be 0, 1, 2, .. in order"
            )
        })?;
        for (key, ms) in [
            ("heartbeat_ms", self.timeouts.heartbeat_ms),
            ("election_timeout_ms", self.timeouts.election_timeout_ms),
        ] {
            check(ms <= MAX_TIMEOUT_MS, || {
                format!("timeouts.{key} is {ms}; it must be at most {MAX_TIMEOUT_MS}, an hour")
            })?;
        }
        check(self.limits.clients_per_worker > 0, || "limits.clients_per_worker must be above 0".into())?;
        check(self.limits.clients_per_worker < highwater_redis::host::token::MAX_SLOTS, || {
            format!("limits.clients_per_worker must be below {}", highwater_redis::host::token::MAX_SLOTS)
        })?;
        let limits = &self.limits;
        for (key, bytes) in [
            ("request_bytes_per_worker", limits.request_bytes_per_worker),
            ("reply_bytes_per_worker", limits.reply_bytes_per_worker),
        ] {
            check(bytes >= 1 << 20, || format!("limits.{key} must be at least 1048576"))?;
        }
        for (key, seconds) in
            [("idle_timeout_s", limits.idle_timeout_s), ("stuck_timeout_s", limits.stuck_timeout_s)]
        {
            // The kernel takes the time in milliseconds and 32 bits.
            check(seconds <= 86_400 * 24, || {
                format!("limits.{key} must be at most 24 days (2073600), or 0 for never")
            })?;
        }
        check((1..=1 << 40).contains(&limits.sessions), || "limits.sessions must be 1 to 2^40".into())?;
        check((1..=1 << 40).contains(&limits.sessions_per_user), || {
            "limits.sessions_per_user must be 1 to 2^40".into()
        })?;
        check((1..=86_400 * 366).contains(&limits.session_idle_s), || {
            "limits.session_idle_s must be 1 to 366 days (31622400)".into()
        })?;
        check(limits.script_instructions <= 1 << 50, || {
            "limits.script_instructions must be at most 2^50, or 0 for no bound".into()
        })?;
        check((1..=4096).contains(&limits.script_memory_mb), || {
            "limits.script_memory_mb must be 1 to 4096".into()
        })?;
        check(limits.procedure_fuel <= 1 << 50, || {
            "limits.procedure_fuel must be at most 2^50, or 0 for no bound".into()
        })?;
        check((1..=1024).contains(&limits.procedure_memory_mb), || {
            "limits.procedure_memory_mb must be 1 to 1024".into()
        })?;
        check(self.limits.send_queue_bytes >= self.batching.max_entry_bytes, || {
            "limits.send_queue_bytes must be at least batching.max_entry_bytes".into()
        })?;
        self.pins(machine)?;
        self.reserve(machine)?;
        log_level(&self.log)?;
        self.engine()?;
        // What is set, and what of it this node has memory for.
        let explained = |why| ConfigError(format!("{why}; `highwater config default` explains each setting"));
        self.asked(Incarnation(0)).validate().map_err(explained)?;
        self.options(Incarnation(0)).validate().map_err(explained)
    }

    /// Listed cores exist, and each has one worker: two on one core take turns while another core may idle, and whoever
    /// wants that on a small machine says `"auto"`, which begins again at core 0 when it has no more.
    fn pins(&self, machine: &Machine) -> Checked {
        let Pin::Cores(pins) = &self.threads.pin else { return Ok(()) };
        let (listed, workers) = (pins.len(), self.cluster.workers);
        check(listed == workers as usize, || {
            format!("threads.pin lists {listed} cores for {workers} workers; list one per worker")
        })?;
        for (at, core) in pins.iter().enumerate() {
            check(!pins[..at].contains(core), || {
                format!(
                    "threads.pin lists core {core} twice; list different cores, or say \"auto\" to share them"
                )
            })?;
            if let Some(cores) = &machine.cores {
                check(cores.contains(core), || {
                    format!("threads.pin lists core {core}, but this machine has the cores {}", ranges(cores))
                })?;
            }
        }
        Ok(())
    }

    /// The files of doors that speak TLS.
    fn tls(&self) -> Checked {
        let tls = &self.tls;
        if !tls.is_used() {
            return Ok(());
        }
        let named = |key: &str, file: &Path, what: &str| {
            check(!file.as_os_str().is_empty(), || {
                format!("{what}, but {key} names no file; `highwater cert` makes some for trials")
            })
        };
        if tls.resp || tls.admin {
            let what = "tls.resp or tls.admin is true";
            named("tls.certificate", &tls.certificate, what)?;
            named("tls.key", &tls.key, what)?;
        }
        if tls.peer != PeerTls::Off {
            let what = "tls.peer is not \"off\"";
            for (key, own, common) in [
                ("tls.ca or tls.peer_ca", &tls.peer_ca, &tls.ca),
                ("tls.certificate or tls.peer_certificate", &tls.peer_certificate, &tls.certificate),
                ("tls.key or tls.peer_key", &tls.peer_key, &tls.key),
            ] {
                named(key, if own.as_os_str().is_empty() { common } else { own }, what)?;
            }
            check(
                tls.peer_certificate.as_os_str().is_empty() == tls.peer_key.as_os_str().is_empty(),
                || "tls.peer_certificate and tls.peer_key belong together: name both or neither".into(),
            )?;
        }
        check(tls.client_auth == ClientAuth::Off || !tls.ca.as_os_str().is_empty(), || {
            "tls.client_auth asks for certificates, but tls.ca does not say whose; name a file of authorities"
                .into()
        })?;
        Keys::load(self).map(drop).map_err(|why| ConfigError(format!("tls: {why}")))
    }

    /// Refuses doors that others reach and that have no lock.
    ///
    /// # Errors
    /// Which door, and what to do.
    pub fn check_doors(&self) -> Result<(), ConfigError> {
        if self.security.open {
            return Ok(());
        }
        let certified = self.tls.client_auth == ClientAuth::Required;
        let users = !self.auth.password.is_empty() || !self.auth.users_file.as_os_str().is_empty();
        let token = !self.admin.token.0.is_empty() || !self.admin.token_file.as_os_str().is_empty();
        let node = self.this_node();
        let doors = [
            ("resp", &node.resp, users || self.tls.resp && certified, RESP_LOCK),
            ("admin", &node.admin, token || self.tls.admin && certified, ADMIN_LOCK),
            ("peer", &node.peer, self.tls.peer == PeerTls::Required, PEER_LOCK),
        ];
        for (name, address, locked, lock) in doors {
            let near = parse(address).is_some_and(|(host, _)| loopback(&host));
            check(near || locked, || {
                format!(
                    "the {name} address of node {} is {address}, which others can reach, and that door has no lock: {lock}; or listen \
                     at a loopback address; or set security.open = true if nobody else is on that network (docs/security.md)",
                    self.node
                )
            })?;
        }
        Ok(())
    }

    fn reserve(&self, machine: &Machine) -> Checked {
        let (asked, most) = (self.limits.memory_mb, machine.memory_mb.unwrap_or(u64::MAX >> 20));
        check(asked <= most, || {
            format!(
                "limits.memory_mb is {asked}, but this machine has {most} MiB; allow less, or 0 for three quarters of what there is"
            )
        })?;
        let asked = self.store.reserve_mb;
        check(asked <= most, || {
            format!("store.reserve_mb is {asked}, but this machine has {most} MiB; reserve less, or 0")
        })?;
        let options = self.options(Incarnation(0));
        let most = options.shares().map_or(0, |shares| shares.store) >> 20;
        check(asked <= most, || {
            format!(
                "store.reserve_mb is {asked}, but of the memory that the node may use {most} MiB are for data; reserve less, or raise limits.memory_mb"
            )
        })
    }
}

/// The cluster's list: ids in order, addresses that can be found, and no door that is somebody else's, too.
fn nodes(nodes: &[NodeConfig]) -> Checked {
    check((1..=usize::from(highwater_core::limits::MAX_NODES)).contains(&nodes.len()), || {
        "cluster.nodes must list 1 to 31 nodes".into()
    })?;
    let mut doors: Vec<Door<'_>> = Vec::new();
    check(nodes.len() > 1 || nodes[0].id == 0, || {
        format!(
            "cluster.nodes lists nobody but node {}; a node that joins lists the members, too",
            nodes[0].id
        )
    })?;
    for (at, node) in nodes.iter().enumerate() {
        let found = node.id;
        check(at == 0 || nodes[at - 1].id < found, || {
            format!("cluster.nodes[{at}].id is {found}; each id must be greater than the one before")
        })?;
        check(found <= highwater_core::limits::MAX_NODE_ID, || {
            format!("cluster.nodes[{at}].id is {found}; ids go up to {}", highwater_core::limits::MAX_NODE_ID)
        })?;
        let addresses = [("peer", &node.peer), ("resp", &node.resp), ("admin", &node.admin)];
        let mut own = Vec::new();
        for (name, address) in addresses {
            let (host, port) = parse(address).ok_or_else(|| {
                ConfigError(format!(
                    "cluster.nodes[{at}].{name} is {address:?}; it must be host:port, the host an IP address (IPv6 in brackets) or a name"
                ))
            })?;
            own.push(Door { node: at, name, address, host, port, machine: String::new() });
        }
        if let Some(announce) = &node.announce {
            check(parse(announce).is_some_and(|(host, port)| port != 0 && !unspecified(&host)), || {
                format!(
                    "cluster.nodes[{at}].announce is {announce:?}; it must be host:port as clients reach this node, or be left out"
                )
            })?;
        }
        let machine = own[0].host.clone();
        own.iter_mut().for_each(|door| door.machine.clone_from(&machine));
        if nodes.len() > 1 {
            check(own[0].port != 0, || {
                format!("cluster.nodes[{at}].peer has port 0, so nobody could find it; name a port")
            })?;
            check(!unspecified(&machine), || {
                format!(
                    "cluster.nodes[{at}].peer is {:?}, so nobody could find it; name an address of its machine",
                    node.peer
                )
            })?;
        }
        for door in own {
            if let Some(other) = doors.iter().find(|other| door.clashes(other)) {
                return Err(ConfigError(format!(
                    "cluster.nodes[{}].{} and cluster.nodes[{}].{} are both {}; each needs an address of its own",
                    other.node, other.name, door.node, door.name, door.address
                )));
            }
            doors.push(door);
        }
    }
    Ok(())
}

/// One listening address.
struct Door<'a> {
    node: usize,
    name: &'static str,
    address: &'a str,
    /// Lower case; `localhost` is 127.0.0.1.
    host: String,
    port: u16,
    /// The host of its node's peer address: nodes that share it share a machine.
    machine: String,
}

impl Door<'_> {
    /// Whether both cannot be listened on. Every machine has a loopback of its own, and every address of itself.
    fn clashes(&self, other: &Door<'_>) -> bool {
        let same_machine = self.node == other.node || self.machine == other.machine;
        let (any, others_any) = (unspecified(&self.host), unspecified(&other.host));
        let same_host = match self.host == other.host {
            true => same_machine || !(any || loopback(&self.host)),
            false => same_machine && (any || others_any),
        };
        self.port != 0 && self.port == other.port && same_host
    }
}

fn unspecified(host: &str) -> bool {
    host.parse::<IpAddr>().is_ok_and(|ip| ip.is_unspecified())
}

fn loopback(host: &str) -> bool {
    host.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback())
}

/// `host:port` taken apart, without asking any resolver.
fn parse(address: &str) -> Option<(String, u16)> {
    let (host, port) = address.rsplit_once(':')?;
    let bracketed = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
    let well_formed = match bracketed {
        Some(host) => host.parse::<std::net::Ipv6Addr>().is_ok(),
        None => !host.is_empty() && !host.contains(|c: char| c.is_whitespace() || ":/@[]?#".contains(c)),
    };
    let host = bracketed.unwrap_or(host).to_lowercase();
    let host = if host == "localhost" { Ipv4Addr::LOCALHOST.to_string() } else { host };
    well_formed.then_some((host, port.parse().ok()?))
}

/// A word that is no level would be taken for the name of a module, and silence all others.
fn log_level(log: &LogConfig) -> Checked {
    let bad = |why: String| {
        ConfigError(format!(
            "log.level is {:?}: {why}; write error, warn, info, debug, trace or off, or a filter such as \"info,highwater_node=debug\"",
            log.level
        ))
    };
    if log.level.trim().is_empty() {
        return Err(bad("it is empty".into()));
    }
    for word in log.level.split(',').map(str::trim) {
        let (part, level) = word.rsplit_once('=').unwrap_or(("", word));
        if part.contains(['[', ']', '=']) {
            return Err(bad(format!("{part:?} is no part of the program")));
        }
        // An empty one would be read as "error", and another word alone as the name of a part with all its lines.
        if level.is_empty() || level.parse::<LevelFilter>().is_err() {
            return Err(bad(format!("{level:?} is no level")));
        }
    }
    log.level.parse::<Targets>().map(drop).map_err(|error| bad(error.to_string()))
}

/// `0-2,5`.
fn ranges(cores: &[usize]) -> String {
    let mut ranges: Vec<(usize, usize)> = Vec::new();
    for core in cores {
        match ranges.last_mut() {
            Some((_, last)) if *last + 1 == *core => *last = *core,
            _ => ranges.push((*core, *core)),
        }
    }
    let range = |(first, last): (usize, usize)| {
        if first == last { first.to_string() } else { format!("{first}-{last}") }
    };
    ranges.into_iter().map(range).collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::PinPolicy;

    const SMALL: fn() -> Machine = || Machine { cores: Some(vec![0, 1, 2, 5]), memory_mb: Some(4096) };

    fn with(change: impl FnOnce(&mut Config)) -> Result<(), String> {
        let mut config = Config::default();
        change(&mut config);
        config.validate_on(&SMALL()).map_err(|error| error.0)
    }

    fn refused(change: impl FnOnce(&mut Config)) -> String {
        let why = with(change).unwrap_err();
        assert!(!why.contains('\n'), "{why}");
        why
    }

    /// A cluster of nodes with these addresses: peer, resp, admin.
    fn cluster(addresses: &[[&str; 3]]) -> Result<(), String> {
        with(|config| {
            let node = |(id, [peer, resp, admin]): (usize, &[&str; 3])| NodeConfig {
                id: id as u8,
                peer: peer.to_string(),
                resp: resp.to_string(),
                admin: admin.to_string(),
                announce: None,
            };
            config.cluster.nodes = addresses.iter().enumerate().map(node).collect();
        })
    }

    #[test]
    fn every_door_needs_an_address_of_its_own() {
        let twice = |addresses: &[[&str; 3]]| {
            let why = cluster(addresses).unwrap_err();
            assert!(why.contains("each needs an address of its own"), "{why}");
        };
        twice(&[["a:1", "a:1", "a:1"]]);
        twice(&[["a:1", "a:2", "a:1"]]);
        twice(&[["127.0.0.1:1", "LOCALHOST:1", "a:2"]]);
        twice(&[["0.0.0.0:1", "127.0.0.1:1", "a:2"]]);
        twice(&[["[::1]:1", "[::]:1", "a:2"]]);
        twice(&[["a:1", "a:2", "a:3"], ["a:1", "a:4", "a:5"]]);
        twice(&[["a:1", "a:2", "a:3"], ["b:1", "a:2", "b:3"]]);
        twice(&[["a:1", "a:2", "127.0.0.1:3"], ["a:4", "a:5", "127.0.0.1:3"]]);
        twice(&[["a:1", "0.0.0.0:2", "a:3"], ["a:4", "127.0.0.1:2", "a:5"]]);
    }

    #[test]
    fn machines_have_loopbacks_of_their_own() {
        cluster(&[["10.0.0.1:1", "10.0.0.1:2", "127.0.0.1:3"], ["10.0.0.2:1", "10.0.0.2:2", "127.0.0.1:3"]])
            .unwrap();
        cluster(&[["a:1", "0.0.0.0:2", "localhost:3"], ["b:1", "0.0.0.0:2", "localhost:3"]]).unwrap();
        // Any free port, three times.
        cluster(&[["127.0.0.1:0", "127.0.0.1:0", "127.0.0.1:0"]]).unwrap();
        // One port on different addresses of one machine.
        cluster(&[["10.0.0.1:1", "10.0.0.2:1", "127.0.0.1:1"]]).unwrap();
    }

    #[test]
    fn addresses_are_host_and_port() {
        for bad in ["a", "a:", ":1", "a:65536", "http://a:1", "a b:1", "::1:7", "[::1]", "[a]:1", "a:-1"] {
            let why = cluster(&[[bad, "a:2", "a:3"]]).unwrap_err();
            assert!(why.contains("must be host:port") && why.contains("nodes[0].peer"), "{bad}: {why}");
        }
        cluster(&[["[fe80::1]:1", "node-1.example.org:2", "localhost:3"]]).unwrap();
        let nowhere = cluster(&[["0.0.0.0:1", "a:2", "a:3"], ["b:1", "b:2", "b:3"]]).unwrap_err();
        assert!(nowhere.contains("nobody could find it"), "{nowhere}");
        let nowhere = cluster(&[["a:0", "a:2", "a:3"], ["b:1", "b:2", "b:3"]]).unwrap_err();
        assert!(nowhere.contains("has port 0"), "{nowhere}");
    }

    #[test]
    fn pins_are_cores_that_exist_once_each() {
        let pin = |cores: &[usize]| {
            let cores = cores.to_vec();
            with(|config| config.threads.pin = Pin::Cores(cores))
        };
        pin(&[5, 0]).unwrap();
        assert!(pin(&[0, 3]).unwrap_err().contains("core 3, but this machine has the cores 0-2,5"));
        assert!(pin(&[1, 1]).unwrap_err().contains("core 1 twice"));
        assert!(pin(&[0]).unwrap_err().contains("1 cores for 2 workers"));
        with(|config| (config.cluster.workers, config.threads.pin) = (9, Pin::Policy(PinPolicy::Auto)))
            .unwrap();
        assert_eq!(cores("0-2,5\n"), Some(vec![0, 1, 2, 5]));
        assert!(
            Machine::look().cores.is_some_and(|cores| !cores.is_empty()),
            "Linux says which cores there are"
        );
    }

    /// Once: `store.reserve_mb` beyond the node's budget was taken.
    #[test]
    fn reserved_memory_is_memory_that_is_there() {
        let within = |reserve_mb: u64| {
            with(|config| (config.limits.memory_mb, config.store.reserve_mb) = (3000, reserve_mb))
        };
        within(1000).unwrap();
        let why = within(2900).unwrap_err();
        assert!(why.contains("MiB are for data") && why.contains("limits.memory_mb"), "{why}");
        for mb in [4097, 1 << 44, u64::MAX] {
            let why = refused(|config| config.store.reserve_mb = mb);
            assert!(why.contains("store.reserve_mb") && why.contains("4096 MiB"), "{why}");
        }
        let mut config = Config::default();
        config.store.reserve_mb = 1 << 44;
        // Where nobody says how much there is, it must at least be a number of bytes.
        assert!(config.validate_on(&Machine { cores: None, memory_mb: None }).is_err());
        assert!(Machine::look().memory_mb.is_some_and(|mb| mb > 64), "Linux says how much memory there is");
    }

    #[test]
    fn a_word_that_is_no_level_is_refused() {
        for good in ["info", "WARN", "off", "info,highwater_node=debug", "highwater_node=trace"] {
            with(|config| config.log.level = good.into()).expect(good);
        }
        for bad in [
            "loud",
            "infos",
            "",
            " ",
            "info,",
            "info,highwater_node",
            "highwater_node=loud",
            "a=b=c",
            "[turn]=debug",
        ] {
            let why = refused(|config| config.log.level = bad.into());
            assert!(why.contains("log.level") && why.contains("write error, warn"), "{why}");
        }
    }

    #[test]
    fn timeouts_fit_their_clock() {
        let why = refused(|config| config.timeouts.election_timeout_ms = u64::MAX);
        assert!(why.contains("timeouts.election_timeout_ms") && why.contains("at most 3600000"), "{why}");
        let why = refused(|config| config.timeouts.heartbeat_ms = i64::MAX as u64);
        assert!(why.contains("timeouts.heartbeat_ms"), "{why}");
    }
}
