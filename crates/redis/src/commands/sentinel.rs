//! `SENTINEL`: every node tells what Redis's sentinels would, so that clients which ask those find the leader. The monitored master has
//! the cluster's name; each node counts as a sentinel, too. Elections are the cluster's own: nothing is set, reset or forced here.

use highwater_core::NodeId;

use super::help;
use super::words::{integer, is};
use crate::Door;
use crate::command::entry::commands;
use crate::effort::{Effort, LOOK};
use crate::errors::CommandError;
use crate::reply::Reply;
use crate::request::Args;
use crate::topology::{Member, Shape, apart};

commands! {
    local(args, client, door, effort, reply);

    SENTINEL = 160 {
        run: sentinel(args, door, effort, reply),
        name: "sentinel", arity: -2, flags: LOADING | STALE, keys: NO_DATA, group: "sentinel", since: "2.8.4",
        summary: "A container for Sentinel commands",
        subcommands: subcommands! { "sentinel":
            "get-master-addr-by-name" 3 {
                categories: category::CONNECTION,
                docs: "
                    summary Return the address of the node that leads
                    since 0.1.0
                    - master-name: string
                ",
            }
            "masters" 2 {
                categories: category::CONNECTION,
                docs: "
                    summary List the one group of nodes
                    since 0.1.0
                ",
            }
            "master" 3 {
                categories: category::CONNECTION,
                docs: "
                    summary Describe the group of nodes by the one that leads
                    since 0.1.0
                    - master-name: string
                ",
            }
            "replicas" 3 {
                categories: category::CONNECTION,
                docs: "
                    summary List the nodes that do not lead
                    since 0.1.0
                    - master-name: string
                ",
            }
            "slaves" 3 {
                categories: category::CONNECTION,
                docs: "
                    summary List the nodes that do not lead
                    since 0.1.0
                    - master-name: string
                ",
            }
            "sentinels" 3 {
                categories: category::CONNECTION,
                docs: "
                    summary List the other nodes, each of which answers as a Sentinel
                    since 0.1.0
                    - master-name: string
                ",
            }
            "ckquorum" 3 {
                categories: category::CONNECTION,
                docs: "
                    summary Say whether a majority is there
                    since 0.1.0
                    - master-name: string
                ",
            }
            "myid" 2 {
                categories: category::CONNECTION,
                docs: "
                    summary Return the node's identity
                    since 0.1.0
                ",
            }
            "is-master-down-by-addr" 6 {
                categories: category::CONNECTION,
                docs: "
                    summary Say whether a node is taken to be dead
                    since 0.1.0
                    - ip: string
                    - port: integer
                    - current-epoch: integer
                    - runid: string
                ",
            }
            our_help "0.1.0" { categories: category::CONNECTION }
            "failover" 3 {
                categories: category::CONNECTION,
                docs: "
                    summary Refused: leads are handed over by operators
                    since 0.1.0
                    - master-name: string
                ",
            }
            "flushconfig" 2 {
                categories: category::CONNECTION,
                docs: "
                    summary Refused: nothing is set here
                    since 0.1.0
                ",
            }
            "monitor" 6 {
                categories: category::CONNECTION,
                docs: "
                    summary Refused: the cluster decides who leads
                    since 0.1.0
                    - name: string
                    - ip: string
                    - port: integer
                    - quorum: integer
                ",
            }
            "remove" 3 {
                categories: category::CONNECTION,
                docs: "
                    summary Refused: the cluster decides who leads
                    since 0.1.0
                    - master-name: string
                ",
            }
            "reset" 3 {
                categories: category::CONNECTION,
                docs: "
                    summary Refused: the cluster decides who leads
                    since 0.1.0
                    - pattern: pattern
                ",
            }
            "set" -5 {
                categories: category::CONNECTION,
                docs: "
                    summary Refused: nothing is set here
                    since 0.1.0
                    - master-name: string
                    - data: block multiple
                    -- option: string
                    -- value: string
                ",
            }
        },
    }
}

impl Door {
    /// The words that sentinels tell when another node leads: the cluster's name, where the one was found and where the other is. `None` if either is unknown.
    pub fn switched(&self, old: NodeId, new: NodeId) -> Option<String> {
        let [(old, old_port), (new, new_port)] = [apart(&self.address(old)?), apart(&self.address(new)?)];
        Some(format!("{} {old} {old_port} {new} {new_port}", (self.topology)().cluster))
    }
}

