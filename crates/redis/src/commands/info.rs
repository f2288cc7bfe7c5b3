//! `INFO`: Redis's names for what has one, ours for the rest. What Redis counts and this node does not is left out.

use std::fmt::Write;

use super::words::is;
use crate::acl::ids::{self, Named};
use crate::command::entry::commands;
use crate::effort::{COUNTS, Effort, FILE, LOOK, few};
use crate::errors::CommandError;
use crate::meter::commands::CommandCounts;
use crate::operations::KeyCount;
use crate::reply::Reply;
use crate::request::Args;
use crate::topology::{Shape, apart};
use crate::{Door, Redirect};

commands! {
    local(args, client, door, effort, reply);

    INFO = 155 {
        run: info(args, door, effort, reply),
        name: "info", arity: -1, flags: LOADING | STALE, keys: NO_DATA, group: "server", since: "1.0.0",
        summary: "Get information and statistics about the server",
        categories: Some(category::DANGEROUS),
        tips: "nondeterministic_output,request_policy:all_shards,response_policy:special",
        docs: "
            complexity O(1)
            history 7.0.0 Added support for taking multiple section arguments.
            - section: string optional multiple
        ",
    }
}

/// The Redis whose commands and replies these are; clients choose features by it.
pub const REDIS_VERSION: &str = "7.0.15";

/// Steps of a look at one client, whether it waits.
const CARD: u64 = 8;

/// Writes a section of `INFO`.
type Section = fn(&Door, &mut String) -> std::fmt::Result;

/// Every section: its name, whether it is told without being asked for, and its text.
const SECTIONS: [(&str, bool, Section); 13] = [
    ("server", true, server),
    ("clients", true, clients),
    ("memory", true, memory),
    ("persistence", true, persistence),
    ("stats", true, stats),
    ("replication", true, replication),
    ("cpu", true, cpu),
    ("modules", true, |_, text| text.write_str("# Modules\r\n")),
    ("commandstats", false, command_stats),
    ("errorstats", true, error_stats),
    ("latencystats", false, latency_stats),
    ("cluster", true, cluster),
    ("keyspace", true, keyspace),
];

/// `INFO [section ..]`
///
/// # Errors
/// Too many sections.
pub fn info(args: Args<'_>, door: &Door, effort: &Effort, reply: &mut Reply<'_>) -> Result<(), CommandError> {
    few(args)?;
    let wanted = |section: &str, usual: bool| {
        args.len() == 0 && usual
            || args.into_iter().any(|word| {
                is(word, section) || is(word, "all") || is(word, "everything") || is(word, "default") && usual
            })
    };
    let mut text = String::new();
    for (section, _, write) in SECTIONS.into_iter().filter(|(section, usual, _)| wanted(section, *usual)) {
        effort.spend(match section {
            "memory" | "cpu" => 2 * FILE,
            "commandstats" | "errorstats" | "latencystats" | "stats" => COUNTS,
            "clients" => LOOK + CARD * door.clients.count() as u64,
            _ => LOOK,
        });
        if !text.is_empty() {
            text.push_str("\r\n");
        }
        write(door, &mut text).expect("writing to memory does not fail");
    }
    reply.verbatim(&text);
    Ok(())
}

/// What cluster clients look for.
pub fn mode(door: &Door) -> &'static str {
    if door.redirect == Redirect::Moved { "cluster" } else { "standalone" }
}

fn server(door: &Door, text: &mut String) -> std::fmt::Result {
    let (_, port) = apart(&door.address(door.node).unwrap_or_default());
    let uptime_s = (door.describe)().uptime_s;
    write!(text, "# Server\r\nredis_version:{REDIS_VERSION}\r\nredis_mode:{}\r\n", mode(door))?;
    write!(text, "os:{} {}\r\n", std::env::consts::OS, std::env::consts::ARCH)?;
    write!(text, "arch_bits:{}\r\nmultiplexing_api:{}\r\n", usize::BITS, door.operations.sockets())?;
    write!(text, "run_id:{:040x}\r\n", door.run_id)?;
    write!(text, "highwater_version:{}\r\nnode:{}\r\n", env!("CARGO_PKG_VERSION"), door.node.0)?;
    write!(text, "process_id:{}\r\ntcp_port:{port}\r\n", std::process::id())?;
    write!(text, "uptime_in_seconds:{uptime_s}\r\nuptime_in_days:{}\r\n", uptime_s / 86_400)
}

fn clients(door: &Door, text: &mut String) -> std::fmt::Result {
    let connected = (door.describe)().connected_clients;
    write!(
        text,
        "# Clients\r\nconnected_clients:{connected}\r\nblocked_clients:{}\r\n",
        door.clients.waiting()
    )?;
    write!(text, "maxclients:{}\r\n", door.operations.most_clients())?;
    write!(text, "tracking_clients:0\r\npubsub_clients:{}\r\n", door.clients.listening())
}

