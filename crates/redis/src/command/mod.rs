//! Everything that is known of a command, once: [`Spec`] is its entry, and the checks that need nothing but the entry stand here.
//!
//! Entries are written beside the functions that they name, in the files of [`commands`](super::commands), as [`entry`] says. A name that has no entry
//! is an unknown command; [`Opcode::find`] is the only way from a name to an entry.

pub mod category;
pub mod docs;
pub mod entry;
pub mod flags;
mod opcode;
mod wait;

use super::errors::CommandError;
use super::request::Args;
use flags::Flags;
pub use opcode::Opcode;
pub use wait::{Awaited, Wait};

/// What a command is, by who runs it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Command {
    /// Touches data: runs inside a transaction of the engine.
    Data,
    /// Touches no data: answered at the door.
    Local,
    /// Begins or ends something on its connection; never queued, but for `UNWATCH`.
    Control(Control),
}

/// Commands about the connection and its transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Control {
    Subscribe,
    Psubscribe,
    Unsubscribe,
    Punsubscribe,
    Multi,
    Exec,
    Discard,
    Watch,
    Unwatch,
    Once,
    Call,
    Begin,
    Commit,
    Rollback,
    Token,
    Quit,
    Reset,
}

/// Which of a command's words are keys, the name being word 0; `last` -1 is the last word. All 0: none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Keys {
    /// The first key.
    pub first: i8,
    pub last: i8,
    /// From one to the next.
    pub step: i8,
}

/// Why no word of a command is a key by its place. There is no default: whoever adds a command says one, or its keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keyless {
    /// A word in front of its keys says how many there are.
    Counted,
    /// Some of its subcommands name one.
    OfSubcommands,
    /// They are those of the command behind it, which is looked at by itself.
    Behind,
    /// It names a table, which patterns speak of as well ([`TABLE_PREFIX`](super::acl::keys::TABLE_PREFIX)).
    Table,
    /// It looks at all keys, or at any: patterns do not bind whoever may run it.
    Whole,
    /// It asks of a session, which belongs to its user.
    Session,
    /// It calls a procedure, which does what it does for whoever may call it.
    Procedure,
    /// It keeps or tells of code.
    Code,
    /// It touches no data.
    NoData,
}

impl Keys {
    /// No word.
    pub const NONE: Keys = Keys { first: 0, last: 0, step: 0 };
}

