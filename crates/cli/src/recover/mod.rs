//! `highwater recover`: when a majority of the voters is lost for good. Shows what the disks that are left hold, and what would be lost; and,
//! only if an operator accepts that, begins a new cluster from the best of it. Nothing does this by itself.

mod page;

use std::num::NonZeroU16;
use std::path::{Path, PathBuf};

use clap::Args;
use highwater_core::{NodeId, Timestamp};
use highwater_disk::journal::Damage;
use highwater_disk::{Identity, behind};
use highwater_engine_rolis::remains::{Members, Quorums, Remains, Taken, Testimony, Trust, Voter};
use highwater_node::storage::DataDirectory;
use highwater_node::storage::remains::Folder;
use highwater_node::storage::survey::{Nothing, Survey};
use serde::Serialize;

use crate::failure::{Failure, Result};
use crate::founders::Founders;
use crate::output::print;
use crate::wall_clock;
use page::page;

/// `highwater recover`.
#[derive(Clone, Debug, Args)]
pub struct RecoverArgs {
    /// The folders of the voters that are left (`storage.dir/node-N`). All of them have stopped; nothing in them is changed.
    #[arg(long, value_name = "DIR", required = true, num_args = 1..)]
    pub from: Vec<PathBuf>,
    /// Begin a new cluster, though what was acknowledged may be missing from it.
    #[arg(long, requires = "to", requires = "cluster")]
    pub accept_loss: bool,
    /// Where the new cluster's folders are written (its `storage.dir`).
    #[arg(long, value_name = "DIR")]
    pub to: Option<PathBuf>,
    /// The new cluster's id (its `cluster.id`): not the old one's.
    #[arg(long, value_name = "ID")]
    pub cluster: Option<String>,
    /// Its nodes.
    #[command(flatten)]
    pub founders: Founders,
    /// Print one line of JSON.
    #[arg(long)]
    pub json: bool,
}

/// What a folder holds.
#[derive(Debug, Serialize)]
struct Survivor {
    folder: String,
    cluster: String,
    node: u8,
    life: String,
    /// Whether this life of the node votes by a membership that may be in force.
    votes: bool,
    checkpoint: Option<u64>,
    /// By stream: the last entry, and the last one known to be decided.
    entries: Vec<(u64, u64)>,
    /// Everything up to here is known to be decided.
    decided: Option<u64>,
    /// Everything up to here is held; nothing, if the state is not there.
    held: Option<u64>,
    /// Why the disk leads to no state, if it does not: its log counts.
    stateless: Option<String>,
    /// Checkpoints that are damaged, and why others are taken.
    damaged_checkpoints: Vec<String>,
    /// Why its node does not start, if it does not.
    refuses: Option<String>,
    /// The node did not end in order with durability `async`: it may have accepted more.
    behind: bool,
    /// Its journal is damaged there: what stands behind that is not counted, unless `damage_is_old`.
    damage: Vec<Place>,
    /// All damage is in front of what the checkpoint needs: nothing is missing.
    damage_is_old: bool,
    /// When that was, about.
    about: Option<String>,
}

/// Where a journal is damaged.
#[derive(Debug, Serialize)]
struct Place {
    file: String,
    offset: u64,
    what: String,
}

/// What all of them come to.
#[derive(Debug, Serialize)]
struct Outcome {
    survivors: Vec<Survivor>,
    /// Folders of which nothing can be said, and why.
    unreadable: Vec<(String, String)>,
    voters: Vec<u8>,
    /// Who votes by changes of membership that were under way: made or not, a leader needs a majority of each, too.
    pending: Vec<Pending>,
    lost: Vec<u8>,
    /// Voters whose nodes do not start from the disks that are here.
    damaged: Vec<u8>,
    /// Enough of the voters are here, with all that they accepted, and one of them can lead.
    majority: bool,
    /// Enough of the voters are here, and none of them can lead: they were copying a state that is on none of their disks.
    nobody_leads: bool,
    /// Of disks that may be behind, all are.
    all_behind: bool,
    /// Everything up to here is certainly there.
    certain: Option<u64>,
    certain_about: Option<String>,
    /// Everything up to here is what a new cluster begins with; `None`: no disk leads to a state.
    held: Option<u64>,
    held_about: Option<String>,
    /// The folder that it begins from, and how many streams another one has more of.
    best: Option<String>,
    better_streams: usize,
    /// Streams of which a part is on none of the disks that are left, though what comes behind it is.
    short_streams: usize,
    written: Vec<String>,
    digest: Option<String>,
}

