//! What must hold at every step, and in the end.

use std::collections::BTreeMap;

use bytes::Bytes;
use highwater_consensus::{Stream, Voter};
use highwater_core::{Ballot, EntryIndex};

use super::cluster::{MS, Simulation};

/// Executes what was appended, takes back what was replaced; whether anything was.
fn follow(stream: &mut Stream, executed: &mut BTreeMap<EntryIndex, Bytes>) -> bool {
    let replaced = stream.take_replaced();
    if let Some(first) = replaced {
        let taken_back = executed.split_off(&first);
        if let Some(before) = taken_back.get(&first) {
            assert_ne!(Some(before), stream.entry(first), "{first} is what it was");
        }
    }
    let tail = stream.tail();
    assert!(
        executed.keys().next_back() <= Some(&tail.last),
        "{executed:?} is executed, and the log ends: {tail:?}"
    );
    for index in (tail.first.0..=tail.last.0).map(EntryIndex) {
        let entry = stream.entry(index).expect("it is held");
        let known = executed.entry(index).or_insert_with(|| entry.clone());
        assert_eq!(known, entry, "{index} was replaced, and nobody said so");
    }
    // What a copy brings is not executed.
    *executed = executed.split_off(&tail.first);
    replaced.is_some()
}

impl Simulation {
    /// All voters promised, for too few remembered everything: what none of them holds is lost.
    fn lose(&mut self, ballot: Ballot, promised: &[Voter]) {
        for stream in 0..self.streams {
            let of = |voter: &Voter| &self.nodes[voter.node.0 as usize].streams[stream];
            let best =
                promised.iter().map(of).max_by_key(|stream| (stream.tail().accepted, stream.last())).unwrap();
            let first = best.tail().first.0;
            let known = self.history[stream]
                .iter()
                .zip(1..)
                .take_while(|(entry, index)| *index < first || best.entry(EntryIndex(*index)) == Some(entry));
            let known = known.count();
            for voter in promised {
                assert!(of(voter).decided().0 <= known as u64, "{voter:?} knows what {ballot} loses");
            }
            self.history[stream].truncate(known);
        }
    }

    pub fn check(&mut self, node: usize) {
        if let Some((ballot, promised)) = self.nodes[node].lost.take() {
            assert!(self.powerless, "{ballot} was won by all voters, though a majority forgot nothing");
            self.lose(ballot, &promised);
        }
        let (life, seen) = (&mut self.nodes[node], &mut self.seen[node]);
        seen.promised.resize(self.streams, Ballot::default());
        seen.decided.resize(self.streams, EntryIndex::NONE);
        seen.executed.resize_with(self.streams, BTreeMap::new);
        for (stream, executed) in life.streams.iter_mut().zip(&mut seen.executed) {
            self.replacements += u64::from(follow(stream, executed));
        }
        for ballot in life.won.drain(..) {
            let winner = self.winners.insert(ballot.epoch, (ballot, life.me));
            assert!(winner.is_none(), "one leader per epoch: {winner:?}, then {ballot} by {:?}", life.me);
        }
        for (at, stream) in life.streams.iter().enumerate() {
            assert!(stream.promised() >= seen.promised[at], "a promise moved back");
            assert!(stream.decided() >= seen.decided[at], "a decision was taken back");
            assert!(stream.tail().accepted <= stream.promised(), "accepted without a promise");
            assert!(stream.decided() <= stream.last(), "decided what it doesn't hold");
            let history = &mut self.history[at];
            for index in seen.decided[at].0 + 1..=stream.decided().0 {
                let Some(entry) = stream.entry(EntryIndex(index)) else {
                    assert!(index <= history.len() as u64, "copied what nobody decided");
                    continue;
                };
                match history.get(index as usize - 1) {
                    Some(known) => {
                        assert_eq!(known, entry, "two values at {index} of stream {at}, node {node}")
                    }
                    None => history.push(entry.clone()),
                }
                assert!(history.len() as u64 >= index, "history has no holes");
            }
            seen.promised[at] = stream.promised();
            seen.decided[at] = stream.decided();
        }
        self.check_confirmed(node);
    }

    /// Whoever is confirmed led when it asked: nobody had won a later ballot.
    fn check_confirmed(&mut self, node: usize) {
        let Simulation { nodes, questions, confirmed, .. } = self;
        let node = &nodes[node];
        questions.retain(|asked| {
            let stream = &node.streams[asked.stream];
            if asked.leader.node != node.me.node {
                return true;
            }
            if asked.leader != node.me || !stream.is_leading(asked.ballot) {
                return false;
            }
            let answered = stream.confirmed() >= asked.number;
            *confirmed += u64::from(answered);
            assert!(
                !answered || asked.won <= asked.ballot,
                "{} was confirmed after {} won",
                asked.ballot,
                asked.won
            );
            !answered
        });
    }

    /// Runs until `done`, within a bounded time.
    pub fn expect(&mut self, what: &str, done: impl Fn(&mut Simulation) -> bool) {
        let deadline = self.now + 3000 * MS + 60 * self.slow;
        while !done(self) {
            assert!(self.now < deadline, "not in time: {what}\n{}", self.describe());
            self.run_for(3 * MS);
        }
    }

    pub fn describe(&self) -> String {
        let mut text = String::new();
        for (at, node) in self.nodes.iter().enumerate() {
            let election = &node.election;
            text += &format!(
                "{:?} down={} {:?} promised {} members {:?} pending {:?}\n",
                node.me,
                self.down[at],
                election.standing(),
                election.promised(),
                node.members(),
                node.pending()
            );
            for stream in &node.streams {
                text += &format!(
                    "   promised {} {:?} too far {:?}\n",
                    stream.promised(),
                    stream.tail(),
                    stream.too_far()
                );
            }
        }
        text
    }
}
