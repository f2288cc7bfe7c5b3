//! A policy that is not Rolis: one stream, one order, and every replica executes an entry as soon as it holds it, decided or not.
//!
//! It writes down on a [`Tape`] what it executes, for the test to see, and takes back what a new leader overrules.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard};

use bytes::Bytes;
use highwater_consensus::Stream;
use highwater_core::log::{EntryHeader, EntryKind};
use highwater_core::{Ballot, EntryIndex, Epoch, Outcome, Timestamp};
use highwater_seam::engine::Abilities;
use highwater_seam::{Nanos, Next, Outbox, Refusal, Request, Taken, Token};
use highwater_store::Store;

use crate::context::{Turn, With};
use crate::messages::Report;
use crate::pulse::NEVER;
use crate::testing::Still;
use crate::worker::entries::{CheckedEntry, fresh_entry};
use crate::worker::policy::{Applying, Asking, Cursor, Policy};

/// A replica's executed entries from the first one on.
#[derive(Default)]
pub struct Tape {
    pub executed: Vec<Bytes>,
    /// How many of them are decided.
    pub decided: usize,
    /// How many were taken back.
    pub taken_back: usize,
}

/// As many entries are undecided at most.
const MOST_UNDECIDED: u64 = 6;

#[derive(Default)]
pub struct Ordered {
    tape: Arc<Mutex<Tape>>,
    asked: VecDeque<(Token, Vec<u8>)>,
    /// Requests that wait for their entries to be decided.
    unanswered: VecDeque<(EntryIndex, Token)>,
    /// An entry is wanted, whatever is in it.
    wants_entry: bool,
    quiescing: Option<u64>,
}

impl Ordered {
    pub fn on(tape: Arc<Mutex<Tape>>) -> Ordered {
        Ordered { tape, ..Ordered::default() }
    }

    fn tape(&self) -> MutexGuard<'_, Tape> {
        self.tape.lock().expect("nobody panics here")
    }

    fn propose(&self, epoch: Epoch, body: &[u8], context: &With<Still>, stream: &mut Stream) -> EntryIndex {
        let last = CheckedEntry::held(stream, stream.last()).expect("an epoch begins with an entry");
        let (index, position) = (stream.next_index(), last.header().closed_ts.next());
        let mut buffer = fresh_entry();
        buffer.extend_from_slice(body);
        let (kind, level, id) = (EntryKind::Batch, context.level, context.id);
        let header = EntryHeader::without_transactions(kind, level, id, epoch, index, position);
        header.seal(&mut buffer, &[]);
        stream.propose(buffer.into());
        index
    }
}

impl Policy for Ordered {
    type Marks = Still;

    const ABILITIES: Abilities = Abilities {
        replicates: true,
        members: true,
        fails_over: true,
        snapshots: false,
        interruptible: true,
        durable: true,
        disks_behind: true,
        knows_old_disks: true,
        real_time: true,
        sessions: true,
        freshness: false,
        leaderless: false,
        in_order: true,
        client_coordinators: false,
        closures: true,
    };

    fn cursor(&self) -> Cursor {
        let next = EntryIndex(self.tape().decided as u64 + 1);
        Cursor { scan: next, apply: next, begun: (EntryIndex(1), Timestamp::ZERO) }
    }

    fn closed(&self, context: &With<Still>) -> Timestamp {
        use crate::progress::Progress;
        context.marks.mark()
    }

    fn describe(&self) -> String {
        format!("{} decided", self.tape().decided)
    }

    fn replaced(&mut self, first: EntryIndex, _context: &With<Still>) {
        let mut tape = self.tape();
        assert!(first.0 > tape.decided as u64, "what is decided stays");
        let before = tape.executed.len();
        tape.executed.truncate(first.0 as usize - 1);
        tape.taken_back += before - tape.executed.len();
    }

    fn look(&mut self, context: &With<Still>, stream: &mut Stream, turn: &mut Turn<'_>) {
        let mut tape = self.tape.lock().expect("nobody panics here");
        let entry =
            |index: usize| stream.entry(EntryIndex(index as u64)).expect("nothing is trimmed").clone();
        for index in tape.executed.len() + 1..=stream.last().0 as usize {
            tape.executed.push(entry(index));
        }
        assert_eq!(
            tape.executed.len() as u64,
            stream.last().0,
            "nothing is executed that the log does not hold"
        );
        for index in tape.decided + 1..=stream.decided().0 as usize {
            assert_eq!(tape.executed[index - 1], entry(index), "what was executed is what was decided");
            tape.decided = index;
            let held = CheckedEntry::held(stream, EntryIndex(index as u64)).expect("nothing is trimmed");
            let header = held.header();
            if header.kind == EntryKind::EpochChange {
                context.marks.enter(header.epoch, held.members());
                turn.report(context, Report::Entered(header.epoch));
            }
            context.marks.reach(header.closed_ts);
        }
    }

