//! Which commands on which keys: the rules of a user, or one of its selectors.

use super::absent;
use super::categories::Categories;
use super::ids::{self, Commands, Named};
use super::keys::{self, READ, TABLE_PREFIX, WRITE};
use super::user::RuleError;
use super::{Denied, MAX_PATTERN_BYTES};
use crate::command::{Opcode, flags};
use crate::commands::op;
use crate::glob;
use crate::request::Args;

/// Keys that fit a pattern may be read, or written, or both.
#[derive(Clone, Debug, PartialEq, Eq)]
struct KeyPattern {
    pattern: Vec<u8>,
    allows: u8,
}

impl KeyPattern {
    fn fits_key(&self, key: &[u8]) -> bool {
        !self.pattern.starts_with(TABLE_PREFIX) && glob::matches(&self.pattern, key)
    }

    fn fits_table(&self, name: &[u8]) -> bool {
        match self.pattern.strip_prefix(TABLE_PREFIX) {
            Some(of_names) => glob::matches(of_names, name),
            None => self.pattern == b"*",
        }
    }
}

/// How strictly words are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reading {
    /// A command that is not known is an error.
    Typed,
    /// It is kept, and means nothing to this build: another build wrote it.
    Kept,
}

/// See the module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Selector {
    commands: Commands,
    /// Commands of later builds, too.
    all_commands: bool,
    /// `+cmd|word` of commands without subcommands.
    first_words: Vec<(usize, Vec<u8>)>,
    /// What was said about commands since they were all allowed or forbidden, and still counts.
    rules: Vec<String>,
    all_keys: bool,
    keys: Vec<KeyPattern>,
    all_channels: bool,
    channels: Vec<Vec<u8>>,
}

impl Default for Selector {
    fn default() -> Selector {
        Selector {
            commands: Commands::NONE,
            all_commands: false,
            first_words: Vec::new(),
            rules: Vec::new(),
            all_keys: false,
            keys: Vec::new(),
            all_channels: false,
            channels: Vec::new(),
        }
    }
}

impl Selector {
    /// Whether nothing is forbidden.
    pub fn allows_everything(&self) -> bool {
        self.all_commands && self.all_keys
    }

