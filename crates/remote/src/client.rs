//! The blocking client.

use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::command::{Command, Word, cmd};
use crate::errand::{Errand, Repeat, Shape, Step, Tried};
use crate::error::{Effect, Error, Ticket, Verdict};
use crate::net::{Lent, NoEntry, Pool};
use crate::options::Options;
use crate::reply::Reply;
use crate::session::{self, Ended, Once, Outcome, Session, Sessions};
use crate::topology::Topology;
use crate::typed::FromReply;

/// Between two attempts of a transaction that others were in the way of.
pub(crate) const PAUSE: Duration = Duration::from_millis(1);

/// A client of a cluster. Threads share it by reference; each request waits for its answer.
pub struct Client {
    options: Options,
    topology: Topology,
    pool: Pool,
    sessions: Sessions,
    token: AtomicI64,
    ask_token: Command,
    turns: AtomicUsize,
}

impl Client {
    /// A client, and a first answer from some node.
    ///
    /// # Errors
    /// If the options make no sense, or no node answers in time.
    pub fn connect(options: Options) -> Result<Client, Error> {
        options.validate()?;
        let client = Client {
            topology: Topology::new(&options.nodes),
            pool: Pool::new(options.clone()),
            options,
            sessions: Sessions::default(),
            token: AtomicI64::new(0),
            ask_token: cmd("HW.TOKEN"),
            turns: AtomicUsize::new(0),
        };
        client.read::<()>(cmd("PING"))?;
        Ok(client)
    }

    /// Runs a command on the latest state. It is sent again while nothing was done; when that is not known it is [`Error::Unknown`]. For
    /// writes that must neither be lost nor done twice: [`once`](Client::once).
    ///
    /// # Errors
    /// [`Error`], by what one can do; [`Error::effect`] says whether it was done.
    pub fn run<T: FromReply>(&self, command: Command) -> Result<T, Error> {
        typed(self.one(command, Repeat::Never))
    }

    /// Runs a command that only reads, on the latest state: it is sent again until it is answered, or time is up.
    ///
    /// # Errors
    /// As [`run`](Client::run).
    pub fn read<T: FromReply>(&self, command: Command) -> Result<T, Error> {
        typed(self.one(command, Repeat::Harmless))
    }

    /// Runs a command exactly once, however often it has to be sent: under a session of the client's. It is [`Error::Unknown`] only if the
    /// client's patience ends before anybody answers; its ticket then serves to [ask later](Client::outcome).
    ///
    /// # Errors
    /// As [`run`](Client::run).
    pub fn once<T: FromReply>(&self, command: Command) -> Result<T, Error> {
        typed(self.under_session(|ticket| (vec![session::once(ticket, &command)], Shape::Apart)))
    }

    /// Runs commands as one transaction, exactly once: all or nothing. As in Redis, a command that fails among them does not undo the
    /// others: its reply is [`Reply::Error`].
    ///
    /// # Errors
    /// As [`run`](Client::run).
    pub fn block(&self, commands: &[Command]) -> Result<Vec<Reply>, Error> {
        session::replies(self.under_session(|ticket| (session::block(ticket, commands), Shape::Block))?)
    }

    /// Sends commands together, each a transaction of its own, and tells of each how it ended; each as by [`run`](Client::run). They take
    /// effect in order, but for those that have to be sent again.
    pub fn pipeline(&self, commands: Vec<Command>) -> Vec<Result<Reply, Error>> {
        self.go(&mut Errand::new(commands, Shape::Apart, Repeat::Never, self.deadline()))
    }

