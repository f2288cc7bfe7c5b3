//! Stories of the protocol, one file each in `scripts/`: test, specification and tutorial at once.
//!
//! A line that starts with `>` is a command, the lines below it are what came of it, and `#` tells the story. What came of
//! it is told in words (who leads, who adopted whose log, what was decided), then come the messages that are under way.
//!
//! Every file in `scripts/` is played: a new one needs no other line anywhere. `HIGHWATER_SCRIPT=normal_run` plays only
//! those whose names contain that. `HIGHWATER_RECORD=1 cargo test -p highwater-consensus --test protocol scripts::` writes the
//! answers anew; read the diff.
//!
//! | command | meaning |
//! |---|---|
//! | `cluster N S` | N nodes with S streams each; nobody leads |
//! | `campaign N` | node N stands for election at once |
//! | `propose N S WORD...` | node N appends entries to stream S |
//! | `deliver [A>B] [KIND] [COUNT]` | what is under way arrives, oldest first; what it causes stays under way |
//! | `run` | everything arrives until nothing is under way |
//! | `drop [A>B] [KIND]` | what is under way is lost |
//! | `twice [A>B] [KIND]` | what is under way will arrive twice |
//! | `backwards [A>B] [KIND]` | what is under way will arrive in the opposite order |
//! | `flight` | shows what is under way |
//! | `cut N...` / `mend` | nothing reaches or leaves these nodes / all are connected again |
//! | `mute A>B` | what A sends to B is lost until `mend`, and neither notices |
//! | `sleep N` / `wake N` | node N's timers do not run and nothing arrives there / both happen, what arrived first |
//! | `gone A B` | node A sees that B's process is dead |
//! | `wait MS` | time passes; timers run; what they send stays under way |
//! | `live MS` | time passes, and what is sent arrives within a millisecond |
//! | `crash N` / `return N LIFE BASE...` | the memory is lost / a new life starts behind these indexes |
//! | `admit N A` | node N, the next time it wins, makes A's present life a voter |
//! | `trim N S INDEX` | node N forgets the entries of stream S up to INDEX |
//! | `copy N S INDEX` | node N has copied the state, which reaches to INDEX in stream S |
//! | `show` | every node and its logs; `|` marks how far they are decided |

use std::collections::{BTreeSet, VecDeque};
use std::fmt::Write;
use std::path::{Path, PathBuf};

use crate::common::{Node, Wire, as_change, founder, founders};
use bytes::Bytes;
use highwater_consensus::*;
use highwater_core::{Ballot, Durability, EntryIndex, Incarnation, NodeId};

const MS: Nanos = 1_000_000;

struct Flight {
    from: Voter,
    to: u8,
    wire: Wire,
}

#[derive(Default)]
struct Stage {
    now: Nanos,
    nodes: Vec<Node>,
    dead: BTreeSet<u8>,
    cut: BTreeSet<u8>,
    mute: BTreeSet<(u8, u8)>,
    asleep: BTreeSet<u8>,
    held: Vec<Flight>,
    flights: VecDeque<Flight>,
    /// Each node as it was when `tell` last looked.
    told: Vec<Told>,
    /// Who was told to ask, and what it had promised: it may ask again and again.
    asked: BTreeSet<(Voter, Ballot)>,
    /// How far each stream is decided, as some node knows.
    decided: Vec<EntryIndex>,
    log: String,
}

/// What a story tells of a node when it changes.
#[derive(PartialEq)]
struct Told {
    me: Voter,
    standing: Standing,
    promised: Ballot,
    members: Members,
    streams: Vec<ToldStream>,
}

#[derive(PartialEq)]
struct ToldStream {
    tail: Tail,
    undecided: Vec<(EntryIndex, Bytes)>,
    too_far: bool,
}

