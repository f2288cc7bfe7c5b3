//! What a replica writes to its disk, and what waits until it is there.
//!
//! Every worker writes what it must not forget of its transactions; the first one also what its controller must not. With
//! [`Durability::Sync`] whatever others count on waits for the disk: a vote, an accepted proposal, a promise, and the word that an
//! outcome has taken effect. What a coordinator asks does not wait, nor do outcomes: they follow from what is on a majority's disks.
//!
//! | what | waits until this is on disk |
//! |---|---|
//! | found valid, to the coordinator or, with a promise, to a backup coordinator | the record, with what it reads and writes |
//! | accepted | the proposal |
//! | an outcome was heard (`heard` in every frame), or one's own may be forgotten (`closed`) | the outcome |
//! | a change of epoch is promised, or accepted | the round, or the change |
//! | an epoch is open | the change, and of every worker that it has begun |
//!
//! With [`Durability::Async`] votes, accepted proposals and the word that an outcome was heard go ahead, unless the disk is further behind than
//! [`Options::disk_window`](highwater_seam::options::Options::disk_window); the rest waits as it does with `Sync`. So who comes back may have forgotten votes
//! of the epoch that was open, and never a promise, a change, or what a promise told. What is left then of all disks together is cut at
//! one moment: every worker notes down how far all is over everywhere ([`Record::Closed`]), and what came later can be left out.
//! See `controller/forgot`.
//!
//! A refusal is not written, nor the view that a backup coordinator is promised. Who comes back with its disk does nothing more in its old epoch but
//! to tell its records to a change of epoch; and what is not in them was not found valid.
//!
//! Invariant: what a replica has told others is in its records when it comes back, or is over at every replica and installed.
//!
//! ```text
//! record    tag u8 | fields, little endian
//! 1 told    epoch u64 | a transaction, as in a change of epoch
//! 2 began   epoch u64 | afresh u8 | count u32 | each: ts u64, commit u8, payload (u32 length)
//! 3 trimmed node u8 | ts u64
//! 4 promised  epoch u64 | round
//! 5 accepted  round | change
//! 6 decided   change
//! 7 left      change
//! 8 known     as told
//! 9 closed    ts u64
//! 10 paused   epoch u64
//! 11 began, cut   as began, and ts u64 behind afresh
//! 12 met      a life of a node, and what was heard of its disk
//! ```

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use bytes::Bytes;
use highwater_core::codec::{Malformed, Reader};
use highwater_core::wire::{Form, List, Wire};
use highwater_core::{Durability, Epoch, NodeId, Timestamp, wire};
use highwater_kit::validation::message::Message;
use highwater_kit::validation::record::Told;
use highwater_kit::witness::Met;
use highwater_seam::{ClientId, LogPosition, Nanos};

use super::change::{Change, Ended, OfRecord};
use super::control::Round;
use super::hooks;
use super::shared::Report;

wire! {
    /// A fact that a controller must not forget. Its tags are records'.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub enum Kept: "record of a controller" {
        /// It promised the attempt to begin an epoch.
        Promised = 4 {
            epoch: Epoch,
            round: Round,
        },
        /// It accepted what an attempt proposed.
        Accepted = 5 {
            round: Round,
            change: Arc<Change>,
        },
        /// A change was decided.
        Decided = 6 (change: Arc<Change>),
        /// The same, and this replica had not installed what came before: its store and records are no good.
        Left = 7 (change: Arc<Change>),
        /// Another node was met, and told of its disk.
        Met = 12 (met: Met),
    }
}

