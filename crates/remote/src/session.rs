//! Requests that run once: numbers of sessions, and what errors under them mean.

use std::sync::{Mutex, PoisonError};

use crate::command::{Command, cmd};
use crate::errand::Step;
use crate::error::{Error, ServerError, Ticket};
use crate::reply::Reply;

/// Sessions that are kept for the next request. More may be in use: one for each request under way.
const MAX_IDLE: usize = 64;

/// A session: all requests of it up to now have ended.
#[derive(Debug)]
pub(crate) struct Session {
    id: i64,
    used: u64,
}

impl Session {
    /// The next request's.
    pub fn ticket(&mut self) -> Ticket {
        self.used += 1;
        Ticket { session: self.id, number: self.used }
    }
}

/// Those that nobody uses at the moment.
#[derive(Debug, Default)]
pub(crate) struct Sessions(Mutex<Vec<Session>>);

impl Sessions {
    pub fn take(&self) -> Option<Session> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).pop()
    }

    /// Only when all its requests have ended: a later number would deny what is still on its way.
    pub fn give_back(&self, session: Session) {
        let mut idle = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if idle.len() < MAX_IDLE {
            idle.push(session);
        }
    }
}

pub(crate) fn open() -> Command {
    cmd("HW.SESSION").arg("NEW")
}

/// One command under a number.
pub(crate) fn once(ticket: Ticket, command: &Command) -> Command {
    command.behind(cmd("HW.ONCE").arg(ticket.session).arg(ticket.number))
}

/// Several, as one transaction.
pub(crate) fn block(ticket: Ticket, commands: &[Command]) -> Vec<Command> {
    let once = cmd("HW.ONCE").arg(ticket.session).arg(ticket.number);
    let first = [cmd("MULTI"), once];
    first.into_iter().chain(commands.iter().cloned()).chain([cmd("EXEC")]).collect()
}

/// The replies to the commands of a block: `EXEC`'s without that of `HW.ONCE`.
pub(crate) fn replies(exec: Reply) -> Result<Vec<Reply>, Error> {
    match exec {
        Reply::Array(mut replies) if !replies.is_empty() => {
            replies.remove(0);
            Ok(replies)
        }
        other => Err(Error::Unexpected(format!("EXEC answered {other:?}"))),
    }
}

pub(crate) fn ask(ticket: Ticket) -> Command {
    cmd("HW.OUTCOME").arg(ticket.session).arg(ticket.number)
}

/// What became of a request under a session.
#[derive(Clone, Debug, PartialEq)]
pub enum Outcome {
    /// It was done, and this was its reply.
    Committed(Reply),
    /// It was tried, and undone by itself: what it watched had changed.
    RolledBack(Reply),
    /// It was refused; nothing was done.
    Failed(ServerError),
    /// It was not done, and will not be.
    Never,
}

impl Outcome {
    pub(crate) fn parse(reply: Reply) -> Result<Outcome, Error> {
        let unexpected = |reply: &Reply| Err(Error::Unexpected(format!("HW.OUTCOME answered {reply:?}")));
        let Reply::Array(parts) = reply else { return unexpected(&reply) };
        let [what, with] = &parts[..] else { return unexpected(&Reply::Array(parts)) };
        let word = match what {
            Reply::Bytes(word) => String::from_utf8_lossy(word).into_owned(),
            Reply::Status(word) => word.clone(),
            _ => String::new(),
        };
        match (&*word, with) {
            ("committed", reply) => Ok(Outcome::Committed(reply.clone())),
            ("rolledback", reply) => Ok(Outcome::RolledBack(reply.clone())),
            ("failed", Reply::Error(error)) => Ok(Outcome::Failed(error.clone())),
            ("failed", Reply::Bytes(text)) => {
                Ok(Outcome::Failed(ServerError::parse(&String::from_utf8_lossy(text))))
            }
            ("failed", Reply::Status(text)) => Ok(Outcome::Failed(ServerError::parse(text))),
            ("never", _) => Ok(Outcome::Never),
            _ => unexpected(&Reply::Array(parts)),
        }
    }
}

/// The session that was opened.
pub(crate) fn opened(ended: Result<Reply, Error>) -> Result<Session, Error> {
    match ended {
        Ok(Reply::Integer(id)) => Ok(Session { id, used: 0 }),
        Ok(other) => Err(Error::Unexpected(format!("HW.SESSION answered {}", other.kind()))),
        // One that may have been opened is never used.
        Err(Error::Unknown { why, .. }) => Err(Error::NotDone(why)),
        Err(error) => Err(error),
    }
}

/// How an attempt of a transaction ended in which nothing was done.
pub(crate) enum Ended {
    /// Another one may succeed: why not this, or others were in the way.
    Again(Option<String>),
    /// The session is no more.
    Expired,
}

