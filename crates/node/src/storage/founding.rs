//! Folders from which a new cluster begins: of a state that a backup, or a lost majority's disks, led to.

use std::fs;
use std::num::NonZeroU16;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use highwater_core::evidence::Begun;
use highwater_core::limits::CHUNK_BYTES;
use highwater_core::threads::share_out;
use highwater_core::{Incarnation, NodeId, Timestamp};
use highwater_disk::checkpoint::{Error, Scan, WriteStep, Writer};
use highwater_disk::journal::{DEFAULT_SEGMENT_BYTES, MAX_WRITERS};
use highwater_disk::{Disk, DiskFile, Identity, Journal, JournalOptions};
use highwater_engine_rolis::remains::{Voter, founding};
use highwater_seam::LogPosition;
use highwater_store::Store;

use super::checkpoint::Preamble;
use super::directory::{DataDirectory, DirectoryError};

/// A cluster that is about to begin from a state.
#[derive(Clone, Debug)]
pub struct Founding {
    /// Its id, which no other cluster has.
    pub cluster: String,
    /// Its voters, in their first lives.
    pub voters: Vec<Voter>,
    /// Workers of each of them.
    pub workers: NonZeroU16,
}

impl Founding {
    /// One of these nodes, in new lives.
    ///
    /// # Errors
    /// If a journal takes fewer workers, or the system has no random numbers.
    pub fn new(cluster: String, nodes: &[NodeId], workers: NonZeroU16) -> Result<Founding, String> {
        if workers.get() >= MAX_WRITERS {
            return Err(format!("a node has up to {} workers, not {workers}", MAX_WRITERS - 1));
        }
        let voter = |node: &NodeId| {
            let bits = getrandom::u64().map_err(|error| format!("no random numbers: {error}"))?;
            Ok(Voter { node: *node, incarnation: Incarnation(bits.max(1)) })
        };
        let voters = nodes.iter().map(voter).collect::<Result<_, String>>()?;
        Ok(Founding { cluster, voters, workers })
    }

    /// Whether the folders can be written there: nothing is in them.
    ///
    /// # Errors
    /// In words, if something is.
    pub fn check(&self, dir: &Path) -> Result<(), String> {
        for voter in &self.voters {
            let path = dir.join(format!("node-{}", voter.node.0));
            if fs::read_dir(&path).is_ok_and(|mut entries| entries.next().is_some()) {
                return Err(format!(
                    "{}: there is something in it already; nothing was written",
                    path.display()
                ));
            }
        }
        Ok(())
    }

    /// Writes a voter's folder, `dir/node-N`: a checkpoint of `store`, which is the state of `moment`, and a journal that says so and has
    /// the membership. It gets its name once it is whole; a rest of another try is removed.
    ///
    /// # Errors
    /// In words: something is there already, another process writes there, the disk is full. Nothing of this call's is there then.
    pub fn write(
        &self,
        dir: &Path,
        voter: Voter,
        store: &Arc<Store>,
        moment: Timestamp,
    ) -> Result<PathBuf, String> {
        let path = dir.join(format!("node-{}", voter.node.0));
        let at = |why: String| format!("{}: {why}", path.display());
        let new = claim(&dir.join(format!("node-{}.new", voter.node.0))).map_err(at)?;
        // Looked at by whoever has the new folder for itself: another process may have ended here meanwhile.
        let written = vacant(&path).and_then(|()| {
            self.write_to(&new, voter, store, moment).map_err(at)?;
            // Fails if a folder is there that is not empty. The lock goes along, and holds until the name lasts.
            let named = fs::rename(new.path(), &path).and_then(|()| fs::File::open(dir)?.sync_all());
            named.map_err(|error| at(error.to_string()))
        });
        written.inspect_err(|_| {
            // What could not be written is of no use; if it cannot be removed either, the next try does.
            if matches!(new.why_lost(), Ok(None)) {
                let _ = fs::remove_dir_all(new.path());
            }
        })?;
        Ok(path)
    }

