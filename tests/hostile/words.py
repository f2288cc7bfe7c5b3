"""Commands and bytes that no well-meaning client sends, each on a connection of its own or after another: what is refused is refused in words."""

import random
import re
import socket

from wire import Refused, Wire, command

MIB = 1 << 20
I64 = (-(1 << 63), (1 << 63) - 1)


def refused(reply, pattern=r"^[A-Z][A-Z]+ .+"):
    assert isinstance(reply, Refused) and re.search(pattern, str(reply)), f"not refused with {pattern!r}: {str(reply)[:300]!r}"


def sizes(at):
    with Wire(at.port()) as wire:
        for size in (1, 2, 255, 65526, 65527, MIB, 16 * MIB - 1, 16 * MIB):
            value = random.randbytes(1) * size
            assert wire.done("SET", "large", value) == b"OK", size
            assert wire.done("GET", "large") == value, size
        refused(wire.ask("APPEND", "large", "x"))
        refused(wire.ask("SETRANGE", "large", 16 * MIB, "x"))
        refused(wire.ask("SETRANGE", "nothing", (1 << 29) - 1, "x"))
        refused(wire.ask("SETRANGE", "nothing", I64[1], "x"))
        refused(wire.ask("SETBIT", "nothing", (1 << 32) - 1, 1))
        refused(wire.ask("BITFIELD", "nothing", "SET", "u8", (1 << 32) - 8, 1))
        assert wire.done("GETRANGE", "large", I64[0], I64[1]) == value
        # A list of items of nearly that size: each reply is bounded, too. A row of one has its length besides.
        refused(wire.ask("RPUSH", "list", value[3:]), "item exceeds")
        for _ in range(5):
            wire.done("RPUSH", "list", value[4:])
        # A field's name is in the row, too: what does not fit is refused in words, and what fits comes back.
        for name in ("f", b"n" * 65519):
            reply = wire.ask("HSET", "hash", name, value)
            if isinstance(reply, Refused):
                refused(reply, "exceeds|too large|TOOLARGE")
            else:
                assert wire.done("HGET", "hash", name) == value
        wire.done("DEL", "hash")
        refused(wire.ask("LRANGE", "list", 0, -1))
        assert wire.done("DEL", "list") == 1
        wire.done("DEL", "large")
        for key in (b"", bytes(range(256)), b"k" * 65527):
            assert wire.done("SET", key, "v") == b"OK"
            assert wire.done("GET", key) == b"v"
            assert wire.done("EXISTS", key) == 1 and wire.done("TYPE", key) == b"string" and wire.done("DEL", key) == 1
        refused(wire.ask("SET", b"k" * 65537, "v"))
        refused(wire.ask("MGET", *[b"k" * 65537] * 3))
    with Wire(at.port()) as wire:
        wire.send(b"*3\r\n$3\r\nSET\r\n$5\r\nlarge\r\n$16777217\r\n")
        assert b"-ERR" in wire.ended()


def long_words(at):
    """Every command, each of its words as long as a key may be, or longer: each is answered, once."""
    asked, alone = 0, {"SHUTDOWN", "MONITOR", "QUIT", "RESET", "AUTH", "FAILOVER"}
    with Wire(at.port(), timeout=60) as wire:
        names = [name.decode().upper() for name in wire.done("COMMAND", "LIST")]
        families = {"OBJECT": ["ENCODING", "FREQ"], "MEMORY": ["USAGE"], "DEBUG": ["OBJECT"], "FUNCTION": ["LOAD", "DELETE"], "HW.TABLE": ["CREATE", "DROP"], "HW.MODULE": ["LOAD", "UNLOAD", "INFO"], "ACL": ["SETUSER", "GETUSER", "DELUSER"], "SCRIPT": ["EXISTS"], "XINFO": []}
        for name in names:
            if name in alone or "SUBSCRIBE" in name or name.startswith(("B", "CLIENT")) and name not in ("BITCOUNT", "BITFIELD", "BITOP", "BITPOS"):
                continue
            for first in families.get(name, [None]):
                for count in range(1, 5):
                    for place in range(count):
                        for size in (65519, 65527, 65528, 65537):
                            words = ["k", "1", "2", "f"][:count]
                            words[place] = "L" * size
                            wire.send(command(name, *([first] if first else []), *words) + command("ECHO", "marker"))
                            wire.read()
                            assert wire.read() == b"marker", (name, first, count, place, size)
                            asked += 1
        wire.done("DEL", *["L" * size for size in (65519, 65527)], "k", "1", "2", "f")
    return f"{asked} commands"


