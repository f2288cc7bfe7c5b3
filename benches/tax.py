#!/usr/bin/env python3
"""The tax by instructions: what a leader of three runs for a transaction that the engine alone does not, by part.

    cargo build --profile dist --features laboratory
    benches/tax.py [--workload tpcc] [--size 1] [--seconds 15] [--in-flight 4000] [--functions 30] [--keep FOLDER]
    benches/tax.py --calls

One worker. The leader and the engine alone run under callgrind; followers run as they are. What is counted is the worker's thread between two moments of a running load, so
that loading is not in it. An instruction belongs to the part (PARTS) of the innermost function of ours in whose inlined code it stands, or that called the library it is in. The command
is copied and two of its constants are changed, so that a turn lasts as much longer as callgrind is slower (under_valgrind.py). Valgrind counts a `rep movsb`, by which
libraries copy what is long, once for each byte; here it is one instruction, as a CPU counts it. Valgrind sees nothing of the kernel: `--calls` counts system calls, by perf, of two runs without valgrind.
"""

import collections
import contextlib
import functools
import pathlib
import re
import signal
import subprocess
import tempfile
import time

from moved import was
from under_valgrind import Watched, entries, parser, released, slowed, vgdb

CALLGRIND = "valgrind --tool=callgrind --instr-atstart=no --separate-threads=yes --dump-instr=yes --compress-pos=no --fair-sched=yes -q"
# By file and function; the first that fits a frame decides. Before-images come first, for they call what is another part's.
BEFORE_IMAGES = re.compile(r"occ/images|check_images|check_removal|stored_key|append_(locked|spilled)|copy_unchanging|copy_locked_value")
PARTS = [
    ("the load: drawing, counting", r"crates/workloads/src/.*(generator|random|choice)|node/src/(load|clock)|core/src/clock/stopwatch"),
    ("encoding, checksum", r"core/src/(log|codec)"),
    ("executing", r"crates/(workloads|store)/|core/src/(procedure|transaction|schema|hooks)|engines/src/(attempt|call|rolis/execute|baseline)"),
    ("sealing", r"rolis/seal"),
    ("waiting for the mark, replies", r"rolis/(pending|confirming|lead|watermark)|core/src/clock"),
    ("the stream (Paxos)", r"crates/consensus/"),
    ("sending, receiving", r"node/src/(transport|relay|tls)|rolis/(wire|checked)"),
    ("the engine's turn", r"crates/(engines|log-host)/"),
    ("the thread's turn, sockets", r"crates/node/"),
]
CALLS = "writev sendto sendmsg recvfrom recvmsg read write epoll_pwait2 epoll_pwait epoll_wait futex madvise mmap munmap".split()


