//! Admin connections: lines in, lines out, one request of a connection at a time.

use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::net::TcpListener;
use std::sync::Arc;

use highwater_engines::Nanos;

use super::protocol::{AdminRequest, AdminResponse};
use crate::acceptor::Acceptor;
use crate::poll::{Event, Interest, Poller};
use crate::tls::{HANDSHAKE_PATIENCE, Keys, Wire};
use crate::transport::socket::tune_client;

/// Longest request. The longest legal one lists ranges of acknowledged audit rows; longer lists go in several requests.
pub const MAX_LINE_BYTES: usize = 1 << 20;
/// Open connections, at most. Beyond, the one that was silent longest makes room.
const MAX_CONNECTIONS: usize = 256;
/// Bytes taken from one connection at one time.
const READ_BYTES: usize = 64 << 10;
/// A connection with so much to read hears nothing of progress.
const MAX_UNREAD_BYTES: usize = 64 << 10;
/// Who takes nothing of an answer for as long is gone.
const STUCK_TIMEOUT: Nanos = 60_000_000_000;
/// What an empty buffer keeps of its memory.
const KEEP_BYTES: usize = 4 << 10;

/// The admin port.
pub struct Server {
    acceptor: Acceptor,
    connections: BTreeMap<u64, Connection>,
    /// Key of the listener in the poller; connections follow.
    key_base: u64,
    next_key: u64,
    /// If the port speaks TLS.
    keys: Option<Arc<Keys>>,
}

struct Connection {
    stream: Wire,
    /// When it came.
    came: Nanos,
    input: Vec<u8>,
    /// Bytes of `input` that are known to hold no end of line.
    scanned: usize,
    output: Vec<u8>,
    interest: Interest,
    /// When it last said something.
    heard: Nanos,
    /// A request is being served.
    busy: bool,
    /// No more requests will come, or be listened to.
    ended: bool,
    gone: bool,
}

impl Server {
    /// Serves whoever connects to `listener`. Keys from `key_base` on are this module's.
    pub fn new(
        listener: TcpListener,
        poller: &Poller,
        key_base: u64,
        keys: Option<Arc<Keys>>,
    ) -> io::Result<Server> {
        let acceptor = Acceptor::new(listener, key_base, "operators", poller)?;
        Ok(Server { acceptor, connections: BTreeMap::new(), key_base, next_key: key_base + 1, keys })
    }

    /// When to give the next turn at the latest.
    pub fn deadline(&self) -> Option<Nanos> {
        let unfinished = self.connections.values().filter(|connection| !connection.stream.is_established());
        let handshakes = unfinished.map(|connection| connection.came + HANDSHAKE_PATIENCE).min();
        self.acceptor.deadline().into_iter().chain(handshakes).min()
    }

    /// Does what is due.
    pub fn turn(&mut self, now: Nanos, poller: &Poller) {
        self.acceptor.turn(now, poller);
        self.connections.retain(|_, connection| {
            connection.stream.is_established() || now < connection.came + HANDSHAKE_PATIENCE
        });
    }

    /// Something happened at the listener or at a connection.
    pub fn event(&mut self, event: Event, now: Nanos, poller: &Poller) {
        if event.key == self.key_base {
            self.accept(now, poller);
        } else if let Some(connection) = self.connections.get_mut(&event.key) {
            connection.gone |= event.broken;
            if event.readable {
                connection.heard = now;
                connection.read();
            }
        }
    }

    /// The next request of a connection that has none being served. Answer it with [`respond`](Server::respond).
    ///
    /// Whoever says something else is not listened to any further: a browser that was made to post here says its
    /// requests behind a line of HTTP.
    pub fn next_request(&mut self) -> Option<(u64, AdminRequest)> {
        for (key, connection) in &mut self.connections {
            if connection.busy || connection.ended && connection.input.is_empty() {
                continue;
            }
            let Some(line) = connection.next_line() else { continue };
            match serde_json::from_slice(&line) {
                Ok(request) => {
                    connection.busy = true;
                    return Some((*key, request));
                }
                Err(error) => {
                    let message = format!("no request of this version's admin protocol: {error}");
                    connection.hang_up(&message, &line);
                }
            }
        }
        None
    }

    /// Says something to a connection, if it is still there. Anything but progress completes its request.
    pub fn respond(&mut self, key: u64, response: &AdminResponse) {
        if let Some(connection) = self.connections.get_mut(&key) {
            let progress = matches!(response, AdminResponse::Progress { .. });
            connection.busy = progress;
            if !(progress && connection.output.len() > MAX_UNREAD_BYTES) {
                connection.say(response);
            }
        }
    }