/// What `maxmemory` bounds is `used_memory`: the data. 0, as in Redis: no limit.
fn memory(door: &Door, text: &mut String) -> std::fmt::Result {
    let (used, most) = (door.describe)().memory;
    let most = if most == u64::MAX { 0 } else { most };
    let resident = door.operations.resident_bytes();
    write!(text, "# Memory\r\nused_memory:{used}\r\nused_memory_human:{}\r\n", human(used))?;
    write!(text, "used_memory_rss:{resident}\r\nused_memory_rss_human:{}\r\n", human(resident))?;
    let peak = door.operations.figures().used_peak.max(used);
    write!(text, "used_memory_peak:{peak}\r\nused_memory_peak_human:{}\r\n", human(peak))?;
    if let Some(whole) = machine_bytes() {
        write!(text, "total_system_memory:{whole}\r\ntotal_system_memory_human:{}\r\n", human(whole))?;
    }
    write!(text, "mem_fragmentation_ratio:{:.2}\r\n", resident as f64 / used.max(1) as f64)?;
    write!(text, "mem_fragmentation_bytes:{}\r\n", resident as i64 - used as i64)?;
    write!(text, "maxmemory:{most}\r\nmaxmemory_human:{}\r\nmaxmemory_policy:noeviction\r\n", human(most))
}

/// The machine's memory.
fn machine_bytes() -> Option<u64> {
    let told = std::fs::read_to_string("/proc/meminfo").ok()?;
    let kib = told.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    Some(kib.trim().strip_suffix(" kB")?.parse::<u64>().ok()? << 10)
}

/// As Redis writes sizes.
fn human(bytes: u64) -> String {
    let units = [("G", 1u64 << 30), ("M", 1 << 20), ("K", 1 << 10)];
    match units.into_iter().find(|(_, unit)| bytes >= *unit) {
        Some((name, unit)) => format!("{:.2}{name}", bytes as f64 / unit as f64),
        None => format!("{bytes}B"),
    }
}

/// The lines that Redis's clients look for before they ask anything: here the answer never is "not yet". What is saved is a checkpoint.
fn persistence(door: &Door, text: &mut String) -> std::fmt::Result {
    let figures = door.operations.figures();
    let status = if figures.save_failed { "err" } else { "ok" };
    text.write_str("# Persistence\r\nloading:0\r\nasync_loading:0\r\nrdb_bgsave_in_progress:0\r\n")?;
    write!(text, "rdb_changes_since_last_save:0\r\nrdb_last_save_time:{}\r\n", figures.saved_unix_s)?;
    write!(text, "rdb_last_bgsave_status:{status}\r\naof_enabled:0\r\naof_rewrite_in_progress:0\r\n")?;
    text.write_str("aof_rewrite_scheduled:0\r\naof_last_bgrewrite_status:ok\r\naof_last_write_status:ok\r\n")
}

fn stats(door: &Door, text: &mut String) -> std::fmt::Result {
    let counts = door.clients.counts(door.operations.commands());
    let taken: u64 = counts.commands.iter().map(|counts| counts.taken).sum();
    write!(text, "# Stats\r\ntotal_connections_received:{}\r\n", counts.accepted)?;
    write!(text, "total_commands_processed:{taken}\r\nrejected_connections:{}\r\n", counts.rejected)?;
    write!(text, "expired_keys:{}\r\n", door.operations.figures().expired_keys)?;
    text.write_str("evicted_keys:0\r\nevicted_clients:0\r\n")?;
    text.write_str("pubsubshard_channels:0\r\ntracking_total_keys:0\r\ntracking_total_items:0\r\n")?;
    write!(text, "total_error_replies:{}\r\n", counts.errors.values().sum::<u64>())
}

fn command_stats(door: &Door, text: &mut String) -> std::fmt::Result {
    text.write_str("# Commandstats\r\n")?;
    for (named, counts) in counted(door) {
        let each = counts.waited_us as f64 / counts.taken.max(1) as f64;
        write!(text, "cmdstat_{}:calls={},usec={},", named.full_name(), counts.taken, counts.waited_us)?;
        write!(
            text,
            "usec_per_call={each:.2},rejected_calls={},failed_calls={}\r\n",
            counts.refused, counts.failed
        )?;
    }
    Ok(())
}

/// Commands of which there is something to tell.
fn counted(door: &Door) -> impl Iterator<Item = (Named, CommandCounts)> {
    let counts = door.clients.counts(door.operations.commands()).commands;
    ids::all()
        .filter_map(move |named| Some((named, *counts.get(named.id)?)))
        .filter(|(_, counts)| counts.taken + counts.refused + counts.failed > 0)
}

