//! Which metrics there are.

use std::sync::atomic::{AtomicU64, Ordering};

use highwater_redis::command::Opcode;
use highwater_redis::meter::histogram::Counts;
use highwater_redis::meter::{Meter, OUTCOMES};
use highwater_seam::{Counters, Service};

use super::sheet::{Labels, Sheet};
use crate::admin::protocol::{ElectionReport, StatusReport};
use crate::shared::Shared;

fn one(name: &'static str, value: impl ToString) -> Labels {
    vec![(name, value.to_string())]
}

/// Who it is and what it does.
pub fn node(sheet: &mut Sheet, report: &StatusReport) {
    let build = vec![
        ("version", env!("CARGO_PKG_VERSION").to_string()),
        ("engine", report.engine.clone()),
        ("node", report.node.to_string()),
    ];
    sheet.gauges("build_info", "Always 1; what runs here stands in the labels", [(build, 1.0)]);
    sheet.gauges(
        "client_sockets",
        "1, with what clients' sockets stand on: epoll or uring",
        [(one("io", &report.sockets), 1.0)],
    );
    sheet.gauge("uptime_seconds", "Since the process started", report.uptime_seconds);
    sheet.gauges(
        "service",
        "1 for the service that the node is in, 0 for others",
        Service::ALL
            .map(|service| (one("service", service), f64::from(u8::from(service.name() == report.service)))),
    );
    sheet.gauges(
        "role",
        "1, with the word of the engine for what the node does",
        [(one("role", &report.role), 1.0)],
    );
    sheet.gauge("epoch", "The epoch that the node is in", report.epoch as f64);
    let leader = report.leader.map(|node| (one("node", node), 1.0));
    sheet.gauges(
        "leader",
        "1, with whom clients should ask as far as the node knows; absent if it knows nobody",
        leader,
    );
    let silent = report.leader_silent_ms.map(|ms| (Vec::new(), ms as f64 / 1e3));
    sheet.gauges("leader_silent_seconds", "Since a follower heard a leader that vouched for itself", silent);
    sheet.gauge(
        "trouble",
        "1 if the node says that it cannot serve (status says why)",
        f64::from(u8::from(report.trouble.is_some())),
    );
    let copying = report.copying_bytes.map(|bytes| (Vec::new(), bytes as f64));
    sheet.gauges("copying_bytes", "Received so far, while the node copies the state", copying);
    sheet.gauges(
        "figure",
        "How far the replica is, in the engine's terms, by part: the mark, entries held, decided, applied",
        report.figures.iter().flat_map(|figure| {
            figure.values.iter().enumerate().map(|(part, value)| {
                let part = if figure.of_parts { part.to_string() } else { String::new() };
                (vec![("figure", figure.name.clone()), ("part", part)], *value as f64)
            })
        }),
    );
    let members = || report.members.iter();
    sheet.gauges(
        "member_voter",
        "1 for each member that votes, 0 for one that does not",
        members().map(|member| (one("node", member.node), f64::from(u8::from(member.voter)))),
    );
    sheet.gauges(
        "member_connected",
        "Whether this very life of the member is connected; of who leads",
        members()
            .filter_map(|member| Some((one("node", member.node), f64::from(u8::from(member.connected?))))),
    );
    sheet.gauges(
        "member_lag_entries",
        "Entries that the member has not acknowledged; of who leads",
        members().filter_map(|member| Some((one("node", member.node), member.lag? as f64))),
    );
    sheet.gauge("clients", "Open connections of clients", report.clients as f64);
}

/// What it uses.
pub fn memory(sheet: &mut Sheet, report: &StatusReport) {
    sheet.gauge("resident_bytes", "Resident memory of the process", report.resident_bytes as f64);
    sheet.gauge("cpu_seconds", "CPU time of the process, user and system", report.cpu_ns as f64 / 1e9);
    let memory = &report.memory;
    let parts = [
        ("records", memory.records),
        ("index", memory.index),
        ("retired", memory.retired),
        ("reserved", memory.reserved),
        ("logs", memory.logs),
        ("requests", memory.requests),
        ("replies", memory.replies),
        ("sending", memory.sending),
        ("receiving", memory.receiving),
    ];
    let parts = parts.map(|(part, bytes)| (one("part", part), bytes as f64));
    sheet.gauges("memory_bytes", "Memory in use, by part", parts);
    let budgets = [
        ("whole", memory.budget),
        ("data", memory.store_budget),
        ("logs", memory.log_budget),
        ("work", memory.work_budget),
        ("buffers", memory.buffer_budget),
        ("leading", memory.most),
    ];
    let budgets = budgets.map(|(part, bytes)| (one("part", part), bytes as f64));
    sheet.gauges(
        "memory_budget_bytes",
        "What the node may use, by part; 0: no limit. leading: what the data may come to if it leads",
        budgets,
    );
}

