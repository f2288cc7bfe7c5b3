//! One worker's ring: its lines, its arena, its one call.

use std::collections::VecDeque;
use std::io;
use std::net::TcpStream;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

use highwater_seam::Nanos;
use io_uring::types::{CancelBuilder, Fd, SubmitArgs, Timespec};
use io_uring::{EnterFlags, IoUring, cqueue, opcode, squeue};

use super::buffers::{Buffers, GROUP};

/// Entries that can be queued for one call; all but these few are for clients.
const QUEUE: u32 = 1024;
/// Completions that the kernel has room for; more wait with it.
const COMPLETIONS: u32 = 2048;
/// Output of one client that is sent by the ring; what is longer is worth a call of its own.
pub const MOST_SENT: usize = 16 << 10;
/// Output that is queued for one call.
const ARENA: usize = 256 << 10;

/// What a completion is of, in the first byte of its `user_data`; then a generation, then a slot.
const RECEIVE: u64 = 1 << 56;
const CANCEL: u64 = 2 << 56;
const SEND: u64 = 3 << 56;
const EPOLL: u64 = 4 << 56;
const KIND: u64 = 0xff << 56;
const GENERATION: u32 = 0xff_ffff;

/// What became of a slot's socket.
#[derive(Debug)]
pub enum News {
    /// Bytes: they are in a buffer ([`Ring::received`]), which has to be given back.
    Received(u16, usize),
    /// It will send nothing more.
    Ended,
    Broken,
    /// The receive is over, for one reason or other, and can be asked for again.
    Stopped,
    /// The socket did not take these bytes, of what was queued for the client with this id; whether it is broken.
    NotSent(u64, Vec<u8>, bool),
}

/// Whether something is received in a slot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Receiving {
    /// Nothing is under way.
    #[default]
    Off,
    /// What comes is told.
    On,
    /// It was cancelled, and may bring something yet.
    Stopping,
}

/// A slot's receive. The generation goes up with each one that is asked for, so that no completion is taken for another's.
#[derive(Clone, Copy, Debug, Default)]
struct Line {
    receiving: Receiving,
    generation: u32,
}

/// Output that is queued: of the client in this slot and with this id, so many bytes from there on in the arena.
struct Sent {
    at: usize,
    id: u64,
    from: usize,
    len: usize,
}

/// A completion, taken out of the kernel's queue.
struct Done {
    data: u64,
    result: i32,
    flags: u32,
}

/// See the [module](super).
pub struct Ring {
    // First, so that it ends before the memory that the kernel writes to.
    ring: IoUring,
    buffers: Buffers,
    lines: Vec<Line>,
    /// Bytes of sends that were not handed over. Never grows: the kernel has pointers into it.
    arena: Vec<u8>,
    sends: Vec<Sent>,
    /// Sockets that are closed when what is queued was handed over.
    graves: Vec<TcpStream>,
    done: VecDeque<Done>,
    not_sent: Vec<(usize, News)>,
    /// Receives that were not found when they were to be cancelled, and may go on.
    missed: Vec<(usize, u32)>,
    /// It belongs to the thread that makes the first call.
    enabled: bool,
    /// The ring tells when epoll has something.
    watches_epoll: bool,
    epoll_told: bool,
    /// Receives that ended because no buffer was left.
    #[cfg(test)]
    pub exhausted: usize,
}

impl Ring {
    /// A ring that no thread owns yet.
    ///
    /// # Errors
    /// The kernel has none, or not of this kind, or does not let this process have one.
    pub fn new() -> io::Result<Ring> {
        let ring = IoUring::builder()
            .setup_single_issuer()
            .setup_defer_taskrun()
            .setup_taskrun_flag()
            .setup_submit_all()
            .setup_r_disabled()
            .setup_cqsize(COMPLETIONS)
            .build(QUEUE)?;
        let params = ring.params();
        if !params.is_feature_ext_arg()
            || !params.is_feature_nodrop()
            || !params.is_feature_skip_cqe_on_success()
        {
            return Err(io::Error::from(io::ErrorKind::Unsupported));
        }
        let buffers = Buffers::new();
        buffers.register(&ring.submitter())?;
        Ok(Ring {
            ring,
            buffers,
            lines: Vec::new(),
            arena: Vec::with_capacity(ARENA),
            sends: Vec::new(),
            graves: Vec::new(),
            done: VecDeque::new(),
            not_sent: Vec::new(),
            missed: Vec::new(),
            enabled: false,
            watches_epoll: false,
            epoll_told: false,
            #[cfg(test)]
            exhausted: 0,
        })
    }

