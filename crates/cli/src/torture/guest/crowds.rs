//! Clients that ask and do not read, idle, break off, or come by the hundred.

use std::io::{self, Write};
use std::net::TcpStream;
use std::thread;
use std::time::Duration;

use highwater_workloads::random::Rng;

use super::job::{Job, log_uniform};
use crate::wire::{Reply, Wire};

/// Length of the value that is asked for and not read.
const LONG: usize = 1 << 20;
/// How long a reply may take to begin after the client woke up.
const PATIENCE: Duration = Duration::from_secs(30);
/// How long connecting may take: longer than a replica that is busy with a storm needs.
const DIAL: Duration = Duration::from_millis(500);

/// Asks for megabytes on a few connections, reads nothing for a while, then everything.
pub fn stalled(job: &mut Job) {
    let mut caller = job.caller();
    let key = job.key("long");
    if caller.insist(&[b"SET", &key, &vec![b'y'; LONG]]).is_none() {
        return job.complain("nobody leads for a minute".into());
    }
    let mut asked = Vec::new();
    for _ in 0..job.rng.within(1, 4) {
        let Some(mut wire) = caller.leader() else {
            return job.complain("nobody leads for a minute".into());
        };
        let count = log_uniform(&mut job.rng, 5, 200);
        (0..count).for_each(|_| wire.words(&[b"GET", &key]));
        if wire.send().is_ok() && wire.be_patient(PATIENCE).is_ok() {
            job.count("readers that stopped", 1);
            job.count("replies of 1 MB left unread", count);
            asked.push((wire, count));
        }
    }
    thread::sleep(Duration::from_millis(job.args.lasts_ms));
    for (mut wire, count) in asked {
        for at in 0..count {
            match wire.reply() {
                Ok(Reply::Bulk(Some(bytes))) if bytes.len() == LONG => job.count("replies read late", 1),
                // The lead may have changed in between.
                Ok(Reply::Error(_)) => job.count("replies read late that refuse", 1),
                Ok(other) => {
                    job.complain(format!("GET of {LONG} bytes answered {:.60}", format!("{other:?}")));
                    break;
                }
                Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) => {
                    let seconds = PATIENCE.as_secs();
                    job.complain(format!(
                        "{at} of {count} replies to a reader that had stopped, then silence for {seconds} s"
                    ));
                    break;
                }
                Err(_) => {
                    job.count("readers that were cut off", 1);
                    break;
                }
            }
        }
    }
    let _ = caller.insist(&[b"DEL", &key]);
}

/// Connections that do nothing, that stop in the middle of a command, that break before they read.
pub fn vanish(job: &mut Job) {
    let (mut held, value) = (Vec::new(), vec![b'v'; 4096]);
    let key = job.key("vanished");
    let whole = Wire::encode(&[b"SET", &key, &value]);
    for at in 0..job.rng.within(20, 60) {
        let door = job.args.doors[at as usize % job.args.doors.len()];
        let Ok(mut stream) = TcpStream::connect_timeout(&door, DIAL) else {
            job.count("connections refused", 1);
            continue;
        };
        // Whoever is gone already is as gone as it can be.
        match at % 4 {
            0 => job.count("connections that idle", 1),
            1 => {
                let part = job.rng.within(1, whole.len() as u64 - 1) as usize;
                let _ = stream.write_all(&whole[..part]);
                job.count("connections that stop within a command", 1);
            }
            2 => {
                let _ = stream.write_all(&whole.repeat(50));
                let _ = socket2::SockRef::from(&stream).set_linger(Some(Duration::ZERO));
                job.count("connections that are reset with replies under way", 1);
                continue;
            }
            _ => {
                let _ = stream.write_all(&whole);
                job.count("connections closed without reading", 1);
                continue;
            }
        }
        held.push(stream);
    }
    thread::sleep(Duration::from_millis(job.args.lasts_ms));
    drop(held);
    let _ = job.caller().insist(&[b"DEL", &key]);
}

/// As many connections as one can get, a moment, and the same again.
pub fn storms(job: &mut Job) {
    raise_descriptor_limit();
    let mut seed = Rng::new(job.rng.u64());
    while !job.over() {
        // Often more than three replicas of 256 descriptors can take.
        let wanted = seed.within(100, 1200);
        let (mut held, mut refused, mut answered, mut silent) = (Vec::new(), 0, 0, 0);
        for at in 0..wanted {
            let door = job.args.doors[seed.below(job.args.doors.len() as u64) as usize];
            match Wire::connect(door, DIAL) {
                Ok(mut wire) => {
                    // Without descriptors nobody accepts: the kernel holds the connection, and no answer comes.
                    if at % 128 == 0 {
                        wire.words(&[b"PING"]);
                        match wire.send().and_then(|()| wire.reply()) {
                            Ok(_) => answered += 1,
                            Err(_) => silent += 1,
                        }
                    }
                    held.push(wire);
                }
                Err(_) => refused += 1,
            }
            if job.over() {
                break;
            }
        }
        job.count("connections in storms", held.len() as u64);
        job.count("connections refused", refused);
        job.count("pings answered in storms", answered);
        job.count("pings not answered in storms", silent);
        thread::sleep(Duration::from_millis(seed.within(10, 200)));
    }
}

/// Each connection is a descriptor here, too.
fn raise_descriptor_limit() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    // With fewer the storm is smaller.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum });
}
