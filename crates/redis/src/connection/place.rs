//! A client in line for data: it gets in, looks, is woken and gives up.

use std::sync::Arc;

use super::super::clients::Card;
use super::super::endings::COMPILING;
use super::super::request::Framing;
use super::*;

/// A client in line.
pub(super) struct Place {
    pub(super) door: Arc<Door>,
    pub(super) client: u64,
    pub(super) card: Arc<Card>,
    pub(super) wait: Wait,
    /// Which of the client's waits it is.
    number: u64,
    /// Its time runs. While a pause holds its first look it does not, as in Redis.
    pub(super) timed: bool,
    /// It has looked before.
    pub(super) looked: bool,
    /// Somebody wrote while it looked.
    pub(super) woken: bool,
    /// Its time is over.
    pub(super) late: bool,
}

impl Place {
    /// At the end of the line; whether others are in front of it for every key.
    pub(super) fn enter(&self) -> bool {
        self.door.waiting.enter(self.client, &self.wait.keys)
    }

    pub(super) fn new(door: Arc<Door>, card: Arc<Card>, wait: Wait, number: u64) -> Place {
        card.waits.store(true, Relaxed);
        let client = card.id;
        Place { door, client, card, wait, number, timed: false, looked: false, woken: false, late: false }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.card.waits.store(false, Relaxed);
        self.door.waiting.leave(self.client, &self.wait.keys);
    }
}

/// How a client waits for data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Waits {
    /// Which of its waits it is: one may begin in the turn in which the last one ends.
    pub number: u64,
    /// For how long, in ms; `None`: for ever.
    pub timeout_ms: Option<u64>,
}

/// Whether what a look for data answered says that there is none.
pub fn is_nothing(reply: &[u8]) -> bool {
    matches!(reply, b"$-1\r\n" | b"*-1\r\n" | b"_\r\n")
}

impl Connection {
    /// Whoever waits for what was written is to look.
    pub(super) fn wake_others(&mut self, seq: u64, wrote: bool) {
        let Some(at) = self.writes.iter().position(|(written, _)| *written == seq) else { return };
        let (_, named) = self.writes.remove(at).expect("it was found there");
        if wrote && self.door.waiting.is_any() {
            match named {
                Some(keys) => self.door.waiting.wake(keys.iter().map(Vec::as_slice)),
                None => self.door.waiting.wake_all(),
            }
        }
    }

    /// Whether this is a command that found nothing and has time left.
    pub(super) fn goes_on_waiting(&mut self, seq: u64, outcome: Outcome, bytes: &[u8]) -> bool {
        if self.stage != (Stage::Trying { seq }) {
            return false;
        }
        let place = self.place.as_mut().expect("who tries stands in line");
        let for_data = place.wait.what == Awaited::Data;
        let nothing = for_data && is_nothing(bytes);
        let too_early = match outcome {
            Outcome::Committed => nothing,
            Outcome::Conflict => for_data,
            Outcome::Denied => !for_data && bytes == COMPILING,
            _ => false,
        };
        let again = outcome == Outcome::Conflict || std::mem::take(&mut place.woken);
        place.looked = for_data;
        if too_early && !place.late {
            // What the engine holds of it is no reply: the client gets none yet.
            self.order.expect(seq, 0);
            self.stage = Stage::Blocked { seq };
            if again {
                self.look_again();
            }
            return true;
        }
        let late = place.late && nothing;
        self.place = None;
        self.stage = Stage::Open;
        self.args.clear();
        if late {
            let protocol = self.client.protocol;
            self.order.answer(seq, |out| Reply::new(out, protocol).null_array());
            self.recall();
        }
        late
    }

    /// How it waits for data, if it does.
    pub fn waits(&self) -> Option<Waits> {
        let place = self.place.as_ref().filter(|place| place.timed || !self.is_paused())?;
        Some(Waits { number: place.number, timeout_ms: place.wait.timeout_ms })
    }

    /// The command that waits for data, if one does, and for which keys.
    pub fn waits_for(&self) -> Option<(u64, &[Vec<u8>])> {
        let place = self.place.as_ref()?;
        match self.stage {
            Stage::Offering { seq, .. } | Stage::Trying { seq } | Stage::Blocked { seq } => {
                Some((seq, &place.wait.keys))
            }
            _ => None,
        }
    }

    /// There may be something for a client that waits.
    pub fn look_again(&mut self) {
        if let Stage::Blocked { seq } = self.stage
            && self.place.is_some()
        {
            // What it might when it began to wait it may not any more.
            self.look_at_users();
            if self.evicted {
                return;
            }
            if let Err(error) = self.still_may() {
                return self.end_waiting(seq, error);
            }
            self.admitted_by = self.client.caller.seen();
        }
        let Some(place) = &mut self.place else { return };
        match self.stage {
            Stage::Blocked { seq } => {
                let moment = Moment { unix_ms: self.client.unix_ms, seed: self.random.bits() };
                self.args[..Moment::BYTES].copy_from_slice(&moment.bytes());
                if place.looked {
                    Framing::look_again(&mut self.args[Moment::BYTES]);
                }
                let procedure = self.door.procedures.exec;
                self.stage =
                    Stage::Offering { seq, procedure, kind: Offer::Waits, snapshot: false, session: None };
            }
            _ => place.woken = true,
        }
    }

    /// The time is over of a client that waits for data.
    pub fn give_up_waiting(&mut self) {
        let Some(place) = &mut self.place else { return };
        place.late = true;
        if let Stage::Blocked { seq } = self.stage {
            self.place = None;
            self.stage = Stage::Open;
            self.args.clear();
            let protocol = self.client.protocol;
            self.order.answer(seq, |out| Reply::new(out, protocol).null_array());
            self.recall();
        }
    }

    /// Another client has this one wait for data no more.
    pub fn unblock(&mut self, error: bool) {
        if !error {
            return self.give_up_waiting();
        }
        // Who looks at the moment may still get something, and is left alone.
        if let Stage::Blocked { seq } = self.stage {
            self.door.clients.count_error(b"UNBLOCKED");
            self.end_waiting(seq, CommandError::Unblocked);
        }
    }

    pub(super) fn end_waiting(&mut self, seq: u64, error: CommandError) {
        self.place = None;
        self.stage = Stage::Open;
        self.args.clear();
        let protocol = self.client.protocol;
        self.order.answer(seq, |out| Reply::new(out, protocol).error(error));
        self.recall();
    }

    /// The thing that a command waits for, if it is one that may have to. Reads on a snapshot do not wait for a compiler.
    pub(super) fn wait_of(&self, spec: &Spec, wait_of: fn(Args<'_>) -> Option<Wait>) -> Option<Wait> {
        let on_snapshot = spec.reads() && self.client.snapshots;
        wait_of(single::args(&self.args)).filter(|wait| wait.what == Awaited::Data || !on_snapshot)
    }

    /// Gets in line, and looks, unless others who wait for the same come first.
    pub(super) fn wait(&mut self, wait: Wait) {
        self.waits_begun += 1;
        // What several wait for that is no data is there for all of them.
        let for_data = wait.what == Awaited::Data;
        let mut place = Place::new(self.door.clone(), self.client.shared_card(), wait, self.waits_begun);
        let behind = place.enter();
        place.timed = behind;
        self.place = Some(place);
        if behind && for_data {
            self.stage = Stage::Blocked { seq: self.order.open() };
        } else {
            self.offer(self.door.procedures.exec, Offer::Waits, None);
        }
    }
}
