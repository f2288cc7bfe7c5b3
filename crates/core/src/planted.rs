//! Planted bugs: mistakes that somebody could make, each behind a switch, to prove that simulator and checker catch them.
//!
//! They exist only with the feature `planted`, which nothing but the simulator's own command and tests asks for. Without it
//! [`planted!`](crate::planted!) is the literal `false`: the optimiser leaves nothing of a branch behind it, and there is
//! nothing here to ask.
//!
//! Whoever could make a mistake lists it: `planted.rs` in the store, in consensus, in `seam` and `kit`, in an engine, each
//! with `bugs!`.
//!
//! A bug is planted for the calling thread: a simulated run stays on one thread, and several seeds may run side by side.

/// Whether a bug is planted in this thread; `false`, literally, without the feature `planted`.
///
/// `planted!(Name)` is of the calling crate's own list, `planted!(folder::Name)` of the list in that folder of it.
#[cfg(not(feature = "planted"))]
#[macro_export]
macro_rules! planted {
    ($($path:ident)::+) => {
        false
    };
}

/// Whether a bug is planted in this thread; `false`, literally, without the feature `planted`.
///
/// `planted!(Name)` is of the calling crate's own list, `planted!(folder::Name)` of the list in that folder of it.
#[cfg(feature = "planted")]
#[macro_export]
#[allow(clippy::crate_in_macro_def, reason = "the list is the calling crate's, not this one's")]
macro_rules! planted {
    ($bug:ident) => {
        $crate::planted::on(&crate::planted::$bug)
    };
    ($folder:ident :: $bug:ident) => {
        $crate::planted::on(&crate::$folder::planted::$bug)
    };
}

#[cfg(feature = "planted")]
pub use bug::{Bug, Circumstance, current, on, plant};

#[cfg(feature = "planted")]
mod bug {
    use std::cell::Cell;

    /// A mistake that somebody could make.
    #[derive(Debug)]
    pub struct Bug {
        /// Its name on the command line.
        pub name: &'static str,
        /// What the product does wrong.
        pub mistake: &'static str,
        /// Which promise or invariant that breaks.
        pub breaks: &'static str,
        /// Under which circumstances that can show.
        pub shows: Circumstance,
        /// Plans that may pass in a row before the bug counts as missed.
        pub within: u64,
    }

    /// Under which circumstances a mistake can show at all, or within few plans. A simulator turns its plans there.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum Circumstance {
        /// Under any.
        Any,
        /// Workers meet in the middle of their transactions, on few keys.
        Contended,
        /// Much work on all streams; now one stream stands still, now the leader is cut off in the middle of it.
        Torn,
        /// Torn, and whoever would take over is cut off in the middle of it; frames of streams are lost.
        Halved,
        /// Replicas show their snapshots all the time.
        Shown,
        /// Shown to readers who ask for freshness, while pairs of five are cut off from the others, now and then the leader among them.
        Misled,
        /// Shown, while workers meet and are interrupted for so long that others seal meanwhile.
        Observed,
        /// Shown, on followers that are interrupted while they take them.
        Pinned,
        /// Leaders die and come back, one after the other: changes of members, copies, takeovers that are cut short.
        Mortal,
        /// Leaders die as soon as their epochs open, over slow links, in small clusters whose members change with each death.
        Newborn,
        /// Candidates stand though a leader is at work, who does not hear them, while another follower hears both.
        Defied,
        /// The leader is left with one that hears it, for good; the others hear each other.
        Stranded,
        /// One of the leader's workers gets stuck, for good.
        Jammed,
        /// Replicas have disks, and under much work the leader's hangs, for good.
        Hung,
        /// Much work, and leaders hand their lead over again and again.
        HandedOver,
        /// Memory ends.
        Full,
        /// Replicas have disks, and the power fails everywhere, again and again, with changes of leader in between.
        Unpowered,
        /// Unpowered, and what is accepted does not wait for disks.
        Darkened,
        /// Replicas have disks, and older copies of them are put in their place while one node does not hear another.
        Restored,
        /// As restored; and the copies are started several times before anybody hears of them, after a power cut of all.
        Unheard,
        /// Replicas have disks; one of three hears nothing for a while, then another one's journal is lost, and the third hears nothing.
        Nameless,
        /// What is accepted does not wait for disks, and whoever hears a leader crashes, just before that one is cut off.
        Forgetful,
        /// Replicas have disks, from which a new cluster is founded while a node of the old one comes back.
        Founded,
        /// Replicas have disks; one after the other hears nothing for so long that the leader no longer keeps what it lacks.
        Outrun,
        /// Unpowered, and now and then a sync fails.
        Failing,
        /// Unpowered, and now and then no file can be opened.
        Starved,
        /// As nameless; but what is damaged is the middle of the journal.
        Rotten,
        /// As nameless; and the start after that ends early.
        Interrupted,
        /// Replicas have disks, and the leader's is about to be full for long, under much work, again and again.
        Burdened,
        /// Torn, and clients ask again and again for the same under sessions.
        Retried,
        /// One of four is removed; then one node after the other is left alone with it.
        Moving,
        /// Nodes run builds of two releases, and are upgraded while the cluster works; one stays behind for long.
        Mixed,
        /// Clients send many requests at once over one connection, and requests are put off.
        Hurried,
        /// Keys of Redis expire, on few names, while leaders change whose clocks differ and jump.
        Expiring,
        /// Clients of Redis wait for what others push.
        Waiting,
        /// Clients of Redis decide transactions step by step, on few keys.
        Interacting,
        /// Clients of Redis send many commands at once, on few keys, and requests are put off.
        Pipelining,
        /// The same through followers, which forward what they are asked, while leaders hand their lead over.
        Forwarding,
        /// Clients of Redis write as users whose rights come and go, in pipelines with what others write, while leaders hand their lead over.
        Ruled,
        /// Keys come and go under scans, at replicas that do not hear each other, of which one dies.
        Toggled,
        /// A coordinator's disk stands still, others end its transactions, and the power fails; a disk is lost with it.
        Halting,
        /// A replica hears nothing for a moment, another one hears late what became of transactions, and clients ask the first one.
        Belated,
    }

    /// Lists the bugs of one owner: a static of each name, and `ALL` of them.
    ///
    /// A test of the command looks for the names (`Name = "name" {`) in its default build, which must not hold any.
    #[macro_export]
    macro_rules! bugs {
        ($($bug:ident = $name:literal {
            mistake: $mistake:literal,
            breaks: $breaks:literal,
            shows: $shows:ident,
            within: $within:literal,
        })*) => {
            $(
                #[doc = $mistake]
                #[allow(non_upper_case_globals, reason = "named as where it is planted")]
                pub static $bug: $crate::planted::Bug = $crate::planted::Bug {
                    name: $name,
                    mistake: $mistake,
                    breaks: $breaks,
                    shows: $crate::planted::Circumstance::$shows,
                    within: $within,
                };
            )*

            /// All of them.
            pub const ALL: &[&$crate::planted::Bug] = &[$(&$bug),*];
        };
    }

    thread_local! {
        static PLANTED: Cell<Option<&'static Bug>> = const { Cell::new(None) };
    }

    /// Plants a bug for this thread, in the place of any other; or none.
    pub fn plant(bug: Option<&'static Bug>) {
        PLANTED.set(bug);
    }

    /// What is planted in this thread.
    pub fn current() -> Option<&'static Bug> {
        PLANTED.get()
    }

    /// Whether this bug is planted in this thread.
    #[inline]
    pub fn on(bug: &'static Bug) -> bool {
        PLANTED.get().is_some_and(|planted| std::ptr::eq(planted, bug))
    }
}
