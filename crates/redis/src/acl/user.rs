//! A user, and the words of `ACL SETUSER`.

use std::fmt;

use highwater_seam::Owner;
use sha2::{Digest, Sha256};

use super::keys::READ;
use super::selector::{Reading, Selector, is_spaced};
use super::{DEFAULT, Denied, MAX_NAME_BYTES, MAX_PATTERN_BYTES, MAX_USER_BYTES};
use crate::command::Opcode;
use crate::request::Args;

/// SHA-256 of a password.
pub type Hash = [u8; 32];

/// The hash of a password.
pub fn hash(password: &[u8]) -> Hash {
    Sha256::digest(password).into()
}

/// The owner of a user's sessions: a number that a name has for good, so that sessions outlive changes of the user, on every node.
pub fn owner_of(name: &[u8]) -> Owner {
    let [a, b, c, d, ..] = hash(name);
    Owner(u32::from_le_bytes([a, b, c, d]).max(1))
}

/// Why a word says nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RuleError {
    /// No such word.
    Syntax,
    /// No such command or category.
    Unknown,
    /// A pattern behind `~*`.
    AfterAllKeys,
    /// A pattern behind `&*`.
    AfterAllChannels,
    /// Not 64 digits.
    Hash,
    /// There is no such password to take away.
    NoSuchPassword,
    /// `+config|get|x`
    FirstWordOfSubcommand,
    /// A pattern is over the limit.
    PatternTooLong,
}

impl fmt::Display for RuleError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RuleError::Syntax => f.write_str("Syntax error"),
            RuleError::Unknown => f.write_str("Unknown command or category name in ACL"),
            RuleError::AfterAllKeys => f.write_str(
                "Adding a pattern after the * pattern (or the 'allkeys' flag) is not valid and does not have any effect. \
                 Try 'resetkeys' to start with an empty list of patterns",
            ),
            RuleError::AfterAllChannels => f.write_str(
                "Adding a pattern after the * pattern (or the 'allchannels' flag) is not valid and does not have any effect. \
                 Try 'resetchannels' to start with an empty list of channels",
            ),
            RuleError::Hash => f.write_str(
                "The password hash must be exactly 64 characters and contain only lowercase hexadecimal characters",
            ),
            RuleError::NoSuchPassword => {
                f.write_str("The password you are trying to remove from the user does not exist")
            }
            RuleError::FirstWordOfSubcommand => {
                f.write_str("Allowing first-arg of a subcommand is not supported")
            }
            RuleError::PatternTooLong => {
                write!(f, "a pattern or name of a command has at most {MAX_PATTERN_BYTES} bytes")
            }
        }
    }
}

/// Why `SETUSER` changes nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SetUserError {
    /// The name cannot be one.
    Name,
    /// The name is over the limit.
    NameTooLong,
    /// A selector that does not end.
    Unmatched(Vec<u8>),
    /// A word makes no sense.
    Word(Vec<u8>, RuleError),
    /// What is known of the user is over the limit.
    TooLong,
}

impl fmt::Display for SetUserError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SetUserError::Name => f.write_str("ERR Usernames can't contain spaces or null characters"),
            SetUserError::NameTooLong => write!(f, "ERR a username has at most {MAX_NAME_BYTES} bytes"),
            SetUserError::Unmatched(from) => {
                write!(f, "ERR Unmatched parenthesis in acl selector starting at '{}'.", shown(from))
            }
            SetUserError::Word(word, error) => {
                write!(f, "ERR Error in ACL SETUSER modifier '{}': {error}", shown(word))
            }
            SetUserError::TooLong => {
                write!(f, "ERR a user has at most {MAX_USER_BYTES} bytes of rules and passwords")
            }
        }
    }
}

fn shown(word: &[u8]) -> String {
    String::from_utf8_lossy(&word[..word.len().min(256)]).into_owned()
}

/// See the [module](super).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct User {
    name: Vec<u8>,
    owner: Owner,
    on: bool,
    nopass: bool,
    /// `sanitize-payload`, or `skip-sanitize-payload`: kept and told. There is no payload to look at here.
    sanitize: Option<bool>,
    passwords: Vec<Hash>,
    root: Selector,
    selectors: Vec<Selector>,
    may_everything: bool,
}

impl User {
    /// One that may nothing yet.
    pub fn new(name: &[u8]) -> User {
        User {
            name: name.to_vec(),
            owner: owner_of(name),
            on: false,
            nopass: false,
            sanitize: None,
            passwords: Vec::new(),
            root: Selector::default(),
            selectors: Vec::new(),
            may_everything: false,
        }
    }

