//! As much of HTTP/1.1 as asking an admin port takes.

#![allow(dead_code, reason = "each test uses a part")]

use std::io::{Read, Write};
use std::net::TcpStream;

use crate::processes::PATIENCE;

/// An answer.
#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    /// Status line and headers.
    pub head: String,
    pub content: String,
}

/// Asks for a page over a connection of its own; nothing if nobody answers.
pub fn get(port: u16, path: &str, headers: &[&str]) -> Option<Answer> {
    request(port, "GET", path, headers, b"")
}

/// The same with any method and a body.
pub fn request(port: u16, method: &str, path: &str, headers: &[&str], body: &[u8]) -> Option<Answer> {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).ok()?;
    stream.set_read_timeout(Some(PATIENCE)).ok()?;
    let mut head = format!("{method} {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nConnection: close\r\n");
    headers.iter().for_each(|header| head += &format!("{header}\r\n"));
    if !body.is_empty() {
        head += &format!("Content-Length: {}\r\n", body.len());
    }
    stream.write_all(format!("{head}\r\n").as_bytes()).ok()?;
    stream.write_all(body).ok()?;
    let mut text = String::new();
    stream.read_to_string(&mut text).ok()?;
    let (head, content) = text.split_once("\r\n\r\n")?;
    let status = head.split(' ').nth(1)?.parse().ok()?;
    Some(Answer { status, head: head.to_string(), content: content.to_string() })
}
