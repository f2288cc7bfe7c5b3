"""Redis's door: what a connection learns only from its first command, numbers that decide how long a command is, cursors."""

import random
import socket
import threading
import time

from wire import Refused, Wire, command

I64 = (-(1 << 63), (1 << 63) - 1)
SAFE = (1 << 53) - 1
# No single command may keep others waiting for longer, on a busy machine.
LONGEST_S = 10


def fresh(at, *words):
    with Wire(at.port(), timeout=20) as wire:
        return wire.ask(*words)


def states(at):
    """A connection that begins during a pause, or behind one, is answered, whatever it asks first."""
    firsts = [("PING",), ("HELLO", 2), ("AUTH", "default", "x"), ("CLIENT", "LIST"), ("GET", "absent"), ("SET", "k", 1), ("BLPOP", "none", "0.01"), ("SUBSCRIBE", "+switch-master")]
    firsts += [("MULTI",), ("WATCH", "k"), ("RESET",), ("EVAL", "return 1", 0), ("HW.BEGIN",), ("SCAN", 0), ("DBSIZE",), ("INFO",)]
    asked = 0
    with Wire(at.port(), timeout=20) as old:
        for ms, kind in [(1, "ALL"), (0, "ALL"), (1, "WRITE"), (300, "ALL"), (300, "WRITE"), (1, "ALL")]:
            old.done("CLIENT", "PAUSE", ms, kind)
            during = [Wire(at.port(), timeout=20) for _ in firsts]
            half = Wire(at.port(), timeout=20)
            half.send(command("PING") + command("SET", "half", ms))
            half.socket.shutdown(socket.SHUT_WR)
            for wire, words in zip(during, firsts):
                wire.send(command(*words))
            assert old.done("SET", "probe", 1) == b"OK"  # It comes when the pause is over.
            for wire, words in zip(during, firsts):
                wire.read()
                wire.close()
            assert half.ended() == b"+PONG\r\n+OK\r\n", "who closes its half is owed its replies"
            half.close()
            for words in firsts:
                fresh(at, *words)
            asked += 2 * len(firsts)
        # One that holds everything leaves nothing to one that holds writes; and the longest ends.
        for ms in (3_600_000, I64[1], I64[1] - 1):
            old.done("CLIENT", "PAUSE", ms, "WRITE")
            assert fresh(at, "EXISTS", "absent") == 0
            held = Wire(at.port(), timeout=20)
            held.send(command("SET", "held", 1))
            assert old.done("CLIENT", "UNPAUSE") == b"OK"
            assert held.read() == b"OK"
            held.close()
        for ms in (-1, I64[0], 1 << 63, "x", "", "1.5"):
            assert isinstance(old.ask("CLIENT", "PAUSE", ms), Refused), ms
    return f"{asked} first commands"


def ended_while_paused(at):
    """A node that is told to end while a pause holds its clients refuses what they asked, and ends at once."""
    node = at.leader()
    with Wire(at.port(), timeout=20) as wire:
        wire.done("CLIENT", "PAUSE", 3_600_000)
    held = Wire(at.resp(node), timeout=20)
    held.send(command("SET", "held", 1))
    began = time.monotonic()
    at.end(node)
    took = time.monotonic() - began
    try:
        told = held.read()
        assert isinstance(told, Refused), told
    finally:
        held.close()
    assert took < LONGEST_S, f"it took {took:.1f} s to end"
    at.restart(node)
    return f"{took:.1f} s"


def scan(wire, *words, of="SCAN", key=()):
    """A whole scan: what it met, and in how many calls."""
    met, cursor, calls = [], 0, 0
    while True:
        reply = wire.done(of, *key, cursor, *words)
        cursor, calls = int(reply[0]), calls + 1
        assert 0 <= cursor <= SAFE, f"{of}: cursor {cursor}"
        met += reply[1]
        if cursor == 0:
            return met, calls


