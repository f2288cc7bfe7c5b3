//! A socket, with TLS or without.

use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;

use rustls::{ServerConfig, ServerConnection};

use super::MAX_UNSENT_BYTES;

/// See the module. Without TLS it is the socket, and costs nothing more.
pub enum Wire {
    /// As it is.
    Plain(TcpStream),
    /// Encrypted.
    Tls(Box<Session>),
}

/// A connection under TLS.
pub struct Session {
    stream: TcpStream,
    tls: ServerConnection,
    /// The other side will send nothing more.
    ended: bool,
    /// Why it cannot go on.
    broken: Option<String>,
    /// Bytes that are decrypted and were not taken.
    unread: usize,
    /// Bytes that the socket took, since somebody asked.
    sent: usize,
}

impl Wire {
    /// A connection that was accepted, to be encrypted with these keys, if there are some.
    ///
    /// # Errors
    /// TLS cannot begin.
    pub fn accept(stream: TcpStream, keys: Option<Arc<ServerConfig>>) -> io::Result<Wire> {
        let Some(keys) = keys else { return Ok(Wire::Plain(stream)) };
        let mut tls = ServerConnection::new(keys).map_err(io::Error::other)?;
        tls.set_buffer_limit(Some(MAX_UNSENT_BYTES));
        Ok(Wire::Tls(Box::new(Session { stream, tls, ended: false, broken: None, unread: 0, sent: 0 })))
    }

    /// Whether both sides have a key by now.
    pub fn is_established(&self) -> bool {
        match self {
            Wire::Plain(_) => true,
            Wire::Tls(session) => !session.tls.is_handshaking(),
        }
    }

    /// Why TLS has ended badly, if it has.
    pub fn broken(&self) -> Option<&str> {
        match self {
            Wire::Plain(_) => None,
            Wire::Tls(session) => session.broken.as_deref(),
        }
    }

    /// Whether something is encrypted, or to be said by TLS itself, that waits for the socket.
    pub fn has_unsent(&self) -> bool {
        match self {
            Wire::Plain(_) => false,
            Wire::Tls(session) => session.tls.wants_write(),
        }
    }

    /// Whether something is decrypted that was not taken. Nothing tells of it later.
    pub fn has_unread(&self) -> bool {
        match self {
            Wire::Plain(_) => false,
            Wire::Tls(session) => session.unread > 0,
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
                Ok(std::mem::take(&mut session.sent) > 0)
            }
        }
    }

    /// Says that nothing more will come from this side.
    pub fn finish(&mut self) {
        if let Wire::Tls(session) = self {
            session.tls.send_close_notify();
            let _ = session.send();
            if session.tls.wants_write() {
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

    fn socket(&self) -> &TcpStream {
        match self {
            Wire::Plain(stream) => stream,
            Wire::Tls(session) => &session.stream,
        }
    }
}

impl AsFd for Wire {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket().as_fd()
    }
}

impl Read for Wire {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Wire::Plain(stream) => stream.read(buffer),
            Wire::Tls(session) => session.read(buffer),
        }
    }
}

impl Write for Wire {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Wire::Plain(stream) => stream.write(bytes),
            Wire::Tls(session) => session.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        self.send().map(drop)
    }
}

impl Session {
    /// Decrypts until the room is full or the socket is empty.
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let mut filled = 0;
        while filled < buffer.len() {
            match self.tls.reader().read(&mut buffer[filled..]) {
                Ok(0) => {
                    self.ended = true;
                    break;
                }
                Ok(count) => {
                    filled += count;
                    self.unread = self.unread.saturating_sub(count);
                    continue;
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                // The socket's end without TLS's: as any end that breaks off, told when what came before is taken.
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                    self.ended = true;
                    break;
                }
                Err(error) => return Err(error),
            }
            if self.ended {
                break;
            }
            match self.tls.read_tls(&mut self.stream) {
                Ok(0) => self.ended = true,
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) => return Err(error),
            }
            match self.tls.process_new_packets() {
                Ok(state) => self.unread = state.plaintext_bytes_to_read(),
                Err(error) => {
                    self.broken = Some(error.to_string());
                    // The other side is told why, if it takes that now.
                    let _ = self.send();
                    return Err(io::Error::new(io::ErrorKind::InvalidData, error));
                }
            }
        }
        if filled == 0 && !self.ended { Err(io::ErrorKind::WouldBlock.into()) } else { Ok(filled) }
    }

    /// Encrypts as much as there is room for.
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.tls.is_handshaking() {
            self.send()?;
            return Err(io::ErrorKind::WouldBlock.into());
        }
        let taken = self.tls.writer().write(bytes)?;
        self.send()?;
        if taken == 0 && !bytes.is_empty() { Err(io::ErrorKind::WouldBlock.into()) } else { Ok(taken) }
    }

    fn send(&mut self) -> io::Result<()> {
        while self.tls.wants_write() {
            match self.tls.write_tls(&mut self.stream) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(count) => self.sent += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}
