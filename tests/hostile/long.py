"""Work that is long by nature: the lead stays where it is, whoever asked is answered or refused in words, and others go on."""

import threading
import time

from wire import Refused, Wire, command
from words import refused

ROWS = "limits.transaction_rows"


class Beside:
    """Another client that counts meanwhile; how long it waited at most, and whether the lead stayed."""

    def __init__(self, at):
        self.at, self.over, self.slowest, self.problem = at, False, 0.0, None

    def __enter__(self):
        self.node = self.at.leader()
        self.epoch = self.at.status(self.node)["epoch"]
        self.thread = threading.Thread(target=self.count)
        self.thread.start()
        return self

    def count(self):
        try:
            with Wire(self.at.resp(self.node), timeout=60) as wire:
                while not self.over:
                    began = time.monotonic()
                    wire.done("INCR", "beside")
                    self.slowest = max(self.slowest, time.monotonic() - began)
        except (AssertionError, OSError, EOFError) as problem:
            self.problem = problem

    def __exit__(self, *problem):
        self.over = True
        self.thread.join()
        if not problem[0]:
            assert self.problem is None, self.problem
            assert self.at.status(self.node)["epoch"] == self.epoch, "the lead was lost"


def zadd(wire, key, first, count):
    for start in range(first, first + count, 20_000):
        words = [word for n in range(start, min(start + 20_000, first + count)) for word in (n, f"member:{n}")]
        wire.done("ZADD", key, *words)


def sets(at):
    """Results of large sets: done, or refused by the limit; what Redis's users do every day is done."""
    said = []
    with Wire(at.port(), timeout=300) as wire:
        zadd(wire, "za", 0, 300_000)
        zadd(wire, "zb", 250_000, 300_000)
        for start in range(0, 100_000, 20_000):
            wire.done("SADD", "sa", *range(start, start + 20_000))
            wire.done("SADD", "sb", *range(start + 50_000, start + 70_000))
            wire.done("HSET", "ha", *[word for n in range(2 * start, 2 * start + 40_000) for word in (n, n)])
        for words, wanted in (
            (("SUNIONSTORE", "out", "sa", "sb"), 150_000),
            (("SINTERSTORE", "out", "sa", "sb"), 50_000),
            (("SDIFFSTORE", "out", "sa", "sb"), 50_000),
            (("ZUNIONSTORE", "out", 2, "za", "zb"), 550_000),
            (("ZINTERSTORE", "out", 2, "za", "zb"), 50_000),
            (("ZDIFFSTORE", "out", 2, "za", "zb"), 250_000),
            (("ZRANGESTORE", "out", "za", 0, -1), 300_000),
            (("COPY", "za", "out", "REPLACE"), 1),
            (("ZREMRANGEBYRANK", "out", 0, 149_999), 150_000),
            (("SPOP", "sb", 60_000), None),
            (("HGETALL", "ha"), None),
            (("SMEMBERS", "sa"), None),
            (("ZRANGE", "za", 0, -1), None),
            (("KEYS", "*"), None),
            (("DBSIZE",), None),
            (("RENAME", "za", "zc"), b"OK"),
            (("DEL", "zc", "zb", "out"), 3),
        ):
            with Beside(at) as beside:
                began = time.monotonic()
                reply = wire.ask(*words)
                took = time.monotonic() - began
            if isinstance(reply, Refused):
                refused(reply, ROWS)
                said.append(f"{words[0]} refused")
            else:
                assert wanted is None or reply == wanted, (words, reply)
                said.append(f"{words[0]} {took:.1f} s, others {beside.slowest:.1f} s")
        wire.done("DEL", "sa", "sb", "ha")
    return "; ".join(said)


def blocks_and_pipelines(at):
    """Many long ones one after another, in a block and in a pipeline: others have their turn between them."""
    with Wire(at.port(), timeout=300) as wire:
        for start in range(0, 100_000, 20_000):
            wire.done("SADD", "sa", *range(start, start + 20_000))
        with Beside(at) as beside:
            wire.send(command("SUNIONSTORE", "out", "sa") * 20)
            for _ in range(20):
                assert wire.read() == 100_000
        pipelined = beside.slowest
        with Beside(at) as beside:
            wire.send(command("MULTI") + command("SET", "a", 1) * 100_000 + command("EXEC"))
            replies = [wire.read() for _ in range(100_002)]
            assert replies[-1] == [b"OK"] * 100_000
        block = beside.slowest
        # More rows than one request may pass, by its own words and by commands that say less.
        with Beside(at):
            wire.send(command("MULTI") + command("SMEMBERS", "sa") * 5 + command("SUNIONSTORE", "out", "sa") * 30 + command("EXEC"))
            replies = [wire.read() for _ in range(37)]
            assert isinstance(replies[-1], Refused), str(replies[-1])[:100]
            refused(replies[-1], "too large|used memory")
        wire.done("DEL", "sa", "out")
    return f"others waited {pipelined:.1f} s beside a pipeline, {block:.1f} s beside a block"


