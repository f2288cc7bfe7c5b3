//! The dashboard: one file, which asks for everything else itself.

use super::response::{Answer, Status};

const PAGE: &str = include_str!("dashboard.html");
/// Stands in the page for a number that each answer draws: only what carries it is run.
const NONCE: &str = "NONCE-OF-THIS-ANSWER";

/// The page, which may ask the admin ports of the cluster and nobody else.
pub fn answer(admins: &[String]) -> Answer {
    let nonce = nonce();
    let plain =
        |admin: &&String| admin.bytes().all(|byte| byte.is_ascii_alphanumeric() || b".:-_[]".contains(&byte));
    let sources: String =
        admins.iter().filter(plain).map(|admin| format!(" http://{admin} https://{admin}")).collect();
    let policy = format!(
        "Content-Security-Policy: default-src 'none'; script-src 'nonce-{nonce}'; style-src 'nonce-{nonce}'; img-src data:; \
         connect-src 'self'{sources}; base-uri 'none'; form-action 'none'; frame-ancestors 'none'\r\n\
         Referrer-Policy: no-referrer\r\n"
    );
    Answer {
        status: Status::Ok,
        kind: "text/html; charset=utf-8",
        extra: policy,
        content: PAGE.replace(NONCE, &nonce).into_bytes(),
    }
}

fn nonce() -> String {
    let mut bytes = [0; 16];
    // Without chance the page shows nothing, which is better than a number that can be guessed.
    if getrandom::fill(&mut bytes).is_err() {
        return String::new();
    }
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
