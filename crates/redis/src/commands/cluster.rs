//! `CLUSTER`: one shard has all slots, and whoever serves is its master. What would change the cluster is an operator's business.

use std::fmt::Write;

use super::help;
use super::words::{integer, is};
use crate::command::entry::commands;
use crate::effort::{Effort, LOOK};
use crate::errors::CommandError;
use crate::reply::Reply;
use crate::request::Args;
use crate::slots::{SLOTS, slot};
use crate::topology::{Member, Shape};
use crate::{Door, slots};

commands! {
    local(args, client, door, effort, reply);

    CLUSTER = 159 {
        run: cluster(args, door, effort, reply),
        name: "cluster", arity: -2, flags: LOADING | STALE, keys: NO_DATA, group: "cluster", since: "3.0.0",
        summary: "A container for Redis Cluster commands",
        told: Some(Flags(0)),
        categories: Some(0),
        docs: "
            complexity Depends on subcommand.
        ",
        subcommands: subcommands! { "cluster":
            "slots" 2 {
                flags: STALE, tips: "nondeterministic_output", categories: category::CONNECTION,
                docs: "
                    summary Get array of Cluster slot to node mappings
                    since 3.0.0
                    complexity O(N) where N is the total number of Cluster nodes
                    doc_flags deprecated
                    deprecated_since 7.0.0
                    replaced_by `CLUSTER SHARDS`
                    history 4.0.0 Added node IDs.
                    history 7.0.0 Added additional networking metadata field.
                ",
            }
            "shards" 2 {
                flags: STALE, tips: "nondeterministic_output", categories: category::CONNECTION,
                docs: "
                    summary Get array of cluster slots to node mappings
                    since 7.0.0
                    complexity O(N) where N is the total number of cluster nodes
                ",
            }
            "nodes" 2 {
                flags: STALE, tips: "nondeterministic_output", categories: category::CONNECTION,
                docs: "
                    summary Get Cluster config for the node
                    since 3.0.0
                    complexity O(N) where N is the total number of Cluster nodes
                ",
            }
            "info" 2 {
                flags: STALE, tips: "nondeterministic_output", categories: category::CONNECTION,
                docs: "
                    summary Provides info about Redis Cluster node state
                    since 3.0.0
                    complexity O(1)
                ",
            }
            "keyslot" 3 {
                flags: STALE, categories: category::CONNECTION,
                docs: "
                    summary Returns the hash slot of the specified key
                    since 3.0.0
                    complexity O(N) where N is the number of bytes in the key
                    - key: string
                ",
            }
            "countkeysinslot" 3 {
                flags: STALE, categories: 0,
                docs: "
                    summary Return the number of local keys in the specified hash slot
                    since 3.0.0
                    complexity O(1)
                    - slot: integer
                ",
            }
            "getkeysinslot" 4 {
                flags: STALE, tips: "nondeterministic_output", categories: 0,
                docs: "
                    summary Return local key names in the specified hash slot
                    since 3.0.0
                    complexity O(log(N)) where N is the number of requested keys
                    - slot: integer
                    - count: integer
                ",
            }
            "myid" 2 {
                flags: STALE, categories: category::CONNECTION,
                docs: "
                    summary Return the node id
                    since 3.0.0
                    complexity O(1)
                ",
            }
            "myshardid" 2 {
                categories: category::CONNECTION,
                docs: "
                    summary Return the identity of the only shard
                    since 0.1.0
                ",
            }
            "replicas" 3 {
                flags: ADMIN | STALE, tips: "nondeterministic_output", categories: category::ADMIN,
                docs: "
                    summary List replica nodes of the specified master node
                    since 5.0.0
                    complexity O(1)
                    - node-id: string
                ",
            }
            "slaves" 3 {
                flags: ADMIN | STALE, tips: "nondeterministic_output", categories: category::ADMIN,
                docs: "
                    summary List replica nodes of the specified master node
                    since 3.0.0
                    complexity O(1)
                    doc_flags deprecated
                    deprecated_since 5.0.0
                    replaced_by `CLUSTER REPLICAS`
                    - node-id: string
                ",
            }
            "count-failure-reports" 3 {
                flags: ADMIN | STALE, tips: "nondeterministic_output", categories: category::ADMIN,
                docs: "
                    summary Return the number of failure reports active for a given node
                    since 3.0.0
                    complexity O(N) where N is the number of failure reports
                    - node-id: string
                ",
            }
            "links" 2 {
                flags: STALE, tips: "nondeterministic_output", categories: category::CONNECTION,
                docs: "
                    summary Returns a list of all TCP links to and from peer nodes in cluster
                    since 7.0.0
                    complexity O(N) where N is the total number of Cluster nodes
                ",
            }
            help "5.0.0" { categories: 0 }
            "addslots" -3 {
                flags: ADMIN | STALE | NO_ASYNC_LOADING, categories: category::ADMIN,
                docs: "
                    summary Assign new hash slots to receiving node
                    since 3.0.0
                    complexity O(N) where N is the total number of hash slot arguments
                    - slot: integer multiple
                ",
            }
            "addslotsrange" -4 {
                flags: ADMIN | STALE | NO_ASYNC_LOADING, categories: category::ADMIN,
                docs: "
                    summary Assign new hash slots to receiving node
                    since 7.0.0
                    complexity O(N) where N is the total number of the slots between the start slot and end slot arguments.
                    - start-slot_end-slot: block multiple
                    -- start-slot: integer
                    -- end-slot: integer
                ",
            }
            "bumpepoch" 2 {
                flags: ADMIN | STALE | NO_ASYNC_LOADING, tips: "nondeterministic_output", categories: category::ADMIN,
                docs: "
                    summary Advance the cluster config epoch
                    since 3.0.0
                    complexity O(1)
                ",
            }
            "delslots" -3 {
                flags: ADMIN | STALE | NO_ASYNC_LOADING, categories: category::ADMIN,
                docs: "
                    summary Set hash slots as unbound in receiving node
                    since 3.0.0
                    complexity O(N) where N is the total number of hash slot arguments
                    - slot: integer multiple
                ",
            }
            "delslotsrange" -4 {
                flags: ADMIN | STALE | NO_ASYNC_LOADING, categories: category::ADMIN,
                docs: "
                    summary Set hash slots as unbound in receiving node
                    since 7.0.0
                    complexity O(N) where N is the total number of the slots between the start slot and end slot arguments.
                    - start-slot_end-slot: block multiple
                    -- start-slot: integer
                    -- end-slot: integer
                ",
            }
            "failover" -2 {
                flags: ADMIN | STALE | NO_ASYNC_LOADING, categories: category::ADMIN,
                docs: "
                    summary Forces a replica to perform a manual failover of its master.
                    since 3.0.0
                    complexity O(1)
                    - options: oneof optional
                    -- force: pure-token 'FORCE'
                    -- takeover: pure-token 'TAKEOVER'
                ",
            }
            "flushslots" 2 {
                flags: ADMIN | STALE | NO_ASYNC_LOADING, categories: category::ADMIN,
                docs: "
                    summary Delete a node's own slots information
                    since 3.0.0
                    complexity O(1)
                ",
            }
            "forget" 3 {
                flags: ADMIN | STALE | NO_ASYNC_LOADING, categories: category::ADMIN,
                docs: "
                    summary Remove a node from the nodes table
                    since 3.0.0
                    complexity O(1)
                    - node-id: string
                ",
            }
            "meet" -4 {
                flags: ADMIN | STALE | NO_ASYNC_LOADING, categories: category::ADMIN,
                docs: "
                    summary Force a node cluster to handshake with another node
                    since 3.0.0
                    complexity O(1)
                    history 4.0.0 Added the optional `cluster_bus_port` argument.
                    - ip: string
                    - port: integer
                    - cluster_bus_port: integer @4.0.0 optional
                ",
            }
            "replicate" 3 {
                flags: ADMIN | STALE | NO_ASYNC_LOADING, categories: category::ADMIN,
                docs: "
                    summary Reconfigure a node as a replica of the specified master node
                    since 3.0.0
                    complexity O(1)
                    - node-id: string
                ",
            }
            "reset" -2 {
                flags: ADMIN | NOSCRIPT | STALE, categories: category::ADMIN,
                docs: "
                    summary Reset a Redis Cluster node
                    since 3.0.0
                    complexity O(N) where N is the number of known nodes. The command may execute a FLUSHALL as a side effect.
                    - hard_soft: oneof optional
                    -- hard: pure-token 'HARD'
                    -- soft: pure-token 'SOFT'
                ",
            }
            "saveconfig" 2 {
                flags: ADMIN | STALE | NO_ASYNC_LOADING, categories: category::ADMIN,
                docs: "
                    summary Forces the node to save cluster state on disk
                    since 3.0.0
                    complexity O(1)
                ",
            }
            "set-config-epoch" 3 {
                flags: ADMIN | STALE | NO_ASYNC_LOADING, categories: category::ADMIN,
                docs: "
                    summary Set the configuration epoch in a new node
                    since 3.0.0
                    complexity O(1)
                    - config-epoch: integer
                ",
            }
            "setslot" -4 {
                flags: ADMIN | STALE | NO_ASYNC_LOADING, categories: category::ADMIN,
                docs: "
                    summary Bind a hash slot to a specific node
                    since 3.0.0
                    complexity O(1)
                    - slot: integer
                    - subcommand: oneof
                    -- node-id: string 'IMPORTING'
                    -- node-id: string 'MIGRATING'
                    -- node-id: string 'NODE'
                    -- stable: pure-token 'STABLE'
                ",
            }
        },
    }
}