    fn apply(&mut self, _: u32, _: &With<Still>, _: &mut Stream, _: &mut Turn<'_>) -> Applying {
        Applying::CaughtUp
    }

    fn follow(&mut self, _: &With<Still>, _: &mut Stream, _: &mut Turn<'_>) -> Next {
        Next::Idle
    }

    fn next(&mut self, _: Applying, _: Nanos) -> Next {
        Next::Idle
    }

    fn begin(&mut self, _: Epoch, _: &With<Still>, _: &Arc<Store>) {
        (self.wants_entry, self.quiescing) = (false, None);
    }

    fn admits(&self, _: &With<Still>) -> Result<(), Refusal> {
        let full = self.asked.len() > 8 || self.quiescing.is_some();
        if full { Err(Refusal::Busy) } else { Ok(()) }
    }

    fn submit(
        &mut self,
        _: Nanos,
        request: Request<'_>,
        _: &With<Still>,
        _: &Stream,
    ) -> Result<Taken, Refusal> {
        self.asked.push_back((request.token, request.args.to_vec()));
        Ok(Taken::Placed)
    }

    fn lead(
        &mut self,
        ballot: Ballot,
        context: &With<Still>,
        stream: &mut Stream,
        turn: &mut Turn<'_>,
    ) -> Next {
        while stream.undecided() < MOST_UNDECIDED
            && let Some((token, args)) = self.asked.pop_front()
        {
            let index = self.propose(ballot.epoch, &args, context, stream);
            self.unanswered.push_back((index, token));
            self.wants_entry = false;
        }
        if std::mem::take(&mut self.wants_entry) {
            self.propose(ballot.epoch, &[], context, stream);
        }
        self.look(context, stream, turn);
        while let Some((_, token)) = self.unanswered.pop_front_if(|(index, _)| *index <= stream.decided()) {
            turn.out.reply(token, Outcome::Committed, &[]);
        }
        if stream.undecided() == 0 && stream.owes_announcement() {
            stream.announce_decided();
        }
        if self.unanswered.is_empty()
            && let Some(round) = self.quiescing.take()
        {
            turn.report(context, Report::Quiesced(context.id, round));
        }
        Next::Idle
    }

    fn end(&mut self, _: &With<Still>, out: &mut Outbox) {
        let unknown = self.unanswered.drain(..).map(|(_, token)| (token, Outcome::Unknown));
        let refused = self.asked.drain(..).map(|(token, _)| (token, Outcome::Conflict));
        unknown.chain(refused).for_each(|(token, outcome)| out.reply(token, outcome, &[]));
    }

    fn quiesce(&mut self, round: Option<u64>) {
        self.quiescing = round;
    }

    fn close_up_to(&mut self, _: Timestamp) {
        self.wants_entry = true;
    }

    fn prove_lead(&mut self, _: &With<Still>) -> bool {
        self.wants_entry = true;
        true
    }

    fn has_many(&self) -> bool {
        false
    }

    fn is_busy(&self) -> bool {
        !self.asked.is_empty()
    }

    fn reply_bytes(&self) -> usize {
        0
    }

    fn still_since(&mut self, _: Nanos, _: bool, _: &Stream) -> Nanos {
        NEVER
    }

    fn submit_snapshot(&mut self, _: Nanos, _: Request<'_>, context: &With<Still>) -> Result<Taken, Refusal> {
        Err(context.refer())
    }

    fn read(&mut self, _: Option<&Arc<Store>>, _: Asking<'_>, _: &With<Still>, _: &mut Turn<'_>) -> Next {
        Next::Idle
    }

    fn adopt(&mut self, _: &Arc<Store>, _: (EntryIndex, Timestamp), _: &With<Still>) {
        unreachable!("nobody forgets anything, and nothing is trimmed")
    }

    fn recovered(&mut self, begins: Option<(EntryIndex, Timestamp)>) {
        assert!(begins.is_none(), "there are no checkpoints");
    }

    fn set_tables(&mut self, _: usize) {}
}
