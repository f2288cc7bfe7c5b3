"""Nodes are killed while clients are in the middle of something. What was acknowledged is there afterwards."""

import threading
import time

from wire import Refused, Wire, command

# What a client may be told when a leader is lost; `UNKNOWN`: it may have happened.
LOST = ("NOTLEADER", "MOVED", "CLUSTERDOWN", "UNKNOWN", "NOQUORUM", "NOTSERVING", "READONLY", "TXOVER", "UNBLOCKED", "BUSY", "LOADING")


def told(reply):
    assert str(reply).split(" ")[0] in LOST, f"a client is told: {reply}"


class Counter:
    """A client that counts, at whichever node takes it."""

    def __init__(self, at, key, node=None):
        self.at, self.key, self.node = at, key, node
        self.acknowledged = self.unknown = 0
        self.stopping, self.failed = False, None
        self.thread = threading.Thread(target=self.run)
        self.thread.start()

    def run(self):
        wire = None
        while not self.stopping:
            try:
                if wire is None:
                    wire = Wire(self.at.resp(self.node if self.node is not None else self.at.last_leader), timeout=10)
                asked = False
                wire.send(command("INCR", self.key))
                asked = True
                reply = wire.read()
                if isinstance(reply, Refused):
                    told(reply)
                    self.unknown += str(reply).startswith("UNKNOWN")
                    raise ConnectionError
                self.acknowledged += 1
            except AssertionError as error:
                self.failed = error
                return
            except (OSError, EOFError) as error:
                if asked and not isinstance(error, ConnectionError) or isinstance(error, (EOFError, ConnectionResetError, BrokenPipeError)):
                    self.unknown += 1
                if wire:
                    wire.close()
                wire = None
                if self.node is None:
                    self.at.look_for_leader()
                time.sleep(0.02)

    def end(self):
        self.stopping = True
        self.thread.join()
        if self.failed:
            raise self.failed

    def judge(self):
        with Wire(self.at.port()) as wire:
            found = int(wire.done("GET", self.key) or 0)
        assert self.acknowledged <= found <= self.acknowledged + self.unknown, (self.key, self.acknowledged, self.unknown, found)
        assert self.acknowledged > 0


def who_waits(at):
    """Hundreds wait when the leader is killed: each is told, or served, or cut off; none hangs."""
    waiting = [Wire(at.port(), timeout=20) for _ in range(400)]
    for n, wire in enumerate(waiting):
        wire.send(command("BLPOP", f"killed{n % 10}", 0))
    time.sleep(0.3)
    counters = [Counter(at, f"count:waits:{n}") for n in range(4)]
    killed = at.kill_leader()
    ends = {"cut": 0, "told": 0}
    for wire in waiting:
        try:
            reply = wire.read()
            told(reply)
            ends["told"] += 1
        except (OSError, EOFError):
            ends["cut"] += 1
        wire.close()
    at.look_for_leader()
    with Wire(at.port()) as wire:
        wire.done("RPUSH", "killed0", "a")
        assert wire.done("BLPOP", "killed0", 1) == [b"killed0", b"a"], "somebody who is gone was served"
    at.restart(killed)
    for counter in counters:
        counter.end()
        counter.judge()
    return f"{ends}"


def paused(at):
    """A pause, then the leader is killed: the pause was that node's."""
    with Wire(at.port()) as wire:
        wire.done("CLIENT", "PAUSE", 3_600_000)
    held = Wire(at.resp(at.last_leader), timeout=20)
    held.send(command("INCR", "held"))
    killed = at.last_leader
    at.end(killed, kill=True)
    at.look_for_leader()
    with Wire(at.port(), timeout=10) as wire:
        assert wire.done("INCR", "held") == 1
        wire.done("DEL", "held")
    at.restart(killed)
    at.look_for_leader()
    with Wire(at.port(), timeout=10) as wire:
        assert wire.done("INCR", "held") == 1
        wire.done("DEL", "held")
    held.reset()


def forwarded(at):
    """Plain clients at every node of a cluster that forwards, while leaders are killed."""
    counters = [Counter(at, f"count:forwarded:{node}:{n}", node) for node in range(3) for n in range(3)]
    waiting = [Wire(at.resp((at.last_leader + 1) % 3), timeout=30) for _ in range(100)]
    for wire in waiting:
        wire.send(command("BLPOP", "forwarded", 0))
    time.sleep(1)
    killed = at.kill_leader()
    at.look_for_leader()
    # Who waited at a follower is told that the leader is gone, or waits on at the next one and is served there.
    with Wire(at.port()) as wire:
        wire.done("RPUSH", "forwarded", *range(len(waiting)))
    served = []
    for wire in waiting:
        try:
            reply = wire.read()
            served.append(reply[1]) if isinstance(reply, list) else told(reply)
        except EOFError:
            pass
        wire.close()
    assert len(set(served)) == len(served)
    with Wire(at.port()) as wire:
        left = wire.done("LLEN", "forwarded")
        assert left == len(waiting) - len(served), f"{len(waiting)} were pushed, {len(served)} came, {left} are left"
        wire.done("DEL", "forwarded")
    at.restart(killed)
    time.sleep(1)
    for counter in counters:
        counter.end()
    at.look_for_leader()
    for counter in counters:
        counter.judge()
    total, doubts = sum(counter.acknowledged for counter in counters), sum(counter.unknown for counter in counters)
    return f"{total} acknowledged, {doubts} unknown"


def again_and_again(at):
    """Leaders are killed one after the other under load."""
    counters = [Counter(at, f"count:again:{n}") for n in range(8)]
    for _ in range(3):
        time.sleep(0.7)
        at.restart(at.kill_leader())
    for counter in counters:
        counter.end()
        counter.judge()
    return f"{sum(counter.acknowledged for counter in counters)} acknowledged, {sum(counter.unknown for counter in counters)} unknown"
