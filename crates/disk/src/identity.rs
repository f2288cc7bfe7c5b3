//! Whose disk this is: a small file, replaced as a whole, from which a node knows itself again.
//!
//! ```text
//!  0  magic        8 bytes  "HWIDENTY"
//!  8  version      u32      1
//! 12  crc          u32      CRC-32 (IEEE) over the file except these four bytes
//! 16  incarnation  u64
//! 24  generation   u64      starts so far
//! 32  node         u8
//! 33  cluster_len  u8
//! 34  cluster      cluster_len bytes, UTF-8: the cluster's id
//! ```

use std::fmt;
use std::io;

use highwater_core::codec::Reader;
use highwater_core::{Incarnation, NodeId};

use crate::disk::is_full;
use crate::{Ballast, Disk, DiskFile};

/// Version of the format.
pub const FORMAT_VERSION: u32 = 1;
/// Longest cluster id, in bytes.
pub const MAX_CLUSTER_BYTES: usize = 255;

const NAME: &str = "identity";
/// Written and synced under this name, and renamed.
const NEW_NAME: &str = "identity.new";
const MAGIC: [u8; 8] = *b"HWIDENTY";
const HEAD_BYTES: usize = 34;
/// Nothing longer is an identity.
const MAX_BYTES: usize = HEAD_BYTES + MAX_CLUSTER_BYTES;

/// Who a node is, and has been since its disk was empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// The cluster's id; at most [`MAX_CLUSTER_BYTES`].
    pub cluster: String,
    /// Which of its nodes.
    pub node: NodeId,
    /// The life that the disk remembers: as long as the disk does, the node is the same voter.
    pub incarnation: Incarnation,
    /// How many times a process has started on this disk, this time included. One that meets a smaller number than it has told
    /// others runs on an older copy of its disk.
    pub generation: u64,
}

/// Why a disk is not this node's.
#[derive(Debug)]
pub enum IdentityError {
    /// Another cluster's.
    Cluster {
        /// Whose it is.
        found: String,
        /// Whose it should be.
        expected: String,
    },
    /// Another node's.
    Node {
        /// Whose it is.
        found: NodeId,
        /// Whose it should be.
        expected: NodeId,
    },
    /// Written by another version.
    Format {
        /// Version of the format.
        found: u32,
    },
    /// Not what was written.
    Damaged {
        /// What is wrong.
        what: &'static str,
    },
    /// The disk failed.
    Disk {
        /// What was to be done.
        what: &'static str,
        /// The system's words.
        error: io::Error,
    },
}

impl fmt::Display for IdentityError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            IdentityError::Cluster { found, expected } => {
                write!(f, "the disk belongs to cluster \"{found}\", not \"{expected}\"")
            }
            IdentityError::Node { found, expected } => {
                write!(f, "the disk belongs to node {}, not {}", found.0, expected.0)
            }
            IdentityError::Format { found } if *found > FORMAT_VERSION => {
                write!(f, "{NAME}: format {found} is newer than this binary's {FORMAT_VERSION}")
            }
            IdentityError::Format { found } => {
                write!(f, "{NAME}: format {found} is older than this binary's {FORMAT_VERSION}")
            }
            IdentityError::Damaged { what } => write!(f, "{NAME} is damaged: {what}"),
            IdentityError::Disk { what, error } => write!(f, "cannot {what} {NAME}: {error}"),
        }
    }
}

impl std::error::Error for IdentityError {}

impl Identity {
    /// Begins a start of this node on this disk. On a disk without an identity it is a new one, in generation 1 and the
    /// incarnation `fresh`; else the one that is there, a generation later. It is durable once this returns.
    ///
    /// # Errors
    /// All of [`IdentityError`]. The disk is as before, but for [`Disk`](IdentityError::Disk): then either.
    ///
    /// # Panics
    /// If the cluster's id is too long.
    pub fn start(
        disk: &impl Disk,
        cluster: &str,
        node: NodeId,
        fresh: Incarnation,
    ) -> Result<Identity, IdentityError> {
        let mut identity = match Identity::read(disk)? {
            Some(found) => found,
            None => Identity { cluster: cluster.into(), node, incarnation: fresh, generation: 0 },
        };
        if identity.cluster != cluster {
            return Err(IdentityError::Cluster { found: identity.cluster, expected: cluster.into() });
        }
        if identity.node != node {
            return Err(IdentityError::Node { found: identity.node, expected: node });
        }
        identity.generation += 1;
        identity.write(disk)?;
        Ok(identity)
    }

