//! A thin layer over epoll: keys of our own, and deadlines to the nanosecond where the kernel has `epoll_pwait2` (Linux 5.11).
//!
//! Older kernels lack that call, and some sandboxes (and valgrind 3.19) do not let it through: there a wait is rounded up to milliseconds.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use highwater_seam::Nanos;
use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::io::Errno;
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
    /// Where events of waits in milliseconds go: since the kernel has said that it knows no others.
    coarse: Option<Box<[libc::epoll_event]>>,
}

/// Events taken at one time; more simply come with the next wait.
const EVENTS: usize = 256;

impl Poller {
    /// An empty set.
    pub fn new() -> io::Result<Poller> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        Ok(Poller { epoll, events: Vec::with_capacity(EVENTS), coarse: None })
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

    /// Waits for events, at most `timeout` nanoseconds (for ever if `None`), or up to a millisecond longer; how many came.
    pub fn wait(&mut self, timeout: Option<Nanos>) -> io::Result<usize> {
        self.events.clear();
        let waited =
            if self.coarse.is_none() { self.wait_precisely(timeout) } else { self.wait_coarsely(timeout) };
        match waited {
            Ok(()) => Ok(self.events.len()),
            // A stopped and continued process finds its wait interrupted.
            Err(Errno::INTR) => Ok(0),
            // Seccomp filters that do not know a call say either. Neither means anything else here.
            Err(Errno::NOSYS | Errno::PERM) if self.coarse.is_none() => {
                self.be_coarse();
                self.wait(timeout)
            }
            Err(error) => Err(error.into()),
        }
    }

    fn be_coarse(&mut self) {
        self.coarse = Some([libc::epoll_event { events: 0, u64: 0 }; EVENTS].into());
    }

    fn wait_precisely(&mut self, timeout: Option<Nanos>) -> Result<(), Errno> {
        let timeout = timeout.map(|nanos| Timespec {
            tv_sec: (nanos / 1_000_000_000) as i64,
            tv_nsec: (nanos % 1_000_000_000) as _,
        });
        let mut raw = [const { MaybeUninit::uninit() }; EVENTS];
        let (happened, _) = epoll::wait(&self.epoll, &mut raw, timeout.as_ref())?;
        self.events.extend(happened.iter().map(Event::from));
        Ok(())
    }

    /// With the call of old, which `rustix` makes only where it is not told of the new one.
    fn wait_coarsely(&mut self, timeout: Option<Nanos>) -> Result<(), Errno> {
        let raw = self.coarse.as_mut().expect("its caller looked");
        // Rounded up: a wait that ends before its time is begun again and again until it has passed.
        let timeout = timeout.map_or(-1, |nanos| nanos.div_ceil(1_000_000).try_into().unwrap_or(i32::MAX));
        let (epoll, most) = (self.epoll.as_raw_fd(), raw.len() as i32);
        // SAFETY: `raw` has room for as many events as the call is told.
        let count = unsafe { libc::epoll_wait(epoll, raw.as_mut_ptr(), most, timeout) };
        let count = usize::try_from(count).map_err(|_| last_error())?;
        self.events.extend(raw[..count].iter().map(Event::from));
        Ok(())
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
        Event::new(data.u64(), flags)
    }
}

impl From<&libc::epoll_event> for Event {
    fn from(event: &libc::epoll_event) -> Event {
        Event::new(event.u64, EventFlags::from_bits_retain(event.events))
    }
}

impl Event {
    fn new(key: u64, flags: EventFlags) -> Event {
        let broken = flags.intersects(EventFlags::ERR | EventFlags::HUP);
        Event {
            key,
            readable: broken || flags.contains(EventFlags::IN),
            writable: broken || flags.contains(EventFlags::OUT),
            broken,
        }
    }
}

fn last_error() -> Errno {
    Errno::from_io_error(&io::Error::last_os_error()).expect("a call that failed left its error")
}

#[cfg(test)]
mod tests {
    use std::io::Write;

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

    /// Kernels before 5.11 do not know the call that takes nanoseconds.
    #[test]
    fn without_the_precise_call_waits_are_rounded_up_to_milliseconds() {
        let mut poller = Poller::new().unwrap();
        poller.be_coarse();
        let start = monotonic();
        assert_eq!(poller.wait(Some(100_000)).unwrap(), 0);
        assert!(monotonic() - start >= 900_000, "not rounded down to no wait at all");

        let (reader, mut writer) = io::pipe().unwrap();
        poller.add(&reader, 7, Interest::READ).unwrap();
        assert_eq!(poller.wait(Some(0)).unwrap(), 0);
        writer.write_all(b"x").unwrap();
        assert_eq!(poller.wait(None).unwrap(), 1);
        let Event { key, readable, writable, broken } = poller.event(0);
        assert_eq!((key, readable, writable, broken), (7, true, false, false));
        drop(writer);
        assert_eq!(poller.wait(Some(u64::MAX)).unwrap(), 1);
        assert!(poller.event(0).broken, "its other end is closed");
    }
}
