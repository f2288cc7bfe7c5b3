//! Clients that coordinate their transactions themselves, of one worker: their sockets, and what waits for them.
//!
//! They come through the peer port ([`incoming`](crate::transport::incoming)). What is under way with one is bounded: while more than a little waits to be
//! written it is not read from, and one that does not read what it is told is disconnected. One that says what no client says is, too.

use std::collections::BTreeMap;
use std::io::{self, Read, Write};

use bytes::Bytes;
use highwater_meerkat_wire::frames::{Decoder, prefix};
use highwater_seam::{ClientId, Nanos, Worker};

use super::clients::Rules;
use super::keys::KEY_COORDINATOR;
use crate::poll::{Event, Interest, Poller};
use crate::tls::Wire;

/// Who has so many bytes to read is not read from.
const ENOUGH_BYTES: usize = 1 << 20;
/// Messages of one client that are handed over in one turn: their answers count when they have left the engine.
const MOST_MESSAGES: usize = 16;
/// Bytes that keep a buffer from being given back.
const SMALL_BYTES: usize = 64 << 10;

struct Coordinator {
    stream: Wire,
    decoder: Decoder,
    /// What waits to be written, and how much of its beginning was.
    out: Vec<u8>,
    written: usize,
    interest: Interest,
    /// Since when it has taken nothing of what waits.
    stuck_since: Option<Nanos>,
    /// Something may be done without a word of the poller's.
    dirty: bool,
    /// More of what it said may be here.
    more: bool,
}

impl Coordinator {
    fn waiting(&self) -> usize {
        self.out.len() - self.written
    }

    fn is_full(&self) -> bool {
        self.waiting() >= ENOUGH_BYTES
    }

    /// Reads once from the socket, and all that is here without it.
    fn read(&mut self) -> Result<(), String> {
        self.read_once()?;
        while self.stream.has_unread() {
            self.read_once()?;
        }
        Ok(())
    }

    fn read_once(&mut self) -> Result<(), String> {
        let stream = &mut self.stream;
        match self.decoder.fill(|room| stream.read(room)) {
            Ok(0) => Err("it has hung up".into()),
            Ok(_) => Ok(()),
            Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => {
                Ok(())
            }
            Err(error) => Err(error.to_string()),
        }
    }

    /// Hands over what came, as long as there is room for answers.
    fn deliver(&mut self, now: Nanos, id: ClientId, engine: &mut dyn Worker) -> Result<(), String> {
        self.more = false;
        for _ in 0..MOST_MESSAGES {
            if self.is_full() {
                break;
            }
            let message = self.decoder.take_message().map_err(|damage| damage.to_string())?;
            let Some(message) = message else {
                self.decoder.rest();
                return Ok(());
            };
            engine.deliver_client(now, id, message)?;
        }
        self.more = true;
        Ok(())
    }

    /// Whether something waits for its socket.
    fn is_unsent(&self) -> bool {
        self.waiting() > 0 || self.stream.has_unsent()
    }

    fn write(&mut self, now: Nanos) -> Result<(), String> {
        if self.stream.send().map_err(|error| error.to_string())? {
            self.stuck_since = Some(now);
        }
        while self.waiting() > 0 {
            match self.stream.write(&self.out[self.written..]) {
                Ok(0) => return Err("it takes nothing any more".into()),
                Ok(n) => {
                    self.written += n;
                    self.stuck_since = Some(now);
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.stuck_since.get_or_insert(now);
                    return Ok(());
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error.to_string()),
            }
        }
        self.stuck_since = self.stuck_since.filter(|_| self.stream.has_unsent());
        self.out.clear();
        self.out.shrink_to(SMALL_BYTES);
        self.written = 0;
        Ok(())
    }
}

/// All of one worker's.
pub struct Coordinators {
    all: BTreeMap<ClientId, Coordinator>,
    /// Of the last one that came.
    last: u64,
    most: usize,
    most_bytes: usize,
    stuck_timeout: Nanos,
}

impl Coordinators {
    /// As many as the rules let in, for each of whom so many bytes may wait.
    pub fn new(rules: Rules, most_bytes: usize) -> Coordinators {
        let Rules { max: most, stuck_timeout, .. } = rules;
        Coordinators { all: BTreeMap::new(), last: 0, most, most_bytes, stuck_timeout }
    }

    /// When to give the next turn at the latest.
    pub fn deadline(&self) -> Option<Nanos> {
        let stuck = self.all.values().filter_map(|one| one.stuck_since).min()?;
        (self.stuck_timeout > 0).then_some(stuck + self.stuck_timeout)
    }

