"""Scripts and modules that loop, recurse, grow, trap and lie."""

import contextlib
import time

from wire import Refused, Wire, command
from words import refused

DEEP = 200_000

SCRIPTS = {
    "loops": "while true do end",
    "loops in a pcall": "while true do pcall(function() while true do end end) end",
    "recurses": "local function f() return 1 + f() end return f()",
    "recurses through pcall": "local function f() return pcall(f) end return tostring(f())",
    "recurses through sort": "local function f(a, b) table.sort({3,2,1}, f) return true end table.sort({3,2,1}, f)",
    "recurses through gsub": "local function f() return (string.gsub('a', 'a', f)) end return f()",
    "grows a string": "local s = 'x' while true do s = s .. s end",
    "grows a table": "local t = {} while true do t[#t + 1] = string.rep('x', 1000) .. #t end",
    "repeats": "return string.rep('x', 2^40)",
    "formats": "return string.format('%99999999d', 1)",
    "matches": "return string.find(string.rep('a', 50000), string.rep('a?', 5000) .. 'b')",
    "matches and matches": "return string.find(string.rep('a', 30000), '.-.-.-.-.-b')",
    "unpacks": "return {unpack({}, 1, 1e8)}",
    "answers a nest": "local t = {} local r = t for i = 1, %d do t[1] = {} t = t[1] end return r" % DEEP,
    "answers itself": "local t = {} t[1] = t return t",
    "encodes a nest": "local t = {} local r = t for i = 1, %d do t[1] = {} t = t[1] end return cjson.encode(r)" % DEEP,
    "encodes itself": "local t = {} t[1] = t return cjson.encode(t)",
    "decodes a nest": "return tostring(cjson.decode(string.rep('[', %d)))" % DEEP,
    "decodes a nest of objects": "return tostring(cjson.decode(string.rep('{\"a\":', %d)))" % DEEP,
    "packs itself": "local t = {} t[1] = t return #cmsgpack.pack(t)",
    "packs a nest": "local t = {} local r = t for i = 1, %d do t[1] = {} t = t[1] end return #cmsgpack.pack(r)" % DEEP,
    "unpacks a nest": "return tostring(cmsgpack.unpack(string.rep('\\145', %d)))" % DEEP,
    "unpacks a lie": "return tostring(cmsgpack.unpack('\\221\\255\\255\\255\\255'))",
    "unpacks a long lie": "return tostring(cmsgpack.unpack('\\198\\255\\255\\255\\255x'))",
    "packs a structure": "return struct.pack('>I999999999', 1)",
    "unpacks a structure": "return struct.unpack('>c0c99999999', 'abc')",
    "loads bytes": "return loadstring('\\27Lua\\81\\0\\1\\4\\8\\4\\8\\0garbage')",
    "reaches out": "return os.execute('id')",
    "opens a file": "return io.open('/etc/passwd')",
    "requires": "return require('os')",
    "sets globals": "x = 1",
    "sets a metatable": "getmetatable('').__index = nil return ('x'):rep(2)",
    "raises nothing": "error(nil)",
    "raises a table": "error({})",
    "raises while it prints": "return tostring(setmetatable({}, {__tostring = function() error('x') end}))",
    "calls scripts": "return redis.call('EVAL', 'return 1', '0')",
    "calls blocks": "return redis.call('MULTI')",
    "calls nothing": "return redis.call()",
    "calls with a table": "return redis.call('SET', 'a', {})",
    "writes without end": "for i = 1, 1e9 do redis.call('SET', 'script:' .. i, i) end",
    "reads without end": "while true do redis.call('GET', 'a') end",
    "waits": "return redis.call('BLPOP', 'nothing', 0)",
    "coroutines": "return coroutine and coroutine.wrap(function() while true do end end)()",
    "names a bad reply": "return {err = string.rep('x', 1000) .. '\\r\\n+OK', ok = {}}",
    "answers broken lines": "return redis.error_reply('a\\r\\nb')",
    "sets an odd protocol": "redis.setresp(9)",
    "compares": "return {1} < {2}",
    "collects": "for i = 1, 1e9 do collectgarbage() end",
    "dumps": "return string.dump(function() end)",
    # What overflows in C.
    "unpacks a wide range": "return select('#', unpack({}, 0, 2^31-1))",
    "unpacks the widest range": "return {unpack({1,2,3}, -2147483648, 2147483647)}",
    "unpacks from below": "return {unpack({1,2,3}, -2, 2147483647)}",
    "inserts far in front": "table.insert({}, -1e9, 1)",
    "inserts farthest in front": "table.insert({}, -2147483648, 1)",
    "removes of a table that says to be long": "local t, k = {}, 1 while k < 2^31 do t[k] = 1 k = k * 2 end t[2^30 - 1] = 1 table.remove(t, 1)",
    # What takes long inside of one instruction.
    "makes capitals": "local s = string.rep('x', 1e7) while true do s:upper() end",
    "turns around": "local s = string.rep('x', 1e7) while true do s:reverse() end",
    "compares long strings": "local a = string.rep('x', 2.5e7) while true do local b = a..'' <= a end",
    "compares zeros": "local a, b = string.rep('\\0', 2e7), string.rep('\\0', 2e7) .. 'a' while true do local c = a < b end",
    "puts together what is there": "local a = string.rep('x', 1.5e7) local b = a .. 'y' while true do local c = a .. 'y' end",
    "walks over holes": "local t = {} for i = 1, 1e6 do t[i] = i end for i = 1, 1e6 - 1 do t[i] = nil end while true do next(t) end",
    "moves a table": "local t = {} for i = 1, 1e6 do t[i] = i end while true do table.insert(t, 1, 1) end",
    "rehashes": "local t = {} for i = 1, 2^18 do t['k' .. i] = i end while true do t.a = nil t.b = 1 t.b = nil t.a = 1 end",
    "sorts with C": "local t = {} for i = 1, 5e5 do t[i] = i % 1000 end while true do table.sort(t, rawequal) end",
    "finds nothing": "local s = string.rep('x', 1e7) while true do s:find('y', 1, true) end",
    "matches a wide set": "local s = string.rep('a', 1e6) return s:find('[^' .. string.rep('b', 60000) .. ']*c')",
    "writes an array of nothing": "cjson.encode_sparse_array(true, 0) while true do cjson.encode({[1e9] = 1}) end",
    "shares a table": "local t = {} for i = 1, 60 do t = {t, t} end return t",
    "spreads coroutines": "while true do coroutine.wrap(function() for i = 1, 490 do end end)() end",
    "makes keys meet": "local t = {} for i = 1, 1e6 do local s = string.rep('x', 64) t[s:sub(1, i % 60) .. i .. s:sub(1, 60 - i % 60)] = i end",
}

