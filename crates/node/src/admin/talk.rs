//! One conversation at the admin port: JSON lines or HTTP, told apart by the first byte. Sans-IO: bytes in, questions out;
//! answers in, bytes out. What carries the bytes (a socket, or TLS over one) is its host's business.
//!
//! One question of a conversation at a time: no more is taken from its input before the answer is there, and no more is read
//! from its socket. Nor while it leaves much unread: who asks and never listens is asked nothing, and holds a bounded memory.

use std::sync::Arc;

use highwater_seam::Nanos;
use serde::Deserialize;

use super::http::guard::Guard;
use super::http::page::Page;
use super::http::request::{self, Head, Method, Refused};
use super::http::response::{Answer, Status, To};
use super::protocol::{AdminRequest, AdminResponse};
use super::server::MAX_LINE_BYTES;

/// Who has so much to read is asked nothing more, and hears nothing of progress.
pub const MAX_UNREAD_BYTES: usize = 64 << 10;
/// What an empty buffer keeps of its memory.
const KEEP_BYTES: usize = 4 << 10;
/// A request by HTTP is complete within as long, from its first byte on.
pub const SLOWEST_REQUEST: Nanos = 10_000_000_000;
/// A connection for HTTP that is asked nothing for as long is closed.
pub const LONGEST_IDLE: Nanos = 60_000_000_000;

/// What somebody wants.
#[derive(Clone, Debug, PartialEq)]
pub enum Question {
    /// A line, to be answered by [`Talk::respond`].
    Line(AdminRequest),
    /// A page, to be answered by [`Talk::answer`].
    Page(Page),
    /// A request that came by HTTP, to be answered by [`Talk::answer`].
    Post(AdminRequest),
}

/// See the module.
pub struct Talk {
    guard: Arc<Guard>,
    kind: Kind,
    stage: Stage,
    input: Vec<u8>,
    /// Bytes of `input` that are known to hold no end of a line.
    scanned: usize,
    output: Vec<u8>,
    /// No more will come.
    ended: bool,
    /// Of HTTP: since when something is awaited: the rest of a request, or the next one.
    since: Nanos,
    /// Of HTTP: a head whose body is awaited.
    head: Option<Head>,
    /// A stranger's page seems to speak; to be told once.
    suspicion: Option<String>,
}

#[derive(Clone, Debug, PartialEq)]
enum Kind {
    /// Nothing came yet.
    Unknown,
    Lines {
        /// The token was right, or none is asked for.
        admitted: bool,
    },
    Http,
}

#[derive(Clone, Debug, PartialEq)]
enum Stage {
    /// Takes questions.
    Open,
    /// One is being answered; the head that it came with, if by HTTP.
    Busy(Option<Head>),
    /// Listens no more: what came behind is not looked at.
    Closing,
}

/// What whoever speaks lines says first where a token is set.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct TokenLine {
    token: String,
}

impl Talk {
    /// Nothing was said yet.
    pub fn new(guard: Arc<Guard>, now: Nanos) -> Talk {
        Talk {
            guard,
            kind: Kind::Unknown,
            stage: Stage::Open,
            input: Vec::new(),
            scanned: 0,
            output: Vec::new(),
            ended: false,
            since: now,
            head: None,
            suspicion: None,
        }
    }

    /// Takes bytes.
    pub fn receive(&mut self, bytes: &[u8], now: Nanos) {
        if self.stage == Stage::Closing {
            return;
        }
        if let (Kind::Unknown, Some(first)) = (&self.kind, bytes.first()) {
            let admitted = !self.guard.asks();
            // A method begins with a capital letter, JSON with none.
            self.kind = if first.is_ascii_uppercase() { Kind::Http } else { Kind::Lines { admitted } };
        }
        if self.input.is_empty() {
            self.since = now;
        }
        self.input.extend_from_slice(bytes);
    }

    /// No more bytes will come.
    pub fn end_of_input(&mut self) {
        self.ended = true;
    }

    /// Whether more is to be read.
    pub fn wants_input(&self) -> bool {
        self.stage == Stage::Open && !self.ended && self.output.len() <= MAX_UNREAD_BYTES
    }

    /// Whether a question is being answered.
    pub fn is_busy(&self) -> bool {
        matches!(self.stage, Stage::Busy(_))
    }

