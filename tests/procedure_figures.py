#!/usr/bin/env python3
"""The same transfer as a procedure of the build, of a WebAssembly module, as a Lua script and as a MULTI: what each costs the leader.

    cargo build --profile dist --features wasm && cargo build --profile dist -p highwater-node --example operations
    (cd clients/wasm && cargo build --release)
    tests/procedure_figures.py [--seconds 2] [--rounds 5] [--connections 16] [--pipeline 16]

    built-in     HW.CALL bank.transfer from to amount          rows of 8 bytes in a hashed table
    module       HW.CALL vault.transfer from to amount         rows of 8 bytes in a table that HW.TABLE made
    module-keys  HW.CALL vault.keys from to amount             strings of the Redis keyspace
    lua          EVALSHA, with DECRBY and INCRBY               the same strings
    multi        MULTI, DECRBY, INCRBY, EXEC                   the same strings
    get          GET                                           what a request costs anyway

Three replicas with one worker each, durability memory. The kinds take turns, so that each meets the same noise. Instructions are those that `perf stat` counts of the
leader's process, in user space and in the kernel, where the machine lets it; CPU time is the leader's.
"""

import argparse
import hashlib
import pathlib
import re
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile

from rivals import ROOT, Highwater, cpu_seconds

TRANSFER = "local n = tonumber(ARGV[1]) redis.call('DECRBY', KEYS[1], n) return redis.call('INCRBY', KEYS[2], n)"
SHA = hashlib.sha1(TRANSFER.encode()).hexdigest()
KINDS = {
    "built-in": ["HW.CALL bank.transfer {r} {r} 7"],
    "module": ["HW.CALL vault.transfer {r} {r} 7"],
    "module-keys": ["HW.CALL vault.keys account:{r} account:{r} 7"],
    "lua": [f"EVALSHA {SHA} 2 account:{{r}} account:{{r}} 7"],
    "multi": ["MULTI", "DECRBY account:{r} 7", "INCRBY account:{r} 7", "EXEC"],
    "get": ["GET account:{r}"],
}
ACCOUNTS = 10_000


class Memory(Highwater):
    level = "memory"


def packed(words):
    words = [word if isinstance(word, bytes) else str(word).encode() for word in words]
    return b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%s\r\n" % (len(word), word) for word in words)


def tell(port, commands):
    """Sends commands, and ends if one of them is refused."""
    with socket.create_connection(("127.0.0.1", port), 60) as client:
        replies = client.makefile("rb")
        for at in range(0, len(commands), 100):
            some = commands[at : at + 100]
            client.sendall(b"".join(packed(words) for words in some))
            for words in some:
                line = replies.readline()
                if line.startswith(b"$"):
                    replies.read(int(line[1:]) + 2)
                if line.startswith(b"-"):
                    sys.exit(f"{words[:3]}: {line.decode()}")


def prepare(port, module):
    tell(port, [["HW.TABLE", "CREATE", "accounts", "u64"], ["SCRIPT", "LOAD", TRANSFER]])
    tell(port, [["HW.CALL", "bank.load", at, 1000, 10**9] for at in range(0, ACCOUNTS, 1000)])
    if module:
        tell(port, [["HW.MODULE", "LOAD", "vault", module.read_bytes()]])
        tell(port, [["HW.CALL", "vault.open", account, 10**12] for account in range(ACCOUNTS)])
    tell(port, [["SET", f"account:{account:012}", 10**12] for account in range(ACCOUNTS)])


def counted(pid):
    """Counts instructions of a process until it is interrupted; None where that is not possible."""
    command = ["perf", "stat", "-x", ",", "-e", "instructions:u,instructions:k", "-p", str(pid)]
    return subprocess.Popen(command, stderr=subprocess.PIPE, text=True) if shutil.which("perf") else None


def instructions(perf):
    if not perf:
        return []
    perf.send_signal(signal.SIGINT)
    text = perf.communicate()[1]
    return [int(count) for count in re.findall(r"^(\d+),", text, re.M)]


def measure(system, kind, args):
    port = system.leader()
    pid = system.pids()[system.resp.index(port)]
    command = [args.release / "examples" / "operations", f"127.0.0.1:{port}", args.connections, args.pipeline, args.seconds, ACCOUNTS, *KINDS[kind]]
    perf, before = counted(pid), cpu_seconds([pid])
    text = subprocess.run([str(word) for word in command], check=True, capture_output=True, text=True).stdout
    cpu, count = cpu_seconds([pid]) - before, instructions(perf)
    done, rate, half, most, errors, first = re.search(
        r"(\d+) operations, (\d+)/s, p50 ([\d.]+) ms, p99 ([\d.]+) ms, (\d+) errors ?(.*)", text
    ).groups()
    # From an account to itself, which the build's procedure refuses.
    if int(errors) > int(done) / 1000:
        sys.exit(f"{kind}: {errors} errors, the first: {first}")
    each = [number / int(done) for number in count] + [0.0] * (2 - len(count))
    return cpu / int(done) * 1e6, each[0], each[1], int(rate), float(half), float(most)


def with_module(kinds):
    """Whether a build with WebAssembly, and a module, are needed at all."""
    return any(kind.startswith("module") for kind in kinds.split(","))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--connections", type=int, default=16)
    parser.add_argument("--pipeline", type=int, default=16)
    parser.add_argument("--workers", type=int, default=1, help="of each replica")
    parser.add_argument("--kinds", default=",".join(KINDS))
    parser.add_argument("--release", type=pathlib.Path, default=ROOT / "target" / "dist")
    module = ROOT / "clients" / "wasm" / "target" / "wasm32-unknown-unknown" / "release" / "transfer.wasm"
    parser.add_argument("--module", type=pathlib.Path, default=module)
    args = parser.parse_args()
    if not with_module(args.kinds):
        args.module = None
    elif not args.module.exists():
        sys.exit(f"there is no {args.module}: cargo build --release in clients/wasm, after rustup target add wasm32-unknown-unknown")
    folder = pathlib.Path(tempfile.mkdtemp(prefix="highwater-procedures-"))
    rows = {kind: [] for kind in args.kinds.split(",")}
    system = Memory("memory", folder, args)
    try:
        system.start()
        prepare(system.leader(), args.module)
        for round_ in range(args.rounds + 1):
            for kind, measured in rows.items():
                row = measure(system, kind, args)
                # The first round is for warming up.
                measured.extend([row] if round_ else [])
            print(f"round {round_} of {args.rounds}", file=sys.stderr, flush=True)
    finally:
        system.stop()
        shutil.rmtree(folder, ignore_errors=True)
    print(f"medians of {args.rounds}: the leader's CPU time, instructions (user, kernel), operations/s, p50 / p99 of a batch of {args.pipeline}")
    for kind, measured in rows.items():
        cpu, user, kernel, rate, half, most = (statistics.median(column) for column in zip(*measured))
        print(f"  {kind:12} {cpu:6.2f} us  {user:8.0f} {kernel:7.0f}  {rate:8.0f}/s  {half:6.3f} / {most:6.3f} ms")


if __name__ == "__main__":
    main()
