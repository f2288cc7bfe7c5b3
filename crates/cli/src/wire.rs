//! As much of a Redis client as the load needs: commands out, replies in, and what an error says about the outcome.
//!
//! With the feature `lab`, which judges the server, replies are parsed by somebody else's crate ([`theirs`]): a parser of ours could share a
//! misreading with it. The demo only counts, and compiles none.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use highwater_redis::topology::socket_address;

#[cfg(any(test, not(feature = "lab")))]
mod ours;
#[cfg(feature = "lab")]
mod theirs;

#[cfg(not(feature = "lab"))]
use ours::decode;
#[cfg(feature = "lab")]
use theirs::decode;

/// How long a replica may take to accept a connection.
const DIAL: Duration = Duration::from_millis(500);
/// A reply longer than this is none of ours: a value of the largest size, and room for a few others.
const MAX_BYTES: usize = 2 * highwater_core::limits::MAX_VALUE_BYTES;
/// Bytes that are read at a time.
const CHUNK: usize = 16 << 10;

/// What a replica says that has no room for another connection.
const NO_ROOM: &str = "ERR max number of clients reached";

/// One reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// `+OK`
    Simple(String),
    /// `-ERR ..`
    Error(String),
    /// `:1`
    Integer(i64),
    /// `$3`, or nil.
    Bulk(Option<Vec<u8>>),
    /// `*2`, or nil.
    Array(Option<Vec<Reply>>),
}

/// What an error reply says about the request that it answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// Nothing was done: ask there, if somebody is named.
    NotLeader(Option<SocketAddr>),
    /// Nothing was done: try again.
    Retry,
    /// Nothing was done: this replica cannot prove that it is as fresh as was asked.
    NotFresh,
    /// Nothing was done: there is no memory for more.
    Full,
    /// It may or may not have been done.
    Unknown,
    /// No error that this load expects.
    Strange(String),
}

impl Refusal {
    /// Reads an error's text.
    pub fn of(text: &str) -> Refusal {
        match text.split_whitespace().next() {
            Some("NOTLEADER") => {
                Refusal::NotLeader(text.rsplit_once(" at ").and_then(|(_, at)| at.parse().ok()))
            }
            Some("MOVED") => Refusal::NotLeader(text.rsplit_once(' ').and_then(|(_, at)| socket_address(at))),
            Some("CLUSTERDOWN" | "READONLY") => Refusal::NotLeader(None),
            // What a block's commands were refused for was said before.
            Some("NOQUORUM" | "CONFLICT" | "BUSY" | "EXECABORT") => Refusal::Retry,
            Some("NOTFRESH") => Refusal::NotFresh,
            Some("OOM" | "DISKFULL") => Refusal::Full,
            Some("UNKNOWN") => Refusal::Unknown,
            _ => Refusal::Strange(text.to_string()),
        }
    }
}

/// A connection to one replica.
#[derive(Debug)]
pub struct Wire {
    stream: TcpStream,
    /// What was read, of which the first `parsed` bytes were replies.
    received: Vec<u8>,
    parsed: usize,
    out: Vec<u8>,
}

impl Wire {
    /// Connects; a reply may take as long as `patience`.
    pub fn connect(address: SocketAddr, patience: Duration) -> io::Result<Wire> {
        let stream = TcpStream::connect_timeout(&address, DIAL)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(patience))?;
        stream.set_write_timeout(Some(patience))?;
        Ok(Wire { stream, received: Vec::new(), parsed: 0, out: Vec::new() })
    }

    /// Queues a command.
    pub fn command(&mut self, words: &[&str]) {
        let words: Vec<&[u8]> = words.iter().map(|word| word.as_bytes()).collect();
        self.words(&words);
    }

    /// Queues a command of any bytes.
    pub fn words(&mut self, words: &[&[u8]]) {
        self.out.extend_from_slice(&Wire::encode(words));
    }

    /// A command as it is sent.
    pub fn encode(words: &[&[u8]]) -> Vec<u8> {
        let mut out = Vec::with_capacity(words.iter().map(|word| word.len() + 16).sum());
        // Writing to a vector does not fail.
        let _ = write!(out, "*{}\r\n", words.len());
        for word in words {
            let _ = write!(out, "${}\r\n", word.len());
            out.extend_from_slice(word);
            out.extend_from_slice(b"\r\n");
        }
        out
    }

    /// From now on a reply may take so long, and sending, too.
    pub fn be_patient(&self, patience: Duration) -> io::Result<()> {
        self.stream.set_read_timeout(Some(patience))?;
        self.stream.set_write_timeout(Some(patience))
    }

    /// The sending side, for somebody who sends while this reads.
    pub fn sender(&self) -> io::Result<TcpStream> {
        self.stream.try_clone()
    }

    /// Sends what was queued.
    pub fn send(&mut self) -> io::Result<()> {
        let sent = self.stream.write_all(&self.out);
        self.out.clear();
        sent
    }

    /// The next reply.
    pub fn reply(&mut self) -> io::Result<Reply> {
        loop {
            let left = &self.received[self.parsed..];
            if let Some((reply, len)) = decode(left)? {
                self.parsed += len;
                return match reply {
                    // Said to whoever connects, before any command: as good as not being let in.
                    Reply::Error(text) if text.starts_with(NO_ROOM) => {
                        Err(io::ErrorKind::ConnectionRefused.into())
                    }
                    reply => Ok(reply),
                };
            }
            if left.len() > MAX_BYTES {
                return Err(nonsense("a reply that does not end"));
            }
            self.receive()?;
        }
    }

    /// Reads what there is, behind the part of a reply that was read before.
    fn receive(&mut self) -> io::Result<()> {
        self.received.drain(..std::mem::take(&mut self.parsed));
        let len = self.received.len();
        self.received.resize(len + CHUNK, 0);
        let read = self.stream.read(&mut self.received[len..]);
        self.received.truncate(len + *read.as_ref().unwrap_or(&0));
        match read {
            Ok(0) => Err(io::ErrorKind::UnexpectedEof.into()),
            Err(error) if error.kind() != io::ErrorKind::Interrupted => Err(error),
            _ => Ok(()),
        }
    }
}

