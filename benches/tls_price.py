#!/usr/bin/env python3
"""What TLS costs: between nodes, and for clients. CPU time for each transaction or command, with and without, in turns.

    cargo build --profile dist --features lab
    benches/tls_price.py [--rounds 3] [--seconds 3] [--only peers,clients]

Between nodes: three replicas, `highwater bench`, as much as they can. Clients: three replicas without TLS among themselves, redis-benchmark
(which has to be built with TLS) from 50 connections that stay; CPU time of the leader.
"""

import argparse
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

from runs import BINARY, ROOT, in_turns, spread

sys.path.insert(0, str(ROOT / "tests"))
from cluster import Cluster  # noqa: E402
from rivals import cpu_seconds  # noqa: E402


def peers(args):
    for load, words in {
        "YCSB++": ["ycsb"],
        "TPC-C": ["tpcc", "--in-flight", 4000, "--set", "store.reserve_mb=800"],
        "Bank, one at a time": ["bank", "--in-flight", 1],
    }.items():
        base = [*words, "--workers", 1, "--seconds", args.seconds, "--warmup", 1, "--no-check"]
        cases = {"plain": base, "tls": [*base, "--set", "tls.peer=required"]}
        _, found = in_turns(cases, args.rounds)
        print(f"between nodes, {load}")
        for name, rounds in found.items():
            print(
                f"  {name:6} leader {spread(rounds, 'leader_us', '{:.2f}')} us a transaction, all replicas {spread(rounds, 'all_us', '{:.2f}')} us,"
                f" {spread(rounds, 'tps')}/s, p50 {spread(rounds, 'p50')} us"
            )
        ratio = [tls["all_us"] / plain["all_us"] for tls, plain in zip(found["tls"], found["plain"])]
        print(f"  CPU of all replicas with TLS over without: {statistics.median(ratio):.3f} ({min(ratio):.3f} to {max(ratio):.3f})", flush=True)


def ask(port, command, pipeline, count, locks):
    words = ["redis-benchmark", "-p", str(port), "-t", command, "-P", str(pipeline), "-c", "50", "-n", str(count), "-r", "100000", "-q", *locks]
    done = subprocess.run(words, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{' '.join(words)}\n{done.stdout}{done.stderr}")


def clients(args):
    with tempfile.TemporaryDirectory() as folder:
        certs = pathlib.Path(folder)
        for words in (["ca"], ["node", "--id", "0", "--host", "127.0.0.1"]):
            subprocess.run([BINARY, "cert", *words, "--dir", certs], check=True, capture_output=True)
        files = "\n".join(f'{key} = "{certs / name}"' for key, name in (("ca", "ca.crt"), ("certificate", "node-0.crt"), ("key", "node-0.key")))
        tls = ["--tls", "--cacert", str(certs / "ca.crt")]
        with Cluster(BINARY.parent, 3, 'durability = "memory"') as plain, Cluster(
            BINARY.parent, 3, 'durability = "memory"', f"checkpoint_mb = 1024\n[tls]\nresp = true\n{files}"
        ) as locked:
            for cluster in (plain, locked):
                for node in range(3):
                    cluster.start(node, range(3))
            sides = {"plain": (plain, plain.leader(), []), "tls": (locked, leader_by_status(locked), tls)}
            for command in ("set", "get"):
                for pipeline in (1, 16):
                    count = args.operations * (4 if pipeline > 1 else 1)
                    found = {name: [] for name in sides}
                    for turn in range(args.rounds + 1):
                        for name, (cluster, leader, locks) in sides.items():
                            pid = cluster.processes[leader].pid
                            before = cpu_seconds([pid])
                            ask(cluster.resp(leader), command, pipeline, count, locks)
                            if turn > 0:
                                found[name].append(1e6 * (cpu_seconds([pid]) - before) / count)
                    middle = {name: statistics.median(each) for name, each in found.items()}
                    print(
                        f"clients, {command.upper()} -P {pipeline}: leader {middle['plain']:.2f} us plain, {middle['tls']:.2f} us with TLS,"
                        f" {middle['tls'] / middle['plain']:.2f} times",
                        flush=True,
                    )


def leader_by_status(cluster):
    """Who leads, of a cluster whose door a plain client cannot use."""
    for _ in range(600):
        for node in cluster.processes:
            status = cluster.status(node)
            if status.get("role") == "leader" and status.get("service") == "serving":
                return node
        time.sleep(0.05)
    sys.exit("no leader within 30 s")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=3)
    parser.add_argument("--operations", type=int, default=30_000)
    parser.add_argument("--only", default="peers,clients")
    args = parser.parse_args()
    for part in args.only.split(","):
        {"peers": peers, "clients": clients}[part](args)


if __name__ == "__main__":
    main()
