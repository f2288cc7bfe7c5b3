//! A connection under TLS: bytes in and out of its socket, encrypted.

use std::io::{self, BufRead, Read};
use std::net::TcpStream;

use rustls::pki_types::CertificateDer;
use rustls::{AlertDescription, CertificateError, Connection, Error};

/// See the module.
pub struct Session {
    source: Source,
    tls: Connection,
    /// The other side will send nothing more.
    ended: bool,
    /// Why it cannot go on.
    broken: Option<String>,
    /// Bytes that are decrypted and were not taken.
    unread: usize,
    /// Bytes that the socket took, since somebody asked.
    sent: usize,
}

/// A socket, read in large pieces if it is asked to.
struct Source {
    stream: TcpStream,
    /// What was read and not decrypted: the part of `staged` between these two.
    staged: Box<[u8]>,
    from: usize,
    to: usize,
    /// The last reading had room for more than there was.
    short: bool,
    /// Bytes that came in all.
    received: u64,
}

impl Read for Source {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        if self.from == self.to && self.staged.is_empty() {
            let count = self.stream.read(out)?;
            self.received += count as u64;
            return Ok(count);
        }
        if self.from == self.to {
            let count = self.stream.read(&mut self.staged)?;
            self.received += count as u64;
            (self.from, self.to, self.short) = (0, count, count < self.staged.len());
        }
        self.take(out)
    }
}

impl Source {
    /// Whether the socket had nothing left a moment ago: asking again would cost a call, and the poller tells of more.
    fn is_dry(&self) -> bool {
        self.short && self.from == self.to
    }

    /// Of what was read before.
    fn take(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let count = (&self.staged[self.from..self.to]).read(out)?;
        self.from += count;
        Ok(count)
    }
}

/// What was read before, and no word of the socket's: then it would block.
struct Staged<'a>(&'a mut Source);

impl Read for Staged<'_> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        match self.0.take(out)? {
            0 => Err(io::ErrorKind::WouldBlock.into()),
            count => Ok(count),
        }
    }
}

impl Session {
    /// A connection that begins; `unsent`: what may be encrypted and wait for the socket.
    pub fn new(stream: TcpStream, mut tls: Connection, unsent: usize) -> Session {
        tls.set_buffer_limit(Some(unsent));
        let source = Source { stream, staged: Box::default(), from: 0, to: 0, short: false, received: 0 };
        Session { source, tls, ended: false, broken: None, unread: 0, sent: 0 }
    }

    /// Reads so many bytes of the socket at one time from now on.
    ///
    /// # Panics
    /// If it does so already.
    pub fn stage(&mut self, bytes: usize) {
        assert!(self.source.staged.is_empty(), "a session is widened once");
        self.source.staged = vec![0; bytes].into();
    }

    /// Its socket.
    pub fn stream(&self) -> &TcpStream {
        &self.source.stream
    }

    /// Its socket, and nothing else of it.
    pub fn into_stream(self) -> TcpStream {
        self.source.stream
    }

    /// Whether there are no keys yet.
    pub fn is_handshaking(&self) -> bool {
        self.tls.is_handshaking()
    }

    /// What the other side has shown, and was verified.
    pub fn certificates(&self) -> Option<&[CertificateDer<'static>]> {
        self.tls.peer_certificates().filter(|_| !self.tls.is_handshaking())
    }

    /// Why it cannot go on, if it cannot.
    pub fn broken(&self) -> Option<&str> {
        self.broken.as_deref()
    }

    /// Whether something waits for the socket.
    pub fn has_unsent(&self) -> bool {
        self.tls.wants_write()
    }

    /// Whether something is here that no event tells of.
    pub fn has_unread(&self) -> bool {
        self.unread > 0 || self.source.from < self.source.to
    }

    /// Bytes that came from the socket in all.
    pub fn received(&self) -> u64 {
        self.source.received
    }

    /// Whether the socket took something since the last call.
    pub fn take_sent(&mut self) -> bool {
        std::mem::take(&mut self.sent) > 0
    }

    /// The last word, and nothing behind it.
    pub fn close(&mut self) {
        self.tls.send_close_notify();
        let _ = self.send();
    }

