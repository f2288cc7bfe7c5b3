#!/usr/bin/env python3
"""A leader's disk that hangs, again and again: for how long no write is acknowledged.

    python3 tests/hostile/hung_disk.py path/to/highwater [--times 20] [--hold 5] [--clients 8] [--bytes 100] [--room 1] [--calm 9]

Three real nodes with `sync`, each with `shim.c` between it and its folder. Clients count, each in a key of its own, beside a value of `--bytes`; each
asks anew at once, of another node if it is refused. Each time every sync of the leader's journal hangs for `--hold` seconds. The gap is the longest
time without an acknowledged write from the moment at which the order is given until the disk works again. Between two times one lead goes well for
`--calm` seconds, long enough that what befell earlier leads gives the next one no more time (`WELL` in crates/log-host/src/members/health.rs).

A leader stays as long as there is room for what waits for its disk: `--room` (`limits.max_in_flight_bytes`, in MiB for a worker; the default of a
node is 8). A load that fills it within `--hold` has the leader go, and the gap is what docs/guarantees.md bounds.

It fails if a sync did not hang, the leader of a full room stayed, a gap was longer than the bound allows (`--slack` milliseconds for a busy machine),
or a counter lacks what was acknowledged.
"""

import argparse
import pathlib
import statistics
import sys
import threading
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

from machines import Machines  # noqa: E402
from shim import HOLD  # noqa: E402
from wire import Wire  # noqa: E402

SETTINGS = 'id = "north"\ndurability = "sync"\nengine = "rolis"'
# What makes no checkpoints beside the load, and bounds what waits.
STORAGE = "checkpoint_mb = 64\n[limits]\nmemory_mb = 900\nmax_in_flight_bytes = {room}\n"
# Eight election timeouts, and for each MB that waits.
PATIENCE_MS, FOR_EACH_MB_MS = 960, 25


class Hangs(Machines):
    """Disks that are told to hang, and whose power is never cut: nothing is written down of what they do, and removed files go."""

    def environment(self, node):
        return super().environment(node) | {"SHIM_TRACE": "/dev/null"}

    def bury(self):
        for disk in self.disks:
            for file in disk.grave.iterdir():
                file.unlink()


class Writer(threading.Thread):
    """Counts in a key of its own, and notes when each count was acknowledged."""

    def __init__(self, nodes, number, size):
        super().__init__(daemon=True)
        self.nodes, self.key, self.at, self.value = nodes, f"count:{number}", number % 3, b"x" * size
        self.acknowledged, self.heard, self.ends = 0, [], False

    def run(self):
        wire = None
        while not self.ends:
            try:
                wire = wire or Wire(self.nodes.resp(self.at), timeout=1)
                number = self.acknowledged + 1
                if wire.ask("MSET", self.key, number, f"value:{self.key}", self.value) == b"OK":
                    self.acknowledged = number
                    self.heard.append(time.monotonic())
                    continue
            except (OSError, EOFError, ValueError):
                pass
            if wire:
                wire.close()
            wire, self.at = None, (self.at + 1) % 3
            time.sleep(0.002)


def longest(heard, began, ended):
    """The longest time in it without a word."""
    moments = [began, *sorted(at for at in heard if began <= at <= ended), ended]
    return max(after - before for before, after in zip(moments, moments[1:]))


def once(nodes, writers, hold):
    """One disk hangs: the gap, how many syncs hung, and who led before and afterwards."""
    nodes.leads().close()
    before, disk = nodes.led, nodes.disks[nodes.led]
    began = time.monotonic()
    place = disk.order(["sync"], HOLD, 0, "journal-*")
    time.sleep(hold)
    hung = disk.held(place)
    nodes.leads().close()
    ended = time.monotonic()
    disk.withdraw({})
    return longest([at for writer in writers for at in writer.heard], began, ended), hung, before, nodes.led


def calm(nodes, seconds):
    """One node leads all the while, and every node votes."""
    end = time.monotonic() + 120
    since, led = time.monotonic(), None
    while time.monotonic() - since < seconds:
        assert time.monotonic() < end, f"it does not come to rest within 120 s: {nodes.no_restart()}"
        nodes.leads().close()
        nodes.bury()
        if nodes.led != led or nodes.no_restart():
            since, led = time.monotonic(), nodes.led
        time.sleep(0.2)


def judge(nodes, writers):
    for writer in writers:
        writer.ends = True
        writer.join()
    for writer in writers:
        held = int(nodes.done("GET", writer.key) or 0)
        assert held >= writer.acknowledged, f"{writer.key} holds {held}, and {writer.acknowledged} were acknowledged"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("highwater", type=pathlib.Path)
    parser.add_argument("--times", type=int, default=20)
    parser.add_argument("--hold", type=float, default=5, help="seconds")
    parser.add_argument("--clients", type=int, default=8)
    parser.add_argument("--bytes", type=int, default=100, help="of each value")
    parser.add_argument("--room", type=float, default=1, help="for what waits for a disk, in MiB")
    parser.add_argument("--calm", type=float, default=9, help="seconds")
    parser.add_argument("--slack", type=float, default=400, help="milliseconds")
    args = parser.parse_args()
    with Hangs(args.highwater.resolve(), 3, SETTINGS, 1) as nodes:
        nodes.storage = STORAGE.format(room=int(args.room * (1 << 20)))
        for node in nodes.all:
            nodes.begin(node)
        writers = [Writer(nodes, number, args.bytes) for number in range(args.clients)]
        for writer in writers:
            writer.start()
        bound = PATIENCE_MS + FOR_EACH_MB_MS * args.room * 1.05 + args.slack
        gaps, moved = [], 0
        for _ in range(args.times):
            calm(nodes, args.calm)
            gap, hung, before, after = once(nodes, writers, args.hold)
            gaps.append(1e3 * gap)
            moved += before != after
            print(f"node {before}: {gaps[-1]:.0f} ms; {hung} syncs hung, then node {after} leads", flush=True)
            assert hung, "no sync of the journal hung"
            assert gaps[-1] <= bound, f"more than {bound:.0f} ms"
            assert before != after or gaps[-1] < PATIENCE_MS, "it took nothing more, and led on"
        judge(nodes, writers)
        acknowledged = sum(writer.acknowledged for writer in writers)
        print(
            f"{len(gaps)} times, and the lead moved {moved} times: half within {statistics.median(gaps):.0f} ms, the longest {max(gaps):.0f} ms; "
            f"{acknowledged} writes, none lost"
        )


if __name__ == "__main__":
    main()
