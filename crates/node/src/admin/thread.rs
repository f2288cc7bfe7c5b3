//! The admin port's thread: lines to requests for the control thread, answers to lines.

use std::io;
use std::net::TcpListener;
use std::sync::Arc;

use highwater_engines::Nanos;

use super::server::Server;
use crate::clock::monotonic;
use crate::held::HeldBytes;
use crate::poll::{Interest, Poller};
use crate::shared::{ControlLetter, Shared};
use crate::tls::Keys;

/// Poller keys; the server's follow.
const KEY_WAKER: u64 = 0;
const KEY_SERVER: u64 = 1;

/// The thread.
pub struct AdminThread {
    shared: Arc<Shared>,
    poller: Poller,
    server: Server,
}

impl AdminThread {
    /// Ready to run.
    pub fn new(
        shared: Arc<Shared>,
        listener: TcpListener,
        keys: Option<Arc<Keys>>,
    ) -> io::Result<AdminThread> {
        let poller = Poller::new()?;
        poller.add(&shared.admin.waker, KEY_WAKER, Interest::EDGE)?;
        Ok(AdminThread { server: Server::new(listener, &poller, KEY_SERVER, keys)?, poller, shared })
    }

    /// Until the node stops.
    pub fn run(mut self) -> io::Result<()> {
        let shared = self.shared.clone();
        while !shared.stopping() {
            shared.admin.waker.take();
            self.turn(monotonic());
            self.wait()?;
        }
        // Whoever asked the node to end is told that it does.
        self.turn(monotonic());
        Ok(())
    }

    fn turn(&mut self, now: Nanos) {
        for letter in self.shared.admin.take() {
            self.server.respond(letter.connection, &letter.response);
        }
        self.server.turn(now, &self.poller);
        while let Some((connection, request)) = self.server.next_request() {
            self.shared.control.post(ControlLetter::Ask { connection, request });
        }
        let (requests, replies) = self.server.flush(&self.poller);
        self.shared.held_by_admin().set(HeldBytes {
            requests: requests as u64,
            replies: replies as u64,
            ..HeldBytes::default()
        });
    }

    fn wait(&mut self) -> io::Result<()> {
        let shared = self.shared.clone();
        let timeout = self.server.deadline().map(|at| at.saturating_sub(monotonic()));
        let asleep = shared.admin.waker.try_sleep();
        let count = self.poller.wait(if asleep { timeout } else { Some(0) });
        shared.admin.waker.awake();
        let now = monotonic();
        for at in 0..count? {
            let event = self.poller.event(at);
            if event.key >= KEY_SERVER {
                self.server.event(event, now, &self.poller);
            }
        }
        Ok(())
    }
}
