#!/usr/bin/env python3
"""Workers that want the same rows: conflicts for each commit, throughput, what was given up. Two workers, and eight on these cores.

    cargo build --profile dist --features laboratory
    benches/contention.py [--rounds 3] [--seconds 2] [--engine silo,rolis] [--workers 1,2,8]

TPC-C with one warehouse; Bank with 100 accounts; YCSB++ with all keys drawn by zipf 0.99. Writes docs/performance/contention.svg.
"""

import argparse

from plot import chart
from runs import ROOT, in_turns, spread

LOADS = {
    "TPC-C, one warehouse": ["tpcc", "--warehouses", 1, "--set", "store.reserve_mb=800"],
    "Bank, 100 accounts": ["bank", "--accounts", 100],
    "YCSB++, zipf 0.99": ["ycsb", "--zipfian", "--theta", 0.99],
}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=2)
    parser.add_argument("--engine", default="silo")
    parser.add_argument("--workers", default="1,2,4,8")
    parser.add_argument("--loads", default="", help="those whose names begin so")
    args = parser.parse_args()
    workers = [int(count) for count in args.workers.split(",")]
    for engine in args.engine.split(","):
        series = {}
        for load, words in LOADS.items():
            if not load.startswith(args.loads):
                continue
            base = [*words, "--engine", engine, "--seconds", args.seconds, "--warmup", 1, "--no-check"]
            cases = {count: [*base, "--workers", count] for count in workers}
            middle, found = in_turns(cases, args.rounds)
            print(f"{engine}, {load}")
            for count in workers:
                rounds = found[count]
                print(
                    f"  {count} worker(s): {spread(rounds, 'tps')}/s, {spread(rounds, 'per_cpu')} per leader CPU-second, conflicts for each commit"
                    f" {spread(rounds, 'conflicts', '{:.4f}')}, given up {spread(rounds, 'gave_up', '{:.5f}')}, p99 {spread(rounds, 'p99')} us",
                    flush=True,
                )
            most = middle[workers[0]]["tps"]
            series[load] = [(count, middle[count]["tps"] / most) for count in workers]
        if engine == "silo" and not args.loads and len(workers) > 1:
            title = "Throughput under contention, over that of one worker (2 cores)"
            chart(ROOT / "docs/performance/contention.svg", title, "workers", "times one worker", series)


if __name__ == "__main__":
    main()
