//! `SCAN`, `HSCAN`, `SSCAN` and `ZSCAN` of a client's own with a cursor in the middle of a crowd: as many steps as it takes.
//!
//! Any other cursor is a place, and its call one request, behind which others are taken at once; a cursor that leads into a crowd comes from
//! such a one and is not remembered. In the middle of a crowd a call goes on at a [spot](crate::keyspace::rows::spot):
//! one that this node [remembers](crate::bookmarks), or else one that is looked for, each step a transaction that looks at some
//! thousands of names. The last step tells what it finds from there on, and where the next call goes on; that is remembered.
//! See docs/decisions/0051-a-scan-goes-on-in-the-middle-of-a-crowd.md.
//!
//! Steps are reads, on a snapshot where the client asks for one. A leader of a build before this one refuses a step's last word; it is asked
//! without it then.

use super::walking::bulk;
use super::*;
use crate::command::Opcode;
use crate::commands::cursor::Cursor;

/// A call that is asked in steps.
#[derive(Debug)]
pub(super) struct Scanning {
    /// The client's own words.
    words: Vec<Vec<u8>>,
    /// The word of the next step.
    word: Vec<u8>,
    /// The command that scans, and its key.
    what: Vec<u8>,
    /// Whoever serves knows no steps.
    at_once: bool,
}

/// The answer of a step: a word, and a reply to the client without its beginning.
struct Step<'a> {
    word: &'a [u8],
    /// A cursor, and what was found.
    rest: &'a [u8],
}

impl Step<'_> {
    /// Reads one; `None`: it is an error, or the answer of a plain command.
    fn decode(reply: &[u8]) -> Option<Step<'_>> {
        let (word, rest) = bulk(reply.strip_prefix(b"*3\r\n")?)?;
        Some(Step { word, rest })
    }

    /// The cursor in it, and the spot where that goes on, if it is in the middle of a crowd.
    fn bookmark(&self) -> Option<(u64, &[u8])> {
        let spot = self.word.strip_prefix(b"@")?;
        let cursor = std::str::from_utf8(bulk(self.rest)?.0).ok()?.parse().ok()?;
        Some((cursor, spot))
    }
}

impl Connection {
    /// The cursor of the scan that [`args`](Self::args) hold, if it is in the middle of a crowd.
    pub(super) fn cursor_in_a_crowd(&self, opcode: Opcode) -> Option<Cursor> {
        let at = usize::from(opcode != op::SCAN);
        let cursor = Cursor::parse(single::args(&self.args).nth(at)?).ok()?;
        matches!(cursor, Cursor::In(_)).then_some(cursor)
    }

    /// Offers the first step of what [`args`](Self::args) hold.
    pub(super) fn scan_on(&mut self, opcode: Opcode, cursor: Cursor) {
        let words: Vec<Vec<u8>> = single::args(&self.args).map(<[u8]>::to_vec).collect();
        let key = words.first().filter(|_| opcode != op::SCAN).map_or(&[][..], Vec::as_slice);
        let what = [&[opcode.byte()], key].concat();
        let user = self.client.caller.user().name();
        let word = match self.door.bookmarks.find(user, &what, cursor.number()) {
            Some(spot) => [&b"@"[..], &spot].concat(),
            None => b"?".to_vec(),
        };
        self.scanning = Some(Scanning { words, word, what, at_once: false });
        let seq = self.order.open();
        self.offer_part_of_scan(seq);
    }

    /// A step is released: whether there is another one, or the client has its answer.
    pub(super) fn goes_on_scanning(&mut self, seq: u64, outcome: Outcome, bytes: &[u8]) -> bool {
        if self.scanning.is_none() || self.stage != (Stage::Walking { seq }) {
            return false;
        }
        let scanning = self.scanning.as_mut().expect("it was looked at");
        if outcome != Outcome::Committed || scanning.at_once {
            self.end_scan();
            return false;
        }
        // A leader of a build before this one says so of the word too many; or the client's own words are wrong, and it says so again.
        if bytes.starts_with(b"-ERR syntax error") {
            return self.scan_without_steps(seq);
        }
        let Some(step) = Step::decode(bytes) else {
            self.end_scan();
            return false;
        };
        if step.word.starts_with(b"?") {
            scanning.word = step.word.to_vec();
            self.order.expect(seq, 0);
            self.offer_part_of_scan(seq);
            return true;
        }
        if let Some((cursor, spot)) = step.bookmark() {
            let user = self.client.caller.user().name();
            self.door.bookmarks.keep(user, &scanning.what, cursor, spot);
        }
        self.order.answer(seq, |out| {
            out.extend_from_slice(b"*2\r\n");
            out.extend_from_slice(step.rest);
        });
        self.end_scan();
        self.recall();
        true
    }

    /// Asks the plain command, if whoever serves goes on in front of the crowd then.
    fn scan_without_steps(&mut self, seq: u64) -> bool {
        let scanning = self.scanning.as_mut().expect("who scans has begun");
        scanning.at_once = true;
        self.order.expect(seq, 0);
        self.offer_part_of_scan(seq);
        true
    }

    /// Offers the next step, or the plain command.
    fn offer_part_of_scan(&mut self, seq: u64) {
        let scanning = self.scanning.as_ref().expect("who scans has begun");
        let words = scanning.words.iter().map(Vec::as_slice);
        if scanning.at_once {
            single::begin(&mut self.args, |out| Args::encode(words, out));
        } else {
            let words: Vec<&[u8]> = words.chain([&scanning.word[..]]).collect();
            single::go_on(&mut self.args, |out| Args::encode(words.into_iter(), out));
        }
        let moment = Moment { unix_ms: self.client.unix_ms, seed: self.random.bits() };
        self.args[..Moment::BYTES].copy_from_slice(&moment.bytes());
        let (procedure, snapshot) = (self.door.procedures.exec, self.client.snapshots);
        self.stage = Stage::Offering { seq, procedure, kind: Offer::Walks, snapshot, session: None };
    }

    fn end_scan(&mut self) {
        self.scanning = None;
        self.stage = Stage::Open;
        self.args.clear();
    }
}

impl Scanning {
    /// Memory of its words.
    pub(super) fn memory_bytes(&self) -> usize {
        let words: usize = self.words.iter().map(Vec::capacity).sum();
        words + self.word.capacity() + self.what.capacity()
    }
}