/// `CLUSTER SLOTS | SHARDS | NODES | INFO | KEYSLOT key | MYID | MYSHARDID | REPLICAS id | LINKS | COUNT-FAILURE-REPORTS id`
pub fn cluster(
    mut args: Args<'_>,
    door: &Door,
    effort: &Effort,
    reply: &mut Reply<'_>,
) -> Result<(), CommandError> {
    let subcommand = args.promised()?.to_ascii_lowercase();
    if &subcommand[..] == b"keyslot" {
        let key = args.promised()?;
        effort.spend(key.len() as u64);
        reply.integer(i64::from(slot(key)));
        return Ok(());
    }
    effort.spend(2 * LOOK);
    let shape = Shape::of(door);
    match &subcommand[..] {
        b"slots" => tell_slots(&shape, reply),
        b"shards" => tell_shards(&shape, reply),
        b"nodes" => reply.verbatim(&lines(&shape, door, shape.topology.members.iter())),
        b"info" => reply.verbatim(&info(&shape)),
        b"myid" => reply.bulk(shape.name(door.node).as_bytes()),
        b"myshardid" => reply.bulk(shape.shard().as_bytes()),
        b"replicas" | b"slaves" => {
            let name = args.promised()?;
            let node = named(&shape, name)?;
            if node.node != shape.holder {
                return Err(CommandError::Text("ERR The specified node is not a master"));
            }
            let others = shape.others();
            reply.array(others.clone().count());
            others.for_each(|member| reply.bulk(line(&shape, door, member).as_bytes()));
        }
        b"count-failure-reports" => {
            let down = !named(&shape, args.promised()?)?.up;
            reply.integer(i64::from(down));
        }
        b"links" => tell_links(&shape, door, reply),
        b"help" => help::help("CLUSTER", &USAGES, reply),
        _ => return Err(CommandError::Text(OPERATORS)),
    }
    Ok(())
}

