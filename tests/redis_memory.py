#!/usr/bin/env python3
"""Memory for each small thing, beside Redis's: a million strings, hashes of ten fields, sorted-set and set members, list items.

    cargo build --profile dist
    tests/redis_memory.py [--count 1000000]

One node of Highwater (`durability = "memory"`) and one Redis, each with nothing else in it; bytes of resident memory that the load has added, divided by the count,
once the node has been at rest for some seconds. Beside it what the node says that its data take of it, records and index: the rest does not grow with them (log for followers that
lag, memory that stands ready, buffers), and is told in MB. Replicas have as much each.
"""

import argparse
import json
import pathlib
import shutil
import socket
import subprocess
import sys
import tempfile
import time

from ports import free_ports
from rivals import ROOT, System, listens, wait_for

# A command for number n, and how many things it adds.
KINDS = {
    "string (key:n -> 10 bytes)": (lambda n: ["SET", f"key:{n:09}", f"{n:010}"], 1),
    "hash of 10 fields (hash:n), a field": (lambda n: ["HSET", f"hash:{n:09}", *(word for at in range(10) for word in (f"field:{at}", f"{n:010}"))], 10),
    "field of one large hash": (lambda n: ["HSET", "hash", f"field:{n:09}", f"{n:010}"], 1),
    "member of one large set": (lambda n: ["SADD", "set", f"member:{n:09}"], 1),
    "member of one large sorted set": (lambda n: ["ZADD", "zset", str(n * 7919 % 1_000_003), f"member:{n:09}"], 1),
    "item of one large list": (lambda n: ["RPUSH", "list", f"{n:010}"], 1),
}


# As long as a node that got much at once keeps memory ready for more.
REST_SECONDS = 4


def resident(pid):
    for line in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS"):
            return int(line.split()[1]) * 1024
    return 0


class One(System):
    def __init__(self, name, folder, args):
        super().__init__(name, folder, args)
        self.port = 0

    def start(self):
        ports = free_ports(3)
        self.port = ports[1]
        if self.name == "redis":
            self.run("redis-server", "--port", str(self.port), "--dir", self.folder, "--save", "")
        else:
            config = self.config = self.folder / "one.toml"
            node = f'{{ id = 0, peer = "127.0.0.1:{ports[0]}", resp = "127.0.0.1:{ports[1]}", admin = "127.0.0.1:{ports[2]}" }}'
            config.write_text(f'[cluster]\nworkers = 1\ndurability = "memory"\nnodes = [{node}]\n[storage]\ndir = "{self.folder}/data"\n')
            self.run(self.release / "highwater", "serve", "--config", config)
        wait_for(self.name, lambda: listens(self.port) and self.answers())

    def answers(self):
        with socket.create_connection(("127.0.0.1", self.port), 2) as client:
            client.sendall(b"SET warm up\r\n")
            return client.recv(100).startswith(b"+OK")

    def parts(self):
        """What a node takes for records, index and log, and what it has reserved for its store, in bytes."""
        told = subprocess.run([self.release / "highwater", "status", "--json", "--config", self.config], capture_output=True, text=True, check=True)
        memory = json.loads(told.stdout)["memory"]
        return {name: memory[name] for name in ("records", "index", "logs", "reserved")}

    def load(self, command, count):
        with socket.create_connection(("127.0.0.1", self.port)) as client:
            replies = client.makefile("rb")
            for first in range(0, count, 1000):
                numbers = range(first, min(first + 1000, count))
                packet = []
                for n in numbers:
                    words = command(n)
                    packet.append(f"*{len(words)}\r\n" + "".join(f"${len(word)}\r\n{word}\r\n" for word in words))
                client.sendall("".join(packet).encode())
                for _ in numbers:
                    line = replies.readline()
                    if line[:1] not in b"+:":
                        sys.exit(f"{self.name}: {line!r}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=1_000_000)
    parser.add_argument("--release", type=pathlib.Path, default=ROOT / "target" / "dist")
    args = parser.parse_args()
    args.workers = 1
    systems = ["highwater"] + (["redis"] if shutil.which("redis-server") else [])
    folder = pathlib.Path(tempfile.mkdtemp(prefix="highwater-memory-"))
    try:
        for kind, (command, things) in KINDS.items():
            found = []
            for name in systems:
                system = One(name, folder, args)
                try:
                    system.start()
                    before = resident(system.pids()[0])
                    system.load(command, args.count // things)
                    time.sleep(REST_SECONDS)
                    count = args.count // things * things
                    added = resident(system.pids()[0]) - before
                    found.append(added / count)
                    if name == "highwater":
                        parts = system.parts()
                        data = (parts["records"] + parts["index"]) / count
                        apart = {"log": parts["logs"], "free": parts["reserved"] - parts["records"] - parts["index"], "other": added - parts["reserved"] - parts["logs"]}
                finally:
                    system.stop()
                    shutil.rmtree(system.folder, ignore_errors=True)
            times = (lambda bytes: f" ({bytes / found[1]:4.2f} times)") if len(found) > 1 else (lambda bytes: "")
            beside = f", redis {found[1]:6.1f}" if len(found) > 1 else ""
            rest = ", ".join(f"{name} {bytes / 1e6:.1f} MB" for name, bytes in apart.items())
            split = f"records {parts['records'] / count:.1f}, index {parts['index'] / count:.1f}"
            print(f"{kind:40} data {data:6.1f} bytes{times(data)}, resident {found[0]:6.1f}{times(found[0])}{beside}; {split}; {rest}", flush=True)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
