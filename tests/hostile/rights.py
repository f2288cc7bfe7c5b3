"""A user with narrow rights tries every command of `COMMAND` on what is not its own, in each place, in every way that a command can come.

Three things are looked at from outside, whatever the server believes of itself: no reply holds a secret, nothing that is forbidden changes, and
a command whose `COMMAND GETKEYS` names a forbidden key is denied.
"""

import random
import time

from wire import Refused, Wire
from words import refused

SECRET, NEVER_NAMED = "s3cr3t", "unheard"
KINDS = ("string", "list", "set", "zset", "hash", "number")
FORBIDDEN = [f"forbidden:{kind}" for kind in KINDS]
# They change who the connection is, how it speaks, or which transaction it is in: what they do to others is tried elsewhere.
APART = {"quit", "reset", "auth", "hello", "multi", "exec", "discard", "client", "hw.begin", "hw.commit", "hw.rollback", "hw.once", "wait", "shutdown"}
# Answered once for each channel, or by a connection that does nothing else from then on.
APART |= {"subscribe", "psubscribe", "ssubscribe", "unsubscribe", "punsubscribe", "sunsubscribe"}
# They look at all keys whatever the patterns are, as in Redis; rules about the command keep them from users.
WHOLE = {"scan", "randomkey", "keys", "cluster", "hw.keysinslot"}
POOL = [*(f"own:{kind}" for kind in KINDS), "1", "2", "0", "-1", "LEFT", "RIGHT", "GET", "SET", "u8", "AND", "COUNT", "*", "x", "LIMIT", "STORE", "MIN", "BYSCORE", "-", "+"]
TRIES = 12
USERS = ["anna", "bert", "narrow"]


def prepare(root):
    for owner, value in (("own", "mine"), ("forbidden", SECRET), (NEVER_NAMED, SECRET)):
        root.done("DEL", *[f"{owner}:{kind}" for kind in KINDS])
        root.done("SET", f"{owner}:string", value)
        root.done("RPUSH", f"{owner}:list", value, value + "2")
        root.done("SADD", f"{owner}:set", value, value + "2")
        root.done("ZADD", f"{owner}:zset", 1, value, 2, value + "2")
        root.done("HSET", f"{owner}:hash", value, value)
        root.done("SET", f"{owner}:number", 7777)
    for table in ("own", "forbidden", NEVER_NAMED):
        root.ask("HW.TABLE", "DROP", table)
        root.done("HW.TABLE", "CREATE", table, "u64")
        root.done("HW.PUT", table, 1, "mine" if table == "own" else SECRET)


def seen(root, owner):
    """All that there is of somebody, in an order that does not change."""
    keys = [f"{owner}:{kind}" for kind in KINDS]
    return [
        root.ask("MGET", keys[0], keys[5]),
        root.ask("LRANGE", keys[1], 0, -1),
        sorted(root.ask("SMEMBERS", keys[2])),
        root.ask("ZRANGE", keys[3], 0, -1, "WITHSCORES"),
        root.ask("HGETALL", keys[4]),
        [root.ask("PTTL", key) for key in keys],
        root.ask("HW.RANGE", owner, "-", "+"),
    ]


def login(port, name):
    wire, end = Wire(port, timeout=60), time.monotonic() + 20
    # A follower hears of a user within about a second.
    while isinstance(told := wire.ask("AUTH", name, "pw"), Refused):
        assert time.monotonic() < end, told
        time.sleep(0.05)
    return wire


def holds(reply, secret):
    if isinstance(reply, list):
        return any(holds(part, secret) for part in reply)
    text = reply if isinstance(reply, bytes) else str(reply).encode()
    return secret.encode() in text


def denied(reply):
    if isinstance(reply, list):
        return any(denied(part) for part in reply)
    words = ("NOPERM", "can't access at least one", "can't run this command", "permission")
    return isinstance(reply, Refused) and any(word in str(reply) for word in words)


def lua(words):
    return "return redis.pcall(" + ",".join(f"'{word}'" for word in words) + ")"


