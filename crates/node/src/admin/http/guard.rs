//! Who is let in: the token, and by which names a browser may have come here.
//!
//! A browser runs code of strangers, and sends it wherever that code likes. Two things protect an admin port that only
//! listens where its operator is. The name in `Host`: code of `evil.example` that has that name point to 127.0.0.1 still
//! says `evil.example`. And `Origin`, which a browser adds to what code sends: only pages of this cluster may read answers,
//! and none may have anything done.

use std::net::{Ipv4Addr, Ipv6Addr};

/// The rules of one admin port.
pub struct Guard {
    token: Option<Box<str>>,
    hosts: Vec<String>,
    /// Where the cluster's admin ports are, `host:port`.
    admins: Box<dyn Fn() -> Vec<String> + Send + Sync>,
}

impl Guard {
    /// `token`: what everybody has to know, if anything. `hosts`: names that are this node's. `admins`: where admin ports of the cluster are.
    pub fn new(
        token: Option<&str>,
        hosts: &[String],
        admins: impl Fn() -> Vec<String> + Send + Sync + 'static,
    ) -> Guard {
        Guard { token: token.map(Box::from), hosts: hosts.to_vec(), admins: Box::new(admins) }
    }

    /// Lets everybody in who comes by an address.
    pub fn open() -> Guard {
        Guard::new(None, &[], Vec::new)
    }

    /// Whether a token has to be given at all.
    pub fn asks(&self) -> bool {
        self.token.is_some()
    }

    /// Whether this token lets in; any does where none is set.
    pub fn admits(&self, given: &[u8]) -> bool {
        self.token.as_ref().is_none_or(|token| equal(token.as_bytes(), given))
    }

    /// Whether a `Host` may be this node's: an address, localhost, or a name that was configured; with or without a port.
    pub fn knows(&self, host: &str) -> bool {
        let name = split(host).0;
        is_address(name)
            || name.eq_ignore_ascii_case("localhost")
            || self.hosts.iter().any(|known| known.eq_ignore_ascii_case(name))
    }

    /// Where the cluster's admin ports are.
    pub fn admins(&self) -> Vec<String> {
        (self.admins)()
    }

    /// Whether a page of this origin may read answers: it is of an admin port of the cluster, by its address or by a name that was
    /// configured; or of this one, which its browser called `host`.
    pub fn may_read(&self, origin: &str, host: &str) -> bool {
        let Some(place) = origin.strip_prefix("http://").or_else(|| origin.strip_prefix("https://")) else {
            return false;
        };
        if place == host {
            return true;
        }
        let (name, port) = split(place);
        let configured = self.hosts.iter().any(|known| known.eq_ignore_ascii_case(name));
        let admins = self.admins();
        admins.iter().any(|admin| {
            let (host, its_port) = split(admin);
            let same_machine = is_loopback(host) && is_loopback(name);
            its_port == port && (host.eq_ignore_ascii_case(name) || same_machine || configured)
        })
    }
}

/// Host and port; an IPv6 address without its brackets.
fn split(place: &str) -> (&str, &str) {
    if let Some((address, rest)) = place.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        return (address, rest.strip_prefix(':').unwrap_or_default());
    }
    match place.rsplit_once(':') {
        Some((host, port)) if !host.contains(':') => (host, port),
        _ => (place, ""),
    }
}

fn is_address(name: &str) -> bool {
    name.parse::<Ipv4Addr>().is_ok() || name.parse::<Ipv6Addr>().is_ok()
}

fn is_loopback(name: &str) -> bool {
    let v4 = name.parse::<Ipv4Addr>().is_ok_and(|address| address.is_loopback());
    v4 || name.parse::<Ipv6Addr>().is_ok_and(|address| address.is_loopback()) || name == "localhost"
}

/// Whether two secrets are equal; takes as long for a wrong one whose first half is right.
fn equal(secret: &[u8], given: &[u8]) -> bool {
    let mut differs = u8::from(secret.len() != given.len());
    for (at, byte) in given.iter().enumerate() {
        differs |= byte ^ secret[at % secret.len().max(1)];
        differs = std::hint::black_box(differs);
    }
    differs == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_strangers_can_point_here_are_not_known() {
        let guard = Guard::new(None, &["db.example".into()], Vec::new);
        for host in [
            "127.0.0.1:7300",
            "10.0.0.7",
            "[::1]:7300",
            "[fe80::1]",
            "localhost:1",
            "LOCALHOST",
            "db.example:80",
        ] {
            assert!(guard.knows(host), "{host}");
        }
        for host in
            ["evil.example:7300", "localhost.evil.example", "127.0.0.1.evil.example", "", "db.example.evil"]
        {
            assert!(!guard.knows(host), "{host}");
        }
    }

    #[test]
    fn pages_of_the_cluster_may_read_and_no_others() {
        let admins = || vec!["127.0.0.1:7300".into(), "10.0.0.2:7300".into()];
        let guard = Guard::new(None, &["db.example".into()], admins);
        for origin in [
            "http://127.0.0.1:7300",
            "http://localhost:7300",
            "http://10.0.0.2:7300",
            "http://db.example:7300",
        ] {
            assert!(guard.may_read(origin, "127.0.0.1:7301"), "{origin}");
        }
        for origin in
            ["http://127.0.0.1:3000", "http://evil.example:7300", "null", "http://10.0.0.2", "file://"]
        {
            assert!(!guard.may_read(origin, "127.0.0.1:7301"), "{origin}");
        }
        assert!(guard.may_read("http://10.9.9.9:1", "10.9.9.9:1"), "a page may read from where it came");
    }

    #[test]
    fn a_token_has_to_be_all_of_it() {
        let guard = Guard::new(Some("0123456789abcdef"), &[], Vec::new);
        assert!(guard.asks() && guard.admits(b"0123456789abcdef"));
        for wrong in [&b""[..], b"0123456789abcde", b"0123456789abcdeF", b"0123456789abcdef0123456789abcdef"]
        {
            assert!(!guard.admits(wrong), "{wrong:?}");
        }
        assert!(!Guard::open().asks() && Guard::open().admits(b""));
    }
}
