//! A socket, with TLS or without.

use std::io::{self, IoSlice, Read, Write};
use std::mem::MaybeUninit;
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;

use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, ServerConfig, ServerConnection};

use super::names::is_for;
use super::session::Session;
use super::{MAX_UNSENT_BYTES, PEER_BUFFER_BYTES};

/// See the module. Without TLS it is the socket, and costs nothing more.
pub enum Wire {
    Plain(TcpStream),
    /// Encrypted.
    Tls(Box<Session>),
}

impl Wire {
    /// A connection that was accepted, to be encrypted with these keys, if there are some.
    ///
    /// # Errors
    /// TLS cannot begin.
    pub fn accept(stream: TcpStream, keys: Option<Arc<ServerConfig>>) -> io::Result<Wire> {
        match keys {
            None => Ok(Wire::Plain(stream)),
            Some(keys) => Wire::answer(stream, keys, MAX_UNSENT_BYTES),
        }
    }

    /// A connection of another node's, which is to be encrypted with these keys.
    ///
    /// # Errors
    /// TLS cannot begin.
    pub fn accept_peer(stream: TcpStream, keys: Arc<ServerConfig>) -> io::Result<Wire> {
        Wire::answer(stream, keys, PEER_BUFFER_BYTES)
    }

    fn answer(stream: TcpStream, keys: Arc<ServerConfig>, unsent: usize) -> io::Result<Wire> {
        let tls = ServerConnection::new(keys).map_err(io::Error::other)?;
        Ok(Wire::Tls(Box::new(Session::new(stream, tls.into(), unsent))))
    }

    /// A connection to another node, whose certificate has to be for `name`.
    ///
    /// # Errors
    /// TLS cannot begin.
    pub fn call_peer(
        stream: TcpStream,
        keys: Arc<ClientConfig>,
        name: ServerName<'static>,
    ) -> io::Result<Wire> {
        let tls = ClientConnection::new(keys, name).map_err(io::Error::other)?;
        Ok(Wire::Tls(Box::new(Session::new(stream, tls.into(), PEER_BUFFER_BYTES))))
    }

    /// Much will go over it: its socket is read in large pieces from now on.
    pub fn widen(&mut self) {
        if let Wire::Tls(session) = self {
            session.stage(PEER_BUFFER_BYTES);
        }
    }

    /// Whether both sides have a key by now.
    pub fn is_established(&self) -> bool {
        match self {
            Wire::Plain(_) => true,
            Wire::Tls(session) => !session.is_handshaking(),
        }
    }

    /// Whether it is encrypted, and the other side has shown a certificate that was verified.
    pub fn is_certified(&self) -> bool {
        match self {
            Wire::Plain(_) => false,
            Wire::Tls(session) => session.certificates().is_some_and(|shown| !shown.is_empty()),
        }
    }

    /// Whether the other side has shown a certificate that is for this name.
    pub fn is_for(&self, name: &str) -> bool {
        match self {
            Wire::Plain(_) => false,
            Wire::Tls(session) => is_for(session.certificates(), name),
        }
    }

    /// Why TLS has ended badly, if it has.
    pub fn broken(&self) -> Option<&str> {
        match self {
            Wire::Plain(_) => None,
            Wire::Tls(session) => session.broken(),
        }
    }

    /// Whether something is encrypted, or to be said by TLS itself, that waits for the socket.
    pub fn has_unsent(&self) -> bool {
        match self {
            Wire::Plain(_) => false,
            Wire::Tls(session) => session.has_unsent(),
        }
    }

    /// Whether something is here that was not taken. Nothing tells of it later.
    pub fn has_unread(&self) -> bool {
        match self {
            Wire::Plain(_) => false,
            Wire::Tls(session) => session.has_unread(),
        }
    }

    /// Bytes that TLS took off the socket in all; 0 without it.
    pub fn received(&self) -> u64 {
        match self {
            Wire::Plain(_) => 0,
            Wire::Tls(session) => session.received(),
        }
    }