    /// Whether it allows the command, and all its keys, or its table.
    pub fn may<'a>(&self, opcode: Opcode, args: Args<'a>) -> Result<(), Denied<'a>> {
        self.look(opcode, args).map_err(|(denied, _)| denied)
    }

    /// The same; of what is denied also how many keys in front of it were allowed.
    pub fn look<'a>(&self, opcode: Opcode, args: Args<'a>) -> Result<(), (Denied<'a>, usize)> {
        let (asked, first) = as_typed(opcode, args);
        let named = Named::of(asked, first);
        if !self.commands.has(named.id)
            && !self.has_first_word(named.id, first)
            && !opcode.spec().has(flags::NO_AUTH)
        {
            return Err((Denied::Command(named.full_name()), 0));
        }
        if let Some((name, needs)) = keys::table(opcode, args)
            && !self.allows_table(name, needs)
        {
            return Err((Denied::Table(name), 0));
        }
        let (mut denied, mut allowed) = (None, 0);
        if !self.all_keys {
            keys::visit(opcode, args, |key, needs| {
                match self.allows_key(key, needs) {
                    true => allowed += 1,
                    false => denied = Some(key),
                }
                denied.is_none()
            });
        }
        denied.map_or(Ok(()), |key| Err((Denied::Key(key), allowed)))
    }

    fn has_first_word(&self, id: usize, first: Option<&[u8]>) -> bool {
        let mut known = self.first_words.iter().filter(|(of, _)| *of == id);
        first.is_some_and(|first| known.any(|(_, word)| word.eq_ignore_ascii_case(first)))
    }

    fn allows_key(&self, key: &[u8], needs: u8) -> bool {
        self.keys.iter().any(|known| known.allows & needs == needs && known.fits_key(key))
    }

    /// Whether these things may be done with the table of this name.
    pub fn allows_table(&self, name: &[u8], needs: u8) -> bool {
        let mut known = self.keys.iter().filter(|known| known.allows & needs == needs);
        self.all_keys || known.any(|known| known.fits_table(name))
    }

    /// Does what a word says.
    pub fn apply(&mut self, word: &[u8], reading: Reading) -> Result<(), RuleError> {
        let is = |name: &str| word.eq_ignore_ascii_case(name.as_bytes());
        match word {
            _ if is("allkeys") || word == b"~*" => {
                self.all_keys = true;
                self.keys.clear();
            }
            _ if is("resetkeys") => {
                self.all_keys = false;
                self.keys.clear();
            }
            _ if is("allchannels") || word == b"&*" => {
                self.all_channels = true;
                self.channels.clear();
            }
            _ if is("resetchannels") => {
                self.all_channels = false;
                self.channels.clear();
            }
            _ if is("allcommands") || is("+@all") => self.all_or_none(true),
            _ if is("nocommands") || is("-@all") => self.all_or_none(false),
            [b'~', pattern @ ..] => self.add_keys(READ | WRITE, pattern)?,
            [b'%', rest @ ..] => {
                let (allows, pattern) = permissions(rest)?;
                self.add_keys(allows, pattern)?;
            }
            [b'&', pattern @ ..] => self.add_channel(pattern)?,
            [b'+', b'@', category @ ..] => self.set_category(category, true, reading)?,
            [b'-', b'@', category @ ..] => self.set_category(category, false, reading)?,
            [b'+', name @ ..] => self.set_command(name, true, reading)?,
            [b'-', name @ ..] => self.set_command(name, false, reading)?,
            _ => return Err(RuleError::Syntax),
        }
        Ok(())
    }

    fn all_or_none(&mut self, all: bool) {
        self.commands = if all { Commands::ALL } else { Commands::NONE };
        self.all_commands = all;
        self.first_words.clear();
        self.rules.clear();
    }

    fn add_keys(&mut self, allows: u8, pattern: &[u8]) -> Result<(), RuleError> {
        if self.all_keys {
            return Err(RuleError::AfterAllKeys);
        }
        check_pattern(pattern)?;
        match self.keys.iter_mut().find(|known| known.pattern == pattern) {
            Some(known) => known.allows |= allows,
            None => self.keys.push(KeyPattern { pattern: pattern.to_vec(), allows }),
        }
        Ok(())
    }

    fn add_channel(&mut self, pattern: &[u8]) -> Result<(), RuleError> {
        if self.all_channels {
            return Err(RuleError::AfterAllChannels);
        }
        check_pattern(pattern)?;
        if !self.channels.iter().any(|known| known == pattern) {
            self.channels.push(pattern.to_vec());
        }
        Ok(())
    }

    fn set_category(&mut self, name: &[u8], allow: bool, reading: Reading) -> Result<(), RuleError> {
        match Categories::find(name) {
            None if reading == Reading::Typed => return Err(RuleError::Unknown),
            None => self.all_commands &= allow,
            Some(category) => {
                for named in ids::all().filter(|named| Categories::of(named).meets(category)) {
                    self.set(named.id, allow);
                }
            }
        }
        self.note(&format!("@{}", lower(name)), allow);
        Ok(())
    }

    fn set_command(&mut self, name: &[u8], allow: bool, reading: Reading) -> Result<(), RuleError> {
        let (command, rest) = match name.iter().position(|byte| *byte == b'|') {
            None => (name, None),
            Some(at) => (&name[..at], Some(&name[at + 1..])),
        };
        if name.len() > MAX_PATTERN_BYTES {
            return Err(RuleError::PatternTooLong);
        }
        if is_spaced(name) {
            return Err(RuleError::Unknown);
        }
        let is_absent = absent::is_known(&lower(name), allow);
        let Some(opcode) = Opcode::find(command).filter(|_| !is_absent) else {
            if reading == Reading::Typed && !is_absent || command.is_empty() {
                return Err(RuleError::Unknown);
            }
            self.all_commands &= allow;
            self.note(&lower(name), allow);
            return Ok(());
        };
        let before = (self.commands.clone(), self.first_words.len());
        match rest {
            None => ids_of(opcode).into_iter().for_each(|id| self.set(id, allow)),
            Some(b"") => return Err(RuleError::Syntax),
            Some(word) => self.set_second(opcode, word, allow, reading)?,
        }
        // What changes nothing is not worth a word, but for one that this build does not know.
        if before != (self.commands.clone(), self.first_words.len()) || reading == Reading::Kept {
            self.note(&lower(name), allow);
        }
        Ok(())
    }

    fn set_second(
        &mut self,
        opcode: Opcode,
        word: &[u8],
        allow: bool,
        reading: Reading,
    ) -> Result<(), RuleError> {
        let spec = opcode.spec();
        let named = Named::of(opcode, Some(word));
        match named.sub {
            Some(_) => self.set(named.id, allow),
            None if word.contains(&b'|') => {
                let mut parts = word.split(|byte| *byte == b'|');
                let known = parts.next().and_then(|word| spec.subcommand(word)).is_some();
                return Err(match known && allow && parts.count() == 1 {
                    true => RuleError::FirstWordOfSubcommand,
                    false => RuleError::Unknown,
                });
            }
            None if reading == Reading::Kept && (!spec.subcommands.is_empty() || !allow) => {}
            None if !spec.subcommands.is_empty() || !allow => return Err(RuleError::Unknown),
            None => {
                let known = self
                    .first_words
                    .iter()
                    .any(|(id, old)| *id == named.id && old.eq_ignore_ascii_case(word));
                if !known {
                    self.first_words.push((named.id, word.to_vec()));
                }
            }
        }
        Ok(())
    }

    /// Allows or forbids one command; what was said of its first words is over.
    fn set(&mut self, id: usize, allow: bool) {
        self.commands.set(id, allow);
        self.first_words.retain(|(of, _)| *of != id);
        if !allow {
            self.all_commands = false;
        }
    }

    /// Remembers a rule; earlier ones about the same, or a part of it, count no more.
    fn note(&mut self, name: &str, allow: bool) {
        self.rules.retain(|rule| {
            let rest = rule[1..].strip_prefix(name);
            !rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('|'))
        });
        self.rules.push(format!("{}{name}", if allow { '+' } else { '-' }));
    }

    /// `+@all -keys`
    pub fn commands(&self) -> String {
        // What is not taken back of `+@all` is no rule: the set knows it.
        let base = if self.began_with_all() { "+@all" } else { "-@all" };
        std::iter::once(base).chain(self.rules.iter().map(String::as_str)).collect::<Vec<_>>().join(" ")
    }

    /// Whether all commands, later ones among them, were allowed before the rules.
    fn began_with_all(&self) -> bool {
        self.commands.has(ids::MOST - 1)
    }

    /// `~a:* %R~b:*`
    pub fn keys(&self) -> Vec<Vec<u8>> {
        if self.all_keys {
            return vec![b"~*".to_vec()];
        }
        let prefix = |allows| match allows {
            READ => &b"%R~"[..],
            WRITE => b"%W~",
            _ => b"~",
        };
        self.keys.iter().map(|known| [prefix(known.allows), &known.pattern].concat()).collect()
    }

    /// `&a &b`
    pub fn channels(&self) -> Vec<Vec<u8>> {
        if self.all_channels {
            return vec![b"&*".to_vec()];
        }
        self.channels.iter().map(|pattern| [b"&", &pattern[..]].concat()).collect()
    }

    /// Words that make it what it is, in Redis's order.
    pub fn words(&self) -> Vec<Vec<u8>> {
        let mut words = self.keys();
        if !self.all_channels {
            words.push(b"resetchannels".to_vec());
        }
        words.extend(self.channels());
        words.extend(self.commands().split(' ').map(|word| word.as_bytes().to_vec()));
        words
    }
}

