//! The table of all commands: the entries of all families, each at the place of its number.

use highwater_core::Transaction;

use super::*;
use crate::Door;
use crate::acl::ids::MOST;
use crate::client_state::ClientState;
use crate::command::Opcode;
use crate::effort::Effort;
use crate::keyspace::Done;

macro_rules! families {
    (data: $($data:ident)*; local: $($local:ident)*; control: $($control:ident)*;) => {
        /// A family, by its place in the list.
        #[allow(non_camel_case_types, clippy::upper_case_acronyms, reason = "as the files are called")]
        #[derive(Clone, Copy)]
        enum Family { $($data,)* $($local,)* }

        #[allow(non_upper_case_globals, reason = "as the files are called")]
        mod family {
            $(pub const $data: u8 = super::Family::$data as u8;)*
            $(pub const $local: u8 = super::Family::$local as u8;)*
        }

        const FAMILIES: &[&[Spec]] = &[$($data::ENTRIES,)* $($local::ENTRIES,)* $($control::ENTRIES,)*];

        /// All commands by name.
        pub mod op {
            $(pub use super::super::$data::op::*;)*
            $(pub use super::super::$local::op::*;)*
            $(pub use super::super::$control::op::*;)*
        }

        /// Runs a command on data.
        #[inline]
        pub(super) fn run<T: Transaction>(
            spec: &Spec,
            args: Args<'_>,
            keyspace: &mut Keyspace<'_, T>,
            reply: &mut Reply<'_>,
        ) -> Done {
            match spec.family {
                $(family::$data => super::$data::run(spec.opcode, args, keyspace, reply),)*
                _ => Err(Failure::Stop(Stop::Malformed)),
            }
        }

        /// Runs a command on none.
        fn run_local(
            spec: &Spec,
            args: Args<'_>,
            client: &mut ClientState,
            door: &Door,
            effort: &Effort,
            reply: &mut Reply<'_>,
        ) -> Result<(), CommandError> {
            match spec.family {
                $(family::$local => super::$local::run(spec.opcode, args, client, door, effort, reply),)*
                _ => unreachable!("{} is answered by no family", spec.name),
            }
        }
    };
}

families! {
    data: algebra bitfield bits blocking counters expiry flush functions hashes keys lists modules object scan scripts sessions sets strings tables
        zalgebra zranges zsets;
    local: acl admin auth client cluster connection debug elsewhere info memory sentinel server slow;
    control: control;
}

/// How many commands there are.
const COUNT: usize = {
    let (mut count, mut family) = (0, 0);
    while family < FAMILIES.len() {
        count += FAMILIES[family].len();
        family += 1;
    }
    count
};

/// All entries, by number.
static COMMANDS: [Spec; COUNT] = collect();

/// Puts each entry to its place. A number that is missing, or there twice, does not compile.
const fn collect() -> [Spec; COUNT] {
    assert!(COUNT < NONE as usize, "a number stands in a byte, and one of them is for none");
    let (mut all, mut there) = ([Spec::BARE; COUNT], [false; COUNT]);
    let mut family = 0;
    while family < FAMILIES.len() {
        let mut at = 0;
        while at < FAMILIES[family].len() {
            let entry = FAMILIES[family][at];
            let number = entry.opcode.byte() as usize;
            assert!(number < COUNT, "a new command has the next number: there is none to spare");
            assert!(!there[number], "two commands have one number");
            there[number] = true;
            all[number] = entry.completed(0, family as u8);
            at += 1;
        }
        family += 1;
    }
    let (mut at, mut next) = (0, 0);
    while at < COUNT {
        let family = all[at].family;
        all[at] = all[at].completed(next, family);
        next += 1 + all[at].subcommands.len() as u16;
        at += 1;
    }
    assert!((next as usize) < MOST, "sets of commands and subcommands have room for all");
    all
}

/// No entry.
const NONE: u8 = 0xff;

/// Entries by a hash of their names; what is taken goes to the next place.
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

impl Opcode {
    /// The command of a name, in letters of any size.
    pub fn find(name: &[u8]) -> Option<Opcode> {
        let mut place = place_of(name);
        loop {
            let at = PLACES[place];
            if COMMANDS.get(usize::from(at))?.name.as_bytes().eq_ignore_ascii_case(name) {
                return Some(Opcode::numbered(at));
            }
            place = (place + 1) % PLACES.len();
        }
    }

    /// The command of a number that came from outside.
    pub fn decode(byte: u8) -> Option<Opcode> {
        (usize::from(byte) < COMMANDS.len()).then_some(Opcode::numbered(byte))
    }

    /// All of them, in their order.
    pub fn all() -> impl ExactSizeIterator<Item = Opcode> + Clone {
        COMMANDS.iter().map(|spec| spec.opcode)
    }

    /// Its entry.
    #[inline]
    pub fn spec(self) -> &'static Spec {
        &COMMANDS[usize::from(self.byte())]
    }
}

/// Answers a command that touches no data. Its entry has been checked. What that costs is counted.
pub fn answer(
    opcode: Opcode,
    args: Args<'_>,
    client: &mut ClientState,
    door: &Door,
    effort: &mut Effort,
    out: &mut Vec<u8>,
) {
    let (start, words) = (out.len(), effort.begin(args));
    let effort = &*effort;
    let mut reply = Reply::new(out, client.protocol);
    if let Err(error) = run_local(opcode.spec(), args, client, door, effort, &mut reply) {
        reply.out.truncate(start);
        reply.error(error);
    }
    effort.told(out.len() - start, words);
}