def numbers(at):
    """Bounds of all that is a number. What is answered is not looked at here (redis_compare does that): that it is answered is."""
    low, high = I64
    odd = ["0", "-1", low, high, 1 << 63, "nan", "inf", "-inf", "1e400", "", " 1", "1 ", "0x10", "+1", "01", "3.0e", "9" * 400, b"\0", "(1", "[a"]
    shapes = """EXPIRE s ?|PEXPIRE s ?|EXPIREAT s ?|PEXPIREAT s ?|SET s v EX ?|SET s v PX ?|SET s v EXAT ?|SET s v PXAT ?|GETEX s EX ?|GETEX s PXAT ?|SETEX s ? v|PSETEX s ? v
        INCRBY n ?|DECRBY n ?|INCRBYFLOAT n ?|HINCRBY h n ?|HINCRBYFLOAT h n ?|ZINCRBY z ? a|GETRANGE s ? ?|SETRANGE s ? x|SETBIT s ? 1|GETBIT s ?|BITCOUNT s ? ?|BITPOS s 1 ? ?
        BITFIELD s GET u8 ?|BITFIELD s INCRBY i64 0 ?|BITFIELD s GET u? 0|LRANGE l ? ?|LINDEX l ?|LSET l ? x|LTRIM l2 ? ?|LREM l ? x|LPOP l3 ?|RPOP l3 ?|LPOS l a RANK ?|LPOS l a COUNT ? MAXLEN ?
        LMPOP ? l LEFT COUNT ?|SPOP e ?|SRANDMEMBER e ?|HRANDFIELD h ? WITHVALUES|ZRANDMEMBER z ? WITHSCORES|SINTERCARD ? e LIMIT ?|ZADD z ? a|ZADD z NX INCR ? b|ZRANGE z ? ?|ZRANGE z ? ? BYSCORE LIMIT ? ?
        ZRANGE z ? ? BYLEX REV|ZREVRANGE z ? ? WITHSCORES|ZRANGEBYSCORE z ? ? LIMIT ? ?|ZCOUNT z ? ?|ZLEXCOUNT z ? ?|ZREMRANGEBYRANK z2 ? ?|ZREMRANGEBYSCORE z2 ? ?|ZPOPMIN z3 ?|ZMPOP ? z3 MIN COUNT ?|ZUNION ? z
        ZUNIONSTORE d ? z WEIGHTS ?|ZINTERCARD ? z LIMIT ?|SCAN ?|SCAN 0 COUNT ?|HSCAN h ? COUNT ?|SSCAN e ? COUNT ?|ZSCAN z ? COUNT ?|OBJECT FREQ s|EVAL return ?|EVAL return{} ?|COPY s s2 DB ?|SELECT ?
        SLOWLOG GET ?|LATENCY HISTORY ?|MEMORY USAGE s SAMPLES ?|CLIENT KILL ID ?|CLIENT UNBLOCK ?|CLIENT PAUSE ? WRITE|CLIENT UNPAUSE|CLIENT TRACKING ?|WAIT ? 0|HELLO ?|CLUSTER KEYSLOT ?|CLUSTER COUNTKEYSINSLOT ?|CLUSTER GETKEYSINSLOT ? ?
        HW.KEYSINSLOT ? ?|HW.OUTCOME ? ?|HW.ONCE ? ? INCR n|HW.FRESHNESS WITHIN ?|HW.FRESHNESS SINCE ?|HW.FRESHNESS ANY|HW.RANGE t ? ? ? ? LIMIT ?|HW.BEGIN TIMEOUT ?|HW.ROLLBACK|HW.GET t ? ?|CONFIG SET slowlog-max-len ?
        CONFIG SET hash-max-listpack-entries ?|RESTORE s ? x|OBJECT ENCODING ?|DEBUG OBJECT ?|BLPOP none ?|BZPOPMIN none ?|BLMPOP ? ? none LEFT"""
    with Wire(at.port()) as wire:
        wire.done("DEL", "s", "n", "h", "l", "l2", "l3", "e", "z", "z2", "z3")
        wire.ask("HW.TABLE", "CREATE", "t", "i64", "bytes")
        fill = ["SET s value", "SET n 5", "HSET h n 5 a b", "RPUSH l a b a", "RPUSH l2 a b", "SADD e a b c", "ZADD z 1 a 2 b"]
        fill += ["RPUSH l3 a b c d", "ZADD z2 1 a 2 b", "ZADD z3 1 a", "HW.PUT t 1 x v"]
        asked = 0
        for shape in (shape.strip() for line in shapes.split("\n") for shape in line.split("|")):
            for value in odd:
                for words in fill:
                    wire.ask(*words.split(" "))
                waits = shape[0] == "B" and shape[1] in "LZ"
                if waits and value in ("0", high, 1 << 63, "inf", "+1", "01", "", " 1", "1 ", "0x10"):
                    continue  # It waits, and rightly.
                if shape.startswith("CLIENT KILL") or shape.startswith("DEBUG SLEEP"):
                    continue
                last = wire.ask(*[value if word == "?" else f"u{value}" if word == "u?" else word for word in shape.split(" ")])
                if isinstance(last, Refused):
                    refused(last)
                asked += 1
                for begins, ends in (("CLIENT PAUSE", "CLIENT UNPAUSE"), ("HW.BEGIN", "HW.ROLLBACK"), ("SELECT", "SELECT 0")):
                    if shape.startswith(begins):
                        wire.ask(*ends.split(" "))
            assert wire.ask("PING") == b"PONG", shape
        wire.ask("HW.TABLE", "DROP", "t")
    return f"{asked} commands"


