//! What a node knows of the others' disks: whether one that comes back has all that it told to be durable.
//!
//! The half of the [evidence] that others keep. Who comes back tells its starts, and how far its disk is synced;
//! who met it in one of them compares, and says so if the disk cannot be what became of that: then the node begins another life, for what
//! it once promised and accepted is not on that disk.
//!
//! | the copy was taken | noticed by whoever |
//! |---|---|
//! | before the node's last start | met the node in that start, and has since kept its own disk or process |
//! | since the node's last start | heard how far the disk was synced later than that, and whose process has run since, or who has noted it down |
//!
//! Invariant: a node that comes back with a disk takes part in nothing before a majority of the voters, itself among them, has said that
//! it knows nothing against that disk. The voters are those of the newest membership that it was told of: who was removed while it was
//! away need not be there to speak for it. Who came meanwhile never met it; why it may speak is the engine's argument (`rolis`'s: the epoch
//! that let it in was opened without this node, by a majority of its members, and they hold what was decided before and have promised as
//! much. `meerkat`'s: whoever gave it the state told it what it had heard).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use bytes::Bytes;
use highwater_core::Voter;
use highwater_core::codec::{Malformed, Reader};
use highwater_core::evidence::{self, Known, Start, Starts};
use highwater_core::wire::{Form, Kind, Wire};
use highwater_core::{Random, planted, wire, wire_codec};
use highwater_seam::DiskState;

wire! {
    /// A node's word on its disk.
    #[derive(Clone, Debug, Default, PartialEq, Eq)]
    pub struct DiskWord: "disk word" {
        /// Starts on this disk, this one the newest, with the bytes that it had at each.
        pub starts: Arc<Starts>,
        /// Bytes that it surely has by now.
        pub synced: u64,
    }
}

/// In front of what the log host's controller writes of others' disks; where it writes a membership stands an epoch that there will never be.
pub const RECORD: u64 = u64::MAX;

/// A life of a node, and what was heard of its disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Met {
    /// The life whose disk it is.
    pub voter: Voter,
    /// The newest of what it told.
    pub known: Known,
}

/// Behind the generation stands a zero, where the first builds wrote what the disk had when that start began.
impl Wire for Met {
    const NAME: &'static str = "met";

    fn put(&self, out: &mut Vec<u8>) {
        let Known { start, generation, synced } = self.known;
        self.voter.put(out);
        [start, generation, 0, synced].iter().for_each(|word| word.put(out));
    }

    fn take(from: &mut Reader<'_>) -> Result<Met, Malformed> {
        let voter = Wire::take(from)?;
        let (start, generation, _had) = (Wire::take(from)?, Wire::take(from)?, u64::take(from)?);
        Ok(Met { voter, known: Known { start, generation, synced: Wire::take(from)? } })
    }

    fn draw(random: &mut Random) -> Met {
        let (start, generation, synced) = (Wire::draw(random), Wire::draw(random), Wire::draw(random));
        Met { voter: Wire::draw(random), known: Known { start, generation, synced } }
    }
}

impl Met {
    /// Its parts, as documents describe them.
    pub fn kinds() -> Vec<Kind> {
        let words = ["start", "generation", "zero", "synced"].map(|name| (name, u64::form()));
        vec![Kind::of("Met", std::iter::once(("voter", Voter::form())).chain(words))]
    }
}

wire_codec!(Met);

/// How far another's disk is synced is noted down when it has become so many bytes more: so much of a folder that is copied while its node
/// runs may be told to nobody who remembers it. Many times what noting it takes of this node's own disk, which is noted by others.
const NOTE_EVERY_BYTES: u64 = 4096;

/// What this node heard, and what others said of its own disk.
#[derive(Clone, Debug, Default)]
pub struct Witness {
    /// The last start of each life that was met, and how far its disk was synced when that was last noted down.
    known: BTreeMap<Voter, (Known, u64)>,
    /// This process started with what an earlier one wrote, and must be cleared.
    came_back: bool,
    /// Who knows nothing against its disk.
    cleared_by: BTreeSet<Voter>,
    cleared: bool,
}

impl Witness {
    /// This node comes back with its disk.
    pub fn come_back(&mut self) {
        self.came_back = true;
    }

    /// Whether this node may take part.
    pub fn is_cleared(&self) -> bool {
        !self.came_back || self.cleared
    }

