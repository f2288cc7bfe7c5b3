//! `highwater member`: who belongs to a cluster, and changes of that. Each is one command that may be repeated: it asks the leader
//! again and again until it is done, and says what it waits for meanwhile.

use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant};

use clap::{Args, Subcommand};
use highwater_core::limits::MAX_NODE_ID;
use highwater_node::admin::protocol::{MemberRequest, MemberState, StatusReport};
use highwater_node::config::NodeConfig;
use serde::Serialize;

use crate::admin::{AdminClient, AdminError, MemberReply, failure_at};
use crate::answers;
use crate::failure::{Failure, Result};
use crate::status::{host_and_port, levels, votes};
use crate::{admin_stream, serve};

/// Between two questions.
const ASK_EVERY: Duration = Duration::from_millis(200);
/// How long a replica may take to answer.
const PATIENCE: Duration = Duration::from_secs(2);

/// `highwater member`.
#[derive(Debug, Subcommand)]
pub enum MemberAction {
    /// Show the members, where they are found, and who was removed.
    List(Where),
    /// Let a node vote once it runs and holds everything; waits until it does.
    Add {
        /// Its id: one that no node of this cluster ever had.
        id: u8,
        /// What it needs.
        #[command(flatten)]
        new: New,
    },
    /// Take a node's vote, for ever; running or not. Its id is never used again.
    Remove {
        /// Its id.
        id: u8,
        /// Where to ask.
        #[command(flatten)]
        ask: Where,
        /// How long to wait.
        #[command(flatten)]
        wait: Wait,
    },
    /// Let another node vote in the place of one, in one step; without `--by`: the node has moved to other addresses.
    Replace {
        /// The id of the node that goes.
        id: u8,
        /// The id of the node that comes.
        #[arg(long, value_name = "ID")]
        by: Option<u8>,
        /// What that one needs.
        #[command(flatten)]
        new: New,
    },
}

/// Whom to ask: any member.
#[derive(Debug, Args)]
pub struct Where {
    /// Ask the nodes of this config.
    #[arg(long, short, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Ask the replica at this admin address instead; names are resolved.
    #[arg(long, value_name = "HOST:PORT", value_parser = host_and_port)]
    pub admin: Option<String>,
    /// Print JSON: a line for each thing that it waits for, and one for the end.
    #[arg(long)]
    pub json: bool,
}

/// How long to wait.
#[derive(Debug, Args)]
pub struct Wait {
    /// Give up after so many seconds; what was begun may still happen.
    #[arg(long, value_name = "SECONDS", default_value_t = 3600)]
    pub timeout: u64,
}

/// A node that comes.
#[derive(Debug, Args)]
pub struct New {
    /// Where it is found, if `--config` does not list it: where nodes, Redis clients and operators connect.
    #[arg(long, value_name = "PEER,RESP,ADMIN", value_parser = addresses)]
    pub addresses: Option<Addresses>,
    /// The addresses are right, whatever the node's own config says: ports are mapped in between, say.
    #[arg(long)]
    pub as_given: bool,
    /// Where to ask.
    #[command(flatten)]
    pub ask: Where,
    /// How long to wait.
    #[command(flatten)]
    pub wait: Wait,
}

/// A node's three addresses.
#[derive(Clone, Debug)]
pub struct Addresses([String; 3]);

fn addresses(text: &str) -> std::result::Result<Addresses, String> {
    let parts = text.split(',').map(host_and_port).collect::<std::result::Result<Vec<_>, _>>()?;
    let three = parts.try_into().map_err(|_| "write three addresses: PEER,RESP,ADMIN".to_string())?;
    Ok(Addresses(three))
}

/// Runs `highwater member`.
pub fn run(action: &MemberAction) -> Result<()> {
    match action {
        MemberAction::List(ask) => list(ask),
        MemberAction::Add { id, new } => {
            let node = new.node(*id)?;
            let done = format!("node {id} is a member");
            change(&new.ask, &new.wait, &MemberRequest::Add { node, as_given: new.as_given }, &done)
        }
        MemberAction::Remove { id, ask, wait } => {
            let done = format!("node {id} is no member any more; its id is not used again");
            change(ask, wait, &MemberRequest::Remove { id: *id }, &done)
        }
        MemberAction::Replace { id, by, new } => {
            let node = new.node(by.unwrap_or(*id))?;
            let done = match by.filter(|by| by != id) {
                Some(by) => format!("node {by} is a member in the place of node {id}"),
                None => format!("node {id} has moved"),
            };
            change(
                &new.ask,
                &new.wait,
                &MemberRequest::Replace { id: *id, node, as_given: new.as_given },
                &done,
            )
        }
    }
}