    /// The default user where nobody has said otherwise: everybody, without a password, may everything.
    pub fn anybody() -> User {
        let words = ["on", "nopass", "~*", "&*", "+@all"];
        User::new(DEFAULT).with(words.map(str::as_bytes), Reading::Typed).expect("these words make sense")
    }

    /// What it becomes by these words: all of them, or it stays as it was.
    pub fn with<'a>(
        &self,
        words: impl IntoIterator<Item = &'a [u8]>,
        reading: Reading,
    ) -> Result<User, SetUserError> {
        let mut changed = self.clone();
        for word in join_selectors(words)? {
            changed.apply(&word, reading).map_err(|error| SetUserError::Word(word, error))?;
        }
        changed.look_over();
        Ok(changed)
    }

    /// The user of a [row](super::row): a word in each line.
    pub fn of_row<'a>(name: &[u8], lines: impl Iterator<Item = &'a [u8]>) -> Result<User, SetUserError> {
        let (mut user, mut open) = (User::new(name), None::<Selector>);
        for line in lines {
            let applied = match (&mut open, line) {
                (None, b"(") => {
                    open = Some(Selector::default());
                    Ok(())
                }
                (Some(_), b")") => {
                    user.selectors.extend(open.take());
                    Ok(())
                }
                (Some(selector), word) => selector.apply(word, Reading::Kept),
                (None, word) => user.apply(word, Reading::Kept),
            };
            applied.map_err(|error| SetUserError::Word(line.to_vec(), error))?;
        }
        user.look_over();
        Ok(user)
    }

    fn look_over(&mut self) {
        self.may_everything =
            self.root.allows_everything() || self.selectors.iter().any(Selector::allows_everything);
    }

    fn apply(&mut self, word: &[u8], reading: Reading) -> Result<(), RuleError> {
        let is = |name: &str| word.eq_ignore_ascii_case(name.as_bytes());
        match word {
            _ if is("on") => self.on = true,
            _ if is("off") => self.on = false,
            _ if is("nopass") => {
                self.nopass = true;
                self.passwords.clear();
            }
            _ if is("resetpass") => {
                self.nopass = false;
                self.passwords.clear();
            }
            _ if is("sanitize-payload") => self.sanitize = Some(true),
            _ if is("skip-sanitize-payload") => self.sanitize = Some(false),
            _ if is("clearselectors") => self.selectors.clear(),
            _ if is("reset") => *self = User { sanitize: Some(true), ..User::new(&self.name) },
            [b'>', password @ ..] => self.add(hash(password)),
            [b'#', digits @ ..] => self.add(parse_hash(digits)?),
            [b'<', password @ ..] => self.take_away(hash(password))?,
            [b'!', digits @ ..] => self.take_away(parse_hash(digits)?)?,
            [b'(', inner @ .., b')'] => {
                let mut selector = Selector::default();
                for word in inner.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty()) {
                    selector.apply(word, reading)?;
                }
                self.selectors.push(selector);
            }
            _ => self.root.apply(word, reading)?,
        }
        Ok(())
    }

    fn add(&mut self, hash: Hash) {
        if !self.passwords.contains(&hash) {
            self.passwords.push(hash);
        }
        self.nopass = false;
    }

    fn take_away(&mut self, hash: Hash) -> Result<(), RuleError> {
        let at = self.passwords.iter().position(|known| *known == hash).ok_or(RuleError::NoSuchPassword)?;
        self.passwords.remove(at);
        Ok(())
    }

    pub fn name(&self) -> &[u8] {
        &self.name
    }

    /// Whose its sessions are.
    pub fn owner(&self) -> Owner {
        self.owner
    }

    /// Whether everybody is this user who says so, and needs no password for it.
    pub fn is_open(&self) -> bool {
        self.on && self.nopass
    }

    /// Whether it needs no password.
    pub fn needs_no_password(&self) -> bool {
        self.nopass
    }

    /// Whether one of its passwords has this hash, and it is in use.
    pub fn accepts(&self, hash: &Hash) -> bool {
        let one = self.passwords.iter().fold(false, |found, known| found | same(known, hash));
        self.on && (self.nopass || one)
    }

    /// Whether nothing at all is forbidden to it.
    #[inline]
    pub fn may_everything(&self) -> bool {
        self.may_everything
    }

    /// Whether one of its selectors allows the command and all its keys. If none does, of keys that are denied rather than of
    /// the command, and of the one that comes last among the keys.
    pub fn may<'a>(&self, opcode: Opcode, args: Args<'a>) -> Result<(), Denied<'a>> {
        let mut denied = match self.root.look(opcode, args) {
            Ok(()) => return Ok(()),
            Err(denied) => denied,
        };
        for selector in &self.selectors {
            match (selector.look(opcode, args), denied.0) {
                (Ok(()), _) => return Ok(()),
                (Err((Denied::Command(_), _)), _) => {}
                (Err(other), Denied::Command(_)) => denied = other,
                (Err(other), _) if other.1 > denied.1 => denied = other,
                (Err(_), _) => {}
            }
        }
        Err(denied.0)
    }

    /// Whether it may read the table of this name.
    pub fn may_read_table(&self, name: &[u8]) -> bool {
        self.root.allows_table(name, READ)
            || self.selectors.iter().any(|selector| selector.allows_table(name, READ))
    }

    /// `on`, `nopass` and so on, in Redis's order.
    pub fn flags(&self) -> Vec<&'static str> {
        let mut flags = vec![if self.on { "on" } else { "off" }];
        if self.nopass {
            flags.push("nopass");
        }
        match self.sanitize {
            None => {}
            Some(true) => flags.push("sanitize-payload"),
            Some(false) => flags.push("skip-sanitize-payload"),
        }
        flags
    }

    /// Its passwords' hashes, as digits.
    pub fn passwords(&self) -> impl ExactSizeIterator<Item = String> {
        self.passwords.iter().map(|hash| hash.iter().map(|byte| format!("{byte:02x}")).collect())
    }

    /// Its rules that are no selector.
    pub fn root(&self) -> &Selector {
        &self.root
    }

    pub fn selectors(&self) -> &[Selector] {
        &self.selectors
    }

    /// As `ACL LIST` and a file of users have it, without its name.
    pub fn describe(&self) -> Vec<u8> {
        let mut words: Vec<Vec<u8>> = self.flags().into_iter().map(|flag| flag.as_bytes().to_vec()).collect();
        words.extend(self.passwords().map(|digits| format!("#{digits}").into_bytes()));
        words.extend(self.root.words());
        words.extend(
            self.selectors.iter().map(|selector| [&b"("[..], &selector.words().join(&b' '), b")"].concat()),
        );
        words.join(&b' ')
    }
}

