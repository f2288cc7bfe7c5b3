//! What happened to a node lately: who led, which epoch, what its engine had to say.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

use serde::{Deserialize, Serialize};

/// Events that are kept; older ones are forgotten.
pub const MOST_EVENTS: usize = 256;
/// The words of an event on a node that leads and refuses clients' requests.
pub const STALLED: &str = "stalled: refuses requests";
/// Longest text of one.
const MAX_TEXT_BYTES: usize = 256;

/// Something that happened.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Event {
    /// Which one since the process started, from 1 on.
    pub number: u64,
    /// When, in Unix time.
    pub unix_ms: u64,
    /// `role`: its role, service, epoch or leader changed; `engine`: its engine says so.
    pub kind: String,
    /// Its role from then on.
    pub role: String,
    pub epoch: u64,
    /// Whom clients should ask, as far as it knows.
    pub leader: Option<u8>,
    /// In words, if there are any.
    pub text: String,
}

/// The last ones.
#[derive(Debug, Default)]
pub struct Events(Mutex<Kept>);

#[derive(Debug, Default)]
struct Kept {
    events: VecDeque<Event>,
    last: u64,
}

impl Events {
    /// Keeps one that happened at this Unix time in ms; its number is given here.
    pub fn keep(&self, unix_ms: u64, kind: &str, (role, epoch, leader): (&str, u64, Option<u8>), text: &str) {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.last += 1;
        let event = Event {
            number: kept.last,
            unix_ms,
            kind: kind.into(),
            role: role.into(),
            epoch,
            leader,
            text: text.chars().take(MAX_TEXT_BYTES / 4).collect(),
        };
        kept.events.push_back(event);
        if kept.events.len() > MOST_EVENTS {
            kept.events.pop_front();
        }
    }

    /// All that are kept, in order.
    pub fn all(&self) -> Vec<Event> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).events.iter().cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_ones_are_kept() {
        let events = Events::default();
        (0..300).for_each(|epoch| events.keep(epoch, "role", ("leader", epoch, Some(1)), &"x".repeat(1000)));
        let all = events.all();
        assert_eq!((all.len(), all[0].number, all[255].epoch), (MOST_EVENTS, 45, 299));
        assert!(all.iter().all(|event| event.text.len() <= MAX_TEXT_BYTES));
    }
}
