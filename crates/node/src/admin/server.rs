//! Admin connections: lines in, lines out, one request of a connection at a time. Lives on the control thread.

use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};

use super::protocol::{AdminRequest, AdminResponse};
use crate::poll::{Event, Interest, Poller};

/// Longest request. Ranges of acknowledged audit rows can be long.
const MAX_LINE_BYTES: usize = 64 << 20;
/// Open connections, at most.
const MAX_CONNECTIONS: usize = 256;

/// The admin port.
pub struct Server {
    listener: TcpListener,
    connections: BTreeMap<u64, Connection>,
    /// Key of the listener in the poller; connections follow.
    key_base: u64,
    next_key: u64,
}

struct Connection {
    stream: TcpStream,
    input: Vec<u8>,
    /// Bytes of `input` that are known to hold no end of line.
    scanned: usize,
    output: Vec<u8>,
    interest: Interest,
    /// A request is being served.
    busy: bool,
    /// No more requests will come.
    ended: bool,
    gone: bool,
}

impl Server {
    /// Serves whoever connects to `listener`. Keys from `key_base` on are this module's.
    pub fn new(listener: TcpListener, poller: &Poller, key_base: u64) -> io::Result<Server> {
        poller.add(&listener, key_base, Interest::READ)?;
        Ok(Server { listener, connections: BTreeMap::new(), key_base, next_key: key_base + 1 })
    }

    /// Something happened at the listener or at a connection.
    pub fn event(&mut self, event: Event, poller: &Poller) {
        if event.key == self.key_base {
            self.accept(poller);
        } else if let Some(connection) = self.connections.get_mut(&event.key) {
            connection.gone |= event.broken;
            connection.read();
        }
    }

    /// The next request of a connection that has none being served. Answer it with [`respond`](Server::respond).
    pub fn next_request(&mut self) -> Option<(u64, AdminRequest)> {
        for (key, connection) in &mut self.connections {
            while !connection.busy
                && let Some(line) = connection.next_line()
            {
                match serde_json::from_slice(&line) {
                    Ok(request) => {
                        connection.busy = true;
                        return Some((*key, request));
                    }
                    Err(error) => {
                        let message = format!("no request of this version's admin protocol: {error}");
                        connection.say(&AdminResponse::Error { message });
                    }
                }
            }
        }
        None
    }

    /// Says something to a connection, if it is still there. Anything but progress completes its request.
    pub fn respond(&mut self, key: u64, response: &AdminResponse) {
        if let Some(connection) = self.connections.get_mut(&key) {
            connection.busy = matches!(response, AdminResponse::Progress { .. });
            connection.say(response);
        }
    }

    /// Writes what can be written; closes what is over.
    pub fn flush(&mut self, poller: &Poller) {
        self.connections.retain(|key, connection| {
            connection.write();
            let idle = !connection.busy && connection.output.is_empty();
            if connection.gone || connection.ended && idle {
                return false;
            }
            let interest = Interest::of(!connection.ended && !connection.busy, !connection.output.is_empty());
            let unchanged = interest == connection.interest;
            connection.interest = interest;
            unchanged || poller.modify(&connection.stream, *key, interest).is_ok()
        });
    }

    fn accept(&mut self, poller: &Poller) {
        while let Ok((stream, _)) = self.listener.accept() {
            let key = self.next_key;
            let tuned = stream.set_nonblocking(true).and_then(|()| stream.set_nodelay(true));
            if self.connections.len() >= MAX_CONNECTIONS
                || tuned.and_then(|()| poller.add(&stream, key, Interest::READ)).is_err()
            {
                continue;
            }
            self.next_key += 1;
            self.connections.insert(
                key,
                Connection {
                    stream,
                    input: Vec::new(),
                    scanned: 0,
                    output: Vec::new(),
                    interest: Interest::READ,
                    busy: false,
                    ended: false,
                    gone: false,
                },
            );
        }
    }
}

impl Connection {
    fn read(&mut self) {
        let mut buffer = [0; 64 << 10];
        while !self.gone && !self.ended {
            match self.stream.read(&mut buffer) {
                Ok(0) => self.ended = true,
                Ok(n) => self.input.extend_from_slice(&buffer[..n]),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(_) => self.gone = true,
            }
            self.gone |= self.input.len() > MAX_LINE_BYTES;
        }
    }

    fn next_line(&mut self) -> Option<Vec<u8>> {
        let end = self.input[self.scanned..].iter().position(|byte| *byte == b'\n');
        let Some(end) = end else {
            self.scanned = self.input.len();
            return None;
        };
        let line = self.input.drain(..=self.scanned + end).collect();
        self.scanned = 0;
        Some(line)
    }

    fn say(&mut self, response: &AdminResponse) {
        serde_json::to_writer(&mut self.output, response).expect("a response has a JSON form");
        self.output.push(b'\n');
    }

    fn write(&mut self) {
        let mut written = 0;
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
    }
}
