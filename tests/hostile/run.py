#!/usr/bin/env python3
"""A hostile user against three real replicas on this machine: bytes, commands, scripts, modules, floods, kills.

    python3 tests/hostile/run.py path/to/highwater [--only NAME ..] [--list]

After each attack all nodes have to be there, the leader has to answer within seconds, and what was acknowledged has to be there. No node may die
but those that are killed. Takes about fifteen minutes on two cores, and 3 GB of memory. The attack on a full disk mounts a small tmpfs, so it needs root; else it is left
out, and said so.
"""

import argparse
import os
import pathlib
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

import code_attacks  # noqa: E402
import collisions  # noqa: E402
import door  # noqa: E402
import floods  # noqa: E402
import kills  # noqa: E402
import long  # noqa: E402
import operator_acts  # noqa: E402
import rights  # noqa: E402
import settings  # noqa: E402
import words  # noqa: E402
from cluster import Cluster  # noqa: E402
from wire import Refused, Wire  # noqa: E402

MEMORY_MB = 900
# Machines that are busy let a thread stand still for longer than a leader may.
CALM = "[timeouts]\nelection_timeout_ms = 1000\n"

ATTACKS = [
    ("memory", "", [words.sizes, words.numbers, words.bytes_that_are_no_commands, words.http, words.patterns_and_cursors, words.blocks, words.users]),
    ("memory", "", [words.tables_and_transactions, code_attacks.scripts, code_attacks.modules]),
    ("memory", "", [floods.pipeline, floods.never_reads, floods.half_open, floods.connections, floods.crowd_that_waits, floods.expiring, floods.full_memory]),
    ("memory", "", [kills.who_waits, kills.paused, kills.again_and_again]),
    ("memory", '[server]\nforward = "on"\n', [kills.forwarded, words.sizes, floods.crowd_that_waits, collisions.crowds]),
    ("memory", "", [settings.passwords, settings.certificates]),
    ("memory", '[server]\nforward = "on"\n', [rights.every_command, rights.tables_of_others, rights.sessions_of_others, rights.procedures_of_benchmarks]),
    ("memory", "", [door.states, door.one_number, door.cursors, door.listening, door.ended_while_paused]),
    ("sync", "", [floods.full_disk]),
    # What is long by nature must not cost the lead, with timeouts that are near the default ones.
    ("memory", "[timeouts]\nelection_timeout_ms = 240\n", [code_attacks.scripts_that_take_their_time, code_attacks.scripts_in_a_row, long.sets, long.blocks_and_pipelines, long.patterns_and_names, long.answered_by_the_node, long.modules, long.modules_after_a_kill]),
    (
        "sync",
        "",
        [
            operator_acts.odd_words,
            operator_acts.strangers,
            operator_acts.no_descriptors,
            operator_acts.folder_moved,
            operator_acts.folder_replaced,
            operator_acts.checkpoints_removed,
        ],
    ),
]


