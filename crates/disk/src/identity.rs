//! Whose disk this is: a small file, replaced as a whole, from which a node knows itself again; and the disk's half of the
//! [evidence](highwater_core::evidence) that nothing of it is missing.
//!
//! ```text
//!  0  magic        8 bytes  "HWIDENTY"
//!  8  version      u32      3
//! 12  crc          u32      CRC-32 (IEEE) over the file except these four bytes
//! 16  incarnation  u64
//! 24  generation   u64      starts so far
//! 32  node         u8
//! 33  cluster_len  u8
//! 34  cluster      cluster_len bytes, UTF-8: the cluster's id
//!     begun        u64      the segment with which the last process that wrote began; 0: none, u64::MAX: not known
//!     past         u8       1: an earlier life of this node was part of a cluster
//!     generation   u64      once more; then the last starts
//!     count        u16
//!     starts       count * (number u64 | had u64), the oldest first
//!     tables       u8       how many; then a print of each, u32
//! ```
//!
//! Versions 1 and 2 were those of builds whose tables had other numbers: their folders are refused.

use std::fmt;
use std::io;

use highwater_core::codec::{Malformed, Reader};
use highwater_core::evidence::{Begun, Claim, MOST_STARTS, Start, Starts};
use highwater_core::{Incarnation, NodeId};

use crate::disk::is_full;
use crate::tables::{self, Tables};
use crate::{Ballast, Disk, DiskFile};

/// Version of the format.
pub const FORMAT_VERSION: u32 = 3;
/// Longest cluster id, in bytes.
pub const MAX_CLUSTER_BYTES: usize = 255;

/// Name of the file.
pub const NAME: &str = "identity";
/// Written and synced under this name, and renamed.
const NEW_NAME: &str = "identity.new";
const MAGIC: [u8; 8] = *b"HWIDENTY";
const HEAD_BYTES: usize = 34;
/// Nothing longer is an identity.
const MAX_BYTES: usize =
    HEAD_BYTES + MAX_CLUSTER_BYTES + 8 + 1 + 8 + 2 + MOST_STARTS * 16 + tables::MAX_BYTES;
/// The room for another one is held in the ballast.
const BALLAST_BYTES: u64 = 4096;
const _: () = assert!(MAX_BYTES as u64 <= BALLAST_BYTES, "an identity fits its ballast");
/// As `begun`: an older build started here, and did not say.
const UNKNOWN: u64 = u64::MAX;

/// Who a node is, and has been since its disk was empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// The cluster's id; at most [`MAX_CLUSTER_BYTES`].
    pub cluster: String,
    /// Which of its nodes.
    pub node: NodeId,
    /// The life that the disk remembers: as long as the disk does, the node is the same voter.
    pub incarnation: Incarnation,
    /// The starts of a process on this disk, the present one included once it has [begun](Identity::begin).
    pub starts: Starts,
    /// With which segment of the journal the last process that wrote began.
    pub begun: Begun,
    /// An earlier life of this node was part of a cluster: it founds none.
    pub past: bool,
    /// The tables that its records are of.
    pub tables: Tables,
}

