//! The whole cluster: every node is asked, all at once, and each has a line, the silent ones too.
//!
//! Whether the cluster can serve is its leader's word: a leader without trouble has a majority. Where the leader cannot be
//! asked because its admin port is on its own machine's loopback, a follower's word counts instead. Where nobody leads, any node that
//! serves speaks for the cluster.

use std::fmt::Write;

use highwater_core::threads::share_out;
use highwater_engines::EngineKind;
use highwater_node::admin::protocol::{DiskReport, MemberReport, StatusReport};
use serde::Serialize;

use super::place::{Look, Place, ask};
use super::replica::{levels, votes};
use crate::admin::failure_at;
use crate::answers;
use crate::failure::{Failure, Result};
use crate::numbers::bytes;

/// A node, as far as it can be known from here.
#[derive(Clone, Debug, Serialize)]
struct View {
    node: u8,
    /// Where it was asked.
    admin: String,
    /// What it said of itself.
    status: Option<StatusReport>,
    /// Why it said nothing.
    silent: Option<String>,
    /// Its admin address leads to another node: it is of another machine's loopback, and nothing is known.
    elsewhere: bool,
}

/// All of them.
#[derive(Clone, Debug, Serialize)]
struct Cluster {
    /// Why it cannot serve, if it cannot.
    trouble: Option<String>,
    /// Who leads. Nobody, if that is how the engine is.
    leader: Option<u8>,
    /// Whose word counts: the leader's, or that of a node that serves where none leads.
    #[serde(skip)]
    speaker: Option<u8>,
    /// Where none leads: all that serve.
    #[serde(skip_serializing_if = "Option::is_none")]
    serving: Option<Vec<u8>>,
    /// Why no node may be restarted now, which loses its memory; `None`: one may.
    no_restart: Option<String>,
    /// Every node, by id.
    nodes: Vec<View>,
}

/// Asks all nodes.
pub fn look(place: &Place, json: bool) -> Result<Look> {
    let (admins, known) = match place {
        Place::Config { admins, .. } => (admins.clone(), None),
        Place::Replica(admin) => {
            let status = ask(admin).map_err(|error| failure_at(admin, error))?;
            // Empty where there is no node of that id.
            let admins = (0..).zip(status.admins.clone()).filter(|(_, admin)| !admin.is_empty());
            (admins.collect(), Some((admin.clone(), status)))
        }
    };
    let mut nodes = ask_all(&admins);
    if let Some((admin, status)) = known {
        let at = nodes.iter().position(|view| view.node == status.node);
        // Under the address that led to it, which may be another than its config says.
        let view = View { node: status.node, admin, status: Some(status), silent: None, elsewhere: false };
        match at {
            Some(at) => nodes[at] = view,
            None => nodes.push(view),
        }
    }
    let unlisted = unlisted(&nodes);
    nodes.extend(ask_all(&unlisted));
    nodes.sort_by_key(|view| view.node);
    let cluster = Cluster::of(nodes);
    let text = if json {
        serde_json::to_string(&cluster).map_err(Failure::negative)? + "\n"
    } else {
        cluster.render()
    };
    let trouble = cluster.trouble.map(|trouble| format!("the cluster cannot serve: {trouble}"));
    Ok((text, trouble.map_or(Ok(()), |trouble| Err(Failure::unavailable(trouble)))))
}

/// Members that nobody has asked yet, and where to: added since the config was written, say. By the word of who knows the newest epoch.
fn unlisted(nodes: &[View]) -> Vec<(u8, String)> {
    let belongs = |status: &&StatusReport| !status.removed.contains(&status.node);
    let newest = nodes.iter().filter_map(|view| view.status.as_ref()).filter(belongs);
    let knowledge = |status: &&StatusReport| (status.epoch, status.leader == Some(status.node));
    let Some(newest) = newest.max_by_key(knowledge) else { return Vec::new() };
    let listed = |id: u8| nodes.iter().any(|view| view.node == id);
    let admin = |id: u8| newest.nodes.iter().find(|node| node.id == id).map(|node| node.admin.clone());
    let new = newest.members.iter().map(|member| member.node).filter(|id| !listed(*id));
    new.map(|id| (id, admin(id).unwrap_or_default())).collect()
}