/// What the workers count.
pub fn workers(sheet: &mut Sheet, shared: &Shared) {
    let by_worker =
        |counter: fn(&Counters) -> &std::sync::atomic::AtomicU64| {
            shared.counters.iter().enumerate().map(move |(worker, counters)| {
                (one("worker", worker), counter(counters).load(Ordering::Relaxed))
            })
        };
    sheet.counters(
        "transactions_executed",
        "Transactions committed in the store, speculatively on who leads",
        by_worker(|counters| &counters.executed),
    );
    sheet.counters(
        "transactions_released",
        "Transactions whose commit was released to who asked",
        by_worker(|counters| &counters.committed),
    );
    sheet.counters(
        "transactions_rolled_back",
        "Transactions that decided to roll back, released",
        by_worker(|counters| &counters.rolled_back),
    );
    sheet.counters(
        "conflicts",
        "Attempts that ended in a conflict",
        by_worker(|counters| &counters.conflicts),
    );
    sheet.counters(
        "transactions_applied",
        "Transactions applied from the log",
        by_worker(|counters| &counters.applied),
    );
    sheet.counters(
        "snapshot_reads",
        "Reads answered from a snapshot of this replica",
        by_worker(|counters| &counters.snapshot_reads),
    );
    sheet.counters("log_entries", "Entries sealed", by_worker(|counters| &counters.entries));
    sheet.counters("log_bytes", "Bytes of entries sealed", by_worker(|counters| &counters.log_bytes));
    let mut outcomes = [0; OUTCOMES.len()];
    let mut latency = Counts::default();
    for meter in &shared.meters {
        outcomes.iter_mut().zip(meter.outcomes()).for_each(|(sum, count)| *sum += count);
        latency.add(&meter.latency());
    }
    sheet.counters(
        "client_requests",
        "Requests of clients that ended, by outcome: a command, a MULTI as a whole, a WATCH",
        OUTCOMES.iter().zip(outcomes).map(|((_, name), count)| (one("outcome", name), count)),
    );
    sheet.seconds(
        "client_latency_seconds",
        "From the submission of a client's request to its release",
        latency,
    );
    let commands = Opcode::all().filter_map(|opcode| {
        let count = shared.meters.iter().map(|meter| meter.commands.taken(opcode)).sum::<u64>();
        let labels = vec![("family", opcode.spec().group.into()), ("command", opcode.spec().name.into())];
        (count > 0).then_some((labels, count))
    });
    sheet.counters(
        "commands",
        "Commands taken, those inside a MULTI included; those that never came are absent",
        commands,
    );
    sheet.counter("expired_keys", "Keys that expired and were removed by the sweep", shared.expired());
    let sum = |of: fn(&Meter) -> &AtomicU64| -> u64 {
        shared.meters.iter().map(|meter| of(meter).load(Ordering::Relaxed)).sum()
    };
    sheet.counter(
        "requests_forwarded",
        "Requests of this node's clients that it handed to the leader",
        sum(|meter| &meter.forwarded),
    );
    sheet.counter(
        "requests_taken_for_others",
        "Requests of other nodes' clients that this one took as the leader",
        sum(|meter| &meter.taken_for_others),
    );
    sheet.counter("slow_transactions", "Transactions that were slow", shared.slow.ever());
}

/// How far each stream is behind itself, of engines that name theirs.
pub fn streams(sheet: &mut Sheet, report: &StatusReport) {
    let behind = |before: &str, after: &str| -> Vec<(Labels, f64)> {
        let pairs = report.figure(before).iter().zip(report.figure(after)).enumerate();
        pairs
            .map(|(stream, (before, after))| (one("stream", stream), before.saturating_sub(*after) as f64))
            .collect()
    };
    sheet.gauges(
        "stream_undecided_entries",
        "Entries of the stream that the node holds and does not know to be decided",
        behind("accepted", "decided"),
    );
    sheet.gauges(
        "stream_unapplied_entries",
        "Decided entries of the stream that are not installed in the store",
        behind("decided", "applied"),
    );
    let freshness = report.freshness_ms.map(|ms| (Vec::new(), ms as f64 / 1e3));
    sheet.gauges(
        "freshness_seconds",
        "How old what a follower shows was when it last asked; /readyz and bounded reads make it ask. 0 on who leads",
        freshness,
    );
    let ElectionReport { stood, served, epochs } = report.elections;
    sheet.counter("elections_stood", "Times at which the node began to stand for election", stood);
    sheet.counter("elections_won", "Times at which the node began to lead", served);
    sheet.counter("epoch_changes", "Changes of the epoch that the node saw", epochs);
}

/// Peers, and the disk.
pub fn edges(sheet: &mut Sheet, report: &StatusReport, shared: &Shared) {
    let peers = || report.peers.iter();
    let bytes = "Bytes of frames, over all connections that there were";
    sheet.counters("peer_sent_bytes", bytes, peers().map(|peer| (one("node", peer.node), peer.sent)));
    sheet.counters("peer_received_bytes", bytes, peers().map(|peer| (one("node", peer.node), peer.received)));
    let (Some(queues), Some(disk), Some(journal)) = (shared.journal(), &report.disk, &report.journal) else {
        return;
    };
    sheet.counter("journal_bytes", "Bytes of the disk that the journal took", journal.bytes);
    sheet.seconds("journal_sync_seconds", "How long syncs of the journal took", queues.syncs().counts());
    sheet.counter("checkpoints_published", "Checkpoints that were published", journal.checkpoints);
    sheet.counter("checkpoints_failed", "Checkpoints that the disk refused", journal.failed_checkpoints);
    sheet.gauge(
        "disk_low",
        "1 if there is no room for another segment of the journal",
        f64::from(u8::from(disk.low)),
    );
    sheet.gauge("disk_full", "1 if what was accepted waits for room", f64::from(u8::from(disk.full)));
    sheet.gauge(
        "disk_trouble",
        "1 if the node's files are not as they should be: its folder is gone, or no descriptor is left to open one",
        f64::from(u8::from(disk.trouble.is_some())),
    );
    sheet.gauge("disk_ballast_bytes", "Room that is held for a checkpoint", disk.ballast as f64);
    sheet.gauge("disk_ballast_wanted_bytes", "Room that should be", disk.ballast_wanted as f64);
}