# Texts that keep a compiler busy.
TEXTS = {
    "and": "local x return " + "x and " * 170_000 + "x",
    "elseif": "local x if x then " + "elseif x then " * 70_000 + "end",
    "break": "local x while x do " + "if x then break end " * 50_000 + "end",
    "names in functions in functions": "local a,b,c,d,e,f,g,h,i,j,k,l,m,n,o,p,q,r,s,t,u,v,w,x,y = 1 function z() " * 180 + "z=z " * 150_000 + "end " * 180,
    "a long bracket": "return [" + "=" * 1_000_000 + "[",
}
# No run is longer than 5 s of CPU; this machine may be busy with others.
LONGEST_S = 30


def scripts(at):
    answered = 0
    for name, text in SCRIPTS.items():
        with Wire(at.port(), timeout=60) as wire:
            began = time.monotonic()
            reply = wire.ask("EVAL", text, 0)
            took = time.monotonic() - began
            assert took < LONGEST_S, f"{name}: {took:.1f} s"
            answered += not isinstance(reply, Refused)
            if isinstance(reply, Refused):
                assert "\r" not in str(reply) and len(str(reply)) > 6, (name, str(reply))
            assert wire.ask("PING") == b"PONG", name
            count = wire.ask("EVAL", "return #redis.call('KEYS', 'script:*')", 0)
            if count:
                keys = wire.done("KEYS", "script:*")
                for at_key in range(0, len(keys), 10_000):
                    wire.done("DEL", *keys[at_key : at_key + 10_000])
    with Wire(at.port(), timeout=60) as wire:
        for name, text in TEXTS.items():
            library = "#!lua name=long\n" + text
            for words in (("EVAL", text, 0), ("SCRIPT", "LOAD", text), ("FUNCTION", "LOAD", library), ("EVAL", "return loadstring(ARGV[1]) and 1", 0, text)):
                began = time.monotonic()
                wire.ask(*words)
                took = time.monotonic() - began
                assert took < 5, f"{words[0]} of {name}: {took:.1f} s"
    with Wire(at.port()) as wire:
        refused(wire.ask("EVAL", "return 1", -1))
        refused(wire.ask("EVAL", "return 1", 1 << 40))
        refused(wire.ask("EVAL", "return" + "(" * 100_000, 0))
        refused(wire.ask("EVAL", "x=" + "{" * 100_000, 0))
        refused(wire.ask("EVAL", "return " + "not " * 100_000 + "1", 0), "^[A-Z]+ ")
        refused(wire.ask("FUNCTION", "LOAD", "#!lua name=a\nwhile true do end"))
        refused(wire.ask("FUNCTION", "LOAD", "#!lua name=a\nredis.register_function('f', 1)"))
        refused(wire.ask("FUNCTION", "RESTORE", b"\xff" * 1000))
        for n in range(300):
            wire.done("EVAL", f"return {n}", 0)
            wire.done("SCRIPT", "LOAD", f"return {n} -- {'x' * 10000}")
        wire.done("SCRIPT", "FLUSH")
    return f"{len(SCRIPTS)} scripts, {answered} of which got an answer that is no error"


