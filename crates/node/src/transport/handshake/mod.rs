//! The first bytes on a connection between replicas: who is there, and do we fit together?
//!
//! ```text
//! hello    "HWTR" | handshake version u16 | format version u16 | cluster u64 | incarnation u64 | from u8 | to u8 |
//!          nodes u8 | engine u8 | streams u16 | channel u16 (65535: control) | tables u16 | procedures u16 |
//!          hash of the tables u64 | hash of the procedures u64 | durability u8 | number u32 | zeros | crc u32  64 bytes
//! welcome  "HWTW" | verdict u16 (0: welcome, 1: refused, 2: the caller was removed from the cluster) | node u8 | accounts u8 | incarnation u64 | reason (240, zero-filled) | crc u32
//! ```
//!
//! Little endian; fixed lengths, so that neither side reads into the frames that follow. `cluster` is a hash of the
//! cluster's name. Magic, version, length and place of the checksum stay as they are in every version, so that a
//! version is refused by its number; what a version adds comes out of the zeros.
//!
//! Two builds with one log format may still mean different things by table 7: tables and procedures are compared by
//! [`Fingerprint`].

mod identity;
mod mismatch;

use highwater_core::Durability;
use highwater_core::codec::{Malformed, Reader};
use highwater_core::log::FORMAT_VERSION;
use highwater_core::{Incarnation, NodeId};

pub use self::identity::{Fingerprint, Identity};
pub use self::mismatch::Mismatch;

use self::identity::cluster_hash;
use super::Channel;

/// Version of this exchange and of the framing that follows it.
pub const HANDSHAKE_VERSION: u16 = 4;
/// Length of a [`Hello`].
pub const HELLO_BYTES: usize = 64;
/// Length of a [`Welcome`].
pub const WELCOME_BYTES: usize = 16 + REASON_BYTES + 4;

const HELLO_MAGIC: &[u8; 4] = b"HWTR";
const WELCOME_MAGIC: &[u8; 4] = b"HWTW";
const REASON_BYTES: usize = 240;
/// The verdict on a caller that was removed.
const REMOVED: u16 = 2;

/// What a dialer says first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hello {
    /// [`HANDSHAKE_VERSION`] of the dialer.
    pub handshake_version: u16,
    /// [`FORMAT_VERSION`] of the dialer.
    pub format_version: u16,
    /// Hash of the cluster's name.
    pub cluster: u64,
    /// The dialer's life.
    pub incarnation: Incarnation,
    /// The dialer.
    pub from: NodeId,
    /// Whom it means to reach.
    pub to: NodeId,
    /// Cluster size, if that never changes; else 0.
    pub nodes: u8,
    /// Its [code](highwater_engines::EngineKind::code).
    pub engine: u8,
    /// Workers per node.
    pub streams: u16,
    /// What the connection is for.
    pub channel: Channel,
    /// The dialer's tables.
    pub tables: Fingerprint,
    /// The dialer's procedures.
    pub procedures: Fingerprint,
    /// What its vote is worth.
    pub durability: u8,
    /// Of the connection, larger than those of earlier ones of its channel; 0 from builds that keep no
    /// [accounts](super::accounts).
    pub number: u32,
}

/// As it travels: `sync` was there first.
fn level(durability: Durability) -> u8 {
    match durability {
        Durability::Memory => 0,
        Durability::Sync => 1,
        Durability::Async => 2,
    }
}

impl Hello {
    /// What `me` says to `to`, but for the number.
    pub fn new(me: &Identity, to: NodeId, channel: Channel) -> Hello {
        Hello {
            handshake_version: HANDSHAKE_VERSION,
            format_version: FORMAT_VERSION,
            cluster: cluster_hash(&me.cluster),
            incarnation: me.incarnation,
            from: me.node,
            to,
            nodes: me.nodes,
            engine: me.engine.code(),
            streams: me.streams,
            channel,
            tables: me.tables,
            procedures: me.procedures,
            durability: level(me.durability),
            number: 0,
        }
    }

    /// As it travels.
    pub fn encode(&self) -> [u8; HELLO_BYTES] {
        let mut out = Vec::with_capacity(HELLO_BYTES);
        out.extend_from_slice(HELLO_MAGIC);
        out.extend_from_slice(&self.handshake_version.to_le_bytes());
        out.extend_from_slice(&self.format_version.to_le_bytes());
        out.extend_from_slice(&self.cluster.to_le_bytes());
        out.extend_from_slice(&self.incarnation.0.to_le_bytes());
        out.extend_from_slice(&[self.from.0, self.to.0, self.nodes, self.engine]);
        out.extend_from_slice(&self.streams.to_le_bytes());
        out.extend_from_slice(&self.channel.code().to_le_bytes());
        out.extend_from_slice(&self.tables.count.to_le_bytes());
        out.extend_from_slice(&self.procedures.count.to_le_bytes());
        out.extend_from_slice(&self.tables.hash.to_le_bytes());
        out.extend_from_slice(&self.procedures.hash.to_le_bytes());
        out.push(self.durability);
        out.extend_from_slice(&self.number.to_le_bytes());
        out.resize(HELLO_BYTES - 4, 0);
        seal(out)
    }

