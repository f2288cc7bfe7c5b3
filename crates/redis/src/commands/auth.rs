//! AUTH, and HELLO .. AUTH: who a connection is.

use super::client::describe;
use crate::Door;
use crate::acl::log::{Context, Entry, Reason};
use crate::acl::{Caller, Denied};
use crate::client_state::ClientState;
use crate::command::entry::commands;
use crate::effort::{Effort, LOOK};
use crate::errors::CommandError;
use crate::reply::Reply;
use crate::request::Args;

commands! {
    local(args, client, door, effort, reply);

    AUTH = 152 {
        run: auth(args, client, door, effort, reply),
        name: "auth", arity: -2,
        flags: NOSCRIPT | LOADING | STALE | FAST | NO_AUTH | ALLOW_BUSY | STANDS_ALONE, keys: NO_DATA,
        group: "connection", since: "1.0.0",
        summary: "Authenticate to the server",
        docs: "
            complexity O(N) where N is the number of passwords defined for the user
            history 6.0.0 Added ACL style (username and password).
            - username: string @6.0.0 optional
            - password: string
        ",
    }
}

/// `AUTH [name] password`
pub fn auth(
    mut args: Args<'_>,
    client: &mut ClientState,
    door: &Door,
    effort: &Effort,
    reply: &mut Reply<'_>,
) -> Result<(), CommandError> {
    let (name, password) = match (args.next(), args.next(), args.next()) {
        (Some(password), None, _) => {
            if door.access.default_user().needs_no_password() {
                return Err(CommandError::NoPasswords);
            }
            (Caller::default_name(), password)
        }
        (Some(name), Some(password), None) => (name, password),
        _ => return Err(CommandError::Syntax),
    };
    let_in(name, password, "AUTH", client, door, effort)?;
    reply.ok();
    Ok(())
}

/// Makes a connection this user, if the password is right.
pub fn let_in(
    name: &[u8],
    password: &[u8],
    by: &str,
    client: &mut ClientState,
    door: &Door,
    effort: &Effort,
) -> Result<(), CommandError> {
    // Its digest is taken; and what is wrong is noted.
    effort.spend(LOOK + password.len() as u64);
    if client.caller.authenticate(&door.access, name, password) {
        client.tell_words();
        return Ok(());
    }
    note(door, client, Reason::Auth, Context::Toplevel, by.as_bytes(), &by.to_ascii_lowercase(), name);
    Err(CommandError::WrongPassword)
}

/// Writes into the log that a command was denied.
pub fn note_denied(door: &Door, client: &ClientState, denied: Denied<'_>, context: Context, command: &str) {
    let reason = match denied {
        Denied::Command(_) => Reason::Command,
        Denied::Key(_) | Denied::Table(_) => Reason::Key,
    };
    note(door, client, reason, context, &denied.object(), command, client.caller.user().name());
}

fn note(
    door: &Door,
    client: &ClientState,
    reason: Reason,
    context: Context,
    object: &[u8],
    command: &str,
    user: &[u8],
) {
    let entry = Entry {
        count: 1,
        reason,
        context,
        object: object[..object.len().min(1 << 10)].to_vec(),
        user: user[..user.len().min(1 << 10)].to_vec(),
        at_ms: client.unix_ms,
        client: describe(client, command),
    };
    door.access.log(|log| log.add(entry));
}
