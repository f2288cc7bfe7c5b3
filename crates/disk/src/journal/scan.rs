//! Reads a whole journal and judges it, without changing anything.

use std::fmt;
use std::io;
use std::ops::ControlFlow;

use highwater_core::codec::Reader;

use super::error::{JournalError, unreadable};
use super::format::{
    BLOCK_BYTES, GROUP_HEAD_BYTES, GroupHead, OtherVersion, SegmentHead, segment_name, segment_number,
    take_record,
};
use super::window::Window;
use crate::{Disk, DiskFile};

/// A record of a journal.
#[derive(Clone, Copy, Debug)]
pub struct Record<'a> {
    /// Who appended it.
    pub writer: u16,
    /// Where it ends: bytes of its writer's records up to it, its own included.
    pub position: u64,
    /// Its content.
    pub bytes: &'a [u8],
    /// The group that it was synced with.
    pub group: u64,
    /// The segment that it is in.
    pub segment: u64,
    /// Where its head stands in the segment's file.
    pub offset: u64,
}

/// What a journal holds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// The journal's number; `None` if there is none.
    pub journal: Option<u64>,
    /// Files, in order.
    pub segments: Vec<SegmentSummary>,
    /// Groups with records.
    pub groups: u64,
    /// Records in them.
    pub records: u64,
    /// Where each writer stands.
    pub positions: Vec<u64>,
    /// Of the last group nothing follows that says that it had been synced. (So it is if a process was killed in the middle of
    /// its sync, and then it may have been.)
    pub unproved: bool,
    /// What does not belong to it any more.
    pub cut: Option<Cut>,
    /// The last file ends here, without the room that a journal keeps behind its last group for a proof: somebody cut it. Or it is a
    /// copy up to the last group, as archives have them.
    pub truncated: Option<u64>,
    /// Where it is damaged: nothing behind that is counted. Only [`read_to_damage`] says so.
    pub damage: Option<Damage>,
}

/// Where a journal is not what was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Damage {
    /// Number of the file.
    pub segment: u64,
    pub file: String,
    /// Where in it, in bytes.
    pub offset: u64,
    /// What is wrong there.
    pub what: String,
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} is damaged at offset {}: {}", self.file, self.offset, self.what)
    }
}

/// A segment of a journal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SegmentSummary {
    pub file: String,
    pub number: u64,
    /// Number of its first group.
    pub first_group: u64,
    /// Where its last group ends, in bytes.
    pub end: u64,
    /// Where each writer stood before it.
    pub positions: Vec<u64>,
}

/// The end of a journal, which was being written when the node ended: no part of it had been synced.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cut {
    pub file: String,
    /// From where on.
    pub offset: u64,
    /// From there to the last byte that isn't zero, or the end that the group was to have.
    pub bytes: u64,
}

/// What [`scan`] found out.
pub(super) struct Scan {
    pub summary: Summary,
    /// Which journal it is; `None` if there is none.
    pub journal: Option<u64>,
    pub next_group: u64,
    /// Head of the last group, unless no segment has one.
    pub last_group: Option<GroupHead>,
    /// A segment's file that nothing was ever written to but perhaps its head.
    pub unfinished: Option<u64>,
    /// The last segment's file was another one's before.
    reused: bool,
    /// No more was wanted.
    pub stopped: bool,
}

