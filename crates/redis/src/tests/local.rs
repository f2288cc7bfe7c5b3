//! Every command that a node answers by itself, with the most that a client can ask of it: alone, and in a `MULTI`. Steps are counted, and not time.

use highwater_seam::Refusal;

use super::clock::cpu_ms;
use super::double::{Client, Node, multibulk};
use crate::Allowance;
use crate::command::{Command, Opcode};
use crate::connection::COMMAND_WORK;
use crate::effort::MOST_STEPS;
use crate::glob::TAKEN;

type Words = Vec<Vec<u8>>;

/// Steps of one command at most: of patterns, and of all together, where much is told.
const MOST_OF_PATTERNS: u64 = 2_100_000;
const MOST_OF_ONE: i64 = 32 << 20;

/// The cost of a command, or of several.
struct Cost {
    /// Steps of patterns that were taken.
    patterns: u64,
    /// Steps that were counted as work, beside the bytes.
    steps: i64,
    reply: Vec<u8>,
}

/// Asks all of it. What would go on to the engine is refused.
fn cost(client: &mut Client, commands: usize, bytes: &[u8]) -> Cost {
    let (mut allowance, taken, began) = (Allowance::WHOLE, TAKEN.get(), cpu_ms());
    client.connection.receive(bytes);
    while let Some(seq) = client.connection.next(&mut allowance).map(|request| request.seq) {
        client.connection.refused(seq, Refusal::NoQuorum);
    }
    let reply = client.connection.output().to_vec();
    client.connection.wrote(reply.len());
    let took = cpu_ms() - began;
    assert!(took < 8_000, "{}: {took} ms", String::from_utf8_lossy(&bytes[..bytes.len().min(100)]));
    let work = Allowance::WHOLE.work - allowance.work - COMMAND_WORK * commands as i64;
    let steps = work - (bytes.len() + reply.len()) as i64;
    Cost { patterns: TAKEN.get() - taken, steps, reply }
}

fn bytes(words: &Words) -> Vec<u8> {
    multibulk(words.iter().map(Vec::as_slice))
}

/// Every command and subcommand that is answered here, with as many words as it may have of some kind, and a few very long ones.
fn with_any_words(many: usize, long: usize) -> Vec<Words> {
    let mut all = Vec::new();
    for spec in Opcode::all().map(Opcode::spec).filter(|spec| spec.command == Command::Local) {
        let own = std::iter::once((None, spec.arity)).filter(|_| spec.subcommands.is_empty());
        let subs =
            spec.subcommands.iter().map(|sub| (Some(sub.full_name.split('|').nth(1).unwrap()), sub.arity));
        for (sub, arity) in own.chain(subs) {
            let head: Words = [Some(spec.name), sub].into_iter().flatten().map(|word| word.into()).collect();
            let least = (arity.unsigned_abs() as usize).saturating_sub(head.len());
            let words = |most: usize| if arity < 0 { most.max(least) } else { least };
            for (word, count) in [
                (b"*a*b*c*d".to_vec(), words(many)),
                (b"set".to_vec(), words(many)),
                (b"7".to_vec(), words(many)),
                (stars(long), words(3)),
                ([&b"*["[..], &b"A".repeat(long)].concat(), words(3)),
                (stars(1_000), words(many / 100)),
            ] {
                all.push([head.clone(), vec![word; count]].concat());
            }
        }
    }
    all
}

fn stars(count: usize) -> Vec<u8> {
    [&b"*".repeat(count)[..], b"zz"].concat()
}

fn again(words: &[&str], count: usize) -> Words {
    words.repeat(count).into_iter().map(Into::into).collect()
}

/// The dearest commands that have a form of their own; the last word is said again and again.
fn with_words_of_theirs(many: usize, long: usize) -> Vec<Words> {
    let rows: Vec<(&str, Vec<Vec<u8>>)> = vec![
        ("COMMAND LIST FILTERBY PATTERN", vec![stars(long)]),
        ("COMMAND LIST FILTERBY PATTERN", vec![stars(1_000)]),
        ("COMMAND LIST FILTERBY PATTERN", vec![[&b"*["[..], &b"A".repeat(1_000)].concat()]),
        ("COMMAND LIST FILTERBY ACLCAT", vec![stars(long)]),
        ("COMMAND INFO", vec![b"client".to_vec(); 2_048.min(many)]),
        ("COMMAND DOCS", vec![b"set".to_vec(); 2_048.min(many)]),
        ("COMMAND GETKEYS MSET", vec![b"a".to_vec(); many / 2 * 2]),
        ("COMMAND GETKEYSANDFLAGS MSET", vec![b"a".to_vec(); many / 2 * 2]),
        ("COMMAND GETKEYS", again(&["HW.ONCE", "1", "1"], many / 3)),
        ("CONFIG GET", vec![b"*a*b*c*d".to_vec(); 400.min(many)]),
        ("CONFIG GET", vec![stars(1_000); many / 100]),
        ("CONFIG SET", vec![b"proc-title-template".to_vec(), stars(long)]),
        ("LATENCY HISTOGRAM", again(&["set", "get", "incr"], many / 3)),
        ("LATENCY HISTOGRAM", vec![b"config".to_vec(); 2_000.min(many)]),
        ("INFO", vec![b"everything".to_vec(); many]),
        ("INFO", vec![b"everything".to_vec()]),
        ("CLIENT LIST ID", vec![b"1".to_vec(); many]),
        ("CLIENT LIST", vec![]),
        ("CLIENT KILL", again(&["ADDR", "1.2.3.4:5"], many / 2)),
        ("CLUSTER KEYSLOT", vec![stars(long)]),
        ("ACL DRYRUN default MSET", vec![b"a".to_vec(); many / 2 * 2]),
        ("DEBUG STRINGMATCH-LEN 16000000", vec![b"*a*b*c".to_vec()]),
        ("DEBUG STRINGMATCH-LEN 1000", vec![stars(60_000)]),
        ("DEBUG SLEEP 0.01", vec![]),
        ("HW.PROCEDURES", vec![stars(1_000)]),
        ("PING", vec![]),
        ("ECHO", vec![stars(long)]),
        ("HELLO 2 AUTH default", vec![stars(long)]),
    ];
    rows.into_iter().map(|(head, rest)| [head.split(' ').map(Into::into).collect(), rest].concat()).collect()
}

