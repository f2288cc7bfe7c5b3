//! All users of a node, compiled, and how they follow the table. (Whether one of them may run a command: [`may`](super::may), by the rules in `selector`.)

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, RwLock};

use super::change::{News, Provided};
use super::log::Log;
use super::user::User;
use super::{DEFAULT, row};

/// That the table was read while this node served: to be waited for by whoever begins to serve.
pub type Confirmation = u64;

/// Nothing is known of the table.
const NEVER: u64 = u64::MAX;

/// See the module. One per node.
pub struct Access {
    /// Grows whenever a user changes: what connections look at.
    version: AtomicU64,
    /// The table was read.
    known: AtomicBool,
    /// Readings that were begun while this node served, and the last one that has ended.
    begun: AtomicU64,
    confirmed: AtomicU64,
    /// The confirmation that is waited for.
    wanted: AtomicU64,
    /// The one that every worker waits for: somebody was told of a change of which this node has not heard.
    owed: AtomicU64,
    state: RwLock<State>,
    log: Mutex<Log>,
    provided: Provided,
    /// Wakes whoever looks at the version and waits for confirmations.
    wake: Box<dyn Fn() + Send + Sync>,
}

struct State {
    /// Up to this change nothing is missing; [`NEVER`] before the table was read.
    changes: u64,
    /// Later ones that are installed.
    ahead: BTreeSet<u64>,
    users: BTreeMap<Vec<u8>, Entry>,
    default: Arc<User>,
}

struct Entry {
    /// The change that made it so.
    change: u64,
    /// `None`: deleted. Kept until the table was read after that change.
    user: Option<Arc<User>>,
}

impl Access {
    /// Nothing is known of the table; these are the users of the configuration.
    pub fn new(provided: Provided, wake: Box<dyn Fn() + Send + Sync>) -> Access {
        let default = Arc::new(User::anybody());
        let mut state = State { changes: NEVER, ahead: BTreeSet::new(), users: BTreeMap::new(), default };
        state.add_provided(&provided, &[], 0);
        state.look_for_default();
        Access {
            version: AtomicU64::new(1),
            known: AtomicBool::new(false),
            begun: AtomicU64::new(0),
            confirmed: AtomicU64::new(0),
            wanted: AtomicU64::new(0),
            owed: AtomicU64::new(0),
            state: RwLock::new(state),
            log: Mutex::default(),
            provided,
            wake,
        }
    }

    /// Users that the configuration gives a cluster that never had them.
    pub fn provided(&self) -> &Provided {
        &self.provided
    }

    /// Another number than before: some user is another.
    #[inline]
    pub fn version(&self) -> u64 {
        // Acquire; pairs with the Release in `install`: who sees the number finds the users.
        self.version.load(Ordering::Acquire)
    }

    /// Whether the table was read since this process began.
    pub fn is_known(&self) -> bool {
        self.known.load(Ordering::Acquire)
    }

    /// Asks that the table be read from now on: the confirmation to wait for.
    pub fn want_confirmation(&self) -> Confirmation {
        let wanted = self.begun.load(Ordering::SeqCst) + 1;
        self.wanted.fetch_max(wanted, Ordering::SeqCst);
        (self.wake)();
        wanted
    }

    /// A change was made of which nobody here will hear: the table is to be read.
    pub fn read_again(&self) {
        self.want_confirmation();
    }

    /// Whether somebody waits for a confirmation that has not come.
    pub fn lacks_confirmation(&self) -> bool {
        self.wanted.load(Ordering::SeqCst) > self.confirmed.load(Ordering::SeqCst)
    }

    /// Whether this confirmation has come, and the one that everybody waits for.
    #[inline]
    pub fn has_confirmation(&self, wanted: Confirmation) -> bool {
        self.confirmed.load(Ordering::Acquire) >= wanted.max(self.owed.load(Ordering::Acquire))
    }

    /// A reading is about to begin while this node serves.
    pub fn begin_confirmation(&self) -> Confirmation {
        self.begun.fetch_add(1, Ordering::SeqCst) + 1
    }

    /// What it read is installed.
    pub fn confirm(&self, confirmation: Confirmation) {
        self.confirmed.fetch_max(confirmation, Ordering::SeqCst);
        (self.wake)();
    }

    /// Up to which change nothing is missing; a number that no table has before it was read.
    pub fn changes(&self) -> u64 {
        self.state.read().expect(UNPOISONED).changes
    }