fn ask_all(admins: &[(u8, String)]) -> Vec<View> {
    let answers = share_out("asker", admins.iter().collect(), admins.len(), |(_, admin)| ask(admin));
    answers
        .into_iter()
        .zip(admins)
        .map(|(answer, (node, admin))| {
            let node = *node;
            let view =
                |status, silent, elsewhere| View { node, admin: admin.clone(), status, silent, elsewhere };
            match answer {
                Ok(status) if status.node == node => view(Some(status), None, false),
                Ok(status) => {
                    let other = status.node;
                    let why = format!("{admin} is node {other}'s here: ask on node {node}'s machine");
                    view(None, Some(why), true)
                }
                Err(error) => view(None, Some(failure_at(admin, error).to_string()), false),
            }
        })
        .collect()
}

impl Cluster {
    fn of(nodes: Vec<View>) -> Cluster {
        let (speaker, trouble) = match judge(&nodes) {
            Ok(leader) => (Some(leader), None),
            Err((leader, trouble)) => (leader, Some(trouble)),
        };
        let statuses = || nodes.iter().filter_map(|view| view.status.as_ref());
        let serving = is_leaderless(&nodes)
            .then(|| statuses().filter(|status| status.serves()).map(|status| status.node).collect());
        let leader = speaker.filter(|_| serving.is_none());
        let mut cluster = Cluster { trouble, leader, speaker, serving, no_restart: None, nodes };
        cluster.no_restart = cluster.why_no_restart();
        cluster
    }

    /// The status of whoever speaks for the cluster; nothing if it did not answer.
    fn word(&self) -> Option<&StatusReport> {
        self.nodes.iter().find(|view| Some(view.node) == self.speaker)?.status.as_ref()
    }

    /// What a node's leader says of it; nothing if no leader answered.
    fn membership(&self, node: u8) -> Option<&MemberReport> {
        let leading = self.word()?;
        leading.members.iter().find(|member| member.node == node)
    }

    fn render(&self) -> String {
        let mut text = format!(
            "{:<5} {:<22} {:<10} {:>6}  {:<5}  {:>8}  {:>9}  {:>10}  {:>8}  {:<6}  {}\n",
            "node",
            "admin",
            "role",
            "epoch",
            "votes",
            "lag",
            "freshness",
            "memory",
            "clients",
            "levels",
            "trouble"
        );
        for view in &self.nodes {
            let member = self.membership(view.node);
            let votes = member.map_or("-", votes);
            let (node, admin) = (view.node, &view.admin);
            // Writing to a string does not fail.
            let _ = match &view.status {
                Some(status) => {
                    // The leader knows what a node has not acknowledged; each knows what it has not applied.
                    let lag = member
                        .and_then(|member| member.lag)
                        .or_else(|| answers::lag(status, status))
                        .map_or("-".into(), |lag| lag.to_string());
                    let StatusReport { role, epoch, clients, .. } = status;
                    let memory = bytes(status.resident_bytes);
                    let fresh = status.freshness_ms.map_or("-".into(), |ms| format!("{ms} ms"));
                    writeln!(
                        text,
                        "{node:<5} {admin:<22} {role:<10} {epoch:>6}  {votes:<5}  {lag:>8}  {fresh:>9}  {memory:>10}  {clients:>8}  {:<6}  {}",
                        status.levels.map_or("-".into(), levels),
                        trouble_of(status)
                    )
                }
                None => {
                    let removed = self.was_removed(node);
                    let role = match view.elsewhere {
                        _ if removed => "removed",
                        true => "unknown",
                        false => "silent",
                    };
                    let lag = member.and_then(|member| member.lag);
                    let lag = lag.map_or("-".into(), |lag| lag.to_string());
                    let why = match removed {
                        true => "it was removed, and may be taken out of the file",
                        false => view.silent.as_deref().unwrap_or("-"),
                    };
                    writeln!(
                        text,
                        "{node:<5} {admin:<22} {role:<10} {:>6}  {votes:<5}  {lag:>8}  {:>9}  {:>10}  {:>8}  {:<6}  {why}",
                        "-", "-", "-", "-", "-"
                    )
                }
            };
        }
        if let Some(level) = self.level() {
            let _ = writeln!(text, "{level}");
        }
        if let Some(requests) = self.who_takes_requests() {
            let _ = writeln!(text, "{requests}");
        }
        if self.speaker.is_some() {
            let _ = match &self.no_restart {
                None => writeln!(text, "every node votes with complete data: one may be restarted"),
                Some(why) => writeln!(text, "{why}"),
            };
        }
        text
    }