def bytes_that_are_no_commands(at):
    begins = [b"*-1\r\n", b"*0\r\n", b"*2147483647\r\n", b"*1048577\r\n", b"*1\r\n$-5\r\n", b"*1\r\n$99999999999999999999\r\n", b"*1\r\n*1\r\n$4\r\nPING\r\n", b"$4\r\nPING\r\n"]
    begins += [b"\0" * 1000, b"\r\n" * 100_000, b"x" * 70_000 + b"\r\n", b"*3\r\n$3\r\nSET\r\n$-1\r\n", b"*1\r\n:1\r\n", b"+OK\r\n", b"*1\r\n$4\r\nPINGxx", b'SET "a\r\n', b"GET / HTTP/1.1\r\nHost: a\r\n\r\n"]
    begins += [b"POST / HTTP/1.1\r\n\r\n", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"a" * 500, b"\x80\x2e\x01\x03\x01", b"SSH-2.0-x\r\n", b"*1\r\n$67108865\r\n"]
    random.seed(7)
    begins += [random.randbytes(random.randrange(1, 4000)) for _ in range(150)]
    begins += [b"*%d\r\n" % random.randrange(1, 6) + random.randbytes(200) for _ in range(100)]
    for start in begins:
        for port in at.ports_of_clients():
            wire = Wire(port, timeout=10)
            try:
                wire.send(start)
                wire.socket.shutdown(socket.SHUT_WR)
                wire.ended()
            except ConnectionError:
                pass
            wire.close()
    return f"{len(begins)} beginnings"


