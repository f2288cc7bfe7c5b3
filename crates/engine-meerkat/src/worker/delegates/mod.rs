//! The worker's part for clients that coordinate their transactions themselves: as their home, and as any replica. See
//! [`highwater_meerkat_wire`] for the invariants.

mod admit;

use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;
use std::sync::atomic::Ordering;

use bytes::Bytes;
use highwater_core::{Abort, Direction, Epoch, NodeId, TableId, Timestamp};
use highwater_kit::validation::message::{About, Message};
use highwater_kit::validation::own::bit;
use highwater_kit::validation::payload::Payload;
use highwater_meerkat_wire::{Ahead, Ask, Item, Late, OwnedRange, Page, Standing, Tell, Why, Wish, borrowed};
use highwater_seam::{ClientId, Nanos, Refusal};

use super::{MeerkatWorker, Whom};
use crate::hooks;
use admit::admit;

/// Stamps that one client may hold.
const MOST_HELD: usize = 64;
/// A stamp that is held for so many election timeouts is ended.
const HELD_TIMEOUTS: u64 = 8;
/// Stamps that are ended at a beat, at most.
const MOST_ENDED: usize = 64;
/// A page ends with the record that reaches this size, or this number.
const PAGE_BYTES: usize = 256 << 10;
const PAGE_ITEMS: u32 = 1024;
/// While so many bytes of answers have not left in this turn, nothing more is read for anybody: a small question may have a large answer.
const MOST_TOLD_BYTES: usize = 16 << 20;
/// No timestamp of ours is above: who names one makes no sense, and would exhaust them.
const HIGHEST: Timestamp = Timestamp(1 << 60);
/// Nor does anybody name one so far ahead of this node's clock, in its units: days. Clocks of an epoch began together.
const FAR: u64 = 1 << 50;
/// Nobody needs to be so many ticks ahead.
const MOST_AHEAD: u64 = 1 << 40;

struct Grant {
    client: ClientId,
    lead: Ahead,
    /// Its client is gone.
    abandoned: bool,
}

/// Clients that are connected to this worker, and what it has granted them.
#[derive(Default)]
pub(super) struct Delegates {
    /// Each with the number of stamps that it holds.
    clients: BTreeMap<ClientId, usize>,
    /// Invariant: each is open in this worker's outcomes, so that nothing at or above it is closed; none is among its own transactions.
    granted: BTreeMap<Timestamp, Grant>,
    /// How this replica stands, as clients were told last, and who was not yet.
    stands: Option<Standing>,
    strangers: BTreeSet<ClientId>,
    out: Vec<(ClientId, Bytes)>,
    out_bytes: usize,
}

impl Delegates {
    /// The latest stamp that a client holds.
    #[cfg(test)]
    pub(super) fn latest_granted(&self) -> Option<Timestamp> {
        self.granted.last_key_value().map(|(ts, _)| *ts)
    }

    /// How many stamps are granted, and not over.
    pub fn granted(&self) -> usize {
        self.granted.len()
    }

    /// Whether this stamp is.
    pub fn has_granted(&self, ts: Timestamp) -> bool {
        self.granted.contains_key(&ts)
    }

    fn holds(&self, client: ClientId, ts: Timestamp) -> bool {
        self.granted.get(&ts).is_some_and(|grant| grant.client == client)
    }

    /// Nothing that is granted is closed.
    pub fn assert_open(&self, closed: Timestamp) {
        let first = self.granted.first_key_value();
        assert!(first.is_none_or(|(ts, _)| *ts > closed), "a granted stamp is closed by {closed}");
    }

    /// A stamp is over.
    fn remove(&mut self, ts: Timestamp) -> Option<ClientId> {
        let grant = self.granted.remove(&ts)?;
        if let Some(held) = self.clients.get_mut(&grant.client) {
            *held -= 1;
        }
        Some(grant.client)
    }

    fn tell(&mut self, client: ClientId, tell: &Tell) {
        if self.clients.contains_key(&client) {
            let bytes = tell.encode();
            self.out_bytes += bytes.len();
            self.out.push((client, bytes));
        }
    }

