//! What the workers of one number say to each other.
//!
//! A frame's head carries what every frame carries ([`Head`]) and light messages; its body, messages with payloads.
//!
//! ```text
//! head      16 u8 | epoch u64 | closed u64 | heard u64 | clock u64 | crc of the body u32 | messages
//! body      messages
//! message   tag u8 | ts u64 | fields, little endian
//! flags     bit 0 commit or valid, bit 1 a payload follows, bit 2 a decision was accepted, bit 3 that it commits, bit 4 late
//! ```

use bytes::Bytes;
use highwater_core::codec::{Malformed, Reader};
use highwater_core::{Epoch, Timestamp};

use super::payload::Payload;

/// Tag of our frames: those of state copies have smaller ones.
pub const TAG: u8 = 16;

/// What every frame carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head {
    /// The sender's epoch: messages of another one are not for the receiver.
    pub epoch: Epoch,
    /// Of the transactions that the sender coordinates those at or below are over at every replica, and there will be no others.
    pub closed: Timestamp,
    /// The receiver's outcomes up to this number have taken effect at the sender.
    pub heard: u64,
    /// What the sender's clock showed, where real time is promised; else 0.
    pub clock: Timestamp,
}

/// A message about one transaction, which its timestamp names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// Which transaction.
    pub ts: Timestamp,
    pub about: About,
}

/// What a message says. Section 5.2.2 of the paper, unless another one is named.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum About {
    /// Coordinator to replicas: can it commit?
    Validate {
        /// What it read and writes.
        payload: Payload,
    },
    /// The answer to it.
    Vote {
        /// Found valid.
        valid: bool,
        /// Not even looked at: the replica's clock was past its timestamp.
        late: bool,
        /// If it is not valid: that clock, or what was in the way; a later timestamp may do.
        hint: Timestamp,
    },
    /// Coordinator, or whoever acts for it, to replicas: take this for decided, unless you promised a later view.
    Accept {
        /// Whose proposal: 0 is the coordinator's.
        view: u32,
        commit: bool,
        /// For a view above 0, for those who promised it without: who accepts that it commits has what it writes.
        payload: Option<Payload>,
    },
    /// The answer: it is accepted.
    Accepted { view: u32 },
    /// The answer: a later view was promised.
    Overtaken { view: u32 },
    /// Coordinator to replicas: it is decided. (The paper's COMMIT.)
    Outcome {
        /// Counts the coordinator's outcomes of this epoch from 1.
        number: u64,
        commit: bool,
        /// For those who have no record of it.
        payload: Option<Payload>,
    },
    /// A replica's answer to anything but an outcome: it is over here.
    Over {
        /// It committed.
        commit: bool,
    },
    /// Backup coordinator to replicas: promise to hear no earlier view (section 5.3.2).
    Prepare {
        /// The view, of which the backup coordinator is the proposer.
        view: u32,
    },
    /// The answer.
    Promise {
        /// The view that is promised.
        view: u32,
        /// Found valid here, and was not fenced before.
        valid: bool,
        /// The proposal that was accepted in the latest view, and in which.
        accepted: Option<(u32, bool)>,
        /// What it read and writes, if that is known here.
        payload: Option<Payload>,
    },
    /// Backup coordinator to replicas: it is decided.
    Settle {
        commit: bool,
        /// For those who have no record of it.
        payload: Option<Payload>,
    },
    /// The answer: it has taken effect.
    Settled,
    /// To who may have nothing to do: say how far you are, until everything up to this timestamp is closed.
    HowFar,
}

use About::{
    Accept, Accepted, HowFar, Outcome, Over, Overtaken, Prepare, Promise, Settle, Settled, Validate, Vote,
};

const COMMIT: u8 = 1;
const PAYLOAD: u8 = 2;
const ACCEPTED: u8 = 4;
const ACCEPTED_COMMIT: u8 = 8;
const LATE: u8 = 16;

fn flag(is: bool, bit: u8) -> u8 {
    if is { bit } else { 0 }
}