def tries(name, rng):
    """Words of a command, with something forbidden in each place."""
    for length in range(1, 6):
        for place in range(length):
            # A number is what most commands make most sense with: as a count of keys, a timeout, a table's column.
            for words in (["1"] * length, rng.choices(POOL, k=length)):
                words[place] = rng.choice(FORBIDDEN)
                yield [*name.split("|"), *words]
                words[place] = "forbidden"
                yield [*name.split("|"), *words]
    for _ in range(TRIES):
        words = rng.choices(POOL + FORBIDDEN + ["forbidden"], k=rng.randrange(1, 8))
        yield [*name.split("|"), *words]


class Ways:
    """Every way in which one user's command comes to the data."""

    def __init__(self, at, name):
        leader = at.last_leader
        follower = next(node for node in at.processes if node != leader)
        self.direct = login(at.resp(leader), name)
        self.forwarded = login(at.resp(follower), name)
        self.snapshot = login(at.resp(follower), name)
        self.snapshot.done("READONLY")
        self.session, self.number = self.direct.done("HW.SESSION", "NEW"), 0

    def close(self):
        for wire in (self.direct, self.forwarded, self.snapshot):
            wire.close()

    def in_step(self):
        """Every reply so far was that of what was asked."""
        for wire in (self.direct, self.forwarded, self.snapshot):
            assert wire.done("ECHO", "in step") == b"in step"

    def alone(self, words):
        yield "by itself", self.direct.ask(*words)
        yield "forwarded", self.forwarded.ask(*words)
        yield "on a snapshot", self.snapshot.ask(*words)
        self.number += 1
        yield "under a session", self.direct.ask("HW.ONCE", self.session, self.number, *words)

    def among_others(self, words):
        """Where commands that wait do not."""
        for way, wire in (("in a block", self.direct), ("in a forwarded block", self.forwarded)):
            yield way, self.together(wire, words, "MULTI", "EXEC")
        yield "in an open transaction", self.together(self.direct, words, "HW.BEGIN", "HW.ROLLBACK")
        for way, wire in (("by a script", self.direct), ("by a forwarded script", self.forwarded)):
            yield way, wire.ask("EVAL", lua(words), 0)
        yield "by a script on a snapshot", self.snapshot.ask("EVAL_RO", lua(words), 0)

    def together(self, wire, words, begin, end):
        wire.ask(begin)
        told = wire.ask(*words)
        return [told, wire.ask(end)]


def give_users(root):
    root.done("ACL", "SETUSER", "default", ">rootpw")
    for name in ("anna", "bert"):
        root.done("ACL", "SETUSER", name, "on", ">pw", "~*", "+@all")
    rules = ["~own:*", "~hw.table:own", "~forbidden", "~hw.table", "~?orbidde?", "-@all", "+@all", "-@admin", "-@dangerous"]
    root.done("ACL", "SETUSER", "narrow", "reset", "on", ">pw", *rules)


def with_users(attack):
    def run(at):
        at.look_for_leader()
        with Wire(at.port(), timeout=60) as root:
            give_users(root)
            try:
                return attack(at, root)
            finally:
                root.ask("ACL", "DELUSER", *USERS)
                root.ask("ACL", "SETUSER", "default", "nopass")
                root.ask("DEL", *[f"{owner}:{kind}" for owner in ("own", "forbidden", NEVER_NAMED) for kind in KINDS])
                for table in ("own", "forbidden", NEVER_NAMED):
                    root.ask("HW.TABLE", "DROP", table)

    run.__name__ = attack.__name__
    return run


def named_forbidden(root, words):
    keys = root.ask("COMMAND", "GETKEYS", *words)
    return isinstance(keys, list) and any(key.decode() in FORBIDDEN for key in keys)


