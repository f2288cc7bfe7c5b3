//! The cluster as Redis's clients want to hear of it: one shard with all slots, whose master is whoever serves; and the same as
//! sentinels would tell it.

use std::net::SocketAddr;

use highwater_core::NodeId;
use highwater_seam::Service;

use super::Door;

/// Who belongs to the cluster, and where clients find them.
#[derive(Clone, Debug, Default)]
pub struct Topology {
    /// The cluster's name.
    pub cluster: String,
    /// All nodes, by id.
    pub members: Vec<Member>,
}

/// One node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    pub node: NodeId,
    /// Where clients connect.
    pub host: String,
    /// The same.
    pub port: u16,
    /// Where other nodes connect.
    pub peer_port: u16,
    /// It is this node, or one that this node has a connection to.
    pub up: bool,
}

impl Member {
    /// `host:port`, an IPv6 address in brackets: what Redis's sentinels call a replica.
    pub fn address(&self) -> String {
        match self.host.contains(':') {
            true => format!("[{}]:{}", self.host, self.port),
            false => self.bare_address(),
        }
    }

    /// The same without brackets, as a Redis cluster writes addresses: its clients take the last colon.
    pub fn bare_address(&self) -> String {
        format!("{}:{}", self.host, self.port)
    }
}

/// An address with or without brackets as a Redis cluster writes it, without.
pub fn bare(address: &str) -> String {
    let (host, port) = apart(address);
    format!("{host}:{port}")
}

/// The address of a socket that a `MOVED` or a `NOTLEADER` names, if it is one of numbers.
pub fn socket_address(address: &str) -> Option<SocketAddr> {
    let (host, port) = address.rsplit_once(':')?;
    let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    Some(SocketAddr::new(host.parse().ok()?, port.parse().ok()?))
}

/// Takes `host:port` apart, without the brackets around an IPv6 address, as Redis tells it.
pub fn apart(address: &str) -> (String, u16) {
    let (host, port) = address.rsplit_once(':').unwrap_or((address, "0"));
    let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    (host.to_string(), port.parse().unwrap_or(0))
}

/// The topology at one moment, with who has the slots.
pub struct Shape {
    /// Who belongs.
    pub topology: Topology,
    /// Who serves, as far as this node knows.
    pub serving: Option<NodeId>,
    /// Who is told to have the slots. Where nobody is known to serve that is this node, which then tells whoever asks that the cluster is
    /// down: clients try again on that, and lose sight of no node meanwhile.
    pub holder: NodeId,
    pub epoch: u64,
}

impl Shape {
    /// As this node sees it now.
    pub fn of(door: &Door) -> Shape {
        let now = (door.describe)();
        let topology = (door.topology)();
        let known = |node: &NodeId| topology.members.iter().any(|member| member.node == *node);
        // A node that leads knows nobody else, and if it is stalled nobody at all who serves.
        let serving = match now.service {
            Service::Serving => Some(door.node),
            Service::Stalled => None,
            _ => now.ask.filter(known),
        };
        Shape { topology, serving, holder: serving.unwrap_or(door.node), epoch: now.epoch.0 }
    }

    /// Who has the slots, if it belongs: a node that was removed may still tell.
    pub fn holder(&self) -> Option<&Member> {
        self.topology.members.iter().find(|member| member.node == self.holder)
    }

    pub fn others(&self) -> impl Iterator<Item = &Member> + Clone {
        self.topology.members.iter().filter(|member| member.node != self.holder)
    }

    /// A node's name.
    pub fn name(&self, node: NodeId) -> String {
        name(&self.topology.cluster, Some(node))
    }

    /// The shard's name.
    pub fn shard(&self) -> String {
        name(&self.topology.cluster, None)
    }
}

/// 40 hexadecimal digits, the same as long as the cluster has its name: the node, or `ff` for the shard, and a hash of that name.
pub fn name(cluster: &str, node: Option<NodeId>) -> String {
    let own = node.map_or(0xff, |node| node.0);
    let hash = |salt: u64| {
        let hashed = cluster.bytes().chain([own]).fold(0xcbf2_9ce4_8422_2325 ^ salt, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        });
        // The last bytes reach all digits.
        (hashed ^ hashed >> 31).wrapping_mul(0x9e37_79b9_7f4a_7c15)
    };
    let digits = format!("{:016x}{:016x}{:016x}", hash(0), hash(1 << 17), hash(1 << 43));
    format!("{own:02x}{}", &digits[..38])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_of_the_cluster_and_of_the_node() {
        let names: Vec<String> =
            [("a", 0), ("a", 1), ("b", 0)].map(|(id, node)| name(id, Some(NodeId(node)))).into();
        for (at, one) in names.iter().enumerate() {
            assert!(one.len() == 40 && one.bytes().all(|digit| digit.is_ascii_hexdigit()), "{one}");
            assert!(!names[..at].contains(one), "{one}");
        }
        assert!(
            names[1].starts_with("01") && names[0][2..] != names[1][2..] && names[0][2..] != names[2][2..]
        );
        assert_eq!(names[0], name("a", Some(NodeId(0))));
    }

    #[test]
    fn addresses_lose_their_brackets_and_get_them_again() {
        assert_eq!(apart("[::1]:7200"), ("::1".to_string(), 7200));
        assert_eq!(apart("db.example:7"), ("db.example".to_string(), 7));
        let (host, port) = apart("[::1]:7200");
        let member = Member { node: NodeId(0), host, port, peer_port: 0, up: true };
        assert_eq!((member.address(), member.bare_address()), ("[::1]:7200".into(), "::1:7200".into()));
        for address in ["[::1]:7200", "::1:7200"] {
            assert_eq!(
                (bare(address), socket_address(address)),
                ("::1:7200".into(), "[::1]:7200".parse().ok())
            );
        }
        assert_eq!(bare("db.example:7"), "db.example:7");
        assert_eq!(socket_address("10.0.0.1:7"), "10.0.0.1:7".parse().ok());
        assert_eq!(
            [socket_address("db.example:7"), socket_address("::1"), socket_address("")],
            [None, None, None]
        );
    }
}
