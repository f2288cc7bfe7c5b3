#!/usr/bin/env python3
"""A hunt on real nodes whose disks fail and lose their power while they run.

    python3 tests/hostile/disks.py path/to/highwater [--seconds 60] [--seed N] [--engine NAME] [--keep]

Each node runs with `shim.c` between it and its folder. Clients write what can be told apart; meanwhile calls are slow, hang and fail, processes
are killed, and the power is cut, of one node, some, or all at once, at a drawn moment or in a drawn call: what was not synced is then there, or
not, or torn. Copies are archived, whole clusters are restored, the tools look at what is left, and operators change the membership. It fails if

- something acknowledged is missing, there twice, or there though a client was told that nothing was done (with `async`: if it is not the end, or
  was acknowledged before the last window, or no majority crashed);
- a node ends for a fault that it should wait out, ends without a word, or panics; or does not start from what a cut left;
- a node whose disk kept what was synced begins another life;
- a tool calls damaged what a cut left, or an archive that an interrupted copy left is not made whole by the next one;
- the cluster does not serve again once the faults have ended, or while one node's disk hangs.

A seed draws the same faults each time, though not at the same moment of the nodes' lives.
"""

import argparse
import collections
import pathlib
import random
import shutil
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

import shim  # noqa: E402
from disk_faults import MAY_END, MOMENTS, NAMES, WAITED_OUT  # noqa: E402
from files import Nodes, Round  # noqa: E402
from files import Wrong as FilesWrong  # noqa: E402
from history import HUGE, LARGE, Loss, Writer, Wrong, must  # noqa: E402
from machines import Machines  # noqa: E402
from shim import DELAY, FAIL, FOR_EVER, HOLD, Disk, Missed  # noqa: E402

# A machine that compiles meanwhile is slow.
PATIENCE = 90
SETTINGS = 'id = "north"\ndurability = "{durability}"\nengine = "{engine}"'


