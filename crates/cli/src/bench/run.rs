//! One run of a workload on a fresh cluster: load, warm up, measure, converge, check.

use std::collections::BTreeMap;
use std::fs;
use std::sync::Arc;
use std::time::{Duration, Instant};

use highwater_engines::EngineKind;
use highwater_node::admin::protocol::{AdminRequest, FigureReport, LoadReport, StatusReport, WorkloadSpec};
use highwater_node::load::report::of_clients;

use super::args::{Clients, RunArgs};
use super::instructions::{Counting, InstructionReport, expect_counters};
use super::neighbours::{Company, NeighbourReport, Neighbours};
use super::remote::{Remote, RemoteSpec, Source};
use super::report::{CpuSeconds, Procedure, RemoteConfig, Resident, ResidentBytes, RunConfig, RunReport};
use crate::admin::AdminClient;
use crate::audit::{Acknowledged, Generators};
use crate::failure::{Failure, Result};
use crate::fleet::{Fleet, FleetSpec};
use crate::load::LoadSpec;
use crate::machine::Machine;
use crate::numbers::{micros, ratio, short};
use crate::progress::Progress;
use crate::verify;
use crate::workload::{effective_options, parse};

/// When memory is looked at, so that growth shows.
const MEMORY_LOOK: Duration = Duration::from_secs(10);

/// Runs the workload once on a cluster of its own.
pub fn run_once(
    engine: EngineKind,
    args: &RunArgs,
    workload: &WorkloadSpec,
    company: Option<Company>,
    progress: &mut Progress,
) -> Result<RunReport> {
    let replicas = replicas(engine, args)?;
    let machine = Machine::look();
    if args.instructions {
        expect_counters()?;
    }
    let spec = FleetSpec {
        engine,
        replicas,
        workers: args.workers,
        set: args.set.clone(),
        own: Vec::new(),
        keep: args.keep,
        disk_mb: None,
    };
    let neighbours =
        company.map(|company| Neighbours::start(company, args, workload, progress)).transpose()?;
    progress.step(&format!("{}: starting {replicas} replica(s)", engine.name()));
    let fleet = Fleet::start(&spec)?;
    let measurement = Measurement { engine, args, workload, neighbours };
    let outcome = measurement.run(&fleet, machine, progress);
    progress.clear();
    fleet.finish(outcome)
}

fn replicas(engine: EngineKind, args: &RunArgs) -> Result<u8> {
    match (engine.abilities().replicates, args.replicas) {
        (false, None | Some(1)) => Ok(1),
        (false, Some(_)) => {
            Err(Failure::usage(format!("--engine {engine} does not replicate: use --replicas 1")))
        }
        (true, replicas) => Ok(replicas.unwrap_or(3)),
    }
}

/// What is measured, and by what.
struct Measurement<'a> {
    engine: EngineKind,
    args: &'a RunArgs,
    workload: &'a WorkloadSpec,
    neighbours: Option<Neighbours>,
}