const USAGES: [&str; 12] = [
    "SLOTS",
    "SHARDS",
    "NODES",
    "INFO",
    "KEYSLOT <key>",
    "COUNTKEYSINSLOT <slot>",
    "GETKEYSINSLOT <slot> <count>",
    "MYID",
    "MYSHARDID",
    "REPLICAS <node-id>",
    "COUNT-FAILURE-REPORTS <node-id>",
    "LINKS",
];

/// What is said to whoever wants to change the cluster.
const OPERATORS: &str = "ERR the cluster is not changed over this port: all slots are the leader's, and `highwater member` \
                         and `highwater hand-over` change who belongs and who leads";

fn named<'a>(shape: &'a Shape, name: &[u8]) -> Result<&'a Member, CommandError> {
    let found = shape.topology.members.iter().find(|member| is(name, &shape.name(member.node)));
    let unknown = || CommandError::UnknownNode(String::from_utf8_lossy(name).into_owned());
    found.ok_or_else(unknown)
}

/// Who has the slots first, then the others that are up.
fn nodes_of(shape: &Shape) -> impl Iterator<Item = &Member> + Clone {
    shape.holder().into_iter().chain(shape.others().filter(|member| member.up))
}

fn tell_slots(shape: &Shape, reply: &mut Reply<'_>) {
    let nodes = nodes_of(shape);
    reply.array(1);
    reply.array(2 + nodes.clone().count());
    reply.integer(0);
    reply.integer(i64::from(SLOTS) - 1);
    for member in nodes {
        reply.array(4);
        reply.bulk(member.host.as_bytes());
        reply.integer(i64::from(member.port));
        reply.bulk(shape.name(member.node).as_bytes());
        reply.array(0);
    }
}

