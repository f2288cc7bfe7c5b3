//! The same client on tokio: nothing blocks a thread. What is sent again, and when, is decided by the same rules as in the blocking client.
//!
//! A future that is dropped before its end leaves its request where it is: it may be done or not, and its connection and session are
//! not used again.

use std::collections::HashMap;
use std::future::{Future, poll_fn};
use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::Poll;
use std::time::{Duration, Instant};

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadBuf};
use tokio::net::TcpStream;
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::{sleep, timeout};

use crate::client::{Committed, PAUSE, typed};
use crate::command::{Command, Word, cmd};
use crate::errand::{Errand, Repeat, Shape, Step, Tried};
use crate::error::{Effect, Error, Ticket};
use crate::net::{MAX_UNREAD_BYTES, MAX_UNREAD_COMMANDS, NoEntry, hello, why};
use crate::options::Options;
use crate::reply::{Decoder, Reply};
use crate::session::{self, Ended, Once, Outcome, Session, Sessions};
use crate::topology::Topology;
use crate::typed::FromReply;

/// A connection as the client needs it.
pub trait AsyncStream: AsyncRead + AsyncWrite + Unpin + Send {}

impl<S: AsyncRead + AsyncWrite + Unpin + Send> AsyncStream for S {}

/// A connection that comes.
pub type Connecting = Pin<Box<dyn Future<Output = io::Result<Box<dyn AsyncStream>>> + Send>>;

/// How connections are made.
pub trait ConnectAsync: Send + Sync {
    /// Connects to `host:port`.
    fn connect(&self, address: String) -> Connecting;
}

/// Plain TCP.
pub(crate) async fn connect_tcp(address: &str) -> io::Result<TcpStream> {
    let stream = TcpStream::connect(address).await?;
    stream.set_nodelay(true)?;
    Ok(stream)
}

struct Connection {
    stream: Box<dyn AsyncStream>,
    decoder: Decoder,
}

impl Connection {
    async fn open(options: &Options, address: &str) -> io::Result<Connection> {
        let stream = match &options.connect_async {
            Some(connect) => connect.connect(address.to_string()).await?,
            None => Box::new(connect_tcp(address).await?),
        };
        Ok(Connection { stream, decoder: Decoder::default() })
    }

    /// Sends commands and takes their replies, of which those before something went wrong are there, too.
    async fn exchange(&mut self, commands: &[&Command], replies: &mut Vec<Reply>) -> io::Result<()> {
        let (mut out, mut asked) = (Vec::new(), 0);
        for (at, command) in commands.iter().enumerate() {
            command.encode(&mut out);
            let full = at + 1 - asked == MAX_UNREAD_COMMANDS || out.len() > MAX_UNREAD_BYTES;
            if full || at + 1 == commands.len() {
                self.stream.write_all(&out).await?;
                self.stream.flush().await?;
                out.clear();
                while asked <= at {
                    replies.push(self.reply().await?);
                    asked += 1;
                }
            }
        }
        Ok(())
    }

    async fn reply(&mut self) -> io::Result<Reply> {
        let mut buffer = [0; 16 << 10];
        loop {
            let reply = self.decoder.next();
            if let Some(reply) = reply.map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error.0))? {
                return Ok(reply);
            }
            match self.stream.read(&mut buffer).await? {
                0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                bytes => self.decoder.feed(&buffer[..bytes]),
            }
        }
    }

    /// Whether another request may be sent over it: nothing came that nobody asked for, not even an end.
    async fn is_good(&mut self) -> bool {
        let mut byte = [0];
        let quiet = poll_fn(|context| {
            let read = Pin::new(&mut self.stream).poll_read(context, &mut ReadBuf::new(&mut byte));
            Poll::Ready(read.is_pending())
        });
        quiet.await && self.decoder.is_empty()
    }
}

type Idle = HashMap<String, Vec<Connection>>;

struct Pool {
    options: Options,
    free: Semaphore,
    idle: Mutex<Idle>,
}

/// A connection out of the pool. It goes back only if it is known to be in order.
struct Lent<'a> {
    pool: &'a Pool,
    address: String,
    connection: Option<Connection>,
    in_order: bool,
    _place: SemaphorePermit<'a>,
}

