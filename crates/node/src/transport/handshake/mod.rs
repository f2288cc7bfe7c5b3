//! The first bytes on a connection between replicas: who is there, and do we fit together?
//!
//! ```text
//! hello    "HWTR" | handshake version u16 | format version u16 | cluster u64 | incarnation u64 | from u8 | to u8 |
//!          nodes u8 | engine u8 | streams u16 | channel u16 (65535: control) | tables u16 | procedures u16 |
//!          hash of the tables u64 | hash of the procedures u64 | durability u8 | number u32 | levels (3) | crc u32  64 bytes
//! welcome  "HWTW" | verdict u16 (0: welcome, 1: refused, 2: the caller was removed from the cluster) | node u8 | accounts u8 | incarnation u64 |
//!          reason (227, zero-filled) | levels (3) | tables u16 | hash of the tables u64 | crc u32  260 bytes
//! levels   oldest u8 | newest u8 | in use u8      zeros from builds before levels: the first
//! ```
//!
//! Little endian; fixed lengths, so that neither side reads into the frames that follow. `cluster` is a hash of the
//! cluster's name. Magic, version, length and place of the checksum stay as they are in every version, so that a
//! version is refused by its number; what a version adds comes out of the zeros.
//!
//! The format version is that of the oldest level that the caller speaks: builds before levels compare it. From then on the
//! [levels](highwater_core::level) decide: each side must speak what the other uses.
//!
//! Two builds may still mean different things by table 7: of the tables that they have at the newest level that both speak the
//! [`Fingerprint`]s are compared, by whoever knows that level's: the acceptor, or the dialer if it is newer. Procedures may differ:
//! only what they write travels.

mod identity;
mod mismatch;

use highwater_core::Durability;
use highwater_core::codec::{Malformed, Reader};
use highwater_core::log::FORMAT_VERSION;
use highwater_core::{Incarnation, Levels, NodeId, Speaks};

pub use self::identity::{Fingerprint, Identity};
pub use self::mismatch::Mismatch;

use self::identity::{read_speaks, speaks_bytes};
use super::Channel;

/// Version of this exchange and of the framing that follows it.
pub const HANDSHAKE_VERSION: u16 = 4;
/// Length of a [`Hello`].
pub const HELLO_BYTES: usize = 64;
/// Length of a [`Welcome`].
pub const WELCOME_BYTES: usize = 16 + REASON_BYTES + SPEAKS_BYTES + FINGERPRINT_BYTES + 4;

const HELLO_MAGIC: &[u8; 4] = b"HWTR";
const WELCOME_MAGIC: &[u8; 4] = b"HWTW";
const REASON_BYTES: usize = 227;
const SPEAKS_BYTES: usize = 3;
const FINGERPRINT_BYTES: usize = 10;
/// The verdict on a caller that was removed.
const REMOVED: u16 = 2;