    /// Takes what was released.
    pub fn install(&self, news: &News<'_>) {
        let mut state = self.state.write().expect(UNPOISONED);
        let changed = state.install(news, &self.provided);
        self.known.store(state.changes != NEVER, Ordering::Release);
        let lacks = news.users.is_empty() && state.changes < news.changes;
        if changed {
            state.look_for_default();
            // Release; pairs with the Acquire in `version`.
            self.version.fetch_add(1, Ordering::Release);
            drop(state);
            (self.wake)();
        } else if lacks {
            drop(state);
            // Whoever is told that there was nothing to change goes by a change of which nobody here has heard.
            self.owed.fetch_max(self.want_confirmation(), Ordering::SeqCst);
        }
    }

    pub fn user(&self, name: &[u8]) -> Option<Arc<User>> {
        let state = self.state.read().expect(UNPOISONED);
        if name == DEFAULT {
            return Some(state.default.clone());
        }
        state.users.get(name)?.user.clone()
    }

    pub fn default_user(&self) -> Arc<User> {
        self.state.read().expect(UNPOISONED).default.clone()
    }

    /// All users, by name.
    pub fn users(&self) -> Vec<Arc<User>> {
        let state = self.state.read().expect(UNPOISONED);
        let mut users: Vec<_> = state.users.values().filter_map(|entry| entry.user.clone()).collect();
        if !users.iter().any(|user| user.name() == DEFAULT) {
            users.push(state.default.clone());
            users.sort_by(|one, other| one.name().cmp(other.name()));
        }
        users
    }

    /// What was denied lately.
    pub fn log<R>(&self, look: impl FnOnce(&mut Log) -> R) -> R {
        look(&mut self.log.lock().expect(UNPOISONED))
    }
}

const UNPOISONED: &str = "nobody panics while holding the users";

impl State {
    /// Whether any user became another.
    fn install(&mut self, news: &News<'_>, provided: &Provided) -> bool {
        let first = self.changes == NEVER;
        // What is older than what is complete here tells nothing; and nothing can be added to what is not known.
        if if first { !news.whole } else { news.changes <= self.changes } {
            return false;
        }
        if news.whole {
            let changed = self.install_all(news, provided);
            self.changes = news.changes;
            self.ahead.retain(|change| *change > news.changes);
            self.catch_up();
            return changed || first;
        }
        if news.users.is_empty() {
            // It changed nothing: the number that it tells is that of another change, which may not have been heard of.
            return false;
        }
        let mut changed = false;
        for (name, row) in &news.users {
            changed |= self.set(name, *row, news.changes);
        }
        self.ahead.insert(news.changes);
        self.catch_up();
        changed
    }

    fn install_all(&mut self, news: &News<'_>, provided: &Provided) -> bool {
        let mut changed = false;
        let there: BTreeMap<&[u8], &[u8]> =
            news.users.iter().filter_map(|(name, row)| Some((*name, (*row)?))).collect();
        // Whoever is not there was deleted before, unless it came later.
        self.users.retain(|name, entry| {
            let stays = entry.change > news.changes || there.contains_key(&name[..]);
            changed |= !stays && entry.user.is_some();
            stays
        });
        for (name, row) in there {
            changed |= self.set(name, Some(row), news.changes);
        }
        self.add_provided(provided, &news.marks, news.changes) || changed
    }

    /// Goes on to the last change before which none is missing, and forgets who was deleted up to there.
    fn catch_up(&mut self) {
        let before = self.changes;
        while self.ahead.remove(&(self.changes + 1)) {
            self.changes += 1;
        }
        let complete = self.changes;
        if complete != before {
            self.users.retain(|_, entry| entry.user.is_some() || entry.change > complete);
        }
    }

    /// This change made it so, unless a later one made it otherwise.
    fn set(&mut self, name: &[u8], row: Option<&[u8]>, change: u64) -> bool {
        let old = self.users.get(name);
        if old.is_some_and(|entry| entry.change > change) {
            return false;
        }
        let user = row.map(|row| {
            row::decode(name, row).unwrap_or_else(|why| {
                tracing::error!(
                    "a user's row makes no sense to this build, and the user may nothing here: {why}"
                );
                User::new(name)
            })
        });
        let same = old.is_some_and(|entry| entry.user.as_deref() == user.as_ref());
        let user = match (same, old) {
            (true, Some(entry)) => entry.user.clone(),
            _ => user.map(Arc::new),
        };
        self.users.insert(name.to_vec(), Entry { change, user });
        !same
    }

    /// Until a node that serves has put them into the table, the configuration's users are users of this node.
    fn add_provided(&mut self, provided: &Provided, marks: &[&[u8]], change: u64) -> bool {
        let mut changed = false;
        for (name, row) in provided {
            if !marks.contains(&&name[..]) && !self.users.contains_key(name) {
                changed |= self.set(name, Some(row), change);
            }
        }
        changed
    }

    fn look_for_default(&mut self) {
        let own = self.users.get(DEFAULT).and_then(|entry| entry.user.clone());
        self.default = own.unwrap_or_else(|| Arc::new(User::anybody()));
    }
}
