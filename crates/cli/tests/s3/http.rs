//! As much of HTTP/1.1 as a client of a store speaks.

use std::collections::BTreeMap;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::TcpStream;

/// A request, read to its end.
pub struct Request {
    pub method: String,
    /// Without the question mark, decoded.
    pub path: String,
    pub query: BTreeMap<String, String>,
    /// Names in small letters.
    pub headers: BTreeMap<String, String>,
    pub body: Vec<u8>,
}

impl Request {
    /// The next of a connection; `None` at its end.
    pub fn read(stream: &mut BufReader<TcpStream>) -> io::Result<Option<Request>> {
        let mut line = String::new();
        if stream.read_line(&mut line)? == 0 {
            return Ok(None);
        }
        let mut words = line.split_whitespace();
        let (method, target) =
            (words.next().unwrap_or_default().to_string(), words.next().unwrap_or_default());
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        let path = decoded(path);
        let pairs = query.split('&').filter(|pair| !pair.is_empty());
        let pair = |pair: &str| {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            (decoded(name), decoded(value))
        };
        let query = pairs.map(pair).collect();
        let mut headers = BTreeMap::new();
        loop {
            let mut line = String::new();
            stream.read_line(&mut line)?;
            let Some((name, value)) = line.trim_end().split_once(':') else { break };
            headers.insert(name.to_lowercase(), value.trim().to_string());
        }
        let len = headers.get("content-length").map_or(0, |len| len.parse().unwrap());
        let mut body = vec![0; len];
        stream.read_exact(&mut body)?;
        Ok(Some(Request { method, path, query, headers, body }))
    }

    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(String::as_str)
    }
}

fn decoded(text: &str) -> String {
    let (mut bytes, mut rest) = (Vec::new(), text.as_bytes());
    while let Some((&first, behind)) = rest.split_first() {
        rest = behind;
        if first == b'%' {
            bytes.push(u8::from_str_radix(std::str::from_utf8(&rest[..2]).unwrap(), 16).unwrap());
            rest = &rest[2..];
        } else {
            bytes.push(first);
        }
    }
    String::from_utf8(bytes).unwrap()
}

/// An answer.
pub struct Answer {
    pub status: u16,
    pub headers: Vec<(&'static str, String)>,
    pub body: Vec<u8>,
    /// A HEAD's says how long the body would be.
    pub len: usize,
}

impl Answer {
    pub fn new(status: u16, body: impl Into<Vec<u8>>) -> Answer {
        let body = body.into();
        Answer { status, headers: Vec::new(), len: body.len(), body }
    }

    /// As S3 says what is wrong.
    pub fn error(status: u16, code: &str) -> Answer {
        Answer::new(
            status,
            format!(
                "<?xml version=\"1.0\"?><Error><Code>{code}</Code><Message>{code}, said the test</Message></Error>"
            ),
        )
    }

    pub fn with(mut self, name: &'static str, value: impl Into<String>) -> Answer {
        self.headers.push((name, value.into()));
        self
    }

    pub fn write(&self, stream: &mut TcpStream, body: &[u8]) -> io::Result<()> {
        let mut head = format!("HTTP/1.1 {} said\r\ncontent-length: {}\r\n", self.status, self.len);
        self.headers.iter().for_each(|(name, value)| head.push_str(&format!("{name}: {value}\r\n")));
        head.push_str("\r\n");
        stream.write_all(head.as_bytes())?;
        stream.write_all(body)
    }
}