    /// A transaction that decides by what it reads: `code` reads with [`Tx::read`], and says what to write with [`Tx::queue`]. If any of
    /// `keys` was written by others before the end, nothing is done, and `code` runs again. What it queued is done exactly once, as one
    /// transaction with its reads.
    ///
    /// # Errors
    /// Whatever `code` returns of its own; else as [`run`](Client::run). [`Error::Conflict`]: others were in the way until time was up.
    pub fn transaction<T>(
        &self,
        keys: &[impl Word],
        mut code: impl FnMut(&mut Tx<'_>) -> Result<T, Error>,
    ) -> Result<Committed<T>, Error> {
        if keys.is_empty() {
            return Err(Error::Invalid("a transaction without keys watches nothing: use `block`".into()));
        }
        let watch = cmd("WATCH").args(keys);
        let deadline = self.deadline();
        let mut session = self.session(deadline)?;
        loop {
            let ticket = session.ticket();
            let ended = match self.attempt(&watch, ticket, deadline, &mut code) {
                Ok(Attempt::Ended(Ended::Expired)) => {
                    session = self.open(deadline)?;
                    continue;
                }
                Ok(Attempt::Ended(_)) if Instant::now() + PAUSE < deadline => None,
                Ok(Attempt::Ended(Ended::Again(why))) => {
                    Some(Err(why.map_or(Error::Conflict, Error::NotDone)))
                }
                Ok(Attempt::Committed(committed)) => Some(Ok(committed)),
                Err(error) => Some(Err(error)),
            };
            if let Some(ended) = ended {
                let known = !matches!(&ended, Err(error) if error.effect() == Effect::Unknown);
                known.then(|| self.sessions.give_back(session));
                return ended;
            }
            thread::sleep(PAUSE);
        }
    }

    /// What became of a request under a session. Once it says [`Outcome::Never`] the request will not be done any more.
    ///
    /// # Errors
    /// As [`read`](Client::read).
    pub fn outcome(&self, ticket: Ticket) -> Result<Outcome, Error> {
        self.outcome_by(ticket, self.deadline())
    }

    /// Covers everything that this client has seen answered so far: what it wrote, and what it read. Only with
    /// [`Options::tokens`]; else 0.
    pub fn token(&self) -> i64 {
        self.token.load(Ordering::Relaxed)
    }

    /// Reads from any node, followers first: serializable, as fresh as is said.
    pub fn reader(&self, freshness: Freshness) -> Reader<'_> {
        Reader { client: self, freshness }
    }

    fn deadline(&self) -> Instant {
        Instant::now() + self.options.patience
    }

    fn one(&self, command: Command, repeat: Repeat) -> Result<Reply, Error> {
        let mut errand = Errand::new(vec![command], Shape::Apart, repeat, self.deadline());
        self.go(&mut errand).pop().expect("a command has an end")
    }

    /// Asks whoever leads, until it has ended.
    fn go(&self, errand: &mut Errand) -> Vec<Result<Reply, Error>> {
        loop {
            let node = self.topology.leader();
            let tried = match self.lend(&node, false, errand.deadline()) {
                Ok(mut lent) => self.ask(&mut lent, errand.commands(), errand.deadline()),
                Err(Ok(why)) => Tried::NoConnection(why),
                Err(Err(error)) => return errand.refused(&error),
            };
            match errand.tried(&self.topology, &node, tried, Instant::now()) {
                Step::Again(pause) => thread::sleep(pause),
                Step::Ended(ended) => return ended,
            }
        }
    }

