//! Whether a world of lists has converged, and whether what the clients were told is what is there.

use std::collections::{BTreeMap, BTreeSet};

use highwater_core::{NodeId, View};
use highwater_seam::Nanos;

use super::cluster::{converged, whole};
use super::library::LISTS;
use super::{Asked, Lists, MS, numbers};

impl Lists {
    /// Whether everyone votes, has a store, and has applied what the leader has.
    pub fn converged(&self) -> bool {
        converged(&self.world)
    }

    /// Whether everyone votes and has a store: so that one may be killed.
    pub fn whole(&self) -> bool {
        whole(&self.world)
    }

    /// The final list on a node.
    pub fn list(&self, id: NodeId, list: u8) -> Vec<u32> {
        let store = self.world.replica(id).expect("the node is up").controller.store();
        numbers(&store.get(LISTS, &u64::from(list).to_be_bytes()).unwrap_or_default())
    }

    /// Waits until all converge, then compares what the clients were told with what is there, on every node.
    pub fn verify(&mut self) {
        self.world.calm();
        for id in self.world.ids().filter(|id| !self.world.is_up(*id)).collect::<Vec<_>>() {
            self.world.start(id);
        }
        self.run(50 * MS);
        self.wait_for(5000 * MS, "all replicas converge", Lists::converged);
        self.run(50 * MS);
        self.wait_for(5000 * MS, "all replicas converge again", Lists::converged);
        // Service goes on.
        let leader = self.world.leader().expect("converged worlds have one");
        let last = (0..self.workers)
            .filter_map(|worker| self.ask(leader, worker, &[0, 1], &[2]))
            .collect::<Vec<_>>();
        assert_eq!(
            last.len(),
            self.workers as usize,
            "the leader of a converged cluster takes requests\n{}",
            self.story()
        );
        let served = |lists: &Lists| last.iter().all(|token| lists.acknowledged(*token));
        self.wait_for(1000 * MS, "a converged cluster serves", served);
        self.run(50 * MS);
        self.wait_for(5000 * MS, "all replicas converge at the end", Lists::converged);
        let digest = |id: NodeId| self.world.replica(id).expect("the node is up").controller.store().digest();
        let first = self.world.belonging().next().expect("somebody votes");
        for id in self.world.belonging() {
            assert_eq!(digest(id), digest(first), "{id} differs\n{}", self.story());
        }
        self.check_history();
        self.check_leaders();
    }

    /// An epoch has one leader, ever.
    fn check_leaders(&self) {
        let mut leaders: BTreeMap<&str, NodeId> = BTreeMap::new();
        for (_, node, said) in &self.world.log {
            if let Some(epoch) = said.strip_prefix("leading ").and_then(|said| said.split(' ').next()) {
                let first = *leaders.entry(epoch).or_insert(*node);
                assert_eq!(first, *node, "two led {epoch}\n{}", self.story());
            }
        }
    }

    fn check_history(&self) {
        let first = self.world.belonging().next().expect("somebody votes");
        let finals: Vec<Vec<u32>> = (0..self.lists).map(|list| self.list(first, list)).collect();
        for (list, values) in finals.iter().enumerate() {
            let once: BTreeSet<u32> = values.iter().copied().collect();
            assert_eq!(once.len(), values.len(), "list {list} holds a value twice\n{}", self.story());
        }
        let acknowledged: Vec<(&Asked, Nanos, &Vec<Vec<u32>>)> =
            self.asked.values().filter_map(|a| a.seen.as_ref().map(|(at, seen)| (a, *at, seen))).collect();
        for (asked, _, seen) in &acknowledged {
            for (at, (list, values)) in asked.reads.iter().chain(&asked.appends).zip(*seen).enumerate() {
                let whole = &finals[*list as usize];
                assert!(
                    whole.starts_with(values),
                    "{asked:?} saw in list {list} what was lost; finally {whole:?}\n{}",
                    self.story()
                );
                if at >= asked.reads.len() {
                    assert_eq!(
                        whole.get(values.len()),
                        Some(&asked.value),
                        "{asked:?} was acknowledged and lost in list {list}: {whole:?}\n{}",
                        self.story()
                    );
                }
            }
        }
        self.check_order(&finals, &acknowledged);
    }

