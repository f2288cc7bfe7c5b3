"""Runs of `highwater bench` for the scripts beside this one: what each measured, and medians of several rounds in turns."""

import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
BINARY = pathlib.Path(os.environ.get("HIGHWATER", ROOT / "target" / "dist" / "highwater"))


def bench(words, binary=BINARY):
    """One run: its report, as JSON; ends this script if it fails."""
    with tempfile.TemporaryDirectory(prefix="highwater-bench-") as folder:
        report = pathlib.Path(folder) / "report.json"
        command = [binary, "bench", *map(str, words), "--json", report]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode != 0:
            sys.exit(f"{' '.join(map(str, command))}\n{done.stdout}{done.stderr}")
        found = json.loads(report.read_text())
    return found


def figures(report):
    """The figures that the scripts show."""
    released = max(report["committed"] + report["user_aborts"], 1)
    cpu, latency = report["cpu_seconds"], report["released_latency_us"]
    counted = report["engine_figures"]
    return {
        "tps": report["tps"],
        "per_cpu": report["transactions_per_leader_cpu_second"],
        "leader_us": 1e6 * cpu["leader"] / released,
        "kernel_us": 1e6 * (cpu["leader_kernel"] or 0) / released,
        "all_us": 1e6 * (cpu["leader"] + sum(cpu["followers"])) / released,
        # Of the engine `strawman`, whose workers share a lock.
        "locks": counted.get("locks", 0) / released,
        "lock_waits": 1e3 * counted.get("lock_waits", 0) / released,
        "lock_wait_us": counted.get("lock_wait_ns", 0) / released,
        "conflicts": report["conflict_aborts"] / released,
        "gave_up": report["gave_up"] / released,
        "p50": latency["p50"],
        "p99": latency["p99"],
        "resident": report["resident_bytes"]["leader"]["end"],
    }


def in_turns(cases, rounds, binary=BINARY):
    """Name to words of a run; `rounds` of each, in turns: name to the medians, and to all rounds."""
    found = {name: [] for name in cases}
    for _ in range(rounds):
        for name, words in cases.items():
            found[name].append(figures(bench(words, binary)))
            one = found[name][-1]
            print(f"    {name}: {one['tps']:.0f}/s, {one['per_cpu']:.0f} per leader CPU-second", file=sys.stderr, flush=True)
    middle = {
        name: {key: statistics.median(one[key] for one in all_of) for key in all_of[0]} for name, all_of in found.items()
    }
    return middle, found


def spread(all_of, key, form="{:.0f}"):
    """The median of a figure over rounds, and its smallest and largest."""
    values = [one[key] for one in all_of]
    text = form.format(statistics.median(values))
    return text if len(values) == 1 else f"{text} ({form.format(min(values))} to {form.format(max(values))})"
