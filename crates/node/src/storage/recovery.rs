//! From a node's files to a replica that goes on: whose they are, and what was written.

use std::time::Instant;

use highwater_core::{Incarnation, NodeId};
use highwater_disk::{Disk, Identity, Journal, JournalOptions, journal};
use highwater_engines::Replica;

use super::DataDirectory;
use crate::clock::monotonic;
use crate::config::Config;
use crate::error::NodeError;

/// A node's files, before its replica is built.
pub struct Files {
    directory: DataDirectory,
    /// Who the node is, by its disk.
    pub identity: Identity,
}

/// Opens this node's folder, or makes it. `fresh`: the incarnation of a node that has none.
///
/// # Errors
/// If another process uses it, it is another node's, or the disk refuses.
pub fn open(config: &Config, fresh: Incarnation) -> Result<Files, NodeError> {
    let path = config.storage.dir.join(format!("node-{}", config.node));
    let failed = |why: String| NodeError::Storage { path: path.clone(), why };
    let directory = DataDirectory::open(&path).map_err(|error| failed(error.to_string()))?;
    let identity = Identity::start(&directory, &config.cluster.id, NodeId(config.node), fresh);
    let identity =
        identity.map_err(|error| failed(format!("{error}; set storage.dir to this node's own folder")))?;
    let mut identity = identity;
    if identity.generation > 1 && !has_journal(&directory).map_err(|error| failed(error.to_string()))? {
        // What this node promised and accepted is gone: it must not vote as who it was. If it had written nothing, this does no harm.
        identity.incarnation = fresh;
        identity.write(&directory).map_err(|error| failed(error.to_string()))?;
        tracing::warn!("{} has an identity and no journal: this node begins another life", path.display());
    }
    Ok(Files { directory, identity })
}

fn has_journal(directory: &DataDirectory) -> std::io::Result<bool> {
    Ok(directory.names()?.iter().any(|name| name.starts_with("journal-")))
}

impl Files {
    /// Hands a fresh replica what was written, and leaves the journal open for more. Its writers are the workers, then the
    /// controller.
    ///
    /// # Errors
    /// If the journal is damaged, or not this engine's.
    pub fn recover(self, replica: &mut Replica) -> Result<Journal<DataDirectory>, NodeError> {
        let path = self.directory.path().to_path_buf();
        let failed = |why: String| NodeError::Storage { path: path.clone(), why };
        let workers = replica.workers.len();
        let options = JournalOptions {
            journal: self.identity.incarnation.0,
            writers: workers as u16 + 1,
            segment_bytes: journal::DEFAULT_SEGMENT_BYTES,
        };
        let (begun, mut bytes, mut refused) = (Instant::now(), 0, None);
        let opened = Journal::open(self.directory, options, &mut |record| {
            bytes += record.bytes.len() as u64;
            let (writer, record) = (usize::from(record.writer), bytes::Bytes::copy_from_slice(record.bytes));
            let taken = match replica.workers.get_mut(writer) {
                Some(worker) => worker.recover(record),
                None => replica.controller.recover(record),
            };
            if let Err(why) = taken {
                refused.get_or_insert(why);
            }
        });
        let (journal, summary) = opened.map_err(|error| failed(error.to_string()))?;
        let positions =
            |segment: Option<&journal::SegmentSummary>| segment.map(|segment| segment.positions.clone());
        let (first, last) = (positions(summary.segments.first()), positions(summary.segments.last()));
        if first.is_some_and(|first| first.iter().any(|position| *position > 0)) {
            return Err(failed(
                "the journal's beginning is missing; remove this folder, and the node reads the log of the others".into(),
            ));
        }
        if let Some(found) = last.map(|last| last.len()).filter(|found| *found != workers + 1) {
            return Err(failed(format!(
                "the journal was written with another number of workers: {}; set cluster.workers to it",
                found - 1
            )));
        }
        if let Some(why) = refused {
            return Err(failed(format!("the journal is not this engine's: {why}")));
        }
        if bytes > 0 {
            replica.workers.iter_mut().for_each(|worker| worker.recovered());
            replica.controller.recovered(monotonic());
        }
        tracing::info!(
            generation = self.identity.generation,
            mib = bytes >> 20,
            ms = begun.elapsed().as_millis() as u64,
            cut = summary.cut.is_some(),
            "read the journal in {}",
            path.display()
        );
        Ok(journal)
    }
}