    /// Reads once from the socket, or until the room is full, if it is encrypted.
    ///
    /// # Errors
    /// The socket's, or TLS's.
    pub fn fill(&mut self, room: &mut [MaybeUninit<u8>]) -> io::Result<usize> {
        match self {
            Wire::Plain(stream) => Ok(rustix::io::read(stream, room).map(|(filled, _)| filled.len())?),
            Wire::Tls(session) => session.pull(room.len(), true, |at, bytes| put(room, at, bytes)),
        }
    }

    /// The same of what is [here](Wire::has_unread) already.
    ///
    /// # Errors
    /// TLS's.
    pub fn fill_unread(&mut self, room: &mut [MaybeUninit<u8>]) -> io::Result<usize> {
        match self {
            Wire::Plain(_) => Err(io::ErrorKind::WouldBlock.into()),
            Wire::Tls(session) => session.pull(room.len(), false, |at, bytes| put(room, at, bytes)),
        }
    }

    /// Writes what waits for the socket. Whether the socket took something.
    ///
    /// # Errors
    /// The socket's.
    pub fn send(&mut self) -> io::Result<bool> {
        match self {
            Wire::Plain(_) => Ok(false),
            Wire::Tls(session) => {
                session.send()?;
                Ok(session.take_sent())
            }
        }
    }

    /// Says that nothing more will come from this side.
    pub fn finish(&mut self) {
        if let Wire::Tls(session) = self {
            session.close();
            if session.has_unsent() {
                return;
            }
        }
        let _ = self.socket().shutdown(Shutdown::Write);
    }

    /// Where the other side is.
    ///
    /// # Errors
    /// The socket's.
    pub fn peer_addr(&self) -> io::Result<SocketAddr> {
        self.socket().peer_addr()
    }

    /// The socket below.
    pub fn socket(&self) -> &TcpStream {
        match self {
            Wire::Plain(stream) => stream,
            Wire::Tls(session) => session.stream(),
        }
    }
}

impl From<Wire> for TcpStream {
    /// The socket below; what TLS has not sent is lost.
    fn from(wire: Wire) -> TcpStream {
        match wire {
            Wire::Plain(stream) => stream,
            Wire::Tls(session) => session.into_stream(),
        }
    }
}

/// Puts these bytes into the room, behind so many others.
fn put(room: &mut [MaybeUninit<u8>], at: usize, bytes: &[u8]) {
    room[at..at + bytes.len()].iter_mut().zip(bytes).for_each(|(place, byte)| {
        place.write(*byte);
    });
}

/// Nothing taken of something: there is no room.
fn or_blocks(taken: usize, wanted: bool) -> io::Result<usize> {
    if taken == 0 && wanted { Err(io::ErrorKind::WouldBlock.into()) } else { Ok(taken) }
}

impl AsFd for Wire {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket().as_fd()
    }
}

impl std::fmt::Debug for Wire {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let kind = if matches!(self, Wire::Plain(_)) { "Plain" } else { "Tls" };
        f.debug_tuple(kind).field(self.socket()).finish()
    }
}

impl Read for Wire {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Wire::Plain(stream) => stream.read(buffer),
            Wire::Tls(session) => session.pull(buffer.len(), true, |at, bytes| {
                buffer[at..at + bytes.len()].copy_from_slice(bytes);
            }),
        }
    }
}

impl Write for Wire {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Wire::Plain(stream) => stream.write(bytes),
            Wire::Tls(session) => {
                let taken = session.push(|writer| writer.write(bytes))?;
                or_blocks(taken, !bytes.is_empty())
            }
        }
    }

    fn write_vectored(&mut self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        match self {
            Wire::Plain(stream) => stream.write_vectored(slices),
            Wire::Tls(session) => {
                let taken = session.push(|writer| writer.write_vectored(slices))?;
                or_blocks(taken, slices.iter().any(|slice| !slice.is_empty()))
            }
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        self.send().map(drop)
    }
}