    /// Takes it apart. An error means that whoever dialed is no Highwater node.
    pub fn decode(bytes: &[u8; HELLO_BYTES]) -> Result<Hello, Malformed> {
        let mut reader = open(bytes, HELLO_MAGIC, "hello")?;
        let mut hello = Hello {
            handshake_version: reader.u16()?,
            format_version: reader.u16()?,
            cluster: reader.u64()?,
            incarnation: Incarnation(reader.u64()?),
            from: NodeId(reader.u8()?),
            to: NodeId(reader.u8()?),
            nodes: reader.u8()?,
            engine: reader.u8()?,
            streams: reader.u16()?,
            channel: Channel::of(reader.u16()?),
            tables: Fingerprint { count: reader.u16()?, hash: 0 },
            procedures: Fingerprint { count: reader.u16()?, hash: 0 },
            durability: 0,
            number: 0,
        };
        hello.tables.hash = reader.u64()?;
        hello.procedures.hash = reader.u64()?;
        hello.durability = reader.u8()?;
        hello.number = reader.u32()?;
        Ok(hello)
    }

    /// Whether whoever said this means `me`, and belongs to the same cluster.
    pub fn is_of(&self, me: &Identity) -> bool {
        self.handshake_version == HANDSHAKE_VERSION
            && self.cluster == cluster_hash(&me.cluster)
            && self.to == me.node
    }

    /// Whether `me` can work with whoever said this.
    pub fn check(&self, me: &Identity) -> Result<(), Mismatch> {
        let theirs = |what, theirs: u64, ours: u64| {
            if theirs == ours { Ok(()) } else { Err(Mismatch::Differs { what, theirs, ours }) }
        };
        theirs("handshake version", self.handshake_version.into(), HANDSHAKE_VERSION.into())?;
        theirs("log format version", self.format_version.into(), FORMAT_VERSION.into())?;
        if self.cluster != cluster_hash(&me.cluster) {
            return Err(Mismatch::OtherCluster { ours: me.cluster.clone() });
        }
        if self.engine != me.engine.code() {
            return Err(Mismatch::OtherEngine { ours: me.engine.name() });
        }
        let builds = |what, theirs: Fingerprint, ours: Fingerprint| {
            if theirs == ours { Ok(()) } else { Err(Mismatch::OtherBuild { what, theirs, ours }) }
        };
        builds("tables", self.tables, me.tables)?;
        builds("procedures", self.procedures, me.procedures)?;
        theirs(
            "durability (0: memory, 1: sync, 2: async)",
            self.durability.into(),
            level(me.durability).into(),
        )?;
        theirs("number of nodes", self.nodes.into(), me.nodes.into())?;
        theirs("number of workers", self.streams.into(), me.streams.into())?;
        theirs("id of the node that was called", self.to.0.into(), me.node.0.into())?;
        if self.from <= me.node || me.nodes > 0 && self.from.0 >= me.nodes {
            return Err(Mismatch::BadCaller { from: self.from, ours: me.node });
        }
        match self.channel {
            Channel::Control => Ok(()),
            Channel::Worker(index) if index < me.streams => Ok(()),
            other => Err(Mismatch::NoSuchChannel { index: other.code() }),
        }
    }
}

/// What an acceptor answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Welcome {
    /// The acceptor.
    pub node: NodeId,
    /// The acceptor's life.
    pub incarnation: Incarnation,
    /// Why not, if not.
    pub refusal: Option<String>,
    /// The caller was removed from the cluster.
    pub removed: bool,
    /// Whether the acceptor keeps [accounts](super::accounts).
    pub accounts: bool,
}

impl Welcome {
    /// As it travels.
    pub fn encode(&self) -> [u8; WELCOME_BYTES] {
        let mut out = Vec::with_capacity(WELCOME_BYTES);
        out.extend_from_slice(WELCOME_MAGIC);
        let verdict = if self.removed { REMOVED } else { self.refusal.is_some().into() };
        out.extend_from_slice(&verdict.to_le_bytes());
        out.extend_from_slice(&[self.node.0, self.accounts.into()]);
        out.extend_from_slice(&self.incarnation.0.to_le_bytes());
        let reason = self.refusal.as_deref().unwrap_or_default().as_bytes();
        out.extend_from_slice(&reason[..reason.len().min(REASON_BYTES)]);
        out.resize(WELCOME_BYTES - 4, 0);
        seal(out)
    }