/// A change of membership that was under way.
#[derive(Debug, Serialize)]
struct Pending {
    epoch: u64,
    voters: Vec<u8>,
}

/// The memberships that may be in force, by all disks together.
struct Memberships {
    /// The newest one that surely was.
    settled: Members,
    /// Those behind it with other voters, oldest first.
    pending: Vec<Members>,
}

impl Memberships {
    /// Of what each disk says of itself, oldest first.
    fn of(disks: Vec<Vec<Members>>) -> Option<Memberships> {
        let settled =
            disks.iter().filter_map(|disk| disk.first()).max_by_key(|members| members.epoch)?.clone();
        let mut pending: Vec<Members> =
            disks.into_iter().flatten().filter(|m| m.epoch > settled.epoch).collect();
        pending.sort_by_key(|members| members.epoch);
        // A new leader's epoch is such a change, too: of nothing.
        pending.dedup_by(|later, earlier| later.voters() == earlier.voters());
        if pending.first().is_some_and(|first| first.voters() == settled.voters()) {
            pending.remove(0);
        }
        Some(Memberships { settled, pending })
    }

    fn quorums(&self) -> Quorums {
        let mut quorums = Quorums::of(self.settled.clone());
        self.pending.iter().for_each(|members| quorums.and(members.clone()));
        quorums
    }
}

/// A folder that was read.
struct Read {
    survey: Survey,
    decided: Option<Timestamp>,
    /// `None`: the state is not there.
    held: Option<Timestamp>,
    /// It may lack what its node accepted last.
    behind: bool,
}

impl Read {
    fn identity(&self) -> &Identity {
        &self.survey.identity
    }

    fn folder(&self) -> &Folder {
        &self.survey.folder
    }

    fn remains(&self) -> &Remains {
        &self.survey.folder.remains
    }

    fn voter(&self) -> Voter {
        voter_of(self.identity())
    }

    /// Its node starts, and has all that it ever accepted.
    fn is_whole(&self) -> bool {
        self.survey.refuses.is_none() && !self.behind
    }

    fn survivor(&self, quorums: &Quorums) -> Survivor {
        let (identity, folder) = (self.identity(), self.folder());
        let held = self.held.unwrap_or_default();
        let damaged = self.survey.damaged.iter();
        Survivor {
            folder: folder.name.clone(),
            cluster: identity.cluster.clone(),
            node: identity.node.0,
            life: identity.incarnation.to_string(),
            votes: quorums.voters().contains(&self.voter()),
            checkpoint: folder.checkpoint.as_ref().map(|manifest| manifest.number),
            entries: folder.remains.entries().iter().map(|(last, decided)| (last.0, decided.0)).collect(),
            decided: self.decided.map(|mark| mark.0),
            held: self.held.map(|mark| mark.0),
            stateless: folder.remains.lacks_state().map(str::to_string),
            damaged_checkpoints: damaged.map(|skipped| skipped.error.to_string()).collect(),
            refuses: self.survey.refuses.clone(),
            behind: self.behind,
            damage: folder.damage.iter().map(place).collect(),
            damage_is_old: !folder.damage.is_empty() && !folder.ends_early,
            about: self.held.and_then(|_| wall_clock::about(folder.remains.moments(), held)),
        }
    }
}

