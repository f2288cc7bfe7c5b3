//! `KEYS`, `DBSIZE` and `HW.KEYSINSLOT` of a client's own: as many transactions as it takes, each of which looks at some names.
//!
//! In one, any key that comes or goes meanwhile is a conflict, and a keyspace that is large enough is never read through beside writers. In
//! steps what is there all the time is told, and once. A keyspace of few keys takes one step, which is of one moment; and so it is inside
//! `MULTI`, in scripts and on snapshots. See docs/decisions/0042-all-keys-are-looked-at-in-steps.md.

use highwater_core::limits::MAX_REPLY_BYTES;

use super::*;
use crate::command::Opcode;
use crate::number::parse_integer;

/// How far a walk through the names has got.
#[derive(Debug)]
pub(super) struct Walking {
    opcode: Opcode,
    /// The command's own words.
    words: Vec<Vec<u8>>,
    /// The word that says where the next step begins.
    from: Vec<u8>,
    /// Names that count.
    count: u64,
    /// Names that are told, as strings of a reply, and how many.
    found: Vec<u8>,
    told: u64,
    /// Whoever serves knows no steps: all is asked in one transaction.
    at_once: bool,
}

/// The answer of a step: `[next, count, [name ..]]`.
struct Step<'a> {
    next: &'a [u8],
    count: u64,
    told: u64,
    names: &'a [u8],
}

impl Step<'_> {
    /// Reads one; `None`: it is an error, or all there is.
    fn decode(reply: &[u8]) -> Option<Step<'_>> {
        let (next, rest) = bulk(reply.strip_prefix(b"*3\r\n")?)?;
        let (count, rest) = line(rest.strip_prefix(b":")?)?;
        let (told, names) = line(rest.strip_prefix(b"*")?)?;
        Some(Step { next, count, told, names })
    }
}

/// Whether a leader of a build before this one says that a step has a word too many, or one that it cannot read.
fn knows_no_steps(reply: &[u8]) -> bool {
    reply.starts_with(b"-ERR wrong number of arguments") || reply.starts_with(b"-ERR invalid cursor")
}

/// The string at the front of a reply, and what is behind it.
pub(super) fn bulk(text: &[u8]) -> Option<(&[u8], &[u8])> {
    let (len, rest) = line(text.strip_prefix(b"$")?)?;
    let (string, rest) = rest.split_at_checked(usize::try_from(len).ok()?)?;
    Some((string, rest.strip_prefix(b"\r\n")?))
}

/// The number at the front of a line, and what is behind it.
fn line(text: &[u8]) -> Option<(u64, &[u8])> {
    let end = text.iter().position(|byte| *byte == b'\r')?;
    let number = parse_integer(&text[..end]).and_then(|number| u64::try_from(number).ok())?;
    Some((number, text.get(end + 2..)?))
}

impl Walking {
    fn new(opcode: Opcode, words: Vec<Vec<u8>>) -> Walking {
        Walking { opcode, words, from: vec![b'@'], count: 0, found: Vec::new(), told: 0, at_once: false }
    }

    /// How many names its client wants, if it says so.
    fn wanted(&self) -> Option<u64> {
        let word = self.words.get(1).filter(|_| self.opcode == op::HW_KEYSINSLOT)?;
        parse_integer(word).and_then(|wanted| u64::try_from(wanted).ok())
    }

    /// The words of the next step: the command's own, and where it begins.
    fn step(&self, out: &mut Vec<u8>) {
        let left = self.wanted().map(|wanted| (wanted - self.told).to_string());
        let mut words: Vec<&[u8]> = self.words.iter().map(Vec::as_slice).collect();
        if self.opcode == op::HW_KEYSINSLOT {
            match &left {
                Some(left) => words[1] = left.as_bytes(),
                // A place of its own, whoever reads it: builds before this one refuse three words.
                None if words.len() == 1 => words.push(b"-"),
                None => {}
            }
        }
        words.push(&self.from);
        Args::encode(words.into_iter(), out);
    }

    /// A step is done; whether there is another one.
    fn advance(&mut self, step: &Step<'_>) -> bool {
        self.count += step.count;
        self.told += step.told;
        self.found.extend_from_slice(step.names);
        self.from = step.next.to_vec();
        !step.next.is_empty() && self.wanted().is_none_or(|wanted| self.told < wanted)
    }

    fn answer(&self, reply: &mut Reply<'_>) {
        if self.opcode == op::KEYS || self.words.len() > 1 {
            reply.array(self.told as usize);
            reply.raw(&self.found);
        } else {
            reply.integer(self.count as i64);
        }
    }

    /// Memory of what was found.
    pub(super) fn memory_bytes(&self) -> usize {
        self.found.capacity() + self.from.capacity()
    }
}

impl Connection {
    /// Offers the first step of what [`args`](Self::args) hold.
    pub(super) fn walk(&mut self, opcode: Opcode) {
        let words: Vec<Vec<u8>> = single::args(&self.args).map(<[u8]>::to_vec).collect();
        if opcode == op::HW_KEYSINSLOT && words.get(1).is_some_and(|word| parse_integer(word).is_none()) {
            // What is wrong with it is said by the command itself.
            return self.offer(self.door.procedures.exec, Offer::Reads, None);
        }
        let walking = self.walking.insert(Walking::new(opcode, words));
        single::go_on(&mut self.args, |out| walking.step(out));
        self.offer(self.door.procedures.exec, Offer::Walks, None);
    }

    /// A step is released: whether there is another one, or the client has its answer.
    pub(super) fn goes_on_walking(&mut self, seq: u64, outcome: Outcome, bytes: &[u8]) -> bool {
        if self.stage != (Stage::Walking { seq }) {
            return false;
        }
        let walking = self.walking.as_mut().expect("who walks has begun");
        if outcome != Outcome::Committed || walking.at_once {
            self.end_walk();
            return false;
        }
        if knows_no_steps(bytes) {
            walking.at_once = true;
            self.offer_part_of_walk(seq);
            return true;
        }
        let Some(goes_on) = Step::decode(bytes).map(|step| walking.advance(&step)) else {
            self.end_walk();
            return false;
        };
        if walking.found.len() > MAX_REPLY_BYTES {
            self.end_walk();
            self.fail(seq, |_| RequestError::TooLarge { limits: "its reply would be longer than 64 MiB" });
            self.recall();
        } else if goes_on {
            self.offer_part_of_walk(seq);
        } else if let Some(walking) = self.end_walk() {
            let protocol = self.client.protocol;
            self.order.answer(seq, |out| walking.answer(&mut Reply::new(out, protocol)));
            self.recall();
        }
        true
    }

    /// Offers the next step, or all at once.
    fn offer_part_of_walk(&mut self, seq: u64) {
        let walking = self.walking.as_ref().expect("who walks has begun");
        // What the engine held of the last one is no reply: the client gets none yet.
        self.order.expect(seq, 0);
        match walking.at_once {
            true => single::begin(&mut self.args, |out| {
                Args::encode(walking.words.iter().map(Vec::as_slice), out);
            }),
            false => single::go_on(&mut self.args, |out| walking.step(out)),
        }
        let moment = Moment { unix_ms: self.client.unix_ms, seed: self.random.bits() };
        self.args[..Moment::BYTES].copy_from_slice(&moment.bytes());
        let procedure = self.door.procedures.exec;
        self.stage = Stage::Offering { seq, procedure, kind: Offer::Walks, snapshot: false, session: None };
    }

    fn end_walk(&mut self) -> Option<Walking> {
        self.stage = Stage::Open;
        self.args.clear();
        self.walking.take()
    }
}
