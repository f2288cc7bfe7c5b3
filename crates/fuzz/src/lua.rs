//! Calls that scripts make.

use std::cell::RefCell;
use std::sync::Arc;

use highwater_core::{Abort, Clock, Library, Registry, Schema};
use highwater_node::clock::{monotonic, thread_cpu_ms};
use highwater_redis::Product;
use highwater_redis::command::Opcode;
use highwater_redis::exec::Exec;
use highwater_redis::moment::Moment;
use highwater_redis::request::Args;
use highwater_redis::scripts::budget::{Clocks, Limits, PATIENCE_MS};
use highwater_redis::scripts::vm;
use highwater_store::{Occ, Store};

/// Calls functions as its `ARGV` says.
const DRIVER: &[u8] = include_bytes!("driver.lua");

thread_local! {
    static FUNCTIONS: RefCell<Vec<Vec<u8>>> = const { RefCell::new(Vec::new()) };
}

/// Runs one command on an empty store; its reply.
fn run(command: &str, words: &[&[u8]]) -> Vec<u8> {
    let opcode = Opcode::find(command.as_bytes()).expect("there is such a command");
    let mut args = Moment { unix_ms: 1 << 40, seed: 1 }.bytes().to_vec();
    args.extend_from_slice(&[0, 0, 1, opcode.byte()]);
    Args::encode(words.iter().copied(), &mut args);
    let mut registry: Registry<Occ> = Registry::new();
    let exec = registry.register::<Exec>();
    let mut occ = Occ::new(Store::new(Schema::new(Product.tables())), Arc::new(Clock::counter()));
    occ.begin();
    let mut reply = Vec::new();
    match registry.run(exec, &mut occ, &args, &mut reply) {
        Ok(()) => drop(occ.commit()),
        Err(Abort::Conflict) => unreachable!("nobody else is here"),
        Err(_) => drop(occ.commit_rollback()),
    }
    reply
}

/// Calls of every function that a script can reach, with values at the edges: they answer or fail, the process and the machine go on as
/// before.
pub fn calls(bytes: &[u8]) -> bool {
    highwater_redis::scripts::budget::limit(Limits {
        instructions: 3_000_000,
        memory_bytes: 16 << 20,
        clock: None,
    });
    let functions = FUNCTIONS.with_borrow_mut(|functions| {
        if functions.is_empty() {
            *functions = vm::with(|vm| vm.functions()).into_iter().map(String::into_bytes).collect();
        }
        functions.clone()
    });
    let words: Vec<&[u8]> =
        [DRIVER, b"0", bytes].into_iter().chain(functions.iter().map(Vec::as_slice)).collect();
    let reply = run("eval", &words);
    assert!(reply.ends_with(b"\r\n"), "a reply of {} bytes has no end", reply.len());
    let after = run("eval", &[b"return {type(string.rep), #KEYS, ('x'):rep(2), tostring(1e15)}", b"0"]);
    let expected = b"*4\r\n$8\r\nfunction\r\n:0\r\n$2\r\nxx\r\n$5\r\n1e+15\r\n";
    assert_eq!(after, expected, "the machine is not as it was: {}", String::from_utf8_lossy(&after));
    reply.first() == Some(&b':')
}

/// Scripts that are expensive in every way that a grammar knows: none holds its thread for much longer than the bound.
pub fn costly(bytes: &[u8]) -> bool {
    let text = Grammar { bytes, at: 0 }.script();
    // Our own part is compiled without optimisation in tests.
    let (instructions, memory_mib) = if cfg!(debug_assertions) { (2_000_000, 8) } else { (40_000_000, 64) };
    let clock = Clocks { wall: || monotonic() / 1_000_000, cpu: thread_cpu_ms };
    highwater_redis::scripts::budget::limit(Limits {
        instructions,
        memory_bytes: memory_mib << 20,
        clock: Some(clock),
    });
    let before = thread_cpu_ms();
    let reply = run("eval", &[text.as_bytes(), b"0"]);
    let took_ms = thread_cpu_ms() - before;
    let shown = || text.chars().take(600).collect::<String>();
    assert!(took_ms * 10 <= PATIENCE_MS * 12, "{took_ms} ms of CPU: {}", shown());
    let shown_from = std::env::var("FUZZ_SHOW_MS").ok().and_then(|least| least.parse().ok());
    if shown_from.is_some_and(|least: u64| took_ms >= least) {
        eprintln!(
            "{took_ms} ms: {}: {}",
            String::from_utf8_lossy(&reply[..reply.len().min(60)]).trim_end(),
            shown()
        );
    }
    !reply.is_empty()
}