    /// A connection; `Ok`: why there is none; `Err`: why there will never be one.
    fn lend(&self, node: &str, reader: bool, deadline: Instant) -> Result<Lent<'_>, Result<String, Error>> {
        self.pool.lend(node, reader, deadline).map_err(NoEntry::judge)
    }

    /// Sends commands, and asks for the token behind them.
    fn ask<'a>(
        &'a self,
        lent: &mut Lent<'_>,
        commands: impl Iterator<Item = &'a Command>,
        deadline: Instant,
    ) -> Tried {
        let timeout = self.options.timeout.min(deadline.saturating_duration_since(Instant::now()));
        if !self.options.tokens {
            return lent.connection().ask(commands, timeout);
        }
        match lent.connection().ask(commands.chain([&self.ask_token]), timeout) {
            Tried::Sent(mut replies, None) => {
                if let Some(Reply::Integer(token)) = replies.pop() {
                    self.token.fetch_max(token, Ordering::Relaxed);
                }
                Tried::Sent(replies, None)
            }
            other => other,
        }
    }

    fn session(&self, deadline: Instant) -> Result<Session, Error> {
        self.sessions.take().map_or_else(|| self.open(deadline), Ok)
    }

    fn open(&self, deadline: Instant) -> Result<Session, Error> {
        let mut errand = Errand::new(vec![session::open()], Shape::Apart, Repeat::Harmless, deadline);
        session::opened(self.go(&mut errand).pop().expect("a command has an end"))
    }

    fn under_session(&self, commands: impl Fn(Ticket) -> (Vec<Command>, Shape)) -> Result<Reply, Error> {
        let deadline = self.deadline();
        let mut session = self.session(deadline)?;
        loop {
            let ticket = session.ticket();
            let (commands, shape) = commands(ticket);
            let mut errand = Errand::new(commands, shape, Repeat::Harmless, deadline);
            let ended = self.go(&mut errand).pop().expect("a command has an end");
            match session::judge(ended, errand.lost(), ticket) {
                Once::Ended(ended) => {
                    self.sessions.give_back(session);
                    return ended;
                }
                Once::Anew => session = self.open(deadline)?,
                Once::Unknown(error) => return Err(error),
            }
        }
    }

    fn attempt<T>(
        &self,
        watch: &Command,
        ticket: Ticket,
        deadline: Instant,
        code: &mut impl FnMut(&mut Tx<'_>) -> Result<T, Error>,
    ) -> Result<Attempt<T>, Error> {
        let node = self.topology.leader();
        let lent = match self.lend(&node, false, deadline) {
            Ok(lent) => lent,
            Err(Ok(why)) => {
                self.topology.failed(&node);
                return Ok(Attempt::Ended(Ended::Again(Some(why))));
            }
            Err(Err(error)) => return Err(error),
        };
        let mut tx = Tx { client: self, lent, node, deadline, queued: Vec::new(), trouble: None };
        let watched = tx.exchange(watch);
        let ended = watched.and_then(|_| code(&mut tx));
        if let Some(why) = tx.trouble.take() {
            // What is watched there is nobody's business any more.
            tx.lent.spoil();
            return Ok(Attempt::Ended(Ended::Again(Some(why))));
        }
        let value = match ended {
            Ok(value) => value,
            Err(error) => {
                tx.lent.spoil();
                return Err(error);
            }
        };
        let Tx { mut lent, node, queued, .. } = tx;
        let mut errand = Errand::new(session::block(ticket, &queued), Shape::Block, Repeat::Never, deadline);
        let tried = self.ask(&mut lent, errand.commands(), deadline);
        // Before anybody waits for a connection.
        drop(lent);
        let mut ended = session::ended(errand.tried(&self.topology, &node, tried, Instant::now()));
        if let Err(Error::Unknown { why, .. }) = ended {
            ended = session::settled(self.outcome_by(ticket, deadline), why, ticket);
        }
        Ok(match ended? {
            Ok(exec) => Attempt::Committed(Committed { value, replies: session::replies(exec)? }),
            Err(ended) => Attempt::Ended(ended),
        })
    }

    fn outcome_by(&self, ticket: Ticket, deadline: Instant) -> Result<Outcome, Error> {
        let mut errand = Errand::new(vec![session::ask(ticket)], Shape::Apart, Repeat::Harmless, deadline);
        Outcome::parse(self.go(&mut errand).pop().expect("a command has an end")?)
    }
}

pub(crate) fn typed<T: FromReply>(reply: Result<Reply, Error>) -> Result<T, Error> {
    let reply = reply?;
    let kind = reply.kind();
    T::from_reply(reply).ok_or(Error::Unexpected(kind.into()))
}

/// A transaction that committed.
#[derive(Clone, Debug, PartialEq)]
pub struct Committed<T> {
    /// What its code returned, at the attempt that counts.
    pub value: T,
    /// The replies to what it queued.
    pub replies: Vec<Reply>,
}

enum Attempt<T> {
    Committed(Committed<T>),
    Ended(Ended),
}

/// An attempt of a transaction.
pub struct Tx<'a> {
    client: &'a Client,
    lent: Lent<'a>,
    node: String,
    deadline: Instant,
    queued: Vec<Command>,
    /// Why this attempt leads nowhere.
    trouble: Option<String>,
}

