#!/usr/bin/env python3
"""Runs what `cargo test ARGS` runs, several test binaries at once.

`cargo test` runs one binary after another. Many of ours wait more than they work (elections, timeouts, real processes), so that cores stand idle
meanwhile. This asks cargo for the binaries, runs `--jobs` of them at a time in their packages' folders, prints what each said once it has ended,
with the documents' tests, which cargo runs, among them, and closes with all summaries. It ends with 101 if anything failed; everything runs in any case.

    tests/side_by_side.py --jobs 3 -- --workspace --features highwater/full
"""

import argparse
import json
import os
import re
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor, as_completed

# Those that take longest begin first: else one of them is left alone at the end.
LONGEST_FIRST = ["highwater", "highwater-redis", "highwater-node", "highwater-sim", "highwater-consensus"]
SUMMARY = re.compile(r"^test result: \w+\. (\d+) passed; (\d+) failed; (\d+) ignored", re.M)


def binaries(args):
    """Package, name, executable and folder of each test binary that cargo would run, in cargo's order."""
    command = ["cargo", "test", *args, "--no-run", "--message-format=json-render-diagnostics"]
    built = subprocess.run(command, stdout=subprocess.PIPE, text=True)
    if built.returncode != 0:
        sys.exit(built.returncode)
    found = []
    for line in built.stdout.splitlines():
        message = json.loads(line)
        if message["reason"] == "compiler-artifact" and message["profile"]["test"] and message["executable"]:
            folder = os.path.dirname(message["manifest_path"])
            # "..#NAME@VERSION", or "../NAME#VERSION".
            place, of = message["package_id"].rsplit("#", 1)
            name = of.split("@")[0] if "@" in of else os.path.basename(place)
            target = message["target"]
            found.append((name, f"{name} {target['kind'][0]} {target['name']}", message["executable"], folder))
    return found


def run(title, command, folder):
    """What a command said, whether it succeeded, its seconds, and those of CPU that it and its children took."""
    began = time.monotonic()
    child = subprocess.Popen(command, cwd=folder, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    said = child.stdout.read()
    _, status, used = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    return title, said.decode(errors="replace"), child.returncode, time.monotonic() - began, used.ru_utime + used.ru_stime


def main():
    asked = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    asked.add_argument("--jobs", type=int, default=3)
    asked.add_argument("--times", help="a file for seconds, and seconds of CPU, per binary")
    asked.add_argument("cargo", nargs="+", help="arguments of cargo test, behind --")
    asked = asked.parse_args()

    tests = binaries(asked.cargo)
    if not tests:
        sys.exit("cargo names no test binary: there is nothing to run")
    rank = {name: at for at, name in enumerate(LONGEST_FIRST)}
    tests.sort(key=lambda test: rank.get(test[0], len(rank)))
    failed, sums, times = [], [0, 0, 0], []

    def tell(title, said, code, seconds, cpu):
        print(f"\n     Running {title} ({seconds:.1f} s, {cpu:.1f} s of CPU)\n{said}", flush=True)
        summaries = SUMMARY.findall(said)
        for summary in summaries:
            for at, count in enumerate(summary):
                sums[at] += int(count)
        times.append((seconds, cpu, title))
        # A binary that ends well without a summary has not run its tests.
        if code != 0 or not summaries:
            failed.append(f"{title}: exit {code}")

    with ThreadPoolExecutor(asked.jobs) as pool:
        # What rustdoc compiles takes minutes.
        jobs = [pool.submit(run, "documents", ["cargo", "test", *asked.cargo, "--doc"], None)]
        jobs += [pool.submit(run, title, [exe], folder) for _, title, exe, folder in tests]
        for done in as_completed(jobs):
            tell(*done.result())

    if asked.times:
        with open(asked.times, "w") as file:
            file.writelines(f"{seconds:8.1f} {cpu:8.1f} {title}\n" for seconds, cpu, title in sorted(times, reverse=True))
    print(f"\n{len(tests)} binaries and the documents: {sums[0]} tests passed, {sums[1]} failed, {sums[2]} ignored")
    for what in failed:
        print(f"FAILED {what}")
    sys.exit(101 if failed else 0)


if __name__ == "__main__":
    main()
