//! Blocking connections, and a bounded pool of them.

use std::collections::HashMap;
use std::io::{self, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::command::{Command, cmd};
use crate::errand::Tried;
use crate::error::{Error, ServerError, Verdict};
use crate::options::Options;
use crate::reply::{Decoder, Reply};

/// Of a pipeline so much is written before its replies are read: a server that waits for its replies to be read takes no more.
pub(crate) const MAX_UNREAD_BYTES: usize = 1 << 20;
/// And so many commands.
pub(crate) const MAX_UNREAD_COMMANDS: usize = 1000;

/// How connections are made.
pub trait Connect: Send + Sync {
    /// Connects to `host:port`, within that time.
    ///
    /// # Errors
    /// Whatever is in the way: another node is tried.
    fn connect(&self, address: &str, timeout: Duration) -> io::Result<Box<dyn Stream>>;
}

/// A connection as the client needs it.
pub trait Stream: Read + Write + Send {
    /// How long reads and writes may wait.
    ///
    /// # Errors
    /// If the system refuses.
    fn set_timeout(&mut self, timeout: Duration) -> io::Result<()>;

    /// Whether the other end has not closed it, as far as is known without waiting.
    fn is_open(&mut self) -> bool;
}

impl Stream for TcpStream {
    fn set_timeout(&mut self, timeout: Duration) -> io::Result<()> {
        // 0 would mean without end.
        let timeout = Some(timeout.max(Duration::from_millis(1)));
        self.set_read_timeout(timeout)?;
        self.set_write_timeout(timeout)
    }

    fn is_open(&mut self) -> bool {
        let looked = self.set_nonblocking(true).and_then(|()| match self.peek(&mut [0]) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(true),
            // Ended; or something came that nobody asked for: TLS's own, for one.
            Ok(bytes) => Ok(bytes > 0),
            Err(error) => Err(error),
        });
        self.set_nonblocking(false).is_ok() && looked.unwrap_or(false)
    }
}

/// Plain TCP.
pub(crate) fn connect_tcp(address: &str, timeout: Duration) -> io::Result<TcpStream> {
    let mut last = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
    for address in address.to_socket_addrs()? {
        match TcpStream::connect_timeout(&address, timeout) {
            Ok(stream) => {
                stream.set_nodelay(true)?;
                return Ok(stream);
            }
            Err(error) => last = error,
        }
    }
    Err(last)
}

/// What a connection says first.
pub(crate) fn hello(options: &Options, reader: bool) -> Vec<Command> {
    let hello = cmd("HELLO").arg(3);
    let hello = match &options.login {
        Some((user, password)) => hello.arg("AUTH").arg(user).arg(password),
        None => hello,
    };
    [hello].into_iter().chain(reader.then(|| cmd("READONLY"))).collect()
}

/// Why a connection cannot be used.
pub(crate) enum NoEntry {
    /// This time.
    Broken(String),
    /// Never like this: the password is wrong, say.
    Refused(ServerError),
}

impl NoEntry {
    /// Why there is no connection (`Ok`), or will never be one (`Err`).
    pub(crate) fn judge(self) -> Result<String, Error> {
        match self {
            NoEntry::Broken(why) => Ok(why),
            NoEntry::Refused(error) if error.verdict() == Verdict::Final => Err(Error::Server(error)),
            NoEntry::Refused(error) => Ok(error.text),
        }
    }
}

/// One connection. What is sent over it is answered in order.
pub(crate) struct Connection {
    stream: Box<dyn Stream>,
    decoder: Decoder,
    /// Something went wrong: it is not used again.
    broken: bool,
}

impl Connection {
    fn open(options: &Options, address: &str, reader: bool, until: Instant) -> Result<Connection, NoEntry> {
        let broken = |error: io::Error| NoEntry::Broken(error.to_string());
        let timeout = options.timeout.min(until.saturating_duration_since(Instant::now()));
        if timeout.is_zero() {
            return Err(NoEntry::Broken("time is up".into()));
        }
        let stream = match &options.connect {
            Some(connect) => connect.connect(address, timeout),
            None => connect_tcp(address, timeout).map(|stream| Box::new(stream) as Box<dyn Stream>),
        };
        let mut connection =
            Connection { stream: stream.map_err(broken)?, decoder: Decoder::default(), broken: false };
        match connection.ask(&hello(options, reader), timeout) {
            Tried::Sent(replies, None) => {
                let refused = replies.into_iter().find_map(|reply| match reply {
                    Reply::Error(error) => Some(NoEntry::Refused(error)),
                    _ => None,
                });
                refused.map_or(Ok(connection), Err)
            }
            Tried::Sent(_, Some(why)) | Tried::NoConnection(why) => Err(NoEntry::Broken(why)),
        }
    }

