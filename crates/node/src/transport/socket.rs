//! Sockets between replicas, and the listeners of a node.

use std::fs;
use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::Duration;

use socket2::{Domain, Protocol, SockRef, Socket, TcpKeepalive, Type};

/// Wanted room in the kernel for a connection between replicas.
const BUFFER_BYTES: usize = 4 << 20;
/// A peer that acknowledges nothing for as long is gone, whatever the network says.
const USER_TIMEOUT: Duration = Duration::from_secs(2);

/// Starts to connect. `Ok` means connected or in progress: the socket turns writable when it is decided.
pub fn connect(address: SocketAddr) -> io::Result<TcpStream> {
    let socket =
        Socket::new(Domain::for_address(address), Type::STREAM.nonblocking().cloexec(), Some(Protocol::TCP))?;
    match socket.connect(&address.into()) {
        Ok(()) => {}
        Err(error) if error.raw_os_error() == Some(rustix::io::Errno::INPROGRESS.raw_os_error()) => {}
        Err(error) => return Err(error),
    }
    Ok(socket.into())
}

/// Sets what all connections between replicas need.
pub fn tune_peer(stream: &TcpStream) -> io::Result<()> {
    stream.set_nonblocking(true)?;
    stream.set_nodelay(true)?;
    let socket = SockRef::from(stream);
    socket.set_tcp_user_timeout(Some(USER_TIMEOUT))?;
    let keepalive = TcpKeepalive::new()
        .with_time(Duration::from_secs(2))
        .with_interval(Duration::from_secs(1))
        .with_retries(3);
    socket.set_tcp_keepalive(&keepalive)?;
    // A fixed size ends the kernel's own tuning, which goes to several MiB: only if the kernel grants it in full.
    if granted("/proc/sys/net/core/wmem_max") >= BUFFER_BYTES {
        socket.set_send_buffer_size(BUFFER_BYTES)?;
    }
    if granted("/proc/sys/net/core/rmem_max") >= BUFFER_BYTES {
        socket.set_recv_buffer_size(BUFFER_BYTES)?;
    }
    Ok(())
}

/// Sets what connections of clients need. `stuck_timeout` in nanoseconds, 0: none.
pub fn tune_client(stream: &TcpStream, stuck_timeout: u64) -> io::Result<()> {
    stream.set_nonblocking(true)?;
    stream.set_nodelay(true)?;
    let socket = SockRef::from(stream);
    // A machine that vanished is noticed within a minute, whether it owes an answer or not.
    let keepalive = TcpKeepalive::new()
        .with_time(Duration::from_secs(30))
        .with_interval(Duration::from_secs(5))
        .with_retries(3);
    socket.set_tcp_keepalive(&keepalive)?;
    if stuck_timeout > 0 {
        socket.set_tcp_user_timeout(Some(Duration::from_nanos(stuck_timeout)))?;
    }
    Ok(())
}

fn granted(limit: &str) -> usize {
    fs::read_to_string(limit).ok().and_then(|text| text.trim().parse().ok()).unwrap_or(0)
}

/// A listener that no other process can share.
pub fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    listen_with(address, false)
}

/// One listener per worker on the same port: the kernel deals the clients out.
///
/// Port 0 is the same free port for all. Another process of the same user could share the port too, so it is first
/// taken alone, for a moment.
pub fn listen_shared(address: SocketAddr, count: usize) -> io::Result<Vec<TcpListener>> {
    drop(listen(address)?);
    let mut listeners = vec![listen_with(address, true)?];
    let address = listeners[0].local_addr()?;
    for _ in 1..count {
        listeners.push(listen_with(address, true)?);
    }
    Ok(listeners)
}

fn listen_with(address: SocketAddr, shared: bool) -> io::Result<TcpListener> {
    let socket =
        Socket::new(Domain::for_address(address), Type::STREAM.nonblocking().cloexec(), Some(Protocol::TCP))?;
    // A restarted node takes its port back while old connections still linger.
    socket.set_reuse_address(true)?;
    socket.set_reuse_port(shared)?;
    socket.bind(&address.into())?;
    socket.listen(1024)?;
    Ok(socket.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn loopback() -> SocketAddr {
        ([127, 0, 0, 1], 0).into()
    }

    #[test]
    fn workers_share_a_port_and_strangers_do_not() {
        let listeners = listen_shared(loopback(), 3).unwrap();
        let address = listeners[0].local_addr().unwrap();
        assert!(listeners.iter().all(|listener| listener.local_addr().unwrap() == address));
        let error = listen_shared(address, 2).expect_err("taken");
        assert_eq!(error.kind(), io::ErrorKind::AddrInUse);
    }

    #[test]
    fn a_port_without_listener_refuses_at_once() {
        let address = listen(loopback()).unwrap().local_addr().unwrap();
        if let Ok(stream) = connect(address) {
            let mut poller = crate::poll::Poller::new().unwrap();
            poller.add(&stream, 0, crate::poll::Interest::WRITE).unwrap();
            poller.wait(Some(1_000_000_000)).unwrap();
            let error = stream.take_error().unwrap().expect("refused");
            assert_eq!(error.kind(), io::ErrorKind::ConnectionRefused);
        }
    }
}
