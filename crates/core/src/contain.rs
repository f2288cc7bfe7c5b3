//! What becomes of a panic: a procedure's own is contained, everybody else's stops the replica.
//!
//! A procedure may panic because of its arguments, because of its data, or because it saw what never was: its reads are
//! validated only when it has ended (see [`Transaction`](crate::Transaction)). None of that is a reason to end a replica.
//! [`Registry::run`](crate::Registry::run) runs every attempt in [`contain`].
//!
//! A broken invariant of the engine is one: *crash rather than corrupt*. The two are told apart by where they happen. What
//! an engine does for a procedure under a call of its transaction, it does in [`unbroken`]; a panic there goes on from
//! [`contain`] as a panic that is not contained, even if the procedure catches it on its way.
//!
//! A process that is a replica calls [`stop_on_panic`]: then whatever panics and is not contained ends it at once, before
//! anything unwinds, as if it were built with `panic = "abort"`.
//!
//! Both cost a transaction next to nothing: two swaps of a thread's own byte, and landing pads that are off the path. What
//! cannot be contained: an endless loop, a stack that overflows, memory that runs out, a panic while unwinding.

use std::any::Any;
use std::cell::{Cell, RefCell};
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Once;

/// What this thread does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    /// No procedure's code.
    #[default]
    Outside,
    /// A procedure's code: a panic is its own.
    Contained,
    /// The engine has panicked under a procedure.
    Broken,
}

#[cfg(not(shuttle))]
thread_local! {
    static STATE: Cell<State> = const { Cell::new(State::Outside) };
}
// Shuttle runs all of its threads on one: each needs a state of its own.
#[cfg(shuttle)]
shuttle::thread_local! {
    static STATE: Cell<State> = Cell::new(State::Outside);
}
thread_local! {
    /// The last contained panic of this thread, as the hook saw it: what and where.
    static NOTE: RefCell<String> = const { RefCell::new(String::new()) };
}

fn state() -> State {
    STATE.with(Cell::get)
}

/// What this thread did before.
fn enter(state: State) -> State {
    STATE.with(|cell| cell.replace(state))
}

/// A panic that was contained.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Panicked {
    /// What was said.
    pub message: String,
}

impl fmt::Display for Panicked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl Panicked {
    #[cold]
    fn new(payload: Box<dyn Any + Send>) -> Panicked {
        let message = match payload.downcast::<String>() {
            Ok(message) => *message,
            Err(other) => {
                let message = other.downcast_ref::<&str>().copied().unwrap_or("no message").to_string();
                // What else it is may panic when it is dropped.
                std::mem::forget(other);
                message
            }
        };
        Panicked { message }
    }
}

/// Runs code that may panic without harm to others: what it leaves half done is its own or is dropped by the caller.
///
/// # Panics
/// If a panic came from inside [`unbroken`].
#[inline]
pub fn contain<R>(code: impl FnOnce() -> R) -> Result<R, Panicked> {
    let before = enter(State::Contained);
    let result = catch_unwind(AssertUnwindSafe(code));
    if enter(before) != State::Contained {
        broken();
    }
    result.map_err(Panicked::new)
}

#[cold]
fn broken() -> ! {
    let note = NOTE.take();
    panic!("an invariant broke under a procedure: {note}");
}

/// Runs engine code under a procedure: its panics are not the procedure's.
#[inline(always)]
pub fn unbroken<R>(code: impl FnOnce() -> R) -> R {
    let fuse = Fuse;
    let result = code();
    std::mem::forget(fuse);
    result
}

/// Dropped only by what unwinds past it.
struct Fuse;

impl Drop for Fuse {
    #[cold]
    fn drop(&mut self) {
        if state() == State::Contained {
            enter(State::Broken);
        }
    }
}

/// Whether this thread runs what is contained. A panic hook that acts, and does not only report, looks here first and
/// leaves such a panic to the hook before it.
pub fn contained() -> bool {
    state() != State::Outside
}

/// A thread that leaves contained code in the middle, for other code and other coroutines, takes this with it.
pub struct Aside(State);

/// Leaves what is contained, until [`Aside::return_to`].
pub fn aside() -> Aside {
    Aside(enter(State::Outside))
}

impl Aside {
    /// Goes on where it left.
    pub fn return_to(self) {
        enter(self.0);
    }
}

/// Keeps contained panics from being reported as panics are: somebody else tells of them. Once for the process.
pub(crate) fn silence() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let report = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            if contained() {
                NOTE.with(|note| {
                    // While another note is being taken there is nothing to add.
                    if let Ok(mut note) = note.try_borrow_mut() {
                        *note = info.to_string();
                    }
                });
            } else {
                report(info);
            }
        }));
    });
}

/// From now on a panic of any thread that is not contained ends the process, after it was reported.
pub fn stop_on_panic() {
    silence();
    let report = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        report(info);
        if !contained() {
            std::process::abort();
        }
    }));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_procedures_panic_is_contained_and_its_message_kept() {
        silence();
        assert_eq!(contain(|| 7), Ok(7));
        let message = |code: fn()| contain(code).unwrap_err().message;
        assert_eq!(message(|| panic!("no such account")), "no such account");
        let number = std::hint::black_box(7);
        assert_eq!(contain(|| panic!("account {number}")).map(|()| 0).unwrap_err().message, "account 7");
        assert_eq!(message(|| std::panic::panic_any(7)), "no message");
        assert_eq!(
            message(|| assert!([1, 2][std::hint::black_box(2)] > 0)),
            "index out of bounds: the len is 2 but the index is 2"
        );
        assert!(!contained(), "it has ended");
    }

    #[test]
    fn a_broken_invariant_is_not_even_if_the_procedure_catches_it() {
        silence();
        let outcome = |code: fn()| {
            let escaped = catch_unwind(AssertUnwindSafe(|| contain(code)));
            assert!(!contained(), "whatever comes now is no procedure's");
            Panicked::new(escaped.expect_err("it is not contained")).message
        };
        for code in [
            || unbroken(|| panic!("the mark moved back")),
            || drop(catch_unwind(|| unbroken(|| panic!("the mark moved back")))),
        ] {
            let message = outcome(code);
            assert!(
                message.contains("under a procedure") && message.contains("the mark moved back"),
                "{message}"
            );
            assert!(message.contains("contain.rs:"), "{message}");
        }
        // The engine calls back: what panics there is the procedure's again.
        assert_eq!(contain(|| unbroken(|| contain(|| panic!("mine")).is_err())), Ok(true));
    }

    #[test]
    fn who_steps_aside_is_not_contained_until_he_returns() {
        silence();
        let inner = contain(|| {
            let aside = aside();
            assert!(!contained());
            assert_eq!(contain(|| ()), Ok(()));
            aside.return_to();
            contained()
        });
        assert_eq!(inner, Ok(true));
    }
}