class Profile:
    """A thread's file of callgrind: instructions by address in our binary; what libraries, and other people's code in our binary, took counts to
    who called them."""

    def __init__(self, path, binary):
        self.binary, self.names = binary, {}
        self.own, self.foreign, self.calls = collections.Counter(), collections.Counter(), collections.Counter()
        # Of a function that is not ours: who called it, an address of ours or another such function, what it took then, and how often.
        self.callers, self.times = collections.defaultdict(collections.Counter), collections.defaultdict(collections.Counter)
        # Those that repeat an instruction: what valgrind says that they took is not what they took.
        self.repeating = set()
        self.read(path)
        self.hand_on()

    def name(self, kind, text):
        number, _, name = text.partition(" ")
        if name:
            self.names[kind, number] = name
        return self.names[kind, number]

    def is_ours(self, file, function):
        return file == self.binary and "highwater" in function

    def read(self, path):
        file = function = called_file = called = None
        in_call, times, before = False, 0, 0
        for line in open(path):
            key, _, value = line.rstrip("\n").partition("=")
            if line[0] == "0":
                address, _, cost = line.split()
                address, cost = int(address, 16), int(cost)
                ours = self.is_ours(file, function)
                caller = address if ours else (file, function)
                if in_call:
                    if not self.is_ours(called_file, called):
                        self.callers[called_file, called][caller] += cost
                        self.times[called_file, called][caller] += times
                    in_call, called_file = False, file
                elif ours:
                    self.own[caller] += cost
                else:
                    if address in repeated(file):
                        self.repeating.add(caller)
                        cost = min(cost, before)
                    before = cost
                    self.foreign[caller] += cost
            elif key == "ob":
                file = called_file = self.name("file", value)
            elif key == "cob":
                called_file = self.name("file", value)
            elif key == "fn":
                function = self.name("function", value)
            elif key == "cfn":
                called = self.name("function", value)
            elif key == "calls":
                times, in_call = int(value.split()[0]), True
                self.calls[called] += times

    def hand_on(self):
        """What functions that are not ours took themselves, to their callers, by how much each had of them, or by how often each called what
        repeats an instruction (which comes to once for each time that the one before it is reached)."""
        left = self.foreign
        for _ in range(20):
            following = collections.Counter()
            for function, cost in left.items():
                weights = self.times if function in self.repeating else self.callers
                callers = weights.get(function, {None: 1})
                total = sum(callers.values())
                for caller, share in callers.items():
                    (following if isinstance(caller, tuple) else self.own)[caller] += cost * share / max(total, 1)
            left = following

    def count(self, pattern):
        """How often functions were called whose names fit."""
        return sum(count for name, count in self.calls.items() if re.search(pattern, name))


@functools.cache
def repeated(file):
    """Addresses of what repeats itself in a library: copies and fills."""
    if not pathlib.Path(file).is_file():
        return frozenset()
    told = subprocess.run(["objdump", "-d", "--no-show-raw-insn", file], capture_output=True, text=True).stdout
    return frozenset(int(at, 16) for at in re.findall(r"^ *([0-9a-f]+):\s+rep (?:movs|stos)", told, re.M))


def places(binary, addresses):
    """For each address the functions of ours in whose code it stands, innermost first: file and name."""
    asked = "\n".join(f"{address:#x}" for address in sorted(addresses))
    told = subprocess.run(["addr2line", "-aifC", "-e", binary], input=asked, capture_output=True, text=True, check=True).stdout
    found = {}
    for block in re.split(r"^0x", told, flags=re.M)[1:]:
        address, *lines = block.split("\n")
        frames = zip(lines[::2], (re.search(r"crates/[^:]*", file) for file in lines[1::2]))
        ours = [(was(file.group()), function.split("<")[0] or function) for function, file in frames if file and "core_arch" not in file.group()]
        found[int(address, 16)] = ours or [("elsewhere", lines[0])]
    return found


@functools.cache
def part_of(frames):
    if any(BEFORE_IMAGES.search(file + function) for file, function in frames):
        return "before-images"
    return next((name for name, pattern in PARTS if re.search(pattern, frames[0][0])), "other")


class Split:
    """Of one side: instructions a transaction, by part and by function."""

    def __init__(self, profile, transactions):
        found = places(profile.binary, [at for at in profile.own if at])
        self.parts, self.functions = collections.Counter(), collections.Counter()
        for at, cost in profile.own.items():
            frames = tuple(found.get(at, [("elsewhere", "?")]))
            self.parts[part_of(frames)] += cost / transactions
            self.functions[part_of(frames), *frames[0]] += cost / transactions


