#!/usr/bin/env python3
"""A node of a loaded cluster is replaced by a new one, which copies everything: how long that takes, and what clients see of it.

    cargo build --release && cargo build --release -p highwater-node --example transfers
    tests/replacement.py [--gb 2] [--seconds 60] [--times 1] [--release DIR]

Three replicas with durability sync are filled by redis-benchmark with values of 1 kB; then 8 connections transfer for so many seconds, one
after the other each, while a node that does not lead is replaced by a new one, by `highwater member replace`. The transfers must add up. Needs redis-benchmark.
"""

import argparse
import pathlib
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time

from ports import free_ports

ROOT = pathlib.Path(__file__).resolve().parent.parent


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gb", type=float, default=2)
    parser.add_argument("--seconds", type=int, default=60)
    parser.add_argument("--times", type=int, default=1, help="replacements, one after the other, each of the last newcomer")
    parser.add_argument("--release", type=pathlib.Path, default=ROOT / "target" / "release")
    args = parser.parse_args()
    highwater = args.release.resolve() / "highwater"
    if not shutil.which("redis-benchmark"):
        sys.exit("redis-benchmark is not installed (Debian: redis-tools)")
    folder = pathlib.Path(tempfile.mkdtemp(prefix="highwater-replacement-"))
    children = []
    ports = free_ports(3 * (3 + args.times))

    def node(i):
        at = [f"127.0.0.1:{port}" for port in ports[3 * i : 3 * i + 3]]
        return f'{{ id = {i}, peer = "{at[0]}", resp = "{at[1]}", admin = "{at[2]}" }}'

    def start(i, known):
        config = folder / f"{i}.toml"
        nodes = ",".join(node(k) for k in known)
        config.write_text(
            f'node = {i}\n[cluster]\nworkers = 1\ndurability = "sync"\nnodes = [{nodes}]\n[storage]\ndir = "{folder}/data"\ncheckpoint_mb = 1024\n'
        )
        log = open(folder / f"{i}.log", "ab")
        children.append(subprocess.Popen([highwater, "serve", "--config", config], stdout=log, stderr=log))
        return config

    def end_of(i):
        children[i].terminate()
        children[i].wait()

    def status(i):
        done = subprocess.run([highwater, "status", "--admin", f"127.0.0.1:{ports[3 * i + 2]}", "--json"], capture_output=True, text=True)
        return done.stdout

    def leader():
        for i in range(3):
            with socket.socket() as one:
                one.settimeout(2)
                try:
                    one.connect(("127.0.0.1", ports[3 * i + 1]))
                    one.sendall(b"*3\r\n$3\r\nSET\r\n$5\r\nprobe\r\n$1\r\n1\r\n")
                    if one.recv(100).startswith(b"+OK"):
                        return i
                except OSError:
                    pass
        return None

    try:
        for i in range(3):
            config = start(i, range(3))
        end = time.monotonic() + 30
        while leader() is None:
            if time.monotonic() > end:
                sys.exit(f"no leader within 30 s; see {folder}")
            time.sleep(0.05)
        leads = leader()
        resp = ports[3 * leads + 1]
        keys = int(args.gb * 1e9 / 1100)
        began = time.monotonic()
        fill = ["redis-benchmark", "-p", str(resp), "-t", "set", "-d", "1000", "-r", str(keys), "-n", str(2 * keys), "-P", "128", "-c", "8", "-q"]
        subprocess.run(fill, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        print(f"filled in {time.monotonic() - began:.1f} s", flush=True)
        transfers = [args.release / "examples" / "transfers", "resp", f"127.0.0.1:{resp}", "8", str(args.seconds), "100000"]
        load = subprocess.Popen(transfers, stdout=subprocess.PIPE, text=True)
        try:
            time.sleep(3)
            took, members = [], [0, 1, 2]
            for newcomer in range(3, 3 + args.times):
                goes = max(member for member in members if member != leads)
                config = start(newcomer, [*members, newcomer])
                members = [*(member for member in members if member != goes), newcomer]
                began = time.monotonic()
                replace = [highwater, "member", "replace", str(goes), "--by", str(newcomer), "--config", config]
                done = subprocess.run(replace, capture_output=True, text=True)
                took.append(time.monotonic() - began)
                print(done.stdout.strip().splitlines()[-1] if args.times > 1 else done.stdout.strip(), flush=True)
                if done.returncode != 0:
                    sys.exit(f"member replace: {done.stderr}")
                end_of(goes)
            under_load = load.poll() is None
            took = ", ".join(f"{one:.1f}" for one in took)
            print(f"replaced in {took} s{'' if under_load else ', longer than the load lasted: ask for more --seconds'}", flush=True)
            for line in load.stdout:
                print(line.strip())
            if load.wait() != 0:
                sys.exit("the transfers do not add up")
        finally:
            load.poll() is None and load.terminate()
        sizes = [int(size) for size in re.findall(r'"store_bytes": ?(\d+)', status(newcomer))]
        print(f"store of the new node: {sizes[0] / 2**30 if sizes else float('nan'):.2f} GiB")
    finally:
        for child in reversed(children):
            child.terminate()
        for child in children:
            child.wait()
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
