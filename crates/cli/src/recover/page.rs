//! What the disks come to, for people.

use super::{Outcome, Pending, Place, RecoverArgs, Survivor};

/// What `recover` says.
pub(super) fn page(outcome: &Outcome, args: &RecoverArgs) -> String {
    let mut text = String::new();
    let about =
        |about: &Option<String>| about.as_ref().map_or(String::new(), |about| format!(", about {about}"));
    for survivor in &outcome.survivors {
        text.push_str(&words_of(survivor));
        text.push_str(&words_of_damage(survivor));
    }
    for (_, why) in &outcome.unreadable {
        text.push_str(&format!("LEFT OUT  {why}\n"));
    }
    let list = |nodes: &[u8]| nodes.iter().map(u8::to_string).collect::<Vec<_>>().join(", ");
    text.push_str(&format!(
        "\nvoters    {}; not here: {}{}\n",
        list(&outcome.voters),
        if outcome.lost.is_empty() { "none".into() } else { list(&outcome.lost) },
        if outcome.damaged.is_empty() {
            String::new()
        } else {
            format!("; damaged: {}", list(&outcome.damaged))
        }
    ));
    for Pending { epoch, voters } in &outcome.pending {
        text.push_str(&format!(
            "pending   {} in epoch {epoch}: a change of membership that was under way. Made or not, a majority of these is needed as well\n",
            list(voters)
        ));
    }
    match outcome.certain {
        Some(mark) => {
            text.push_str(&format!("certain   everything up to {mark}{}\n", about(&outcome.certain_about)))
        }
        None => text.push_str("certain   nothing\n"),
    }
    match (outcome.held, &outcome.best) {
        (Some(held), Some(best)) => text.push_str(&format!(
            "held      everything up to {held}{} (from {best}; {} stream(s) have more elsewhere)\n",
            about(&outcome.held_about),
            outcome.better_streams
        )),
        _ => text.push_str("held      nothing: none of these folders leads to a state\n"),
    }
    if outcome.short_streams > 0 {
        text.push_str(&format!(
            "gap       {} stream(s) go on in a folder that begins behind a part which is in none of them; what is held ends in front of it\n",
            outcome.short_streams
        ));
    }
    text.push_str(&verdict(outcome, &list(&outcome.damaged)));
    if !outcome.written.is_empty() {
        text.push_str(&format!(
            "written   {}\ndigest    {}\nnext      serve them with cluster.id = \"{}\", and storage.dir where their folders are\n",
            outcome.written.join(", "),
            outcome.digest.as_deref().unwrap_or_default(),
            args.cluster.as_deref().unwrap_or_default()
        ));
    } else if outcome.best.is_none() {
        text.push_str(
            "next      give the folders of more nodes, or restore a backup (`highwater backup restore`)\n",
        );
    } else if !outcome.majority {
        text.push_str(
            "next      `--accept-loss --to DIR --cluster NEW-ID` begins a new cluster from it; these folders stay as they are\n",
        );
    }
    text
}

/// Whose disk it is, and what it holds.
fn words_of(survivor: &Survivor) -> String {
    let Survivor { folder, cluster, node, life, votes, checkpoint, entries, .. } = survivor;
    let Survivor { decided, held, behind, about, .. } = survivor;
    let votes = if *votes { "votes" } else { "does not vote in this life" };
    let checkpoint = checkpoint.map_or("no checkpoint".into(), |number| format!("checkpoint {number}"));
    let entries: Vec<String> = entries.iter().map(|(last, decided)| format!("{last} ({decided})")).collect();
    let decided = decided.map_or("nothing that is known to be decided".into(), |mark| {
        format!("known to be decided up to {mark}")
    });
    let held = held.map_or("nothing held".into(), |held| format!("held up to {held}"));
    format!(
        "{folder}\n  node {node} {life} of cluster \"{cluster}\", {votes}{}\n  {checkpoint}; last entries (decided) by stream: {}\n  {decided}, {held}{}\n",
        if *behind { "; it did not end in order, and may have accepted more" } else { "" },
        entries.join(", "),
        about.as_ref().map_or(String::new(), |about| format!(", about {about}")),
    )
}

fn verdict(outcome: &Outcome, damaged: &str) -> String {
    let words = if outcome.majority && !outcome.damaged.is_empty() {
        format!(
            "a majority is here without the damaged disks: move the folder of node {damaged} away, start all nodes, and the cluster goes on \
             without any loss"
        )
    } else if outcome.majority {
        "a majority is here: start these nodes, and the cluster goes on without any loss".into()
    } else if outcome.all_behind {
        "all voters are here, and too many of them did not end in order: start these nodes, and the cluster goes on from the best of their \
         disks. What was acknowledged last, and is on none of them, is lost"
            .into()
    } else if outcome.nobody_leads {
        "a majority is here, and none of these nodes can lead: they were copying the state when they ended, and what they lack is on none of \
         these disks. Give the folder of the node that they copied from, if there is one"
            .into()
    } else {
        "the majority is lost. What was acknowledged after what is certain, and is on none of these disks, is lost".to_string()
    };
    format!("verdict   {words}\n")
}

/// Nothing if all is whole.
fn words_of_damage(survivor: &Survivor) -> String {
    let mut text = words_of_damaged_journal(survivor);
    for error in &survivor.damaged_checkpoints {
        text.push_str(&format!("  DAMAGED  {error}\n"));
    }
    match (&survivor.stateless, &survivor.refuses) {
        (Some(why), None) => {
            text.push_str(&format!("  NO STATE {why}. Its node starts and votes, and its log counts\n"))
        }
        (Some(_), Some(_)) => text.push_str("  NO STATE its log counts\n"),
        (None, _) => {}
    }
    // Of a damaged journal it is said above.
    if let (Some(why), true) = (&survivor.refuses, survivor.damage.is_empty()) {
        text.push_str(&format!("  REFUSES  its node does not start: {why}\n"));
    }
    text
}

/// Nothing if the journal is whole.
fn words_of_damaged_journal(survivor: &Survivor) -> String {
    let Some(Place { file, offset, what }) = survivor.damage.first() else { return String::new() };
    let means = match survivor.damage_is_old {
        true => "what the checkpoint needs stands behind that, and is all there",
        false => {
            "counted is what stands before that, as if the node had crashed there; what it accepted or promised later is not"
        }
    };
    format!(
        "  DAMAGED  {file} at offset {offset}: {what}. {}{means}\n",
        match survivor.damage.len() {
            1 => String::new(),
            all => format!("There are {all} such places. "),
        }
    )
}