impl Pool {
    fn idle(&self) -> MutexGuard<'_, Idle> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn take(&self, address: &str) -> Option<Connection> {
        self.idle().get_mut(address)?.pop()
    }

    async fn lend(&self, address: &str, until: Instant) -> Result<Lent<'_>, NoEntry> {
        let left = || until.saturating_duration_since(Instant::now());
        let broken = |why: &str| NoEntry::Broken(why.into());
        let place = timeout(left(), self.free.acquire()).await;
        let place = place.map_err(|_| broken("all of this client's connections are in use"))?;
        let place = place.expect("nobody closes it");
        let mut lent = Lent {
            pool: self,
            address: address.to_string(),
            connection: None,
            in_order: false,
            _place: place,
        };
        while let Some(mut connection) = self.take(address) {
            if connection.is_good().await {
                lent.connection = Some(connection);
                lent.in_order = true;
                return Ok(lent);
            }
        }
        let opening = timeout(self.options.timeout.min(left()), Connection::open(&self.options, address));
        let opened = opening.await.map_err(|_| broken("no answer came in time"))?;
        lent.connection = Some(opened.map_err(|error| broken(&why(&error)))?);
        let hello = hello(&self.options, false);
        match lent.ask(&hello.iter().collect::<Vec<_>>(), self.options.timeout.min(left())).await {
            Tried::Sent(replies, None) => match replies.into_iter().next() {
                Some(Reply::Error(error)) => Err(NoEntry::Refused(error)),
                _ => Ok(lent),
            },
            Tried::Sent(_, Some(why)) | Tried::NoConnection(why) => Err(NoEntry::Broken(why)),
        }
    }
}

impl Lent<'_> {
    async fn ask(&mut self, commands: &[&Command], limit: Duration) -> Tried {
        // Whoever drops this in the middle leaves it so.
        self.in_order = false;
        let connection = self.connection.as_mut().expect("it is there until it is given back");
        let mut replies = Vec::new();
        let ended = timeout(limit, connection.exchange(commands, &mut replies)).await;
        let broken = match ended {
            Ok(Ok(())) => None,
            Ok(Err(error)) => Some(why(&error)),
            Err(_) => Some("no answer came in time".into()),
        };
        self.in_order = broken.is_none();
        Tried::Sent(replies, broken)
    }
}

impl Drop for Lent<'_> {
    fn drop(&mut self) {
        let Some(connection) = self.connection.take().filter(|_| self.in_order) else { return };
        let mut idle = self.pool.idle();
        // Those to who leads no longer make room.
        let all: usize = idle.values().map(Vec::len).sum();
        if all >= self.pool.options.connections {
            let other = idle.keys().find(|address| **address != self.address).cloned();
            other.map(|other| idle.remove(&other));
        }
        let kept = idle.entry(std::mem::take(&mut self.address)).or_default();
        if kept.len() < self.pool.options.connections {
            kept.push(connection);
        }
    }
}

/// A client of a cluster: as the blocking [`Client`](crate::Client), awaited. Tasks share it by reference, or in an `Arc`.
pub struct Client {
    topology: Topology,
    pool: Pool,
    sessions: Sessions,
    token: AtomicI64,
    ask_token: Command,
}

impl Client {
    /// A client, and a first answer from some node.
    ///
    /// # Errors
    /// If the options make no sense, or no node answers in time.
    pub async fn connect(options: Options) -> Result<Client, Error> {
        options.validate()?;
        let client = Client {
            topology: Topology::new(&options.nodes),
            pool: Pool { free: Semaphore::new(options.connections), idle: Mutex::default(), options },
            sessions: Sessions::default(),
            token: AtomicI64::new(0),
            ask_token: cmd("HW.TOKEN"),
        };
        client.read::<()>(cmd("PING")).await?;
        Ok(client)
    }

    /// See [`Client::run`](crate::Client::run).
    ///
    /// # Errors
    /// As there.
    pub async fn run<T: FromReply>(&self, command: Command) -> Result<T, Error> {
        typed(self.one(command, Repeat::Never, self.deadline()).await)
    }

    /// See [`Client::read`](crate::Client::read).
    ///
    /// # Errors
    /// As there.
    pub async fn read<T: FromReply>(&self, command: Command) -> Result<T, Error> {
        typed(self.one(command, Repeat::Harmless, self.deadline()).await)
    }

    /// See [`Client::once`](crate::Client::once).
    ///
    /// # Errors
    /// As there.
    pub async fn once<T: FromReply>(&self, command: Command) -> Result<T, Error> {
        typed(self.under_session(|ticket| (vec![session::once(ticket, &command)], Shape::Apart)).await)
    }