def http(at):
    asks = [b"GET / HTTP/1.1\r\n\r\n", b"GET /../../etc/passwd HTTP/1.1\r\n\r\n", b"DELETE /status HTTP/1.1\r\n\r\n", b"GET /status HTTP/9.9\r\n\r\n", b"GET /" + b"a" * 100_000 + b" HTTP/1.1\r\n\r\n"]
    asks += [b"GET /metrics HTTP/1.1\r\n" + b"X: y\r\n" * 20_000 + b"\r\n", b"POST /status HTTP/1.1\r\nContent-Length: 99999999999\r\n\r\n", b"POST /status HTTP/1.1\r\nContent-Length: -1\r\n\r\n"]
    asks += [b"POST /status HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nffffffffffffffffff\r\n", b"GET /healthz HTTP/1.1\r\nHost: \0\r\n\r\n", b"\r\n\r\n\r\n", b"\x16\x03\x01\x02\x00", b"GET /%00%ff%zz HTTP/1.1\r\n\r\n"]
    random.seed(8)
    asks += [random.randbytes(500) for _ in range(50)]
    slow = [Wire(port) for port in at.ports_of_admins() for _ in range(40)]
    for wire in slow:
        wire.send(b"GET /metrics HT")
    for ask in asks:
        for port in at.ports_of_admins():
            wire = Wire(port, timeout=15)
            try:
                wire.send(ask)
                wire.socket.shutdown(socket.SHUT_WR)
                wire.ended()
            except ConnectionError:
                pass
            wire.close()
    for port in at.ports_of_admins():
        with Wire(port) as wire:
            wire.send(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
            assert b" 200 " in wire.ended()[:30]
    for wire in slow:
        wire.reset()


def patterns_and_cursors(at):
    with Wire(at.port()) as wire:
        key = b"a" * 60_000
        wire.done("SET", key, 1)
        glob = b"*a" * 2000 + b"*b"
        for words in (["KEYS", glob], ["SCAN", 0, "MATCH", glob, "COUNT", 100_000], ["CONFIG", "GET", glob], ["COMMAND", "LIST", "FILTERBY", "PATTERN", glob]):
            wire.ask(*words)
        for cursor in (0, 1, (1 << 64) - 1, 1 << 64, 1 << 63, -1, "x"):
            reply = wire.ask("SCAN", cursor, "COUNT", 1_000_000)
            assert isinstance(reply, (list, Refused))
        wire.done("DEL", key)


def blocks(at):
    """MULTI: deep, nested, odd, abandoned."""
    with Wire(at.port()) as wire:
        wire.done("MULTI")
        refused(wire.ask("MULTI"))
        refused(wire.ask("WATCH", "a"))
        refused(wire.ask("SUBSCRIBE", "a"))
        refused(wire.ask("EXEC"), "^EXECABORT ")
        wire.done("MULTI")
        wire.send(command("INCR", "deep") * 100_000 + command("EXEC"))
        assert all(wire.read() == b"QUEUED" for _ in range(100_000))
        assert wire.read()[-1] == 100_000
        wire.done("DEL", "deep")
        # More than may be queued, in bytes.
        wire.done("MULTI")
        replies = [wire.ask("SET", f"heavy{n}", b"v" * (8 * MIB)) for n in range(9)]
        refused(replies[-1])
        refused(wire.ask("EXEC"), "^EXECABORT ")
        wire.done("WATCH", *[f"watched{n}" for n in range(50_000)])
        wire.done("MULTI")
        assert wire.done("EXEC") == []
        for word in ("SUBSCRIBE", "MONITOR", "BLPOP", "HELLO", "AUTH", "SHUTDOWN", "DEBUG"):
            wire.ask(word)
    for _ in range(200):
        wire = Wire(at.port())
        wire.send(command("WATCH", "a") + command("MULTI") + command("SET", "a", "b" * 1000) * 20)
        wire.reset()


def users(at):
    with Wire(at.port()) as wire:
        wire.ask("ACL", "SETUSER", "many", "on", "nopass", "+@all", *[f"~pattern{n}:*" for n in range(20_000)])
        wire.ask("ACL", "SETUSER", "long", "on", "nopass", "+@all", b"~" + b"x" * (4 * MIB))
        wire.done("ACL", "SETUSER", "glob", "on", "nopass", "+@all", b"~" + b"*a" * 200 + b"*b")
        for rule in ("+@nothing", "+get|x|y", "%~x", "%RW", "(", "(~a", ")", "#12", "+", "-", "\0", "+@", "resetx"):
            refused(wire.ask("ACL", "SETUSER", "odd", rule))
        for n in range(300):
            wire.ask("ACL", "SETUSER", f"user{n}", "on", f">{n}", "~*", "+@read")
        with Wire(at.port()) as other:
            other.done("AUTH", "glob", "x")
            refused(other.ask("GET", b"a" * 60_000), "^NOPERM ")
            for n in range(50):
                refused(other.ask("AUTH", f"user{n}", "wrong"), "^WRONGPASS ")
        wire.done("ACL", "DELUSER", "many", "long", "glob", *[f"user{n}" for n in range(300)])


def tables_and_transactions(at):
    with Wire(at.port()) as wire:
        wire.ask("HW.TABLE", "DROP", "odd")
        wire.done("HW.TABLE", "CREATE", "odd", "i64", "string")
        refused(wire.ask("HW.TABLE", "CREATE", "x" * 257, "i64"))
        refused(wire.ask("HW.TABLE", "CREATE", "y", *["i64"] * 17))
        for n in (*I64, 0, -1):
            wire.done("HW.PUT", "odd", n, "", "v")
        refused(wire.ask("HW.PUT", "odd", 1, b"\xff\xfe", "v"))
        refused(wire.ask("HW.PUT", "odd", 1 << 63, "", "v"))
        assert len(wire.done("HW.RANGE", "odd", "-", "-", "+", "+")) == 4
        assert wire.done("HW.RANGE", "odd", "+", "+", "-", "-") == []
        for bounds in (["-"] * 4, ["+"] * 4, [0, "-", 0, "+"], [5, "x", -5, "x"], ["(0", "-", "+", "+"], ["[0", "a", "+", "+"], ["", "", "", ""]):
            for more in ([], ["REV"], ["LIMIT", 0], ["LIMIT", I64[1]], ["LIMIT", -1], ["REV", "LIMIT", 1], ["LIMIT"], ["REV", "REV"]):
                wire.ask("HW.RANGE", "odd", *bounds, *more)
        assert len(wire.done("HW.RANGE", "odd", "-", "-", "+", "+", "REV", "LIMIT", 2)) == 2
        wire.done("HW.TABLE", "DROP", "odd")
    open_ones = []
    for n in range(300):
        wire = Wire(at.port())
        wire.send(command("HW.BEGIN", "TIMEOUT", 60_000) + command("INCR", f"left{n % 7}") + command("GET", "canary"))
        open_ones.append(wire)
    watchers = [Wire(at.port()) for _ in range(300)]
    for wire in watchers:
        wire.done("WATCH", "left0", "left1")
    for wire in open_ones:
        assert wire.read() == b"OK" and wire.read() == 1
    with Wire(at.port()) as wire:
        assert wire.done("INCR", "left0") == 1, "nobody is locked out"
        wire.done("DEL", "left0")
    for wire in open_ones + watchers:
        wire.reset()