/// A record on disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Record {
    /// More is known of a transaction of an epoch: what is told is added to what was told before.
    Told(Epoch, Told),
    /// The same, written once more for a checkpoint: if it committed it was installed before, and the checkpoint has it, or what was
    /// written over it. It must not be installed again: the tombstone of a later delete may be gone.
    Known(Epoch, Told),
    /// The worker has begun an epoch, with what became of the transactions before. `afresh`: with another store, which is to be filled by
    /// a copy.
    Began {
        epoch: Epoch,
        /// What it had is no good.
        afresh: bool,
        /// What it had is no good above this.
        cut: Option<Timestamp>,
        /// What became of transactions of the epoch before.
        ended: Vec<Ended>,
    },
    /// Of all workers' transactions everything at or below is over at every replica; of this worker's all of that was written before.
    Closed(Timestamp),
    /// It takes part no more in the epoch before this one.
    Paused(Epoch),
    /// Records of transactions of this node up to this one are not needed any more.
    Trimmed(NodeId, Timestamp),
    /// The controller's.
    Kept(Kept),
}

impl Record {
    /// See the module's description.
    pub fn encode(&self) -> Bytes {
        let out = &mut Vec::new();
        match self {
            Record::Told(epoch, told) | Record::Known(epoch, told) => {
                out.push(if matches!(self, Record::Told(..)) { 1 } else { 8 });
                epoch.put(out);
                1u32.put(out);
                OfRecord::put(told, out);
            }
            Record::Began { epoch, afresh, cut, ended } => {
                out.push(if cut.is_some() { 11 } else { 2 });
                epoch.put(out);
                afresh.put(out);
                cut.iter().for_each(|cut| cut.put(out));
                List::<u32>::put(ended, out);
            }
            Record::Closed(ts) => {
                out.push(9);
                ts.put(out);
            }
            Record::Paused(epoch) => {
                out.push(10);
                epoch.put(out);
            }
            Record::Trimmed(node, ts) => {
                out.push(3);
                (*node, *ts).put(out);
            }
            Record::Kept(kept) => kept.put(out),
        }
        std::mem::take(out).into()
    }

    /// Reads what [`encode`](Record::encode) wrote.
    ///
    /// # Errors
    /// If it is something else.
    pub fn decode(bytes: &[u8]) -> Result<Record, Malformed> {
        let reader = &mut Reader::new(bytes);
        let whole = *reader;
        let record = match reader.u8()? {
            tag @ (1 | 8) => {
                let (epoch, count) = <(Epoch, u32)>::take(reader)?;
                let told = OfRecord::take(reader)?;
                if count != 1 {
                    return Err(Malformed("one transaction in a record"));
                }
                if tag == 1 { Record::Told(epoch, told) } else { Record::Known(epoch, told) }
            }
            tag @ (2 | 11) => {
                let (epoch, afresh) = Wire::take(reader)?;
                let cut = (tag == 11).then(|| Timestamp::take(reader)).transpose()?;
                Record::Began { epoch, afresh, cut, ended: List::<u32>::take(reader)? }
            }
            9 => Record::Closed(Wire::take(reader)?),
            10 => Record::Paused(Wire::take(reader)?),
            3 => {
                let (node, ts) = Wire::take(reader)?;
                Record::Trimmed(node, ts)
            }
            _ => {
                *reader = whole;
                Record::Kept(Kept::take(reader)?)
            }
        };
        if reader.is_empty() { Ok(record) } else { Err(Malformed("length of a record")) }
    }
}

/// How a worker's journal ends, of a replica that comes back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct End {
    /// The last epoch that it has begun.
    pub began: Epoch,
    /// See [`Record::Closed`], in that epoch.
    pub closed: Timestamp,
    /// It had paused for this one.
    pub paused: Option<Epoch>,
}

/// What a controller has kept, as it comes back.
#[derive(Debug, Default)]
pub struct Remembered {
    /// By worker.
    pub ends: BTreeMap<u16, End>,
    /// Its checkpoint holds nothing that is later, and what is later may be left out of all that was written.
    pub from: Timestamp,
    /// The changes that were decided, one after the other: a worker may not have begun any of them.
    pub decided: Vec<Arc<Change>>,
    /// The latest attempt that was promised, and for which epoch.
    pub promised: Option<(Epoch, Round)>,
    /// What was accepted last, in the latest attempt.
    pub accepted: Option<(Round, Arc<Change>)>,
    /// What was written is not all of a state: a copy was not complete.
    pub lost: bool,
    /// There was something on the disk that others may count on.
    pub any: bool,
    /// Words that were heard on others' disks.
    pub met: Vec<Met>,
}