    /// See [`Client::block`](crate::Client::block).
    ///
    /// # Errors
    /// As there.
    pub async fn block(&self, commands: &[Command]) -> Result<Vec<Reply>, Error> {
        let exec = self.under_session(|ticket| (session::block(ticket, commands), Shape::Block)).await?;
        session::replies(exec)
    }

    /// See [`Client::pipeline`](crate::Client::pipeline).
    pub async fn pipeline(&self, commands: Vec<Command>) -> Vec<Result<Reply, Error>> {
        self.go(&mut Errand::new(commands, Shape::Apart, Repeat::Never, self.deadline())).await
    }

    /// See [`Client::transaction`](crate::Client::transaction).
    ///
    /// # Errors
    /// As there.
    pub async fn transaction<T>(
        &self,
        keys: &[impl Word],
        mut code: impl AsyncFnMut(&mut Tx<'_>) -> Result<T, Error>,
    ) -> Result<Committed<T>, Error> {
        if keys.is_empty() {
            return Err(Error::Invalid("a transaction without keys watches nothing: use `block`".into()));
        }
        let watch = cmd("WATCH").args(keys);
        let deadline = self.deadline();
        let mut session = self.session(deadline).await?;
        loop {
            let ticket = session.ticket();
            let ended = match self.attempt(&watch, ticket, deadline, &mut code).await {
                Ok(Attempt::Committed(value, replies)) => Some(Ok(Committed { value, replies })),
                Ok(Attempt::Ended(Ended::Expired)) => {
                    session = self.open(deadline).await?;
                    continue;
                }
                Ok(Attempt::Ended(_)) if Instant::now() + PAUSE < deadline => None,
                Ok(Attempt::Ended(Ended::Again(why))) => {
                    Some(Err(why.map_or(Error::Conflict, Error::NotDone)))
                }
                Err(error) => Some(Err(error)),
            };
            if let Some(ended) = ended {
                let known = !matches!(&ended, Err(error) if error.effect() == Effect::Unknown);
                known.then(|| self.sessions.give_back(session));
                return ended;
            }
            sleep(PAUSE).await;
        }
    }

    /// See [`Client::outcome`](crate::Client::outcome).
    ///
    /// # Errors
    /// As there.
    pub async fn outcome(&self, ticket: Ticket) -> Result<Outcome, Error> {
        self.outcome_by(ticket, self.deadline()).await
    }

    /// See [`Client::token`](crate::Client::token).
    pub fn token(&self) -> i64 {
        self.token.load(Ordering::Relaxed)
    }

    fn deadline(&self) -> Instant {
        Instant::now() + self.pool.options.patience
    }

    async fn one(&self, command: Command, repeat: Repeat, deadline: Instant) -> Result<Reply, Error> {
        let mut errand = Errand::new(vec![command], Shape::Apart, repeat, deadline);
        self.go(&mut errand).await.pop().expect("a command has an end")
    }

    async fn go(&self, errand: &mut Errand) -> Vec<Result<Reply, Error>> {
        loop {
            let node = self.topology.leader();
            let tried = match self.lend(&node, errand.deadline()).await {
                Ok(mut lent) => self.ask(&mut lent, errand.commands().collect(), errand.deadline()).await,
                Err(Ok(why)) => Tried::NoConnection(why),
                Err(Err(error)) => return errand.refused(&error),
            };
            match errand.tried(&self.topology, &node, tried, Instant::now()) {
                Step::Again(pause) => sleep(pause).await,
                Step::Ended(ended) => return ended,
            }
        }
    }

    async fn lend(&self, node: &str, deadline: Instant) -> Result<Lent<'_>, Result<String, Error>> {
        self.pool.lend(node, deadline).await.map_err(NoEntry::judge)
    }