impl New {
    /// The node, with its addresses from the command line or the config.
    fn node(&self, id: u8) -> Result<NodeConfig> {
        if id > MAX_NODE_ID {
            return Err(Failure::usage(format!("ids of nodes go up to {MAX_NODE_ID}")));
        }
        if let Some(Addresses([peer, resp, admin])) = self.addresses.clone() {
            return Ok(NodeConfig { id, peer, resp, admin, announce: None });
        }
        let listed = match &self.ask.config {
            Some(_) => self.ask.nodes()?.into_iter().find(|node| node.id == id),
            None => None,
        };
        listed.ok_or_else(|| {
            Failure::usage(format!("where is node {id}? Give --addresses, or a --config that lists it"))
        })
    }
}

impl Where {
    fn nodes(&self) -> Result<Vec<NodeConfig>> {
        let config = serve::load(self.config.as_deref(), &[])?;
        admin_stream::speak_as(&config)?;
        Ok(config.cluster.nodes)
    }

    /// Where to ask, the first one first.
    fn admins(&self) -> Result<Vec<String>> {
        match &self.admin {
            Some(admin) => Ok(vec![admin.clone()]),
            None => Ok(self.nodes()?.into_iter().map(|node| node.admin).collect()),
        }
    }
}

/// Somebody must have answered by then.
const UNANSWERED: Duration = Duration::from_secs(10);

/// Asks until it is done.
fn change(ask: &Where, wait: &Wait, request: &MemberRequest, done: &str) -> Result<()> {
    let admins = ask.admins()?;
    let (begun, patience) = (Instant::now(), Duration::from_secs(wait.timeout));
    let (mut at, mut target) = (0, admins[0].clone());
    let (mut last, mut answered) = (String::new(), false);
    loop {
        let answer = ask_member(&target, request);
        answered |= answer.is_ok();
        let waits = match answer {
            Ok(MemberReply { state: MemberState::Done, .. }) => {
                say(ask.json, "done", done);
                return Ok(());
            }
            Ok(MemberReply { state: MemberState::Refused, why, .. }) => return Err(Failure::negative(why)),
            Ok(MemberReply { state: MemberState::Waits, why, .. }) => why,
            Ok(MemberReply { leader, admin, .. }) => match (leader, admin) {
                (Some(leader), Some(admin)) if admin != target => {
                    target = admin;
                    format!("node {leader} leads")
                }
                // A loopback address of another machine, say.
                (Some(leader), Some(admin)) => {
                    at += 1;
                    target = admins[at % admins.len()].clone();
                    format!(
                        "node {leader}, which leads, is not found at {admin} from here: ask on its machine"
                    )
                }
                _ => {
                    at += 1;
                    target = admins[at % admins.len()].clone();
                    "no leader is known: the cluster is not founded yet, or elects one".into()
                }
            },
            Err(AdminError::Refused(why)) => return Err(Failure::negative(why)),
            Err(AdminError::Confused(why)) => return Err(failure_at(&target, AdminError::Confused(why))),
            Err(error) => {
                let failure = failure_at(&target, error);
                // A wrong address, most likely.
                if !answered && begun.elapsed() >= UNANSWERED {
                    return Err(failure);
                }
                let why = failure.to_string();
                at += 1;
                target = admins[at % admins.len()].clone();
                why
            }
        };
        if waits != last {
            say(ask.json, "waits", &waits);
            last = waits;
        }
        if begun.elapsed() >= patience {
            return Err(Failure::unavailable(format!("not done within {} s: {last}", wait.timeout)));
        }
        thread::sleep(ASK_EVERY);
    }
}

fn ask_member(admin: &str, request: &MemberRequest) -> std::result::Result<MemberReply, AdminError> {
    AdminClient::connect_to(admin, PATIENCE)?.member(request)
}