/// What is told of a node: names and values.
type Fields = Vec<(&'static str, String)>;

/// `SENTINEL GET-MASTER-ADDR-BY-NAME name | MASTERS | MASTER name | REPLICAS name | SENTINELS name | CKQUORUM name | MYID |
/// IS-MASTER-DOWN-BY-ADDR ip port epoch runid`
pub fn sentinel(
    mut args: Args<'_>,
    door: &Door,
    effort: &Effort,
    reply: &mut Reply<'_>,
) -> Result<(), CommandError> {
    effort.spend(2 * LOOK);
    let shape = Shape::of(door);
    let subcommand = args.promised()?.to_ascii_lowercase();
    let mut known = || match args.promised()? {
        name if is(name, &shape.topology.cluster) => Ok(()),
        _ => Err(CommandError::Text(NO_SUCH)),
    };
    match &subcommand[..] {
        b"get-master-addr-by-name" => {
            match shape.holder().filter(|_| known().is_ok() && shape.serving.is_some()) {
                Some(master) => {
                    reply.array(2);
                    reply.bulk(master.host.as_bytes());
                    reply.bulk(master.port.to_string().as_bytes());
                }
                None => reply.null_array(),
            }
        }
        b"masters" => tell_all(shape.holder().map(|member| master(&shape, member)).into_iter(), reply),
        b"master" => {
            known()?;
            let holder = shape.holder().ok_or(CommandError::Text(NO_SUCH))?;
            tell(&master(&shape, holder), reply);
        }
        b"replicas" | b"slaves" => {
            known()?;
            tell_all(shape.others().map(|member| replica(&shape, member)), reply);
        }
        b"sentinels" => {
            known()?;
            let others = shape.topology.members.iter().filter(|member| member.node != door.node);
            tell_all(others.map(|member| other_sentinel(&shape, member)), reply);
        }
        b"ckquorum" => {
            known()?;
            check_quorum(&shape, reply)?;
        }
        b"myid" => reply.bulk(shape.name(door.node).as_bytes()),
        b"is-master-down-by-addr" => {
            let (host, port) = (args.promised()?, integer(args.promised()?)?);
            let asked = |member: &&Member| is(host, &member.host) && port == i64::from(member.port);
            let down = shape.serving.is_none() && shape.holder().filter(asked).is_some();
            reply.array(3);
            reply.integer(i64::from(down));
            reply.bulk(b"*");
            reply.integer(0);
        }
        b"help" => help::help("SENTINEL", &USAGES, reply),
        _ => return Err(CommandError::Text(OPERATORS)),
    }
    Ok(())
}

const NO_SUCH: &str = "ERR No such master with that name";

const OPERATORS: &str = "ERR nothing is set up or forced here: the cluster elects its leader, and `highwater hand-over` moves the lead";

const USAGES: [&str; 8] = [
    "GET-MASTER-ADDR-BY-NAME <master-name>",
    "MASTERS",
    "MASTER <master-name>",
    "REPLICAS <master-name>",
    "SENTINELS <master-name>",
    "CKQUORUM <master-name>",
    "MYID",
    "IS-MASTER-DOWN-BY-ADDR <ip> <port> <current-epoch> <runid>",
];

/// More than half of the nodes.
fn quorum(shape: &Shape) -> usize {
    shape.topology.members.len() / 2 + 1
}

fn check_quorum(shape: &Shape, reply: &mut Reply<'_>) -> Result<(), CommandError> {
    let usable = shape.topology.members.iter().filter(|member| member.up).count();
    if usable < quorum(shape) {
        return Err(CommandError::Text(
            "NOQUORUM this node is connected to less than a majority: no leader can be elected from here",
        ));
    }
    reply.simple(&format!("OK {usable} usable Sentinels. Quorum and failover authorization can be reached"));
    Ok(())
}

fn common(shape: &Shape, member: &Member, name: String, flags: &str) -> Fields {
    vec![
        ("name", name),
        ("ip", member.host.clone()),
        ("port", member.port.to_string()),
        ("runid", shape.name(member.node)),
        ("flags", flags.to_string()),
        ("link-pending-commands", "0".into()),
        ("last-ping-sent", "0".into()),
    ]
}

fn master(shape: &Shape, member: &Member) -> Fields {
    let flags = if shape.serving.is_some() { "master" } else { "master,s_down,o_down" };
    let mut fields = common(shape, member, shape.topology.cluster.clone(), flags);
    let others = shape.topology.members.len() - 1;
    fields.extend([
        ("role-reported", "master".into()),
        ("config-epoch", shape.epoch.to_string()),
        ("num-slaves", others.to_string()),
        ("num-other-sentinels", others.to_string()),
        ("quorum", quorum(shape).to_string()),
    ]);
    fields
}

fn replica(shape: &Shape, member: &Member) -> Fields {
    let flags = if member.up { "slave" } else { "slave,s_down,disconnected" };
    let mut fields = common(shape, member, member.address(), flags);
    let master = shape.holder().filter(|_| shape.serving.is_some());
    let (host, port) = master.map_or(("?".into(), 0), |master| (master.host.clone(), master.port));
    fields.extend([
        ("role-reported", "slave".into()),
        ("master-link-status", if member.up && master.is_some() { "ok" } else { "err" }.into()),
        ("master-host", host),
        ("master-port", port.to_string()),
        ("slave-priority", "100".into()),
        ("replica-announced", "1".into()),
    ]);
    fields
}

fn other_sentinel(shape: &Shape, member: &Member) -> Fields {
    let flags = if member.up { "sentinel" } else { "sentinel,s_down,disconnected" };
    common(shape, member, shape.name(member.node), flags)
}

fn tell_all(nodes: impl Iterator<Item = Fields>, reply: &mut Reply<'_>) {
    let nodes: Vec<Fields> = nodes.collect();
    reply.array(nodes.len());
    nodes.iter().for_each(|fields| tell(fields, reply));
}

fn tell(fields: &Fields, reply: &mut Reply<'_>) {
    reply.map(fields.len());
    for (name, value) in fields {
        reply.bulk(name.as_bytes());
        reply.bulk(value.as_bytes());
    }
}
