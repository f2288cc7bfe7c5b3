#!/usr/bin/env python3
"""What an idle cluster of three replicas costs: CPU time of each process, by thread, and how often its threads wake up.

    cargo build --profile dist
    benches/idle.py [--seconds 20] [--workers 1,2] [--strace]

Nobody asks for anything meanwhile, not even for a status. `--strace` counts system calls of the leader in a few seconds of their own.
"""

import argparse
import pathlib
import signal
import subprocess
import sys
import tempfile
import time

from runs import ROOT

sys.path.insert(0, str(ROOT / "tests"))
from cluster import Cluster  # noqa: E402


def threads(pid):
    """Name, CPU time in seconds, and voluntary and other switches of each thread."""
    found = {}
    for task in pathlib.Path(f"/proc/{pid}/task").iterdir():
        spent = int((task / "schedstat").read_text().split()[0]) / 1e9
        status = dict(line.split(":", 1) for line in (task / "status").read_text().splitlines())
        found[task.name] = (status["Name"].strip(), spent, int(status["voluntary_ctxt_switches"]))
    return found


def measure(workers, seconds, release, strace):
    with Cluster(release, 3, 'durability = "memory"', workers=workers) as cluster:
        for node in range(3):
            cluster.start(node, range(3))
        leader = cluster.leader()
        time.sleep(3)
        pids = {node: process.pid for node, process in cluster.processes.items()}
        before, began = {node: threads(pid) for node, pid in pids.items()}, time.monotonic()
        time.sleep(seconds)
        after, took = {node: threads(pid) for node, pid in pids.items()}, time.monotonic() - began
        for node in pids:
            each = []
            for task, (name, spent, switches) in after[node].items():
                _, spent_before, switches_before = before[node].get(task, (name, 0.0, 0))
                each.append((name, (spent - spent_before) / took, (switches - switches_before) / took))
            total = sum(share for _, share, _ in each)
            parts = ", ".join(f"{name} {100 * share:.3f} % in {wakes:.0f} wake-ups/s" for name, share, wakes in sorted(each) if wakes > 0.2)
            print(f"{workers} worker(s), {'leader  ' if node == leader else 'follower'} {100 * total:.3f} % of a core: {parts}", flush=True)
        if strace:
            with tempfile.TemporaryDirectory() as folder:
                counted = pathlib.Path(folder) / "counts"
                trace = subprocess.Popen(["strace", "-c", "-f", "-o", counted, "-p", str(pids[leader])], stderr=subprocess.DEVNULL)
                time.sleep(5)
                trace.send_signal(signal.SIGINT)
                trace.wait()
                print("system calls of the leader in 5 s\n" + counted.read_text())


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=20)
    parser.add_argument("--workers", default="1,2")
    parser.add_argument("--strace", action="store_true")
    parser.add_argument("--release", type=pathlib.Path, default=ROOT / "target" / "dist")
    args = parser.parse_args()
    for workers in args.workers.split(","):
        measure(int(workers), args.seconds, args.release, args.strace)


if __name__ == "__main__":
    main()
