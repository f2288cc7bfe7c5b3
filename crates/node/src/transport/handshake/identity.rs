//! What must be the same on all nodes.

pub use highwater_core::Fingerprint;
use highwater_core::codec::{Malformed, Reader};
use highwater_core::{Durability, Incarnation, Level, Levels, NodeId, Schema, Speaks};
use highwater_engines::EngineKind;

/// What must be the same on all nodes, and who this one is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// The cluster's name.
    pub cluster: String,
    pub node: NodeId,
    /// This life of its memory.
    pub incarnation: Incarnation,
    /// How many nodes the cluster has, if that never changes; else 0.
    pub nodes: u8,
    /// How many workers each node has.
    pub streams: u16,
    /// Which engine runs.
    pub engine: EngineKind,
    /// The levels that it speaks, and the one that it uses by now.
    pub speaks: Speaks,
    /// The tables; the log names them by number. At a level that two nodes speak they have the same ones.
    pub schema: Schema,
    /// The procedures. Only what they write travels, so builds may differ in them.
    pub procedures: Fingerprint,
    /// What its vote is worth.
    pub durability: Durability,
}

impl Identity {
    /// The tables that it has at a level.
    pub fn tables(&self, level: Level) -> Fingerprint {
        Fingerprint::of_tables(&self.schema, level)
    }
}

/// As it travels: one byte each. Builds before levels say zeros, and mean the first.
pub(super) fn speaks_bytes(speaks: Speaks) -> [u8; 3] {
    [speaks.levels.oldest.0, speaks.levels.newest.0, speaks.in_use.0]
}

pub(super) fn read_speaks(reader: &mut Reader<'_>) -> Result<Speaks, Malformed> {
    let [oldest, newest, in_use] = [reader.u8()?, reader.u8()?, reader.u8()?].map(Level);
    if newest < Level::FIRST {
        return Ok(Speaks::FIRST);
    }
    let speaks = Speaks { levels: Levels { oldest, newest }, in_use };
    if speaks.levels.speak(in_use) { Ok(speaks) } else { Err(Malformed("levels")) }
}