    /// Puts all that took effect into one order that respects the lists and real time, or fails.
    ///
    /// Nodes: the acknowledged, and those of unknown outcome whose value is there. Per list: the appends in order, and each
    /// reader between the append that it saw last and the next. Real time goes through a chain of instants, so that it takes
    /// few edges. Reads on snapshots have an order in real time only among those of one replica; with an engine that does not promise
    /// real time, nothing has.
    fn check_order(&self, finals: &[Vec<u32>], acknowledged: &[(&Asked, Nanos, &Vec<Vec<u32>>)]) {
        let by_value: BTreeMap<u32, usize> =
            acknowledged.iter().enumerate().map(|(at, (asked, _, _))| (asked.value, at)).collect();
        let mut ids = by_value.clone();
        let mut nodes = acknowledged.len();
        for value in finals.iter().flatten() {
            ids.entry(*value).or_insert_with(|| {
                nodes += 1;
                nodes - 1
            });
        }
        let starts: BTreeMap<u32, Nanos> = self.asked.values().map(|asked| (asked.value, asked.at)).collect();
        let mut edges: Vec<Vec<usize>> = vec![Vec::new(); nodes];
        let ends: BTreeMap<u32, Nanos> =
            acknowledged.iter().map(|(asked, end, _)| (asked.value, *end)).collect();
        let replicas: BTreeMap<u32, _> =
            acknowledged.iter().map(|(asked, _, _)| (asked.value, asked.snapshot_of)).collect();
        let kinds: BTreeSet<_> = replicas.values().copied().chain([None]).collect();
        let real_time = self.world.engine().abilities().real_time;
        for kind in kinds.into_iter().filter(|_| real_time) {
            let of_kind: Vec<(u32, usize)> = ids
                .iter()
                .filter(|(value, _)| replicas.get(value).copied().flatten() == kind)
                .map(|(value, at)| (*value, *at))
                .collect();
            // Instants, in order; instant i has the id `first + i`.
            let first = edges.len();
            let instants: BTreeSet<Nanos> =
                of_kind.iter().filter_map(|(value, _)| ends.get(value).copied()).collect();
            let instants: Vec<Nanos> = instants.into_iter().collect();
            edges.resize(first + instants.len(), Vec::new());
            for at in 1..instants.len() {
                edges[first + at - 1].push(first + at);
            }
            for (value, at) in of_kind {
                if let Some(end) = ends.get(&value) {
                    edges[at].push(first + instants.binary_search(end).expect("listed"));
                }
                // The last instant before it was asked.
                let before = instants.partition_point(|instant| *instant < starts[&value]);
                if before > 0 {
                    edges[first + before - 1].push(at);
                }
            }
        }
        for list in finals {
            for pair in list.windows(2) {
                edges[ids[&pair[0]]].push(ids[&pair[1]]);
            }
        }
        for (at, (asked, _, seen)) in acknowledged.iter().enumerate() {
            for (list, values) in asked.reads.iter().chain(&asked.appends).zip(*seen) {
                if let Some(last) = values.last() {
                    edges[ids[last]].push(at);
                }
                if let Some(next) = finals[*list as usize].get(values.len())
                    && ids[next] != at
                {
                    edges[at].push(ids[next]);
                }
            }
        }
        let mut into = vec![0; edges.len()];
        edges.iter().flatten().for_each(|to| into[*to] += 1);
        let mut ready: Vec<usize> = (0..edges.len()).filter(|at| into[*at] == 0).collect();
        let mut ordered = 0;
        while let Some(at) = ready.pop() {
            ordered += 1;
            for to in &edges[at] {
                into[*to] -= 1;
                if into[*to] == 0 {
                    ready.push(*to);
                }
            }
        }
        let stuck: Vec<&Asked> =
            acknowledged.iter().enumerate().filter(|(at, _)| into[*at] > 0).map(|(_, a)| a.0).collect();
        assert_eq!(ordered, edges.len(), "no serial order in real time exists: {stuck:#?}\n{}", self.story());
    }
}