/// An entry.
#[derive(Clone, Copy, Debug)]
pub struct Spec {
    /// Its number, in requests.
    pub opcode: Opcode,
    /// Its number among commands and subcommands, in sets of them; its subcommands have those behind it. It is given where entries are collected.
    pub id: u16,
    /// The file of its family, a place in their list. It is given there, too.
    pub family: u8,
    /// Who runs it.
    pub command: Command,
    /// In small letters.
    pub name: &'static str,
    /// How many words, the name included; negative: at least so many.
    pub arity: i8,
    /// Redis's flags, and ours.
    pub flags: Flags,
    /// Redis's flags as `COMMAND` tells them, if others than it has: those of subcommands, which Redis tells of these alone, and what a script may do.
    pub told: Option<Flags>,
    /// Which words are keys.
    pub keys: Keys,
    /// Why there are none, or none in a fixed place; `None`: `keys` says where they are.
    pub keyless: Option<Keyless>,
    /// How Redis has its keys found and what becomes of them, one specification after another, with `;` between: `flags`, where the first key is sought
    /// (`index at` or `keyword word from`), and how many there are (`range last step limit` or `keynum at first step`).
    pub specs: &'static str,
    /// The fate of its first key, and of the others: [`READ`] and [`WRITE`]. It follows from `specs`, where entries are collected.
    pub uses: [u8; 2],
    /// The same of its first key, if that depends on its other words.
    pub narrows: Option<fn(Args<'_>) -> u8>,
    /// The reason to wait, if it may have to: for data, or for a compiler. `None` if there is nothing to wait for, or its words make no sense, of which
    /// it will tell.
    pub wait: Option<fn(Args<'_>) -> Option<Wait>>,
    /// `string`, `generic`, `hash` and so on, as Redis groups them.
    pub group: &'static str,
    /// Its [categories](category), if they do not follow from group and flags.
    pub categories: Option<u32>,
    /// The version of Redis that brought it; of our own commands, ours.
    pub since: &'static str,
    /// One sentence.
    pub summary: &'static str,
    /// Tips for clients, as Redis has them, with commas between.
    pub tips: &'static str,
    /// The rest that `COMMAND DOCS` tells, as [`docs`] has it.
    pub docs: &'static str,
    /// Empty unless the second word chooses one.
    pub subcommands: &'static [Subcommand],
}

/// It tells what the key holds.
pub const READ: u8 = 1;
/// It changes what the key holds.
pub const WRITE: u8 = 2;

/// A second word that changes what a command does.
#[derive(Debug)]
pub struct Subcommand {
    /// In small letters.
    pub name: &'static str,
    /// With the command before it, as errors name it.
    pub full_name: &'static str,
    /// How many words, both names included; negative: at least so many.
    pub arity: i8,
    /// Its flags; `None`: Redis has none such, and flags and keys are those of the command.
    pub flags: Option<Flags>,
    /// Which words are keys.
    pub keys: Keys,
    /// As of a command.
    pub specs: &'static str,
    /// Its [categories](category), but for those that follow from them; `None`: they are those of the command.
    pub categories: Option<u32>,
    /// Tips for clients, as Redis has them, with commas between.
    pub tips: &'static str,
    /// The things that `COMMAND DOCS` tells, as [`docs`] has it.
    pub docs: &'static str,
}

impl Spec {
    /// The defaults of an entry.
    pub(crate) const BARE: Spec = Spec {
        opcode: Opcode::numbered(0),
        id: 0,
        family: 0,
        command: Command::Local,
        name: "",
        arity: 0,
        flags: Flags::NONE,
        told: None,
        keys: Keys::NONE,
        keyless: None,
        specs: "",
        uses: [0; 2],
        narrows: None,
        wait: None,
        group: "",
        categories: None,
        since: "",
        summary: "",
        tips: "",
        docs: "",
        subcommands: &[],
    };
}

impl Subcommand {
    /// The defaults of it.
    pub(crate) const BARE: Subcommand = Subcommand {
        name: "",
        full_name: "",
        arity: 0,
        flags: None,
        keys: Keys::NONE,
        specs: "",
        categories: None,
        tips: "",
        docs: "",
    };
}

impl Spec {
    /// Checks the number of words and, where the second word chooses, that it names something. `args` are the
    /// words behind the name.
    pub fn check<'a>(&self, mut args: impl ExactSizeIterator<Item = &'a [u8]>) -> Result<(), CommandError> {
        let words = args.len() + 1;
        if !fits(self.arity, words) {
            return Err(CommandError::WrongArity(self.name));
        }
        if self.subcommands.is_empty() {
            return Ok(());
        }
        let Some(second) = args.next() else { return Ok(()) };
        match self.subcommand(second) {
            None => Err(CommandError::unknown_subcommand(self.name, second)),
            Some(found) if !fits(found.arity, words) => Err(CommandError::WrongArity(found.full_name)),
            Some(_) => Ok(()),
        }
    }

    /// The subcommand of this name, in letters of any size.
    pub fn subcommand(&self, name: &[u8]) -> Option<&'static Subcommand> {
        self.subcommands.iter().find(|known| known.name.as_bytes().eq_ignore_ascii_case(name))
    }

    /// Whether it may run among others in a block: it is about data, not about sessions.
    #[inline]
    pub fn is_ordinary(&self) -> bool {
        self.command == Command::Data && self.keyless != Some(Keyless::Session)
    }

    /// Whether it may run under a number of a session: what is ordinary, procedures, and what commits an open transaction.
    pub fn may_run_once(&self) -> bool {
        self.is_ordinary() || matches!(self.command, Command::Control(Control::Call | Control::Commit))
    }

    /// Whether it runs a script, which may write keys that no word of it names.
    #[inline]
    pub fn runs_scripts(&self) -> bool {
        self.has(flags::RUNS_SCRIPTS)
    }

    /// Whether it asks in its transaction what its caller may do: which commands a script calls, and which tables are listed, is known only there.
    #[inline]
    pub fn asks_rules(&self) -> bool {
        self.runs_scripts() || self.keyless == Some(Keyless::Table) && !self.subcommands.is_empty()
    }

    /// Whether it asks in its transaction who its caller is: sessions belong to users.
    #[inline]
    pub fn asks_caller(&self) -> bool {
        self.keyless == Some(Keyless::Session)
    }

    /// Whether it runs code that may write keys that no word of it names.
    pub fn runs_code(&self) -> bool {
        self.has(flags::RUNS_SCRIPTS | flags::RUNS_MODULES)
    }