impl Head {
    /// Appends it; `crc` is the body's.
    pub fn encode(&self, crc: u32, out: &mut Vec<u8>) {
        out.push(TAG);
        for word in [self.epoch.0, self.closed.0, self.heard, self.clock.0] {
            out.extend_from_slice(&word.to_le_bytes());
        }
        out.extend_from_slice(&crc.to_le_bytes());
    }

    /// Reads what stands behind the tag, and the body's checksum.
    pub fn decode(reader: &mut Reader<'_>) -> Result<(Head, u32), Malformed> {
        let (epoch, closed) = (Epoch(reader.u64()?), Timestamp(reader.u64()?));
        let head = Head { epoch, closed, heard: reader.u64()?, clock: Timestamp(reader.u64()?) };
        Ok((head, reader.u32()?))
    }
}

impl Message {
    /// The payload that travels along, if one does: such a message goes into a body.
    pub fn payload(&self) -> Option<&Payload> {
        match &self.about {
            Validate { payload } => Some(payload),
            Accept { payload, .. }
            | Outcome { payload, .. }
            | Promise { payload, .. }
            | Settle { payload, .. } => payload.as_ref(),
            _ => None,
        }
    }

    /// Appends it.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let with = flag(self.payload().is_some(), PAYLOAD);
        let (tag, flags) = match &self.about {
            Validate { .. } => (1, with),
            Vote { valid, late, .. } => (2, flag(*valid, COMMIT) | flag(*late, LATE)),
            Accept { commit, .. } => (3, flag(*commit, COMMIT) | with),
            Accepted { .. } => (4, 0),
            Overtaken { .. } => (5, 0),
            Outcome { commit, .. } => (6, flag(*commit, COMMIT) | with),
            Over { commit } => (7, flag(*commit, COMMIT)),
            Prepare { .. } => (8, 0),
            Promise { valid, accepted, .. } => {
                let accepted = accepted.map_or(0, |(_, commit)| ACCEPTED | flag(commit, ACCEPTED_COMMIT));
                (9, flag(*valid, COMMIT) | accepted | with)
            }
            Settle { commit, .. } => (10, flag(*commit, COMMIT) | with),
            Settled => (11, 0),
            HowFar => (12, 0),
        };
        out.extend_from_slice(&[tag, flags]);
        out.extend_from_slice(&self.ts.0.to_le_bytes());
        match &self.about {
            Vote { hint, .. } => out.extend_from_slice(&hint.0.to_le_bytes()),
            Accept { view, .. } | Accepted { view } | Overtaken { view } | Prepare { view } => {
                out.extend_from_slice(&view.to_le_bytes());
            }
            Outcome { number, .. } => out.extend_from_slice(&number.to_le_bytes()),
            Promise { view, accepted, .. } => {
                out.extend_from_slice(&view.to_le_bytes());
                out.extend_from_slice(&accepted.map_or(0, |(view, _)| view).to_le_bytes());
            }
            Validate { .. } | Over { .. } | Settle { .. } | Settled | HowFar => {}
        }
        if let Some(payload) = self.payload() {
            out.extend_from_slice(&(payload.len() as u32).to_le_bytes());
            out.extend_from_slice(payload.bytes());
        }
    }

    /// Reads one message at the front of `rest`, and takes it off. Payloads share the memory.
    pub fn decode(rest: &mut Bytes) -> Result<Message, Malformed> {
        let whole = rest.clone();
        let mut reader = Reader::new(&whole);
        let (tag, flags, ts) = (reader.u8()?, reader.u8()?, Timestamp(reader.u64()?));
        let commit = flags & COMMIT != 0;
        let about = match tag {
            1 => Validate { payload: take_payload(rest, &mut reader)? },
            2 => Vote { valid: commit, late: flags & LATE != 0, hint: Timestamp(reader.u64()?) },
            3 => {
                let view = reader.u32()?;
                Accept { view, commit, payload: maybe_payload(flags, rest, &mut reader)? }
            }
            4 => Accepted { view: reader.u32()? },
            5 => Overtaken { view: reader.u32()? },
            6 => {
                let number = reader.u64()?;
                Outcome { number, commit, payload: maybe_payload(flags, rest, &mut reader)? }
            }
            7 => Over { commit },
            8 => Prepare { view: reader.u32()? },
            9 => {
                let (view, in_view) = (reader.u32()?, reader.u32()?);
                let accepted = (flags & ACCEPTED != 0).then_some((in_view, flags & ACCEPTED_COMMIT != 0));
                Promise { view, valid: commit, accepted, payload: maybe_payload(flags, rest, &mut reader)? }
            }
            10 => Settle { commit, payload: maybe_payload(flags, rest, &mut reader)? },
            11 => Settled,
            12 => HowFar,
            _ => return Err(Malformed("message tag")),
        };
        *rest = whole.slice(whole.len() - reader.rest().len()..);
        Ok(Message { ts, about })
    }
}

