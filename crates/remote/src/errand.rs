//! One request until its end, without sockets and clocks: what to send, what each try means, whether to try again.
//!
//! The rule is one sentence: *what may have been done is sent again only if that does no harm.* What may harm is said by whoever asks
//! ([`Repeat`]); what may have been done follows from how a try ended:
//!
//! | a try ended | done? |
//! |---|---|
//! | no connection | no |
//! | `NOTLEADER`, `MOVED`, `NOQUORUM`, `CLUSTERDOWN`, `TRYAGAIN`, `LOADING`, `CONFLICT` | no |
//! | any other reply | yes: it is the answer (an error, too) |
//! | `UNKNOWN`; the connection broke, or was silent for too long, after something was sent | nobody knows |

use std::time::{Duration, Instant};

use crate::command::Command;
use crate::error::{Error, Verdict};
use crate::reply::Reply;
use crate::topology::Topology;

/// The first pause, when nobody leads; each next one is twice as long, up to the last.
const FIRST_PAUSE: Duration = Duration::from_millis(2);
const LAST_PAUSE: Duration = Duration::from_millis(100);

/// Whether the commands may be sent again when it is not known whether they were done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Repeat {
    /// No.
    Never,
    /// They only read, or run under a session's number: they do no more the second time.
    Harmless,
}

/// How the commands belong together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// Each is a request of its own.
    Apart,
    /// From `MULTI` to `EXEC`: one, whose answer is the last reply.
    Block,
}

/// How a try ended.
#[derive(Clone, Debug)]
pub enum Tried {
    /// There was no connection: nothing was sent.
    NoConnection(String),
    /// Something was sent. So many replies came; and why not all, if not all.
    Sent(Vec<Reply>, Option<String>),
}

impl Tried {
    /// Of the one command that was sent, over a connection that no other may replace: its reply; or why that connection leads nowhere.
    pub fn on(self, topology: &Topology, node: &str) -> Result<Result<Reply, Error>, String> {
        match self {
            Tried::Sent(replies, None) => match replies.into_iter().next() {
                Some(Reply::Error(error)) => match error.verdict() {
                    Verdict::Final => Ok(Err(Error::Server(error))),
                    Verdict::Elsewhere(leader) => {
                        topology.referred(node, leader.as_deref());
                        Err(error.text)
                    }
                    Verdict::Again | Verdict::Unknown => Err(error.text),
                },
                Some(reply) => {
                    topology.served(node);
                    Ok(Ok(reply))
                }
                None => Err("a reply is missing".into()),
            },
            Tried::Sent(_, Some(why)) | Tried::NoConnection(why) => {
                topology.failed(node);
                Err(why)
            }
        }
    }
}

/// What to do next.
#[derive(Debug)]
pub enum Step {
    /// Ask again after this long.
    Again(Duration),
    /// It has ended, command by command; for a block only the last one counts.
    Ended(Vec<Result<Reply, Error>>),
}

/// See the module.
#[derive(Debug)]
pub struct Errand {
    commands: Vec<Command>,
    shape: Shape,
    repeat: Repeat,
    /// Of each command, once it has ended.
    ended: Vec<Option<Result<Reply, Error>>>,
    deadline: Instant,
    pause: Duration,
    /// A try was lost: it may have been done.
    lost: bool,
    /// Other transactions were in the way at the last try.
    conflict: bool,
    /// Why the last try that had its time came to nothing.
    why: Option<String>,
}

impl Errand {
    /// To be tried until then.
    pub fn new(commands: Vec<Command>, shape: Shape, repeat: Repeat, deadline: Instant) -> Errand {
        let ended = vec![None; commands.len()];
        Errand {
            commands,
            shape,
            repeat,
            ended,
            deadline,
            pause: FIRST_PAUSE,
            lost: false,
            conflict: false,
            why: None,
        }
    }

    /// When to give up.
    pub fn deadline(&self) -> Instant {
        self.deadline
    }

    /// Whether a try was lost, so that what was refused later may have been done earlier.
    pub fn lost(&self) -> bool {
        self.lost
    }