impl Told {
    fn of(node: &Node) -> Told {
        let stream = |stream: &Stream| {
            let tail = stream.tail();
            let undecided = (tail.decided.0 + 1..=tail.last.0).map(EntryIndex);
            let held = |index| stream.entry(index).map(|entry| (index, entry.clone()));
            let undecided = undecided.filter_map(held).collect();
            ToldStream { tail, undecided, too_far: stream.too_far().is_some() }
        };
        Told {
            me: node.me,
            standing: node.election.standing(),
            promised: node.election.promised(),
            members: node.members(),
            streams: node.streams.iter().map(stream).collect(),
        }
    }
}

fn election(nodes: u8) -> ElectionOptions {
    ElectionOptions { nodes, heartbeat: 10 * MS, timeout: 50 * MS }
}

const STREAM: StreamOptions = StreamOptions {
    window_bytes: 1 << 20,
    backlog_bytes: 256 << 20,
    durability: Durability::Memory,
    retry: 20 * MS,
};

impl Stage {
    /// Runs one command; what came of it ends up in `log`.
    fn command(&mut self, line: &str) {
        let words: Vec<&str> = line.split_whitespace().collect();
        let number = |at: usize| words[at].parse::<u64>().expect("a number");
        let node = |at: usize| number(at) as usize;
        match words[0] {
            "cluster" => {
                let bases = || vec![(EntryIndex::NONE, founders(number(1) as u8)); node(2)];
                let new = |n| Node::new(founder(n), bases(), election(number(1) as u8), STREAM, n.into());
                self.nodes = (0..number(1) as u8).map(new).collect();
                self.told = self.nodes.iter().map(Told::of).collect();
                self.decided = vec![EntryIndex::NONE; node(2)];
            }
            "campaign" => {
                self.nodes[node(1)].election.campaign(self.now);
                self.nodes[node(1)].poll(self.now);
            }
            "propose" => {
                for word in &words[3..] {
                    let index = self.nodes[node(1)].propose(self.now, node(2), word);
                    writeln!(self.log, "{word} is {index}").unwrap();
                }
            }
            "deliver" => {
                let count = words.last().and_then(|word| word.parse().ok()).unwrap_or(usize::MAX);
                let (chosen, rest) = self.choose(&words);
                let mut chosen = VecDeque::from(chosen);
                let arriving: Vec<Flight> = (0..count).map_while(|_| chosen.pop_front()).collect();
                self.flights = chosen.into_iter().chain(rest).collect();
                self.arrive(arriving);
            }
            "run" => self.run_until_quiet(),
            "drop" => {
                let (lost, rest) = self.choose(&words);
                writeln!(self.log, "{} lost", lost.len()).unwrap();
                self.flights = rest.into();
            }
            "twice" => {
                let (chosen, rest) = self.choose(&words);
                let again = |flight: &Flight| Flight { wire: flight.wire.clone(), ..*flight };
                let copies: Vec<Flight> = chosen.iter().map(again).collect();
                self.flights = chosen.into_iter().chain(copies).chain(rest).collect();
            }
            "backwards" => {
                let (mut chosen, rest) = self.choose(&words);
                chosen.reverse();
                self.flights = chosen.into_iter().chain(rest).collect();
            }
            "flight" => {}
            "cut" => {
                self.cut = (1..words.len()).map(|at| number(at) as u8).collect();
                let cut = self.cut.clone();
                self.flights.retain(|flight| !cut.contains(&flight.to) && !cut.contains(&flight.from.node.0));
                for a in 0..self.nodes.len() as u8 {
                    for b in (0..self.nodes.len() as u8).filter(|b| *b != a) {
                        if cut.contains(&a) || cut.contains(&b) {
                            self.nodes[a as usize].peer_down(self.now, NodeId(b), false);
                        }
                    }
                }
            }
            "mute" => {
                let (from, to) = words[1].split_once('>').expect("A>B");
                self.mute.insert((from.parse().unwrap(), to.parse().unwrap()));
            }
            "mend" => {
                self.mute.clear();
                let was = std::mem::take(&mut self.cut);
                let lives: Vec<Voter> = self.nodes.iter().map(|node| node.me).collect();
                for node in &mut self.nodes {
                    let me = node.me;
                    for peer in lives.iter().filter(|peer| peer.node != me.node) {
                        if was.contains(&peer.node.0) || was.contains(&me.node.0) {
                            node.peer_up(self.now, *peer);
                        }
                    }
                }
            }
            "sleep" => drop(self.asleep.insert(number(1) as u8)),
            "wake" => {
                self.asleep.remove(&(number(1) as u8));
                let held = std::mem::take(&mut self.held);
                self.arrive(held);
                self.nodes[node(1)].tick(self.now);
            }
            "gone" => self.nodes[node(1)].peer_down(self.now, NodeId(number(2) as u8), true),
            "wait" => (0..number(1)).for_each(|_| self.tick()),
            "live" => {
                for _ in 0..number(1) {
                    self.tick();
                    self.run_until_quiet();
                }
            }
            "crash" => {
                self.dead.insert(number(1) as u8);
                let at = node(1);
                for other in (0..self.nodes.len()).filter(|other| *other != at) {
                    self.nodes[other].peer_down(self.now, NodeId(at as u8), false);
                }
            }
            "return" => {
                let me = Voter { node: NodeId(number(1) as u8), incarnation: Incarnation(number(2)) };
                let bases = (3..words.len()).map(|at| (EntryIndex(number(at)), founders(3))).collect();
                self.nodes[node(1)] =
                    Node::new(me, bases, election(self.nodes.len() as u8), STREAM, number(2));
                self.told[node(1)] = Told::of(&self.nodes[node(1)]);
                self.dead.remove(&(number(1) as u8));
                for other in (0..self.nodes.len()).filter(|other| *other != node(1)) {
                    self.nodes[other].peer_up(self.now, me);
                }
            }
            "admit" => {
                let voter = self.nodes[node(2)].me;
                self.nodes[node(1)].admit = vec![voter];
            }
            "trim" => {
                self.nodes[node(1)].streams[node(2)].trim(EntryIndex(number(3)), 0);
            }
            "copy" => {
                let members = self.nodes[node(1)].members();
                self.nodes[node(1)].copy_state(node(2), EntryIndex(number(3)), members);
            }
            "show" => self.show(),
            other => panic!("no command {other}"),
        }
        self.gather();
        self.tell();
        if matches!(words[0], "flight" | "deliver" | "wait" | "campaign" | "twice" | "backwards") {
            for flight in &self.flights {
                writeln!(self.log, "  {}", describe(flight)).unwrap();
            }
        }
    }

