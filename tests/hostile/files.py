#!/usr/bin/env python3
"""A hunt on real files: nodes write, their folders are damaged as drawn from a seed, and what the operator's commands say is held against what nodes do.

    python3 tests/hostile/files.py path/to/highwater [--seconds 60] [--seed N] [--keep]

Each round begins a cluster of one or three nodes with disks, counts in it, archives it, kills it, changes files, asks `recover`, `log verify`,
`checkpoint verify` and `backup` what they find, and starts what they say can be started. It fails if

- a node starts that is said not to, or does not start that is said to;
- a cluster that is said to go on without loss does not, or lacks a count that was acknowledged;
- a loss is accepted, and the new cluster does not serve, is no state that ever was, or lacks what two whole disks of three had;
- an archive that nobody touched is called damaged, lacks what was acknowledged before it was made, or is restored to another state than `verify` says;
- an archive with a changed byte is called whole.

A seed draws the same damage each time, though not at the same moment of the nodes' lives.
"""

import argparse
import json
import pathlib
import random
import shutil
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

from cluster import Cluster  # noqa: E402
from wire import Refused, Wire  # noqa: E402

PATIENCE = 40
SETTINGS = 'id = "{cluster}"\ndurability = "sync"'
STORAGE = "checkpoint_mb = 1\n[limits]\nmemory_mb = 300\n"
# Large enough that a few make a checkpoint due.
LARGE = b"x" * 150_000


class Wrong(Exception):
    """What is said and what is done differ."""


def must(holds, what):
    if not holds:
        raise Wrong(what)


