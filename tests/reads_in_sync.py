#!/usr/bin/env python3
"""How long a lone client waits for GET and SET of three replicas with disks (`sync`), whole and with a follower that stands still.

With --old FOLDER, which has the `highwater` of an earlier build, also where one follower, both, or all replicas are of that build.
"""

import argparse
import os
import pathlib
import signal
import socket
import statistics
import sys
import time

from cluster import Cluster

ROOT = pathlib.Path(__file__).resolve().parent.parent


def times(client, words, wanted, count):
    """Seconds that each of `count` such commands takes, sorted."""
    command = b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%s\r\n" % (len(word), word) for word in words)
    took = []
    for _ in range(count):
        begun = time.perf_counter()
        client.sendall(command)
        reply = client.recv(1000)
        took.append(time.perf_counter() - begun)
        if not reply.startswith(wanted):
            sys.exit(f"{words}: {reply}")
    return sorted(took)


def measure(cluster, leader, what, args):
    with socket.create_connection(("127.0.0.1", cluster.resp(leader)), timeout=10) as client:
        reads = times(client, [b"GET", b"probe"], b"$1", args.reads)
        writes = times(client, [b"SET", b"k", b"v"], b"+OK", args.writes)
    p50, p99 = (reads[len(reads) * part // 100] * 1e6 for part in (50, 99))
    print(f"{what:34} GET p50 {p50:5.0f} us, p99 {p99:5.0f}, longest {reads[-1] * 1e3:5.1f} ms; SET p50 {statistics.median(writes) * 1e6:5.0f} us", flush=True)


def run(name, builds, args):
    with Cluster(builds[0], len(builds)) as cluster:

        def start(node):
            cluster.highwater = builds[node].resolve() / "highwater"
            cluster.start(node, range(len(builds)))

        for node in range(len(builds)):
            start(node)
        # The first one is to lead: whoever else does hands its lead over.
        for _ in range(10):
            leader = cluster.leader()
            if leader == 0:
                break
            cluster.end(leader)
            start(leader)
        if leader != 0:
            sys.exit("another replica leads, again and again")
        measure(cluster, leader, name, args)
        stopped = cluster.processes[1].pid
        os.kill(stopped, signal.SIGSTOP)
        try:
            measure(cluster, leader, f"{name}, one stands still", args)
        finally:
            os.kill(stopped, signal.SIGCONT)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--release", type=pathlib.Path, default=ROOT / "target" / "dist")
    parser.add_argument("--old", type=pathlib.Path)
    parser.add_argument("--reads", type=int, default=2000)
    parser.add_argument("--writes", type=int, default=300)
    args = parser.parse_args()
    new, old = args.release, args.old
    run("this build", [new] * 3, args)
    if old:
        run("one follower of the other build", [new, new, old], args)
        run("both followers", [new, old, old], args)
        run("all", [old] * 3, args)


if __name__ == "__main__":
    main()
