//! Why a request was not answered as it was asked, by what one can do.

use std::fmt;

/// What a request that ended in an error has done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Nothing: it may be sent again.
    None,
    /// Nobody knows: it may have been done, or may still be.
    Unknown,
    /// It was done.
    Done,
}

/// A request under a session: what to ask [`outcome`](crate::Client::outcome) about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ticket {
    /// Whose.
    pub session: i64,
    /// Which.
    pub number: u64,
}

/// Why a request was not answered as it was asked.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Error {
    /// The server refused it: the same again would be refused again, or is up to whoever asks (`OOM`). Nothing was done.
    Server(ServerError),
    /// Nobody took it in time, and why at the last try. Nothing was done.
    NotDone(String),
    /// Other transactions were in the way, again and again. Nothing was done.
    Conflict,
    /// It was sent, and nobody says what became of it. With a ticket one may ask later.
    Unknown {
        /// Why.
        why: String,
        /// If it ran under a session.
        ticket: Option<Ticket>,
    },
    /// It was done, and the reply is not of the type that was asked for.
    Unexpected(String),
    /// It makes no sense to ask: it was not sent.
    Invalid(String),
}

impl Error {
    /// What the request has done.
    pub fn effect(&self) -> Effect {
        match self {
            Error::Server(_) | Error::NotDone(_) | Error::Conflict | Error::Invalid(_) => Effect::None,
            Error::Unknown { .. } => Effect::Unknown,
            Error::Unexpected(_) => Effect::Done,
        }
    }

    /// Whether it may be sent again without being done twice.
    pub fn is_safe_to_retry(&self) -> bool {
        self.effect() == Effect::None
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Server(error) => write!(f, "{error}"),
            Error::NotDone(why) => write!(f, "nobody took it in time: {why}; nothing was done"),
            Error::Conflict => f.write_str("other transactions were in the way; nothing was done"),
            Error::Unknown { why, .. } => write!(f, "it may have been done or not: {why}"),
            Error::Unexpected(what) => write!(f, "it was done, and its reply is of another type: {what}"),
            Error::Invalid(why) => write!(f, "{why}; nothing was sent"),
        }
    }
}

impl std::error::Error for Error {}

/// An error that the server answered: a word, and what it says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerError {
    /// `ERR`, `WRONGTYPE`, `OOM`, ..
    pub code: String,
    /// The whole text, with the word.
    pub text: String,
}

impl fmt::Display for ServerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl std::error::Error for ServerError {}

/// What an error of the server means for whoever sends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// Nothing was done: ask there, or, if nobody is named, anybody in a moment.
    Elsewhere(Option<String>),
    /// Nothing was done: ask the same again in a moment.
    Again,
    /// It may have been done.
    Unknown,
    /// An answer.
    Final,
}

impl ServerError {
    pub(crate) fn parse(text: &str) -> ServerError {
        let code = text.split(' ').next().unwrap_or_default();
        ServerError { code: code.into(), text: text.into() }
    }

    pub(crate) fn verdict(&self) -> Verdict {
        let words = || self.text.split_whitespace();
        match &*self.code {
            // `leader is node 1 at 10.0.0.2:7200`, `.. ask node 1 at ..`, or nobody is known.
            "NOTLEADER" => Verdict::Elsewhere(words().filter_map(address).next_back()),
            // Redis Cluster's way: a slot, and who has it. An address without a host is of the node that was asked; nobody says that here.
            "MOVED" | "ASK" => Verdict::Elsewhere(words().nth(2).and_then(address)),
            "NOQUORUM" | "CLUSTERDOWN" | "TRYAGAIN" | "LOADING" | "MASTERDOWN" | "READONLY" => {
                Verdict::Elsewhere(None)
            }
            "CONFLICT" => Verdict::Again,
            "UNKNOWN" => Verdict::Unknown,
            _ => Verdict::Final,
        }
    }
}

/// `host:port`, if it is one.
fn address(word: &str) -> Option<String> {
    let word = word.trim_end_matches([',', ';', '.']);
    let (host, port) = word.rsplit_once(':')?;
    if host.is_empty() || port.parse::<u16>().is_err() {
        return None;
    }
    // Redis tells IPv6 addresses without brackets.
    let bare = host.contains(':') && !host.starts_with('[');
    Some(if bare { format!("[{host}]:{port}") } else { word.to_string() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_is_named_is_asked_next() {
        let verdict = |text| ServerError::parse(text).verdict();
        let at = |address: &str| Verdict::Elsewhere(Some(address.into()));
        assert_eq!(verdict("NOTLEADER leader is node 1 at 10.0.0.2:7200"), at("10.0.0.2:7200"));
        assert_eq!(
            verdict("NOTLEADER this node does not serve at the moment; ask node 1 at [::1]:7"),
            at("[::1]:7")
        );
        assert_eq!(verdict("MOVED 0 fe80::1:7200"), at("[fe80::1]:7200"));
        assert_eq!(verdict("NOTLEADER no leader is known at the moment; retry"), Verdict::Elsewhere(None));
        assert_eq!(verdict("MOVED 866 10.0.0.2:7200"), at("10.0.0.2:7200"));
        assert_eq!(verdict("MOVED 866 :7200"), Verdict::Elsewhere(None));
        assert_eq!(verdict("CLUSTERDOWN The cluster is down"), Verdict::Elsewhere(None));
        assert_eq!(verdict("CONFLICT x"), Verdict::Again);
        assert_eq!(verdict("UNKNOWN outcome unknown: x"), Verdict::Unknown);
        assert_eq!(verdict("WRONGTYPE x"), Verdict::Final);
        assert_eq!(verdict(""), Verdict::Final);
    }
}
