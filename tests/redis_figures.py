#!/usr/bin/env python3
"""Redis's commands on Highwater and on Redis 7, in turns on one machine: operations per second, latency, CPU time of all server processes and of
the leader.

    cargo build --profile dist && cargo build --profile dist -p highwater-node --example operations
    tests/redis_figures.py [--seconds 2] [--rounds 3] [--connections 50] [--pipelines 1,16] [--only memory,redis] [--operations set,get]
                           [--io epoll,uring] [--generator redis-benchmark]

    memory     3 replicas of Highwater with one worker each, durability memory
    sync       the same, on disks
    redis      one Redis, without disk and without replicas
    always     one Redis with appendfsync always
    wait       one Redis with a replica; behind each batch of writes a WAIT 1

With --io what is Highwater is measured once with each of these as server.io.

The generator (crates/node/examples/operations.rs, or redis-benchmark, which knows no MULTI, no scripts, no WAIT and no number of seconds: it asks 150,000 times as often as there
are seconds, and eight times that when it pipelines) is the same for all, and shares the two cores with whoever it asks. Latency is that of a batch of PIPELINE
operations, from sending it to its last reply. What redis-benchmark calls these operations is sent here, too: one list, one set, one hash, one sorted set.
"""

import argparse
import hashlib
import pathlib
import re
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile

from ports import free_ports
from rivals import ROOT, Highwater, System, cpu_seconds, listens, wait_for

TRANSFER = "local n = tonumber(ARGV[1]) redis.call('DECRBY', KEYS[1], n) return redis.call('INCRBY', KEYS[2], n)"
SHA = hashlib.sha1(TRANSFER.encode()).hexdigest()
# Name: what is sent, and whether it writes.
OPERATIONS = {
    "set": (["SET key:{r} xxx"], True),
    "get": (["GET key:{r}"], False),
    "incr": (["INCR counter:{r}"], True),
    "lpush": (["LPUSH mylist xxx"], True),
    "rpop": (["RPOP mylist"], True),
    "sadd": (["SADD myset element:{r}"], True),
    "hset": (["HSET myhash element:{r} xxx"], True),
    "zadd": (["ZADD myzset {r} element:{r}"], True),
    "mset": (["MSET " + " ".join("key:{r} xxx" for _ in range(10))], True),
    "multi": (["MULTI"] + ["SET key:{r} xxx"] * 4 + ["EXEC"], True),
    "lua": ([f"EVALSHA {SHA} 2 account:{{r}} account:{{r}} 7"], True),
}


class Memory(Highwater):
    level = "memory"


class Plain(System):
    """Redis by itself."""

    options = ()
    replicas = 0
    last = None

    def start(self):
        self.ports = free_ports(1 + self.replicas)
        for at, port in enumerate(self.ports):
            folder = self.folder / str(at)
            folder.mkdir()
            command = ["redis-server", "--port", str(port), "--dir", folder, "--save", "", *self.options]
            command += ["--replicaof", "127.0.0.1", str(self.ports[0])] if at else []
            self.run(*command)
        for port in self.ports:
            wait_for("redis", lambda: listens(port))
        wait_for("its replicas", lambda: ask(self.ports[0], "INFO replication").count("state=online") == self.replicas)

    def leader(self):
        return self.ports[0]


class Always(Plain):
    options = ("--appendonly", "yes", "--appendfsync", "always")


class Waiting(Plain):
    replicas = 1
    last = "WAIT 1 1000"


def ask(port, *commands):
    """The raw reply to inline commands, as far as it comes at once."""
    with socket.create_connection(("127.0.0.1", port), 2) as client:
        client.sendall("".join(command + "\r\n" for command in commands).encode())
        return client.recv(1 << 16).decode(errors="replace")


def measure(system, name, pipeline, args):
    commands, writes = OPERATIONS[name]
    port = system.leader()
    if name == "lua":
        words = ["SCRIPT", "LOAD", TRANSFER]
        packet = f"*{len(words)}\r\n" + "".join(f"${len(word)}\r\n{word}\r\n" for word in words)
        with socket.create_connection(("127.0.0.1", port), 2) as client:
            client.sendall(packet.encode())
            if SHA not in client.recv(1 << 12).decode():
                return None
    command = [args.release / "examples" / "operations", f"127.0.0.1:{port}", str(args.connections), str(pipeline), str(args.seconds), str(args.keys)]
    last = getattr(system, "last", None)
    command += ["--last", last] if last and writes else []
    if name == "rpop":
        # What is popped has to be there.
        fill = command[:2] + ["10", "16", "1", "1000", "LPUSH mylist" + 20 * " xxx"]
        subprocess.run(fill, check=True, capture_output=True)
    leader = system.children[system.resp.index(port) if hasattr(system, "resp") else 0].pid
    before, before_leader = cpu_seconds(system.pids()), cpu_seconds([leader])
    text = subprocess.run(command + commands, check=True, capture_output=True, text=True).stdout
    cpu, leader_cpu = cpu_seconds(system.pids()) - before, cpu_seconds([leader]) - before_leader
    done, rate, half, most, errors, first = re.search(
        r"(\d+) operations, (\d+)/s, p50 ([\d.]+) ms, p99 ([\d.]+) ms, (\d+) errors ?(.*)", text
    ).groups()
    if int(errors):
        print(f"  {system.name} {name}: {errors} errors, the first: {first}")
    return int(rate), float(half), float(most), *(seconds / max(int(done), 1) * 1e6 for seconds in (cpu, leader_cpu))


