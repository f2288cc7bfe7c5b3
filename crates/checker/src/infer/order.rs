//! What the clock and the clients' own programs say about order, and whether the record can be true at all.

use std::cmp::Reverse;

use super::access::NO_TXN;
use crate::findings::Findings;
use crate::graph::{CONT, Edges, PROCESS, REALTIME};
use crate::history::{History, Status, Txn};
use crate::verdict::{AnomalyKind, Level, Options};
use crate::words;

/// Reports transactions that no client can have had.
pub(crate) fn broken(history: &History, findings: &mut Findings) {
    let mut report = |txns: &[u32], said: String| {
        findings.report(AnomalyKind::BrokenHistory, txns, || words::story(history, txns, &said));
    };
    for (id, txn) in (0_u32..).zip(&history.txns) {
        match txn.t1 {
            None if txn.status == Status::Ok => report(&[id], format!("T{id} committed, but has no end.")),
            Some(t1) if t1 < txn.t0 => report(&[id], format!("T{id} ended before it began.")),
            _ => {}
        }
    }
    for pair in by_connection(history).windows(2) {
        let (a, b) = (&history.txns[pair[0] as usize], &history.txns[pair[1] as usize]);
        if a.place == b.place {
            report(pair, format!("T{} and T{} have one place on their connection.", pair[0], pair[1]));
        } else if connection(a) == connection(b) && b.t0 < a.t0 {
            report(pair, format!("T{} began before T{}, which was sent before it.", pair[1], pair[0]));
        }
    }
    for pair in by_client(history).windows(2) {
        let (a, b) = (&history.txns[pair[0] as usize], &history.txns[pair[1] as usize]);
        if a.process != b.process {
            continue;
        }
        let why = match a.t1.filter(|_| a.status != Status::Info) {
            None => "whose outcome its client never learned; a client goes on under a new number then",
            Some(end) if end > b.t0 => "before it had ended",
            Some(_) => continue,
        };
        report(pair, format!("Client {} began T{} after T{}, {why}.", a.process, pair[1], pair[0]));
    }
    let mut kinds = vec![None; history.keys.len()];
    for (id, txn) in (0_u32..).zip(&history.txns) {
        // A read without an answer does not say what its key is.
        for op in txn.ops.iter().filter(|op| !op.is_unanswered()) {
            let known = kinds[op.key().index()].get_or_insert(op.is_list());
            if *known != op.is_list() {
                let key = history.keys.name(op.key());
                report(&[id], format!("T{id} uses {key} as a list or register, others as the opposite."));
            }
        }
    }
}

/// All transactions, each client's in its order.
fn by_client(history: &History) -> Vec<u32> {
    let mut ids: Vec<u32> = (0..history.txns.len() as u32).collect();
    ids.sort_unstable_by_key(|id| {
        let txn = &history.txns[*id as usize];
        (txn.process, txn.t0, txn.t1.unwrap_or(u64::MAX), *id)
    });
    ids
}

fn connection(txn: &Txn) -> Option<u64> {
    txn.place.map(|place| place.connection)
}

/// Those that have a place on a connection, each connection's in its order.
fn by_connection(history: &History) -> Vec<u32> {
    let place = |id: &u32| history.txns[*id as usize].place;
    let mut ids: Vec<u32> = (0..history.txns.len() as u32).filter(|id| place(id).is_some()).collect();
    ids.sort_unstable_by_key(|id| (place(id), *id));
    ids
}

/// Draws the order that a level asks for.
pub(crate) struct Order<'a> {
    pub(crate) history: &'a History,
    pub(crate) happened: &'a [bool],
    pub(crate) options: &'a Options,
}