    /// What to send.
    pub fn commands(&self) -> impl Iterator<Item = &Command> {
        let ended = |at: usize| self.shape == Shape::Apart && self.ended[at].is_some();
        self.commands.iter().enumerate().filter(move |(at, _)| !ended(*at)).map(|(_, command)| command)
    }

    /// There will never be a connection: how all of it ends.
    pub fn refused(&mut self, error: &Error) -> Vec<Result<Reply, Error>> {
        for ended in &mut self.ended {
            ended.get_or_insert_with(|| Err(error.clone()));
        }
        match self.end() {
            Step::Ended(ended) => ended,
            Step::Again(_) => unreachable!("all of it has ended"),
        }
    }

    /// A try has ended.
    pub fn tried(&mut self, topology: &Topology, node: &str, tried: Tried, now: Instant) -> Step {
        match tried {
            Tried::NoConnection(why) => {
                topology.failed(node);
                self.again(format!("{node}: {why}"), Duration::ZERO, now)
            }
            Tried::Sent(replies, broken) => {
                if broken.is_some() {
                    topology.failed(node);
                }
                let broken = broken.map(|why| format!("{node}: {why}"));
                match self.shape {
                    Shape::Apart => self.tried_apart(topology, node, replies, broken, now),
                    Shape::Block => self.tried_block(topology, node, replies, broken, now),
                }
            }
        }
    }

    fn tried_apart(
        &mut self,
        topology: &Topology,
        node: &str,
        replies: Vec<Reply>,
        broken: Option<String>,
        now: Instant,
    ) -> Step {
        let open: Vec<usize> = (0..self.commands.len()).filter(|at| self.ended[*at].is_none()).collect();
        let mut replies = replies.into_iter();
        let (mut why, mut least) = (None, Duration::ZERO);
        for at in open {
            let Some(reply) = replies.next() else {
                let broken = broken.clone().unwrap_or_else(|| "a reply is missing".into());
                self.lose(at, broken.clone());
                why = Some(broken);
                continue;
            };
            let Reply::Error(error) = &reply else {
                topology.served(node);
                self.ended[at] = Some(Ok(reply));
                continue;
            };
            match error.verdict() {
                Verdict::Elsewhere(leader) => {
                    topology.referred(node, leader.as_deref());
                    // Who was referred need not wait; but two that refer to each other are not asked without end.
                    least = if leader.is_some() { FIRST_PAUSE } else { least.max(self.pause) };
                    self.conflict = false;
                    why = Some(error.text.clone());
                }
                Verdict::Again => {
                    least = least.max(self.pause);
                    self.conflict = true;
                    why = Some(error.text.clone());
                }
                Verdict::Unknown => {
                    self.lose(at, error.text.clone());
                    least = least.max(self.pause);
                    why = Some(error.text.clone());
                }
                Verdict::Final => self.ended[at] = Some(Err(Error::Server(error.clone()))),
            }
        }
        match why {
            Some(why) => self.again(why, least, now),
            None => self.end(),
        }
    }

    /// Nobody knows about this one.
    fn lose(&mut self, at: usize, why: String) {
        match self.repeat {
            Repeat::Harmless => self.lost = true,
            Repeat::Never => self.ended[at] = Some(Err(Error::Unknown { why, ticket: None })),
        }
    }

    fn tried_block(
        &mut self,
        topology: &Topology,
        node: &str,
        replies: Vec<Reply>,
        broken: Option<String>,
        now: Instant,
    ) -> Step {
        let (count, last) = (replies.len(), self.commands.len() - 1);
        // Before `EXEC` nothing is done; a refusal there makes `EXEC` one, too, in other words.
        let early = replies.iter().take(last).find_map(|reply| match reply {
            Reply::Error(error) if error.verdict() != Verdict::Final => Some(error.clone()),
            _ => None,
        });
        // Of a command that could not be queued `EXEC` says only that there was one.
        let bad = replies.iter().take(last).find_map(|reply| match reply {
            Reply::Error(error) => Some(error.clone()),
            _ => None,
        });
        let (error, queued) = match (early, replies.into_iter().nth(last)) {
            (Some(error), _) => (error, true),
            (None, None) => {
                debug_assert!(count <= last);
                let why = broken.unwrap_or_else(|| "a reply is missing".into());
                self.lose(last, why.clone());
                return self.again(why, Duration::ZERO, now);
            }
            (None, Some(Reply::Error(error))) => (error, false),
            (None, Some(reply)) => {
                topology.served(node);
                self.ended[last] = Some(Ok(reply));
                return self.end();
            }
        };
        match error.verdict() {
            Verdict::Elsewhere(leader) => {
                topology.referred(node, leader.as_deref());
                let least = if leader.is_some() { FIRST_PAUSE } else { self.pause };
                self.conflict = false;
                self.again(error.text, least, now)
            }
            Verdict::Again => {
                self.conflict = true;
                self.again(error.text, self.pause, now)
            }
            Verdict::Unknown if !queued => {
                self.lose(last, error.text.clone());
                self.again(error.text, self.pause, now)
            }
            Verdict::Unknown | Verdict::Final => {
                self.ended[last] = Some(Err(Error::Server(bad.unwrap_or(error))));
                self.end()
            }
        }
    }