    /// Sends commands and waits for their replies: for each for so long, at most.
    pub fn ask<'a>(&mut self, commands: impl IntoIterator<Item = &'a Command>, timeout: Duration) -> Tried {
        let (mut replies, mut out, mut unread) = (Vec::new(), Vec::new(), 0);
        let exchange = || -> io::Result<()> {
            self.stream.set_timeout(timeout)?;
            for command in commands {
                if unread > 0
                    && (unread == MAX_UNREAD_COMMANDS || out.len() + command.len() > MAX_UNREAD_BYTES)
                {
                    self.stream.write_all(&out)?;
                    out.clear();
                    (0..std::mem::take(&mut unread)).try_for_each(|_| {
                        replies.push(read(&mut *self.stream, &mut self.decoder)?);
                        Ok::<_, io::Error>(())
                    })?;
                }
                command.encode(&mut out);
                unread += 1;
            }
            self.stream.write_all(&out)?;
            self.stream.flush()?;
            for _ in 0..unread {
                replies.push(read(&mut *self.stream, &mut self.decoder)?);
            }
            Ok(())
        };
        let broken = exchange().err();
        self.broken |= broken.is_some();
        Tried::Sent(replies, broken.map(|error| why(&error)))
    }

    /// Whether another request may be sent over it.
    pub fn is_good(&mut self) -> bool {
        !self.broken && self.decoder.is_empty() && self.stream.is_open()
    }
}

fn read(stream: &mut dyn Stream, decoder: &mut Decoder) -> io::Result<Reply> {
    let mut buffer = [0; 16 << 10];
    loop {
        let malformed = |error: crate::reply::Malformed| io::Error::new(io::ErrorKind::InvalidData, error.0);
        if let Some(reply) = decoder.next().map_err(malformed)? {
            return Ok(reply);
        }
        match stream.read(&mut buffer) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(bytes) => decoder.feed(&buffer[..bytes]),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

/// In words.
pub(crate) fn why(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::UnexpectedEof => "the connection was closed".into(),
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => "no answer came in time".into(),
        _ => error.to_string(),
    }
}

struct Idle {
    connections: HashMap<(String, bool), Vec<Connection>>,
    /// Connections that may still be made, or are idle.
    free: usize,
}

/// Connections of a client, by address.
pub(crate) struct Pool {
    options: Options,
    idle: Mutex<Idle>,
    returned: Condvar,
}

/// A connection out of the pool, until it is dropped.
pub(crate) struct Lent<'a> {
    pool: &'a Pool,
    key: (String, bool),
    connection: Option<Connection>,
}

impl Pool {
    pub fn new(options: Options) -> Pool {
        let idle = Idle { connections: HashMap::new(), free: options.connections };
        Pool { options, idle: Mutex::new(idle), returned: Condvar::new() }
    }

    fn lock(&self) -> MutexGuard<'_, Idle> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// One to that address: an idle one that still stands, or a new one. `reader`: one that reads snapshots.
    pub fn lend(&self, address: &str, reader: bool, until: Instant) -> Result<Lent<'_>, NoEntry> {
        let key = (address.to_string(), reader);
        let mut idle = self.lock();
        while idle.free == 0 {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(NoEntry::Broken("all of this client's connections are in use".into()));
            }
            idle = self.returned.wait_timeout(idle, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        idle.free -= 1;
        let mut known = idle.connections.remove(&key).unwrap_or_default();
        let mut found = None;
        while let Some(mut connection) = known.pop() {
            if connection.is_good() {
                found = Some(connection);
                break;
            }
        }
        if !known.is_empty() {
            idle.connections.insert(key.clone(), known);
        }
        if found.is_none() {
            // The new one takes the place of an idle one to somebody else, if there are too many.
            let all: usize = idle.connections.values().map(Vec::len).sum();
            if all > idle.free {
                let other = idle.connections.keys().next().cloned();
                other.map(|other| idle.connections.remove(&other));
            }
        }
        drop(idle);
        // Whatever happens, the place is given back.
        let mut lent = Lent { pool: self, key, connection: found };
        if lent.connection.is_none() {
            lent.connection = Some(Connection::open(&self.options, address, reader, until)?);
        }
        Ok(lent)
    }
}

impl Lent<'_> {
    pub fn connection(&mut self) -> &mut Connection {
        self.connection.as_mut().expect("it is there until it is given back")
    }

    /// It is in a state that the next user does not expect.
    pub fn spoil(&mut self) {
        self.connection().broken = true;
    }
}

impl Drop for Lent<'_> {
    fn drop(&mut self) {
        let mut idle = self.pool.lock();
        idle.free += 1;
        if let Some(connection) = self.connection.take().filter(|connection| !connection.broken) {
            idle.connections.entry(std::mem::take(&mut self.key)).or_default().push(connection);
        }
        drop(idle);
        self.pool.returned.notify_one();
    }
}