impl Measurement<'_> {
    fn run(mut self, fleet: &Fleet, machine: Machine, progress: &mut Progress) -> Result<RunReport> {
        let (args, workload) = (self.args, self.workload);
        let leader = fleet.wait_for_leader()?;
        let mut admin = fleet.admin(leader)?;
        progress.step("loading");
        admin
            .load(workload, |done, total| progress.count("loading", done, total))
            .map_err(|error| admin.failure(error))?;
        // What the followers still apply of the load must not count as work of the measured seconds.
        verify::converge(fleet)?;

        let mut running = Running::start(fleet, leader, args, workload, admin)?;
        progress.step("warming up");
        watch(&mut running, "warming up", Duration::from_secs_f64(args.warmup), progress)?;
        let (looks, load, beside) = self.measure(fleet, leader, &mut running, progress)?;

        progress.step("stopping");
        let last = running.stop()?;
        let checks = if args.no_check {
            None
        } else {
            progress.step("waiting for convergence");
            verify::converge(fleet)?;
            progress.step("checking");
            let mut acknowledged = Acknowledged::default();
            acknowledged.add(&load);
            acknowledged.add(&last);
            Some(verify::examine(fleet, workload, &acknowledged)?)
        };
        let mut report = looks.report(self.engine, args, workload, load, machine)?;
        report.checks = checks;
        report.cpu_seconds.leader_kernel = beside.kernel;
        report.neighbours = beside.neighbours;
        report.instructions_per_transaction = beside.instructions.as_ref().map(|counted| {
            counted
                .user
                .iter()
                .map(|count| *count as f64 / (report.committed + report.user_aborts).max(1) as f64)
                .collect()
        });
        report.instructions = beside.instructions;
        report.config.machine.look_again();
        Ok(report)
    }

    /// The measured seconds.
    fn measure(
        &mut self,
        fleet: &Fleet,
        leader: usize,
        running: &mut Running,
        progress: &mut Progress,
    ) -> Result<(Looks, LoadReport, Beside)> {
        let args = self.args;
        let counting = args.instructions.then(|| Counting::begin(fleet, leader)).transpose()?;
        self.neighbours.as_mut().map_or(Ok(()), Neighbours::begin)?;
        running.reset()?;
        let kernel_before = kernel_seconds(fleet, leader);
        let start = fleet.all_statuses()?;
        let measured = Duration::from_secs_f64(args.seconds);
        let first = measured.min(MEMORY_LOOK);
        progress.step("running");
        let began = Instant::now();
        watch(running, "running", first, progress)?;
        let at_10_s = if measured > MEMORY_LOOK { Some(fleet.all_statuses()?) } else { None };
        watch(running, "running", measured.saturating_sub(began.elapsed()), progress)?;
        let load = running.stats()?;
        let kernel = kernel_seconds(fleet, leader).zip(kernel_before).map(|(after, before)| after - before);
        let end = fleet.all_statuses()?;
        let beside = Beside {
            kernel,
            neighbours: self.neighbours.as_ref().map(Neighbours::report).transpose()?,
            instructions: counting.map(Counting::end).transpose()?,
        };
        let looks = Looks { leader, start, at_10_s, end };
        looks.leadership_held()?;
        Ok((looks, load, beside))
    }
}

/// What was measured beside the load and the replicas' own counts.
struct Beside {
    kernel: Option<f64>,
    neighbours: Option<NeighbourReport>,
    instructions: Option<InstructionReport>,
}

/// CPU time that a replica's process has spent in the kernel. The kernel counts it by samples.
fn kernel_seconds(fleet: &Fleet, node: usize) -> Option<f64> {
    let stat = fs::read_to_string(format!("/proc/{}/stat", fleet.pid(node)?)).ok()?;
    // Behind the name, which may hold anything: field 15 of all is `stime`.
    let ticks: f64 = stat.rsplit_once(')')?.1.split_whitespace().nth(12)?.parse().ok()?;
    Some(ticks / rustix::param::clock_ticks_per_second() as f64)
}

/// A load under way, from inside the leader's workers or from here.
struct Running {
    admin: AdminClient,
    remote: Option<Remote>,
}

impl Running {
    fn start(
        fleet: &Fleet,
        leader: usize,
        args: &RunArgs,
        workload: &WorkloadSpec,
        admin: AdminClient,
    ) -> Result<Running> {
        if args.clients == Clients::Workers {
            let spec = LoadSpec {
                workload: workload.clone(),
                workers: args.workers,
                in_flight: args.depth(),
                rate: args.rate,
                seed: args.seed,
                audit_every: args.audit_every,
            };
            spec.start_on(fleet, leader, &mut Generators::default())?;
            return Ok(Running { admin, remote: None });
        }
        let mut doors = fleet.doors();
        doors.swap(0, leader);
        let remote = Remote::start(&RemoteSpec {
            doors,
            source: Source::Calls(Arc::from(parse(workload)?.build())),
            connections: args.connections,
            in_flight: args.depth(),
            threads: args.client_threads.min(args.connections),
            rate: args.rate,
            seed: args.seed,
            audit_every: args.audit_every,
            audit_base: 0,
        })?;
        Ok(Running { admin, remote: Some(remote) })
    }

