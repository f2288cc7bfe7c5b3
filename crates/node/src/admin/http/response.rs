//! An answer to bytes.

use std::fmt::Write;

/// How it went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    Ok,
    NoContent,
    BadRequest,
    Unauthorized,
    Forbidden,
    NotFound,
    MethodNotAllowed,
    Timeout,
    TooLarge,
    UnsupportedMediaType,
    ExpectationFailed,
    HeadersTooLarge,
    NotImplemented,
    Unavailable,
    VersionNotSupported,
}

impl Status {
    /// Number and phrase.
    pub fn line(self) -> (u16, &'static str) {
        match self {
            Status::Ok => (200, "OK"),
            Status::NoContent => (204, "No Content"),
            Status::BadRequest => (400, "Bad Request"),
            Status::Unauthorized => (401, "Unauthorized"),
            Status::Forbidden => (403, "Forbidden"),
            Status::NotFound => (404, "Not Found"),
            Status::MethodNotAllowed => (405, "Method Not Allowed"),
            Status::Timeout => (408, "Request Timeout"),
            Status::TooLarge => (413, "Content Too Large"),
            Status::UnsupportedMediaType => (415, "Unsupported Media Type"),
            Status::ExpectationFailed => (417, "Expectation Failed"),
            Status::HeadersTooLarge => (431, "Request Header Fields Too Large"),
            Status::NotImplemented => (501, "Not Implemented"),
            Status::Unavailable => (503, "Service Unavailable"),
            Status::VersionNotSupported => (505, "HTTP Version Not Supported"),
        }
    }
}

/// What is shown for a page.
#[derive(Clone, Debug, PartialEq)]
pub struct Answer {
    /// How it went.
    pub status: Status,
    /// What the content is.
    pub kind: &'static str,
    /// Header lines of this answer, each ended.
    pub extra: String,
    pub content: Vec<u8>,
}

pub const JSON: &str = "application/json";

impl Answer {
    /// A value as JSON.
    pub fn json(status: Status, value: &impl serde::Serialize) -> Answer {
        let mut content = serde_json::to_vec(value).expect("what is answered has a JSON form");
        content.push(b'\n');
        Answer { status, kind: JSON, extra: String::new(), content }
    }

    /// Why not.
    pub fn error(status: Status, why: &str) -> Answer {
        let (number, _) = status.line();
        Answer::json(status, &serde_json::json!({ "status": number, "error": why }))
    }

    /// Appends all of it; of an answer to HEAD not the content. `origin`: whose page may read it.
    pub fn write(&self, out: &mut Vec<u8>, to: &To<'_>) {
        let (number, phrase) = self.status.line();
        let mut head = format!("HTTP/1.1 {number} {phrase}\r\n");
        // Writing to a string does not fail.
        if self.status != Status::NoContent {
            let _ = write!(head, "Content-Type: {}\r\nContent-Length: {}\r\n", self.kind, self.content.len());
        }
        head.push_str("Cache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\n");
        if let Some(origin) = to.origin {
            let _ = write!(head, "Access-Control-Allow-Origin: {origin}\r\nVary: Origin\r\n");
        }
        head.push_str(&self.extra);
        head.push_str(if to.keep_alive {
            "Connection: keep-alive\r\n\r\n"
        } else {
            "Connection: close\r\n\r\n"
        });
        out.extend_from_slice(head.as_bytes());
        if !to.head_only && self.status != Status::NoContent {
            out.extend_from_slice(&self.content);
        }
    }
}

/// Whom it is for.
#[derive(Clone, Debug, Default)]
pub struct To<'a> {
    /// Further requests follow.
    pub keep_alive: bool,
    /// Only the head is wanted.
    pub head_only: bool,
    /// Whose page may read it.
    pub origin: Option<&'a str>,
}