/// Chooses by bytes.
struct Grammar<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl Grammar<'_> {
    fn take(&mut self) -> usize {
        self.at += 1;
        // A short input goes on as something.
        self.bytes.get(self.at - 1).map_or(self.at * 7, |byte| usize::from(*byte))
    }

    fn one<'b>(&mut self, of: &[&'b str]) -> &'b str {
        of[self.take() % of.len()]
    }

    fn script(&mut self) -> String {
        match self.take() {
            kind if kind.is_multiple_of(4) => self.long_text(),
            // Few, so that inputs from before this form mean what they did.
            kind if kind % 16 == 15 => self.references(),
            _ => self.loops(),
        }
    }

    /// One long text that a table holds many times: it takes the memory of one, and the time of many.
    fn references(&mut self) -> String {
        let text = self.one(&["x", "\\0", "1", "\\255", "%", "a\\n"]);
        let size = [100, 8000, 60_000, 250_000, 1 << 20, 4 << 20][self.take() % 6];
        let size = if cfg!(debug_assertions) { size / 8 } else { size };
        // No more than this come out of `unpack`.
        let count = [2, 30, 250, 1000, 4000, 7900][self.take() % 6];
        let operation = self.one(&[
            "x = table.concat(t)",
            "x = table.concat(t, a)",
            "x = table.concat(t, a, 2, 5)",
            "x = {unpack(t)}",
            "x = select('#', unpack(t))",
            "x = select(-1, unpack(t))",
            "x = string.char(unpack(t))",
            "x = ('%s'):rep(#t):format(unpack(t))",
            "x = ('%q'):rep(#t):format(unpack(t))",
            "x = ('%.3s'):rep(#t):format(unpack(t))",
            "x = ('%5.1f'):rep(90):format(unpack(t))",
            "x = string.format(unpack(t))",
            "x = math.max(unpack(t))",
            "x = math.min(unpack(t))",
            "x = bit.band(unpack(t))",
            "x = bit.bxor(unpack(t))",
            "table.sort(t)",
            "table.sort(t, function(l, r) return l < r end)",
            "table.sort(t, function(l, r) return l .. 'x' < r end)",
            "table.sort(t, rawequal)",
            "table.foreach(t, string.len)",
            "table.foreachi(t, string.upper)",
            "table.insert(t, 1, a)",
            "x = cmsgpack.pack(t)",
            "x = cmsgpack.pack(unpack(t))",
            "x = cmsgpack.unpack(cmsgpack.pack(t))",
            "x = cjson.encode(t)",
            "x = cjson.encode({t, t, t})",
            "x = cjson.decode(cjson.encode(t))",
            "x = struct.pack(('s'):rep(#t), unpack(t))",
            "x = struct.pack(('c0'):rep(#t), unpack(t))",
            "x = struct.pack(('i4'):rep(#t), unpack(t))",
            "x = redis.call('DEL', unpack(t))",
            "x = redis.call('MGET', unpack(t))",
            "x = redis.call('MSET', unpack(t))",
            "x = redis.call('SADD', 's', unpack(t))",
            "x = redis.call('RPUSH', 'l', unpack(t))",
            "x = redis.call('LRANGE', 'l', 0, -1)",
            "x = redis.call('HSET', 'h', unpack(t))",
            "x = redis.call('ZADD', 'z', unpack(t))",
            "x = redis.call(unpack(t))",
            "x = redis.pcall('ECHO', unpack(t))",
            "x = redis.log(redis.LOG_WARNING, unpack(t))",
            "x = redis.sha1hex(a)",
            "for i, v in ipairs(t) do x = redis.sha1hex(v) end",
            "for i, v in ipairs(t) do x = v .. i end",
            "for i, v in ipairs(t) do x = tonumber(v) end",
            "for i, v in ipairs(t) do x = v == a and v < a end",
            "for i, v in ipairs(t) do x = loadstring(v) end",
            "x = coroutine.wrap(function(...) return ... end)(unpack(t))",
            "x = {} for i, v in ipairs(t) do x[v] = i end",
            "x = pcall(error, t)",
            "x = loadstring(table.concat(t, ' '))",
            "x = load(function() k = k + 1 return t[k] end)",
            "x = setmetatable({}, {__index = t})[1]",
            "x = t",
            "x = {t, t, t, t, t, t, t, t}",
        ]);
        let begins = format!(
            "local a, t, k, x = string.rep('{text}', {size}), {{}}, 1\nfor i = 1, {count} do t[i] = a end\n"
        );
        match self.take() % 4 {
            0 => format!("{begins}{operation} return x"),
            1 => format!("{begins}{operation} t[#t + 1] = 'y' {operation} return t"),
            2 => format!("{begins}while true do pcall(function() {operation} end) end"),
            _ => format!("{begins}while true do {operation} end"),
        }
    }

    /// A value that is long, of about so many bytes as the memory takes some of.
    fn long(&mut self) -> String {
        let size = [10, 1000, 40_000, 500_000, 1_500_000, 3_000_000, 9_000_000, 25_000_000][self.take() % 8];
        let size = if cfg!(debug_assertions) { size / 8 + 1 } else { size };
        let text =
            self.one(&["x", "\\0", "ab", "1", " ", "%", "(", "[", "a\\n", "\\255", "\"", "\\145", "9"]);
        let count = size / 40 + 1;
        match self.take() % 16 {
            0..6 => format!("string.rep('{text}', {size})"),
            6 => format!("numbers({count})"),
            7 => format!("words({count})"),
            8 => format!("removed({count})"),
            9 => format!("keyed({count})"),
            10 => format!("shared({})", self.take() % 30),
            // Much that takes little room: many references to one text.
            11..15 => format!("copies({}, '{text}', {size})", [2, 50, 250, 1000, 7000][self.take() % 5]),
            _ => format!("colliding({})", count.min(30_000)),
        }
    }

    fn pattern(&mut self) -> String {
        let long = self.take() * 40;
        match self.take() % 10 {
            0 => "''".into(),
            1 => "'.'".into(),
            2 => "'.-'".into(),
            3 => "'.-.-b'".into(),
            4 => "'x*'".into(),
            5 => "'(x)(%1)'".into(),
            6 => "'%b()'".into(),
            7 => format!("'[' .. string.rep('b', {long}) .. 'x]*'"),
            8 => format!("'[^' .. string.rep('%d', {long}) .. ']-$'"),
            _ => format!("string.rep('x', {long}) .. 'y'"),
        }
    }

    /// Something that takes `a`, `b` or both.
    fn operation(&mut self) -> String {
        let pattern = self.pattern();
        let known = [
            "x = a .. b",
            "x = a .. 'y'",
            "x = a < b",
            "x = a <= b",
            "x = a == b",
            "x = #a",
            "x = a + 1",
            "x = 0.1 .. ''",
            "x = a[1]",
            "a[k] = k k = k + 1",
            "a[#a + 1] = 1",
            "a.y = nil a.x = 1 a.x = nil a.y = 1",
            "x = next(a)",
            "x = next(a, nil)",
            "for n, v in pairs(a) do x = v end",
            "for n, v in ipairs(a) do x = v end",
            "x = {unpack(a, 1, 7000)}",
            "x = select('#', unpack(a, 1, 7000))",
            "x = tostring(a)",
            "x = tonumber(a)",
            "x = tonumber(a, 36)",
            "x = table.concat(a)",
            "x = table.concat(a, b)",
            "table.insert(a, 1, 1)",
            "table.insert(a, -1e9, 1)",
            "table.insert(a, 1e9, 1)",
            "table.remove(a, 1)",
            "table.sort(a)",
            "table.sort(a, function(l, r) return l < r end)",
            "table.sort(a, rawequal)",
            "x = table.maxn(a)",
            "table.foreach(a, type)",
            "table.foreachi(a, type)",
            "x = table.getn(a)",
            "x = a:upper()",
            "x = a:lower()",
            "x = a:reverse()",
            "x = a:len()",
            "x = a:sub(2)",
            "x = a:sub(k, -k) k = k + 1",
            "x = a:byte(1, 7000)",
            "x = a:rep(2)",
            "x = a:rep(1e6)",
            "x = a:find(b, 1, true)",
            "x = a:find('y', 1, true)",
            "x = ('%s%s'):format(a, b)",
            "x = ('%q'):format(a)",
            "x = ('%5.1f'):rep(90):format(unpack(a, 1, 90))",
            "x = string.format(a, 1, 2, 3)",
            "x = string.dump(loadstring('return 1'))",
            "x = loadstring(a)",
            "x = loadstring('return ' .. string.rep('x and ', 150000) .. 'x')",
            "x = loadstring('x', a)",
            "x = load(function() return a end)",
            "x = cjson.encode(a)",
            "x = cjson.decode(a)",
            "x = cjson.decode(cjson.encode(a))",
            "cjson.encode_sparse_array(true, 0) x = cjson.encode({[1e9] = 1})",
            "x = cmsgpack.pack(a)",
            "x = cmsgpack.unpack(a)",
            "x = cmsgpack.unpack(cmsgpack.pack(a))",
            "x = struct.pack('s', a)",
            "x = struct.pack(a)",
            "x = struct.unpack(a, b)",
            "x = struct.size(a)",
            "x = struct.unpack('s', a)",
            "x = redis.sha1hex(a)",
            "x = redis.call('ECHO', a)",
            "x = redis.call('SET', 'k', a)",
            "x = redis.call('GET', 'k')",
            "x = redis.call('RPUSH', 'l', unpack(a, 1, 7000))",
            "x = redis.call('LRANGE', 'l', 0, -1)",
            "x = redis.pcall('nosuch', a)",
            "x = pcall(error, a)",
            "x = pcall(error, a, 2)",
            "x = redis.error_reply(a)",
            "x = redis.log(redis.LOG_WARNING, a)",
            "x = coroutine.wrap(function() return a .. b end)()",
            "x = coroutine.wrap(function(...) return ... end)(unpack(a, 1, 7000))",
            "x = math.fmod(1e308, 3e-308)",
            "x = math.sin(1e308)",
            "x = {}",
            "x = function() return a end",
            "x = setmetatable({}, {__index = a}).x",
            "x = grow(40, 1)",
            "x = rawequal(a, b)",
            "x = bit.tohex(k)",
            "x = os.clock()",
            "x = a:gmatch('.')()",
            "x = assert(a, b)",
            "x = type(a)",
            "x = getmetatable(a)",
            "x = rawget(a, 1)",
            "x = rawset(a, 1, 1)",
        ];
        match self.take() % 13 {
            0 => format!("x = a:find({pattern})"),
            1 => format!("x = a:gsub({pattern}, b)"),
            2 => format!("x = a:gsub({pattern}, '%0%0')"),
            3 => format!("x = a:gsub({pattern}, function(m) return m end)"),
            4 => format!("for m in a:gmatch({pattern}) do x = m end"),
            5 => format!("x = {}(unpack(a, 1, 7000))", self.one(&CALLED)),
            6 => format!("x = {}(b, unpack(a, 1, 7000))", self.one(&CALLED)),
            7 => format!("x = {}(a, b)", self.one(&CALLED)),
            _ => known[(self.take() * 256 + self.take()) % known.len()].to_string(),
        }
    }

    fn loops(&mut self) -> String {
        let mut text = String::from(HELPERS);
        let (a, b) = (self.long(), self.long());
        text.push_str(&format!("local a, b, k, x = {a}, {b}, 1\n"));
        let count = 1 + self.take() % 3;
        let operations: Vec<String> = (0..count).map(|_| self.operation()).collect();
        let body = if self.take().is_multiple_of(3) {
            operations.join("\n")
        } else {
            operations
                .iter()
                .map(|each| format!("pcall(function() {each} end)"))
                .collect::<Vec<_>>()
                .join("\n")
        };
        match self.take() % 4 {
            0 => text.push_str(&format!("{body}\nreturn x")),
            1 => text.push_str(&format!("for i = 1, {} do {body} end return x", self.take() * 10)),
            2 => text.push_str(&format!("while true do a = x or a {body} end")),
            _ => text.push_str(&format!("while true do {body} end")),
        }
        text
    }

    /// A text of up to 1 MiB, of some piece again and again.
    fn long_text(&mut self) -> String {
        let piece = self.one(&[
            "x and ",
            "x or ",
            "x == x and ",
            "not x or ",
            "x .. ",
            "x + ",
            "x ^ ",
            "- ",
            "not ",
            "# ",
            "(",
            "{",
            "{}, ",
            "x, ",
            "1.5, ",
            "function() return ",
            "x(",
            "x[",
            "x.x",
            "'a', ",
            "[[a]], ",
            "f{} ",
            "f'' ",
            "if x then ",
            "if x then elseif x then end ",
            "elseif x then ",
            "if x then break end ",
            "while x do ",
            "repeat ",
            "do ",
            "for i = 1, 2 do ",
            "for k in x do ",
            "local x = x ",
            "local function f() ",
            "function f() ",
            "x = x ",
            "x = function() return x end ",
            "x = {x = x, [x] = x} ",
            "x, x, x = x, x ",
            "return ",
            "-- \n",
            "--[[ ]] ",
            "]==",
            "[==",
            "\\\\",
            "\n",
            ";",
            "goto ",
            "0x",
            "1e",
            "9",
            "..",
            "...",
            "local a,b,c,d,e,f,g,h,i,j,k,l,m,n,o,p,q,r,s,t,u,v,w,x,y,z ",
            "do local a,b,c,d = x end ",
            "if x and x or x then x = x and x or x end ",
        ]);
        let (before, between, after) = [
            ("local x return ", "", "x"),
            ("local x return {", "", "}"),
            ("local x ", "", ""),
            ("local x if x then ", "", " end"),
            ("local x while x do ", "", " end"),
            ("local x = ", "", "1"),
            ("return [==[", "", "]==]"),
            ("--[==[", "", "]==]"),
            ("return '", "", "'"),
            ("return ", " ", "1"),
            ("local function f(...) return ", "", "1 end"),
        ][self.take() % 11];
        let most = (1 << 20) - 40_000;
        let size = [100, 250, 5000, 60_000, 400_000, most][self.take() % 6];
        let mut text = String::new();
        // Functions inside each other, full of variables.
        let depth = [0, 0, 0, 1, 50, 150, 190][self.take() % 7];
        for _ in 0..depth {
            text.push_str("local a,b,c,d,e,f,g,h,i,j,k,l,m,n,o,p,q,r,s,t,u,v,w,y,z local function f() ");
        }
        text.push_str(before);
        while text.len() < size {
            text.push_str(piece);
            text.push_str(between);
        }
        text.push_str(after);
        text.push_str(&" end".repeat(depth));
        text
    }
}