    /// The level in use, by the leader's word, and who keeps it from being raised.
    fn level(&self) -> Option<String> {
        self.word()?.level_in_use()
    }

    /// Where none leads: who takes requests, in words.
    fn who_takes_requests(&self) -> Option<String> {
        let serving = self.serving.as_ref()?;
        let names: Vec<String> = serving.iter().map(u8::to_string).collect();
        Some(match (serving.len(), self.nodes.len()) {
            (0, _) => "no node takes requests".into(),
            (some, all) if some == all => "every node takes requests".into(),
            (1, _) => format!("node {} takes requests", names[0]),
            _ => format!("nodes {} take requests", names.join(", ")),
        })
    }

    /// A restart loses what the node holds: the others must be a majority with complete data, and take it back.
    fn why_no_restart(&self) -> Option<String> {
        let nodes = self.nodes.iter().filter(|view| !self.was_removed(view.node)).count();
        if let Some(why) = not_built(&self.nodes) {
            return Some(why);
        }
        let engine =
            self.nodes.iter().find_map(|view| view.status.as_ref()?.engine.parse::<EngineKind>().ok());
        if let Some(engine) = engine.filter(|engine| !engine.abilities().fails_over) {
            return Some(format!("{engine} takes no node back: a restart of any loses its data"));
        }
        if nodes < 3 {
            return Some(format!("of {nodes} nodes none may be restarted: the rest would be no majority"));
        }
        let why = self.find_incomplete()?;
        let margin = self.margin().unwrap_or_default();
        Some(format!("{why}: restart no other node before that is over{margin}"))
    }

    /// How many voters are there by the leader's word, and what one more loss means, if some are not.
    fn margin(&self) -> Option<String> {
        let voters =
            || self.word().into_iter().flat_map(|status| &status.members).filter(|member| member.voter);
        let (up, all) = (voters().filter(|member| member.connected != Some(false)).count(), voters().count());
        let then = if up <= all / 2 + 1 { ": one more loss stops service" } else { "" };
        (up < all).then(|| format!(" ({up} of {all} voters are up{then})"))
    }

    /// Whether that is the leader's word of a node.
    fn was_removed(&self, node: u8) -> bool {
        self.word().is_some_and(|status| status.removed.contains(&node))
    }