    /// Receives from this socket, in a slot where nothing is received.
    ///
    /// # Panics
    /// If something is.
    pub fn receive(&mut self, at: usize, socket: impl AsFd) {
        if self.lines.len() <= at {
            self.lines.resize(at + 1, Line::default());
        }
        let line = &mut self.lines[at];
        assert_eq!(line.receiving, Receiving::Off, "a slot has one receive");
        line.receiving = Receiving::On;
        line.generation = line.generation.wrapping_add(1) & GENERATION;
        let data = data_of(RECEIVE, at, line.generation);
        self.push(opcode::RecvMulti::new(fd_of(&socket), GROUP).build().user_data(data));
    }

    /// Ends a slot's receive, if one is under way and not ending yet. What it brings meanwhile is told.
    pub fn stop(&mut self, at: usize) {
        let Some(line) = self.lines.get_mut(at) else { return };
        if line.receiving == Receiving::On {
            line.receiving = Receiving::Stopping;
            let generation = line.generation;
            self.cancel(at, generation);
        }
    }

    /// Cancels once more what went on.
    fn stop_missed(&mut self) {
        for (at, generation) in std::mem::take(&mut self.missed) {
            let line = self.lines[at];
            match (line.receiving, line.generation == generation) {
                (Receiving::Stopping, true) if self.has_room() => self.cancel(at, generation),
                (Receiving::Stopping, true) => self.missed.push((at, generation)),
                _ => {}
            }
        }
    }

    fn cancel(&mut self, at: usize, generation: u32) {
        let cancel = opcode::AsyncCancel::new(data_of(RECEIVE, at, generation)).build();
        self.push(cancel.user_data(data_of(CANCEL, at, generation)).flags(squeue::Flags::SKIP_SUCCESS));
    }

    /// Whether a slot's socket is received from, and not about to end.
    pub fn receives(&self, at: usize) -> bool {
        self.lines.get(at).is_some_and(|line| line.receiving == Receiving::On)
    }

    /// Whether nothing is under way in a slot: it may be another client's.
    pub fn is_off(&self, at: usize) -> bool {
        self.lines.get(at).is_none_or(|line| line.receiving == Receiving::Off)
    }

    /// Whether there is room for whatever one client may need.
    pub fn has_room(&mut self) -> bool {
        ARENA - self.arena.len() >= MOST_SENT && QUEUE as usize - self.ring.submission().len() >= 8
    }

    /// Queues output of the client in this slot, with this id.
    ///
    /// # Panics
    /// If there is no [room](Self::has_room) for it.
    pub fn send(&mut self, (at, id): (usize, u64), socket: impl AsFd, bytes: &[u8]) {
        let from = self.arena.len();
        assert!(bytes.len() <= self.arena.capacity() - from, "the arena has room for who looked before");
        self.arena.extend_from_slice(bytes);
        let start = self.arena[from..].as_ptr();
        let send = opcode::Send::new(fd_of(&socket), start, bytes.len() as u32)
            .flags(libc::MSG_DONTWAIT | libc::MSG_WAITALL | libc::MSG_NOSIGNAL)
            .build();
        let data = SEND | self.sends.len() as u64;
        self.sends.push(Sent { at, id, from, len: bytes.len() });
        self.push(send.user_data(data).flags(squeue::Flags::SKIP_SUCCESS));
    }

    /// Whether output is queued.
    pub fn has_sends(&self) -> bool {
        !self.sends.is_empty()
    }

