//! Up to where records of this epoch are gone, because all of that is over everywhere.

use highwater_core::{NodeId, Timestamp};

use crate::journal::{Journal, Record};

/// How much is written before it is noted down which records are not needed any more.
const NOTE_AFTER: u64 = 64 << 10;

pub struct Gone {
    /// For each node; and whether it is to be noted down.
    upto: Vec<(Timestamp, bool)>,
    /// How far was written when it was noted down last.
    noted: u64,
}

impl Gone {
    /// Nothing.
    pub fn new(nodes: u8) -> Gone {
        Gone { upto: vec![(Timestamp::ZERO, false); nodes.into()], noted: 0 }
    }

    /// Another epoch begins.
    pub fn clear(&mut self) {
        self.upto.fill((Timestamp::ZERO, false));
    }

    pub fn upto(&self, node: NodeId) -> Timestamp {
        self.upto[node.0 as usize].0
    }

    /// Records of a node's are gone up to here. `noted`: there is a disk to note it down.
    pub fn went(&mut self, node: NodeId, ts: Timestamp, noted: bool) {
        self.upto[node.0 as usize] = (ts, noted);
    }

    /// An earlier life noted it down.
    pub fn went_before(&mut self, node: NodeId, ts: Timestamp) {
        let gone = &mut self.upto[node.0 as usize];
        *gone = (ts.max(gone.0), false);
    }

    /// Whether there is such a node: records on disk may name any.
    pub fn knows(&self, node: NodeId) -> Result<(), &'static str> {
        self.upto.get(node.0 as usize).map(drop).ok_or("a record of a node that there is not")
    }

    /// The part that a checkpoint needs.
    pub fn records(&self) -> impl Iterator<Item = Record> {
        let all = self.upto.iter().enumerate().filter(|(_, (ts, _))| *ts > Timestamp::ZERO);
        all.map(|(node, (ts, _))| Record::Trimmed(NodeId(node as u8), *ts))
    }

    /// Notes down which records are not needed any more, now and then: who comes back tells only what is left.
    pub fn write(&mut self, journal: &mut Journal, at_least: bool) {
        let position = journal.position().0;
        if position == self.noted || !at_least && position < self.noted + NOTE_AFTER {
            return;
        }
        for (node, (ts, news)) in self.upto.iter_mut().enumerate() {
            if std::mem::take(news) {
                journal.write(&Record::Trimmed(NodeId(node as u8), *ts));
            }
        }
        self.noted = journal.position().0;
    }
}
