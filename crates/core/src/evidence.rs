//! Evidence that a disk is the newest of its node: what tells "I may have forgotten" from "I am new".
//!
//! A voter that comes back answers for all that it ever promised and accepted. A disk that lacks the end of that must not vote, though
//! every file on it may be whole: it was put back from a copy, or names of files vanished from it. One rule decides, for all engines, for
//! `serve` and for replicas inside programs:
//!
//! > **Rule.** A node is who it was if both halves of the proof say so. If one of them says no, the node begins *another life*: its journal
//! > is set aside, it votes for nothing that it ever was, it copies the state of the others, and it founds no cluster. Where there is nobody
//! > to copy from, it does not start.
//!
//! | half of the proof | who keeps it | what it says | what it finds |
//! |---|---|---|---|
//! | [`Claim`] | the node's own disk, in its identity, which is replaced as a whole | with which segment the last process that wrote began, and how many bytes the journal had when the last process started | names that vanished, a journal that was cut: [`judge`] |
//! | [`Known`] | the disks of those that met the node | which start they met last, and how far the disk was synced then or later | a folder that is an older copy of itself: [`goes_on`] |
//!
//! The first half cannot find an older copy of everything, which agrees with itself. The second cannot find anything on a node that is alone.
//!
//! # Why a start has a number, and not only a count
//!
//! Each start of a process draws a number, and the identity keeps the last [`MOST_STARTS`] of them, with the bytes that the journal had at
//! each. Whoever met start *g* asks of every later one that its list has that very number at place *g*: a copy from before start *g* never
//! has it, however often it was started since. A count alone it would catch up with, unheard. And the bytes at start *g* + 1 must be no
//! fewer than what was heard to be synced in start *g*: a copy from the middle of start *g* had fewer when it was started, whatever it has
//! written since.
//!
//! # What nobody can find
//!
//! A copy of all disks at once, or of those of all who could tell; and, of a running node, a copy that has all that those who are asked
//! have heard to be synced. A start that was met more than [`MOST_STARTS`] starts ago is judged by the count and the bytes. A lone node's
//! older copy.

use std::fmt;

use crate::wire;
use crate::wire::List;

/// So many starts of a disk are remembered: those that somebody may have met last. With more, a node's identity would not fit its ballast.
pub const MOST_STARTS: usize = 128;

wire! {
    /// One start of a process on a disk.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct Start: "start" {
        /// Drawn at random: no other start has it, on this disk or on a copy.
        pub number: u64,
        /// Bytes of records, of all writers, that the journal had when it began.
        pub had: u64,
    }
}

wire! {
    /// The starts on a disk: how many there were, and the last of them.
    #[derive(Clone, Debug, Default, PartialEq, Eq)]
    pub struct Starts: "starts" where Starts::is_sound {
        generation: u64,
        /// The oldest first. Invariant: no more than there were, and than [`MOST_STARTS`].
        last: Vec<Start> as List<u16>,
    }
}

impl Starts {
    /// So many, of which these are the last, the oldest first.
    ///
    /// # Panics
    /// If these are more than there were, or than [`MOST_STARTS`].
    pub fn new(generation: u64, last: Vec<Start>) -> Starts {
        let starts = Starts { generation, last };
        assert!(starts.is_sound(), "the last ones of all starts");
        starts
    }

    /// How many there were.
    pub fn generation(&self) -> u64 {
        self.generation
    }

    /// The last ones, the oldest first.
    pub fn last(&self) -> &[Start] {
        &self.last
    }

    /// The newest one, if it is known.
    pub fn newest(&self) -> Option<Start> {
        self.last.last().copied()
    }

    /// The so-many-th, from 1, if it is known.
    pub fn at(&self, generation: u64) -> Option<Start> {
        let from_end = self.generation.checked_sub(generation)?;
        let index = (self.last.len() as u64).checked_sub(from_end + 1)?;
        self.last.get(index as usize).copied()
    }

    /// Another one begins.
    pub fn push(&mut self, start: Start) {
        self.generation += 1;
        let over = (self.last.len() + 1).saturating_sub(MOST_STARTS);
        self.last.drain(..over);
        self.last.push(start);
    }

    /// The node begins another life: who met the one before is asked nothing about this one.
    pub fn forget(&mut self) {
        self.last.clear();
    }

    /// The type's invariant.
    fn is_sound(&self) -> bool {
        self.last.len() as u64 <= self.generation && self.last.len() <= MOST_STARTS
    }
}

