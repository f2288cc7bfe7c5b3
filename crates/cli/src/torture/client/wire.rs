//! As much of a Redis client as the load needs: commands out, replies in, and what an error says about the outcome.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// How long a replica may take to accept a connection.
const DIAL: Duration = Duration::from_millis(500);
/// A reply longer than this is none of ours.
const MAX_BYTES: usize = highwater_core::limits::MAX_VALUE_BYTES;

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
            // What a block's commands were refused for was said before.
            Some("NOQUORUM" | "CONFLICT" | "BUSY" | "EXECABORT") => Refusal::Retry,
            Some("OOM") => Refusal::Full,
            Some("UNKNOWN") => Refusal::Unknown,
            _ => Refusal::Strange(text.to_string()),
        }
    }
}

/// A connection to one replica.
#[derive(Debug)]
pub struct Wire {
    stream: BufReader<TcpStream>,
    out: Vec<u8>,
}

impl Wire {
    /// Connects; a reply may take as long as `patience`.
    pub fn connect(address: SocketAddr, patience: Duration) -> io::Result<Wire> {
        let stream = TcpStream::connect_timeout(&address, DIAL)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(patience))?;
        stream.set_write_timeout(Some(patience))?;
        Ok(Wire { stream: BufReader::new(stream), out: Vec::new() })
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
        self.stream.get_ref().set_read_timeout(Some(patience))?;
        self.stream.get_ref().set_write_timeout(Some(patience))
    }

    /// The sending side, for somebody who sends while this reads.
    pub fn sender(&self) -> io::Result<TcpStream> {
        self.stream.get_ref().try_clone()
    }

    /// Sends what was queued.
    pub fn send(&mut self) -> io::Result<()> {
        let sent = self.stream.get_mut().write_all(&self.out);
        self.out.clear();
        sent
    }

    /// The next reply.
    pub fn reply(&mut self) -> io::Result<Reply> {
        let line = self.line()?;
        let (tag, rest) = line.split_at_checked(1).ok_or_else(|| nonsense(&line))?;
        let number = || rest.parse::<i64>().map_err(|_| nonsense(&line));
        Ok(match tag {
            "+" => Reply::Simple(rest.to_string()),
            // Said to whoever connects, before any command: as good as not being let in.
            "-" if rest.starts_with(NO_ROOM) => return Err(io::ErrorKind::ConnectionRefused.into()),
            "-" => Reply::Error(rest.to_string()),
            ":" => Reply::Integer(number()?),
            "$" => Reply::Bulk(length(number()?)?.map(|len| self.bulk(len)).transpose()?),
            "*" => {
                let replies = length(number()?)?.map(|len| (0..len).map(|_| self.reply()).collect());
                Reply::Array(replies.transpose()?)
            }
            _ => return Err(nonsense(&line)),
        })
    }

    fn line(&mut self) -> io::Result<String> {
        let mut line = String::new();
        if self.stream.read_line(&mut line)? == 0 || !line.ends_with("\r\n") {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        line.truncate(line.len() - 2);
        Ok(line)
    }

    fn bulk(&mut self, len: usize) -> io::Result<Vec<u8>> {
        let mut bytes = vec![0; len + 2];
        self.stream.read_exact(&mut bytes)?;
        bytes.truncate(len);
        Ok(bytes)
    }
}

fn length(number: i64) -> io::Result<Option<usize>> {
    match usize::try_from(number) {
        Ok(len) if len <= MAX_BYTES => Ok(Some(len)),
        Err(_) if number == -1 => Ok(None),
        _ => Err(nonsense(&number.to_string())),
    }
}

fn nonsense(line: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("no RESP: {line:?}"))
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
    fn errors_say_whether_anything_was_done() {
        let named = Refusal::of("NOTLEADER leader is node 1 at 127.0.0.1:6379");
        assert_eq!(named, Refusal::NotLeader("127.0.0.1:6379".parse().ok()));
        let nobody = "NOTLEADER no leader is known at the moment; nothing was done, retry later";
        assert_eq!(Refusal::of(nobody), Refusal::NotLeader(None));
        assert_eq!(Refusal::of("NOQUORUM the leader hears no majority"), Refusal::Retry);
        assert_eq!(Refusal::of("OOM command not allowed when used memory > 'maxmemory'."), Refusal::Full);
        assert_eq!(Refusal::of("UNKNOWN outcome unknown: .."), Refusal::Unknown);
        assert!(matches!(Refusal::of("ERR malformed arguments"), Refusal::Strange(_)));
    }
}