class Nodes(Cluster):
    """Nodes with their files in `folder/data`, of a cluster of this id."""

    def __init__(self, highwater, nodes, cluster="north"):
        super().__init__(highwater.parent, nodes, SETTINGS.format(cluster=cluster), STORAGE)
        self.highwater, self.all, self.counted, self.led, self.wire = highwater, range(nodes), 0, 0, None

    def data(self, node):
        return self.folder / "data" / f"node-{node}"

    def log(self, node):
        path = self.folder / f"{node}.log"
        return path.read_text(errors="replace") if path.exists() else ""

    def run(self, nodes):
        for node in nodes:
            self.start(node, self.all)

    def kill_all(self):
        if self.wire:
            self.wire.close()
            self.wire = None
        for node in list(self.processes):
            self.end(node, kill=True)

    def leads(self, seconds=PATIENCE):
        """A connection to whoever takes writes; `None` if nobody does in that time."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            for node in list(self.processes):
                try:
                    wire = Wire(self.resp(node), timeout=10)
                    if wire.ask("SET", "probe", 1) == b"OK":
                        self.led = node
                        return wire
                    wire.close()
                except (OSError, EOFError):
                    pass
            time.sleep(0.05)
        return None

    def count(self, times, large):
        """Counts in two keys at once; what is acknowledged is in `counted`."""
        for step in range(times):
            number = self.counted + 1
            values = ["MSET", "one", number, "other", number]
            reply = self.done(*values, "large", LARGE) if step < large else self.done(*values)
            must(reply == b"OK", f"a write is refused: {reply}")
            self.counted = number

    def done(self, *words):
        """The reply of whoever leads. A change of the membership refuses what comes meanwhile; and each of these commands may be done twice."""
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end:
            if self.wire is None:
                self.wire = self.leads()
                must(self.wire, "nobody leads")
            try:
                reply = self.wire.ask(*words)
                if not isinstance(reply, Refused) or not str(reply).startswith(("CLUSTERDOWN", "MOVED", "UNKNOWN")):
                    return reply
            except (OSError, EOFError):
                pass
            self.wire.close()
            self.wire = None
        raise Wrong(f"{words[0]} is refused for {PATIENCE} s")

    def all_vote(self):
        """Waits until each node holds what the others do, and its disk counts."""
        end = time.monotonic() + PATIENCE
        while waiting := [node for node in self.all if not self.votes(node)]:
            must(time.monotonic() < end, f"nodes {waiting} do not vote again")
            time.sleep(0.1)

    def votes(self, node):
        said = self.status(node)
        mine = [member for member in said.get("members", []) if member["incarnation"] == said["incarnation"]]
        return any(member["voter"] for member in mine) and not said.get("copying_bytes") and not (said.get("disk") or {}).get("trouble")

    def found(self):
        """The count that is there. Both keys were written by one transaction each time."""
        one, other = self.done("MGET", "one", "other")
        must(one == other, f"half a transaction is there: {one} and {other}")
        return int(one or 0)


def files(folder, prefix):
    return sorted(path for path in folder.iterdir() if path.name.startswith(prefix))


def flip(draw, path, least=0):
    """Changes a byte that is not zero (what is zero may be room that nobody reads); where, or `None` if there is none."""
    data = bytearray(path.read_bytes())
    for _ in range(200):
        at = draw.randrange(least, len(data)) if len(data) > least else 0
        if data and data[at]:
            data[at] ^= 1 << draw.randrange(8)
            path.write_bytes(data)
            return f"a byte of {path.parent.name}/{path.name} at {at}"
    return None


# ---- what befalls a folder; each returns what it did, or `None` ----


def a_byte_of_the_journal(draw, folder):
    journal = [path for path in files(folder, "journal-") if any(path.read_bytes()[4096:8192])]
    return flip(draw, draw.choice(journal), 4096) if journal else None


def a_byte_of_the_newest_checkpoint(draw, folder):
    parts = [path for path in files(folder, "checkpoint-") if ".part-" in path.name]
    return flip(draw, parts[-1]) if parts else None


def a_byte_of_every_checkpoint(draw, folder):
    parts = [path for path in files(folder, "checkpoint-") if ".part-" in path.name]
    return "; ".join(filter(None, [flip(draw, part) for part in parts])) or None


def a_byte_of_a_manifest(draw, folder):
    manifests = [path for path in files(folder, "checkpoint-") if path.name.endswith(".manifest")]
    return flip(draw, draw.choice(manifests)) if manifests else None


def a_part_goes(draw, folder):
    parts = [path for path in files(folder, "checkpoint-") if ".part-" in path.name]
    if not parts:
        return None
    part = draw.choice(parts)
    part.unlink()
    return f"{folder.name}/{part.name} is gone"


def the_first_journal_file_goes(draw, folder):
    journal = files(folder, "journal-")
    if len(journal) < 3:
        return None
    journal[0].unlink()
    return f"{folder.name}/{journal[0].name} is gone"


def all_of_it_goes(draw, folder):
    shutil.rmtree(folder)
    return f"{folder.name} is gone"


def nothing(draw, folder):
    return f"{folder.name} stays as it is"


DAMAGE = [
    nothing,
    a_byte_of_the_journal,
    a_byte_of_the_newest_checkpoint,
    a_byte_of_every_checkpoint,
    a_byte_of_a_manifest,
    a_part_goes,
    the_first_journal_file_goes,
    all_of_it_goes,
]


class Round:
    """A cluster, its archive, and what was said and done."""

    def __init__(self, highwater, seed):
        self.highwater, self.draw, self.seed, self.story = highwater, random.Random(seed), seed, []
        self.nodes = Nodes(highwater, self.draw.choice([1, 3, 3]))
        self.archive = self.nodes.folder / "archive"

    def tell(self, what):
        self.story.append(what)

    def ask(self, *words, codes=(0,)):
        """A command's exit code and what it says; its JSON, if it says some."""
        ended = subprocess.run([self.highwater, *map(str, words)], capture_output=True, text=True, timeout=300)
        text = ended.stdout + ended.stderr
        self.tell(f"$ highwater {' '.join(map(str, words))}: {ended.returncode}\n{text}")
        must(ended.returncode in codes, f"{words[0]} {words[1]} ends with {ended.returncode}: {text}")
        lines = [line for line in ended.stdout.splitlines() if line.startswith("{")]
        return ended.returncode, text, json.loads(lines[-1]) if lines else {}

    def play(self):
        nodes, draw = self.nodes, self.draw
        nodes.run(nodes.all)
        for _ in range(draw.randint(1, 3)):
            nodes.count(draw.randint(20, 120), draw.choice([0, 20, 60]))
            if draw.random() < 0.3:
                # A chain that goes on no more, perhaps.
                self.archive_node(draw.choice(list(nodes.all)))
            if draw.random() < 0.5:
                nodes.kill_all()
                nodes.run(nodes.all)
        archived = self.archive_leader()
        nodes.count(draw.randint(1, 30), draw.choice([0, 30]))
        nodes.kill_all()
        self.look_at_archive(archived)
        # As long as nothing is lost the same nodes go on, with other damage.
        for _ in range(draw.randint(1, 3)):
            self.befall()
            if not self.hold_the_tools_to_their_word():
                return
            nodes.count(draw.randint(1, 60), draw.choice([0, 0, 40]))
            nodes.kill_all()

    # ---- archives ----

    def archive_node(self, node):
        self.ask("backup", "create", "--json", "--from", self.nodes.data(node), "--to", self.archive)

    def archive_leader(self):
        """Archives the leader, and others as drawn; what had been acknowledged by then."""
        draw, nodes = self.draw, self.nodes
        if draw.random() < 0.4:
            return None
        counted = nodes.counted
        # A tenth of a second later the leader's files know what is decided.
        nodes.count(1, 0)
        time.sleep(0.5)
        for node in draw.sample(list(nodes.all), draw.randint(1, len(nodes.all))) + [nodes.led]:
            self.archive_node(node)
        return counted

    def look_at_archive(self, archived):
        if archived is None:
            return
        _, _, verified = self.ask("backup", "verify", "--json", self.archive)
        must(verified["whole"], "an archive that nobody touched is called damaged")
        self.ask("backup", "list", "--json", self.archive)
        to = self.nodes.folder / "restored"
        _, _, restored = self.ask("backup", "restore", "--json", self.archive, "--to", to, "--cluster", "restored", "--nodes", "0")
        for word in ["digest", "moment", "chain"]:
            must(verified.get(word) == restored[word], f"verify and restore differ in {word}")
        found = self.serve_anew(to, "restored")
        must(archived <= found <= self.nodes.counted, f"{archived} was archived, {found} is restored, {self.nodes.counted} was counted")
        chain = self.draw.choice(sorted(path for path in self.archive.iterdir() if path.name.startswith("chain-")))
        least = 4096 if (journal := files(chain, "journal-")) else 0
        victim = self.draw.choice(files(chain, "checkpoint-") + journal)
        if what := flip(self.draw, victim, least if victim in journal else 0):
            self.tell(what)
            self.ask("backup", "verify", "--json", self.archive, codes=(1,))

    def serve_anew(self, data, cluster):
        """Has node 0 serve from new folders; the count that is there."""
        with Nodes(self.highwater, 1, cluster) as anew:
            shutil.copytree(data / "node-0", anew.data(0))
            anew.run([0])
            anew.wire = anew.leads()
            must(anew.wire, f"the new cluster does not serve: {anew.log(0)[-2000:]}")
            return anew.found()

    # ---- folders ----

    def befall(self):
        """Something befalls one folder, or two of three."""
        nodes, draw = self.nodes, self.draw
        self.touched = draw.sample(list(nodes.all), draw.randint(1, max(1, len(nodes.all) - 1)))
        for node in self.touched:
            what = None
            while what is None:
                what = draw.choice(DAMAGE)(draw, nodes.data(node))
            self.tell(what)

    def hold_the_tools_to_their_word(self):
        """Whether the cluster goes on with all that it had."""
        nodes = self.nodes
        there = [node for node in nodes.all if nodes.data(node).exists()]
        if not there:
            return False
        self.give_some(there)
        folders = [nodes.data(node) for node in there]
        _, _, said = self.ask("recover", "--json", "--from", *folders, codes=(0, 1, 5))
        survivors = {survivor["node"]: survivor for survivor in said.get("survivors", [])}
        for node in there:
            self.look_into(node, survivors.get(node))
        refuse = set(there) & set(said.get("damaged", []))
        must(refuse >= {node for node, survivor in survivors.items() if survivor["refuses"]}, "a disk that is refused does not count as damaged")
        if said.get("majority"):
            self.goes_on(there, refuse)
            return True
        if said.get("best") and not said.get("all_behind"):
            self.begins_anew(folders, [node for node in there if node not in self.touched])
        self.fates(there, refuse, survivors)
        return False

    def give_some(self, there):
        """An operator gives some of the folders, in any order, and accepts the loss."""
        given = self.draw.sample(there, self.draw.randint(1, len(there)))
        folders = [self.nodes.data(node) for node in given]
        _, _, said = self.ask("recover", "--json", "--from", *folders, codes=(0, 1, 5))
        must(not said.get("majority") or len(given) * 2 > len(self.nodes.all), "a minority is called a majority")
        if said.get("best") and not said["majority"] and not said["all_behind"]:
            whole = [node for node in given if node not in self.touched]
            self.begins_anew(folders, whole)

    def look_into(self, node, survivor):
        """What looks into a part of a folder says of its node what `recover` does."""
        folder = self.nodes.data(node)
        _, _, journal = self.ask("log", "verify", "--json", folder, codes=(0, 1, 5))
        code, _, checkpoints = self.ask("checkpoint", "verify", "--json", folder, codes=(0, 1, 5))
        must(survivor is None or not survivor["damage"] or not journal.get("whole"), f"`log verify` calls the journal of node {node} whole")
        for said in [journal.get("start"), checkpoints.get("start")]:
            if said and survivor:
                refused = said.startswith("the node does not start")
                must(refused == bool(survivor["refuses"]), f"of node {node} `recover` says {survivor['refuses']!r}, and another command {said!r}")
        if survivor and survivor["checkpoint"] and code == 0:
            newest = max(checkpoint["number"] for checkpoint in checkpoints["checkpoints"])
            must(survivor["damage"] or survivor["checkpoint"] == newest, "an older checkpoint is taken, and the newest is whole")

    def goes_on(self, there, refuse):
        """A majority is here: the nodes start, those that are said to be damaged as new lives, and nothing is missing."""
        nodes = self.nodes
        for node in refuse:
            nodes.data(node).rename(nodes.folder / f"away-{node}-{time.monotonic_ns()}")
        nodes.run(nodes.all)
        nodes.wire = nodes.leads()
        must(nodes.wire, "a majority is said to be here, and nobody leads")
        found = nodes.found()
        must(found == nodes.counted, f"{nodes.counted} was acknowledged, {found} is there, and nothing was said to be lost")
        for node in there:
            must(nodes.processes[node].poll() is None, f"node {node} ended, and was said to start")
        nodes.all_vote()

    def begins_anew(self, folders, whole):
        """The loss is accepted; `whole`: the nodes to whose folders among these nothing was done."""
        to = self.nodes.folder / f"recovered-{time.monotonic_ns()}"
        words = ["--accept-loss", "--to", to, "--cluster", "recovered", "--nodes", "0"]
        self.ask("recover", "--json", "--from", *folders, *words)
        found = self.serve_anew(to, "recovered")
        must(found <= self.nodes.counted, f"{found} is there, and was never counted")
        if len(whole) * 2 > len(self.nodes.all):
            must(found == self.nodes.counted, f"a majority of whole disks had {self.nodes.counted}, and {found} is left")

    def fates(self, there, refuse, survivors):
        """No majority: each node that is here starts and waits, or does not start, as is said."""
        nodes = self.nodes
        before = {node: len(nodes.log(node)) for node in there}
        nodes.run(there)
        for node in there:
            if node not in survivors and node not in refuse:
                continue
            process = nodes.processes[node]
            if node in refuse:
                try:
                    must(process.wait(PATIENCE) == 3, f"node {node} ends with {process.returncode}, and is said not to start")
                except subprocess.TimeoutExpired:
                    raise Wrong(f"node {node} starts, and is said not to") from None
            else:
                end = time.monotonic() + PATIENCE
                while "read the journal" not in nodes.log(node)[before[node] :] and process.poll() is None and time.monotonic() < end:
                    time.sleep(0.05)
                must(process.poll() is None, f"node {node} ends with {process.returncode}, and is said to start: {nodes.log(node)[-1500:]}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("highwater", type=pathlib.Path)
    parser.add_argument("--seconds", type=float, default=60, help="no round begins after that")
    parser.add_argument("--seed", type=int, default=1, help="of the first round; the next has the next")
    parser.add_argument("--keep", action="store_true", help="keeps the folders of a round that failed")
    options = parser.parse_args()
    end, seed = time.monotonic() + options.seconds, options.seed
    while seed == options.seed or time.monotonic() < end:
        a_round = Round(options.highwater.resolve(), seed)
        try:
            a_round.play()
        except Wrong as wrong:
            print("\n".join(a_round.story))
            for node in a_round.nodes.all:
                print(f"-- the end of node {node}'s log:\n{a_round.nodes.log(node)[-3000:]}")
            if options.keep:
                a_round.nodes.kill_all()
                kept = tempfile.mkdtemp(prefix="highwater-files-")
                shutil.copytree(a_round.nodes.folder, kept, dirs_exist_ok=True)
                print(f"kept: {kept}")
            sys.exit(f"seed {seed}: {wrong}")
        finally:
            a_round.nodes.__exit__()
        touched = [line for line in a_round.story if not line.startswith("$")]
        print(f"seed {seed}: held ({'; '.join(touched)})", flush=True)
        seed += 1
    print(f"{seed - options.seed} round(s), and the commands kept their word")


if __name__ == "__main__":
    main()