    /// The event of `LATENCY` as which it counts when it takes long.
    pub fn latency_event(&self) -> &'static str {
        if self.has(flags::FAST) { "fast-command" } else { "command" }
    }

    /// Whether it touches data and changes none.
    #[inline]
    pub fn reads(&self) -> bool {
        self.command == Command::Data && self.has(flags::READONLY)
    }

    /// Whether word `word` is a key, or may be one because others say how many there are.
    pub fn may_be_key(&self, word: usize) -> bool {
        self.keys.contains(word) || self.has(flags::MOVABLEKEYS)
    }

    /// Whether it has some of these [`flags`].
    #[inline]
    pub fn has(&self, some: u32) -> bool {
        self.flags.has(some)
    }

    /// Its use of the key at this place among its keys, as Redis's specifications say.
    pub fn uses(&self, nth: usize, args: Args<'_>) -> u8 {
        match self.narrows {
            Some(narrows) if nth == 0 => narrows(args),
            _ => self.uses[nth.min(1)],
        }
    }

    /// The entry with what follows from the rest of it.
    pub(crate) const fn completed(mut self, id: u16, family: u8) -> Spec {
        let first = until(self.specs.as_bytes(), 0);
        let second = if first < self.specs.len() { first + 1 } else { 0 };
        self.uses = [self.use_at(0), self.use_at(second)];
        self.id = id;
        self.family = family;
        self.holds_together();
        self
    }

    /// An entry that contradicts itself does not compile.
    const fn holds_together(&self) {
        assert!(
            !self.flags.has(flags::BLOCKING) || self.wait.is_some(),
            "what blocks says what it waits for"
        );
        let (name, mut at) = (self.name.as_bytes(), 0);
        while at < self.subcommands.len() {
            let full = self.subcommands[at].full_name.as_bytes();
            assert!(
                begins(full, 0, name) && begins(full, name.len(), b"|"),
                "a subcommand of another command"
            );
            at += 1;
        }
    }

    /// The use of a key that the specification says which begins there.
    const fn use_at(&self, at: usize) -> u8 {
        let specs = self.specs.as_bytes();
        if specs.is_empty() {
            let reads = matches!(self.command, Command::Data) && self.flags.has(flags::READONLY);
            // Whatever is not said does both: too strict at worst.
            return if reads { READ } else { READ | WRITE };
        }
        let mut tells = false;
        let mut word = at;
        while word < specs.len() && specs[word] != b' ' {
            tells |= begins(specs, word, b",access");
            word += 1;
        }
        let changes = if begins(specs, at, b"RO") { 0 } else { WRITE };
        if tells { READ | changes } else { changes }
    }
}

/// The end of the specification that begins there.
const fn until(specs: &[u8], mut at: usize) -> usize {
    while at < specs.len() && specs[at] != b';' {
        at += 1;
    }
    at
}

/// Whether this stands there.
const fn begins(text: &[u8], at: usize, wanted: &[u8]) -> bool {
    let mut same = 0;
    while same < wanted.len() && at + same < text.len() && text[at + same] == wanted[same] {
        same += 1;
    }
    same == wanted.len()
}

impl Keys {
    /// Whether word `word` is a key.
    pub fn contains(self, word: usize) -> bool {
        let (first, step) = (self.first as usize, self.step as usize);
        first != 0
            && word >= first
            && (self.last < 0 || word <= self.last as usize)
            && (word - first).is_multiple_of(step)
    }
}

fn fits(arity: i8, words: usize) -> bool {
    let wanted = usize::from(arity.unsigned_abs());
    if arity < 0 { words >= wanted } else { words == wanted }
}

#[cfg(test)]
mod tests {
    use super::*;
    use entry::words::{NO_DATA, ONE_KEY, PAIRS};

    #[test]
    fn keys_of_pairs_are_every_second_word() {
        let keys: Vec<usize> = (0..7).filter(|&word| PAIRS.0.contains(word)).collect();
        assert_eq!(keys, [1, 3, 5]);
        assert!(!(0..7).any(|word| NO_DATA.0.contains(word)));
        assert!(ONE_KEY.0.contains(1) && !ONE_KEY.0.contains(2));
    }

    #[test]
    fn rows_can_be_found_and_are_named_once() {
        for opcode in Opcode::all() {
            let upper = opcode.spec().name.to_ascii_uppercase();
            assert_eq!(Opcode::find(upper.as_bytes()), Some(opcode), "{upper}");
        }
        assert_eq!(Opcode::find(b""), None);
        assert_eq!(Opcode::find(b"gets"), None);
        assert!(Opcode::all().len() < 0xfe, "0xfe and 0xff stand for something else where an opcode is");
    }

    #[test]
    fn data_is_read_or_written() {
        for spec in Opcode::all().map(Opcode::spec).filter(|spec| spec.command == Command::Data) {
            assert!(spec.reads() != spec.has(flags::WRITE), "{}", spec.name);
        }
    }

    #[test]
    fn what_becomes_of_keys_follows_from_their_specifications() {
        let uses = |specs| Spec { specs, ..Spec::BARE }.completed(0, 0).uses;
        assert_eq!(uses("RO index 1 range 0 1 0"), [0, 0]);
        assert_eq!(uses("RO,access index 1 range -1 1 0"), [READ, READ]);
        assert_eq!(
            uses("RW,access,delete index 1 range 0 1 0;RW,insert index 2 range 0 1 0"),
            [READ | WRITE, WRITE]
        );
        assert_eq!(uses("OW,update index 1 range 0 1 0;RO,access index 2 keynum 0 1 1"), [WRITE, READ]);
        assert_eq!(uses("RM,delete index 1 range -1 1 0"), [WRITE, WRITE]);
        assert_eq!(uses(""), [READ | WRITE; 2]);
    }
}
