#!/usr/bin/env python3
"""The durability levels beside each other: throughput, CPU time of the leader, latency until release.

    cargo build --profile dist --features lab
    tests/levels.py [--rounds 5] [--seconds 4] [--workload ycsb,tpcc] [--in-flight 16000] [--release DIR]

Three replicas of one worker each on this machine, `highwater bench` in turns, so that each level meets the same noise. Medians; a ratio is
the median of those of the rounds, with the smallest and the largest.
"""

import argparse
import json
import pathlib
import statistics
import subprocess
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
LEVELS = ("memory", "async", "sync")


def measure(release, workload, level, args, folder):
    report = folder / "report.json"
    command = [release / "highwater", "bench", workload, "--seconds", str(args.seconds), "--warmup", "2", "--workers", "1"]
    command += ["--in-flight", str(args.in_flight), "--no-check", "--set", f"cluster.durability={level}", "--json", report]
    command += ["--set", "store.reserve_mb=800"] if workload == "tpcc" else []
    subprocess.run(command, check=True, capture_output=True, cwd=folder)
    return json.loads(report.read_text())


def figures(report):
    latency = report["released_latency_us"]
    return report["tps"], report["transactions_per_leader_cpu_second"], latency["p50"] / 1e3, latency["p99"] / 1e3


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=int, default=4)
    parser.add_argument("--workload", default="ycsb,tpcc")
    parser.add_argument("--in-flight", type=int, default=16000)
    parser.add_argument("--release", type=pathlib.Path, default=ROOT / "target" / "dist")
    args = parser.parse_args()
    release = args.release.resolve()
    with tempfile.TemporaryDirectory(prefix="highwater-levels-") as folder:
        for workload in args.workload.split(","):
            rounds = [
                {level: measure(release, workload, level, args, pathlib.Path(folder)) for level in LEVELS}
                for _ in range(args.rounds)
            ]
            print(f"{workload}: {args.rounds} rounds of {args.seconds} s, {args.in_flight} in flight at most")
            for level in LEVELS:
                each = [figures(one[level]) for one in rounds]
                rate, cpu, half, most = (statistics.median(column) for column in zip(*each))
                print(f"  {level:7} {rate / 1e3:7.0f}k/s  {cpu / 1e3:6.0f}k per leader CPU-second  p50 {half:5.2f} ms  p99 {most:6.2f} ms", end="")
                if level != "memory":
                    for name, at in (("throughput", 0), ("per CPU-second", 1)):
                        ratios = [figures(one[level])[at] / figures(one["memory"])[at] for one in rounds]
                        print(f"  {name} {statistics.median(ratios):.2f} [{min(ratios):.2f} .. {max(ratios):.2f}] of memory", end="")
                print(flush=True)


if __name__ == "__main__":
    main()
