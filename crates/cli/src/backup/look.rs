//! Looks at a chain that a copy may be going on to, and does not take for damage what is about to come.
//!
//! Whatever a copy that came to its end brought is there whatever else happens, because what is promised is noted before the journal is read
//! ([`Promises`](highwater_node::storage::archive::Promises)). Two more things can look wrong while a process writes to the archive:
//!
//! - *A copy is under way*: half a group stands at the end of the journal, or a checkpoint is there and its journal is not yet. An interrupted
//!   copy leaves the same behind. Who tells them apart is time: one that is under way goes on.
//! - *Parts of two moments were seen*: a store lists its objects page by page, and one that is replaced by a longer one between two pages leaves
//!   a gap in front of the next. And a copy makes good what an interrupted one left.
//!
//! So what looks wrong is looked at again if the chain has changed since. A chain that nobody writes to does not change, and is judged at once.

use std::thread::sleep;
use std::time::{Duration, Instant};

use highwater_node::storage::archive::{Chain, Glance, had_something, was_copied};

use super::moment::{NOTHING, Spanned, Unfinished, Unusable, look_through, times};
use crate::progress::Progress;

/// What looks damaged is looked at so often, if it changes in between.
const LOOKS: u32 = 5;
/// A copy that brings nothing for so long, though its process is there, counts as interrupted: that may be writing to another chain.
const STANDS_STILL: Duration = Duration::from_secs(10);
const GLANCE_EVERY: Duration = Duration::from_millis(20);

/// Looks through a chain.
///
/// # Errors
/// In words, if it is damaged, or nothing can be restored of it.
pub fn span(chain: &Chain, progress: &mut Progress) -> Spanned {
    let mut looks = 0;
    loop {
        looks += 1;
        let before = chain.disk.glance().ok();
        let spanned = judge(chain, progress);
        let Some(doubt) = doubt(&spanned) else { return spanned };
        let changed = match doubt {
            Doubt::FirstCopy => false,
            Doubt::Unfinished => goes_on(chain, before.as_ref()),
            Doubt::Damaged => looks < LOOKS && chain.disk.glance().ok() != before,
        };
        if !changed {
            return spanned;
        }
    }
}

/// Why a judgement may not be the last word.
enum Doubt {
    /// The copy that began the chain has not come to its end: its process is there, or has turned to another chain.
    FirstCopy,
    /// A later copy has not come to its end.
    Unfinished,
    /// Something is wrong that no step of a copy leaves.
    Damaged,
}

fn doubt(spanned: &Spanned) -> Option<Doubt> {
    match spanned {
        Ok(span) if span.unfinished.is_some() => Some(Doubt::FirstCopy),
        Ok(span) if span.lacks.unfinished => Some(Doubt::Unfinished),
        Ok(span) => (!span.lacks.words().is_empty()).then_some(Doubt::Damaged),
        Err(unusable) if unusable.unfinished.is_some() => Some(Doubt::FirstCopy),
        Err(unusable) => (unusable.why != NOTHING).then_some(Doubt::Damaged),
    }
}

fn judge(chain: &Chain, progress: &mut Progress) -> Spanned {
    match look_through(chain, progress) {
        Ok(mut span) => {
            // Nobody was promised what an unfinished copy would have brought.
            span.unfinished = unfinished(chain).filter(|copy| match copy {
                Unfinished::CutShort => span.lacks.unfinished,
                _ => !span.lacks.words().is_empty() && !span.lacks.damaged,
            });
            Ok(span)
        }
        Err(why) => {
            let whole = why == NOTHING;
            let had_something = !whole && had_something(&chain.disk).unwrap_or(true);
            let may_be_unfinished = !whole && !is_damaged(chain);
            Err(Unusable {
                why,
                had_something,
                unfinished: unfinished(chain).filter(|copy| may_be_unfinished && copy.is_first()),
            })
        }
    }
}

/// Whether the journal is damaged in the middle. No step of a copy leaves that, whatever else is missing.
fn is_damaged(chain: &Chain) -> bool {
    times(&chain.disk, &mut |_| {}).is_ok_and(|(summary, _)| summary.damage.is_some())
}

/// The state of the copy that has not come to its end, if there is such a one: a process that writes to the archive writes to its last
/// chain; and where the node removed files meanwhile it has begun another chain, and no copy goes on to this one.
fn unfinished(chain: &Chain) -> Option<Unfinished> {
    match (was_copied(&chain.disk), chain.is_succeeded) {
        (Ok(true), true) => Some(Unfinished::CutShort),
        (Ok(false), true) => Some(Unfinished::GivenUp),
        (Ok(false), false) => {
            let is_written = chain.is_last && chain.disk.may_be_written().unwrap_or(false);
            is_written.then_some(Unfinished::UnderWay)
        }
        _ => None,
    }
}

/// Whether a copy that seems to be under way is: it brings something, sooner or later.
fn goes_on(chain: &Chain, before: Option<&Glance>) -> bool {
    let began = Instant::now();
    loop {
        // Asked first: a process that ended may have brought something just before.
        let written = chain.disk.may_be_written().unwrap_or(false);
        if chain.disk.glance().ok().as_ref() != before {
            return true;
        }
        if !written || began.elapsed() >= STANDS_STILL {
            return false;
        }
        sleep(GLANCE_EVERY);
    }
}

#[cfg(test)]
mod tests;