fn nonsense(why: impl std::fmt::Display) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("no RESP: {why}"))
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    #[test]
    fn replies_are_read_whole() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut wire = Wire::connect(listener.local_addr().unwrap(), Duration::from_secs(5)).unwrap();
        let (mut server, _) = listener.accept().unwrap();
        server.write_all(b"*4\r\n+OK\r\n:-3\r\n$3\r\n1,\r\r\n$-1\r\n*-1\r\n-ERR no\r\n").unwrap();
        drop(server);
        let bulk = |bytes: &[u8]| Reply::Bulk(Some(bytes.to_vec()));
        let parts = vec![Reply::Simple("OK".into()), Reply::Integer(-3), bulk(b"1,\r"), Reply::Bulk(None)];
        assert_eq!(wire.reply().unwrap(), Reply::Array(Some(parts)));
        assert_eq!(wire.reply().unwrap(), Reply::Array(None));
        assert_eq!(wire.reply().unwrap(), Reply::Error("ERR no".into()));
        assert!(wire.reply().is_err());
    }

    #[test]
    fn replies_come_in_pieces_and_several_at_once() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut wire = Wire::connect(listener.local_addr().unwrap(), Duration::from_secs(5)).unwrap();
        let (mut server, _) = listener.accept().unwrap();
        let value = vec![b'v'; 3 * CHUNK];
        let mut bytes = format!("*1\r\n${}\r\n", value.len()).into_bytes();
        bytes.extend_from_slice(&value);
        bytes.extend_from_slice(b"\r\n:1\r\n:2\r\n$-1\r\n!no\r\n");
        let sending = std::thread::spawn(move || {
            for piece in bytes.chunks(CHUNK / 3) {
                server.write_all(piece).unwrap();
            }
            server
        });
        assert_eq!(wire.reply().unwrap(), Reply::Array(Some(vec![Reply::Bulk(Some(value))])));
        let rest = [(); 3].map(|()| wire.reply().unwrap());
        assert_eq!(rest, [Reply::Integer(1), Reply::Integer(2), Reply::Bulk(None)]);
        assert_eq!(wire.reply().unwrap_err().kind(), io::ErrorKind::InvalidData);
        drop(sending.join().unwrap());
    }

    /// A stream may end anywhere: both parsers read the same replies, and both want more.
    #[cfg(feature = "lab")]
    #[test]
    fn our_parser_reads_what_theirs_does() {
        let bytes: &[u8] =
            b"*4\r\n+OK\r\n:-3\r\n$3\r\n1,\r\r\n$-1\r\n*-1\r\n-ERR no\r\n*0\r\n$0\r\n\r\n*1\r\n*1\r\n:7\r\n";
        for end in 0..=bytes.len() {
            let (mut at, mut replies) = (0, 0);
            loop {
                let (mine, other) =
                    (ours::decode(&bytes[at..end]).unwrap(), theirs::decode(&bytes[at..end]).unwrap());
                assert_eq!(mine, other, "{at}..{end}");
                let Some((_, len)) = mine else { break };
                (at, replies) = (at + len, replies + 1);
            }
            assert_eq!(replies == 6, end == bytes.len(), "{end}");
        }
        for nonsense in [&b"!no\r\n"[..], b":x\r\n", b"$3\r\nabcde", b"*-2\r\n"] {
            assert!(ours::decode(nonsense).is_err(), "{nonsense:?}");
        }
    }

    #[test]
    fn errors_say_whether_anything_was_done() {
        let named = Refusal::of("NOTLEADER leader is node 1 at 127.0.0.1:6379");
        assert_eq!(named, Refusal::NotLeader("127.0.0.1:6379".parse().ok()));
        let nobody = "NOTLEADER no leader is known at the moment; nothing was done, retry later";
        assert_eq!(Refusal::of(nobody), Refusal::NotLeader(None));
        assert_eq!(
            Refusal::of("MOVED 866 127.0.0.1:6379"),
            Refusal::NotLeader("127.0.0.1:6379".parse().ok())
        );
        assert_eq!(Refusal::of("MOVED 866 ::1:6379"), Refusal::NotLeader("[::1]:6379".parse().ok()));
        assert_eq!(Refusal::of("CLUSTERDOWN The cluster is down: .."), Refusal::NotLeader(None));
        assert_eq!(Refusal::of("NOQUORUM the leader hears no majority"), Refusal::Retry);
        assert_eq!(Refusal::of("NOTFRESH no leader vouches for this replica"), Refusal::NotFresh);
        assert_eq!(Refusal::of("OOM command not allowed when used memory > 'maxmemory'."), Refusal::Full);
        assert_eq!(Refusal::of("UNKNOWN outcome unknown: .."), Refusal::Unknown);
        assert!(matches!(Refusal::of("ERR malformed arguments"), Refusal::Strange(_)));
    }
}
