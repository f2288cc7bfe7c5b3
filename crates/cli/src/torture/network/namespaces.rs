//! Each replica in a network namespace of its own, on one bridge: links that really go down, packets that really vanish.
//!
//! ```text
//! hwtPIDb   bridge   198.18.X.1/24          clients, the director and the proxies live outside
//! hwtPIDnI  namespace, eth0 198.18.X.10+I   joined by the pair hwtPIDvI -- eth0
//! ```
//!
//! A one-way cut is a blackhole route in the sender's namespace. Names carry this process's id, so that the leftovers of
//! a run that was killed can be told from those of one that lives.

use std::fs;
use std::net::{Ipv4Addr, UdpSocket};
use std::path::Path;
use std::process::{Command, Stdio};

use crate::failure::{Failure, Result};
use crate::interrupt;

const PREFIX: &str = "hwt";
/// Where `ip netns` keeps its names.
const NAMES: &str = "/var/run/netns";
/// Replicas' addresses end in this and what follows.
const FIRST_REPLICA: u8 = 10;
/// Proxies' addresses end in this and what follows.
const FIRST_PROXY: u8 = 100;

/// The namespaces of a run; gone when dropped.
#[derive(Debug)]
pub struct Namespaces {
    replicas: usize,
    /// 198.18.0.0/15 is set aside for tests of networks: nobody is reached by accident.
    subnet: [u8; 3],
}

impl Namespaces {
    /// Creates them, with an address outside for each of `proxies`.
    pub fn create(replicas: usize, proxies: usize) -> Result<Namespaces> {
        remove_stale();
        let names = Namespaces { replicas, subnet: free_subnet()? };
        interrupt::at_the_end(remove_own);
        let bridge = own("b");
        ip(&["link", "add", &bridge, "type", "bridge"])?;
        ip(&["addr", "add", &format!("{}/24", names.outside()), "dev", &bridge])?;
        for proxy in 0..proxies {
            ip(&["addr", "add", &format!("{}/32", names.proxy(proxy)), "dev", &bridge])?;
        }
        ip(&["link", "set", &bridge, "up"])?;
        for node in 0..replicas {
            let (namespace, cable) = (names.name(node), names.cable(node));
            ip(&["netns", "add", &namespace])?;
            ip(&["link", "add", &cable, "type", "veth", "peer", "name", "eth0", "netns", &namespace])?;
            ip(&["link", "set", &cable, "master", &bridge, "up"])?;
            ip(&["-n", &namespace, "link", "set", "lo", "up"])?;
            ip(&["-n", &namespace, "addr", "add", &format!("{}/24", names.replica(node)), "dev", "eth0"])?;
            ip(&["-n", &namespace, "link", "set", "eth0", "up"])?;
        }
        Ok(names)
    }

    /// The file that stands for a replica's namespace.
    pub fn file(&self, node: usize) -> String {
        format!("{NAMES}/{}", self.name(node))
    }

    /// Where clients and the director are.
    pub fn outside(&self) -> Ipv4Addr {
        self.address(1)
    }

    /// A replica's address.
    pub fn replica(&self, node: usize) -> Ipv4Addr {
        self.address(FIRST_REPLICA + node as u8)
    }

    /// A proxy's address.
    pub fn proxy(&self, proxy: usize) -> Ipv4Addr {
        self.address(FIRST_PROXY + proxy as u8)
    }

    /// Whatever this replica sends to that address vanishes, or does no longer.
    pub fn blackhole(&self, node: usize, to: Ipv4Addr, vanishes: bool) -> Result<()> {
        let change = if vanishes { "replace" } else { "del" };
        ip(&["-n", &self.name(node), "route", change, "blackhole", &format!("{to}/32")])
    }

    /// Pulls a replica's cable, or plugs it in again.
    pub fn plug(&self, node: usize, plugged: bool) -> Result<()> {
        ip(&["link", "set", &self.cable(node), if plugged { "up" } else { "down" }])
    }

    fn address(&self, last: u8) -> Ipv4Addr {
        let [a, b, c] = self.subnet;
        Ipv4Addr::new(a, b, c, last)
    }

    fn name(&self, node: usize) -> String {
        own(&format!("n{node}"))
    }

    fn cable(&self, node: usize) -> String {
        own(&format!("v{node}"))
    }
}

impl Drop for Namespaces {
    fn drop(&mut self) {
        debug_assert!(self.replicas > 0);
        remove_own();
    }
}

/// A name of this run.
fn own(what: &str) -> String {
    format!("{PREFIX}{}{what}", std::process::id())
}

/// Removes what this run created; what is gone already is as good.
fn remove_own() {
    let run = format!("{PREFIX}{}", std::process::id());
    leftovers(|name| name.strip_prefix(&run).is_some_and(|rest| rest.starts_with(['b', 'n', 'v'])));
}

/// Removes what runs left behind that were killed, and says so.
fn remove_stale() {
    let removed = leftovers(|name| {
        let Some(rest) = name.strip_prefix(PREFIX) else { return false };
        let digits =
            rest.trim_end_matches(|last: char| last.is_ascii_digit()).trim_end_matches(['b', 'n', 'v']);
        !digits.is_empty()
            && digits.bytes().all(|byte| byte.is_ascii_digit())
            && !Path::new("/proc").join(digits).exists()
    });
    if !removed.is_empty() {
        eprintln!("highwater: removed the leftovers of a killed run: {}", removed.join(", "));
    }
}

fn leftovers(ours: impl Fn(&str) -> bool) -> Vec<String> {
    let names = |directory: &str| -> Vec<String> {
        let entries = fs::read_dir(directory).into_iter().flatten().flatten();
        entries.filter_map(|entry| entry.file_name().into_string().ok()).filter(|name| ours(name)).collect()
    };
    let mut removed = Vec::new();
    for name in names(NAMES) {
        if ip(&["netns", "del", &name]).is_ok() {
            removed.push(name);
        }
    }
    for name in names("/sys/class/net") {
        // Half of a pair goes with the other half.
        if ip(&["link", "del", &name]).is_ok() {
            removed.push(name);
        }
    }
    removed
}

/// A /24 that this machine has no address in.
fn free_subnet() -> Result<[u8; 3]> {
    let first = std::process::id();
    for attempt in 0..512 {
        let number = (first + attempt) % 512;
        let subnet = [198, 18 + (number / 256) as u8, (number % 256) as u8];
        let [a, b, c] = subnet;
        let taken = UdpSocket::bind((Ipv4Addr::new(a, b, c, 1), 0)).is_ok();
        if !taken {
            return Ok(subnet);
        }
    }
    Err(Failure::cannot_start("no free network in 198.18.0.0/15"))
}

fn ip(words: &[&str]) -> Result<()> {
    let mut command = Command::new("ip");
    let output = command.args(words).stdin(Stdio::null()).output();
    let cannot = |why: String| Failure::cannot_start(format!("ip {}: {why}", words.join(" ")));
    let output = output.map_err(|error| cannot(error.to_string()))?;
    if output.status.success() {
        return Ok(());
    }
    Err(cannot(String::from_utf8_lossy(&output.stderr).into_owned()))
}
