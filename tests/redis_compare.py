#!/usr/bin/env python3
"""Asks Redis and Highwater the same, and says where the replies differ.

    python3 tests/redis_compare.py [--binary FILE] [--random N] [--seed S] [FILE...]

Starts a redis-server and a node of one replica, each on free ports and with nothing on it, and sends both the commands of each
FILE (tests/redis/*.txt by default): first as RESP2, then as RESP3. A line is a command, quoted as for redis-cli; `#` starts a
comment; `~` in front compares arrays as bags, `!` compares only the kind of reply, `-` sends and compares nothing. Then
N random commands (20,000 by default) on a few keys, from a seed, which is printed.

Where there is no redis-server, says so and ends well.
"""

import argparse
import random
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


class Client:
    """A connection that sends commands and reads replies, without making them nicer than they are."""

    def __init__(self, port):
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=60)
        self.file = self.socket.makefile("rb")

    def send(self, words):
        parts = [b"*%d\r\n" % len(words)]
        parts += [b"$%d\r\n%s\r\n" % (len(word), word) for word in words]
        self.socket.sendall(b"".join(parts))

    def read(self):
        line = self.file.readline()
        if not line.endswith(b"\r\n"):
            raise EOFError("the connection was closed")
        kind, rest = line[:1], line[1:-2]
        if kind in b"$=":
            length = int(rest)
            return (kind, None) if length < 0 else (kind, self.file.read(length + 2)[:-2])
        if kind in b"*~>":
            length = int(rest)
            return (kind, None) if length < 0 else (kind, [self.read() for _ in range(length)])
        if kind == b"%":
            return (kind, [(self.read(), self.read()) for _ in range(int(rest))])
        return (kind, rest)

    def ask(self, *words):
        self.send([word if isinstance(word, bytes) else str(word).encode() for word in words])
        return self.read()


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def wait_for(port, process):
    for _ in range(300):
        if process.poll() is not None:
            sys.exit(f"{process.args[0]} ended at once")
        try:
            reply = Client(port).ask("SET", "ready", "1")
            if reply[0] == b"+":
                return
        except OSError:
            pass
        time.sleep(0.05)
    sys.exit(f"{process.args[0]} does not answer")


def start_redis(folder, port):
    arguments = ["--port", port, "--save", "", "--dir", folder, "--enable-debug-command", "yes", "--daemonize", "no"]
    return subprocess.Popen(["redis-server", *map(str, arguments)], stdout=subprocess.DEVNULL)


def start_highwater(binary, folder, port, *more):
    nodes = '[{ id = 0, peer = "127.0.0.1:%d", resp = "127.0.0.1:%d", admin = "127.0.0.1:%d" }]'
    nodes %= (free_port(), port, free_port())
    sets = [f"cluster.nodes={nodes}", f"storage.dir={folder}/hw", "cluster.durability=memory", "threads.pin=none"]
    sets += ["limits.memory_mb=3000"]
    command = [binary, "serve"] + [word for key in sets + list(more) for word in ("--set", key)]
    return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=open(f"{folder}/hw.log", "w"))


ESCAPES = {"n": b"\n", "r": b"\r", "t": b"\t", "a": b"\a", "b": b"\b"}


def words_of(line):
    """Words as redis-cli reads them."""
    words, at = [], 0
    while at < len(line):
        if line[at].isspace():
            at += 1
        elif line[at] == '"':
            word, at = b"", at + 1
            while line[at] != '"':
                if line[at] == "\\" and line[at + 1] == "x":
                    word, at = word + bytes([int(line[at + 2 : at + 4], 16)]), at + 4
                elif line[at] == "\\":
                    word, at = word + ESCAPES.get(line[at + 1], line[at + 1].encode()), at + 2
                else:
                    word, at = word + line[at].encode(), at + 1
            words, at = words + [word], at + 1
        else:
            end = at
            while end < len(line) and not line[end].isspace():
                end += 1
            words, at = words + [line[at:end].encode()], end
    return words