    /// Tries again what has not ended, if there is time.
    fn again(&mut self, why: String, least: Duration, now: Instant) -> Step {
        if self.is_over() {
            return self.end();
        }
        // A node that does not answer takes its time: the pause only keeps from asking one that refuses at once without end.
        let pause = least.max(FIRST_PAUSE);
        self.pause = (self.pause * 2).min(LAST_PAUSE);
        if now + pause < self.deadline {
            self.why = Some(why);
            return Step::Again(jitter(pause));
        }
        // A try that the deadline cut short says only that time is up; the one before says what is wrong.
        let why = if now < self.deadline { why } else { self.why.take().unwrap_or(why) };
        let error = if self.lost {
            Error::Unknown { why, ticket: None }
        } else if self.conflict {
            Error::Conflict
        } else {
            Error::NotDone(why)
        };
        for ended in &mut self.ended {
            ended.get_or_insert_with(|| Err(error.clone()));
        }
        self.end()
    }

    fn is_over(&self) -> bool {
        match self.shape {
            Shape::Apart => self.ended.iter().all(Option::is_some),
            Shape::Block => self.ended.last().is_some_and(Option::is_some),
        }
    }

    fn end(&mut self) -> Step {
        let nothing = || Ok(Reply::Nil);
        let ended = self.ended.iter_mut();
        Step::Ended(match self.shape {
            Shape::Apart => ended.map(|ended| ended.take().expect("all have ended")).collect(),
            Shape::Block => ended.map(|ended| ended.take().unwrap_or_else(nothing)).collect(),
        })
    }
}