class Hunt(Round):
    """A cluster, its clients, and what befell them."""

    def __init__(self, highwater, seed, engine):
        self.highwater, self.draw, self.seed, self.story = highwater, random.Random(seed), seed, []
        draw = self.draw
        self.engine = engine or draw.choice(["rolis", "rolis", "rolis", "meerkat"])
        self.durability = draw.choice(["sync", "sync", "async"])
        settings = SETTINGS.format(durability=self.durability, engine=self.engine)
        self.nodes = Machines(highwater, draw.choice([1, 3, 3, 3]), settings, draw.choice([1, 2]))
        self.counts = collections.Counter()
        for disk in self.nodes.disks:
            disk.pace(draw.choice([0, 200, 2000]))
        self.writers = [Writer([self.nodes.resp(node) for node in self.nodes.all], name) for name in "ab"]
        self.lives, self.crashed, self.hung, self.lost = {}, {}, False, 0
        self.archive_disk = Disk(self.nodes.disks[0].shim, self.nodes.folder, "archive")
        self.archive = self.archive_disk.root / "archive"
        self.tell(f"{self.engine}, {self.durability}, {len(self.nodes.all)} node(s), {self.nodes.workers} worker(s)")

    def count(self, what):
        self.counts[what] += 1

    def play(self):
        nodes, draw = self.nodes, self.draw
        for node in nodes.all:
            nodes.begin(node)
        self.heal()
        must(all(nodes.disks[node].is_filtered() for node in nodes.all), "fallocate passes the shim unseen")
        for _ in range(draw.randint(4, 9)):
            step = draw.choice(STEPS)
            self.tell(step.__name__.replace("_", " "))
            step(self)
            if draw.random() < 0.6:
                self.heal()
            else:
                self.ends_of_faults()
        self.heal()
        self.look_at_the_archive()

    def write_for(self, seconds):
        for writer in self.writers:
            writer.large = self.large
            writer.running.set()
        time.sleep(seconds)

    def pause(self):
        for writer in self.writers:
            writer.pause()

    # ---- after faults ----

    def ends_of_faults(self):
        """Withdraws all faults, and starts whoever has ended."""
        for disk in [*self.nodes.disks, self.archive_disk]:
            disk.withdraw(self.counts)
        self.bury()
        for node in self.nodes.all:
            if node not in self.nodes.processes:
                self.nodes.begin(node)

    def bury(self):
        """Who has ended was allowed to, and said why."""
        for node, code in self.nodes.reap().items():
            said = self.nodes.said(node)
            self.tell(f"node {node} ended with {code}: {last_line(said)}")
            self.count("ended by itself")
            must("panicked" not in said, f"node {node} panics: {said[said.find('panicked') - 200:][:1500]}")
            must(node in self.nodes.excused, f"node {node} ends with {code} for nothing that it may end for: {said[-1500:]}")
            must(code in (1, 3), f"node {node} ends with {code}: {said[-1500:]}")
            must("\nhighwater: " in "\n" + said, f"node {node} ends with {code} and says nothing: {said[-1500:]}")
            # From its next start on there is no excuse.
            self.nodes.excused.discard(node)
            self.forgot(node)

    def forgot(self, node):
        """A node crashed: with `async` it may have forgotten what it accepted last."""
        self.crashed.setdefault(node, time.monotonic())

    def heal(self):
        """All faults end. The cluster serves, every node votes, and everything is there."""
        self.pause()
        self.ends_of_faults()
        begun = time.monotonic()
        while why := self.nodes.no_restart():
            # One that met its fault just before ends now.
            self.ends_of_faults()
            must(time.monotonic() < begun + PATIENCE, f"{PATIENCE} s after the last fault: {why}")
            time.sleep(0.1)
        self.judge()
        self.same_lives()
        for disk in self.nodes.disks:
            disk.follow()
        self.nodes.excused.clear()

    def judge(self):
        self.nodes.wire = self.nodes.leads(PATIENCE)
        must(self.nodes.wire, "every node votes, and nobody serves")
        loss = self.what_may_be_lost()
        for writer in self.writers:
            writer.judge(self.nodes.wire, loss)
        self.nodes.wire.close()
        self.nodes.wire = None
        if loss:
            self.tell(f"{loss.lost} were lost")
            self.lost += loss.lost
        self.crashed, self.hung = {}, False

    def what_may_be_lost(self):
        """Nothing, or with `async` the end, if a majority crashed since all voted last."""
        if self.durability == "sync" or len(self.crashed) * 2 < len(self.nodes.all):
            return None
        return Loss(min(self.crashed.values()), self.engine == "rolis", self.hung)

    def same_lives(self):
        """Who kept what was synced is who it was. (A majority that forgot may have another life begun, with `async`.)"""
        for node in self.nodes.all:
            life = self.nodes.status(node).get("incarnation")
            before = self.lives.get(node, life)
            must(self.durability == "async" or before == life, f"node {node} begins another life: {self.nodes.said(node)[-2500:]}")
            self.lives[node] = life

    # ---- steps ----

    def some_nodes(self):
        """One, a minority, or all."""
        every = list(self.nodes.all)
        return self.draw.choice([[self.draw.choice(every)], [self.draw.choice(every)], self.draw.sample(every, len(every) // 2 + 1), every])

    def calm(self):
        self.write_for(self.draw.uniform(0.1, 0.8))

    def fill(self):
        """So much that files of the journal are full, given back and written anew."""
        self.write_for(0)
        for writer in self.writers:
            writer.large = HUGE
        time.sleep(self.draw.uniform(2, 5))

    def befall(self):
        """A fault for a while, or some, of some nodes."""
        draw, nodes = self.draw, self.some_nodes()
        faults = [(draw.choice(nodes), *self.drawn_fault()) for _ in range(draw.choice([1, 1, 2, 3]))]
        self.write_for(draw.uniform(0, 0.3))
        for node, fault, name, ends in faults:
            self.give(node, fault, name, ends)
        self.write_for(draw.uniform(0.2, 1.5))
        if len({node for node, *_ in faults}) == 1 < len(self.nodes.all) and self.served_before():
            self.still_serves()

    def hangs(self):
        """One node's journal hangs in its next sync, for as long as it takes until the others say so."""
        draw, nodes = self.draw, self.nodes
        if len(nodes.all) < 3 or not self.served_before():
            return
        self.heal()
        node = draw.choice(nodes.all)
        place = nodes.disks[node].order(["sync"], HOLD, 0, "journal-*")
        self.hung = True
        self.write_for(0.3)
        self.still_serves()
        end = time.monotonic() + 30
        while f"node {node}" not in (nodes.no_restart() or ""):
            must(time.monotonic() < end, f"the journal of node {node} hangs for 30 s ({nodes.disks[node].held(place)} calls), and `status` does not say so")
            time.sleep(0.1)
        self.count("a journal hangs, and is told of")

    def drawn_fault(self):
        ends = self.draw.random() < 0.4
        return self.draw.choice(MAY_END if ends else WAITED_OUT), self.draw.choice(NAMES), ends

    def give(self, node, fault, name, ends):
        ops, act, argument, times = fault
        draw = self.draw
        if isinstance(argument, tuple):
            argument = draw.randint(*argument)
        skip = draw.choice([0, 0, 1, 2, 5, 20])
        # One that still starts may say that it cannot.
        if ends or "starting node=" not in self.nodes.said(node):
            self.nodes.excused.add(node)
        self.hung |= act in (DELAY, HOLD)
        self.nodes.disks[node].order(ops, act, argument, name, skip, times, draw.random() < 0.3 and act in (DELAY, HOLD))
        self.tell(f"  node {node}: {shim.kind_of(ops, act, argument)} ({name}, after {skip}, {'ever' if times == FOR_EVER else times})")

    def served_before(self):
        """Every node voted when the faults came."""
        return not self.crashed and all(process.poll() is None for process in self.nodes.processes.values()) and len(self.nodes.processes) == len(self.nodes.all)

    def still_serves(self):
        """One disk of three costs a takeover, and no more."""
        before, end = self.done(), time.monotonic() + 30
        while self.done() == before:
            must(time.monotonic() < end, "one node has faults, and for 30 s nothing is acknowledged")
            time.sleep(0.05)

    def done(self):
        return sum(writer.acknowledged() for writer in self.writers)

    def cut_power(self):
        """At any moment."""
        nodes = self.some_nodes()
        self.write_for(self.draw.uniform(0, 0.6))
        self.cut(nodes)

    def cut(self, nodes):
        """A node that ended before the cut has lost its power, too."""
        self.bury()
        for node in nodes:
            self.forgot(node)
        self.tell(f"  power cut: {self.nodes.cut(nodes, self.draw)}")
        self.count(f"power cut of {'all' if len(nodes) == len(self.nodes.all) else 'a majority' if len(nodes) * 2 > len(self.nodes.all) else 'one'}")

    def cut_power_in_a_call(self):
        """In a drawn call of one node, before it or when it is done and the node does not know; of that node, or of others with it."""
        draw, nodes = self.draw, self.some_nodes()
        at = draw.choice(nodes)
        if draw.random() < 0.4 and at in self.nodes.processes:
            self.bury()
            if at in self.nodes.processes:
                self.kill_one(at)
        ops, name = draw.choice(MOMENTS)
        after, skip = draw.random() < 0.5, draw.choice([0, 0, 0, 1, 2, 3, 7])
        place = self.nodes.disks[at].order(ops, HOLD, 0, name, skip, 1, after)
        if at not in self.nodes.processes:
            self.nodes.begin(at)
        self.write_for(0)
        end = time.monotonic() + 2.5
        while not self.nodes.disks[at].held(place) and time.monotonic() < end:
            time.sleep(0.005)
        held = self.nodes.disks[at].held(place)
        self.tell(f"  node {at}: {'after' if after else 'before'} {'/'.join(ops)} of {name} ({skip} before){'' if held else ': not met'}")
        time.sleep(draw.choice([0, 0, 0.05, 0.3]))
        self.count("power cut in a call" if held else "power cut, call not met")
        self.cut(nodes)

    def kill_one(self, node):
        self.forgot(node)
        self.nodes.stop(node)
        self.count("kill")

    def kill(self):
        """The power stays: what was written is there, synced or not."""
        nodes = self.some_nodes()
        self.write_for(self.draw.uniform(0, 0.4))
        self.bury()
        for node in nodes:
            if node in self.nodes.processes:
                self.kill_one(node)

    def ends_in_order(self):
        nodes = self.some_nodes()
        self.write_for(self.draw.uniform(0, 0.4))
        self.pause()
        for disk in self.nodes.disks:
            disk.withdraw(self.counts)
        self.bury()
        for node in nodes:
            if node in self.nodes.processes:
                self.nodes.end(node)
                self.nodes.disks[node].ended()
                self.count("end in order")

    def start_with_faults(self):
        """A node starts on a disk that fails: it starts, or says why not."""
        draw = self.draw
        nodes = self.some_nodes()
        self.write_for(draw.uniform(0, 0.3))
        self.bury()
        for node in nodes:
            if node in self.nodes.processes:
                self.kill_one(node)
        cut = draw.random() < 0.5
        if cut:
            self.cut(nodes)
        for node in nodes:
            fault, name, _ = self.drawn_fault()
            self.give(node, fault, name, True)
            self.nodes.begin(node)
        self.write_for(draw.uniform(0.5, 2))
        if draw.random() < 0.5:
            self.cut(nodes)

    def tools_look(self):
        """All are cut; the tools find nothing wrong with what is left, and the nodes start with it."""
        self.write_for(self.draw.uniform(0.1, 0.6))
        nodes = self.nodes
        self.cut(list(nodes.all))
        self.pause()
        there = [node for node in nodes.all if (nodes.data(node) / "identity").exists()]
        if not there:
            return
        _, text, said = self.ask("recover", "--json", "--from", *(nodes.data(node) for node in there), codes=(0, 1, 5))
        must(not said.get("damaged"), f"a power cut left something that `recover` calls damaged: {text}")
        survivors = {survivor["node"]: survivor for survivor in said.get("survivors", [])}
        for node in there:
            self.look_into(node, survivors.get(node))
            must(not survivors.get(node, {}).get("refuses"), f"a power cut left a node that does not start: {survivors.get(node)}")
        self.count("looked at by tools")
        if self.engine == "rolis" and len(nodes.all) > 1 and self.draw.random() < 0.5:
            self.accepts_the_loss(there)

    def accepts_the_loss(self, there):
        """The majority is lost for good: what is left of one node begins a new cluster, which is one that there was."""
        target = self.nodes.folder / f"recovered-{time.monotonic_ns()}"
        words = ["--accept-loss", "--to", target, "--cluster", "recovered", "--nodes", "0"]
        folder = self.nodes.data(self.draw.choice(there))
        code, text, _ = self.ask("recover", "--json", "--from", folder, *words, codes=(0, 1))
        if code:
            must("no state" in text or "nothing" in text or "copies" in text or "behind" in text, f"a loss is accepted, and nothing is begun: {text}")
            return
        self.serve_anew_with(target, "recovered", whole=False)
        self.count("loss accepted")

    def loses_a_disk(self):
        """One of three, while all vote: the node copies the state. Perhaps the power of all goes meanwhile."""
        if len(self.nodes.all) < 3 or self.durability != "sync":
            return
        self.heal()
        node = self.draw.choice(list(self.nodes.all))
        self.write_for(0.2)
        self.cut([node])
        self.nodes.disks[node].lose()
        self.lives.pop(node)
        self.count("disk lost")
        self.nodes.begin(node)
        self.write_for(self.draw.uniform(0, 1))
        if self.draw.random() < 0.5:
            self.cut(self.draw.choice([[node], [one for one in self.nodes.all if one != node], list(self.nodes.all)]))

    def replaces_a_node(self):
        """Another node, with another disk, takes the place of one; perhaps the power of some goes meanwhile."""
        nodes, draw = self.nodes, self.draw
        if self.engine != "rolis" or len(nodes.all) < 3 or self.durability != "sync" or not nodes.spare:
            return
        self.heal()
        goes, comes = draw.choice(nodes.all), nodes.spare.pop(0)
        nodes.all.append(comes)
        nodes.begin(comes)
        self.write_for(0.1)
        command = [self.highwater, "member", "replace", str(goes), "--by", str(comes), "--config", nodes.config(comes)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as first:
            time.sleep(draw.uniform(0, 1))
            if draw.random() < 0.7:
                cut = draw.choice([[comes], [goes], [comes, goes], list(nodes.all)])
                self.cut(cut)
                for node in cut:
                    nodes.begin(node)
            self.replaced(first, command, goes, comes)
        self.tell(f"  node {comes} for node {goes}")
        self.count("node replaced")
        nodes.all.remove(goes)
        self.lives.pop(goes, None)
        nodes.stop(goes)
        for writer in self.writers:
            writer.ports = [nodes.resp(node) for node in nodes.all]

    def replaced(self, first, command, goes, comes):
        """Waits for the command, and repeats it: it may have happened, and its process not know."""
        end = time.monotonic() + PATIENCE
        try:
            said = first.communicate(timeout=PATIENCE)[0]
        except subprocess.TimeoutExpired:
            first.kill()
            said = "it does not end"
        while not self.has_replaced(goes, comes):
            must(time.monotonic() < end + PATIENCE, f"node {comes} does not take the place of node {goes}: {said}")
            again = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE)
            said = again.stdout + again.stderr
            time.sleep(0.2)

    def has_replaced(self, goes, comes):
        said = self.nodes.status(comes)
        voters = {member["node"] for member in said.get("members", []) if member["voter"]}
        return comes in voters and goes not in voters

    def archive_node(self, node):
        """A copy, on a disk whose calls may fail and whose power may go; the next one makes it whole."""
        draw, disk = self.draw, self.archive_disk
        fate = draw.choice(["whole", "whole", "cut", "cut in a call", "fails"])
        if fate == "fails":
            ops, act, argument, times = draw.choice(MAY_END)
            disk.order(ops, act, argument, "*", draw.randint(0, 8), times)
        place = None
        if fate == "cut in a call":
            place = disk.order(["write", "sync", "names", "rename", "create", "make"], HOLD, 0, "*", draw.randint(0, 12), 1, draw.random() < 0.5)
        said = self.run_on_the_archive(["backup", "create", "--json", "--from", self.nodes.data(node), "--to", self.archive], place)
        self.tell(f"  copy of node {node}, {fate}: {said.code} {last_line(said.text)}")
        self.count(f"archive: {fate}")
        self.archive_disk.cut(draw) if said.code < 0 or fate == "cut" else disk.ended()

    def archives(self):
        self.write_for(self.draw.uniform(0, 0.5))
        node = self.draw.choice(list(self.nodes.all))
        if (self.nodes.data(node) / "identity").exists():
            self.archive_node(node)

    def look_at_the_archive(self):
        """One more copy, of each node; then it is whole, and a cluster begins from it."""
        draw, nodes = self.draw, self.nodes
        if draw.random() < 0.3 or self.engine != "rolis":
            return
        self.write_for(0.2)
        self.heal()
        self.write_for(0.1)
        self.pause()
        time.sleep(0.5)
        for node in nodes.all:
            said = self.run_on_the_archive(["backup", "create", "--json", "--from", nodes.data(node), "--to", self.archive], None)
            must(said.code == 0, f"without a fault `backup create` ends with {said.code}: {said.text}")
            self.archive_disk.ended()
        _, _, verified = self.ask("backup", "verify", "--json", self.archive)
        must(verified["whole"], "an archive that interrupted copies left is damaged after a whole one")
        target = self.archive_disk.root / "restored"
        words = ["backup", "restore", "--json", self.archive, "--to", target, "--cluster", "restored", "--nodes", "0"]
        while self.is_cut_short(words):
            pass
        self.serve_anew_with(target, "restored", whole=True)
        self.count("restored")

    def is_cut_short(self, words):
        """Restores; the power goes meanwhile, or right afterwards. Whether there is no folder, and it has to be done again."""
        draw, disk = self.draw, self.archive_disk
        place = disk.order(["write", "sync", "names", "rename", "create", "make", "reserve"], HOLD, 0, "*", draw.randint(0, 25), 1, draw.random() < 0.5)
        if draw.random() < 0.3:
            disk.withdraw(self.counts)
            place = None
        said = self.run_on_the_archive(words, place)
        disk.cut(draw)
        self.tell(f"  restore: {said.code} {last_line(said.text)}")
        if said.code > 0:
            must("there is something in it already" in said.text, f"a restore fails: {said.text}")
        self.count("restore, then a power cut" if said.code == 0 else "restore, cut in a call")
        return said.code < 0

    def run_on_the_archive(self, words, place):
        """Runs a command on the archive's disk until it ends, or is held in a call, and killed: its code is below zero then."""
        disk = self.archive_disk
        with subprocess.Popen([self.highwater, *words], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=disk.environment()) as process:
            end = time.monotonic() + PATIENCE
            while process.poll() is None and not (place and disk.held(place)):
                must(time.monotonic() < end, f"{words[:2]} does not end")
                time.sleep(0.01)
            if process.poll() is None:
                disk.freeze()
                process.kill()
            text = process.communicate()[0]
        must("panicked" not in text, f"{words[:2]} panics: {text}")
        disk.withdraw(self.counts)
        return Ended(process.returncode, text)

    def serve_anew_with(self, data, cluster, whole):
        """A new cluster serves what there was: all that was read before, if it is `whole`, or some state that there was."""
        with Nodes(self.highwater, 1, cluster) as anew:
            anew.workers = self.nodes.workers
            shutil.copytree(data / "node-0", anew.data(0))
            anew.run([0])
            wire = anew.leads()
            must(wire, f"the {cluster} cluster does not serve: {anew.log(0)[-2000:]}")
            for writer in self.writers:
                writer.judge_copy(wire, whole)
            wire.close()

    @property
    def large(self):
        return self.draw.choice([0, 0, 0, LARGE, LARGE, HUGE])

    def end(self):
        for writer in self.writers:
            writer.end()
        self.nodes.kill_all()
        self.nodes.__exit__()


Ended = collections.namedtuple("Ended", "code text")

STEPS = [
    Hunt.calm,
    Hunt.fill,
    Hunt.befall,
    Hunt.befall,
    Hunt.befall,
    Hunt.hangs,
    Hunt.cut_power,
    Hunt.cut_power,
    Hunt.cut_power_in_a_call,
    Hunt.cut_power_in_a_call,
    Hunt.cut_power_in_a_call,
    Hunt.kill,
    Hunt.ends_in_order,
    Hunt.start_with_faults,
    Hunt.start_with_faults,
    Hunt.tools_look,
    Hunt.loses_a_disk,
    Hunt.replaces_a_node,
    Hunt.archives,
]


def last_line(text):
    lines = text.strip().splitlines()
    return lines[-1][-300:] if lines else "(nothing)"


def tell_failure(hunt, keep):
    print("\n".join(hunt.story))
    for node in hunt.nodes.all:
        print(f"-- the end of node {node}'s log:\n{hunt.nodes.log(node)[-4000:]}")
    if keep:
        hunt.nodes.kill_all()
        kept = tempfile.mkdtemp(prefix="highwater-disks-")
        shutil.copytree(hunt.nodes.folder, kept, dirs_exist_ok=True)
        print(f"kept: {kept}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("highwater", type=pathlib.Path)
    parser.add_argument("--seconds", type=float, default=60, help="no round begins after that")
    parser.add_argument("--seed", type=int, default=1, help="of the first round; the next has the next")
    parser.add_argument("--engine", help="instead of a drawn one")
    parser.add_argument("--keep", action="store_true", help="keeps the folders of a round that failed")
    options = parser.parse_args()
    end, seed, counts = time.monotonic() + options.seconds, options.seed, collections.Counter()
    while seed == options.seed or time.monotonic() < end:
        hunt, begun = Hunt(options.highwater.resolve(), seed, options.engine), time.monotonic()
        try:
            hunt.play()
        except (Wrong, FilesWrong, Missed) as wrong:
            tell_failure(hunt, options.keep)
            sys.exit(f"seed {seed}: {wrong}")
        finally:
            hunt.end()
        counts.update(hunt.counts)
        sent = sum(len(writer.entries) for writer in hunt.writers)
        print(f"seed {seed}: held, {time.monotonic() - begun:.0f} s ({hunt.story[0]}; {sent} numbers, {hunt.lost} lost, {sum(hunt.counts.values())} faults)", flush=True)
        seed += 1
    for kind, times in sorted(counts.items()):
        print(f"{times:7} {kind}")
    print(f"{seed - options.seed} round(s), and the disks took nothing that was promised")


if __name__ == "__main__":
    main()
