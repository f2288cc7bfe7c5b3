//! Whether this replica's workers do their duty: what its heartbeats vouch for if it leads, and whether it may stand if it
//! does not.
//!
//! - A worker is *stuck* when a turn is overdue for `STUCK` election timeouts. One that is idle has no turn due; it is
//!   asked for one now and then (`CHALLENGE`). One that executes has `LONG_EXECUTION` from its beginning, and as long again from every step
//!   that its transactions show, up to `LONGEST_EXECUTION` in all: a request that takes long and goes on costs no lead, one that hangs does.
//!   One that goes on for too long (`ENOUGH`) is asked to end; one that does not even then costs the lead, too.
//! - A leader's stream *stands still* when something in it waits to be decided or released, and for `STILL` timeouts
//!   nothing was. A slow quorum moves, so it is not meant. The fault may be anywhere; another leader may not have it. If it
//!   has, nothing is gained by taking turns: each lead that ends so doubles the time that the next one of this node gets,
//!   up to `MOST_DOUBLINGS` times, until one goes well for long.
//! - A node's *disk hangs* when for `STILL` timeouts nothing that waits for it got there. The others may go on deciding without it, so
//!   no stream stands still, and nothing is wrong as long as there is room for what waits. A leader that has none left takes nothing
//!   more, reads neither: it is *held by its disk*, and makes way, with the same doubling.
//!
//! Only time in which the controller itself was awake counts: after a pause of the whole process nobody is accused.

use highwater_consensus::{Election, Standing};
use highwater_core::sync::Ordering;
use highwater_seam::Nanos;

use crate::desk::Desk;
use crate::hooks;
use crate::pulse::{NEVER, Pulse};
use crate::shared::Shared;

/// A turn overdue for so many election timeouts: the worker is stuck.
pub const STUCK: u64 = 4;
/// A worker that executes and shows no step is in time for so many.
pub const LONG_EXECUTION: u64 = 16;
/// Behind what has been executing for so many nothing further is executed before the worker's turn has ended: others wait, too.
const PAUSE: u64 = 4;
/// A transaction that has been executing for so many, 24 s, is asked to end: it does at its next row. What one transaction may do
/// ([`max_transaction_rows`](highwater_seam::Options)) takes ten seconds on a core of its own, so this is for a worker that gets less than half a core.
const ENOUGH: u64 = 200;
/// A worker that executes and goes on is in time for so many: 38 s. A transaction that was not asked to end in time may commit meanwhile, and a commit is not cut short.
const LONGEST_EXECUTION: u64 = 320;
const _: () = assert!(LONG_EXECUTION < ENOUGH && ENOUGH + 2 * LONG_EXECUTION < LONGEST_EXECUTION);
/// No progress in a stream for so many: it stands still.
const STILL: u64 = 8;
/// Beyond so many bytes that wait to be decided,
const FREE_BYTES: u64 = 1 << 20;
/// a stream gets so much longer for each: 5 MB/s to all followers is slow, and no fault.
const NANOS_PER_BYTE: Nanos = 200;
/// A disk gets so much longer for each byte that waits for it: 40 MB/s is slow, and does not hang.
const DISK_NANOS_PER_BYTE: Nanos = 25;
/// The time that a stream gets is doubled so many times at most.
const MOST_DOUBLINGS: u32 = 3;
/// A lead that went well for so many timeouts ends the doubling.
const WELL: u64 = 64;
/// A worker that took no turn for so many timeouts is asked for one.
const CHALLENGE: u64 = 4;

/// What the controller has seen of its workers.
pub struct Health {
    looked_at: Nanos,
    workers: Vec<Seen>,
    /// A worker was stuck at the last look: this node does not stand.
    someone_stuck: bool,
    /// Leads in a row that ended with a stream standing still.
    stalls: u32,
    /// Since when this lead goes well.
    well_since: Nanos,
    /// The workers are in order: what heartbeats vouch for.
    sound: bool,
    /// Streams get so much longer: disks are slow.
    granted: Nanos,
}

