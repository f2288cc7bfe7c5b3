#!/usr/bin/env python3
"""The same work on Highwater and on others, each with its disk on: two-account transfers over the network, per second and CPU time.

    cargo build --profile dist && cargo build --profile dist -p highwater-node --example transfers
    tests/rivals.py [--seconds 10] [--rounds 3] [--connections 32] [--workers 1] [--only highwater,postgres,redis,etcd]

Three processes of each on this machine, with their files in one temporary folder:

    highwater   3 replicas, durability sync; MULTI, DECRBY, INCRBY, EXEC
    async       the same with durability async
    postgres    a primary and two standbys, SERIALIZABLE, synchronous_commit = remote_apply, ANY 1; two UPDATEs in one message
    redis       one server with appendfsync always, and two replicas, which nobody waits for; MULTI, DECRBY, INCRBY, EXEC
    etcd        3 members; one transaction of two puts, by its JSON gateway: blind writes, which is less than a transfer

They take turns, so that each meets the same noise. What is not installed (Debian: postgresql-15, redis-server, etcd-server) is left out, and said.
"""

import argparse
import os
import pathlib
import re
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time

from ports import free_ports

ROOT = pathlib.Path(__file__).resolve().parent.parent
HERTZ = os.sysconf("SC_CLK_TCK")
ACCOUNTS = 100_000


def cpu_seconds(pids):
    """Of processes and all that they have started and that still run."""
    parents = {}
    ticks = {}
    for entry in pathlib.Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                fields = (entry / "stat").read_text().rsplit(")", 1)[1].split()
            except OSError:
                continue
            parents[int(entry.name)] = int(fields[1])
            ticks[int(entry.name)] = sum(int(field) for field in fields[11:15])
    wanted = set(pids)
    grew = True
    while grew:
        more = {pid for pid, parent in parents.items() if parent in wanted} - wanted
        wanted |= more
        grew = bool(more)
    return sum(ticks.get(pid, 0) for pid in wanted) / HERTZ


def wait_for(what, holds, seconds=30):
    end = time.monotonic() + seconds
    while not holds():
        if time.monotonic() > end:
            sys.exit(f"{what}: not within {seconds} s")
        time.sleep(0.05)


def listens(port):
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