fn shown(words: &Words) -> String {
    let shown =
        words.iter().take(4).map(|word| String::from_utf8_lossy(&word[..word.len().min(20)]).into_owned());
    format!("{} of {} words", shown.collect::<Vec<_>>().join(" "), words.len())
}

/// Once: `COMMAND GETKEYS HW.ONCE 1 1 HW.ONCE 1 1 ..` was one call for each `HW.ONCE`: a million words of them could be
/// more than a worker's stack.
#[test]
fn no_command_that_is_answered_here_takes_long_alone() {
    let node = Node::new();
    let all = [with_any_words(20_000, 100_000), with_words_of_theirs(300_000, 8_000_000)].concat();
    assert!(all.len() > 600, "{}", all.len());
    for words in &all {
        let Cost { patterns, steps, .. } = cost(&mut node.client(), 1, &bytes(words));
        assert!(patterns <= MOST_OF_PATTERNS || words[0] == b"DEBUG", "{}: {patterns}", shown(words));
        assert!(patterns <= MOST_STEPS, "{}: {patterns}", shown(words));
        assert!(steps <= MOST_OF_ONE || words[0] == b"ECHO", "{}: {steps}", shown(words));
        assert!(
            patterns == 0 || steps >= patterns as i64,
            "{}: {steps} are counted of {patterns}",
            shown(words)
        );
    }
}

#[test]
fn no_block_of_them_takes_long() {
    let node = Node::new();
    let ours = with_any_words(2_000, 30_000).into_iter().map(|words| (words, 60_000));
    let theirs = with_words_of_theirs(2_000, 30_000).into_iter().map(|words| (words, 9_000_000));
    let mut refused = 0;
    for (words, most_bytes) in ours.chain(theirs) {
        let command = bytes(&words);
        let count = (most_bytes / command.len()).clamp(2, 3_000);
        let client = &mut node.client();
        client.ask("MULTI");
        cost(client, count, &command.repeat(count));
        let Cost { patterns, steps, reply } = cost(client, 1, &bytes(&vec![b"EXEC".to_vec()]));
        let most = MOST_STEPS + MOST_OF_PATTERNS;
        assert!(
            patterns <= most + MOST_STEPS * u64::from(words[0] == b"DEBUG"),
            "{}: {patterns}",
            shown(&words)
        );
        assert!(steps <= MOST_OF_ONE + MOST_STEPS as i64, "{count} of {}: {steps}", shown(&words));
        if reply.starts_with(b"-EXECABORT Transaction discarded because it takes too long") {
            refused += 1;
            assert_eq!(client.ask("PING"), "+PONG\r\n", "the block is over");
        }
    }
    assert!(refused > 3, "{refused} blocks were refused");
    // What clients do send in blocks is none of these.
    let client = &mut node.client();
    client.ask("MULTI");
    for command in
        ["PING", "CLIENT LIST", "INFO", "CONFIG GET *", "COMMAND LIST FILTERBY PATTERN *get*", "TIME"]
    {
        (0..20).for_each(|_| drop(client.ask(command)));
    }
    assert!(client.ask("EXEC").starts_with("*120\r\n"));
}

/// The steps of a command are its share of a turn: whoever asks for much has the next share later.
#[test]
fn a_share_has_few_commands_that_take_long() {
    let mut client = Node::new().client();
    let one = bytes(&vec![
        b"COMMAND".to_vec(),
        b"LIST".to_vec(),
        b"FILTERBY".to_vec(),
        b"PATTERN".to_vec(),
        stars(1_000),
    ]);
    client.connection.receive(&one.repeat(60));
    let (before, mut allowance) = (TAKEN.get(), Allowance { work: 128 << 10, ..Allowance::WHOLE });
    assert!(client.connection.next(&mut allowance).is_none());
    assert!(TAKEN.get() - before < MOST_OF_PATTERNS, "one of them");
    assert!(client.connection.has_more() && allowance.work < 0);
    // Replies that nobody wants cost what they cost.
    let mut mute = Node::new().client();
    mute.ask("CLIENT REPLY OFF");
    let Cost { steps, reply, .. } = cost(&mut mute, 1, &bytes(&vec![b"COMMAND".to_vec(), b"DOCS".to_vec()]));
    assert!(reply.is_empty() && steps > 100_000, "{steps}");
}