impl Remembered {
    /// The next record, in the order of writing.
    pub fn add(&mut self, kept: Kept) {
        self.any |= !matches!(kept, Kept::Met(_));
        self.lost |= matches!(kept, Kept::Left(_));
        match kept {
            Kept::Met(met) => self.met.push(met),
            Kept::Promised { epoch, round } => {
                self.promised = self.promised.max(Some((epoch, round)));
            }
            Kept::Accepted { round, change } => {
                let later =
                    |(before, known): &(Round, Arc<Change>)| (change.epoch, round) >= (known.epoch, *before);
                if self.accepted.as_ref().is_none_or(later) {
                    self.accepted = Some((round, change));
                }
            }
            Kept::Decided(change) | Kept::Left(change) => {
                if self.decided.last().is_none_or(|known| known.epoch < change.epoch) {
                    self.decided.push(change);
                }
            }
        }
    }
}

/// What waits for the disk.
pub enum Waits {
    /// To be said to a node, which may be this one.
    Say(NodeId, Message),
    /// To be said to a client that coordinates the transaction.
    Tell(ClientId, Message),
    /// An outcome of a node's, by its number, has taken effect.
    Heard(NodeId, u64),
    /// To be told to the controller.
    Report(Report),
}

/// What a worker writes.
pub struct Journal {
    durability: Durability,
    /// What an earlier life wrote is handed in: nothing is written.
    replays: bool,
    /// Bytes that were handed out to be written, from the birth of the journal on.
    written: u64,
    synced: u64,
    writes: Vec<Bytes>,
    waits: VecDeque<(u64, Waits)>,
    /// How far it was written when, as far as that is not on disk.
    ends: VecDeque<(u64, Nanos)>,
    window: Nanos,
}

impl Journal {
    /// Of a fresh replica. `window`: how far a disk may be behind, where it may be.
    pub fn new(durability: Durability, window: Nanos) -> Journal {
        Journal {
            durability,
            window,
            ends: VecDeque::new(),
            replays: false,
            written: 0,
            synced: 0,
            writes: Vec::new(),
            waits: VecDeque::new(),
        }
    }

    /// Whether anything is written.
    #[inline]
    pub fn writes(&self) -> bool {
        self.durability.has_disk()
    }

    /// Whether the disk is further behind than it may be.
    fn is_behind(&self, now: Nanos) -> bool {
        self.ends.front().is_some_and(|(_, at)| now.saturating_sub(*at) > self.window)
    }

    /// Whether what others count on waits for the disk.
    #[inline]
    pub fn is_sync(&self) -> bool {
        self.durability == Durability::Sync
    }

    /// What an earlier life wrote is about to be handed in, from this position on.
    pub fn replay_from(&mut self, position: LogPosition) {
        (self.written, self.synced, self.replays) = (position.0, position.0, true);
    }

    /// Whether that is under way, or something else that is not written as it goes.
    pub fn replays(&self) -> bool {
        self.replays
    }

    /// Nothing is written as it goes, or it is again.
    pub fn hold(&mut self, holds: bool) {
        self.replays = holds;
    }

    /// An earlier life wrote this, and it is on disk.
    pub fn recovered(&mut self, record: &Bytes) {
        self.written += record.len() as u64;
        self.synced = self.written;
    }

    /// How far it has been written.
    pub fn position(&self) -> LogPosition {
        LogPosition(self.written)
    }

    /// Has a record written, if there is a disk.
    pub fn write(&mut self, record: &Record) {
        if self.durability.has_disk() && !self.replays {
            let bytes = record.encode();
            self.written += bytes.len() as u64;
            self.writes.push(bytes);
        }
    }