@with_users
def every_command(at, root):
    rng = random.Random(32)
    prepare(root)
    before = [seen(root, owner) for owner in ("forbidden", NEVER_NAMED)]
    ways, asked, kept_out = Ways(at, "narrow"), 0, 0
    blocking = {info[0].decode() for info in root.done("COMMAND") if b"blocking" in info[2]}
    for name in sorted(name.decode() for name in root.done("COMMAND", "LIST")):
        if name.split("|")[0] in APART:
            continue
        for words in tries(name, rng):
            must_be_denied = named_forbidden(root, words)
            replies = list(ways.among_others(words))
            if must_be_denied or name not in blocking:
                replies += ways.alone(words)
            for way, reply in replies:
                asked += 1
                kept_out += denied(reply)
                assert not holds(reply, SECRET), (way, words, reply)
                assert name.split("|")[0] in WHOLE or not holds(reply, NEVER_NAMED), (way, words, reply)
                if must_be_denied:
                    assert denied(reply) or holds(reply, "not allowed from script") or holds(reply, "ERR ") or holds(reply, "NOTINSIDE"), (way, words, reply)
        ways.in_step()
        after = [seen(root, owner) for owner in ("forbidden", NEVER_NAMED)]
        assert after == before, (name, before, after)
    ways.close()
    assert kept_out > asked / 20, (kept_out, asked)
    return f"{asked:,} tries, {kept_out:,} denied by name"


@with_users
def tables_of_others(at, root):
    prepare(root)
    ways = Ways(at, "narrow")
    for words in (
        ["HW.GET", "{}", 1],
        ["HW.PUT", "{}", 2, "x"],
        ["HW.DEL", "{}", 1],
        ["HW.RANGE", "{}", "-", "+"],
        ["HW.TABLE", "DESCRIBE", "{}"],
        ["HW.TABLE", "CREATE", "{}2", "u64"],
        ["HW.TABLE", "DROP", "{}"],
    ):
        words = [str(word).format("forbidden") for word in words]
        for way, reply in [*ways.alone(words), *ways.among_others(words)]:
            writes = "snapshot" in way and isinstance(reply, Refused)
            assert denied(reply) or writes, (way, words, reply)
    for way, reply in [*ways.alone(["HW.TABLE", "LIST"]), *ways.among_others(["HW.TABLE", "LIST"])]:
        assert not holds(reply, "forbidden") and not holds(reply, NEVER_NAMED), (way, reply)
    assert ways.direct.done("HW.GET", "own", 1) == b"mine" and ways.direct.done("HW.TABLE", "LIST") == [b"own"]
    ways.close()


@with_users
def sessions_of_others(at, root):
    prepare(root)
    with login(at.port(), "anna") as anna, login(at.port(), "bert") as bert:
        session = anna.done("HW.SESSION", "NEW")
        assert anna.done("HW.ONCE", session, 1, "GET", "forbidden:string") == SECRET.encode()
        assert 1 << 52 <= session < 1 << 53, "an exact number to every client"
        several = [anna.done("HW.SESSION", "NEW") for _ in range(20)]
        assert len({one >> 32 for one in several}) == 20, "ids that are counted, or nearly so, can be found"
        follower = next(node for node in at.processes if node != at.last_leader)
        with login(at.resp(follower), "bert") as forwarded:
            for wire in (bert, forwarded, root):
                for words in (("HW.OUTCOME", session, 1), ("HW.OUTCOME", session, 9, "RAW"), ("HW.ONCE", session, 1, "GET", "forbidden:string"), ("HW.ONCE", session, 9, "GET", "own:string")):
                    reply = wire.ask(*words)
                    refused(reply, "^EXPIRED ")
                    unknown = wire.ask(words[0], session ^ 1, *words[2:])
                    assert str(reply) == str(unknown).replace(str(session ^ 1), str(session)), (words, reply, unknown)
                assert wire.ask("HW.SESSION", "END", session) == 0
        assert anna.done("HW.OUTCOME", session, 1) == [b"committed", SECRET.encode()]
        assert anna.done("HW.ONCE", session, 2, "GET", "own:string") == b"mine"
        for one in (session, *several):
            assert anna.done("HW.SESSION", "END", one) == 1


@with_users
def procedures_of_benchmarks(at, root):
    assert root.done("HW.PROCEDURES") == []
    for name in ("bank.load", "tpcc.load_items", "ycsb.read", "ycsb-t.rmw", "retwis.post", "audit.noop", "AUDIT.NOOP"):
        refused(root.ask("HW.CALL", name), "^NOPROCEDURE ")
        refused(root.ask("HW.CALL", name, "RAW", "x"), "^NOPROCEDURE ")