/// Up to a half less, at random, so that clients that failed together do not come together.
fn jitter(pause: Duration) -> Duration {
    use std::hash::{BuildHasher, RandomState};
    let random = RandomState::new().hash_one(0) % 512;
    pause - pause * (random as u32) / 1024
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::cmd;
    use crate::error::ServerError;

    fn error(text: &str) -> Reply {
        Reply::Error(ServerError::parse(text))
    }

    struct Story {
        topology: Topology,
        errand: Errand,
        start: Instant,
    }

    impl Story {
        fn new(commands: usize, shape: Shape, repeat: Repeat) -> Story {
            let start = Instant::now();
            let commands = (0..commands).map(|_| cmd("INCR").arg("a")).collect();
            let topology = Topology::new(&["a:1".into(), "b:1".into()]);
            Story {
                topology,
                errand: Errand::new(commands, shape, repeat, start + Duration::from_secs(1)),
                start,
            }
        }

        /// `None`: it is tried again.
        fn sent(&mut self, replies: Vec<Reply>, broken: bool) -> Option<Vec<Result<Reply, Error>>> {
            self.at(0, Tried::Sent(replies, broken.then(|| "broken".into())))
        }

        fn at(&mut self, ms: u64, tried: Tried) -> Option<Vec<Result<Reply, Error>>> {
            let (node, now) = (self.topology.leader(), self.start + Duration::from_millis(ms));
            match self.errand.tried(&self.topology, &node, tried, now) {
                Step::Again(_) => None,
                Step::Ended(ended) => Some(ended),
            }
        }
    }

    #[test]
    fn what_was_refused_goes_to_whoever_leads() {
        let mut story = Story::new(2, Shape::Apart, Repeat::Never);
        assert!(story.sent(vec![error("MOVED 1 b:1"), error("MOVED 1 b:1")], false).is_none());
        assert_eq!(story.topology.leader(), "b:1");
        // Only the second one is still to be done.
        assert!(story.sent(vec![Reply::Integer(1), error("CONFLICT x")], false).is_none());
        assert_eq!(story.errand.commands().count(), 1);
        let ended = story.sent(vec![Reply::Integer(2)], false);
        assert_eq!(ended, Some(vec![Ok(Reply::Integer(1)), Ok(Reply::Integer(2))]));
    }

    #[test]
    fn what_may_have_been_done_is_not_sent_again() {
        let mut story = Story::new(3, Shape::Apart, Repeat::Never);
        let ended =
            story.sent(vec![Reply::Integer(1), error("UNKNOWN x")], true).expect("nothing is left to try");
        assert_eq!(ended[0], Ok(Reply::Integer(1)));
        assert!(ended[1..].iter().all(|ended| matches!(ended, Err(Error::Unknown { .. }))));
    }

    /// Once: a Rust or Python client whose certificate nobody took said "time is up", or that its connections were all in
    /// use, when its patience ended: the last try was cut short, and hid why the ones before had failed.
    #[test]
    fn what_does_no_harm_is_sent_again_until_time_is_up() {
        let mut story = Story::new(1, Shape::Apart, Repeat::Harmless);
        assert!(story.sent(vec![], true).is_none());
        assert!(story.sent(vec![error("UNKNOWN x")], false).is_none());
        assert!(story.at(1, Tried::NoConnection("refused".into())).is_none());
        let late = story.at(1000, Tried::NoConnection("refused".into())).expect("time is up");
        assert!(matches!(late[..], [Err(Error::Unknown { .. })]), "a try was lost: {late:?}");
        // Without a lost try nothing was done.
        let mut story = Story::new(1, Shape::Apart, Repeat::Harmless);
        let late = story.at(1000, Tried::NoConnection("refused".into())).expect("time is up");
        assert!(matches!(late[..], [Err(Error::NotDone(_))]));
        // What is wrong is told, and not that time is up.
        let mut story = Story::new(1, Shape::Apart, Repeat::Harmless);
        assert!(story.at(1, Tried::NoConnection("bad certificate".into())).is_none());
        let late = story.at(1000, Tried::NoConnection("time is up".into())).expect("time is up");
        assert!(
            matches!(&late[..], [Err(Error::NotDone(why))] if why.contains("bad certificate")),
            "{late:?}"
        );
        let mut story = Story::new(1, Shape::Apart, Repeat::Never);
        let late = story.at(1000, Tried::Sent(vec![error("CONFLICT x")], None)).expect("time is up");
        assert_eq!(late, [Err(Error::Conflict)]);
    }

    #[test]
    fn a_block_is_done_by_its_exec_or_not_at_all() {
        let ok = || Reply::Status("OK".into());
        let mut story = Story::new(3, Shape::Block, Repeat::Never);
        // Refused while it was queued, as Redis Cluster does, or at its end.
        let aborted = error("EXECABORT Transaction discarded because of previous errors.");
        assert!(story.sent(vec![ok(), error("MOVED 1 b:1"), aborted.clone()], false).is_none());
        assert!(story.sent(vec![ok(), ok(), error("NOTLEADER no leader is known")], false).is_none());
        assert_eq!(story.errand.commands().count(), 3, "all of it again");
        let ended = story.sent(vec![ok(), ok(), Reply::Array(vec![])], false).expect("it was done");
        assert_eq!(ended[2], Ok(Reply::Array(vec![])));
        // One that can never be done says why.
        let mut story = Story::new(3, Shape::Block, Repeat::Harmless);
        let ended =
            story.sent(vec![ok(), error("ERR unknown command"), aborted], false).expect("it is refused");
        assert_eq!(ended[2], Err(Error::Server(ServerError::parse("ERR unknown command"))));
        // Its end did not come.
        let mut story = Story::new(3, Shape::Block, Repeat::Never);
        let ended = story.sent(vec![ok(), ok()], true).expect("it may have been done");
        assert!(matches!(ended[2], Err(Error::Unknown { .. })));
    }
}
