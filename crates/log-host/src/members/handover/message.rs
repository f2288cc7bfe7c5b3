//! What an old and a new leader say to each other while the lead is handed over.

use std::fmt;

use highwater_core::Epoch;
use highwater_core::codec::{Malformed, Reader};

/// A message about the lead of `epoch`, which is to be handed over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HandOverMessage {
    /// The epoch that shall end.
    pub epoch: Epoch,
    /// What it is about.
    pub word: Word,
}

/// What is said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Word {
    /// From the leader: could you lead?
    CouldYou,
    /// Yes.
    ICould {
        /// Entries that it holds, over all streams: the more, the shorter the takeover.
        held: u64,
    },
    /// No.
    ICannot(Reason),
    /// From the leader, which has released everything: stand, now.
    Stand,
    /// From the new leader: requests are taken here.
    IServe,
}

/// Why a node cannot lead now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// It is about to end.
    Ends,
    /// It does not vote.
    Learns,
    /// Its store is not complete.
    Copies,
    /// Its clock went back.
    ClockStands,
    /// One of its workers takes no turns.
    Stuck,
    /// It is not connected to a majority.
    Alone,
    /// It does not follow the leader who asks.
    FollowsNot,
}

const REASONS: [Reason; 7] = [
    Reason::Ends,
    Reason::Learns,
    Reason::Copies,
    Reason::ClockStands,
    Reason::Stuck,
    Reason::Alone,
    Reason::FollowsNot,
];

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Reason::Ends => "is about to end",
            Reason::Learns => "does not vote",
            Reason::Copies => "has no complete store yet",
            Reason::ClockStands => "has a clock that went back",
            Reason::Stuck => "has a worker that stands still",
            Reason::Alone => "is not connected to a majority",
            Reason::FollowsNot => "does not follow this leader",
        })
    }
}

impl HandOverMessage {
    /// Appends `tag u8 | epoch u64 | fields`, little endian.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let tag = match self.word {
            Word::CouldYou => 1,
            Word::ICould { .. } => 2,
            Word::ICannot(_) => 3,
            Word::Stand => 4,
            Word::IServe => 5,
        };
        out.push(tag);
        out.extend_from_slice(&self.epoch.0.to_le_bytes());
        match self.word {
            Word::ICould { held } => out.extend_from_slice(&held.to_le_bytes()),
            Word::ICannot(why) => out.push(why as u8),
            Word::CouldYou | Word::Stand | Word::IServe => {}
        }
    }

    /// Reads what [`encode`](HandOverMessage::encode) wrote.
    pub fn decode(reader: &mut Reader<'_>) -> Result<HandOverMessage, Malformed> {
        let tag = reader.u8()?;
        let epoch = Epoch(reader.u64()?);
        let word = match tag {
            1 => Word::CouldYou,
            2 => Word::ICould { held: reader.u64()? },
            3 => {
                let why = REASONS.get(usize::from(reader.u8()?));
                Word::ICannot(*why.ok_or(Malformed("reason not to lead"))?)
            }
            4 => Word::Stand,
            5 => Word::IServe,
            _ => return Err(Malformed("hand-over message tag")),
        };
        Ok(HandOverMessage { epoch, word })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_word_round_trips() {
        let epoch = Epoch(7);
        let words = [Word::CouldYou, Word::ICould { held: 9 }, Word::Stand, Word::IServe];
        for word in words.into_iter().chain(REASONS.map(Word::ICannot)) {
            let (message, mut bytes) = (HandOverMessage { epoch, word }, Vec::new());
            message.encode(&mut bytes);
            assert_eq!(HandOverMessage::decode(&mut Reader::new(&bytes)), Ok(message));
        }
        let unknown = [&[3], &epoch.0.to_le_bytes()[..], &[99]].concat();
        assert!(HandOverMessage::decode(&mut Reader::new(&unknown)).is_err());
    }
}
