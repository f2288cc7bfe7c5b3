//! What an old and a new leader say to each other while the lead is handed over.

use std::fmt;

use highwater_core::codec::{Malformed, Reader};
use highwater_core::wire::{Kind, Wire};
use highwater_core::{Epoch, Random, wire, wire_codec};

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

wire! {
    /// Why a node cannot lead now.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum Reason: "reason" {
        /// It is about to end.
        Ends = 0,
        /// It does not vote.
        Learns = 1,
        /// Its store is not complete.
        Copies = 2,
        /// Its clock went back.
        ClockStands = 3,
        /// One of its workers takes no turns.
        Stuck = 4,
        /// It is not connected to a majority.
        Alone = 5,
        /// It does not follow the leader who asks.
        FollowsNot = 6,
    }
}

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

// The epoch stands between the tag and what a word says beside it.
impl Wire for HandOverMessage {
    const NAME: &'static str = "message about a lead";

    fn put(&self, out: &mut Vec<u8>) {
        let tag = match self.word {
            Word::CouldYou => 1,
            Word::ICould { .. } => 2,
            Word::ICannot(_) => 3,
            Word::Stand => 4,
            Word::IServe => 5,
        };
        out.push(tag);
        self.epoch.put(out);
        match self.word {
            Word::ICould { held } => held.put(out),
            Word::ICannot(why) => why.put(out),
            Word::CouldYou | Word::Stand | Word::IServe => {}
        }
    }

    fn take(from: &mut Reader<'_>) -> Result<HandOverMessage, Malformed> {
        let (tag, epoch) = (from.u8()?, Wire::take(from)?);
        let word = match tag {
            1 => Word::CouldYou,
            2 => Word::ICould { held: Wire::take(from)? },
            3 => Word::ICannot(Wire::take(from)?),
            4 => Word::Stand,
            5 => Word::IServe,
            _ => return Err(Malformed("tag of a message about a lead")),
        };
        Ok(HandOverMessage { epoch, word })
    }

    fn draw(random: &mut Random) -> HandOverMessage {
        let (held, why) = (Wire::draw(random), Wire::draw(random));
        let words = [Word::CouldYou, Word::ICould { held }, Word::ICannot(why), Word::Stand, Word::IServe];
        HandOverMessage { epoch: Wire::draw(random), word: random.pick(&words) }
    }
}

wire_codec!(HandOverMessage);

impl HandOverMessage {
    /// Each kind, as documents describe it.
    pub fn kinds() -> Vec<Kind> {
        let kind = |tag, name, more: Option<(&'static str, String)>| Kind {
            tag: Some(tag),
            ..Kind::of(name, std::iter::once(("epoch", Epoch::form())).chain(more))
        };
        vec![
            kind(1, "CouldYou", None),
            kind(2, "ICould", Some(("held", u64::form()))),
            kind(3, "ICannot", Some(("why", Reason::form()))),
            kind(4, "Stand", None),
            kind(5, "IServe", None),
        ]
    }
}