/// Whether this can be a user's name.
pub fn check_name(name: &[u8]) -> Result<(), SetUserError> {
    match name {
        _ if name.len() > MAX_NAME_BYTES => Err(SetUserError::NameTooLong),
        _ if is_spaced(name) => Err(SetUserError::Name),
        _ => Ok(()),
    }
}

/// Looks at every byte, whatever the first ones are: how long it takes says nothing of the password.
fn same(one: &Hash, other: &Hash) -> bool {
    let differs = one.iter().zip(other).fold(0, |differs, (a, b)| differs | a ^ b);
    std::hint::black_box(differs) == 0
}

fn parse_hash(digits: &[u8]) -> Result<Hash, RuleError> {
    let mut hash = Hash::default();
    if digits.len() != 64 {
        return Err(RuleError::Hash);
    }
    for (byte, pair) in hash.iter_mut().zip(digits.chunks_exact(2)) {
        for digit in pair {
            let value = match digit {
                b'0'..=b'9' => digit - b'0',
                b'a'..=b'f' => digit - b'a' + 10,
                _ => return Err(RuleError::Hash),
            };
            *byte = *byte << 4 | value;
        }
    }
    Ok(hash)
}

/// A selector may be typed in several words: they become one.
fn join_selectors<'a>(words: impl IntoIterator<Item = &'a [u8]>) -> Result<Vec<Vec<u8>>, SetUserError> {
    let (mut joined, mut open): (Vec<Vec<u8>>, Option<Vec<u8>>) = (Vec::new(), None);
    for word in words {
        let mut selector = match open.take() {
            Some(mut open) => {
                open.push(b' ');
                open
            }
            None if word.starts_with(b"(") => Vec::new(),
            None => {
                joined.push(word.to_vec());
                continue;
            }
        };
        selector.extend_from_slice(word);
        if selector.ends_with(b")") {
            joined.push(selector);
        } else {
            open = Some(selector);
        }
    }
    match open {
        None => Ok(joined),
        Some(open) => Err(SetUserError::Unmatched(open)),
    }
}
