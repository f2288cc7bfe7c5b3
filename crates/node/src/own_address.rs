//! The doors of this node: its own addresses of the configuration, looked up.
//!
//! An orchestrator may start a node before the DNS knows the node's name. Others' names are looked up again until they are known
//! ([`transport`](crate::transport)); a node's own is waited for, because without it there is nothing to listen at.

use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::thread;
use std::time::{Duration, Instant};

/// For how long a node waits for its own name.
pub const PATIENCE: Duration = Duration::from_secs(60);
/// Between two questions to the DNS.
const PAUSE: Duration = Duration::from_millis(500);

/// The address behind `host:port`, which `what` listens at; a name that has none is waited for.
///
/// # Errors
/// If it has none for [`PATIENCE`], or is given up before: the last reason.
pub fn find(what: &str, address: &str, is_given_up: impl Fn() -> bool) -> io::Result<SocketAddr> {
    find_with(what, address, look_up, || pause(is_given_up()), PATIENCE)
}

/// Waits a little, unless there is no use in it; whether to ask again.
fn pause(is_given_up: bool) -> bool {
    if !is_given_up {
        thread::sleep(PAUSE);
    }
    !is_given_up
}

fn look_up(address: &str) -> io::Result<SocketAddr> {
    let found = address.to_socket_addrs()?.next();
    found.ok_or_else(|| io::Error::new(io::ErrorKind::NotFound, "the name has no address"))
}

fn find_with(
    what: &str,
    address: &str,
    mut look_up: impl FnMut(&str) -> io::Result<SocketAddr>,
    mut goes_on: impl FnMut() -> bool,
    patience: Duration,
) -> io::Result<SocketAddr> {
    let started = Instant::now();
    let mut told = false;
    loop {
        let error = match look_up(address) {
            Ok(found) => return Ok(found),
            Err(error) if started.elapsed() >= patience => return Err(error),
            Err(error) => error,
        };
        if !std::mem::replace(&mut told, true) {
            let seconds = patience.as_secs();
            tracing::warn!(
                "waiting for this node's own {what} address {address}, for up to {seconds} s: {error}; is the name right, and in the DNS?"
            );
        }
        if !goes_on() {
            return Err(error);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Once: a node whose own name was not in the DNS yet ended at once, as with a bad configuration.
    #[test]
    fn a_name_is_waited_for_until_it_has_an_address() {
        let (mut asked, mut paused) = (0, 0);
        let look_up = |address: &str| {
            assert_eq!(address, "hw-0.hw:7100");
            asked += 1;
            if asked < 4 { Err(io::Error::other("unknown")) } else { Ok(([10, 0, 0, 7], 7100).into()) }
        };
        let found = find_with(
            "peer",
            "hw-0.hw:7100",
            look_up,
            || {
                paused += 1;
                true
            },
            PATIENCE,
        );
        assert_eq!((found.unwrap(), asked, paused), (([10, 0, 0, 7], 7100).into(), 4, 3));
    }

    /// Once: a node that waits for its own name did not hear SIGTERM; modules that have no room together were looked for
    /// ten times a second; a timer was left by each thread that had run scripts.
    #[test]
    fn a_name_that_never_has_one_is_given_up_with_the_reason() {
        let unknown = |_: &str| Err(io::Error::other("no such name"));
        let given_up = find_with("peer", "nobody:1", unknown, || true, Duration::ZERO);
        assert_eq!(given_up.unwrap_err().to_string(), "no such name");
        assert_eq!(find("resp", "[::1]:7200", || false).unwrap().port(), 7200);
        // Whoever is asked to end meanwhile waits no longer.
        let given_up = find_with("peer", "nobody:1", unknown, || false, PATIENCE);
        assert_eq!(given_up.unwrap_err().to_string(), "no such name");
    }
}
