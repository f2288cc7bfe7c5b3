"""Nodes on disks whose power can be cut."""

import json
import subprocess

import shim
from files import Nodes
from shim import Disk

# Nodes that may take another one's place.
SPARES = 2


class Machines(Nodes):
    """Nodes of which each has a disk of its own, whose power can be cut."""

    def __init__(self, highwater, nodes, settings, workers):
        super().__init__(highwater, nodes + SPARES)
        self.settings, self.workers = settings, workers
        library = shim.build(self.folder)
        self.disks = [Disk(library, self.folder, node) for node in self.all]
        self.all, self.spare = list(range(nodes)), list(range(nodes, nodes + SPARES))
        self.began, self.excused = {}, set()

    def storage_dir(self, node):
        return self.disks[node].root / "data"

    def data(self, node):
        return self.storage_dir(node) / f"node-{node}"

    def environment(self, node):
        return self.disks[node].environment()

    def begin(self, node):
        self.began[node] = len(self.log(node))
        self.start(node, self.all)

    def said(self, node):
        """What its last process said."""
        return self.log(node)[self.began.get(node, 0) :]

    def stop(self, node):
        """Kills a process. Its disk has power."""
        self.disks[node].freeze()
        self.end(node, kill=True)
        self.disks[node].ended()

    def cut(self, nodes, draw):
        """Cuts the power of these nodes, at once; what that left, in words."""
        running = [node for node in nodes if node in self.processes]
        for node in running:
            self.disks[node].freeze()
        for node in running:
            self.processes[node].kill()
        for node in running:
            self.processes.pop(node).wait()
        return ", ".join(f"node {node} ({self.disks[node].cut(draw)})" for node in nodes)

    def reap(self):
        """Nodes that have ended by themselves, and with what."""
        ended = {node: process.returncode for node, process in self.processes.items() if process.poll() is not None}
        for node in ended:
            del self.processes[node]
            self.disks[node].ended()
        return ended

    def no_restart(self):
        """Why none may be restarted now; `None` if nothing speaks against it. (Of a lone node, which never may be: whether it votes.)"""
        if len(self.all) == 1:
            return None if self.processes and self.votes(0) else f"it does not vote: {self.status(0)}"
        for node in self.processes:
            command = [self.highwater, "status", "--cluster", "--admin", f"127.0.0.1:{self.ports[3 * node + 2]}", "--json"]
            said = subprocess.run(command, capture_output=True, text=True).stdout
            if said.strip():
                return json.loads(said)["no_restart"]
        return "nobody answers"
