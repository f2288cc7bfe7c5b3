//! What is asked of sessions: HW.SESSION HW.OUTCOME. (HW.ONCE is the door's: it makes a request one of a session.)

use highwater_core::Transaction;
use highwater_kit::sessions::{Answer, Denial, Kept, Most, TooMany, ask, end, open};
use highwater_seam::Session;

use super::help;
use super::words::is;
use crate::command::entry::commands;
use crate::errors::{CommandError, RequestError};
use crate::keyspace::{Failure, Keyspace, SESSIONS};
use crate::number::parse_integer;
use crate::reply::{Reply, is_whole};
use crate::request::Args;
use crate::single;

commands! {
    data(args, keyspace, reply);

    HW_SESSION = 189 {
        run: session(args, keyspace, reply),
        name: "hw.session", arity: -2, flags: WRITE | DENYOOM | FAST, keys: SESSION, group: "transactions",
        since: "0.1.0",
        summary: "Open or end a session, which numbers a client's requests",
        subcommands: subcommands! { "hw.session":
            "new" -2 {
                docs: "
                    summary Open a session; the reply is its id
                    since 0.1.0
                ",
            }
            "end" 3 {
                docs: "
                    summary End a session
                    since 0.1.0
                    - session: integer
                ",
            }
            our_help "0.1.0" {}
        },
    }

    HW_OUTCOME = 190 {
        run: outcome(args, keyspace, reply),
        name: "hw.outcome", arity: -3, flags: WRITE | FAST, keys: SESSION, group: "transactions",
        since: "0.1.0",
        summary: "Tell what became of a numbered request, or see to it that it never happens",
        docs: "
            complexity O(1)
            - session: integer
            - number: integer
            - raw: pure-token 'RAW' optional
        ",
    }
}

/// `HW.SESSION NEW | END id`. The door has added to NEW how many sessions may be open, of all users and of each, and what the id is made of.
pub fn session<T: Transaction>(
    mut args: Args<'_>,
    keyspace: &mut Keyspace<'_, T>,
    reply: &mut Reply<'_>,
) -> Result<(), Failure> {
    let subcommand = args.promised()?.to_ascii_lowercase();
    let mut number = || -> Result<u64, CommandError> {
        let number = parse_integer(args.promised()?).and_then(|number| u64::try_from(number).ok());
        number.ok_or(CommandError::NotAnInteger)
    };
    match &subcommand[..] {
        b"new" => {
            let (most, nonce) = (Most { of_all: number()?, of_each: number()? }, number()?);
            let owner = keyspace.owner();
            let opened = open(keyspace.transaction(), SESSIONS, most, owner, nonce)?;
            let id = opened.map_err(|too_many| match too_many {
                TooMany::OfAll => CommandError::TooManySessions(most.of_all),
                TooMany::OfOwner => CommandError::TooManyOwnSessions(most.of_each),
            })?;
            reply.integer(id as i64);
        }
        b"end" => {
            let id = number()?;
            let owner = keyspace.owner();
            reply.integer(end(keyspace.transaction(), SESSIONS, id, owner)?.into());
        }
        _ => help::help("HW.SESSION", &["NEW", "END <session>"], reply),
    }
    Ok(())
}

/// `HW.OUTCOME session number [RAW]`: how it ended, and the reply that it got. RAW: the reply's bytes, as a procedure gave them to an
/// `HW.CALL`.
pub fn outcome<T: Transaction>(
    mut args: Args<'_>,
    keyspace: &mut Keyspace<'_, T>,
    reply: &mut Reply<'_>,
) -> Result<(), Failure> {
    let of = single::numbers(&mut args, keyspace.owner())?;
    let raw = match (args.next(), args.next()) {
        (None, _) => false,
        (Some(word), None) if is(word, "raw") => true,
        _ => return Err(CommandError::Syntax.into()),
    };
    let denied = |denial: Denial, of: Session| CommandError::Session(denial.of(of).to_string());
    let answer = ask(keyspace.transaction(), SESSIONS, of)?;
    let (word, kept) = match &answer {
        Answer::Expired => return Err(denied(Denial::Expired, of).into()),
        Answer::Stale(last) => return Err(denied(Denial::Stale { last: *last }, of).into()),
        Answer::Never => ("never", None),
        Answer::Ended(Kept::Committed, bytes) => ("committed", Some(bytes)),
        Answer::Ended(Kept::RolledBack, bytes) => ("rolledback", Some(bytes)),
        Answer::Ended(_, bytes) => ("failed", Some(bytes)),
    };
    reply.array(2);
    reply.bulk(word.as_bytes());
    match (kept, &answer) {
        (None, _) => reply.null(),
        // What the engine says of its limits is no RESP yet.
        (Some(bytes), Answer::Ended(Kept::TooLarge, _)) => {
            reply.error(RequestError::TooLarge { limits: &String::from_utf8_lossy(bytes) });
        }
        (Some(bytes), _) if !raw && is_whole(bytes) => reply.out.extend_from_slice(bytes),
        // It was no command's reply, but a procedure's.
        (Some(bytes), _) => reply.bulk(bytes),
    }
    Ok(())
}