/// What `EXEC` answered, or that nothing was done.
pub(crate) type Exec = Result<Result<Reply, Ended>, Error>;

/// What became of the one try of a transaction's block.
pub(crate) fn ended(step: Step) -> Exec {
    let Step::Ended(mut ended) = step else {
        return Ok(Err(Ended::Again(Some("it was refused".into()))));
    };
    match ended.pop().expect("a block has an end") {
        Ok(Reply::Nil) => Ok(Err(Ended::Again(None))),
        Ok(exec) => Ok(Ok(exec)),
        Err(Error::Server(error)) if error.code == "EXPIRED" => Ok(Err(Ended::Expired)),
        Err(Error::Conflict) => Ok(Err(Ended::Again(None))),
        Err(Error::NotDone(why)) => Ok(Err(Ended::Again(Some(why)))),
        Err(error) => Err(error),
    }
}

/// The same of one that got lost, by what was asked about it.
pub(crate) fn settled(outcome: Result<Outcome, Error>, why: String, ticket: Ticket) -> Exec {
    match outcome {
        Ok(Outcome::Committed(exec)) => Ok(Ok(exec)),
        Ok(Outcome::RolledBack(_)) => Ok(Err(Ended::Again(None))),
        Ok(Outcome::Never) => Ok(Err(Ended::Again(Some(why)))),
        Ok(Outcome::Failed(error)) => Err(Error::Server(error)),
        Err(_) => Err(Error::Unknown { why, ticket: Some(ticket) }),
    }
}

/// How a request under a number ended.
pub(crate) enum Once {
    /// For good: the session goes on.
    Ended(Result<Reply, Error>),
    /// The session is no more, and nothing was done: the same again, in another one.
    Anew,
    /// Nobody knows: the session is not used again.
    Unknown(Error),
}

/// `lost`: an earlier try may have been done.
pub(crate) fn judge(ended: Result<Reply, Error>, lost: bool, ticket: Ticket) -> Once {
    let unknown = |why: String| Once::Unknown(Error::Unknown { why, ticket: Some(ticket) });
    match ended {
        Err(Error::Unknown { why, .. }) => unknown(why),
        // The number's end is told in any case but these, which are about the try.
        Err(Error::Server(error)) if is_of_the_try(&error) => match (lost, &*error.code) {
            (true, _) => unknown(error.text),
            (false, "EXPIRED") => Once::Anew,
            (false, _) => Once::Ended(Err(Error::Server(error))),
        },
        Err(error @ (Error::NotDone(_) | Error::Conflict)) if lost => unknown(error.to_string()),
        ended => Once::Ended(ended),
    }
}

fn is_of_the_try(error: &ServerError) -> bool {
    ["EXPIRED", "STALE", "OOM", "DISKFULL", "NOAUTH", "NOPERM", "WRONGPASS"].contains(&&*error.code)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_that_are_no_ends_say_nothing_of_earlier_tries() {
        let ticket = Ticket { session: 1, number: 2 };
        let error = |text: &str| Err(Error::Server(ServerError::parse(text)));
        assert!(matches!(judge(error("WRONGTYPE x"), true, ticket), Once::Ended(Err(Error::Server(_)))));
        assert!(matches!(judge(error("OOM x"), false, ticket), Once::Ended(Err(Error::Server(_)))));
        assert!(matches!(judge(error("EXPIRED x"), false, ticket), Once::Anew));
        for late in ["OOM x", "EXPIRED x", "NOPERM x"] {
            let Once::Unknown(Error::Unknown { ticket: told, .. }) = judge(error(late), true, ticket) else {
                panic!("{late}: an earlier try may have been done");
            };
            assert_eq!(told, Some(ticket));
        }
        assert!(matches!(judge(Err(Error::Conflict), false, ticket), Once::Ended(Err(Error::Conflict))));
    }

    #[test]
    fn outcomes_are_read() {
        let reply = |word: &str, with| Reply::Array(vec![Reply::Bytes(word.as_bytes().to_vec()), with]);
        assert_eq!(
            Outcome::parse(reply("committed", Reply::Integer(1))),
            Ok(Outcome::Committed(Reply::Integer(1)))
        );
        assert_eq!(Outcome::parse(reply("rolledback", Reply::Nil)), Ok(Outcome::RolledBack(Reply::Nil)));
        assert_eq!(Outcome::parse(reply("never", Reply::Nil)), Ok(Outcome::Never));
        let failed = ServerError::parse("ERR no");
        assert_eq!(
            Outcome::parse(reply("failed", Reply::Error(failed.clone()))),
            Ok(Outcome::Failed(failed))
        );
        assert!(Outcome::parse(reply("perhaps", Reply::Nil)).is_err());
        assert!(Outcome::parse(Reply::Nil).is_err());
    }
}
