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
    /// An encoded [`Pause`]; 0: none.
    pause: AtomicU64,
    /// Connections ever.
    accepted: AtomicU64,
    /// Connections that were refused because there were too many.
    rejected: AtomicU64,
    /// Workers that hold requests back during a pause.
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
    Unblock { error: bool },
}

/// A time in which commands wait. One atomic word holds it, so that nobody sees half of one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pause {
    /// Its end, in Unix time in ms, up to `Pause::LATEST`; 0: there is none.
    pub until_ms: u64,
    /// All commands wait; else those that write.
    pub reads: bool,
}

impl Pause {
    const LATEST: u64 = u64::MAX >> 1;

    fn encode(self) -> u64 {
        self.until_ms.min(Pause::LATEST) << 1 | u64::from(self.reads)
    }

    fn decode(word: u64) -> Pause {
        Pause { until_ms: word >> 1, reads: word & 1 == 1 }
    }
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
    /// `SUBSCRIBE`: to how many channels.
    pub channels: AtomicU64,
    /// `PSUBSCRIBE`: to how many patterns.
    pub patterns: AtomicU64,
    /// 2 or 3.
    pub protocol: AtomicU8,
    /// What it said, and from where.
    pub words: Mutex<Words>,
}

/// What a client said of itself, and where it is.
#[derive(Clone, Debug, Default)]
pub struct Words {
    pub address: String,
    /// The address that it connected to.
    pub local: String,
    /// `CLIENT SETNAME`
    pub name: Vec<u8>,
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

    /// It has subscribed to something.
    pub fn listens(&self) -> bool {
        self.channels.load(Ordering::Relaxed) + self.patterns.load(Ordering::Relaxed) > 0
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
    /// Connections that were refused because there were too many.
    pub rejected: u64,
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
            pause: AtomicU64::new(0),
            accepted: AtomicU64::new(0),
            rejected: AtomicU64::new(0),
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
        Place { clients: self.clone(), card }
    }

    /// All of them, in the order in which they came to their workers.
    pub fn all(&self) -> Vec<Arc<Card>> {
        self.lock().values().cloned().collect()
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.lock().len()
    }

    /// How many wait for data, or for the end of a pause.
    pub fn waiting(&self) -> usize {
        let waits =
            |card: &&Arc<Card>| card.waits.load(Ordering::Relaxed) || card.paused.load(Ordering::Relaxed);
        self.lock().values().filter(waits).count()
    }

    /// How many have subscribed to something.
    pub fn listening(&self) -> usize {
        self.lock().values().filter(|card| card.listens()).count()
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

    /// Requests of this worker may be held back: it is woken when a pause begins or ends.
    pub fn employ(&self, worker: usize) {
        self.workers[worker % WORKERS].store(true, Ordering::Relaxed);
    }

    /// No client's command that writes runs until then, and if `reads`, none at all. A pause that still lasts gets longer by this and
    /// holds more, never the opposite; one that is over at `now_ms` counts for nothing.
    pub fn pause(&self, until_ms: u64, reads: bool, now_ms: u64) {
        let longer = |word| {
            let running = Some(Pause::decode(word)).filter(|pause| pause.until_ms > now_ms);
            let until_ms = until_ms.max(running.map_or(0, |pause| pause.until_ms));
            Some(Pause { until_ms, reads: reads || running.is_some_and(|pause| pause.reads) }.encode())
        };
        let _always = self.pause.fetch_update(Ordering::Relaxed, Ordering::Relaxed, longer);
        self.wake_workers();
    }

    /// From now on all commands run.
    pub fn unpause(&self) {
        self.pause.store(0, Ordering::Relaxed);
        self.wake_workers();
    }

    /// A pause that is over at that time is none any more, whatever the clock says later.
    pub fn forget_pause(&self, unix_ms: u64) {
        let word = self.pause.load(Ordering::Relaxed);
        if word != 0 && Pause::decode(word).until_ms <= unix_ms {
            // Another one may have begun meanwhile, and stays.
            let _other = self.pause.compare_exchange(word, 0, Ordering::Relaxed, Ordering::Relaxed);
        }
    }

    fn wake_workers(&self) {
        for (worker, _) in self.workers.iter().enumerate().filter(|(_, holds)| holds.load(Ordering::Relaxed))
        {
            (self.wake)(worker);
        }
    }

    /// The pause that lasts, or was not [forgotten](Self::forget_pause) yet.
    #[inline]
    pub fn last_pause(&self) -> Pause {
        Pause::decode(self.pause.load(Ordering::Relaxed))
    }

    /// Whether a command has to wait at that time.
    #[inline]
    pub fn pauses(&self, writes: bool, unix_ms: u64) -> bool {
        let pause = self.last_pause();
        pause.until_ms > unix_ms && (writes || pause.reads)
    }

    /// A client was not let in, because there were too many.
    #[cold]
    pub fn reject(&self) {
        self.rejected.fetch_add(1, Ordering::Relaxed);
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
        let load = |count: &AtomicU64| count.load(Ordering::Relaxed);
        Counts { commands, errors, accepted: load(&self.accepted), rejected: load(&self.rejected) }
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
        now.rejected -= before.rejected;
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
        clients.pause(100, false, 0);
        assert!(clients.pauses(true, 99) && !clients.pauses(false, 99) && !clients.pauses(true, 100));
        clients.pause(50, true, 1);
        assert!(clients.pauses(false, 99), "for longer, and for more");
        clients.pause(70, false, 2);
        assert!(clients.pauses(false, 99), "a shorter one for less changes nothing");
        clients.unpause();
        assert!(!clients.pauses(true, 1) && clients.last_pause() == Pause::default());
    }

    /// Once: a pause of everything that was over made a later pause of writes hold reads as well.
    #[test]
    fn a_pause_that_is_over_leaves_nothing_to_the_next() {
        let clients = Clients::new(Box::new(|_| ()));
        clients.pause(100, true, 0);
        clients.pause(300, false, 200);
        assert!(clients.pauses(true, 299) && !clients.pauses(false, 299), "that held reads, this does not");
        clients.forget_pause(299);
        assert!(clients.pauses(true, 299), "it lasts");
        clients.forget_pause(300);
        assert!(
            !clients.pauses(true, 0) && clients.last_pause() == Pause::default(),
            "a clock that is put back does not bring it back"
        );
    }

    #[test]
    fn the_longest_pause_is_one_and_ends() {
        for until in [u64::MAX, u64::MAX - 1, i64::MAX as u64, Pause::LATEST - 1] {
            let clients = Clients::new(Box::new(|_| ()));
            clients.pause(until, false, 5);
            assert!(clients.pauses(true, 1 << 62) && !clients.pauses(false, 6), "{until}");
            clients.forget_pause(1 << 62);
            clients.unpause();
            assert!(!clients.pauses(true, 5));
        }
    }

    /// Once: a worker of the leader with requests of other nodes' clients alone was not woken by `CLIENT UNPAUSE`.
    #[test]
    fn every_worker_that_holds_requests_is_told_of_a_pause_and_of_its_end() {
        let woken = Arc::new(Mutex::new(Vec::new()));
        let told = woken.clone();
        let clients = Clients::new(Box::new(move |worker| told.lock().expect("nobody panics").push(worker)));
        // Neither has a client of its own: requests of other nodes wait there as well.
        [1, 3].into_iter().for_each(|worker| clients.employ(worker));
        clients.pause(100, true, 0);
        clients.unpause();
        assert_eq!(*woken.lock().expect("nobody panics"), [1, 3, 1, 3]);
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