// ---- the half that is on the disk ----

/// With which segment of the journal the last process that wrote to it began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Begun {
    /// This life has written nothing: nobody was told that anything of it is durable.
    #[default]
    Nothing,
    /// This one. Said once the segment's head is durable, and before anything behind it counts.
    Segment(u64),
    /// An older build started here, which did not say.
    Unknown,
}

/// An identity's word on the journal beside it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Claim {
    /// The place where the last process that wrote began.
    pub begun: Begun,
    /// Bytes of records that the journal had when the last process started.
    pub had: u64,
}

/// Findings of a look at the journal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Found {
    /// The last segment that was begun: one with a head. The next one is reserved under its name before it has any.
    pub segment: Option<u64>,
    /// Bytes of records of all writers; `None`: nobody has read them yet.
    pub bytes: Option<u64>,
    /// Files that are there only if something was written before: a later segment's, a checkpoint of this life.
    pub traces: bool,
}

/// The word of the disk's half on a node that was started before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Nothing is missing that the identity speaks of.
    GoesOn,
    /// This life wrote nothing: it is as good as none.
    WroteNothing,
    /// Something is missing.
    Forgot(Forgot),
}

/// The part of a journal that is missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Forgot {
    /// The segment that the last process began with, and all behind it.
    Segment(u64),
    /// All that was ever written; a file says that there was something.
    Everything,
    /// All that was written, if anything was: an older build started here.
    Perhaps,
    /// The journal is shorter than it was.
    Bytes {
        /// Bytes that it has.
        found: u64,
        /// Bytes that it had.
        had: u64,
    },
}

/// Compares what an identity says with what is there.
pub fn judge(claim: Claim, found: Found) -> Verdict {
    let short = found.bytes.filter(|bytes| *bytes < claim.had);
    match (claim.begun, found.segment) {
        (Begun::Segment(begun), last) if last.is_none_or(|last| last < begun) => {
            Verdict::Forgot(Forgot::Segment(begun))
        }
        (Begun::Nothing | Begun::Unknown, None) if found.traces || claim.had > 0 => {
            Verdict::Forgot(Forgot::Everything)
        }
        (Begun::Unknown, None) => Verdict::Forgot(Forgot::Perhaps),
        (Begun::Nothing, None) => Verdict::WroteNothing,
        _ => short.map_or(Verdict::GoesOn, |found| Verdict::Forgot(Forgot::Bytes { found, had: claim.had })),
    }
}

impl Forgot {
    /// Whether something was there for sure: then no cluster may be founded in its place.
    pub fn is_certain(self) -> bool {
        self != Forgot::Perhaps
    }
}

impl fmt::Display for Forgot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Forgot::Segment(number) => {
                write!(
                    f,
                    "the identity says that the journal was written to from segment {number} on, and that is not there"
                )
            }
            Forgot::Everything => {
                f.write_str("what is left says that there was a journal, and it is not there")
            }
            Forgot::Perhaps => f.write_str("a process was started here before, and there is no journal"),
            Forgot::Bytes { found, had } => {
                write!(
                    f,
                    "the journal has {found} bytes of records, and had {had} when the last process began"
                )
            }
        }
    }
}

// ---- the half that others keep ----

/// Somebody's memory of another node's disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Known {
    /// Number of the last start that was met.
    pub start: u64,
    /// Which start it was, from 1.
    pub generation: u64,
    /// How far the disk was heard to be synced since, in bytes of records.
    pub synced: u64,
}

