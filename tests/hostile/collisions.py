"""Names and members that are made to have one hash: whoever scans, counts or chooses beside them does not notice."""

import time

from door import LONGEST_S, SAFE
from wire import Refused, Wire

BITS = (1 << 64) - 1
FACTOR = 0x9E37_79B9_7F4A_7C15
# The longest key, and the longest member that is a multiple of eight bytes.
LONG = {"SCAN": 65520, "SSCAN": 65512}


def inverse(odd):
    return pow(odd, -1, 1 << 64)


def state_of(wanted):
    """The state behind the last word that gives this hash (`keyspace/rows.rs`)."""
    state = wanted ^ wanted >> 33
    for factor in (0xC4CE_B9FE_1A85_EC53, 0xFF51_AFD7_ED55_8CCD):
        state = state * inverse(factor) & BITS
        state ^= state >> 33
    state ^= state >> 29 ^ state >> 58
    return state * inverse(FACTOR) & BITS


def mix(state, word):
    state = (state ^ int.from_bytes(word, "little")) * FACTOR & BITS
    return state ^ state >> 29


def crowd(many, length, wanted=0x7777_7777_7777_7777):
    """So many of one length and one hash: what they share is mixed once."""
    front, end = b"crowd:" + b"-" * (length - 22), state_of(wanted)
    front = front[: length - 16]
    begun = length * FACTOR & BITS
    for at in range(0, len(front), 8):
        begun = mix(begun, front[at : at + 8])
    for number in range(many):
        own = b"%08d" % number
        yield front + own + (end ^ mix(begun, own)).to_bytes(8, "little")


class Pool:
    """Connections to all nodes in turn; whoever has no answer is asked again."""

    def __init__(self, at):
        self.at, self.calls = at, 0

    def ask(self, *words):
        end = time.monotonic() + 60
        while True:
            ports = self.at.ports_of_clients()
            self.calls += 1
            try:
                with Wire(ports[self.calls % len(ports)], timeout=30) as wire:
                    began = time.monotonic()
                    reply = wire.ask(*words)
                    if not isinstance(reply, Refused):
                        assert time.monotonic() - began < LONGEST_S, words[:3]
                        return reply
            except (OSError, EOFError) as problem:
                reply = problem
            assert time.monotonic() < end, f"{words[:3]}: {reply}"
            time.sleep(0.05)


def scan(pool, of, key, *words, between=lambda calls: None):
    """A whole scan: what it met."""
    met, cursor, calls = [], 0, 0
    while True:
        cursor, found = pool.ask(of, *key, cursor, *words)
        cursor, calls = int(cursor), calls + 1
        assert 0 <= cursor <= SAFE and calls < 5000
        met += found
        between(calls)
        if cursor == 0:
            return met


def crowds(at):
    with Wire(at.port(), timeout=60) as wire:
        wire.done("ACL", "SETUSER", "mallory", "on", ">secret", "+@all", "~crowd*")
        wire.done("MSET", *[word for n in range(2000) for word in (f"bystander:{n}", n)])
    with Wire(at.port(), timeout=60) as wire:
        wire.done("AUTH", "mallory", "secret")
        names = list(crowd(1150, LONG["SCAN"]))
        for first in range(0, 1150, 50):
            wire.done("MSET", *[word for name in names[first : first + 50] for word in (name, 1)])
        small = list(crowd(30_000, 40, 0x1111_2222_3333_4444))
        for first in range(0, 30_000, 5000):
            wire.done("MSET", *[word for name in small[first : first + 5000] for word in (name, 1)])
            wire.done("SADD", "crowded", *small[first : first + 5000])
        members = list(crowd(1150, LONG["SSCAN"]))
        for first in range(0, 1150, 50):
            wire.done("SADD", "crowded:long", *members[first : first + 50])
    bystanders = {b"bystander:%d" % n for n in range(2000)}
    crowded = set(names) | set(small)
    pool = Pool(at)
    for words in [("COUNT", 1000), ("COUNT", 1_000_000_000)]:
        met = scan(pool, "SCAN", (), *words)
        assert len(met) == len(set(met)) and set(met) >= bystanders | crowded, f"SCAN {words}: {len(met)}"
    assert set(scan(pool, "SCAN", (), "COUNT", 100_000, "MATCH", "bystander:*")) == bystanders
    assert set(pool.ask("KEYS", "bystander:*")) == bystanders
    assert pool.ask("DBSIZE") >= len(bystanders | crowded)
    pool.ask("CLUSTER", "COUNTKEYSINSLOT", 7)
    pool.ask("RANDOMKEY")
    for key, there in [("crowded", small), ("crowded:long", members)]:
        met = scan(pool, "SSCAN", (key,), "COUNT", 1000)
        assert len(met) == len(set(met)) and set(met) == set(there), f"SSCAN {key}"
    assert len(set(pool.ask("SRANDMEMBER", "crowded", 900))) == 900
    assert len(set(pool.ask("SPOP", "crowded", 900))) == 900
    # Whoever remembers where the scan is goes away in the middle of it.
    killed = []
    met = scan(pool, "SCAN", (), "COUNT", 1000, between=lambda calls: killed.append(at.kill_leader()) if calls == 20 else None)
    assert set(met) >= bystanders | crowded, "what is there all the time is met"
    at.restart(killed[0])
    with Wire(at.port(), timeout=60) as wire:
        assert wire.done("DBSIZE") >= len(bystanders | crowded)
        for first in range(0, 1150, 50):
            wire.done("DEL", *names[first : first + 50])
        for first in range(0, 30_000, 5000):
            wire.done("DEL", *small[first : first + 5000])
        wire.done("DEL", "crowded", "crowded:long", *bystanders)
        wire.done("ACL", "DELUSER", "mallory")
    return f"{pool.calls} calls"