    /// Takes what a node says of its disk: whether the disk is older than what that node once told, and whether there is news, to be
    /// [written](Witness::record).
    pub fn hear(&mut self, from: Voter, word: &DiskWord) -> Heard {
        let Some(Start { number: start, had: _ }) = word.starts.newest() else { return Heard::Known };
        let now = Known { start, generation: word.starts.generation(), synced: word.synced };
        let Some((known, noted)) = self.known.get_mut(&from) else {
            self.known.insert(from, (now, now.synced));
            return Heard::News;
        };
        if known.start == start {
            known.synced = known.synced.max(word.synced);
            if known.synced < *noted + NOTE_EVERY_BYTES {
                return Heard::Known;
            }
            *noted = known.synced;
            return Heard::News;
        }
        if !goes_on(*known, &word.starts) && !planted!(StaleDiskVotes) {
            return Heard::Stale;
        }
        (*known, *noted) = (now, now.synced);
        Heard::News
    }

    /// A voter knows nothing against this node's disk. Whether that makes the majority: `reached` says so of those that clear it, this node
    /// among them.
    pub fn clear(
        &mut self,
        me: Voter,
        by: Option<Voter>,
        reached: impl FnOnce(&dyn Fn(Voter) -> bool) -> bool,
    ) -> bool {
        self.cleared_by.extend(by);
        if self.is_cleared() {
            return false;
        }
        self.cleared = reached(&|voter| voter == me || self.cleared_by.contains(&voter));
        self.cleared
    }

    /// The newest that was heard of a life, if a disk with these starts cannot be what became of it: the rule of [`hear`](Witness::hear), for who
    /// looks at folders and asks no node.
    pub fn speaks_against(&self, voter: Voter, starts: &Starts) -> Option<Known> {
        let (known, _) = *self.known.get(&voter)?;
        (!goes_on(known, starts)).then_some(known)
    }

    /// All that was heard, of every life.
    pub fn met(&self) -> impl Iterator<Item = Met> + '_ {
        self.known.iter().map(|(voter, (known, _))| Met { voter: *voter, known: *known })
    }

    /// The newest of what was heard of a life.
    pub fn met_of(&self, voter: Voter) -> Option<Met> {
        self.known.get(&voter).map(|(known, _)| Met { voter, known: *known })
    }

    /// Takes what this node had noted down, or what another one heard, as far as it is news. Whether it was.
    pub fn learn(&mut self, met: Met) -> bool {
        let Met { voter, known } = met;
        let order = |known: &Known| (known.generation, known.synced);
        let news = self.known.get(&voter).is_none_or(|(before, _)| order(before) < order(&known));
        if news {
            self.known.insert(voter, (known, known.synced));
        }
        news
    }

    /// A record of what was heard of a life, as the log host writes it: `RECORD | `[`Met`].
    pub fn record(&self, voter: Voter) -> Bytes {
        record(self.met_of(voter).unwrap_or(Met { voter, known: Known::default() }))
    }

    /// All that was heard, to be written anew: what was written before is about to be dropped.
    pub fn records(&self) -> Vec<Bytes> {
        self.met().map(record).collect()
    }

    /// Takes such a record; whether it was one.
    ///
    /// # Errors
    /// If it begins as one and is none.
    pub fn recover(&mut self, record: &[u8]) -> Result<bool, Malformed> {
        let mut reader = Reader::new(record);
        if reader.u64()? != RECORD {
            return Ok(false);
        }
        let met = Met::decode(&mut reader)?;
        if !reader.is_empty() {
            return Err(Malformed("length of a record of a disk"));
        }
        self.known.insert(met.voter, (met.known, met.known.synced));
        Ok(true)
    }
}

fn record(met: Met) -> Bytes {
    let mut out = RECORD.to_le_bytes().to_vec();
    met.encode(&mut out);
    out.into()
}

fn goes_on(known: Known, starts: &Starts) -> bool {
    if planted!(UnheardStartsCount) {
        let newest = starts.newest().into_iter().collect();
        return evidence::goes_on(known, &Starts::new(starts.generation(), newest));
    }
    evidence::goes_on(known, starts)
}

/// What a node's word about its disk means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Heard {
    /// A start that was not met before, or one whose disk has come further than what was noted down.
    News,
    /// The start that was met before.
    Known,
    /// The disk is older than what the node told.
    Stale,
}

impl DiskWord {
    /// Of this node's own disk; `None` if it has none.
    pub fn of(state: &DiskState) -> Option<DiskWord> {
        let DiskState { starts, synced, low: _ } = state;
        (starts.generation() > 0).then(|| DiskWord { starts: starts.clone(), synced: *synced })
    }
}

