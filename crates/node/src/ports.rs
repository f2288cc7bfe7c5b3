//! Loopback ports for replicas that are started, killed and started again at the same addresses.
//!
//! A port that was free a moment ago may be somebody's by the time a replica comes back to it: the system gives the ports of its
//! ephemeral range to every outgoing connection. So they are taken from below that range, and each is reserved for as long as this
//! process lives by a UDP socket at the same number, which is in no TCP listener's way and which whoever else picks in this manner
//! runs into.

use std::collections::hash_map::RandomState;
use std::fs;
use std::hash::BuildHasher;
use std::io;
use std::net::{Ipv4Addr, TcpListener, UdpSocket};
use std::sync::Mutex;

/// Given up with the process.
static RESERVED: Mutex<Vec<UdpSocket>> = Mutex::new(Vec::new());

/// Well-known services are below.
const FIRST: u16 = 10_000;

/// Where the ephemeral range begins if the system doesn't say.
const EPHEMERAL: u16 = 32_768;

/// `n` loopback ports, all different, where nobody listens: neither the system nor another call of this function, here or in another
/// process, gives them to anybody while this process runs.
pub fn free_loopback_ports(n: usize) -> io::Result<Vec<u16>> {
    let end = first_ephemeral();
    let span = end - FIRST;
    // Not all from one end: between the look at TCP and the first listener there is a moment.
    let offset = RandomState::new().hash_one(std::process::id()) % u64::from(span);
    let candidates = (0..span).map(|step| FIRST + ((offset + u64::from(step)) % u64::from(span)) as u16);
    let (mut ports, mut sockets) = (Vec::new(), Vec::new());
    for port in candidates {
        if ports.len() == n {
            break;
        }
        if let Some(socket) = reserve(port)? {
            sockets.push(socket);
            ports.push(port);
        }
    }
    if ports.len() < n {
        return Err(io::Error::new(
            io::ErrorKind::AddrInUse,
            format!("{n} are wanted, {} are free of {FIRST} to {}", ports.len(), end - 1),
        ));
    }
    RESERVED.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).append(&mut sockets);
    Ok(ports)
}

/// None if somebody has the port.
fn reserve(port: u16) -> io::Result<Option<UdpSocket>> {
    let taken = |error: io::Error| match error.kind() {
        io::ErrorKind::AddrInUse | io::ErrorKind::PermissionDenied => Ok(None),
        _ => Err(error),
    };
    let socket = match UdpSocket::bind((Ipv4Addr::LOCALHOST, port)) {
        Ok(socket) => socket,
        Err(error) => return taken(error),
    };
    match TcpListener::bind((Ipv4Addr::LOCALHOST, port)) {
        Ok(_) => Ok(Some(socket)),
        Err(error) => taken(error),
    }
}

/// A range that leaves few ports below it is none to keep clear of.
fn first_ephemeral() -> u16 {
    let range = fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range").unwrap_or_default();
    let first = range.split_whitespace().next().and_then(|first| first.parse().ok());
    first.filter(|first| *first >= 2 * FIRST).unwrap_or(EPHEMERAL)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_port_is_given_twice_nor_to_whom_the_system_chooses_for() {
        let mut ports = free_loopback_ports(9).unwrap();
        ports.extend(free_loopback_ports(9).unwrap());
        ports.sort_unstable();
        ports.dedup();
        assert_eq!(ports.len(), 18);
        for port in ports {
            assert!(port < first_ephemeral(), "{port}");
            TcpListener::bind((Ipv4Addr::LOCALHOST, port)).unwrap();
        }
    }

    #[test]
    fn a_port_with_a_listener_is_left_out() {
        let port = free_loopback_ports(1).unwrap()[0];
        assert!(reserve(port).unwrap().is_none(), "it is reserved");
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        assert!(reserve(listener.local_addr().unwrap().port()).unwrap().is_none(), "somebody listens");
    }
}