/// Whether a disk with these starts, the present one the last, is the one that was met, or what became of it.
pub fn goes_on(known: Known, starts: &Starts) -> bool {
    if starts.generation() <= known.generation {
        return false;
    }
    let met = starts.at(known.generation).is_none_or(|start| start.number == known.start);
    let next = starts.at(known.generation + 1).or(starts.newest());
    met && next.is_some_and(|next| next.had >= known.synced)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codec::Reader;

    fn starts(list: &[(u64, u64)]) -> Starts {
        let mut starts = Starts::default();
        list.iter().for_each(|(number, had)| starts.push(Start { number: *number, had: *had }));
        starts
    }

    #[test]
    fn starts_are_known_by_their_place_and_the_oldest_are_forgotten() {
        let mut many = Starts::default();
        let all = 3 + MOST_STARTS as u64;
        (1..=all).for_each(|number| many.push(Start { number, had: 10 * number }));
        assert_eq!((many.generation(), many.last().len()), (all, MOST_STARTS));
        assert_eq!((many.at(3), many.at(4).map(|start| start.number)), (None, Some(4)));
        assert_eq!(
            (many.at(all), many.newest()),
            (many.newest(), Some(Start { number: all, had: 10 * all }))
        );
        assert_eq!((many.at(all + 1), many.at(0)), (None, None));
        let mut bytes = Vec::new();
        many.encode(&mut bytes);
        assert_eq!(Starts::decode(&mut Reader::new(&bytes)), Ok(many));
        assert!((0..bytes.len()).all(|len| Starts::decode(&mut Reader::new(&bytes[..len])).is_err()));
        bytes[0] = 1;
        bytes[1] = 0;
        assert!(Starts::decode(&mut Reader::new(&bytes)).is_err(), "more than there were");
    }

    /// A copy from before the start that was met, started again and again, is never taken for what became of it.
    #[test]
    fn a_copy_from_before_a_start_that_was_met_never_goes_on() {
        let met = starts(&[(11, 0), (12, 100), (13, 200)]);
        let known = Known { start: 13, generation: 3, synced: 200 };
        let mut copy = starts(&[(11, 0), (12, 100)]);
        for number in 50..50 + MOST_STARTS as u64 {
            copy.push(Start { number, had: 1_000_000 });
            assert!(!goes_on(known, &copy), "start {number}");
        }
        let mut real = met.clone();
        real.push(Start { number: 14, had: 200 });
        assert!(goes_on(known, &real));
        // Others may have missed starts.
        (15..100).for_each(|number| real.push(Start { number, had: 200 }));
        assert!(goes_on(known, &real));
    }

    /// A copy from the middle of the start that was met had too little when it was started, whatever it has written since.
    #[test]
    fn a_copy_of_a_running_node_does_not_catch_up_by_writing() {
        let known = Known { start: 12, generation: 2, synced: 180 };
        let mut copy = starts(&[(11, 0), (12, 100), (13, 150)]);
        assert!(!goes_on(known, &copy));
        copy.push(Start { number: 14, had: 500 });
        assert!(!goes_on(known, &copy));
        assert!(goes_on(known, &starts(&[(11, 0), (12, 100), (13, 180), (14, 190)])));
    }

    /// If the list does not reach back, count and bytes are all that there is: of a build that kept none, say.
    #[test]
    fn without_the_list_count_and_bytes_decide() {
        let known = Known { start: 12, generation: 2, synced: 180 };
        let of = |generation, had| Starts::new(generation, vec![Start { number: 99, had }]);
        assert!(goes_on(known, &of(3, 180)) && goes_on(known, &of(9, 200)));
        assert!(!goes_on(known, &of(2, 180)) && !goes_on(known, &of(3, 179)) && !goes_on(known, &of(1, 500)));
    }

    #[test]
    fn a_journal_that_lacks_what_the_identity_speaks_of_is_forgotten() {
        use Forgot::{Bytes, Everything, Perhaps};
        let claim = |begun, had| Claim { begun, had };
        let found = |segment, bytes| Found { segment, bytes, traces: false };
        let begun = claim(Begun::Segment(3), 50);
        assert_eq!(judge(begun, found(Some(3), Some(50))), Verdict::GoesOn);
        assert_eq!(judge(begun, found(Some(5), None)), Verdict::GoesOn);
        for last in [None, Some(2)] {
            assert_eq!(judge(begun, found(last, Some(90))), Verdict::Forgot(Forgot::Segment(3)));
        }
        assert_eq!(judge(begun, found(Some(3), Some(49))), Verdict::Forgot(Bytes { found: 49, had: 50 }));
        assert_eq!(judge(claim(Begun::Nothing, 0), found(None, Some(0))), Verdict::WroteNothing);
        // The head was durable, and the power went before the identity said so.
        assert_eq!(judge(claim(Begun::Nothing, 0), found(Some(1), Some(0))), Verdict::GoesOn);
        let traces = Found { traces: true, ..Found::default() };
        assert_eq!(judge(claim(Begun::Nothing, 0), traces), Verdict::Forgot(Everything));
        assert_eq!(judge(claim(Begun::Unknown, 0), traces), Verdict::Forgot(Everything));
        assert_eq!(judge(claim(Begun::Unknown, 0), found(None, None)), Verdict::Forgot(Perhaps));
        assert_eq!(judge(claim(Begun::Unknown, 0), found(Some(1), None)), Verdict::GoesOn);
        assert!(Everything.is_certain() && !Perhaps.is_certain());
    }
}