PAGE = '(memory (export "memory") 1)'
MODULES = {
    "loops": f'(module {PAGE} (func (export "procedure:run") (loop $l br $l)))',
    "traps": f'(module {PAGE} (func (export "procedure:run") unreachable))',
    "divides": f'(module {PAGE} (func (export "procedure:run") (drop (i32.div_s (i32.const 1) (i32.const 0)))))',
    "recurses": f'(module {PAGE} (func $f (export "procedure:run") call $f))',
    "looks for long keys": '(module (import "highwater1" "key_get" (func $f (param i32 i32 i32 i32) (result i32))) (memory (export "memory") 2) '
    '(func (export "procedure:run") (loop $l (drop (call $f (i32.const 0) (i32.const 65000) (i32.const 0) (i32.const 0))) br $l)))',
    "names a table too long": '(module (import "highwater1" "table" (func $f (param i32 i32) (result i32))) (memory (export "memory") 2) '
    '(func (export "procedure:run") (drop (call $f (i32.const 0) (i32.const 65537)))))',
    "grows": f'(module {PAGE} (func (export "procedure:run") (loop $l (drop (memory.grow (i32.const 100))) br $l)))',
    "reads beyond": f'(module {PAGE} (func (export "procedure:run") (drop (i32.load (i32.const -4)))))',
    "starts and loops": f'(module {PAGE} (func $s (loop $l br $l)) (start $s) (func (export "procedure:run")))',
    "large": '(module (memory (export "memory") 65536) (func (export "procedure:run")))',
    "wide": f'(module {PAGE} (table 100000000 funcref) (func (export "procedure:run")))',
    "misses": f'(module (import "env" "system" (func $f)) {PAGE} (func (export "procedure:run") call $f))',
    "misses of ours": f'(module (import "highwater1" "nothing_of_the_kind" (func $f)) {PAGE} (func (export "procedure:run") call $f))',
    "lies about a type": f'(module (import "highwater1" "get" (func $f)) {PAGE} (func (export "procedure:run") call $f))',
    "wants time": f'(module (import "wasi_snapshot_preview1" "clock_time_get" (func $f (param i32 i64 i32) (result i32))) {PAGE} (func (export "procedure:run")))',
    "has no memory": '(module (func (export "procedure:run")))',
    "has nothing": "(module)",
    "takes words": f'(module {PAGE} (func (export "procedure:run") (param i32) (result f64) (f64.const 1)))',
    "is no module": "(((",
    "threads": '(module (memory (export "memory") 1 1 shared) (func (export "procedure:run")))',
}


def modules(at):
    loaded = 0
    with Wire(at.port(), timeout=60) as wire:
        first = wire.ask("HW.MODULE", "LIST")
        if isinstance(first, Refused):
            return f"there are none in this build: {first}"
        for name, text in MODULES.items():
            reply = wire.ask("HW.MODULE", "LOAD", "odd", text, "REPLACE")
            if isinstance(reply, Refused):
                refused(reply)
                continue
            loaded += 1
            for call in ("HW.CALL", "HW.CALL_RO"):
                began = time.monotonic()
                reply = wire.ask(call, "odd.run", "word")
                assert time.monotonic() - began < LONGEST_S, name
                if isinstance(reply, Refused):
                    refused(reply)
            assert wire.ask("PING") == b"PONG", name
        refused(wire.ask("HW.MODULE", "LOAD", "odd", b"\0asm\1\0\0\0" + b"\xff" * 10_000, "REPLACE"))
        refused(wire.ask("HW.MODULE", "LOAD", "odd", b"(module " + b"(" * 1_000_000, "REPLACE"))
        refused(wire.ask("HW.MODULE", "LOAD", "x" * 70_000, "(module)"))
        refused(wire.ask("HW.CALL", "odd.nothing"))
        refused(wire.ask("HW.CALL", "." * 1000))
        wire.ask("HW.MODULE", "UNLOAD", "odd")
    return f"{loaded} of {len(MODULES)} were loaded"


def crowd(nodes, keys, then):
    """A table of numbers that are spread in a table of half as many nodes, and meet in one chain of one with so many."""
    return (
        f"local M = {nodes} - 1 local C = math.floor(2^32 / M) local t = {{}} for i = 0, {keys} - 1 do local c, a = i % C, math.floor(i / C) "
        f"t[2^52 + a * 2^32 + (c * M - 0x43300000 - a) % 2^32] = 1 end {then}"
    )


