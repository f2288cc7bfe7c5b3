//! Who a connection is.

use std::sync::Arc;

use super::user::{Hash, User, hash};
use super::{Access, DEFAULT};

/// What became of a connection's user.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    There,
    /// It was deleted: the connection ends.
    Deleted,
}

/// See the module.
#[derive(Debug)]
pub struct Caller {
    user: Arc<User>,
    /// The version of the users that `user` is of.
    seen: u64,
    /// The users were known then, from the table.
    known: bool,
    /// It was let in: with a password, or because none was needed.
    authenticated: bool,
    /// Nobody needs a password.
    open: bool,
    /// What it was let in with, if that was before the table was read: to be looked at again.
    credential: Option<Hash>,
}

impl Caller {
    /// Who has just connected.
    pub fn new(access: &Access) -> Caller {
        let user = access.default_user();
        let open = user.is_open();
        let (seen, known) = (access.version(), access.is_known());
        Caller { user, seen, known, authenticated: open, open, credential: None }
    }

    /// Its user; the default one until it has said who it is.
    pub fn user(&self) -> &User {
        &self.user
    }

    /// Which version of the users it has seen.
    pub fn seen(&self) -> u64 {
        self.seen
    }

    /// Whether it has to say who it is before it may do anything.
    #[inline]
    pub fn needs_authentication(&self) -> bool {
        !self.open && !self.authenticated
    }

    /// Whether it was let in, which `HELLO` asks for even where nobody needs a password.
    pub fn is_authenticated(&self) -> bool {
        self.authenticated
    }

    /// Whether some user is another since it looked.
    #[inline]
    pub fn is_behind(&self, access: &Access) -> bool {
        self.seen != access.version()
    }

    /// Looks at the users.
    pub fn look(&mut self, access: &Access) -> Standing {
        // Before the users: should they change meanwhile, it looks again.
        self.seen = access.version();
        let was_known = std::mem::replace(&mut self.known, access.is_known());
        let default = access.default_user();
        self.open = default.is_open();
        if !was_known && self.known {
            return self.look_again(access, default);
        }
        match access.user(self.user.name()) {
            Some(user) => self.user = user,
            None => return Standing::Deleted,
        }
        Standing::There
    }

    /// The table was read: whoever it does not let in is nobody yet.
    fn look_again(&mut self, access: &Access, default: Arc<User>) -> Standing {
        let user = access.user(self.user.name());
        let let_in = match (&user, &self.credential) {
            (Some(user), Some(credential)) => user.accepts(credential),
            (Some(user), None) => user.is_open(),
            (None, _) => false,
        };
        self.authenticated = let_in;
        self.user = user.filter(|_| let_in).unwrap_or(default);
        self.credential = None;
        Standing::There
    }

    /// Says who it is; whether that is believed. What is not true changes nothing.
    pub fn authenticate(&mut self, access: &Access, name: &[u8], password: &[u8]) -> bool {
        let credential = hash(password);
        let user = access.user(name);
        // Who asks for a user that is not there waits as long.
        let known = user.as_ref().is_some_and(|user| user.accepts(&credential));
        let Some(user) = user.filter(|_| known) else { return false };
        self.user = user;
        self.authenticated = true;
        self.known = access.is_known();
        self.credential = (!self.known).then_some(credential);
        true
    }

    /// As if it had just connected.
    pub fn reset(&mut self, access: &Access) {
        *self = Caller::new(access);
    }

    /// The name that `AUTH` with one word means.
    pub const fn default_name() -> &'static [u8] {
        DEFAULT
    }
}
