//! A listening socket that bears having no descriptors left.
//!
//! `accept` fails then, and the socket stays readable: who asks again at once burns a core. So callers wait in the
//! kernel for a moment, and this listener is watched for nothing meanwhile.

use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};

use highwater_seam::Nanos;

use crate::poll::{Interest, Poller};

/// How long to accept nobody when descriptors ran out.
const PAUSE: Nanos = 100_000_000;
/// How often to say so.
const COMPLAIN_EVERY: Nanos = 60_000_000_000;

/// A listener, watched by its owner's poller.
pub struct Acceptor {
    listener: TcpListener,
    key: u64,
    /// Whom it lets in, for the log.
    whom: &'static str,
    /// Descriptors ran out: nobody is let in until then.
    again: Option<Nanos>,
    complained: Option<Nanos>,
}

impl Acceptor {
    /// Watches `listener` under `key`.
    pub fn new(listener: TcpListener, key: u64, whom: &'static str, poller: &Poller) -> io::Result<Acceptor> {
        poller.add(&listener, key, Interest::READ)?;
        Ok(Acceptor { listener, key, whom, again: None, complained: None })
    }

    /// The next caller, if there is one that can be let in.
    pub fn next(&mut self, now: Nanos, poller: &Poller) -> Option<(TcpStream, SocketAddr)> {
        if self.again.is_some() {
            return None;
        }
        loop {
            match self.listener.accept() {
                Ok(caller) => return Some(caller),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return None,
                Err(error)
                    if matches!(
                        error.kind(),
                        io::ErrorKind::ConnectionAborted | io::ErrorKind::Interrupted
                    ) => {}
                Err(error) => {
                    self.pause(now, poller, &error);
                    return None;
                }
            }
        }
    }

    fn pause(&mut self, now: Nanos, poller: &Poller, error: &io::Error) {
        if self.complained.is_none_or(|at| now - at >= COMPLAIN_EVERY) {
            self.complained = Some(now);
            tracing::warn!("cannot accept {} for a moment, again and again: {error}", self.whom);
        }
        // If not even that can be changed, the next attempt comes at once: unpleasant, not wrong.
        if poller.modify(&self.listener, self.key, Interest::NONE).is_ok() {
            self.again = Some(now + PAUSE);
        }
    }

    /// When to give the next turn at the latest.
    pub fn deadline(&self) -> Option<Nanos> {
        self.again
    }

    /// Watches the listener again, if it is time.
    pub fn turn(&mut self, now: Nanos, poller: &Poller) {
        if self.again.is_some_and(|at| at <= now) {
            let watched = poller.modify(&self.listener, self.key, Interest::READ);
            self.again = if watched.is_ok() { None } else { Some(now + PAUSE) };
        }
    }
}