fn lower(name: &[u8]) -> String {
    String::from_utf8_lossy(name).to_ascii_lowercase()
}

/// `R~pattern`, `W~`, `RW~`: what is allowed, and the pattern.
fn permissions(rest: &[u8]) -> Result<(u8, &[u8]), RuleError> {
    let at = rest.iter().position(|byte| *byte == b'~').ok_or(RuleError::Syntax)?;
    let mut allows = 0;
    for letter in &rest[..at] {
        let bit = match letter.to_ascii_uppercase() {
            b'R' => READ,
            b'W' => WRITE,
            _ => return Err(RuleError::Syntax),
        };
        if allows & bit != 0 {
            return Err(RuleError::Syntax);
        }
        allows |= bit;
    }
    if allows == 0 { Err(RuleError::Syntax) } else { Ok((allows, &rest[at + 1..])) }
}

/// The command that rules name, and its first word. Some subcommands run as commands of their own, and are what was typed nevertheless.
fn as_typed<'a>(opcode: Opcode, args: Args<'a>) -> (Opcode, Option<&'a [u8]>) {
    let first = args.into_iter().next();
    match opcode {
        op::HW_DEBUGOBJECT => (op::DEBUG, Some(&b"object"[..])),
        op::HW_MEMORY => (op::MEMORY, first),
        op::HW_KEYSINSLOT if args.len() > 1 => (op::CLUSTER, Some(&b"getkeysinslot"[..])),
        op::HW_KEYSINSLOT => (op::CLUSTER, Some(&b"countkeysinslot"[..])),
        _ => (opcode, first),
    }
}

/// Commands and subcommands that a rule about this one means: those as which it is looked at.
fn ids_of(opcode: Opcode) -> Vec<usize> {
    let (command, subcommands): (_, &[&[u8]]) = match opcode {
        op::HW_KEYSINSLOT => (op::CLUSTER, &[b"countkeysinslot", b"getkeysinslot"]),
        op::HW_MEMORY => (op::MEMORY, &[b"doctor", b"malloc-stats", b"purge", b"stats"]),
        op::HW_INVOKE => (op::HW_CALL, &[]),
        _ => (opcode, &[]),
    };
    if subcommands.is_empty() {
        return Named::family(command).collect();
    }
    subcommands.iter().map(|word| Named::of(command, Some(word)).id).collect()
}

fn check_pattern(pattern: &[u8]) -> Result<(), RuleError> {
    if pattern.len() > MAX_PATTERN_BYTES {
        return Err(RuleError::PatternTooLong);
    }
    if is_spaced(pattern) { Err(RuleError::Syntax) } else { Ok(()) }
}

/// Whether there are spaces, line ends or zeros in it: a row and a file keep words apart by them.
pub fn is_spaced(word: &[u8]) -> bool {
    word.iter().any(|byte| byte.is_ascii_whitespace() || matches!(byte, 0 | 0x0b))
}