def bag(reply):
    """The same for any order of what an array holds."""
    kind, value = reply
    if isinstance(value, list):
        return (kind, sorted((bag(item) if isinstance(item[0], bytes) else tuple(map(bag, item)) for item in value), key=repr))
    return reply


def kinds(reply):
    kind, value = reply
    return (kind, len(value) if isinstance(value, list) else value is None)


# What Redis answers in an order of its own.
UNORDERED = {b"keys", b"smembers", b"sunion", b"sinter", b"sdiff", b"hgetall", b"hkeys", b"hvals"}


def same(mode, words, ours, theirs):
    if ours == theirs:
        return True
    if mode == "!":
        return kinds(ours) == kinds(theirs)
    if mode == "~" or words[0].lower() in UNORDERED:
        return flat(ours) == flat(theirs)
    return False


def flat(reply):
    """As a bag; maps of RESP2 lose which value belongs to which field."""
    return bag(reply)


class Comparison:
    def __init__(self, redis, highwater):
        self.redis, self.highwater = redis, highwater
        self.asked = self.different = 0

    def both(self, *words):
        return self.highwater.ask(*words), self.redis.ask(*words)

    def compare(self, mode, words, where):
        ours, theirs = self.both(*words)
        self.asked += 1
        if mode != "-" and not same(mode, words, ours, theirs):
            self.different += 1
            if self.different <= 200:
                print(f"{where}: {b' '.join(words)[:300]}\n  redis     {str(theirs)[:400]}\n  highwater {str(ours)[:400]}")
        return theirs


def run_file(comparison, path):
    for protocol in (2, 3):
        comparison.both("HELLO", protocol)
        comparison.both("FLUSHALL")
        for number, line in enumerate(path.read_text().splitlines(), 1):
            line = line.strip()
            if not line or line.startswith("#"):
                continue
            mode = line[0] if line[0] in "~!-" and line[1:2] == " " else ""
            comparison.compare(mode, words_of(line[2:] if mode else line), f"{path.name}:{number} (RESP{protocol})")
    comparison.both("HELLO", 2)


