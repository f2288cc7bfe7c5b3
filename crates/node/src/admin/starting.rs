//! The admin port of a node that is starting: whoever asks anything is told how far that is.

use std::io;
use std::net::TcpListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use super::http::answers;
use super::http::guard::Guard;
use super::protocol::AdminResponse;
use super::server::Server;
use super::talk::Question;
use crate::clock::monotonic;
use crate::poll::{Interest, Poller};
use crate::storage::StartProgress;
use crate::tls::Keys;
use crate::waker::Waker;

const KEY_WAKER: u64 = 0;
const KEY_SERVER: u64 = 1;

/// A thread that answers, until it is ended or dropped.
pub struct Starting {
    listener: TcpListener,
    end: Arc<End>,
    thread: Option<JoinHandle<()>>,
}

struct End {
    ended: AtomicBool,
    waker: Waker,
}

impl Starting {
    /// Answers whoever connects, `most` at a time.
    ///
    /// # Errors
    /// The system's.
    pub fn answer(
        listener: TcpListener,
        (guard, keys): (Arc<Guard>, Option<Arc<Keys>>),
        progress: Arc<StartProgress>,
        most: usize,
    ) -> io::Result<Starting> {
        let end = Arc::new(End { ended: AtomicBool::new(false), waker: Waker::new()? });
        let poller = Poller::new()?;
        poller.add(&end.waker, KEY_WAKER, Interest::EDGE)?;
        let server = Server::new(listener.try_clone()?, (guard, keys), most, &poller, KEY_SERVER)?;
        let ends = end.clone();
        let thread = std::thread::Builder::new()
            .name("starting".into())
            // Without it the node starts all the same.
            .spawn(move || drop(run(poller, server, &ends, &progress)))
            .map_err(|error| io::Error::new(error.kind(), format!("cannot start a thread: {error}")))?;
        Ok(Starting { listener, end, thread: Some(thread) })
    }

    /// The listener, for the admin port's own thread. Who is connected has to connect again.
    ///
    /// # Errors
    /// The system's.
    pub fn end(self) -> io::Result<TcpListener> {
        self.listener.try_clone()
    }
}

impl Drop for Starting {
    fn drop(&mut self) {
        self.end.ended.store(true, Ordering::Release);
        self.end.waker.wake();
        if let Some(thread) = self.thread.take() {
            // It answers questions, and panics at none.
            let _ = thread.join();
        }
    }
}

fn run(mut poller: Poller, mut server: Server, end: &End, progress: &StartProgress) -> io::Result<()> {
    while !end.ended.load(Ordering::Acquire) {
        end.waker.take();
        let now = monotonic();
        server.turn(now, &poller);
        while let Some((connection, question)) = server.next_question(now) {
            let doing = progress.words();
            match question {
                Question::Line(_) => server.respond(connection, &AdminResponse::Starting { doing }),
                Question::Page(page) => {
                    server.answer(connection, &answers::while_starting(page, &doing), false)
                }
                Question::Post(_) => server.answer(connection, &answers::starting(&doing), false),
            }
        }
        server.flush(now, &poller);
        let timeout = server.deadline().map(|at| at.saturating_sub(monotonic()));
        let asleep = !end.ended.load(Ordering::Acquire) && end.waker.try_sleep();
        let count = poller.wait(if asleep { timeout } else { Some(0) });
        end.waker.awake();
        for at in 0..count? {
            let event = poller.event(at);
            if event.key >= KEY_SERVER {
                server.event(event, monotonic(), &poller);
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader, Read, Write};
    use std::net::TcpStream;

    use super::*;
    use crate::storage::progress::Step;

    #[test]
    fn whoever_asks_is_told_how_far_the_start_is_until_it_is_over() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        let address = listener.local_addr().unwrap();
        let progress = Arc::new(StartProgress::default());
        let starting =
            Starting::answer(listener, (Arc::new(Guard::open()), None), progress.clone(), 9).unwrap();
        let mut client = BufReader::new(TcpStream::connect(address).unwrap());
        let mut ask = || {
            client.get_mut().write_all(b"{\"do\":\"status\"}\n").unwrap();
            let mut line = String::new();
            client.read_line(&mut line).unwrap();
            serde_json::from_str::<AdminResponse>(&line).unwrap()
        };
        let told = |doing: &str| AdminResponse::Starting { doing: doing.into() };
        assert_eq!(ask(), told("opening its files"));
        progress.begin(Step::Loads { number: 3, bytes: 9 << 20 });
        progress.add(5 << 20);
        assert_eq!(ask(), told("loading checkpoint 3: 5 of 9 MiB"));
        let listener = starting.end().unwrap();
        let mut rest = Vec::new();
        assert_eq!(client.read_to_end(&mut rest).unwrap(), 0, "its connections are over");
        TcpStream::connect(address).unwrap();
        listener.set_nonblocking(false).unwrap();
        listener.accept().unwrap();
    }
}