    /// Writes what can be written; closes what is over. Memory of what was received, and of what is to be sent.
    pub fn flush(&mut self, poller: &Poller) -> (usize, usize) {
        let (mut requests, mut replies) = (0, 0);
        self.connections.retain(|key, connection| {
            connection.write();
            let idle = !connection.busy && connection.output.is_empty() && !connection.stream.has_unsent();
            if connection.gone || connection.ended && idle && connection.input.is_empty() {
                return false;
            }
            requests += connection.input.capacity();
            replies += connection.output.capacity();
            let writes = !connection.output.is_empty() && connection.stream.is_established()
                || connection.stream.has_unsent();
            let interest = Interest::of(!connection.ended && !connection.busy, writes);
            let unchanged = interest == connection.interest;
            connection.interest = interest;
            unchanged || poller.modify(&connection.stream, *key, interest).is_ok()
        });
        (requests, replies)
    }

    fn accept(&mut self, now: Nanos, poller: &Poller) {
        while let Some((stream, _)) = self.acceptor.next(now, poller) {
            if self.connections.len() >= MAX_CONNECTIONS && !self.make_room() {
                continue;
            }
            let key = self.next_key;
            let tuned = tune_client(&stream, STUCK_TIMEOUT);
            let keys = self.keys.as_ref().map(|keys| keys.current());
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
                    input: Vec::new(),
                    scanned: 0,
                    output: Vec::new(),
                    interest: Interest::READ,
                    heard: now,
                    busy: false,
                    ended: false,
                    gone: false,
                },
            );
        }
    }

    /// Closes the connection that was silent longest and waits for nothing.
    fn make_room(&mut self) -> bool {
        let silent = self.connections.iter().filter(|(_, connection)| !connection.busy);
        let longest = silent.min_by_key(|(_, connection)| connection.heard).map(|(key, _)| *key);
        longest.is_some_and(|key| self.connections.remove(&key).is_some())
    }
}

impl Connection {
    /// Reads once. Level-triggered: if more waits, the poller says so again.
    fn read(&mut self) {
        if self.gone || self.ended || self.busy {
            return;
        }
        let mut buffer = [0; READ_BYTES];
        match self.stream.read(&mut buffer) {
            Ok(0) => self.ended = true,
            Ok(n) => {
                self.input.extend_from_slice(&buffer[..n]);
                // What TLS has decrypted beyond that is told of by no socket.
                while self.stream.has_unread()
                    && let Ok(more) = self.stream.read(&mut buffer)
                    && more > 0
                {
                    self.input.extend_from_slice(&buffer[..more]);
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

    fn next_line(&mut self) -> Option<Vec<u8>> {
        let end = self.input[self.scanned..].iter().position(|byte| *byte == b'\n');
        let Some(end) = end else {
            self.scanned = self.input.len();
            if self.input.len() > MAX_LINE_BYTES {
                self.hang_up(&format!("a request is one line of at most {MAX_LINE_BYTES} bytes"), &[]);
            } else if self.ended {
                // It will never be complete.
                self.input = Vec::new();
            }
            return None;
        };
        let line = self.input.drain(..=self.scanned + end).collect();
        self.scanned = 0;
        self.input.shrink_to(KEEP_BYTES.max(self.input.len()));
        Some(line)
    }

    /// Says why, and listens no more: what came behind is not looked at.
    fn hang_up(&mut self, message: &str, line: &[u8]) {
        let from = self.stream.peer_addr().map_or("somebody".into(), |from| from.to_string());
        if String::from_utf8_lossy(line).contains(" HTTP/") {
            tracing::warn!(
                "possible attack: {from} speaks HTTP at the admin port. A web page may be making somebody's browser \
                 send requests here (cross-protocol scripting). Nothing behind its first line was looked at"
            );
        }
        self.say(&AdminResponse::Error { message: message.into() });
        (self.input, self.scanned) = (Vec::new(), 0);
        self.ended = true;
        // The answer, then the end. What still comes in is not read, and the socket is closed when the answer is out.
        self.write();
        self.stream.finish();
        self.gone |= !self.output.is_empty();
    }

    fn say(&mut self, response: &AdminResponse) {
        serde_json::to_writer(&mut self.output, response).expect("a response has a JSON form");
        self.output.push(b'\n');
    }

    fn write(&mut self) {
        let mut written = 0;
        self.gone |= self.stream.send().is_err();
        while !self.gone && written < self.output.len() {
            match self.stream.write(&self.output[written..]) {
                Ok(0) => self.gone = true,
                Ok(n) => written += n,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(_) => self.gone = true,
            }
        }
        self.output.drain(..written);
        if self.output.is_empty() {
            self.output.shrink_to(KEEP_BYTES);
        }
    }
}
