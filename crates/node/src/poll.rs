//! A thin layer over epoll: keys of our own, and deadlines to the nanosecond.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use highwater_engines::Nanos;
use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::time::Timespec;

/// What to be told of. Errors and hang-ups are always told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Interest(EventFlags);

impl Interest {
    /// Errors and hang-ups only.
    pub const NONE: Interest = Interest(EventFlags::empty());
    /// There is something to read.
    pub const READ: Interest = Interest(EventFlags::IN);
    /// There is room to write.
    pub const WRITE: Interest = Interest(EventFlags::OUT);
    /// Both.
    pub const READ_WRITE: Interest = Interest(EventFlags::IN.union(EventFlags::OUT));
    /// Something new to read, told once per arrival.
    pub const EDGE: Interest = Interest(EventFlags::IN.union(EventFlags::ET));

    /// Reading and writing as asked.
    pub fn of(read: bool, write: bool) -> Interest {
        match (read, write) {
            (false, false) => Interest::NONE,
            (true, false) => Interest::READ,
            (false, true) => Interest::WRITE,
            (true, true) => Interest::READ_WRITE,
        }
    }
}

/// Something happened to the descriptor with this key.
#[derive(Clone, Copy, Debug)]
pub struct Event {
    /// As given to [`Poller::add`].
    pub key: u64,
    /// A read would not block (it may find the end or an error).
    pub readable: bool,
    /// A write would not block (it may find an error).
    pub writable: bool,
    /// The connection failed, or both directions are closed. Told even with [`Interest::NONE`].
    pub broken: bool,
}

/// An epoll instance and the events of its last wait.
pub struct Poller {
    epoll: OwnedFd,
    events: Vec<Event>,
}

/// Events taken at one time; more simply come with the next wait.
const EVENTS: usize = 256;

impl Poller {
    /// An empty set.
    pub fn new() -> io::Result<Poller> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        Ok(Poller { epoll, events: Vec::with_capacity(EVENTS) })
    }

    /// Watches a descriptor. Closing it ends the watch.
    pub fn add(&self, source: impl AsFd, key: u64, interest: Interest) -> io::Result<()> {
        Ok(epoll::add(&self.epoll, source, EventData::new_u64(key), interest.0)?)
    }

    /// Changes what to be told of.
    pub fn modify(&self, source: impl AsFd, key: u64, interest: Interest) -> io::Result<()> {
        Ok(epoll::modify(&self.epoll, source, EventData::new_u64(key), interest.0)?)
    }

    /// Ends the watch of a descriptor that stays open.
    pub fn remove(&self, source: impl AsFd) -> io::Result<()> {
        Ok(epoll::delete(&self.epoll, source)?)
    }

    /// Waits for events, at most `timeout` nanoseconds (for ever if `None`); how many came.
    pub fn wait(&mut self, timeout: Option<Nanos>) -> io::Result<usize> {
        let timeout = timeout.map(|nanos| Timespec {
            tv_sec: (nanos / 1_000_000_000) as i64,
            tv_nsec: (nanos % 1_000_000_000) as _,
        });
        self.events.clear();
        let mut raw = [const { MaybeUninit::uninit() }; EVENTS];
        match epoll::wait(&self.epoll, &mut raw, timeout.as_ref()) {
            Ok((happened, _)) => self.events.extend(happened.iter().map(Event::from)),
            // A stopped and continued process finds its wait interrupted.
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        Ok(self.events.len())
    }

    /// As after a wait that nothing happened in.
    pub fn forget(&mut self) {
        self.events.clear();
    }

    /// The `at`-th event of the last wait.
    pub fn event(&self, at: usize) -> Event {
        self.events[at]
    }
}

impl AsFd for Poller {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.epoll.as_fd()
    }
}

impl From<&epoll::Event> for Event {
    fn from(event: &epoll::Event) -> Event {
        let (flags, data) = (event.flags, event.data);
        let broken = flags.intersects(EventFlags::ERR | EventFlags::HUP);
        Event {
            key: data.u64(),
            readable: broken || flags.contains(EventFlags::IN),
            writable: broken || flags.contains(EventFlags::OUT),
            broken,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::monotonic;

    /// Waits were rounded up to milliseconds: the call that takes nanoseconds is asked for by a feature of `rustix`.
    #[test]
    fn a_wait_may_be_shorter_than_a_millisecond() {
        let mut poller = Poller::new().unwrap();
        let wait = |poller: &mut Poller| {
            let start = monotonic();
            assert_eq!(poller.wait(Some(100_000)).unwrap(), 0);
            monotonic() - start
        };
        // The machine may be busy: one of many has to be right.
        let shortest = (0..200).map(|_| wait(&mut poller)).min().unwrap();
        assert!((100_000..900_000).contains(&shortest), "{shortest} ns");
    }
}