    /// Ends the warm-up.
    fn reset(&mut self) -> Result<()> {
        self.admin.request(&AdminRequest::ResetStats).map_err(|error| self.admin.failure(error))?;
        self.remote.iter().for_each(Remote::reset);
        Ok(())
    }

    fn stats(&mut self) -> Result<LoadReport> {
        let replica = self.admin.load_stats().map_err(|error| self.admin.failure(error))?;
        match &self.remote {
            None => Ok(replica),
            Some(remote) => Ok(of_clients(&remote.stats()?, replica)),
        }
    }

    fn stop(mut self) -> Result<LoadReport> {
        match self.remote.take() {
            None => self.admin.stop().map_err(|error| self.admin.failure(error)),
            Some(remote) => Ok(of_clients(&remote.stop()?, LoadReport::default())),
        }
    }
}

/// Waits while the load runs, and shows how it goes.
fn watch(running: &mut Running, what: &str, how_long: Duration, progress: &mut Progress) -> Result<()> {
    let began = Instant::now();
    let every = Duration::from_millis(500);
    while let Some(left) = how_long.checked_sub(began.elapsed()).filter(|left| !left.is_zero()) {
        std::thread::sleep(left.min(every));
        let load = running.stats()?;
        if !load.running {
            return Err(Failure::unavailable("the load ended before its time: the replica stopped leading"));
        }
        let tps = load.released() as f64 / load.seconds.max(0.001);
        let p50 = micros(load.released_latency_us.p50);
        let p99 = micros(load.released_latency_us.p99);
        let seconds = began.elapsed().as_secs_f64();
        progress.show(&format!("{what} {seconds:5.1} s  {}/s  p50 {p50}  p99 {p99}", short(tps)));
    }
    Ok(())
}

/// The replicas at the edges of the measured seconds.
struct Looks {
    leader: usize,
    start: Vec<StatusReport>,
    at_10_s: Option<Vec<StatusReport>>,
    end: Vec<StatusReport>,
}

impl Looks {
    fn leadership_held(&self) -> Result<()> {
        let (before, after) = (&self.start[self.leader], &self.end[self.leader]);
        if before.epoch == after.epoch && after.leads() {
            return Ok(());
        }
        Err(Failure::unavailable(format!(
            "leadership changed during the measurement (epoch {} to {}): the machine is too busy to measure",
            before.epoch, after.epoch
        )))
    }

    fn followers(&self) -> impl Iterator<Item = usize> {
        (0..self.start.len()).filter(|node| *node != self.leader)
    }

    fn cpu_seconds(&self, node: usize) -> f64 {
        self.end[node].cpu_ns.saturating_sub(self.start[node].cpu_ns) as f64 / 1e9
    }

    fn applied(&self, node: usize) -> f64 {
        self.end[node].applied.saturating_sub(self.start[node].applied) as f64
    }

    /// What the loaded replica counted meanwhile.
    fn engine_figures(&self) -> BTreeMap<String, u64> {
        let (start, end) = (&self.start[self.leader].figures, &self.end[self.leader].figures);
        let counted = end.iter().filter(|figure| figure.of_parts).filter_map(|figure| {
            let before = start.iter().find(|known| known.name == figure.name)?;
            let count = |of: &FigureReport| of.values.iter().sum::<u64>();
            Some((figure.name.clone(), count(figure).checked_sub(count(before))?))
        });
        counted.collect()
    }

    fn resident(&self, node: usize) -> Resident {
        Resident {
            start: self.start[node].resident_bytes,
            at_10_s: self.at_10_s.as_ref().map(|statuses| statuses[node].resident_bytes),
            end: self.end[node].resident_bytes,
            store_end: self.end[node].store_bytes,
        }
    }

