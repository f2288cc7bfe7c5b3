//! The process's signals, taken before anything that takes long: while a node loads it can be asked to end, too. Whoever has no handler by
//! then and is the first process of a container (PID 1) would not even hear.

use std::io;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::{flag, low_level};

/// Whether the node reacts to the process's signals.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signals {
    /// SIGTERM and SIGINT end it; SIGHUP has certificates read again.
    Take,
    /// They are the embedding program's business.
    Leave,
}

/// The wishes that signals have brought.
pub(super) struct Asked {
    /// The process is to end.
    pub ends: Arc<AtomicBool>,
    pipes: Pipes,
    _writers: [UnixStream; 2],
}

/// Pipes that become readable when the process is to end, and when certificates are to be read again.
pub(super) struct Pipes {
    pub signals: UnixStream,
    pub reloads: UnixStream,
}

impl Asked {
    /// From now on, if they are to be taken; else nothing is ever asked. A second SIGTERM or SIGINT ends the process at once.
    pub fn take(signals: Signals) -> io::Result<Asked> {
        let ((signal, end), (reload, again)) = (UnixStream::pair()?, UnixStream::pair()?);
        let ends = Arc::new(AtomicBool::new(false));
        if signals == Signals::Take {
            for number in [SIGTERM, SIGINT] {
                let seen = Arc::new(AtomicBool::new(false));
                flag::register_conditional_default(number, seen.clone())?;
                flag::register(number, seen)?;
                flag::register(number, ends.clone())?;
                low_level::pipe::register(number, end.try_clone()?)?;
            }
            low_level::pipe::register(SIGHUP, again.try_clone()?)?;
        }
        let pipes = Pipes { signals: signal, reloads: reload };
        Ok(Asked { ends, pipes, _writers: [end, again] })
    }

    /// Whether the process was asked to end.
    pub fn to_end(&self) -> bool {
        self.ends.load(Ordering::Relaxed)
    }

    /// For a node's control thread, as long as this is there.
    pub fn pipes(&self) -> io::Result<Pipes> {
        Ok(Pipes { signals: self.pipes.signals.try_clone()?, reloads: self.pipes.reloads.try_clone()? })
    }
}