class Target(Cluster):
    """Three replicas, and what an attack asks of them."""

    def __init__(self, highwater, durability, lines):
        super().__init__(highwater.parent, 3, f'durability = "{durability}"', f"checkpoint_mb = 64\n[limits]\nmemory_mb = {MEMORY_MB}\n{'' if '[timeouts]' in lines else CALM}{lines}")
        self.highwater = highwater
        self.counted = self.last_leader = 0
        self.disk = durability == "sync"

    def __enter__(self):
        if self.disk:
            subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1500m", "tmpfs", self.folder], check=True)
        for node in range(3):
            self.start(node, range(3))
        try:
            self.look_for_leader()
        except BaseException as problem:
            self.__exit__(type(problem), problem, None)
            raise
        return self

    def __exit__(self, *problem):
        if problem[0]:
            for node in range(3):
                log = self.folder / f"{node}.log"
                print(f"-- the end of node {node}'s log:\n{''.join(log.read_text(errors='replace').splitlines(True)[-25:])}")
        for process in self.processes.values():
            process.terminate()
        for process in self.processes.values():
            process.wait()
        if self.disk:
            subprocess.run(["umount", self.folder], check=True)
        super().__exit__(*problem)

    def look_for_leader(self):
        end = time.monotonic() + 30
        while time.monotonic() < end:
            for node in list(self.processes):
                try:
                    with Wire(self.resp(node), timeout=3) as wire:
                        if wire.ask("ROLE")[0] == b"master" and wire.ask("SET", "probe", 1) == b"OK":
                            self.last_leader = node
                            return
                except (OSError, EOFError, TypeError):
                    pass
            time.sleep(0.02)
        raise AssertionError("no leader within 30 s")

    def leader(self):
        self.look_for_leader()
        return self.last_leader

    def port(self):
        return self.resp(self.last_leader)

    def ports_of_clients(self):
        return [self.resp(node) for node in self.processes]

    def ports_of_admins(self):
        return [self.ports[3 * node + 2] for node in self.processes]

    def canary(self):
        """Counts at the leader; what was acknowledged so far is there."""
        with Wire(self.port(), timeout=10) as wire:
            reply = wire.ask("INCR", "canary")
            if isinstance(reply, Refused):
                self.look_for_leader()
                with Wire(self.port(), timeout=10) as another:
                    reply = another.done("INCR", "canary")
            assert reply > self.counted, f"{self.counted} was acknowledged, and then {reply}"
            self.counted = reply

    def kill_leader(self):
        node = self.leader()
        self.end(node, kill=True)
        return node

    def votes(self, node):
        """Whether it has what was lost with its last process, and is counted."""
        said = self.status(node)
        mine = [member for member in said.get("members", []) if member["incarnation"] == said["incarnation"]]
        return any(member["voter"] for member in mine)

    def restart(self, node):
        """A killed node comes back, and holds what the others do: the next one may be killed."""
        self.start(node, range(3))
        self.look_for_leader()
        end = time.monotonic() + 60
        while not self.votes(node):
            assert time.monotonic() < end, f"node {node} does not vote after 60 s"
            time.sleep(0.05)
        while time.monotonic() < end:
            try:
                with Wire(self.port(), timeout=5) as wire:
                    slots = wire.ask("CLUSTER", "SLOTS")
                    if isinstance(slots, list) and len(slots[0][2:]) == 3:
                        return
            except (OSError, EOFError):
                self.look_for_leader()
            time.sleep(0.05)
        raise AssertionError(f"node {node} is not back after 60 s")

    def check(self):
        for node, process in self.processes.items():
            assert process.poll() is None, f"node {node} ended with {process.returncode}"
            text = (self.folder / f"{node}.log").read_text(errors="replace")
            assert "panicked" not in text, f"node {node}: {text[text.index('panicked') :][:2000]}"
        self.look_for_leader()
        self.canary()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("highwater", type=pathlib.Path)
    parser.add_argument("--only", nargs="*", help="attacks by name")
    known = {attack.__name__ for *_, attacks in ATTACKS for attack in attacks}
    parser.add_argument("--list", action="version", version="\n".join(sorted(known)), help="tells the attacks' names")
    options = parser.parse_args()
    if options.only and set(options.only) - known:
        sys.exit(f"there are {', '.join(sorted(known))}")
    left_out = []
    for durability, lines, attacks in ATTACKS:
        attacks = [attack for attack in attacks if not options.only or attack.__name__ in options.only]
        if durability == "sync" and os.geteuid() != 0:
            left_out += [attack.__name__ for attack in attacks]
            continue
        if not attacks:
            continue
        with Target(options.highwater.resolve(), durability, lines) as target:
            for attack in attacks:
                began = time.monotonic()
                said = attack(target)
                target.check()
                print(f"{attack.__name__.replace('_', ' ')}: held, {time.monotonic() - began:.1f} s{f' ({said})' if said else ''}", flush=True)
    if left_out:
        print(f"left out, because they need root: {', '.join(left_out)}")
    print("every attack was borne")


if __name__ == "__main__":
    main()
