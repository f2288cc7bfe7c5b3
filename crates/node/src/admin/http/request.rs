//! Bytes to a request: head, then body; what is wrong with it, as early as can be said.
//!
//! Every rule that a head can break is looked at before a byte of a body is waited for: strangers make nobody hold a body.

use super::guard::Guard;
use super::page::Page;
use super::response::Status;
use crate::admin::server::MAX_LINE_BYTES;

/// Longest request line with all header lines.
pub const MAX_HEAD_BYTES: usize = 16 << 10;
/// Header lines, at most.
pub const MAX_HEADERS: usize = 64;
/// Longest body: as long as a line of the other protocol.
pub const MAX_BODY_BYTES: usize = MAX_LINE_BYTES;

/// What is done with a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// It is shown.
    Get,
    /// It is shown, but for its content.
    Head,
    /// A request is carried out.
    Post,
    /// A browser asks what a page of another node may ask here.
    Options,
}

/// A complete head that broke no rule.
#[derive(Clone, Debug, PartialEq)]
pub struct Head {
    /// What to do.
    pub method: Method,
    pub page: Page,
    /// A page of this origin asks, and may read the answer.
    pub origin: Option<String>,
    /// The client sends further requests over this connection.
    pub keep_alive: bool,
    /// The client waits to be told that its body is wanted.
    pub expects_continue: bool,
    /// Length of the head.
    pub bytes: usize,
    /// Length of the body behind it.
    pub body: usize,
}

/// Why a request is refused.
#[derive(Clone, Debug, PartialEq)]
pub struct Refused {
    /// In a number.
    pub status: Status,
    /// In words, and what to do instead.
    pub why: String,
    /// Methods that the page has, if it lacks this one.
    pub allow: Option<&'static str>,
    /// Looks as if somebody's browser was made to send it.
    pub suspicious: bool,
}

impl Refused {
    fn new(status: Status, why: impl Into<String>) -> Refused {
        Refused { status, why: why.into(), allow: None, suspicious: false }
    }

    fn suspicious(status: Status, why: impl Into<String>) -> Refused {
        Refused { suspicious: true, ..Refused::new(status, why) }
    }
}

/// The head at the beginning of `input`; `None`: not all of it is here.
pub fn head(input: &[u8], guard: &Guard) -> Result<Option<Head>, Refused> {
    let mut headers = [httparse::EMPTY_HEADER; MAX_HEADERS];
    let mut request = httparse::Request::new(&mut headers);
    let within = &input[..input.len().min(MAX_HEAD_BYTES)];
    let bytes = match request.parse(within) {
        Ok(httparse::Status::Complete(bytes)) => bytes,
        Ok(httparse::Status::Partial) if input.len() < MAX_HEAD_BYTES => return Ok(None),
        Ok(httparse::Status::Partial) => {
            let why = format!("the head of a request has at most {MAX_HEAD_BYTES} bytes");
            return Err(Refused::new(Status::HeadersTooLarge, why));
        }
        Err(httparse::Error::TooManyHeaders) => {
            let why = format!("a request has at most {MAX_HEADERS} header lines");
            return Err(Refused::new(Status::HeadersTooLarge, why));
        }
        Err(httparse::Error::Version) => {
            return Err(Refused::new(Status::VersionNotSupported, "speak HTTP/1.1"));
        }
        Err(error) => return Err(Refused::new(Status::BadRequest, format!("not HTTP/1.1: {error}"))),
    };
    let newer = request.version == Some(1);
    let (method, target) = (request.method.unwrap_or_default(), request.path.unwrap_or_default());
    let fields = Fields(request.headers);
    let host = host(&fields, newer, guard)?;
    let method = find_method(method)?;
    let body = body_length(&fields)?;
    let keep_alive = fields.keeps_alive(newer)?;
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let page = Page::find(path, query).map_err(|why| match why {
        None => Refused::new(Status::NotFound, "there is no such page; docs/operations lists them"),
        Some(why) => Refused::new(Status::BadRequest, why),
    })?;
    let origin = fields.one("origin")?;
    match (method, page == Page::Admin) {
        (Method::Options, _) => {}
        (Method::Post, true) => {
            if let Some(origin) = origin {
                let why =
                    format!("requests of web pages (this one is of {}) are not carried out", shown(origin));
                return Err(Refused::suspicious(Status::Forbidden, why));
            }
        }
        (Method::Get | Method::Head, false) => {}
        (_, is_admin) => {
            let allow = if is_admin { "POST" } else { "GET, HEAD, OPTIONS" };
            let why = format!("this page has {allow}");
            let refused = Refused { allow: Some(allow), ..Refused::new(Status::MethodNotAllowed, why) };
            return Err(Refused { suspicious: method == Method::Post, ..refused });
        }
    }
    let given = fields.one("authorization")?;
    if method != Method::Options && page.needs_token() && !guard.admits(given.map(bearer).unwrap_or_default())
    {
        let why = "this needs the header \"Authorization: Bearer TOKEN\", with the token of admin.token";
        return Err(Refused::new(Status::Unauthorized, why));
    }
    if method == Method::Post {
        let kind = fields.one("content-type")?.unwrap_or_default();
        let kind = kind.split(|byte| *byte == b';').next().unwrap_or_default().trim_ascii();
        if !kind.eq_ignore_ascii_case(b"application/json") {
            let why = "the body is one JSON request, with the header \"Content-Type: application/json\"";
            return Err(Refused::suspicious(Status::UnsupportedMediaType, why));
        }
        if body == 0 {
            return Err(Refused::new(Status::BadRequest, "a request is missing: send it as the body"));
        }
    } else if body > 0 {
        return Err(Refused::new(Status::BadRequest, "only POST has a body"));
    }
    let expects_continue = match fields.one("expect")? {
        None => false,
        Some(value) if value.eq_ignore_ascii_case(b"100-continue") => newer,
        Some(_) => return Err(Refused::new(Status::ExpectationFailed, "only 100-continue can be expected")),
    };
    let origin = origin
        .and_then(|origin| std::str::from_utf8(origin).ok())
        .filter(|origin| guard.may_read(origin, host));
    Ok(Some(Head {
        method,
        page,
        origin: origin.map(str::to_string),
        keep_alive,
        expects_continue,
        bytes,
        body,
    }))
}