    /// Splits what is under way into what the words choose, and the rest.
    fn choose(&mut self, words: &[&str]) -> (Vec<Flight>, Vec<Flight>) {
        let matches = |flight: &Flight| {
            words[1..].iter().filter(|word| word.parse::<usize>().is_err()).all(|word| {
                match word.split_once('>') {
                    Some((from, to)) => {
                        let is = |word: &str, id: u8| word == "*" || word == id.to_string();
                        is(from, flight.from.node.0) && is(to, flight.to)
                    }
                    None => kind(&flight.wire).starts_with(word),
                }
            })
        };
        std::mem::take(&mut self.flights).into_iter().partition(matches)
    }

    fn arrive(&mut self, flights: Vec<Flight>) {
        for flight in flights {
            let (from, to) = (flight.from.node.0, flight.to);
            let muted = self.mute.contains(&(from, to));
            if self.asleep.contains(&to) {
                self.held.push(flight);
                continue;
            }
            let blocked = muted || self.cut.contains(&to) || self.cut.contains(&from);
            if !blocked && !self.dead.contains(&flight.to) {
                self.nodes[flight.to as usize].deliver(self.now, flight.from, flight.wire);
                self.tell();
            }
            self.gather();
        }
    }

    fn run_until_quiet(&mut self) {
        self.gather();
        while !self.flights.is_empty() {
            let flights = std::mem::take(&mut self.flights);
            self.arrive(flights.into());
        }
    }

    fn tick(&mut self) {
        self.now += MS;
        let idle =
            |node: &&mut Node| self.dead.contains(&node.me.node.0) || self.asleep.contains(&node.me.node.0);
        for node in self.nodes.iter_mut().filter(|node| !idle(node)) {
            node.tick(self.now);
        }
        self.tell();
    }