    /// The disk's; `None` if it has none.
    ///
    /// # Errors
    /// [`Format`](IdentityError::Format), [`Damaged`](IdentityError::Damaged), [`Disk`](IdentityError::Disk).
    pub fn read(disk: &impl Disk) -> Result<Option<Identity>, IdentityError> {
        let file = match disk.open(NAME) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(IdentityError::Disk { what: "open", error }),
        };
        // A byte more than there can be, so that a longer file is noticed.
        let mut bytes = vec![0; MAX_BYTES + 1];
        let read = file.read_at(0, &mut bytes).map_err(failed("read"))?;
        Identity::decode(&bytes[..read]).map(Some)
    }

    /// Replaces the disk's: after a crash it is the old one or this one.
    ///
    /// # Errors
    /// [`Disk`](IdentityError::Disk).
    ///
    /// # Panics
    /// If the cluster's id is too long.
    pub fn write(&self, disk: &impl Disk) -> Result<(), IdentityError> {
        let bytes = self.encode();
        // What an interrupted start left.
        match disk.remove(NEW_NAME) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(failed("replace")(error)),
            _ => {}
        }
        let mut file = create_new(disk, bytes.len() as u64).map_err(failed("create"))?;
        file.write_at(0, &bytes).map_err(failed("write"))?;
        file.set_len(bytes.len() as u64).map_err(failed("cut"))?;
        file.sync().map_err(failed("sync"))?;
        disk.rename(NEW_NAME, NAME).map_err(failed("rename"))?;
        disk.sync_names().map_err(failed("sync"))
    }

    fn encode(&self) -> Vec<u8> {
        let cluster = self.cluster.as_bytes();
        assert!(cluster.len() <= MAX_CLUSTER_BYTES, "a cluster's id has {MAX_CLUSTER_BYTES} bytes at most");
        let mut bytes = Vec::with_capacity(MAX_BYTES);
        bytes.extend_from_slice(&MAGIC);
        bytes.extend_from_slice(&FORMAT_VERSION.to_le_bytes());
        bytes.extend_from_slice(&[0; 4]);
        bytes.extend_from_slice(&self.incarnation.0.to_le_bytes());
        bytes.extend_from_slice(&self.generation.to_le_bytes());
        bytes.extend_from_slice(&[self.node.0, cluster.len() as u8]);
        bytes.extend_from_slice(cluster);
        let crc = crc_of(&bytes);
        bytes[12..16].copy_from_slice(&crc.to_le_bytes());
        bytes
    }

    /// Magic, version and checksum stay where they are in every version.
    fn decode(bytes: &[u8]) -> Result<Identity, IdentityError> {
        let damaged = |what| IdentityError::Damaged { what };
        let short = |_| damaged("it is too short");
        if bytes.len() < HEAD_BYTES || !bytes.starts_with(&MAGIC) {
            return Err(damaged("it does not begin as an identity does"));
        }
        let mut reader = Reader::new(&bytes[MAGIC.len()..]);
        let version = reader.u32().map_err(short)?;
        if reader.u32().map_err(short)? != crc_of(bytes) {
            return Err(damaged("its checksum is another one"));
        }
        if version != FORMAT_VERSION {
            return Err(IdentityError::Format { found: version });
        }
        let incarnation = Incarnation(reader.u64().map_err(short)?);
        let generation = reader.u64().map_err(short)?;
        let node = NodeId(reader.u8().map_err(short)?);
        let len = usize::from(reader.u8().map_err(short)?);
        let cluster = reader.take(len).map_err(short)?;
        let cluster = std::str::from_utf8(cluster).map_err(|_| damaged("the cluster's id is no text"))?;
        if !reader.is_empty() {
            return Err(damaged("it is too long"));
        }
        Ok(Identity { cluster: cluster.into(), node, incarnation, generation })
    }
}

/// On a full disk it is made of the ballast: a node that ended there could not start.
fn create_new<D: Disk>(disk: &D, len: u64) -> io::Result<D::File> {
    match disk.create(NEW_NAME, len) {
        Err(error) if is_full(&error) => Ballast::Identity.become_file(disk, NEW_NAME)?.ok_or(error),
        file => file,
    }
}

fn crc_of(bytes: &[u8]) -> u32 {
    let mut crc = crc32fast::Hasher::new();
    crc.update(&bytes[..12]);
    crc.update(&bytes[16..]);
    crc.finalize()
}