/// What a look at the workers has changed.
pub struct Felt {
    /// Somebody is stuck now, or nobody any more: this node may not stand, or may again.
    pub stuck_changed: bool,
    /// Heartbeats may vouch for the workers again (true), or no longer; and why.
    pub verdict: Option<(bool, String)>,
}

/// One worker.
#[derive(Clone, Copy, Default)]
struct Seen {
    turned_at: Nanos,
    still_since: Nanos,
    /// Its steps at the last look, and when there were more than before.
    steps: u64,
    stepped_at: Nanos,
    /// When it was asked for a turn, if it has not taken one since.
    challenged: Option<Nanos>,
    /// When its next turn is due, by the last look.
    due: Nanos,
    /// For how long a turn is overdue.
    late: Nanos,
    /// For how long its stream stands still while a quorum is there.
    still: Nanos,
    /// When the oldest of what is not on disk was handed out, at the last look; and for how long that was the same.
    unsynced_since: Nanos,
    hung: Nanos,
}

impl Seen {
    /// When its next turn is due. What executes has time from its last step that was seen, but not for ever.
    fn due_of(&mut self, pulse: &Pulse, now: Nanos, timeout: Nanos) -> Nanos {
        let (due, since, steps) = (pulse.due(), pulse.executes_since(), pulse.steps());
        if std::mem::replace(&mut self.steps, steps) != steps {
            self.stepped_at = now;
        }
        if since == NEVER {
            return due;
        }
        let goes_on = self.stepped_at + LONG_EXECUTION * timeout;
        due.max(goes_on.min(since + LONGEST_EXECUTION * timeout))
    }
}

/// Nobody waits for one request for ever, and it costs no lead.
fn end_what_takes_too_long(pulse: &Pulse, now: Nanos, timeout: Nanos) {
    let since = pulse.executes_since();
    if since == NEVER {
        return;
    }
    if now.saturating_sub(since) > PAUSE * timeout {
        pulse.pause(since);
    }
    if now.saturating_sub(since) > ENOUGH * timeout {
        pulse.end(since);
    }
}

impl Health {
    pub fn new(workers: usize) -> Health {
        Health {
            looked_at: 0,
            workers: vec![Seen::default(); workers],
            someone_stuck: false,
            stalls: 0,
            well_since: 0,
            sound: true,
            granted: 0,
        }
    }

    /// A stream may stand still so much longer in the lead that begins, because disks are slow.
    pub fn grant(&mut self, longer: Nanos) {
        self.granted = longer;
    }

    /// Looks at every worker; whether some of them must be woken to show that they can be.
    fn look(&mut self, now: Nanos, shared: &Shared, quorum: bool) -> bool {
        let timeout = shared.options.election_timeout;
        let awake = now.saturating_sub(self.looked_at).min(timeout);
        self.looked_at = now;
        let mut wake = false;
        // The mark waits for a long execution, and so do all streams: that is no reason to give up the lead. If it takes too
        // long, its worker is overdue itself. Short ones, of which some is always under way, excuse nothing.
        let mut executing = false;
        for (seen, pulse) in self.workers.iter_mut().zip(&shared.pulses) {
            seen.due = seen.due_of(pulse, now, timeout);
            end_what_takes_too_long(pulse, now, timeout);
            executing |= seen.due > now && now.saturating_sub(pulse.executes_since()) > timeout;
        }
        for (seen, pulse) in self.workers.iter_mut().zip(&shared.pulses) {
            let (turned, due, still) = (pulse.last_turn(), seen.due, pulse.standing_still());
            let turned_since = turned != seen.turned_at;
            seen.turned_at = turned;
            if turned_since {
                seen.challenged = None;
            }
            // Who was asked for a turn and executes has taken one, and not ended it.
            let asked = seen.challenged.is_some() && pulse.executes_since() == NEVER;
            let overdue = due < now || asked;
            seen.late = if overdue && !turned_since { seen.late + awake } else { 0 };
            // Without a quorum nothing can move; who returns gets the whole time.
            let stands = quorum && !executing && still != NEVER && still == seen.still_since;
            seen.still = if stands { seen.still + awake } else { 0 };
            seen.still_since = still;
            let unsynced = pulse.unsynced_since();
            let hangs = unsynced != NEVER && unsynced == seen.unsynced_since;
            seen.hung = if hangs { seen.hung + awake } else { 0 };
            seen.unsynced_since = unsynced;
            if due == NEVER && seen.challenged.is_none() && now.saturating_sub(turned) > CHALLENGE * timeout {
                seen.challenged = Some(now);
                wake = true;
            }
        }
        wake
    }

