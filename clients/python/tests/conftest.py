"""Clusters of real processes. ``HIGHWATER`` is the path of the binary."""

from __future__ import annotations

import os
import pathlib
import shutil
import signal
import socket
import subprocess
import threading
import time
from typing import Any, Callable, Dict, Iterator, List, Optional

import pytest
import redis
from highwater import Client

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

    # What a client of redis-py's needs to come in.
    login: Dict[str, Any] = {}

    def __init__(self, folder: pathlib.Path, nodes: int = 3, lines: str = "") -> None:
        """`lines`: TOML at the end of the configuration."""
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
            f'[cluster]\nnodes = [{listed}]\n[limits]\nmemory_mb = 512\n[threads]\nlifeline = true\n[storage]\ndir = "{folder}"\n{lines}'
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
                    with redis.Redis(host=host, port=int(port), socket_timeout=5, **self.login) as client:
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
    # Procedures of benchmarks are those that every build has.
    cluster = Cluster(folder, lines='[server]\nbenchmarks = "on"')
    cluster.leader()
    yield cluster
    cluster.close()
    shutil.rmtree(folder, ignore_errors=True)


class Locked(Cluster):
    """Behind locked doors: TLS, certificates of clients, users with passwords. `theirs` has what another authority signed."""

    def __init__(self, folder: pathlib.Path) -> None:
        self.ours, self.theirs = folder / "ours", folder / "theirs"
        client = ["client", "--name", "app"]
        made = [(self.ours, ["ca"]), (self.ours, ["node", "--id", "0"]), (self.ours, client), (self.theirs, ["ca"]), (self.theirs, client)]
        for into, words in made:
            subprocess.run([os.environ["HIGHWATER"], "cert", *words, "--dir", str(into)], check=True, capture_output=True)
        users = folder / "users.acl"
        users.write_text("user default off\nuser app on >secret ~* +@all\nuser guest on >secret ~guest:* +@all\n")
        files = {"ca": "ca.crt", "certificate": "node-0.crt", "key": "node-0.key"}
        tls = "".join(f'{key} = "{self.ours / file}"\n' for key, file in files.items())
        self.login = {"username": "app", "password": "secret", **self.shows(self.ours, self.ours)}
        super().__init__(folder, lines=f'[auth]\nusers_file = "{users}"\n[tls]\nresp = true\nclient_auth = "required"\n{tls}')

    @staticmethod
    def shows(authority: pathlib.Path, own: Optional[pathlib.Path]) -> Dict[str, Any]:
        """Arguments of a client that believes that authority and shows that certificate."""
        shown = {"ssl_certfile": str(own / "app.crt"), "ssl_keyfile": str(own / "app.key")} if own else {}
        return {"ssl": True, "ssl_ca_certs": str(authority / "ca.crt"), **shown}


@pytest.fixture(scope="module")
def locked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Locked]:
    folder = tmp_path_factory.mktemp("locked")
    locked = Locked(folder)
    locked.leader()
    yield locked
    locked.close()
    shutil.rmtree(folder, ignore_errors=True)


def while_leaders_end(cluster: Cluster, work: List[Callable[[threading.Event], None]]) -> None:
    """Each job runs in a thread until its event is set. Meanwhile three leaders are killed, and come back."""
    over, failures = threading.Event(), []

    def guarded(job: Callable[[threading.Event], None]) -> None:
        try:
            job(over)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=guarded, args=(job,)) for job in work]
    for thread in threads:
        thread.start()
    try:
        for _ in range(3):
            leader = cluster.leader()
            cluster.kill(leader)
            cluster.leader()
            cluster.start(leader)
            # It is back when it answers: then the next one may end.
            with Client(cluster.resp[leader], patience=PATIENCE, **cluster.login) as client:
                client.once("INCR", "rounds")
    finally:
        over.set()
        for thread in threads:
            thread.join()
    assert not failures, failures