class Chance:
    """Random commands: few keys, few members, and numbers near the edges."""

    def __init__(self, seed):
        self.random = random.Random(seed)

    def pick(self, *choices):
        return self.random.choice(choices)

    def key(self):
        return self.pick("a", "b", "c", "d", "e", "f", "s{1}", "l", "z", "h")

    def index(self):
        return str(self.pick(0, 1, 2, 3, 5, -1, -2, -3, -5, 10, -10, 100, 9223372036854775807, -9223372036854775808, "x"))

    def small(self):
        return str(self.random.randint(-6, 8))

    def count(self):
        return str(self.pick(0, 1, 2, 3, 4, 5, 10, -1, "x"))

    def value(self):
        return self.pick("1", "2", "-7", "10", "3.5", "abc", "", "hello world", "x" * 50, "y" * 70, "foo", "0", "9223372036854775807", "\x00\xff", "1e3")

    def member(self):
        return self.pick("1", "2", "3", "m1", "m2", "m3", "", "aa", "ab", "b", "x" * 65, "42", "-1")

    def score(self):
        return self.pick("1", "2", "2.5", "-3", "0", "-0", "inf", "-inf", "1e300", "nan", "x", "3.14", "0.1", "7", "10")

    def bound(self):
        return self.pick("", "(") + self.score()

    def lex(self):
        return self.pick("-", "+", "[a", "(aa", "[ab", "(m1", "[m3", "[", "x")

    def some(self, make, most=3):
        return [make() for _ in range(self.random.randint(1, most))]

    def options(self, *options):
        return [word for option in options if self.random.random() < 0.3 for word in (option() if callable(option) else [option])]

    def command(self):
        """A command of any family that Highwater offers."""
        k, v, m, i, n, s = self.key, self.value, self.member, self.index, self.small, self.score
        many = lambda make: self.some(make)
        pairs = lambda one, other: [word for _ in range(self.random.randint(1, 3)) for word in (one(), other())]
        keys = lambda: (lambda chosen: [str(len(chosen) + self.pick(0, 0, 0, 0, 1, -1)), *chosen])(many(k))
        limit = lambda: ["LIMIT", n(), n()]
        family = self.pick("string", "string", "bits", "generic", "hash", "set", "list", "list", "zset", "zset", "zrange", "zjoin")
        table = {
            "string": [
                lambda: ["SET", k(), v()], lambda: ["SET", k(), v(), *self.options("NX", "XX", "GET", "KEEPTTL", lambda: ["EX", "100"])],
                lambda: ["GET", k()], lambda: ["APPEND", k(), v()], lambda: ["STRLEN", k()], lambda: ["INCR", k()], lambda: ["DECRBY", k(), i()],
                lambda: ["INCRBYFLOAT", k(), self.pick("1.5", "-0.1", "1e10", "3", "abc", "inf", "1e-5", "0.0000001")], lambda: ["GETRANGE", k(), i(), i()],
                lambda: ["SETRANGE", k(), self.pick("0", "1", "5", "60", "-1", "x"), v()], lambda: ["MGET", *many(k)], lambda: ["MSET", *pairs(k, v)],
                lambda: ["MSETNX", *pairs(k, v)], lambda: ["GETSET", k(), v()], lambda: ["GETDEL", k()], lambda: ["SETNX", k(), v()],
                lambda: ["SETEX", k(), self.pick("100", "0", "-1", "x"), v()], lambda: ["GETEX", k(), *self.options("PERSIST", lambda: ["EX", "100"])],
            ],
            "bits": [
                lambda: ["SETBIT", k(), self.pick("0", "7", "8", "100", "-1", "x"), self.pick("0", "1", "2")], lambda: ["GETBIT", k(), self.pick("0", "7", "100", "x")],
                lambda: ["BITCOUNT", k(), *self.options(lambda: [i(), i(), *self.options("BIT", "BYTE")])],
                lambda: ["BITPOS", k(), self.pick("0", "1", "2"), *self.options(lambda: [n(), *self.options(lambda: [n(), *self.options("BIT")])])],
                lambda: ["BITOP", self.pick("AND", "OR", "XOR", "NOT"), k(), *many(k)],
                lambda: ["BITFIELD", k(), *self.options(lambda: ["OVERFLOW", self.pick("WRAP", "SAT", "FAIL", "x")]), *self.options(
                    lambda: ["SET", self.pick("u8", "i5", "u63", "i64", "u64", "i1"), self.pick("0", "#1", "3"), i()],
                    lambda: ["INCRBY", self.pick("u2", "i8", "i64"), self.pick("0", "#2", "5"), i()],
                    lambda: ["GET", self.pick("u4", "i64", "i0"), self.pick("0", "#1", "100", "-1")])],
            ],
            "generic": [
                lambda: ["DEL", *many(k)], lambda: ["EXISTS", *many(k)], lambda: ["TYPE", k()], lambda: ["RENAME", k(), k()], lambda: ["RENAMENX", k(), k()],
                lambda: ["COPY", k(), k(), *self.options("REPLACE")], lambda: ["OBJECT", "ENCODING", k()], lambda: ["EXPIRE", k(), self.pick("100", "200", "-1", "x"), *self.options("NX", "XX", "GT", "LT")],
                lambda: ["TTL", k()], lambda: ["PERSIST", k()], lambda: ["EXPIREAT", k(), self.pick("33177117420", "1")], lambda: ["PEXPIRETIME", k()] if False else ["DBSIZE"],
                lambda: ["KEYS", self.pick("*", "[a-c]", "?", "s*")], lambda: ["TOUCH", *many(k)],
            ],
            "hash": [
                lambda: ["HSET", k(), *pairs(m, v)], lambda: ["HSETNX", k(), m(), v()], lambda: ["HGET", k(), m()], lambda: ["HMGET", k(), *many(m)], lambda: ["HGETALL", k()],
                lambda: ["HDEL", k(), *many(m)], lambda: ["HLEN", k()], lambda: ["HKEYS", k()], lambda: ["HVALS", k()], lambda: ["HEXISTS", k(), m()],
                lambda: ["HINCRBY", k(), m(), i()], lambda: ["HINCRBYFLOAT", k(), m(), self.pick("1.5", "x", "0.1", "-3")], lambda: ["HSTRLEN", k(), m()],
            ],
            "set": [
                lambda: ["SADD", k(), *many(m)], lambda: ["SADD", k(), *many(m)], lambda: ["SREM", k(), *many(m)], lambda: ["SMEMBERS", k()], lambda: ["SISMEMBER", k(), m()],
                lambda: ["SMISMEMBER", k(), *many(m)], lambda: ["SCARD", k()], lambda: ["SMOVE", k(), k(), m()], lambda: [self.pick("SINTER", "SUNION", "SDIFF"), *many(k)],
                lambda: [self.pick("SINTERSTORE", "SUNIONSTORE", "SDIFFSTORE"), k(), *many(k)], lambda: ["SINTERCARD", *keys(), *self.options(lambda: ["LIMIT", n()])],
            ],
            "list": [
                lambda: ["LPUSH", k(), *many(v)], lambda: ["RPUSH", k(), *many(v)], lambda: ["RPUSHX", k(), *many(v)], lambda: ["LPOP", k(), *self.options(self.count_word)],
                lambda: ["RPOP", k(), *self.options(self.count_word)], lambda: ["LLEN", k()], lambda: ["LRANGE", k(), i(), i()], lambda: ["LINDEX", k(), i()], lambda: ["LSET", k(), i(), v()],
                lambda: ["LINSERT", k(), self.pick("BEFORE", "AFTER"), v(), v()], lambda: ["LREM", k(), n(), v()], lambda: ["LTRIM", k(), n(), n()],
                lambda: ["LPOS", k(), v(), *self.options(lambda: ["RANK", n()], lambda: ["COUNT", n()], lambda: ["MAXLEN", n()])],
                lambda: ["LMOVE", k(), k(), self.pick("LEFT", "RIGHT"), self.pick("LEFT", "RIGHT")], lambda: ["RPOPLPUSH", k(), k()],
                lambda: ["LMPOP", *keys(), self.pick("LEFT", "RIGHT"), *self.options(lambda: ["COUNT", n()])],
            ],
            "zset": [
                lambda: ["ZADD", k(), *self.options("NX", "XX", "GT", "LT", "CH", "INCR"), *pairs(s, m)], lambda: ["ZADD", k(), *pairs(s, m)], lambda: ["ZADD", k(), *pairs(s, m)],
                lambda: ["ZREM", k(), *many(m)], lambda: ["ZSCORE", k(), m()], lambda: ["ZMSCORE", k(), *many(m)], lambda: ["ZINCRBY", k(), s(), m()], lambda: ["ZCARD", k()],
                lambda: ["ZRANK", k(), m()], lambda: ["ZREVRANK", k(), m()], lambda: [self.pick("ZPOPMIN", "ZPOPMAX"), k(), *self.options(self.count_word)],
                lambda: ["ZMPOP", *keys(), self.pick("MIN", "MAX"), *self.options(lambda: ["COUNT", n()])],
                lambda: ["ZREMRANGEBYRANK", k(), i(), i()], lambda: ["ZREMRANGEBYSCORE", k(), self.bound(), self.bound()], lambda: ["ZREMRANGEBYLEX", k(), self.lex(), self.lex()],
            ],
            "zrange": [
                lambda: ["ZRANGE", k(), i(), i(), *self.options("WITHSCORES", "REV")], lambda: ["ZREVRANGE", k(), i(), i(), *self.options("WITHSCORES")],
                lambda: ["ZRANGE", k(), self.bound(), self.bound(), "BYSCORE", *self.options("REV", "WITHSCORES", limit)],
                lambda: ["ZRANGE", k(), self.lex(), self.lex(), "BYLEX", *self.options("REV", "WITHSCORES", limit)],
                lambda: [self.pick("ZRANGEBYSCORE", "ZREVRANGEBYSCORE"), k(), self.bound(), self.bound(), *self.options("WITHSCORES", limit)],
                lambda: [self.pick("ZRANGEBYLEX", "ZREVRANGEBYLEX"), k(), self.lex(), self.lex(), *self.options(limit)],
                lambda: ["ZCOUNT", k(), self.bound(), self.bound()], lambda: ["ZLEXCOUNT", k(), self.lex(), self.lex()],
                lambda: ["ZRANGESTORE", k(), k(), self.bound(), self.bound(), "BYSCORE", *self.options("REV", limit)], lambda: ["ZRANGESTORE", k(), k(), i(), i(), *self.options("REV")],
            ],
            "zjoin": [
                lambda: [self.pick("ZUNION", "ZINTER"), *keys(), *self.options(lambda: ["WEIGHTS", *many(s)], lambda: ["AGGREGATE", self.pick("SUM", "MIN", "MAX", "x")], "WITHSCORES")],
                lambda: ["ZDIFF", *keys(), *self.options("WITHSCORES")], lambda: ["ZINTERCARD", *keys(), *self.options(lambda: ["LIMIT", n()])],
                lambda: [self.pick("ZUNIONSTORE", "ZINTERSTORE"), k(), *keys(), *self.options(lambda: ["WEIGHTS", *many(s)], lambda: ["AGGREGATE", self.pick("SUM", "MIN", "MAX")])],
                lambda: ["ZDIFFSTORE", k(), *keys()],
            ],
        }
        words = self.random.choice(table[family])()
        return [word.encode("latin1") for word in words]

    def count_word(self):
        return [self.count()]