/// Why a disk is not this node's.
#[derive(Debug)]
pub enum IdentityError {
    /// Another cluster's.
    Cluster {
        found: String,
        /// Whose it should be.
        expected: String,
    },
    /// Another node's.
    Node {
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
    /// A node without a past.
    ///
    /// # Panics
    /// If the cluster's id is too long.
    pub fn new(cluster: &str, node: NodeId, incarnation: Incarnation) -> Identity {
        assert!(cluster.len() <= MAX_CLUSTER_BYTES, "a cluster's id has {MAX_CLUSTER_BYTES} bytes at most");
        let (starts, begun, past) = (Starts::default(), Begun::Nothing, false);
        let tables = Tables::default();
        Identity { cluster: cluster.into(), node, incarnation, starts, begun, past, tables }
    }

    /// The node that this is on this disk: the one that is there, or, where there is none, a new one in the incarnation `fresh`. Nothing is written.
    ///
    /// # Errors
    /// All of [`IdentityError`].
    ///
    /// # Panics
    /// If the cluster's id is too long.
    pub fn find(
        disk: &impl Disk,
        cluster: &str,
        node: NodeId,
        fresh: Incarnation,
    ) -> Result<Identity, IdentityError> {
        let Some(identity) = Identity::read(disk)? else { return Ok(Identity::new(cluster, node, fresh)) };
        if identity.cluster != cluster {
            return Err(IdentityError::Cluster { found: identity.cluster, expected: cluster.into() });
        }
        if identity.node != node {
            return Err(IdentityError::Node { found: identity.node, expected: node });
        }
        Ok(identity)
    }

    /// Begins a start: from here on it is one of the [`starts`](Identity::starts), for good. It is durable once this returns, and the room
    /// for the next one is held again, where there is any: a start may end before anything else is done.
    ///
    /// # Errors
    /// [`Disk`](IdentityError::Disk): the disk's is as before, or this one.
    pub fn begin(&mut self, disk: &impl Disk, start: Start) -> Result<(), IdentityError> {
        self.starts.push(start);
        self.keep(disk)
    }

    /// This disk remembers another life from now on, which has written nothing. `past`: the life before was part of a cluster.
    pub fn begin_another_life(&mut self, fresh: Incarnation, past: bool) {
        (self.incarnation, self.begun) = (fresh, Begun::Nothing);
        self.past |= past;
        self.starts.forget();
    }

    /// Its word on the journal beside it.
    pub fn claim(&self) -> Claim {
        Claim { begun: self.begun, had: self.starts.newest().map_or(0, |start| start.had) }
    }

    /// Notes that a process has begun to write, with this segment, whose head is durable. Nothing to do where the disk has no identity.
    ///
    /// # Errors
    /// As [`read`](Identity::read) and [`write`](Identity::write).
    pub fn note_begun(disk: &impl Disk, segment: u64) -> Result<(), IdentityError> {
        let Some(mut identity) = Identity::read(disk)? else { return Ok(()) };
        identity.begun = Begun::Segment(segment);
        identity.keep(disk)
    }

    /// Replaces the disk's, and holds the room for the next one at once: that of the one before has just become free.
    ///
    /// # Errors
    /// As [`write`](Identity::write).
    pub fn keep(&self, disk: &impl Disk) -> Result<(), IdentityError> {
        self.write(disk)?;
        // Somebody else may have been quicker. Whoever keeps the journal goes on trying, and tells why it cannot.
        let _ = Ballast::Identity.hold(disk, BALLAST_BYTES);
        Ok(())
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
        bytes.extend_from_slice(&self.starts.generation().to_le_bytes());
        bytes.extend_from_slice(&[self.node.0, cluster.len() as u8]);
        bytes.extend_from_slice(cluster);
        let begun = match self.begun {
            Begun::Nothing => 0,
            Begun::Segment(number) => number,
            Begun::Unknown => UNKNOWN,
        };
        bytes.extend_from_slice(&begun.to_le_bytes());
        bytes.push(self.past.into());
        self.starts.encode(&mut bytes);
        self.tables.encode(&mut bytes);
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
        let evidence = take_evidence(&mut reader);
        let (begun, past, starts) =
            evidence.map_err(|_| damaged("what it says of its starts makes no sense"))?;
        let tables =
            Tables::decode(&mut reader).map_err(|_| damaged("what it says of tables makes no sense"))?;
        if !reader.is_empty() {
            return Err(damaged("it is too long"));
        }
        if starts.generation() != generation {
            return Err(damaged("it counts its starts twice, and not alike"));
        }
        Ok(Identity { cluster: cluster.into(), node, incarnation, starts, begun, past, tables })
    }
}

fn take_evidence(reader: &mut Reader<'_>) -> Result<(Begun, bool, Starts), Malformed> {
    let begun = match reader.u64()? {
        0 => Begun::Nothing,
        UNKNOWN => Begun::Unknown,
        number => Begun::Segment(number),
    };
    Ok((begun, reader.u8()? != 0, Starts::decode(reader)?))
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
        start_as(disk, "north", NodeId(2), FRESH)
    }