    /// Whether it is over once the output is written.
    pub fn is_over(&self) -> bool {
        match self.stage {
            Stage::Closing => true,
            Stage::Open => self.ended && self.input.is_empty(),
            Stage::Busy(_) => false,
        }
    }

    /// Whether this side has ended it: the other one may still be sending.
    pub fn hung_up(&self) -> bool {
        self.stage == Stage::Closing
    }

    /// Bytes to be sent.
    pub fn output(&self) -> &[u8] {
        &self.output
    }

    /// So many of them were.
    pub fn wrote(&mut self, bytes: usize) {
        self.output.drain(..bytes);
        if self.output.is_empty() {
            self.output.shrink_to(KEEP_BYTES);
        }
    }

    /// Memory of what was received, and of what is to be sent.
    pub fn held_bytes(&self) -> (usize, usize) {
        (self.input.capacity(), self.output.capacity())
    }

    /// What looks as if a web page made somebody's browser speak; said once.
    pub fn take_suspicion(&mut self) -> Option<String> {
        self.suspicion.take()
    }

    /// The next question, if it is complete and the one before is answered.
    pub fn next(&mut self, now: Nanos) -> Option<Question> {
        if self.stage != Stage::Open || self.output.len() > MAX_UNREAD_BYTES {
            return None;
        }
        let question = match self.kind {
            Kind::Unknown => None,
            Kind::Lines { .. } => self.next_line(),
            Kind::Http => self.next_page(now),
        };
        if question.is_none() && self.ended {
            // It will never be complete.
            self.input = Vec::new();
        }
        question
    }

    fn next_line(&mut self) -> Option<Question> {
        loop {
            let end = self.input[self.scanned..].iter().position(|byte| *byte == b'\n');
            let Some(end) = end else {
                self.scanned = self.input.len();
                if self.input.len() > MAX_LINE_BYTES {
                    self.hang_up(&format!("a request is one line of at most {MAX_LINE_BYTES} bytes"));
                }
                return None;
            };
            let line: Vec<u8> = self.input.drain(..=self.scanned + end).collect();
            self.scanned = 0;
            self.input.shrink_to(KEEP_BYTES.max(self.input.len()));
            if let Ok(TokenLine { token }) = serde_json::from_slice(&line) {
                if !self.guard.admits(token.as_bytes()) {
                    self.hang_up("the token is not that of admin.token");
                    return None;
                }
                self.kind = Kind::Lines { admitted: true };
                continue;
            }
            if self.kind == (Kind::Lines { admitted: false }) {
                self.hang_up(
                    "this node asks for a token (admin.token): --token-file FILE, HIGHWATER_ADMIN_TOKEN, or --config with the node's file (who speaks lines sends \
                     {\"token\":\"..\"} first)",
                );
                return None;
            }
            match serde_json::from_slice(&line) {
                Ok(request) => {
                    self.stage = Stage::Busy(None);
                    return Some(Question::Line(request));
                }
                Err(error) => {
                    self.hang_up(&format!("no request of this version's admin protocol: {error}"));
                    return None;
                }
            }
        }
    }

    fn next_page(&mut self, now: Nanos) -> Option<Question> {
        let head = match self.head.take() {
            Some(head) => head,
            None if self.input.is_empty() => return None,
            None => match request::head(&self.input, &self.guard) {
                Ok(Some(head)) => {
                    if head.expects_continue && self.input.len() < head.bytes + head.body {
                        self.output.extend_from_slice(b"HTTP/1.1 100 Continue\r\n\r\n");
                    }
                    head
                }
                Ok(None) => return None,
                Err(refused) => {
                    self.refuse(refused);
                    return None;
                }
            },
        };
        if self.input.len() < head.bytes + head.body {
            self.head = Some(head);
            return None;
        }
        let body: Vec<u8> = self.input.drain(..head.bytes + head.body).skip(head.bytes).collect();
        self.input.shrink_to(KEEP_BYTES.max(self.input.len()));
        self.since = now;
        let question = match head.method {
            Method::Options => {
                self.stage = Stage::Busy(Some(head));
                let extra = "Allow: GET, HEAD, OPTIONS, POST\r\nAccess-Control-Allow-Methods: GET\r\n\
                             Access-Control-Allow-Headers: authorization\r\nAccess-Control-Max-Age: 600\r\n";
                let status = Status::NoContent;
                let answer = Answer { status, kind: "", extra: extra.into(), content: Vec::new() };
                self.answer(&answer, false);
                return self.next(now);
            }
            Method::Get | Method::Head => Question::Page(head.page),
            Method::Post => match serde_json::from_slice(&body) {
                Ok(request) => Question::Post(request),
                Err(error) => {
                    let why = format!("no request of this version's admin protocol: {error}");
                    self.refuse(Refused { status: Status::BadRequest, why, allow: None, suspicious: false });
                    return None;
                }
            },
        };
        self.stage = Stage::Busy(Some(head));
        Some(question)
    }