STARS = 8_000_000


def patterns_and_names(at):
    """Patterns that go back and forth, and things named again and again: refused in words or quick, and the lead stays."""
    said = []
    with Wire(at.port(), timeout=300) as wire:
        for start in range(0, 2_000, 1_000):
            wire.done("MSET", *[word for n in range(start, start + 1_000) for word in (f"key:{n}", n)])
        wire.done("HSET", "h", *[word for n in range(100) for word in (f"field:{n}", n)])
        for start in range(0, 100_000, 20_000):
            wire.done("SADD", "s", *range(start, start + 20_000))
        for pattern in ("*" * STARS + "zz", "*[" + "A" * STARS):
            for words in (
                ("KEYS", pattern),
                ("SCAN", 0, "COUNT", 1000, "MATCH", pattern),
                ("HSCAN", "h", 0, "MATCH", pattern),
                ("COMMAND", "LIST", "FILTERBY", "PATTERN", pattern),
                ("CONFIG", "GET", pattern, pattern),
                ("FUNCTION", "LIST", "LIBRARYNAME", pattern),
                ("HW.PROCEDURES", pattern),
            ):
                with Beside(at) as beside:
                    wire.ask(*words)
                said.append(beside.slowest)
        for words in (
            ("COMMAND", "DOCS") + ("set",) * 300_000,
            ("COMMAND", "INFO") + ("set",) * 300_000,
            ("CLIENT", "SETNAME", "n" * 16_000_000),
            ("CLIENT", "SETINFO", "LIB-NAME", "n" * 16_000_000),
            ("ACL", "SETUSER", "u") + tuple(f"~k{n}" for n in range(100_000)),
            ("ZINTER", 1000) + ("s",) * 1000,
        ):
            with Beside(at) as beside:
                assert isinstance(wire.ask(*words), Refused), words[:2]
            said.append(beside.slowest)
        with Beside(at) as beside:
            assert wire.done("SINTERCARD", 20_000, *("s",) * 20_000) == 100_000
        said.append(beside.slowest)
        wire.done("DEL", "s", "h")
    return f"others waited {max(said):.2f} s at most"


LISTED = ("COMMAND", "LIST", "FILTERBY", "PATTERN")