/// What a dialer says first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hello {
    /// [`HANDSHAKE_VERSION`] of the dialer.
    pub handshake_version: u16,
    /// The log's format at the oldest level that the dialer speaks; [`FORMAT_VERSION`] from builds before levels.
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
    /// The dialer's levels.
    pub speaks: Speaks,
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
            format_version: me.speaks.levels.oldest.format().into(),
            cluster: Fingerprint::of_name(&me.cluster),
            incarnation: me.incarnation,
            from: me.node,
            to,
            nodes: me.nodes,
            engine: me.engine.code(),
            streams: me.streams,
            channel,
            tables: me.tables(me.speaks.levels.newest),
            procedures: me.procedures,
            durability: level(me.durability),
            number: 0,
            speaks: me.speaks,
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
        out.extend_from_slice(&speaks_bytes(self.speaks));
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
            speaks: Speaks::FIRST,
        };
        hello.tables.hash = reader.u64()?;
        hello.procedures.hash = reader.u64()?;
        hello.durability = reader.u8()?;
        hello.number = reader.u32()?;
        hello.speaks = read_speaks(&mut reader)?;
        Ok(hello)
    }

    /// Whether whoever said this means `me`, and belongs to the same cluster.
    pub fn is_of(&self, me: &Identity) -> bool {
        self.handshake_version == HANDSHAKE_VERSION
            && self.cluster == Fingerprint::of_name(&me.cluster)
            && self.to == me.node
    }

    /// Whether `me` can work with whoever said this.
    pub fn check(&self, me: &Identity) -> Result<(), Mismatch> {
        let theirs = |what, theirs: u64, ours: u64| {
            if theirs == ours { Ok(()) } else { Err(Mismatch::Differs { what, theirs, ours }) }
        };
        theirs("handshake version", self.handshake_version.into(), HANDSHAKE_VERSION.into())?;
        if self.speaks == Speaks::FIRST {
            // A build before levels may have had another format.
            theirs("log format version", self.format_version.into(), FORMAT_VERSION.into())?;
        }
        if self.cluster != Fingerprint::of_name(&me.cluster) {
            return Err(Mismatch::OtherCluster { ours: me.cluster.clone() });
        }
        if self.engine != me.engine.code() {
            return Err(Mismatch::OtherEngine { ours: me.engine.name() });
        }
        fits((self.from, self.speaks, self.tables), me)?;
        if self.durability != level(me.durability) {
            let all = [Durability::Memory, Durability::Async, Durability::Sync];
            let theirs = all.into_iter().find(|durability| level(*durability) == self.durability);
            return Err(Mismatch::Durability { theirs, ours: me.durability });
        }
        theirs("number of nodes", self.nodes.into(), me.nodes.into())?;
        theirs("number of workers", self.streams.into(), me.streams.into())?;
        theirs("id of the node that was called", self.to.0.into(), me.node.0.into())?;
        if self.from <= me.node || me.nodes > 0 && self.from.0 >= me.nodes {
            return Err(Mismatch::BadCaller { from: self.from, ours: me.node });
        }
        match self.channel {
            Channel::Control => Ok(()),
            Channel::Worker(index) | Channel::Forward(index) if index < me.streams => Ok(()),
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
    /// The acceptor's levels.
    pub speaks: Speaks,
    /// The acceptor's tables.
    pub tables: Fingerprint,
}

/// Whether two nodes speak what the other uses, and `me` knows the other's tables, if its build is not the older one: then the other
/// sees to it.
fn fits((node, speaks, tables): (NodeId, Speaks, Fingerprint), me: &Identity) -> Result<(), Mismatch> {
    let speaks_what = |(uses, level), (other, levels): (NodeId, Levels)| match levels.speak(level) {
        true => Ok(()),
        false => Err(Mismatch::Levels { uses, level, other, levels }),
    };
    speaks_what((node, speaks.in_use), (me.node, me.speaks.levels))?;
    speaks_what((me.node, me.speaks.in_use), (node, speaks.levels))?;
    let ours = me.tables(speaks.levels.newest);
    if speaks.levels.newest > me.speaks.levels.newest || tables == ours {
        return Ok(());
    }
    Err(Mismatch::OtherBuild { what: "tables", theirs: tables, ours })
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
        out.resize(16 + REASON_BYTES, 0);
        out.extend_from_slice(&speaks_bytes(self.speaks));
        out.extend_from_slice(&self.tables.count.to_le_bytes());
        out.extend_from_slice(&self.tables.hash.to_le_bytes());
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
        let speaks = read_speaks(&mut reader)?;
        let tables = Fingerprint { count: reader.u16()?, hash: reader.u64()? };
        Ok(Welcome {
            node,
            incarnation,
            refusal: (verdict != 0).then_some(reason),
            removed: verdict == REMOVED,
            accounts,
            speaks,
            tables,
        })
    }

    /// Whether `me`, which was welcomed, can work with whoever said this. The acceptor has looked; but it may not know this node's
    /// tables, and this node may have raised its level since it said hello.
    pub fn check(&self, me: &Identity) -> Result<(), Mismatch> {
        // A build before levels says nothing of its tables here: it has compared them.
        let tables = if self.tables.hash == 0 { me.tables(self.speaks.levels.newest) } else { self.tables };
        fits((self.node, self.speaks, tables), me)
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
    use highwater_core::{IndexKind, KeyKind, Level, Schema, TableSpec};
    use highwater_engines::EngineKind;

    use super::*;

    fn table(name: &'static str) -> TableSpec {
        TableSpec { name, keys: KeyKind::U64, index: IndexKind::Hash }
    }

    /// A build of the next release, with a table of its own.
    fn newer(node: u8, in_use: u8) -> Identity {
        let me = identity(node);
        let schema = me.schema.clone().with_tables_of(Level(2), vec![table("rates")]);
        Identity { speaks: Speaks { levels: Levels::up_to(Level(2)), in_use: Level(in_use) }, schema, ..me }
    }

    fn welcome(by: &Identity) -> Welcome {
        let (node, incarnation, speaks) = (by.node, by.incarnation, by.speaks);
        let tables = by.tables(speaks.levels.newest);
        Welcome { node, incarnation, refusal: None, removed: false, accounts: true, speaks, tables }
    }

    /// Whether a dialer and an acceptor come to work together, or why not.
    fn meet(dialer: &Identity, acceptor: &Identity) -> Result<(), String> {
        let hello = Hello::new(dialer, acceptor.node, Channel::Control);
        let hello = Hello::decode(&hello.encode()).unwrap();
        hello.check(acceptor).map_err(|why| why.to_string())?;
        let welcome = Welcome::decode(&welcome(acceptor).encode()).unwrap();
        welcome.check(dialer).map_err(|why| why.to_string())
    }

    #[test]
    fn builds_of_two_releases_work_together_until_the_newer_level_is_in_use() {
        assert_eq!(meet(&newer(2, 1), &identity(0)), Ok(()));
        assert_eq!(meet(&identity(2), &newer(0, 1)), Ok(()));
        assert_eq!(meet(&newer(2, 2), &newer(0, 1)), Ok(()), "it has not heard of it yet");
        let refused = "level: n0 uses level 2 by now, and the build of n2 reads up to level 1: start n2 with a newer build";
        assert_eq!(meet(&identity(2), &newer(0, 2)), Err(refused.into()));
        let refused = "level: n2 uses level 2 by now, and the build of n0 reads up to level 1: start n0 with a newer build";
        assert_eq!(meet(&newer(2, 2), &identity(0)), Err(refused.into()));
        let far = Speaks { levels: Levels { oldest: Level(2), newest: Level(3) }, in_use: Level(2) };
        let far = Identity { speaks: far, ..identity(2) };
        assert!(
            meet(&far, &newer(0, 1))
                .unwrap_err()
                .contains("n0 still uses level 1, and the build of n2 speaks from level 2")
        );
    }

    #[test]
    fn tables_of_the_level_that_both_speak_must_be_the_same() {
        let other = |me: Identity| Identity { schema: Schema::new(vec![table("other")]), ..me };
        for (dialer, acceptor) in [
            (other(newer(2, 1)), identity(0)),
            (other(identity(2)), newer(0, 1)),
            (newer(2, 1), other(identity(0))),
            (other(newer(2, 1)), newer(0, 1)),
            (newer(2, 1), Identity { schema: identity(0).schema, ..newer(0, 1) }),
        ] {
            assert!(meet(&dialer, &acceptor).unwrap_err().starts_with("tables: "), "{dialer:?} {acceptor:?}");
        }
    }

    /// They said zeros where the levels are, and nothing of tables in a welcome.
    #[test]
    fn builds_before_levels_speak_the_first() {
        let zeroed = |mut bytes: Vec<u8>, at: usize| {
            let end = bytes.len() - 4;
            bytes[at..end].fill(0);
            let crc = crc32fast::hash(&bytes[..end]);
            bytes[end..].copy_from_slice(&crc.to_le_bytes());
            bytes
        };
        let hello = Hello::new(&identity(2), NodeId(0), Channel::Control);
        let old =
            Hello::decode(&zeroed(hello.encode().to_vec(), HELLO_BYTES - 7).try_into().unwrap()).unwrap();
        assert_eq!(old.speaks, Speaks::FIRST);
        assert_eq!(old.check(&newer(0, 1)), Ok(()));
        assert!(old.check(&newer(0, 2)).is_err());
        let old = zeroed(welcome(&identity(0)).encode().to_vec(), 16).try_into().unwrap();
        let old = Welcome::decode(&old).unwrap();
        assert_eq!(old.check(&newer(2, 1)), Ok(()));
        assert!(old.check(&newer(2, 2)).is_err());
    }

    fn identity(node: u8) -> Identity {
        Identity {
            cluster: "test".into(),
            node: NodeId(node),
            incarnation: Incarnation(77),
            nodes: 3,
            streams: 2,
            engine: EngineKind::Rolis,
            speaks: Speaks { levels: Levels::up_to(Level(1)), in_use: Level(1) },
            schema: Schema::new(vec![table("accounts")]),
            procedures: Fingerprint::of_procedures(&["bank.pay", "bank.read"], &[1, 1]),
            durability: Durability::Memory,
        }
    }

    #[test]
    fn procedures_may_differ() {
        let mut hello = Hello::new(&identity(2), NodeId(0), Channel::Control);
        hello.procedures.hash = 9;
        assert_eq!(hello.check(&identity(0)), Ok(()));
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
            let welcome = Welcome { refusal, removed, accounts: !removed, ..welcome(&newer(1, 2)) };
            assert_eq!(Welcome::decode(&welcome.encode()), Ok(welcome));
        }
    }

    /// Once: errors at start did not say what to do: a damaged `identity` ("set storage.dir to this node's own folder"),
    /// a damaged journal (nothing), files of another user (no name); a node with another `cluster.durability` than the
    /// others was named in its log only, as `0` and `1`.
    #[test]
    fn every_mismatch_is_refused_with_its_reason() {
        assert!(refusal(|hello| hello.handshake_version = 9).contains("handshake version"));
        assert!(
            refusal(|hello| hello.format_version = 9).contains("log format version: caller has 9"),
            "before levels"
        );
        assert!(refusal(|hello| hello.cluster = 9).contains("\"test\""));
        assert!(refusal(|hello| hello.engine = 1).contains("runs rolis"));
        assert!(
            refusal(|hello| hello.tables.hash = 6)
                .starts_with("tables: caller has 1 (hash 0000000000000006), called")
        );
        assert!(refusal(|hello| hello.tables.count = 9).contains("tables: caller has 9"));
        assert!(refusal(|hello| hello.nodes = 5).contains("number of nodes: caller has 5, called has 3"));
        assert!(refusal(|hello| hello.durability = 1).contains("caller has \"sync\", called has \"memory\""));
        assert!(refusal(|hello| hello.durability = 9).contains("caller has another one"));
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
