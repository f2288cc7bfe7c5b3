//! The admin port's thread: questions to requests for the control thread, its answers to those who asked.

use std::collections::BTreeMap;
use std::io;
use std::net::TcpListener;
use std::sync::Arc;

use highwater_seam::Nanos;

use super::http::answers;
use super::http::guard::Guard;
use super::http::page::Page;
use super::http::response::Answer;
use super::protocol::{AdminRequest, AdminResponse};
use super::pulses::Pulses;
use super::server::Server;
use super::talk::Question;
use crate::clock::monotonic;
use crate::held::HeldBytes;
use crate::poll::{Interest, Poller};
use crate::shared::{AdminLetter, ControlLetter, Shared};
use crate::tls::Keys;

/// Poller keys; the server's follow.
const KEY_WAKER: u64 = 0;
const KEY_SERVER: u64 = 1;

/// A control thread that answers a page for as long with nothing does not turn.
const LONGEST_SILENCE: Nanos = 1_000_000_000;
/// The same where it has to ask another node: as long as a read with a bound may wait, with an election timeout of two seconds.
const LONGEST_INQUIRY: Nanos = 4_000_000_000;

pub struct AdminThread {
    shared: Arc<Shared>,
    guard: Arc<Guard>,
    poller: Poller,
    server: Server,
    /// What those are shown who asked by HTTP and wait for the control thread; `None`: whatever it says.
    errands: BTreeMap<u64, Option<Page>>,
    pulses: Pulses,
}

impl AdminThread {
    /// Ready to run, with `most` connections at a time.
    pub fn new(
        shared: Arc<Shared>,
        listener: TcpListener,
        guard: Arc<Guard>,
        keys: Option<Arc<Keys>>,
        most: usize,
    ) -> io::Result<AdminThread> {
        let poller = Poller::new()?;
        poller.add(&shared.admin.waker, KEY_WAKER, Interest::EDGE)?;
        Ok(AdminThread {
            server: Server::new(listener, (guard.clone(), keys), most, &poller, KEY_SERVER)?,
            pulses: Pulses::new(shared.workers.len()),
            errands: BTreeMap::new(),
            guard,
            poller,
            shared,
        })
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
            self.hear(now, letter);
        }
        self.server.turn(now, &self.poller);
        self.give_up(now);
        while let Some((connection, question)) = self.server.next_question(now) {
            match question {
                Question::Line(request) => match answers::known(&request, &self.shared) {
                    Some(response) => self.server.respond(connection, &response),
                    None => self.ask(connection, request),
                },
                Question::Post(request) => match answers::known(&request, &self.shared) {
                    Some(response) => self.server.answer(connection, &answers::of_request(&response), false),
                    None => {
                        self.errands.insert(connection, None);
                        self.ask(connection, request);
                    }
                },
                Question::Page(page) => self.show(now, connection, page),
            }
        }
        let (requests, replies) = self.server.flush(now, &self.poller);
        self.shared.held_by_admin().set(HeldBytes {
            requests: requests as u64,
            replies: replies as u64,
            ..HeldBytes::default()
        });
    }

    fn ask(&self, connection: u64, request: AdminRequest) {
        self.shared.control.post(ControlLetter::Ask { connection, request });
    }

    /// Shows a page, or asks the control thread what is on it.
    fn show(&mut self, now: Nanos, connection: u64, page: Page) {
        if page == Page::Health {
            self.pulses.ask(now, &self.shared);
        }
        match answers::request(page, &self.shared) {
            Some(request) => {
                self.errands.insert(connection, Some(page));
                self.ask(connection, request);
            }
            None => {
                let answer = answers::at_once(page, &self.shared, &self.guard);
                self.server.answer(connection, &answer, false);
            }
        }
    }

    /// The control thread has said something.
    fn hear(&mut self, now: Nanos, AdminLetter { connection, response }: AdminLetter) {
        let Some(page) = self.errands.get(&connection).copied() else {
            return self.server.respond(connection, &response);
        };
        if matches!(response, AdminResponse::Progress { .. }) {
            return;
        }
        self.errands.remove(&connection);
        let answer = match page {
            None => answers::of_request(&response),
            Some(Page::Health) => answers::health(self.pulses.stuck(now, &self.shared)),
            Some(page) => answers::of_page(page, &response, &self.shared),
        };
        self.server.answer(connection, &answer, false);
    }

    /// Tells those who have waited too long for the control thread, and forgets those who have gone.
    fn give_up(&mut self, now: Nanos) {
        let server = &mut self.server;
        self.errands.retain(|connection, page| {
            let Some(waits) = server.waits(*connection, now) else { return false };
            let patience = match page {
                Some(Page::Ready { .. }) => LONGEST_INQUIRY,
                Some(_) => LONGEST_SILENCE,
                None => return true,
            };
            let over = waits >= patience;
            if over {
                // The last one: an answer that comes late must not be taken for another question's.
                server.answer(*connection, &silent(), true);
            }
            !over
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

fn silent() -> Answer {
    answers::unavailable(
        "the control thread does not answer: this node cannot lead, follow or be asked anything",
    )
}