/// As the first builds say it: of the newest start alone.
#[derive(Debug)]
pub struct InShort;

impl Form<DiskWord> for InShort {
    fn put(word: &DiskWord, out: &mut Vec<u8>) {
        let Start { number, had } = word.starts.newest().unwrap_or_default();
        [number, word.starts.generation(), had, word.synced].iter().for_each(|word| word.put(out));
    }

    fn take(from: &mut Reader<'_>) -> Result<DiskWord, Malformed> {
        let (number, generation) = (u64::take(from)?, u64::take(from)?);
        let (had, synced) = (u64::take(from)?, u64::take(from)?);
        if generation == 0 {
            return Err(Malformed("start of a disk"));
        }
        let starts = Arc::new(Starts::new(generation, vec![Start { number, had }]));
        Ok(DiskWord { starts, synced })
    }

    fn form() -> String {
        "start u64 | generation u64 | had u64 | synced u64".into()
    }

    fn draw(random: &mut Random) -> DiskWord {
        let start = Start { number: Wire::draw(random), had: Wire::draw(random) };
        let generation = u64::draw(random).max(1);
        DiskWord { starts: Arc::new(Starts::new(generation, vec![start])), synced: Wire::draw(random) }
    }
}

#[cfg(test)]
mod tests {
    use highwater_consensus::{Members, Quorums};
    use highwater_core::wire::testing::{check, described, golden};
    use highwater_core::{Epoch, Incarnation, NodeId};

    use super::*;

    fn voter(node: u8) -> Voter {
        Voter { node: NodeId(node), incarnation: Incarnation(u64::from(node) + 50) }
    }

    /// The word of a disk with starts 1, 2, .. that had 100, 200, .. bytes, the last of these another number.
    fn word(generation: u64, start: u64, synced: u64) -> DiskWord {
        let start = |at| Start { number: if at == generation { start } else { at }, had: 100 * at };
        DiskWord { starts: Arc::new(Starts::new(generation, (1..=generation).map(start).collect())), synced }
    }

    #[test]
    fn an_older_disk_is_recognised_by_its_starts_or_by_what_it_lacks() {
        let mut witness = Witness::default();
        assert_eq!(witness.hear(voter(1), &word(3, 3, 300)), Heard::News);
        assert_eq!(witness.hear(voter(1), &word(3, 3, 400)), Heard::Known);
        assert_eq!(witness.hear(voter(1), &word(3, 33, 900)), Heard::Stale, "copied before the last start");
        assert_eq!(witness.hear(voter(1), &word(2, 2, 900)), Heard::Stale);
        let mut often = (*word(3, 33, 0).starts).clone();
        (0..20).for_each(|more| often.push(Start { number: 70 + more, had: 900 }));
        let often = DiskWord { starts: Arc::new(often), synced: 900 };
        assert_eq!(witness.hear(voter(1), &often), Heard::Stale, "the same, and started again and again");
        assert_eq!(witness.hear(voter(1), &word(4, 4, 400)), Heard::News);
        assert_eq!(witness.hear(voter(1), &word(4, 4, 501)), Heard::Known);
        assert_eq!(witness.hear(voter(1), &word(5, 5, 900)), Heard::Stale, "copied since, and it told more");
        assert_eq!(witness.hear(voter(1), &word(6, 6, 900)), Heard::Stale, "and started once more");
        assert_eq!(witness.hear(voter(1), &word(3, 3, 900)), Heard::Stale, "late, of a start that is over");
        assert_eq!(witness.hear(voter(2), &word(1, 1, 0)), Heard::News);
    }

    #[test]
    fn what_was_heard_is_remembered() {
        let (mut before, mut after) = (Witness::default(), Witness::default());
        before.hear(voter(1), &word(3, 3, 100));
        let record = before.record(voter(1));
        assert_eq!(after.recover(&record), Ok(true));
        assert_eq!(after.hear(voter(1), &word(3, 33, 100)), Heard::Stale);
        let mut members = Vec::new();
        Members::new(Epoch(4), vec![voter(0)]).encode(&mut members);
        assert_eq!(after.recover(&members), Ok(false));
        for len in 8..record.len() {
            assert!(after.recover(&record.slice(..len)).is_err());
        }
    }

