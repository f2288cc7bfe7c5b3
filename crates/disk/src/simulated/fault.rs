//! What a bad disk does.

/// One thing that goes wrong in one call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// A read fails (EIO).
    FailRead,
    /// A read has one bit wrong. What is kept is right.
    CorruptRead,
    /// A write, or a change of length, fails (EIO). Some of a write's bytes are there, the first so many.
    FailWrite,
    /// A write seems to have happened, and none of it will be there after a crash, synced or not.
    LoseWrite,
    /// A write seems to have happened, and lands at another sector of this or another file.
    MisdirectWrite,
    /// A file's sync fails (EIO). Of what was unsynced any part is kept, the rest never will be: later syncs know nothing of
    /// it, and succeed. The process still sees all of it, until a crash.
    FailSync,
    /// A sync of a file or of the names does nothing, and succeeds.
    LieAboutSync,
    /// A call that creates, opens, renames or removes a file fails (EIO) and has no effect.
    FailNames,
    /// A call that opens something (a file, a new one, the list of names) fails for want of a descriptor (EMFILE), and has no effect.
    NoDescriptor,
    /// The same for want of memory (ENOMEM).
    NoMemory,
    /// The same because a signal came (EINTR).
    Signal,
    /// A sync of the names fails (EIO); what becomes of the names is as with [`FailSync`](Fault::FailSync).
    FailSyncNames,
}

/// The faults that are to come.
#[derive(Debug, Default)]
pub(super) struct Faults {
    coming: Vec<Coming>,
}

#[derive(Debug)]
struct Coming {
    fault: Fault,
    /// Calls that pass before.
    after: u64,
    always: bool,
}

impl Faults {
    pub(super) fn add(&mut self, fault: Fault, after: u64, always: bool) {
        self.coming.push(Coming { fault, after, always });
    }

    /// Counts a call that `fault` can befall; whether it does.
    pub(super) fn befalls(&mut self, fault: Fault) -> bool {
        let due = |coming: &Coming| coming.fault == fault && coming.after == 0;
        let befalls = self.coming.iter().any(due);
        self.coming.retain(|coming| coming.always || !due(coming));
        for coming in self.coming.iter_mut().filter(|coming| coming.fault == fault) {
            coming.after = coming.after.saturating_sub(1);
        }
        befalls
    }
}
