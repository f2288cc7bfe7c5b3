//! How product code that runs in a coroutine is made to stand still.

use std::ptr::NonNull;

use corosensei::Yielder;
use highwater_core::contain;

use super::actor::Why;

/// Suspends the coroutine that runs now.
#[derive(Clone, Copy)]
pub(super) struct Suspender(NonNull<Yielder<(), Why>>);

impl Suspender {
    /// Of the coroutine that `yielder` was handed to.
    pub fn new(yielder: &Yielder<(), Why>) -> Suspender {
        Suspender(NonNull::from(yielder))
    }

    pub fn suspend(self, why: Why) {
        // Whoever runs meanwhile, on the same thread, is not in the middle of a procedure.
        let aside = contain::aside();
        // SAFETY: the yielder lives on its coroutine's stack for as long as the coroutine runs, and the stage holds a
        // suspender only between `Fiber::resume` entering that coroutine and the coroutine leaving it again.
        unsafe { self.0.as_ref() }.suspend(why);
        aside.return_to();
    }
}