    /// What clients are told in this turn.
    pub fn hand_out(&mut self, out: &mut Vec<(ClientId, Bytes)>) {
        self.out_bytes = 0;
        out.append(&mut self.out);
    }
}

impl MeerkatWorker {
    pub(super) fn meet_client(&mut self, client: ClientId) {
        let before = self.delegates.clients.insert(client, 0);
        assert!(before.is_none(), "{client:?} names one connection");
        self.delegates.strangers.insert(client);
    }

    /// What it was granted is ended at the next beat.
    pub(super) fn lose_client(&mut self, now: Nanos, client: ClientId) {
        self.delegates.clients.remove(&client);
        self.delegates.strangers.remove(&client);
        let its = self.delegates.granted.iter_mut().filter(|(_, grant)| grant.client == client);
        its.for_each(|(_, grant)| grant.abandoned = true);
        self.beat.soon(now + self.context.beat());
    }

    /// How this replica stands.
    fn standing(&self) -> Standing {
        let options = self.context.options();
        let epoch = self.sitting.epoch().unwrap_or_default();
        let voters = self
            .sitting
            .seat()
            .map_or(0, |seat| seat.members.voters.iter().fold(0, |all, (node, _)| all | bit(*node)));
        Standing {
            epoch,
            serves: self.works_for_clients().is_some(),
            strict: self.context.shared.strict,
            voters,
            nodes: options.nodes,
            workers: options.workers,
            beat: options.heartbeat,
            timeout: options.election_timeout,
            room: self.context.shared.room.load(Ordering::Relaxed),
            disk_full: self.context.shared.disk_full.load(Ordering::Relaxed),
        }
    }

    /// The epoch in which it validates and reads for clients, if it does.
    fn works_for_clients(&self) -> Option<Epoch> {
        self.working().filter(|_| self.votes())
    }

    /// Tells clients how it stands: who is new, and all when another epoch begins, or this one ends here.
    pub(super) fn tell_standing(&mut self) {
        if self.delegates.clients.is_empty() {
            return;
        }
        let standing = self.standing();
        let same = |told: &Standing| (told.epoch, told.serves) == (standing.epoch, standing.serves);
        let strangers = std::mem::take(&mut self.delegates.strangers);
        let tell = Tell::Standing(standing);
        if self.delegates.stands.as_ref().is_some_and(same) {
            strangers.into_iter().for_each(|client| self.delegates.tell(client, &tell));
            return;
        }
        self.delegates.stands = Some(standing);
        let all: Vec<ClientId> = self.delegates.clients.keys().copied().collect();
        all.into_iter().for_each(|client| self.delegates.tell(client, &tell));
    }

    /// What this replica says to a transaction of a client's.
    pub(super) fn tell_about(&mut self, client: ClientId, message: Message) {
        let Some(epoch) = self.sitting.epoch() else { return };
        self.delegates.tell(client, &Tell::About { epoch, message });
    }

    /// A transaction is over here: the client that asked here hears it.
    pub(super) fn tell_client_of(&mut self, node: NodeId, ts: Timestamp, commit: bool) {
        if let Some(client) = self.records.get(node, ts).and_then(|record| record.client) {
            self.tell_about(client, Message { ts, about: About::Over { commit } });
        }
    }

