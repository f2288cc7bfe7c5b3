//! Every command this door knows: one row each, and the checks that need nothing but the row.
//!
//! A name that has no row is an unknown command; [`Opcode::find`] is the only way from a name to a row.

pub mod docs;
pub mod facts;
mod table;

use super::errors::CommandError;
pub use table::COMMANDS;

/// What a command is, by who runs it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Command {
    /// Touches data: runs inside a transaction of the engine.
    Data(Data),
    /// Touches no data: answered at the door.
    Local(Local),
    /// Begins or ends something on its connection; never queued, but for `UNWATCH`.
    Control(Control),
}

/// Commands that touch data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the table says what each does")]
pub enum Data {
    Get,
    Set,
    Incr,
    Del,
    Mget,
    Mset,
    Incrby,
    Decr,
    Decrby,
    Append,
    Strlen,
    Exists,
    Setnx,
    Setex,
    Psetex,
    Msetnx,
    Getset,
    Getdel,
    Getex,
    Getrange,
    Substr,
    Setrange,
    Incrbyfloat,
    Setbit,
    Getbit,
    Bitcount,
    Bitpos,
    Bitop,
    Bitfield,
    BitfieldRo,
    Expire,
    Pexpire,
    Expireat,
    Pexpireat,
    Ttl,
    Pttl,
    Expiretime,
    Pexpiretime,
    Persist,
    Type,
    Unlink,
    Touch,
    Rename,
    Renamenx,
    Copy,
    Scan,
    Keys,
    Randomkey,
    Dbsize,
    Keysinslot,
    Flushdb,
    Flushall,
    Object,
    Memory,
    DebugObject,
    Hset,
    Hmset,
    Hsetnx,
    Hget,
    Hmget,
    Hgetall,
    Hdel,
    Hlen,
    Hkeys,
    Hvals,
    Hexists,
    Hincrby,
    Hincrbyfloat,
    Hstrlen,
    Hrandfield,
    Hscan,
    Sadd,
    Srem,
    Smembers,
    Sismember,
    Smismember,
    Scard,
    Spop,
    Srandmember,
    Smove,
    Sscan,
    Sinter,
    Sunion,
    Sdiff,
    Sinterstore,
    Sunionstore,
    Sdiffstore,
    Sintercard,
    Lpush,
    Rpush,
    Lpushx,
    Rpushx,
    Lpop,
    Rpop,
    Llen,
    Lrange,
    Lindex,
    Lset,
    Linsert,
    Lrem,
    Ltrim,
    Lpos,
    Lmove,
    Rpoplpush,
    Lmpop,
    Zadd,
    Zrem,
    Zscore,
    Zmscore,
    Zincrby,
    Zcard,
    Zrandmember,
    Zscan,
    Zmpop,
    Zpopmin,
    Zpopmax,
    Zrank,
    Zrevrank,
    Zcount,
    Zlexcount,
    Zrange,
    Zrangestore,
    Zrangebyscore,
    Zrevrangebyscore,
    Zrangebylex,
    Zrevrangebylex,
    Zrevrange,
    Zremrangebyscore,
    Zremrangebylex,
    Zremrangebyrank,
    Zunion,
    Zunionstore,
    Zinter,
    Zinterstore,
    Zdiff,
    Zdiffstore,
    Zintercard,
    Blpop,
    Brpop,
    Bzpopmin,
    Bzpopmax,
    Blmove,
    Brpoplpush,
    Blmpop,
    Bzmpop,
    Table,
    HwGet,
    HwPut,
    HwDel,
    HwRange,
    Eval,
    EvalRo,
    Evalsha,
    EvalshaRo,
    Script,
    Fcall,
    FcallRo,
    Function,
    Module,
    Invoke,
    InvokeRo,
    Session,
    Outcome,
}

/// Commands that touch no data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the table says what each does")]
pub enum Local {
    Ping,
    Echo,
    Hello,
    Select,
    Auth,
    Client,
    Command,
    Info,
    Config,
    Time,
    Role,
    Cluster,
    Sentinel,
    Save,
    Shutdown,
    Replicaof,
    Swapdb,
    Monitor,
    Debug,
    Lolwut,
    Wait,
    Slowlog,
    Latency,
    HotKeys,
    Readonly,
    Readwrite,
    Freshness,
    Procedures,
    Acl,
    MemoryOf,
    Lastsave,
}

/// Commands about the connection and its transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the table says what each does")]
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
    /// The last one.
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

/// One row.
#[derive(Debug)]
pub struct Spec {
    /// Who runs it.
    pub command: Command,
    /// In small letters.
    pub name: &'static str,
    /// How many words, the name included; negative: at least so many.
    pub arity: i8,
    /// Redis's flags, separated by spaces.
    pub flags: &'static str,
    /// Which words are keys.
    pub keys: Keys,
    /// Why there are none, or none in a fixed place; `None`: `keys` says where they are.
    pub keyless: Option<Keyless>,
    /// `string`, `generic`, `hash` and so on, as Redis groups them.
    pub group: &'static str,
    /// The version of Redis that brought it; of our own commands, ours.
    pub since: &'static str,
    /// One sentence.
    pub summary: &'static str,
    /// Empty unless the second word chooses one.
    pub subcommands: &'static [Subcommand],
}

