//! A client that carries tokens: it works on whoever leads, reads on any replica's snapshots, and takes the token of all that it has seen
//! from the one to the other.
//!
//! It has two connections and is one process: whichever replica it reads from, it sees what it wrote and what it read before, and
//! everything that had ended before its last transaction began. The checker knows both: the first as the session guarantees
//! *read-your-writes* and *monotonic-reads*, the second as `since`. What it cannot get a token of, because the connection broke
//! or the outcome is unknown, no promise speaks of: it goes on as another process.

use std::io::{self, Write};

use highwater_checker::Status;

use super::fresh::Fresh;
use super::session::Session;
use super::work::{Lists, Task};

/// Such a client.
pub struct Carrier<W: Write> {
    /// Whoever leads.
    pub leading: Session<W>,
    /// Any replica's snapshots.
    pub following: Session<W>,
    /// How many clients there are: the process number's step.
    of: u64,
    seen: Fresh,
}

impl<W: Write> Carrier<W> {
    /// Of two sessions that begin as the same process.
    pub fn new(leading: Session<W>, following: Session<W>, of: u64) -> Carrier<W> {
        Carrier { leading, following, of, seen: Fresh::Any }
    }

    /// What its reads on snapshots ask for.
    pub fn asks(&self) -> Fresh {
        self.seen
    }

    /// Runs a transaction on the leader, to which it is connected, and takes its token.
    pub fn work(&mut self, task: &Task, lists: &Lists) -> io::Result<Status> {
        let (status, began) = self.leading.run_timed(task, lists)?;
        if status == Status::Ok {
            let token = self.leading.token();
            self.saw(token, Some(began));
        }
        self.following.go_on_as(self.leading.process());
        Ok(status)
    }

    /// Reads on the replica to which it is connected, with the token, and takes that of what it read. None if the connection broke before.
    pub fn read(&mut self, task: &Task, lists: &Lists) -> io::Result<Option<Status>> {
        if !self.following.ask_for(self.seen) {
            return Ok(None);
        }
        let status = self.following.run(task, lists)?;
        if status == Status::Ok {
            let token = self.following.token();
            self.saw(token, None);
        }
        self.leading.go_on_as(self.following.process());
        Ok(Some(status))
    }

    /// The larger of two tokens covers both. `began`: of a transaction on the leader. Without a token nobody is told what was seen.
    fn saw(&mut self, token: Option<i64>, began: Option<u64>) {
        let (known, before) = match self.seen {
            Fresh::Since { token, began } => (token, began),
            Fresh::Any | Fresh::Within(_) => (0, 0),
        };
        match token {
            Some(token) => {
                self.seen = Fresh::Since { token: known.max(token), began: before.max(began.unwrap_or(0)) };
            }
            None => {
                let another = self.leading.process().max(self.following.process()) + self.of;
                self.leading.go_on_as(another);
                self.following.go_on_as(another);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader};
    use std::net::{SocketAddr, TcpListener};
    use std::thread;
    use std::time::Duration;

    use super::*;
    use crate::torture::client::session::{Asks, Setup};
    use crate::torture::client::work::{List, Step};

    /// A door that answers commands one after the other, and tells what they were.
    fn door(replies: &'static [&'static str]) -> (SocketAddr, thread::JoinHandle<Vec<String>>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let heard = thread::spawn(move || {
            let (stream, _) = listener.accept().unwrap();
            let mut commands = BufReader::new(stream.try_clone().unwrap());
            let mut line = || {
                let mut line = String::new();
                commands.read_line(&mut line).unwrap();
                line.trim().to_string()
            };
            let mut heard = Vec::new();
            for reply in replies {
                let words: usize = line()[1..].parse().unwrap();
                let words: Vec<String> = (0..words).map(|_| [line(), line()][1].clone()).collect();
                heard.push(words.join(" "));
                (&stream).write_all(reply.as_bytes()).unwrap();
            }
            heard
        });
        (address, heard)
    }

    #[test]
    fn it_reads_with_the_token_of_what_it_wrote_and_stays_one_process() {
        let (leader, _) = door(&["+OK\r\n", "+QUEUED\r\n", "+QUEUED\r\n", "*2\r\n:2\r\n:4\r\n", ":70\r\n"]);
        let script =
            ["+OK\r\n", "+OK\r\n", "+OK\r\n", "+QUEUED\r\n", "+QUEUED\r\n", "*2\r\n$2\r\n7,\r\n$2\r\n8,\r\n"];
        let (follower, heard) = door(Vec::leak([script.as_slice(), &[":60\r\n"]].concat()));
        let session = |asks, door, lines| {
            let patience = Duration::from_secs(5);
            Session::new(Setup { asks, doors: vec![door], number: 3, of: 16, patience, seed: 1 }, lines)
        };
        let (mut written, mut read) = (Vec::new(), Vec::new());
        let mut carrier = Carrier::new(
            session(Asks::Leader, leader, &mut written),
            session(Asks::SnapshotsSince, follower, &mut read),
            16,
        );
        let steps = |appends: [Option<i64>; 2]| {
            let step = |slot: usize| Step { list: List { slot, generation: 0 }, append: appends[slot] };
            Task::Lists(vec![step(0), step(1)])
        };
        assert!(carrier.leading.connected() && carrier.following.connected());
        let lists = Lists::default();
        assert_eq!(carrier.work(&steps([Some(7), Some(8)]), &lists).unwrap(), Status::Ok);
        assert_eq!(carrier.read(&steps([None, None]), &lists).unwrap(), Some(Status::Ok));
        // The token of what it read is an older one.
        assert!(matches!(carrier.asks(), Fresh::Since { token: 70, .. }));
        // A door that says nothing gives no token: what was seen is nobody's any more.
        carrier.saw(None, None);
        assert_eq!((carrier.leading.process(), carrier.following.process()), (19, 19));
        carrier.leading.finish().unwrap();
        carrier.following.finish().unwrap();
        assert_eq!(heard.join().unwrap()[1], "HW.FRESHNESS SINCE 70");
        let [written, read] = [written, read].map(|lines| String::from_utf8(lines).unwrap());
        let began = written.split(r#""t0":"#).nth(1).and_then(|rest| rest.split(',').next()).unwrap();
        assert!(written.starts_with(r#"{"p":3,"#) && read.starts_with(r#"{"p":3,"#), "{written}{read}");
        assert!(read.contains(&format!(r#""since":{began}"#)), "{read}");
    }
}