    /// A client says something.
    pub(super) fn hear_client(
        &mut self,
        now: Nanos,
        client: ClientId,
        message: &Bytes,
    ) -> Result<(), String> {
        if !self.delegates.clients.contains_key(&client) {
            return Err("it is not connected".into());
        }
        match Ask::decode(message).map_err(|why| why.to_string())? {
            Ask::Read { id, stamp, table, key, value } => {
                self.read_for(client, id, (table, &key), value)?;
                self.grant_or_refuse(now, client, id, stamp)
            }
            Ask::Scan { id, stamp, table, direction, range, most } => {
                self.scan_for(client, id, table, (&range, direction, most))?;
                self.grant_or_refuse(now, client, id, stamp)
            }
            Ask::Stamp { id, wish } => self.grant_or_refuse(now, client, id, Some(wish)),
            Ask::Return { epoch, ts } => {
                self.take_back_stamp(client, epoch, ts);
                Ok(())
            }
            Ask::Validate { epoch, ts, payload } => {
                let Some(node) = self.meant(client, epoch, ts)? else { return Ok(()) };
                let most = self.context.options().max_transaction_bytes;
                admit(self.rows.store().schema(), &payload, ts, most + 64)?;
                if self.may_ask(now, client, node, ts) {
                    self.records.entry(now, node, ts).client = Some(client);
                    self.validate(now, Whom::Client(client), (node, ts), payload);
                }
                Ok(())
            }
            Ask::Accept { epoch, ts, commit } => {
                let Some(node) = self.meant(client, epoch, ts)? else { return Ok(()) };
                let before = self.records.get(node, ts).and_then(|record| record.accepted);
                if before == Some((0, !commit)) && !hooks::home_proposes() {
                    return Err(format!("{ts} has one proposal in view 0"));
                }
                if self.may_ask(now, client, node, ts) {
                    self.records.entry(now, node, ts).client = Some(client);
                    self.consider(now, Whom::Client(client), (node, ts), (0, commit));
                }
                Ok(())
            }
            Ask::Decided { epoch, ts, commit, voted, payload } => {
                let Some(node) = self.meant(client, epoch, ts)? else { return Ok(()) };
                if let Some(payload) = &payload {
                    admit(
                        self.rows.store().schema(),
                        payload,
                        ts,
                        self.context.options().max_transaction_bytes + 64,
                    )?;
                }
                let known = self.records.get(node, ts).and_then(|record| record.outcome);
                if known.is_some_and(|known| known != commit) {
                    return Err(format!("{ts} has one outcome"));
                }
                self.hear_decided(now, client, (node, ts), commit, (payload, voted));
                Ok(())
            }
        }
    }

    /// Whether nobody means a timestamp: what is granted above it, and every later epoch, would come near the end of all timestamps.
    fn is_far(&self, ts: Timestamp) -> bool {
        let now = self.context.shared.clock.now().max(self.context.shared.installed());
        ts >= HIGHEST || ts.0 > now.0.saturating_add(FAR)
    }

    /// Whose transaction it is about, if it is one of this epoch: else the client is told which one it is. An error: of no coordinator whose
    /// transactions this worker has to do with.
    fn meant(&mut self, client: ClientId, epoch: Epoch, ts: Timestamp) -> Result<Option<NodeId>, String> {
        let coordinator = self.context.shared.layout.coordinator(ts);
        if coordinator.worker != self.context.at
            || coordinator.node.0 >= self.context.options().nodes
            || self.is_far(ts)
        {
            return Err(format!("{ts} is no stamp of this worker's"));
        }
        if self.works_for_clients() != Some(epoch) {
            self.delegates.strangers.insert(client);
            return Ok(None);
        }
        let seat = self.sitting.seat().expect("it works in an epoch");
        if !seat.members.voters.iter().any(|(node, _)| *node == coordinator.node) {
            return Err(format!("{} grants no stamps in {epoch}", coordinator.node));
        }
        Ok(Some(coordinator.node))
    }

    /// Whether a client's transaction is not over, and its own: else it is told what is known of it.
    fn may_ask(&mut self, now: Nanos, client: ClientId, node: NodeId, ts: Timestamp) -> bool {
        let its = node != self.context.me || self.delegates.holds(client, ts);
        if its && !self.is_closed(node, ts) {
            return true;
        }
        let epoch = self.sitting.epoch().unwrap_or_default();
        let tell = match self.records.get(node, ts).map(|record| record.outcome) {
            Some(Some(commit)) => {
                Tell::About { epoch, message: Message { ts, about: About::Over { commit } } }
            }
            // Its connection was another one when it got the stamp, which is about to be ended: then it is told.
            Some(None) => {
                self.records.entry(now, node, ts).client = Some(client);
                return false;
            }
            None => Tell::Gone { epoch, ts },
        };
        self.delegates.tell(client, &tell);
        false
    }