    fn most_still(&self, shared: &Shared) -> Nanos {
        // Replies wait for all streams: what is under way in any of them counts.
        let bytes = shared.pulses.iter().map(Pulse::waits_for_bytes).max().unwrap_or_default();
        self.patience(shared) + bytes.saturating_sub(FREE_BYTES) * NANOS_PER_BYTE
    }

    /// How long this lead may stand still, for whatever reason.
    fn patience(&self, shared: &Shared) -> Nanos {
        (STILL << self.stalls.min(MOST_DOUBLINGS)) * shared.options.election_timeout + self.granted
    }

    /// For how long nothing of what waits for this node's disk got there, if that is too long.
    pub fn disk_hangs(&self, shared: &Shared) -> Option<Nanos> {
        let hung = self.workers.iter().map(|seen| seen.hung).max()?;
        (hung >= STILL * shared.options.election_timeout).then_some(hung)
    }

    /// The same of a leader that takes nothing more for that reason, and has waited long enough for the disk.
    pub fn held_by_disk(&self, shared: &Shared) -> Option<Nanos> {
        let most = shared.options.max_in_flight_bytes as u64;
        let waiting: u64 = shared.pulses.iter().map(Pulse::unsynced_bytes).sum();
        let workers = self.workers.iter().zip(&shared.pulses);
        let held =
            workers.filter(|(_, pulse)| pulse.unsynced_bytes() >= most).map(|(seen, _)| seen.hung).max()?;
        // One sync may bring all of it.
        let patience = self.patience(shared) + waiting * DISK_NANOS_PER_BYTE;
        (held >= patience && hooks::notices_hung_disks()).then_some(held)
    }

    /// A worker whose turn is overdue for too long, and for how long.
    pub fn stuck(&self, shared: &Shared) -> Option<(usize, Nanos)> {
        let most = STUCK * shared.options.election_timeout;
        let stuck = self.workers.iter().enumerate().filter(|(_, seen)| seen.late >= most);
        let stuck = stuck.filter(|_| hooks::notices_trouble());
        stuck.map(|(at, seen)| (at, seen.late)).max_by_key(|(_, late)| *late)
    }

    /// A stream that stands still for too long, and for how long.
    pub fn standing_still(&self, shared: &Shared) -> Option<(usize, Nanos)> {
        let most = self.most_still(shared);
        let still = self.workers.iter().enumerate().filter(|(_, seen)| seen.still >= most);
        let still = still.filter(|_| hooks::notices_trouble());
        still.map(|(at, seen)| (at, seen.still)).max_by_key(|(_, still)| *still)
    }

    /// Looks at what the workers show.
    pub fn feel(&mut self, now: Nanos, election: &Election, desk: &mut Desk) {
        let quorum = election.quorum_heard(now, desk.shared.options.election_timeout);
        if self.look(now, &desk.shared, quorum) {
            desk.wake_workers();
        }
    }

