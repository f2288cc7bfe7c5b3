//! The users that a cluster begins with.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use highwater_redis::acl::change::Provided;
use highwater_redis::acl::file;

/// Who may do what, before the cluster says so.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AuthConfig {
    /// The default user's; empty: none.
    pub password: String,
    /// A file of users; empty: none.
    pub users_file: PathBuf,
}

/// A password is in no log.
impl std::fmt::Debug for AuthConfig {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let password = if self.password.is_empty() { "none" } else { "set" };
        f.debug_struct("AuthConfig")
            .field("password", &password)
            .field("users_file", &self.users_file)
            .finish()
    }
}

impl AuthConfig {
    /// The users that it names; else what is wrong.
    pub fn users(&self) -> Result<Provided, String> {
        let mut users = Provided::new();
        if !self.users_file.as_os_str().is_empty() {
            let path = self.users_file.display();
            let text = std::fs::read_to_string(&self.users_file)
                .map_err(|error| format!("auth.users_file: cannot read {path}: {error}"))?;
            users = file::parse(&text).map_err(|why| format!("auth.users_file: {path}, {why}"))?;
        }
        if !self.password.is_empty() {
            users = file::with_password(users, &self.password)?;
        }
        Ok(users)
    }
}
