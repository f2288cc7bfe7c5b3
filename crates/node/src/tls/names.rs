//! Whom a certificate is for, at the peer port: one node of one cluster, or clients that coordinate.
//!
//! A node shows a certificate with the DNS name `node-N.CLUSTER.highwater.internal` among its subject's alternative names, where `N` is its
//! id and `CLUSTER` the cluster's name; a client that coordinates one for `coordinator.CLUSTER.highwater.internal`. Nobody looks these names
//! up. So a client's certificate of the same authority makes no peer, a node's none of another node, and one authority may serve
//! several clusters. No public authority signs names under `internal`.

use highwater_core::{Fingerprint, NodeId};
use rustls::client::verify_server_name;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::server::ParsedCertificate;

/// The name that a node's certificate is for.
pub fn node_name(cluster: &str, node: NodeId) -> String {
    format!("node-{}.{}.highwater.internal", node.0, label(cluster))
}

/// The name that certificates of clients that coordinate are for.
pub fn coordinator_name(cluster: &str) -> String {
    format!("coordinator.{}.highwater.internal", label(cluster))
}

/// The cluster's name, if it can stand in a name of hosts; else its hash. Hosts' names know no capitals.
fn label(cluster: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    let fits = (1..=63).contains(&cluster.len())
        && cluster.bytes().all(plain)
        && !cluster.starts_with('-')
        && !cluster.ends_with('-');
    if fits { cluster.into() } else { format!("x{:016x}", Fingerprint::of_name(cluster)) }
}

/// As TLS has it.
pub fn server_name(name: &str) -> ServerName<'static> {
    ServerName::try_from(name.to_string()).expect("these names are made of letters, digits, '-' and '.'")
}

/// Whether the first of these certificates, which was verified, is for this name.
pub fn is_for(certificates: Option<&[CertificateDer<'_>]>, name: &str) -> bool {
    let first = certificates.and_then(|certificates| certificates.first());
    let parsed = first.and_then(|first| ParsedCertificate::try_from(first).ok());
    parsed.is_some_and(|parsed| verify_server_name(&parsed, &server_name(name)).is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_cluster_has_names_of_its_own() {
        assert_eq!(node_name("shop-eu", NodeId(3)), "node-3.shop-eu.highwater.internal");
        assert_eq!(coordinator_name("shop"), "coordinator.shop.highwater.internal");
        let long = "c".repeat(64);
        let odd = ["Shop", "shop.eu", "-shop", "shop-", "läden", "a b", &long, "*"];
        let names: std::collections::BTreeSet<_> =
            odd.iter().map(|cluster| node_name(cluster, NodeId(0))).collect();
        assert_eq!(names.len(), odd.len());
        for name in names {
            server_name(&name);
            assert!(name.starts_with("node-0.x"), "{name}");
        }
    }
}