    /// Decrypts until `room` bytes were put, or there is nothing left: of the socket, or only of what was read of it before. `put` is told
    /// behind how many bytes the next ones belong.
    pub fn pull(
        &mut self,
        room: usize,
        socket: bool,
        mut put: impl FnMut(usize, &[u8]),
    ) -> io::Result<usize> {
        let mut filled = 0;
        while filled < room {
            let mut reader = self.tls.reader();
            match reader.fill_buf() {
                Ok([]) => {
                    self.ended = true;
                    break;
                }
                Ok(bytes) => {
                    let count = bytes.len().min(room - filled);
                    put(filled, &bytes[..count]);
                    reader.consume(count);
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
            if self.ended || filled > 0 && self.source.is_dry() {
                break;
            }
            let read = match socket {
                true => self.tls.read_tls(&mut self.source),
                false => self.tls.read_tls(&mut Staged(&mut self.source)),
            };
            match read {
                Ok(0) => self.ended = true,
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) => return Err(error),
            }
            match self.tls.process_new_packets() {
                Ok(state) => self.unread = state.plaintext_bytes_to_read(),
                Err(error) => {
                    self.broken = Some(in_words(&error));
                    // The other side is told why, if it takes that now.
                    let _ = self.send();
                    return Err(io::Error::new(io::ErrorKind::InvalidData, in_words(&error)));
                }
            }
        }
        if filled == 0 && !self.ended && room > 0 {
            Err(io::ErrorKind::WouldBlock.into())
        } else {
            Ok(filled)
        }
    }

    /// Encrypts as much as there is room for.
    pub fn push(
        &mut self,
        encrypt: impl FnOnce(&mut rustls::Writer<'_>) -> io::Result<usize>,
    ) -> io::Result<usize> {
        if self.tls.is_handshaking() {
            self.send()?;
            return Err(io::ErrorKind::WouldBlock.into());
        }
        let taken = encrypt(&mut self.tls.writer())?;
        self.send()?;
        Ok(taken)
    }

    /// Writes what waits for the socket, as much as it takes.
    pub fn send(&mut self) -> io::Result<()> {
        while self.tls.wants_write() {
            match self.tls.write_tls(&mut self.source.stream) {
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

/// What is wrong, in words that are the same each time.
fn in_words(error: &Error) -> String {
    use AlertDescription as Alert;
    use CertificateError as Bad;
    let words = match error {
        Error::NoCertificatesPresented => "it shows no certificate",
        Error::InvalidCertificate(Bad::Expired | Bad::ExpiredContext { .. }) => "its certificate has expired",
        Error::InvalidCertificate(Bad::NotValidYet | Bad::NotValidYetContext { .. }) => {
            "its certificate is not valid yet; are both clocks right?"
        }
        Error::InvalidCertificate(Bad::UnknownIssuer | Bad::BadSignature) => {
            "its certificate is not signed by an authority that this node believes"
        }
        Error::InvalidCertificate(Bad::InvalidPurpose | Bad::InvalidPurposeContext { .. }) => {
            "its certificate is for other uses; nodes' are for servers and clients"
        }
        Error::InvalidCertificate(Bad::NotValidForName | Bad::NotValidForNameContext { .. }) => {
            return format!("{error}").replacen("invalid peer certificate: ", "its ", 1);
        }
        Error::AlertReceived(Alert::CertificateExpired) => {
            "it says that the certificate of this side has expired"
        }
        Error::AlertReceived(Alert::UnknownCA) => {
            "it does not believe the authority of this side's certificate"
        }
        Error::AlertReceived(Alert::CertificateRequired) => {
            "it asks for a certificate, and this side showed none"
        }
        Error::AlertReceived(
            Alert::BadCertificate
            | Alert::UnsupportedCertificate
            | Alert::CertificateUnknown
            | Alert::DecryptError,
        ) => "it refuses the certificate of this side",
        Error::AlertReceived(Alert::ProtocolVersion) | Error::PeerIncompatible(_) => {
            "the two speak different versions of TLS"
        }
        other => return other.to_string(),
    };
    words.into()
}