/// From the same counts as `LATENCY HISTOGRAM`: a percentile is the upper edge of its bucket, a power of two.
fn latency_stats(door: &Door, text: &mut String) -> std::fmt::Result {
    text.write_str("# Latencystats\r\n")?;
    let percentiles = door.settings.percentiles(door);
    for (named, counts) in counted(door).filter(|(_, counts)| counts.ended() > 0 && !percentiles.is_empty()) {
        let told =
            percentiles.iter().map(|percent| format!("p{percent}={}.000", counts.percentile(*percent)));
        let told: Vec<String> = told.collect();
        write!(text, "latency_percentiles_usec_{}:{}\r\n", named.full_name(), told.join(","))?;
    }
    Ok(())
}

fn error_stats(door: &Door, text: &mut String) -> std::fmt::Result {
    text.write_str("# Errorstats\r\n")?;
    for (code, count) in door.clients.counts(door.operations.commands()).errors {
        write!(text, "errorstat_{code}:count={count}\r\n")?;
    }
    Ok(())
}

fn replication(door: &Door, text: &mut String) -> std::fmt::Result {
    let now = (door.describe)();
    let redis_role = if now.service.leads() { "master" } else { "slave" };
    write!(text, "# Replication\r\nrole:{redis_role}\r\nhighwater_role:{}\r\n", now.role)?;
    write!(text, "highwater_service:{}\r\n", now.service)?;
    write!(text, "epoch:{}\r\n", now.epoch.0)?;
    match now.ask {
        None => text.write_str("leader_node:none\r\n")?,
        Some(leader) => write!(text, "leader_node:{}\r\n", leader.0)?,
    }
    let address = now.ask.and_then(|leader| door.address(leader));
    if let Some(address) = &address {
        write!(text, "leader_address:{address}\r\n")?;
    }
    if now.service.leads() {
        let shape = Shape::of(door);
        let replicas: Vec<_> = shape.others().filter(|member| member.up).collect();
        write!(text, "connected_slaves:{}\r\n", replicas.len())?;
        for (at, replica) in replicas.iter().enumerate() {
            write!(
                text,
                "slave{at}:ip={},port={},state=online,offset=0,lag=0\r\n",
                replica.host, replica.port
            )?;
        }
        write!(text, "master_failover_state:no-failover\r\nmaster_replid:{}\r\n", shape.shard())?;
        // Positions in a stream of bytes that there is not: followers are told to be level.
        return text.write_str("master_repl_offset:0\r\nsecond_repl_offset:-1\r\nrepl_backlog_active:0\r\n");
    }
    let link = if address.is_some() { "up" } else { "down" };
    if let Some(address) = &address {
        let (host, port) = apart(address);
        write!(text, "master_host:{host}\r\nmaster_port:{port}\r\n")?;
    }
    write!(text, "master_link_status:{link}\r\nslave_read_only:1\r\nslave_priority:100\r\n")
}

/// Time on cores since the process started, of all its threads.
fn cpu(_: &Door, text: &mut String) -> std::fmt::Result {
    text.write_str("# CPU\r\n")?;
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    // Behind the name, which may have blanks; ticks are hundredths of a second wherever Linux is asked.
    let fields: Vec<&str> =
        stat.rsplit_once(')').map_or(Vec::new(), |(_, rest)| rest.split_whitespace().collect());
    for (name, at) in [
        ("used_cpu_sys", 12),
        ("used_cpu_user", 11),
        ("used_cpu_sys_children", 14),
        ("used_cpu_user_children", 13),
    ] {
        let ticks = fields.get(at).and_then(|ticks| ticks.parse::<u64>().ok());
        if let Some(ticks) = ticks {
            write!(text, "{name}:{}.{:02}0000\r\n", ticks / 100, ticks % 100)?;
        }
    }
    Ok(())
}

/// A line of the one database, if it has keys: as they were counted last, some seconds ago. How long they live on average nobody knows, which
/// Redis tells as 0.
fn keyspace(door: &Door, text: &mut String) -> std::fmt::Result {
    text.write_str("# Keyspace\r\n")?;
    match door.operations.figures().keys {
        Some(KeyCount { keys, expires }) if keys > 0 => {
            write!(text, "db0:keys={keys},expires={expires},avg_ttl=0\r\n")
        }
        _ => Ok(()),
    }
}

fn cluster(door: &Door, text: &mut String) -> std::fmt::Result {
    write!(text, "# Cluster\r\ncluster_enabled:{}\r\n", u8::from(door.redirect == Redirect::Moved))
}