    fn write_to(
        &self,
        directory: &DataDirectory,
        voter: Voter,
        store: &Arc<Store>,
        moment: Timestamp,
    ) -> Result<(), String> {
        let workers = self.workers.get();
        let (engine, records) = founding(workers, self.voters.clone(), moment);
        let options = JournalOptions {
            journal: voter.incarnation.0,
            writers: workers + 1,
            segment_bytes: DEFAULT_SEGMENT_BYTES,
        };
        let journal = Journal::open(directory.clone(), options, &mut |_| {});
        let (mut journal, _) = journal.map_err(|error| error.to_string())?;
        let mut appended = records.iter().try_for_each(|record| journal.append(workers, record).map(drop));
        appended = appended.and_then(|()| journal.sync().map(drop));
        appended.map_err(|error| error.to_string())?;
        let none = vec![LogPosition(0); usize::from(workers) + 1];
        let preamble = Preamble { incarnation: voter.incarnation.0, positions: none };
        write_checkpoint(directory, store, moment, workers, [preamble.encode(), engine].concat())
            .map_err(|error| error.to_string())?;
        // The journal was written before: without it there is nothing to go on from.
        let begun = Begun::Segment(1);
        let identity = Identity { begun, ..Identity::new(&self.cluster, voter.node, voter.incarnation) };
        identity.write(directory).map_err(|error| error.to_string())
    }
}

/// Takes a folder that is being written for this process alone, and empties it of what another try left.
///
/// Invariant: whoever removes anything in such a folder holds its lock, and it has its name while that is so. (Without that a second process
/// emptied the folder that the first one wrote, and the first one gave the mixture its name.)
fn claim(new: &Path) -> Result<DataDirectory, String> {
    let directory = DataDirectory::open(new).map_err(|error| match error {
        DirectoryError::Locked { .. } => {
            format!(
                "another process writes it at the moment ({} is locked); nothing was written",
                new.display()
            )
        }
        error => error.to_string(),
    })?;
    // Between the opening and the lock its writer may have given it its real name.
    if let Some(why) = directory.why_lost().map_err(|error| error.to_string())? {
        return Err(format!("another process writes it at the moment: {why}"));
    }
    for name in directory.names().map_err(|error| error.to_string())? {
        directory.remove(&name).map_err(|error| format!("cannot remove {name}: {error}"))?;
    }
    Ok(directory)
}

fn vacant(path: &Path) -> Result<(), String> {
    match fs::read_dir(path).is_ok_and(|mut entries| entries.next().is_some()) {
        true => Err(format!("{}: there is something in it already; nothing was written", path.display())),
        false => Ok(()),
    }
}

/// Publishes a checkpoint of a store that nobody writes to, which is complete at `moment`. `words`: the host's and the engine's.
pub(super) fn write_checkpoint<D>(
    disk: &D,
    store: &Arc<Store>,
    moment: Timestamp,
    parts: u16,
    words: Vec<u8>,
) -> Result<(), Error>
where
    D: Disk,
    D::File: DiskFile + Send,
{
    let scan = Scan { floor: moment, parts, expected_bytes: store.used(), from_ballast: false };
    let (writer, parts) = Writer::begin(disk, store, scan)?;
    let write = |mut part: highwater_disk::checkpoint::PartWriter<D::File>| loop {
        match part.step(CHUNK_BYTES)? {
            WriteStep::More(more) => part = more,
            WriteStep::Done(done) => return Ok(done),
        }
    };
    let threads = parts.len();
    let written = share_out("checkpoint-part", parts, threads, write);
    match written.into_iter().collect::<Result<Vec<_>, Error>>() {
        Ok(written) => writer.publish(disk, written, moment, words).map(drop),
        Err(error) => {
            writer.abandon(disk);
            Err(error)
        }
    }
}

#[cfg(test)]
mod tests {
    use highwater_core::{Library, Schema};
    use highwater_redis::Product;

    use super::*;

    /// Two `restore` into one `--to`: the second emptied the folder that the first one was writing, and the first gave the mixture its name.
    #[test]
    fn a_folder_that_another_process_writes_is_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        let founding = Founding::new("north".into(), &[NodeId(0)], NonZeroU16::MIN).unwrap();
        let store = Store::new(Schema::new(Product.tables()));
        let write = || founding.write(folder.path(), founding.voters[0], &store, Timestamp(1000));
        let new = folder.path().join("node-0.new");
        let first = DataDirectory::open(&new).unwrap();
        fs::write(new.join("checkpoint-0001.part-0"), "what the first one has written").unwrap();
        let why = write().unwrap_err();
        assert!(why.contains("another process writes it"), "{why}");
        assert!(new.join("checkpoint-0001.part-0").exists() && !folder.path().join("node-0").exists());
        // It was killed: what it left is nobody's.
        drop(first);
        let path = write().unwrap();
        assert!(!new.exists() && path.join("identity").exists());
        let again = write().unwrap_err();
        assert!(again.contains("there is something in it already") && !new.exists(), "{again}");
        // Whoever was named while somebody waited for its lock is not taken for the folder to be written.
        let named = DataDirectory::open(&new).unwrap();
        fs::rename(&new, folder.path().join("node-1")).unwrap();
        assert!(named.why_lost().unwrap().is_some());
    }
}
