//! Properties of commands, as bits: Redis's flags, which `COMMAND` tells, and ours, which decide what becomes of it here.

macro_rules! flags {
    ($($(#[doc = $doc:literal])+ $name:ident $(= $word:literal)?;)*) => {
        #[allow(non_camel_case_types, clippy::upper_case_acronyms, reason = "numbers the flags, and is nowhere named")]
        enum Place { $($name),* }
        $($(#[doc = $doc])+ pub const $name: u32 = 1 << Place::$name as u32;)*
        /// Redis's words, in its order; a flag's bit is the place of its word.
        const WORDS: &[&str] = &[$($($word,)?)*];
    };
}

flags! {
    /// It changes data.
    WRITE = "write";
    /// It looks at data, and changes none.
    READONLY = "readonly";
    /// It may need memory.
    DENYOOM = "denyoom";
    /// It is for operators.
    ADMIN = "admin";
    /// It is about channels.
    PUBSUB = "pubsub";
    /// No script may call it.
    NOSCRIPT = "noscript";
    /// It may wait for data.
    BLOCKING = "blocking";
    /// Redis runs it while it loads.
    LOADING = "loading";
    /// Redis runs it on a replica that has lost its master.
    STALE = "stale";
    /// `MONITOR` does not show it.
    SKIP_MONITOR = "skip_monitor";
    /// It is never told as slow.
    SKIP_SLOWLOG = "skip_slowlog";
    /// It takes constant or logarithmic time.
    FAST = "fast";
    /// A client that has not told a password may ask it.
    NO_AUTH = "no_auth";
    /// It may change data, though it need not.
    MAY_REPLICATE = "may_replicate";
    /// Its count of keys may be 0.
    NO_MANDATORY_KEYS = "no_mandatory_keys";
    /// Redis does not run it while it loads beside its work.
    NO_ASYNC_LOADING = "no_async_loading";
    /// It is refused inside `MULTI`.
    NO_MULTI = "no_multi";
    /// Its keys have no fixed places.
    MOVABLEKEYS = "movablekeys";
    /// Redis runs it beside a script that takes too long.
    ALLOW_BUSY = "allow_busy";

    /// It looks at all names, in steps.
    WALKS;
    /// It goes on at a cursor.
    SCANS;
    /// It removes all keys, in steps.
    EMPTIES;
    /// It runs a script, which may write keys that no word of it names.
    RUNS_SCRIPTS;
    /// It runs other code that may do so.
    RUNS_MODULES;
    /// It changes how replies are written, or who asks: it stands alone, in no block and in no open transaction.
    STANDS_ALONE;
    /// Some of its subcommands change users.
    CHANGES_USERS;
    /// Its answer at the door may be long.
    LONG;
    /// It touches no data and means something in a script.
    IN_SCRIPTS;
    /// A connection that reads nothing but messages may ask it.
    WHILE_LISTENING;
}

/// Flags of one command. At most 32: it is `flags!` that counts them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flags(pub u32);

impl Flags {
    pub const NONE: Flags = Flags(0);

    /// Whether it has some of these.
    #[inline]
    pub const fn has(self, some: u32) -> bool {
        self.0 & some != 0
    }

    /// Redis's words for those that Redis has.
    pub fn words(self) -> impl Iterator<Item = &'static str> + Clone {
        WORDS.iter().enumerate().filter(move |(at, _)| self.has(1 << at)).map(|(_, word)| *word)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_stand_where_their_bits_are() {
        assert_eq!(Flags(ALLOW_BUSY | WALKS | WRITE).words().collect::<Vec<_>>(), ["write", "allow_busy"]);
        assert_eq!(Flags(WHILE_LISTENING | WALKS).words().next(), None);
    }
}
