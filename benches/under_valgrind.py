"""Replicas of which one runs under valgrind, for the scripts beside this one: node 0, which leads; and what it says of its load.

A replica is some sixty times slower there, so that it waits as much longer before it calls anybody dead, and seals entries as much later: what is in
an entry is then about what it would be. Where the kernel's or valgrind's `epoll_pwait2` is missing, a replica does without (crates/node/src/poll.rs).
"""

import argparse
import json
import pathlib
import re
import shutil
import socket
import subprocess
import sys
import time

from runs import ROOT

sys.path.insert(0, str(ROOT / "tests"))
from cluster import Cluster  # noqa: E402

WORKLOADS = {
    "tpcc": lambda workers, size: [["warehouses", str(workers)], ["scale", str(size or 1.0)]],
    "ycsb": lambda workers, size: [["keys", str(int(size or 300_000))]],
}
HEARTBEAT_MS, NEVER_MS = 1000, 1_800_000
# About by how much callgrind makes it slower.
SLOWER = 60


def parser(about):
    """The flags that these scripts share."""
    found = argparse.ArgumentParser(description=about, formatter_class=argparse.RawDescriptionHelpFormatter)
    found.add_argument("--workload", choices=list(WORKLOADS), default="tpcc")
    found.add_argument("--size", type=float, default=0, help="of TPC-C the share of the population [1], of YCSB++ the keys [300000]")
    found.add_argument("--release", type=pathlib.Path, default=ROOT / "target" / "dist")
    return found


class Watched(Cluster):
    """Replicas of an engine; `prefixes` of their commands by node."""

    def __init__(self, release, engine, nodes, workers, prefixes, slower=SLOWER):
        batching = f"[batching]\nbatch_delay_us = {3000 * slower}"
        super().__init__(release, nodes, f'engine = "{engine}"\ndurability = "memory"', batching, workers)
        self.prefixes, self.tail = prefixes, self.storage
        for node in range(nodes):
            # Node 0 stands first. Nobody else ever does.
            patience = 3 * HEARTBEAT_MS if node == 0 else NEVER_MS
            self.storage = f"{self.tail}\n[timeouts]\nheartbeat_ms = {HEARTBEAT_MS}\nelection_timeout_ms = {patience}\n[security]\nopen = false"
            self.start(node, range(nodes))

    def start(self, node, known):
        whole, self.highwater = self.highwater, self.folder / f"node-{node}.sh"
        words = " ".join(map(str, [*self.prefixes.get(node, []), whole]))
        self.highwater.write_text(f'#!/bin/sh\nexec {words} "$@"\n')
        self.highwater.chmod(0o700)
        super().start(node, known)
        self.highwater = whole

    def admin(self, node, seconds=3600):
        """A conversation with its admin port: a function of a request, which gives the answer."""
        end = time.monotonic() + seconds
        while True:
            try:
                one = socket.create_connection(("127.0.0.1", self.ports[3 * node + 2]), seconds)
                break
            except OSError:
                if time.monotonic() > end or self.processes[node].poll() is not None:
                    sys.exit((self.folder / f"{node}.log").read_text()[-3000:])
                time.sleep(0.2)
        lines = one.makefile("rw")

        def ask(**request):
            lines.write(json.dumps(request) + "\n")
            lines.flush()
            while True:
                answer = json.loads(lines.readline())
                if answer["is"] != "progress":
                    break
            if answer["is"] in ("error", "starting"):
                raise RuntimeError(answer)
            return answer

        return ask

    def run(self, workload, workers, size, in_flight, rate=None):
        """Loads node 0 and starts its load; the conversation with it."""
        spec = {"name": workload, "options": WORKLOADS[workload](workers, size)}
        ask = self.admin(0)
        end = time.monotonic() + 600
        while True:
            try:
                ask(do="load", workload=spec)
                break
            except (RuntimeError, OSError, ValueError) as error:
                if time.monotonic() > end:
                    sys.exit(f"it does not load: {error}")
                time.sleep(0.5)
                ask = self.admin(0)
        ask(do="run", workload=spec, in_flight=in_flight, rate=rate, seed=1, audit_every=0, audit_base=0)
        return ask


def released(ask):
    """Transactions released since the load began."""
    load = ask(do="load_stats")
    return load["committed"] + load["user_aborts"]


def slowed(release, folder):
    """A copy of the command in `folder` whose workers' turns last as much longer as valgrind is slower: what a turn costs then divides among as many
    transactions. The load's time for a turn and the time between two looks at the sockets are constants of the code."""
    binary = folder / "highwater"
    shutil.copy(release / "highwater", binary)
    listing = subprocess.run(["nm", "-nC", "--defined-only", binary], capture_output=True, text=True, check=True).stdout.splitlines()
    code, segments = bytearray(binary.read_bytes()), subprocess.run(["readelf", "-lW", binary], capture_output=True, text=True, check=True).stdout
    segments = [[int(word, 16) for word in found] for found in re.findall(r"LOAD +(\w+) (\w+) \w+ (\w+)", segments)]
    for function, nanos in (("load::driver::Driver::submit", 50_000), ("worker::WorkerThread::run", 100_000)):
        at = next(number for number, line in enumerate(listing) if line.endswith(function))
        start, end = (int(line.split()[0], 16) for line in listing[at : at + 2])
        place, address, _ = next(segment for segment in segments if segment[1] <= start < segment[1] + segment[2])
        part = slice(start - address + place, end - address + place)
        old, new = nanos.to_bytes(4, "little"), (nanos * SLOWER).to_bytes(4, "little")
        if code[part].count(old) != 1:
            sys.exit(f"{function} compares with {nanos} elsewhere than it did")
        code[part] = code[part].replace(old, new)
    binary.write_bytes(code)
    return folder


def entries(ask):
    """Entries that the streams have decided."""
    figures = {one["name"]: one["values"] for one in ask(do="status")["figures"]}
    return sum(figures.get("decided", [0]))


def vgdb(pid, *words):
    """A command to valgrind."""
    done = subprocess.run(["vgdb", f"--pid={pid}", "-c", *words], capture_output=True, text=True)
    return done.stdout + done.stderr
