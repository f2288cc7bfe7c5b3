//! What a request asks, in the words that its client typed, cut: for logs of slow transactions.

use highwater_core::codec::{Malformed, Reader};

use super::Procedures;
use super::acl::ids::Named;
use super::command::Opcode;
use super::commands::words::is;
use super::interactive;
use super::moment::Moment;
use super::request::{Args, EngineRequest, Framing, Step, Watch};
use super::single::ARGS_AT;

/// Words that are kept of one request.
pub const MOST_WORDS: usize = 32;
/// Bytes that are kept of one word.
pub const MOST_WORD_BYTES: usize = 128;

/// Stands for words that may be secrets.
const REDACTED: &[u8] = b"(redacted)";

/// Settings whose values are secrets.
const SECRET_SETTINGS: &[&str] = &["requirepass", "masterauth", "masteruser"];

/// The command as which a request counts: `EXEC` for a whole block.
#[inline]
pub fn command_of(request: &EngineRequest<'_>, procedures: Procedures) -> Named {
    let name: &[u8] = match request.procedure {
        exec if exec == procedures.exec => match single(request.args) {
            Some(opcode) => return named(opcode, request.args),
            None => b"exec",
        },
        watch if watch == procedures.watch => b"watch",
        users if users == procedures.users => b"acl",
        interact if interact == procedures.interact => interactive::name_of(request.args),
        _ => b"hw.call",
    };
    Named::of(Opcode::find(name).expect("it has a row"), None)
}

/// The command of a request that has one, with its subcommand, if it has those.
#[inline]
fn named(opcode: Opcode, args: &[u8]) -> Named {
    let first = match opcode.spec().subcommands.is_empty() {
        true => None,
        false => args.get(ARGS_AT..).and_then(|args| Args::decode(&mut Reader::new(args)).ok()?.next()),
    };
    Named::of(opcode, first)
}

/// The one command of a request that is no block and watches nothing: it stands at its place.
#[inline]
fn single(args: &[u8]) -> Option<Opcode> {
    match args.get(Moment::BYTES..)? {
        [_, 0, 1, step @ ..] if !Framing::is_block(args[Moment::BYTES]) => {
            match Opcode::decode(*step.first()?) {
                Some(opcode) => Some(opcode),
                None => match Step::decode(&mut Reader::new(step)).ok()? {
                    Step::Command { opcode, .. } => Some(opcode),
                    Step::Literal(_) => None,
                },
            }
        }
        _ => None,
    }
}

/// Its words, cut to [`MOST_WORDS`] of [`MOST_WORD_BYTES`]; the last one says what is left out. `names`: those of procedures, by id.
pub fn words(request: &EngineRequest<'_>, procedures: Procedures, names: &[&str]) -> Vec<Vec<u8>> {
    let mut words = Words::default();
    let written = match request.procedure {
        exec if exec == procedures.exec => executed(request.args, &mut words),
        watch if watch == procedures.watch => watched(request.args, &mut words),
        interact if interact == procedures.interact => interacted(request.args, &mut words),
        // A change of users may hold passwords.
        users if users == procedures.users => {
            words.add(b"acl");
            words.add(b"(redacted)");
            Ok(())
        }
        procedure => {
            words.add(b"hw.call");
            words.add(names.get(usize::from(procedure.0)).unwrap_or(&"(unknown)").as_bytes());
            words.add(format!("({} bytes of arguments)", request.args.len()).as_bytes());
            Ok(())
        }
    };
    if written.is_err() {
        words.add(b"(cannot be shown)");
    }
    words.finish()
}

fn watched(args: &[u8], words: &mut Words) -> Result<(), Malformed> {
    let mut reader = Reader::new(args);
    Moment::decode(&mut reader)?;
    words.add(b"watch");
    Args::decode(&mut reader)?.for_each(|key| words.add(key));
    Ok(())
}

fn interacted(args: &[u8], words: &mut Words) -> Result<(), Malformed> {
    words.add(interactive::name_of(args));
    interactive::commands(args, |opcode, args| {
        words.add(opcode.spec().name.as_bytes());
        args.for_each(|word| words.add(word));
    })
}

fn executed(args: &[u8], words: &mut Words) -> Result<(), Malformed> {
    let mut reader = Reader::new(args);
    Moment::decode(&mut reader)?;
    let block = Framing::decode(&mut reader)?.block;
    for _ in 0..reader.varint()? {
        Watch::decode(&mut reader)?;
    }
    if block {
        words.add(b"multi");
    }
    for _ in 0..reader.varint()? {
        if let Step::Command { opcode, args, .. } = Step::decode(&mut reader)? {
            let name = opcode.spec().name;
            words.add(name.as_bytes());
            shown(opcode, args, words);
        }
    }
    if block {
        words.add(b"exec");
    }
    Ok(())
}

/// A command that was answered at the door, the same way.
pub fn local_words(opcode: Opcode, args: Args<'_>) -> Vec<Vec<u8>> {
    let mut words = Words::default();
    words.add(opcode.spec().name.as_bytes());
    shown(opcode, args, &mut words);
    words.finish()
}

/// A command's words but for its name; in the place of those that may be secrets it is said that they are not shown.
fn shown(opcode: Opcode, args: Args<'_>, words: &mut Words) {
    // How many words in front are no secrets, or `None` if none is one.
    let open = match opcode.spec().name {
        "auth" => Some(0),
        "acl" if args.into_iter().next().is_some_and(|word| is(word, "setuser")) => Some(1),
        "hello" => args.into_iter().position(|word| is(word, "auth")).map(|at| at + 1),
        _ => None,
    };
    let setting =
        opcode.spec().name == "config" && args.into_iter().next().is_some_and(|word| is(word, "set"));
    let mut before: &[u8] = &[];
    for (at, word) in args.enumerate() {
        let secret = setting && at % 2 == 0 && SECRET_SETTINGS.iter().any(|name| is(before, name));
        words.add(if secret || open.is_some_and(|open| at >= open) { REDACTED } else { word });
        before = word;
    }
}