def run_random(comparison, count, seed):
    chance = Chance(seed)
    comparison.both("FLUSHALL")
    for number in range(count):
        if number % 5000 == 0:
            comparison.both("HELLO", 2 + number // 5000 % 2)
        words = chance.command()
        theirs = comparison.compare("", words, f"random {number} of seed {seed}")
        if theirs[0] == b"-" and b"unknown command" in theirs[1]:
            sys.exit(f"Redis does not know {words}")
        if comparison.different > 40:
            sys.exit("too many differences")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binary", default=str(ROOT / "target" / "release" / "highwater"))
    parser.add_argument("--random", type=int, default=20000)
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 32))
    parser.add_argument("files", nargs="*", type=Path)
    options = parser.parse_args()
    if shutil.which("redis-server") is None:
        print("skipped: there is no redis-server to compare with")
        return
    version = subprocess.run(["redis-server", "--version"], capture_output=True, text=True).stdout
    if not re.search(r"v=7\.0\.", version):
        print(f"skipped: this is no redis-server of 7.0: {version.strip()}")
        return
    with tempfile.TemporaryDirectory() as folder:
        ports = free_port(), free_port()
        processes = [start_redis(folder, ports[0]), start_highwater(options.binary, folder, ports[1])]
        try:
            for port, process in zip(ports, processes):
                wait_for(port, process)
            comparison = Comparison(*map(Client, ports))
            for path in options.files or sorted((ROOT / "tests" / "redis").glob("*.txt")):
                run_file(comparison, path)
            if options.random:
                print(f"random commands of seed {options.seed}")
                run_random(comparison, options.random, options.seed)
        finally:
            for process in processes:
                process.kill()
                process.wait()
            if Path(f"{folder}/hw.log").exists():
                log = Path(f"{folder}/hw.log").read_text()
                print("\n".join(line for line in log.splitlines() if "panick" in line)[:2000])
    print(f"{comparison.asked} replies, {comparison.different} differ")
    sys.exit(1 if comparison.different else 0)


if __name__ == "__main__":
    main()