def profiled(args, release, engine, nodes, folder):
    """A window of a load, split."""
    prefix = f"{CALLGRIND} --callgrind-out-file={folder}/{engine}".split()
    with Watched(release, engine, nodes, 1, {0: prefix}) as cluster:
        ask = cluster.run(args.workload, 1, args.size, args.in_flight)
        pid = cluster.processes[0].pid
        vgdb(pid, "instrumentation on")
        time.sleep(args.seconds)
        before, decided = released(ask), entries(ask)
        vgdb(pid, "zero")
        time.sleep(args.seconds)
        vgdb(pid, "dump")
        count, decided = released(ask) - before, entries(ask) - decided
    # The worker's is the largest file of the first dump.
    dumped = max(folder.glob(f"{engine}.1-*"), key=lambda file: file.stat().st_size)
    profile = Profile(dumped, str(release / "highwater"))
    submitted = profile.count(r"seam::Worker>::submit$")
    turns = profile.count(r"seam::Worker>::turn$")
    print(f"{engine}: {submitted} transactions, {submitted / max(turns, 1):.1f} a turn" + (f", {count / decided:.0f} an entry" if decided else ""), flush=True)
    return Split(profile, submitted)


def instructions(args):
    with contextlib.nullcontext(args.keep) if args.keep else tempfile.TemporaryDirectory(prefix="highwater-tax-") as name:
        folder = pathlib.Path(name)
        release = slowed(args.release, folder)
        alone, leader = profiled(args, release, "silo", 1, folder), profiled(args, release, "rolis", 3, folder)
    sides = sum(alone.parts.values()), sum(leader.parts.values())
    print(f"{args.workload}, instructions a transaction: {sides[0]:.0f} alone, {sides[1]:.0f} leading, ratio {sides[0] / sides[1]:.3f}")
    print(f"{'alone':>8} {'leading':>8} {'more':>8}")
    more = {part: leader.parts[part] - alone.parts[part] for part in alone.parts | leader.parts}
    for part, cost in sorted(more.items(), key=lambda one: -one[1]):
        print(f"{alone.parts[part]:8.0f} {leader.parts[part]:8.0f} {cost:8.0f}  {part}")
    functions = {name: leader.functions[name] - alone.functions[name] for name in alone.functions | leader.functions}
    for (part, file, function), cost in sorted(functions.items(), key=lambda one: -abs(one[1]))[: args.functions]:
        print(f"{cost:8.0f}  {part}: {file}: {function}")


def calls(args):
    """System calls, and transactions an entry, without valgrind."""
    events = ",".join(["raw_syscalls:sys_enter", *(f"syscalls:sys_enter_{call}" for call in CALLS)])
    for engine, nodes in (("silo", 1), ("rolis", 3)):
        with Watched(args.release, engine, nodes, 1, {}, slower=1) as cluster:
            ask = cluster.run(args.workload, 1, args.size, args.in_flight)
            time.sleep(1)
            before, decided = released(ask), entries(ask)
            perf = subprocess.Popen(["perf", "stat", "-x,", "-e", events, "-p", str(cluster.processes[0].pid)], stderr=subprocess.PIPE, text=True)
            time.sleep(args.seconds)
            perf.send_signal(signal.SIGINT)
            counted = perf.communicate()[1]
            count, decided = released(ask) - before, entries(ask) - decided
        rows = [line.split(",") for line in counted.splitlines()]
        found = {row[2].split("_enter_")[-1]: int(row[0]) / count for row in rows if len(row) > 2 and row[0].isdigit() and int(row[0])}
        listed = ", ".join(f"{name} {each:.4f}" for name, each in sorted(found.items(), key=lambda one: -one[1]) if name != "raw_syscalls:sys_enter")
        print(f"{args.workload}, {engine}: {count} transactions" + (f", {count / decided:.0f} an entry" if decided else ""))
        print(f"    {found.get('raw_syscalls:sys_enter', 0):.4f} system calls a transaction: {listed}", flush=True)


def main():
    flags = parser(__doc__)
    flags.add_argument("--seconds", type=float, default=15)
    flags.add_argument("--in-flight", type=int, default=4000)
    flags.add_argument("--functions", type=int, default=30, help="how many of those that differ most")
    flags.add_argument("--keep", help="an empty folder for the profiles and the changed command")
    flags.add_argument("--calls", action="store_true")
    args = flags.parse_args()
    calls(args) if args.calls else instructions(args)


if __name__ == "__main__":
    main()
