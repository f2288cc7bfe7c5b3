//! What a worker executed in an epoch that it leads, and may have to take back when that epoch ends.

use std::sync::atomic::Ordering;

use highwater_core::Epoch;
use highwater_store::Occ;

use crate::context::Context;
use crate::hooks;
use highwater_log_host::shared::Shared;

/// Whether this worker's writes on the store are all certain.
///
/// Invariant: while `open`, this worker is counted in [`Shared::speculating`], and the before-images of what the mark has not
/// passed are kept.
#[derive(Debug, Default)]
pub struct Speculation {
    /// The epoch that this worker last led on its present store: its own entries are in the store already.
    led: Option<Epoch>,
    /// What is above the mark may have to be rolled back.
    open: bool,
}

impl Speculation {
    /// The epoch that this worker last led on its present store.
    #[inline]
    pub fn led(&self) -> Option<Epoch> {
        self.led
    }

    /// This worker begins to execute transactions of `epoch`.
    pub fn begin(&mut self, epoch: Epoch, context: &Context) {
        self.led = Some(epoch);
        assert!(!self.open, "an earlier epoch's final mark is met before another one opens");
        self.open = true;
        context.shared.speculating.fetch_add(1, Ordering::AcqRel);
        // Transactions write to the store from here on, and keep no versions for followers' readers.
        context.marks.rounds.void();
    }

    /// `entered` has begun. If the epoch that was led is over, what was executed above its final mark never happened.
    pub fn end(&mut self, entered: Epoch, occ: &mut Occ, context: &Context) {
        let Some(led) = self.led.filter(|led| *led < entered) else { return };
        let preserved =
            context.marks.watermark.final_mark(led).expect("an epoch that was led here has ended here");
        if self.open {
            self.open = false;
            if hooks::rolls_back() {
                occ.roll_back(preserved);
            }
            // Release; pairs with the Acquire in `Shared::is_certain`: who sees no speculation left sees it rolled back.
            context.shared.speculating.fetch_sub(1, Ordering::Release);
        }
    }

    /// The store is replaced, and what was speculative in it is gone.
    pub fn leave_store(&mut self, shared: &Shared) {
        self.led = None;
        if std::mem::take(&mut self.open) {
            shared.speculating.fetch_sub(1, Ordering::AcqRel);
        }
    }
}