    fn report(
        &self,
        engine: EngineKind,
        args: &RunArgs,
        workload: &WorkloadSpec,
        load: LoadReport,
        machine: Machine,
    ) -> Result<RunReport> {
        let released = load.released() as f64;
        let leader_cpu = load.process_cpu_ns as f64 / 1e9;
        let cpu: Vec<f64> = self.followers().map(|node| self.cpu_seconds(node)).collect();
        let applied: Vec<f64> = self.followers().map(|node| self.applied(node)).collect();
        let (cpu_sum, applied_sum) = (cpu.iter().sum::<f64>(), applied.iter().sum::<f64>());
        let count = cpu.len() as f64;
        Ok(RunReport {
            workload: workload.name.clone(),
            engine: engine.name().to_string(),
            replicas: self.start.len(),
            workers: args.workers,
            seconds: load.seconds,
            committed: load.committed,
            user_aborts: load.user_aborts,
            conflict_aborts: load.conflict_aborts,
            gave_up: load.gave_up,
            bad_requests: load.bad_requests,
            unknown: load.unknown,
            tps: ratio(released, load.seconds).unwrap_or(0.0),
            released_latency_us: load.released_latency_us,
            transactions_per_leader_cpu_second: ratio(released, leader_cpu).unwrap_or(0.0),
            execute_cpu_us_per_transaction: ratio(leader_cpu * 1e6, released).unwrap_or(0.0),
            apply_cpu_us_per_transaction: ratio(cpu_sum * 1e6, applied_sum),
            follower_cpu_us_per_released: ratio(cpu_sum * 1e6, released * count),
            cpu_seconds: CpuSeconds {
                leader: leader_cpu,
                leader_kernel: None,
                followers: cpu,
                load: load.generator_cpu_ns as f64 / 1e9,
            },
            log_bytes_per_transaction: ratio(load.log_bytes as f64, released).unwrap_or(0.0),
            log_bytes_per_logged_transaction: ratio(load.log_bytes as f64 * count, applied_sum),
            resident_bytes: ResidentBytes {
                leader: self.resident(self.leader),
                followers: self.followers().map(|node| self.resident(node)).collect(),
            },
            engine_figures: self.engine_figures(),
            per_procedure: per_procedure(load),
            neighbours: None,
            instructions: None,
            instructions_per_transaction: None,
            checks: None,
            config: run_config(engine, args, workload, machine)?,
        })
    }
}

fn per_procedure(load: LoadReport) -> BTreeMap<String, Procedure> {
    let procedures = load.per_procedure.into_iter().map(|report| {
        let (committed, user_aborts) = (report.committed, report.user_aborts);
        (report.name, Procedure { committed, user_aborts, released_latency_us: report.released_latency_us })
    });
    procedures.collect()
}

/// What the replicas' replies promised.
fn durability(engine: EngineKind, set: &[(String, String)]) -> String {
    let asked = set.iter().rev().find(|(key, _)| key == "cluster.durability").map(|(_, level)| &level[..]);
    let level = if engine.abilities().replicates { asked.unwrap_or("memory") } else { "none" };
    level.trim_matches('"').to_string()
}

fn run_config(
    engine: EngineKind,
    args: &RunArgs,
    workload: &WorkloadSpec,
    machine: Machine,
) -> Result<RunConfig> {
    Ok(RunConfig {
        workload_options: effective_options(workload)?,
        in_flight: args.depth(),
        remote: (args.clients == Clients::Remote).then(|| RemoteConfig {
            connections: args.connections,
            threads: args.client_threads.min(args.connections),
        }),
        rate: args.rate,
        warmup_seconds: args.warmup,
        seed: args.seed,
        audit_every: args.audit_every,
        durability: durability(engine, &args.set),
        set: args.set.iter().cloned().collect(),
        command: crate::output::command_line(),
        machine,
    })
}