def answered_by_the_node(at):
    """What no engine bounds: commands that a node answers by itself, alone with a million names, in blocks of 9 MB, and in pipelines of twenty connections. Each
    held a worker for seconds, and the lead was lost."""
    said = []
    leader = at.resp(at.leader())
    with Wire(leader, timeout=300) as wire:
        for words in (
            ("CONFIG", "GET") + ("*a*b*c*d",) * 1_000_000,
            ("CONFIG", "GET") + ("*a*b*c*d",) * 2_048,
            ("LATENCY", "HISTOGRAM") + ("set", "get", "incr") * 340_000,
            ("LATENCY", "RESET") + ("x",) * 1_000_000,
            ("CLIENT", "LIST", "ID") + ("1",) * 1_000_000,
            ("CLIENT", "KILL") + ("ADDR", "1.2.3.4:5") * 400_000,
            ("INFO",) + ("everything",) * 500_000,
            ("COMMAND", "GETKEYSANDFLAGS", "MSET") + ("a", "b") * 500_000,
            ("COMMAND", "GETKEYS") + ("HW.ONCE", "1", "1") * 340_000,
            LISTED + ("*" * 16_000_000 + "zz",),
        ):
            with Beside(at) as beside:
                assert isinstance(wire.ask(*words), Refused), words[:3]
            said.append(beside.slowest)
        for words in (
            LISTED + ("*" * 30_000 + "zz",),
            LISTED + ("*" * 1_000 + "zz",),
            LISTED + ("*[" + "A" * 1_000,),
            ("CONFIG", "GET") + ("*a*b*c*d",) * 400,
            ("INFO", "everything"),
            ("COMMAND", "DOCS"),
            ("PING",),
        ):
            once = command(*words)
            count = min(9_000_000 // len(once), 3_000)
            with Beside(at) as beside:
                wire.send(command("MULTI") + once * count + command("EXEC"))
                replies = [wire.read() for _ in range(count + 2)]
            said.append(beside.slowest)
            if isinstance(replies[-1], Refused):
                refused(replies[-1], "^EXECABORT .* takes too long what its node answers by itself")
            else:
                assert len(replies[-1]) == count, words[:3]
        assert wire.done("PING") == b"PONG"
    wires = [Wire(leader, timeout=300) for _ in range(20)]
    for words in (LISTED + ("*" * 1_000 + "zz",), LISTED + ("*[" + "A" * 1_000,), ("INFO", "everything")):
        with Beside(at) as beside:
            for wire in wires:
                wire.send(command(*words) * 60)
            for wire in wires:
                for _ in range(60):
                    wire.read()
        said.append(beside.slowest)
    for wire in wires:
        wire.close()
    assert max(said) < 10, said
    return f"others waited {max(said):.2f} s at most"


RUN = '(func (export "procedure:run"))'


def nest(loops, variables):
    uses = "".join(f"(local.set {n} (local.get {n}))" for n in range(variables))
    return f"(module {RUN} (func (local {'i64 ' * variables}) {'loop ' * loops} {uses} {'end ' * loops}))"


HEAVY = {
    "loops around variables": nest(400, 400),
    "more loops around variables": nest(1400, 1400),
    "too many loops around variables": nest(1600, 1600),
    "too many loops": f"(module {RUN} (func (param i32) {'(loop (br_if 0 (local.get 0)))' * 20_000}))",
    "too many ifs": f"(module {RUN} (func (param i32) {'(if (local.get 0) (then (nop)))' * 30_000}))",
    "blocks": f"(module {RUN} (func {'block ' * 40_000} {'end ' * 40_000}))",
    "branches": f"(module {RUN} (func (param i32) (br_table {'0 ' * 60_000} (local.get 0))))",
    "too many branches": f"(module {RUN} (func (param i32) (br_table {'0 ' * 70_000} (local.get 0))))",
    "functions": f"(module {RUN} {'(func (local i64) (local.set 0 (i64.const 1)))' * 19_000})",
    "too many functions": f"(module {RUN} {'(func)' * 20_001})",
    "segments": f"(module {RUN} (memory 1) " + '(data (i32.const 0) "a")' * 19_000 + ")",
    "globals": f"(module {RUN} {'(global i32 (i32.const 1))' * 10_000})",
    "sums": f"(module {RUN} (func (result i64) (i64.const 1) {'(i64.add (i64.const 3)) (i64.mul (i64.const 5))' * 8_000}))",
    "values that all live": f"(module {RUN} (func (param i64) (result i64) {'(i64.mul (local.get 0) (local.get 0))' * 5_000} {'i64.add ' * 4_999}))",
    "ifs": f"(module {RUN} (func (param i32) {'(if (local.get 0) (then (nop)))' * 5_000}))",
}


def modules(at):
    """Modules that a compiler has much to do with: they are refused, or loaded while others go on."""
    said = []
    with Wire(at.port(), timeout=600) as wire:
        if isinstance(wire.ask("HW.MODULE", "LIST"), Refused):
            return "there are none in this build"
        for name, text in HEAVY.items():
            with Beside(at) as beside:
                began = time.monotonic()
                reply = wire.ask("HW.MODULE", "LOAD", "heavy", text, "REPLACE")
                took = time.monotonic() - began
            assert name.startswith("too many") == isinstance(reply, Refused), (name, str(reply)[:300])
            if isinstance(reply, Refused):
                refused(reply, "^BADMODULE it takes too long to compile")
            else:
                began = time.monotonic()
                assert wire.done("HW.CALL", "heavy.run") == b"OK"
                said.append(f"{name} {took:.1f} s, a call {1000 * (time.monotonic() - began):.0f} ms, others {beside.slowest:.2f} s")
    return "; ".join(said)


def modules_after_a_kill(at):
    """The next leader has to run what the last one compiled: nobody's lead is lost, and calls wait."""
    with Wire(at.port(), timeout=600) as wire:
        if isinstance(wire.ask("HW.MODULE", "LIST"), Refused):
            return "there are none in this build"
        for n in range(3):
            wire.done("HW.MODULE", "LOAD", f"heavy{n}", nest(390 + n, 400), "REPLACE")
    killed = at.kill_leader()
    at.look_for_leader()
    with Beside(at) as beside:
        wires = [Wire(at.port(), timeout=600) for _ in range(6)]
        for n, wire in enumerate(wires):
            wire.send(command("HW.CALL", f"heavy{n % 3}.run"))
        for wire in wires:
            assert wire.read() == b"OK"
            wire.close()
    at.restart(killed)
    return f"others waited {beside.slowest:.2f} s"
