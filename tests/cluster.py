"""Replicas of Highwater on this machine, for scripts that measure: each with its files in one temporary folder, ended with it."""

import json
import pathlib
import shutil
import socket
import subprocess
import sys
import tempfile
import time

from ports import free_ports


class Cluster:
    """`nodes` replicas can be started, of one worker each unless told otherwise."""

    def __init__(self, release, nodes, settings='durability = "sync"', storage="checkpoint_mb = 1024", workers=1):
        self.highwater = release.resolve() / "highwater"
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="highwater-cluster-"))
        self.ports, self.processes = free_ports(3 * nodes), {}
        self.settings, self.storage, self.workers = settings, storage, workers

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for process in self.processes.values():
            process.terminate()
        for process in self.processes.values():
            process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)

    def resp(self, node):
        return self.ports[3 * node + 1]

    def storage_dir(self, node):
        """Where that node's folder is."""
        return self.folder / "data"

    def environment(self, node):
        """What its process is told besides; `None`: what this one was."""
        return None

    def config(self, node):
        return self.folder / f"{node}.toml"

    def start(self, node, known):
        """Starts a replica that is told of `known` ones, itself among them."""
        at = [f"127.0.0.1:{port}" for port in self.ports]
        nodes = ",".join(f'{{ id = {i}, peer = "{at[3 * i]}", resp = "{at[3 * i + 1]}", admin = "{at[3 * i + 2]}" }}' for i in known)
        self.config(node).write_text(
            f'node = {node}\n[cluster]\nworkers = {self.workers}\n{self.settings}\nnodes = [{nodes}]\n[storage]\ndir = "{self.storage_dir(node)}"\n{self.storage}\n'
        )
        with open(self.folder / f"{node}.log", "ab") as log:
            command = [self.highwater, "serve", "--config", self.config(node)]
            self.processes[node] = subprocess.Popen(command, stdout=log, stderr=log, env=self.environment(node))

    def end(self, node, kill=False):
        process = self.processes.pop(node)
        process.kill() if kill else process.terminate()
        process.wait()

    def status(self, node):
        """What it says of itself; empty if it says nothing."""
        command = [self.highwater, "status", "--admin", f"127.0.0.1:{self.ports[3 * node + 2]}", "--json"]
        text = subprocess.run(command, capture_output=True, text=True).stdout
        return json.loads(text) if text.strip() else {}

    def leader(self):
        """Who takes writes; waits for it."""
        end = time.monotonic() + 30
        while time.monotonic() < end:
            for node in self.processes:
                with socket.socket() as one:
                    one.settimeout(2)
                    try:
                        one.connect(("127.0.0.1", self.resp(node)))
                        one.sendall(b"*3\r\n$3\r\nSET\r\n$5\r\nprobe\r\n$1\r\n1\r\n")
                        if one.recv(100).startswith(b"+OK"):
                            return node
                    except OSError:
                        pass
            time.sleep(0.05)
        sys.exit(f"no leader within 30 s; see {self.folder}")

    def transfers(self, release, node, connections, seconds, accounts=100_000):
        """Transfers to that replica, in the background."""
        command = [release / "examples" / "transfers", "resp", f"127.0.0.1:{self.resp(node)}"]
        return subprocess.Popen([*command, *map(str, (connections, seconds, accounts))], stdout=subprocess.PIPE, text=True)


def tell(load):
    """What the transfers came to, at their end; ends this script if they do not add up."""
    for line in load.stdout:
        print(line.strip())
    if load.wait() != 0:
        sys.exit("the transfers do not add up")