fn failed(what: &'static str) -> impl Fn(io::Error) -> IdentityError {
    move |error| IdentityError::Disk { what, error }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::SimulatedDisk;
    use crate::simulated::Fault;

    const FRESH: Incarnation = Incarnation(55);

    fn start(disk: &SimulatedDisk) -> Result<Identity, IdentityError> {
        Identity::start(disk, "north", NodeId(2), FRESH)
    }

    #[test]
    fn a_node_is_the_same_after_a_restart_and_a_generation_older() {
        let disk = SimulatedDisk::new(1);
        assert!(Identity::read(&disk).unwrap().is_none());
        let first = start(&disk).unwrap();
        assert_eq!((first.incarnation, first.generation), (FRESH, 1));
        let second = Identity::start(&disk, "north", NodeId(2), Incarnation(66)).unwrap();
        assert_eq!(second, Identity { generation: 2, ..first });
        assert_eq!(Identity::read(&disk).unwrap(), Some(second));
    }

    #[test]
    fn another_clusters_or_nodes_disk_is_refused_in_words() {
        let disk = SimulatedDisk::new(1);
        start(&disk).unwrap();
        let error = Identity::start(&disk, "south", NodeId(2), FRESH).unwrap_err();
        assert_eq!(error.to_string(), "the disk belongs to cluster \"north\", not \"south\"");
        let error = Identity::start(&disk, "north", NodeId(0), FRESH).unwrap_err();
        assert_eq!(error.to_string(), "the disk belongs to node 2, not 0");
        assert_eq!(Identity::read(&disk).unwrap().unwrap().generation, 1, "nothing was written");
    }

    /// The power fails in every operation of a start: the identity before it or after it is there.
    #[test]
    fn a_crash_leaves_the_old_identity_or_the_new_one() {
        for seed in 0..40 {
            for at in 0.. {
                let disk = SimulatedDisk::new(seed);
                start(&disk).unwrap();
                disk.fail_power(at);
                let ended = start(&disk);
                let powered = disk.is_powered();
                disk.crash();
                let found = Identity::read(&disk).unwrap().unwrap();
                assert!((1..=2).contains(&found.generation) && found.incarnation == FRESH);
                assert!(ended.is_err() || found.generation == 2, "what was told is durable");
                assert_eq!(start(&disk).unwrap().generation, found.generation + 1);
                if powered {
                    break;
                }
            }
        }
    }

    #[test]
    fn every_changed_byte_and_every_cut_is_noticed() {
        let disk = SimulatedDisk::new(1);
        start(&disk).unwrap();
        let bytes = disk.bytes_of(NAME).unwrap();
        for at in 0..bytes.len() {
            disk.spoil(NAME, at as u64, 0x41);
            assert!(matches!(start(&disk), Err(IdentityError::Damaged { .. })), "{at}");
            disk.spoil(NAME, at as u64, 0x41);
            disk.replace(NAME, &bytes[..at]);
            assert!(matches!(start(&disk), Err(IdentityError::Damaged { .. })), "{at}");
            disk.replace(NAME, &bytes);
        }
        disk.replace(NAME, &[&bytes[..], b"x"].concat());
        assert!(start(&disk).is_err());
    }

    #[test]
    fn a_newer_format_is_told_apart_from_damage() {
        let disk = SimulatedDisk::new(1);
        let mut bytes = start(&disk).unwrap().encode();
        bytes[8] = 7;
        let crc = crc_of(&bytes);
        bytes[12..16].copy_from_slice(&crc.to_le_bytes());
        disk.replace(NAME, &bytes);
        assert_eq!(start(&disk).unwrap_err().to_string(), "identity: format 7 is newer than this binary's 1");
    }

    #[test]
    fn a_disk_that_fails_or_is_full_keeps_the_old_identity() {
        let disk = SimulatedDisk::new(1);
        start(&disk).unwrap();
        for fault in [Fault::FailNames, Fault::FailWrite, Fault::FailSync] {
            disk.inject(fault, 0);
            let error = start(&disk).unwrap_err();
            assert!(error.to_string().contains("Input/output error"), "{error}");
        }
        disk.set_capacity(Some(0));
        assert!(start(&disk).is_err());
        disk.set_capacity(None);
        disk.crash();
        assert_eq!(start(&disk).unwrap().generation, 2);
    }

    #[test]
    fn a_node_starts_on_a_full_disk_if_it_holds_ballast() {
        for at in 0.. {
            let disk = SimulatedDisk::new(at);
            start(&disk).unwrap();
            Ballast::Identity.hold(&disk, 4096).unwrap();
            disk.set_capacity(Some(0));
            disk.fail_power(at);
            let ended = start(&disk);
            let powered = disk.is_powered();
            disk.crash();
            let found = Identity::read(&disk).unwrap().unwrap();
            assert!(ended.is_err() || found.generation == 2 && disk.bytes_of(NAME).unwrap().len() < 100);
            if powered {
                return assert!(at > 5 && ended.is_ok());
            }
        }
    }
}