    fn start_as(
        disk: &SimulatedDisk,
        cluster: &str,
        node: NodeId,
        fresh: Incarnation,
    ) -> Result<Identity, IdentityError> {
        let mut identity = Identity::find(disk, cluster, node, fresh)?;
        let number = 1000 + identity.starts.generation();
        identity.begin(disk, Start { number, had: 7 * number }).map(|()| identity)
    }

    #[test]
    fn a_node_is_the_same_after_a_restart_and_a_start_older() {
        let disk = SimulatedDisk::new(1);
        assert!(Identity::read(&disk).unwrap().is_none());
        let first = start(&disk).unwrap();
        assert_eq!((first.incarnation, first.starts.generation()), (FRESH, 1));
        let second = start_as(&disk, "north", NodeId(2), Incarnation(66)).unwrap();
        let starts = vec![Start { number: 1000, had: 7000 }, Start { number: 1001, had: 7007 }];
        assert_eq!(second, Identity { starts: Starts::new(2, starts), ..first });
        assert_eq!(Identity::read(&disk).unwrap(), Some(second));
    }

    /// Whatever says that something is missing is there as long as the life is, and goes with it.
    #[test]
    fn what_it_claims_of_its_journal_lasts_as_long_as_the_life() {
        let disk = SimulatedDisk::new(1);
        Identity::note_begun(&disk, 3).unwrap();
        assert!(disk.names().unwrap().is_empty(), "without an identity there is nothing to note");
        start(&disk).unwrap();
        Identity::note_begun(&disk, 3).unwrap();
        disk.crash();
        let mut identity = start(&disk).unwrap();
        assert_eq!(identity.claim(), Claim { begun: Begun::Segment(3), had: 7007 });
        identity.begin_another_life(Incarnation(77), true);
        identity.write(&disk).unwrap();
        let identity = Identity::read(&disk).unwrap().unwrap();
        assert_eq!((identity.claim(), identity.past), (Claim::default(), true));
        assert_eq!((identity.incarnation, identity.starts.generation()), (Incarnation(77), 2));
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
                assert!((1..=2).contains(&found.starts.generation()) && found.incarnation == FRESH);
                assert!(ended.is_err() || found.starts.generation() == 2, "what was told is durable");
                assert_eq!(start(&disk).unwrap().starts.generation(), found.starts.generation() + 1);
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
        assert_eq!(start(&disk).unwrap_err().to_string(), "identity: format 7 is newer than this binary's 3");
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
        disk.remove("ballast-identity").unwrap();
        assert!(start(&disk).is_err());
        disk.set_capacity(None);
        disk.crash();
        assert_eq!(start(&disk).unwrap().starts.generation(), 2);
    }

    /// Once: a node could not start on a disk that was full to the last byte: its identity is written anew.
    #[test]
    fn a_node_starts_on_a_full_disk_if_it_holds_ballast() {
        for at in 0.. {
            let disk = SimulatedDisk::new(at);
            start(&disk).unwrap();
            disk.set_capacity(Some(0));
            disk.fail_power(at);
            let ended = start(&disk);
            let powered = disk.is_powered();
            disk.crash();
            let found = Identity::read(&disk).unwrap().unwrap();
            assert!(
                ended.is_err() || found.starts.generation() == 2 && disk.bytes_of(NAME).unwrap().len() < 200
            );
            if powered {
                return assert!(at > 5 && ended.is_ok());
            }
        }
    }

    /// A start that ends early, for a port that is taken say, has used up the room for the next one, and must have taken it again: on a
    /// full disk nobody else is there to do it.
    #[test]
    fn a_node_starts_on_a_full_disk_as_often_as_it_likes() {
        let disk = SimulatedDisk::new(1);
        start(&disk).unwrap();
        // A block for the ballast, and one for the identity: what is left of that one is nobody's.
        let longest = HEAD_BYTES as u64 + 5 + 8 + 1 + 8 + 2 + 5 * 16;
        disk.create("rest-of-block", 4096 - longest).unwrap();
        disk.set_capacity(Some(2 * 4096));
        for generation in 2..6 {
            assert_eq!(
                start(&disk).map_err(|error| error.to_string()).unwrap().starts.generation(),
                generation
            );
            disk.crash();
        }
    }
}