    /// Says something to whoever asked by a line; anything but progress is the answer.
    pub fn respond(&mut self, response: &AdminResponse) {
        let progress = matches!(response, AdminResponse::Progress { .. });
        if !progress && self.is_busy() {
            self.stage = Stage::Open;
        }
        if !(progress && self.output.len() > MAX_UNREAD_BYTES) {
            self.say(response);
        }
    }

    /// The answer to whoever asked by HTTP. `last`: nothing more is asked here.
    pub fn answer(&mut self, answer: &Answer, last: bool) {
        let Stage::Busy(Some(head)) = std::mem::replace(&mut self.stage, Stage::Open) else { return };
        let keep_alive = head.keep_alive && !last && !self.ended;
        let to = To { keep_alive, head_only: head.method == Method::Head, origin: head.origin.as_deref() };
        answer.write(&mut self.output, &to);
        if !keep_alive {
            self.close();
        }
    }

    /// Ends what is late: a request whose rest does not come, a connection that is asked nothing.
    pub fn look(&mut self, now: Nanos) {
        if self.kind != Kind::Http || self.stage != Stage::Open {
            return;
        }
        let waits = now.saturating_sub(self.since);
        if !self.input.is_empty() && waits >= SLOWEST_REQUEST {
            let why = "the request did not get complete in time".to_string();
            self.refuse(Refused { status: Status::Timeout, why, allow: None, suspicious: false });
        } else if self.input.is_empty() && self.output.is_empty() && waits >= LONGEST_IDLE {
            self.close();
        }
    }

    /// Whether somebody speaks HTTP here, and has to be looked after.
    pub fn is_http(&self) -> bool {
        self.kind == Kind::Http
    }

    fn refuse(&mut self, refused: Refused) {
        if refused.suspicious {
            self.suspicion = Some(refused.why.clone());
        }
        let mut answer = Answer::error(refused.status, &refused.why);
        if let Some(allow) = refused.allow {
            answer.extra = format!("Allow: {allow}\r\n");
        }
        if refused.status == Status::Unauthorized {
            answer.extra = "WWW-Authenticate: Bearer realm=\"highwater\"\r\n".into();
        }
        // A page of the cluster may read why it gets nothing: without that it could not ask for a token.
        let origin = self.refused_origin(refused.status);
        answer.write(&mut self.output, &To { origin: origin.as_deref(), ..To::default() });
        self.close();
    }

    fn refused_origin(&self, status: Status) -> Option<String> {
        if status != Status::Unauthorized {
            return None;
        }
        let mut headers = [httparse::EMPTY_HEADER; request::MAX_HEADERS];
        let mut request = httparse::Request::new(&mut headers);
        request.parse(&self.input).ok()?;
        let value = |name: &str| {
            let header = request.headers.iter().find(|header| header.name.eq_ignore_ascii_case(name))?;
            std::str::from_utf8(header.value).ok()
        };
        let (origin, host) = (value("origin")?, value("host")?);
        self.guard.may_read(origin, host).then(|| origin.to_string())
    }

    /// Says why, and listens no more.
    fn hang_up(&mut self, message: &str) {
        self.say(&AdminResponse::Error { message: message.into() });
        self.close();
    }

    fn close(&mut self) {
        (self.input, self.scanned, self.head) = (Vec::new(), 0, None);
        self.stage = Stage::Closing;
    }

    fn say(&mut self, response: &AdminResponse) {
        serde_json::to_writer(&mut self.output, response).expect("a response has a JSON form");
        self.output.push(b'\n');
    }
}
