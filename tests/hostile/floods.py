"""Too much at once: of commands, of replies that nobody reads, of connections, of data."""

import random
import resource
import select
import threading
import time

from wire import Refused, Wire, command
from words import MIB, refused


def pipeline(at):
    """A million commands in one go; each is answered, in order."""
    with Wire(at.port(), timeout=120) as wire:
        wire.done("DEL", "flood")
        count = 1_000_000
        data = (command("INCR", "flood") * 10_000) * (count // 10_000)
        sender = threading.Thread(target=wire.send, args=(data,))
        sender.start()
        for n in range(1, count + 1):
            reply = wire.read()
            assert reply == n, (n, reply)
        sender.join()
        wire.done("DEL", "flood")
    return f"{count} commands"


def never_reads(at):
    """Clients that ask for much and read nothing: they are held back or cut, and nobody else waits."""
    with Wire(at.port()) as wire:
        wire.done("SET", "page", b"p" * 100_000)
    greedy = [Wire(at.port()) for _ in range(20)]
    for wire in greedy:
        wire.socket.setblocking(False)
    ask, sent, end = command("GET", "page") * 1000, 0, time.monotonic() + 6
    slowest = 0.0
    while time.monotonic() < end:
        for wire in greedy:
            try:
                sent += wire.socket.send(ask)
            except BlockingIOError:
                pass
            except ConnectionError:
                pass
        began = time.monotonic()
        at.canary()
        slowest = max(slowest, time.monotonic() - began)
        time.sleep(0.02)
    assert slowest < 3, slowest
    for wire in greedy:
        wire.reset()
    with Wire(at.port()) as wire:
        wire.done("DEL", "page")
    return f"took {sent / MIB:.1f} MiB of commands, others waited {slowest:.2f} s at most"


def never_reads_long(at):
    """A hundred clients each ask for a long value fifty times and read nothing: who comes new and asks for little waits for none of them."""
    with Wire(at.port()) as wire:
        wire.done("SET", "tome", b"t" * 15_000_000)
    greedy = [Wire(at.port()) for _ in range(100)]
    for wire in greedy:
        wire.send(command("GET", "tome") * 50)
    slowest, asked, end = 0.0, 0, time.monotonic() + 8
    while time.monotonic() < end:
        for words in (["PING"], ["GET", "probe"], ["SET", "little", asked], ["INCR", "canary:little"], ["INFO", "clients"], ["EVAL", "return redis.call('GET', 'little')", 0]):
            began = time.monotonic()
            with Wire(at.port(), timeout=60) as fresh:
                fresh.done(*words)
            slowest, asked = max(slowest, time.monotonic() - began), asked + 1
        time.sleep(0.02)
    # It was fifty seconds.
    assert slowest < 5, f"{slowest:.1f} s"
    for wire in greedy:
        wire.reset()
    with Wire(at.port(), timeout=60) as wire:
        assert len(wire.done("GET", "tome")) == 15_000_000
        wire.done("DEL", "tome", "little", "canary:little")
    return f"{asked} fresh connections, each answered in {slowest:.2f} s at most"


def half_open(at):
    """Connections that begin a command and leave it, by the hundreds; some go without a word."""
    begun = []
    for n in range(1000):
        wire = Wire(at.port())
        wire.send(b"*3\r\n$3\r\nSET\r\n$1\r\na\r\n$16000000\r\n" + b"x" * random.randrange(0, 20_000))
        begun.append(wire)
    at.canary()
    for n, wire in enumerate(begun):
        wire.reset() if n % 2 else wire.close()


def connections(at):
    """More connections than the node has descriptors for: those that are there go on, and others come once some have gone."""
    node = at.leader()
    pid = at.processes[node].pid
    before = resource.prlimit(pid, resource.RLIMIT_NOFILE)
    with Wire(at.resp(node)) as wire:
        opened = []
        resource.prlimit(pid, resource.RLIMIT_NOFILE, (300, before[1]))
        try:
            for _ in range(600):
                opened.append(Wire(at.resp(node), timeout=5))
            for _ in range(50):
                wire.done("INCR", "canary:crowded")
            time.sleep(1)
            wire.done("INCR", "canary:crowded")
        finally:
            for one in opened:
                one.reset()
            resource.prlimit(pid, resource.RLIMIT_NOFILE, before)
    time.sleep(0.5)
    # Where the machine allows it: some thousands, each of which is served.
    most = min(6000, resource.getrlimit(resource.RLIMIT_NOFILE)[0] - 200)
    crowd = []
    try:
        for _ in range(most):
            crowd.append(Wire(at.resp(node)))
        for wire in crowd:
            wire.send(command("PING"))
        for wire in crowd:
            assert wire.read() == b"PONG"
    finally:
        for wire in crowd:
            wire.close()
    return f"{most} connections at once"


def full_memory(at):
    """Writes until no more fits: reads and deletes go on, and when something was deleted so do writes."""
    with Wire(at.port(), timeout=60) as wire:
        stored, reply = 0, b"OK"
        for n in range(100_000):
            reply = wire.ask("SET", f"fill{n}", b"f" * MIB)
            if isinstance(reply, Refused):
                break
            stored += 1
        refused(reply, "^OOM ")
        more = []
        while not isinstance(reply := wire.ask("SET", f"more{len(more)}", b"f" * 50_000), Refused):
            more.append(f"more{len(more)}")
        refused(reply, "^OOM ")
        wire.ask("RPUSH", "alist", *["x" * 1000] * 1000)
        refused(wire.ask("EVAL", "for i = 1, 1000 do redis.call('SET', 'much' .. i, string.rep('x', 10000)) end return 1", 0))
        assert wire.done("STRLEN", "fill0") == MIB
        assert wire.done("SET", "fill1", "short") == b"OK"
        for n in range(0, stored, 20):
            wire.done("DEL", *[f"fill{k}" for k in range(n, min(n + 20, stored))])
        end = time.monotonic() + 20
        while isinstance(wire.ask("SET", "fill0", b"f" * MIB), Refused):
            assert time.monotonic() < end, "no room 20 s after everything was deleted"
            time.sleep(0.1)
        wire.done("DEL", "fill0", "alist", *more)
    return f"{stored} MiB fitted"


def expiring(at):
    """Many long values are due at one time, strings and items: all of them go, and what is due later, too."""
    with Wire(at.port(), timeout=60) as wire:
        due = int(1000 * time.time()) + 8000
        for n in range(60):
            wire.done("SET", f"due{n}", b"d" * MIB, "PXAT", due)
            wire.done("RPUSH", f"items{n % 3}", b"d" * MIB)
        for n in range(3):
            wire.done("PEXPIREAT", f"items{n}", due)
        wire.done("SET", "short", 1, "PXAT", due + 1)
        end = time.monotonic() + 30
        while any(key.startswith((b"due", b"items", b"short")) for key in wire.done("KEYS", "*")) or used(wire) > 60 * MIB:
            assert time.monotonic() < end, f"{wire.done('DBSIZE')} keys, {used(wire)} bytes"
            time.sleep(0.2)


def used(wire):
    return int(wire.done("INFO", "memory").split(b"used_memory:")[1].split()[0])


def crowd_that_waits(at):
    """Hundreds of clients wait for data; who leaves is forgotten, who is served is served once."""
    waiting = [Wire(at.port()) for _ in range(500)]
    for n, wire in enumerate(waiting):
        wire.send(command("BLPOP", f"wait{n % 20}", "shared", 0))
    for wire in waiting[::5]:
        wire.reset()
    left = [wire for n, wire in enumerate(waiting) if n % 5]
    with Wire(at.port()) as wire:
        end = time.monotonic() + 20
        while f"blocked_clients:{len(left)}\r\n".encode() not in wire.done("INFO", "clients"):
            assert time.monotonic() < end, wire.done("INFO", "clients")
            time.sleep(0.02)
        wire.done("RPUSH", "shared", *range(len(left)))
    got = [wire.read() for wire in left]
    assert sorted(int(item) for _, item in got) == list(range(len(left)))
    for wire in left:
        wire.close()


def full_disk(at):
    """Durability sync on a disk of a few hundred MiB, which somebody else fills too: writes are refused in words, reads go on, and with room again so do writes."""
    with Wire(at.port(), timeout=60) as wire:
        stored, reply = 0, b"OK"
        junk = at.folder / "junk"
        with open(junk, "wb") as file:
            try:
                while True:
                    file.write(b"\0" * MIB)
                    file.flush()
            except OSError:
                pass
        end = time.monotonic() + 40
        while time.monotonic() < end:
            reply = wire.ask("SET", f"disk{stored % 50}", random.randbytes(MIB))
            if isinstance(reply, Refused):
                break
            stored += 1
        refused(reply, "^(DISKFULL|NOQUORUM|BUSY|MISCONF|UNKNOWN) ")
        assert wire.done("GET", "probe") == b"1"
        junk.unlink()
        end = time.monotonic() + 40
        while isinstance(reply := wire.ask("SET", "disk0", "x"), Refused):
            assert time.monotonic() < end, f"40 s after there was room again: {reply}"
            time.sleep(0.1)
    return f"{stored} MiB were written on the full disk before it was said"