    async fn ask<'a>(
        &'a self,
        lent: &mut Lent<'_>,
        mut commands: Vec<&'a Command>,
        deadline: Instant,
    ) -> Tried {
        let options = &self.pool.options;
        let limit = options.timeout.min(deadline.saturating_duration_since(Instant::now()));
        if options.tokens {
            commands.push(&self.ask_token);
        }
        match lent.ask(&commands, limit).await {
            Tried::Sent(mut replies, None) if options.tokens => {
                if let Some(Reply::Integer(token)) = replies.pop() {
                    self.token.fetch_max(token, Ordering::Relaxed);
                }
                Tried::Sent(replies, None)
            }
            other => other,
        }
    }

    async fn session(&self, deadline: Instant) -> Result<Session, Error> {
        match self.sessions.take() {
            Some(session) => Ok(session),
            None => self.open(deadline).await,
        }
    }

    async fn open(&self, deadline: Instant) -> Result<Session, Error> {
        session::opened(self.one(session::open(), Repeat::Harmless, deadline).await)
    }

    async fn under_session(
        &self,
        commands: impl Fn(Ticket) -> (Vec<Command>, Shape),
    ) -> Result<Reply, Error> {
        let deadline = self.deadline();
        let mut session = self.session(deadline).await?;
        loop {
            let ticket = session.ticket();
            let (commands, shape) = commands(ticket);
            let mut errand = Errand::new(commands, shape, Repeat::Harmless, deadline);
            let ended = self.go(&mut errand).await.pop().expect("a command has an end");
            match session::judge(ended, errand.lost(), ticket) {
                Once::Ended(ended) => {
                    self.sessions.give_back(session);
                    return ended;
                }
                Once::Anew => session = self.open(deadline).await?,
                Once::Unknown(error) => return Err(error),
            }
        }
    }

    async fn attempt<T>(
        &self,
        watch: &Command,
        ticket: Ticket,
        deadline: Instant,
        code: &mut impl AsyncFnMut(&mut Tx<'_>) -> Result<T, Error>,
    ) -> Result<Attempt<T>, Error> {
        let again = |why: String| Ok(Attempt::Ended(Ended::Again(Some(why))));
        let node = self.topology.leader();
        let lent = match self.lend(&node, deadline).await {
            Ok(lent) => lent,
            Err(Ok(why)) => {
                self.topology.failed(&node);
                return again(why);
            }
            Err(Err(error)) => return Err(error),
        };
        let mut tx = Tx { client: self, lent, node, deadline, queued: Vec::new(), trouble: None };
        let ended = match tx.exchange(watch).await {
            Ok(_) => code(&mut tx).await,
            Err(error) => Err(error),
        };
        let value = match (tx.trouble.take(), ended) {
            (None, Ok(value)) => value,
            (trouble, ended) => {
                // What is watched there is nobody's business any more.
                tx.lent.in_order = false;
                return trouble.map_or(Err(ended.err().expect("one of the two is wrong")), again);
            }
        };
        let Tx { mut lent, node, queued, .. } = tx;
        let mut errand = Errand::new(session::block(ticket, &queued), Shape::Block, Repeat::Never, deadline);
        let tried = self.ask(&mut lent, errand.commands().collect(), deadline).await;
        // Before anybody waits for a connection.
        drop(lent);
        let mut ended = session::ended(errand.tried(&self.topology, &node, tried, Instant::now()));
        if let Err(Error::Unknown { why, .. }) = ended {
            ended = session::settled(self.outcome_by(ticket, deadline).await, why, ticket);
        }
        Ok(match ended? {
            Ok(exec) => Attempt::Committed(value, session::replies(exec)?),
            Err(ended) => Attempt::Ended(ended),
        })
    }

    async fn outcome_by(&self, ticket: Ticket, deadline: Instant) -> Result<Outcome, Error> {
        Outcome::parse(self.one(session::ask(ticket), Repeat::Harmless, deadline).await?)
    }
}

enum Attempt<T> {
    Committed(T, Vec<Reply>),
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
    /// See [`Tx::read`](crate::Tx::read).
    ///
    /// # Errors
    /// As there.
    pub async fn read<T: FromReply>(&mut self, command: Command) -> Result<T, Error> {
        typed(self.exchange(&command).await)
    }

    /// Writes, when the transaction commits.
    pub fn queue(&mut self, command: Command) {
        self.queued.push(command);
    }

    /// Writes nothing of what was queued so far.
    pub fn forget(&mut self) {
        self.queued.clear();
    }

    async fn exchange(&mut self, command: &Command) -> Result<Reply, Error> {
        if let Some(why) = &self.trouble {
            return Err(Error::NotDone(why.clone()));
        }
        let tried = self.client.ask(&mut self.lent, vec![command], self.deadline).await;
        let ended = tried.on(&self.client.topology, &self.node);
        ended.unwrap_or_else(|why| {
            self.trouble = Some(why.clone());
            Err(Error::NotDone(why))
        })
    }
}