/// Whom the client thinks to speak to. A name that anybody can make point here (DNS rebinding) is not believed.
fn host<'a>(fields: &Fields<'a>, required: bool, guard: &Guard) -> Result<&'a str, Refused> {
    let Some(host) = fields.one("host")? else {
        // Browsers always send it; a health check by HTTP/1.0 does not.
        let missing = Refused::new(Status::BadRequest, "the header Host is missing");
        return if required { Err(missing) } else { Ok("") };
    };
    let known = std::str::from_utf8(host).ok().filter(|host| guard.knows(host));
    known.ok_or_else(|| {
        let why = format!(
            "Host {} is neither an address nor localhost; a name has to stand in admin.hosts",
            shown(host)
        );
        Refused::suspicious(Status::Forbidden, why)
    })
}

fn find_method(name: &str) -> Result<Method, Refused> {
    match name {
        "GET" => Ok(Method::Get),
        "HEAD" => Ok(Method::Head),
        "POST" => Ok(Method::Post),
        "OPTIONS" => Ok(Method::Options),
        "PUT" | "DELETE" | "PATCH" | "CONNECT" | "TRACE" => {
            let allow = "GET, HEAD, OPTIONS";
            let why = format!("pages have {allow}; POST goes to /v1/admin");
            Err(Refused { allow: Some(allow), ..Refused::suspicious(Status::MethodNotAllowed, why) })
        }
        _ => Err(Refused::new(Status::NotImplemented, "no method that is known here")),
    }
}

fn body_length(fields: &Fields<'_>) -> Result<usize, Refused> {
    if fields.one("transfer-encoding")?.is_some() {
        return Err(Refused::new(Status::NotImplemented, "send the body whole, with Content-Length"));
    }
    let Some(text) = fields.one("content-length")? else { return Ok(0) };
    let digits = text.iter().all(u8::is_ascii_digit) && !text.is_empty();
    let length = std::str::from_utf8(text).ok().filter(|_| digits);
    let length = length.ok_or_else(|| Refused::new(Status::BadRequest, "Content-Length is a number"))?;
    // A number that fits nowhere is too large, too.
    match length.parse::<usize>() {
        Ok(length) if length <= MAX_BODY_BYTES => Ok(length),
        _ => {
            let why = format!("a body has at most {MAX_BODY_BYTES} bytes");
            Err(Refused::new(Status::TooLarge, why))
        }
    }
}

/// The token of a `Bearer`; nothing if it is something else.
fn bearer(value: &[u8]) -> &[u8] {
    match value.split_at_checked(7) {
        Some((scheme, token)) if scheme.eq_ignore_ascii_case(b"bearer ") => token.trim_ascii(),
        _ => &[],
    }
}

/// As much of a stranger's word as fits into a message.
fn shown(word: &[u8]) -> String {
    format!("{:?}", String::from_utf8_lossy(&word[..word.len().min(64)]))
}

struct Fields<'a>(&'a [httparse::Header<'a>]);

impl<'a> Fields<'a> {
    /// The value of a header that may come once: two of one are how smugglers begin.
    fn one(&self, name: &str) -> Result<Option<&'a [u8]>, Refused> {
        let mut all = self.0.iter().filter(|header| header.name.eq_ignore_ascii_case(name));
        let first = all.next().map(|header| header.value.trim_ascii());
        match all.next() {
            None => Ok(first),
            Some(_) => Err(Refused::new(Status::BadRequest, format!("two headers {name}"))),
        }
    }

    fn keeps_alive(&self, newer: bool) -> Result<bool, Refused> {
        let value = self.one("connection")?.unwrap_or_default();
        let has = |word: &[u8]| {
            value.split(|byte| *byte == b',').any(|part| part.trim_ascii().eq_ignore_ascii_case(word))
        };
        Ok(if newer { !has(b"close") } else { has(b"keep-alive") })
    }
}