    // ---- what it reads ----

    fn read_for(
        &mut self,
        client: ClientId,
        id: u64,
        (table, key): (TableId, &[u8]),
        value: bool,
    ) -> Result<(), String> {
        let tell = if self.works_for_clients().is_none() {
            Tell::Refused { id, why: Why::NotServing }
        } else if self.delegates.out_bytes >= MOST_TOLD_BYTES {
            Tell::Refused { id, why: Why::Busy }
        } else if value {
            let found = self.executor.tx().latest().get(table, key).map_err(no_such)?;
            let bytes = Bytes::copy_from_slice(found.value.unwrap_or_default());
            let (as_of, live) = (self.as_of, found.value.is_some());
            Tell::Value { id, as_of, version: found.ts, live, value: bytes }
        } else {
            let (version, live) = self.executor.tx().latest().version(table, key).map_err(no_such)?;
            Tell::Value { id, as_of: self.as_of, version, live, value: Bytes::new() }
        };
        self.delegates.tell(client, &tell);
        Ok(())
    }

    fn scan_for(
        &mut self,
        client: ClientId,
        id: u64,
        table: TableId,
        (range, direction, most): (&OwnedRange, Direction, u32),
    ) -> Result<(), String> {
        if self.works_for_clients().is_none() {
            self.delegates.tell(client, &Tell::Refused { id, why: Why::NotServing });
            return Ok(());
        }
        if self.delegates.out_bytes >= MOST_TOLD_BYTES {
            self.delegates.tell(client, &Tell::Refused { id, why: Why::Busy });
            return Ok(());
        }
        let (mut page, mut bytes, most) = (Page::default(), 0, most.clamp(1, PAGE_ITEMS) as usize);
        let scanned = self.executor.tx().latest().scan(table, borrowed(range), direction, |key, version| {
            if page.items.len() >= most || bytes >= PAGE_BYTES {
                page.more = true;
                return ControlFlow::Break(());
            }
            bytes += key.len() + version.value.map_or(0, <[u8]>::len);
            page.items.push(Item {
                key: Bytes::copy_from_slice(key),
                version: version.ts,
                value: version.value.map(Bytes::copy_from_slice),
            });
            ControlFlow::Continue(())
        });
        scanned.map_err(no_such)?;
        self.delegates.tell(client, &Tell::Page { id, as_of: self.as_of, page });
        Ok(())
    }

    // ---- as a home ----

    /// Grants a stamp, if one is wished, or says why not.
    fn grant_or_refuse(
        &mut self,
        now: Nanos,
        client: ClientId,
        id: u64,
        wish: Option<Wish>,
    ) -> Result<(), String> {
        let Some(wish) = wish else { return Ok(()) };
        if let Err(why) = self.grant(now, client, id, wish)? {
            self.delegates.tell(client, &Tell::Refused { id, why });
        }
        Ok(())
    }