impl Tx<'_> {
    /// Reads, now. What it reads of watched keys holds when the transaction commits; before, two reads need not go together.
    ///
    /// # Errors
    /// As [`Client::read`]: pass it on with `?`, and the transaction is tried again where that helps.
    pub fn read<T: FromReply>(&mut self, command: Command) -> Result<T, Error> {
        let reply = self.exchange(&command)?;
        typed(Ok(reply))
    }

    /// Writes, when the transaction commits.
    pub fn queue(&mut self, command: Command) {
        self.queued.push(command);
    }

    /// Writes nothing of what was queued so far.
    pub fn forget(&mut self) {
        self.queued.clear();
    }

    fn exchange(&mut self, command: &Command) -> Result<Reply, Error> {
        if let Some(why) = &self.trouble {
            return Err(Error::NotDone(why.clone()));
        }
        let tried = self.client.ask(&mut self.lent, [command].into_iter(), self.deadline);
        tried.on(&self.client.topology, &self.node).unwrap_or_else(|why| {
            self.trouble = Some(why.clone());
            Err(Error::NotDone(why))
        })
    }
}

/// How old what a [`Reader`] shows may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Freshness {
    /// Whatever the node has: usually some milliseconds old.
    Any,
    /// Everything that was acknowledged to anybody so long before.
    Within(Duration),
    /// Everything that this token covers.
    Since(i64),
    /// Everything that this client has seen answered: its own writes. It needs [`Options::tokens`].
    Own,
}

/// Reads from followers.
pub struct Reader<'a> {
    client: &'a Client,
    freshness: Freshness,
}

impl Reader<'_> {
    /// Runs a command that only reads, on a snapshot of some node: on the next one, if a node cannot show one that is fresh enough, and in
    /// the end on the leader.
    ///
    /// # Errors
    /// As [`Client::read`].
    pub fn read<T: FromReply>(&self, command: Command) -> Result<T, Error> {
        let client = self.client;
        let freshness = cmd("HW.FRESHNESS");
        let freshness = match self.freshness {
            Freshness::Any => freshness.arg("ANY"),
            Freshness::Within(age) => {
                freshness.arg("WITHIN").arg(age.as_millis().min(u64::MAX.into()) as u64)
            }
            Freshness::Since(token) => freshness.arg("SINCE").arg(token),
            Freshness::Own if !client.options.tokens => {
                return Err(Error::Invalid("to read one's own writes set `Options::tokens`".into()));
            }
            Freshness::Own => freshness.arg("SINCE").arg(client.token()),
        };
        let (deadline, turn) = (client.deadline(), client.turns.fetch_add(1, Ordering::Relaxed));
        loop {
            let mut why = String::new();
            for node in client.topology.readers(turn) {
                let mut lent = match client.lend(&node, true, deadline) {
                    Ok(lent) => lent,
                    Err(Ok(broken)) => {
                        why = format!("{node}: {broken}");
                        continue;
                    }
                    Err(Err(error)) => return Err(error),
                };
                match client.ask(&mut lent, [&freshness, &command].into_iter(), deadline) {
                    Tried::Sent(replies, None) => match replies.into_iter().nth(1) {
                        Some(Reply::Error(error)) if error.code == "NOTFRESH" => why = error.text,
                        Some(Reply::Error(error)) => match error.verdict() {
                            Verdict::Final => return Err(Error::Server(error)),
                            Verdict::Elsewhere(Some(leader)) => {
                                client.topology.referred(&node, Some(&leader));
                                why = error.text;
                            }
                            _ => why = error.text,
                        },
                        reply => return typed(reply.ok_or(Error::NotDone("a reply is missing".into()))),
                    },
                    Tried::Sent(_, Some(broken)) | Tried::NoConnection(broken) => {
                        why = format!("{node}: {broken}")
                    }
                }
            }
            if Instant::now() + PAUSE >= deadline {
                return Err(Error::NotDone(why));
            }
            thread::sleep(PAUSE);
        }
    }
}