    /// Who does not vote with complete data, in words: what another node holds must not be lost meanwhile.
    fn find_incomplete(&self) -> Option<String> {
        self.nodes.iter().filter(|view| !self.was_removed(view.node)).find_map(|view| {
            let node = view.node;
            let Some(member) = self.membership(node) else {
                return Some(format!("node {node} does not vote yet"));
            };
            let life = view.status.as_ref().map(|status| &status.incarnation);
            let another = life.is_some_and(|life| *life != member.incarnation);
            match &view.status {
                _ if !member.voter => Some(format!("node {node} does not vote yet")),
                _ if another => {
                    Some(format!("node {node} came back without its memory, and does not vote yet"))
                }
                _ if member.connected == Some(false) => {
                    Some(format!("node {node} is down, or its leader does not hear it"))
                }
                Some(status) if status.copying_bytes.is_some() => {
                    Some(format!("node {node} copies the state"))
                }
                Some(status) if status.forgets => {
                    Some(format!("node {node} catches up with what it may have forgotten in a crash"))
                }
                Some(StatusReport { disk: Some(DiskReport { trouble: Some(trouble), .. }), .. }) => {
                    Some(format!("the files of node {node} are not as they should be ({trouble})"))
                }
                None if !view.elsewhere => Some(format!("node {node} does not answer")),
                _ => None,
            }
        })
    }
}

fn trouble_of(status: &StatusReport) -> String {
    let trouble = match (&status.trouble, status.copying_bytes) {
        (Some(trouble), _) => trouble.clone(),
        (None, Some(copied)) => format!("copies the state, {} so far", bytes(copied)),
        (None, None) => "-".into(),
    };
    match &status.refusals[..] {
        [] => trouble,
        refusals => format!("{trouble}; refused: {}", refusals.join(", ")),
    }
}

fn is_leaderless(nodes: &[View]) -> bool {
    nodes.iter().filter_map(|view| view.status.as_ref()).any(answers::leaderless)
}

/// Who is silent, as a tail of a sentence.
fn silent(nodes: &[View]) -> String {
    let silent = nodes.iter().filter(|view| view.status.is_none() && !view.elsewhere);
    let silent: Vec<String> = silent.map(|view| view.node.to_string()).collect();
    if silent.is_empty() { String::new() } else { format!("; silent: {}", silent.join(", ")) }
}

/// A node that serves without trouble, where none leads; else one that serves, and its trouble.
fn judge_leaderless(nodes: &[View]) -> std::result::Result<u8, (Option<u8>, String)> {
    let serving = nodes.iter().filter_map(|view| view.status.as_ref()).filter(|status| status.serves());
    let best = serving.max_by_key(|status| (status.epoch, status.trouble.is_none()));
    match best {
        Some(StatusReport { node, trouble: None, .. }) => Ok(*node),
        Some(StatusReport { node, trouble: Some(trouble), .. }) => {
            Err((Some(*node), format!("node {node}: {trouble}")))
        }
        None => Err((None, format!("no node takes requests{}", silent(nodes)))),
    }
}

fn not_built(nodes: &[View]) -> Option<String> {
    answers::not_built(nodes.iter().filter_map(|view| view.status.as_ref()))
}

/// Who leads a cluster that can serve; else who leads it all the same, if anybody, and why it cannot.
fn judge(nodes: &[View]) -> std::result::Result<u8, (Option<u8>, String)> {
    if let Some(why) = not_built(nodes) {
        return Err((None, why));
    }
    if is_leaderless(nodes) {
        return judge_leaderless(nodes);
    }
    let answering = || nodes.iter().filter_map(|view| view.status.as_ref());
    let reports: Vec<_> = nodes.iter().map(|view| view.status.clone()).collect();
    // A deposed one may not have heard of it yet.
    if let Some(leader) = answers::serving(&reports)
        .and_then(|node| answering().find(|status| usize::from(status.node) == node))
    {
        let node = leader.node;
        return match &leader.trouble {
            None => Ok(node),
            Some(trouble) => Err((Some(node), format!("node {node} leads, but: {trouble}"))),
        };
    }
    let followers = answering().filter(|status| status.trouble.is_none() && status.leader.is_some());
    let word = followers.max_by_key(|status| status.epoch).and_then(|status| status.leader);
    match word.and_then(|leader| nodes.iter().find(|view| view.node == leader)) {
        Some(leader) if leader.elsewhere => Ok(leader.node),
        Some(leader) => {
            Err((None, format!("node {}, which is said to lead, does not say so itself", leader.node)))
        }
        None => Err((None, format!("no node leads{}", silent(nodes)))),
    }
}