def measure_by_benchmark(system, name, pipeline, args):
    port = system.leader()
    count = args.seconds * 150_000 * (1 if pipeline == 1 else 8)
    command = ["redis-benchmark", "-p", str(port), "-t", name, "-n", str(count), "-r", str(args.keys), "-P", str(pipeline), "-c", str(args.connections), "--csv"]
    leader = system.children[system.resp.index(port) if hasattr(system, "resp") else 0].pid
    before, before_leader = cpu_seconds(system.pids()), cpu_seconds([leader])
    text = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    cpu, leader_cpu = cpu_seconds(system.pids()) - before, cpu_seconds([leader]) - before_leader
    head, row = ([word.strip('"') for word in line.split('","')] for line in text.strip().splitlines()[-2:])
    row = dict(zip(head, row))
    return float(row["rps"]), float(row["p50_latency_ms"]), float(row["p99_latency_ms"]), cpu / count * 1e6, leader_cpu / count * 1e6


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--connections", type=int, default=50)
    parser.add_argument("--keys", type=int, default=100_000)
    parser.add_argument("--workers", type=int, default=1, help="of each replica of Highwater")
    parser.add_argument("--pipelines", default="1,16")
    parser.add_argument("--only", default="memory,sync,redis,always,wait")
    parser.add_argument("--io", help="what client sockets of Highwater stand on: epoll, uring, auto; several: one after the other")
    parser.add_argument("--operations", default=",".join(OPERATIONS))
    parser.add_argument("--generator", choices=["operations", "redis-benchmark"], default="operations")
    parser.add_argument("--release", type=pathlib.Path, default=ROOT / "target" / "dist")
    args = parser.parse_args()
    if not shutil.which("redis-server"):
        sys.exit("redis-server is not installed (Debian: redis-server)")
    kinds = {"memory": Memory, "sync": Highwater, "redis": Plain, "always": Always, "wait": Waiting}
    if args.generator == "redis-benchmark" and {"multi", "lua"} & set(args.operations.split(",")):
        sys.exit("redis-benchmark knows neither multi nor lua: name others with --operations")
    if args.generator == "redis-benchmark" and "wait" in args.only.split(","):
        sys.exit("redis-benchmark sends no WAIT: name others with --only")
    ask_it = measure_by_benchmark if args.generator == "redis-benchmark" else measure
    pipelines = [int(pipeline) for pipeline in args.pipelines.split(",")]
    ways = args.io.split(",") if args.io else [None]
    systems = [(kind, io) for kind in args.only.split(",") for io in (ways if issubclass(kinds[kind], Highwater) else [None])]
    folder = pathlib.Path(tempfile.mkdtemp(prefix="highwater-figures-"))
    rows = {}
    try:
        for round_ in range(args.rounds):
            for kind, io in systems:
                place = folder / str(round_)
                place.mkdir(exist_ok=True)
                name_of = f"{kind}/{io}" if io else kind
                system = kinds[kind](name_of.replace("/", "-"), place, args)
                system.io = io
                try:
                    system.start()
                    for name in args.operations.split(","):
                        for pipeline in pipelines:
                            row = ask_it(system, name, pipeline, args)
                            if row:
                                rows.setdefault((name, pipeline), {}).setdefault(name_of, []).append(row)
                finally:
                    system.stop()
                    shutil.rmtree(system.folder, ignore_errors=True)
                print(f"round {round_ + 1}: {name_of}", file=sys.stderr, flush=True)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    print(f"medians of {args.rounds}: operations/s, p50 / p99 in ms, us of CPU each, and of the leader's")
    for (name, pipeline), kinds in rows.items():
        print(f"{name} -P {pipeline}")
        for kind, measured in kinds.items():
            rate, half, most, cpu, leader = (statistics.median(column) for column in zip(*measured))
            ratio = f"  {rate / statistics.median(row[0] for row in kinds['redis']):5.2f} of redis" if "redis" in kinds else ""
            print(f"  {kind:12} {rate:9.0f}/s  {half:7.3f} / {most:7.3f}  {cpu:6.2f} us  {leader:6.2f} us{ratio}")


if __name__ == "__main__":
    main()
