#!/usr/bin/env python3
"""The engine alone while its data grow: TPC-C by warehouses, YCSB++ by rows. Transactions per CPU-second, and memory.

    cargo build --profile dist --features laboratory
    benches/growth.py [--rounds 3] [--seconds 3] [--warehouses 1,4,16,64] [--rows 1000000,10000000,50000000] [--budget-mb 14000]

One worker, one process, memory touched ahead. A size that would not fit the budget is left out, and said so. Writes docs/performance/growth-*.svg.
"""

import argparse

from plot import chart
from runs import ROOT, in_turns, spread

# About what is loaded, and what a few seconds of running add.
WAREHOUSE_MB, ROW_BYTES, RUNNING_MB = 115, 110, 700


def numbers(text):
    return [int(one) for one in text.split(",") if int(one or 0)]


def curve(name, unit, cases, rounds):
    _, found = in_turns(cases, rounds)
    line = []
    for size, all_of in found.items():
        resident = max(one["resident"] for one in all_of) / 2**20
        print(f"{name}, {size} {unit}: {spread(all_of, 'per_cpu')} per CPU-second, {resident:.0f} MiB resident", flush=True)
        line.append((size, sorted(one["per_cpu"] for one in all_of)[len(all_of) // 2]))
    return line


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=3)
    parser.add_argument("--warehouses", type=numbers, default=[1, 4, 16, 64])
    parser.add_argument("--rows", type=numbers, default=[1_000_000, 10_000_000, 50_000_000])
    parser.add_argument("--budget-mb", type=int, default=14_000)
    args = parser.parse_args()
    base = ["--engine", "silo", "--workers", 1, "--seconds", args.seconds, "--warmup", 2, "--no-check"]
    tpcc, ycsb = {}, {}
    for count in args.warehouses:
        wanted = count * WAREHOUSE_MB + RUNNING_MB
        if wanted > args.budget_mb:
            print(f"TPC-C, {count} warehouses: left out, needs about {wanted} MiB")
            continue
        memory = ["--set", f"store.reserve_mb={wanted}", "--set", f"limits.memory_mb={args.budget_mb}"]
        tpcc[count] = ["tpcc", "--warehouses", count, *memory, *base]
    for count in args.rows:
        wanted = count * ROW_BYTES // 2**20 + 100
        if wanted > args.budget_mb:
            print(f"YCSB++, {count} rows: left out, needs about {wanted} MiB")
            continue
        memory = ["--set", f"store.reserve_mb={wanted}", "--set", f"limits.memory_mb={args.budget_mb}"]
        ycsb[count] = ["ycsb", "--keys", count, *memory, *base]
    folder = ROOT / "docs/performance"
    title = "The engine alone, one worker"
    if tpcc:
        line = curve("TPC-C", "warehouses", tpcc, args.rounds)
        chart(folder / "growth-tpcc.svg", title, "warehouses", "TPC-C per CPU-second", {"default layout": line}, log_x=True)
    if ycsb:
        line = curve("YCSB++", "rows", ycsb, args.rounds)
        chart(folder / "growth-ycsb.svg", title, "rows", "YCSB++ per CPU-second", {"uniform keys": line}, log_x=True)


if __name__ == "__main__":
    main()
