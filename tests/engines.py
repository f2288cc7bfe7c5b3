#!/usr/bin/env python3
"""Engines beside each other on one workload, in turns: throughput, CPU time of all replicas for each transaction, attempts that came to
nothing, latency. Medians of several rounds, with the lowest and the highest; ratios to the first engine round by round.

    tests/engines.py --workload ycsb-t --engines meerkat,meerkat-pb,tapir,kuafu,rolis --workers 1 --rounds 3 --seconds 3
    tests/engines.py --workload ycsb-t --engines meerkat,kuafu --zipf 0,0.6,0.8,0.9,0.99 --rounds 1

Needs a build of `highwater` of the profile `dist` with the feature `laboratory`. Everything on one machine: three replicas share its cores, so compare CPU time before throughput.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile


def run(args, engine, zipf):
    with tempfile.TemporaryDirectory() as folder:
        report = os.path.join(folder, "report.json")
        command = [args.release, "bench", args.workload, "--engine", engine, "--workers", str(args.workers),
                   "--seconds", str(args.seconds), "--warmup", "1", "--in-flight", str(args.in_flight),
                   "--no-check", "--json", report]
        if zipf is not None:
            command += ["--zipf", str(zipf)]
        if args.rate:
            command += ["--rate", str(args.rate)]
        for pair in args.set:
            command += ["--set", pair]
        ended = subprocess.run(command, capture_output=True, text=True)
        if ended.returncode != 0:
            sys.exit(f"{' '.join(command)}\n{ended.stdout}{ended.stderr}")
        with open(report) as file:
            report = json.load(file)
    report = report.get("median", report)
    cpu = report["cpu_seconds"]
    work = cpu["leader"] + sum(cpu["followers"]) - cpu["load"]
    committed = max(report["committed"], 1)
    latency = report["released_latency_us"]
    figures = report["engine_figures"]
    return {
        "tps": report["tps"],
        "cpu_us": 1e6 * work / committed,
        "aborts": report["conflict_aborts"] / committed,
        "gave_up": report["gave_up"] / committed,
        "fast": figures.get("fast path", 0) / max(figures.get("fast path", 0) + figures.get("slow path", 0), 1),
        "p50": latency["p50"],
        "p99": latency["p99"],
    }


def spread(values, form):
    middle = form.format(statistics.median(values))
    if len(values) == 1:
        return middle
    return f"{middle} [{form.format(min(values))} .. {form.format(max(values))}]"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--release", default="target/dist/highwater", help="the binary")
    parser.add_argument("--workload", default="ycsb-t")
    parser.add_argument("--engines", default="meerkat,meerkat-pb,tapir,kuafu,rolis")
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=3)
    parser.add_argument("--in-flight", type=int, default=1000, help="unreleased transactions per worker")
    parser.add_argument("--rate", type=float, default=0, help="transactions per second; as fast as possible if absent")
    parser.add_argument("--zipf", default="", help="coefficients, separated by commas")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="a setting of every node")
    args = parser.parse_args()
    engines = args.engines.split(",")
    print(f"{args.workload}, {args.workers} worker(s), {args.rounds} round(s) of {args.seconds} s in turns")
    for zipf in args.zipf.split(",") if args.zipf else [None]:
        found = {engine: [] for engine in engines}
        for _ in range(args.rounds):
            for engine in engines:
                found[engine].append(run(args, engine, zipf))
        if zipf is not None:
            print(f"zipf {zipf}")
        for engine in engines:
            rounds = found[engine]
            get = lambda key: [of[key] for of in rounds]
            ratio = [of["tps"] / first["tps"] for of, first in zip(rounds, found[engines[0]])]
            print(f"  {engine:15} {spread(get('tps'), '{:9.0f}')}/s ({spread(ratio, '{:.2f}')})"
                  f"  CPU {spread(get('cpu_us'), '{:.2f}')} us  aborts {spread(get('aborts'), '{:.3f}')}"
                  f"  one round trip {statistics.median(get('fast')):.3f}  gave up {statistics.median(get('gave_up')):.4f}"
                  f"  p50 {statistics.median(get('p50')):.0f} us  p99 {statistics.median(get('p99')):.0f} us", flush=True)


if __name__ == "__main__":
    main()