/// Reads a journal and hands out its records, in the order of their groups. Changes nothing, so it may be used on one that a
/// process is writing to: then it may tell of a torn end, or even of damage, that is none a moment later.
///
/// # Errors
/// [`Damaged`](JournalError::Damaged), [`Unreadable`](JournalError::Unreadable), [`Format`](JournalError::Format). Records that
/// come before the damage may have been handed out.
pub fn read<D: Disk>(disk: &D, each: &mut dyn FnMut(Record<'_>)) -> Result<Summary, JournalError> {
    scan(disk, &mut on(each)).map(|scan| Summary { journal: scan.journal, ..scan.summary })
}

/// The same, from a segment on: as if the files before it had been removed.
///
/// # Errors
/// As [`read`].
pub fn read_from<D: Disk>(
    disk: &D,
    segment: u64,
    each: &mut dyn FnMut(Record<'_>),
) -> Result<Summary, JournalError> {
    scan_from(disk, segment, &mut on(each)).map(|scan| Summary { journal: scan.journal, ..scan.summary })
}

/// The same, up to where it is damaged, if it is: [`Summary::damage`] says where. What comes before that is as much as a crash there
/// would have left, because groups are in the order in which they were synced, and each is there as a whole or not at all.
///
/// # Errors
/// As [`read`], but for [`Damaged`](JournalError::Damaged).
pub fn read_to_damage<D: Disk>(
    disk: &D,
    segment: u64,
    each: &mut dyn FnMut(Record<'_>) -> ControlFlow<()>,
) -> Result<Summary, JournalError> {
    let mut scan = Scan::default();
    if let Some(damage) = damage_of(scan.read_from(disk, segment, true, each))? {
        scan.summary.damage.get_or_insert(damage);
        // What looks torn at the end of the file in front of a damaged one may have been more.
        (scan.summary.cut, scan.summary.truncated) = (None, None);
    }
    Ok(Summary { journal: scan.journal, ..scan.summary })
}

/// The same as [`read_from`], for as long as more is wanted. Of what comes behind nothing is known then, nor whether it is whole.
///
/// # Errors
/// As [`read`].
pub fn read_while<D: Disk>(
    disk: &D,
    segment: u64,
    each: &mut dyn FnMut(Record<'_>) -> ControlFlow<()>,
) -> Result<(), JournalError> {
    scan_from(disk, segment, each).map(drop)
}

/// To the end.
pub(super) fn on(each: &mut dyn FnMut(Record<'_>)) -> impl FnMut(Record<'_>) -> ControlFlow<()> {
    |record| {
        each(record);
        ControlFlow::Continue(())
    }
}

/// Numbers of a journal's segments, in order.
///
/// # Errors
/// [`Unreadable`](JournalError::Unreadable).
pub fn segments(disk: &impl Disk) -> Result<Vec<u64>, JournalError> {
    let names = disk.names().map_err(unreadable("the directory"))?;
    let mut numbers: Vec<u64> = names.iter().filter_map(|name| segment_number(name)).collect();
    numbers.sort_unstable();
    Ok(numbers)
}

/// Number of the last segment that was begun, by the files' heads alone: one that is only reserved has none, and nothing behind it.
///
/// # Errors
/// [`Unreadable`](JournalError::Unreadable), [`Format`](JournalError::Format).
pub fn last_begun<D: Disk>(disk: &D) -> Result<Option<u64>, JournalError> {
    for number in segments(disk)?.into_iter().rev() {
        let name = segment_name(number);
        let file = disk.open(&name).map_err(unreadable(&name))?;
        let mut segment = Segment::new(number, &file)?;
        // A head that is damaged is a matter of the journal's own.
        if segment.head()?.is_some() || segment.later_group(0, 0, None)?.is_some() {
            return Ok(Some(number));
        }
    }
    Ok(None)
}

pub(super) fn scan<D: Disk>(
    disk: &D,
    each: &mut dyn FnMut(Record<'_>) -> ControlFlow<()>,
) -> Result<Scan, JournalError> {
    scan_from(disk, 0, each)
}

fn scan_from<D: Disk>(
    disk: &D,
    first: u64,
    each: &mut dyn FnMut(Record<'_>) -> ControlFlow<()>,
) -> Result<Scan, JournalError> {
    let mut scan = Scan::default();
    scan.read_from(disk, first, false, each)?;
    Ok(scan)
}

/// An error that is damage, apart from others.
fn damage_of(result: Result<(), JournalError>) -> Result<Option<Damage>, JournalError> {
    match result {
        Err(JournalError::Damaged { file, offset, what }) => {
            let segment = segment_number(&file).expect("damage is in a segment's file");
            Ok(Some(Damage { segment, file, offset, what }))
        }
        other => other.map(|()| None),
    }
}

impl Default for Scan {
    fn default() -> Scan {
        Scan {
            summary: Summary::default(),
            journal: None,
            next_group: 1,
            last_group: None,
            unfinished: None,
            reused: false,
            stopped: false,
        }
    }
}

impl Scan {
    /// Reads from a segment on. `to_damage`: a file that is missing, or whose head is damaged, ends it, as if the later ones were not
    /// there; any other damage is an error in any case.
    fn read_from<D: Disk>(
        &mut self,
        disk: &D,
        first: u64,
        to_damage: bool,
        each: &mut dyn FnMut(Record<'_>) -> ControlFlow<()>,
    ) -> Result<(), JournalError> {
        let mut numbers = segments(disk)?;
        numbers.retain(|number| *number >= first);
        let mut ends = Ok(());
        if let Some(gap) = numbers.windows(2).position(|pair| pair[0] + 1 != pair[1]) {
            let what = "the file is missing, and later ones are there";
            ends = Err(damaged(numbers[gap] + 1, 0, what));
            numbers.truncate(gap + 1);
        }
        if !to_damage {
            ends.clone()?;
        }
        let mut heads = Vec::new();
        for (index, &number) in numbers.iter().enumerate() {
            let name = segment_name(number);
            let file = disk.open(&name).map_err(unreadable(&name))?;
            let is_last = index + 1 == numbers.len() && ends.is_ok();
            match self.head(&mut Segment::new(number, &file)?, is_last) {
                Ok(Some(head)) => heads.push(head),
                Ok(None) => self.unfinished = Some(number),
                Err(error @ JournalError::Damaged { .. }) if to_damage => {
                    ends = Err(error);
                    break;
                }
                Err(error) => return Err(error),
            }
        }
        for (index, head) in heads.iter().enumerate() {
            let name = segment_name(head.segment);
            let file = disk.open(&name).map_err(unreadable(&name))?;
            self.begin_segment(head, index == 0)?;
            // A segment's groups end where the next one says; the last one's where there is no group any more.
            let sealed = heads.get(index + 1).map(|next| next.previous_end);
            self.read_groups(&mut Segment::new(head.segment, &file)?, sealed, each)?;
            if self.stopped {
                return Ok(());
            }
        }
        ends
    }

    /// A segment's head; `None` if it was being written when the node ended, which only the last one's can have been.
    fn head<F: DiskFile>(
        &mut self,
        segment: &mut Segment<'_, F>,
        is_last: bool,
    ) -> Result<Option<SegmentHead>, JournalError> {
        let number = segment.number;
        let wrong = |what: &str| Err(damaged(number, 0, what));
        let Some(head) = segment.head()? else {
            if is_last && segment.later_group(0, 0, self.journal)?.is_none() {
                return Ok(None);
            }
            return wrong(match segment.window.len() < BLOCK_BYTES {
                true => "the file ends before its head does: it was cut",
                false => "the segment's head is not what was written",
            });
        };
        if head.segment != number {
            return wrong("it is another segment's file");
        }
        if *self.journal.get_or_insert(head.journal) != head.journal {
            return wrong("it belongs to another journal");
        }
        Ok(Some(head))
    }

    fn begin_segment(&mut self, head: &SegmentHead, is_first: bool) -> Result<(), JournalError> {
        let positions = &self.summary.positions;
        let grown = head.positions.len() >= positions.len()
            && head.positions.iter().zip(positions.iter().chain(std::iter::repeat(&0))).all(|(a, b)| a == b);
        let goes_on = head.first_group == self.next_group && head.previous_end == self.end() && grown;
        if !is_first && !goes_on {
            return Err(damaged(head.segment, 0, "it does not go on where the segment before ends"));
        }
        self.next_group = head.first_group;
        self.reused = head.reused;
        self.summary.positions.clone_from(&head.positions);
        self.summary.segments.push(SegmentSummary {
            file: segment_name(head.segment),
            number: head.segment,
            first_group: head.first_group,
            end: BLOCK_BYTES,
            positions: head.positions.clone(),
        });
        Ok(())
    }

    fn end(&self) -> u64 {
        self.summary.segments.last().map_or(0, |segment| segment.end)
    }

    /// All groups of a segment; up to `sealed`, if that is known.
    fn read_groups<F: DiskFile>(
        &mut self,
        segment: &mut Segment<'_, F>,
        sealed: Option<u64>,
        each: &mut dyn FnMut(Record<'_>) -> ControlFlow<()>,
    ) -> Result<(), JournalError> {
        let journal = self.journal.expect("a segment's head was read");
        while sealed != Some(self.end()) && !self.stopped {
            let offset = self.end();
            let group = match segment.group(offset, self.next_group, journal)? {
                Ok((head, _)) if head.records == 0 => Err("the segment ends here, too early"),
                other => other,
            };
            match group {
                Ok((head, content)) => self.take_group(head, content, each)?,
                Err(what) if sealed.is_some() => return Err(damaged(segment.number, offset, what)),
                Err(what) => return self.end_of_journal(segment, offset, what),
            }
        }
        self.summary.unproved = false;
        Ok(())
    }

    fn take_group(
        &mut self,
        head: GroupHead,
        content: &[u8],
        each: &mut dyn FnMut(Record<'_>) -> ControlFlow<()>,
    ) -> Result<(), JournalError> {
        let mut reader = Reader::new(content);
        let nonsense = || damaged(head.segment, head.offset, "the group's records make no sense");
        for _ in 0..head.records {
            let offset = head.offset + (GROUP_HEAD_BYTES + content.len() - reader.rest().len()) as u64;
            let (writer, bytes) = take_record(&mut reader).ok_or_else(nonsense)?;
            let position = self.summary.positions.get_mut(usize::from(writer)).ok_or_else(nonsense)?;
            *position += bytes.len() as u64;
            let (group, segment) = (head.number, head.segment);
            if each(Record { writer, position: *position, bytes, group, segment, offset }).is_break() {
                self.stopped = true;
                return Ok(());
            }
        }
        if !reader.is_empty() {
            return Err(nonsense());
        }
        self.summary.groups += 1;
        self.summary.records += u64::from(head.records);
        self.summary.unproved = true;
        self.summary.segments.last_mut().expect("a group is in a segment").end += head.whole_bytes();
        self.next_group = head.number + 1;
        self.last_group = Some(head);
        Ok(())
    }

    /// There is no whole group at `offset` of the last segment: it ends here, unless there are later groups.
    fn end_of_journal<F: DiskFile>(
        &mut self,
        segment: &mut Segment<'_, F>,
        offset: u64,
        what: &str,
    ) -> Result<(), JournalError> {
        if let Some(later) = segment.later_group(offset, self.next_group + 1, self.journal)? {
            let at = later.offset;
            return Err(damaged(segment.number, offset, &format!("{what}, and a later group is at {at}")));
        }
        // Only once the group before was synced is there the head of the next, whole or as a proof.
        let next = segment.group_head(offset)?.filter(|head| head.number == self.next_group);
        if next.is_some() {
            self.summary.unproved = false;
        }
        // The proof itself is no part of what was torn.
        let from = if next.is_some_and(|head| head.records == 0) { offset + BLOCK_BYTES } else { offset };
        let end = match next {
            // What an older segment left there was not torn. How much of the group came cannot be known.
            _ if self.reused => next.map_or(from, |head| from.max(offset.saturating_add(head.whole_bytes()))),
            _ => segment.last_nonzero(from)?,
        };
        let (file, len) = (segment_name(segment.number), segment.window.len());
        // A group is written where there is room for it and for a proof behind it.
        let group = next.filter(|head| head.records > 0).map_or(0, |head| head.whole_bytes());
        let room = offset.saturating_add(group).saturating_add(BLOCK_BYTES);
        self.summary.truncated = (len < room).then_some(len);
        self.summary.cut = (end > from).then(|| Cut { file, offset: from, bytes: end - from });
        Ok(())
    }
}

/// A segment's file while it is read.
struct Segment<'a, F> {
    number: u64,
    window: Window<'a, F>,
}

impl<'a, F: DiskFile> Segment<'a, F> {
    fn new(number: u64, file: &'a F) -> Result<Segment<'a, F>, JournalError> {
        let window = Window::new(file).map_err(unreadable(&segment_name(number)))?;
        Ok(Segment { number, window })
    }

    /// `None` if there is none, or a damaged one.
    fn head(&mut self) -> Result<Option<SegmentHead>, JournalError> {
        let decoded = SegmentHead::decode(self.at(0, BLOCK_BYTES as usize)?).transpose();
        decoded.map_err(|OtherVersion(found)| JournalError::Format { found })
    }

    /// The head that was written to this place, if it is there.
    fn group_head(&mut self, offset: u64) -> Result<Option<GroupHead>, JournalError> {
        let number = self.number;
        let head = GroupHead::decode(self.at(offset, GROUP_HEAD_BYTES)?);
        Ok(head.filter(|head| head.segment == number && head.offset == offset))
    }

    /// The group of this number at this place, or what is wrong with it.
    #[allow(clippy::type_complexity, reason = "the disk's failure, else the group or what is wrong with it")]
    fn group(
        &mut self,
        offset: u64,
        number: u64,
        journal: u64,
    ) -> Result<Result<(GroupHead, &[u8]), &'static str>, JournalError> {
        if offset + GROUP_HEAD_BYTES as u64 > self.window.len() {
            return Ok(Err("the file ends here, too early: it was cut"));
        }
        let Some(head) = self.group_head(offset)?.filter(|head| head.journal == journal) else {
            return Ok(Err("the group's head is not what was written"));
        };
        if head.number != number {
            return Ok(Err("another group than the next one"));
        }
        let start = offset + GROUP_HEAD_BYTES as u64;
        if head.len > self.window.len().saturating_sub(start) {
            return Ok(Err("the group is longer than its file: it was cut"));
        }
        let content = self.at(start, head.len as usize)?;
        if content.len() as u64 != head.len || crc32fast::hash(content) != head.crc {
            return Ok(Err("the group's records are not what was written"));
        }
        Ok(Ok((head, content)))
    }

    /// Of the heads behind `offset` the first with a number of at least `least`.
    fn later_group(
        &mut self,
        offset: u64,
        least: u64,
        journal: Option<u64>,
    ) -> Result<Option<GroupHead>, JournalError> {
        for at in (offset + BLOCK_BYTES..self.window.len()).step_by(BLOCK_BYTES as usize) {
            let head = self.group_head(at)?;
            let ours = |head: &GroupHead| journal.is_none_or(|journal| head.journal == journal);
            if let Some(head) = head.filter(|head| head.number >= least && ours(head)) {
                return Ok(Some(head));
            }
        }
        Ok(None)
    }

    /// Behind the last byte from `offset` on that isn't zero; `offset` if there is none.
    fn last_nonzero(&mut self, offset: u64) -> Result<u64, JournalError> {
        /// Most of a segment's end is zeros, and comparing whole blocks with some is quicker than looking at each byte.
        const ZEROS: [u8; BLOCK_BYTES as usize] = [0; BLOCK_BYTES as usize];
        let mut end = offset;
        for at in (offset..self.window.len()).step_by(BLOCK_BYTES as usize) {
            let block = self.at(at, BLOCK_BYTES as usize)?;
            if *block != ZEROS[..block.len()] {
                let last = block.iter().rposition(|byte| *byte != 0).expect("it differs from zeros");
                end = at + last as u64 + 1;
            }
        }
        Ok(end)
    }

    fn at(&mut self, offset: u64, len: usize) -> Result<&[u8], JournalError> {
        let name = segment_name(self.number);
        self.window.at(offset, len).map_err(|error: io::Error| unreadable(&name)(error))
    }
}

fn damaged(segment: u64, offset: u64, what: &str) -> JournalError {
    JournalError::Damaged { file: segment_name(segment), offset, what: what.into() }
}