fn tell_shards(shape: &Shape, reply: &mut Reply<'_>) {
    reply.array(1);
    reply.map(2);
    reply.bulk(b"slots");
    reply.array(2);
    reply.integer(0);
    reply.integer(i64::from(SLOTS) - 1);
    reply.bulk(b"nodes");
    let nodes = shape.holder().into_iter().chain(shape.others());
    reply.array(nodes.clone().count());
    for member in nodes {
        let role = if member.node == shape.holder { "master" } else { "replica" };
        let health = if member.up { "online" } else { "fail" };
        reply.map(7);
        let name = shape.name(member.node);
        for (field, text) in [
            ("id", &name[..]),
            ("ip", &member.host),
            ("endpoint", &member.host),
            ("role", role),
            ("health", health),
        ] {
            reply.bulk(field.as_bytes());
            reply.bulk(text.as_bytes());
        }
        for (field, number) in [("port", i64::from(member.port)), ("replication-offset", 0)] {
            reply.bulk(field.as_bytes());
            reply.integer(number);
        }
    }
}

fn lines<'a>(shape: &Shape, door: &Door, members: impl Iterator<Item = &'a Member>) -> String {
    members.map(|member| line(shape, door, member) + "\n").collect()
}

/// `id address@bus flags master ping pong epoch link slots`
fn line(shape: &Shape, door: &Door, member: &Member) -> String {
    let holds = member.node == shape.holder;
    let mut text = format!("{} {}@{} ", shape.name(member.node), member.bare_address(), member.peer_port);
    let flags = [
        ("myself", member.node == door.node),
        (if holds { "master" } else { "slave" }, true),
        ("fail?", !member.up),
    ];
    let flags: Vec<&str> = flags.into_iter().filter(|(_, holds)| *holds).map(|(flag, _)| flag).collect();
    let master = if holds { "-".into() } else { shape.name(shape.holder) };
    let link = if member.up { "connected" } else { "disconnected" };
    let _ = write!(text, "{} {master} 0 0 {} {link}", flags.join(","), shape.epoch);
    if holds {
        let _ = write!(text, " 0-{}", slots::SLOTS - 1);
    }
    text
}

fn info(shape: &Shape) -> String {
    let (state, ok) = if shape.serving.is_some() { ("ok", SLOTS) } else { ("fail", 0) };
    let mut text =
        format!("cluster_state:{state}\r\ncluster_slots_assigned:{SLOTS}\r\ncluster_slots_ok:{ok}\r\n");
    let _ = write!(text, "cluster_slots_pfail:0\r\ncluster_slots_fail:{}\r\n", SLOTS - ok);
    let _ = write!(text, "cluster_known_nodes:{}\r\ncluster_size:1\r\n", shape.topology.members.len());
    let _ = write!(text, "cluster_current_epoch:{0}\r\ncluster_my_epoch:{0}\r\n", shape.epoch);
    text
}

/// Both directions of each connection, which is one here.
fn tell_links(shape: &Shape, door: &Door, reply: &mut Reply<'_>) {
    let peers = shape.topology.members.iter().filter(|member| member.up && member.node != door.node);
    reply.array(peers.clone().count() * 2);
    for member in peers {
        for direction in ["to", "from"] {
            reply.map(3);
            for (field, text) in
                [("direction", direction), ("node", &shape.name(member.node)[..]), ("events", "rw")]
            {
                reply.bulk(field.as_bytes());
                reply.bulk(text.as_bytes());
            }
        }
    }
}

/// A slot's number.
pub fn slot_number(word: &[u8]) -> Result<u16, CommandError> {
    let slot = u16::try_from(integer(word)?).ok().filter(|slot| *slot < SLOTS);
    slot.ok_or(CommandError::Text("ERR Invalid or out of range slot"))
}