/// Functions that take as many values as there are.
const CALLED: [&str; 34] = [
    "string.char",
    "string.format",
    "('%s'):rep(199):format",
    "('%d'):rep(199):format",
    "('%q'):rep(99):format",
    "string.rep",
    "string.byte",
    "string.find",
    "math.max",
    "math.min",
    "math.fmod",
    "bit.band",
    "bit.bor",
    "bit.bxor",
    "bit.tohex",
    "table.concat",
    "table.sort",
    "table.insert",
    "table.foreach",
    "table.foreachi",
    "cmsgpack.pack",
    "cmsgpack.unpack",
    "cjson.encode",
    "struct.pack",
    "unpack",
    "redis.call",
    "redis.pcall",
    "redis.log",
    "redis.sha1hex",
    "tonumber",
    "select",
    "math.ldexp",
    "pcall",
    "coroutine.wrap(function(...) return coroutine.yield(...) end)",
];

const HELPERS: &str = r#"
local function numbers(n) local t = {} for i = 1, n do t[i] = (i * 7919) % n end return t end
local function words(n) local t = {} for i = 1, n / 4 do t[i] = 'word ' .. (i % 100) end return t end
local function removed(n) local t = {} for i = 1, n do t[i] = i end for i = 1, n - 1 do t[i] = nil end return t end
local function keyed(n) local t = {} for i = 1, n / 3 do t['k' .. i] = i end return t end
local function shared(n) local t = {} for i = 1, n do t = {t, t} end return t end
local function copies(n, text, size) local t, long = {}, string.rep(text, size / #text) for i = 1, n do t[i] = long end return t end
local function colliding(n) local t, x = {}, string.rep('x', 64) for i = 1, n do local s = x for d = 0, 14 do if i % 2 ^ (d + 1) >= 2 ^ d then s = s:sub(1, d * 3) .. 'y' .. s:sub(d * 3 + 2) end end t[i] = s end return t end
local function grow(n, ...) if n == 0 then return select('#', ...) end return grow(n - 1, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, ...) end
"#;
