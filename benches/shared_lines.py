#!/usr/bin/env python3
"""Cache lines that threads of a replica share: which functions write to them, how often for a transaction, and who else comes to them.

    cargo build --profile dist --features laboratory
    benches/shared_lines.py [--workload ycsb] [--size 300000] [--seconds 10] [--node 1] [--engine silo]

Two workers. Node 0 leads; `--node 1` looks at a follower instead. The replica runs under valgrind with a tool that shared_lines.c is, compiled here (gcc, and
the headers and libraries that come with valgrind; what comes of them is under valgrind's licence). A line counts as shared if two threads came to it in the measured time and
one of them wrote. Where few keys conflict, lines of records that both workers happened to use have few writes each; one with a write for each transaction is the engine's doing.
"""

import collections
import pathlib
import re
import struct
import subprocess
import sys
import tempfile
import time

from tax import places
from under_valgrind import SLOWER, Watched, parser, slowed, vgdb

VALGRIND = ["valgrind", "--tool=lines", "-q", "--fair-sched=yes"]
SOURCE = pathlib.Path(__file__).with_suffix(".c")
LIBRARIES, OWN = pathlib.Path("/usr/lib/x86_64-linux-gnu/valgrind"), pathlib.Path("/usr/libexec/valgrind")
FLAGS = "-O2 -DVGA_amd64=1 -DVGO_linux=1 -DVGP_amd64_linux=1 -DVGPV_amd64_linux_vanilla=1 -I/usr/include/valgrind -fno-stack-protector -fno-strict-aliasing \
    -fno-builtin -fomit-frame-pointer -fno-pic -no-pie -static -nodefaultlibs -nostartfiles -u _start -Wl,--build-id=none -Wl,-Ttext-segment=0x58000000"


def tool(folder):
    """Compiles the tool, and stands what valgrind wants beside it."""
    archives = [LIBRARIES / f"lib{name}-amd64-linux.a" for name in ("coregrind", "vex", "gcc-sup")]
    subprocess.run(["gcc", *FLAGS.split(), "-o", folder / "lines-amd64-linux", SOURCE, *archives, "-lgcc"], check=True)
    for file in [OWN / "default.supp", *OWN.glob("*.so"), *OWN.glob("*.xml")]:
        (folder / file.name).symlink_to(file)


def mappings(text):
    """What is mapped where: start, end, file."""
    for line in text.splitlines():
        words = line.split(None, 5)
        if len(words) == 6 and words[5].startswith("/"):
            yield (*(int(word, 16) for word in words[0].split("-")), words[5].strip())


class Lines:
    """What the tool wrote, and what it means."""

    def __init__(self, raw, maps, binary, names):
        self.maps, self.names = list(mappings(maps)), names
        base = min(start for start, _, file in self.maps if file == binary)
        self.base, accesses = base, list(struct.iter_unpack("<QQIIII", raw))
        self.stores = collections.Counter()
        for _, pc, _, _, stores, _ in accesses:
            self.stores[pc - base] += stores
        files = {pc: self.file(pc) for pc in {access[1] for access in accesses}}
        told = places(binary, [pc - base for pc, file in files.items() if file == binary])
        self.places = {pc: ": ".join(told[pc - base][0]) if file == binary else pathlib.Path(file).name for pc, file in files.items()}
        # Of each line: who came there from where, and how often to read and to write; and how often it would have moved.
        self.lines, self.moves = collections.defaultdict(list), collections.Counter()
        for line, pc, thread, loads, stores, moves in accesses:
            self.lines[line].append((names[thread - 1], self.places[pc], loads, stores))
            self.moves[line] += moves

    def file(self, pc):
        return next((file for start, end, file in self.maps if start <= pc < end), "?")

    def calls(self, binary, symbol):
        """How often a function was called that begins with saving a register."""
        told = subprocess.run(["nm", binary], capture_output=True, text=True, check=True).stdout
        begins = (int(line.split()[0], 16) for line in told.splitlines() if re.search(symbol, line))
        return sum(self.stores[begin] for begin in begins)

    def shared(self):
        """Lines that a worker writes and another thread comes to: line, writes by workers, all that came."""
        for line, came in self.lines.items():
            writes = sum(stores for name, _, _, stores in came if name.startswith("worker"))
            writers = {name for name, _, _, stores in came if stores and name.startswith("worker")}
            if writes and len(writers | {name for name, *_ in came}) > 1:
                yield line, writes, came


# What writes to a shared line is of one of these kinds; the first that fits its place decides.
KINDS = [
    ("records and indexes: data", r"store/src/(record|word|hash|tree|occ|applier|key)"),
    ("snapshots for readers: versions", r"store/src/(versions|snapshot)"),
    ("guards, one a worker", r"store/src/(guard|graveyard)"),
    ("statistics, read when somebody asks", r"store/src/heap|seam/counters|transport/gauge|node/src/(meter|held|shared)|rolis/figures|core/src/counters"),
    ("of a turn: pulse, mark, wake-ups", r"rolis/(pulse|watermark|shared|marks|horizon|snapshots)|node/src/(waker|letter_box|worker/mod)|mailbox"),
    ("of an entry: frames and messages", r"crates/consensus|rolis/(wire|gate|seal|apply|checked)|node/src/transport|core/src/log"),
    ("the load's generator", r"crates/workloads|node/src/load"),
]