    /// Grants a stamp: from here on it is open, until it is ended, given back, or the epoch is over.
    fn grant(
        &mut self,
        now: Nanos,
        client: ClientId,
        id: u64,
        wish: Wish,
    ) -> Result<Result<(), Why>, String> {
        let Wish { above, late } = wish;
        let names = late.iter().flat_map(|late| [late.ts, late.shown]);
        if names.chain([above]).max().is_some_and(|named| self.is_far(named)) {
            return Err(format!("a stamp above {above} cannot be meant"));
        }
        match self.may_serve() {
            Ok(()) => {}
            Err(Refusal::NoQuorum) => return Ok(Err(Why::NoQuorum)),
            Err(Refusal::Busy) => return Ok(Err(Why::Busy)),
            Err(_) => return Ok(Err(Why::NotServing)),
        }
        let options = self.context.options();
        let full = self.delegates.clients.get(&client).is_none_or(|held| *held >= MOST_HELD)
            || self.delegates.granted() >= options.max_in_flight_requests
            || self.outcomes.bytes() >= options.log_retain_bytes;
        if full {
            return Ok(Err(Why::Busy));
        }
        let usual = if self.context.shared.strict { self.lead.ticks(now, 0) } else { 0 };
        let ahead = if self.context.shared.strict { self.lead_of_next(now, usual, late) } else { 0 };
        let lead = Ahead { ahead, advanced: self.no_time(), since: now };
        // What one transaction needs says nothing of the others.
        let ts = if ahead > usual { self.stamps.ahead(above, ahead) } else { self.stamps.next(above, ahead) };
        self.outcomes.open(ts);
        let before = self.delegates.granted.insert(ts, Grant { client, lead, abandoned: false });
        assert!(before.is_none() && !self.owns.all.contains_key(&ts), "{ts} names one transaction");
        *self.delegates.clients.get_mut(&client).expect("it is connected") += 1;
        let Standing { epoch, room, disk_full, .. } = self.standing();
        self.delegates.tell(client, &Tell::Granted { id, epoch, ts, lead, room, disk_full });
        Ok(Ok(()))
    }

    /// How far ahead of the clock the next stamp is: as far as it takes of late (`usual`), and this client's attempt before would have had to be, but
    /// no more than twice as far as that one was, or as a first attempt may be.
    fn lead_of_next(&mut self, now: Nanos, usual: u64, late: Option<Late>) -> u64 {
        let me = self.context.coordinator();
        let Some(Late { ts, shown, lead, bytes }) = late else { return usual };
        if self.context.shared.layout.coordinator(ts) != me || lead.since > now || lead.ahead > MOST_AHEAD {
            return usual;
        }
        // What the client tells is a clock's reading, as in a frame.
        self.context.shared.clock.advance_past(shown);
        let proposed = ((lead.ahead, lead.advanced), lead.since, bytes as usize);
        let most = self.most_lead(1).max(2 * lead.ahead);
        self.lead_for(now, ts, proposed, shown).min(most).max(usual)
    }

    /// A client gives a stamp back that it used nowhere. One that was proposed here is not believed: it is ended as any other.
    fn take_back_stamp(&mut self, client: ClientId, epoch: Epoch, ts: Timestamp) {
        let same = self.sitting.epoch() == Some(epoch);
        if !same || !self.delegates.holds(client, ts) {
            return;
        }
        if self.records.get(self.context.me, ts).is_some() {
            if let Some(grant) = self.delegates.granted.get_mut(&ts) {
                grant.abandoned = true;
            }
            return;
        }
        self.outcomes.unopen(ts);
        self.delegates.remove(ts);
    }

    pub(super) fn hear_decided(
        &mut self,
        now: Nanos,
        client: ClientId,
        (node, ts): (NodeId, Timestamp),
        commit: bool,
        (payload, voted): (Option<Payload>, u32),
    ) {
        if node != self.context.me {
            let record = self.records.get(node, ts);
            if commit && payload.is_none() && record.is_none_or(|record| record.payload.is_none()) {
                // What it writes is not known here, and nothing can be done without: who knows it says so. A record of it would be nobody's,
                // and would still be under way once all others are over.
                return;
            }
            if record.is_some_and(|record| record.client == Some(client)) {
                // It knows.
                self.records.entry(now, node, ts).client = None;
            }
            self.conclude(now, node, ts, commit, payload);
            return;
        }
        if self.delegates.holds(client, ts) {
            self.learn_from(now, ts, commit);
            self.records.entry(now, node, ts).client = Some(client);
            self.settle_granted(now, ts, commit, (payload, voted));
            return;
        }
        // It was ended, or this was said before.
        self.may_ask(now, client, node, ts);
    }