    /// Says in words what has changed since it last looked.
    fn tell(&mut self) {
        for at in 0..self.nodes.len() {
            let (node, now) = (&self.nodes[at], Told::of(&self.nodes[at]));
            if now == self.told[at] {
                continue;
            }
            let before = std::mem::replace(&mut self.told[at], now);
            let (now, me) = (&self.told[at], node.me);
            let mut say = |what: String| writeln!(self.log, "{me:?} {what}").unwrap();
            let leads = now.standing == Standing::Leading;
            if leads && (before.standing != Standing::Leading || before.promised != now.promised) {
                say(format!("leads under {}", now.promised));
            } else if before.standing == Standing::Leading && !leads {
                say(format!("leads no more, promised {}", now.promised));
            }
            if now.standing == Standing::Asking && self.asked.insert((me, now.promised)) {
                say("misses its leader and asks who else does".into());
            }
            for (number, (before, now)) in before.streams.iter().zip(&now.streams).enumerate() {
                if now.tail.accepted != before.tail.accepted && !leads {
                    let gone = before.undecided.iter().filter(|(index, entry)| {
                        *index >= now.tail.first && node.streams[number].entry(*index) != Some(entry)
                    });
                    let gone: Vec<String> = gone.map(|(_, entry)| in_words(entry)).collect();
                    let cut = if gone.is_empty() {
                        String::new()
                    } else {
                        format!(" and loses {}", gone.join(", "))
                    };
                    say(format!("adopts the log of {} in s{number}{cut}", now.tail.accepted));
                }
                if now.too_far && !before.too_far {
                    say(format!("is too far behind in s{number}"));
                }
                if now.tail.first > before.tail.first {
                    say(format!("holds s{number} from {} on", now.tail.first));
                }
                let newly = (self.decided[number].0 + 1..=now.tail.decided.0).map(EntryIndex);
                let entries: Vec<String> =
                    newly.filter_map(|index| node.streams[number].entry(index).map(in_words)).collect();
                self.decided[number] = self.decided[number].max(now.tail.decided);
                if !entries.is_empty() {
                    say(format!("is the first to know {} decided in s{number}", entries.join(", ")));
                }
            }
            if now.members.voters() != before.members.voters() {
                say(format!("goes on with the members {:?}", now.members));
            }
        }
    }

    fn gather(&mut self) {
        for node in &mut self.nodes {
            let from = node.me;
            let out = std::mem::take(&mut node.out);
            if !self.dead.contains(&from.node.0) {
                self.flights.extend(out.into_iter().map(|(to, wire)| Flight { from, to: to.0, wire }));
            }
        }
    }

    fn show(&mut self) {
        for node in &self.nodes {
            let dead = if self.dead.contains(&node.me.node.0) { " dead" } else { "" };
            let (standing, members) = (node.election.standing(), node.members());
            writeln!(self.log, "{:?}{dead} {standing:?} members {members:?}", node.me).unwrap();
            for (at, stream) in node.streams.iter().enumerate() {
                let tail = stream.tail();
                write!(self.log, "  s{at} promised {} accepted {}:", stream.promised(), tail.accepted)
                    .unwrap();
                for index in tail.first.0..=tail.last.0 {
                    let bar = if index == tail.decided.0 + 1 { " |" } else { "" };
                    let entry = stream.entry(EntryIndex(index)).unwrap();
                    write!(self.log, "{bar} {index}={}", in_words(entry)).unwrap();
                }
                if tail.last == tail.decided {
                    write!(self.log, " |").unwrap();
                }
                if let Some(first) = stream.too_far() {
                    write!(self.log, " too far behind {first}").unwrap();
                }
                writeln!(self.log).unwrap();
            }
        }
    }
}

/// An entry as the scripts have it: `a`, or the change of epoch `[e2]`.
fn in_words(entry: &Bytes) -> String {
    match as_change(entry) {
        Some(members) => format!("[{}]", members.epoch),
        None => String::from_utf8_lossy(&entry[1..]).into_owned(),
    }
}

