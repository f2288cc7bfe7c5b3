#!/usr/bin/env python3
"""What reads that share round trips cost: GETs from so many connections, and the entries that the leader's stream decided meanwhile.

    cargo build --profile dist
    benches/shared_reads.py [--operations 30000] [--connections 1,2,10,50] [--release DIR]

Three replicas, one worker each, nothing but GETs. A read waits until a majority has answered a question that was asked after it: no entry is
decided for it, unless a majority is of a build that does not answer (`--release` of one before November 2026).
"""

import argparse
import pathlib
import re
import subprocess
import sys

from runs import ROOT

sys.path.insert(0, str(ROOT / "tests"))
from cluster import Cluster  # noqa: E402
from rivals import cpu_seconds  # noqa: E402


def decided(cluster, node):
    return next(sum(figure["values"]) for figure in cluster.status(node)["figures"] if figure["name"] == "decided")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--operations", type=int, default=30_000)
    parser.add_argument("--connections", default="1,2,10,50")
    parser.add_argument("--release", type=pathlib.Path, default=ROOT / "target" / "dist")
    args = parser.parse_args()
    with Cluster(args.release, 3, 'durability = "memory"') as cluster:
        for node in range(3):
            cluster.start(node, range(3))
        leader = cluster.leader()
        pids = [process.pid for process in cluster.processes.values()]
        for connections in map(int, args.connections.split(",")):
            before, cpu = decided(cluster, leader), cpu_seconds(pids)
            words = ["redis-benchmark", "-p", str(cluster.resp(leader)), "-t", "get", "-c", str(connections), "-n", str(args.operations), "-r", "10000"]
            done = subprocess.run(words, capture_output=True, text=True, check=True)
            cpu = 1e6 * (cpu_seconds(pids) - cpu) / args.operations
            entries = decided(cluster, leader) - before
            rate = re.search(r"throughput summary: ([\d.]+)", done.stdout).group(1)
            found = re.search(r"avg +min +p50 .*\n +([\d.]+) +[\d.]+ +([\d.]+)", done.stdout)
            print(
                f"{connections} connection(s): {entries} entries for {args.operations} reads, {float(rate):.0f}/s, p50 {found.group(2)} ms,"
                f" {cpu:.1f} us of CPU a read over all replicas",
                flush=True,
            )


if __name__ == "__main__":
    main()