/// Runs the command.
pub fn run(args: &RecoverArgs) -> Result<()> {
    if let Some(to) = &args.to {
        is_elsewhere(to, &args.from)?;
    }
    if !args.accept_loss && args.founders.are_named() {
        return Err(Failure::usage(
            "--nodes and --workers are of the new cluster, and go with --accept-loss",
        ));
    }
    let mut left_out = LeftOut::default();
    let mut disks = Vec::new();
    for path in &args.from {
        let directory = DataDirectory::read_only(path).map_err(Failure::unreadable)?;
        if directory.is_locked().map_err(Failure::unreadable)? {
            return Err(Failure::unreadable(format!("{} is in use", path.display())).hint(
                "stop every node of the cluster first: while one runs the cluster may still go on by itself",
            ));
        }
        match read(path, &directory) {
            Ok(disk) => disks.push(disk),
            Err(Nothing { why, refuses, testimony }) => {
                left_out.folders.push((path.display().to_string(), why));
                left_out.voters.extend(refuses.as_deref().map(voter_of));
                left_out.testimonies.extend(testimony.map(|testimony| *testimony));
            }
        }
    }
    if let (Some((_, why)), true) = (left_out.folders.first(), disks.is_empty()) {
        return Err(Failure::unreadable(why).hint("none of the folders can be read"));
    }
    same_cluster(&disks)?;
    if let Some(cluster) = args.cluster.as_ref().filter(|id| **id == disks[0].identity().cluster) {
        return Err(Failure::usage(format!("\"{cluster}\" is the lost cluster's id"))
            .hint("a new cluster needs another --cluster: nodes of the old one may come back"));
    }
    hear_each_other(&mut disks, &left_out);
    let mut outcome = judge(&mut disks, left_out)?;
    if args.accept_loss {
        if outcome.best.is_none() {
            return Err(Failure::negative(
                "none of these folders leads to a state: there is nothing to begin from",
            )
            .hint("give the folders of more nodes, or restore a backup"));
        }
        if outcome.majority {
            return Err(Failure::usage("a majority of the voters is here: nothing is lost")
                .hint("start these nodes, and the cluster goes on; a copy of it comes from `backup`"));
        }
        if outcome.all_behind {
            return Err(Failure::usage("all voters are here: nobody has more than they do")
                .hint("start these nodes, and the cluster goes on from the best of their disks"));
        }
        found(args, &disks, &mut outcome)?;
    }
    let text = match args.json {
        true => serde_json::to_string(&outcome).map_err(Failure::negative)? + "\n",
        false => page(&outcome, args),
    };
    print(&text)
}

/// New folders do not go into the old ones, which stay as they are.
fn is_elsewhere(to: &Path, from: &[PathBuf]) -> Result<()> {
    // The part of it that is there, without links.
    let there = std::path::absolute(to)
        .ok()
        .and_then(|path| path.ancestors().find_map(|path| path.canonicalize().ok()));
    let holds = |from: &&PathBuf| {
        let node = from.join("identity").exists();
        node && there.as_ref().zip(from.canonicalize().ok()).is_some_and(|(to, from)| to.starts_with(from))
    };
    match from.iter().find(holds) {
        Some(from) => {
            let what = format!("--to {} is in {}, a folder of --from", to.display(), from.display());
            Err(Failure::usage(what).hint("the old folders stay as they are: give --to a folder of its own"))
        }
        None => Ok(()),
    }
}

/// `--nodes 4` is node 4. Whoever wants four nodes has to hear that.
fn names_nodes(founders: &Founders, known: &[u8]) -> Result<()> {
    match founders.nodes[..] {
        [only] if only > 0 && !known.contains(&only) => Err(Failure::usage(format!(
            "--nodes {only} is one node, with the id {only}, and the lost cluster had no such node"
        ))
        .hint("--nodes takes ids, not how many: name each of them, like --nodes 0,1,2")),
        _ => Ok(()),
    }
}

/// Folders of which nothing can be said.
#[derive(Default)]
struct LeftOut {
    /// Which, and why.
    folders: Vec<(String, String)>,
    /// Whose: their nodes do not start with them.
    voters: Vec<Voter>,
    /// Words on others' disks that their nodes had heard all the same.
    testimonies: Vec<(NodeId, Testimony)>,
}

fn voter_of(identity: &Identity) -> Voter {
    Voter { node: identity.node, incarnation: identity.incarnation }
}

fn read(path: &Path, directory: &DataDirectory) -> std::result::Result<Read, Nothing> {
    let survey = Survey::of(path)?;
    let latest = |trust| survey.folder.remains.read(trust).ok().map(|reading| reading.latest());
    let (decided, held) = (latest(Trust::Decided), latest(Trust::Accepted));
    let behind = behind::is_marked(directory).map_err(|error| format!("{}: {error}", path.display()))?;
    Ok(Read { survey, decided, held, behind })
}

/// All that the nodes of these folders had heard of each other's disks counts as it would if they started.
fn hear_each_other(disks: &mut [Read], left_out: &LeftOut) {
    let own = |disk: &Read| (disk.identity().node, disk.survey.testimony.clone());
    let all: Vec<_> = disks.iter().map(own).chain(left_out.testimonies.iter().cloned()).collect();
    disks.iter_mut().for_each(|disk| disk.survey.hear(&all));
}