fn kind(wire: &Wire) -> String {
    let debug = match wire {
        Wire::Stream(_, message, _) => format!("{message:?}"),
        Wire::Election(message) => format!("{message:?}"),
        Wire::Probe(..) | Wire::Vouch(..) => format!("{wire:?}"),
    };
    debug.split([' ', '(']).next().unwrap().to_owned()
}

fn describe(flight: &Flight) -> String {
    let (from, to) = (flight.from.node, NodeId(flight.to));
    match &flight.wire {
        Wire::Stream(stream, message, entry) => {
            let entry = match as_change(entry) {
                Some(members) => format!(" [{}]", members.epoch),
                None if entry.is_empty() => String::new(),
                None => format!(" \"{}\"", String::from_utf8_lossy(&entry[1..])),
            };
            format!("{from}>{to} s{stream} {message:?}{entry}")
        }
        Wire::Election(ElectionMessage::Promise(promise)) => {
            let tails = promise.tails.iter().map(|tail| format!("{} to {}", tail.accepted, tail.last));
            format!("{from}>{to} Promise {} {}", promise.ballot, tails.collect::<Vec<_>>().join(", "))
        }
        Wire::Election(message) => format!("{from}>{to} {message:?}"),
        wire => format!("{from}>{to} {wire:?}"),
    }
}

/// Plays a script; the first difference between what comes of it and what it says.
fn play(path: &Path) -> Result<(), String> {
    let script = std::fs::read_to_string(path).expect("the script is there");
    let mut stage = Stage::default();
    let mut played = String::new();
    for line in script.lines().filter(|line| line.is_empty() || line.starts_with(['#', '>'])) {
        writeln!(played, "{line}").unwrap();
        if let Some(command) = line.strip_prefix('>') {
            stage.command(command);
            played += &std::mem::take(&mut stage.log);
            check(&stage);
        }
    }
    if std::env::var_os("HIGHWATER_RECORD").is_some() {
        std::fs::write(path, &played).unwrap();
        return Ok(());
    }
    let (expected, actual): (Vec<&str>, Vec<&str>) = (script.lines().collect(), played.lines().collect());
    let longest = expected.len().max(actual.len());
    match (0..longest).find(|at| expected.get(*at) != actual.get(*at)) {
        None => Ok(()),
        Some(at) => Err(format!(
            "line {}: expected {:?}, came {:?}\n--- all of it:\n{played}",
            at + 1,
            expected.get(at),
            actual.get(at)
        )),
    }
}

/// Whatever the story: one value per index among what is decided.
fn check(stage: &Stage) {
    for a in &stage.nodes {
        for b in &stage.nodes {
            for (ours, theirs) in a.streams.iter().zip(&b.streams) {
                for index in (1..=ours.decided().min(theirs.decided()).0).map(EntryIndex) {
                    if let (Some(one), Some(other)) = (ours.entry(index), theirs.entry(index)) {
                        assert_eq!(one, other, "two values at {index}");
                    }
                }
            }
        }
    }
}

#[test]
fn every_script_comes_out_as_it_says() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/scripts");
    let wanted = std::env::var("HIGHWATER_SCRIPT").unwrap_or_default();
    let mut scripts: Vec<PathBuf> =
        std::fs::read_dir(folder).unwrap().map(|file| file.unwrap().path()).collect();
    scripts.retain(|path| path.file_stem().is_some_and(|name| name.to_string_lossy().contains(&wanted)));
    scripts.sort();
    assert!(!scripts.is_empty(), "no script is named like {wanted:?}");
    let mut wrong = Vec::new();
    for path in &scripts {
        let name = path.file_stem().unwrap().to_string_lossy();
        println!("plays {name}");
        wrong.extend(play(path).err().map(|difference| format!("{name}, {difference}")));
    }
    assert!(wrong.is_empty(), "{} of {} scripts:\n{}", wrong.len(), scripts.len(), wrong.join("\n"));
}
