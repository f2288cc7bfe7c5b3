//! All clients of a node, over all workers: who is there (`CLIENT LIST`), what somebody orders of another one (`KILL`, `UNBLOCK`), pauses,
//! and how many connections and errors there were.
//!
//! A connection has a *card* here from its beginning to its end. Only the connection's own worker writes what it does onto it, with plain stores; a
//! lock is taken when connections come and go, and by whoever asks.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::acl::ids::Named;
use super::command::Opcode;
use super::waiting::{Wake, worker_of};
use crate::meter::commands::CommandCounts;

/// Kinds of errors that are counted by name; further ones are counted together.
const MOST_ERRORS: usize = 128;
/// Workers that a client's id can name.
const WORKERS: usize = 256;

/// All clients of a node.
pub struct Clients {
    cards: Mutex<BTreeMap<u64, Arc<Card>>>,
    orders: Mutex<BTreeMap<usize, Vec<(u64, Order)>>>,
    /// How many orders wait. Release and Acquire: who sees one finds it.
    ordered: AtomicU64,
    /// In Unix time in ms; 0: no pause.
    paused_until: AtomicU64,
    pauses_reads: AtomicBool,
    /// Connections ever.
    accepted: AtomicU64,
    /// Workers that ever had a client.
    workers: [AtomicBool; WORKERS],
    errors: Mutex<BTreeMap<String, u64>>,
    /// What was counted when the counts were reset.
    before: Mutex<Counts>,
    wake: Wake,
}

/// What a client does for the asking of another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// It ends.
    Kill,
    /// It waits for data no more: as if its time were over, or with an error.
    Unblock {
        /// With an error.
        error: bool,
    },
}

/// What is known of a client.
#[derive(Debug, Default)]
pub struct Card {
    /// Unique on this node.
    pub id: u64,
    /// When it came, in Unix time in ms; 0 until its host has told.
    pub since_ms: AtomicU64,
    /// When it last asked something.
    pub active_ms: AtomicU64,
    /// What that was: an opcode; the largest one for nothing yet.
    pub last: AtomicU8,
    /// Commands queued in a `MULTI`; -1 outside of one.
    pub queued: AtomicI64,
    /// Bytes of the command that it asked last, while that runs, or of what has come and is no command yet.
    pub unread: AtomicU64,
    /// Bytes of commands queued in a `MULTI`, and of keys that are watched.
    pub queued_bytes: AtomicU64,
    /// The number of what it asked last, with its subcommand; see [`Named::id`].
    pub last_id: AtomicU64,
    /// It waits for data.
    pub waits: AtomicBool,
    /// A pause holds its next command back.
    pub paused: AtomicBool,
    /// `READONLY`
    pub reads_snapshots: AtomicBool,
    /// 2 or 3.
    pub protocol: AtomicU8,
    /// What it said, and from where.
    pub words: Mutex<Words>,
}

/// What a client said of itself, and where it is.
#[derive(Clone, Debug, Default)]
pub struct Words {
    /// Its own address.
    pub address: String,
    /// The address that it connected to.
    pub local: String,
    /// `CLIENT SETNAME`
    pub name: Vec<u8>,
    /// Who it is.
    pub user: Vec<u8>,
    /// `CLIENT SETINFO LIB-NAME`
    pub library: Vec<u8>,
    /// `CLIENT SETINFO LIB-VER`
    pub version: Vec<u8>,
}

impl Card {
    /// What it said.
    pub fn words(&self) -> MutexGuard<'_, Words> {
        self.words.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The command that it asked last, by name.
    pub fn last_command(&self) -> &'static str {
        match Opcode::decode(self.last.load(Ordering::Relaxed)) {
            None => "NULL",
            Some(opcode) => {
                let sub = (self.last_id.load(Ordering::Relaxed) as usize)
                    .checked_sub(Named::of(opcode, None).id + 1);
                let sub = sub.and_then(|place| opcode.spec().subcommands.get(place));
                sub.map_or(opcode.spec().name, |sub| sub.full_name)
            }
        }
    }
}

