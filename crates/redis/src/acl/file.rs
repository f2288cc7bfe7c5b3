//! Users in a file, a line each, as Redis's `aclfile` has them: `user NAME WORD ..`.

use super::change::Provided;
use super::selector::Reading;
use super::user::{User, check_name};
use super::{DEFAULT, MAX_USER_BYTES, row};

/// Reads such a text; else what is wrong with it.
pub fn parse(text: &str) -> Result<Provided, String> {
    let mut users: Provided = Vec::new();
    for (at, line) in text.lines().enumerate() {
        let at = at + 1;
        let mut words = line.split_ascii_whitespace();
        match words.next() {
            None => continue,
            Some(word) if word.starts_with('#') => continue,
            Some("user") => {}
            Some(_) => {
                return Err(format!("line {at} must begin with \"user\", a name and what the user may do"));
            }
        }
        let name = words.next().ok_or_else(|| format!("line {at} has no name behind \"user\""))?.as_bytes();
        check_name(name).map_err(|error| format!("line {at}: {error}"))?;
        if users.iter().any(|(known, _)| known == name) {
            return Err(format!("line {at}: duplicate user found, and a user is defined once"));
        }
        let user = User::new(name).with(words.map(str::as_bytes), Reading::Typed);
        let row = row::encode(&user.map_err(|error| format!("line {at}: {error}"))?);
        if row.len() > MAX_USER_BYTES {
            return Err(format!("line {at}: a user has at most {MAX_USER_BYTES} bytes"));
        }
        users.push((name.to_vec(), row));
    }
    Ok(users)
}

/// The default user with this password, if no file says anything of it.
pub fn with_password(mut users: Provided, password: &str) -> Result<Provided, String> {
    if users.iter().any(|(name, _)| name == DEFAULT) {
        return Err(
            "auth.password and the file of auth.users_file both define the user \"default\"; leave one out"
                .into(),
        );
    }
    let word = [b">", password.as_bytes()].concat();
    let user = User::anybody().with([&word[..]], Reading::Typed).expect("a password is any word");
    users.push((DEFAULT.to_vec(), row::encode(&user)));
    Ok(users)
}
