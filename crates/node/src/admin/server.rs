//! The sockets of the admin port: what comes in goes to the [`Talk`] of its connection, what that says goes out.

use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::net::TcpListener;
use std::sync::Arc;

use highwater_seam::Nanos;

use super::http::guard::Guard;
use super::http::response::Answer;
use super::protocol::AdminResponse;
use super::talk::{Question, Talk};
use crate::acceptor::Acceptor;
use crate::poll::{Event, Interest, Poller};
use crate::tls::{HANDSHAKE_PATIENCE, Keys, Wire};
use crate::transport::socket::tune_client;

/// Longest request. The longest legal one lists ranges of acknowledged audit rows; longer lists go in several requests.
pub const MAX_LINE_BYTES: usize = 1 << 20;
/// Bytes taken from one connection at one time.
const READ_BYTES: usize = 64 << 10;
/// Who takes nothing of an answer for as long is gone.
const STUCK_TIMEOUT: Nanos = 60_000_000_000;
/// Whom this side has hung up on, and who goes on sending, is not cut for as long: a socket that is closed with bytes unread takes back what
/// was sent.
const LINGER: Nanos = 1_000_000_000;
/// Who has sent so much since then is cut.
const MOST_DISCARDED_BYTES: usize = 1 << 20;
/// How often connections for HTTP are looked after.
const LOOK_EVERY: Nanos = 100_000_000;

/// The admin port.
pub struct Server {
    acceptor: Acceptor,
    guard: Arc<Guard>,
    /// If the port speaks TLS.
    keys: Option<Arc<Keys>>,
    connections: BTreeMap<u64, Connection>,
    /// So many at most. Beyond, the one that was silent longest makes room.
    most: usize,
    /// Key of the listener in the poller; connections follow.
    key_base: u64,
    next_key: u64,
    /// When connections are looked after.
    looks_at: Option<Nanos>,
}

struct Connection {
    stream: Wire,
    /// When it came.
    came: Nanos,
    talk: Talk,
    interest: Interest,
    /// When it last said something.
    heard: Nanos,
    /// When its question was taken, while that is not answered.
    asked: Option<Nanos>,
    /// Everything was said, and until then what comes is thrown away.
    lingers_until: Option<Nanos>,
    /// Bytes that it sent since then.
    discarded: usize,
    gone: bool,
}

impl Server {
    /// Serves whoever connects to `listener` and keeps to `guard`, over TLS if there are keys: `most` at a time. Poller keys from
    /// `key_base` on are this module's.
    pub fn new(
        listener: TcpListener,
        (guard, keys): (Arc<Guard>, Option<Arc<Keys>>),
        most: usize,
        poller: &Poller,
        key_base: u64,
    ) -> io::Result<Server> {
        let acceptor = Acceptor::new(listener, key_base, "operators", poller)?;
        let (connections, next_key) = (BTreeMap::new(), key_base + 1);
        Ok(Server { acceptor, guard, keys, connections, most, key_base, next_key, looks_at: None })
    }

    /// When to give the next turn at the latest.
    pub fn deadline(&self) -> Option<Nanos> {
        [self.acceptor.deadline(), self.looks_at].into_iter().flatten().min()
    }

    /// Does what is due.
    pub fn turn(&mut self, now: Nanos, poller: &Poller) {
        self.acceptor.turn(now, poller);
        if self.looks_at.is_some_and(|at| at <= now) {
            self.looks_at = None;
            for connection in self.connections.values_mut() {
                connection.talk.look(now);
                connection.gone |= connection.lingers_until.is_some_and(|until| until <= now);
                let came_to_nothing = !connection.stream.is_established();
                connection.gone |= came_to_nothing && now - connection.came >= HANDSHAKE_PATIENCE;
            }
        }
    }

    /// Something happened at the listener or at a connection.
    pub fn event(&mut self, event: Event, now: Nanos, poller: &Poller) {
        if event.key == self.key_base {
            self.accept(now, poller);
        } else if let Some(connection) = self.connections.get_mut(&event.key) {
            connection.gone |= event.broken;
            if event.readable {
                connection.heard = now;
                connection.read(now);
            }
        }
    }

    /// The next question of a connection that has none being answered. To be answered with [`respond`](Server::respond) or
    /// [`answer`](Server::answer).
    pub fn next_question(&mut self, now: Nanos) -> Option<(u64, Question)> {
        for (key, connection) in &mut self.connections {
            let question = connection.talk.next(now);
            if let Some(why) = connection.talk.take_suspicion() {
                connection.complain(&why);
            }
            if let Some(question) = question {
                connection.asked = Some(now);
                return Some((*key, question));
            }
        }
        None
    }

    /// Says something to who asked by a line, if it is still there. Anything but progress completes its request.
    pub fn respond(&mut self, key: u64, response: &AdminResponse) {
        if let Some(connection) = self.connections.get_mut(&key) {
            connection.talk.respond(response);
        }
    }

    /// Answers who asked by HTTP, if it is still there. `last`: nothing more is taken from this connection.
    pub fn answer(&mut self, key: u64, answer: &Answer, last: bool) {
        if let Some(connection) = self.connections.get_mut(&key) {
            connection.talk.answer(answer, last);
        }
    }