fn maybe_payload(flags: u8, whole: &Bytes, reader: &mut Reader<'_>) -> Result<Option<Payload>, Malformed> {
    (flags & PAYLOAD != 0).then(|| take_payload(whole, reader)).transpose()
}

fn take_payload(whole: &Bytes, reader: &mut Reader<'_>) -> Result<Payload, Malformed> {
    let len = reader.u32()? as usize;
    let at = whole.len() - reader.rest().len();
    reader.take(len)?;
    Payload::parse(whole.slice(at..at + len))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::validation::payload::{Read, put_read};
    use highwater_core::TableId;

    fn payload() -> Payload {
        let mut reads = Vec::new();
        put_read(&mut reads, Read { table: TableId(3), key: b"key", version: Timestamp(9), deleted: false });
        Payload::build(Timestamp::ZERO, (&reads, 1), (&[], 0), &[])
    }

    fn every() -> Vec<Message> {
        let some = Some(payload());
        let about = vec![
            Validate { payload: payload() },
            Vote { valid: false, late: true, hint: Timestamp(77) },
            Vote { valid: true, late: false, hint: Timestamp(0) },
            Accept { view: 0, commit: true, payload: None },
            Accept { view: 3, commit: true, payload: some.clone() },
            Accepted { view: 3 },
            Overtaken { view: 8 },
            Outcome { number: 5, commit: true, payload: some.clone() },
            Outcome { number: 6, commit: false, payload: None },
            Over { commit: true },
            Prepare { view: 2 },
            Promise { view: 2, valid: true, accepted: Some((1, false)), payload: some.clone() },
            Promise { view: 2, valid: false, accepted: None, payload: None },
            Settle { commit: true, payload: some },
            Settled,
            HowFar,
        ];
        about.into_iter().map(|about| Message { ts: Timestamp(41), about }).collect()
    }

    #[test]
    fn messages_round_trip_one_after_another() {
        let mut bytes = Vec::new();
        every().iter().for_each(|message| message.encode(&mut bytes));
        let mut rest = Bytes::from(bytes);
        for message in every() {
            assert_eq!(Message::decode(&mut rest), Ok(message));
        }
        assert!(rest.is_empty());
    }

    #[test]
    fn what_is_cut_off_is_an_error_and_no_panic() {
        for message in every() {
            let mut bytes = Vec::new();
            message.encode(&mut bytes);
            for len in 0..bytes.len() {
                assert!(
                    Message::decode(&mut Bytes::copy_from_slice(&bytes[..len])).is_err(),
                    "{message:?} {len}"
                );
            }
        }
        assert!(Message::decode(&mut Bytes::from_static(&[99; 40])).is_err());
    }

    #[test]
    fn heads_round_trip() {
        let head = Head { epoch: Epoch(3), closed: Timestamp(4), heard: 5, clock: Timestamp(6) };
        let mut bytes = Vec::new();
        head.encode(6, &mut bytes);
        let mut reader = Reader::new(&bytes[1..]);
        assert_eq!((bytes[0], Head::decode(&mut reader)), (TAG, Ok((head, 6))));
    }
}
