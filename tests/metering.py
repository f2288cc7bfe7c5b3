#!/usr/bin/env python3
"""Which share of a process's CPU time in user mode goes to measuring: samples of perf, by the source lines that the compiler inlined.

    target/dist/highwater serve --config one.toml &        # one node of its own, or any leader
    redis-benchmark -p 7200 -t set -P 16 -c 50 -r 100000 -n 100000000 -q &
    perf record -F 3000 -e cpu-clock:u -p PID -o set.data -- sleep 25
    tests/metering.py set.data target/dist/highwater

Needs no counters of the CPU, so it runs in virtual machines too, and the build's line tables, which builds of the profile `dist` have.
"""

import collections
import re
import subprocess
import sys

# What is measuring, by the file in which a line stands.
PARTS = [
    ("host/watch.rs", "requests begun and ended"),
    ("/meter/", "histograms and counters"),
    ("redis/src/describe.rs", "which command it is"),
    ("occ/met.rs", "keys at which transactions meet"),
    ("seam/src/hot.rs", "keys at which transactions meet"),
]


def lines(*command, text=None):
    done = subprocess.run(command, input=text, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"{command[0]}: {done.stderr.strip()}")
    return done.stdout.splitlines()


def samples(data, binary):
    """Addresses of the samples, as the binary has them; None: elsewhere."""
    mapped, addresses = [], []
    mapping = re.compile(r"PERF_RECORD_MMAP2? \S+ \[(0x[0-9a-f]+)\((0x[0-9a-f]+)\) @ (0x[0-9a-f]+|0) .*\]: (\S+) (\S+)")
    for line in lines("perf", "script", "-i", data, "--show-mmap-events", "-F", "comm,ip,event"):
        found = mapping.search(line)
        if found:
            start, length, offset = (int(number, 16) for number in found.groups()[:3])
            if "x" in found.group(4) and found.group(5).endswith(binary.rsplit("/", 1)[-1]):
                mapped.append((start, length, offset))
            continue
        found = re.search(r"\s([0-9a-f]{6,16})\s*$", line)
        if found:
            addresses.append(int(found.group(1), 16))
    loaded = [line.split() for line in lines("readelf", "-lW", binary)]
    loaded = [tuple(int(parts[at], 16) for at in (1, 2, 4)) for parts in loaded if parts[:1] == ["LOAD"]]

    def inside(address):
        for start, length, offset in mapped:
            if start <= address < start + length:
                place = address - start + offset
                for begin, virtual, size in loaded:
                    if begin <= place < begin + size:
                        return place - begin + virtual
        return None

    return collections.Counter(inside(address) for address in addresses)


def part_of(frames):
    # The stopwatch shares its file with clocks that are read anyway.
    for at in range(0, len(frames) - 1, 2):
        if "Stopwatch" in frames[at]:
            return "the stopwatch"
    text = "\n".join(frames)
    return next((name for file, name in PARTS if file in text), None)


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    data, binary = sys.argv[1:]
    counts = samples(data, binary)
    places = [address for address in counts if address is not None]
    if not places:
        sys.exit(f"no sample of {data} is in {binary}")
    frames, at = collections.defaultdict(list), None
    asked = "\n".join(hex(address) for address in places)
    for line in lines("addr2line", "-i", "-a", "-f", "-C", "-e", binary, text=asked):
        if re.fullmatch("0x[0-9a-f]{16}", line):
            at = int(line, 16)
        else:
            frames[at].append(line)
    parts = collections.Counter()
    for address in places:
        part = part_of(frames[address])
        if part:
            parts[part] += counts[address]
    whole, measuring = sum(counts.values()), sum(parts.values())
    print(f"{whole} samples, {counts[None]} outside of the binary: {100 * measuring / whole:.2f} % is measuring")
    for part, count in parts.most_common():
        print(f"  {100 * count / whole:5.2f} %  {part}")


if __name__ == "__main__":
    main()