fn say(json: bool, what: &str, text: &str) {
    match (json, what) {
        (true, _) => println!("{}", serde_json::json!({ what: text })),
        (false, "done") => println!("{text}"),
        (false, _) => println!("  {text} .."),
    }
}

/// A member, as `member list --json` shows it.
#[derive(Debug, Serialize)]
struct Listed {
    id: u8,
    /// Whether it votes: `yes`, `no`, or `down`, where its leader does not hear the life that did.
    votes: &'static str,
    lag: Option<u64>,
    /// What its build speaks, if it is connected: `1`, or `1-2`.
    levels: Option<String>,
    peer: String,
    resp: String,
    admin: String,
}

fn list(ask: &Where) -> Result<()> {
    let status = any_status(&ask.admins()?)?;
    let old = is_old(&status).then(|| match status.removed.contains(&status.node) {
        true => format!("node {} was removed: what it shows may be old", status.node),
        false if answers::leaderless(&status) => {
            format!("node {} knows of no node that takes requests: what it shows may be old", status.node)
        }
        false => format!("node {} knows of no leader: what it shows may be old", status.node),
    });
    // The leader knows more.
    let leading = status.leader.filter(|leader| *leader != status.node);
    let leader = leading.and_then(|leader| status.nodes.iter().find(|node| node.id == leader));
    let asked =
        leader.and_then(|leader| AdminClient::connect_to(&leader.admin, PATIENCE).ok()?.status().ok());
    let status = asked.filter(|other| Some(other.node) == leading).unwrap_or(status);
    let listed: Vec<Listed> = status.members.iter().map(|member| listed(&status, member)).collect();
    if ask.json {
        let line = serde_json::json!({
            "leader": status.leader, "epoch": status.epoch, "level": status.level, "held_back_by": status.held_back_by,
            "members": listed, "removed": status.removed, "may_be_old": old
        });
        println!("{line}");
        return Ok(());
    }
    println!("node  votes  lag    levels  peer                   resp                   admin");
    for Listed { id, votes, lag, levels, peer, resp, admin } in &listed {
        let lag = lag.map_or("-".into(), |lag| lag.to_string());
        let leads = status.leader == Some(*id) && !answers::leaderless(&status);
        let leads = if leads { "  leads" } else { "" };
        let levels = levels.as_deref().unwrap_or("-");
        println!("{id:>4}  {votes:<5}  {lag:<5}  {levels:<6}  {peer:<21}  {resp:<21}  {admin}{leads}");
    }
    if let Some(level) = status.level_in_use() {
        println!("{level}");
    }
    if !status.removed.is_empty() {
        let removed: Vec<String> = status.removed.iter().map(u8::to_string).collect();
        println!("removed, never to be used again: {}", removed.join(", "));
    }
    if let Some(old) = old {
        println!("{old}");
    }
    Ok(())
}

fn listed(status: &StatusReport, member: &highwater_node::admin::protocol::MemberReport) -> Listed {
    let found = status.nodes.iter().find(|node| node.id == member.node);
    let address = |of: fn(&NodeConfig) -> &String| found.map_or("-".into(), |node| of(node).clone());
    Listed {
        id: member.node,
        votes: votes(member),
        lag: member.lag,
        levels: member.levels.map(levels),
        peer: address(|node| &node.peer),
        resp: address(|node| &node.resp),
        admin: address(|node| &node.admin),
    }
}

/// What the first one says that belongs to the cluster and knows a leader; else what the first one says that answers.
fn any_status(admins: &[String]) -> Result<StatusReport> {
    let (mut why, mut first) = (None, None);
    for admin in admins {
        match AdminClient::connect_to(admin, PATIENCE).and_then(|mut client| client.status()) {
            Ok(status) if !is_old(&status) => return Ok(status),
            Ok(status) => first = first.or(Some(status)),
            Err(error) => why = why.or(Some(failure_at(admin, error))),
        }
    }
    first.ok_or_else(|| why.expect("a config lists nodes"))
}

/// Whether others may know better who belongs.
fn is_old(status: &StatusReport) -> bool {
    status.leader.is_none() || status.removed.contains(&status.node)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_addresses_are_three() {
        assert!(addresses("a:1,b:2,c:3").is_ok());
        assert!(addresses("a:1,b:2").unwrap_err().contains("three"));
        assert!(addresses("a:1,b,c:3").unwrap_err().contains("host:port"));
    }
}