    /// Where real time is promised a stamp is asked for when all is executed: from its grant to the decision it takes two round trips, without
    /// the time for which it had to be ahead.
    fn learn_from(&mut self, now: Nanos, ts: Timestamp, commit: bool) {
        let Some(Grant { lead: Ahead { ahead, advanced, since }, .. }) = self.delegates.granted.get(&ts)
        else {
            return;
        };
        if self.context.shared.strict {
            let took = self.round_trip_of(ts, (*ahead, *advanced), now.saturating_sub(*since)) / 2;
            let (most, ahead) = (self.context.options().election_timeout, *ahead);
            self.times.took(took.clamp(1, most));
            self.lead.follow(self.times.round_trip());
            if commit {
                // Stamps are granted before it is known how long the payload is.
                self.lead.in_time(now, 0, ahead);
            }
        }
    }

    /// What became of a granted stamp is known: all replicas hear it. It stays granted if nobody has said what it writes.
    pub(super) fn settle_granted(
        &mut self,
        now: Nanos,
        ts: Timestamp,
        commit: bool,
        (payload, voted): (Option<Payload>, u32),
    ) {
        assert!(self.outcomes.is_open(ts), "a stamp is open until its outcome was heard");
        if let Some(grant) = self.delegates.granted.get(&ts) {
            let client = grant.client;
            self.records.entry(now, self.context.me, ts).client.get_or_insert(client);
        }
        if !self.conclude(now, self.context.me, ts, commit, payload) {
            return;
        }
        let known = self.records.get(self.context.me, ts).and_then(|record| record.payload.clone());
        let payload = known.unwrap_or_else(|| Payload::build(Timestamp::ZERO, (&[], 0), (&[], 0), &[]));
        self.delegates.remove(ts);
        self.push_outcome(now, ts, commit, (payload, voted));
    }

    /// Ends stamps whose clients are gone, or have been silent for long: in a later view, as any backup coordinator would, for replicas that
    /// this one has not heard may have found them valid.
    pub(super) fn end_abandoned(&mut self, now: Nanos) {
        if !self.votes() || self.delegates.granted() == 0 {
            return;
        }
        let patience = HELD_TIMEOUTS * self.context.options().election_timeout;
        let over = |grant: &Grant| grant.abandoned || grant.lead.since + patience <= now;
        let abandoned = self.delegates.granted.iter().filter(|(_, grant)| over(grant)).map(|(ts, _)| *ts);
        let me = self.context.me;
        let abandoned: Vec<Timestamp> =
            abandoned.filter(|ts| !self.terminations.has((me, *ts))).take(MOST_ENDED).collect();
        for ts in abandoned {
            if hooks::closes_abandoned() {
                self.outcomes.unopen(ts);
                self.delegates.remove(ts);
                continue;
            }
            if hooks::home_proposes() {
                self.propose_for_client(now, ts);
                continue;
            }
            self.take_over(now, (me, ts));
        }
    }

    /// What must not be: the home proposes in view 0, too.
    fn propose_for_client(&mut self, now: Nanos, ts: Timestamp) {
        if self.accept(now, self.context.me, ts, 0, false).is_ok() {
            self.post
                .for_all(&Message { ts, about: About::Accept { view: 0, commit: false, payload: None } });
            self.settle_granted(now, ts, false, (None, 0));
        }
    }

    /// The epoch is over, and what was decided with it is installed: stamps that are not known to have committed did not.
    pub(super) fn void_grants(&mut self) {
        for (ts, Grant { client, .. }) in std::mem::take(&mut self.delegates.granted) {
            if let Some(held) = self.delegates.clients.get_mut(&client) {
                *held -= 1;
            }
            let known = self.records.get(self.context.me, ts).and_then(|record| record.outcome);
            let commit = known.unwrap_or(false);
            self.tell_about(client, Message { ts, about: About::Over { commit } });
        }
    }

    /// This replica missed what became of the epoch: it knows nothing of what it granted.
    pub(super) fn forget_grants(&mut self) {
        self.delegates.granted.clear();
        self.delegates.clients.values_mut().for_each(|held| *held = 0);
    }
}

fn no_such(abort: Abort) -> String {
    format!("there is no such table, or the key is none of it: {abort:?}")
}
