#!/usr/bin/env python3
"""A node of a loaded cluster is replaced by a new one, which copies everything: how long that takes, and what clients see of it.

    cargo build --profile dist && cargo build --profile dist -p highwater-node --example transfers
    tests/replacement.py [--gb 2] [--seconds 60] [--times 1] [--release DIR]

Three replicas with durability sync are filled by redis-benchmark with values of 1 kB; then 8 connections transfer for so many seconds, one
after the other each, while a node that does not lead is replaced by a new one, by `highwater member replace`. The transfers must add up.
Needs redis-benchmark.
"""

import argparse
import pathlib
import shutil
import subprocess
import sys
import time

from cluster import Cluster, tell

ROOT = pathlib.Path(__file__).resolve().parent.parent


def replace(cluster, members, leads, newcomer, short):
    """Replaces the last one that does not lead; the members then, and how long it took."""
    goes = max(member for member in members if member != leads)
    cluster.start(newcomer, [*members, newcomer])
    began = time.monotonic()
    command = [cluster.highwater, "member", "replace", str(goes), "--by", str(newcomer), "--config", cluster.config(newcomer)]
    done = subprocess.run(command, capture_output=True, text=True)
    took = time.monotonic() - began
    lines = done.stdout.strip().splitlines()
    print("\n".join(lines[-1:] if short else lines), flush=True)
    if done.returncode != 0:
        sys.exit(f"member replace: {done.stderr}")
    cluster.end(goes)
    return [*(member for member in members if member != goes), newcomer], took


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gb", type=float, default=2)
    parser.add_argument("--seconds", type=int, default=60)
    parser.add_argument("--times", type=int, default=1, help="replacements, one after the other, each of the last newcomer")
    parser.add_argument("--release", type=pathlib.Path, default=ROOT / "target" / "dist")
    args = parser.parse_args()
    if not shutil.which("redis-benchmark"):
        sys.exit("redis-benchmark is not installed (Debian: redis-tools)")
    with Cluster(args.release, 3 + args.times) as cluster:
        members = [0, 1, 2]
        for node in members:
            cluster.start(node, members)
        leads = cluster.leader()
        keys = int(args.gb * 1e9 / 1100)
        began = time.monotonic()
        fill = ["redis-benchmark", "-p", str(cluster.resp(leads)), "-t", "set", "-d", "1000", "-r", str(keys), "-n", str(2 * keys)]
        subprocess.run([*fill, "-P", "128", "-c", "8", "-q"], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        print(f"filled in {time.monotonic() - began:.1f} s", flush=True)
        load = cluster.transfers(args.release, leads, 8, args.seconds)
        try:
            time.sleep(3)
            times = []
            for newcomer in range(3, 3 + args.times):
                members, took = replace(cluster, members, leads, newcomer, args.times > 1)
                times.append(took)
            under_load = load.poll() is None
            times = ", ".join(f"{one:.1f}" for one in times)
            print(f"replaced in {times} s{'' if under_load else ', longer than the load lasted: ask for more --seconds'}", flush=True)
            tell(load)
        finally:
            load.poll() is None and load.terminate()
        print(f"store of the new node: {cluster.status(newcomer).get('store_bytes', 0) / 2**30:.2f} GiB")


if __name__ == "__main__":
    main()
