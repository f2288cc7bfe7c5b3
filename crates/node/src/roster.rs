//! Who belongs to the cluster and where they are found, as this node knows it: its config, and what the cluster decided since.
//!
//! The config says where *this* node finds the others (behind a proxy, say), so it counts for those who founded the cluster. Whoever
//! was added or moved later is where the operator's command said.
//!
//! A node without a disk keeps what was decided in a small file, once that is more than its config says: so that it finds the others
//! when it comes back, and founds no second cluster with those that its config names. With a disk it is in the journal.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard};

use highwater_core::NodeId;
use highwater_seam::Roster as Decided;
use serde::{Deserialize, Serialize};

use crate::config::contact::addresses;
use crate::config::{Config, ConfigError, NodeConfig};

/// Who belongs, and where.
#[derive(Debug)]
pub struct Roster {
    cluster: String,
    configured: BTreeMap<NodeId, NodeConfig>,
    file: Option<PathBuf>,
    known: Mutex<Known>,
}

#[derive(Clone, Debug, Default)]
struct Known {
    nodes: BTreeMap<NodeId, NodeConfig>,
    removed: BTreeSet<NodeId>,
}

/// What the file says.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    cluster: String,
    members: Vec<NodeConfig>,
    removed: Vec<u8>,
}

impl Roster {
    /// What the config says. A node that has no disk writes what is decided later into `file`.
    pub fn new(config: &Config, file: Option<PathBuf>) -> Roster {
        let configured: BTreeMap<_, _> =
            config.cluster.nodes.iter().map(|node| (NodeId(node.id), node.clone())).collect();
        let known = Known { nodes: configured.clone(), removed: BTreeSet::new() };
        Roster { cluster: config.cluster.id.clone(), configured, file, known: Mutex::new(known) }
    }

    /// Where a node is found.
    pub fn node(&self, node: NodeId) -> Option<NodeConfig> {
        self.known().nodes.get(&node).cloned()
    }

    /// Everybody, by id.
    pub fn nodes(&self) -> Vec<NodeConfig> {
        self.known().nodes.values().cloned().collect()
    }

    pub fn removed(&self) -> BTreeSet<NodeId> {
        self.known().removed.clone()
    }

    /// The cluster has decided anew.
    pub fn decide(&self, decided: &Decided) {
        let removed: BTreeSet<NodeId> = decided.removed.iter().copied().collect();
        let mut nodes = self.configured.clone();
        let mut changed = !removed.is_empty();
        for (node, contact) in &decided.contacts {
            let Some((found, founder)) = addresses(*node, contact) else { continue };
            if !founder || !nodes.contains_key(node) {
                nodes.insert(*node, found);
            }
            changed |= !founder;
        }
        nodes.retain(|node, _| !removed.contains(node));
        let members = decided.contacts.iter().filter_map(|(node, _)| nodes.get(node).cloned()).collect();
        *self.known() = Known { nodes, removed };
        if let Some(file) = self.file.as_ref().filter(|_| changed) {
            let removed = decided.removed.iter().map(|node| node.0).collect();
            let written = Written { cluster: self.cluster.clone(), members, removed };
            // Without it the node needs an up-to-date config when it comes back; it can go on.
            if let Err(error) = written.write(file) {
                tracing::warn!(
                    "cannot write {}: {error}; list all members in this node's config",
                    file.display()
                );
            }
        }
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().expect("nobody panics while holding the roster")
    }
}

/// Where a node without a disk keeps the members, if they are not as its config says.
pub fn file_of(config: &Config) -> PathBuf {
    config.storage.dir.join(format!("node-{}", config.node)).join("members.json")
}

/// Puts the members that this node knew last in the place of those that its config names, if it wrote them down. Its own addresses are
/// its config's.
///
/// # Errors
/// If the file is another cluster's, or unreadable.
pub fn recall(mut config: Config) -> Result<Config, ConfigError> {
    let file = file_of(&config);
    let Some(written) = Written::read(&file)? else { return Ok(config) };
    if written.cluster != config.cluster.id {
        return Err(ConfigError(format!(
            "{} is of cluster {:?}, not {:?}; set storage.dir to this cluster's own folder",
            file.display(),
            written.cluster,
            config.cluster.id
        )));
    }
    let own = config.this_node().clone();
    if !written.removed.contains(&own.id) {
        config.cluster.nodes.retain(|node| node.id == own.id);
        config.cluster.nodes.extend(written.members.into_iter().filter(|node| node.id != own.id));
        config.cluster.nodes.sort_by_key(|node| node.id);
        let ids: Vec<String> = config.cluster.nodes.iter().map(|node| node.id.to_string()).collect();
        tracing::info!(file = %file.display(), "the members are, as of the last change that this node heard of: {}", ids.join(", "));
    }
    Ok(config)
}

impl Written {
    fn read(file: &Path) -> Result<Option<Written>, ConfigError> {
        let cannot = |why: String| ConfigError(format!("cannot read {}: {why}", file.display()));
        match fs::read(file) {
            Ok(bytes) => serde_json::from_slice(&bytes).map(Some).map_err(|error| cannot(error.to_string())),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(cannot(error.to_string())),
        }
    }

    /// As a whole or not at all.
    fn write(&self, file: &Path) -> io::Result<()> {
        let folder = file.parent().expect("the file is in the node's folder");
        fs::create_dir_all(folder)?;
        let new = file.with_extension("new");
        let mut out = fs::File::create(&new)?;
        out.write_all(&serde_json::to_vec_pretty(self).map_err(io::Error::other)?)?;
        out.sync_all()?;
        fs::rename(&new, file)?;
        fs::File::open(folder)?.sync_all()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::contact::contact;

    fn node(id: u8, base: u16) -> NodeConfig {
        let at = |port: u16| format!("127.0.0.1:{port}");
        NodeConfig { id, peer: at(base), resp: at(base + 1), admin: at(base + 2), announce: None }
    }

    #[test]
    fn what_was_decided_is_recalled_and_founders_are_where_the_config_says() {
        let folder = tempfile::tempdir().unwrap();
        let mut config = Config::default();
        config.storage.dir = folder.path().into();
        config.cluster.nodes = vec![node(0, 7100), node(1, 7110)];
        let roster = Roster::new(&config, Some(file_of(&config)));
        // Node 1 is behind a proxy as this node sees it: its founding address is another one.
        let founders =
            vec![(NodeId(0), contact(&node(0, 7100), true)), (NodeId(1), contact(&node(1, 9000), true))];
        roster.decide(&Decided { contacts: founders.clone(), removed: Vec::new() });
        assert_eq!(roster.nodes(), config.cluster.nodes);
        assert!(!file_of(&config).exists(), "nothing but what the config says");

        let added = (NodeId(3), contact(&node(3, 7130), false));
        roster.decide(&Decided { contacts: [founders, vec![added]].concat(), removed: vec![NodeId(2)] });
        assert_eq!(roster.nodes(), [node(0, 7100), node(1, 7110), node(3, 7130)]);
        assert_eq!(roster.removed(), BTreeSet::from([NodeId(2)]));
        let recalled = recall(config.clone()).unwrap();
        assert_eq!(recalled.cluster.nodes, roster.nodes());
        assert_eq!(recalled.validate(), Ok(()));

        let mut other = config;
        other.cluster.id = "other".into();
        assert!(recall(other).unwrap_err().to_string().contains("of cluster \"highwater\", not \"other\""));
    }
}
