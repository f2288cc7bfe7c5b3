//! Whose files a folder holds, found out before anything is written to it.

use std::ops::ControlFlow;

use bytes::Bytes;
use highwater_disk::journal::{Record, read_while};
use highwater_disk::{Disk, Identity};
use highwater_engines::EngineKind;

use super::DataDirectory;
use crate::config::{Config, Durability};
use crate::error::NodeError;

/// After so many records that say nothing of their engine nobody knows whose they are.
const ASKED: usize = 1000;

/// The engines that may have written a folder's journal: of one family. None if there is no journal, or nothing in it tells.
pub fn engines_of(disk: &impl Disk) -> Vec<EngineKind> {
    let durable: Vec<EngineKind> =
        EngineKind::ALL.iter().copied().filter(|engine| engine.abilities().durable).collect();
    let (mut found, mut asked) = (durable.clone(), 0);
    let mut look = |record: Record<'_>| {
        // The first writer is a worker, of every engine.
        if record.writer == 0 {
            let record = Bytes::copy_from_slice(record.bytes);
            found.retain(|engine| engine.wrote(&record));
        }
        asked += 1;
        if found.len() <= 1 || asked >= ASKED { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    };
    // A journal that is damaged is told of by whoever reads it to the end.
    let _ = read_while(disk, 0, &mut look);
    if found.len() == durable.len() { Vec::new() } else { found }
}

/// Refuses a folder that another engine wrote.
///
/// # Errors
/// In words, with what to do.
pub fn check_engine(disk: &impl Disk, config: &Config) -> Result<(), String> {
    let wrote = engines_of(disk);
    match config.engine() {
        Ok(engine) if !wrote.is_empty() && !wrote.contains(&engine) => {
            let named: Vec<String> = wrote.iter().map(|engine| format!("\"{engine}\"")).collect();
            Err(format!(
                "the folder belongs to a cluster of engine {}, not {engine}: set cluster.engine = {} on all nodes, or storage.dir to \
                 another folder",
                list(&wrote),
                named.join(" or ")
            ))
        }
        _ => Ok(()),
    }
}

fn list(engines: &[EngineKind]) -> String {
    engines.iter().map(|engine| engine.name()).collect::<Vec<_>>().join(" or ")
}

/// Refuses a config that does not go with what is in this node's folder: another cluster's, node's or engine's files; or files of any,
/// where the node would keep nothing on a disk and leave them unread. Changes nothing.
///
/// # Errors
/// [`NodeError::Storage`], with what to do.
pub fn check(config: &Config) -> Result<(), NodeError> {
    let path = config.storage.dir.join(format!("node-{}", config.node));
    let refused = |why: String| Err(NodeError::Storage { path: path.clone(), why });
    // What cannot be looked at is told by whoever uses it.
    let Ok(disk) = DataDirectory::read_only(&path) else { return Ok(()) };
    let identity = Identity::read(&disk);
    if config.cluster.durability != Durability::Memory {
        let Ok(Some(identity)) = identity else { return Ok(()) };
        if identity.cluster != config.cluster.id || identity.node.0 != config.node {
            let (cluster, node) = (&identity.cluster, identity.node.0);
            return refused(format!(
                "the folder belongs to node {node} of cluster \"{cluster}\", not to node {} of \"{}\"; set storage.dir to this node's own \
                 folder",
                config.node, config.cluster.id
            ));
        }
        return check_engine(&disk, config).or_else(refused);
    }
    let holds = |name: &String| name.starts_with("journal-") || name.starts_with("checkpoint-");
    let holds = disk.names().is_ok_and(|names| names.iter().any(holds));
    let whose = match &identity {
        Ok(None) if !holds => return Ok(()),
        _ if config.storage.ignore_data => return Ok(()),
        Ok(Some(identity)) => format!("of node {} of cluster \"{}\"", identity.node.0, identity.cluster),
        // Damaged, or a later build's.
        Ok(None) | Err(_) => "of a cluster".into(),
    };
    let engines = engines_of(&disk);
    let engine = if engines.is_empty() { String::new() } else { format!(" (engine {})", list(&engines)) };
    refused(format!(
        "the folder holds data {whose}{engine}, which was written with cluster.durability \"sync\" or \"async\"; with \"memory\" it would \
         not be read, and a new cluster be born without them, without users and passwords, too. Set cluster.durability back, or \
         storage.dir to another folder; or, if that is meant, storage.ignore_data = true (--set storage.ignore_data=true): the files \
         stay as they are"
    ))
}