def kind_of(place):
    return next((name for name, pattern in KINDS if re.search(pattern, place)), "libraries: the allocator, copies")


def report(lines, transactions, turns):
    shared = sorted(lines.shared(), key=lambda one: -one[1])
    print(f"{transactions} transactions, {turns} turns, {len(shared)} lines that a worker writes and another thread comes to")
    kinds = collections.defaultdict(lambda: [0, 0, 0, 0])
    by_place = collections.defaultdict(lambda: [0, set(), collections.Counter()])
    for line, _, came in shared:
        busy, at = collections.Counter(), collections.Counter()
        for name, place, loads, stores in came:
            busy[name] += loads + stores
            if name.startswith("worker"):
                at[kind_of(place)] += stores
        # The line is of the kind that writes it most.
        (kind, _), *_ = at.most_common()
        for column, more in enumerate((1, sum(at.values()), busy.total() - max(busy.values()), lines.moves[line])):
            kinds[kind][column] += more
        for name, place, _, stores in came:
            if stores and name.startswith("worker"):
                found = by_place[place]
                found[0] += stores
                found[1].add(line)
                for other, its, loads, its_stores in came:
                    if other != name:
                        found[2][f"{other}, {its}"] += loads + its_stores
    kinds["all"] = [sum(column) for column in zip(*kinds.values())]
    print(f"{'lines':>7} {'writes/tx':>10} {'visits of others/tx':>20} {'moves/tx':>9} {'moves/turn':>11}")
    for kind, (count, writes, visits, moves) in sorted(kinds.items(), key=lambda one: one[1][3]):
        print(f"{count:7} {writes / transactions:10.3f} {visits / transactions:20.3f} {moves / transactions:9.3f} {moves / max(turns, 1):11.3f}  {kind}")
    print("by place, and who else comes to these lines")
    for place, (stores, its_lines, others) in sorted(by_place.items(), key=lambda one: -one[1][0])[:25]:
        print(f"{stores / transactions:9.4f} {len(its_lines):7} {stores / len(its_lines):8.1f}  {place}")
        print("".join(f"{'':30}{count:7} times {name}\n" for name, count in others.most_common(2)), end="")


def measure(args, folder):
    """The lines of a window, how many transactions it had, and how many turns workers made in it."""
    rate = args.rate if args.node else None
    binary, prefixes = str((args.release / "highwater").resolve()), {args.node: ["env", f"VALGRIND_LIB={folder}", *VALGRIND]}
    # A leader with idle moments seals in a twelfth of the delay: a follower is to get entries as under load.
    slower = 333 if args.node else SLOWER
    with Watched(args.release, args.engine, 1 if args.engine == "silo" else 3, 2, prefixes, slower=slower) as cluster:
        ask = cluster.run(args.workload, 2, args.size, args.in_flight, rate)
        time.sleep(args.seconds / 2)
        pid = cluster.processes[args.node].pid
        applied = cluster.status(args.node)["applied"]
        vgdb(pid, "lines on")
        time.sleep(args.seconds)
        vgdb(pid, "lines off")
        applied = cluster.status(args.node)["applied"] - applied
        vgdb(pid, f"lines to {folder}/lines")
        maps = pathlib.Path(f"/proc/{pid}/maps").read_text()
        names = [(task / "comm").read_text().strip() for task in sorted(pathlib.Path(f"/proc/{pid}/task").iterdir(), key=lambda task: int(task.name))]
    lines = Lines((folder / "lines").read_bytes(), maps, binary, names)
    submitted = lines.calls(binary, r"(Rolis|Silo)Worker.*seam.*Worker.*6submit")
    return lines, applied if args.node else submitted, lines.calls(binary, r"(Rolis|Silo)Worker.*seam.*Worker.*4turn")


def main():
    flags = parser(__doc__)
    flags.set_defaults(workload="ycsb")
    flags.add_argument("--engine", default="rolis")
    flags.add_argument("--seconds", type=float, default=10)
    flags.add_argument("--in-flight", type=int, default=4000)
    flags.add_argument("--node", type=int, default=0, help="0 leads")
    flags.add_argument("--rate", type=float, default=1000, help="transactions a second, for a follower to keep up")
    args = flags.parse_args()
    with tempfile.TemporaryDirectory(prefix="highwater-lines-") as name:
        folder = pathlib.Path(name)
        tool(folder)
        args.release = slowed(args.release, folder)
        report(*measure(args, folder))


if __name__ == "__main__":
    main()
