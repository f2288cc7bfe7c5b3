"""Clients that write what can be told apart, and what must be there of it."""

import collections
import threading
import time

from wire import Refused, Wire

# Nothing was done, says the reply.
NOT_DONE = ("MOVED", "CLUSTERDOWN", "CONFLICT", "DISKFULL", "OOM")
# A few make a checkpoint due; some dozens fill a file of the journal.
LARGE, HUGE = 150_000, 2_000_000


class Wrong(Exception):
    """What is promised does not hold."""


def must(holds, what):
    if not holds:
        raise Wrong(what)


class Entry:
    """A number that was sent: when, and when and how it ended."""

    def __init__(self, number):
        self.number, self.sent, self.ended, self.how = number, time.monotonic(), None, "unknown"

    def end(self, how):
        self.ended, self.how = time.monotonic(), how


class Writer:
    """Appends number after number to a list of its own, and now and then writes two keys at once, or something large."""

    def __init__(self, ports, name):
        self.ports, self.name, self.entries, self.pairs, self.found = ports, name, [], [], []
        self.failed, self.wire, self.next = None, None, 0
        self.running, self.stopping, self.large = threading.Event(), False, 0
        self.idle = threading.Event()
        self.thread = threading.Thread(target=self.run, daemon=True)
        self.thread.start()

    def run(self):
        try:
            while not self.stopping:
                self.idle.set()
                if self.running.wait(0.1):
                    self.idle.clear()
                    self.step()
        except Wrong as wrong:
            self.failed = wrong
        self.idle.set()

    def step(self):
        number = len(self.entries) + 1
        if number % 7 == 0:
            pair = Entry(number)
            self.pairs.append(pair)
            self.ask(pair, "MSET", f"one:{self.name}", number, f"other:{self.name}", number)
        if self.large and number % 3 == 0:
            self.ask(Entry(number), "SET", f"large:{self.name}:{number % 8}", b"x" * self.large)
        entry = Entry(number)
        self.entries.append(entry)
        self.ask(entry, "RPUSH", f"log:{self.name}", number)

    def ask(self, entry, *words):
        """Asks once; a request whose end is not known is never sent again."""
        try:
            if self.wire is None:
                self.wire = Wire(self.ports[self.next % len(self.ports)], timeout=5)
        except OSError:
            entry.end("not done")
            self.turn_away()
            return
        try:
            entry.sent = time.monotonic()
            reply = self.wire.ask(*words)
        except (OSError, EOFError):
            entry.end("unknown")
            self.turn_away()
            return
        if not isinstance(reply, Refused):
            entry.end("done")
            return
        told = str(reply).split(" ")[0]
        must(told in NOT_DONE or told == "UNKNOWN", f"a client is told: {reply}")
        entry.end("unknown" if told == "UNKNOWN" else "not done")
        self.turn_away()

    def turn_away(self):
        """To the next node, after a breath: nobody there, or nobody who leads."""
        if self.wire:
            self.wire.close()
        self.wire, self.next = None, self.next + 1
        time.sleep(0.03)

    def pause(self):
        self.running.clear()
        must(self.idle.wait(30), "a client waits for a reply for more than 30 s")
        if self.failed:
            raise self.failed

    def end(self):
        self.stopping = True
        self.running.set()
        self.thread.join()
        if self.wire:
            self.wire.close()

    def acknowledged(self):
        return sum(entry.how == "done" for entry in self.entries)

    # ---- what must be there ----

    def judge(self, wire, loss=None):
        """Compares with what is there; `loss` says what may be missing, if anything may. What is there now stays."""
        found = [int(number) for number in wire.done("LRANGE", f"log:{self.name}", 0, -1)]
        must(len(set(found)) == len(found), f"list {self.name} has a number twice: {twice(found)}")
        refused = {entry.number for entry in self.entries if entry.how == "not done"} & set(found)
        must(not refused, f"list {self.name} has {sorted(refused)[:5]}, and a client was told that nothing was done")
        must(not found or max(found) <= len(self.entries), f"list {self.name} has a number that nobody wrote")
        there = set(found)
        missing = [entry for entry in self.entries if entry.how == "done" and entry.number not in there]
        if loss is None:
            must(not missing, f"list {self.name} lacks {[entry.number for entry in missing][:5]} of {len(self.entries)}, which were acknowledged")
            must(found[: len(self.found)] == self.found, f"list {self.name} does not go on from what was read before")
        elif missing:
            loss.allow(self, missing, there)
        self.judge_pairs(wire, loss)
        for entry in missing:
            entry.how = "lost"
        self.found = found

    def judge_copy(self, wire, whole):
        """What another cluster has that began from copies: a state that there was; if it is `whole`, all that was read here last."""
        found = [int(number) for number in wire.done("LRANGE", f"log:{self.name}", 0, -1)]
        refused = {entry.number for entry in self.entries if entry.how == "not done"} & set(found)
        must(not twice(found) and not refused, f"a copy of list {self.name} has {twice(found)} twice, and {sorted(refused)[:5]}, which were refused")
        shared = min(len(found), len(self.found))
        must(found[:shared] == self.found[:shared], f"a copy of list {self.name} has another beginning")
        must(not whole or shared == len(self.found), f"a copy of list {self.name} lacks {self.found[shared:][:5]}")
        one, other = wire.done("MGET", f"one:{self.name}", f"other:{self.name}")
        must(one == other, f"half a transaction is in a copy: {one} and {other}")

    def judge_pairs(self, wire, loss):
        one, other = wire.done("MGET", f"one:{self.name}", f"other:{self.name}")
        must(one == other, f"half a transaction is there: {one} and {other}")
        found = int(one or 0)
        done = max((pair.number for pair in self.pairs if pair.how == "done"), default=0)
        # One of unknown end may have come late.
        possible = {pair.number for pair in self.pairs if pair.how == "unknown" or pair.how == "done" and (loss or pair.number == done)}
        possible |= {0} if loss or not done else set()
        must(found in possible, f"pair {self.name} is {found}, and {done} was the last that was acknowledged")
        for pair in self.pairs:
            if pair.how == "done" and pair.number > found:
                pair.how = "lost"


def twice(found):
    return [number for number, times in collections.Counter(found).items() if times > 1][:5]


class Loss:
    """A crash of a majority with `async`: what was acknowledged within a window before it may be missing, and then all that came after."""

    # Two windows of 0.1 s at most, and what a busy machine adds between an answer and a client that takes its time.
    WINDOW = 1.5

    def __init__(self, crashed, in_order, hung):
        """`crashed`: when the first node did; `in_order`: what is lost is the end in real time, too; `hung`: a disk hung or was slow before."""
        self.crashed, self.in_order, self.hung, self.lost = crashed, in_order, hung, 0

    def allow(self, writer, missing, there):
        self.lost += len(missing)
        first = min(entry.ended for entry in missing)
        if not self.hung:
            must(first > self.crashed - self.WINDOW, f"list {writer.name} lost what was acknowledged {self.crashed - first:.2f} s before the crash")
        later = [entry.number for entry in writer.entries if entry.number in there and first < entry.sent < self.crashed]
        must(not (self.in_order and later), f"list {writer.name} has {later[:5]}, begun after what is lost was acknowledged")
