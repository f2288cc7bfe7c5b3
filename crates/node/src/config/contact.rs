//! Where a node is found, in bytes that an engine carries and does not read.

use std::net::IpAddr;

use bytes::Bytes;
use highwater_core::NodeId;

use super::nodes::NodeConfig;

/// Where a node is found, as it travels: `origin \\n peer \\n resp \\n admin`, and `\\n announce` if it has one, which older builds pass over.
pub fn contact(node: &NodeConfig, founder: bool) -> Bytes {
    let origin = if founder { FOUNDER } else { ADDED };
    let announce = node.announce.as_deref();
    let lines = [origin, &node.peer, &node.resp, &node.admin].into_iter().chain(announce);
    lines.collect::<Vec<_>>().join("\n").into()
}

/// Why a node that says by its own config where it is cannot be where an operator says, if it cannot. Names may mean anything; ports do
/// not, unless something stands in between.
pub fn contradiction(ordered: &NodeConfig, said: &NodeConfig) -> Option<String> {
    let differ = |ordered: &str, said: &str| {
        let (Some((at, port)), Some((host, own))) = (ordered.rsplit_once(':'), said.rsplit_once(':')) else {
            return false;
        };
        let address = |host: &str| host.trim_matches(['[', ']']).parse::<IpAddr>().ok();
        let hosts = address(at)
            .zip(address(host))
            .filter(|(at, host)| !at.is_unspecified() && !host.is_unspecified());
        port != own || hosts.is_some_and(|(at, host)| at != host)
    };
    let told = said.announce.as_ref().is_some_and(|announce| !differ(&ordered.resp, announce));
    let wrong = [
        ("peer", &ordered.peer, &said.peer, false),
        ("resp", &ordered.resp, &said.resp, told),
        ("admin", &ordered.admin, &said.admin, false),
    ];
    let wrong: Vec<String> = wrong
        .into_iter()
        .filter(|(_, ordered, said, right)| !right && differ(ordered, said))
        .map(|(what, ordered, said, _)| format!("{what} {ordered}, and its own config says {said}"))
        .collect();
    (!wrong.is_empty()).then(|| format!("node {} was ordered at {}", said.id, wrong.join("; at ")))
}

const FOUNDER: &str = "founder";
const ADDED: &str = "added";

/// Takes a contact apart: the addresses, and whether the node is a founder.
pub fn addresses(id: NodeId, contact: &Bytes) -> Option<(NodeConfig, bool)> {
    let text = std::str::from_utf8(contact).ok()?;
    let mut lines = text.split('\n').map(str::to_string);
    let (origin, peer, resp, admin) = (lines.next()?, lines.next()?, lines.next()?, lines.next()?);
    let announce = lines.next();
    Some((NodeConfig { id: id.0, peer, resp, admin, announce }, origin == FOUNDER))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(peer: &str, resp: &str, admin: &str) -> NodeConfig {
        NodeConfig { id: 3, peer: peer.into(), resp: resp.into(), admin: admin.into(), announce: None }
    }

    #[test]
    fn addresses_contradict_each_other_by_port_or_by_number() {
        let said = node("10.0.0.4:7100", "0.0.0.0:7200", "db3:7300");
        let fits = |ordered: NodeConfig| contradiction(&ordered, &said);
        assert_eq!(fits(said.clone()), None);
        assert_eq!(fits(node("db3:7100", "10.0.0.4:7200", "10.0.0.4:7300")), None, "names may mean that");
        let why = fits(node("10.0.0.4:7100", "10.0.0.4:7201", "db3:7300")).unwrap();
        assert!(
            why.contains("resp 10.0.0.4:7201") && why.contains("0.0.0.0:7200") && !why.contains("peer"),
            "{why}"
        );
        assert!(fits(node("10.0.0.5:7100", "db3:7200", "db3:7300")).unwrap().contains("peer 10.0.0.5:7100"));
        assert!(fits(node("[::1]:7100", "db3:7200", "db3:7300")).is_some());
        let mut mapped = said.clone();
        mapped.announce = Some("db.example:6379".into());
        assert_eq!(contradiction(&node("db3:7100", "db.example:6379", "db3:7300"), &mapped), None);
    }
}