    /// The consequence. `leads`: this node does; `hands_over`: it is about to hand its lead over, and whoever waits does so for that.
    pub fn judge(
        &mut self,
        now: Nanos,
        (leads, hands_over): (bool, bool),
        election: &Election,
        desk: &Desk,
    ) -> Felt {
        let (stuck, still) = (self.stuck(&desk.shared), self.standing_still(&desk.shared));
        let heard = leads && election.quorum_heard(now, desk.silence());
        let still = still.filter(|_| heard);
        let held = self.held_by_disk(&desk.shared).filter(|_| heard && !hands_over);
        let sound = stuck.is_none() && still.is_none() && held.is_none();
        if leads && sound {
            self.well_since = self.well_since.min(now);
            if now - self.well_since > desk.timeouts(WELL) {
                self.stalls = 0;
            }
        } else {
            self.well_since = NEVER;
        }
        let stuck_changed = stuck.is_some() != std::mem::replace(&mut self.someone_stuck, stuck.is_some());
        let sound_changed = sound != std::mem::replace(&mut self.sound, sound);
        let verdict = sound_changed.then(|| match (stuck, still, held) {
            (Some((at, late)), ..) => {
                (false, format!("worker {at} has taken no turn for {} ms", late / 1_000_000))
            }
            (_, Some((at, still)), _) => {
                (false, format!("stream {at} stands still for {} ms", still / 1_000_000))
            }
            (.., Some(held)) => {
                (false, format!("the disk hangs for {} ms, and nothing more is taken", held / 1_000_000))
            }
            (None, None, None) => (true, "the workers and the disk are in order again".into()),
        });
        Felt { stuck_changed, verdict }
    }

    /// The lead ends; `quorum`: the others were there.
    pub fn lead_ends(&mut self, shared: &Shared, quorum: bool) {
        if quorum && (self.standing_still(shared).is_some() || self.held_by_disk(shared).is_some()) {
            self.stalls += 1;
        }
        self.well_since = NEVER;
    }
}

/// What travels between workers is a sign of life of their nodes, too.
pub fn hear_streams(election: &mut Election, desk: &Desk) {
    let pulses = &desk.shared.pulses;
    for pulse in pulses {
        let (epoch, at) = pulse.leader_heard();
        election.streams_heard(epoch, at);
    }
    if election.standing() == Standing::Leading {
        for voter in desk.peers() {
            let heard = pulses.iter().map(|pulse| pulse.heard(voter.node)).max();
            election.voter_heard(voter, heard.unwrap_or_default());
        }
    }
}

/// A leader that cannot vouch for itself refuses requests.
pub fn watch_service(now: Nanos, election: &Election, desk: &mut Desk) {
    let mute = !election.vouches(now);
    if mute != desk.shared.no_quorum.swap(mute, Ordering::Relaxed) {
        let quorum = election.quorum_heard(now, desk.silence());
        desk.note(match (mute, quorum) {
            (true, false) => "no quorum: refusing requests, and making way for another leader",
            (true, true) => "refusing requests, and making way for another leader",
            (false, _) => "the quorum is back",
        });
    }
}

#[cfg(test)]
mod tests {
    use highwater_core::Work;

    use super::*;

    /// One that cannot be ended, a commit for example, is no reason to have no service for ever.
    #[test]
    fn what_goes_on_for_ever_is_overdue_at_last() {
        const TIMEOUT: Nanos = 100;
        let (pulse, mut seen, mut work) = (Pulse::default(), Seen::default(), Work::default());
        work.show(pulse.progress());
        let began = 1000;
        pulse.executes(began, began + LONG_EXECUTION * TIMEOUT);
        let overdue = (began..).step_by(50).find(|now| {
            work.step();
            end_what_takes_too_long(&pulse, *now, TIMEOUT);
            seen.due_of(&pulse, *now, TIMEOUT) < *now
        });
        assert_eq!(overdue, Some(began + LONGEST_EXECUTION * TIMEOUT + 50));
        assert!(work.was_ended(), "long before");
    }
}