def cursors(at, keys=40_000):
    """Scans of a large keyspace and large collections beside writers: all is met, no call is long, none is a conflict."""
    with Wire(at.port(), timeout=60) as wire:
        for first in range(0, keys, 1000):
            pairs = [word for n in range(first, first + 1000) for word in (f"scan:{n}", "v")]
            wire.done("MSET", *pairs)
        for first in range(0, 10_000, 1000):
            numbers = range(first, first + 1000)
            wire.done("SADD", "scans", *numbers)
            wire.done("HSET", "scanh", *[word for n in numbers for word in (n, n)])
            wire.done("ZADD", "scanz", *[word for n in numbers for word in (n, n)])
    ends, written = threading.Event(), [0]

    def write():
        with Wire(at.port(), timeout=60) as wire:
            while not ends.is_set():
                wire.ask("SET", f"comes:{written[0]}", 1)
                wire.ask("INCR", "scan:0")
                wire.ask("SADD", "scans", f"x{written[0]}")
                written[0] += 1
                time.sleep(0.002)

    writer = threading.Thread(target=write)
    writer.start()
    longest = 0
    try:
        with Wire(at.port(), timeout=60) as wire:
            mine = {f"scan:{n}".encode() for n in range(keys)}
            for words in [("COUNT", 1000), ("COUNT", I64[1]), ("COUNT", 1_000_000_000, "MATCH", "scan:*"), ("COUNT", 5000, "TYPE", "string")]:
                began = time.monotonic()
                met, _ = scan(wire, *words)
                longest = max(longest, time.monotonic() - began)
                assert mine <= set(met), f"SCAN {words}: {len(mine - set(met))} missed"
                assert len(met) == len(set(met)), f"SCAN {words}: met twice"
            met, calls = scan(wire, "COUNT", I64[1], "MATCH", "nothing*")
            assert not met and calls > 1
            for of, key, pairs in (("SSCAN", "scans", False), ("HSCAN", "scanh", True), ("ZSCAN", "scanz", True)):
                met, calls = scan(wire, "COUNT", 1_000_000_000, of=of, key=(key,))
                assert {str(n).encode() for n in range(10_000)} <= set(met[:: 2 if pairs else 1]) and calls > 4, of
            for words in [("DBSIZE",), ("KEYS", "*"), ("KEYS", "nothing*"), ("CLUSTER", "COUNTKEYSINSLOT", 7), ("CLUSTER", "GETKEYSINSLOT", 7, I64[1]), ("RANDOMKEY",)]:
                began = time.monotonic()
                reply = wire.done(*words)
                assert time.monotonic() - began < LONGEST_S, words
                if words[0] == "DBSIZE":
                    assert reply >= keys
                if words == ("KEYS", "*"):
                    assert mine <= set(reply)
            for cursor in (SAFE, SAFE + 1, 1 << 63, (1 << 64) - 1, -1, 1):
                assert int(wire.done("SCAN", cursor)[0]) <= SAFE
            for cursor in ("x", 1 << 64, "1.0", "0x1"):
                assert isinstance(wire.ask("SCAN", cursor), Refused)
            end = time.monotonic() + 30
            while b"db0:keys=" not in wire.done("INFO", "keyspace"):
                assert time.monotonic() < end, "nobody counts the keys"
                time.sleep(0.1)
    finally:
        ends.set()
        writer.join()
    with Wire(at.port(), timeout=60) as wire:
        wire.done("FLUSHALL", "ASYNC")
    at.counted = 0
    return f"{written[0]} writes beside, the longest scan {longest:.1f} s"


