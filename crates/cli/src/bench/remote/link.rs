//! One connection of a load: requests out, outcomes in.

use std::collections::VecDeque;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use highwater_core::{Nanos, Outcome};
use highwater_redis::topology::socket_address;

/// How long a replica may take to accept a connection.
const DIAL: Duration = Duration::from_millis(500);
/// Bytes that are read at a time.
const CHUNK: usize = 64 << 10;

/// A transaction that is wanted.
#[derive(Debug)]
pub struct Wanted {
    /// Which procedure, as the workload counts them.
    pub kind: usize,
    /// Of an audit row: its number.
    pub sequence: u32,
    /// When its time began.
    pub since: Nanos,
    /// The command, as it is sent.
    pub bytes: Vec<u8>,
}

/// What an answer says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// It ended so.
    Ended(Outcome),
    /// Nothing was done: ask again, there if somebody is named.
    Elsewhere(Option<SocketAddr>),
    /// No error that a load should meet.
    Strange(String),
}

impl Answer {
    /// Reads an error's text.
    fn of_error(text: &str) -> Answer {
        match text.split_whitespace().next() {
            Some("ROLLEDBACK") => Answer::Ended(Outcome::RolledBack),
            Some("BADREQUEST") => Answer::Ended(Outcome::BadRequest),
            Some("CONFLICT") => Answer::Ended(Outcome::Conflict),
            Some("UNKNOWN") => Answer::Ended(Outcome::Unknown),
            Some("NOTLEADER") => {
                Answer::Elsewhere(text.rsplit_once(" at ").and_then(|(_, at)| at.parse().ok()))
            }
            Some("MOVED") => Answer::Elsewhere(text.rsplit_once(' ').and_then(|(_, at)| socket_address(at))),
            Some("NOQUORUM" | "CLUSTERDOWN" | "READONLY") => Answer::Elsewhere(None),
            _ => Answer::Strange(text.to_string()),
        }
    }
}

/// A connection, and what is under way on it.
pub struct Link {
    stream: TcpStream,
    out: Vec<u8>,
    written: usize,
    received: Vec<u8>,
    parsed: usize,
    /// Oldest first: answers come in this order.
    pub under_way: VecDeque<Wanted>,
    /// It was told to ask somebody else, and takes no more requests.
    pub leaves: bool,
}

impl Link {
    /// Connects.
    pub fn dial(address: SocketAddr) -> io::Result<Link> {
        let stream = TcpStream::connect_timeout(&address, DIAL)?;
        stream.set_nodelay(true)?;
        stream.set_nonblocking(true)?;
        let (out, received, under_way) = (Vec::new(), Vec::new(), VecDeque::new());
        Ok(Link { stream, out, written: 0, received, parsed: 0, under_way, leaves: false })
    }

    /// Its socket.
    pub fn stream(&self) -> &TcpStream {
        &self.stream
    }

    /// Takes a request; [`flush`](Self::flush) sends it.
    pub fn push(&mut self, wanted: Wanted) {
        self.out.extend_from_slice(&wanted.bytes);
        self.under_way.push_back(wanted);
    }

    /// Sends what the socket takes; whether something is left.
    pub fn flush(&mut self) -> io::Result<bool> {
        while self.written < self.out.len() {
            match self.stream.write(&self.out[self.written..]) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(n) => self.written += n,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(true),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        self.out.clear();
        self.written = 0;
        Ok(false)
    }

    /// Reads what is there.
    pub fn receive(&mut self) -> io::Result<()> {
        loop {
            let len = self.received.len();
            self.received.resize(len + CHUNK, 0);
            let read = self.stream.read(&mut self.received[len..]);
            self.received.truncate(len + *read.as_ref().unwrap_or(&0));
            match read {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(CHUNK) => {}
                Ok(_) => return Ok(()),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// The next answer among what was read, and what it answers.
    pub fn answer(&mut self) -> io::Result<Option<(Wanted, Answer)>> {
        let Some((answer, len)) = parse(&self.received[self.parsed..])? else {
            self.received.drain(..std::mem::take(&mut self.parsed));
            return Ok(None);
        };
        self.parsed += len;
        let wanted = self.under_way.pop_front().ok_or_else(|| nonsense("an answer that nobody waits for"))?;
        Ok(Some((wanted, answer)))
    }
}

/// One answer at the front, and its length.
fn parse(bytes: &[u8]) -> io::Result<Option<(Answer, usize)>> {
    let Some(end) = bytes.iter().position(|byte| *byte == b'\n') else { return Ok(None) };
    let line = bytes[..end].strip_suffix(b"\r").ok_or_else(|| nonsense("a line without an end"))?;
    let (kind, text) = line.split_first().ok_or_else(|| nonsense("an empty line"))?;
    let text = || std::str::from_utf8(text).map_err(nonsense);
    let committed = Answer::Ended(Outcome::Committed);
    match kind {
        b'-' => Ok(Some((Answer::of_error(text()?), end + 1))),
        b'+' | b':' => Ok(Some((committed, end + 1))),
        b'$' => match text()?.parse::<i64>().map_err(nonsense)? {
            -1 => Ok(Some((committed, end + 1))),
            len => {
                let len = usize::try_from(len).map_err(nonsense)?;
                let whole = end.saturating_add(len).saturating_add(3);
                Ok((bytes.len() >= whole).then_some((committed, whole)))
            }
        },
        _ => Err(nonsense("neither an error nor a string nor an integer")),
    }
}

fn nonsense(why: impl std::fmt::Display) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("no reply of this load: {why}"))
}

#[cfg(test)]
mod unit {
    use super::*;

    #[test]
    fn answers_are_told_apart() {
        let ended = |outcome, len| Some((Answer::Ended(outcome), len));
        let parse = |bytes: &str| parse(bytes.as_bytes()).unwrap();
        assert_eq!(parse("$3\r\na\nb\r\nrest"), ended(Outcome::Committed, 9));
        assert_eq!(parse("$0\r\n\r\n"), ended(Outcome::Committed, 6));
        assert_eq!(parse("$-1\r\n"), ended(Outcome::Committed, 5));
        assert_eq!(parse("$3\r\na\nb\r"), None);
        assert_eq!(parse("$3"), None);
        assert_eq!(parse("-ROLLEDBACK no; nothing was done\r\n"), ended(Outcome::RolledBack, 34));
        assert_eq!(parse("-UNKNOWN x\r\n"), ended(Outcome::Unknown, 12));
        let named = "-NOTLEADER leader is node 1 at 127.0.0.1:6379\r\n";
        assert_eq!(parse(named).unwrap().0, Answer::Elsewhere("127.0.0.1:6379".parse().ok()));
        assert_eq!(
            parse("-NOTLEADER no leader is known at the moment\r\n").unwrap().0,
            Answer::Elsewhere(None)
        );
        let moved = parse("-MOVED 866 127.0.0.1:6379\r\n").unwrap().0;
        assert_eq!(moved, Answer::Elsewhere("127.0.0.1:6379".parse().ok()));
        assert_eq!(parse("-CLUSTERDOWN x\r\n").unwrap().0, Answer::Elsewhere(None));
        assert!(matches!(parse("-ERR x\r\n").unwrap().0, Answer::Strange(_)));
    }
}