    /// For how long a question is not answered; `None`: there is none, or nobody who asks.
    pub fn waits(&self, key: u64, now: Nanos) -> Option<Nanos> {
        let connection = self.connections.get(&key).filter(|connection| connection.talk.is_busy())?;
        Some(now.saturating_sub(connection.asked?))
    }

    /// Writes what can be written; closes what is over. Memory of what was received, and of what is to be sent.
    pub fn flush(&mut self, now: Nanos, poller: &Poller) -> (usize, usize) {
        let (mut requests, mut replies) = (0, 0);
        self.connections.retain(|key, connection| {
            connection.write(now);
            let written = connection.talk.output().is_empty() && !connection.stream.has_unsent();
            let done = connection.talk.is_over() && written;
            if connection.gone || done && connection.lingers_until.is_none() {
                return false;
            }
            let (received, unsent) = connection.talk.held_bytes();
            requests += received;
            replies += unsent;
            let reads = connection.talk.wants_input() || connection.lingers_until.is_some();
            // Of what waits for a handshake no socket tells that there is room: there is.
            let waits = !connection.talk.output().is_empty() && connection.stream.is_established();
            let interest = Interest::of(reads, waits || connection.stream.has_unsent());
            let unchanged = interest == connection.interest;
            connection.interest = interest;
            unchanged || poller.modify(&connection.stream, *key, interest).is_ok()
        });
        let looked_after = |connection: &Connection| {
            let unfinished = connection.lingers_until.is_some() || !connection.stream.is_established();
            connection.talk.is_http() || unfinished
        };
        if self.looks_at.is_none() && self.connections.values().any(looked_after) {
            self.looks_at = Some(now + LOOK_EVERY);
        }
        (requests, replies)
    }

    fn accept(&mut self, now: Nanos, poller: &Poller) {
        while let Some((stream, _)) = self.acceptor.next(now, poller) {
            if self.connections.len() >= self.most && !self.make_room() {
                continue;
            }
            let key = self.next_key;
            let tuned = tune_client(&stream, STUCK_TIMEOUT);
            let keys = self.keys.as_ref().and_then(|keys| keys.current());
            let Ok(stream) = tuned.and_then(|()| Wire::accept(stream, keys)) else { continue };
            if poller.add(&stream, key, Interest::READ).is_err() {
                continue;
            }
            self.next_key += 1;
            self.connections.insert(
                key,
                Connection {
                    stream,
                    came: now,
                    talk: Talk::new(self.guard.clone(), now),
                    interest: Interest::READ,
                    heard: now,
                    asked: None,
                    lingers_until: None,
                    discarded: 0,
                    gone: false,
                },
            );
        }
    }

    /// Closes the connection that was silent longest and waits for nothing.
    fn make_room(&mut self) -> bool {
        let silent = self.connections.iter().filter(|(_, connection)| !connection.talk.is_busy());
        let longest = silent.min_by_key(|(_, connection)| connection.heard).map(|(key, _)| *key);
        longest.is_some_and(|key| self.connections.remove(&key).is_some())
    }
}

impl Connection {
    /// Reads once. Level-triggered: if more waits, the poller says so again.
    fn read(&mut self, now: Nanos) {
        let lingers = self.lingers_until.is_some();
        if self.gone || !lingers && !self.talk.wants_input() {
            return;
        }
        let mut buffer = [0; READ_BYTES];
        match self.stream.read(&mut buffer) {
            Ok(0) if lingers => self.gone = true,
            Ok(0) => self.talk.end_of_input(),
            Ok(n) if lingers => {
                self.discarded += n;
                self.gone |= self.discarded > MOST_DISCARDED_BYTES;
            }
            Ok(n) => {
                self.talk.receive(&buffer[..n], now);
                // What TLS has decrypted beyond that is told of by no socket.
                while self.stream.has_unread()
                    && let Ok(more) = self.stream.read(&mut buffer)
                    && more > 0
                {
                    self.talk.receive(&buffer[..more], now);
                }
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(_) => {
                self.gone = true;
                if let Some(why) = self.stream.broken() {
                    let from = self.stream.peer_addr().map_or("somebody".into(), |from| from.to_string());
                    tracing::warn!("the TLS of {from} at the admin port failed: {why} (tls.admin)");
                }
            }
        }
    }

    fn write(&mut self, now: Nanos) {
        self.gone |= self.stream.send().is_err();
        while !self.gone && !self.talk.output().is_empty() {
            match self.stream.write(self.talk.output()) {
                Ok(0) => self.gone = true,
                Ok(n) => self.talk.wrote(n),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(_) => self.gone = true,
            }
        }
        if self.talk.hung_up() && self.talk.output().is_empty() && self.lingers_until.is_none() {
            // The answer is out. The other side hears so, and may go on for a moment.
            self.stream.finish();
            self.lingers_until = Some(now + LINGER);
        }
    }

    fn complain(&self, why: &str) {
        let from = self.stream.peer_addr().map_or("somebody".into(), |from| from.to_string());
        tracing::warn!(
            "possible attack: {from} at the admin port: {why}. A web page may be making somebody's browser send requests \
             here (cross-protocol scripting, DNS rebinding). Nothing was carried out"
        );
    }
}
