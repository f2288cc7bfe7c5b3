//! Bugs that whole runs showed. Each comment tells one; each plan is what was left of a run that showed it.
//!
//! A seed stops reproducing its bug as soon as seeds draw something else, a plan does not: `tests/plans` holds them, and
//! each is named here, or a test fails. `highwater sim --plan FILE` runs one.

use std::collections::BTreeSet;
use std::path::Path;

use highwater_sim::{Plan, run};

/// A test for each bug; and the names of all plans, so that none lies there untried.
macro_rules! regressions {
    ($($(#[$story:meta])* fn $test:ident() passes $($plan:literal),+;)*) => {
        $(
            $(#[$story])*
            #[test]
            fn $test() {
                $(passes(include_str!(concat!("plans/", $plan, ".json")));)+
            }
        )*

        const TRIED: &[&str] = &[$($($plan),+),*];
    };
}

fn passes(plan: &str) {
    let plan = Plan::parse(plan).expect("a saved plan");
    if let Err(failure) = run(&plan) {
        panic!("{failure}\n{}", failure.story);
    }
}

#[test]
fn every_plan_is_tried_once() {
    let plans = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/plans");
    let files =
        std::fs::read_dir(plans).unwrap().map(|file| file.unwrap().file_name().into_string().unwrap());
    let tried: BTreeSet<String> = TRIED.iter().map(|plan| format!("{plan}.json")).collect();
    assert_eq!(files.collect::<BTreeSet<_>>(), tried);
    assert_eq!(TRIED.len(), tried.len(), "a plan is tried twice");
}

regressions! {
    /// The first leader died before one voter had heard that the cluster existed. The third one needed its vote, and nobody told
    /// it: it waited for the first membership for ever. Whoever learns of it tells all now.
    fn the_first_leader_dies_before_all_know_of_the_cluster() passes "leader_dies_at_birth";

    /// A replica copied the state, and wrote a checkpoint of it before one of its streams had heard how much of the log was decided. The
    /// checkpoint said that what it lacked began there, among entries of epochs that it had left behind: nobody could go on from it.
    fn a_checkpoint_goes_on_behind_the_state_that_was_copied() passes "checkpoint_of_a_copy";

    /// A voter's streams had promised the first leader before it had heard that the cluster existed. It waited for them for ever: for
    /// as long it neither stood nor said yes to anybody, and with the first leader gone there was no majority.
    fn a_promise_from_before_the_members_were_known_is_waited_for_no_more() passes "promise_before_members";

    /// Three workers of a deposed leader roll back one after the other. One that had rolled back collected its tombstone, whose
    /// timestamp the new epoch's marks had passed, while another still held the before-image of that record: it was
    /// restored into a record that no index knew. Acknowledged data was gone on that node, and on all that copied from it.
    fn a_tombstone_stays_until_all_workers_have_rolled_back() passes "tombstone_before_roll_back";

    /// All followers waited for copies of the state, with full backlogs: nobody took what would have moved the mark. No copy
    /// could begin at the mark: of the streams that went on without transactions the leader kept only what was above it.
    fn copies_begin_at_a_mark_that_stands_still() passes "copies_above_the_mark";

    /// A follower with a full backlog refused an entry and asked for what came behind it; the leader sent all of it again, the
    /// refused entry first, each time: more and more for ever.
    fn what_follows_a_refused_entry_is_not_asked_for() passes "refused_entries_asked_for";

    /// A cluster whose data took a little of the slack refused to give a copy to a replica that had fallen behind.
    fn a_cluster_filled_to_the_brim_takes_a_replica_back() passes "full_cluster_takes_back";

    /// A leader's clock went back, and it read a chunk of its store for a copy: by the clock the mark had passed what was in it. What
    /// another worker had committed and nobody had decided left with it; the leader rolled it back, its receiver kept it and showed it.
    fn a_copy_holds_nothing_above_the_mark_though_the_clock_goes_back() passes "copy_of_a_clock_that_went_back";

    /// (Of the simulator, not of the product.) A starved worker of a leader handed out a value of 16 MiB in a turn that lasted for
    /// seconds beyond the starvation; convergence was asked for before that turn was over.
    fn a_turn_that_was_begun_starved_is_waited_for() passes "turn_of_a_starved_thread";

    /// A transaction larger than the log that is kept emptied it. A donor whose log is empty could not say from where a
    /// receiver had to follow, and refused; while nobody wrote, newcomers were refused for ever. One entry is always kept now,
    /// and a refusing leader closes its stream with another. (Seeds 198 and 309 of *lists*. Without the two, both plans
    /// fail.)
    fn a_large_transaction_does_not_empty_a_log() passes
        "log_emptied_by_a_large_transaction",
        "log_emptied_in_several_streams";

    /// Three voters: one lost its memory, one (too far behind) waited for a copy, the third had led and had to win again. It
    /// needed the vote of the waiting one, whose log stood still until it had a store; and gave no copies before it led. Now
    /// the log of a store that is given up goes on behind what the leader no longer keeps. (Seeds 232 and 786 of *lists*. If
    /// the log stands still, the plan fails.)
    fn a_voter_that_waits_for_a_store_helps_its_donor_to_lead() passes "voter_that_waits_for_a_store";

    /// A stream that had been told that it was too far behind, and had caught up since, went on behind the older place: it
    /// forgot what it knew to be decided. (Seed 1209 of *lists*. If a stream goes on believing what it was told, the plan
    /// fails.)
    fn a_stream_that_caught_up_is_not_too_far_behind() passes "stream_that_caught_up";

    /// Two deposed leaders at once, both replacing their stores, waited for each other as donors, for ever. Deposed leaders
    /// roll back instead by now, so nothing fails any more without what was done then: the plan has the faults of that run.
    /// (Seed 185 of *lists*. Nothing shrinks what does not fail.)
    fn two_deposed_leaders_do_not_wait_for_each_other() passes "deposed_leaders_as_donors";

    /// The power was cut when one stream had come to the next epoch's first entry and another had not. A stream that waits there
    /// said that it had installed up to its last transaction, not up to what the others' claims close: all replicas came back as
    /// incomplete, and none could be elected, for ever.
    fn who_comes_back_in_the_middle_of_a_change_of_epoch_is_complete() passes "power_cut_in_a_change_of_epoch";

    /// (With `async`.) A voter that copied the state dropped what it had installed of the log, into a store that was on no disk. The others
    /// crashed, and had not written that part yet: the voter's log went on behind entries that nobody had, and whoever was elected gave
    /// up, for ever. Who copies keeps them now. In the other plan a log began behind entries that one replica had, and its end was in
    /// another one's: a log is taken over in parts now, and what it begins behind is on a disk. (Without the one or the other one of
    /// these plans fails.)
    fn a_log_whose_middle_was_in_a_copied_store_is_taken_over() passes
        "end_of_a_log_without_its_middle",
        "end_of_a_log_in_parts";

    /// A checkpoint was written of a copied state before one of its streams had heard how much of the log was decided, and said that the
    /// log on this disk goes less far than where it goes on: a node that came back refused it.
    fn a_checkpoint_of_a_copy_waits_until_its_log_is_known_to_be_decided() passes "checkpoint_with_a_hole";

    /// A leader gave its lead up, and began a checkpoint as one who follows before what it had left in its store was rolled back. At the end
    /// of the scan nothing was in doubt, and the checkpoint was published: after a power cut there were rows of transactions that
    /// never were.
    fn a_checkpoint_holds_nothing_that_was_rolled_back_while_it_was_scanned() passes
        "checkpoint_of_what_is_rolled_back";

    /// One stream stood still; a worker whose replies waited for it claimed in one entry after the other that it was closed, each as
    /// soon as the last was decided, and kept all of them: tens of thousands a second. And a long request, which waits until nothing
    /// else of its worker is under way, was refused for as long. What was claimed is not claimed again.
    fn what_was_claimed_of_a_stream_that_stands_still_is_not_claimed_again() passes
        "claims_made_again",
        "long_requests_beside_claims";

    /// (With `async`.) A learner was let in by a leader whose epoch ended in a power cut. The epoch after that, won with the voices of all,
    /// its own too, counted on it; it had not known before that it was to vote, and began another life. (Fixed before this plan was
    /// kept: d69656d.)
    fn who_votes_in_an_epoch_that_was_won_after_a_loss_goes_on() passes "voter_of_an_epoch_won_after_a_loss";

    /// **Unsafe**, with `sync`. The leader's disk was slow: what it decided was on the disks of the two others. Both fell behind in one
    /// stream or another and dropped what they had for a copy of the leader's state, which stood in its memory only, and the leader
    /// crashed. Acknowledged transactions were nowhere any more, and nobody could lead. A donor's disk has what it gives now.
    fn what_a_copy_replaces_is_on_the_donors_disk() passes "donor_whose_disk_was_behind";

    /// (Before it landed.) A voter learned who votes from a heartbeat, and its election knew it before the rest of the replica did: its store
    /// was never complete, so it answered no reads on snapshots, and could not lead.
    fn a_voter_that_hears_of_its_cluster_from_a_heartbeat_has_a_store() passes
        "voter_that_heard_of_the_cluster_from_a_heartbeat";

    /// A new leader lacked entries that one voter had when it promised, and trimmed right after that: its question was never answered. It
    /// would have given up after ten timeouts, but its machine had slept while it collected promises; it took that for a slow disk, and
    /// waited a thousand times as long for whoever might have one, while another voter had everything.
    fn a_leader_whose_machine_slept_while_it_won_does_not_wait_for_what_is_gone() passes
        "leader_slept_while_it_won";

    /// (Of the simulator.) One of three had lost its memory, and nobody had noticed yet, when an operator removed another: of the two
    /// that were left one was gone. Operators wait until a majority of those who are to stay has its state.
    fn nobody_is_removed_while_too_few_of_those_who_stay_have_their_state() passes "removal_beside_a_death";

    /// A takeover died with its epoch begun in one stream. The next leader had more of the epoch before in the other streams, so its
    /// final mark was above the dead epoch's base. A copy's floor was between the two: the receiver began behind that base's entry,
    /// took it for the last one of the epoch that ended, and believed claims about the lost entry that had stood there. Its mark
    /// passed the final mark, and it installed what nobody else did.
    fn a_copy_does_not_begin_behind_the_end_of_its_epoch() passes "copy_begins_behind_an_end";

    /// `meerkat-strict`: a replica whose clock leapt by half a minute while a proposal was under way took that for the proposal's way, and
    /// proposed as far ahead from then on: all others waited for their clocks to come there.
    fn a_clock_that_leaps_says_nothing_of_the_wire() passes "clock_that_leapt";

    /// `meerkat-strict`: a replica's clock stood still, and moved by what others told alone. It took that for catching up, and never learnt
    /// that what it proposed came too late.
    fn who_has_no_clock_of_its_own_is_in_time_all_the_same() passes "clock_that_stands_still";

    /// A node that had heard of the others' disks, and of no cluster yet, lost the names of its files. Its identity spoke of a journal that was gone: it might
    /// have forgotten anything, no cluster was born with it or without it, and nobody had ever been served (`highwater sim --engine rolis
    /// --disks --seed 8400036`).
    fn a_node_that_loses_its_journal_before_the_birth_takes_part_in_it() passes "names_lost_before_the_birth";

    /// `meerkat-strict`: threads were interrupted one time in three, and many scans came too late. All that scanned at a worker had one lane, whatever it
    /// scanned, and went one after the other: each was late once or twice, clients gave up and asked again, and the last reads were never answered. (`highwater sim
    /// --engine meerkat-strict --seed 63000016`.)
    fn scans_that_come_too_late_do_not_wait_for_each_other() passes "late_scans_in_one_lane";

    /// `meerkat`: what had been refused again and again was proposed ahead of its coordinator's clock, which moved only when it was looked at. It committed, and was not
    /// closed before that clock came there: its record stayed at every replica. Nothing had looked whether records go. (Seed 64100104.)
    fn what_was_ahead_of_a_clock_that_stands_still_is_forgotten() passes "ahead_of_a_clock_that_stands_still";
}