    /// Closes a socket when what is queued was handed over.
    pub fn bury(&mut self, socket: TcpStream) {
        self.graves.push(socket);
    }

    /// Whether something waits for the next call.
    pub fn has_queued(&mut self) -> bool {
        !self.graves.is_empty() || !self.missed.is_empty() || !self.ring.submission().is_empty()
    }

    /// Waits for news, or for epoll to have something, at most `timeout` nanoseconds (for ever if `None`). Whether epoll has something.
    ///
    /// # Errors
    /// The kernel's, that the worker cannot go on with.
    pub fn wait(&mut self, epoll: impl AsFd, timeout: Option<Nanos>) -> io::Result<bool> {
        let mut timeout = if self.epoll_told { Some(0) } else { timeout };
        if timeout != Some(0) && !self.graves.is_empty() {
            // Who waits for the end of a connection is told before this sleeps, not behind it.
            self.call(Some(0))?;
            if !self.done.is_empty() || !self.not_sent.is_empty() || self.epoll_told {
                timeout = Some(0);
            }
        }
        if !self.watches_epoll && !self.epoll_told {
            self.watches_epoll = true;
            let events = libc::POLLIN as u32;
            self.push(opcode::PollAdd::new(fd_of(&epoll), events).build().user_data(EPOLL));
        }
        let idle = timeout == Some(0) && !self.has_queued() && {
            let ring = &mut self.ring;
            ring.completion().is_empty() && !ring.submission().taskrun() && !ring.submission().cq_overflow()
        };
        if !idle {
            self.call(timeout)?;
        }
        Ok(std::mem::take(&mut self.epoll_told))
    }

    /// Hands over what is queued, and takes what came; waits for nothing.
    ///
    /// # Errors
    /// As [`wait`](Self::wait).
    pub fn enter(&mut self) -> io::Result<()> {
        self.call(Some(0))
    }

    fn call(&mut self, timeout: Option<Nanos>) -> io::Result<()> {
        if !self.enabled {
            self.ring.submitter().register_enable_rings()?;
            self.enabled = true;
        }
        self.stop_missed();
        let mut timeout = timeout;
        loop {
            let waits = timeout != Some(0) && self.done.is_empty();
            let taken = self.call_once(waits, timeout.unwrap_or(0));
            self.take_done();
            match taken.map_err(|error| (error.raw_os_error(), error)) {
                Ok(_) => {}
                // The time is over; a stopped and continued process; the queue of completions was full, and is not any more; no memory for
                // a moment.
                Err((Some(libc::ETIME | libc::EINTR | libc::EBUSY | libc::EAGAIN), _)) => {}
                Err((_, error)) => return Err(error),
            }
            // A second round is rare: then there is something to do.
            timeout = Some(0);
            if self.ring.submission().is_empty() && !self.ring.submission().cq_overflow() {
                break;
            }
        }
        // Every send was handed over, and so is over: those that failed have been taken, by `take_done`.
        self.sends.clear();
        self.arena.clear();
        self.graves.clear();
        Ok(())
    }

    fn call_once(&mut self, waits: bool, timeout: Nanos) -> io::Result<usize> {
        let time = Timespec::new().sec(timeout / 1_000_000_000).nsec((timeout % 1_000_000_000) as u32);
        let args = match waits && timeout > 0 {
            true => SubmitArgs::new().timespec(&time),
            false => SubmitArgs::new(),
        };
        let queued = self.ring.submission().len() as u32;
        let flags = EnterFlags::GETEVENTS | EnterFlags::EXT_ARG;
        // SAFETY: the arguments outlive the call. What is queued points into the arena, which is neither moved nor written to before the
        // sends are over, and names sockets that are open: those of clients, and graves.
        unsafe { self.ring.submitter().enter(queued, waits.into(), flags.bits(), Some(&args)) }
    }