#[cfg(test)]
mod tests {
    use highwater_node::admin::protocol::LevelsReport;

    use super::*;
    use crate::status::replica::tests::{leaderless, report};

    fn view(node: u8, role: &str, epoch: u64, leader: Option<u8>, trouble: Option<&str>) -> View {
        let status = StatusReport {
            node,
            role: role.into(),
            service: match role {
                "leader" => "serving",
                "learner" => "joining",
                _ => "standby",
            }
            .into(),
            epoch,
            leader,
            trouble: trouble.map(Into::into),
            copying_bytes: None,
            ..report()
        };
        View {
            node,
            admin: format!("10.0.0.{node}:7300"),
            status: Some(status),
            silent: None,
            elsewhere: false,
        }
    }

    fn silent(node: u8, elsewhere: bool) -> View {
        let silent = Some(format!("no answer within 2 s from 10.0.0.{node}:7300"));
        View { node, admin: format!("10.0.0.{node}:7300"), status: None, silent, elsewhere }
    }

    #[test]
    fn a_leader_without_trouble_is_a_cluster_that_serves() {
        let nodes =
            [view(0, "leader", 3, Some(0), None), silent(1, false), view(2, "follower", 3, Some(0), None)];
        assert_eq!(judge(&nodes), Ok(0));
        // One that was deposed and has not heard of it counts for nothing.
        let nodes = [view(0, "leader", 3, Some(0), Some("no quorum")), view(1, "leader", 4, Some(1), None)];
        assert_eq!(judge(&nodes), Ok(1));
    }

    #[test]
    fn a_cluster_that_cannot_serve_says_why() {
        let why = |nodes: &[View]| judge(nodes).unwrap_err().1;
        let lonely = [view(0, "leader", 3, Some(0), Some("no quorum")), silent(1, false), silent(2, false)];
        assert_eq!(why(&lonely), "node 0 leads, but: no quorum");
        // What a follower believes of a leader that does not answer is no service.
        let orphan = [silent(0, false), view(1, "follower", 3, Some(0), None), silent(2, false)];
        assert_eq!(why(&orphan), "node 0, which is said to lead, does not say so itself");
        assert_eq!(why(&[silent(0, false), silent(1, false)]), "no node leads; silent: 0, 1");
        assert_eq!(why(&[view(0, "candidate", 3, None, Some("election"))]), "no node leads");
    }

    #[test]
    fn without_a_leader_any_node_that_serves_speaks_for_the_cluster() {
        let view = |status: StatusReport| View { status: Some(status), ..silent(0, false) };
        let at = |node: u8, service: &str| View { node, ..view(leaderless(node, service)) };
        let all = Cluster::of(vec![at(0, "serving"), at(1, "serving"), at(2, "serving")]);
        assert!(all.trouble.is_none() && all.leader.is_none() && all.no_restart.is_none());
        assert!(all.render().contains("every node takes requests\n"), "{}", all.render());
        let some = Cluster::of(vec![at(0, "serving"), at(1, "joining"), silent(2, false)]);
        assert_eq!((some.trouble.as_ref(), some.serving.as_deref()), (None, Some(&[0][..])));
        let text = some.render();
        assert!(text.contains("node 0 takes requests\n") && !text.contains("lead"), "{text}");
        assert!(some.no_restart.unwrap().contains("node 2 does not answer"));
        let none = Cluster::of(vec![at(1, "standby"), silent(2, false)]);
        assert_eq!(none.trouble.as_deref(), Some("no node takes requests; silent: 2"));
    }