#[derive(Default)]
struct Words {
    kept: Vec<Vec<u8>>,
    left_out: usize,
}

impl Words {
    fn add(&mut self, word: &[u8]) {
        if self.kept.len() == MOST_WORDS {
            self.left_out += 1;
            return;
        }
        let mut kept = word[..word.len().min(MOST_WORD_BYTES)].to_vec();
        if word.len() > MOST_WORD_BYTES {
            let more = format!("... ({} more bytes)", word.len() - MOST_WORD_BYTES);
            kept.extend_from_slice(more.as_bytes());
        }
        self.kept.push(kept);
    }

    fn finish(mut self) -> Vec<Vec<u8>> {
        if self.left_out > 0 {
            self.kept.pop();
            let more = format!("... ({} more arguments)", self.left_out + 1);
            self.kept.push(more.into_bytes());
        }
        self.kept
    }
}

#[cfg(test)]
mod tests {
    use highwater_core::ProcedureId;
    use highwater_core::codec::put_varint;

    use super::*;
    use crate::reply::Protocol;
    use crate::request::Effect;

    const PROCEDURES: Procedures = Procedures {
        exec: ProcedureId(0),
        watch: ProcedureId(1),
        users: ProcedureId(2),
        interact: ProcedureId(3),
    };
    const NAMES: &[&str] = &["redis.exec", "redis.watch", "redis.users", "redis.interact", "bank.transfer"];

    fn request(args: &[u8], procedure: ProcedureId) -> EngineRequest<'_> {
        EngineRequest {
            seq: 0,
            snapshot: false,
            freshness: None,
            session: None,
            procedure,
            args,
            effect: Effect::Writes,
            user: b"default",
        }
    }

    fn exec(block: bool, commands: &[&[&[u8]]]) -> Vec<u8> {
        let mut args = Moment::default().bytes().to_vec();
        Framing { protocol: Protocol::Resp2, block, again: false }.encode(&mut args);
        put_varint(&mut args, 0);
        put_varint(&mut args, commands.len() as u64);
        for command in commands {
            let opcode = Opcode::find(command[0]).unwrap();
            Step::encode_command(opcode, command[1..].iter().copied(), &mut args);
        }
        args
    }

    fn told(args: &[u8]) -> (&'static str, Vec<String>) {
        let request = request(args, PROCEDURES.exec);
        let words =
            words(&request, PROCEDURES, NAMES).into_iter().map(|word| String::from_utf8(word).unwrap());
        (command_of(&request, PROCEDURES).spec.name, words.collect())
    }

    #[test]
    fn a_command_is_told_as_it_was_typed() {
        let args = exec(false, &[&[b"SET", b"key", b"value"]]);
        assert_eq!(told(&args), ("set", ["set", "key", "value"].map(String::from).to_vec()));
        let args = exec(true, &[&[b"SET", b"a", b"1"], &[b"INCR", b"b"]]);
        let words = ["multi", "set", "a", "1", "incr", "b", "exec"].map(String::from).to_vec();
        assert_eq!(told(&args), ("exec", words));
    }

    #[test]
    fn long_ones_are_cut_and_say_so() {
        let long = vec![b'x'; 1000];
        let mut command: Vec<&[u8]> = vec![b"MSET"];
        command.extend(std::iter::repeat_n(&long[..], 100));
        let (name, words) = told(&exec(false, &[&command]));
        assert_eq!((name, words.len()), ("mset", MOST_WORDS));
        assert_eq!(words[1], format!("{}... (872 more bytes)", "x".repeat(MOST_WORD_BYTES)));
        assert_eq!(words[31], "... (70 more arguments)", "31 of 101 words are there");
    }

    #[test]
    fn of_users_nothing_is_told_and_of_calls_the_name() {
        let args = exec(false, &[&[b"SET", b"looks", b"like one"]]);
        let users = request(&args, PROCEDURES.users);
        assert_eq!(words(&users, PROCEDURES, NAMES), [&b"acl"[..], b"(redacted)"].map(<[u8]>::to_vec));
        let call = request(&args, ProcedureId(4));
        assert_eq!(command_of(&call, PROCEDURES).spec.name, "hw.call");
        let told = words(&call, PROCEDURES, NAMES);
        assert_eq!(told[..2], [&b"hw.call"[..], b"bank.transfer"].map(<[u8]>::to_vec));
        assert_eq!(words(&request(&args, ProcedureId(99)), PROCEDURES, NAMES)[1], b"(unknown)");
    }

    #[test]
    fn a_watch_is_told_and_garbage_is_no_panic() {
        let mut args = Moment::default().bytes().to_vec();
        Args::encode([&b"a"[..], b"b"].into_iter(), &mut args);
        let watch = request(&args, PROCEDURES.watch);
        assert_eq!(words(&watch, PROCEDURES, NAMES), [&b"watch"[..], b"a", b"b"].map(<[u8]>::to_vec));
        assert_eq!(command_of(&watch, PROCEDURES).spec.name, "watch");
        for len in 0..40 {
            let garbage = vec![0xff; len];
            let (name, words) = told(&garbage);
            assert_eq!((name, words.last().map(String::as_str)), ("exec", Some("(cannot be shown)")));
        }
    }
}