    /// Empties the kernel's queue.
    fn take_done(&mut self) {
        for entry in self.ring.completion() {
            let done = Done { data: entry.user_data(), result: entry.result(), flags: entry.flags() };
            match done.data & KIND {
                SEND => {
                    let sent = &self.sends[(done.data & !KIND) as usize];
                    let taken = usize::try_from(done.result).unwrap_or(0);
                    let broken =
                        done.result < 0 && done.result != -libc::EAGAIN && done.result != -libc::EINTR;
                    let rest = self.arena[sent.from + taken..sent.from + sent.len].to_vec();
                    self.not_sent.push((sent.at, News::NotSent(sent.id, rest, broken)));
                }
                EPOLL => (self.watches_epoll, self.epoll_told) = (false, true),
                _ => self.done.push_back(done),
            }
        }
    }

    /// What came, oldest first; what was not sent before all else.
    pub fn next_news(&mut self) -> Option<(usize, News)> {
        if let Some(news) = self.not_sent.pop() {
            return Some(news);
        }
        loop {
            let Done { data, result, flags } = self.done.pop_front()?;
            let (at, generation) = (data as u32 as usize, (data >> 32) as u32 & GENERATION);
            let line = self.lines[at];
            if data & KIND == CANCEL {
                // It was not found: it ended by itself, which is told before or behind this, or stood between two arrivals.
                self.missed.push((at, generation));
                continue;
            }
            assert_eq!(data & KIND, RECEIVE, "nothing else completes");
            assert_eq!(line.generation, generation, "a late completion has met another client, in slot {at}");
            assert_ne!(line.receiving, Receiving::Off, "slot {at} receives nothing");
            if !cqueue::more(flags) {
                self.lines[at].receiving = Receiving::Off;
            }
            #[cfg(test)]
            {
                self.exhausted += usize::from(result == -libc::ENOBUFS);
            }
            let buffer = cqueue::buffer_select(flags);
            buffer.into_iter().for_each(|id| self.buffers.took(id));
            let news = match (result, buffer) {
                (1.., Some(id)) => News::Received(id, result as usize),
                (_, Some(id)) => {
                    self.buffers.give_back(id);
                    News::Stopped
                }
                (0, None) => News::Ended,
                (_, None) => match -result {
                    libc::ECANCELED | libc::ENOBUFS | libc::EAGAIN | libc::EINTR => News::Stopped,
                    _ => News::Broken,
                },
            };
            return Some((at, news));
        }
    }

    /// As if the slot had been given to another client too early.
    #[cfg(test)]
    pub fn forge_generation(&mut self, at: usize) {
        self.lines[at].generation += 1;
    }

    /// What is in a buffer.
    pub fn received(&self, id: u16, len: usize) -> &[u8] {
        self.buffers.received(id, len)
    }

    /// It was read.
    pub fn give_back(&mut self, id: u16) {
        self.buffers.give_back(id);
    }

    /// Asks for the end of all that is received; whether it has come everywhere.
    pub fn stop_all(&mut self) -> bool {
        (0..self.lines.len()).for_each(|at| {
            if !self.has_room() {
                return;
            }
            self.stop(at);
        });
        self.lines.iter().all(|line| line.receiving == Receiving::Off)
    }

    fn push(&mut self, entry: squeue::Entry) {
        // SAFETY: what it names and points to is there until it was handed over: see `call_once`.
        let pushed = unsafe { self.ring.submission().push(&entry) };
        pushed.expect("there is room for who looked before");
    }
}

/// Nothing is received any more into memory that is about to go.
impl Drop for Ring {
    fn drop(&mut self) {
        if self.enabled {
            // Not found: nothing was under way.
            let _ = self.ring.submitter().register_sync_cancel(None, CancelBuilder::any());
        }
    }
}

fn data_of(kind: u64, at: usize, generation: u32) -> u64 {
    let at = u32::try_from(at).expect("clients are fewer than descriptors");
    kind | u64::from(generation) << 32 | u64::from(at)
}

fn fd_of(socket: &impl AsFd) -> Fd {
    let fd: BorrowedFd<'_> = socket.as_fd();
    Fd(fd.as_raw_fd())
}