/// A second word that changes what a command does.
#[derive(Debug)]
pub struct Subcommand {
    /// In small letters.
    pub name: &'static str,
    /// With the command before it, as errors name it.
    pub full_name: &'static str,
    /// How many words, both names included; negative: at least so many.
    pub arity: i8,
}

/// No row.
const NONE: u8 = 0xff;

/// Rows by a hash of their names; what is taken goes to the next place.
static PLACES: [u8; 1024] = places();

const fn places() -> [u8; 1024] {
    let (mut places, mut at) = ([NONE; 1024], 0);
    while at < COMMANDS.len() {
        let mut place = place_of(COMMANDS[at].name.as_bytes());
        while places[place] != NONE {
            place = (place + 1) % 1024;
        }
        places[place] = at as u8;
        at += 1;
    }
    places
}

const fn place_of(name: &[u8]) -> usize {
    let (mut hash, mut at) = (0x811c_9dc5u32, 0);
    while at < name.len() {
        hash = (hash ^ (name[at] | 0x20) as u32).wrapping_mul(0x0100_0193);
        at += 1;
    }
    ((hash ^ hash >> 16) % 1024) as usize
}

/// A row, by number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Opcode(u8);

impl Opcode {
    /// The row of a name, in letters of any size.
    pub fn find(name: &[u8]) -> Option<Opcode> {
        let mut place = place_of(name);
        loop {
            let at = PLACES[place];
            if COMMANDS.get(usize::from(at))?.name.as_bytes().eq_ignore_ascii_case(name) {
                return Some(Opcode(at));
            }
            place = (place + 1) % PLACES.len();
        }
    }

    /// The row of a number that came from outside.
    pub fn decode(byte: u8) -> Option<Opcode> {
        (usize::from(byte) < COMMANDS.len()).then_some(Opcode(byte))
    }

    /// Its number.
    pub fn byte(self) -> u8 {
        self.0
    }

    /// The row.
    pub fn spec(self) -> &'static Spec {
        &COMMANDS[usize::from(self.0)]
    }
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
    pub fn is_ordinary(&self) -> bool {
        matches!(self.command, Command::Data(data) if !matches!(data, Data::Session | Data::Outcome))
    }

    /// Whether it may run under a number of a session: what is ordinary, procedures, and what commits an open transaction.
    pub fn may_run_once(&self) -> bool {
        self.is_ordinary() || matches!(self.command, Command::Control(Control::Call | Control::Commit))
    }

    /// Whether it runs a script, which may write keys that no word of it names.
    pub fn runs_scripts(&self) -> bool {
        use Data::{Eval, EvalRo, Evalsha, EvalshaRo, Fcall, FcallRo};
        matches!(self.command, Command::Data(Eval | EvalRo | Evalsha | EvalshaRo | Fcall | FcallRo))
    }

    /// Whether it asks in its transaction what its caller may do: which commands a script calls, and which tables are listed, is known only there.
    pub fn asks_rules(&self) -> bool {
        self.runs_scripts() || matches!(self.command, Command::Data(Data::Table))
    }

    /// Whether it asks in its transaction who its caller is: sessions belong to users.
    pub fn asks_caller(&self) -> bool {
        self.keyless == Some(Keyless::Session)
    }

    /// Whether it runs code that may write keys that no word of it names.
    pub fn runs_code(&self) -> bool {
        self.runs_scripts() || matches!(self.command, Command::Data(Data::Invoke | Data::InvokeRo))
    }

    /// The event of `LATENCY` as which it counts when it takes long.
    pub fn latency_event(&self) -> &'static str {
        if self.has_flag("fast") { "fast-command" } else { "command" }
    }

    /// Whether it touches data and changes none.
    pub fn reads(&self) -> bool {
        self.flags.starts_with("readonly")
    }

    /// Whether word `word` is a key, or may be one because others say how many there are.
    pub fn may_be_key(&self, word: usize) -> bool {
        self.keys.contains(word) || self.has_flag("movablekeys")
    }

    /// Whether it has this flag.
    pub fn has_flag(&self, wanted: &str) -> bool {
        self.flags().any(|flag| flag == wanted)
    }

    /// The flags, one by one.
    pub fn flags(&self) -> impl Iterator<Item = &'static str> + Clone {
        self.flags.split(' ')
    }
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

    #[test]
    fn rows_can_be_found_and_are_named_once() {
        for (at, spec) in COMMANDS.iter().enumerate() {
            let upper = spec.name.to_ascii_uppercase();
            assert_eq!(Opcode::find(upper.as_bytes()), Opcode::decode(at as u8), "{upper}");
        }
        assert_eq!(Opcode::find(b""), None);
        assert_eq!(Opcode::find(b"gets"), None);
        assert!(COMMANDS.len() < 0xfe, "0xfe and 0xff stand for something else where an opcode is");
    }

    #[test]
    fn data_is_read_or_written() {
        for spec in COMMANDS {
            let data = matches!(spec.command, Command::Data(_));
            let first = spec.flags().next();
            assert_eq!(data, spec.reads() || first == Some("write"), "{}", spec.name);
        }
    }
}