    #[test]
    fn a_cluster_of_an_engine_that_this_build_lacks_is_not_judged() {
        let mut leading = view(0, "leader", 3, Some(0), None);
        leading.status.as_mut().unwrap().engine = "foreign".into();
        let reports = [leading.status.clone(), None];
        let cluster = Cluster::of(vec![leading, silent(1, false)]);
        let trouble = cluster.trouble.unwrap();
        assert!(trouble.contains("foreign") && !trouble.contains("no node leads"), "{trouble}");
        assert_eq!(cluster.no_restart, Some(trouble.clone()));
        assert_eq!(answers::healthy(&reports), Err(trouble.clone()));
        assert_eq!(answers::converged(&reports), Err(trouble));
    }

    #[test]
    fn where_the_leader_cannot_be_asked_a_follower_speaks_for_it() {
        let nodes = [silent(0, true), view(1, "follower", 3, Some(0), None), silent(2, true)];
        assert_eq!(judge(&nodes), Ok(0));
    }

    #[test]
    fn every_node_has_a_line_and_silent_ones_are_named() {
        let mut leading = view(0, "leader", 3, Some(0), None);
        let member = |node, lag| MemberReport {
            node,
            incarnation: "ab".into(),
            voter: true,
            levels: None,
            connected: Some(true),
            lag: Some(lag),
            silent_ms: Some(0),
        };
        leading.status.as_mut().unwrap().members = vec![member(0, 0), member(1, 17), member(2, 5)];
        let nodes = vec![leading, view(1, "follower", 3, Some(0), None), silent(2, false)];
        let text = Cluster::of(nodes).render();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 6, "{text}");
        assert_eq!(lines[4], "level 1 is in use");
        assert!(lines[5].starts_with("node 2 does not answer: restart no other"), "{text}");
        assert!(lines[2].contains("follower") && lines[2].contains(" 17 "), "{text}");
        assert!(lines[0].contains("freshness") && lines[2].contains(" 23 ms "), "{text}");
        assert!(lines[3].contains("silent") && lines[3].contains("no answer within 2 s"), "{text}");
    }

    #[test]
    fn the_level_in_use_is_shown_and_who_holds_it_back() {
        let mut leading = view(0, "leader", 3, Some(0), None);
        let status = leading.status.as_mut().unwrap();
        (status.level, status.levels) = (Some(1), Some(LevelsReport { oldest: 1, newest: 2 }));
        let line = |leading: View| Cluster::of(vec![leading]).render();
        let text = line(leading.clone());
        assert!(text.contains("level 1 is in use\n") && text.contains("  1-2 "), "{text}");
        leading.status.as_mut().unwrap().held_back_by = vec![1, 2];
        let text = line(leading);
        assert!(text.contains("level 1 is in use; for level 2 upgrade and start node 1, 2\n"), "{text}");
    }

    /// Once: `status --cluster` with a config from before a member was added did not ask that one, and allowed a restart
    /// that cost the majority; after a removal it never allowed one.
    #[test]
    fn a_member_that_no_config_lists_counts_and_one_that_was_removed_does_not() {
        let member = |node| MemberReport {
            node,
            incarnation: "ab".into(),
            voter: true,
            levels: None,
            connected: Some(true),
            lag: Some(0),
            silent_ms: Some(0),
        };
        let nodes = |members: &[u8]| {
            let mut nodes: Vec<View> = (0..3)
                .map(|node| view(node, if node == 0 { "leader" } else { "follower" }, 3, Some(0), None))
                .collect();
            let status = nodes[0].status.as_mut().unwrap();
            status.members = members.iter().copied().map(member).collect();
            nodes
        };
        let added = nodes(&[0, 1, 2, 3]);
        let unlisted = unlisted(&added);
        assert_eq!(unlisted, [(3, String::new())]);
        let with = |more: View| added.iter().cloned().chain([more]).collect();
        assert!(Cluster::of(with(silent(3, false))).no_restart.unwrap().contains("node 3 does not answer"));
        let up = view(3, "follower", 3, Some(0), None);
        assert_eq!(Cluster::of(with(up.clone())).no_restart, None);

        let mut replaced = nodes(&[0, 1, 3]);
        replaced[0].status.as_mut().unwrap().removed = vec![2];
        replaced.push(up);
        assert_eq!(Cluster::of(replaced).no_restart, None);
    }

    #[test]
    fn a_restart_is_allowed_only_where_the_rest_is_a_majority_with_complete_data() {
        let member = |node| MemberReport {
            node,
            incarnation: "ab".into(),
            voter: true,
            levels: None,
            connected: Some(true),
            lag: Some(0),
            silent_ms: Some(0),
        };
        let cluster = |count: u8, change: fn(&mut StatusReport)| {
            let mut nodes: Vec<View> = (0..count)
                .map(|node| view(node, if node == 0 { "leader" } else { "follower" }, 3, Some(0), None))
                .collect();
            nodes[0].status.as_mut().unwrap().members = (0..count).map(member).collect();
            nodes.iter_mut().for_each(|view| change(view.status.as_mut().unwrap()));
            Cluster::of(nodes).no_restart.unwrap_or_default()
        };
        assert_eq!(cluster(3, |_| ()), "");
        assert!(cluster(1, |_| ()).contains("none may be restarted"));
        assert!(cluster(2, |_| ()).contains("none may be restarted"));
        assert!(cluster(3, |status| status.engine = "backup".into()).contains("takes no node back"));
        assert!(cluster(3, |status| status.copying_bytes = Some(1)).contains("copies the state"));
        let lost = cluster(3, |status| {
            let trouble = Some("its folder was removed".into());
            let disk = DiskReport { low: false, full: true, ballast: 0, ballast_wanted: 0, trouble };
            status.disk = Some(disk);
        });
        assert!(lost.contains("the files of node 0") && lost.contains("its folder was removed"), "{lost}");
        let ended =
            |status: &mut StatusReport| status.members.iter_mut().for_each(|m| m.connected = Some(false));
        assert!(
            cluster(3, ended)
                .starts_with("node 0 is down, or its leader does not hear it: restart no other node")
        );
        let another = |status: &mut StatusReport| status.incarnation = "cd".into();
        assert!(
            cluster(3, another).starts_with("node 0 came back without its memory, and does not vote yet")
        );
    }

    #[test]
    fn what_one_more_loss_means_is_told_and_removed_nodes_are_none() {
        let mut leading = view(0, "leader", 3, Some(0), None);
        let status = leading.status.as_mut().unwrap();
        let member = |node| MemberReport {
            node,
            incarnation: "ab".into(),
            voter: true,
            levels: None,
            connected: Some(node != 2),
            lag: Some(0),
            silent_ms: Some(0),
        };
        status.members = (0..3).map(member).collect();
        status.removed = vec![3];
        let nodes = vec![leading, view(1, "follower", 3, Some(0), None), silent(2, false), silent(3, false)];
        let cluster = Cluster::of(nodes);
        assert_eq!(
            cluster.no_restart.as_deref(),
            Some(
                "node 2 is down, or its leader does not hear it: restart no other node before that is over (2 of 3 voters are up: one more loss \
                 stops service)"
            )
        );
        let text = cluster.render();
        let lines: Vec<&str> = text.lines().collect();
        assert!(lines[3].contains("silent") && lines[3].contains(" down "), "{text}");
        let refused = StatusReport {
            trouble: Some("waiting for node 1".into()),
            refusals: vec!["n1: cluster: the called node belongs to \"trial\"".into()],
            ..view(0, "starting", 0, None, None).status.unwrap()
        };
        assert_eq!(
            trouble_of(&refused),
            "waiting for node 1; refused: n1: cluster: the called node belongs to \"trial\""
        );
        assert!(lines[4].contains("removed") && lines[4].contains("may be taken out of the file"), "{text}");
    }
}
