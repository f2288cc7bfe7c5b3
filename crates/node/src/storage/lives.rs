//! Which life of a node begins on its folder: the one that the folder remembers, or another one. The rule is that of
//! [`evidence`](highwater_core::evidence), for every engine, and for nodes within programs.
//!
//! Another life begins where the folder says itself that something is missing, and where the others said so: then the folder is marked
//! [`stale`], by the process that was told, and whoever opens it next finds the mark. Whatever begins it, a crash in between begins it
//! again.

use std::io;

use highwater_core::Incarnation;
use highwater_core::evidence::{Forgot, Found, Verdict, judge};
use highwater_disk::checkpoint::{Manifest, published};
use highwater_disk::journal::{last_begun, segment_number, segments};
use highwater_disk::{Disk, Identity, stale};

use super::Preamble;

/// A file that is set aside has this in front of its name.
const STALE: &str = "stale-";

/// The advice to a node that knows of nobody to copy from.
const ALONE: &str = "this node's configuration names no other, so nobody is known to have a copy, and it does not start without what is \
                     missing. Put the files back (fsck moves what it finds to lost+found), or restore a backup; if other nodes have joined \
                     the cluster since, name them in cluster.nodes, and it copies their state; if nothing is worth keeping, move this \
                     folder away, and an empty cluster begins";

/// Finds out which life begins on this disk, before anything of it is read; `identity` becomes that of it. `alone`: the node has nobody to
/// copy from.
///
/// # Errors
/// In words: the disk refuses, or what is missing and nobody else has.
pub fn settle<D: Disk>(
    disk: &D,
    identity: &mut Identity,
    fresh: Incarnation,
    alone: bool,
) -> Result<(), String> {
    let words = |error: io::Error| error.to_string();
    if stale::is_marked(disk).map_err(words)? {
        begin_another(disk, identity, fresh, true)?;
        stale::clear(disk).map_err(words)?;
        tracing::warn!(
            "the older copy of the journal is kept as {STALE}journal-*: this node begins another life"
        );
        return Ok(());
    }
    // Why it cannot be read whoever reads it tells.
    let Ok(segment) = last_begun(disk) else { return Ok(()) };
    let found = Found { segment, bytes: None, traces: segment.is_none() && has_traces(disk, identity) };
    match judge(identity.claim(), found) {
        Verdict::GoesOn => Ok(()),
        Verdict::WroteNothing => {
            identity.begin_another_life(fresh, false);
            Ok(())
        }
        Verdict::Forgot(forgot) if alone => Err(refusal(forgot)),
        Verdict::Forgot(forgot) => {
            tracing::warn!("{forgot}: this node begins another life, and copies the state of the others");
            begin_another(disk, identity, fresh, forgot.is_certain())
        }
    }
}

/// Why a node's next start is another life, if it is: the same rule for those who look at a folder and leave it as it is. `had`: bytes of the
/// journal's records, if it is whole.
pub fn why_another<D: Disk>(disk: &D, identity: &Identity, had: Option<u64>) -> Option<String> {
    if stale::is_marked(disk).ok()? {
        return Some("the others said that it is an older copy".into());
    }
    let segment = last_begun(disk).ok()?;
    let found = Found { segment, bytes: had, traces: segment.is_none() && has_traces(disk, identity) };
    match judge(identity.claim(), found) {
        Verdict::Forgot(forgot) => Some(forgot.to_string()),
        Verdict::GoesOn | Verdict::WroteNothing => None,
    }
}

/// Compares what was read of the journal with what its identity says. If something is missing the disk is [marked](stale), for whoever opens
/// it next; whether it was.
///
/// # Errors
/// As [`settle`].
pub fn check_bytes(
    disk: &impl Disk,
    identity: &Identity,
    (segment, bytes): (Option<u64>, u64),
    alone: bool,
) -> Result<bool, String> {
    let found = Found { segment, bytes: Some(bytes), traces: false };
    match judge(identity.claim(), found) {
        Verdict::Forgot(forgot) if alone => Err(refusal(forgot)),
        Verdict::Forgot(forgot) => {
            tracing::warn!("{forgot}");
            stale::mark(disk).map_err(|error| format!("cannot mark it as stale: {error}")).map(|()| true)
        }
        Verdict::GoesOn | Verdict::WroteNothing => Ok(false),
    }
}

