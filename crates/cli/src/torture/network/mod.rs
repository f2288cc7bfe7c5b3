//! What is between the replicas, and how it is broken.
//!
//! | means | cut | slow, connections lost |
//! |---|---|---|
//! | network namespaces (root only) | blackhole routes, pulled cables | some pairs, drawn from the seed, go through the proxy |
//! | proxy | bytes wait, each direction by itself | all pairs go through the proxy |
//!
//! Behind the proxy a cut loses no bytes: they arrive late, when it is mended. In namespaces they are lost, and TCP
//! repeats or gives up.

mod namespaces;
mod proxies;
pub mod pump;

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use clap::ValueEnum;
use highwater_node::config::NodeConfig;
use highwater_workloads::random::Rng;
use serde::Serialize;

use crate::failure::Result;
use crate::layout::Layout;
use namespaces::Namespaces;
use proxies::Proxies;
pub use proxies::Weather;

const PEER_PORT: u16 = 7100;
const RESP_PORT: u16 = 7200;
const ADMIN_PORT: u16 = 7300;

/// Clients and the director, as the far end of a cut; only with [`Network::has_cables`].
pub const OUTSIDE: usize = usize::MAX;

/// How links are broken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Means {
    /// Namespaces if this machine lets us, else the proxy.
    Auto,
    /// Network namespaces, for which one must be root.
    Namespaces,
    /// The proxy alone.
    Proxy,
}

/// The network of a run. Dropped after the fleet.
#[derive(Debug)]
pub struct Network {
    // Before the namespaces: it listens there.
    proxies: Option<Proxies>,
    namespaces: Option<Namespaces>,
    nodes: Vec<NodeConfig>,
    /// The link in the proxy of a pair (dialer, dialed); the higher id dials.
    links: BTreeMap<(usize, usize), usize>,
    /// How many faults cut a direction at the moment.
    cuts: BTreeMap<(usize, usize), u32>,
    /// How many faults pulled a replica's cable.
    unplugged: Vec<u32>,
}

impl Network {
    /// Sets the network up. `proxied`: faults that need the proxy will come.
    pub fn set_up(means: Means, replicas: usize, proxied: bool, rng: &mut Rng) -> Result<Network> {
        let pairs: Vec<_> =
            (0..replicas).flat_map(|dialer| (0..dialer).map(move |to| (dialer, to))).collect();
        let some: Vec<_> = pairs.iter().copied().filter(|_| rng.percent(60)).collect();
        let some = if !proxied {
            Vec::new()
        } else if some.is_empty() {
            pairs.clone()
        } else {
            some
        };
        let namespaces = match means {
            Means::Proxy => None,
            Means::Namespaces => Some(Namespaces::create(replicas, some.len())?),
            Means::Auto => match Namespaces::create(replicas, some.len()) {
                Ok(namespaces) => Some(namespaces),
                Err(failure) => {
                    eprintln!(
                        "highwater: no network namespaces here ({failure}); links go through the proxy"
                    );
                    None
                }
            },
        };
        let nodes = match &namespaces {
            Some(namespaces) => addresses(namespaces, replicas),
            None => Layout::loopback(replicas as u8)?.views.swap_remove(0),
        };
        let linked = if namespaces.is_some() { some } else { pairs };
        let unplugged = vec![0; replicas];
        let mut network = Network {
            proxies: None,
            namespaces,
            nodes,
            links: BTreeMap::new(),
            cuts: BTreeMap::new(),
            unplugged,
        };
        network.start_proxies(&linked)?;
        Ok(network)
    }

    fn start_proxies(&mut self, linked: &[(usize, usize)]) -> Result<()> {
        let ends: Vec<_> = linked
            .iter()
            .enumerate()
            .map(|(link, &(_, to))| {
                let (host, port) = match &self.namespaces {
                    Some(namespaces) => (namespaces.proxy(link), PEER_PORT),
                    None => (Ipv4Addr::LOCALHOST, 0),
                };
                (SocketAddr::new(IpAddr::V4(host), port), self.peer(to))
            })
            .collect();
        self.links = linked.iter().enumerate().map(|(link, pair)| (*pair, link)).collect();
        if !ends.is_empty() {
            self.proxies = Some(Proxies::start(&ends)?);
        }
        Ok(())
    }

    /// Where the replicas run, and what each is told of the others.
    pub fn layout(&self) -> Layout {
        let view = |of: usize| {
            let seen = |to: usize| {
                let mut node = self.nodes[to].clone();
                if let (Some(link), Some(proxies)) = (self.links.get(&(of, to)), &self.proxies) {
                    node.peer = proxies.listeners[*link].to_string();
                }
                node
            };
            (0..self.nodes.len()).map(seen).collect()
        };
        let command = |node: usize| match &self.namespaces {
            Some(namespaces) => vec!["torture-node".into(), "--namespace".into(), namespaces.file(node)],
            None => vec!["torture-node".into()],
        };
        let nodes = 0..self.nodes.len();
        Layout { views: nodes.clone().map(view).collect(), commands: nodes.map(command).collect() }
    }

