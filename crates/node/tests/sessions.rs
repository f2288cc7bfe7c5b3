//! A real node has sessions expire that nobody uses.

#![allow(clippy::unwrap_used, reason = "a test may panic")]
#![allow(dead_code, reason = "a part of the helpers is used")]

mod common;

use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use common::{config, resp_client, start_alone};

/// A command without spaces in its words; the first line of the reply.
fn ask(client: &mut BufReader<TcpStream>, command: &str) -> String {
    client.get_mut().write_all(format!("{command}\r\n").as_bytes()).unwrap();
    let mut line = String::new();
    client.read_line(&mut line).unwrap();
    line.trim_end().to_string()
}

#[test]
fn a_session_that_nobody_uses_expires() {
    let mut config = config(1, 2);
    config.limits.session_idle_s = 1;
    let node = start_alone(&config);
    let mut client = BufReader::new(resp_client(node.resp_address()));
    let mut open = || ask(&mut client, "HW.SESSION NEW").strip_prefix(':').unwrap().to_string();
    let [idle, busy] = [open(), open()];
    assert_eq!(ask(&mut client, &format!("HW.ONCE {idle} 1 INCR idle")), ":1");
    let (began, mut number) = (Instant::now(), 0);
    loop {
        number += 1;
        assert_eq!(ask(&mut client, &format!("HW.ONCE {busy} {number} INCR busy")), format!(":{number}"));
        // Who repeats a request does not use the session.
        let again = ask(&mut client, &format!("HW.ONCE {idle} 1 INCR idle"));
        if again.starts_with("-EXPIRED ") {
            break;
        }
        assert_eq!(again, ":1");
        assert!(began.elapsed() < Duration::from_secs(60), "it does not expire");
    }
    assert!(began.elapsed() >= Duration::from_millis(1000), "it expired after {:?}", began.elapsed());
    assert_eq!(ask(&mut client, "INCR idle"), ":2");
}
