#!/usr/bin/env python3
"""A replica of a loaded cluster is killed, and comes back after a while with its disk: how long until it has caught up.

    cargo build --profile dist && cargo build --profile dist -p highwater-node --example transfers
    tests/comeback.py [--away 10] [--connections 32] [--rounds 3] [--release DIR]

Three replicas with durability sync; so many connections transfer, one after the other each. A follower gets SIGKILL. It has caught up when
it votes, its store is complete, and what it shows is at most 100 ms old. The transfers must add up.
"""

import argparse
import pathlib
import time

from cluster import Cluster, tell

ROOT = pathlib.Path(__file__).resolve().parent.parent
FRESH_MS = 100


def is_back(status):
    freshness = status.get("freshness_ms")
    return status.get("role") == "follower" and freshness is not None and freshness <= FRESH_MS


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--away", type=float, default=10)
    parser.add_argument("--connections", type=int, default=32)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--release", type=pathlib.Path, default=ROOT / "target" / "dist")
    args = parser.parse_args()
    with Cluster(args.release, 3) as cluster:
        for node in range(3):
            cluster.start(node, range(3))
        leads = cluster.leader()
        victim = (leads + 1) % 3
        load = cluster.transfers(args.release, leads, args.connections, int(args.rounds * (args.away + 8)))
        try:
            for _ in range(args.rounds):
                time.sleep(3)
                cluster.end(victim, kill=True)
                time.sleep(args.away)
                began = time.monotonic()
                cluster.start(victim, range(3))
                while not is_back(cluster.status(victim)):
                    time.sleep(0.01)
                print(f"back after {time.monotonic() - began:.2f} s{'' if load.poll() is None else ', and the load was over'}", flush=True)
            tell(load)
        finally:
            load.poll() is None and load.terminate()


if __name__ == "__main__":
    main()
