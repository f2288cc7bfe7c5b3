#!/usr/bin/env python3
"""What the first touch of fresh memory costs: the engine alone with memory reserved ahead, and without, in turns.

    cargo build --profile dist --features laboratory
    benches/first_touch.py [--rounds 5] [--seconds 4]

TPC-C, one worker. Without a reserve the store asks the system for memory as it grows.
"""

import argparse
import statistics

from runs import in_turns, spread


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=4)
    parser.add_argument("--reserve-mb", type=int, default=1400)
    args = parser.parse_args()
    base = ["tpcc", "--engine", "silo", "--workers", 1, "--seconds", args.seconds, "--warmup", 1, "--no-check"]
    cases = {"reserved": [*base, "--set", f"store.reserve_mb={args.reserve_mb}"], "first touch": base}
    _, found = in_turns(cases, args.rounds)
    for name in cases:
        print(f"{name}: {spread(found[name], 'per_cpu')} per CPU-second, {spread(found[name], 'kernel_us', '{:.2f}')} us in the kernel")
    ratios = [fresh["per_cpu"] / held["per_cpu"] for fresh, held in zip(found["first touch"], found["reserved"])]
    print(f"first touch over reserved: {statistics.median(ratios):.3f} ({min(ratios):.3f} to {max(ratios):.3f}); target 0.97")


if __name__ == "__main__":
    main()