fn same_cluster(disks: &[Read]) -> Result<()> {
    for (at, disk) in disks.iter().enumerate() {
        let voter = disk.voter();
        if let Some(other) = disks[..at].iter().find(|other| other.voter() == voter) {
            let [one, two] = [other, disk].map(|disk| &disk.folder().name);
            return Err(Failure::usage(format!(
                "{one} and {two} are the same life of node {}",
                voter.node.0
            ))
            .hint("give each disk once; of a folder and its copy the newer one"));
        }
    }
    let first = disks[0].identity();
    for other in disks[1..].iter().map(Read::identity) {
        if other.cluster != first.cluster {
            let why =
                format!("folders of different clusters: \"{}\" and \"{}\"", first.cluster, other.cluster);
            return Err(Failure::usage(why));
        }
    }
    let workers = |disk: &Read| disk.folder().summary.positions.len();
    match disks.iter().any(|disk| workers(disk) != workers(&disks[0])) {
        true => Err(Failure::usage("folders of nodes with different numbers of workers")),
        false => Ok(()),
    }
}

/// The outcome of all of them. The best comes first, with what others have more of; if one leads to a state.
fn judge(disks: &mut [Read], left_out: LeftOut) -> Result<Outcome> {
    let memberships = Memberships::of(disks.iter().map(|disk| disk.remains().memberships()).collect());
    let memberships = memberships.ok_or_else(|| {
        Failure::negative(
            "none of these nodes knows of a cluster: it never began, and nothing was acknowledged",
        )
    })?;
    let quorums = memberships.quorums();
    let named = |is: &dyn Fn(&Voter) -> bool| -> Vec<u8> {
        let mut named: Vec<u8> =
            quorums.voters().iter().filter(|voter| is(voter)).map(|voter| voter.node.0).collect();
        named.dedup();
        named
    };
    let refusing = disks.iter().filter(|disk| disk.survey.refuses.is_some()).map(Read::voter);
    let refusing: Vec<Voter> = refusing.chain(left_out.voters).collect();
    let damaged = named(&|voter| refusing.contains(voter));
    let lost = named(&|voter| !refusing.contains(voter) && disks.iter().all(|disk| disk.voter() != *voter));
    // Of what a damaged disk has lost nobody knows what it was, and its node does not start.
    let enough = quorums.reached(|node| disks.iter().any(|disk| disk.voter() == node && disk.is_whole()));
    let all_here = lost.is_empty() && damaged.is_empty();
    let leads = somebody_leads(disks, &quorums);
    let survivors: Vec<Survivor> = disks.iter().map(|disk| disk.survivor(&quorums)).collect();
    let all_moments: Vec<_> = disks.iter().flat_map(|disk| disk.remains().moments().to_vec()).collect();
    let certain = disks.iter().filter_map(|disk| disk.decided).max();
    let held = |disk: &Read| disk.held.unwrap_or_default();
    let best = Remains::best(disks.iter().map(|disk| (disk.remains(), held(disk))));
    let mut taken = Taken::default();
    if let Some(best) = best {
        disks.swap(0, best);
        taken = take_best(disks)?;
    }
    let best = best.and_then(|_| disks.first());
    let held = best.and_then(|best| best.held);
    Ok(Outcome {
        survivors,
        unreadable: left_out.folders,
        voters: nodes(&memberships.settled),
        pending: memberships
            .pending
            .iter()
            .map(|members| Pending { epoch: members.epoch.0, voters: nodes(members) })
            .collect(),
        lost,
        damaged,
        majority: enough && leads,
        nobody_leads: enough && !leads,
        all_behind: !enough && all_here && leads,
        certain: certain.map(|mark| mark.0),
        certain_about: certain.and_then(|mark| wall_clock::about(&all_moments, mark)),
        held: held.map(|mark| mark.0),
        held_about: held.and_then(|mark| wall_clock::about(&all_moments, mark)),
        best: best.map(|best| best.folder().name.clone()),
        better_streams: taken.better,
        short_streams: taken.short,
        written: Vec::new(),
        digest: None,
    })
}