impl Order<'_> {
    /// Draws each client's order and real time, as far as asked for; and each connection's order, which is recorded where it is promised.
    pub(crate) fn link(&self, edges: &mut Edges) {
        let sent = by_connection(self.history);
        let of = |id: u32| connection(&self.history.txns[id as usize]);
        for connection in sent.chunk_by(|a, b| of(*a) == of(*b)) {
            chain(connection.iter().copied().filter(|txn| self.happened[*txn as usize]), edges);
        }
        let sessions = self.options.sessions;
        let clients = by_client(self.history);
        for client in clients.chunk_by(|a, b| self.process(*a) == self.process(*b)) {
            let happened = client.iter().copied().filter(|txn| self.happened[*txn as usize]);
            match self.options.level {
                Level::Serializable => {}
                Level::Session => chain(happened.clone(), edges),
                Level::Strict => chain(happened.clone().filter(|txn| !self.snap(*txn)), edges),
            }
            let asked = sessions.monotonic_reads || sessions.read_your_writes;
            if asked && self.options.level != Level::Session && client.iter().any(|txn| self.snap(*txn)) {
                self.link_snapshots(happened, edges);
            }
        }
        if self.options.level == Level::Strict {
            self.link_real_time(edges);
        }
    }

    fn process(&self, txn: u32) -> u64 {
        self.history.txns[txn as usize].process
    }

    fn snap(&self, txn: u32) -> bool {
        self.history.txns[txn as usize].snap
    }

    /// One client's transactions, as far as its snapshot reads are concerned. `before` stands for all that the next snapshot
    /// read has to see, `after` for all snapshot reads that the next reader must not fall behind.
    fn link_snapshots(&self, client: impl Iterator<Item = u32>, edges: &mut Edges) {
        let sessions = self.options.sessions;
        let (mut before, mut after) = (NO_TXN, NO_TXN);
        let extend = |chain: &mut u32, txn: u32, edges: &mut Edges| {
            let helper = edges.helper();
            edges.link(txn, helper, PROCESS);
            if *chain != NO_TXN {
                edges.link(*chain, helper, CONT);
            }
            *chain = helper;
        };
        for txn in client {
            let ops = &self.history.txns[txn as usize].ops;
            let reads = sessions.monotonic_reads && ops.iter().any(|op| !op.is_write());
            let writes = sessions.read_your_writes && ops.iter().any(|op| op.is_write());
            let snap = self.snap(txn);
            if snap && before != NO_TXN {
                edges.link(before, txn, CONT);
            }
            if !snap && reads && after != NO_TXN {
                edges.link(after, txn, CONT);
            }
            if reads || writes {
                extend(&mut before, txn, edges);
            }
            if snap && reads {
                extend(&mut after, txn, edges);
            }
        }
    }

    /// Everything that ended comes before everything that began later, by way of one helper for each moment between. A snapshot read comes
    /// after what ended before the moment up to which it asked for everything, and before nothing.
    fn link_real_time(&self, edges: &mut Edges) {
        let primary = |id: &u32| self.happened[*id as usize] && !self.snap(*id);
        let ids: Vec<u32> = (0..self.history.txns.len() as u32).filter(primary).collect();
        let txn = |id: u32| &self.history.txns[id as usize];
        let end = |id: u32| txn(id).t1.filter(|_| txn(id).status == Status::Ok);
        let fresh =
            (0..self.history.txns.len() as u32).filter(|id| self.happened[*id as usize] && self.snap(*id));
        let fresh = fresh.filter_map(|id| Some((txn(id).since?, id)));
        let mut begins: Vec<(u64, u32)> = ids.iter().map(|id| (txn(*id).t0, *id)).chain(fresh).collect();
        let mut ends: Vec<(u64, u32)> = ids.iter().filter_map(|id| Some((end(*id)?, *id))).collect();
        drop(ids);
        begins.sort_unstable();
        ends.sort_unstable_by_key(|end| Reverse(*end));
        let mut moment = NO_TXN;
        for (begin, id) in begins {
            let mut fresh = NO_TXN;
            // What ends at the very instant overlaps.
            while let Some((_, ended)) = ends.last().copied().filter(|(end, _)| *end < begin) {
                ends.pop();
                if fresh == NO_TXN {
                    fresh = edges.helper();
                    if moment != NO_TXN {
                        edges.link(moment, fresh, CONT);
                    }
                }
                edges.link(ended, fresh, REALTIME);
            }
            moment = if fresh == NO_TXN { moment } else { fresh };
            if moment != NO_TXN {
                edges.link(moment, id, CONT);
            }
        }
    }
}

/// Each before the next.
fn chain(txns: impl Iterator<Item = u32>, edges: &mut Edges) {
    let mut last = NO_TXN;
    for txn in txns {
        if last != NO_TXN {
            edges.link(last, txn, PROCESS);
        }
        last = txn;
    }
}