    /// Ends connections whose clients have read nothing for long.
    pub fn turn(&mut self, now: Nanos, engine: &mut dyn Worker) {
        if self.deadline().is_none_or(|at| at > now) {
            return;
        }
        let stuck = |one: &Coordinator| one.stuck_since.is_some_and(|at| at + self.stuck_timeout <= now);
        let stuck: Vec<ClientId> = self.all.iter().filter(|(_, one)| stuck(one)).map(|(id, _)| *id).collect();
        for id in stuck {
            self.close(now, id, "it took nothing of what it was told for limits.stuck_timeout_s", engine);
        }
    }

    /// How many are connected.
    pub fn count(&self) -> usize {
        self.all.len()
    }

    /// Bytes received and not handed over, and bytes that wait to be written.
    pub fn held_bytes(&self) -> (usize, usize) {
        let held = |one: &Coordinator| (one.decoder.held_bytes(), one.out.capacity());
        self.all.values().map(held).fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1))
    }

    /// Takes over a connection after its greeting. One too many is closed, and so is one that the engine refuses.
    pub fn adopt(&mut self, now: Nanos, stream: Wire, engine: &mut dyn Worker, poller: &Poller) {
        if self.all.len() >= self.most {
            return;
        }
        self.last += 1;
        let id = ClientId(self.last);
        // What TLS holds already no event tells of: being writable is one.
        let interest = Interest::of(true, stream.has_unread() || stream.has_unsent());
        let watched = poller.add(&stream, key(id), interest);
        if watched.is_err() || engine.client_up(now, id).is_err() {
            return;
        }
        let (decoder, out) = (Decoder::default(), Vec::new());
        self.all.insert(
            id,
            Coordinator {
                stream,
                decoder,
                out,
                written: 0,
                interest,
                stuck_since: None,
                dirty: false,
                more: false,
            },
        );
    }

    /// Something happened on a socket.
    pub fn event(&mut self, low: u32, event: Event, now: Nanos, engine: &mut dyn Worker) {
        let id = self.named(low);
        let Some(one) = self.all.get_mut(&id) else { return };
        one.dirty = true;
        // What is here already comes first.
        let read = if (event.readable || one.stream.has_unread()) && !one.is_full() && !one.more {
            one.read()
        } else {
            Ok(())
        };
        let heard = if one.more { Ok(()) } else { one.deliver(now, id, engine) };
        let broken = if event.broken { Err("its connection is broken".to_string()) } else { Ok(()) };
        if let Err(why) = heard.and(read).and(broken) {
            self.close(now, id, &why, engine);
        }
    }

    /// What a client is told waits for its socket.
    pub fn tell(&mut self, id: ClientId, message: &Bytes) {
        if let Some(one) = self.all.get_mut(&id) {
            one.out.extend_from_slice(&prefix(message));
            one.out.extend_from_slice(message);
            one.dirty = true;
        }
    }

    /// Writes what sockets take, goes on where there is room again, closes what is over. Whether the engine was told anything.
    pub fn flush(&mut self, now: Nanos, engine: &mut dyn Worker, poller: &Poller) -> bool {
        let mut told = false;
        let dirty: Vec<ClientId> = self
            .all
            .iter_mut()
            .filter_map(|(id, one)| std::mem::take(&mut one.dirty).then_some(*id))
            .collect();
        for id in dirty {
            let most = self.most_bytes;
            let Some(one) = self.all.get_mut(&id) else { continue };
            let mut done = one.write(now);
            if one.waiting() > most {
                done = Err(format!("it does not read: {} bytes wait", one.waiting()));
            }
            if done.is_ok() && one.more && !one.is_full() {
                // What it said before is here already.
                done = one.deliver(now, id, engine);
                one.dirty = true;
                told = true;
            }
            let interest = Interest::of(!one.is_full() && !one.more, one.is_unsent());
            if interest != one.interest {
                one.interest = interest;
                let watched = poller.modify(&one.stream, key(id), interest);
                done = done.and(watched.map_err(|error| error.to_string()));
            }
            if let Err(why) = done {
                self.close(now, id, &why, engine);
                told = true;
            }
        }
        told
    }

    fn close(&mut self, now: Nanos, id: ClientId, why: &str, engine: &mut dyn Worker) {
        if self.all.remove(&id).is_some() {
            tracing::debug!("a coordinating client's connection is over: {why}");
            engine.client_down(now, id);
        }
    }

    /// The latest one whose number ends so.
    fn named(&self, low: u32) -> ClientId {
        let high = self.last & !0xffff_ffff;
        ClientId(if high | u64::from(low) > self.last {
            (high | u64::from(low)) - (1 << 32)
        } else {
            high | u64::from(low)
        })
    }
}

fn key(id: ClientId) -> u64 {
    KEY_COORDINATOR | id.0 & 0xffff_ffff
}