    /// Takes what is to be done once all that was written so far is on disk; hands it back if that is now. `always`: with any durability, not
    /// only where others count on the disk.
    pub fn after(&mut self, now: Nanos, what: Waits, always: bool) -> Option<Waits> {
        let waits = always || self.durability == Durability::Sync || self.is_behind(now);
        let waits = waits && self.synced < self.written;
        let ahead = match &what {
            Waits::Say(..) | Waits::Tell(..) => hooks::votes_unsynced(),
            Waits::Heard(..) => hooks::hears_unsynced(),
            Waits::Report(_) => false,
        };
        if waits && !ahead {
            self.waits.push_back((self.written, what));
            return None;
        }
        Some(what)
    }

    /// All up to a position is on disk.
    pub fn synced(&mut self, position: LogPosition) {
        self.synced = self.synced.max(position.0);
        while self.ends.pop_front_if(|(end, _)| *end <= position.0).is_some() {}
    }

    /// Takes something whose time has come.
    pub fn due(&mut self) -> Option<Waits> {
        let synced = self.synced;
        self.waits.pop_front_if(|(after, _)| *after <= synced).map(|(_, what)| what)
    }

    /// An epoch ends: what was to be said in it is not said any more.
    pub fn forget_words(&mut self) {
        self.waits.retain(|(_, what)| matches!(what, Waits::Report(_)));
    }

    /// What this turn hands out.
    pub fn take_writes(&mut self, now: Nanos, out: &mut Vec<Bytes>) {
        if !self.writes.is_empty() {
            self.ends.push_back((self.written, now));
        }
        out.append(&mut self.writes);
    }
}

#[cfg(test)]
mod tests {
    use highwater_consensus::Voter;
    use highwater_core::Incarnation;
    use highwater_core::evidence::Known;

    use super::*;
    use crate::change::Members;
    use highwater_kit::validation::message::About;
    use highwater_kit::validation::payload::Payload;

    fn change(epoch: u64) -> Arc<Change> {
        let members = Members { voters: vec![(NodeId(1), Incarnation(7))], ..Members::default() };
        let ended = vec![vec![ended()], Vec::new()];
        Arc::new(Change { epoch: Epoch(epoch), base: Timestamp(99), members, ended, cut: None })
    }

    fn met() -> Met {
        let voter = Voter { node: NodeId(2), incarnation: Incarnation(7) };
        Met { voter, known: Known { start: 3, generation: 4, synced: 5 } }
    }

    fn ended() -> Ended {
        Ended {
            ts: Timestamp(40),
            commit: true,
            payload: Some(Payload::build(Timestamp::ZERO, (&[], 0), (&[], 0), &[])),
        }
    }

    /// The innermost kind of a record.
    fn name(record: &Record) -> String {
        let text = format!("{record:?}");
        let text = text.strip_prefix("Kept(").unwrap_or(&text);
        text.split([' ', '(', '{']).next().unwrap_or_default().to_string()
    }