def one_number(at):
    """Commands whose size one number decides: each is answered soon, and others meanwhile."""
    low, high = I64
    shapes = """SRANDMEMBER e ?|HRANDFIELD h ?|HRANDFIELD h ? WITHVALUES|ZRANDMEMBER z ?|ZRANDMEMBER z ? WITHSCORES|SPOP e2 ?|LPOP l2 ?|RPOP l2 ?|LRANGE l 0 ?|LRANGE l ? -1|LPOS l x COUNT ?|LPOS l x RANK ?
        LPOS l x MAXLEN ?|LINDEX l ?|LREM l ? nothing|LTRIM l3 ? -1|LMPOP 1 l4 LEFT COUNT ?|ZMPOP 1 z4 MIN COUNT ?|ZPOPMIN z2 ?|ZPOPMAX z2 ?|ZRANGE z 0 ?|ZRANGE z -inf +inf BYSCORE LIMIT 0 ?|ZRANGE z -inf +inf BYSCORE LIMIT ? 1
        ZREVRANGE z ? ?|ZREMRANGEBYRANK z5 ? ?|SINTERCARD 1 e LIMIT ?|SINTERCARD ? e|ZINTERCARD 1 z LIMIT ?|GETRANGE s ? ?|SETRANGE s2 ? x|SETRANGE none ? x|SETBIT none ? 1|GETBIT s ?|BITCOUNT s ? ?|BITCOUNT s ? ? BIT|BITPOS s 1 ? ? BIT
        BITFIELD none2 SET u8 ? 1|BITFIELD s GET u8 ?|EXPIRE s ?|PEXPIRE s3 ?|EXPIREAT s4 ?|PEXPIREAT s5 ?|GETEX s6 EX ?|SET s7 v PX ?|SETEX s8 ? v|RESTORE s9 ? x|OBJECT FREQ s|MEMORY USAGE e SAMPLES ?|SLOWLOG GET ?
        HW.RANGE t ? ? LIMIT ?|HW.RANGE t -9223372036854775808 9223372036854775807 LIMIT ?|CLUSTER GETKEYSINSLOT 7 ?|HW.KEYSINSLOT 7 ?|SELECT ?|COPY s s10 DB ?|WAIT ? 0|WAIT 0 ?|LATENCY HISTOGRAM ?|ACL LOG ?"""
    values = [low, low + 1, low // 2 - 1, -(1 << 32), -1_000_000, -1, 0, 1, 1_000_000, 1 << 31, 1 << 32, high // 2 + 1, high - 1, high]
    others = [0.0]
    ends = threading.Event()

    def look():
        with Wire(at.port(), timeout=60) as wire:
            while not ends.is_set():
                began = time.monotonic()
                wire.done("GET", "probe")
                others[0] = max(others[0], time.monotonic() - began)
                time.sleep(0.01)

    looks = threading.Thread(target=look)
    looks.start()
    longest = (0.0, None)
    asked = 0
    try:
        with Wire(at.port(), timeout=60) as wire:
            wire.ask("HW.TABLE", "CREATE", "t", "i64")
            for n in range(20):
                wire.done("HW.PUT", "t", n, "v")
            for key in ("l", "l2", "l3", "l4"):
                wire.done("RPUSH", key, *["x"] * 3000)
            for key in ("z", "z2", "z4", "z5"):
                wire.done("ZADD", key, *[word for n in range(3000) for word in (n, n)])
            for key in ("e", "e2"):
                wire.done("SADD", key, *range(3000))
            wire.done("HSET", "h", *[word for n in range(3000) for word in (n, n)])
            for shape in (shape.strip() for line in shapes.split("\n") for shape in line.split("|")):
                for value in values:
                    wire.done("MSET", *[word for key in ("s", "s2", "s3", "s4", "s5", "s6") for word in (key, "value" * 1000)])
                    began = time.monotonic()
                    words = [value if word == "?" else word for word in shape.split(" ")]
                    wire.ask(*words)
                    longest = max(longest, (time.monotonic() - began, f"{words}"))
                    asked += 1
            wire.ask("HW.TABLE", "DROP", "t")
            wire.done("FLUSHALL", "ASYNC")
            at.counted = 0
    finally:
        ends.set()
        looks.join()
    assert longest[0] < LONGEST_S and others[0] < LONGEST_S, (longest, others)
    return f"{asked} commands, the longest {longest[0]:.2f} s ({longest[1]}), others waited {others[0]:.2f} s at most"


def listening(at):
    """Clients that listen as at a sentinel: what they may not ask is refused, all hear of the next leader, and none waits for news that nobody tells."""
    node = at.leader()
    wires = [Wire(port, timeout=60) for port in at.ports_of_clients() if port != at.resp(node) for _ in range(20)]
    for n, wire in enumerate(wires):
        words = [("SUBSCRIBE", "+switch-master"), ("PSUBSCRIBE", "*"), ("PSUBSCRIBE", "+switch-*")][n % 3]
        assert wire.done(*words)[2] == 1
        assert isinstance(wire.ask("GET", "a"), Refused) and wire.done("PING", "still") == [b"pong", b"still"]
        assert isinstance(wire.ask("SUBSCRIBE", "news"), Refused)
    random.choice(wires).reset()
    killed = at.kill_leader()
    heard = 0
    for wire in wires:
        try:
            told = wire.read()
        except (OSError, ValueError):
            continue
        assert told[-2] == b"+switch-master" and str(at.resp(killed)).encode() in told[-1], told
        heard += 1
        wire.close()
    assert heard >= len(wires) - 1, f"{heard} of {len(wires)} heard"
    at.restart(killed)
    return f"{heard} heard"