    /// Takes it apart. An error means that whoever answered is no Highwater node.
    pub fn decode(bytes: &[u8; WELCOME_BYTES]) -> Result<Welcome, Malformed> {
        let mut reader = open(bytes, WELCOME_MAGIC, "welcome")?;
        let verdict = reader.u16()?;
        let node = NodeId(reader.u8()?);
        let accounts = reader.u8()? != 0;
        let incarnation = Incarnation(reader.u64()?);
        let reason = reader.take(REASON_BYTES)?;
        let len = reason.iter().position(|&byte| byte == 0).unwrap_or(REASON_BYTES);
        let reason = String::from_utf8_lossy(&reason[..len]).into_owned();
        Ok(Welcome {
            node,
            incarnation,
            refusal: (verdict != 0).then_some(reason),
            removed: verdict == REMOVED,
            accounts,
        })
    }
}

/// Appends the checksum to a message that is complete but for it.
fn seal<const N: usize>(mut message: Vec<u8>) -> [u8; N] {
    message.extend_from_slice(&crc32fast::hash(&message).to_le_bytes());
    message.try_into().expect("a message has its fixed length")
}

/// Checks magic and checksum; reads what is between them.
fn open<'a>(bytes: &'a [u8], magic: &[u8; 4], what: &'static str) -> Result<Reader<'a>, Malformed> {
    let (message, crc) = bytes.split_at(bytes.len() - 4);
    if crc32fast::hash(message).to_le_bytes() != crc {
        return Err(Malformed(what));
    }
    let mut reader = Reader::new(message);
    if reader.take(4)? != magic {
        return Err(Malformed(what));
    }
    Ok(reader)
}

#[cfg(test)]
mod tests {
    use highwater_engines::EngineKind;

    use super::*;

    fn identity(node: u8) -> Identity {
        Identity {
            cluster: "test".into(),
            node: NodeId(node),
            incarnation: Incarnation(77),
            nodes: 3,
            streams: 2,
            engine: EngineKind::Rolis,
            tables: Fingerprint { count: 14, hash: 5 },
            procedures: Fingerprint::of_procedures(&["bank.pay", "bank.read"], &[1, 1]),
            durability: Durability::Memory,
        }
    }

    fn refusal(change: impl FnOnce(&mut Hello)) -> String {
        let mut hello = Hello::new(&identity(2), NodeId(0), Channel::Worker(1));
        change(&mut hello);
        hello.check(&identity(0)).expect_err("a mismatch").to_string()
    }

    #[test]
    fn hello_and_welcome_round_trip() {
        for channel in [Channel::Control, Channel::Worker(1)] {
            let hello = Hello { number: 70_000, ..Hello::new(&identity(2), NodeId(0), channel) };
            assert_eq!(Hello::decode(&hello.encode()), Ok(hello));
            assert_eq!(hello.check(&identity(0)), Ok(()));
        }
        for (refusal, removed) in
            [(None, false), (Some("because".to_string()), false), (Some("gone".into()), true)]
        {
            let (node, incarnation) = (NodeId(1), Incarnation(9));
            let welcome = Welcome { node, incarnation, refusal, removed, accounts: !removed };
            assert_eq!(Welcome::decode(&welcome.encode()), Ok(welcome));
        }
    }

    #[test]
    fn every_mismatch_is_refused_with_its_reason() {
        assert!(refusal(|hello| hello.handshake_version = 9).contains("handshake version"));
        assert!(refusal(|hello| hello.format_version = 9).contains("log format version: caller has 9"));
        assert!(refusal(|hello| hello.cluster = 9).contains("\"test\""));
        assert!(refusal(|hello| hello.engine = 1).contains("runs rolis"));
        assert_eq!(
            refusal(|hello| hello.tables.hash = 6),
            "tables: caller has 14 (hash 0000000000000006), called has 14 (hash 0000000000000005); \
             the two are different builds"
        );
        assert!(refusal(|hello| hello.tables.count = 9).contains("tables: caller has 9"));
        assert!(refusal(|hello| hello.procedures.hash = 9).starts_with("procedures: caller has 2"));
        assert!(refusal(|hello| hello.nodes = 5).contains("number of nodes: caller has 5, called has 3"));
        assert!(refusal(|hello| hello.streams = 4).contains("number of workers"));
        assert!(refusal(|hello| hello.to = NodeId(1)).contains("was called"));
        assert!(refusal(|hello| hello.from = NodeId(0)).contains("node id"));
        assert!(refusal(|hello| hello.from = NodeId(3)).contains("node id"));
        assert!(refusal(|hello| hello.channel = Channel::Worker(2)).contains("no worker 2"));
        assert!(refusal(|hello| hello.channel = Channel::Accounts).contains("no worker"));
    }

    #[test]
    fn strangers_and_damage_are_noticed() {
        let good = Hello::new(&identity(2), NodeId(0), Channel::Control).encode();
        for at in 0..HELLO_BYTES {
            let mut bad = good;
            bad[at] ^= 0x20;
            assert!(Hello::decode(&bad).is_err(), "byte {at}");
        }
        let mut stranger = [b' '; HELLO_BYTES];
        stranger[..14].copy_from_slice(b"GET / HTTP/1.1");
        assert!(Hello::decode(&stranger).is_err());
    }
}