# A table in which every moved item finds no room.
CRAMPED = (
    "local t = {1, 1, 1, 1} local n, k = 0, 5 while k <= 2^20 do k = k * 2 n = n + 1 end for i = 1, 2^17 - 1 - n do t['x' .. i] = 1 end "
    "k = 5 while k <= 2^20 do t[k] = 1 k = k * 2 end "
)


def scripts_that_take_their_time(at):
    """What is one slow instruction after another runs into its bound of time; its leader leads on, in the same epoch."""
    # Comparisons of strings that are there already, and concatenations: nothing counts them.
    blanks = "local s = string.rep(' ', 2e7) .. '1' local t = {} for i = 1, 7000 do t[i] = s end "
    slow = [
        # One function of C, called once: weighed before it runs, or it looks as it goes.
        blanks + "return math.max(unpack(t))",
        blanks + "return string.char(unpack(t))",
        blanks + "return bit.band(unpack(t))",
        blanks + "return redis.call('MSET', unpack(t))",
        blanks + "table.sort(t, math.fmod)",
        "local s, t = string.rep('\\0', 1e6), {} for i = 1, 1000 do t[i] = s end while true do table.sort(t) end",
        "local f = table.foreach local t = {} for i = 1, 1e4 do t[i] = 1 end local u = {} for i = 1, 1e4 do u[i] = {t} end "
        "f(u, function(_, v) f(v, f) f(v, function(_, w) f(w, tonumber) end) end) while true do end",
        "local t = {1, 1, 1, 1} for i = 1, 33 do t['x' .. i] = 1 end local k = 5 while k <= 2^28 do t[k] = 1 k = k * 2 end table.remove(t, 1)",
        # The compiler has no instructions, and reads a line's end as it likes.
        "--\rlocal x return " + "x and " * 170_000 + "x",
        "local s = '\\\r\n' local x return " + "x or " * 170_000 + "x",
        "do " * 120_000 + "a " * 180_000,
        "local a, b = string.rep('x', 1e7), string.rep('x', 1e7 - 1) .. 'x' while true do if a < b then return 1 end end",
        "local a = string.rep('x', 5e6) while true do local b = a .. a if #b == 1 then return 1 end end",
        "local n = 0 while true do n = n + 1 end",
        # One instruction, or one call, of which each step is slow.
        crowd("2^17", "2^16 + 1", "return 1"),
        crowd("2^19", "2^18 + 1", "return 1"),
        crowd("2^19", "40000", "for i = 1, 100 do table.maxn(t) end while true do end"),
        crowd("2^19", "40000", "while true do pcall(cjson.encode, t) end"),
        crowd("2^19", "40000", "while true do cmsgpack.pack(t) end"),
        CRAMPED + "table.remove(t, #t - 600000) while true do end",
        CRAMPED + "table.insert(t, #t - 600000, 1) while true do end",
        # Much of little.
        "return #(('a'):rep(1e6):gsub('.+', ('%0'):rep(200000)))",
    ]
    leader, took = at.leader(), []
    with Wire(at.port(), timeout=60) as wire:
        epoch = [line for line in wire.done("INFO", "replication").decode().splitlines() if line.startswith("epoch")]
        assert epoch
        for script in slow:
            began = time.monotonic()
            assert isinstance(wire.ask("EVAL", script, 0), Refused), script
            took.append(time.monotonic() - began)
        assert [line for line in wire.done("INFO", "replication").decode().splitlines() if line.startswith("epoch")] == epoch
        assert wire.done("ROLE")[0] == b"master"
    assert at.leader() == leader
    return ", ".join(f"{seconds:.1f} s" for seconds in took)


def scripts_in_a_row(at):
    """Scripts of a quarter of a second each, many pipelined on each of several connections: nobody waits for all of them, and the lead stays."""
    script, leader = "for i = 1, 3.5e7 do end return 1", at.leader()
    with contextlib.ExitStack() as stack:
        wires = [stack.enter_context(Wire(at.port(), timeout=300)) for _ in range(6)]
        alone = time.monotonic()
        wires[0].done("EVAL", script, 0)
        alone = time.monotonic() - alone
        for wire in wires:
            wire.send(command("EVAL", script, 0) * 20)
        began, first = time.monotonic(), None
        for wire in wires:
            for _ in range(20):
                reply = wire.read()
                assert reply == 1, reply
                first = first or time.monotonic() - began
        every = time.monotonic() - began
        # Half a second, and what a look and a reply take: far from all of them.
        assert first < max(every / 3, 6 * alone), f"the first reply came after {first:.1f} s of {every:.1f} s"
        assert wires[0].done("ROLE")[0] == b"master"
    assert at.leader() == leader
    return f"the first of 120 after {first:.1f} s, all after {every:.1f} s"