    /// Where clients knock.
    pub fn doors(&self) -> Vec<SocketAddr> {
        let door = |node: &NodeConfig| node.resp.parse().expect("this module wrote the address");
        self.nodes.iter().map(door).collect()
    }

    /// In words, for the report.
    pub fn describe(&self) -> String {
        let pairs = self.nodes.len() * (self.nodes.len() - 1) / 2;
        match &self.namespaces {
            Some(_) => format!(
                "network namespaces; {} of {pairs} pairs of replicas through the proxy",
                self.links.len()
            ),
            None => "the proxy (no network namespaces)".into(),
        }
    }

    /// Whether cables can be pulled and clients be cut off.
    pub fn has_cables(&self) -> bool {
        self.namespaces.is_some()
    }

    /// The pairs that can be slowed down or reset.
    pub fn slow_pairs(&self) -> Vec<(usize, usize)> {
        self.links.keys().copied().collect()
    }

    /// Nothing from `from` reaches `to` (or [`OUTSIDE`]) any more. As often as it is cut, it must be mended.
    pub fn cut(&mut self, from: usize, to: usize) -> Result<()> {
        let cuts = self.cuts.entry((from, to)).or_default();
        *cuts += 1;
        if *cuts == 1 { self.flow(from, to, false) } else { Ok(()) }
    }

    /// Takes one cut back.
    pub fn mend(&mut self, from: usize, to: usize) -> Result<()> {
        let cuts = self.cuts.get_mut(&(from, to)).expect("what is mended was cut");
        *cuts -= 1;
        if *cuts == 0 { self.flow(from, to, true) } else { Ok(()) }
    }

    fn flow(&mut self, from: usize, to: usize, passes: bool) -> Result<()> {
        if to == OUTSIDE {
            let namespaces = self.namespaces.as_ref();
            return namespaces.map_or(Ok(()), |spaces| spaces.blackhole(from, spaces.outside(), !passes));
        }
        let (dialer, dialed) = (from.max(to), from.min(to));
        let link = self.links.get(&(dialer, dialed)).copied();
        match (&self.namespaces, &mut self.proxies, link) {
            (Some(namespaces), _, Some(link)) => {
                namespaces.blackhole(from, namespaces.proxy(link), !passes)?;
                // Knocks go straight.
                namespaces.blackhole(from, namespaces.replica(to), !passes)
            }
            (Some(namespaces), _, None) => namespaces.blackhole(from, namespaces.replica(to), !passes),
            (None, Some(proxies), Some(link)) => proxies.flow(link, from == dialer, passes),
            (None, ..) => unreachable!("without namespaces every pair is proxied"),
        }
    }

    /// Pulls a replica's cable: no peer, client or operator hears of it.
    pub fn unplug(&mut self, node: usize) -> Result<()> {
        self.unplugged[node] += 1;
        self.namespaces.as_ref().map_or(Ok(()), |namespaces| namespaces.plug(node, false))
    }

    /// Plugs it in again, if nobody else pulled it, too.
    pub fn plug(&mut self, node: usize) -> Result<()> {
        self.unplugged[node] -= 1;
        match &self.namespaces {
            Some(namespaces) if self.unplugged[node] == 0 => namespaces.plug(node, true),
            _ => Ok(()),
        }
    }

    /// Changes the weather between two replicas of [`slow_pairs`](Network::slow_pairs).
    pub fn weather(&mut self, pair: (usize, usize), weather: Weather) -> Result<()> {
        let link = self.links[&pair];
        self.proxies.as_mut().expect("a link is in the proxy").weather(link, weather)
    }

    /// Breaks all connections between two replicas of [`slow_pairs`](Network::slow_pairs).
    pub fn reset(&mut self, pair: (usize, usize)) -> Result<()> {
        let link = self.links[&pair];
        self.proxies.as_mut().expect("a link is in the proxy").reset(link)
    }

    /// One end of all connections between two replicas of [`slow_pairs`](Network::slow_pairs) is gone (`near`: of who dialed);
    /// the other one is held, and its owner not told.
    pub fn forget(&mut self, pair: (usize, usize), near: bool) -> Result<()> {
        let link = self.links[&pair];
        self.proxies.as_mut().expect("a link is in the proxy").forget(link, near)
    }

    fn peer(&self, node: usize) -> SocketAddr {
        self.nodes[node].peer.parse().expect("this module wrote the address")
    }
}

fn addresses(namespaces: &Namespaces, replicas: usize) -> Vec<NodeConfig> {
    let node = |node: usize| {
        let host = namespaces.replica(node);
        NodeConfig {
            id: node as u8,
            peer: format!("{host}:{PEER_PORT}"),
            resp: format!("{host}:{RESP_PORT}"),
            admin: format!("{host}:{ADMIN_PORT}"),
            announce: None,
        }
    };
    (0..replicas).map(node).collect()
}
