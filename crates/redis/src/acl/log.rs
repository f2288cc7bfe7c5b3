//! What was denied lately: `ACL LOG`. A node's own, and lost with its process.

use std::collections::VecDeque;

/// So many entries are kept until it is told otherwise, as in Redis.
pub const MOST: usize = 128;
/// The most that it may be told to keep.
const MOST_EVER: usize = 10_000;
/// Of what was denied so many bytes are kept.
const MOST_BYTES: usize = 1 << 10;
/// The same again within so many milliseconds is counted with the first.
const SAME_MS: u64 = 60_000;

/// Why.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    Command,
    Key,
    /// Name and password.
    Auth,
}

impl Reason {
    /// In Redis's word.
    pub fn name(self) -> &'static str {
        match self {
            Reason::Command => "command",
            Reason::Key => "key",
            Reason::Auth => "auth",
        }
    }
}

/// Where.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Context {
    /// A command of its own.
    Toplevel,
    /// One of a `MULTI`.
    Multi,
    /// One that a script calls.
    Script,
}

impl Context {
    /// In Redis's word.
    pub fn name(self) -> &'static str {
        match self {
            Context::Toplevel => "toplevel",
            Context::Multi => "multi",
            Context::Script => "lua",
        }
    }
}

/// One thing that was denied, so often.
#[derive(Clone, Debug)]
pub struct Entry {
    /// How often.
    pub count: u64,
    /// Why.
    pub reason: Reason,
    /// Where.
    pub context: Context,
    /// The command, the key, or which command was to let in.
    pub object: Vec<u8>,
    pub user: Vec<u8>,
    /// When last, in Unix time in ms.
    pub at_ms: u64,
    /// What `CLIENT INFO` says of the connection.
    pub client: String,
}

/// See the module.
#[derive(Debug)]
pub struct Log {
    entries: VecDeque<Entry>,
    most: usize,
}

impl Default for Log {
    fn default() -> Log {
        Log { entries: VecDeque::new(), most: MOST }
    }
}

impl Log {
    /// Adds an entry, or counts it with one that is the same.
    pub fn add(&mut self, mut entry: Entry) {
        entry.object.truncate(MOST_BYTES);
        entry.user.truncate(MOST_BYTES);
        entry.client.truncate(entry.client.floor_char_boundary(2 * MOST_BYTES));
        let same = |old: &Entry| {
            (old.reason, old.context) == (entry.reason, entry.context)
                && old.at_ms.abs_diff(entry.at_ms) <= SAME_MS
                && old.object == entry.object
                && old.user == entry.user
        };
        if let Some(at) = self.entries.iter().position(same)
            && let Some(old) = self.entries.remove(at)
        {
            entry.count += old.count;
        }
        self.entries.push_front(entry);
        self.entries.truncate(self.most);
    }

    /// How many entries are kept.
    pub fn most(&self) -> usize {
        self.most
    }

    /// Keeps so many from the next one on.
    pub fn set_most(&mut self, most: usize) {
        self.most = most.min(MOST_EVER);
    }

    /// The latest ones first.
    pub fn entries(&self) -> impl ExactSizeIterator<Item = &Entry> {
        self.entries.iter()
    }

    /// Forgets all.
    pub fn clear(&mut self) {
        self.entries.clear();
    }
}
