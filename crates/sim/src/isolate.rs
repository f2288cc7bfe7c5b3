//! Keeps a broken invariant inside the run that found it.
//!
//! The product asserts, and a panic ends its process. A simulated replica that panics must end its run, and nothing else.
//! So each run has a thread of its own, and a panic hook of ours, in front of the one that ends processes, tells the caller
//! what was said and where. The thread then ends; where panics abort (an embedder's build), the hook never returns and the
//! thread sleeps for good: the memory of that one world is the price.

use std::cell::RefCell;
use std::panic::PanicHookInfo;
use std::path::PathBuf;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Once, OnceLock};
use std::thread;
use std::time::Duration;

/// Debug builds recurse deeply.
const STACK_BYTES: usize = 8 << 20;

/// Why nothing came back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Broken {
    /// A panic: what was said, and `file:line` of where.
    Panicked {
        message: String,
        /// `file:line`.
        place: String,
    },
    /// It did not end in its time, or did nothing any more. Its thread goes on.
    Hangs,
}

type Report = Box<dyn Fn(Broken)>;

thread_local! {
    /// Where to tell of a panic of this thread, if it is one of ours.
    static REPORT: RefCell<Option<Report>> = const { RefCell::new(None) };
}

/// What a thread's work has taken of a CPU, if the system tells: on a busy machine time passes without any work.
struct Effort(PathBuf);

impl Effort {
    /// Of this thread.
    fn here() -> Option<Effort> {
        let thread = std::fs::read_link("/proc/thread-self").ok()?;
        Some(Effort(PathBuf::from("/proc").join(thread).join("schedstat")))
    }

    fn so_far(&self) -> Option<Duration> {
        let said = std::fs::read_to_string(&self.0).ok()?;
        said.split(' ').next()?.parse().ok().map(Duration::from_nanos)
    }
}

/// Does some work on a thread of its own.
///
/// # Errors
/// If the work panics, takes more CPU time than `limit`, or does nothing for so long.
pub fn isolated<T: Send + 'static>(
    limit: Duration,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, Broken> {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let others = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            // What a procedure says to itself is not ours.
            if highwater_core::contain::contained() || !tell(info) {
                others(info);
            }
        }));
    });
    let (sender, receiver) = channel();
    let effort: Arc<OnceLock<Option<Effort>>> = Arc::default();
    let told = effort.clone();
    let panics: Sender<Result<T, Broken>> = sender.clone();
    #[cfg(feature = "planted")]
    let planted = highwater_core::planted::current();
    thread::Builder::new()
        .name("simulation".into())
        .stack_size(STACK_BYTES)
        .spawn(move || {
            #[cfg(feature = "planted")]
            highwater_core::planted::plant(planted);
            let _ = told.set(Effort::here());
            // Whoever gave up waiting does not need the answer.
            let report: Report = Box::new(move |broken| drop(panics.send(Err(broken))));
            REPORT.set(Some(report));
            let done = work();
            drop(sender.send(Ok(done)));
            REPORT.set(None);
        })
        .expect("the system gives a thread");
    let mut before = Duration::ZERO;
    loop {
        match receiver.recv_timeout(limit) {
            Ok(answer) => return answer,
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => unreachable!("a thread of ours answers or panics"),
        }
        let spent = effort.get().and_then(|effort| effort.as_ref()?.so_far());
        match spent {
            Some(spent) if spent < limit && spent > before + limit / 6000 => before = spent,
            _ => return Err(Broken::Hangs),
        }
    }
}

/// Whether the panic was ours to tell.
fn tell(info: &PanicHookInfo<'_>) -> bool {
    let Ok(Some(report)) = REPORT.try_with(|report| report.try_borrow_mut().ok()?.take()) else {
        return false;
    };
    let payload = info.payload();
    let message = payload.downcast_ref::<String>().map(String::as_str);
    let message = message.or_else(|| payload.downcast_ref::<&str>().copied()).unwrap_or("no message");
    let place = info.location().map_or(String::new(), |at| format!("{}:{}", at.file(), at.line()));
    report(Broken::Panicked { message: message.to_string(), place });
    if cfg!(panic = "abort") {
        loop {
            thread::park();
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_is_told_and_others_go_on() {
        let broken = isolated(Duration::from_secs(60), || -> u8 { panic!("the mark moved back") });
        let Err(Broken::Panicked { message, place }) = broken else { panic!("{broken:?}") };
        assert_eq!(message, "the mark moved back");
        assert!(place.contains("isolate.rs:"), "{place}");
        assert_eq!(isolated(Duration::from_secs(60), || 7), Ok(7));
    }

    #[test]
    fn an_endless_run_is_given_up() {
        let (_keep, wait) = channel::<()>();
        let ended = isolated(Duration::from_millis(10), move || wait.recv().is_ok());
        assert_eq!(ended, Err(Broken::Hangs));
    }
}
