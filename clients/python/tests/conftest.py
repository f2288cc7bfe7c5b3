"""Clusters of real processes. ``HIGHWATER`` is the path of the binary."""

from __future__ import annotations

import os
import pathlib
import shutil
import signal
import socket
import subprocess
import time
from typing import Dict, Iterator, List

import pytest
import redis

PATIENCE = 60.0


def free_ports(count: int) -> List[int]:
    """Below the range that the system gives to outgoing connections; held by nobody at the moment."""
    with open("/proc/sys/net/ipv4/ip_local_port_range") as file:
        first_ephemeral = int(file.read().split()[0])
    ports: List[int] = []
    candidate = 10_000 + os.getpid() * 37 % (first_ephemeral - 10_000)
    while len(ports) < count:
        candidate = candidate + 1 if candidate + 1 < first_ephemeral else 10_000
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", candidate))
            except OSError:
                continue
            ports.append(candidate)
    return ports


class Cluster:
    """Three nodes with disks: who comes back votes at once."""

    def __init__(self, folder: pathlib.Path, nodes: int = 3) -> None:
        self.binary = os.environ["HIGHWATER"]
        self.folder = folder
        ports = free_ports(3 * nodes)
        self.resp = [f"127.0.0.1:{ports[3 * node + 1]}" for node in range(nodes)]
        listed = ",".join(
            f'{{ id = {node}, peer = "127.0.0.1:{ports[3 * node]}", resp = "{self.resp[node]}", '
            f'admin = "127.0.0.1:{ports[3 * node + 2]}" }}'
            for node in range(nodes)
        )
        (folder / "highwater.toml").write_text(
            f'[cluster]\nnodes = [{listed}]\n[limits]\nmemory_mb = 512\n[threads]\nlifeline = true\n[storage]\ndir = "{folder}"\n'
        )
        self.processes: Dict[int, subprocess.Popen[bytes]] = {}
        for node in range(nodes):
            self.start(node)

    def start(self, node: int) -> None:
        with open(self.folder / f"{node}.log", "ab") as log:
            self.processes[node] = subprocess.Popen(
                [self.binary, "serve", "--config", str(self.folder / "highwater.toml")],
                env={**os.environ, "HIGHWATER_NODE": str(node)},
                stdin=subprocess.PIPE,
                stderr=log,
            )

    def kill(self, node: int) -> None:
        process = self.processes.pop(node)
        process.send_signal(signal.SIGKILL)
        process.wait()

    def leader(self) -> int:
        until = time.monotonic() + PATIENCE
        while time.monotonic() < until:
            for node in self.processes:
                host, port = self.resp[node].split(":")
                try:
                    with redis.Redis(host=host, port=int(port), socket_timeout=5) as client:
                        if client.info("replication")["role"] == "master":
                            return node
                except redis.RedisError:
                    continue
            time.sleep(0.02)
        raise AssertionError("nobody leads")

    def close(self) -> None:
        for node in list(self.processes):
            self.kill(node)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    folder = tmp_path_factory.mktemp("cluster")
    cluster = Cluster(folder)
    cluster.leader()
    yield cluster
    cluster.close()
    shutil.rmtree(folder, ignore_errors=True)
