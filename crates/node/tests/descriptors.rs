//! Out of file descriptors: callers wait, no core burns, and everything goes on when there are some again. Alone in its
//! process, whose limit it lowers.

mod common;

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use common::{config, resp_client, start};
use highwater_node::admin::protocol::{AdminRequest, AdminResponse};
use highwater_node::clock::process_cpu;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Once: out of descriptors, the peer and the admin listener burned a core; clients could take the descriptors that peers
/// need to reconnect.
#[test]
fn a_node_without_descriptors_waits_for_some() {
    let config = config(1, 2);
    let node = start(&config, 0, 100);
    let addresses = [
        node.node.resp_address(),
        node.node.admin_address(),
        config.cluster.nodes[0].peer.parse().expect("an address"),
    ];
    // Callers have their sockets; then the limit falls, so that none can be accepted.
    let mut callers: Vec<TcpStream> = Vec::new();
    let open = std::fs::read_dir("/proc/self/fd").expect("this is Linux").count() as u64;
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    // The callers' own sockets are made first, unconnected.
    let sockets: Vec<_> = (0..9)
        .map(|_| {
            socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None)
                .expect("a descriptor is left")
        })
        .collect();
    setrlimit(Resource::Nofile, Rlimit { current: Some(open + 8), maximum }).expect("lower is allowed");
    for (at, socket) in sockets.into_iter().enumerate() {
        socket.connect(&addresses[at % 3].into()).expect("the kernel takes callers");
        callers.push(socket.into());
    }
    // The best of a few: on a busy machine the same wake-ups cost several times as much.
    let mut least_ms = f64::MAX;
    for _ in 0..5 {
        let (cpu, begin) = (process_cpu(), std::time::Instant::now());
        // Nobody is let in: a caller's read ends with its time.
        callers[0].set_read_timeout(Some(Duration::from_millis(500))).expect("it is a socket");
        assert!(callers[0].read(&mut [0; 1]).is_err());
        assert!(begin.elapsed() >= Duration::from_millis(400));
        least_ms = least_ms.min((process_cpu() - cpu) as f64 / 1e6);
    }
    assert!(least_ms < 100.0, "{least_ms} ms of CPU in half a second of waiting for descriptors");
    setrlimit(Resource::Nofile, Rlimit { current, maximum }).expect("back to where it was");
    callers[0].set_read_timeout(Some(Duration::from_secs(30))).expect("it is a socket");
    callers[0].write_all(b"PING\r\n").expect("it is connected");
    let mut reply = [0; 7];
    callers[0].read_exact(&mut reply).expect("it is let in now");
    assert_eq!(&reply, b"+PONG\r\n");
    drop(callers);
    let mut late = resp_client(addresses[0]);
    late.write_all(b"PING\r\n").expect("it is connected");
    late.read_exact(&mut reply).expect("it is served");
    assert!(matches!(node.admin().ask(&AdminRequest::Status), AdminResponse::Status(_)));
}