    /// Else a copy of a running node, put back after a power cut of all, is told nothing by those who were told all along.
    #[test]
    fn how_far_a_disk_is_synced_is_noted_down_now_and_then() {
        let mut before = Witness::default();
        before.hear(voter(1), &word(3, 3, 300));
        assert_eq!(before.hear(voter(1), &word(3, 3, 300 + NOTE_EVERY_BYTES - 1)), Heard::Known);
        assert_eq!(before.hear(voter(1), &word(3, 3, 300 + NOTE_EVERY_BYTES)), Heard::News);
        assert_eq!(before.hear(voter(1), &word(3, 3, 300 + NOTE_EVERY_BYTES + 1)), Heard::Known);
        let mut after = Witness::default();
        assert_eq!(after.recover(&before.record(voter(1))), Ok(true));
        assert_eq!(after.hear(voter(1), &word(4, 4, 9_999)), Heard::Stale, "at its start it had less");
    }

    #[test]
    fn words_of_either_form_are_read_back() {
        let word = word(9, 77, 1234);
        let (mut long, mut short) = (Vec::new(), Vec::new());
        word.encode(&mut long);
        InShort::put(&word, &mut short);
        assert_eq!(DiskWord::decode(&mut Reader::new(&long)), Ok(word.clone()));
        let known = InShort::take(&mut Reader::new(&short)).unwrap();
        assert_eq!((known.starts.generation(), known.starts.newest()), (9, word.starts.newest()));
        assert!(InShort::take(&mut Reader::new(&[0; 32])).is_err(), "there was no start");
    }

    #[test]
    fn words_are_as_they_were_recorded_and_as_the_document_says() {
        check::<DiskWord>(500);
        check::<Met>(500);
        let kinds = [DiskWord::kinds(), Starts::kinds(), Start::kinds(), Met::kinds()].concat();
        let word = word(3, 77, 1234);
        let start = word.starts.newest().expect("there were some");
        let mut witness = Witness::default();
        witness.hear(voter(1), &word);
        let met = witness.met_of(voter(1)).expect("it was met");
        let bytes = |name: &str, put: &dyn Fn(&mut Vec<u8>)| {
            let mut out = Vec::new();
            put(&mut out);
            (name.to_string(), out)
        };
        let all = [
            bytes("DiskWord", &|out| word.encode(out)),
            bytes("Starts", &|out| word.starts.encode(out)),
            bytes("Start", &|out| start.encode(out)),
            bytes("Met", &|out| met.encode(out)),
        ];
        golden(concat!(env!("CARGO_MANIFEST_DIR"), "/golden/disks.txt"), &kinds, all);
        let document = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/internals/messages.md");
        described(document, "told of disks", &kinds);
    }

    /// Whoever gives another node the state tells it what it heard.
    #[test]
    fn what_another_one_heard_is_taken_in_as_far_as_it_is_news() {
        let (mut donor, mut new) = (Witness::default(), Witness::default());
        donor.hear(voter(1), &word(3, 3, 300));
        let met = donor.met_of(voter(1)).unwrap();
        assert!(new.learn(met) && !new.learn(met));
        assert_eq!(new.hear(voter(1), &word(3, 33, 900)), Heard::Stale);
        assert_eq!(new.hear(voter(1), &word(4, 4, 400)), Heard::News);
        assert!(!new.learn(met), "it knows better");
        assert_eq!(new.met_of(voter(1)).map(|met| met.known.generation), Some(4));
        let mut bytes = Vec::new();
        met.encode(&mut bytes);
        assert_eq!(Met::decode(&mut Reader::new(&bytes)), Ok(met));
        assert!((0..bytes.len()).all(|len| Met::decode(&mut Reader::new(&bytes[..len])).is_err()));
    }

    #[test]
    fn who_comes_back_needs_the_word_of_a_majority() {
        let of =
            |members: Members| move |clears: &dyn Fn(Voter) -> bool| Quorums::of(members).reached(clears);
        let members = || Members::new(Epoch(4), (0..5).map(voter).collect());
        let mut witness = Witness::default();
        assert!(witness.is_cleared(), "a node without a past has nothing to be cleared of");
        witness.come_back();
        assert!(!witness.clear(voter(0), Some(voter(1)), |_| false), "whose majority?");
        assert!(!witness.clear(voter(0), None, of(members())) && !witness.is_cleared());
        assert!(witness.clear(voter(0), Some(voter(2)), of(members())) && witness.is_cleared());
        let alone = Members::new(Epoch(1), vec![voter(0)]);
        let mut witness = Witness::default();
        witness.come_back();
        assert!(witness.clear(voter(0), None, of(alone)));
    }
}
