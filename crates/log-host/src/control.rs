//! What the controllers of two replicas say to each other.

use bytes::Bytes;
use highwater_consensus::{ElectionMessage, Members};
use highwater_core::codec::{Malformed, Reader};
use highwater_core::wire::List;
use highwater_core::{EntryIndex, Epoch, Level, Timestamp, wire};
use highwater_kit::witness::{DiskWord, InShort};
use highwater_seam::memory::Told;

use crate::members::handover::HandOverMessage;

wire! {
    /// A message between controllers. The sender's identity comes with the connection.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub enum ControlMessage: "control message" {
        /// Who leads.
        Election = 0 (election: ElectionMessage),
        /// I am here.
        Hello = 1 {
            /// I know of a membership, so the cluster exists.
            born: bool,
        },
        /// You vote: all nodes met for the first time, and this is the first membership; or you missed that, and it is a later
        /// one.
        Genesis = 2 (members: Members),
        /// I need a copy of the state.
        CopyRequest = 3 {
            /// Names the copy.
            copy: u64,
        },
        /// You can have it from me.
        CopyGrant = 4 {
            /// Names the copy.
            copy: u64,
            /// The epoch that the donor is in.
            epoch: Epoch,
            /// The newest membership that the donor knows: the changes before `starts` will not be seen in the log.
            members: Members,
            /// Everything at or below will be in the copied state.
            floor: Timestamp,
            /// Per stream: the first entry that may hold more.
            starts: Vec<EntryIndex> as List<u16>,
        },
        /// Not from me, or not now.
        CopyRefuse = 5 {
            /// Names the copy.
            copy: u64,
        },
        /// I have my copy, or have given up; tombstones may go.
        CopyFinished = 6 {
            /// Names the copy.
            copy: u64,
        },
        /// To the leader: my store is complete and I keep up; let me vote.
        LearnerReady = 7,
        /// What my store may use, and uses; and whether my disk has room.
        Memory = 8 (told: Told),
        /// About a lead that is handed over.
        HandOver = 9 (lead: HandOverMessage),
        /// You do not belong to the membership, which is this: you are new, or you were removed.
        Membership = 10 (members: Members),
        /// Whether my store is complete.
        Store = 11 {
            complete: bool,
        },
        /// This level is in use; from 2 on.
        Level = 12 (level: Level),
        /// How my disk is, of the newest start alone, as the first builds say it: to those who say it so.
        DiskInShort = 20 (word: DiskWord as InShort),
        /// The answer to [`Disk`](ControlMessage::Disk), of a voter: what it knows of the disk of the node that it answers.
        DiskJudged = 21 {
            /// In which start of its process that node asked.
            start: u64,
            /// The disk is older than what it told before.
            stale: bool,
        },
        /// How my disk is: does anybody know that it should be newer?
        Disk = 22 (word: DiskWord),
    }
}

impl ControlMessage {
    /// Its bytes, alone.
    pub fn bytes(&self) -> Bytes {
        let mut out = Vec::with_capacity(64);
        self.encode(&mut out);
        out.into()
    }

    /// Reads a message that is alone.
    ///
    /// # Errors
    /// The bytes are none, or there are more.
    pub fn read(bytes: &[u8]) -> Result<ControlMessage, Malformed> {
        let mut reader = Reader::new(bytes);
        let message = ControlMessage::decode(&mut reader)?;
        if reader.is_empty() { Ok(message) } else { Err(Malformed("control message length")) }
    }
}

/// What a donor grants: the fields of [`ControlMessage::CopyGrant`].
pub struct Granted {
    /// The epoch that the donor is in.
    pub epoch: Epoch,
    /// The newest membership that it knows.
    pub members: Members,
    /// Everything at or below will be in the copied state.
    pub floor: Timestamp,
    /// Per stream: the first entry that may hold more.
    pub starts: Vec<EntryIndex>,
}