    #[test]
    fn records_round_trip_and_nonsense_is_an_error() {
        let round = Round { number: 3, node: NodeId(2) };
        let told = Told { valid: Some(true), accepted: Some((2, false)), ..Told::of(Timestamp(41)) };
        let all = [
            Record::Told(Epoch(2), told.clone()),
            Record::Known(Epoch(2), told),
            Record::Began { epoch: Epoch(3), afresh: true, cut: None, ended: vec![ended()] },
            Record::Began { epoch: Epoch(3), afresh: false, cut: Some(Timestamp(7)), ended: vec![] },
            Record::Closed(Timestamp(8)),
            Record::Paused(Epoch(4)),
            Record::Trimmed(NodeId(4), Timestamp(77)),
            Record::Kept(Kept::Promised { epoch: Epoch(4), round }),
            Record::Kept(Kept::Accepted { round, change: change(4) }),
            Record::Kept(Kept::Decided(change(4))),
            Record::Kept(Kept::Left(change(5))),
            Record::Kept(Kept::Met(met())),
        ];
        let samples: Vec<(String, Vec<u8>)> =
            all.iter().map(|record| (name(record), record.encode().to_vec())).collect();
        let names: std::collections::BTreeSet<String> =
            samples.iter().map(|(name, _)| name.clone()).collect();
        let kinds: Vec<_> =
            names.into_iter().map(|name| highwater_core::wire::Kind::of(name.leak(), [])).collect();
        let file = concat!(env!("CARGO_MANIFEST_DIR"), "/golden/record.txt");
        highwater_core::wire::testing::golden(file, &kinds, samples);
        for record in all {
            let bytes = record.encode();
            assert_eq!(Record::decode(&bytes), Ok(record));
            for len in 0..bytes.len() {
                assert!(Record::decode(&bytes[..len]).is_err());
            }
            assert!(Record::decode(&[&bytes[..], &[0]].concat()).is_err());
        }
        assert!(Record::decode(&[9; 30]).is_err());
    }

    #[test]
    fn what_others_count_on_waits_for_the_disk_if_that_is_promised() {
        let vote = || {
            let about = About::Vote { valid: true, late: false, hint: Timestamp::ZERO };
            Waits::Say(NodeId(1), Message { ts: Timestamp(4), about })
        };
        for durability in Durability::ALL {
            let mut journal = Journal::new(durability, 100);
            assert!(journal.after(0, vote(), true).is_some(), "nothing was written");
            journal.write(&Record::Trimmed(NodeId(0), Timestamp(1)));
            let position = journal.position();
            let waits = journal.after(0, vote(), false).is_none();
            assert_eq!(waits, durability == Durability::Sync, "{durability:?}");
            if waits {
                journal.synced(LogPosition(position.0 - 1));
                assert!(journal.due().is_none());
                journal.synced(position);
                assert!(journal.due().is_some() && journal.due().is_none());
            }
        }
    }

    /// Words of an epoch that is over are not said; what the controller waits for is told all the same.
    #[test]
    fn an_epoch_that_ends_takes_its_words_along() {
        let mut journal = Journal::new(Durability::Sync, 100);
        journal.write(&Record::Trimmed(NodeId(0), Timestamp(1)));
        assert!(journal.after(0, Waits::Heard(NodeId(1), 4), false).is_none());
        assert!(journal.after(0, Waits::Report(Report::Kept(1)), false).is_none());
        journal.forget_words();
        journal.synced(journal.position());
        assert!(matches!(journal.due(), Some(Waits::Report(Report::Kept(1)))) && journal.due().is_none());
    }

    /// Once: (While it was built.) Two changes were decided, on disk, and not begun by a worker when the power failed:
    /// the first was not begun when it came back.
    #[test]
    fn the_latest_of_what_was_kept_counts() {
        let mut remembered = Remembered::default();
        let round = |number| Round { number, node: NodeId(0) };
        remembered.add(Kept::Decided(change(3)));
        remembered.add(Kept::Promised { epoch: Epoch(4), round: round(2) });
        remembered.add(Kept::Accepted { round: round(1), change: change(4) });
        remembered.add(Kept::Promised { epoch: Epoch(4), round: round(1) });
        assert_eq!(remembered.promised, Some((Epoch(4), round(2))));
        assert!(remembered.accepted.is_some() && !remembered.lost);
        remembered.add(Kept::Left(change(6)));
        assert_eq!(remembered.decided.iter().map(|change| change.epoch.0).collect::<Vec<_>>(), [3, 6]);
        assert!(remembered.lost);
        let mut heard = Remembered::default();
        heard.add(Kept::Met(met()));
        assert!(!heard.any && heard.met == [met()], "nobody counts on what was heard");
    }
}