class System:
    """Starts, is measured, ends."""

    def __init__(self, name, folder, args):
        self.name, self.folder, self.release, self.workers = name, folder / name, args.release, args.workers
        self.io = None
        self.folder.mkdir()
        self.children = []

    def run(self, *command, **options):
        log = open(self.folder / "log", "ab")
        child = subprocess.Popen(command, stdout=log, stderr=log, **options)
        self.children.append(child)
        return child

    def pids(self):
        return [child.pid for child in self.children]

    def transfers(self, kind, port, args):
        command = [self.release / "examples" / "transfers", kind, f"127.0.0.1:{port}"]
        command += [str(args.connections), str(args.seconds), str(ACCOUNTS)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as child:
            text = child.stdout.readline()
            # The sum over all accounts comes after it.
            after = cpu_seconds(self.pids())
            print(f"  {child.stdout.read().strip()}", flush=True)
            if child.wait() != 0:
                sys.exit(f"{self.name}: {text}")
        found = re.search(r"(\d+) transfers/s .* p50 ([\d.]+) ms, p99 ([\d.]+) ms, (\d+) refused", text)
        return int(found[1]), float(found[2]), float(found[3]), after

    def stop(self):
        for child in reversed(self.children):
            child.terminate()
        for child in self.children:
            try:
                child.wait(20)
            except subprocess.TimeoutExpired:
                child.kill()
                child.wait()


class Highwater(System):
    level = "sync"

    def start(self):
        ports = free_ports(9)
        nodes = ",".join(
            f'{{ id = {i}, peer = "127.0.0.1:{ports[3 * i]}", resp = "127.0.0.1:{ports[3 * i + 1]}", admin = "127.0.0.1:{ports[3 * i + 2]}" }}'
            for i in range(3)
        )
        config = self.folder / "cluster.toml"
        config.write_text(f'[cluster]\nworkers = {self.workers}\ndurability = "{self.level}"\nnodes = [{nodes}]\n[server]\nbenchmarks = "on"\n[storage]\ndir = "{self.folder}/data"\n')
        environment = dict(os.environ, HIGHWATER_SERVER_IO=self.io) if self.io else None
        for node in range(3):
            self.run(self.release / "highwater", "serve", "--config", config, "--node-id", str(node), env=environment)
        self.resp = [ports[3 * i + 1] for i in range(3)]
        wait_for("a leader", lambda: self.leader() is not None)

    def leader(self):
        for port in self.resp:
            try:
                with socket.create_connection(("127.0.0.1", port), 1) as client:
                    client.sendall(b"INFO replication\r\n")
                    if b"role:master" in client.recv(4096):
                        return port
            except OSError:
                pass
        return None

    def measure(self, args):
        return self.transfers("resp", self.leader(), args)


class Async(Highwater):
    level = "async"


class Redis(System):
    def start(self):
        self.ports = free_ports(3)
        for at, port in enumerate(self.ports):
            folder = self.folder / str(at)
            folder.mkdir()
            command = ["redis-server", "--port", str(port), "--dir", folder, "--save", "", "--appendonly", "yes"]
            command += ["--appendfsync", "always"]
            command += ["--replicaof", "127.0.0.1", str(self.ports[0])] if at else []
            self.run(*command)
        for port in self.ports:
            wait_for("redis", lambda: listens(port))

    def measure(self, args):
        return self.transfers("resp", self.ports[0], args)


class Etcd(System):
    def start(self):
        ports = free_ports(6)
        self.client = ports[1]
        cluster = ",".join(f"n{i}=http://127.0.0.1:{ports[2 * i]}" for i in range(3))
        for at in range(3):
            peer, client = (f"http://127.0.0.1:{port}" for port in ports[2 * at : 2 * at + 2])
            command = ["etcd", "--name", f"n{at}", "--data-dir", self.folder / str(at), "--initial-cluster", cluster]
            command += ["--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer]
            command += ["--listen-client-urls", client, "--advertise-client-urls", client, "--log-level", "error"]
            self.run(*command)
        wait_for("etcd", lambda: listens(self.client))
        time.sleep(3)

    def measure(self, args):
        return self.transfers("etcd", self.client, args)


class Postgres(System):
    BIN = next(iter(sorted(pathlib.Path("/usr/lib/postgresql").glob("*/bin"))), None)

    def start(self):
        shutil.chown(self.folder, "postgres", "postgres")
        for parent in list(self.folder.parents)[:1]:
            parent.chmod(0o755)
        self.ports = free_ports(3)
        first = self.folder / "0"
        self.sql_user = {"user": "postgres"}
        quiet = {"check": True, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "cwd": self.folder, **self.sql_user}
        subprocess.run([self.BIN / "initdb", "-D", first, "-A", "trust"], **quiet)
        with open(first / "postgresql.conf", "a") as config:
            config.write(
                f"listen_addresses='127.0.0.1'\nunix_socket_directories='{self.folder}'\nwal_level=replica\nmax_wal_senders=8\n"
                "hot_standby=on\nshared_buffers=512MB\nmax_connections=600\ndefault_transaction_isolation=serializable\n"
            )
        with open(first / "pg_hba.conf", "a") as config:
            config.write("host replication all 127.0.0.1/32 trust\n")
        self.serve(0)
        setup = f"CREATE TABLE accounts (id int PRIMARY KEY, balance bigint NOT NULL); INSERT INTO accounts SELECT g, 0 FROM generate_series(1, {ACCOUNTS}) g;"
        self.psql(setup)
        for at in (1, 2):
            url = f"host=127.0.0.1 port={self.ports[0]} application_name=s{at}"
            subprocess.run([self.BIN / "pg_basebackup", "-D", self.folder / str(at), "-d", url, "-R", "-c", "fast"], **quiet)
            self.serve(at)
        for setting in ("synchronous_standby_names = 'ANY 1 (s1, s2)'", "synchronous_commit = remote_apply"):
            self.psql(f"ALTER SYSTEM SET {setting}")
        self.psql("SELECT pg_reload_conf()")
        (self.folder / "transfer.sql").write_text(
            f"\\set a random(1, {ACCOUNTS})\n\\set b random(1, {ACCOUNTS})\n\\set d random(1, 100)\n"
            "BEGIN \\; UPDATE accounts SET balance = balance - :d WHERE id = :a \\; "
            "UPDATE accounts SET balance = balance + :d WHERE id = :b \\; COMMIT;\n"
        )

    def serve(self, at):
        self.run(self.BIN / "postgres", "-D", self.folder / str(at), "-p", str(self.ports[at]), cwd=self.folder, **self.sql_user)
        wait_for("postgres", lambda: listens(self.ports[at]))
        time.sleep(1)

    def psql(self, sql):
        command = ["psql", "-h", "127.0.0.1", "-p", str(self.ports[0]), "-U", "postgres", "-qAt", "-c", sql]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout

    def measure(self, args):
        command = ["pgbench", "-h", "127.0.0.1", "-p", str(self.ports[0]), "-U", "postgres", "-n", "-f", self.folder / "transfer.sql"]
        command += ["-c", str(args.connections), "-j", "2", "-T", str(args.seconds), "--max-tries", "20", "-l", "postgres"]
        text = subprocess.run(command, check=True, capture_output=True, text=True, cwd=self.folder).stdout
        after = cpu_seconds(self.pids())
        took = []
        for log in self.folder.glob("pgbench_log.*"):
            # Those that failed to serialize twenty times in a row say so in the place of their time.
            fields = (line.split()[2] for line in log.read_text().splitlines())
            took += [int(field) / 1000 for field in fields if field.isdigit()]
            log.unlink()
        took.sort()
        done = int(re.search(r"actually processed: (\d+)", text)[1])
        total = self.psql("SELECT sum(balance) FROM accounts").strip()
        if total != "0":
            sys.exit(f"postgres: all accounts together: {total}")
        return done // args.seconds, took[len(took) // 2], took[len(took) * 99 // 100], after

    def stop(self):
        for child in reversed(self.children):
            child.send_signal(2)
        super().stop()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=int, default=10)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--connections", type=int, default=32)
    parser.add_argument("--workers", type=int, default=1, help="of each replica of Highwater; three of them share the machine's cores")
    parser.add_argument("--only", default="highwater,async,postgres,redis,etcd")
    parser.add_argument("--release", type=pathlib.Path, default=ROOT / "target" / "dist")
    args = parser.parse_args()
    there = {
        "highwater": Highwater,
        "async": Async,
        "postgres": Postgres if Postgres.BIN and shutil.which("pgbench") else None,
        "redis": Redis if shutil.which("redis-server") else None,
        "etcd": Etcd if shutil.which("etcd") else None,
    }
    folder = pathlib.Path(tempfile.mkdtemp(prefix="highwater-rivals-"))
    results = {}
    try:
        for round_ in range(args.rounds):
            for name in args.only.split(","):
                if there[name] is None:
                    print(f"{name}: not installed, left out")
                    continue
                place = folder / str(round_)
                place.mkdir(exist_ok=True)
                folder.chmod(0o755)
                system = there[name](name, place, args)
                try:
                    system.start()
                    before = cpu_seconds(system.pids())
                    rate, half, most, after = system.measure(args)
                    cpu = (after - before) / (rate * args.seconds) * 1e6
                    print(f"{name:10} {rate:7} /s  p50 {half:6.2f} ms  p99 {most:6.2f} ms  {cpu:6.1f} us CPU each", flush=True)
                    results.setdefault(name, []).append((rate, half, most, cpu))
                finally:
                    system.stop()
                    shutil.rmtree(system.folder, ignore_errors=True)
        print(f"medians of {args.rounds}:")
        for name, rows in results.items():
            rate, half, most, cpu = (statistics.median(column) for column in zip(*rows))
            print(f"{name:10} {rate:9.0f} /s  p50 {half:6.2f} ms  p99 {most:6.2f} ms  {cpu:6.1f} us CPU each")
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
