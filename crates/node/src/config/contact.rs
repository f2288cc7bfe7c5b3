//! Where a node is found, in bytes that an engine carries and does not read.

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