/// Whether one of the voters whose nodes start could lead the others: its state is there, and goes on into the best of all their logs. (Two
/// followers that were copying when they lost the leader's disk are a majority, and have no state.)
fn somebody_leads(disks: &[Read], quorums: &Quorums) -> bool {
    let starts = |disk: &&Read| disk.survey.refuses.is_none() && quorums.voters().contains(&disk.voter());
    let starting: Vec<&Remains> = disks.iter().filter(starts).map(Read::remains).collect();
    starting.iter().any(|remains| remains.could_lead(&starting))
}

/// The first disk goes on with the best of all logs.
fn take_best(disks: &mut [Read]) -> Result<Taken> {
    let (best, others) = disks.split_first_mut().expect("one was read at least");
    let others: Vec<&Remains> = others.iter().map(|other| other.remains()).collect();
    let remains = &mut best.survey.folder.remains;
    let taken = remains.take_best(&others);
    best.held = Some(remains.read(Trust::Accepted).map_err(Failure::negative)?.latest());
    Ok(taken)
}

fn place(damage: &Damage) -> Place {
    Place { file: damage.file.clone(), offset: damage.offset, what: damage.what.clone() }
}

fn nodes(members: &Members) -> Vec<u8> {
    members.voters().iter().map(|voter| voter.node.0).collect()
}

fn found(args: &RecoverArgs, disks: &[Read], outcome: &mut Outcome) -> Result<()> {
    let (Some(to), Some(cluster)) = (&args.to, &args.cluster) else {
        return Err(Failure::usage("--accept-loss needs --to and --cluster"));
    };
    let known = disks.iter().map(|disk| disk.identity().node.0).chain(outcome.voters.iter().copied());
    names_nodes(&args.founders, &known.collect::<Vec<u8>>())?;
    let best = disks[0].folder();
    let had = NonZeroU16::new(best.summary.positions.len() as u16 - 1).unwrap_or(NonZeroU16::MIN);
    let founding = args.founders.founding(cluster, had)?;
    founding.check(to).map_err(Failure::cannot_start)?;
    let reading = best.remains.read(Trust::Accepted).map_err(Failure::negative)?;
    let moment = reading.latest();
    let (store, _) = best.state_at(&reading, moment).map_err(Failure::negative)?;
    for voter in &founding.voters {
        let path = founding.write(to, *voter, &store, moment).map_err(Failure::cannot_start)?;
        outcome.written.push(path.display().to_string());
    }
    outcome.digest = Some(format!("{:032x}", store.digest().hash));
    Ok(())
}

#[cfg(test)]
mod tests {
    use highwater_core::{Epoch, Incarnation, NodeId};

    use super::*;

    fn members(epoch: u64, nodes: &[u8]) -> Members {
        let voter = |node: &u8| Voter { node: NodeId(*node), incarnation: Incarnation(1) };
        Members::new(Epoch(epoch), nodes.iter().map(voter).collect())
    }

    /// Node 2 was being replaced by node 3 when nodes 1 and 2 were lost: nodes 0 and 3 are a majority of those to come, and cannot go on
    /// without one of nodes 1 and 2. They were taken for a majority, and the loss could not be accepted.
    #[test]
    fn while_a_change_is_pending_both_memberships_need_a_majority() {
        let (before, after) = (members(4, &[0, 1, 2]), members(6, &[0, 1, 3]));
        let disks = || {
            vec![
                vec![before.clone(), members(5, &[0, 1, 2]), after.clone()],
                vec![members(3, &[0, 1, 2]), after.clone()],
            ]
        };
        let memberships = Memberships::of(disks()).unwrap();
        assert_eq!((nodes(&memberships.settled), memberships.pending.len()), (vec![0, 1, 2], 1));
        let reached = |memberships: &Memberships, here: &[u8]| {
            memberships.quorums().reached(|voter| here.contains(&voter.node.0))
        };
        assert!(!reached(&memberships, &[0, 3]), "of those before a majority is lost");
        assert!(!reached(&memberships, &[0, 2]), "and here of those to come");
        assert!(reached(&memberships, &[0, 1]) && reached(&memberships, &[0, 2, 3]));
        // Somebody knows that it was made.
        let mut disks = disks();
        disks.push(vec![after]);
        let memberships = Memberships::of(disks).unwrap();
        assert!(
            memberships.pending.is_empty()
                && reached(&memberships, &[0, 3])
                && !reached(&memberships, &[0, 2])
        );
        assert!(Memberships::of(vec![Vec::new()]).is_none());
    }
}
