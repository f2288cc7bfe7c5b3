#!/usr/bin/env python3
"""One stream for all workers (strawman) against one stream for each (rolis), as the Rolis paper's figure 2, by CPU time.

    cargo build --profile dist --features laboratory
    benches/strawman.py [--rounds 3] [--seconds 3] [--workers 1,2,4,8] [--workload ycsb]

Three replicas on these cores: throughput says little where workers share a core, CPU time for each transaction says what the lock and the
waiting for it cost. The strawman counts how often a worker takes the lock, how often it finds it taken, and how long it waits then. Futex
calls are counted by strace in a run of their own, of the leader's process. Writes docs/performance/strawman.svg.
"""

import argparse
import pathlib
import re
import signal
import subprocess
import tempfile
import time

from plot import chart
from runs import BINARY, ROOT, in_turns, spread

ENGINES = ("rolis", "strawman")


def replicas_of(bench):
    """Process ids of the replicas that a bench has started."""
    children = pathlib.Path(f"/proc/{bench}/task/{bench}/children").read_text().split()
    return [int(pid) for pid in children]


def cpu_ticks(pid):
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return int(fields[11]) + int(fields[12])


def futexes(words, seconds):
    """Futex calls of the busiest replica per second and per transaction, by strace."""
    with tempfile.TemporaryDirectory() as folder:
        report, counted = pathlib.Path(folder) / "report.json", pathlib.Path(folder) / "strace"
        command = [BINARY, "bench", *map(str, words), "--seconds", "60", "--json", report]
        bench = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        time.sleep(5)
        replicas = replicas_of(bench.pid)
        before = {pid: cpu_ticks(pid) for pid in replicas}
        time.sleep(0.5)
        leader = max(replicas, key=lambda pid: cpu_ticks(pid) - before[pid])
        trace = subprocess.Popen(["strace", "-c", "-f", "-e", "trace=futex", "-o", counted, "-p", str(leader)], stderr=subprocess.DEVNULL)
        time.sleep(seconds)
        trace.send_signal(signal.SIGINT)
        trace.wait()
        bench.send_signal(signal.SIGINT)
        bench.wait()
        line = re.search(r"^\s*\S+\s+\S+\s+\S+\s+(\d+)\s.*futex", counted.read_text(), re.M)
        return int(line.group(1)) / seconds if line else 0.0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=3)
    parser.add_argument("--workers", default="1,2,4,8")
    parser.add_argument("--workload", default="ycsb")
    parser.add_argument("--no-futexes", action="store_true")
    args = parser.parse_args()
    workers = [int(count) for count in args.workers.split(",")]
    base = [args.workload, "--warmup", 1, "--in-flight", 1000, "--no-check"]
    cases = {
        (engine, count): [*base, "--seconds", args.seconds, "--engine", engine, "--workers", count] for count in workers for engine in ENGINES
    }
    middle, found = in_turns(cases, args.rounds)
    for engine in ENGINES:
        for count in workers:
            rounds = found[(engine, count)]
            print(
                f"{engine}, {count} worker(s): {spread(rounds, 'tps')}/s, leader {spread(rounds, 'leader_us', '{:.2f}')} us of CPU a transaction"
                f" ({spread(rounds, 'kernel_us', '{:.2f}')} in the kernel), p50 {spread(rounds, 'p50')} us",
                flush=True,
            )
            if middle[(engine, count)]["locks"] > 0:
                print(
                    f"    the lock: taken {spread(rounds, 'locks', '{:.2f}')} times a transaction; of 1,000 transactions"
                    f" {spread(rounds, 'lock_waits', '{:.2f}')} wait for it, {spread(rounds, 'lock_wait_us', '{:.1f}')} us in all",
                    flush=True,
                )
    if not args.no_futexes:
        for engine, count in cases:
            rate = futexes([*base, "--engine", engine, "--workers", count], 2)
            print(f"{engine}, {count} worker(s): {rate:.0f} futex calls/s under strace", flush=True)
    series = {engine: [(count, middle[(engine, count)]["leader_us"]) for count in workers] for engine in ENGINES}
    chart(ROOT / "docs/performance/strawman.svg", "One stream, or one for each worker", "workers", "leader's CPU, us a transaction", series)


if __name__ == "__main__":
    main()