/// How often what was.
#[derive(Clone, Debug, Default)]
pub struct Counts {
    /// What was counted of each command, by its number.
    pub commands: Vec<CommandCounts>,
    /// Errors by their codes.
    pub errors: BTreeMap<String, u64>,
    /// Connections.
    pub accepted: u64,
}

/// A connection's place among the clients, as long as it is there.
pub struct Place {
    clients: Arc<Clients>,
    /// What is known of it.
    pub card: Arc<Card>,
}

impl Drop for Place {
    fn drop(&mut self) {
        self.clients.lock().remove(&self.card.id);
    }
}

impl Clients {
    /// Nobody is there. `wake` wakes a worker.
    pub fn new(wake: Wake) -> Clients {
        Clients {
            cards: Mutex::default(),
            orders: Mutex::default(),
            ordered: AtomicU64::new(0),
            paused_until: AtomicU64::new(0),
            pauses_reads: AtomicBool::new(false),
            accepted: AtomicU64::new(0),
            workers: [const { AtomicBool::new(false) }; WORKERS],
            errors: Mutex::default(),
            before: Mutex::default(),
            wake,
        }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<u64, Arc<Card>>> {
        self.cards.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A client is there.
    pub fn enter(self: &Arc<Clients>, id: u64) -> Place {
        let card = Card { id, last: AtomicU8::new(u8::MAX), queued: AtomicI64::new(-1), ..Card::default() };
        card.protocol.store(2, Ordering::Relaxed);
        let card = Arc::new(card);
        self.lock().insert(id, card.clone());
        self.accepted.fetch_add(1, Ordering::Relaxed);
        self.workers[worker_of(id)].store(true, Ordering::Relaxed);
        Place { clients: self.clone(), card }
    }

    /// All of them, in the order in which they came to their workers.
    pub fn all(&self) -> Vec<Arc<Card>> {
        self.lock().values().cloned().collect()
    }

    /// How many wait for data, or for the end of a pause.
    pub fn waiting(&self) -> usize {
        let waits =
            |card: &&Arc<Card>| card.waits.load(Ordering::Relaxed) || card.paused.load(Ordering::Relaxed);
        self.lock().values().filter(waits).count()
    }

    /// One of them.
    pub fn find(&self, id: u64) -> Option<Arc<Card>> {
        self.lock().get(&id).cloned()
    }

    /// Has a client do something, soon.
    pub fn order(&self, id: u64, order: Order) {
        let worker = worker_of(id);
        let mut orders = self.orders.lock().unwrap_or_else(PoisonError::into_inner);
        orders.entry(worker).or_default().push((id, order));
        // Release; pairs with the Acquire in `take_orders`.
        self.ordered.fetch_add(1, Ordering::Release);
        drop(orders);
        (self.wake)(worker);
    }

    /// What the clients of a worker are to do.
    pub fn take_orders(&self, worker: usize) -> Vec<(u64, Order)> {
        // Acquire; pairs with the Release in `order`.
        if self.ordered.load(Ordering::Acquire) == 0 {
            return Vec::new();
        }
        let mut orders = self.orders.lock().unwrap_or_else(PoisonError::into_inner);
        let taken = orders.remove(&worker).unwrap_or_default();
        self.ordered.fetch_sub(taken.len() as u64, Ordering::Relaxed);
        taken
    }

    /// No client's command that writes runs until then, and if `reads`, none at all. 0: from now on all run.
    pub fn pause(&self, until_ms: u64, reads: bool) {
        // What is paused for longer, or for more, stays so.
        let until_ms = if until_ms == 0 { 0 } else { until_ms.max(self.paused_until()) };
        let reads = until_ms > 0 && (reads || self.pauses_reads.load(Ordering::Relaxed));
        self.pauses_reads.store(reads, Ordering::Relaxed);
        self.paused_until.store(until_ms, Ordering::Relaxed);
        for (worker, _) in self.workers.iter().enumerate().filter(|(_, had)| had.load(Ordering::Relaxed)) {
            (self.wake)(worker);
        }
    }

    /// Until when commands are paused; 0: they are not.
    #[inline]
    pub fn paused_until(&self) -> u64 {
        self.paused_until.load(Ordering::Relaxed)
    }

    /// Whether a command has to wait at that time.
    #[inline]
    pub fn pauses(&self, writes: bool, unix_ms: u64) -> bool {
        self.paused_until() > unix_ms && (writes || self.pauses_reads.load(Ordering::Relaxed))
    }

    /// An error was answered.
    #[cold]
    pub fn count_error(&self, text: &[u8]) {
        let code = text.split(|byte| *byte == b' ' || *byte == b'\r').next().unwrap_or_default();
        let code = String::from_utf8_lossy(&code[..code.len().min(32)]).into_owned();
        let mut errors = self.errors.lock().unwrap_or_else(PoisonError::into_inner);
        let code =
            if errors.len() < MOST_ERRORS || errors.contains_key(&code) { code } else { "OTHER".into() };
        *errors.entry(code).or_default() += 1;
    }

    fn ever(&self, commands: Vec<CommandCounts>) -> Counts {
        let errors = self.errors.lock().unwrap_or_else(PoisonError::into_inner).clone();
        Counts { commands, errors, accepted: self.accepted.load(Ordering::Relaxed) }
    }

    /// What was counted since the counts were reset. `commands`: what was ever counted of them.
    pub fn counts(&self, commands: Vec<CommandCounts>) -> Counts {
        let mut now = self.ever(commands);
        let before = self.before.lock().unwrap_or_else(PoisonError::into_inner);
        for (count, old) in now.commands.iter_mut().zip(&before.commands) {
            *count = count.since(old);
        }
        for (code, old) in &before.errors {
            if let Some(count) = now.errors.get_mut(code) {
                *count -= old;
            }
        }
        now.errors.retain(|_, count| *count > 0);
        now.accepted -= before.accepted;
        now
    }

    /// Counts from here on.
    pub fn reset_counts(&self, commands: Vec<CommandCounts>) {
        *self.before.lock().unwrap_or_else(PoisonError::into_inner) = self.ever(commands);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_is_there_is_known_and_orders_reach_the_worker() {
        let clients = Arc::new(Clients::new(Box::new(|_| ())));
        let (one, two) = (clients.enter(0x100), clients.enter(0x201));
        assert_eq!(clients.all().iter().map(|card| card.id).collect::<Vec<_>>(), [0x100, 0x201]);
        clients.order(0x201, Order::Kill);
        assert_eq!((clients.take_orders(0), clients.take_orders(1)), (vec![], vec![(0x201, Order::Kill)]));
        drop(two);
        assert!(clients.find(0x201).is_none() && clients.find(one.card.id).is_some());
    }

    #[test]
    fn pauses_grow_and_end() {
        let clients = Clients::new(Box::new(|_| ()));
        clients.pause(100, false);
        assert!(clients.pauses(true, 99) && !clients.pauses(false, 99) && !clients.pauses(true, 100));
        clients.pause(50, true);
        assert!(clients.pauses(false, 99), "for longer, and for more");
        clients.pause(0, false);
        assert!(!clients.pauses(true, 1));
    }

    #[test]
    fn counts_begin_anew() {
        let clients = Arc::new(Clients::new(Box::new(|_| ())));
        let place = clients.enter(1);
        drop(place);
        clients.count_error(b"MOVED 1 a:1\r\n");
        let taken = |taken| vec![CommandCounts { taken, ..CommandCounts::default() }];
        assert_eq!(clients.counts(taken(3)).errors["MOVED"], 1);
        clients.reset_counts(taken(3));
        let counts = clients.counts(taken(5));
        assert_eq!((counts.commands, counts.errors.len(), counts.accepted), (taken(2), 0, 0));
    }
}