fn refusal(forgot: Forgot) -> String {
    format!("{forgot}; {ALONE}")
}

/// Whether there are files that no life has before it has written something.
fn has_traces(disk: &impl Disk, identity: &Identity) -> bool {
    let later = segments(disk).is_ok_and(|numbers| numbers.iter().any(|number| *number > 1));
    let is_ours = |number: &u64| {
        let Ok(manifest) = Manifest::read(disk, *number) else { return false };
        Preamble::decode(&manifest.engine).is_ok_and(|(found, _)| found.incarnation == identity.incarnation.0)
    };
    later || published(disk).is_ok_and(|numbers| numbers.iter().any(is_ours))
}

/// Sets aside what is there. The checkpoints are of the life before, and count for nothing by that.
fn begin_another(
    disk: &impl Disk,
    identity: &mut Identity,
    fresh: Incarnation,
    past: bool,
) -> Result<(), String> {
    set_journal_aside(disk).map_err(|error| format!("cannot set the journal aside: {error}"))?;
    identity.begin_another_life(fresh, past);
    identity.keep(disk).map_err(|error| error.to_string())
}

/// Only the last such rest is kept.
fn set_journal_aside(disk: &impl Disk) -> io::Result<()> {
    let mut names = disk.names()?;
    // The newest file first: what an interruption leaves lacks its end, and is recognised again.
    names.sort_unstable_by(|a, b| b.cmp(a));
    let is_aside =
        |name: &&String| name.strip_prefix(STALE).is_some_and(|name| segment_number(name).is_some());
    for name in names.iter().filter(is_aside) {
        disk.remove(name)?;
    }
    for name in names.iter().filter(|name| segment_number(name).is_some()) {
        disk.rename(name, &format!("{STALE}{name}"))?;
        disk.sync_names()?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use highwater_core::NodeId;
    use highwater_core::evidence::{Begun, Start};
    use highwater_disk::journal::MIN_SEGMENT_BYTES;
    use highwater_disk::simulated::Fault;
    use highwater_disk::{Journal, JournalOptions, SimulatedDisk};

    use super::*;

    const FRESH: Incarnation = Incarnation(99);

    fn options() -> JournalOptions {
        JournalOptions { journal: 55, writers: 1, segment_bytes: MIN_SEGMENT_BYTES }
    }

    /// A node's disk after one start, in which these records were written, each in a segment of its own, and the next segment was reserved.
    fn written(records: usize) -> (SimulatedDisk, Identity) {
        let disk = SimulatedDisk::new(1);
        let mut identity = Identity::new("north", NodeId(1), Incarnation(55));
        identity.begin(&disk, Start { number: 7, had: 0 }).unwrap();
        let (mut journal, _) = Journal::open(disk.clone(), options(), &mut |_| {}).unwrap();
        for _ in 0..records {
            journal.append(0, &[7; 4000]).unwrap();
            journal.sync().unwrap();
        }
        journal.reserve().unwrap();
        // A reserved segment's name is synced before anything is written there; as a rule it is on the disk long before.
        disk.sync_names().unwrap();
        drop(journal);
        disk.crash();
        (disk.clone(), Identity::read(&disk).unwrap().unwrap())
    }

    fn segments_of(disk: &SimulatedDisk) -> Vec<u64> {
        segments(disk).unwrap()
    }

    fn read(disk: &SimulatedDisk, identity: &Identity, alone: bool) -> Result<bool, String> {
        let (journal, summary) = Journal::open(disk.clone(), options(), &mut |_| {}).unwrap();
        let last = summary.segments.last().map(|last| last.number);
        check_bytes(disk, identity, (last, journal.synced().iter().sum()), alone)
    }

    #[test]
    fn a_node_that_lacks_nothing_is_who_it_was() {
        let (disk, mut identity) = written(2);
        assert_eq!(identity.begun, Begun::Segment(1));
        assert_eq!(why_another(&disk, &identity, Some(8000)), None);
        settle(&disk, &mut identity, FRESH, true).unwrap();
        assert_eq!(identity.incarnation, Incarnation(55));
        assert_eq!(read(&disk, &identity, true), Ok(false));
    }

    /// The next segment is always reserved under its name, so a lost journal never leaves an empty folder.
    #[test]
    fn where_only_the_reserved_segment_is_left_another_life_begins() {
        for spare in [true, false] {
            let (disk, mut identity) = written(1);
            assert_eq!(segments_of(&disk), [1, 2]);
            disk.remove("journal-0000000000000001").unwrap();
            if !spare {
                disk.remove("journal-0000000000000002").unwrap();
                // Somebody kept a copy of it beside it: that is no journal.
                disk.replace("journal-0000000000000001.bak", b"what it was");
            }
            assert!(why_another(&disk, &identity, None).is_some(), "who looks at the folder is told before");
            settle(&disk, &mut identity, FRESH, false).unwrap();
            assert_eq!((identity.incarnation, identity.past), (FRESH, true));
            disk.crash();
            let kept = Identity::read(&disk).unwrap().unwrap();
            assert_eq!((kept, segments_of(&disk)), (identity, vec![]));
        }
    }

    #[test]
    fn a_lone_node_whose_journal_is_gone_does_not_start_and_says_what_helps() {
        let (disk, mut identity) = written(1);
        disk.remove("journal-0000000000000001").unwrap();
        for _ in 0..2 {
            let why = settle(&disk, &mut identity, FRESH, true).unwrap_err();
            assert!(why.contains("from segment 1 on") && why.contains("lost+found"), "{why}");
            assert_eq!(identity.incarnation, Incarnation(55));
        }
    }

    /// The first build's identities do not say whether anything was written.
    #[test]
    fn of_an_older_build_s_identity_the_worst_is_taken_where_nobody_could_make_up_for_it() {
        let first = |disk: &SimulatedDisk| {
            let identity = Identity::read(disk).unwrap().unwrap();
            Identity { begun: Begun::Unknown, ..identity }
        };
        let (disk, _) = written(0);
        let mut identity = first(&disk);
        assert!(settle(&disk, &mut identity, FRESH, true).is_err());
        settle(&disk, &mut identity, FRESH, false).unwrap();
        assert!(identity.incarnation == FRESH && !identity.past, "perhaps no cluster was ever founded");
        let (disk, _) = written(1);
        let mut identity = first(&disk);
        disk.remove("journal-0000000000000001").unwrap();
        settle(&disk, &mut identity, FRESH, false).unwrap();
        assert!(identity.incarnation == FRESH && identity.past, "a later segment was reserved");
    }

    #[test]
    fn a_life_that_wrote_nothing_is_none_and_may_found_a_cluster() {
        let (disk, mut identity) = written(0);
        assert_eq!(identity.begun, Begun::Nothing);
        settle(&disk, &mut identity, FRESH, true).unwrap();
        assert_eq!((identity.incarnation, identity.past), (FRESH, false));
        assert_eq!(identity.starts.generation(), 1, "starts are counted on");
    }

    /// Names at the end are lost, and what is left agrees with itself.
    #[test]
    fn a_journal_that_is_shorter_than_it_was_is_marked_and_the_next_start_is_another_life() {
        let (disk, mut identity) = written(3);
        identity.begin(&disk, Start { number: 8, had: 12_000 }).unwrap();
        [3, 4].into_iter().for_each(|at| disk.remove(&format!("journal-{at:016}")).unwrap());
        let why = read(&disk.fork(3), &identity, true).unwrap_err();
        assert!(why.contains("8000 bytes of records, and had 12000"), "{why}");
        assert!(why_another(&disk, &identity, Some(8000)).is_some_and(|why| why.contains("and had 12000")));
        settle(&disk, &mut identity, FRESH, false).unwrap();
        assert_eq!(read(&disk, &identity, false), Ok(true));
        disk.crash();
        let mut identity = Identity::read(&disk).unwrap().unwrap();
        assert_eq!(identity.incarnation, Incarnation(55));
        settle(&disk, &mut identity, FRESH, false).unwrap();
        assert_eq!((identity.incarnation, identity.past), (FRESH, true));
        assert!(!stale::is_marked(&disk).unwrap());
    }

    #[test]
    fn what_is_stale_is_set_aside_and_only_the_last_rest_of_it_is_kept() {
        let (disk, mut identity) = written(1);
        disk.replace("stale-journal-0000000000000009", b"older");
        stale::mark(&disk).unwrap();
        settle(&disk, &mut identity, FRESH, false).unwrap();
        disk.crash();
        let mut names = disk.names().unwrap();
        names.retain(|name| name.contains("journal"));
        names.sort();
        assert_eq!(names, ["stale-journal-0000000000000001", "stale-journal-0000000000000002"]);
    }

    /// One call of a start fails, whichever: the disk has forgotten nothing by that, and the next start is the same life with all there is.
    #[test]
    fn an_error_of_the_disk_begins_no_other_life() {
        let mut failed = 0;
        for fault in [Fault::FailRead, Fault::FailNames, Fault::NoDescriptor, Fault::NoMemory] {
            for at in 0..40 {
                let (disk, mut identity) = written(2);
                let before = segments_of(&disk);
                disk.inject(fault, at);
                let settled = settle(&disk, &mut identity, FRESH, false);
                failed += u64::from(settled.is_err());
                assert_eq!(identity.incarnation, Incarnation(55), "{fault:?} at call {at}");
                disk.heal();
                disk.crash();
                let mut identity = Identity::read(&disk).unwrap().unwrap();
                assert_eq!(segments_of(&disk), before, "{fault:?} at call {at}");
                settle(&disk, &mut identity, FRESH, false).unwrap();
                assert_eq!(identity.incarnation, Incarnation(55), "{fault:?} at call {at}");
                assert_eq!(read(&disk, &identity, false), Ok(false), "{fault:?} at call {at}");
            }
        }
        assert!(failed > 0, "no start met an error");
    }

    /// And where the disk has forgotten something, an error in the start that would find out brings nothing back.
    #[test]
    fn an_error_of_the_disk_brings_no_life_back_that_is_over() {
        for fault in [Fault::FailRead, Fault::FailNames, Fault::NoDescriptor, Fault::NoMemory] {
            for at in 0..40 {
                let (disk, mut identity) = written(2);
                segments_of(&disk).into_iter().for_each(|at| disk.lose(&format!("journal-{at:016}")));
                disk.crash();
                disk.inject(fault, at);
                // A start goes on after this only if nothing failed, or reads the journal and compares.
                let goes_on = settle(&disk, &mut identity, FRESH, false).is_ok();
                disk.heal();
                if goes_on && identity.incarnation == Incarnation(55) {
                    assert_eq!(read(&disk, &identity, false), Ok(true), "{fault:?} at call {at}");
                }
                disk.crash();
                let mut identity = Identity::read(&disk).unwrap().unwrap();
                settle(&disk, &mut identity, Incarnation(100), false).unwrap();
                assert_ne!(identity.incarnation, Incarnation(55), "{fault:?} at call {at}");
            }
        }
    }

    /// The power fails anywhere while another life begins: it begins again, or has begun, and never does the old one go on.
    #[test]
    fn a_crash_while_another_life_begins_begins_it_again() {
        for at in 0.. {
            let (disk, mut identity) = written(2);
            stale::mark(&disk).unwrap();
            disk.fail_power(at);
            let settled = settle(&disk, &mut identity, FRESH, false);
            let powered = disk.is_powered();
            disk.crash();
            let mut identity = Identity::read(&disk).unwrap().unwrap();
            settle(&disk, &mut identity, Incarnation(100), false).unwrap();
            assert_ne!(identity.incarnation, Incarnation(55), "{at}");
            assert!(identity.past, "{at}");
            if powered {
                return assert!(at > 5 && settled.is_ok());
            }
        }
    }
}
