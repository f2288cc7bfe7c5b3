//! The compiler's thread: what modules are compiled by where workers must not stand still.
//!
//! A thread that [is told of one](compile_by) hands it every module that it needs and does not know, and goes on. Who asked stands in
//! line ([`Waiting`](crate::Waiting)) and is woken once it is done. A thread without one compiles by itself: simulated hosts do,
//! and tests.
//!
//! The verdict on a module is remembered by its digest, good or bad, so nothing follows from where and when it was compiled: a module is
//! loaded if it compiles on the node that loads it, and what other nodes get is its rows.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// Modules that wait, at most; of 1 MiB each.
const MOST_WAITING: usize = 16;
/// Clients that are woken for one module, at most: the others look by themselves after a while.
const MOST_WOKEN: usize = 1024;

/// The questions to the compiler.
struct Job {
    digest: [u8; 32],
    /// The bytes that were given: in the binary format, or text.
    bytes: Vec<u8>,
    /// Lines in which somebody waits for it.
    lines: Vec<Vec<u8>>,
}

#[derive(Default)]
struct Queue {
    waiting: VecDeque<Job>,
    /// The module that is being compiled now, without its bytes.
    current: Option<Job>,
    ends: bool,
}

/// See the module.
#[derive(Default)]
pub struct Compiler {
    queue: Mutex<Queue>,
    arrived: Condvar,
}

/// There is no room for another module.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Full;

impl Compiler {
    /// Asks for a module; whoever stands in this line is woken once it is compiled, or refused.
    ///
    /// # Errors
    /// [`Full`]: too many wait.
    pub fn ask(&self, digest: [u8; 32], bytes: &[u8], line: Option<&[u8]>) -> Result<(), Full> {
        let mut queue = self.lock();
        let Queue { waiting, current, .. } = &mut *queue;
        let known = waiting.iter_mut().chain(current.as_mut()).find(|job| job.digest == digest);
        let line = line.map(<[u8]>::to_vec);
        if let Some(job) = known {
            let more = line.filter(|line| job.lines.len() < MOST_WOKEN && !job.lines.contains(line));
            job.lines.extend(more);
            return Ok(());
        }
        if waiting.len() >= MOST_WAITING {
            return Err(Full);
        }
        waiting.push_back(Job { digest, bytes: bytes.to_vec(), lines: line.into_iter().collect() });
        self.arrived.notify_one();
        Ok(())
    }

    /// Compiles one module after the other, until it is to [end](Compiler::end). `wake`: whoever stands in a line.
    pub fn run(&self, compile: impl Fn([u8; 32], &[u8]), wake: impl Fn(&[u8])) {
        while let Some((digest, bytes)) = self.next() {
            compile(digest, &bytes);
            let done = self.lock().current.take().expect("it was taken by next");
            done.lines.iter().for_each(|line| wake(line));
        }
    }

    fn next(&self) -> Option<([u8; 32], Vec<u8>)> {
        let queue = self.lock();
        let waits = |queue: &mut Queue| queue.waiting.is_empty() && !queue.ends;
        let mut queue = self.arrived.wait_while(queue, waits).unwrap_or_else(PoisonError::into_inner);
        if queue.ends {
            return None;
        }
        let mut job = queue.waiting.pop_front().expect("somebody waits");
        let bytes = std::mem::take(&mut job.bytes);
        let digest = job.digest;
        queue.current = Some(job);
        Some((digest, bytes))
    }

    /// Takes up no further module.
    pub fn end(&self) {
        self.lock().ends = true;
        self.arrived.notify_all();
    }

    /// The state that a panic left behind is as good as before: every change is whole.
    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

thread_local! {
    static COMPILER: RefCell<Option<Arc<Compiler>>> = const { RefCell::new(None) };
}

/// From now on this thread has modules compiled there.
pub fn compile_by(compiler: Arc<Compiler>) {
    COMPILER.set(Some(compiler));
}

/// The compiler of this thread, if it does not compile by itself.
pub fn compiler() -> Option<Arc<Compiler>> {
    COMPILER.with_borrow(Clone::clone)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_module_is_compiled_once_whoever_asks_and_all_are_woken() {
        let compiler = Compiler::default();
        for line in [&b"a"[..], b"b", b"a"] {
            assert_eq!(compiler.ask([1; 32], b"one", Some(line)), Ok(()));
        }
        assert_eq!(compiler.ask([2; 32], b"two", None), Ok(()));
        let (compiled, woken) = (RefCell::new(Vec::new()), RefCell::new(Vec::new()));
        let compile = |digest: [u8; 32], bytes: &[u8]| {
            compiled.borrow_mut().push((digest[0], bytes.to_vec()));
            if digest[0] == 1 {
                // Who comes while it is compiled stands in line as well.
                compiler.ask([1; 32], b"one", Some(b"c")).expect("it is under way");
            } else {
                compiler.end();
            }
        };
        compiler.run(compile, |line| woken.borrow_mut().push(line.to_vec()));
        assert_eq!(compiled.into_inner(), [(1, b"one".to_vec()), (2, b"two".to_vec())]);
        assert_eq!(woken.into_inner(), [b"a", b"b", b"c"]);
    }

    #[test]
    fn so_many_wait_and_no_more() {
        let compiler = Compiler::default();
        for at in 0..MOST_WAITING {
            assert_eq!(compiler.ask([at as u8; 32], b"", None), Ok(()));
        }
        assert_eq!(compiler.ask([99; 32], b"", None), Err(Full));
        assert_eq!(compiler.ask([0; 32], b"", Some(b"line")), Ok(()), "it waits already");
    }
}
